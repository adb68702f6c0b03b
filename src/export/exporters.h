/* The exporters (export_<name>.c). */
#ifndef DT__EXPORT_EXPORTERS_H
#define DT__EXPORT_EXPORTERS_H

#include "core/core.h"

#include <detent/experimental/export.h>

#define DT__EXPORTER(name) extern const dt_exporter dt__exporter_##name;
#include "export/exporters.inc"
#undef DT__EXPORTER

/* First line of the errors of a format. */
#define DT__CANNOT_EXPRESS "format %s cannot express this model"

/* Checks that the format can express every call. Errors: UNSUPPORTED, listing all that it cannot;
 * NOMEM. */
dt_status dt__check_calls(const dt_exporter *e, const dt_trace *t, const dt_export_options *o);

/* Number of elements of the weights and constants that a call reads: the work of writing the
 * call. */
double dt__elements_of_call(const dt_trace *t, const dt_trace_call *c);
/* Reports elements as written, for progress (core.h). */
void dt__did_convert(dt_ctx *ctx, double elements);

/* Writes a model (float, prepared or converted) as a file of detent; `grouped` is DT_GROUPED_...
 * ARG if the options request another dtype or dequantization. */
dt_status dt__export_own(const dt_export_call *e, int grouped);

#endif
