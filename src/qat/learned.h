/* Scales that are learned (numerics §4): where they begin, their gradient, what keeps them
 * positive. */
#ifndef DT__QAT_LEARNED_H
#define DT__QAT_LEARNED_H

#include "qat/quantized.h"
#include "qat/quantizer.h"

/* Blocks of n elements that lie one after the other, each with a scale of its own. */
typedef struct dt__learning {
    const dt_quant_spec *quant;
    int64_t blocks, n;
    const float *scale;
    const float *x;         /* the values, or NULL: then */
    const int8_t *residual; /* what the kernel `residual` made of them */
    float *d;               /* in: the image's gradient; out: the values' */
    float *ds;              /* the scales' */
} dt__learning;

/* ds = g sum d (in ? rne(v) - v : v < qmin ? qmin : qmax), g = 1 / sqrt(n qmax), then d = d in. The
 * same bits on any number of threads. Errors: NOMEM. */
dt_status dt__learn_scales(dt_ctx *ctx, const dt__learning *l);

/* Code range without an offset: 0 ... 2^bits - 1 of unsigned codes. */
int dt__learned_qmin(const dt_quant_spec *q);
int dt__learned_qmax(const dt_quant_spec *q);

/* scale = 2 mean|x| / sqrt(qmax) of every block of a contiguous x, at least eps. Raises no version.
 * `name` is the tensor's, for messages. Errors: NUMERIC (a value that is not finite), NOMEM; then
 * scale is as before. */
dt_status dt__learned_begin(const dt_tensor *x, const dt_quant_spec *q, dt_tensor *scale,
                            const char *name);
/* The scales of a range that has seen nothing begin with x, rows of which are gathered by `map`
 * (NULL: as they lie). Errors: NUMERIC, NOMEM, STATE (a frozen model). */
dt_status dt__learned_observe(const dt_tensor *x, const dt__row_map *map,
                              const dt__quantizer *range);

/* Makes the optimizer keep scales of `q` positive, and not shrink them. */
void dt__learned_keep_positive(dt_tensor *scale, const dt_quant_spec *q);

/* What the fake_quant kind does with the gradient d of x's image: d becomes that of the values, in
 * place, and the scale's lands on it. `used` are the codes of the forward pass. Errors: NOMEM,
 * STATE (values or scale were written since). */
dt_status dt__learned_pullback(dt_tape *t, dt_tensor *x, dt_tensor *d, const dt__codes *used);

/* Residuals of a contiguous x by one scale. */
void dt__learned_residual(dt_ctx *ctx, const dt_quant_spec *q, const dt_tensor *x, float scale,
                          int8_t *residual);

#endif
