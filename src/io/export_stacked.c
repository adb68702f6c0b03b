/* Exporter stacked: a model file of detent with one tensor per grouped parameter. */
#include "io/export.h"

static dt_status write(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                       const char *path)
{
    return dt__export_own(&(dt__own_export){ m, info, options, DT_GROUPED_STACKED }, path);
}

const dt_exporter dt__exporter_stacked = {
    .name = "stacked",
    .text = "a model file of detent with each grouped parameter P as one tensor P",
    .write = write,
};
