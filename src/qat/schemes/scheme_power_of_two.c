/* power_of_two: weights of 4 bits, 0 and +-1, 2, 4, ... 64 times the scale, so that a product is a
 * shift.
 *
 *     scale = max(-lo, hi) / 64       code = the nearest level, of two the one further from 0
 *
 *     [INQ: Zhou et al. 2017] */
#include "qat/schemes/scheme.h"

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    for (int64_t i = 0; i < b->n; i++) {
        const float largest = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        b->scale[i] = largest / (float)qmax;
    }
}

static const dt__levels levels = {
    .n = 15,
    .code = { -64, -32, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32, 64 },
    .edge = { -96, -48, -24, -12, -6, -3, -0x1.8p0f, -0x1p-1f, 0x1.fffffep-2f, 0x1.7ffffep0f,
              0x1.7ffffep1f, 0x1.7ffffep2f, 0x1.7ffffep3f, 0x1.7ffffep4f, 0x1.7ffffep5f,
              0x1.7ffffep6f }
};

static const dt__scheme_case cases[] = {
    { "levels", 4, 8, { 64, -32, 16, -8, 4, -2, 1, 0 }, 1, 0, { 64, -32, 16, -8, 4, -2, 1, 0 } },
    { "ties", 4, 5, { -64, 3, -48, 0.5f, -1.5f }, 1, 0, { -64, 4, -64, 1, -2 } },
    { "zeros", 4, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_power_of_two = {
    .name = "power_of_two",
    .text = "weights of 4 bits, 0 and powers of two: max(-lo, hi) / 64",
    .bits = 4,
    .never_clips = true,
    .levels = &levels,
    .scale = scale,
    .cases = cases,
};
