/* Products of bf16 with AVX-512 BF16: plain_gemm.inc with tiles of up to 14 x 32. A packed element
 * is a pair of terms, the first one in its high half; a lone last term is paired with 0. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##_bf16__avx512_bf16
#define GEMM_STRIP 14
#define GEMM_FEW 0
#define GEMM_PACKED(terms) (((terms) + 1) / 2)
#include "kernels/plain/plain_gemm.inc"
#include "kernels/x86/bf16_vectors.inc"

/* Packing rows of pairs: as of floats, whose bits they replace. */
static void pack_pairs(int64_t n, int64_t depth, const float *x, int64_t ldx, int64_t step,
                       float *y);
#define gemm_pack_rows pack_pairs
#include "kernels/x86/products/gemm_rows.inc"
#undef gemm_pack_rows

#define PAIR_ROWS 32  /* rows that are paired before they are packed, */
#define PAIR_TERMS 64 /* and terms */

/* Writes the pairs of n terms of a row. */
static void pair_row(int64_t n, const float *x, float *y)
{
    for (; n > 0; n -= 16, x += 16, y += 8) {
        const __mmask16 some = (__mmask16)(n < 16 ? (1U << n) - 1 : 0xffff);
        const __m256i half = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x));
        const __m256i turned =
            _mm256_or_si256(_mm256_slli_epi32(half, 16), _mm256_srli_epi32(half, 16));
        _mm256_storeu_si256((__m256i *)(void *)y, turned);
    }
}

static void gemm_pack_rows(int64_t n, int64_t depth, const float *x, int64_t ldx, int64_t step,
                           float *y)
{
    float pairs[PAIR_ROWS][PAIR_TERMS / 2];
    for (int64_t p = 0; p < depth; p += PAIR_TERMS) {
        const int64_t terms = dt__min_i64(PAIR_TERMS, depth - p);
        for (int64_t i = 0; i < n; i++) pair_row(terms, x + i * ldx + p, pairs[i]);
        pack_pairs(n, GEMM_PACKED(terms), pairs[0], PAIR_TERMS / 2, step, y + p / 2 * step);
    }
}

static void gemm_pack_columns(int64_t n, int64_t depth, const float *x, int64_t ldx, int64_t step,
                              float *y)
{
    for (int64_t p = 0; p < depth; p += 2, x += 2 * ldx, y += step) {
        for (int64_t i = 0; i < n; i += 16) {
            const __mmask16 some = (__mmask16)(n - i < 16 ? (1U << (n - i)) - 1 : 0xffff);
            const floats first = _mm512_maskz_loadu_ps(some, x + i);
            const floats second = p + 1 < depth ? _mm512_maskz_loadu_ps(some, x + ldx + i) : zero();
            _mm512_mask_storeu_ps(y + i, some, paired(first, second));
        }
    }
}

#define FEW UP_TO_8(1) UP_TO_8(2) UP_TO_8(3) UP_TO_4(4) UP_TO_4(5) UP_TO_4(6)
#define MANY TILE(7, 2) TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2)
#define TILES FEW MANY TILE(13, 2) TILE(14, 2)
#include "kernels/x86/products/gemm_vectors.inc"

static bool gemm_transposed(const gemm_part *t)
{
    (void)t;
    return false;
}
#endif
