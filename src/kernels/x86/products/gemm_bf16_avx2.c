/* Products of bf16 with AVX2 and FMA: the plain ones, compiled for it. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define KERNEL(name) dt__##name##_bf16__avx2
#define GEMM_BLOCK 2
#include "kernels/products/gemm_bf16.inc"
#endif
