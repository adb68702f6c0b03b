/* Exporter stacked: a model file of detent with one tensor per grouped parameter. */
#include "export/exporters.h"

static dt_status write(const dt_export_call *e) { return dt__export_own(e, DT_GROUPED_STACKED); }

const dt_exporter dt__exporter_stacked = {
    .name = "stacked",
    .text = "a model file of detent with each grouped parameter P as one tensor P",
    .write = write,
};
