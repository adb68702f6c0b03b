/* narrow: codes from -qmax to qmax.      scale = max(-lo, hi) / qmax      zero = 0 A block of zeros
 * has scale 1. For weights of integer networks (numerics §8). [TensorFlow Lite] */
#include "qat/schemes/scheme.h"

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    for (int64_t i = 0; i < b->n; i++) {
        const float largest = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        b->scale[i] = largest > 0 ? largest / (float)qmax : 1;
    }
}

static const dt__scheme_case cases[] = {
    { "both ends", 4, 4, { -7, 3.5f, 7, 0 }, 1, 0, { -7, 4, 7, 0 } },
    { "the larger end", 8, 3, { -127, 2.5f, 1 }, 1, 0, { -127, 2, 1 } },
    { "zeros", 4, 2, { 0, 0 }, 1, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_narrow = {
    .name = "narrow",
    .text = "max(-lo, hi) / qmax; codes from -qmax to qmax, as microcontrollers expect weights",
    .never_clips = true,
    .scale = scale,
    .cases = cases,
};
