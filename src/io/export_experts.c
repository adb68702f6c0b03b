/* Exporter experts: a model file of detent with one tensor per expert of a grouped parameter. */
#include "io/export.h"

static dt_status write(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                       const char *path)
{
    return dt__export_own(&(dt__own_export){ m, info, options, DT_GROUPED_EXPERTS }, path);
}

const dt_exporter dt__exporter_experts = {
    .name = "experts",
    .was = "members",
    .text =
        "a model file of detent with each grouped parameter P of N experts as N tensors, P.0 ... "
        "P.N-1",
    .write = write,
};
