/* Chooses the codes of one column of a block of rows; shared by all rounders:
 *
 *     v = argument * inverse, in f32       q = rne(clamp(v, low, high))        code = q + zero
 *
 * low and high are the least and largest code minus the zero point, narrowed by bounds. rne rounds
 * half to even; some schemes round half up, or to levels (quantize_rows.h). The product of q
 * and the scale, both floats, is exact in double. */
#include "ptq/bounds.h"

#include <string.h>

/* Floats of |v| < 2^22 plus this have no fraction bits left: the sum is rounded half to even. */
#define ROUNDER 0x1.8p23f

typedef struct ends {
    float low[DT__BLOCK_ROWS], high[DT__BLOCK_ROWS];
} ends;

static void load_scales(dt__row_block *s, int64_t group)
{
    const dt__code_grid *g = &s->m->grid;
    for (int64_t r = 0; r < s->rows; r++) {
        const int64_t at = (s->row + r) * g->groups + group;
        s->scale[r] = g->scale[at];
        s->inverse[r] = g->inverse[at];
        s->zero[r] = g->zero == NULL ? 0 : g->zero[at];
    }
    s->group = group;
}

static void keep_zeros(const dt__row_block *s, int64_t column, double *v)
{
    const float *w = s->m->weight + s->row * s->m->columns + column;
    for (int64_t r = 0; r < s->rows; r++) v[r] = w[r * s->m->columns] == 0 ? 0 : v[r];
}

/* Rounds each argument. The comparisons clamp NaN (an infinite argument times 0) to `low`. */
static void round_column(const dt__row_block *s, const ends *e, const double *v, float *q)
{
    const bool half_up = s->m->grid.half_up;
    const dt__levels *levels = s->m->grid.levels;
    const float least = (float)s->m->grid.qmin, offset = 0.5f - least;
    for (int64_t r = 0; r < s->rows; r++) {
        const bool divides = levels != NULL && levels->divides;
        float x = divides ? (float)v[r] / s->scale[r] : (float)v[r] * s->inverse[r];
        x = x > e->low[r] ? x : e->low[r];
        x = x < e->high[r] ? x : e->high[r];
        q[r] = (x + ROUNDER) - ROUNDER;
        if (half_up) q[r] = (float)(int)(x + offset) + least;
        if (levels != NULL && levels->real == NULL) q[r] = (float)dt__level_of(levels, x);
        if (levels != NULL && levels->real != NULL) q[r] = dt__small_round(levels->real, x) + 0.0f;
    }
}

void dt__choose(dt__row_block *s, int64_t j, double *v, double *dequantized)
{
    const dt__matrix *m = s->m;
    const int64_t column = m->order[j], group = m->grid.group_of[column];
    double came[DT__BLOCK_ROWS];
    float q[DT__BLOCK_ROWS];
    ends e;
    if (group != s->group) load_scales(s, group);
    if (m->keep_zeros) keep_zeros(s, column, v);
    for (int64_t r = 0; r < s->rows; r++) {
        e.low[r] = (float)m->grid.qmin - s->zero[r];
        e.high[r] = (float)m->grid.qmax - s->zero[r];
    }
    if (m->bounds != NULL) {
        memcpy(came, v, (size_t)s->rows * sizeof *v);
        dt__bounds_narrow(s, column, v, e.low, e.high);
    }
    round_column(s, &e, v, q);
    const dt__small_float *real = m->grid.levels != NULL ? m->grid.levels->real : NULL;
    int8_t *codes = s->codes + column * s->rows;
    for (int64_t r = 0; r < s->rows; r++) {
        dequantized[r] = (double)q[r] * (double)s->scale[r];
        codes[r] = real != NULL ? (int8_t)dt__small_code(real, q[r]) : (int8_t)(q[r] + s->zero[r]);
    }
    if (m->bounds == NULL) return;
    dt__bounds_add(s, column, q);
    if (m->bounds->all) memcpy(v, came, (size_t)s->rows * sizeof *v);
}

void dt__dequantize_column(dt__row_block *s, int64_t column, const int8_t *codes,
                           double *dequantized)
{
    const dt__matrix *m = s->m;
    const int64_t group = m->grid.group_of[column];
    const dt__small_float *real = m->grid.levels != NULL ? m->grid.levels->real : NULL;
    if (group != s->group) load_scales(s, group);
    for (int64_t r = 0; r < s->rows; r++) {
        const int8_t code = codes[column * s->rows + r];
        const float q =
            real != NULL ? dt__small_value(real, (uint8_t)code) : (float)code - s->zero[r];
        dequantized[r] = (double)q * (double)s->scale[r];
    }
}
