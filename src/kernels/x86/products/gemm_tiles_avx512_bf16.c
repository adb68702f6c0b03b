/* Products of bf16 in the order of matrix tiles with AVX-512 BF16. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/tiles_avx512_bf16.h"

#define KERNEL(name) dt__##name##_tiles__avx512_bf16
#include "kernels/x86/products/gemm_by_tiles.inc"
#endif
