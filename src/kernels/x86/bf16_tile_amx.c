/* Kernels of bf16 convolutions with matrix tiles (AMX-BF16). */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/amx.h"

#define KERNEL(name) dt__##name##__amx
#include "kernels/x86/conv_by_tiles.inc"
#endif
