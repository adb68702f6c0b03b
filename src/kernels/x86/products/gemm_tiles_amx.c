/* Products of bf16 with matrix tiles (AMX-BF16): plain_gemm.inc with 32 x 32 sums.
 * A packed element is a pair of terms. A strip of a is packed tile by tile, of 32 terms each:
 *     [terms / 32][rows, rounded up to 16][16 pairs]
 * Rows behind the last one are zeros. A panel of b has tiles of 16 pairs by 16 of its columns. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/amx.h"

#define REAL float
#define KERNEL(name) dt__##name##_tiles__amx
#define GEMM_TILES
#define GEMM_STRIP 32
#define GEMM_FEW 0
#define GEMM_BLOCK DT__BF16_TILE
#define GEMM_PACKED(terms) (dt__round_up(terms, DT__BF16_TILE) / 2)
#include "kernels/plain/plain_gemm.inc"
#include "kernels/x86/bf16_vectors.inc"
#include "kernels/x86/products/gemm_pairs.inc"

#define PAIRS (DT__BF16_TILE / 2)
#define ROWS DT__TILE_ROWS

static void gemm_strip_rows(int64_t n, int64_t depth, const float *x, int64_t ldx, int64_t step,
                            float *y)
{
    if (n < step || depth % DT__BF16_TILE != 0) {
        memset(y, 0, (size_t)(step * GEMM_PACKED(depth)) * sizeof *y);
    }
    for (int64_t i = 0; i < n; i++, x += ldx, y += PAIRS) {
        for (int64_t p = 0; p < depth; p += DT__BF16_TILE) {
            pair_row(dt__min_i64(depth - p, DT__BF16_TILE), x + p, y + p / 2 * step);
        }
    }
}

static void gemm_strip_columns(int64_t n, int64_t depth, const float *x, int64_t ldx, int64_t step,
                               float *y)
{
    for (int64_t p = 0; p < depth; p += DT__BF16_TILE, x += DT__BF16_TILE * ldx) {
        float pairs[PAIRS][GEMM_STRIP];
        const int64_t terms = dt__min_i64(depth - p, DT__BF16_TILE);
        if (n < step || terms < DT__BF16_TILE) memset(pairs, 0, sizeof pairs);
        gemm_pack_columns(n, terms, x, ldx, GEMM_STRIP, pairs[0]);
        pack_pairs(PAIRS, step, pairs[0], GEMM_STRIP, PAIRS, y);
        y += step * PAIRS;
    }
}

static int64_t gemm_width(int64_t rows)
{
    (void)rows;
    return DT__GEMM_WIDTH;
}

/* Sums of a strip, of up to 4 panels: rows an odd number of cache lines apart. */
typedef float sum_block[GEMM_STRIP][DT__GEMM_WIDTH * DT__GEMM_PANEL + 16];

/* Sums of a strip and a panel, and where a part of their terms finds and leaves them. */
typedef struct corner {
    const float *from, *a, *b; /* from NULL: zeros */
    float *to;
    int64_t ld_from, ld_to, depth;
    bool both; /* more than 16 rows */
    bool away; /* `to` is in no near cache: it is fetched while terms are added */
} corner;

/* Rows r ... past-1 of a corner, two cache lines each. */
DT__INLINE void fetch_rows(const float *c, int64_t ldc, int64_t r, int64_t past)
{
    for (; r < past; r++) {
        _mm_prefetch((const char *)(c + r * ldc), _MM_HINT_T1);
        _mm_prefetch((const char *)(c + r * ldc + ROWS), _MM_HINT_T1);
    }
}

DT__INLINE void begin_sums(dt__tiles *t, bool both, const corner *c)
{
    const int64_t bytes = c->ld_from * (int64_t)sizeof *c->from;
    (void)t;
    if (c->from == NULL) {
        DT__TILE_ZERO(t, 0);
        DT__TILE_ZERO(t, 1);
        DT__TILE_ZERO(t, 2);
        DT__TILE_ZERO(t, 3);
        return;
    }
    DT__TILE_LOAD(t, 0, c->from, bytes);
    DT__TILE_LOAD(t, 1, c->from + ROWS, bytes);
    if (!both) return;
    DT__TILE_LOAD(t, 2, c->from + ROWS * c->ld_from, bytes);
    DT__TILE_LOAD(t, 3, c->from + ROWS * c->ld_from + ROWS, bytes);
}

DT__INLINE void end_sums(dt__tiles *t, bool both, const corner *c)
{
    const int64_t bytes = c->ld_to * (int64_t)sizeof *c->to;
    (void)t;
    DT__TILE_STORE(t, 0, c->to, bytes);
    DT__TILE_STORE(t, 1, c->to + ROWS, bytes);
    if (!both) return;
    DT__TILE_STORE(t, 2, c->to + ROWS * c->ld_to, bytes);
    DT__TILE_STORE(t, 3, c->to + ROWS * c->ld_to + ROWS, bytes);
}

/* Adds terms of a strip, of 16 rows or of both halves, and a panel. */
DT__INLINE void add_terms(dt__tiles *t, bool both, const corner *c)
{
    const int64_t of_a = PAIRS * sizeof(float), of_b = DT__GEMM_PANEL * sizeof(float);
    const float *a = c->a, *b = c->b;
    const int64_t rows = both ? GEMM_STRIP : ROWS, steps = c->depth / PAIRS;
    const int64_t fetched = c->away ? dt__ceil_div(rows, steps) : 0;
    int64_t row = 0;
    (void)t;
    for (int64_t p = 0; p < c->depth; p += PAIRS) {
        DT__TILE_LOAD(t, 4, a, of_a);
        DT__TILE_LOAD(t, 6, b, of_b);
        DT__TILE_LOAD(t, 7, b + ROWS, of_b);
        DT__TILE_MULTIPLY_BF16(t, 0, 4, 6);
        DT__TILE_MULTIPLY_BF16(t, 1, 4, 7);
        if (both) {
            DT__TILE_LOAD(t, 5, a + ROWS * PAIRS, of_a);
            DT__TILE_MULTIPLY_BF16(t, 2, 5, 6);
            DT__TILE_MULTIPLY_BF16(t, 3, 5, 7);
        }
        fetch_rows(c->to, c->ld_to, row, dt__min_i64(row + fetched, rows));
        row += fetched;
        a += rows * PAIRS;
        b += PAIRS * DT__GEMM_PANEL;
    }
}

static void add_corner(dt__tiles *t, const corner *c)
{
    if (c->both) {
        begin_sums(t, true, c);
        add_terms(t, true, c);
        end_sums(t, true, c);
    } else {
        begin_sums(t, false, c);
        add_terms(t, false, c);
        end_sums(t, false, c);
    }
}

/* Copies n columns of rows. */
static void copy_rows(int64_t rows, int64_t n, const float *from, int64_t ld_from, float *to,
                      int64_t ld_to)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(to + i * ld_to, from + i * ld_from, (size_t)n * sizeof *to);
    }
}

#define PIECE 128 /* pairs of a strip, and of a panel, that the first cache holds at once */

/* Up to 4 panels from column j on, piece by piece of their terms. Between two pieces sums are in a
 * block; so are those of rows that fill no tiles. */
static void multiply_panels(const gemm_strip *s, int64_t j, int64_t columns)
{
    _Alignas(64) sum_block block;
    const int64_t ld = DT__COUNT_OF(block[0]);
    const bool whole = s->rows % ROWS == 0;
    if (s->add && !whole) copy_rows(s->rows, columns, s->c + j, s->ldc, block[0], ld);
    for (int64_t p = 0; p < s->depth; p += PIECE) {
        const bool first = p == 0, last = p + PIECE >= s->depth;
        corner c = { .a = s->a + p * GEMM_ROOM(s->rows),
                     .depth = dt__min_i64(PIECE, s->depth - p),
                     .both = s->rows > ROWS };
        for (int64_t k = 0; k < columns; k += DT__GEMM_PANEL) {
            float *const at = s->c + j + k, *const held = block[0] + k;
            c.b = s->b + (j + k) / DT__GEMM_PANEL * s->next + p * DT__GEMM_PANEL;
            c.from = !first || !whole ? held : at;
            c.ld_from = !first || !whole ? ld : s->ldc;
            if (first && !s->add) c.from = NULL;
            c.to = last && whole ? at : held;
            c.ld_to = last && whole ? s->ldc : ld;
            c.away = last && whole;
            add_corner(s->state, &c);
        }
    }
    if (!whole) copy_rows(s->rows, columns, block[0], ld, s->c + j, s->ldc);
}

static void gemm_multiply(const gemm_strip *s, int64_t columns)
{
    const int64_t most = DT__GEMM_WIDTH * DT__GEMM_PANEL;
    for (int64_t j = 0; j < columns; j += most) {
        multiply_panels(s, j, dt__min_i64(most, columns - j));
    }
}

static bool gemm_transposed(const gemm_part *t)
{
    (void)t;
    return false;
}
#endif
