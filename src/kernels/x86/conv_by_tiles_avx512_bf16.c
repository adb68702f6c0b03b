/* Kernels of bf16 convolutions in the order of matrix tiles with AVX-512 BF16. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/tiles_avx512_bf16.h"

#define KERNEL(name) dt__##name##__avx512_bf16
#include "kernels/x86/conv_by_tiles.inc"
#endif
