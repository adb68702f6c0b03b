/* ternary: weights of -1, 0 and 1, 1.58 bits.
 *
 *     scale = mean |x|        code = rne(clamp(x / scale, -1, 1))
 *
 * over a block. This is the absmean of BitNet b1.58, whose block is the tensor.   [Ma et al.
 * 2024] */
#include "qat/schemes/scheme.h"

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    (void)qmax;
    for (int64_t i = 0; i < b->n; i++) {
        b->scale[i] = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
    }
}

/* Ties round to the even code: -0.5 and 0.5 to 0; -1.5 and 1.5 count as clipped. */
static const dt__levels levels = { .n = 3,
                                   .code = { -1, 0, 1 },
                                   .edge = { -1.5f, -0x1.000002p-1f, 0.5f, 0x1.7ffffep0f } };

static const dt__scheme_case cases[] = {
    { "the mean of magnitudes", 2, 4, { 1, -3, 0, 0.5f }, 1.125f, 0, { 1, -1, 0, 0 } },
    { "ties to even", 2, 6, { 0.5f, -0.5f, 1.5f, -1.5f, 1, -1 }, 1, 0, { 0, 0, 1, -1, 1, -1 } },
    { "zeros", 2, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_ternary = {
    .name = "ternary",
    .text =
        "weights of -1, 0 and 1: the mean of magnitudes, as BitNet b1.58 has it, better learned",
    .bits = 2,
    .mean = true,
    .levels = &levels,
    .scale = scale,
    .cases = cases,
};
