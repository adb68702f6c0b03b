/* Kernels of bf16 convolutions with AVX2 and FMA: the plain ones, compiled for it. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define KERNEL(name) dt__##name##__avx2
#include "kernels/convolution/bf16_tile.inc"
#endif
