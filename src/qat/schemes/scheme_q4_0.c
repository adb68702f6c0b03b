/* q4_0: the blocks of GGUF's Q4_0. Quantizing dequantized values gives the same bytes again. [ggml]
 *
 *     e = the element of largest magnitude, with its sign (the first of equals)
 *     d = e * -0.125       code = min(15, trunc(x * (1/d) + 8.5)) - 8       stored scale = fp16(d)
 *
 * e has code -8, so d is negative where e is positive. Codes are computed from d before it is
 * rounded. Where d is 0 in fp16 the block is all zeros, with a stored scale of -0. */
#include "qat/schemes/scheme.h"

#include "core/text/half.h"

/* Either lo or hi is e; where both have its magnitude, the one that is not e is passed as 0. */
static void scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    (void)qmax;
    for (int64_t i = 0; i < b->n; i++) {
        b->scale[i] = (-b->lo[i] > b->hi[i] ? b->lo[i] : b->hi[i]) * -0.125f;
    }
}

static void round_scales(const dt__scale_limits *limits, const dt__blocks *b)
{
    (void)limits; /* scales are f16 of either sign */
    for (int64_t i = 0; i < b->n; i++) {
        const float d = b->scale[i], stored = dt__round_f16(d);
        b->scale[i] = stored == 0 ? -0.0f : stored;
        b->inverse[i] = stored == 0 ? 0 : 1 / d;
    }
}

static const dt__scheme_case cases[] = {
    { "positive extremum", 4, 4, { 8, -7, 3, 0 }, -1, 0, { -8, 7, -3, 0 } },
    { "negative extremum", 4, 4, { -8, 7, 3, 0 }, 1, 0, { -8, 7, 3, 0 } },
    { "the first of equals", 4, 2, { 8, -8 }, -1, 0, { -8, 7 } },
    { "zeros", 4, 2, { 0, 0 }, -0.0f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_q4_0 = {
    .name = "q4_0",
    .text = "GGUF's Q4_0 blocks: 4 bits, groups of 32, fp16 scales of either sign",
    .fp16_blocks = true,
    .half_up = true,
    .extremum = true,
    .scale = scale,
    .round_scales = round_scales,
    .cases = cases,
};
