/* A weight beside its dequantized values, for damping, freezing and gradient estimators. */
#ifndef DT__QAT_GAP_H
#define DT__QAT_GAP_H

#include "qat/quantized.h"

/* A FakeQuantTensor as a matrix whose rows are first. */
typedef struct dt__gap {
    dt_ctx *ctx;
    dt__row_map map;
    int64_t rows, columns, group, groups; /* as those of the codes */
    int qmin, qmax;
    const dt__levels *levels; /* NULL: codes are all integers of qmin ... qmax */
    const float *w, *value;   /* [rows][columns]: the weight and its dequantized values */
    int8_t *code;             /* [rows][columns] */
    float *scale;             /* [rows][groups] */
    int8_t *zero;
    dt_tensor *made[3]; /* copies that w and value may point into */
} dt__gap;

/* Opens x with the codes `codes`; NULL: those of its present values. rows is 0 where x is disabled.
 * Errors: NOMEM, NUMERIC, STATE (x was written since), UNSUPPORTED (codes that are not in
 * panels). */
dt_status dt__gap_open(dt_tape *t, dt_tensor *x, dt__codes *codes, dt__gap *out);
void dt__gap_close(dt__gap *g);

/* The distance from a code that is a float to its neighbour above or below: 0 beyond the last
 * one. */
static inline float dt__gap_real(const dt__small_float *f, uint8_t code, bool above)
{
    const float value = dt__small_value(f, code);
    const bool outwards = value == 0 || (value > 0) == above;
    const uint8_t next = (uint8_t)(outwards ? code + 1 : code - 1);
    return dt__small_has(f, next) ? fabsf(dt__small_value(f, next) - value) : 0;
}

/* The distance from a code to its neighbour above or below, in scales. */
static inline float dt__gap_step(const dt__gap *g, int code, bool above)
{
    int i = 0;
    if (g->levels == NULL) return 1;
    if (g->levels->real != NULL) return dt__gap_real(g->levels->real, (uint8_t)code, above);
    while (g->levels->code[i] != code) i++;
    return (float)(above ? g->levels->code[i + 1] - code : code - g->levels->code[i - 1]);
}

/* u = (w - w^) / s of an element, where s is the distance to the next level, in -1/2 ... 1/2 up to
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

/* Turns d, the gradient of the dequantized values of x, into that of x by the wrapper's estimator,
 * in place. Errors: NOMEM, STATE. */
dt_status dt__estimate(dt_tape *t, dt_tensor *x, dt_tensor *d, dt__codes *used);

#endif
