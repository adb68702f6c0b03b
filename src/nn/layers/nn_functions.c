/* Functions of each element other than activations. */
#include "nn/layers/op_layer.h"

#include <float.h>
#include <math.h>

/* ---- functions ------------------------------------------------------------------------------- */

#define NUMBER(x, value) dt_number(t, x, value)

static dt_tensor *reciprocal(dt_tape *t, dt_tensor *x) { return dt_div(t, NUMBER(x, 1), x); }

static dt_tensor *sign(dt_tape *t, dt_tensor *x)
{
    return dt_sub(t, dt_greater(t, x, NUMBER(x, 0), false), dt_greater(t, NUMBER(x, 0), x, false));
}

/* Rounds to even: x + c - c, for a c so large that floats beside it have no fraction. An x of that
 * size is already an integer. */
static dt_tensor *round_even(dt_tape *t, dt_tensor *x)
{
    if (x == NULL) return NULL;
    const double c = x->dtype == DT_F64 ? 0x1.8p52 : 0x1.8p23;
    dt_tensor *near = dt_sub(t, dt_add(t, x, NUMBER(x, c)), NUMBER(x, c));
    return dt_where(t, dt_greater(t, dt_abs(t, x), NUMBER(x, c / 3), false), x, near);
}

static dt_tensor *floor_(dt_tape *t, dt_tensor *x)
{
    dt_tensor *y = round_even(t, x);
    return dt_sub(t, y, dt_greater(t, y, x, false));
}

static dt_tensor *ceil_(dt_tape *t, dt_tensor *x)
{
    dt_tensor *y = round_even(t, x);
    return dt_add(t, y, dt_greater(t, x, y, false));
}

/* log(1 + e) = log(u) e / (u - 1), where u is 1 + e rounded, which cancels the rounding error
 * [Goldberg 1991]; e if u is 1. For e in 0...1. */
static dt_tensor *log_of_1_and(dt_tape *t, dt_tensor *e)
{
    dt_tensor *u = dt_add(t, e, NUMBER(e, 1)), *d = dt_sub(t, u, NUMBER(e, 1));
    dt_tensor *slope = dt_div(t, e, dt_clamp(t, d, (double)FLT_MIN, INFINITY));
    return dt_where(t, d, dt_mul(t, dt_log(t, u), slope), e);
}

#define FAR 1000 /* e^-FAR is 0; a finite number, since infinity times 0 would be NaN */

/* log(1 + e^x) = x / 2 + |x| / 2 + log(1 + e^-|x|); the derivative at 0 is that of x / 2. */
static dt_tensor *softplus(dt_tape *t, dt_tensor *x)
{
    dt_tensor *above_far = dt_clamp(t, x, -FAR, INFINITY), *size = dt_abs(t, above_far);
    dt_tensor *half = dt_mul(t, above_far, NUMBER(x, 0.5));
    dt_tensor *above = dt_add(t, half, dt_mul(t, size, NUMBER(x, 0.5)));
    return dt_add(t, above, log_of_1_and(t, dt_exp(t, dt_neg(t, size))));
}

/* Beyond 2^100 the result is 1. */
static dt_tensor *softsign(dt_tape *t, dt_tensor *x)
{
    x = dt_clamp(t, x, -0x1p100, 0x1p100);
    return dt_div(t, x, dt_add(t, dt_abs(t, x), NUMBER(x, 1)));
}

/* x tanh(softplus(x)) = x n / (n + 2), n = e^x (e^x + 2); from 20 on the factor of x is 1. */
static dt_tensor *mish(dt_tape *t, dt_tensor *x)
{
    dt_tensor *e = dt_exp(t, dt_clamp(t, x, -INFINITY, 20));
    dt_tensor *n = dt_mul(t, e, dt_add(t, e, NUMBER(e, 2)));
    return dt_mul(t, dt_clamp(t, x, -FAR, INFINITY), dt_div(t, n, dt_add(t, n, NUMBER(n, 2))));
}

/* kind, function, text */
#define FUNCTIONS(F)                                                                               \
    F(exp, dt_exp, "e^x")                                                                          \
    F(log, dt_log, "natural logarithm")                                                            \
    F(sqrt, dt_sqrt, "square root")                                                                \
    F(square, dt_square, "x^2")                                                                    \
    F(neg, dt_neg, "-x")                                                                           \
    F(abs, dt_abs, "|x|")                                                                          \
    F(reciprocal, reciprocal, "1 / x")                                                             \
    F(erf, dt_erf, "error function")                                                               \
    F(sign, sign, "1 above 0, -1 below, 0 at 0; derivative 0")                                     \
    F(floor, floor_, "largest whole number that is not above x; derivative 0")                     \
    F(ceil, ceil_, "smallest whole number that is not below x; derivative 0")                      \
    F(round, round_even, "nearest whole number, the even one of two; derivative 0")                \
    F(softplus, softplus, "log(1 + e^x)")                                                          \
    F(softsign, softsign, "x / (1 + |x|)")                                                         \
    F(mish, mish, "x tanh(log(1 + e^x))")

#define KIND(kind, function, about)                                                                \
    static dt_tensor *kind##_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)   \
    {                                                                                              \
        (void)options;                                                                             \
        (void)n_in;                                                                                \
        return function(t, in[0]);                                                                 \
    }                                                                                              \
    DT__PLAIN_OP_LAYER(kind, about, 1, 1, .apply = kind##_of, .operands = 1);
FUNCTIONS(KIND)

/* ---- clamp ----------------------------------------------------------------------------------- */

static dt_tensor *clamp_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    const dt_clamp_layer *o = options;
    (void)n_in;
    return dt_clamp(t, in[0], o->has_min ? o->min : -INFINITY, o->has_max ? o->max : INFINITY);
}

static dt_status check_clamp(dt_ctx *ctx, const char *name, const void *options)
{
    const dt_clamp_layer *o = options;
    const bool none = !o->has_min && !o->has_max, both = o->has_min && o->has_max;
    if (none) return dt_fail(ctx, DT_ERR_ARG, "%s: min, max or both must be given", name);
    if (!both || o->min <= o->max) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: min is %g and max %g; min must not be above max", name,
                   o->min, o->max);
}

#define AT(field)                                                                                  \
    .offset = offsetof(dt_clamp_layer, field), .given = offsetof(dt_clamp_layer, has_##field)

static const dt_key clamp_keys[] = {
    DT__LAYER_HEAD("clamp", dt_clamp_layer),
    { "min", DT_KEY_REAL, AT(min), .text = "lower bound; none if absent" },
    { "max", DT_KEY_REAL, AT(max), .text = "upper bound; none if absent" },
    { 0 },
};
DT__OP_LAYER(clamp, "values between bounds", dt_clamp_layer, clamp_keys, 1, 1, .apply = clamp_of,
             .check = check_clamp, .operands = 1);

/* ---- pow ------------------------------------------------------------------------------------- */

/* x^n by repeated squaring */
static dt_tensor *whole_power(dt_tape *t, dt_tensor *x, int64_t n)
{
    dt_tensor *y = NULL;
    for (dt_tensor *square = x; n > 0; n /= 2) {
        if (n % 2 != 0) y = y == NULL ? square : dt_mul(t, y, square);
        if (n > 1) square = dt_square(t, square);
    }
    return y;
}

/* x^rest, 0 < rest < 1: square roots for the first two binary digits, e^(r log x) for the others,
 * whose error is small relative to the result. */
static dt_tensor *root(dt_tape *t, dt_tensor *x, double rest)
{
    dt_tensor *y = NULL, *r = x;
    for (int i = 0; i < 2; i++) {
        r = dt_sqrt(t, r);
        rest *= 2;
        if (rest < 1) continue;
        y = y == NULL ? r : dt_mul(t, y, r);
        rest -= 1;
    }
    if (rest == 0) return y;
    r = dt_exp(t, dt_mul(t, dt_log(t, x), NUMBER(x, rest / 4)));
    return y == NULL ? r : dt_mul(t, y, r);
}

static dt_tensor *pow_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    const double exponent = ((const dt_pow_layer *)options)->exponent, p = fabs(exponent);
    const double whole = floor(p);
    dt_tensor *x = in[0], *y = whole_power(t, x, (int64_t)whole);
    (void)n_in;
    if (p != whole) {
        dt_tensor *r = root(t, x, p - whole);
        y = y == NULL ? r : dt_mul(t, y, r);
    }
    if (p == 0) y = dt_add(t, dt_greater(t, x, x, false), NUMBER(x, 1)); /* for NaN too */
    return exponent < 0 ? reciprocal(t, y) : y;
}

#define MOST_POWER 64

static dt_status check_pow(dt_ctx *ctx, const char *name, const void *options)
{
    const double p = ((const dt_pow_layer *)options)->exponent;
    if (p >= -MOST_POWER && p <= MOST_POWER) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: the exponent is %g; it must be in %d...%d", name, p,
                   -MOST_POWER, MOST_POWER);
}

static const dt_key pow_keys[] = {
    DT__LAYER_HEAD("pow", dt_pow_layer),
    { "exponent", DT_KEY_REAL, offsetof(dt_pow_layer, exponent), .least = -MOST_POWER,
      .most = MOST_POWER, .fallback = "!", .text = "the power of each element" },
    { 0 },
};
DT__OP_LAYER(pow, "x to a power", dt_pow_layer, pow_keys, 1, 1, .apply = pow_of, .check = check_pow,
             .operands = 1);

#define MADE(kind, function, about) DT__OP_MAKE(plain, kind, dt_plain_layer, .head.name = NULL)
FUNCTIONS(MADE)
#define POWER(name, p) DT__OP_MAKE(name, pow, dt_pow_layer, .exponent = p)
POWER(cube, 3)
POWER(root, 0.5)
POWER(inverse, -2.5)
POWER(any, 1.7)
POWER(one, 0)
POWER(huge, 1e6)
#define CLAMP(name, ...) DT__OP_MAKE(name, clamp, dt_clamp_layer, __VA_ARGS__)
CLAMP(between, .min = -0.75, .max = 1, .has_min = true, .has_max = true)
CLAMP(below, .max = 0.25, .has_max = true)
CLAMP(nowhere, .min = 1)
CLAMP(crossed, .min = 1, .max = -1, .has_min = true, .has_max = true)

#define OF(kind, name, ...)                                                                        \
    {                                                                                              \
#kind " " #name, made_##kind##_##name,                                                     \
            .in = { { { 3 }, .given = true, .values = { 0.25, 1.5, 4 } } }, .n_y = 3,              \
                             .y = {                                                                \
                                 __VA_ARGS__ }                                                     \
    }
#define SIGNED(kind, name, ...)                                                                    \
    {                                                                                              \
#kind " " #name, made_##kind##_##name,                                                     \
            .in = { { { 3 }, .given = true, .values = { -2.5, -0.25, 1.5 } } }, .n_y = 3,          \
                             .y = {                                                                \
                                 __VA_ARGS__ }                                                     \
    }
#define STEPS(kind, name, ...)                                                                     \
    {                                                                                              \
#kind " " #name, made_##kind##_##name,                                                     \
            .in = { { { 5 }, .given = true, .values = { -2.5, -0.25, 0, 3.5, 16777217 } } },       \
                             .n_y = 5, .y = { __VA_ARGS__ }, .rough = true                         \
    }

static const dt__layer_case cases[] = {
    OF(exp, plain, 1.2840254166877414, 4.4816890703380645, 54.598150033144236),
    OF(log, plain, -1.3862943611198906, 0.40546510810816438, 1.3862943611198906),
    OF(sqrt, plain, 0.5, 1.2247448713915889, 2),
    OF(square, plain, 0.0625, 2.25, 16),
    SIGNED(neg, plain, 2.5, 0.25, -1.5),
    SIGNED(abs, plain, 2.5, 0.25, 1.5),
    OF(reciprocal, plain, 4, 0.66666666666666667, 0.25),
    SIGNED(erf, plain, -0.99959304798255504, -0.27632639016823691, 0.96610514647531076),
    STEPS(sign, plain, -1, -1, 0, 1, 1),
    STEPS(floor, plain, -3, -1, 0, 3, 16777217),
    STEPS(ceil, plain, -2, 0, 0, 4, 16777217),
    STEPS(round, plain, -2, 0, 0, 4, 16777217),
    SIGNED(softplus, plain, 0.07888973429254963, 0.57593941987884363, 1.7014132779827524),
    { "softplus far from 0", made_softplus_plain,
      .in = { { { 4 }, .given = true, .values = { -60, -12, 0, 100 } } }, .n_y = 4,
      .y = { 8.75651076269652e-27, 6.144193477732806e-06, 0.69314718055994531, 100 } },
    SIGNED(softsign, plain, -0.7142857142857143, -0.2, 0.6),
    SIGNED(mish, plain, -0.19681620390653337, -0.12992696367914101, 1.4033782663958028),
    { "clamp", made_clamp_between, .in = { { { 3 }, .given = true, .values = { -1, 0.5, 2 } } },
      .n_y = 3, .y = { -0.75, 0.5, 1 } },
    { "clamp from above", made_clamp_below,
      .in = { { { 3 }, .given = true, .values = { -1, 0.5, 2 } } }, .n_y = 3,
      .y = { -1, 0.25, 0.25 } },
    { "clamp to nothing", made_clamp_nowhere, .fails = DT_ERR_ARG,
      .says = "clamp: min, max or both" },
    { "clamp with crossed bounds", made_clamp_crossed, .fails = DT_ERR_ARG,
      .says = "min is 1 and max -1" },
    SIGNED(pow, cube, -15.625, -0.015625, 3.375),
    OF(pow, root, 0.5, 1.2247448713915889, 2),
    OF(pow, inverse, 32, 0.36288736930121156, 0.03125),
    OF(pow, any, 0.09473228540689989, 1.9923018599150013, 10.556063286183154),
    { "one", made_pow_one, .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } }, .n_y = 3,
      .y = { 1, 1, 1 }, .rough = true },
    { "pow too high", made_pow_huge, .fails = DT_ERR_ARG, .says = "pow: the exponent is 1e+06" },
};
DT__OP_LAYER_CASES(functions, cases)
