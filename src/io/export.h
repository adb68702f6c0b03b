/* The exporters (src/io/export_<name>.c). */
#ifndef DT__IO_EXPORT_H
#define DT__IO_EXPORT_H

#include <detent/io.h>

#define DT__EXPORTER(name) extern const dt_exporter dt__exporter_##name;
#include "io/exporters.inc"
#undef DT__EXPORTER

/* Writes a model as a file of detent, float, prepared or converted as it is. */
typedef struct dt__own_export {
    dt_module *m;
    const dt_model_info *info;
    const dt_hf_options *options;
    int grouped; /* DT_GROUPED_... */
} dt__own_export;

/* ARG if the options ask for another dtype or for dequantization. */
dt_status dt__export_own(const dt__own_export *e, const char *path);

#endif
