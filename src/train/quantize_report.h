/* What became of weights that are quantized without training: a list that grows weight by weight,
 * as JSON, and back. */
#ifndef DT__TRAIN_QUANTIZE_REPORT_H
#define DT__TRAIN_QUANTIZE_REPORT_H

#include "core/json.h"

#include <detent/io.h>
#include <detent/train.h>

/* Adds a weight, with strings of the list's own. */
dt_status dt__report_append(dt_quantize_summary *s, const dt_quantized_weight *w);
/* Adds a weight of m, which is packed by now. Its strings are the list's. */
dt_status dt__report_add(dt_quantize_summary *s, dt_module *m, const char *path,
                         const dt_round_report *report);
/* Computes s->total. */
void dt__report_total(dt_quantize_summary *s);
/* The weights as JSON: [ {...}, ... ], one a line if `lines`. */
void dt__report_put(dt__chars *t, const dt_quantize_summary *s, bool lines);

/* Metadata of a partial result: what it was begun from, and the weights that are done. */
#define DT__KEY_PARTIAL "detent.partial"
#define DT__KEY_REPORT "detent.report"
/* Reads the weights of a partial result, behind those that are there. FORMAT, NOMEM. */
dt_status dt__report_of_file(const dt_file *file, dt_quantize_summary *s);
/* The object or list of a key that must be there; *strings as dt__meta_scan has it. FORMAT,
 * NOMEM. */
dt_status dt__partial_scan(const dt_file *file, const char *key, dt__json *j, char **strings);

#endif
