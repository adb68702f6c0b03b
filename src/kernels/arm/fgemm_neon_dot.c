/* A few rows of floats times packed codes on AArch64. A shuffle moves a code to the top of its
 * lane, with zeros below; the conversion to float divides by the power of two that this multiplied
 * by, which is exact. A vector of codes is made floats once and multiplied with up to four rows. */
#if defined DETENT_SIMD && defined __aarch64__
#include "core/threads.h"
#include "kernels/arm/neon.h"
#include "kernels/sets.h"

#include <string.h>

#define VECTORS 8 /* of a panel */
#define MOST_ROWS 4
#define PRODUCTS 4 /* multiply-adds in the time of a unit of dt__parallel's work */

typedef float32x4_t floats;

/* Byte i of each lane at the lane's top. */
DT__INLINE int32x4_t to_top(uint8x16_t bytes, int i)
{
    const uint32x4_t first = { 0x00ffffff, 0x04ffffff, 0x08ffffff, 0x0cffffff };
    const uint32x4_t index = vaddq_u32(first, vdupq_n_u32((uint32_t)i << 24));
    return vreinterpretq_s32_u8(vqtbl1q_u8(bytes, vreinterpretq_u8_u32(index)));
}

DT__INLINE floats codes_at(int bits, const uint8_t *step, int v, int at)
{
    const int half = at / 4, i = at % 4;
    if (bits == 8) {
        const uint8x16_t bytes = vld1q_u8(step + 128 * (v / 4) + 64 * half + 16 * (v % 4));
        return vcvtq_n_f32_s32(to_top(bytes, i), 24);
    }
    const uint8x16_t packed = vld1q_u8(step + 16 * v);
    const uint8x16_t high = half == 0 ? vshlq_n_u8(packed, 4) : vandq_u8(packed, vdupq_n_u8(0xf0));
    return vcvtq_n_f32_s32(to_top(high, i), 28);
}

DT__INLINE floats load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return vld1q_f32((const float *)(const void *)from + 4 * v);
    const uint16x4_t half = vld1_u16((const uint16_t *)(const void *)from + 4 * v);
    if (dtype == DT__SCALE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* A tile: rows, vectors, and 4 or 8 bits per code; all compile-time constants. */
typedef struct tile {
    int rows, columns, bits;
} tile;

typedef floats chains[2][VECTORS];

DT__INLINE void multiply_step(tile t, const uint8_t *step, int v0, const float *x, int64_t ldx,
                              chains *part)
{
    DT__UNROLL
    for (int at = 0; at < 8; at++) {
        DT__UNROLL
        for (int v = 0; v < t.columns; v++) {
            const floats codes = codes_at(t.bits, step, v0 + v, at);
            DT__UNROLL
            for (int r = 0; r < t.rows; r++) {
                floats *sum = &part[r][at / 4][v];
                *sum = vfmaq_n_f32(*sum, codes, x[r * ldx + at]);
            }
        }
    }
}

/* Adds a piece of n columns, whose codes begin at `codes`. */
DT__INLINE void add_piece(tile t, const dt__fgemm *g, const uint8_t *codes, int64_t n, int v0,
                          const float *x, floats acc[MOST_ROWS][VECTORS])
{
    const size_t step_bytes = g->layout->step_bytes;
    chains part[MOST_ROWS];
    DT__UNROLL
    for (int r = 0; r < t.rows; r++) {
        DT__UNROLL
        for (int v = 0; v < t.columns; v++) part[r][0][v] = part[r][1][v] = vdupq_n_f32(0);
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
        const floats scale = load_scales(g->layout->scale_dtype, codes, v0 + v);
        DT__UNROLL
        for (int r = 0; r < t.rows; r++) {
            acc[r][v] = vfmaq_f32(acc[r][v], vaddq_f32(part[r][0][v], part[r][1][v]), scale);
        }
    }
}

/* Multiplies the tile's rows, from m on, with a panel, into sum[row][lane]. */
DT__INLINE void run_tile(tile t, const dt__fgemm *g, const uint8_t *panel, const float *x,
                         float sum[MOST_ROWS][DT__LANES])
{
    const dt__panel_layout *l = g->layout;
    for (int v0 = 0; v0 < VECTORS; v0 += t.columns) {
        floats acc[MOST_ROWS][VECTORS];
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
            for (int v = 0; v < t.columns; v++) {
                vst1q_f32(&sum[r][4 * (v0 + v)], acc[r][v]);
            }
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
TILE(4, 3, 2)
TILE(4, 4, 2)
TILE(8, 1, 4)
TILE(8, 2, 2)
TILE(8, 3, 2)
TILE(8, 4, 2)

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
    for (int64_t i = share->first; i < share->past; i++) {
        int64_t panel = i;
        const dt__fgemm *of = dt__fgemm_at(all->g, &panel);
        run_panel(of, panel, all->tiles);
    }
}

static void run(const dt__fgemm *g, run_rows *const tiles[MOST_ROWS])
{
    const int64_t work = DT__LANES * g->layout->depth * g->m / PRODUCTS;
    const run_args args = { g, tiles };
    dt__parallel(dt__fgemm_panels(g), g->alone ? 0 : work, run_share, &args);
}

void dt__f32_qb4_gemm__neon_dot(const dt__fgemm *g)
{
    run(g, (run_rows *const[]){ tile_4_1, tile_4_2, tile_4_3, tile_4_4 });
}

void dt__f32_qb8_gemm__neon_dot(const dt__fgemm *g)
{
    run(g, (run_rows *const[]){ tile_8_1, tile_8_2, tile_8_3, tile_8_4 });
}
#endif
