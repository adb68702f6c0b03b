/* The sigmoid in three pieces, element by element (Howard et al. 2019).
 *     y = min(max(x + 3, 0), 6) / 6      dx = 0 < y < 1 ? dy / 6 : 0 */
#include "ops/elementwise/unary.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *x = dt_add(t, in[0], dt_number(t, in[0], 3));
    out[0] = dt_div(t, dt_relu6(t, x), dt_number(t, in[0], 6));
}

DT__UNARY(hardsigmoid, "y = min(max(x + 3, 0), 6) / 6", DT__RESULT, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 5 }, .given = true, .values = { -4, -3, 0, 1.5, 3 } } }, .n_y = 5,
      .y = { 0, 0, 0.5, 0.75, 1 }, .rough = true },
    { "all three pieces", .in = { { { 4 }, .given = true, .values = { -5, -2.5, 2, 4 } } },
      .n_y = 4, .y = { 0, 0.08333333333333333, 0.8333333333333334, 1 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "long", .in = { { { 40003 }, .low = -4, .high = 4 } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(hardsigmoid, cases)
