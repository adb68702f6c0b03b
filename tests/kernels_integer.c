/* Cases of the kernels that read or write codes and panels. */
#include "kernels_run.h"

#include "kernels/products/qgemm.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdlib.h>

/* ---- codes of a row -------------------------------------------------------------------------- */

static int64_t group_of(kernel_run *r, int64_t n)
{
    static const int64_t groups[] = { 32, 8, 64, 128, 3, 20, 5000, INT64_MAX };
    const int64_t group = groups[kernel_pick(r, DT__COUNT_OF(groups))];
    return group == INT64_MAX ? dt__max_i64(n, 1) : group;
}

/* In some rounds one element is NaN or infinite; lo and hi of such a row are not compared. */
static void range(kernel_run *r, int64_t (*f)(int64_t, int64_t, const float *, float *, float *))
{
    const int64_t n = kernel_size(r), group = group_of(r, n), groups = dt__ceil_div(n, group);
    float *x = kernel_finite(r, n);
    if (kernel_pick(r, 3) == 2 && n > 0) x[kernel_below(r, n)] = kernel_chance(r) ? NAN : -INFINITY;
    float *lo = kernel_result(r, groups), *hi = kernel_result(r, groups);
    int64_t first = -2;
    KERNEL_CALL(r, first = f(n, group, x, lo, hi));
    for (int64_t g = 0; g < groups && first >= 0; g++) lo[g] = hi[g] = 0;
    kernel_returned(r, first);
}

/* Scales of the values' magnitude, zeros, negative ones and the smallest. */
static float *scales_of(kernel_run *r, int64_t n)
{
    static const float list[] = { 0, 0x1p-126f, -0x1p-126f, 1, -0.5f, 0x1p-23f, 65504, 0x1p100f };
    float *scale = kernel_result(r, n);
    for (int64_t i = 0; i < n; i++) {
        const int pick = kernel_pick(r, 3 * DT__COUNT_OF(list));
        const bool given = pick > 0 && pick <= DT__COUNT_OF(list);
        scale[i] = given ? list[pick - 1] : 0.01f + 0.1f * fabsf(kernel_ordinary(r));
    }
    return scale;
}

/* Some codes of a scheme with levels, with edges about midway. */
static const dt__levels *levels_of(kernel_run *r)
{
    dt__levels *l = (dt__levels *)(void *)kernel_result(r, sizeof *l / sizeof(float));
    memset(l, 0, sizeof *l);
    l->n = 2 + kernel_pick(r, DT__MAX_LEVELS - 2);
    for (int i = 0, code = -128; i < l->n; i++) {
        code += 1 + (int)kernel_below(r, 3);
        l->code[i] = (int8_t)code;
        l->edge[i] = (float)code - 0.5f;
        l->edge[i + 1] = (float)code + 0.5f;
    }
    return l;
}

static dt__code_row row_of(kernel_run *r)
{
    dt__code_row row = { .n = kernel_size(r) };
    row.group = group_of(r, row.n);
    const int64_t groups = dt__ceil_div(row.n, row.group);
    const int bits = 8 - kernel_pick(r, 7);
    row.qmin = -(1 << (bits - 1));
    row.qmax = -row.qmin - 1;
    row.bias = kernel_chance(r) ? 128 : 0;
    row.scale = scales_of(r, groups);
    if (kernel_pick(r, 4) == 1) {
        row.levels = levels_of(r);
        row.qmin = row.levels->code[0];
        row.qmax = row.levels->code[row.levels->n - 1];
        return row;
    }
    row.half_up = kernel_pick(r, 4) == 1;
    if (row.half_up) {
        float *inverse = kernel_result(r, groups);
        for (int64_t g = 0; g < groups; g++) inverse[g] = 4 * kernel_ordinary(r);
        row.inverse = inverse;
    } else if (kernel_chance(r)) {
        int8_t *zero = (int8_t *)kernel_bytes(r, groups);
        for (int64_t g = 0; g < groups; g++) {
            zero[g] = (int8_t)(row.qmin + kernel_below(r, row.qmax - row.qmin + 1));
        }
        row.zero = zero;
    }
    return row;
}

/* Every fourth element lies midway between two codes. */
static void encode(kernel_run *r,
                   int64_t (*f)(const dt__code_row *, const float *, int8_t *, uint8_t *))
{
    const dt__code_row row = row_of(r);
    float *x = kernel_finite(r, row.n);
    for (int64_t i = 0; i < row.n; i += 4) {
        const float midway = (float)(kernel_below(r, 300) - 150) + 0.5f;
        x[i] = midway * row.scale[i / row.group];
        if (!isfinite(x[i])) x[i] = midway;
    }
    int8_t *codes = (int8_t *)kernel_result_bytes(r, row.n);
    uint8_t *bits = kernel_chance(r) ? kernel_result_bytes(r, dt__ceil_div(row.n, 8)) : NULL;
    int64_t clipped = -2;
    KERNEL_CALL(r, clipped = f(&row, x, codes, bits));
    kernel_returned(r, clipped);
}

static void decode(kernel_run *r, void (*f)(const dt__code_row *, const int8_t *, float *))
{
    const dt__code_row row = row_of(r);
    int8_t *codes = (int8_t *)kernel_bytes(r, row.n);
    for (int64_t i = 0; i < row.n; i++) {
        codes[i] = (int8_t)(row.qmin + kernel_below(r, row.qmax - row.qmin + 1) + row.bias);
    }
    float *y = kernel_result(r, row.n);
    KERNEL_CALL(r, f(&row, codes, y));
}

static void pass(kernel_run *r, void (*f)(int64_t, const uint8_t *, const float *, float *))
{
    const int64_t n = kernel_size(r);
    const uint8_t *bits = kernel_bytes(r, dt__ceil_div(n, 8));
    float *dy = kernel_floats(r, n), *dx = kernel_result_or(r, n, dy);
    KERNEL_CALL(r, f(n, bits, dy, dx));
}

/* ---- panels ---------------------------------------------------------------------------------- */

enum {
    RANDOM,
    SATURATING, /* every code qmin or qmax, against activations of 0 or 255 */
    POWERS,     /* scales are powers of two of many sizes: sums midway between floats */
    TINY,       /* the smallest normal scales: denormal sums */
    HOWS
};

static dt__panel_shape shape_of(kernel_run *r, int most_bits)
{
    static const int64_t rows[] = { 1, 5, 16, 31, 32, 33, 64, 70, 97, 130 };
    static const int64_t groups[] = { 8, 16, 32, 40, 64, 128, 256, INT64_MAX };
    const int bits = most_bits - kernel_pick(r, most_bits == 4 ? 3 : 4);
    if (r->round == KERNELS_TIMED) return (dt__panel_shape){ 256, 512, 32, bits, DT__SCALE_F32, 0 };
    const int64_t columns = r->round % 4 == 0 ? kernel_below(r, 1500) : kernel_below(r, 300);
    const int64_t experts = r->round % 3 == 0 ? 1 + kernel_below(r, 4) : 0;
    return (dt__panel_shape){ rows[kernel_pick(r, DT__COUNT_OF(rows))] * dt__max_i64(1, experts),
                              columns,
                              groups[kernel_pick(r, DT__COUNT_OF(groups))],
                              bits,
                              kernel_pick(r, 3),
                              experts };
}

static float scale_of(kernel_run *r, int dtype, int how)
{
    float scale = 0.001f + 0.02f * fabsf(kernel_ordinary(r));
    if (how == POWERS) scale = ldexpf(1, (int)kernel_below(r, 24) - 12);
    if (how == TINY) scale = ldexpf(1 + scale, dtype == DT__SCALE_F16 ? -14 : -126);
    if (kernel_below(r, 4) == 0) scale = -scale;
    uint32_t bits; /* representable in every dtype: few bits of fraction */
    memcpy(&bits, &scale, sizeof bits);
    if (dtype != DT__SCALE_F32) bits &= 0xffff0000u;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Panels of random codes, packed. */
static const void *panels_of(kernel_run *r, const dt__panel_layout *l, int how)
{
    const int64_t rows = l->rows, qmin = -(1 << (l->bits - 1));
    int8_t *codes = (int8_t *)kernel_bytes(r, rows * l->columns);
    float *scales = kernel_result(r, rows * l->groups);
    const int64_t extreme = kernel_chance(r) ? qmin : -qmin - 1;
    for (int64_t i = 0; i < rows * l->columns; i++) {
        codes[i] = (int8_t)(how == SATURATING ? extreme : qmin + kernel_below(r, -2 * qmin));
    }
    for (int64_t i = 0; i < rows * l->groups; i++) scales[i] = scale_of(r, l->scale_dtype, how);
    void *panels = kernel_block_of(r, KERNEL_BYTES, l->bytes, 64);
    dt__panel_pack(l, &(dt__code_matrix){ codes, l->columns, scales, l->groups }, panels);
    return panels;
}

static void activations_of(kernel_run *r, dt__qgemm *g, int how)
{
    const int64_t depth = g->layout->depth;
    g->ldu = depth + kernel_pick(r, 9);
    uint8_t *u = kernel_bytes(r, g->m == 0 ? 0 : (g->m - 1) * g->ldu + depth);
    for (int64_t i = 0; i < g->m * g->ldu - (g->ldu - depth) && how == SATURATING; i++) {
        u[i] = i / g->ldu % 2 == 0 ? 255 : 0;
    }
    float *sx = kernel_result(r, g->m), *bias = kernel_ordinaries(r, g->layout->rows);
    int32_t *zu = kernel_indices(r, g->m, 256, false);
    for (int64_t i = 0; i < g->m; i++) sx[i] = 0.001f + fabsf(kernel_ordinary(r));
    g->u = u;
    g->sx = sx;
    g->zu = zu;
    if (g->layout->pieces_per_group == 1 && kernel_below(r, 3) == 0) {
        const int64_t blocks = g->m * g->layout->groups;
        float *scale = kernel_result(r, blocks);
        for (int64_t i = 0; i < blocks; i++) scale[i] = 0.001f + fabsf(kernel_ordinary(r));
        g->block_scale = scale;
    }
    if (!kernel_chance(r)) g->bias = bias;
}

#define MOST_ROWS 300 /* of a product whose activations are near */

static void product(kernel_run *r, void (*f)(const dt__qgemm *), int most_bits)
{
    static const int64_t rows[] = { 32, 0,  1,  1,  2,  3,  4,  5,  7,  8,   9,        12,
                                    13, 16, 17, 24, 31, 33, 64, 65, 97, 257, MOST_ROWS };
    dt__panel_layout layout;
    const dt__panel_shape shape = shape_of(r, most_bits);
    TEST_EACH(dt__panel_layout_of(&shape, &layout), "a bad shape");
    const int how = r->round == KERNELS_TIMED ? RANDOM : r->round % HOWS;
    dt__qgemm g = { .layout = &layout, .m = rows[kernel_pick(r, DT__COUNT_OF(rows))] };
    /* Activations that are not in the second-level cache. */
    const bool large = layout.rows <= 64 && layout.depth >= 400 && kernel_below(r, 6) == 0;
    if (large && r->round != KERNELS_TIMED) g.m = DT__QGEMM_NEAR / layout.depth + MOST_ROWS;
    g.panels = panels_of(r, &layout, how);
    activations_of(r, &g, how);
    g.ldy = layout.rows + kernel_pick(r, 3);
    g.y = kernel_result_rows(r, g.m, layout.rows, g.ldy);
    int64_t place[MOST_ROWS];
    for (int64_t i = 0; i < g.m && i < MOST_ROWS; i++) place[i] = g.m - 1 - i;
    if (kernel_chance(r) && !large) g.place = place;
    KERNEL_CALL(r, f(&g));
}

static void nibble_product(kernel_run *r, void (*f)(const dt__qgemm *)) { product(r, f, 4); }
static void byte_product(kernel_run *r, void (*f)(const dt__qgemm *)) { product(r, f, 8); }

static void float_product(kernel_run *r, void (*f)(const dt__fgemm *), int most_bits)
{
    static const int64_t rows[] = { 1, 0, 2, 3, 4, 5, 6, 7, 8, 9 };
    dt__panel_layout layout;
    const dt__panel_shape shape = shape_of(r, most_bits);
    TEST_EACH(dt__panel_layout_of(&shape, &layout), "a bad shape");
    dt__fgemm g = { .layout = &layout, .m = rows[kernel_pick(r, DT__COUNT_OF(rows))] };
    g.panels = panels_of(r, &layout, RANDOM);
    g.ldx = layout.columns + kernel_pick(r, 3);
    g.x = kernel_ordinaries(r, g.m * g.ldx);
    g.ldy = layout.rows + kernel_pick(r, 3);
    g.y = kernel_result_rows(r, g.m, layout.rows, g.ldy);
    KERNEL_CALL(r, f(&g));
}

static void nibble_floats(kernel_run *r, void (*f)(const dt__fgemm *)) { float_product(r, f, 4); }
static void byte_floats(kernel_run *r, void (*f)(const dt__fgemm *)) { float_product(r, f, 8); }

/* The codes that a line reads end where the operand does. */
static void depthwise(kernel_run *r, void (*f)(const dt__qdepthwise *))
{
    const bool timed = r->round == KERNELS_TIMED;
    dt__qdepthwise d = { .n = timed ? 256 : kernel_below(r, 200), .groups = 1 };
    d.step = 1 + kernel_pick(r, DT__TAPS_STEP);
    if (!timed) d.groups += kernel_below(r, 4);
    const int64_t most = 300, round = dt__round_up(d.n, DT__DEPTHWISE_ROUND);
    const int64_t near = DT__TAPS_NEAR(d.step), last = dt__max_i64(0, round - 4) * d.step;
    int64_t words = 0;
    int32_t *length = kernel_indices(r, d.groups, timed ? 1 : 9, false);
    for (int64_t i = 0; i < d.groups; i++) words += length[i] += timed ? 3 : 0;
    dt__taps *word = kernel_block_of(r, KERNEL_BYTES, (size_t)words * sizeof *word, 4);
    for (int64_t i = 0; i < words; i++) {
        word[i].offset = (int32_t)kernel_below(r, most + 1);
        for (int k = 0; k < 4; k++) word[i].at[k] = (uint8_t)kernel_below(r, near + 1);
    }
    if (words > 0) word[words - 1].offset = (int32_t)most;
    d.length = length;
    d.word = word;
    d.u = kernel_bytes(r, last + most + DT__TAPS_READ);
    d.codes = (const int8_t(*)[4])kernel_bytes(r, 4 * words);
    d.scale = scales_of(r, d.groups);
    d.ksum = kernel_ordinary(r);
    d.zu = (float)kernel_below(r, 256);
    d.sx = 0.001f + fabsf(kernel_ordinary(r));
    const float *bias = kernel_ordinaries(r, 1);
    if (!kernel_chance(r)) d.bias = bias;
    float *y = kernel_result(r, round);
    d.y = y;
    KERNEL_CALL(r, f(&d));
    for (int64_t i = d.n; i < round; i++) y[i] = 0; /* not results */
}

/* A quad of up to four runs, or of neighbours of the quad before it. */
static void random_quad(kernel_run *r, const uint8_t *u, dt__gather_quad *q, bool beside)
{
    q->runs = 1;
    for (int k = 0; k < 4; k++) { /* the last run ends with the quad */
        if (k == 0 || (!beside && kernel_below(r, 4) == 0)) {
            q->from[k == 0 ? 0 : q->runs++] = u + 3 * 4 + kernel_below(r, 200);
        }
        q->past[q->runs - 1] = k + 1;
    }
    if (beside) q->from[0] = q[-1].from[0] + 4;
}

static void gather_codes(kernel_run *r, void (*f)(const dt__gathering *))
{
    dt__gathering g = { .words = 1 + kernel_below(r, 30), .blocks = 1 + kernel_below(r, 6) };
    if (r->round == KERNELS_TIMED) g.blocks = 6;
    g.step = kernel_pick(r, DT__TAPS_STEP + 1);
    const int64_t quads = 4 * g.blocks;
    const uint8_t *u = kernel_bytes(r, 700);
    dt__gather_quad *quad = kernel_block_of(r, KERNEL_BYTES, (size_t)quads * sizeof *quad, 8);
    const bool beside = g.step == 1 && kernel_chance(r);
    for (int64_t i = 0; i < quads; i++) random_quad(r, u, &quad[i], i % 4 != 0 && beside);
    int32_t *first = kernel_indices(r, g.words + 1, 1, false);
    first[0] = 0;
    for (int64_t i = 0; i < g.words; i++) first[i + 1] = first[i] + 1 + kernel_pick(r, 4);
    const int32_t parts = first[g.words];
    dt__taps *part = kernel_block_of(r, KERNEL_BYTES, (size_t)parts * sizeof *part, 4);
    for (int32_t i = 0; i < parts; i++) {
        part[i].offset = (int32_t)kernel_below(r, 400);
        for (int k = 0; k < 4; k++) {
            const int near = (int)kernel_below(r, DT__TAPS_NEAR(g.step) + 1);
            part[i].at[k] = (uint8_t)(kernel_chance(r) ? DT__GATHER_NONE : near);
        }
    }
    g.first = first;
    g.part = part;
    g.quad = quad;
    g.to = kernel_result_bytes(r, g.blocks * g.words * 4 * DT__BLOCK);
    KERNEL_CALL(r, f(&g));
    memset(quad, 0, (size_t)quads * sizeof *quad); /* addresses differ from run to run */
}

/* The codes of w by outputs. */
static void give_rows(kernel_run *r, dt__qtile *t, int64_t lanes)
{
    for (int64_t i = 0; i < t->pieces; i++) t->row += 4 * dt__round_up(t->length[i], t->fill);
    uint8_t *rows = kernel_bytes(r, lanes * t->row);
    memset(rows, 0, (size_t)(lanes * t->row));
    for (int64_t j = 0; j < lanes; j++) {
        const uint8_t *w = t->w + (j / DT__OCTET * t->words * DT__OCTET + j % DT__OCTET) * 4;
        uint8_t *to = rows + j * t->row;
        for (int64_t i = 0; i < t->pieces; i++) {
            for (int32_t k = 0; k < t->length[i]; k++, w += 4 * DT__OCTET) memcpy(to + 4 * k, w, 4);
            to += 4 * dt__round_up(t->length[i], t->fill);
        }
    }
    t->rows = rows;
}

static void tile(kernel_run *r, void (*f)(const dt__qtile *))
{
    dt__qtile t = { .nibbles = kernel_chance(r), .positions = 1 + kernel_below(r, 90) };
    t.outputs = 1 + kernel_below(r, 40);
    t.pieces = 1 + kernel_pick(r, 5);
    if (r->round == KERNELS_TIMED) {
        t = (dt__qtile){ .nibbles = true, .positions = 96, .outputs = 32, .pieces = 9 };
    }
    int32_t *length = kernel_indices(r, t.pieces, 1, false);
    for (int64_t i = 0; i < t.pieces; i++) {
        length[i] = r->round == KERNELS_TIMED ? 8 : (int32_t)kernel_below(r, 40);
        t.words += length[i];
    }
    t.length = length;
    const int64_t blocks = dt__ceil_div(t.positions, DT__BLOCK);
    const int64_t octets = dt__ceil_div(t.outputs, DT__OCTET), lanes = octets * DT__OCTET;
    t.fill = kernel_chance(r) ? 8 : 16;
    t.u = kernel_bytes(r, (blocks * t.words + t.fill) * 4 * DT__BLOCK);
    uint8_t *w = kernel_bytes(r, lanes * t.words * 4);
    for (int64_t i = 0; t.nibbles && i < lanes * t.words * 4; i++) {
        w[i] = (uint8_t)(((w[i] & 15) ^ 8) - 8);
    }
    t.w = w;
    if (r->round == KERNELS_TIMED || kernel_below(r, 4) > 0) give_rows(r, &t, lanes);
    t.scale = scales_of(r, lanes * t.pieces);
    int32_t *absent = kernel_indices(r, lanes * t.pieces, 1, false);
    for (int64_t i = 0; i < lanes * t.pieces; i++)
        absent[i] = (int32_t)kernel_below(r, 9999) - 5000;
    if (kernel_chance(r)) t.absent = absent;
    t.ksum = kernel_floats(r, lanes);
    if (kernel_chance(r)) t.bias = kernel_floats(r, t.outputs);
    t.sx = kernel_floats(r, blocks * DT__BLOCK);
    int32_t *zu = kernel_indices(r, blocks * DT__BLOCK, 256, false);
    float *zu_f = kernel_floats(r, blocks * DT__BLOCK);
    for (int64_t i = 0; i < blocks * DT__BLOCK; i++) zu_f[i] = (float)zu[i];
    t.zu = zu;
    t.zu_f = zu_f;
    t.ldy = t.positions + kernel_pick(r, 9);
    t.y = kernel_result_rows(r, t.outputs, t.positions, t.ldy);
    if (t.pieces == 1 && kernel_chance(r)) t.sums = (int32_t *)(void *)t.y;
    KERNEL_CALL(r, f(&t));
}

static void requantize(kernel_run *r, void (*f)(const dt__requantizing *))
{
    dt__requantizing q = { .n = 1 + kernel_below(r, 300), .zero = kernel_pick(r, 256) - 128 };
    q.by.m = (1 << 30) + (int32_t)kernel_below(r, (1 << 30) - 1);
    q.by.shift = kernel_pick(r, 36) - 31;
    const int32_t most = INT32_MAX >> (q.by.shift > 0 ? q.by.shift : 0);
    int32_t *sum = kernel_indices(r, q.n, 1, false);
    for (int64_t i = 0; i < q.n; i++) sum[i] = (int32_t)kernel_below(r, most) - most / 2;
    q.sum = sum;
    q.offset = (int32_t)kernel_below(r, most / 2) - most / 4;
    q.least = -128 + kernel_pick(r, 100);
    q.most = 127 - kernel_pick(r, 100);
    q.u = kernel_result_bytes(r, q.n);
    if (kernel_chance(r)) q.residual = (int8_t *)kernel_result_bytes(r, q.n);
    KERNEL_CALL(r, f(&q));
}

static void transpose(kernel_run *r, void (*f)(const dt__transpose *))
{
    dt__transpose t = { kernel_below(r, 100), kernel_below(r, 70), .ldx = 0 };
    if (r->round == KERNELS_TIMED) t = (dt__transpose){ 96, 32, .ldx = 0 };
    t.ldx = t.columns + kernel_pick(r, 9);
    t.ldy = t.rows + kernel_pick(r, 9);
    t.x = kernel_floats(r, t.rows * t.ldx);
    t.y = kernel_result_rows(r, t.columns, t.rows, t.ldy);
    KERNEL_CALL(r, f(&t));
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* An order of the columns of each `order_rows` rows: any columns, ascending within a group. */
static void order_columns(kernel_run *r, dt__panel_layout *l)
{
    const int64_t rows[] = { l->rows, 1, 2, 7, 32, 40 }, n = l->columns;
    l->order_rows = rows[kernel_pick(r, 6)];
    const int64_t orders = dt__ceil_div(l->rows, l->order_rows);
    int32_t *order = kernel_indices(r, orders * n, 1, false);
    for (int64_t i = 0; i < orders * n; i++) order[i] = (int32_t)(i % n);
    for (int64_t i = 0; i < orders * n; i++) { /* swaps within an order */
        int32_t *other = order + i / n * n + kernel_below(r, n);
        const int32_t swapped = *other;
        *other = order[i];
        order[i] = swapped;
    }
    for (int64_t i = 0; i < orders * l->groups; i++) {
        int32_t *first = order + i / l->groups * n + i % l->groups * l->group;
        const int64_t length = dt__min_i64(l->group, n - i % l->groups * l->group);
        qsort(first, (size_t)length, sizeof *first, by_number);
    }
    l->order = order;
}

static void expand(kernel_run *r, void (*f)(const dt__panel_tile *))
{
    dt__panel_layout layout;
    const dt__panel_shape shape = shape_of(r, kernel_chance(r) ? 8 : 4);
    TEST_EACH(dt__panel_layout_of(&shape, &layout), "a bad shape");
    const int64_t rows = layout.rows, columns = layout.columns;
    if (kernel_chance(r)) order_columns(r, &layout);
    dt__panel_tile t = { .layout = &layout, .panels = panels_of(r, &layout, RANDOM) };
    t.zero_step = kernel_chance(r) ? layout.groups : 0;
    const int8_t *zero = (const int8_t *)kernel_bytes(r, rows * layout.groups + 1);
    if (kernel_chance(r)) t.zero = zero;
    t.n0 = kernel_pick(r, (int)rows);
    t.k0 = kernel_pick(r, (int)columns + 1);
    t.n1 = rows - kernel_pick(r, (int)(rows - t.n0) + 1);
    t.k1 = columns - kernel_pick(r, (int)(columns - t.k0) + 1);
    t.ldy = t.k1 - t.k0 + kernel_pick(r, 3);
    t.y = kernel_result_rows(r, t.n1 - t.n0, t.k1 - t.k0, t.ldy);
    KERNEL_CALL(r, f(&t));
}

/* Schemes without a zero point; q4_0 has 4 bits only. */
static dt_quant_spec quant_of(kernel_run *r, const dt__panel_layout *l)
{
    static const int rules[] = { DT_SCHEME_SYMMETRIC, DT_SCHEME_SYMMETRIC_NO_CLIP, DT_SCHEME_Q4_0 };
    dt_quant_spec q = { .bits = l->bits, .granularity = DT_PER_GROUP, .group_size = l->group };
    q.scheme = rules[kernel_pick(r, l->bits == 4 && l->scale_dtype == DT__SCALE_F16 ? 3 : 2)];
    q.scale_dtype = l->scale_dtype;
    return q;
}

/* One panel; the others must not change. A refused panel is not compared. */
static void quantize_panel(kernel_run *r, int64_t (*f)(const dt__panel_source *, int64_t))
{
    dt__panel_layout l;
    const dt__panel_shape shape = shape_of(r, kernel_chance(r) ? 8 : 4);
    TEST_EACH(dt__panel_layout_of(&shape, &l), "a bad shape");
    const dt_quant_spec quant = quant_of(r, &l);
    const dt__coding coding = dt__coding_of(&quant);
    const int64_t n = l.rows * l.columns, panel = kernel_pick(r, (int)l.panels);
    float *x = r->round % 5 == 0 ? kernel_floats(r, n) : kernel_ordinaries(r, n);
    uint8_t *panels = kernel_block_of(r, KERNEL_BYTES, l.bytes, 64);
    const int64_t row = dt__ceil_div(l.columns, 8), first = dt__panel_row(&l, panel);
    const int64_t rows = dt__panel_lanes(&l, panel);
    uint8_t *bits = kernel_bytes(r, l.rows * row), *own = bits + first * row;
    const dt__panel_source s = { &l, x, &coding, panels, kernel_chance(r) ? bits : NULL };
    memset(panels, 0x77, l.bytes);
    memset(panels + (size_t)panel * l.panel_bytes, r->poison, l.panel_bytes);
    if (s.mask != NULL) memset(own, r->poison, (size_t)(rows * row));
    int64_t clipped = -2;
    KERNEL_CALL(r, clipped = f(&s, panel));
    if (clipped < 0) memset(panels + (size_t)panel * l.panel_bytes, 0, l.panel_bytes);
    if (clipped < 0 && s.mask != NULL) memset(own, 0, (size_t)(rows * row));
    kernel_returned(r, clipped);
}

#define INTEGER_CASES(CASE)                                                                        \
    CASE(range, range, 0)                                                                          \
    CASE(encode, encode, 0)                                                                        \
    CASE(decode, decode, 0)                                                                        \
    CASE(pass, pass, 0)                                                                            \
    CASE(qd8_qb4_gemm, nibble_product, 0)                                                          \
    CASE(qd8_qb8_gemm, byte_product, 0)                                                            \
    CASE(gather_codes, gather_codes, 0)                                                            \
    CASE(qd8_tile, tile, 0)                                                                        \
    CASE(qd8_depthwise, depthwise, 0)                                                              \
    CASE(requantize, requantize, 0)                                                                \
    CASE(transpose, transpose, 0)                                                                  \
    CASE(f32_qb4_gemm, nibble_floats, 0)                                                           \
    CASE(f32_qb8_gemm, byte_floats, 0)                                                             \
    CASE(quantize_panel, quantize_panel, 0)                                                        \
    CASE(expand, expand, 0)

INTEGER_CASES(KERNEL_CASE_FUNCTION)

const kernel_case kernel_cases_integer[] = { INTEGER_CASES(KERNEL_CASE_ENTRY){ NULL } };
