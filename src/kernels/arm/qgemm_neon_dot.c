/* The integer product with AArch64's dot products, by the formula of dt__qgemm in panels.h
 * (numerics §2). udot adds four products of u8 and u8 to an int32 lane. There is no instruction for
 * u8 and s8, so a code q is multiplied as q + shift, which is not negative:
 *
 *     sum of u * q = -shift * sum of u + sum of u * (q + shift)
 *
 * Sums begin with the first term, which depends on the row and segment alone. (With sdot the
 * activations would be shifted, and the correction would differ from output to output.) Activations
 * in blocks have signed codes u - 128; sdot multiplies these by q, and sums begin with 0.
 *
 * A panel is processed in segments, at most 256 columns of a piece. A segment is multiplied with
 * all rows, a tile of rows at a time; with many rows its codes are unpacked to bytes first. */
#if defined DETENT_SIMD && defined __aarch64__
#include "kernels/arm/neon.h"
#include "kernels/products/qgemm.h"

#include <string.h>

#define VECTORS 8     /* per panel */
#define DEPTH 32      /* steps per segment, at most */
#define CHUNK 96      /* rows for which a segment is unpacked once, at most */
#define MOST_ROWS 6   /* rows per tile, at most */
#define UNPACK_FROM 5 /* from this number of rows on, codes are unpacked first */
#define UNPACKED_STEP (DT__LANES * DT__STEP)

/* The sums of one row of activations, kept between segments. */
typedef struct sums {
    float acc[DT__LANES];
    int32_t piece[DT__LANES];
} sums;

typedef struct segment {
    const uint8_t *codes;
    const uint8_t *scales; /* the piece's scales, if the piece ends in this segment; else NULL */
    int steps;
    bool first; /* the first segment of its piece */
    int scale_dtype, lanes;
    const uint8_t *u;
    int64_t ldu;
    sums *row;
    const int32_t *start;     /* [rows]: -shift times the sum of the row's activations */
    const float *block_scale; /* scales of the rows' blocks, block_step apart; NULL: no blocks */
    int64_t block_step;
} segment;

/* ---- codes plus shift, as bytes; with blocks (`is_signed`) the codes themselves -------------- */

DT__INLINE uint8x16_t low_nibbles(bool is_signed, uint8x16_t packed)
{
    if (!is_signed) return vandq_u8(veorq_u8(packed, vdupq_n_u8(0x88)), vdupq_n_u8(15));
    return vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(vshlq_n_u8(packed, 4)), 4));
}

DT__INLINE uint8x16_t high_nibbles(bool is_signed, uint8x16_t packed)
{
    if (!is_signed) return vshrq_n_u8(veorq_u8(packed, vdupq_n_u8(0x88)), 4);
    return vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(packed), 4));
}

DT__INLINE uint8x16_t shifted_bytes(bool is_signed, uint8x16_t codes)
{
    return is_signed ? codes : veorq_u8(codes, vdupq_n_u8(0x80));
}

static int shift_of(bool nibbles) { return nibbles ? 8 : 128; }

DT__INLINE void unpack_nibbles(bool is_signed, int steps, const uint8_t *from, uint8_t *to)
{
    for (; steps > 0; steps--, to += UNPACKED_STEP) {
        for (int v = 0; v < VECTORS; v++, from += 16) {
            const uint8x16_t packed = vld1q_u8(from);
            uint8_t *half = to + v / 4 * 128 + v % 4 * 16;
            vst1q_u8(half, low_nibbles(is_signed, packed));
            vst1q_u8(half + 64, high_nibbles(is_signed, packed));
        }
    }
}

DT__INLINE void unpack_bytes(bool is_signed, int steps, const uint8_t *from, uint8_t *to)
{
    for (int at = 0; at < steps * UNPACKED_STEP; at += 16) {
        vst1q_u8(to + at, shifted_bytes(is_signed, vld1q_u8(from + at)));
    }
}

static void unpack(const segment *s, bool nibbles, uint8_t *to)
{
    if (s->block_scale == NULL) {
        if (nibbles) unpack_nibbles(false, s->steps, s->codes, to);
        else unpack_bytes(false, s->steps, s->codes, to);
    } else {
        if (nibbles) unpack_nibbles(true, s->steps, s->codes, to);
        else unpack_bytes(true, s->steps, s->codes, to);
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

/* Computes four rows at a time; missing rows repeat the last one. */
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
    bool blocks; /* activations are in blocks: both operands have signed codes */
} tile;

typedef int32x4_t row_sums[VECTORS];

/* The offset of vector v in a step. The first vector of a tile begins with lane 0 or 16. */
DT__INLINE int place_of(int form, int v)
{
    return form == DT__NIBBLES ? v * 16 : v / 4 * 128 + v % 4 * 16;
}

/* A vector of codes for columns k = 0 ... 3, or (half 1) 4 ... 7, plus the shift. */
DT__INLINE uint8x16_t codes_at(tile t, const uint8_t *from, int half)
{
    if (t.form == DT__UNPACKED) return vld1q_u8(from + half * 64);
    if (t.form == DT__BYTES) return shifted_bytes(t.blocks, vld1q_u8(from + half * 64));
    return half == 0 ? low_nibbles(t.blocks, vld1q_u8(from))
                     : high_nibbles(t.blocks, vld1q_u8(from));
}

/* sum + products of codes and the four activations in lane 0 of u. Inline assembly, since gcc 12
 * moves the four into a vector of zeros first, and copies sums; volatile, since it would begin both
 * halves of a step at once and run out of registers. */
DT__INLINE int32x4_t add_products(int32x4_t sum, uint8x16_t codes, float u)
{
    __asm__ volatile("udot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(codes), "w"(u));
    return sum;
}

/* The same for signed bytes. */
DT__INLINE int32x4_t add_signed(int32x4_t sum, uint8x16_t codes, uint8x8_t x)
{
    __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(codes), "w"(x));
    return sum;
}

/* The four activations at `from` minus 128, in lane 0. */
DT__INLINE uint8x8_t signed_four(const uint8_t *from)
{
    uint32_t four;
    memcpy(&four, from, sizeof four);
    return veor_u8(vcreate_u8(four), vdup_n_u8(0x80));
}

/* w: the tile's first vector in the step. */
DT__INLINE void multiply_step(tile t, const uint8_t *w, const uint8_t *u, int64_t ldu,
                              row_sums *sum)
{
    for (int half = 0; half < 2; half++) {
        uint8x16_t codes[VECTORS];
        DT__UNROLL
        for (int v = 0; v < t.columns; v++) {
            codes[v] = codes_at(t, w + place_of(t.form, v), half);
        }
        DT__UNROLL
        for (int r = 0; r < t.rows; r++) {
            const uint8_t *from = u + r * ldu + 4 * half;
            float four = 0;
            if (!t.blocks) memcpy(&four, from, sizeof four);
            const uint8x8_t x = t.blocks ? signed_four(from) : vdup_n_u8(0);
            DT__UNROLL
            for (int v = 0; v < t.columns; v++) {
                sum[r][v] = t.blocks ? add_signed(sum[r][v], codes[v], x)
                                     : add_products(sum[r][v], codes[v], four);
            }
        }
    }
}

/* Adds the sums of the piece's earlier segments; then scales them and adds them to acc (ends), or
 * keeps them for the next segment. */
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
            float32x4_t by = ends ? scale[v] : vdupq_n_f32(0);
            if (ends && t.blocks) by = vmulq_n_f32(by, s->block_scale[r * s->block_step]);
            if (ends) vst1q_f32(acc, vfmaq_f32(vld1q_f32(acc), vcvtq_f32_s32(whole), by));
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
            for (int v = 0; v < t.columns; v++) {
                sum[r][v] = t.blocks ? vdupq_n_s32(0) : vld1q_dup_s32(s->start + r);
            }
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

/* Five rows or more make tiles of at least three. */
#define FEW(X, form) X(form, 1) X(form, 2) X(form, 3) X(form, 4)
#define MANY(X, form) X(form, 3) X(form, 4) X(form, 5) X(form, 6)
#define TILES(X) FEW(X, DT__NIBBLES) FEW(X, DT__BYTES) MANY(X, DT__UNPACKED)

#define TILE(form, rows)                                                                           \
    static void tile_##form##_##rows(const segment *s)                                             \
    {                                                                                              \
        run_tile((tile){ rows, rows == 1 ? 8 : 4, form, false }, s);                               \
    }                                                                                              \
    static void blocks_##form##_##rows(const segment *s)                                           \
    {                                                                                              \
        run_tile((tile){ rows, rows == 1 ? 8 : 4, form, true }, s);                                \
    }
TILES(TILE)

/* Selects the variant with or without blocks. */
#define TILE_OF(form, rows) [form][rows - 1] = tile_##form##_##rows,
#define BLOCKS_OF(form, rows) [form][rows - 1] = blocks_##form##_##rows,
static void (*const tiles[2][DT__BYTES + 1][MOST_ROWS])(const segment *s) = {
    { TILES(TILE_OF) },
    { TILES(BLOCKS_OF) },
};

/* ---- a panel -------------------------------------------------------------------------------- */

/* Multiplies all rows with a segment, in tiles of about the same height. */
static void run_segment(segment s, int rows, bool nibbles)
{
    int32_t start[CHUNK];
    uint8_t bytes[DEPTH * UNPACKED_STEP];
    int form = nibbles ? DT__NIBBLES : DT__BYTES;
    const bool blocks = s.block_scale != NULL;
    if (!blocks) find_starts(&s, rows, shift_of(nibbles), start);
    s.start = start;
    if (rows >= UNPACK_FROM) {
        unpack(&s, nibbles, bytes);
        s.codes = bytes;
        form = DT__UNPACKED;
    }
    for (int left = (rows + MOST_ROWS - 1) / MOST_ROWS; left > 0; left--) {
        const int n = (rows + left - 1) / left;
        tiles[blocks][form][n - 1](&s);
        rows -= n;
        s.u += n * s.ldu;
        s.row += n;
        s.start += n;
        if (blocks) s.block_scale += n * s.block_step;
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
            .block_scale =
                g->block_scale == NULL ? NULL : dt__block_scales(g, p->m0) + piece->group,
            .block_step = g->layout->groups,
        };
        run_segment(s, p->rows, g->layout->nibbles);
    }
}

static void run_panel(const dt__qgemm_part *p)
{
    const dt__qgemm *g = p->g;
    const float *ksum = (const float *)(const void *)p->panel;
    sums row[CHUNK];
    for (int m = 0; m < p->rows; m++) dt__qgemm_begin(g, p->m0 + m, ksum, row[m].acc);
    for (int64_t i = 0; i < g->layout->pieces; i++) {
        const dt__piece piece = dt__piece_of(g->layout, i);
        run_piece(p, &piece, row);
    }
    for (int m = 0; m < p->rows; m++) {
        const float sx = dt__qgemm_scale(g, p->m0 + m), *acc = row[m].acc;
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

void dt__qd8_qb4_gemm__neon_dot(const dt__qgemm *g)
{
    dt__qgemm_share(g, CHUNK, DT__QGEMM_NEAR, run_range);
}
void dt__qd8_qb8_gemm__neon_dot(const dt__qgemm *g)
{
    dt__qgemm_share(g, CHUNK, DT__QGEMM_NEAR, run_range);
}
#endif
