/* Products of bf16 with matrix tiles (AMX-BF16): plain_gemm.inc with 32 x 32 sums in four
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
    for (int64_t p = 0; p < depth; p += DT__BF16_TILE, x += DT__BF16_TILE) {
        const int64_t terms = dt__min_i64(depth - p, DT__BF16_TILE);
        if (n < step || terms <= PAIRS) memset(y, 0, (size_t)(step * PAIRS) * sizeof *y);
        for (int64_t i = 0; i < n; i++) pair_row(terms, x + i * ldx, y + i * PAIRS);
        y += step * PAIRS;
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

/* The sums of a strip and a panel begin with c, or with zeros. */
DT__INLINE void begin_sums(dt__tiles *t, bool add, bool both, const float *c, int64_t ldc)
{
    const int64_t bytes = ldc * (int64_t)sizeof *c;
    (void)t;
    if (!add) {
        DT__TILE_ZERO(t, 0);
        DT__TILE_ZERO(t, 1);
        DT__TILE_ZERO(t, 2);
        DT__TILE_ZERO(t, 3);
        return;
    }
    DT__TILE_LOAD(t, 0, c, bytes);
    DT__TILE_LOAD(t, 1, c + ROWS, bytes);
    if (!both) return;
    DT__TILE_LOAD(t, 2, c + ROWS * ldc, bytes);
    DT__TILE_LOAD(t, 3, c + ROWS * ldc + ROWS, bytes);
}

DT__INLINE void end_sums(dt__tiles *t, bool both, float *c, int64_t ldc)
{
    const int64_t bytes = ldc * (int64_t)sizeof *c;
    (void)t;
    DT__TILE_STORE(t, 0, c, bytes);
    DT__TILE_STORE(t, 1, c + ROWS, bytes);
    if (!both) return;
    DT__TILE_STORE(t, 2, c + ROWS * ldc, bytes);
    DT__TILE_STORE(t, 3, c + ROWS * ldc + ROWS, bytes);
}

/* Adds all terms of a strip, of 16 rows or of both halves, and a panel. */
DT__INLINE void add_terms(dt__tiles *t, bool both, const gemm_strip *s, const float *b)
{
    const int64_t of_a = PAIRS * sizeof(float), of_b = DT__GEMM_PANEL * sizeof(float);
    const float *a = s->a;
    (void)t;
    for (int64_t p = 0; p < s->depth; p += PAIRS) {
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
        a += (both ? 2 : 1) * ROWS * PAIRS;
        b += PAIRS * DT__GEMM_PANEL;
    }
}

static void multiply_panel(const gemm_strip *s, const float *b, bool add, float *c, int64_t ldc)
{
    dt__tiles *const t = s->state;
    if (s->rows > ROWS) {
        begin_sums(t, add, true, c, ldc);
        add_terms(t, true, s, b);
        end_sums(t, true, c, ldc);
    } else {
        begin_sums(t, add, false, c, ldc);
        add_terms(t, false, s, b);
        end_sums(t, false, c, ldc);
    }
}

/* Rows that fill no tiles go through a block of c that does. */
static void gemm_multiply(const gemm_strip *s, int64_t columns)
{
    _Alignas(64) float block[GEMM_STRIP][DT__GEMM_PANEL];
    const bool whole = s->rows % ROWS == 0;
    for (int64_t j = 0; j < columns; j += DT__GEMM_PANEL) {
        const float *b = s->b + j / DT__GEMM_PANEL * s->next;
        float *c = s->c + j;
        if (whole) {
            multiply_panel(s, b, s->add, c, s->ldc);
            continue;
        }
        for (int64_t i = 0; s->add && i < s->rows; i++) {
            memcpy(block[i], c + i * s->ldc, sizeof block[i]);
        }
        multiply_panel(s, b, s->add, block[0], DT__GEMM_PANEL);
        for (int64_t i = 0; i < s->rows; i++) {
            memcpy(c + i * s->ldc, block[i], sizeof block[i]);
        }
    }
}

static bool gemm_transposed(const gemm_part *t)
{
    (void)t;
    return false;
}
#endif
