/* The logistic function, element by element.      y = 1 / (1 + e^-x)      dx = dy * y (1 - y) */
#include "ops/elementwise/unary.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *e = dt_exp(t, dt_neg(t, dt_abs(t, in[0]))), *one = dt_number(t, in[0], 1);
    out[0] = dt_div(t, dt_where(t, dt_neg(t, in[0]), e, one), dt_add(t, one, e));
}

DT__UNARY(sigmoid, "y = 1 / (1 + e^-x)", DT__RESULT, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -40, 0, 2 } } }, .n_y = 3,
      .y = { 4.248354255291589e-18, 0.5, 0.8807970779778823 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(sigmoid, cases)
