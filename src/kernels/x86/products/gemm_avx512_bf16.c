/* Products of bf16 with AVX-512 BF16: plain_gemm.inc with tiles of up to 14 x 32. A packed element
 * is a pair of terms, the first one in its high half; an odd last term is paired with 0. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##_bf16__avx512_bf16
#define GEMM_STRIP 14
#define GEMM_FEW 0
#define GEMM_BLOCK 2
#define GEMM_PACKED(terms) (((terms) + 1) / 2)
#include "kernels/plain/plain_gemm.inc"
#include "kernels/x86/bf16_vectors.inc"

#include "kernels/x86/products/gemm_pairs.inc"

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
