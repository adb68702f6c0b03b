/* The report of post-training quantization: a list that grows weight by weight, written as JSON and
 * read back. */
#ifndef DT__TRAIN_QUANTIZE_REPORT_H
#define DT__TRAIN_QUANTIZE_REPORT_H

#include "core/text/json.h"

#include <detent/experimental/io.h>
#include <detent/experimental/train.h>

/* Adds a weight; the list copies its strings. */
dt_status dt__report_append(dt_quantize_summary *s, const dt_quantized_weight *w);
/* Adds a packed weight of m; the list copies its strings. */
dt_status dt__report_add(dt_quantize_summary *s, dt_module *m, const char *path,
                         const dt_round_report *report);
/* Computes s->total. */
void dt__report_total(dt_quantize_summary *s);
/* The weights as JSON: [ {...}, ... ], one per line if `lines`. */
void dt__report_put(dt__chars *t, const dt_quantize_summary *s, bool lines);

/* Metadata keys of a partial result: its origin, and the reports of finished weights. */
#define DT__KEY_PARTIAL "detent.partial"
#define DT__KEY_REPORT "detent.report"
/* Appends the reports of a partial result. FORMAT, NOMEM. */
dt_status dt__report_of_file(const dt_file *file, dt_quantize_summary *s);
/* The object or list of a required key; *strings as of dt__meta_scan. FORMAT, NOMEM. */
dt_status dt__partial_scan(const dt_file *file, const char *key, dt__json *j, char **strings);

#endif
