/* The square, element by element.      y = x^2      dx = 2 x dy */
#include "ops/elementwise/unary.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_mul(t, in[0], in[0]);
}

DT__UNARY(square, "y = x^2", DT__OPERAND, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -1.5, 0, 2 } } }, .n_y = 3,
      .y = { 2.25, 0, 4 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(square, cases)
