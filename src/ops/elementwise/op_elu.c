/* The exponential linear unit, element by element (Clevert et al. 2015).
 *     y = x > 0 ? x : alpha (e^x - 1)      dx = y > 0 ? dy : dy (y + alpha)      alpha >= 0 */
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <math.h>

typedef struct options {
    double alpha;
} options;

static const options defaults = { 1 };

static const dt_key keys[] = {
    { "alpha", DT_KEY_REAL, .offset = offsetof(options, alpha), .fallback = "1" },
    { 0 },
};

static double alpha_of(const dt_call *c) { return ((const options *)c->options)->alpha; }

static dt_status shape(dt_call *c)
{
    const double alpha = alpha_of(c);
    if (!isfinite(alpha) || alpha < 0) {
        return dt_refuse(c, DT_ERR_ARG, "alpha is %g; it must be finite and not below 0", alpha);
    }
    return dt__shape_like(c, 0);
}

static void forward(const dt_call *c)
{
    c->kernels->elu_alpha(dt__count(c->y), alpha_of(c), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->elu_alpha_backward(dt__count(dy), alpha_of(c), dt__data(c->out[0]), dt__data(dy),
                                   dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *below = dt_exp(t, dt_clamp(t, in[0], -INFINITY, 0));
    below = dt_sub(t, below, dt_number(t, in[0], 1));
    below = dt_mul(t, below, dt_number(t, in[0], ((const options *)given)->alpha));
    out[0] = dt_where(t, in[0], in[0], below);
}

const dt_op dt__op_elu = {
    .name = "elu",
    .text = "y = x where x > 0, else alpha (e^x - 1)",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .y = DT_VALUE },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_elu(dt_tape *t, dt_tensor *x, double alpha)
{
    return dt_apply(t, &dt__op_elu, DT__CALL_WITH(&(options){ alpha }, x));
}

#define ALPHA(value) DT__WITH(options, value)

static const dt__case cases[] = {
    { "values", .in = { { { 6 }, .given = true, .values = { -100, -1, -1e-6, 0, 0.5, 3 } } },
      .n_y = 6, .y = { -1, -0.63212055882855767, -9.999995000001667e-07, 0, 0.5, 3 },
      .rough = true },
    { "alpha", .in = { { { 3 }, .given = true, .values = { -2, -0.5, 1 } } }, .options = ALPHA(0.5),
      .n_y = 3, .y = { -0.43233235838169365, -0.19673467014368329, 1 } },
    { "random", .in = { { { 2, 3, 4 } } }, .options = ALPHA(1.5) },
    { "flat", .in = { { { 2, 3, 4 } } }, .options = ALPHA(0) },
    { "long", .in = { { { 40003 }, .low = -8, .high = 8 } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "alpha below 0", .in = { { { 3 } } }, .options = ALPHA(-1), .fails = DT_ERR_ARG,
      .says = "alpha is -1; it must be finite and not below 0" },
    { "no alpha", .in = { { { 3 } } }, .options = ALPHA(DT__NAN), .fails = DT_ERR_ARG,
      .says = "alpha is nan" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(elu, cases)
