/* Parts of a convolution of codes with AVX2 (qconv_parts.c). */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

/* Sums of 16 positions of a line. */
typedef struct depthwise_sums {
    __m256i low, high;
} depthwise_sums;

/* Adds two taps of 16 positions: codes a and b of the activations side by side, as int16, times the
 * pair of the weight's codes. */
DT__INLINE void add_taps(const uint8_t *a, const uint8_t *b, __m256i pair, depthwise_sums *s)
{
    const __m128i u = _mm_loadu_si128((const __m128i *)(const void *)a);
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)b);
    const __m256i low = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(u, v));
    const __m256i high = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(u, v));
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(low, pair));
    s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(high, pair));
}

DT__INLINE void store_line(const dt__qdepthwise *d, __m256 acc, float *y)
{
    const __m256 v = _mm256_mul_ps(_mm256_set1_ps(d->sx), acc);
    _mm256_storeu_ps(y, d->bias == NULL ? v : _mm256_add_ps(v, _mm256_set1_ps(*d->bias)));
}

/* 16 positions, or 32. */
DT__INLINE void depthwise_part(const dt__qdepthwise *d, const uint8_t *u, int blocks, float *y)
{
    __m256 acc[4];
    for (int i = 0; i < 2 * blocks; i++) acc[i] = _mm256_set1_ps(-(d->zu * d->ksum));
    for (int64_t tap = 0, group = 0; tap < d->taps; group++) {
        const int64_t past = tap + (d->taps - tap < d->group ? d->taps - tap : d->group);
        depthwise_sums s[2];
        for (int i = 0; i < blocks; i++) s[i].low = s[i].high = _mm256_setzero_si256();
        for (; tap < past; tap += 2) { /* a group's last tap may have no partner */
            const bool two = tap + 1 < past;
            const uint16_t a = (uint16_t)d->codes[tap], b = two ? (uint16_t)d->codes[tap + 1] : 0;
            const __m256i pair = _mm256_set1_epi32((int32_t)((uint32_t)a | (uint32_t)b << 16));
            const uint8_t *from = u + d->offset[tap], *with = u + d->offset[two ? tap + 1 : tap];
            for (int i = 0; i < blocks; i++) add_taps(from + 16 * i, with + 16 * i, pair, &s[i]);
        }
        tap = past;
        const __m256 scale = _mm256_set1_ps(d->scale[group]);
        for (int i = 0; i < blocks; i++) {
            acc[2 * i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s[i].low), scale, acc[2 * i]);
            acc[2 * i + 1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s[i].high), scale, acc[2 * i + 1]);
        }
    }
    for (int i = 0; i < 2 * blocks; i++) store_line(d, acc[i], y + 8 * i);
}

void dt__qd8_depthwise__avx2(const dt__qdepthwise *d)
{
    int64_t i = 0;
    for (; i + 16 < d->n; i += 32) depthwise_part(d, d->u + i, 2, d->y + i);
    if (i < d->n) depthwise_part(d, d->u + i, 1, d->y + i);
}

/* Transposes 8 x 8 floats. */
static inline void transpose_block(const float *x, int64_t ldx, float *y, int64_t ldy)
{
    __m256 a[8], b[8];
    DT__UNROLL
    for (int i = 0; i < 4; i++) { /* joins halves of rows i and i + 4 */
        const __m256 low = _mm256_loadu_ps(x + i * ldx), high = _mm256_loadu_ps(x + (i + 4) * ldx);
        a[i] = _mm256_permute2f128_ps(low, high, 0x20);
        a[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
    DT__UNROLL
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    DT__UNROLL
    for (int i = 0; i < 8; i += 4) {
        _mm256_storeu_ps(y + i * ldy, _mm256_shuffle_ps(b[i], b[i + 2], 0x44));
        _mm256_storeu_ps(y + (i + 1) * ldy, _mm256_shuffle_ps(b[i], b[i + 2], 0xee));
        _mm256_storeu_ps(y + (i + 2) * ldy, _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44));
        _mm256_storeu_ps(y + (i + 3) * ldy, _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee));
    }
}

void dt__transpose__avx2(const dt__transpose *t)
{
    const int64_t rows = t->rows / 8 * 8, columns = t->columns / 8 * 8;
    for (int64_t j = 0; j < columns; j += 8) {
        for (int64_t i = 0; i < rows; i += 8) {
            transpose_block(t->x + i * t->ldx + j, t->ldx, t->y + j * t->ldy + i, t->ldy);
        }
    }
    dt__transpose below = *t, beside = *t;
    below.rows -= rows;
    below.columns = columns;
    below.x += rows * t->ldx;
    below.y += rows;
    dt__transpose__ref(&below);
    beside.columns -= columns;
    beside.x += columns;
    beside.y += columns * t->ldy;
    dt__transpose__ref(&beside);
}
#endif
