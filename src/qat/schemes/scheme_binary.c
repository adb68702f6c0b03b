/* binary: weights of -1 and 1.
 *
 *     scale = mean |x|        code = x < 0 ? -1 : 1
 *
 * of a block, the scale of least squared error.   [XNOR-Net: Rastegari et al. 2016] */
#include "qat/schemes/scheme.h"

#include <float.h>

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    (void)qmax;
    for (int64_t i = 0; i < b->n; i++) {
        b->scale[i] = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
    }
}

/* The outer thresholds lie half of the distance of the two codes beyond them: -2 is inside, 2 is
 * not. */
static const dt__levels levels = { .n = 2,
                                   .code = { -1, 1 },
                                   .edge = { -0x1.000002p1f, -FLT_TRUE_MIN, 0x1.fffffep0f } };

static const dt__scheme_case cases[] = {
    { "the mean of magnitudes", 1, 4, { 1, -3, -0.25f, 0.75f }, 1.25f, 0, { 1, -1, -1, 1 } },
    { "zero", 1, 3, { 0, -0.0f, -6 }, 2, 0, { 1, 1, -1 } },
    { "zeros", 1, 2, { 0, 0 }, 0x1p-126f, 0, { 1, 1 } },
    { 0 },
};

const dt__scheme dt__scheme_binary = {
    .name = "binary",
    .text = "weights of -1 and 1: the mean of magnitudes",
    .bits = 1,
    .mean = true,
    .levels = &levels,
    .scale = scale,
    .cases = cases,
};
