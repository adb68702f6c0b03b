/* Vector intrinsics of AArch64, for files named <family>_neon_dot.c. */
#ifndef DT__KERNELS_ARM_NEON_H
#define DT__KERNELS_ARM_NEON_H

#include <arm_neon.h>

/* DT__INLINE: a function that must be inlined, since some of its arguments are compile-time
 * constants. DT__UNROLL: a loop over such constants. */
#define DT__INLINE static inline __attribute__((always_inline))
#define DT__UNROLL _Pragma("GCC unroll 16")

#endif
