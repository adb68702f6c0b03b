/* Products of bf16 with matrix tiles (AMX-BF16). */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/amx.h"

#define KERNEL(name) dt__##name##_tiles__amx
#include "kernels/x86/products/gemm_by_tiles.inc"
#endif
