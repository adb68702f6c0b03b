/* max(x, 0), element by element.      y = max(x, 0)      dx = x > 0 ? dy : 0
 * One bit per element is kept for backward, as result 1. */
#include "ops/elementwise/unary.h"

#include <math.h>

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_clamp(t, in[0], 0, INFINITY);
}

DT__MASKED(relu, "y = max(x, 0)", "positive", relu, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 5 }, .given = true, .values = { -2, -0.0, 0, 0.5, 3 } } }, .n_y = 5,
      .y = { 0, 0, 0, 0.5, 3 }, .rough = true },
    { "past a byte", .in = { { { 3, 11 } } } },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(relu, cases)
