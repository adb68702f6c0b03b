/* Cases of the kernels of src/kernels/gradients/q7.h: codes of gradients, and their products. */
#include "kernels_run.h"

#include <math.h>

/* Values of which blocks are zero, tiny, or midway between codes now and then. */
static float *gradients(kernel_run *r, int64_t n)
{
    float *x = kernel_floats(r, n);
    const int how = kernel_pick(r, 4);
    for (int64_t i = 0; i < n && how == 1; i++) x[i] = 0;
    for (int64_t i = 0; i < n && how == 2; i++) x[i] *= 0x1p-140f;
    for (int64_t i = 1; i < n && how == 3; i++) x[i] = (float)kernel_below(r, 127) - 62.5f;
    if (n > 0 && how == 3) x[0] = 63;
    return x;
}

static void rows(kernel_run *r, void (*f)(const dt__q7_rows *))
{
    dt__q7_rows q = { .rows = kernel_extent(r, 64), .n = kernel_below(r, 300) };
    if (r->round == KERNELS_TIMED) q.rows = q.n = 256;
    q.ldx = q.n + kernel_pick(r, 3);
    q.x = gradients(r, q.rows * q.ldx);
    q.ld = dt__round_up(q.n, DT__Q7_WORD) + DT__Q7_WORD * kernel_pick(r, 2);
    q.codes = (int8_t *)kernel_result_bytes(r, q.rows * q.ld);
    q.bias = kernel_chance(r) ? 128 : 0;
    q.scale = kernel_result(r, q.rows);
    q.sum128 = (int32_t *)(void *)kernel_result(r, q.rows);
    KERNEL_CALL(r, f(&q));
}

static void columns(kernel_run *r, void (*f)(const dt__q7_columns *))
{
    dt__q7_columns q = { .rows = 1 + kernel_below(r, DT__Q7_BLOCK),
                         .n = 1 + kernel_below(r, DT__Q7_COLUMNS) };
    if (r->round == KERNELS_TIMED) q = (dt__q7_columns){ .rows = DT__Q7_BLOCK, .n = 64 };
    const int64_t words = dt__ceil_div(q.rows, DT__Q7_WORD);
    q.ldx = q.n + kernel_pick(r, 3);
    q.x = gradients(r, q.rows * q.ldx);
    q.factor = kernel_floats(r, q.rows);
    q.zero = kernel_indices(r, q.rows, 256, false);
    q.step = q.n * DT__Q7_WORD;
    q.codes = (int8_t *)kernel_result_bytes(r, words * q.step);
    q.scale = kernel_result(r, q.n);
    q.sum = (int32_t *)(void *)kernel_result(r, q.n);
    KERNEL_CALL(r, f(&q));
}

/* Words for columns that the last panel lacks are not written. */
static void words(kernel_run *r, void (*f)(const dt__q7_words *))
{
    dt__q7_words w = { .n = 1 + kernel_below(r, 400) };
    if (r->round == KERNELS_TIMED) w.n = 1024;
    for (int i = 0; i < DT__Q7_WORD; i++) w.row[i] = kernel_bytes(r, w.n);
    w.panel_step = (size_t)(DT__LANES * DT__Q7_WORD * (1 + kernel_pick(r, 3)));
    const int64_t last = (w.n - 1) / DT__LANES, lanes = w.n - last * DT__LANES;
    const int64_t bytes = last * (int64_t)w.panel_step + lanes * DT__Q7_WORD;
    w.to = kernel_block_of(r, KERNEL_BYTES, (size_t)bytes, 4);
    memset(w.to, 0x55, (size_t)bytes);
    KERNEL_CALL(r, f(&w));
}

enum { MOST_RUNS = 40 };

/* Runs of positions, some of whose words are incomplete; or one run that fills all words. */
static void some_runs(kernel_run *r, dt__q7_lines *q, dt__q7_span *run)
{
    const bool whole = kernel_chance(r) || r->round == KERNELS_TIMED;
    q->words = whole ? DT__Q7_BLOCK / DT__Q7_WORD : 0;
    q->runs = whole ? 1 : 1 + kernel_pick(r, MOST_RUNS);
    run[0] = (dt__q7_span){ .n = DT__Q7_BLOCK };
    for (int64_t i = 0, from = 0; i < q->runs && !whole; i++) {
        run[i] = (dt__q7_span){ from, q->words * DT__Q7_WORD, 1 + kernel_below(r, 12) };
        q->words += dt__ceil_div(run[i].n, DT__Q7_WORD);
        from += run[i].n;
    }
    q->run = run;
}

static void lines(kernel_run *r, void (*f)(const dt__q7_lines *))
{
    dt__q7_span run[MOST_RUNS];
    dt__q7_lines q = { .n = 1 + kernel_below(r, 40) };
    if (r->round == KERNELS_TIMED) q.n = 64;
    some_runs(r, &q, run);
    const int64_t positions = q.words * DT__Q7_WORD;
    q.ldx = run[q.runs - 1].from + run[q.runs - 1].n + kernel_pick(r, 3);
    q.x = gradients(r, q.n * q.ldx);
    q.factor = kernel_floats(r, positions);
    q.zero = kernel_indices(r, positions, 256, false);
    q.step = q.n * DT__Q7_WORD;
    q.codes = (int8_t *)kernel_result_bytes(r, q.words * q.step);
    q.scale = kernel_result(r, q.n);
    q.sum = (int32_t *)(void *)kernel_result(r, q.n);
    KERNEL_CALL(r, f(&q));
}

/* Words of an image that lie anywhere; in every third round the largest codes and bytes. */
static void taps(kernel_run *r, void (*f)(const dt__q7_taps *))
{
    enum { IMAGE = 3000, WORDS = DT__Q7_BLOCK };
    const bool timed = r->round == KERNELS_TIMED, largest = r->round % 3 == 1;
    dt__q7_taps t = { .words = kernel_below(r, WORDS + 1), .columns = 1 + kernel_below(r, 50) };
    t.outputs = DT__Q7_OUTPUTS * (1 + kernel_below(r, 5));
    if (timed) t = (dt__q7_taps){ .words = 32, .columns = 144, .outputs = 32 };
    uint8_t *image = kernel_bytes(r, IMAGE);
    for (int i = 0; i < IMAGE && largest; i++) image[i] = 255;
    const uint8_t *at[WORDS];
    for (int64_t i = 0; i < t.words; i++) at[i] = image + kernel_below(r, 1000);
    t.at = at;
    t.offset = kernel_indices(r, t.columns, IMAGE - 1000 - DT__Q7_WORD, false);
    t.step = t.outputs * DT__Q7_WORD;
    int8_t *codes = kernel_block_of(r, KERNEL_BYTES, (size_t)(t.words * t.step), 64);
    for (int64_t i = 0; i < t.words * t.step; i++) {
        codes[i] = (int8_t)(largest ? 63 : kernel_below(r, 127) - 63);
    }
    t.codes = codes;
    int32_t *minus = kernel_indices(r, t.outputs, 1 << 20, false);
    for (int64_t i = 0; i < t.outputs; i += 2) minus[i] = -minus[i];
    t.minus = minus;
    t.scale = kernel_finite(r, t.outputs);
    t.ldc = t.outputs;
    t.c = kernel_block_of(r, KERNEL_F32, (size_t)(t.columns * t.ldc) * sizeof(float), 64);
    for (int64_t i = 0; i < t.columns * t.ldc; i++) t.c[i] = (float)(i % 97) - 40;
    KERNEL_CALL(r, f(&t));
}

static void lane_most(kernel_run *r, void (*f)(const dt__q7_lanes *))
{
    dt__q7_lanes l = { .n = kernel_below(r, 200) };
    if (r->round == KERNELS_TIMED) l.n = 512;
    l.w = kernel_finite(r, l.n * DT__LANES);
    l.most = kernel_indices(r, DT__LANES, 3, false);
    KERNEL_CALL(r, f(&l));
}

static void lane_codes(kernel_run *r, void (*f)(const dt__q7_lanes *))
{
    dt__q7_lanes l = { .n = kernel_below(r, 200) };
    if (r->round == KERNELS_TIMED) l.n = 512;
    float *w = gradients(r, l.n * DT__LANES), *inverse = kernel_ordinaries(r, DT__LANES);
    for (int i = 0; i < DT__LANES; i++) inverse[i] = kernel_chance(r) ? 1 : inverse[i];
    l.w = w;
    l.inverse = inverse;
    l.panel = kernel_block_of(r, KERNEL_BYTES, dt__q7_panel(l.n), 64);
    KERNEL_CALL(r, f(&l));
}

/* Codes of 7 bits against bytes; in every third round the largest of both. */
static void product(kernel_run *r, void (*f)(const dt__q7_product *))
{
    const bool timed = r->round == KERNELS_TIMED, largest = r->round % 3 == 1;
    const int64_t rows = 1 + kernel_below(r, kernel_chance(r) ? 100 : 30);
    dt__q7_product p = { .rows = rows, .columns = 1 + kernel_below(r, 100) };
    p.depth = DT__Q7_WORD * kernel_below(r, r->round % 5 == 0 ? 400 : 40);
    if (timed) p = (dt__q7_product){ .rows = 96, .columns = 256, .depth = 256 };
    const int64_t panels = dt__ceil_div(p.columns, DT__LANES), a = p.rows * p.depth;
    int8_t *codes = (int8_t *)kernel_bytes(r, a);
    for (int64_t i = 0; i < a; i++) {
        codes[i] = (int8_t)(largest ? 63 : kernel_below(r, 127) - 63);
    }
    p.a = codes;
    const bool by_words = kernel_chance(r);
    p.row_step = by_words ? DT__Q7_WORD : p.depth;
    p.word_step = by_words ? DT__Q7_WORD * p.rows : DT__Q7_WORD;
    p.panel_step = dt__q7_panel(p.depth);
    uint8_t *u = kernel_block_of(r, KERNEL_BYTES, (size_t)panels * p.panel_step, 64);
    for (size_t i = 0; i < (size_t)panels * p.panel_step; i++) {
        u[i] = largest ? 255 : (uint8_t)kernel_below(r, 256);
    }
    p.panels = u;
    int32_t *minus = kernel_indices(r, p.rows, 1 << 20, false);
    for (int64_t i = 0; i < p.rows; i += 2) minus[i] = -minus[i];
    p.minus = minus;
    p.row = kernel_finite(r, p.rows);
    const float *lane = kernel_finite(r, panels * DT__LANES);
    if (!kernel_chance(r)) p.lane = lane;
    p.add = kernel_chance(r);
    p.ldc = p.columns + kernel_pick(r, 3);
    p.c = kernel_result_rows(r, p.rows, p.columns, p.ldc);
    for (int64_t i = 0; i < p.rows * p.columns && p.add; i++) {
        p.c[i / p.columns * p.ldc + i % p.columns] = (float)(i % 97) - 40;
    }
    KERNEL_CALL(r, f(&p));
}

#define GRADIENT_CASES(CASE)                                                                       \
    CASE(q7_gemm, product, 0)                                                                      \
    CASE(q7_rows, rows, 0)                                                                         \
    CASE(q7_columns, columns, 0)                                                                   \
    CASE(q7_words, words, 0)                                                                       \
    CASE(q7_lines, lines, 0)                                                                       \
    CASE(q7_taps, taps, 0)                                                                         \
    CASE(q7_lane_most, lane_most, 0)                                                               \
    CASE(q7_lane_codes, lane_codes, 0)

GRADIENT_CASES(KERNEL_CASE_FUNCTION)

const kernel_case kernel_cases_gradients[] = { GRADIENT_CASES(KERNEL_CASE_ENTRY){ NULL } };
