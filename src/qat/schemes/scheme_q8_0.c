/* q8_0: blocks of int8 around 0, as runtimes quantize activations: ggml (Q8_0), onnxruntime
 * (MatMulNBits, accuracy level 4), OpenVINO. [ggml]
 *
 *     a = max(-lo, hi)        code = rne(x * (127 / a))        scale = a / 127
 *
 * Codes are in -127 ... 127. They are computed from the float a, not from the stored scale. Where
 * the stored scale is 0, or 127 / a overflows, all codes are 0. */
#include "qat/schemes/scheme.h"

#include "core/text/half.h"

#include <float.h>

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    for (int64_t i = 0; i < b->n; i++) {
        const float largest = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        b->scale[i] = largest / (float)qmax;
        b->inverse[i] = (float)qmax / largest;
    }
}

static void round_scales(const dt__scale_limits *limits, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        if (limits->dtype == DT_SCALE_F16) b->scale[i] = dt__round_f16(b->scale[i]);
        if (limits->dtype == DT_SCALE_BF16) b->scale[i] = dt__round_bf16(b->scale[i]);
        if (b->scale[i] == 0 || !(b->inverse[i] <= FLT_MAX)) b->scale[i] = b->inverse[i] = 0;
    }
}

static const dt__scheme_case cases[] = {
    { "extrema", 8, 4, { 127, -127, 63.5f, 0.25f }, 1, 0, { 127, -127, 64, 0 } },
    { "ties to even", 8, 4, { 254, 1, 3, -5 }, 2, 0, { 127, 0, 2, -2 } },
    { "zeros", 8, 2, { 0, 0 }, 0, 0, { 0, 0 } },
    { "too small to divide by", 8, 2, { 0x1p-140f, 0 }, 0, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_q8_0 = {
    .name = "q8_0",
    .text = "max(-lo, hi) / 127, codes from x * (127 / max): blocks of activations as ggml and "
            "onnxruntime make them",
    .in_groups = true,
    .never_clips = true,
    .scale = scale,
    .round_scales = round_scales,
    .cases = cases,
};
