/* Codes of a quantized weight as rows, for exporters. */
#ifndef DT__EXPORT_WEIGHT_ROWS_H
#define DT__EXPORT_WEIGHT_ROWS_H

#include "core/core.h"
#include "core/text/small_float.h"

#include <detent/experimental/export.h>

typedef struct dt__weight_rows {
    dt_code_rows rows; /* owned */
    int bits;
    int64_t n, columns, group, groups; /* n rows; `groups` groups of `group` columns per row */
    int64_t experts;                   /* of a grouped weight; 0: none */
    bool integer;                      /* usable in an integer product */
    const dt__small_float *real;       /* values of the codes; NULL: integers */
} dt__weight_rows;

/* Codes of weight `x`, operand `o`: packed, of a FakeQuantTensor, or dense and quantized here with
 * the operand's spec. The caller frees *out, also after an error. */
dt_status dt__weight_rows_of(dt_ctx *ctx, dt_tensor *x, const dt_trace_operand *o,
                             dt__weight_rows *out);
void dt__weight_rows_free(dt_ctx *ctx, dt__weight_rows *r);

#endif
