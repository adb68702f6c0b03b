/* half_levels: two bits without a zero. The values are -3/2, -1/2, 1/2 and 3/2 of a step, so codes
 * are the odd integers -3, -1, 1, 3 and the scale is half of the step.
 *
 *     scale = max(-lo, hi) / 4       code = 2 rne((v - 1) / 2) + 1,  v = x / scale
 *
 * The range ends half a step beyond the outer values.   [ParetoQ, stretched elastic quantization:
 * Liu et al. 2025] */
#include "qat/schemes/scheme.h"

#include <float.h>

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    for (int64_t i = 0; i < b->n; i++) {
        const float largest = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        b->scale[i] = largest / (float)(qmax + 1);
    }
}

/* Ties: -4 is inside and 4 is not; -2 and 2 go to -3 and 1, 0 to 1. */
static const dt__levels levels = { .n = 4,
                                   .code = { -3, -1, 1, 3 },
                                   .edge = { -0x1.000002p2f, -2, -FLT_TRUE_MIN, 2,
                                             0x1.fffffep1f } };

static const dt__scheme_case cases[] = {
    { "both sides", 2, 6, { 4, -4, 2.5f, -2.5f, 0.5f, -0.5f }, 1, 0, { 3, -3, 3, -3, 1, -1 } },
    { "ties", 2, 5, { -8, 4, -4, 0, -0.0f }, 2, 0, { -3, 1, -3, 1, 1 } },
    { "zeros", 2, 2, { 0, 0 }, 0x1p-126f, 0, { 1, 1 } },
    { 0 },
};

const dt__scheme dt__scheme_half_levels = {
    .name = "half_levels",
    .text =
        "weights of 2 bits, -3/2, -1/2, 1/2 and 3/2 of a step: max(-lo, hi) / 4, better learned",
    .bits = 2,
    .levels = &levels,
    .scale = scale,
    .cases = cases,
};
