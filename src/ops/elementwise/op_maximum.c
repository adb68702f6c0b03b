/* The larger of two operands that broadcast.      y = a >= b ? a : b; NaN where one of them is NaN
 *     da = a >= b ? dy : 0      db = b > a ? dy : 0, summed over broadcast dimensions */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

/* dx = dy where the kernel `chosen` gives 1 for the operands, else 0 */
static void pass(const dt_call *c, const dt_tensor *dy, void (*chosen)(const dt__zip *),
                 const dt_tensor *first, const dt_tensor *second, dt_tensor *dx)
{
    void *full = dt__binary_target(c, dy, dx);
    dt__zip_run(chosen, first, second, dy, full);
    c->kernels->mul(&(dt__zip){ .rank = 1,
                                .dims = { dy->count },
                                .a = full,
                                .a_strides = { 1 },
                                .b = dt__data(dy),
                                .b_strides = { 1 },
                                .y = full });
    dt__binary_finish(c, dy, dx);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt_tensor *a = c->arg[0], *b = c->arg[1];
    if (dx[0] != NULL) pass(c, dy, c->kernels->not_less, a, b, dx[0]);
    if (dx[1] != NULL) pass(c, dy, c->kernels->greater, b, a, dx[1]);
}

DT__BINARY(maximum, "y = a where a >= b, else b, broadcasting; NaN passes",
           .saves = { .arg = { DT_VALUE, DT_VALUE } }, .scratch = dt__binary_scratch)

static const dt__case cases[] = {
    { "values",
      .in = { { { 5 }, .given = true, .values = { 1, 2, DT__NAN, 0, -3 } },
              { { 5 }, .given = true, .values = { 8, -0.5, 1, DT__NAN, -3 } } },
      .n_y = 5, .y = { 8, 2, DT__NAN, DT__NAN, -3 }, .rough = true },
    { "both broadcast", .in = { { { 2, 3, 1, 4 } }, { { 5, 1 } } } },
    { "a scalar", .in = { { { 3, 4 } }, { .r = DT__SCALAR } } },
    { "alike", .in = { { { 3, 4 } }, { { 3, 4 } } } },
    { "long", .in = { { { 40003 } }, { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 2 } }, { { 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(maximum, cases)
