/* The sum of two operands that broadcast.      y = a + b      da = dy, db = dy, summed over
 * broadcast dimensions */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    if (dx[0] != NULL) dt__sum_to(c, dt__data(dy), dy, 1, dx[0]);
    if (dx[1] != NULL) dt__sum_to(c, dt__data(dy), dy, 1, dx[1]);
}

DT__BINARY(add, "y = a + b, broadcasting")

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { 10, -2 } } },
      .n_y = 2, .y = { 11, 0 } },
    { "both broadcast", .in = { { { 2, 3, 1, 4 } }, { { 5, 1 } } } },
    { "a scalar", .in = { { { 3, 4 } }, { .r = DT__SCALAR } } },
    { "one element", .in = { { { 1, 1 } }, { { 1 } } } },
    { "a row", .in = { { { 7, 5 } }, { { 5 } } } },
    { "long", .in = { { { 51000 } }, { { 51000 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 2 } }, { { 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
    { "mixed", .in = { { { 2 } }, { { 2 }, .other = true } }, .fails = DT_ERR_DTYPE,
      .says = "mix" },
};
DT__CASES(add, cases)
