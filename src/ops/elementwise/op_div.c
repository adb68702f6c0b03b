/* The quotient of two operands that broadcast.      y = a / b      da = dy / b, db = -dy y / b,
 * summed over broadcast dimensions */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    if (dx[0] != NULL) {
        dt__zip_run(c->kernels->div, dy, c->arg[1], dy, dt__binary_target(c, dy, dx[0]));
        dt__binary_finish(c, dy, dx[0]);
    }
    if (dx[1] != NULL) {
        void *full = dt__binary_target(c, dy, dx[1]);
        dt__zip_run(c->kernels->div, dy, c->arg[1], dy, full);
        c->kernels->mul(&(dt__zip){ .rank = 1,
                                    .dims = { dy->count },
                                    .a = full,
                                    .a_strides = { 1 },
                                    .b = dt__data(c->out[0]),
                                    .b_strides = { 1 },
                                    .y = full });
        if (full == c->scratch) dt__sum_to(c, full, dy, -1, dx[1]);
        else c->kernels->neg(dy->count, full, full);
    }
}

DT__BINARY(div, "y = a / b, broadcasting",
           .saves = { .arg = { DT_NOTHING, DT_VALUE }, .y = DT_VALUE },
           .scratch = dt__binary_scratch)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { 8, -0.5 } } },
      .n_y = 2, .y = { 0.125, -4 } },
    { "both broadcast", .in = { { { 2, 3, 1, 4 } }, { { 5, 1 }, .low = 0.5, .high = 2 } } },
    { "by a scalar", .in = { { { 3, 4 } }, { .r = DT__SCALAR, .low = 0.5, .high = 2 } } },
    { "empty", .in = { { { 0, 3 } }, { { 3 }, .low = 0.5, .high = 2 } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 2 } }, { { 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(div, cases)
