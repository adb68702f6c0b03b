/* Cases of the kernels of floats: one maker for each signature or family of kernels. */
#include "kernels_run.h"

#include "core/threads.h"

#include <math.h>
#include <stdlib.h>

/* ---- elements -------------------------------------------------------------------------------- */

typedef void unary_kernel(int64_t n, const void *x, void *y);
typedef void backward_kernel(int64_t n, const void *s, const void *dy, void *dx);
typedef void factor_kernel(int64_t n, double factor, const void *x, void *y);

static void fill(kernel_run *r, void (*f)(int64_t, double, void *))
{
    const int64_t n = kernel_size(r);
    const double value = (double)kernel_float(r);
    float *y = kernel_result(r, n);
    KERNEL_CALL(r, f(n, value, y));
}

static void shift(kernel_run *r, void (*f)(int64_t, double, void *))
{
    const int64_t n = kernel_size(r);
    const double value = (double)kernel_float(r);
    float *x = kernel_floats(r, n);
    KERNEL_CALL(r, f(n, value, x));
}

static void unary(kernel_run *r, unary_kernel *f)
{
    const int64_t n = kernel_size(r);
    float *x = kernel_floats(r, n), *y = kernel_result_or(r, n, x);
    KERNEL_CALL(r, f(n, x, y));
}

static void into(kernel_run *r, unary_kernel *f)
{
    const int64_t n = kernel_size(r);
    float *x = kernel_floats(r, n), *y = kernel_floats(r, n);
    KERNEL_CALL(r, f(n, x, y));
}

static void unary_backward(kernel_run *r, backward_kernel *f)
{
    const int64_t n = kernel_size(r);
    float *s = kernel_floats(r, n), *dy = kernel_floats(r, n), *dx = kernel_result_or(r, n, dy);
    KERNEL_CALL(r, f(n, s, dy, dx));
}

static void swiglu(kernel_run *r, backward_kernel *f)
{
    const int64_t n = kernel_size(r);
    float *gate = kernel_floats(r, n), *up = kernel_floats(r, n), *y = kernel_result(r, n);
    KERNEL_CALL(r, f(n, gate, up, y));
}

static void swiglu_backward(kernel_run *r, void (*f)(const dt__swiglu_backward *))
{
    const int64_t n = kernel_size(r);
    float *dy = kernel_floats(r, n);
    dt__swiglu_backward s = { .n = n, .gate = kernel_floats(r, n), .dy = dy };
    s.up = kernel_floats(r, n);
    if (kernel_pick(r, 4) < 3) s.dgate = kernel_result_or(r, n, dy);
    if (kernel_pick(r, 4) < 3) s.dup = kernel_result(r, n);
    KERNEL_CALL(r, f(&s));
}

/* A cell of 3 or 4 gates that keeps `kept` numbers an element, and has 1 or 2 states. */
typedef struct cell_shape {
    int64_t gates, kept, states;
} cell_shape;

static const cell_shape gru = { 3, 4, 1 }, lstm = { 4, 5, 2 };

static void cell(kernel_run *r, const cell_shape *s, void (*f)(const dt__cell *))
{
    dt__cell c = { .hidden = kernel_size(r) };
    c.rows = kernel_extent(r, c.hidden * 5);
    const int64_t n = c.rows * c.hidden;
    c.gi = kernel_floats(r, s->gates * n);
    c.gh = kernel_floats(r, s->gates * n);
    c.state = kernel_floats(r, s->states * n);
    c.y = kernel_result(r, s->states * n);
    c.gates = kernel_chance(r) ? NULL : kernel_result(r, s->kept * n);
    KERNEL_CALL(r, f(&c));
}

static void cell_backward(kernel_run *r, const cell_shape *s,
                          void (*f)(const dt__cell *, const void *, void *const *))
{
    dt__cell c = { .hidden = kernel_size(r) };
    c.rows = kernel_extent(r, c.hidden * 5);
    const int64_t n = c.rows * c.hidden;
    c.state = kernel_floats(r, s->states * n);
    c.gates = kernel_floats(r, s->kept * n);
    float *dy = kernel_floats(r, s->states * n);
    void *d[3] = { NULL };
    for (int i = 0; i < 2; i++) {
        if (kernel_pick(r, 4) < 3) d[i] = kernel_result(r, s->gates * n);
    }
    if (kernel_pick(r, 4) < 3) d[2] = kernel_result_or(r, s->states * n, dy);
    KERNEL_CALL(r, f(&c, dy, d));
}

static void gru_cell(kernel_run *r, void (*f)(const dt__cell *)) { cell(r, &gru, f); }
static void lstm_cell(kernel_run *r, void (*f)(const dt__cell *)) { cell(r, &lstm, f); }

static void gru_cell_backward(kernel_run *r,
                              void (*f)(const dt__cell *, const void *, void *const *))
{
    cell_backward(r, &gru, f);
}

static void lstm_cell_backward(kernel_run *r,
                               void (*f)(const dt__cell *, const void *, void *const *))
{
    cell_backward(r, &lstm, f);
}

static void factor(kernel_run *r, factor_kernel *f)
{
    const int64_t n = kernel_size(r);
    const double by = (double)kernel_float(r);
    float *x = kernel_floats(r, n), *y = kernel_result_or(r, n, x);
    KERNEL_CALL(r, f(n, by, x, y));
}

static void lerp(kernel_run *r, factor_kernel *f)
{
    const int64_t n = kernel_size(r);
    const double by = (double)kernel_float(r);
    float *to = kernel_floats(r, n), *x = kernel_floats(r, n);
    KERNEL_CALL(r, f(n, by, to, x));
}

static void clamp(kernel_run *r, void (*f)(int64_t, double, double, const void *, void *))
{
    const int64_t n = kernel_size(r);
    const double least = (double)kernel_ordinary(r);
    float *x = kernel_floats(r, n), *y = kernel_result_or(r, n, x);
    KERNEL_CALL(r, f(n, least, least + 1, x, y));
}

static void clamp_backward(kernel_run *r,
                           void (*f)(int64_t, double, double, const void *, const void *, void *))
{
    const int64_t n = kernel_size(r);
    const double least = (double)kernel_ordinary(r);
    float *x = kernel_floats(r, n), *dy = kernel_floats(r, n), *dx = kernel_result_or(r, n, dy);
    if (n > 0) x[n / 2] = (float)least;
    KERNEL_CALL(r, f(n, least, least + 1, x, dy, dx));
}

static void first_nonfinite(kernel_run *r, void (*f)(int64_t, const void *, int64_t *))
{
    const int64_t n = kernel_size(r);
    float *x = kernel_finite(r, n);
    const int bad = n == 0 ? 0 : kernel_pick(r, 4);
    for (int i = 0; i < bad; i++) x[kernel_below(r, n)] = i % 2 == 0 ? -INFINITY : NAN;
    int64_t index = -2;
    KERNEL_CALL(r, f(n, x, &index));
    kernel_returned(r, index);
}

/* Gaps of rows, transposed, reversed, broadcast. */
static void copy(kernel_run *r, void (*f)(const dt__copy *))
{
    const int64_t n = kernel_size(r), rows = kernel_extent(r, n), ld = n + 3;
    dt__copy c = { .rank = 2, .dims = { rows, n }, .y_strides = { ld, 1 } };
    const float *x = kernel_floats(r, rows * (n + 1));
    const int64_t strides[][2] = { { n, 1 }, { 1, rows }, { 0, 1 }, { n, 0 }, { n, -1 } };
    const int i = kernel_pick(r, DT__COUNT_OF(strides));
    memcpy(c.x_strides, strides[i], sizeof strides[i]);
    c.x = i == 4 && n > 0 ? x + n - 1 : x;
    c.y = kernel_result_rows(r, rows, n, ld);
    KERNEL_CALL(r, f(&c));
}

static void add_strided(kernel_run *r, void (*f)(const dt__copy *))
{
    const int64_t n = kernel_size(r), rows = kernel_extent(r, n), ld = n + 3;
    const int64_t strides[][2] = { { n, 1 }, { 1, rows }, { 0, 1 }, { n, 0 } };
    dt__copy c = { .rank = 2, .dims = { rows, n }, .x = kernel_floats(r, rows * n + 1) };
    memcpy(c.x_strides, strides[kernel_pick(r, DT__COUNT_OF(strides))], sizeof strides[0]);
    const bool gaps = kernel_chance(r);
    c.y_strides[0] = gaps ? ld : 1;
    c.y_strides[1] = gaps ? 1 : rows;
    c.y = kernel_floats(r, rows * ld);
    KERNEL_CALL(r, f(&c));
}

static void relu(kernel_run *r, void (*f)(int64_t, const void *, void *, uint8_t *))
{
    const int64_t n = kernel_size(r);
    uint8_t *bits = kernel_chance(r) ? NULL : kernel_result_bytes(r, dt__ceil_div(n, 8));
    float *x = kernel_floats(r, n), *y = kernel_result_or(r, n, x);
    KERNEL_CALL(r, f(n, x, y, bits));
}

static void mask(kernel_run *r, void (*f)(int64_t, const uint8_t *, const void *, void *))
{
    const int64_t n = kernel_size(r);
    const uint8_t *bits = kernel_bytes(r, dt__ceil_div(n, 8));
    float *dy = kernel_floats(r, n), *dx = kernel_result_or(r, n, dy);
    KERNEL_CALL(r, f(n, bits, dy, dx));
}

static void leaky_relu(kernel_run *r, void (*f)(int64_t, double, const void *, void *, uint8_t *))
{
    const int64_t n = kernel_size(r);
    const double slope = (double)kernel_float(r);
    uint8_t *bits = kernel_chance(r) ? NULL : kernel_result_bytes(r, dt__ceil_div(n, 8));
    float *x = kernel_floats(r, n), *y = kernel_result_or(r, n, x);
    KERNEL_CALL(r, f(n, slope, x, y, bits));
}

static void leaky_mask(kernel_run *r,
                       void (*f)(int64_t, double, const uint8_t *, const void *, void *))
{
    const int64_t n = kernel_size(r);
    const double slope = (double)kernel_float(r);
    const uint8_t *bits = kernel_bytes(r, dt__ceil_div(n, 8));
    float *dy = kernel_floats(r, n), *dx = kernel_result_or(r, n, dy);
    KERNEL_CALL(r, f(n, slope, bits, dy, dx));
}

static void alpha_backward(kernel_run *r,
                           void (*f)(int64_t, double, const void *, const void *, void *))
{
    const int64_t n = kernel_size(r);
    const double alpha = (double)kernel_float(r);
    float *y = kernel_floats(r, n), *dy = kernel_floats(r, n), *dx = kernel_result_or(r, n, dy);
    KERNEL_CALL(r, f(n, alpha, y, dy, dx));
}

static dt__prelu prelu_of(kernel_run *r, int64_t *count)
{
    const int64_t n = kernel_size(r), outer = kernel_extent(r, n);
    const int64_t inner = kernel_chance(r) ? 1 : kernel_extent(r, outer * n);
    dt__prelu p = { .lines = { outer, n, inner } };
    if (kernel_chance(r)) p.lines = (dt__lines){ outer, inner, n };
    *count = outer * n * inner;
    p.slope = kernel_floats(r, p.lines.n);
    p.x = kernel_floats(r, *count);
    return p;
}

static void prelu(kernel_run *r, void (*f)(const dt__prelu *, void *))
{
    int64_t count;
    const dt__prelu p = prelu_of(r, &count);
    float *y = kernel_result(r, count);
    KERNEL_CALL(r, f(&p, y));
}

static void prelu_backward(kernel_run *r, void (*f)(const dt__prelu *, const void *, void *))
{
    int64_t count;
    const dt__prelu p = prelu_of(r, &count);
    float *dy = kernel_floats(r, count), *dx = kernel_result_or(r, count, dy);
    KERNEL_CALL(r, f(&p, dy, dx));
}

static void drop(kernel_run *r, void (*f)(int64_t, const dt__drop *, const void *, void *))
{
    const int64_t n = kernel_size(r);
    const dt__drop d = { .key = (uint64_t)kernel_below(r, 1000),
                         .counter = UINT64_MAX - 5, /* it wraps */
                         .threshold = (uint64_t)kernel_below(r, INT64_C(1) << 32),
                         .scale = 1.25 };
    float *x = kernel_floats(r, n), *y = kernel_result_or(r, n, x);
    KERNEL_CALL(r, f(n, &d, x, y));
}

/* ---- two operands, sums, lines --------------------------------------------------------------- */

/* y is [rows][n]; each operand is whole, one row, one column, one element, transposed, or a row
 * read backwards. */
static const float *zip_operand(kernel_run *r, const int64_t *dims, int64_t *strides)
{
    const int64_t rows = dims[0], n = dims[1];
    const int64_t forms[][2] = { { n, 1 }, { n, 1 },    { 0, 1 }, { 1, 0 },
                                 { 0, 0 }, { 1, rows }, { n, -1 } };
    const int i = kernel_pick(r, DT__COUNT_OF(forms));
    memcpy(strides, forms[i], sizeof forms[i]);
    const float *x = kernel_floats(r, rows * n + 1);
    return i == 6 && n > 0 ? x + n - 1 : x;
}

static dt__zip zip_of(kernel_run *r)
{
    const int64_t n = kernel_size(r);
    dt__zip z = { .rank = 2, .dims = { kernel_extent(r, n), n } };
    z.a = zip_operand(r, z.dims, z.a_strides);
    z.b = zip_operand(r, z.dims, z.b_strides);
    return z;
}

static void zip(kernel_run *r, void (*f)(const dt__zip *))
{
    dt__zip z = zip_of(r);
    z.y = kernel_result(r, z.dims[0] * z.dims[1]);
    KERNEL_CALL(r, f(&z));
}

static void zip_scaled(kernel_run *r, void (*f)(const dt__zip *, double))
{
    const double by = (double)kernel_float(r);
    dt__zip z = zip_of(r);
    z.y = kernel_result(r, z.dims[0] * z.dims[1]);
    KERNEL_CALL(r, f(&z, by));
}

/* Copies floats, or bytes that begin at the same place; elements that are not chosen must not
 * change. */
static void zip_where(kernel_run *r, void (*f)(const dt__zip *, bool, bool))
{
    const bool bytes = kernel_chance(r), above = kernel_chance(r);
    dt__zip z = zip_of(r);
    z.y = kernel_floats(r, z.dims[0] * z.dims[1]);
    KERNEL_CALL(r, f(&z, bytes, above));
}

static void sum(kernel_run *r, void (*f)(const dt__reduce *))
{
    const int64_t n = kernel_size(r), outer = kernel_extent(r, n);
    const int64_t inner = kernel_extent(r, outer * n);
    dt__reduce s = { .rank = 3, .dims = { outer, n, inner }, .divisor = 3 };
    int64_t kept = 1, count = 1;
    for (int d = 0; d < 3; d++) {
        s.over[d] = kernel_chance(r);
        count *= s.dims[d];
        kept *= s.over[d] ? 1 : s.dims[d];
    }
    s.x = kernel_floats(r, count);
    s.y = kernel_result(r, kept);
    KERNEL_CALL(r, f(&s));
}

static dt__lines lines_of(kernel_run *r)
{
    const int64_t n = r->round == KERNELS_TIMED ? 1000 : dt__max_i64(kernel_size(r), 1);
    const int64_t outer = kernel_extent(r, n);
    return (dt__lines){ outer, n, kernel_pick(r, 2) == 0 ? 1 : kernel_extent(r, outer * n) };
}

static int64_t count_of(const dt__lines *l) { return l->outer * l->n * l->inner; }

static void lines(kernel_run *r, void (*f)(const dt__lines *, const void *, void *))
{
    const dt__lines l = lines_of(r);
    float *x = kernel_floats(r, count_of(&l)), *y = kernel_result_or(r, count_of(&l), x);
    for (int64_t i = 0; i < l.n && kernel_values(r) == KERNELS_SPECIAL; i++) {
        x[i * l.inner] = -INFINITY;
    }
    KERNEL_CALL(r, f(&l, x, y));
}

static void lines_backward(kernel_run *r,
                           void (*f)(const dt__lines *, const void *, const void *, void *))
{
    const dt__lines l = lines_of(r);
    float *y = kernel_floats(r, count_of(&l)), *dy = kernel_floats(r, count_of(&l));
    float *dx = kernel_result(r, count_of(&l));
    KERNEL_CALL(r, f(&l, y, dy, dx));
}

/* ---- losses ---------------------------------------------------------------------------------- */

static dt__cross_entropy entropy_of(kernel_run *r)
{
    dt__cross_entropy c = { .lines = lines_of(r), .wide = kernel_chance(r), .ignore = -100 };
    const int64_t rows = c.lines.outer * c.lines.inner;
    c.smoothing = kernel_chance(r) ? 0 : 0.1;
    if (c.smoothing == 0 && kernel_chance(r)) c.gamma = 2;
    if (kernel_chance(r)) c.ignore = kernel_below(r, c.lines.n);
    c.x = kernel_floats(r, count_of(&c.lines));
    c.labels = kernel_indices(r, rows, c.lines.n, c.wide);
    if (kernel_chance(r)) c.weight = kernel_floats(r, c.lines.n);
    return c;
}

static void cross_entropy(kernel_run *r, void (*f)(const dt__cross_entropy *))
{
    dt__cross_entropy c = entropy_of(r);
    const int64_t rows = c.lines.outer * c.lines.inner;
    c.row = kernel_result(r, 2 * rows);
    c.loss = kernel_result_doubles(r, rows);
    KERNEL_CALL(r, f(&c));
}

static void cross_entropy_backward(kernel_run *r,
                                   void (*f)(const dt__cross_entropy *, double, void *))
{
    dt__cross_entropy c = entropy_of(r);
    float *row = kernel_floats(r, 2 * c.lines.outer * c.lines.inner);
    c.row = row;
    float *dx = kernel_result(r, count_of(&c.lines));
    KERNEL_CALL(r, f(&c, 0.125, dx));
}

static dt__logits logits_of(kernel_run *r)
{
    const int64_t blocks = 1 + kernel_below(r, 3);
    dt__logits l = { .n = blocks * DT__LOGITS, .wide = kernel_chance(r), .ignore = -100 };
    if (kernel_pick(r, 3) > 0 || r->round == KERNELS_TIMED) {
        l.n = dt__min_i64(dt__max_i64(kernel_size(r), 1), 4100);
        l.classes = l.n;
    } else { /* a block behind others, or before them */
        l.first = DT__LOGITS * kernel_below(r, 2);
        l.classes = l.first + l.n + (l.first > 0 ? 0 : 7);
    }
    l.rows = kernel_extent(r, l.n);
    l.smoothing = kernel_chance(r) ? 0.1 : 0;
    l.share = kernel_pick(r, 3) * 0.5;
    l.temperature = kernel_chance(r) ? 1.75 : 1;
    if (kernel_chance(r)) l.ignore = kernel_below(r, l.classes);
    l.x = kernel_floats(r, l.rows * l.n);
    l.labels = kernel_indices(r, l.rows, l.classes, l.wide);
    if (l.share > 0) l.teacher = kernel_floats(r, l.rows * l.n);
    return l;
}

static void logits(kernel_run *r, void (*f)(const dt__logits *))
{
    dt__logits l = logits_of(r);
    double *row = kernel_doubles(r, l.rows * (int64_t)(sizeof *l.row / sizeof(double)));
    l.row = (dt__logits_row *)(void *)row;
    l.kept = kernel_floats(r, l.rows * DT__LOGITS_KEPT);
    l.loss = kernel_doubles(r, l.rows);
    l.entropy = kernel_floats(r, l.rows);
    if (kernel_chance(r)) l.best = (int32_t *)(void *)kernel_floats(r, l.rows);
    for (int64_t i = 0; i < l.rows; i++) l.row[i].best = 0;
    KERNEL_CALL(r, f(&l));
}

static void logits_backward(kernel_run *r, void (*f)(const dt__logits *, double))
{
    dt__logits l = logits_of(r);
    l.kept = kernel_floats(r, l.rows * DT__LOGITS_KEPT);
    KERNEL_CALL(r, f(&l, 0.125));
}

static void mse(kernel_run *r, void (*f)(int64_t, const void *, const void *, double, void *))
{
    const int64_t n = kernel_size(r);
    const float *x = kernel_floats(r, n), *target = kernel_floats(r, n);
    float *y = kernel_result(r, 1);
    KERNEL_CALL(r, f(n, x, target, 3, y));
}

static void mse_backward(kernel_run *r,
                         void (*f)(int64_t, const void *, const void *, double, void *))
{
    const int64_t n = kernel_size(r);
    const float *x = kernel_floats(r, n), *target = kernel_floats(r, n);
    float *d = kernel_result(r, n);
    KERNEL_CALL(r, f(n, x, target, 0.37, d));
}

static dt__pointwise pointwise_of(kernel_run *r)
{
    dt__pointwise p = { .n = kernel_size(r), .delta = 0.75, .columns = 3, .divisor = 3 };
    p.x = kernel_floats(r, p.n);
    p.target = kernel_floats(r, p.n);
    if (kernel_chance(r)) p.weight = kernel_floats(r, p.columns);
    return p;
}

static void pointwise(kernel_run *r, void (*f)(const dt__pointwise *, void *))
{
    const dt__pointwise p = pointwise_of(r);
    float *y = kernel_result(r, 1);
    KERNEL_CALL(r, f(&p, y));
}

static void pointwise_backward(kernel_run *r, void (*f)(const dt__pointwise *, double, void *))
{
    const dt__pointwise p = pointwise_of(r);
    float *d = kernel_result(r, p.n);
    KERNEL_CALL(r, f(&p, 0.37, d));
}

/* ---- rows of a table ------------------------------------------------------------------------- */

enum { TABLE = 11 };

static dt__gather gather_of(kernel_run *r)
{
    const int64_t n = dt__min_i64(kernel_size(r), 4100);
    const bool wide = kernel_chance(r);
    dt__gather g = { .count = kernel_extent(r, n), .n = n, .type = wide ? DT_I64 : DT_I32 };
    g.index = kernel_indices(r, g.count, TABLE, wide);
    return g;
}

static void gather(kernel_run *r, void (*f)(const dt__gather *, const void *, void *))
{
    const dt__gather g = gather_of(r);
    const float *table = kernel_floats(r, TABLE * g.n);
    float *y = kernel_result(r, g.count * g.n);
    KERNEL_CALL(r, f(&g, table, y));
}

static void scatter_add(kernel_run *r, void (*f)(const dt__gather *, const void *, void *))
{
    const dt__gather g = gather_of(r);
    const float *y = kernel_floats(r, g.count * g.n);
    float *table = kernel_floats(r, TABLE * g.n);
    KERNEL_CALL(r, f(&g, y, table));
}

static void add_rows(kernel_run *r, void (*f)(int64_t, int64_t, const void *, void *))
{
    const int64_t n = dt__min_i64(kernel_size(r), 4100), rows = kernel_extent(r, n);
    float *x = kernel_floats(r, n), *y = kernel_floats(r, rows * n);
    KERNEL_CALL(r, f(rows, n, x, y));
}

/* Some experts have no rows; rows are in any order, or as they lie. */
static void sum_by_expert(kernel_run *r,
                          void (*f)(const dt__rows_by_expert *, const void *, void *))
{
    enum { EXPERTS = 5 };
    dt__rows_by_expert d = { .experts = EXPERTS, .n = dt__min_i64(kernel_size(r), 4100) };
    const int64_t rows = kernel_extent(r, d.n);
    int64_t start[EXPERTS + 1] = { 0 };
    for (int e = 1; e <= EXPERTS; e++)
        start[e] = dt__min_i64(rows, start[e - 1] + e % 3 * rows / 4);
    d.start = start;
    if (kernel_chance(r) && rows > 0) d.row = kernel_indices(r, rows, rows, true);
    const float *x = kernel_floats(r, rows * d.n);
    float *y = kernel_result(r, EXPERTS * d.n);
    KERNEL_CALL(r, f(&d, x, y));
}

static void sum_parts(kernel_run *r, void (*f)(const dt__row_sums *, const void *, void *))
{
    dt__row_sums s = { .parts = kernel_pick(r, 4), .n = dt__min_i64(kernel_size(r), 4100) };
    s.rows = kernel_extent(r, s.n);
    int64_t *row = kernel_indices(r, s.rows * s.parts, TABLE + 1, true);
    for (int64_t i = 0; i < s.rows * s.parts; i++) row[i] -= 1;
    s.row = row;
    const float *x = kernel_floats(r, TABLE * s.n);
    float *y = kernel_result(r, s.rows * s.n);
    KERNEL_CALL(r, f(&s, x, y));
}

/* ---- normalization --------------------------------------------------------------------------- */

static dt__layer_norm layer_of(kernel_run *r)
{
    const int64_t n = dt__min_i64(dt__max_i64(kernel_size(r), 1), 4100);
    dt__layer_norm l = { .rows = kernel_extent(r, n), .n = n, .eps = 1e-5 };
    l.x = kernel_floats(r, l.rows * n);
    if (kernel_chance(r)) l.weight = kernel_floats(r, n);
    return l;
}

static void layer_norm(kernel_run *r, void (*f)(const dt__layer_norm *))
{
    dt__layer_norm l = layer_of(r);
    if (kernel_chance(r)) l.bias = kernel_floats(r, l.n);
    l.y = kernel_result(r, l.rows * l.n);
    l.stats = kernel_result_doubles(r, 2 * l.rows);
    KERNEL_CALL(r, f(&l));
}

static void layer_norm_backward(kernel_run *r,
                                void (*f)(const dt__layer_norm *, const void *, void *const *))
{
    dt__layer_norm l = layer_of(r);
    l.stats = kernel_doubles(r, 2 * l.rows);
    const float *dy = kernel_floats(r, l.rows * l.n);
    void *d[3] = { NULL };
    for (int i = 0; i < 3; i++) {
        if (kernel_pick(r, 4) < 3) d[i] = kernel_result(r, i == 0 ? l.rows * l.n : l.n);
    }
    KERNEL_CALL(r, f(&l, dy, d));
}

static dt__rms_norm rms_of(kernel_run *r)
{
    const int64_t n = dt__min_i64(dt__max_i64(kernel_size(r), 1), 4100);
    dt__rms_norm m = { .rows = kernel_extent(r, n), .n = n, .eps = 1e-5 };
    m.x = kernel_floats(r, m.rows * n);
    if (kernel_pick(r, 4) < 3) m.weight = kernel_floats(r, n);
    return m;
}

static void rms_norm(kernel_run *r, void (*f)(const dt__rms_norm *))
{
    dt__rms_norm m = rms_of(r);
    m.y = kernel_result(r, m.rows * m.n);
    m.rstd = kernel_result_doubles(r, m.rows);
    KERNEL_CALL(r, f(&m));
}

static void rms_norm_backward(kernel_run *r,
                              void (*f)(const dt__rms_norm *, const void *, void *const *))
{
    dt__rms_norm m = rms_of(r);
    m.rstd = kernel_doubles(r, m.rows);
    const float *dy = kernel_floats(r, m.rows * m.n);
    void *d[2] = { NULL };
    for (int i = 0; i < 2; i++) {
        if (kernel_pick(r, 4) < 3) d[i] = kernel_result(r, i == 0 ? m.rows * m.n : m.n);
    }
    KERNEL_CALL(r, f(&m, dy, d));
}

/* A tensor with gaps between heads, or with elements two apart. */
static dt__heads heads_of(kernel_run *r, const int64_t *dims)
{
    const int64_t step = 1 + kernel_pick(r, 2), head = dims[3] * step + kernel_below(r, 3);
    const int64_t place = head * dims[2] + kernel_below(r, 3);
    const float *x = kernel_ordinaries(r, dims[0] * dims[1] * place + 1);
    return (dt__heads){ x, { dims[1] * place, place, head, step } };
}

/* Like it or, as a cache has keys, with adjacent times. */
static dt__heads keys_of(kernel_run *r, const int64_t *dims)
{
    if (kernel_chance(r)) return heads_of(r, dims);
    const int64_t row = dims[1] + kernel_below(r, 3), head = dims[3] * row;
    const float *x = kernel_ordinaries(r, dims[0] * dims[2] * head);
    return (dt__heads){ x, { dims[2] * head, 1, head, row } };
}

static void rotary(kernel_run *r, void (*f)(const dt__rotary *))
{
    const int64_t n = dt__min_i64(kernel_size(r), 300), time = kernel_extent(r, n);
    dt__rotary p = { .batch = 2, .time = time, .heads = 1 + kernel_below(r, 3), .width = n };
    p.pairs = n / 2 - (n > 4 ? kernel_below(r, 2) : 0);
    p.interleaved = kernel_chance(r);
    p.back = kernel_chance(r);
    p.amplitude = kernel_chance(r) ? 1 : 1.19;
    double *frequency = kernel_doubles(r, p.pairs);
    for (int64_t j = 0; j < p.pairs; j++) frequency[j] = 1 / (1 + (double)j);
    p.frequency = frequency;
    p.position = kernel_indices(r, 2 * time, 100000, false);
    p.position_strides[0] = kernel_chance(r) ? time : 0;
    p.position_strides[1] = 1;
    p.x = heads_of(r, (const int64_t[]){ 2, time, p.heads, n });
    p.y = kernel_result(r, 2 * time * p.heads * n);
    KERNEL_CALL(r, f(&p));
}

/* k and v as codes with scales, whose keys are adjacent (as a cache has them) or not. */
static void code_keys(kernel_run *r, dt__attention *a)
{
    const int64_t dims[] = { a->batch, a->keys, a->kv_heads, 1 };
    a->k_scale = keys_of(r, dims);
    a->v_scale = keys_of(r, dims);
    dt__heads *of[] = { &a->k, &a->v };
    for (int i = 0; i < 2; i++) {
        const int64_t *s = of[i]->strides;
        const int64_t last[] = { a->batch - 1, a->keys - 1, a->kv_heads - 1, a->width - 1 };
        int64_t n = 1;
        for (int d = 0; d < 4; d++) n += dt__max_i64(last[d], 0) * s[d];
        of[i]->x = kernel_bytes(r, n);
    }
    a->packed = kernel_chance(r);
}

/* With codes only where `forward` is true. */
static dt__attention attention_of(kernel_run *r, bool forward)
{
    dt__attention a = { .batch = 1 + kernel_below(r, 2), .causal = !kernel_chance(r) };
    a.kv_heads = 1 + kernel_below(r, 2);
    a.heads = a.kv_heads * (1 + kernel_pick(r, 3));
    /* codes of few rows are read in place, those of 4 bits if the width is a multiple of 32 */
    const bool codes = forward && kernel_pick(r, 4) > 0;
    a.width = codes && kernel_chance(r) ? 32 * (1 + kernel_pick(r, 4)) : 1 + kernel_below(r, 40);
    a.keys = codes && kernel_chance(r) ? 150 : dt__min_i64(kernel_size(r), 200);
    a.queries = a.keys < 2 ? a.keys : 1 + kernel_below(r, a.keys);
    if (codes && kernel_pick(r, 4) > 0) a.queries = dt__min_i64(a.queries, 2);
    if (r->round == KERNELS_TIMED) {
        a.width = 32;
        a.queries = a.keys = 64;
    }
    a.scale = 0.25;
    if (a.causal && kernel_chance(r)) a.window = 1 + kernel_below(r, 100);
    a.q = heads_of(r, (const int64_t[]){ a.batch, a.queries, a.heads, a.width });
    a.k = keys_of(r, (const int64_t[]){ a.batch, a.keys, a.kv_heads, a.width });
    a.v = heads_of(r, (const int64_t[]){ a.batch, a.keys, a.kv_heads, a.width });
    if (codes) {
        code_keys(r, &a);
        return a;
    }
    if (kernel_chance(r)) {
        uint8_t *mask = kernel_bytes(r, a.batch * a.keys);
        for (int64_t i = 0; i < a.batch * a.keys; i++) mask[i] &= 1;
        a.mask = (dt__of_keys){ mask, { a.keys, 1 } };
    }
    if (kernel_chance(r)) {
        int32_t *document = kernel_indices(r, a.batch * a.keys, 4, false);
        for (int64_t i = 0; i < a.batch * a.keys; i++) document[i] -= 1;
        a.document = (dt__of_keys){ document, { a.keys, 1 } };
    }
    return a;
}

/* Scratch memory, whose final contents depend on the threads. */
static void *room_of(size_t bytes)
{
    void *room =
        aligned_alloc(DT__ALIGNMENT, (size_t)dt__round_up((int64_t)bytes + 1, DT__ALIGNMENT));
    ck_assert_ptr_nonnull(room);
    return room;
}

static void hadamard(kernel_run *r, void (*f)(int64_t, void *))
{
    const int64_t n = dt__min_i64(kernel_size(r), 300);
    float *x = kernel_result(r, n);
    memcpy(x, kernel_ordinaries(r, n), (size_t)n * sizeof *x);
    KERNEL_CALL(r, f(n, x));
}

static void attention(kernel_run *r, void (*f)(const dt__attention *))
{
    dt__attention a = attention_of(r, true);
    const int64_t rows = a.batch * a.queries * a.heads;
    a.y = kernel_result(r, rows * a.width);
    a.lse = kernel_result(r, rows);
    a.room = room_of(4 * (size_t)dt__attention_room(&a, dt__threads()));
    KERNEL_CALL(r, f(&a));
    free(a.room);
}

static void attention_backward(kernel_run *r,
                               void (*f)(const dt__attention *, const void *, void *const *))
{
    dt__attention a = attention_of(r, false);
    const int64_t rows = a.batch * a.queries * a.heads, keys = a.batch * a.keys * a.kv_heads;
    a.y = kernel_ordinaries(r, rows * a.width);
    a.lse = kernel_ordinaries(r, rows);
    const float *dy = kernel_ordinaries(r, rows * a.width);
    void *d[3] = { NULL };
    for (int i = 0; i < 3; i++) {
        if (kernel_pick(r, 4) < 3) d[i] = kernel_result(r, (i == 0 ? rows : keys) * a.width);
    }
    a.room = room_of(4 * (size_t)dt__attention_back_room(&a, dt__threads()));
    KERNEL_CALL(r, f(&a, dy, d));
    free(a.room);
}

static dt__batch_norm batch_of(kernel_run *r)
{
    const int64_t n = dt__min_i64(dt__max_i64(kernel_size(r), 1), 513);
    dt__batch_norm b = { .eps = 1e-5, .training = kernel_chance(r), .relu = kernel_chance(r) };
    b.relu6 = !b.relu && kernel_chance(r);
    const int64_t outer = kernel_extent(r, n);
    b.lines = (dt__lines){ outer, n, kernel_pick(r, 2) == 0 ? 1 : kernel_extent(r, outer * n) };
    b.x = kernel_floats(r, count_of(&b.lines));
    if (kernel_pick(r, 4) < 3) b.weight = kernel_floats(r, n);
    if (kernel_pick(r, 4) < 3) b.bias = kernel_floats(r, n);
    if (kernel_chance(r)) b.factor = kernel_floats(r, n);
    b.room = kernel_doubles(r, dt__batch_norm_room(&b.lines));
    return b;
}

static int64_t bits_of(const dt__lines *l)
{
    return l->inner == 1 ? l->outer * dt__bit_row(l->n) : l->outer * l->n * dt__bit_row(l->inner);
}

static void batch_norm(kernel_run *r, void (*f)(const dt__batch_norm *))
{
    dt__batch_norm b = batch_of(r);
    b.mean = kernel_floats(r, b.lines.n);
    b.var = kernel_floats(r, b.lines.n);
    if (kernel_chance(r)) b.residual = kernel_floats(r, count_of(&b.lines));
    if ((b.relu || b.relu6) && kernel_pick(r, 2) == 0)
        b.bits = kernel_result_bytes(r, bits_of(&b.lines));
    b.stats = kernel_result_doubles(r, 3 * b.lines.n);
    b.y = kernel_result(r, count_of(&b.lines));
    KERNEL_CALL(r, f(&b));
}

static void batch_backward(kernel_run *r,
                           void (*f)(const dt__batch_norm *, const void *, void *const *))
{
    dt__batch_norm b = batch_of(r);
    b.stats = kernel_doubles(r, 3 * b.lines.n);
    if (b.relu || b.relu6) b.bits = kernel_bytes(r, bits_of(&b.lines));
    float *dy = kernel_floats(r, count_of(&b.lines));
    void *d[5] = { NULL };
    for (int i = 0; i < 5; i++) {
        if (i > 2 && (i == 3 || b.factor == NULL) && kernel_chance(r)) continue;
        const int64_t n = i == 0 || i == 3 ? count_of(&b.lines) : b.lines.n;
        if (kernel_pick(r, 4) < 3) d[i] = i == 0 ? kernel_result_or(r, n, dy) : kernel_result(r, n);
    }
    KERNEL_CALL(r, f(&b, dy, d));
}

/* A problem with all options, of about n elements of y. */
static dt__conv conv_of(kernel_run *r)
{
    dt__conv c = { .batch = 1 + kernel_below(r, 3), .groups = 1 + kernel_below(r, 3) };
    c.in = c.groups * (1 + kernel_below(r, 4));
    c.out = c.groups * (1 + kernel_below(r, 4));
    const int64_t n = kernel_size(r);
    for (int i = 0; i < 2; i++) {
        c.kernel[i] = 1 + kernel_below(r, 4);
        c.stride[i] = 1 + kernel_below(r, 2);
        c.padding[i] = kernel_below(r, 4);
        c.dilation[i] = 1 + kernel_below(r, 3);
        const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
        c.y_size[i] = i == 0 ? 1 + kernel_below(r, 4) : dt__min_i64(n, 400) + 1;
        c.x_size[i] = (c.y_size[i] - 1) * c.stride[i] + reach - 2 * c.padding[i];
        if (c.x_size[i] >= 0) continue;
        c.padding[i] = 0;
        c.x_size[i] = (c.y_size[i] - 1) * c.stride[i] + reach;
    }
    return c;
}

static int64_t conv_x(const dt__conv *c) { return c->batch * c->in * dt__conv_x_plane(c); }
static int64_t conv_y(const dt__conv *c) { return c->batch * c->out * dt__conv_y_plane(c); }
static int64_t conv_w(const dt__conv *c) { return c->out * c->in / c->groups * dt__conv_taps(c); }

typedef void conv_kernel(const dt__conv *, const void *, const void *, const void *, void *);

static void conv(kernel_run *r, conv_kernel *f)
{
    const dt__conv c = conv_of(r);
    const float *x = kernel_floats(r, conv_x(&c)), *w = kernel_floats(r, conv_w(&c));
    const float *bias = kernel_chance(r) ? NULL : kernel_floats(r, c.out);
    float *y = kernel_result(r, conv_y(&c));
    KERNEL_CALL(r, f(&c, x, w, bias, y));
}

static void conv_backward_x(kernel_run *r, conv_kernel *f)
{
    const dt__conv c = conv_of(r);
    const float *dy = kernel_floats(r, conv_y(&c)), *w = kernel_floats(r, conv_w(&c));
    const float *bias = kernel_chance(r) ? NULL : kernel_floats(r, c.in);
    float *dx = kernel_result(r, conv_x(&c));
    KERNEL_CALL(r, f(&c, dy, w, bias, dx));
}

static void conv_backward_w(kernel_run *r,
                            void (*f)(const dt__conv *, const void *, const void *, void *))
{
    const dt__conv c = conv_of(r);
    const float *x = kernel_floats(r, conv_x(&c)), *dy = kernel_floats(r, conv_y(&c));
    float *dw = kernel_result(r, conv_w(&c));
    KERNEL_CALL(r, f(&c, x, dy, dw));
}

static dt__group_norm group_of(kernel_run *r)
{
    const int64_t outer = kernel_extent(r, 1), groups = 1 + kernel_below(r, 4);
    const int64_t channels = 1 + kernel_below(r, 4), all = groups * channels;
    dt__group_norm g = { outer, groups, channels, kernel_extent(r, outer * all),
                         1e-5,  NULL,   NULL,     NULL,
                         NULL,  NULL,   NULL };
    g.x = kernel_floats(r, outer * all * g.inner);
    if (kernel_pick(r, 4) < 3) g.weight = kernel_floats(r, all);
    if (kernel_pick(r, 4) < 3) g.bias = kernel_floats(r, all);
    return g;
}

static void group_norm(kernel_run *r, void (*f)(const dt__group_norm *))
{
    dt__group_norm g = group_of(r);
    g.y = kernel_result(r, g.outer * g.groups * g.channels * g.inner);
    g.stats = kernel_doubles(r, 2 * g.outer * g.groups);
    KERNEL_CALL(r, f(&g));
}

static void group_backward(kernel_run *r,
                           void (*f)(const dt__group_norm *, const void *, void *const *))
{
    dt__group_norm g = group_of(r);
    const int64_t all = g.groups * g.channels, n = g.outer * all * g.inner;
    g.stats = kernel_doubles(r, 2 * g.outer * g.groups);
    g.room = kernel_doubles(r, 2 * g.outer * all);
    float *dy = kernel_floats(r, n);
    void *d[3] = { NULL };
    for (int i = 0; i < 3; i++) {
        if (kernel_pick(r, 4) < 3)
            d[i] = i == 0 ? kernel_result_or(r, n, dy) : kernel_result(r, all);
    }
    KERNEL_CALL(r, f(&g, dy, d));
}

static void fold_factor(kernel_run *r, void (*f)(const dt__fold_factors *))
{
    const int64_t n = kernel_size(r);
    const dt__fold_factors o = { .n = n,
                                 .eps = 1e-5,
                                 .keep = kernel_chance(r),
                                 .weight = kernel_floats(r, n),
                                 .var = kernel_floats(r, n),
                                 .factor = kernel_result(r, n),
                                 .slope = kernel_result(r, n) };
    KERNEL_CALL(r, f(&o));
}

static void batch_running(kernel_run *r, void (*f)(const dt__batch_norm *, double, void *, void *))
{
    dt__batch_norm b = batch_of(r);
    b.stats = kernel_doubles(r, 3 * b.lines.n);
    float *mean = kernel_floats(r, b.lines.n), *var = kernel_floats(r, b.lines.n);
    KERNEL_CALL(r, f(&b, 0.1, mean, var));
}

/* ---- planes of images ------------------------------------------------------------------------ */

/* Windows of any geometry, or the quarters that most pools have. */
static dt__windows pool_of(kernel_run *r)
{
    dt__windows p = { .planes = kernel_extent(r, 400), .count_padding = kernel_chance(r) };
    const bool quarters = !kernel_chance(r);
    for (int d = 0; d < 2; d++) {
        p.kernel[d] = quarters ? 2 : 1 + kernel_below(r, 4);
        p.stride[d] = quarters ? 2 : 1 + kernel_below(r, 4);
        p.padding[d] = quarters ? 0 : kernel_below(r, p.kernel[d] / 2 + 1);
        p.dilation[d] = 1;
        p.in[d] = 4 + kernel_below(r, d == 0 ? 9 : 160);
        if (r->round == KERNELS_TIMED) p.in[d] = 32;
        p.out[d] = (p.in[d] + 2 * p.padding[d] - p.kernel[d]) / p.stride[d] + 1;
    }
    return p;
}

static int64_t pool_pixels(const dt__windows *p) { return p->planes * p->in[0] * p->in[1]; }
static int64_t pool_windows(const dt__windows *p) { return p->planes * p->out[0] * p->out[1]; }

static void max_pool(kernel_run *r, void (*f)(const dt__windows *))
{
    dt__windows p = pool_of(r);
    for (int d = 0; d < 2 && kernel_chance(r); d++) {
        if (p.in[d] < 4 * p.kernel[d] || p.padding[d] > 0) continue;
        p.dilation[d] = 2;
        p.out[d] = (p.in[d] - 2 * p.kernel[d] + 1) / p.stride[d] + 1;
    }
    p.x = kernel_floats(r, pool_pixels(&p));
    p.y = kernel_result(r, pool_windows(&p));
    p.wide = kernel_chance(r);
    if (p.wide) p.at = kernel_result(r, pool_windows(&p)); /* of four bytes too */
    else if (kernel_pick(r, 3) < 2) p.at = kernel_result_bytes(r, pool_windows(&p));
    KERNEL_CALL(r, f(&p));
}

/* A maximum can only be at a pixel inside of the plane. */
static void max_pool_backward(kernel_run *r, void (*f)(const dt__windows *, const void *, void *))
{
    dt__windows p = pool_of(r);
    p.padding[0] = p.padding[1] = 0;
    for (int d = 0; d < 2; d++) p.out[d] = (p.in[d] - p.kernel[d]) / p.stride[d] + 1;
    uint8_t *at = kernel_bytes(r, pool_windows(&p));
    for (int64_t k = 0; k < pool_windows(&p); k++) {
        at[k] = (uint8_t)(at[k] % (p.kernel[0] * p.kernel[1]));
    }
    p.at = at;
    const float *dy = kernel_floats(r, pool_windows(&p));
    float *dx = kernel_result(r, pool_pixels(&p));
    KERNEL_CALL(r, f(&p, dy, dx));
}

static void avg_pool(kernel_run *r, void (*f)(const dt__windows *))
{
    dt__windows p = pool_of(r);
    p.x = kernel_floats(r, pool_pixels(&p));
    p.y = kernel_result(r, pool_windows(&p));
    KERNEL_CALL(r, f(&p));
}

static void avg_pool_backward(kernel_run *r, void (*f)(const dt__windows *, const void *, void *))
{
    const dt__windows p = pool_of(r);
    const float *dy = kernel_floats(r, pool_windows(&p));
    float *dx = kernel_result(r, pool_pixels(&p));
    KERNEL_CALL(r, f(&p, dy, dx));
}

/* Twice the size, or any. */
static dt__resize resize_of(kernel_run *r)
{
    dt__resize z = { .planes = kernel_extent(r, 400) };
    const bool twice = !kernel_chance(r);
    for (int d = 0; d < 2; d++) {
        z.in[d] = 1 + kernel_below(r, 20);
        z.out[d] = twice ? 2 * z.in[d] : 1 + kernel_below(r, 30);
    }
    return z;
}

static void upsample(kernel_run *r, void (*f)(const dt__resize *, const void *, void *))
{
    const dt__resize z = resize_of(r);
    const float *x = kernel_floats(r, z.planes * z.in[0] * z.in[1]);
    float *y = kernel_result(r, z.planes * z.out[0] * z.out[1]);
    KERNEL_CALL(r, f(&z, x, y));
}

static void upsample_backward(kernel_run *r, void (*f)(const dt__resize *, const void *, void *))
{
    const dt__resize z = resize_of(r);
    const float *dy = kernel_floats(r, z.planes * z.out[0] * z.out[1]);
    float *dx = kernel_result(r, z.planes * z.in[0] * z.in[1]);
    KERNEL_CALL(r, f(&z, dy, dx));
}

static dt__pad pad_of(kernel_run *r, int64_t *inside, int64_t *all)
{
    dt__pad p = { .planes = kernel_extent(r, 400), .rank = 1 + kernel_pick(r, 2), .value = 0.5 };
    p.mode = (dt__border)kernel_pick(r, 4);
    *inside = *all = p.planes;
    for (int d = 0; d < p.rank; d++) {
        p.in[d] = 5 + kernel_below(r, 30);
        p.before[d] = kernel_below(r, 5);
        p.out[d] = p.before[d] + p.in[d] + kernel_below(r, 5);
        *inside *= p.in[d];
        *all *= p.out[d];
    }
    return p;
}

static void pad(kernel_run *r, void (*f)(const dt__pad *, const void *, void *))
{
    int64_t inside, all;
    const dt__pad p = pad_of(r, &inside, &all);
    const float *x = kernel_floats(r, inside);
    float *y = kernel_result(r, all);
    KERNEL_CALL(r, f(&p, x, y));
}

static void pad_backward(kernel_run *r, void (*f)(const dt__pad *, const void *, void *))
{
    int64_t inside, all;
    const dt__pad p = pad_of(r, &inside, &all);
    const float *dy = kernel_floats(r, all);
    float *dx = kernel_result(r, inside);
    KERNEL_CALL(r, f(&p, dy, dx));
}

static void max(kernel_run *r, void (*f)(const dt__lines *, const void *, void *, int32_t *))
{
    const dt__lines l = lines_of(r);
    const float *x = kernel_floats(r, count_of(&l));
    float *y = kernel_result(r, l.outer * l.inner);
    int32_t *index = (int32_t *)(void *)kernel_result(r, l.outer * l.inner); /* of four bytes too */
    KERNEL_CALL(r, f(&l, x, y, index));
}

static void max_backward(kernel_run *r,
                         void (*f)(const dt__lines *, const int32_t *, const void *, void *))
{
    const dt__lines l = lines_of(r);
    const int32_t *index = kernel_indices(r, l.outer * l.inner, l.n, false);
    const float *dy = kernel_floats(r, l.outer * l.inner);
    float *dx = kernel_result(r, count_of(&l));
    KERNEL_CALL(r, f(&l, index, dy, dx));
}

/* ---- optimizers, products -------------------------------------------------------------------- */

static void sum_squares(kernel_run *r, void (*f)(int64_t, const void *, double *))
{
    const int64_t n = kernel_size(r);
    const float *x = kernel_floats(r, n);
    double *partial = kernel_result_doubles(r, dt__ceil_div(n, DT__CHUNK));
    KERNEL_CALL(r, f(n, x, partial));
}

static void sgd(kernel_run *r, void (*f)(const dt__sgd *))
{
    dt__sgd s = { .n = kernel_size(r), .lr = 0.03, .dampening = 0.25, .decay = 0.01 };
    s.factor = kernel_chance(r) ? 1 : 0.7;
    s.momentum = 0.9;
    s.nesterov = kernel_chance(r);
    s.first = kernel_chance(r);
    s.g = kernel_floats(r, s.n);
    s.p = kernel_floats(r, s.n);
    if (kernel_pick(r, 3) < 2) s.buffer = kernel_floats(r, s.n);
    KERNEL_CALL(r, f(&s));
}

static void adam(kernel_run *r, void (*f)(const dt__adam *))
{
    dt__adam a = { .n = kernel_size(r), .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    a.factor = kernel_chance(r) ? 1 : 0.7;
    a.decay = kernel_chance(r) ? 0 : 0.01;
    a.shrink = kernel_chance(r) ? 1 : 0.999;
    a.rate = 0.003;
    a.g = kernel_floats(r, a.n);
    a.p = kernel_floats(r, a.n);
    a.m = kernel_floats(r, a.n);
    float *v = kernel_floats(r, a.n);
    for (int64_t i = 0; i < a.n; i++) v[i] = fabsf(v[i]);
    a.v = v;
    KERNEL_CALL(r, f(&a));
}

static void lion(kernel_run *r, void (*f)(const dt__lion *))
{
    dt__lion l = { .n = kernel_size(r), .beta1 = 0.9, .beta2 = 0.99, .lr = 0.003 };
    l.factor = kernel_chance(r) ? 1 : 0.7;
    l.shrink = kernel_chance(r) ? 1 : 0.999;
    l.g = kernel_floats(r, l.n);
    l.p = kernel_floats(r, l.n);
    l.m = kernel_floats(r, l.n);
    KERNEL_CALL(r, f(&l));
}

static void gemm(kernel_run *r, void (*f)(const dt__gemm *))
{
    dt__gemm g = { .trans_a = kernel_chance(r), .trans_b = kernel_chance(r) };
    g.n = dt__min_i64(kernel_size(r), 513);
    g.m = kernel_extent(r, g.n);
    g.k = kernel_pick(r, 5) == 4 ? 0 : 4 * kernel_extent(r, g.n);
    g.lda = (g.trans_a ? g.m : g.k) + kernel_pick(r, 3);
    g.ldb = (g.trans_b ? g.k : g.n) + kernel_pick(r, 3);
    g.ldc = g.n + kernel_pick(r, 3);
    g.a = kernel_floats(r, (g.trans_a ? g.k : g.m) * g.lda);
    g.b = kernel_floats(r, (g.trans_b ? g.n : g.k) * g.ldb);
    g.accumulate = kernel_chance(r);
    g.c = g.accumulate ? kernel_floats(r, g.m * g.ldc) : kernel_result_rows(r, g.m, g.n, g.ldc);
    g.scratch = room_of(dt__gemm_scratch(&g, sizeof(float), dt__threads()));
    KERNEL_CALL(r, f(&g));
    free(g.scratch);
}

/* Some of them without terms. */
static void gemms(kernel_run *r, void (*f)(const dt__gemms *))
{
    dt__gemm_job job[3];
    const int count = DT__COUNT_OF(job) - kernel_pick(r, DT__COUNT_OF(job) + 1);
    for (int i = 0; i < count; i++) {
        dt__gemm g = { .trans_a = kernel_chance(r), .trans_b = kernel_chance(r) };
        g.n = dt__min_i64(kernel_size(r), 300);
        g.m = kernel_extent(r, g.n);
        g.k = i == 2 ? 0 : kernel_extent(r, g.n);
        g.lda = g.trans_a ? g.m : g.k;
        g.ldb = g.trans_b ? g.k : g.n;
        g.ldc = g.n + i;
        g.a = kernel_floats(r, g.m * g.k);
        g.b = kernel_floats(r, g.n * g.k);
        if (kernel_chance(r)) g.bias = kernel_floats(r, g.n);
        g.c = kernel_result_rows(r, g.m, g.n, g.ldc);
        job[i].g = g;
    }
    const dt__gemm most = { .m = 300, .n = 300, .k = 300 };
    void *room = room_of(dt__gemms_scratch(&most, sizeof(float), dt__threads()));
    KERNEL_CALL(r, f(&(dt__gemms){ .n = count, .job = job, .scratch = room }));
    free(room);
}

/* ---- epilogues of products ------------------------------------------------------------------- */

/* With a function y may be a separate buffer, else it is x. */
static void after(kernel_run *r, void (*f)(const dt__after *))
{
    dt__after a = { .n = kernel_size(r) };
    a.rows = kernel_extent(r, a.n);
    const int kind = kernel_pick(r, 4);
    float *x = kernel_floats(r, a.rows * a.n);
    a.x = a.y = x;
    if (kernel_pick(r, 3) < 2) a.bias = kernel_floats(r, a.n);
    if (kernel_chance(r)) a.residual = kernel_floats(r, a.rows * a.n);
    a.relu = kind < 2;
    if (kind == 0) a.bits = kernel_result_bytes(r, a.rows * dt__bit_row(a.n));
    if (kind == 2) {
        a.function = r->kernels->gelu_tanh;
        a.y = kernel_result_or(r, a.rows * a.n, x);
    }
    KERNEL_CALL(r, f(&a));
}

static void mask_rows(kernel_run *r, void (*f)(const dt__mask_rows *))
{
    dt__mask_rows m = { .n = kernel_size(r) };
    m.rows = kernel_extent(r, m.n);
    m.bits = kernel_bytes(r, m.rows * dt__bit_row(m.n));
    float *dy = kernel_floats(r, m.rows * m.n);
    m.dy = dy;
    m.d = kernel_result_or(r, m.rows * m.n, dy);
    if (!kernel_chance(r)) m.sum = kernel_result(r, m.n);
    KERNEL_CALL(r, f(&m));
}

/* ---- learned scales -------------------------------------------------------------------------- */

static dt__learn learned(kernel_run *r)
{
    const int bits = 2 + (int)kernel_below(r, 7), top = kernel_chance(r) ? 0 : 1 << (bits - 1);
    float *scale = kernel_floats(r, 1);
    *scale = 0.01f + fabsf(kernel_ordinary(r));
    dt__learn l = { .n = kernel_size(r), .scale = scale };
    l.qmin = -top;
    l.qmax = (1 << bits) - 1 - top;
    l.x = kernel_finite(r, l.n);
    return l;
}

static void draw_gradient(kernel_run *r, dt__learn *l)
{
    float *dy = kernel_floats(r, l->n);
    l->dy = dy;
    l->dx = kernel_result_or(r, l->n, dy);
    l->sum = kernel_result_doubles(r, 1);
    l->all = kernel_chance(r);
}

static void learn(kernel_run *r, void (*f)(const dt__learn *))
{
    dt__learn l = learned(r);
    draw_gradient(r, &l);
    KERNEL_CALL(r, f(&l));
}

static void residual(kernel_run *r, void (*f)(const dt__learn *, int8_t *))
{
    const dt__learn l = learned(r);
    int8_t *to = (int8_t *)kernel_result_bytes(r, l.n);
    KERNEL_CALL(r, f(&l, to));
}

static void learn_from(kernel_run *r, void (*f)(const dt__learn *, const int8_t *))
{
    dt__learn l = learned(r);
    draw_gradient(r, &l);
    const int8_t *from = (const int8_t *)kernel_bytes(r, l.n);
    KERNEL_CALL(r, f(&l, from));
}

static void sum_absolute(kernel_run *r, void (*f)(int64_t, const void *, double *))
{
    const int64_t n = kernel_size(r);
    const float *x = kernel_floats(r, n);
    double *sum = kernel_result_doubles(r, 1);
    KERNEL_CALL(r, f(n, x, sum));
}

static void add_up(kernel_run *r,
                   void (*f)(int64_t, int64_t, const void *, const double *, double *))
{
    const int64_t n = dt__min_i64(kernel_size(r), 4100), rows = kernel_extent(r, n);
    const float *x = kernel_finite(r, rows * n);
    const double *from = kernel_doubles(r, n);
    double *sum = kernel_doubles(r, n);
    const bool shifted = kernel_chance(r);
    KERNEL_CALL(r, f(rows, n, x, shifted ? from : NULL, sum));
}

/* Few experts; sometimes one more than fits into a vector or block. */
static int64_t experts_of(kernel_run *r) { return 1 + dt__min_i64(kernel_size(r), 1200); }

static void moe_router(kernel_run *r, void (*f)(const dt__router *))
{
    dt__router p = { .n = experts_of(r), .normalize = kernel_chance(r) };
    p.rows = kernel_extent(r, p.n);
    p.top_k = 1 + kernel_below(r, dt__min_i64(p.n, 5));
    p.x = kernel_floats(r, p.rows * p.n);
    p.weights = kernel_result(r, p.rows * p.top_k);
    p.index = (int32_t *)(void *)kernel_result(r, p.rows * p.top_k); /* of four bytes too */
    KERNEL_CALL(r, f(&p));
}

static void moe_router_backward(kernel_run *r, void (*f)(const dt__router *, const void *, void *))
{
    dt__router p = { .n = experts_of(r), .normalize = kernel_chance(r) };
    p.rows = kernel_extent(r, p.n);
    p.top_k = 1 + kernel_below(r, dt__min_i64(p.n, 5));
    p.x = kernel_floats(r, p.rows * p.n);
    p.weights = kernel_floats(r, p.rows * p.top_k);
    const float *dweights = kernel_floats(r, p.rows * p.top_k);
    float *dx = kernel_result(r, p.rows * p.n);
    KERNEL_CALL(r, f(&p, dweights, dx));
}

static dt__combine combine_of(kernel_run *r)
{
    dt__combine c = { .n = kernel_size(r), .top_k = 1 + kernel_below(r, 3) };
    c.rows = kernel_extent(r, c.n * c.top_k);
    c.parts = kernel_floats(r, c.rows * c.top_k * c.n);
    c.weights = kernel_floats(r, c.rows * c.top_k);
    return c;
}

static void moe_combine(kernel_run *r, void (*f)(const dt__combine *))
{
    dt__combine c = combine_of(r);
    c.y = kernel_result(r, c.rows * c.n);
    KERNEL_CALL(r, f(&c));
}

static void moe_combine_backward(kernel_run *r,
                                 void (*f)(const dt__combine *, const void *, void *, void *))
{
    const dt__combine c = combine_of(r);
    const float *dy = kernel_floats(r, c.rows * c.n);
    float *dparts = kernel_chance(r) ? NULL : kernel_result(r, c.rows * c.top_k * c.n);
    float *dweights = kernel_chance(r) ? NULL : kernel_result(r, c.rows * c.top_k);
    KERNEL_CALL(r, f(&c, dy, dparts, dweights));
}

/* The third of each part is scratch memory of the kernel. */
static void router_load(kernel_run *r, void (*f)(const dt__router_load *))
{
    dt__router_load l = { .n = experts_of(r) };
    l.rows = kernel_extent(r, l.n);
    l.top_k = 1 + kernel_below(r, dt__min_i64(l.n, 5));
    l.x = kernel_floats(r, l.rows * l.n);
    double *sums = kernel_result_doubles(r, 2 * l.n);
    const size_t bytes = 3 * (size_t)(dt__router_parts(l.rows) * l.n) * sizeof(double);
    l.part = malloc(bytes);
    ck_assert_ptr_nonnull(l.part);
    KERNEL_CALL(r, f(&l));
    memcpy(sums, l.part, 2 * (size_t)l.n * sizeof(double));
    free(l.part);
}

static void router_slope(kernel_run *r, void (*f)(const dt__router_slope *))
{
    dt__router_slope s = { .n = experts_of(r) };
    s.rows = kernel_extent(r, s.n);
    s.x = kernel_floats(r, s.rows * s.n);
    s.slope = kernel_floats(r, s.n);
    s.dx = kernel_result(r, s.rows * s.n);
    KERNEL_CALL(r, f(&s));
}

static void router_z(kernel_run *r, void (*f)(const dt__router_z *))
{
    dt__router_z z = { .n = experts_of(r) };
    z.rows = kernel_extent(r, z.n);
    z.x = kernel_floats(r, z.rows * z.n);
    z.log_sum = kernel_result_doubles(r, z.rows);
    KERNEL_CALL(r, f(&z));
}

static void router_z_backward(kernel_run *r, void (*f)(const dt__router_z *, double, void *))
{
    dt__router_z z = { .n = experts_of(r) };
    z.rows = kernel_extent(r, z.n);
    z.x = kernel_floats(r, z.rows * z.n);
    float *dx = kernel_result(r, z.rows * z.n);
    KERNEL_CALL(r, f(&z, 0.25, dx));
}

static void pack_codes(kernel_run *r, void (*f)(int64_t, const uint8_t *, uint8_t *))
{
    const int64_t n = kernel_size(r);
    const uint8_t *u = kernel_bytes(r, n);
    uint8_t *packed = kernel_result_bytes(r, dt__ceil_div(n, 2));
    KERNEL_CALL(r, f(n, u, packed));
}

static void unpack_codes(kernel_run *r, void (*f)(int64_t, const uint8_t *, uint8_t *))
{
    const int64_t n = kernel_size(r);
    const uint8_t *packed = kernel_bytes(r, dt__ceil_div(n, 2));
    uint8_t *u = kernel_result_bytes(r, n);
    KERNEL_CALL(r, f(n, packed, u));
}

#define FLOAT_CASES(CASE)                                                                          \
    CASE(fill, fill, 0)                                                                            \
    CASE(copy, copy, 0)                                                                            \
    CASE(add_into, into, 0)                                                                        \
    CASE(add_strided, add_strided, 0)                                                              \
    CASE(first_nonfinite, first_nonfinite, 0)                                                      \
    CASE(neg, unary, 0)                                                                            \
    CASE(abs, unary, 0)                                                                            \
    CASE(erf, unary, 0)                                                                            \
    CASE(exp, unary, 0)                                                                            \
    CASE(log, unary, 0)                                                                            \
    CASE(sqrt, unary, 0)                                                                           \
    CASE(square, unary, 0)                                                                         \
    CASE(tanh, unary, 0)                                                                           \
    CASE(sigmoid, unary, 0)                                                                        \
    CASE(silu, unary, 0)                                                                           \
    CASE(gelu_erf, unary, 0)                                                                       \
    CASE(gelu_tanh, unary, 0)                                                                      \
    CASE(relu6, unary, 0)                                                                          \
    CASE(hardswish, unary, 0)                                                                      \
    CASE(hardsigmoid, unary, 0)                                                                    \
    CASE(elu, unary, 0)                                                                            \
    CASE(abs_backward, unary_backward, 0)                                                          \
    CASE(erf_backward, unary_backward, 0)                                                          \
    CASE(sqrt_backward, unary_backward, 0)                                                         \
    CASE(square_backward, unary_backward, 0)                                                       \
    CASE(tanh_backward, unary_backward, 0)                                                         \
    CASE(exp_backward, unary_backward, 0)                                                          \
    CASE(log_backward, unary_backward, 0)                                                          \
    CASE(sigmoid_backward, unary_backward, 0)                                                      \
    CASE(silu_backward, unary_backward, 0)                                                         \
    CASE(swiglu, swiglu, 0)                                                                        \
    CASE(swiglu_backward, swiglu_backward, 0)                                                      \
    CASE(gru_cell, gru_cell, 0)                                                                    \
    CASE(gru_cell_backward, gru_cell_backward, 0)                                                  \
    CASE(lstm_cell, lstm_cell, 0)                                                                  \
    CASE(lstm_cell_backward, lstm_cell_backward, 0)                                                \
    CASE(gelu_erf_backward, unary_backward, 0)                                                     \
    CASE(gelu_tanh_backward, unary_backward, 0)                                                    \
    CASE(relu6_backward, unary_backward, 0)                                                        \
    CASE(hardswish_backward, unary_backward, 0)                                                    \
    CASE(hardsigmoid_backward, unary_backward, 0)                                                  \
    CASE(elu_backward, unary_backward, 0)                                                          \
    CASE(elu_alpha, factor, 0)                                                                     \
    CASE(elu_alpha_backward, alpha_backward, 0)                                                    \
    CASE(prelu, prelu, 0)                                                                          \
    CASE(prelu_backward, prelu_backward, 0)                                                        \
    CASE(prelu_terms, unary_backward, 0)                                                           \
    CASE(scale, factor, 0)                                                                         \
    CASE(shift, shift, 0)                                                                          \
    CASE(clamp, clamp, 0)                                                                          \
    CASE(clamp_backward, clamp_backward, 0)                                                        \
    CASE(relu, relu, 0)                                                                            \
    CASE(relu6_bits, relu, 0)                                                                      \
    CASE(mask, mask, 0)                                                                            \
    CASE(leaky_relu, leaky_relu, 0)                                                                \
    CASE(leaky_mask, leaky_mask, 0)                                                                \
    CASE(drop, drop, 0)                                                                            \
    CASE(add, zip, 0)                                                                              \
    CASE(sub, zip, 0)                                                                              \
    CASE(mul, zip, 0)                                                                              \
    CASE(div, zip, 0)                                                                              \
    CASE(maximum, zip, 0)                                                                          \
    CASE(greater, zip, 0)                                                                          \
    CASE(not_less, zip, 0)                                                                         \
    CASE(add_scaled, zip_scaled, 0)                                                                \
    CASE(put_where, zip_where, 0)                                                                  \
    CASE(sum, sum, 0)                                                                              \
    CASE(softmax, lines, 0)                                                                        \
    CASE(softmax_backward, lines_backward, 0)                                                      \
    CASE(log_softmax, lines, 0)                                                                    \
    CASE(log_softmax_backward, lines_backward, 0)                                                  \
    CASE(cross_entropy, cross_entropy, 0)                                                          \
    CASE(cross_entropy_backward, cross_entropy_backward, 0)                                        \
    CASE(logits, logits, 0)                                                                        \
    CASE(logits_backward, logits_backward, 0)                                                      \
    CASE(mse, mse, 0)                                                                              \
    CASE(mse_backward, mse_backward, 0)                                                            \
    CASE(l1_loss, pointwise, 0)                                                                    \
    CASE(l1_loss_backward, pointwise_backward, 0)                                                  \
    CASE(huber_loss, pointwise, 0)                                                                 \
    CASE(huber_loss_backward, pointwise_backward, 0)                                               \
    CASE(bce_with_logits, pointwise, 0)                                                            \
    CASE(bce_with_logits_backward, pointwise_backward, 0)                                          \
    CASE(gather, gather, 0)                                                                        \
    CASE(scatter_add, scatter_add, 0)                                                              \
    CASE(add_rows, add_rows, 0)                                                                    \
    CASE(sum_by_expert, sum_by_expert, 0)                                                          \
    CASE(sum_parts, sum_parts, 0)                                                                  \
    CASE(layer_norm, layer_norm, 0)                                                                \
    CASE(layer_norm_backward, layer_norm_backward, 0)                                              \
    CASE(rms_norm, rms_norm, 0)                                                                    \
    CASE(rms_norm_backward, rms_norm_backward, 0)                                                  \
    CASE(moe_router, moe_router, 0)                                                                \
    CASE(moe_router_backward, moe_router_backward, 0)                                              \
    CASE(moe_combine, moe_combine, 0)                                                              \
    CASE(moe_combine_backward, moe_combine_backward, 0)                                            \
    CASE(router_load, router_load, 0)                                                              \
    CASE(router_slope, router_slope, 0)                                                            \
    CASE(router_z, router_z, 0)                                                                    \
    CASE(router_z_backward, router_z_backward, 0)                                                  \
    CASE(rotary, rotary, 0)                                                                        \
    CASE(hadamard, hadamard, 0)                                                                    \
    CASE(attention, attention, 0)                                                                  \
    CASE(attention_backward, attention_backward, 0)                                                \
    CASE(batch_norm, batch_norm, 0)                                                                \
    CASE(batch_norm_backward, batch_backward, 0)                                                   \
    CASE(group_norm, group_norm, 0)                                                                \
    CASE(group_norm_backward, group_backward, 0)                                                   \
    CASE(fold_factor, fold_factor, 0)                                                              \
    CASE(batch_norm_running, batch_running, 0)                                                     \
    CASE(conv, conv, 0)                                                                            \
    CASE(conv_backward_x, conv_backward_x, 0)                                                      \
    CASE(conv_backward_w, conv_backward_w, 0)                                                      \
    CASE(max_pool, max_pool, 0)                                                                    \
    CASE(max_pool_backward, max_pool_backward, 0)                                                  \
    CASE(avg_pool, avg_pool, 0)                                                                    \
    CASE(avg_pool_backward, avg_pool_backward, 0)                                                  \
    CASE(adaptive_avg_pool, upsample, 0)                                                           \
    CASE(adaptive_avg_pool_backward, upsample_backward, 0)                                         \
    CASE(upsample, upsample, 0)                                                                    \
    CASE(upsample_backward, upsample_backward, 0)                                                  \
    CASE(pad, pad, 0)                                                                              \
    CASE(pad_backward, pad_backward, 0)                                                            \
    CASE(max, max, 0)                                                                              \
    CASE(max_backward, max_backward, 0)                                                            \
    CASE(lerp, lerp, 0)                                                                            \
    CASE(sum_squares, sum_squares, 0)                                                              \
    CASE(sgd, sgd, 0)                                                                              \
    CASE(adam, adam, 0)                                                                            \
    CASE(lion, lion, 0)                                                                            \
    CASE(learn, learn, 0)                                                                          \
    CASE(residual, residual, 0)                                                                    \
    CASE(learn_from, learn_from, 0)                                                                \
    CASE(sum_absolute, sum_absolute, 0)                                                            \
    CASE(add_up, add_up, 0)                                                                        \
    CASE(pack_codes, pack_codes, 0)                                                                \
    CASE(unpack_codes, unpack_codes, 0)                                                            \
    CASE(after, after, 0)                                                                          \
    CASE(mask_rows, mask_rows, 0)                                                                  \
    CASE(gemm, gemm, 0)                                                                            \
    CASE(gemms, gemms, 0)                                                                          \
    CASE(gemm_bf16, gemm, 0)                                                                       \
    CASE(gemms_bf16, gemms, 0)                                                                     \
    CASE(gemm_tiles, gemm, 0)                                                                      \
    CASE(gemms_tiles, gemms, 0)

FLOAT_CASES(KERNEL_CASE_FUNCTION)

const kernel_case kernel_cases_float[] = { FLOAT_CASES(KERNEL_CASE_ENTRY){ NULL } };
