/* device: activations of integer networks (numerics §8).      [TensorFlow Lite's converter]
 *
 *     scale = (hi - lo) / (qmax - qmin)     zero = clamp(round(-lo / scale), 0, qmax - qmin) + qmin
 *
 * in double, halves away from zero; the scale is stored as f32. [0, 0] has scale 1 and zero 0. */
#include "qat/schemes/scheme.h"

#include <math.h>

static double step(int qmin, int qmax, float lo, float hi)
{
    return ((double)hi - (double)lo) / (double)(qmax - qmin);
}

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        b->scale[i] = b->lo[i] == b->hi[i] ? 1 : (float)step(qmin, qmax, b->lo[i], b->hi[i]);
    }
}

static void zero(int qmin, int qmax, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        const double steps = round(-(double)b->lo[i] / step(qmin, qmax, b->lo[i], b->hi[i]));
        const double most = qmax - qmin;
        b->zero[i] = b->lo[i] == b->hi[i] ? 0 : (int8_t)((steps > most ? most : steps) + qmin);
    }
}

static const dt__scheme_case cases[] = {
    { "both sides", 8, 4, { -128, 127, 0, 0.5f }, 1, 0, { -128, 127, 0, 0 } },
    { "zero is forced into the range", 4, 3, { 7.5f, 15, 8.5f }, 1, -8, { 0, 7, 0 } },
    { "zeros", 4, 2, { 0, 0 }, 1, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_device = {
    .name = "device",
    .text = "(hi - lo) / (qmax - qmin) in double, as microcontrollers' converters do",
    .has_zero = true,
    .scale = scale,
    .zero = zero,
    .cases = cases,
};
