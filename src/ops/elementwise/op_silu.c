/* The sigmoid linear unit (SiLU, swish), element by element (Elfwing et al. 2017).
 *     y = x s      dx = dy s (1 + x (1 - s))      s = 1 / (1 + e^-x) */
#include "ops/elementwise/unary.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_mul(t, in[0], dt_sigmoid(t, in[0]));
}

DT__UNARY(silu, "y = x / (1 + e^-x)", DT__OPERAND, lower)

static const dt__case cases[] = {
    { "values", .in = { { { 4 }, .given = true, .values = { -2, 0, 1, 3 } } }, .n_y = 4,
      .y = { -0.23840584404423515, 0, 0.7310585786300049, 2.8577223804672998 } },
    { "far out", .in = { { { 4 }, .given = true, .values = { -800, -40, 40, 800 } } }, .n_y = 4,
      .y = { 0, -1.6993417021166355e-16, 40, 800 } },
    { "random", .in = { { { 2, 3, 4 }, .low = -4, .high = 4 } } },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(silu, cases)
