/* The exporters (export_<name>.c). */
#ifndef DT__EXPORT_EXPORTERS_H
#define DT__EXPORT_EXPORTERS_H

#include "core/core.h"

#include <detent/experimental/export.h>

#define DT__EXPORTER(name) extern const dt_exporter dt__exporter_##name;
#include "export/exporters.inc"
#undef DT__EXPORTER

/* Head of the refusals of a format. */
#define DT__CANNOT_EXPRESS "format %s cannot express this model"

/* Whether the format expresses every call. Errors: UNSUPPORTED, with all that it lacks; NOMEM. */
dt_status dt__check_calls(const dt_exporter *e, const dt_trace *t, const dt_export_options *o);

/* Elements of the weights and constants that a call reads: the work of writing it. */
double dt__elements_of_call(const dt_trace *t, const dt_trace_call *c);
/* So many are written: planned work (core.h). */
void dt__did_convert(dt_ctx *ctx, double elements);

/* Writes a model as a file of detent, float, prepared or converted as it is; `grouped` is
 * DT_GROUPED_... ARG if the options ask for another dtype or for dequantization. */
dt_status dt__export_own(const dt_export_call *e, int grouped);

#endif
