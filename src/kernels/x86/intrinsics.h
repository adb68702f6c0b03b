/* Vector intrinsics of x86: the compiler's own, or in an emulating build (DETENT_EMULATE) those of
 * SIMDe, which run on any processor. For files named <family>_avx2.c, _avx_vnni.c and _avx512.c. */
#ifndef DT__KERNELS_X86_INTRINSICS_H
#define DT__KERNELS_X86_INTRINSICS_H

#if defined DETENT_EMULATE
#include "kernels/x86/emulated.h"
#else
#include <immintrin.h>
#endif

/* DT__INLINE: a function that must be inlined, since some of its arguments are compile-time
 * constants. DT__UNROLL: a loop over such constants. An emulating build neither unrolls loops nor
 * inlines DT__INLINE_NATIVE functions: an intrinsic is many lines of C there, and unrolled tiles of
 * it take minutes to compile. */
#define DT__INLINE static inline __attribute__((always_inline))
#if defined DETENT_EMULATE
#define DT__INLINE_NATIVE static __attribute__((noinline))
#define DT__UNROLL _Pragma("GCC unroll 1")
#else
#define DT__INLINE_NATIVE DT__INLINE
#define DT__UNROLL _Pragma("GCC unroll 16")
#endif

/* Forces the vector into a register here: otherwise compilers reassociate integer sums and run out
 * of registers. */
#if defined DETENT_EMULATE
#define DT__HOLD(vector) ((void)0)
#else
#define DT__HOLD(vector) __asm__("" : "+v"(vector))
#endif

#endif
