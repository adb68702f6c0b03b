/* q4_0: the blocks of GGUF's Q4_0, so that requantizing an image gives the same bytes.   [ggml]
 *
 *     e = the element of largest magnitude, with its sign (the first of equals)
 *     d = e * -0.125       code = min(15, trunc(x * (1/d) + 8.5)) - 8       stored scale = fp16(d)
 *
 * The extremum gets code -8, so d is negative where it is positive. Codes come from d as it was
 * before rounding. Where d is 0 in fp16 the block is zeros, stored with scale -0. */
#include "qat/scheme.h"

#include "core/half.h"

#include <math.h>

static uint32_t block(int n, const float *x, float *scale, int8_t *codes)
{
    float e = 0;
    for (int k = 0; k < n; k++) e = fabsf(x[k]) > fabsf(e) ? x[k] : e;
    const float d = e * -0.125f;
    *scale = dt__round_f16(d);
    if (*scale == 0) {
        *scale = -0.0f;
        for (int k = 0; k < n; k++) codes[k] = 0;
        return 0;
    }
    const float inverse = 1 / d;
    uint32_t clipped = 0;
    for (int k = 0; k < n; k++) {
        const int code = (int)(x[k] * inverse + 8.5f);
        clipped |= (uint32_t)(code > 15) << k;
        codes[k] = (int8_t)((code > 15 ? 15 : code) - 8);
    }
    return clipped;
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
    .block = block,
    .cases = cases,
};
