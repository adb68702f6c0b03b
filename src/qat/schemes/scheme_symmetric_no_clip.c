/* symmetric_no_clip: the smallest scale with which no value is clipped.   [torchao]
 *
 *     scale = max(lo / qmin, hi / qmax)       zero = 0 */
#include "qat/schemes/scheme.h"

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        const float below = b->lo[i] / (float)qmin, above = b->hi[i] / (float)qmax;
        b->scale[i] = below > above ? below : above;
    }
}

static const dt__scheme_case cases[] = {
    { "negative end decides", 4, 4, { -8, 3.5f, 7, 0 }, 1, 0, { -8, 4, 7, 0 } },
    { "positive end decides", 4, 3, { -7, 7, 2.5f }, 1, 0, { -7, 7, 2 } },
    { "zeros", 8, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_symmetric_no_clip = {
    .name = "symmetric_no_clip",
    .text = "max(lo / qmin, hi / qmax); the largest value is never clipped",
    .never_clips = true,
    .scale = scale,
    .cases = cases,
};
