/* The product of two operands that broadcast.      y = a b      da = dy b, db = dy a, summed over
 * broadcast dimensions */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    for (int i = 0; i < 2; i++) {
        if (dx[i] == NULL) continue;
        dt__zip_run(c->kernels->mul, dy, c->arg[1 - i], dy, dt__binary_target(c, dy, dx[i]));
        dt__binary_finish(c, dy, dx[i]);
    }
}

DT__BINARY(mul, "y = a b, broadcasting", .saves = { .arg = { DT_VALUE, DT_VALUE } },
           .scratch = dt__binary_scratch)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1.5, 2 } },
              { { 2 }, .given = true, .values = { 10, -2 } } },
      .n_y = 2, .y = { 15, -4 } },
    { "both broadcast", .in = { { { 2, 3, 1, 4 } }, { { 5, 1 } } } },
    { "a scalar", .in = { { { 3, 4 } }, { .r = DT__SCALAR } } },
    { "a row", .in = { { { 7, 5 } }, { { 5 } } } },
    { "a gate for each channel", .in = { { { 2, 3, 4, 5 } }, { { 2, 3, 1, 1 } } } },
    { "long", .in = { { { 300, 170 } }, { { 170 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 2 } }, { { 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(mul, cases)
