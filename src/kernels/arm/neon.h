/* Vector intrinsics of AArch64, for files named <family>_neon_dot.c. */
#ifndef DT__KERNELS_ARM_NEON_H
#define DT__KERNELS_ARM_NEON_H

#include "kernels/kernels.h"

#include <arm_neon.h>

/* DT__INLINE: a function that must be inlined, since some of its arguments are compile-time
 * constants. DT__UNROLL: a loop over such constants. */
#define DT__INLINE static inline __attribute__((always_inline))
#define DT__UNROLL _Pragma("GCC unroll 16")

/* Vector v of the 32 scales of a piece. */
DT__INLINE float32x4_t load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return vld1q_f32((const float *)(const void *)from + 4 * v);
    const uint16x4_t half = vld1_u16((const uint16_t *)(const void *)from + 4 * v);
    if (dtype == DT__SCALE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

#endif
