/* symmetric: the range's larger half spans half of the codes.   [torchao, compressed-tensors]
 *
 *     scale = max(-lo, hi) / ((qmax - qmin) / 2)       zero = 0
 *
 * For 4 bits the divisor is 7.5. The largest value may round to qmax + 1 and is then clipped. */
#include "qat/schemes/scheme.h"

static void scale(int qmin, int qmax, const dt__blocks *b)
{
    const float half = (float)(qmax - qmin) / 2;
    for (int64_t i = 0; i < b->n; i++) {
        const float largest = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        b->scale[i] = largest / half;
    }
}

static const dt__scheme_case cases[] = {
    { "extremum is clipped", 4, 4, { 7.5f, -7.5f, 0, 3.4f }, 1, 0, { 7, -8, 0, 3 } },
    { "ties to even",
      4,
      8,
      { 7.5f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 3.5f },
      1,
      0,
      { 7, 0, 2, 2, 0, -2, -2, 4 } },
    { "zeros", 4, 3, { 0, -0.0f, 0 }, 0x1p-126f, 0, { 0, 0, 0 } },
    { "two bits", 2, 4, { -3, 3, 1, -1 }, 2, 0, { -2, 1, 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_symmetric = {
    .name = "symmetric",
    .text = "max(-lo, hi) / ((qmax - qmin) / 2); the default of weights",
    .scale = scale,
    .cases = cases,
};
