/* Panels with AVX2: codes of eight lanes interleaved, and lanes expanded to values; the bits are those
 * of panels_quantize.c and panels.c.
 *
 * 32 codes of eight rows are an 8 x 8 matrix of dwords; transposed, a vector is four columns of
 * eight lanes, as a step holds them. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/codes_ymm.inc"
#include "kernels/panels_quantize.h"

#include <math.h>
#include <string.h>

/* ---- interleaving ----------------------------------------------------------------------------- */

/* out[d]: dword d of every row. */
DT__INLINE void transpose(const __m256i row[EIGHT], __m256i out[EIGHT])
{
    __m256i q[2][4];
    for (int half = 0; half < 2; half++) {
        const __m256i *r = row + 4 * half;
        const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpacklo_epi32(r[2], r[3]);
        const __m256i c = _mm256_unpackhi_epi32(r[0], r[1]), d = _mm256_unpackhi_epi32(r[2], r[3]);
        q[half][0] = _mm256_unpacklo_epi64(a, b);
        q[half][1] = _mm256_unpackhi_epi64(a, b);
        q[half][2] = _mm256_unpacklo_epi64(c, d);
        q[half][3] = _mm256_unpackhi_epi64(c, d);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2x128_si256(q[0][i], q[1][i], 0x20);
        out[4 + i] = _mm256_permute2x128_si256(q[0][i], q[1][i], 0x31);
    }
}

DT__INLINE void store(uint8_t *to, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)to, v); }

/* The low nibbles of a, and those of b above them. */
DT__INLINE __m256i nibbles(__m256i a, __m256i b)
{
    const __m256i low = _mm256_set1_epi8(15);
    return _mm256_or_si256(_mm256_and_si256(a, low),
                           _mm256_andnot_si256(low, _mm256_slli_epi16(b, 4)));
}

/* At most 32 columns: up to four steps. */
DT__INLINE __m256i write_block(const dt__panel_layout *l, int steps, const int8_t *codes,
                               uint8_t *to)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i row[EIGHT], column[EIGHT], sum = _mm256_setzero_si256();
    for (int j = 0; j < EIGHT; j++) {
        row[j] = _mm256_loadu_si256((const __m256i *)(const void *)(codes + j * CODES));
    }
    transpose(row, column);
    for (int i = 0; i < steps; i++, to += l->step_bytes) {
        const __m256i a = column[2 * i], b = column[2 * i + 1];
        sum = _mm256_add_epi16(
            sum, _mm256_add_epi16(_mm256_maddubs_epi16(one, a), _mm256_maddubs_epi16(one, b)));
        if (l->nibbles) {
            store(to, nibbles(a, b));
        } else {
            store(to, a);
            store(to + 64, b);
        }
    }
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

static void write_eight(const dt__panel_layout *l, int64_t n, const int8_t *codes, uint8_t *to,
                        int32_t sum[EIGHT])
{
    __m256i *total = (__m256i *)(void *)sum;
    __m256i s = _mm256_loadu_si256(total);
    int64_t k = 0;
    for (; k + 32 <= n; k += 32, to += 4 * l->step_bytes) {
        s = _mm256_add_epi32(s, write_block(l, 4, codes + k, to));
    }
    if (k < n) {
        const int steps = (int)dt__ceil_div(n - k, DT__STEP);
        s = _mm256_add_epi32(s, write_block(l, steps, codes + k, to));
    }
    _mm256_storeu_si256(total, s);
}

#define RANGE dt__range__avx2
#define ENCODE dt__encode__avx2
#define QUANTIZE_PANEL dt__quantize_panel__avx2
#include "kernels/panels_quantize.inc"

/* ---- expand ----------------------------------------------------------------------------------- */

/* One lane of a panel on its way to values. */
typedef struct image {
    size_t step_bytes;
    bool nibbles;
    __m256 scale, zero;
} image;

/* The 8 values of a step. Of a dword, element i has the nibble or byte that shift i moves to the top.
 */
DT__INLINE __m256 values(const image *l, const uint8_t *from)
{
    int32_t word, next = 0;
    memcpy(&word, from, sizeof word);
    __m256i q = _mm256_set1_epi32(word);
    if (l->nibbles) {
        q = _mm256_sllv_epi32(q, _mm256_setr_epi32(28, 20, 12, 4, 24, 16, 8, 0));
        q = _mm256_srai_epi32(q, 28);
    } else {
        memcpy(&next, from + 64, sizeof next);
        q = _mm256_blend_epi32(q, _mm256_set1_epi32(next), 0xf0);
        q = _mm256_sllv_epi32(q, _mm256_setr_epi32(24, 16, 8, 0, 24, 16, 8, 0));
        q = _mm256_srai_epi32(q, 24);
    }
    return _mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(q), l->zero), l->scale);
}

/* Columns k0 to k1 of a piece, into y. */
DT__INLINE void expand_lane(const image *l, const uint8_t *from, int64_t k0, int64_t k1, float *y)
{
    from += (size_t)(k0 / DT__STEP) * l->step_bytes;
    int64_t k = k0;
    if (k % DT__STEP != 0) {
        float part[DT__STEP];
        const int64_t skip = k % DT__STEP, n = dt__min_i64(DT__STEP - skip, k1 - k);
        _mm256_storeu_ps(part, values(l, from));
        memcpy(y, part + skip, (size_t)n * sizeof *y);
        k += n;
        from += l->step_bytes;
    }
    for (; k + DT__STEP <= k1; k += DT__STEP, from += l->step_bytes) {
        _mm256_storeu_ps(y + (k - k0), values(l, from));
    }
    if (k < k1) _mm256_maskstore_ps(y + (k - k0), first_lanes(k1 - k), values(l, from));
}

#define SPAN 256 /* columns of all lanes at a time: steps of 4 KiB */

static void expand_piece(const dt__panel_tile *t, int64_t n0, const dt__piece *p,
                         const uint8_t *panel)
{
    const dt__panel_layout *l = t->layout;
    const int64_t first = dt__max_i64(t->n0 - n0, 0), last = dt__min_i64(t->n1 - n0, DT__LANES);
    const int64_t begin = dt__max_i64(t->k0, p->start);
    const int64_t end = dt__min_i64(t->k1, p->start + p->length);
    float scale[DT__LANES];
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int64_t k = begin; k < end; k += SPAN) {
        const int64_t to = dt__min_i64(k + SPAN, end);
        for (int64_t j = first; j < last; j++) {
            image of = { .step_bytes = l->step_bytes, .scale = _mm256_broadcast_ss(scale + j) };
            float zero = 0;
            if (t->zero != NULL) {
                zero = t->zero[t->zero_step == 0 ? 0 : (n0 + j) * t->zero_step + p->group];
            }
            of.zero = _mm256_set1_ps(zero);
            of.nibbles = l->nibbles;
            const uint8_t *from = panel + p->codes + dt__panel_lane(l, (int)j);
            float *y = t->y + (n0 + j - t->n0) * t->ldy + (k - t->k0);
            expand_lane(&of, from, k - p->start, to - p->start, y);
        }
    }
}

void dt__expand__avx2(const dt__panel_tile *t)
{
    const dt__panel_layout *l = t->layout;
    if (t->n0 >= t->n1 || t->k0 >= t->k1) return;
    const int64_t group = t->k0 / l->group;
    const int64_t first = group * l->pieces_per_group + (t->k0 - group * l->group) / DT__PIECE;
    for (int64_t panel = t->n0 / DT__LANES; panel * DT__LANES < t->n1; panel++) {
        const uint8_t *from = (const uint8_t *)t->panels + (size_t)panel * l->panel_bytes;
        for (int64_t i = first; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            if (piece.start >= t->k1) break;
            expand_piece(t, panel * DT__LANES, &piece, from);
        }
    }
}
#endif
