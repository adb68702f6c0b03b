/* Leaky relu, element by element (Maas et al. 2013).
 *     y = x > 0 ? x : slope x      dx = x > 0 ? dy : slope dy
 * One bit per element is kept for backward, as result 1. */
#include "ops/elementwise/unary.h"

#include <math.h>

typedef struct options {
    double slope;
} options;

static const options defaults = { 0.01 };

static const dt_key keys[] = {
    { "slope", DT_KEY_REAL, .offset = offsetof(options, slope), .fallback = "0.01" },
    { 0 },
};

static double slope_of(const dt_call *c) { return ((const options *)c->options)->slope; }

static dt_status shape(dt_call *c)
{
    if (!isfinite(slope_of(c))) {
        return dt_refuse(c, DT_ERR_ARG, "slope is %g; it must be finite", slope_of(c));
    }
    return dt__shape_with_bits(c);
}

static void forward(const dt_call *c)
{
    c->kernels->leaky_relu(dt__count(c->y), slope_of(c), dt__data(c->arg[0]), dt__data_mut(c->y),
                           c->recording ? dt__data_mut(c->out[1]) : NULL);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->leaky_mask(dt__count(dy), slope_of(c), dt__data(c->out[1]), dt__data(dy),
                           dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const double slope = ((const options *)given)->slope;
    out[0] = dt_where(t, in[0], in[0], dt_mul(t, in[0], dt_number(t, in[0], slope)));
}

const dt_op dt__op_leaky_relu = {
    .name = "leaky_relu",
    .text = "y = x where x > 0, else slope x",
    .in_name = { "x" },
    .out_name = { "y", "positive" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_leaky_relu(dt_tape *t, dt_tensor *x, double slope)
{
    return dt_apply(t, &dt__op_leaky_relu, DT__CALL_WITH(&(options){ slope }, x));
}

#define SLOPE(value) DT__WITH(options, value)

static const dt__case cases[] = {
    { "values", .in = { { { 5 }, .given = true, .values = { -2, -0.0, 0, 0.5, 3 } } },
      .options = SLOPE(0.25), .n_y = 5, .y = { -0.5, 0, 0, 0.5, 3 }, .rough = true },
    { "past a byte", .in = { { { 3, 11 } } } },
    { "downward", .in = { { { 3, 11 } } }, .options = SLOPE(-0.5) },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "slope", .in = { { { 3 } } }, .options = SLOPE(DT__NAN), .fails = DT_ERR_ARG,
      .says = "slope is nan" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(leaky_relu, cases)
