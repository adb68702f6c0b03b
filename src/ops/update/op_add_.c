/* x += factor * other, in place; `other` broadcasts and is 1 if absent. */
#include "ops/elementwise/binary.h"

static void forward(const dt_call *c)
{
    const dt__factor_options *o = c->options;
    void *x = dt__data_mut(c->arg[0]);
    if (c->n_in == 1) {
        c->kernels->shift(dt__count(c->arg[0]), o->factor, x);
    } else {
        dt__zip z = dt__zip_of(c->arg[0], c->arg[1], c->arg[0], x);
        c->kernels->add_scaled(&z, o->factor);
    }
}

DT__INPLACE_OP(add_, "x = x + factor * other, broadcasting; without other x + factor")

#define BY(factor) DT__WITH(dt__factor_options, factor)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { -1, 3.5 } } },
      .options = BY(2), .n_y = 2, .y = { -1, 9 } },
    { "a number", .in = { { { 2 }, .given = true, .values = { 1, 2 } } }, .options = BY(2),
      .n_y = 2, .y = { 3, 4 } },
    { "broadcast", .in = { { { 3, 4 } }, { { 4 } } }, .options = BY(0.5) },
    { "a scalar", .in = { { { 3, 4 } }, { .r = DT__SCALAR } } },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "too large", .in = { { { 3 } }, { { 2, 3 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(add_, cases)
