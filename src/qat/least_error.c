/* Rule `mse`: the range of a block of values, made smaller where that is the lesser harm.
 *
 *     p = 1 - i/100, i = 0 ... 19         scale s and zero point z of (p lo, p hi) by the base rule
 *     q = rne(clamp(x/s + z))             x^ = (q - z) s
 *     the first p of least sum |x^ - x|^2.4
 *
 * Every p is tried; sums are in double, of PARTS parts of the values each, added in their order, so
 * that they do not depend on threads. [after llm-compressor's memoryless_mse observer] */
#include "qat/least_error.h"

#include "core/core.h"
#include "kernels/kernels.h"
#include "qat/scheme.h"

#include <math.h>

#define STEPS 20
#define PARTS 64

typedef struct trial {
    float scale, zero, qmin, qmax;
} trial;

static double error_of(const trial *t, int64_t n, const float *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] / t->scale + t->zero;
        v = v < t->qmin ? t->qmin : v > t->qmax ? t->qmax : v;
        const float image = (rintf(v) - t->zero) * t->scale;
        sum += pow(fabs((double)image - (double)x[i]), 2.4);
    }
    return sum;
}

static double whole_error(const trial *t, int64_t n, const float *x)
{
    double part[PARTS], sum = 0;
    const int64_t step = dt__ceil_div(n, PARTS);
#pragma omp parallel for schedule(static) if (n > DT__CHUNK)
    for (int k = 0; k < PARTS; k++) {
        const int64_t first = dt__min_i64(k * step, n);
        part[k] = error_of(t, dt__min_i64(step, n - first), x + first);
    }
    for (int k = 0; k < PARTS; k++) sum += part[k];
    return sum;
}

int dt__least_error(const dt_quant *q, int64_t n, const float *x, float *lo, float *hi)
{
    int best = 0;
    double least = 0;
    for (int i = 0; i < STEPS; i++) {
        const float p = (float)(1 - i / 100.0), low = *lo * p, high = *hi * p;
        float scale, inverse;
        int8_t zero = 0;
        const bool has_zero = dt__scheme_of(q->rule)->has_zero;
        dt__choose_scales(
            q, &(dt__blocks){ 1, &low, &high, &scale, &inverse, has_zero ? &zero : NULL });
        const trial t = { scale, (float)zero, (float)dt__qmin(q), (float)dt__qmax(q) };
        const double error = whole_error(&t, n, x);
        if (i > 0 && !(error < least)) continue;
        best = i;
        least = error;
    }
    const float p = (float)(1 - best / 100.0);
    *lo *= p;
    *hi *= p;
    return best;
}
