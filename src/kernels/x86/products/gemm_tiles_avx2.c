/* Products of bf16 in the order of matrix tiles with AVX2 and FMA: the plain ones, compiled for
 * it. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define KERNEL(name) dt__##name##_tiles__avx2
#define GEMM_BLOCK DT__BF16_TILE
#include "kernels/products/gemm_bf16.inc"
#endif
