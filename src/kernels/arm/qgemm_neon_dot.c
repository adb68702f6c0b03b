/* The integer product with AArch64's dot products, by the formula of dt__qgemm in panels.h
 * (numerics §2). udot adds four products of u8 and u8 to an int32 lane. There is none of u8 and s8,
 * so a code q is multiplied as q + shift, which is not negative:
 *
 *     sum of u * q = -shift * sum of u + sum of u * (q + shift)
 *
 * The first term, a number for each row and segment, is what sums begin with. (By sdot, activations
 * would be shifted, and what that adds differs from output to output.)
 *
 * A panel is processed in segments, at most 256 columns of a piece. A segment is multiplied with
 * all rows, a tile of rows at a time; with many rows its codes are made bytes first. */
#if defined DETENT_SIMD && defined __aarch64__
#include "kernels/arm/neon.h"
#include "kernels/qgemm.h"

#include <string.h>

#define VECTORS 8     /* of a panel */
#define DEPTH 32      /* most steps of a segment */
#define CHUNK 96      /* most rows for which a segment is unpacked once */
#define MOST_ROWS 6   /* of a tile */
#define UNPACK_FROM 5 /* rows */
#define UNPACKED_STEP (DT__LANES * DT__STEP)

/* The sums of a row of activations between segments. */
typedef struct sums {
    float acc[DT__LANES];
    int32_t piece[DT__LANES];
} sums;

typedef struct segment {
    const uint8_t *codes;
    const uint8_t *scales; /* of the piece, if it ends here; else NULL */
    int steps;
    bool first; /* of its piece */
    int scale_dtype, lanes;
    const uint8_t *u;
    int64_t ldu;
    sums *row;
    const int32_t *start; /* of each row: -shift times the sum of its activations */
} segment;

/* ---- codes plus shift, as bytes ------------------------------------------------------------- */

DT__INLINE uint8x16_t low_nibbles(uint8x16_t packed)
{
    return vandq_u8(veorq_u8(packed, vdupq_n_u8(0x88)), vdupq_n_u8(15));
}

DT__INLINE uint8x16_t high_nibbles(uint8x16_t packed)
{
    return vshrq_n_u8(veorq_u8(packed, vdupq_n_u8(0x88)), 4);
}

DT__INLINE uint8x16_t shifted_bytes(uint8x16_t codes) { return veorq_u8(codes, vdupq_n_u8(0x80)); }

static int shift_of(bool nibbles) { return nibbles ? 8 : 128; }

static void unpack_nibbles(int steps, const uint8_t *from, uint8_t *to)
{
    for (; steps > 0; steps--, to += UNPACKED_STEP) {
        for (int v = 0; v < VECTORS; v++, from += 16) {
            const uint8x16_t packed = vld1q_u8(from);
            uint8_t *half = to + v / 4 * 128 + v % 4 * 16;
            vst1q_u8(half, low_nibbles(packed));
            vst1q_u8(half + 64, high_nibbles(packed));
        }
    }
}

static void unpack_bytes(int steps, const uint8_t *from, uint8_t *to)
{
    for (int at = 0; at < steps * UNPACKED_STEP; at += 16) {
        vst1q_u8(to + at, shifted_bytes(vld1q_u8(from + at)));
    }
}

/* ---- what sums begin with ------------------------------------------------------------------- */

DT__INLINE uint32x4_t sum_of(const uint8_t *u, int steps)
{
    const uint8x16_t one = vdupq_n_u8(1);
    uint32x4_t sum = vdupq_n_u32(0);
    for (; steps >= 2; steps -= 2, u += 16) sum = vdotq_u32(sum, vld1q_u8(u), one);
    if (steps == 0) return sum;
    return vdotq_u32(sum, vcombine_u8(vld1_u8(u), vdup_n_u8(0)), one);
}

/* Four rows at a time, the last one in place of missing ones. */
static void find_starts(const segment *s, int rows, int shift, int32_t *start)
{
    for (int m = 0; m < rows; m += 4) {
        uint32x4_t sum[4];
        for (int r = 0; r < 4; r++) {
            sum[r] = sum_of(s->u + (m + r < rows ? m + r : rows - 1) * s->ldu, s->steps);
        }
        const uint32x4_t all = vpaddq_u32(vpaddq_u32(sum[0], sum[1]), vpaddq_u32(sum[2], sum[3]));
        vst1q_s32(start + m, vmulq_n_s32(vreinterpretq_s32_u32(all), -shift));
    }
}

/* ---- a tile: `rows` rows and `columns` vectors from vector v0 on, all of them constants ------ */

typedef struct tile {
    int rows, columns, form;
} tile;

typedef int32x4_t row_sums[VECTORS];

/* The offset of vector v in a step. The first vector of a tile begins with lane 0 or 16. */
DT__INLINE int place_of(int form, int v)
{
    return form == DT__NIBBLES ? v * 16 : v / 4 * 128 + v % 4 * 16;
}

/* A vector of codes for columns k = 0 ... 3, or (half 1) 4 ... 7, plus the shift. */
DT__INLINE uint8x16_t codes_at(int form, const uint8_t *from, int half)
{
    if (form == DT__UNPACKED) return vld1q_u8(from + half * 64);
    if (form == DT__BYTES) return shifted_bytes(vld1q_u8(from + half * 64));
    return half == 0 ? low_nibbles(vld1q_u8(from)) : high_nibbles(vld1q_u8(from));
}

/* sum + products of codes and the four activations in lane 0 of u. Inline assembly, since gcc 12
 * moves the four into a vector of zeros first, and copies sums; volatile, since it would begin both
 * halves of a step at once and run out of registers. */
DT__INLINE int32x4_t add_products(int32x4_t sum, uint8x16_t codes, float u)
{
    __asm__ volatile("udot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(codes), "w"(u));
    return sum;
}

/* w: the tile's first vector in the step. */
DT__INLINE void multiply_step(tile t, const uint8_t *w, const uint8_t *u, int64_t ldu,
                              row_sums *sum)
{
    for (int half = 0; half < 2; half++) {
        uint8x16_t codes[VECTORS];
        DT__UNROLL
        for (int v = 0; v < t.columns; v++) {
            codes[v] = codes_at(t.form, w + place_of(t.form, v), half);
        }
        DT__UNROLL
        for (int r = 0; r < t.rows; r++) {
            float four;
            memcpy(&four, u + r * ldu + 4 * half, sizeof four);
            DT__UNROLL
            for (int v = 0; v < t.columns; v++) {
                sum[r][v] = add_products(sum[r][v], codes[v], four);
            }
        }
    }
}

/* Vector v of the 32 scales of a piece. */
DT__INLINE float32x4_t load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return vld1q_f32((const float *)(const void *)from + 4 * v);
    const uint16x4_t half = vld1_u16((const uint16_t *)(const void *)from + 4 * v);
    if (dtype == DT__SCALE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* Adds the sums of a piece's earlier segments; then scales and adds them (ends), or keeps them. */
DT__INLINE void end_segment(tile t, const segment *s, bool first, bool ends, int v0, row_sums *sum)
{
    float32x4_t scale[VECTORS];
    DT__UNROLL
    for (int v = 0; v < t.columns; v++) {
        if (ends) scale[v] = load_scales(s->scale_dtype, s->scales, v0 + v);
    }
    DT__UNROLL
    for (int v = 0; v < t.columns; v++) {
        DT__UNROLL
        for (int r = 0; r < t.rows; r++) {
            int32_t *piece = s->row[r].piece + 4 * (v0 + v);
            float *acc = s->row[r].acc + 4 * (v0 + v);
            const int32x4_t whole = first ? sum[r][v] : vaddq_s32(sum[r][v], vld1q_s32(piece));
            if (ends) vst1q_f32(acc, vfmaq_f32(vld1q_f32(acc), vcvtq_f32_s32(whole), scale[v]));
            else vst1q_s32(piece, whole);
        }
    }
}

DT__INLINE void run_tile(tile t, const segment *s)
{
    const int64_t step_bytes = t.form == DT__NIBBLES ? UNPACKED_STEP / 2 : UNPACKED_STEP;
    for (int v0 = 0; 4 * v0 < s->lanes; v0 += t.columns) {
        row_sums sum[MOST_ROWS];
        DT__UNROLL
        for (int r = 0; r < t.rows; r++) {
            DT__UNROLL
            for (int v = 0; v < t.columns; v++) sum[r][v] = vld1q_dup_s32(s->start + r);
        }
        const uint8_t *w = s->codes + place_of(t.form, v0), *u = s->u;
        for (int i = 0; i < s->steps; i++, w += step_bytes, u += DT__STEP) {
            multiply_step(t, w, u, s->ldu, sum);
        }
        const bool ends = s->scales != NULL;
        if (s->first && ends) end_segment(t, s, true, true, v0, sum);
        else if (s->first) end_segment(t, s, true, false, v0, sum);
        else if (ends) end_segment(t, s, false, true, v0, sum);
        else end_segment(t, s, false, false, v0, sum);
    }
}

#define TILE(form, rows)                                                                           \
    static void tile_##form##_##rows(const segment *s)                                             \
    {                                                                                              \
        run_tile((tile){ rows, rows == 1 ? 8 : 4, form }, s);                                      \
    }
TILE(DT__NIBBLES, 1)
TILE(DT__NIBBLES, 2)
TILE(DT__NIBBLES, 3)
TILE(DT__NIBBLES, 4)
TILE(DT__BYTES, 1)
TILE(DT__BYTES, 2)
TILE(DT__BYTES, 3)
TILE(DT__BYTES, 4)
TILE(DT__UNPACKED, 3)
TILE(DT__UNPACKED, 4)
TILE(DT__UNPACKED, 5)
TILE(DT__UNPACKED, 6)

/* Five rows or more make tiles of at least three. */
static void (*const tiles[][MOST_ROWS])(const segment *s) = {
    [DT__NIBBLES] = { tile_DT__NIBBLES_1, tile_DT__NIBBLES_2, tile_DT__NIBBLES_3,
                      tile_DT__NIBBLES_4 },
    [DT__BYTES] = { tile_DT__BYTES_1, tile_DT__BYTES_2, tile_DT__BYTES_3, tile_DT__BYTES_4 },
    [DT__UNPACKED] = { NULL, NULL, tile_DT__UNPACKED_3, tile_DT__UNPACKED_4, tile_DT__UNPACKED_5,
                       tile_DT__UNPACKED_6 },
};

/* ---- a panel -------------------------------------------------------------------------------- */

/* Multiplies all rows with a segment, in tiles of about the same height. */
static void run_segment(segment s, int rows, bool nibbles)
{
    int32_t start[CHUNK];
    uint8_t bytes[DEPTH * UNPACKED_STEP];
    int form = nibbles ? DT__NIBBLES : DT__BYTES;
    find_starts(&s, rows, shift_of(nibbles), start);
    s.start = start;
    if (rows >= UNPACK_FROM) {
        (nibbles ? unpack_nibbles : unpack_bytes)(s.steps, s.codes, bytes);
        s.codes = bytes;
        form = DT__UNPACKED;
    }
    for (int left = (rows + MOST_ROWS - 1) / MOST_ROWS; left > 0; left--) {
        const int n = (rows + left - 1) / left;
        tiles[form][n - 1](&s);
        rows -= n;
        s.u += n * s.ldu;
        s.row += n;
        s.start += n;
    }
}

static void run_piece(const dt__qgemm_part *p, const dt__piece *piece, sums *row)
{
    const dt__qgemm *g = p->g;
    const int64_t steps = dt__ceil_div(piece->length, DT__STEP);
    for (int64_t i = 0; i < steps; i += DEPTH) {
        const segment s = {
            .codes = p->panel + piece->codes + (size_t)i * g->layout->step_bytes,
            .scales = i + DEPTH < steps ? NULL : p->panel + piece->scales,
            .steps = (int)dt__min_i64(DEPTH, steps - i),
            .first = i == 0,
            .scale_dtype = g->layout->scale_dtype,
            .lanes = p->lanes,
            .u = g->u + p->m0 * g->ldu + piece->start + i * DT__STEP,
            .ldu = g->ldu,
            .row = row,
        };
        run_segment(s, p->rows, g->layout->nibbles);
    }
}

static void run_panel(const dt__qgemm_part *p)
{
    const dt__qgemm *g = p->g;
    const float *ksum = (const float *)(const void *)p->panel;
    sums row[CHUNK];
    for (int m = 0; m < p->rows; m++) {
        const float zu = (float)g->zu[p->m0 + m];
        for (int j = 0; j < DT__LANES; j++) row[m].acc[j] = -(zu * ksum[j]);
    }
    for (int64_t i = 0; i < g->layout->pieces; i++) {
        const dt__piece piece = dt__piece_of(g->layout, i);
        run_piece(p, &piece, row);
    }
    for (int m = 0; m < p->rows; m++) {
        const float sx = g->sx[p->m0 + m], *acc = row[m].acc;
        float *y = dt__qgemm_row(g, p->m0 + m) + p->n0;
        for (int j = 0; j < p->lanes; j++) y[j] = sx * acc[j];
        for (int j = 0; g->bias != NULL && j < p->lanes; j++) y[j] += g->bias[p->n0 + j];
    }
}

static void run_range(const dt__qgemm_range *r)
{
    for (int i = 0; i < r->panels; i++) {
        const dt__qgemm_part p = dt__qgemm_part_of(r, i);
        run_panel(&p);
    }
}

/* Activations in blocks, whose codes are signed, are left to plain C. */
void dt__qd8_qb4_gemm__neon_dot(const dt__qgemm *g)
{
    if (g->block_scale != NULL) dt__qd8_qb4_gemm__ref(g);
    else dt__qgemm_share(g, CHUNK, run_range);
}

void dt__qd8_qb8_gemm__neon_dot(const dt__qgemm *g)
{
    if (g->block_scale != NULL) dt__qd8_qb8_gemm__ref(g);
    else dt__qgemm_share(g, CHUNK, run_range);
}
#endif
