/* min(max(x, 0), 6), element by element (Krizhevsky 2010).
 *     y = min(max(x, 0), 6)      dx = 0 < x < 6 ? dy : 0
 * One bit per element is kept for backward, as result 1. */
#include "ops/elementwise/unary.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_clamp(t, in[0], 0, 6);
}

DT__MASKED(relu6, "y = min(max(x, 0), 6)", "passed", relu6_bits, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 6 }, .given = true, .values = { -2, -0.0, 0, 2.5, 6, 7 } } }, .n_y = 6,
      .y = { 0, 0, 0, 2.5, 6, 6 }, .rough = true },
    { "all three pieces", .in = { { { 4 }, .given = true, .values = { -3, 0.5, 5.5, 9 } } } },
    { "random", .in = { { { 2, 3, 4 }, .low = 0.1, .high = 5.9 } } },
    { "long", .in = { { { 40003 }, .low = -8, .high = 8 } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(relu6, cases)
