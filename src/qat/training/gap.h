/* What lies between a weight and its dequantized values: damping, freezing and gradient estimators
 * are computed from it. */
#ifndef DT__QAT_GAP_H
#define DT__QAT_GAP_H

#include "qat/quantized.h"

/* A FakeQuantTensor as a matrix whose rows are first. */
typedef struct dt__gap {
    dt_ctx *ctx;
    dt__row_map map;
    int64_t rows, columns, group, groups; /* as of its codes */
    int qmin, qmax;
    const dt__levels *levels; /* NULL: codes are all integers of qmin ... qmax */
    const float *w, *value;   /* [rows][columns]: the weight and its dequantized values */
    int8_t *code;             /* [rows][columns] */
    float *scale;             /* [rows][groups] */
    int8_t *zero;
    dt_tensor *made[3]; /* what w and value are read from */
} dt__gap;

/* Opens x, whose codes are `codes`; NULL: those of its present values. Where x is disabled, rows is
 * 0. Errors: NOMEM, NUMERIC, STATE (x was written since), UNSUPPORTED (codes that are not in
 * panels). */
dt_status dt__gap_open(dt_tape *t, dt_tensor *x, dt__codes *codes, dt__gap *out);
void dt__gap_close(dt__gap *g);

/* The distance from a code that is a float to the next one on a side: 0 beyond the last one. */
static inline float dt__gap_real(const dt__small_float *f, uint8_t code, bool above)
{
    const float value = dt__small_value(f, code);
    const bool outwards = value == 0 || (value > 0) == above;
    const uint8_t next = (uint8_t)(outwards ? code + 1 : code - 1);
    return dt__small_has(f, next) ? fabsf(dt__small_value(f, next) - value) : 0;
}

/* The distance from a code to the next one on the side of u, in scales. */
static inline float dt__gap_step(const dt__gap *g, int code, bool above)
{
    int i = 0;
    if (g->levels == NULL) return 1;
    if (g->levels->real != NULL) return dt__gap_real(g->levels->real, (uint8_t)code, above);
    while (g->levels->code[i] != code) i++;
    return (float)(above ? g->levels->code[i + 1] - code : code - g->levels->code[i - 1]);
}

/* u = (w - w^) / s of an element, s the distance to the next level, in -1/2 ... 1/2 but for
 * rounding; 0 where w is beyond the last level. */
static inline float dt__gap_at(const dt__gap *g, int64_t row, int64_t column)
{
    const int64_t i = row * g->columns + column;
    const float d = g->w[i] - g->value[i];
    const float u = d / g->scale[row * g->groups + column / g->group];
    const bool real = g->levels != NULL && g->levels->real != NULL;
    const bool outside =
        !real && ((g->code[i] == g->qmin && u < 0) || (g->code[i] == g->qmax && u > 0));
    const float step = d == 0 || outside ? 0 : dt__gap_step(g, g->code[i], u > 0);
    return step == 0 ? 0 : u / step;
}

/* d, the gradient of the dequantized values of x, becomes that of x by the wrapper's estimator, in
 * place. Errors: NOMEM, STATE. */
dt_status dt__estimate(dt_tape *t, dt_tensor *x, dt_tensor *d, dt__codes *used);

#endif
