/* The arithmetic of VDPBF16PS (AVX-512 BF16) and TDPBF16PS (AMX-BF16) in plain C: operands are
 * bf16, sums fp32, denormal numbers are zeros wherever they are read or made. Source: Intel 64 and
 * IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS, VCVTNEPS2BF16, TDPBF16PS;
 * tests compare all of them with the instructions. */
#ifndef DT__KERNELS_BF16_H
#define DT__KERNELS_BF16_H

#include "core/text/half.h"
#include "kernels/products/gemm.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* x, or a zero of its sign where it is denormal. By bits, which compilers vectorize. */
static inline float dt__bf16_flushed(float x)
{
    const uint32_t bits = dt__bits_of_f32(x);
    return dt__f32_of_bits(bits & ((bits & 0x7f800000U) == 0 ? 0x80000000U : UINT32_MAX));
}

/* The nearest bf16, ties to even. */
static inline float dt__bf16_rounded(float x) { return dt__round_bf16(dt__bf16_flushed(x)); }

/* The value of a bf16, from its bits. */
static inline float dt__bf16_value(uint16_t half)
{
    return dt__bf16_flushed(dt__bf16_to_f32(half));
}

/* a b + c, rounded once, for operands that are not denormal. The processor flushes a sum that is
 * below FLT_MIN when rounded to 24 bits without a limit of the exponent; fmaf rounds such sums to
 * fewer bits, possibly up to FLT_MIN. A double decides these cases. */
static inline float dt__bf16_fused(float a, float b, float c)
{
    const float y = fmaf(a, b, c);
    if (fabsf(y) == FLT_MIN && fabs((double)a * (double)b + (double)c) < 0x1p-126 - 0x1p-151) {
        return copysignf(0, y);
    }
    return dt__bf16_flushed(y);
}

/* sum[l] = a b[l] + sum[l] for DT__GEMM_PANEL sums. The first loop has no branch and is vectorized;
 * if a result is FLT_MIN, all are computed again by dt__bf16_fused. */
static inline void dt__bf16_add_term(float a, const float *b, float *sum)
{
    float y[DT__GEMM_PANEL];
    uint32_t edge = 0;
    for (int l = 0; l < DT__GEMM_PANEL; l++) {
        uint32_t bits;
        const float v = fmaf(a, b[l], sum[l]);
        memcpy(&bits, &v, sizeof bits);
        edge |= bits << 1 == 0x01000000U;
        y[l] = dt__bf16_flushed(v);
    }
    for (int l = 0; edge != 0 && l < DT__GEMM_PANEL; l++) {
        y[l] = dt__bf16_fused(a, b[l], sum[l]);
    }
    memcpy(sum, y, sizeof y);
}

/* Matrix tiles add this many terms of a sum at once: the terms at even places and those at odd
 * places are summed separately from zero, then the total of both is added to the sum: */
#define DT__BF16_TILE 32
static inline void dt__bf16_join(int n, const float *even, const float *odd, float *sum)
{
    for (int l = 0; l < n; l++) {
        sum[l] = dt__bf16_flushed(dt__bf16_flushed(sum[l]) + dt__bf16_flushed(even[l] + odd[l]));
    }
}

#endif
