/* Loops of integer networks over codes (numerics §8), plain C on the calling thread's team. Codes
 * are u8, plus 128. */
#ifndef DT__KERNELS_DEVICE_LOOPS_H
#define DT__KERNELS_DEVICE_LOOPS_H

#include "kernels/planes.h"
#include "kernels/products/requantize.h"

/* Two operands of n codes; `residual` as in dt__requantizing. */
typedef struct dt__device_zip {
    int64_t n;
    const uint8_t *a, *b;
    int zero_a, zero_b, zero, least, most;
    uint8_t *y;
    int8_t *residual;
} dt__device_zip;

/* y = requantize(requantize((a - z_a) << 20, by.a) + requantize((b - z_b) << 20, by.b), by.y) +
 * z_y. */
typedef struct dt__device_add {
    dt__multiplier a, b, y;
    bool minus; /* y = a - b */
} dt__device_add;
void dt__device_add_codes(const dt__device_zip *z, const dt__device_add *by);

/* y = requantize((a - z_a) (b - z_b), by) + z_y. */
void dt__device_mul_codes(const dt__device_zip *z, dt__multiplier by);

/* y = requantize(a - z_a, above) where a >= z_a, else requantize((a - z_a) (b - z_b), below), +
 * z_y. */
typedef struct dt__device_prelu {
    dt__multiplier above, below;
} dt__device_prelu;
void dt__device_prelu_codes(const dt__device_zip *z, const dt__device_prelu *by);

/* y = clamp(round(x / scale) + zero, -128, 127), halves away from zero; x is finite. */
typedef struct dt__device_quantizing {
    int64_t n;
    const float *x;
    float scale;
    int zero;
    uint8_t *y;
    int8_t *residual;
} dt__device_quantizing;
void dt__device_quantize_codes(const dt__device_quantizing *q);

/* Averages of windows of codes: over the pixels inside the plane, or over padding too, whose code
 * is `zero`; p->x and p->y are codes. */
void dt__device_avg_codes(const dt__windows *p, int zero);

typedef struct dt__device_softmax {
    dt__multiplier by; /* shift at least 0 */
    int32_t least;     /* least value of x - max; below it the result is -128 */
} dt__device_softmax;
/* Rows of n codes. */
void dt__device_softmax_codes(const dt__device_softmax *s, int64_t rows, int64_t n,
                              const uint8_t *x, uint8_t *y);
/* The parts of softmax, exposed for tests: e^x for x <= 0 in Q5.26, and 1 / (1 + x) for x in [0, 1)
 * in Q0.31; results in Q0.31. */
int32_t dt__device_exp(int32_t x);
int32_t dt__device_reciprocal(int32_t x);

#endif
