/* A few rows of floats times packed codes on AArch64. A table lookup moves a code to the top byte
 * of its lane and fills the bytes below with zeros, which multiplies the code by a power of two;
 * the conversion to float divides by that power, exactly. */
#if defined DETENT_SIMD && defined __aarch64__
#include "core/threads.h"
#include "kernels/arm/neon.h"
#include "kernels/sets.h"

#include <string.h>

#define VECTOR 4
typedef float32x4_t floats;
DT__INLINE void store(float *y, floats x) { vst1q_f32(y, x); }
DT__INLINE floats set_all(float x) { return vdupq_n_f32(x); }
DT__INLINE floats fused(floats a, floats b, floats c) { return vfmaq_f32(c, a, b); }
DT__INLINE floats added(floats a, floats b) { return vaddq_f32(a, b); }
DT__INLINE floats zero(void) { return vdupq_n_f32(0); }

/* Byte i of each lane at the lane's top. */
DT__INLINE int32x4_t to_top(uint8x16_t bytes, int i)
{
    const uint32x4_t first = { 0x00ffffff, 0x04ffffff, 0x08ffffff, 0x0cffffff };
    const uint32x4_t index = vaddq_u32(first, vdupq_n_u32((uint32_t)i << 24));
    return vreinterpretq_s32_u8(vqtbl1q_u8(bytes, vreinterpretq_u8_u32(index)));
}

DT__INLINE floats codes_at(int bits, const uint8_t *step, int v, int at)
{
    const int half = at / 4, i = at % 4;
    if (bits == 8) {
        const uint8x16_t bytes = vld1q_u8(step + 128 * (v / 4) + 64 * half + 16 * (v % 4));
        return vcvtq_n_f32_s32(to_top(bytes, i), 24);
    }
    const uint8x16_t packed = vld1q_u8(step + 16 * v);
    const uint8x16_t high = half == 0 ? vshlq_n_u8(packed, 4) : vandq_u8(packed, vdupq_n_u8(0xf0));
    return vcvtq_n_f32_s32(to_top(high, i), 28);
}

#define KERNEL(name) dt__##name##__neon_dot
#define COLUMNS(rows) ((rows) == 1 ? 4 : 2)
#include "kernels/products/fgemm_tile.inc"
#endif
