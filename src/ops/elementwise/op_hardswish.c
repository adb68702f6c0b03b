/* The swish in three pieces, element by element (Howard et al. 2019).
 *     y = x min(max(x + 3, 0), 6) / 6      dx = dy (x <= -3 ? 0 : x < 3 ? x / 3 + 1/2 : 1) */
#include "ops/elementwise/unary.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *gate = dt_relu6(t, dt_add(t, in[0], dt_number(t, in[0], 3)));
    out[0] = dt_div(t, dt_mul(t, in[0], gate), dt_number(t, in[0], 6));
}

DT__UNARY(hardswish, "y = x min(max(x + 3, 0), 6) / 6", DT__OPERAND, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 5 }, .given = true, .values = { -4, -3, -1.5, 0, 3 } } }, .n_y = 5,
      .y = { 0, 0, -0.375, 0, 3 }, .rough = true },
    { "all three pieces", .in = { { { 4 }, .given = true, .values = { -5, -2.5, 2, 4 } } },
      .n_y = 4, .y = { 0, -0.20833333333333334, 1.6666666666666667, 4 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "long", .in = { { { 40003 }, .low = -4, .high = 4 } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(hardswish, cases)
