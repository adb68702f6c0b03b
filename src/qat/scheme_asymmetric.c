/* asymmetric: the codes span the whole range.   [torchao, ONNX DynamicQuantizeLinear]
 *
 *     scale = (hi - lo) / (qmax - qmin)       zero = clamp(qmin - rne(lo / scale), qmin, qmax)
 *
 * by true division, with the scale as it was rounded. Both ends on ties make it clip one value. */
#include "qat/scheme.h"

#include <math.h>

static float scale(int qmin, int qmax, float lo, float hi)
{
    return (hi - lo) / (float)(qmax - qmin);
}

static int zero(int qmin, int qmax, float lo, float scale)
{
    const float z = (float)qmin - rintf(lo / scale);
    return z < (float)qmin ? qmin : z > (float)qmax ? qmax : (int)z;
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
