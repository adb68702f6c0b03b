/* The integer product with AArch64's dot products: udot adds four products of u8 and u8 to an int32
 * lane. There is none of u8 and s8, so codes are shifted (qgemm_shifted.inc). By sdot, activations
 * would be shifted, and what that adds differs from lane to lane: it takes a sum of codes for each
 * of 32 lanes, in place of one of activations for each row. */
#if defined DETENT_SIMD && defined __aarch64__
#include "kernels/arm/neon.h"
#include "kernels/qgemm.h"

#include <limits.h>
#include <string.h>

#define SET neon_dot
#define LANES_OF_VECTOR 4
#define MOST_ROWS 6
#define COLUMNS(rows) ((rows) == 1 ? 8 : 4)
#define CHAINS(rows) 1
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define SEGMENT INT_MAX
#define UNPACK_FROM 5
#define SHIFTED 1
#define AHEAD 0
#define NIBBLE_SHIFT 0

typedef int32x4_t ints;
typedef float32x4_t floats;
typedef float activations; /* four bytes in a vector's lane 0, which udot reads from there */

DT__INLINE ints load(const void *from) { return vld1q_s32(from); }
DT__INLINE void store(void *to, ints x) { vst1q_s32(to, x); }
DT__INLINE ints add(ints a, ints b) { return vaddq_s32(a, b); }
DT__INLINE floats to_floats(ints x) { return vcvtq_f32_s32(x); }
DT__INLINE floats load_floats(const float *from) { return vld1q_f32(from); }
DT__INLINE void store_floats(float *to, floats x) { vst1q_f32(to, x); }
DT__INLINE floats add_product(floats a, floats b, floats c) { return vfmaq_f32(c, a, b); }

DT__INLINE ints shift_right(ints x, int by)
{
    (void)by; /* NIBBLE_SHIFT, 0 */
    return x;
}

DT__INLINE activations broadcast(const uint8_t *from)
{
    activations word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* What is added to a code so that it is not negative. */
DT__INLINE int shift_of(bool nibbles) { return nibbles ? 8 : 128; }

/* The low (half 0) or high nibble of each byte, plus 8, as a byte. */
DT__INLINE ints nibbles_as_bytes(ints packed, int half)
{
    const uint8x16_t shifted = veorq_u8(vreinterpretq_u8_s32(packed), vdupq_n_u8(0x88));
    return vreinterpretq_s32_u8(half == 0 ? vandq_u8(shifted, vdupq_n_u8(15))
                                          : vshrq_n_u8(shifted, 4));
}

DT__INLINE ints low_nibbles(ints packed) { return nibbles_as_bytes(packed, 0); }
DT__INLINE ints high_nibbles(ints packed) { return nibbles_as_bytes(packed, 1); }

/* Bytes plus 128. */
DT__INLINE ints bytes_shifted(ints codes)
{
    return veorq_s32(codes, vreinterpretq_s32_u8(vdupq_n_u8(0x80)));
}

/* Vector v of the 32 scales of a piece. */
DT__INLINE floats load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return vld1q_f32((const float *)(const void *)from + 4 * v);
    const uint16x4_t half = vld1_u16((const uint16_t *)(const void *)from + 4 * v);
    if (dtype == DT__SCALE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* Inline assembly, since gcc 12 moves the four bytes into a vector of zeros, and copies sums. */
DT__INLINE ints multiply_add(int form, ints sum, activations u, ints w)
{
    const ints codes = form == DT__BYTES ? bytes_shifted(w) : w;
    __asm__ volatile("udot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(codes), "w"(u));
    return sum;
}

DT__INLINE ints multiply(int form, activations u, ints w)
{
    return multiply_add(form, vdupq_n_s32(0), u, w);
}

DT__INLINE ints widen(int form, ints sum)
{
    (void)form;
    return sum;
}

DT__INLINE ints first_sum(const int32_t *start, int at) { return vld1q_dup_s32(start + at); }
DT__INLINE ints times(ints x, int factor) { return vmulq_n_s32(x, factor); }

/* The sums of four rows, `steps` steps each. */
DT__INLINE ints sums_of_four(const uint8_t *const row[4], int steps)
{
    const uint8x16_t one = vdupq_n_u8(1);
    uint32x4_t sum[4];
    for (int r = 0; r < 4; r++) {
        sum[r] = vdupq_n_u32(0);
        int i = 0;
        for (; i + 2 <= steps; i += 2) sum[r] = vdotq_u32(sum[r], vld1q_u8(row[r] + 8 * i), one);
        if (i < steps) {
            const uint8x16_t last = vcombine_u8(vld1_u8(row[r] + 8 * i), vdup_n_u8(0));
            sum[r] = vdotq_u32(sum[r], last, one);
        }
    }
    const uint32x4_t all = vpaddq_u32(vpaddq_u32(sum[0], sum[1]), vpaddq_u32(sum[2], sum[3]));
    return vreinterpretq_s32_u32(all);
}

#include "kernels/qgemm_tile.inc"
#endif
