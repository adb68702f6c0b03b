/* Learned scales (numerics §4): their initial values, their gradient, keeping them positive. */
#ifndef DT__QAT_LEARNED_H
#define DT__QAT_LEARNED_H

#include "qat/quantized.h"
#include "qat/quantizer.h"

/* Consecutive blocks of n elements; each has one scale. */
typedef struct dt__learning {
    const dt_quant_spec *quant;
    int64_t blocks, n;
    const float *scale;
    const float *x;         /* the values; NULL: `residual` is used */
    const int8_t *residual; /* their residuals, from the kernel `residual` */
    float *d;               /* in: gradient of the dequantized values; out: of the values */
    float *ds;              /* out: gradient of the scales */
    /* rows of so many are cut into blocks, the last one may be shorter; 0: n */
    int64_t columns;
} dt__learning;

/* ds = g sum d (in ? rne(v) - v : v < qmin ? qmin : qmax), g = 1 / sqrt(n qmax), then d = d in. The
 * same bits on any number of threads. Errors: NOMEM. */
dt_status dt__learn_scales(dt_ctx *ctx, const dt__learning *l);

/* scale = 2 mean|x| / sqrt(qmax) of every block of a contiguous x whose rows are first, at least
 * eps; `experts` as in its row map. The version of `scale` does not change. Errors: NUMERIC (a
 * value that is not finite), NOMEM; then scale does not change. */
dt_status dt__learned_begin(const dt_tensor *x, const dt_quant_spec *q, dt_tensor *scale,
                            int64_t experts);
/* Initializes the scales of a range from x, whose rows are where `map` says (NULL: first). Errors:
 * NUMERIC, NOMEM, STATE (a frozen model). */
dt_status dt__learned_observe(const dt_tensor *x, const dt__row_map *map,
                              const dt__quantizer *range);

/* Marks the scale of `q`, so that optimizers keep it positive and apply no weight decay. */
void dt__learned_keep_positive(dt_tensor *scale, const dt_quant_spec *q);

/* The pullback of a FakeQuantTensor with a learned scale: turns d, the gradient of the dequantized
 * values, into that of the values, in place, and adds the gradient of the scale. `used` are the
 * codes of the forward pass. Errors: NOMEM, STATE (values or scale were written since). */
dt_status dt__learned_pullback(dt_tape *t, dt_tensor *x, dt_tensor *d, const dt__codes *used);

/* Computes the residuals of a contiguous x with one scale. */
void dt__learned_residual(dt_ctx *ctx, const dt_quant_spec *q, const dt_tensor *x, float scale,
                          int8_t *residual);

#endif
