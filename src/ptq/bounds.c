/* Bounds for accumulators of P bits: tiles, the soft threshold, extreme dot products (bounds.h).
 *
 * Soft threshold [Brevitas 0.13]: v are the values w / s of a tile before rounding, 0 in dead
 * columns and padded with zeros to the full width. With u = |v - mean(v)|, theta solves
 *
 *     sum max(u - theta, 0) = (2^P - 2) / (b - a)          (0 where sum u is less)
 *
 * An argument x becomes sign(x) max(|x| - theta s, 0) before it is clamped. theta is found without
 * sorting [Michelot 1986]: of the n values above the current theta, theta becomes
 * (their sum - right side) / n, until no value drops below it. */
#include "ptq/bounds.h"

#include "core/threads.h"

#include <math.h>

/* Sorts columns by group, stably. `place` [groups + 1] is scratch memory. */
static void sort_columns(const dt__matrix *m, int64_t *place, int32_t *column)
{
    const int32_t *group_of = m->grid.group_of;
    for (int64_t g = 0; g <= m->grid.groups; g++) place[g] = 0;
    for (int64_t k = 0; k < m->columns; k++) place[group_of[k] + 1]++;
    for (int64_t g = 1; g <= m->grid.groups; g++) place[g] += place[g - 1];
    for (int64_t k = 0; k < m->columns; k++) column[place[group_of[k]]++] = (int32_t)k;
}

static void cut(const dt__matrix *m, dt__tiles *t)
{
    const int32_t *group_of = m->grid.group_of;
    sort_columns(m, t->start, t->column);
    for (int64_t i = 0, held = 0; i < m->columns; i++, held++) {
        const int32_t column = t->column[i];
        if (i == 0 || held == t->width || group_of[column] != group_of[t->column[i - 1]]) {
            t->start[t->count++] = i;
            held = 0;
        }
        t->tile_of[column] = (int32_t)(t->count - 1);
    }
    t->start[t->count] = m->columns;
}

static dt_status make_tiles(const dt__matrix *m, dt__tiles *t)
{
    t->width = m->options->accumulator.tile;
    if (t->width == 0) {
        const bool grouped = m->quant->granularity == DT_PER_GROUP;
        t->width = grouped ? dt__min_i64(m->quant->group_size, m->columns) : m->columns;
    }
    t->start = dt__alloc_array(m->ctx, m->columns + 2, sizeof *t->start);
    t->column = dt__alloc_array(m->ctx, m->columns, sizeof *t->column);
    t->tile_of = dt__alloc_array(m->ctx, m->columns, sizeof *t->tile_of);
    if (t->start == NULL || t->column == NULL || t->tile_of == NULL) return DT_ERR_NOMEM;
    cut(m, t);
    return DT_OK;
}

/* One tile of one row: `weight` and `scale` are the row's. */
typedef struct tile_row {
    const dt__matrix *m;
    const float *weight;
    double scale, mean;
    const int32_t *column;
    int64_t n, padding;
} tile_row;

static double code_at(const tile_row *p, int64_t i)
{
    const int32_t column = p->column[i];
    return p->m->dead[column] ? 0 : (double)p->weight[column] / p->scale;
}

/* Sums the u above theta and returns their number. */
static int64_t above(const tile_row *p, double theta, double *sum)
{
    int64_t n = 0;
    *sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const double u = fabs(code_at(p, i) - p->mean);
        if (u > theta) {
            *sum += u;
            n++;
        }
    }
    if (fabs(p->mean) <= theta) return n;
    *sum += fabs(p->mean) * (double)p->padding;
    return n + p->padding;
}

static double threshold(tile_row *p, double limit)
{
    double sum = 0, theta = 0;
    for (int64_t i = 0; i < p->n; i++) sum += code_at(p, i);
    p->mean = sum / (double)(p->n + p->padding);
    int64_t n = above(p, -1, &sum), before = 0;
    if (sum <= limit) return 0;
    while (n > 0 && n != before) {
        theta = (sum - limit) / (double)n;
        before = n;
        n = above(p, theta, &sum);
    }
    return theta;
}

static void thresholds_of_row(const dt__matrix *m, dt__bounds *b, int64_t row)
{
    const dt__tiles *t = &b->tiles;
    const double limit = 2.0 * (double)b->limit / (double)(b->below + b->above);
    for (int64_t tile = 0; tile < t->count; tile++) {
        const int32_t *column = t->column + t->start[tile];
        const int64_t n = t->start[tile + 1] - t->start[tile];
        const float scale = m->grid.scale[row * m->grid.groups + m->grid.group_of[column[0]]];
        tile_row p = { m, m->weight + row * m->columns, (double)scale, 0, column, n, t->width - n };
        b->theta[tile * m->rows + row] = scale == 0 ? 0 : threshold(&p, limit);
    }
}

DT__EACH(make_thresholds, row, const dt__matrix *m; dt__bounds *const b;)
{
    thresholds_of_row(a.m, a.b, row);
}

static dt_status make_thresholds(const dt__matrix *m, dt__bounds *b)
{
    b->theta = dt__alloc_array(m->ctx, m->rows * b->tiles.count, sizeof *b->theta);
    if (b->theta == NULL) return DT_ERR_NOMEM;
    dt__team *const threads = dt__threads_enter(m->ctx);
    dt__parallel(m->rows, m->columns, make_thresholds_share, &(make_thresholds_args){ m, b });
    dt__threads_leave(threads);
    return DT_OK;
}

dt_status dt__bounds_create(const dt__matrix *m, bool binding, dt__bounds *out)
{
    const dt_accumulator *a = &m->options->accumulator;
    *out = (dt__bounds){ .limit = binding ? ((int64_t)1 << (a->bits - 1)) - 1 : 0,
                         .below = -a->input.v[0],
                         .above = a->input.v[1],
                         .all = a->diffuse == DT_DIFFUSE_ALL };
    DT__TRY(make_tiles(m, &out->tiles));
    return binding && a->soft_threshold ? make_thresholds(m, out) : DT_OK;
}

void dt__bounds_free(dt_ctx *ctx, dt__bounds *b)
{
    DT__RELEASE(ctx, b->tiles.start, b->tiles.column, b->tiles.tile_of, b->theta);
    *b = (dt__bounds){ 0 };
}

void dt__bounds_narrow(const dt__row_block *s, int64_t column, double *v, float *low, float *high)
{
    const dt__bounds *b = s->m->bounds;
    const int64_t tile = b->tiles.tile_of[column];
    const int64_t *positive = s->positive + tile * s->rows,
                  *negative = s->negative + tile * s->rows;
    const double *theta = b->theta == NULL ? NULL : b->theta + tile * s->m->rows + s->row;
    for (int64_t r = 0; r < s->rows; r++) {
        const dt__interval next = dt__interval_of(b, positive[r], negative[r]);
        const double scale = (double)s->scale[r], size = fabs(scale), sign = scale < 0 ? -1 : 1;
        double x = sign * v[r];
        if (theta != NULL) x = copysign(fmax(fabs(x) - theta[r] * size, 0), x);
        v[r] = sign * fmin(fmax(x, size * (double)next.least), size * (double)next.most);
        low[r] = fmaxf(low[r], (float)next.least);
        high[r] = fminf(high[r], (float)next.most);
    }
}

void dt__bounds_add(const dt__row_block *s, int64_t column, const float *q)
{
    const int64_t tile = s->m->bounds->tiles.tile_of[column];
    int64_t *positive = s->positive + tile * s->rows, *negative = s->negative + tile * s->rows;
    for (int64_t r = 0; r < s->rows; r++) {
        if (q[r] > 0) positive[r] += (int64_t)q[r];
        else negative[r] += (int64_t)q[r];
    }
}

/* `codes` is one row. */
static dt__extremes extremes_of_row(const dt__matrix *m, const dt__bounds *b, int64_t row,
                                    const int8_t *codes)
{
    const dt__tiles *t = &b->tiles;
    dt__extremes w = { 0, 0 };
    for (int64_t tile = 0; tile < t->count; tile++) {
        int64_t positive = 0, negative = 0;
        for (int64_t i = t->start[tile]; i < t->start[tile + 1]; i++) {
            const int32_t column = t->column[i];
            const int64_t at = row * m->grid.groups + m->grid.group_of[column];
            const int code = codes[column] - (m->grid.zero == NULL ? 0 : m->grid.zero[at]);
            positive += code > 0 ? code : 0;
            negative += code < 0 ? code : 0;
        }
        w.high = dt__max_i64(w.high, b->above * positive - b->below * negative);
        w.low = dt__min_i64(w.low, b->above * negative - b->below * positive);
    }
    return w;
}

typedef struct extremes_args {
    const dt__matrix *m;
    const dt__bounds *b;
    const int8_t *codes;
    _Atomic int64_t *high, *low;
} extremes_args;

DT__LOOP(extremes_share, extremes_args, of, row)
{
    const int8_t *codes = of->codes + row * of->m->columns;
    const dt__extremes w = extremes_of_row(of->m, of->b, row, codes);
    dt__raise(of->high, w.high);
    dt__lower(of->low, w.low);
}

dt__extremes dt__extremes_of(const dt__matrix *m, const dt__bounds *b, const int8_t *codes)
{
    _Atomic int64_t high = 0, low = 0;
    const extremes_args args = { m, b, codes, &high, &low };
    dt__team *const threads = dt__threads_enter(m->ctx);
    dt__parallel(m->rows, m->columns, extremes_share, &args);
    dt__threads_leave(threads);
    return (dt__extremes){ high, low };
}

int64_t dt__extremes_bits(dt__extremes w)
{
    const int64_t most = dt__max_i64(w.high, -w.low);
    int64_t bits = 1;
    while ((((int64_t)1 << (bits - 1)) - 1) < most) bits++;
    return bits;
}

int64_t dt__sum_bits(int64_t bits, int64_t tiles)
{
    while (tiles > 1) {
        tiles = dt__ceil_div(tiles, 2);
        bits++;
    }
    return bits;
}
