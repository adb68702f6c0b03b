/* Multipliers of real factors, and requantization in plain C (requantize.h). */
#include "kernels/kernels.h"

#include <math.h>

/* [TensorFlow Lite, QuantizeMultiplier] */
dt__multiplier dt__multiplier_of(double real)
{
    int shift;
    const double q = frexp(real, &shift);
    int64_t m = (int64_t)round(q * 0x1p31);
    if (m == (int64_t)1 << 31) {
        m /= 2;
        shift++;
    }
    if (m == 0 || shift < -31) return (dt__multiplier){ 0, 0 };
    return (dt__multiplier){ (int32_t)m, shift };
}

#define KERNEL(name) dt__##name##__ref
#include "kernels/products/requantize_row.inc"
