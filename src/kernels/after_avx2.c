/* relu, its mask, and what follows a product, with AVX2: plain_after.inc on rows of eight floats a
 * vector, whose signs are a byte. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

#define REAL float
#define PART (DT__CHUNK / 8)
#define KERNEL(name) dt__##name##__avx2

/* Where x <= 0, y is +0; NaN passes. */
static inline uint32_t relu_eight(const float *x, float *y)
{
    const __m256 v = _mm256_loadu_ps(x);
    const __m256 stopped = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LE_OQ);
    _mm256_storeu_ps(y, _mm256_andnot_ps(stopped, v));
    return ~(uint32_t)_mm256_movemask_ps(stopped) & 255;
}

static void relu_row(int64_t n, const float *x, float *y, uint8_t *bits)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const uint32_t word = relu_eight(x + i, y + i) | relu_eight(x + i + 8, y + i + 8) << 8 |
                              relu_eight(x + i + 16, y + i + 16) << 16 |
                              relu_eight(x + i + 24, y + i + 24) << 24;
        memcpy(bits + i / 8, &word, sizeof word);
    }
    for (; i + 8 <= n; i += 8) bits[i / 8] = (uint8_t)relu_eight(x + i, y + i);
    unsigned byte = 0;
    for (int j = 0; i + j < n; j++) {
        const float v = x[i + j];
        byte |= (unsigned)!(v <= 0) << j;
        y[i + j] = v <= 0 ? 0 : v;
    }
    if (i < n) bits[i / 8] = (uint8_t)byte;
}

/* dy where the lane's bit of `byte` is set, else 0. */
static inline __m256 masked(uint8_t byte, const float *dy)
{
    const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(byte), lanes);
    const __m256 all = _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lanes));
    return _mm256_and_ps(all, _mm256_loadu_ps(dy));
}

static inline float masked_one(const uint8_t *bits, const float *dy, int64_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0 ? dy[i] : 0;
}

static void mask_row(int64_t n, const uint8_t *bits, const float *dy, float *d)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, masked(bits[i / 8], dy + i));
    for (; i < n; i++) d[i] = masked_one(bits, dy, i);
}

static void mask_row_sum(int64_t n, const uint8_t *bits, const float *dy, float *d, double *total)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = masked(bits[i / 8], dy + i);
        _mm256_storeu_ps(d + i, v);
        const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        _mm256_storeu_pd(total + i, _mm256_add_pd(_mm256_loadu_pd(total + i), low));
        _mm256_storeu_pd(total + i + 4, _mm256_add_pd(_mm256_loadu_pd(total + i + 4), high));
    }
    for (; i < n; i++) {
        d[i] = masked_one(bits, dy, i);
        total[i] += (double)d[i];
    }
}

#include "kernels/plain_after.inc"
#endif
