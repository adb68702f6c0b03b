/* Vector intrinsics of x86: the compiler's own, or in an emulating build (DETENT_EMULATE) those of
 * SIMDe, which run on any processor. For files named <family>_avx2.c, _avx_vnni.c and _avx512.c. */
#ifndef DT__KERNELS_X86_INTRINSICS_H
#define DT__KERNELS_X86_INTRINSICS_H

#if defined DETENT_EMULATE
#include "kernels/x86/emulated.h"
#else
#include <immintrin.h>
#endif

/* A function that is inlined for constant arguments, and a loop that is unrolled. */
#define DT__INLINE static inline __attribute__((always_inline))
#define DT__UNROLL _Pragma("GCC unroll 16")

/* Forces the vector into a register here: otherwise compilers reassociate integer sums and run out
 * of registers. */
#if defined DETENT_EMULATE
#define DT__HOLD(vector) ((void)0)
#else
#define DT__HOLD(vector) __asm__("" : "+v"(vector))
#endif

#endif
