/* Tables of functions of one code (numerics §8). LiteRT's reference kernels compute most functions
 * in f32 and round once:
 *     y = clamp(round(f(s_x (q - z_x)) (1 / s_y)) + z_y)
 * They compute leaky_relu by two multipliers, relu and relu6 by one, and hardswish in 16 bits
 * (Howard et al. 2019). */
#include "ops/device/device_functions.h"

#include <math.h>

const char *const dt__device_function_names[] = { "sigmoid",   "tanh",       "elu",       "gelu",
                                                  "gelu_tanh", "leaky_relu", "hardswish", "relu",
                                                  "relu6",     NULL };

/* ---- functions in f32 ------------------------------------------------------------------------ */

/* exp and similar functions are rounded from f64, so that the last bits do not depend on a
 * library's floats. */
static float sigmoid(float x) { return 1 / (1 + (float)exp((double)-x)); }
static float hyperbolic(float x) { return (float)tanh((double)x); }
static float elu(float x) { return x < 0 ? (float)expm1((double)x) : x; }

static float gelu(float x)
{
    return x * (0.5f * (float)erfc((double)(x * -0.70710678118654752440f)));
}

static float gelu_tanh(float x)
{
    return 0.5f * x * (1 + hyperbolic(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
}

static float (*const functions[])(float x) = { sigmoid, hyperbolic, elu, gelu, gelu_tanh };

/* A code that is not clamped yet, and the real result in units of codes. */
typedef struct result {
    int32_t code;
    double real;
} result;

static result of_function(float (*f)(float x), dt__coding_range x, dt__coding_range y, int code)
{
    const float v = f(x.scale * (float)(code - x.zero)) * (1 / y.scale);
    const float cut = v < -0x1p20f ? -0x1p20f : v > 0x1p20f ? 0x1p20f : v;
    return (result){ (int32_t)roundf(cut) + y.zero, (double)cut + y.zero };
}

/* ---- leaky_relu ------------------------------------------------------------------------------ */

static int32_t times(int32_t v, double real)
{
    const dt__multiplier by = dt__multiplier_of(fabs(real));
    return dt__requantize(real < 0 ? -v : v, by);
}

static result of_leaky(double slope, dt__coding_range x, dt__coding_range y, int code)
{
    const int32_t v = code - x.zero;
    const float by = v >= 0 ? x.scale / y.scale : x.scale * (float)slope / y.scale;
    return (result){ times(v, (double)by) + y.zero, v * (double)by + y.zero };
}

/* relu and relu6: the multiplier of positive values, and clamps. */
static result of_clamp(int function, dt__coding_range x, dt__coding_range y, int code)
{
    int least, most;
    const result r = of_leaky(0, x, y, code);
    dt__device_clamps(function == DT_TABLE_RELU ? DT_ACT_RELU : DT_ACT_RELU6, y, &least, &most);
    if (most == 127 || r.code <= most) return r; /* 127 is the end of the range, not a clamp */
    return (result){ most, most };
}

/* ---- hardswish ------------------------------------------------------------------------------- */

static int16_t narrow(int32_t v)
{
    return (int16_t)(v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v);
}

/* The upper 16 bits of a multiplier. */
static int16_t half_of(dt__multiplier by)
{
    return by.m >= INT32_MAX - (1 << 15) ? INT16_MAX : (int16_t)((by.m + (1 << 15)) >> 16);
}

/* a b / 2^15, halves rounded up. */
static int16_t high16(int16_t a, int16_t b) { return narrow((a * b + (1 << 14)) >> 15); }

/* v 2^e, saturated. */
static int16_t up16(int16_t v, int e)
{
    return e > 15 ? narrow(v == 0 ? 0 : v < 0 ? INT16_MIN : INT16_MAX) : narrow(v * (1 << e));
}

static result of_hardswish(dt__coding_range x, dt__coding_range y, int code)
{
    const float fine = x.scale * (1.0f / 128);
    const dt__multiplier to = dt__multiplier_of((double)(fine / y.scale));
    const dt__multiplier gate = dt__multiplier_of((double)(fine / (3.0f / 32768)));
    const int16_t v = (int16_t)((code - x.zero) * 128);
    int16_t open = gate.shift > 0 ? up16(v, gate.shift - 1) : v;
    open = high16(open, half_of(gate));
    open = gate.shift > 0 ? up16(open, 1) : (int16_t)dt__div_pow2(open, -gate.shift);
    open = (int16_t)((open + (1 << 15)) >> 1);
    const int32_t product = open * high16(v, half_of(to)) / (1 << 15); /* rounded towards 0 */
    const double r = (double)x.scale * (code - x.zero);
    const double real = r * fmin(fmax(r + 3, 0), 6) / 6 / (double)y.scale;
    return (result){ dt__div_pow2(product, -to.shift) + y.zero, real + y.zero };
}

/* ---- tables ---------------------------------------------------------------------------------- */

dt__coding_range dt__device_table_range(int function)
{
    return function == DT_TABLE_SIGMOID ? (dt__coding_range){ 0x1p-8f, -128 }
           : function == DT_TABLE_TANH  ? (dt__coding_range){ 0x1p-7f, 0 }
                                        : (dt__coding_range){ 0, 0 };
}

/* hardswish shifts its result to the right only; otherwise 255 s_x / s_y must stay below 2^28. */
double dt__device_table_scale(int function, float x)
{
    return (double)x * (function == DT_TABLE_HARDSWISH ? 0x1.00001p-7 : 0x1p-20);
}

static int8_t residual_of(result r)
{
    const double error = 254 * (r.code - r.real);
    return (int8_t)(r.code < -128  ? DT__BELOW
                    : r.code > 127 ? DT__ABOVE
                                   : (int)rint(fmin(fmax(error, -126), 126)));
}

static result result_of(const dt_device_table_options *o, dt__coding_range x, dt__coding_range y,
                        int code)
{
    switch (o->function) {
    case DT_TABLE_LEAKY_RELU: return of_leaky(o->slope, x, y, code);
    case DT_TABLE_HARDSWISH: return of_hardswish(x, y, code);
    case DT_TABLE_RELU:
    case DT_TABLE_RELU6: return of_clamp(o->function, x, y, code);
    default: return of_function(functions[o->function], x, y, code);
    }
}

void dt__device_table_make(const dt_device_table_options *o, dt__coding_range x, dt__coding_range y,
                           dt__device_table *out)
{
    for (int i = 0; i < 256; i++) {
        const result r = result_of(o, x, y, i - 128);
        out->code[i] = (int8_t)(r.code < -128 ? -128 : r.code > 127 ? 127 : r.code);
        out->residual[i] = residual_of(r);
    }
}
