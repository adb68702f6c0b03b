/* Parts of a convolution of codes with AVX2 (qconv_parts.c). */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

/* Multiplies pairs of 16-bit numbers, which is exact. */
DT__INLINE_NATIVE __m256i add_words(__m256i sum, __m256i u, __m256i codes)
{
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 8);
    const __m256i odd = _mm256_srai_epi16(codes, 8);
    const __m256i low = _mm256_and_si256(u, _mm256_set1_epi16(255));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(low, even));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_srli_epi16(u, 8), odd));
}

#include "kernels/x86/depthwise_words.inc"

void dt__qd8_depthwise__avx2(const dt__qdepthwise *d) { depthwise_line(d); }

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
