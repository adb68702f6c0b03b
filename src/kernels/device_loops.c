/* Loops of integer networks: device_loops.h, numerics §8. */
#include "kernels/device_loops.h"

#include "core/threads.h"
#include "kernels/kernels.h"

#include <math.h>

/* Writes the code of a result q + zero, where q is `real` rounded, and its residual. */
static inline void store(int32_t y, int least, int most, float error, uint8_t *to, int8_t *residual)
{
    *to = (uint8_t)((y < least ? least : y > most ? most : y) + 128);
    if (residual == NULL) return;
    const float r = 254 * error, cut = r < -126 ? -126 : r > 126 ? 126 : r;
    *residual = (int8_t)(y < least ? DT__BELOW : y > most ? DT__ABOVE : (int)rintf(cut));
}

static inline float unit_of(dt__multiplier by) { return ldexpf((float)by.m, by.shift - 31); }

typedef struct zip_args {
    const dt__device_zip *z;
    const dt__device_add *add;
    const dt__device_prelu *prelu;
    dt__multiplier mul;
} zip_args;

static void add_share(const void *args, const dt__share *s)
{
    const dt__device_zip *z = ((const zip_args *)args)->z;
    const dt__device_add by = *((const zip_args *)args)->add;
    const float unit = unit_of(by.y);
    for (int64_t i = s->first; i < s->past; i++) {
        const int32_t a = ((int32_t)z->a[i] - 128 - z->zero_a) * (1 << 20);
        const int32_t b = ((int32_t)z->b[i] - 128 - z->zero_b) * (1 << 20);
        const int32_t second = dt__requantize(b, by.b);
        const int32_t sum = dt__requantize(a, by.a) + (by.minus ? -second : second);
        const int32_t q = dt__requantize(sum, by.y);
        store(q + z->zero, z->least, z->most, (float)q - (float)sum * unit, z->y + i,
              z->residual == NULL ? NULL : z->residual + i);
    }
}

void dt__device_add_codes(const dt__device_zip *z, const dt__device_add *by)
{
    dt__parallel(z->n, 4, add_share, &(zip_args){ .z = z, .add = by });
}

static void mul_share(const void *args, const dt__share *s)
{
    const dt__device_zip *z = ((const zip_args *)args)->z;
    const dt__multiplier by = ((const zip_args *)args)->mul;
    const float unit = unit_of(by);
    for (int64_t i = s->first; i < s->past; i++) {
        const int32_t a = (int32_t)z->a[i] - 128 - z->zero_a,
                      b = (int32_t)z->b[i] - 128 - z->zero_b;
        const int32_t q = dt__requantize(a * b, by);
        store(q + z->zero, z->least, z->most, (float)q - (float)(a * b) * unit, z->y + i,
              z->residual == NULL ? NULL : z->residual + i);
    }
}

void dt__device_mul_codes(const dt__device_zip *z, dt__multiplier by)
{
    dt__parallel(z->n, 2, mul_share, &(zip_args){ .z = z, .mul = by });
}

static void prelu_share(const void *args, const dt__share *s)
{
    const dt__device_zip *z = ((const zip_args *)args)->z;
    const dt__device_prelu by = *((const zip_args *)args)->prelu;
    const float units[] = { unit_of(by.above), unit_of(by.below) };
    for (int64_t i = s->first; i < s->past; i++) {
        const int32_t a = (int32_t)z->a[i] - 128 - z->zero_a;
        const bool below = a < 0;
        const int32_t v = below ? a * ((int32_t)z->b[i] - 128 - z->zero_b) : a;
        const int32_t q = dt__requantize(v, below ? by.below : by.above);
        store(q + z->zero, z->least, z->most, (float)q - (float)v * units[below], z->y + i,
              z->residual == NULL ? NULL : z->residual + i);
    }
}

void dt__device_prelu_codes(const dt__device_zip *z, const dt__device_prelu *by)
{
    dt__parallel(z->n, 2, prelu_share, &(zip_args){ .z = z, .prelu = by });
}

/* Rounding before the clamp would leave int32. 2^20 is more than any code. */
DT__LOOP(quantize_share, dt__device_quantizing, q, i)
{
    const float v = q->x[i] / q->scale;
    const float cut = v < -0x1p20f ? -0x1p20f : v > 0x1p20f ? 0x1p20f : v == v ? v : 0;
    const int32_t code = (int32_t)roundf(cut);
    store(code + q->zero, -128, 127, (float)code - cut, q->y + i,
          q->residual == NULL ? NULL : q->residual + i);
}

void dt__device_quantize_codes(const dt__device_quantizing *q)
{
    dt__parallel(q->n, 2, quantize_share, q);
}

/* The pixels start, start + step, ... (at most `kernel`) that lie in 0 ... extent - 1: the first,
 * and how many. */
static int64_t inside(int64_t start, int64_t kernel, int64_t step, int64_t extent, int64_t *first)
{
    const int64_t skip = start < 0 ? dt__ceil_div(-start, step) : 0;
    *first = start + skip * step;
    const int64_t room = *first < extent ? dt__ceil_div(extent - *first, step) : 0;
    return dt__max_i64(0, dt__min_i64(kernel - skip, room));
}

/* The numbers of pixels of a window, and of its padding, that count. */
static int64_t counted(const dt__windows *p, int d, int64_t i)
{
    const int64_t from = i * p->stride[d] - p->padding[d];
    return dt__min_i64(from + p->kernel[d], p->in[d] + p->padding[d]) - from;
}

static uint8_t mean_of(const dt__windows *p, const uint8_t *x, int zero, const int64_t at[2])
{
    const int64_t i = at[0], j = at[1];
    int64_t row, column, sum = 0;
    const int64_t rows =
        inside(i * p->stride[0] - p->padding[0], p->kernel[0], p->dilation[0], p->in[0], &row);
    const int64_t columns =
        inside(j * p->stride[1] - p->padding[1], p->kernel[1], p->dilation[1], p->in[1], &column);
    for (int64_t a = 0; a < rows; a++) {
        const uint8_t *from = x + (row + a * p->dilation[0]) * p->in[1] + column;
        for (int64_t b = 0; b < columns; b++) sum += from[b * p->dilation[1]];
    }
    int64_t n = rows * columns;
    sum -= 128 * n;
    if (p->count_padding) {
        const int64_t all = counted(p, 0, i) * counted(p, 1, j);
        sum += zero * (all - n);
        n = all;
    }
    return (uint8_t)((sum > 0 ? sum + n / 2 : sum - n / 2) / n + 128);
}

typedef struct avg_args {
    const dt__windows *p;
    int zero;
} avg_args;

static void avg_share(const void *args, const dt__share *s)
{
    const avg_args a = *(const avg_args *)args;
    uint8_t *y = (uint8_t *)a.p->y + s->first * a.p->out[0] * a.p->out[1];
    for (int64_t plane = s->first; plane < s->past; plane++) {
        const uint8_t *x = (const uint8_t *)a.p->x + plane * a.p->in[0] * a.p->in[1];
        for (int64_t i = 0; i < a.p->out[0]; i++) {
            for (int64_t j = 0; j < a.p->out[1]; j++) {
                *y++ = mean_of(a.p, x, a.zero, (const int64_t[]){ i, j });
            }
        }
    }
}

void dt__device_avg_codes(const dt__windows *p, int zero)
{
    const avg_args args = { p, zero };
    const int64_t work = p->out[0] * p->out[1] * (4 + p->kernel[0] * p->kernel[1] / 4);
    dt__parallel(p->planes, work, avg_share, &args);
}

/* e^x for x <= 0 (Q5.26): Taylor's series about -1/8 to the fourth power for x in [-1/4, 0), times
 * a constant for each higher bit of x. */
int32_t dt__device_exp(int32_t x)
{
    static const int32_t powers[] = { 1672461947, 1302514674, 790015084, 290630308,
                                      39332535,   720401,     242 };
    const int32_t eighth = 1895147668, third = 715827883; /* e^(-1/8) and 1/3 in Q0.31 */
    if (x == 0) return INT32_MAX;
    const int32_t part = (x & ((1 << 24) - 1)) - (1 << 24), rest = part - x;
    const int32_t a = part * 32 + (1 << 28);
    const int32_t a2 = dt__high_mult(a, a), a3 = dt__high_mult(a2, a);
    const int32_t a4 = dt__div_pow2(dt__high_mult(a2, a2), 2);
    const int32_t series = a + dt__div_pow2(dt__high_mult(a4 + a3, third) + a2, 1);
    int32_t r = eighth + dt__high_mult(eighth, series);
    for (int bit = 0; bit < 7; bit++) {
        if ((rest >> (24 + bit) & 1) != 0) r = dt__high_mult(r, powers[bit]);
    }
    return r;
}

static int32_t saturated(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

/* 1 / (1 + x), by three steps of Newton's method from 48/17 - 32/17 d, in Q2.29. */
int32_t dt__device_reciprocal(int32_t x)
{
    const int32_t d = (int32_t)(((int64_t)x + ((int64_t)1 << 31)) >> 1);
    int32_t r = 1515870810 + dt__high_mult(d, -1010580540);
    for (int i = 0; i < 3; i++) {
        const int32_t error = (1 << 29) - dt__high_mult(d, r);
        r += saturated((int64_t)dt__high_mult(r, error) * 4);
    }
    return saturated((int64_t)r * 2);
}

static void softmax_row(const dt__device_softmax *s, int64_t n, const uint8_t *x, uint8_t *y)
{
    int32_t most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++) {
        const int32_t d = x[i] - most;
        if (d < s->least) continue;
        const int32_t a = (int32_t)((uint32_t)d << s->by.shift);
        sum += dt__div_pow2(dt__device_exp(dt__high_mult(a, s->by.m)), 12);
    }
    /* positive, since the largest element contributes */
    const int room = __builtin_clz((unsigned)sum);
    const int32_t fraction = (int32_t)(((uint32_t)sum << room) - ((uint32_t)1 << 31));
    const int32_t inverse = dt__device_reciprocal(fraction);
    for (int64_t i = 0; i < n; i++) {
        const int32_t d = x[i] - most;
        y[i] = 0;
        if (d < s->least) continue;
        const int32_t a = (int32_t)((uint32_t)d << s->by.shift);
        const int32_t e = dt__device_exp(dt__high_mult(a, s->by.m));
        const int32_t q = dt__div_pow2(dt__high_mult(inverse, e), 35 - room);
        y[i] = (uint8_t)(q < 0 ? 0 : q > 255 ? 255 : q);
    }
}

typedef struct softmax_args {
    const dt__device_softmax *s;
    int64_t n;
    const uint8_t *x;
    uint8_t *y;
} softmax_args;

DT__LOOP(softmax_share, softmax_args, of, i)
{
    softmax_row(of->s, of->n, of->x + i * of->n, of->y + i * of->n);
}

void dt__device_softmax_codes(const dt__device_softmax *s, int64_t rows, int64_t n,
                              const uint8_t *x, uint8_t *y)
{
    const softmax_args args = { s, n, x, y };
    if (n > 0) dt__parallel(rows, 40 * n, softmax_share, &args);
}
