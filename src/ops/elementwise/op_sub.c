/* The difference of two operands that broadcast.      y = a - b      da = dy, db = -dy, summed over
 * broadcast dimensions */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    if (dx[0] != NULL) dt__sum_to(c, dt__data(dy), dy, 1, dx[0]);
    if (dx[1] != NULL) dt__sum_to(c, dt__data(dy), dy, -1, dx[1]);
}

DT__BINARY(sub, "y = a - b, broadcasting")

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { 10, -2 } } },
      .n_y = 2, .y = { -9, 4 } },
    { "both broadcast", .in = { { { 3, 1, 4 } }, { { 5, 1 } } } },
    { "a scalar less", .in = { { .r = DT__SCALAR }, { { 3, 4 } } } },
    { "empty", .in = { { { 1, 3 } }, { { 0, 3 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 2 }, .dtype = DT_I64 }, { { 2 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(sub, cases)
