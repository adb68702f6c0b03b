/* Exporter experts: a model file of detent with one tensor per expert of a grouped parameter. */
#include "export/exporters.h"

static dt_status write(const dt_export_call *e) { return dt__export_own(e, DT_GROUPED_EXPERTS); }

const dt_exporter dt__exporter_experts = {
    .name = "experts",
    .was = "members",
    .text =
        "a model file of detent with each grouped parameter P of N experts as N tensors, P.0 ... "
        "P.N-1",
    .write = write,
};
