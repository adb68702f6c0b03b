/* The codes of a quantized weight as rows, for exporters. */
#ifndef DT__EXPORT_WEIGHT_ROWS_H
#define DT__EXPORT_WEIGHT_ROWS_H

#include "core/core.h"
#include "core/text/small_float.h"

#include <detent/experimental/export.h>

typedef struct dt__weight_rows {
    dt_code_rows rows; /* owned */
    int bits;
    int64_t n, columns, group, groups; /* n rows; `groups` groups of `group` columns in a row */
    int64_t experts;                   /* of a grouped weight; 0: none */
    bool integer;                      /* an integer product can multiply them */
    const dt__small_float *real;       /* what codes are; NULL: integers */
} dt__weight_rows;

/* Codes of the weight `x` of operand `o`: packed, a FakeQuantTensor, or dense and quantized here by
 * the operand's spec. The caller frees *out, also after an error. */
dt_status dt__weight_rows_of(dt_ctx *ctx, dt_tensor *x, const dt_trace_operand *o,
                             dt__weight_rows *out);
void dt__weight_rows_free(dt_ctx *ctx, dt__weight_rows *r);

#endif
