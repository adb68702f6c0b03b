/* Quantized operands in an ONNX graph, and their products (docs/numerics.md, section 2). */
#ifndef DT__EXPORT_ONNX_PUT_QUANT_H
#define DT__EXPORT_ONNX_PUT_QUANT_H

#include "core/text/small_float.h"
#include "export/onnx/onnx_put.h"

#include <detent/experimental/qat.h>

/* ---- activations (onnx_put_quant.c) ---------------------------------------------------------- */

/* How an activation is quantized. */
typedef struct dt__put_scheme {
    const dt_quant_spec *quant;
    const float *scale;       /* of a static or learned range; NULL: dynamic */
    const int8_t *zero_point; /* NULL: 0, or the least code of unsigned codes */
    bool samples;             /* one range per sample: over all but the first dimension */
    int rank;                 /* of the activation */
} dt__put_scheme;

/* A quantized activation as integers in floats: code minus zero point. */
typedef struct dt__put_quantized {
    dt__value v; /* of the activation's shape */
    /* zero point + 128; both are scalars, or have extent 1 in the dimensions of a row */
    dt__value scale, zero_u;
    bool fixed; /* scale and zero point are constants: */
    float s, zu;
} dt__put_quantized;

dt__put_quantized dt__put_quantize(dt__put *p, dt__value x, const dt__put_scheme *q);
/* Its dequantized values. */
dt__value dt__put_dequantize(dt__put *p, const dt__put_quantized *q);

/* An activation in blocks along its last dimension: integers in floats, and a scale for each row of
 * a block. */
typedef struct dt__put_blocks {
    int64_t n;
    dt__value *v, *scale;
} dt__put_blocks;

/* A spec of blocks, and the tensor's scale if it has one. */
typedef struct dt__block_quant {
    const dt_quant_spec *quant;
    float global;
} dt__block_quant;

dt__put_blocks dt__put_quantize_blocks(dt__put *p, dt__value x, const dt__block_quant *of,
                                       int64_t columns);
dt__value dt__put_dequantize_blocks(dt__put *p, const dt__put_blocks *b);

/* ---- weights (onnx_put_weight.c) ------------------------------------------------------------- */

/* A weight as rows of codes: row n, column c of the matrix; group g consists of the columns at
 * positions g * group, ... of `order`. */
typedef struct dt__put_weight {
    const char *name; /* beginning of its constants' names */
    int bits;
    int64_t rows, columns, group, groups;
    int64_t op_groups; /* rows / op_groups rows share each row of `order` */
    const int8_t *codes;
    const float *scale;          /* [rows][groups] */
    const int8_t *zero_point;    /* [rows][groups]; NULL: 0 */
    const int32_t *order;        /* [op_groups][columns]; NULL: ascending */
    const dt__small_float *real; /* values of the codes; NULL: integers */
} dt__put_weight;

/* The column at a position, for a row. */
static inline int64_t dt__put_column(const dt__put_weight *w, int64_t row, int64_t at)
{
    if (w->order == NULL) return at;
    return w->order[row / (w->rows / w->op_groups) * w->columns + at];
}

/* Positions with a common scale that are summed as integers: a group, or 32,768 columns of it. */
typedef struct dt__put_term {
    int64_t group, from, to;
} dt__put_term;

#define DT__PUT_LONGEST 32768 /* positions that one integer sum may have */

int64_t dt__put_terms(const dt__put_weight *w);
dt__put_term dt__put_term_at(const dt__put_weight *w, int64_t i);
/* Whether every sum of codes times numbers up to 255 is below 2^24, so that floats are exact in any
 * order of summation. */
bool dt__put_is_small(const dt__put_weight *w, const dt__put_term *t);

/* The dequantized weight as a matrix [columns, rows] or [rows, columns], computed from codes when
 * the file is loaded. */
dt__value dt__put_matrix(dt__put *p, const dt__put_weight *w, bool columns_first);

/* ---- products (onnx_put_product.c) ----------------------------------------------------------- */

/* How sums of integers become a result. The rows of the weight are the dimension of y that has
 * `behind` dimensions after it. */
typedef struct dt__put_chain {
    const dt__put_weight *w;
    const dt__put_quantized *x; /* NULL: activations in blocks */
    int behind;
    dt__value acc, block_scale; /* block_scale: factor for scales of the next term; or NULL */
} dt__put_chain;

/* acc = fmaf(sum, scale, acc): product and sum in double, then rounded to float. `sum` contains
 * integers of `type`. */
void dt__put_chain_add(dt__put *p, dt__put_chain *c, int64_t term, dt__value sum, int type);
/* A constant with one number per row of the weight. */
dt__value dt__put_per_row(dt__put *p, const dt__put_chain *c, const float *value, int type);

/* The product of a linear layer: x [..., columns], y [..., rows]. */
dt__value dt__put_linear_codes(dt__put *p, const dt__put_quantized *x, const dt__put_weight *w,
                               const float *bias);

/* Its product for activations in blocks, which must be the weight's groups (onnx_put_blocks.c). */
dt__value dt__put_linear_blocks(dt__put *p, const dt__put_blocks *b, const dt__put_weight *w,
                                const float *bias);
/* The codes of a term, [columns of the term, rows]. */
dt__value dt__put_term_codes(dt__put *p, const dt__put_weight *w, const dt__put_term *t);

/* A float product by MatMulNBits (onnx_put_nbits.c), if it supports the weight's groups; `accuracy`
 * is accuracy_level. */
bool dt__put_takes_nbits(const dt__put_weight *w, int64_t accuracy);
dt__value dt__put_nbits(dt__put *p, dt__value x, const dt__put_weight *w, int64_t accuracy);

/* A convolution; n = 1 if one-dimensional. */
typedef struct dt__put_conv {
    int n; /* 1 or 2 spatial dimensions */
    bool transposed;
    int64_t kernel[2], stride[2], padding[2], dilation[2], output_padding[2], groups;
    int64_t channels, size[2]; /* of x */
} dt__put_conv;

dt__value dt__put_conv_codes(dt__put *p, const dt__put_quantized *x, const dt__put_weight *w,
                             const dt__put_conv *c, const float *bias);
/* Convolution of floats: `weight` is in ONNX's order; bias "": none. */
dt__value dt__put_conv_floats(dt__put *p, dt__value x, dt__value weight, dt__value bias,
                              const dt__put_conv *c);
/* Rows [rows, columns] of a weight, reshaped for Conv or ConvTranspose. */
dt__value dt__put_conv_weight(dt__put *p, dt__value matrix, int64_t rows, const dt__put_conv *c);

#endif
