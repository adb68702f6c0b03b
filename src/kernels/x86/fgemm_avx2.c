/* A few rows of floats times packed codes with AVX2. Lanes are outputs; shifts to the top of the
 * lane and back sign-extend codes; a vector of codes is multiplied with up to four rows. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

#define VECTORS 4 /* of a panel */
#define MOST_ROWS 4

/* A tile: rows, vectors, and 4 or 8 bits per code; all compile-time constants. */
typedef struct tile {
    int rows, columns, bits;
} tile;

typedef __m256 chains[2][VECTORS];

/* Column `at` of a step, 0 ... 7, as floats. */
DT__INLINE __m256 codes_at(int bits, const uint8_t *step, int v, int at)
{
    const int half = at / 4, i = at % 4;
    const uint8_t *from =
        bits == 4 ? step + 32 * v : step + 128 * (v / 2) + 64 * half + 32 * (v % 2);
    const __m256i packed = _mm256_load_si256((const __m256i *)(const void *)from);
    const int above = bits == 4 ? 28 - 8 * i - 4 * half : 24 - 8 * i;
    const __m256i top = above == 0 ? packed : _mm256_slli_epi32(packed, above);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 32 - bits));
}

DT__INLINE void multiply_step(tile t, const uint8_t *step, int v0, const float *x, int64_t ldx,
                              chains *part)
{
    DT__UNROLL
    for (int at = 0; at < 8; at++) {
        DT__UNROLL
        for (int v = 0; v < t.columns; v++) {
            const __m256 codes = codes_at(t.bits, step, v0 + v, at);
            DT__UNROLL
            for (int r = 0; r < t.rows; r++) {
                const __m256 by = _mm256_set1_ps(x[r * ldx + at]);
                part[r][at / 4][v] = _mm256_fmadd_ps(by, codes, part[r][at / 4][v]);
            }
        }
    }
}

DT__INLINE __m256 load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return _mm256_load_ps((const float *)(const void *)from + 8 * v);
    const __m128i half = _mm_load_si128((const __m128i *)(const void *)from + v);
    if (dtype == DT__SCALE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* Adds a piece of n columns, whose codes begin at `codes`. */
DT__INLINE void add_piece(tile t, const dt__fgemm *g, const uint8_t *codes, int64_t n, int v0,
                          const float *x, __m256 acc[MOST_ROWS][VECTORS])
{
    const size_t step_bytes = g->layout->step_bytes;
    chains part[MOST_ROWS];
    DT__UNROLL
    for (int r = 0; r < t.rows; r++) {
        DT__UNROLL
        for (int v = 0; v < t.columns; v++) part[r][0][v] = part[r][1][v] = _mm256_setzero_ps();
    }
    for (; n >= DT__STEP; n -= DT__STEP, x += DT__STEP, codes += step_bytes) {
        multiply_step(t, codes, v0, x, g->ldx, part);
    }
    if (n > 0) { /* padding adds 0, which changes no sum, as none is -0 */
        float last[MOST_ROWS][DT__STEP] = { 0 };
        for (int r = 0; r < t.rows; r++) memcpy(last[r], x + r * g->ldx, (size_t)n * sizeof *x);
        multiply_step(t, codes, v0, last[0], DT__STEP, part);
        codes += step_bytes;
    }
    DT__UNROLL
    for (int v = 0; v < t.columns; v++) {
        const __m256 scale = load_scales(g->layout->scale_dtype, codes, v0 + v);
        DT__UNROLL
        for (int r = 0; r < t.rows; r++) {
            acc[r][v] =
                _mm256_fmadd_ps(_mm256_add_ps(part[r][0][v], part[r][1][v]), scale, acc[r][v]);
        }
    }
}

/* Multiplies the tile's rows, from m on, with a panel, into sum[row][lane]. */
DT__INLINE void run_tile(tile t, const dt__fgemm *g, const uint8_t *panel, const float *x,
                         float sum[MOST_ROWS][DT__LANES])
{
    const dt__panel_layout *l = g->layout;
    for (int v0 = 0; v0 < VECTORS; v0 += t.columns) {
        __m256 acc[MOST_ROWS][VECTORS];
        memset(acc, 0, sizeof acc);
        const uint8_t *codes = panel + DT__LANES * sizeof(float);
        int64_t end = l->group; /* of the group */
        for (int64_t k = 0; k < l->columns;) {
            end = dt__min_i64(end, l->columns);
            const int64_t n = dt__min_i64(DT__PIECE, end - k);
            add_piece(t, g, codes, n, v0, x + k, acc);
            codes += (size_t)((n + DT__STEP - 1) / DT__STEP) * l->step_bytes + l->scale_bytes;
            k += n;
            if (k == end) end += l->group;
        }
        for (int r = 0; r < t.rows; r++) {
            for (int v = 0; v < t.columns; v++) _mm256_store_ps(&sum[r][8 * (v0 + v)], acc[r][v]);
        }
    }
}

typedef void run_rows(const dt__fgemm *g, const uint8_t *panel, const float *x,
                      float sum[MOST_ROWS][DT__LANES]);

#define TILE(bits, rows, columns)                                                                  \
    static void tile_##bits##_##rows(const dt__fgemm *g, const uint8_t *panel, const float *x,     \
                                     float sum[MOST_ROWS][DT__LANES])                              \
    {                                                                                              \
        run_tile((tile){ rows, columns, bits }, g, panel, x, sum);                                 \
    }
TILE(4, 1, 4)
TILE(4, 2, 2)
TILE(4, 3, 1)
TILE(4, 4, 1)
TILE(8, 1, 4)
TILE(8, 2, 2)
TILE(8, 3, 1)
TILE(8, 4, 1)

static void run_panel(const dt__fgemm *g, int64_t panel, run_rows *const tiles[MOST_ROWS])
{
    _Alignas(32) float sum[MOST_ROWS][DT__LANES];
    const uint8_t *from = (const uint8_t *)g->panels + (size_t)panel * g->layout->panel_bytes;
    const int64_t n0 = dt__panel_row(g->layout, panel);
    const int lanes = dt__panel_lanes(g->layout, panel);
    for (int64_t m = 0; m < g->m; m += MOST_ROWS) {
        const int64_t rows = dt__min_i64(MOST_ROWS, g->m - m);
        tiles[rows - 1](g, from, g->x + m * g->ldx, sum);
        for (int64_t r = 0; r < rows; r++) {
            memcpy(g->y + (m + r) * g->ldy + n0, sum[r], (size_t)lanes * sizeof(float));
        }
    }
}

typedef struct run_args {
    const dt__fgemm *g;
    run_rows *const *tiles;
} run_args;

static void run_share(const void *args, const dt__share *share)
{
    const run_args *all = args;
    const dt__fgemm *g = all->g;
    run_rows *const *tiles = all->tiles;
    for (int64_t i = share->first; i < share->past; i++) {
        int64_t panel = i;
        const dt__fgemm *of = dt__fgemm_at(g, &panel);
        run_panel(of, panel, tiles);
    }
}

static void run(const dt__fgemm *g, run_rows *const tiles[MOST_ROWS])
{
    const int64_t panels = dt__fgemm_panels(g);
    const int64_t work = DT__LANES * g->layout->depth * g->m / DT__FLOAT_PRODUCTS;
    const run_args args = { g, tiles };
    dt__parallel(panels, g->alone ? 0 : work, run_share, &args);
}

void dt__f32_qb4_gemm__avx2(const dt__fgemm *g)
{
    run(g, (run_rows *const[]){ tile_4_1, tile_4_2, tile_4_3, tile_4_4 });
}

void dt__f32_qb8_gemm__avx2(const dt__fgemm *g)
{
    run(g, (run_rows *const[]){ tile_8_1, tile_8_2, tile_8_3, tile_8_4 });
}
#endif
