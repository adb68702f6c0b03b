/* Cases of the kernels of bf16 convolutions. Words and halves are rounded floats, as the kernels
 * make them. */
#include "kernels_run.h"

#include "kernels/products/bf16.h"

#include <stdlib.h>
#include <string.h>

static uint16_t half(kernel_run *r) { return dt__f32_to_bf16(dt__bf16_flushed(kernel_float(r))); }

/* n halves and `behind` more bytes, which may be read. */
static uint16_t *halves(kernel_run *r, int64_t n, int64_t behind)
{
    const int64_t all = n + behind / 2;
    uint16_t *x = kernel_block_of(r, KERNEL_BYTES, (size_t)all * sizeof *x, 4);
    for (int64_t i = 0; i < all; i++) x[i] = half(r);
    return x;
}

static uint32_t *words(kernel_run *r, int64_t n, int64_t behind)
{
    return (uint32_t *)(void *)halves(r, 2 * n, behind);
}

static void lines(kernel_run *r, void (*f)(const dt__bf16_lines *))
{
    const bool timed = r->round == KERNELS_TIMED;
    dt__bf16_lines l = { .outputs = 1 + kernel_below(r, 40), .words = kernel_below(r, 50) };
    l.n = 1 + kernel_below(r, 100);
    if (timed) l = (dt__bf16_lines){ .outputs = 32, .words = 144, .n = 256 };
    const int64_t reach = 1 + kernel_below(r, 200);
    l.w = words(r, l.outputs * l.words, 0);
    l.offset = kernel_indices(r, l.words, reach, false);
    l.x = words(r, reach - 1 + l.n, DT__BF16_BEHIND);
    l.ldy = l.n + kernel_pick(r, 3);
    l.y = kernel_result_rows(r, l.outputs, l.n, l.ldy);
    KERNEL_CALL(r, f(&l));
}

/* The same with weights tile by tile. */
static void tile_lines(kernel_run *r, void (*f)(const dt__bf16_lines *))
{
    const bool timed = r->round == KERNELS_TIMED;
    dt__bf16_lines l = { .outputs = 1 + kernel_below(r, 70), .words = kernel_below(r, 50) };
    if (kernel_pick(r, 5) == 1) l.words = 250 + kernel_below(r, 50);
    l.n = 1 + kernel_below(r, 100);
    if (timed) l = (dt__bf16_lines){ .outputs = 32, .words = 144, .n = 256 };
    const int64_t reach = 1 + kernel_below(r, 200);
    const int64_t held = dt__round_up(l.words, DT__BF16_TILE_SIDE);
    const int64_t rows = dt__round_up(l.outputs, DT__BF16_TILE_SIDE);
    uint32_t *w = words(r, rows * held, 0);
    for (int64_t o = 0; o < rows; o++) {
        for (int64_t p = 0; p < held; p++) {
            if (o >= l.outputs || p >= l.words) w[dt__bf16_tile_word(l.outputs, o, p)] = 0;
        }
    }
    l.w = w;
    l.offset = kernel_indices(r, l.words, reach, false);
    l.x = words(r, reach - 1 + l.n, DT__BF16_BEHIND);
    l.ldy = l.n + kernel_pick(r, 3);
    l.y = kernel_result_rows(r, l.outputs, l.n, l.ldy);
    KERNEL_CALL(r, f(&l));
}

static void sums(kernel_run *r, void (*f)(const dt__bf16_sums *))
{
    const bool timed = r->round == KERNELS_TIMED;
    dt__bf16_sums s = { .columns = 1 + kernel_below(r, 40), .rows = 1 + kernel_below(r, 9) };
    s.lanes = kernel_chance(r) ? 16 : 32;
    s.words = 1 + kernel_below(r, 9);
    if (kernel_pick(r, 4) == 1) s.words += kernel_below(r, 40);
    if (timed) s = (dt__bf16_sums){ .columns = 144, .rows = 16, .words = 8, .lanes = 32 };
    s.x_row = 2 * s.words + kernel_below(r, 5);
    const int64_t reach = 1 + kernel_below(r, 200);
    s.dy = words(r, s.rows * s.words * s.lanes, 0);
    s.offset = kernel_indices(r, s.columns, reach, false);
    s.x = halves(r, reach + s.rows * s.x_row + 2 * s.words, 0);
    s.dw = kernel_floats(r, s.columns * s.lanes);
    KERNEL_CALL(r, f(&s));
}

/* Rows, and in *held the number of elements of x that they span. */
static dt__bf16_rows rows(kernel_run *r, int64_t *held)
{
    dt__bf16_rows of = { .rows = kernel_below(r, 4), .n = dt__min_i64(kernel_size(r), 2000) };
    of.step = 1 + kernel_pick(r, 3);
    if (r->round == KERNELS_TIMED) of = (dt__bf16_rows){ .rows = 28, .n = 28, .step = 1 };
    const int64_t row = dt__max_i64(0, (of.n - 1) * of.step + 1);
    of.ldx = row + kernel_pick(r, 3);
    of.ldy = of.n + kernel_pick(r, 3);
    *held = of.rows > 0 ? (of.rows - 1) * of.ldx + row : 0;
    of.x = kernel_floats(r, *held);
    return of;
}

/* Results of rows; elements between them must not change. */
static void *results(kernel_run *r, const dt__bf16_rows *of, int64_t element)
{
    const int64_t n = of->rows > 0 ? (of->rows - 1) * of->ldy + of->n : 0;
    uint8_t *to = kernel_result_bytes(r, element * n);
    memset(to, 0, (size_t)(element * n));
    return to;
}

static void pairs(kernel_run *r, void (*f)(const dt__bf16_rows *, const float *, uint32_t *))
{
    int64_t n;
    const dt__bf16_rows of = rows(r, &n);
    const float *second = kernel_chance(r) ? NULL : kernel_floats(r, n);
    uint32_t *to = results(r, &of, 4);
    KERNEL_CALL(r, f(&of, second, to));
}

static void halved(kernel_run *r, void (*f)(const dt__bf16_rows *, uint16_t *))
{
    int64_t n;
    dt__bf16_rows of = rows(r, &n);
    if (kernel_chance(r)) of.halves = halves(r, n, 2);
    uint16_t *to = results(r, &of, 2);
    KERNEL_CALL(r, f(&of, to));
}

static void panel(kernel_run *r, void (*f)(const dt__bf16_panel *))
{
    dt__bf16_panel p = { .lanes = kernel_chance(r) ? 16 : 32, .n = 1 + kernel_below(r, 150) };
    p.rows = 1 + kernel_below(r, p.lanes);
    if (r->round == KERNELS_TIMED) p = (dt__bf16_panel){ .lanes = 32, .rows = 32, .n = 32 };
    p.ldx = p.n + kernel_pick(r, 3);
    p.x = kernel_floats(r, p.rows * p.ldx);
    p.to = (uint32_t *)(void *)kernel_result_bytes(r, (p.n + 1) / 2 * p.lanes * 4);
    KERNEL_CALL(r, f(&p));
}

#define CASES(CASE)                                                                                \
    CASE(bf16_lines, lines, 0)                                                                     \
    CASE(bf16_sums, sums, 0)                                                                       \
    CASE(tile_lines, tile_lines, 0)                                                                \
    CASE(tile_sums, sums, 0)                                                                       \
    CASE(bf16_pairs, pairs, 0)                                                                     \
    CASE(bf16_row, halved, 0)                                                                      \
    CASE(bf16_panel, panel, 0)

CASES(KERNEL_CASE_FUNCTION)
const kernel_case kernel_cases_bf16[] = { CASES(KERNEL_CASE_ENTRY){ 0 } };
