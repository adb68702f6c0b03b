/* The list of exporters. */
#include "io/export.h"

#include "core/core.h"

#define DT__EXPORTER(name) &dt__exporter_##name,
static const dt_exporter *const exporters[] = {
#include "io/exporters.inc"
};
#undef DT__EXPORTER

const dt_exporter *dt_exporter_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(exporters) ? exporters[i] : NULL;
}

dt_status dt__export_own(const dt__own_export *e, const char *path)
{
    const dt_hf_options *o = e->options;
    if (o != NULL && (o->dtype != DT_HF_AS_READ || o->dequantize)) {
        return dt_fail(dt_module_ctx(e->m), DT_ERR_ARG,
                       "export: a file of detent holds a model as it is; dtype and dequantize are "
                       "of format hf");
    }
    dt_model_info info = *e->info;
    info.grouped = e->grouped;
    return dt_model_save(e->m, &info, path);
}
