/* asymmetric: the codes span the whole range.   [torchao, ONNX DynamicQuantizeLinear]
 *
 *     scale = (hi - lo) / (qmax - qmin)       zero = clamp(qmin - rne(lo / scale), qmin, qmax)
 *
 * by true division, with the scale after its rounding. Where both ends lie on ties, one is
 * clipped. */
#include "qat/schemes/scheme.h"

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) b->scale[i] = (b->hi[i] - b->lo[i]) / (float)(qmax - qmin);
}

/* Adding and subtracting 1.5 * 2^23 rounds to even, as rintf does, and can be vectorized. */
static void zero(int qmin, int qmax, const dt__blocks *b)
{
    const float low = (float)qmin, high = (float)qmax;
    for (int64_t i = 0; i < b->n; i++) {
        const float steps = b->lo[i] / b->scale[i];
        const float z = low - (((steps < -512 ? -512 : steps) + 0x1.8p23f) - 0x1.8p23f);
        b->zero[i] = (int8_t)(int)(z > high ? high : z);
    }
}

static const dt__scheme_case cases[] = {
    { "both sides", 8, 4, { -128, 127, 0, 0.5f }, 1, 0, { -128, 127, 0, 0 } },
    { "zero is forced into the range", 4, 3, { 7.5f, 15, 8.5f }, 1, -8, { 0, 7, 0 } },
    { "all negative", 4, 3, { -15, -1, -2.5f }, 1, 7, { -8, 6, 5 } },
    { "zeros", 4, 2, { 0, 0 }, 0x1p-126f, -8, { -8, -8 } },
    { 0 },
};

const dt__scheme dt__scheme_asymmetric = {
    .name = "asymmetric",
    .text = "(hi - lo) / (qmax - qmin) and a zero point; the default of activations",
    .has_zero = true,
    .scale = scale,
    .zero = zero,
    .cases = cases,
};
