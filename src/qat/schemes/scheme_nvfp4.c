/* nvfp4: weights and activations of 4 bits, FP4 E2M1, with an E4M3 scale for each block of 16 and a
 * scale of the tensor.
 *
 *     global = min(448 * 6 * (1 / a), 2^116)    a = max |x| of the tensor
 *     e      = E4M3(global * (b / 6))           b = max |x| of a block of 16, of weights at least
 *                                               2^-123
 *     scale  = (e / global) / 2
 *
 * Each operation is rounded to f32, E4M3 to nearest even and cut to 448; an e of 0 becomes 1/8.
 * Codes are the values of E2M1 times 2. v = x / scale, by division, is rounded to the nearest
 * value, ties to an even mantissa, and cut to +-6. For activations a is that of the observed range;
 * with a dynamic range global is 1.   [NVIDIA's NVFP4; formulas of compressed-tensors] */
#include "core/text/small_float.h"
#include "qat/schemes/mx.h"

#include <float.h>
#include <math.h>

static float global_of(float a)
{
    const float wanted = 448 * 6 * (1 / a);
    return wanted < 0x1p116f ? wanted : 0x1p116f;
}

static inline float scale_of(float global, float most)
{
    const float e = dt__small_round(&dt__e4m3, global * (most / 6));
    return (e > 0 ? e : 0.125f) / global / 2;
}

/* The scale of a block alone: b / 8, which is exact. */
static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    (void)qmax;
    for (int64_t i = 0; i < b->n; i++) {
        const float most = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        b->scale[i] = b->global > 0 ? scale_of(b->global, most) : most / 8;
    }
}

static void settle(int64_t n, float *scale_)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = scale_[i] > most ? scale_[i] : most;
    const float global = global_of(8 * most);
    for (int64_t i = 0; i < n; i++) scale_[i] = scale_of(global, 8 * scale_[i]);
}

/* Whether every scale is (e / global) / 2 of some E4M3 number e. */
static bool fits(float global, int64_t n, const float *scale_)
{
    bool all = global > 0 && global <= FLT_MAX;
    for (int64_t i = 0; i < n && all; i++) {
        const float e = dt__small_round(&dt__e4m3, 2 * scale_[i] * global);
        all = e / global / 2 == scale_[i];
    }
    return all;
}

/* Tries each E4M3 number for the largest scale: global lies within 2 ulps of their quotient. */
float dt__nvfp4_global(int64_t n, const float *scale_)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = scale_[i] > most ? scale_[i] : most;
    for (int code = 0x7e; code > 0 && most > 0; code--) {
        float global = dt__small_value(&dt__e4m3, (uint8_t)code) / (2 * most);
        for (int i = 0; i < 2; i++) global = nextafterf(global, 0);
        for (int i = 0; i < 5; i++, global = nextafterf(global, INFINITY)) {
            if (fits(global, n, scale_)) return global;
        }
    }
    return 0;
}

static const dt__levels levels = { DT__FP4_LEVELS, .divides = true };

static const dt__scheme_case cases[] = {
    { "values of E2M1",
      4,
      8,
      { 4, 6, -3, 1.5f, 0.5f, -0.25f, 1.25f, 2.5f },
      0.5f,
      0,
      { 8, 12, -6, 3, 1, 0, 2, 4 } },
    { "a third", 4, 4, { 2, -1, 0.5f, 0 }, 0x1.555556p-3f, 0, { 12, -6, 3, 0 } },
    { "zeros", 4, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_nvfp4 = {
    .name = "nvfp4",
    .text =
        "NVFP4: FP4 (E2M1) in blocks of 16, whose scales are FP8 (E4M3) times one of the tensor",
    .bits = 4,
    .group = 16,
    .levels = &levels,
    .scale = scale,
    .settle = settle,
    .global = global_of,
    .cases = cases,
};
