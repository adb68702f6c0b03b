/* Comparison of two operands that broadcast.      y = a > b ? 1 : 0, with `equal` a >= b ? 1 : 0
 * Nothing is above NaN, nor NaN above anything. The derivative is 0. */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

typedef struct options {
    bool equal;
} options;

static const options defaults = { false };

static const dt_key keys[] = {
    { "equal", DT_KEY_BOOL, .offset = offsetof(options, equal), .fallback = "false" },
    { 0 },
};

static void forward(const dt_call *c)
{
    const options *o = c->options;
    dt__zip_run(o->equal ? c->kernels->not_less : c->kernels->greater, c->arg[0], c->arg[1], c->y,
                dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    (void)dy;
    for (int i = 0; i < 2; i++) {
        if (dx[i] != NULL) c->kernels->fill(dx[i]->count, 0, dt__data_mut(dx[i]));
    }
}

const dt_op dt__op_greater = {
    .name = "greater",
    .text = "y = 1 where a > b, or with `equal` a >= b, else 0, broadcasting",
    .in_name = { "a", "b" },
    .out_name = { "y" },
    .strided = true,
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = dt__binary_shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_greater(dt_tape *t, dt_tensor *a, dt_tensor *b, bool equal)
{
    return dt_apply(t, &dt__op_greater, DT__CALL_WITH(&(options){ equal }, a, b));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 5 }, .given = true, .values = { 1, 2, DT__NAN, 0, -3 } },
              { { 5 }, .given = true, .values = { 8, -0.5, 1, DT__NAN, -3 } } },
      .n_y = 5, .y = { 0, 1, 0, 0, 0 }, .rough = true },
    { "or equal",
      .in = { { { 5 }, .given = true, .values = { 1, 2, DT__NAN, 0, -3 } },
              { { 5 }, .given = true, .values = { 8, -0.5, 1, DT__NAN, -3 } } },
      .options = &(const options){ true }, .n_y = 5, .y = { 0, 1, 0, 0, 1 }, .rough = true },
    { "both broadcast", .in = { { { 2, 3, 1, 4 } }, { { 5, 1 } } } },
    { "a scalar", .in = { { { 3, 4 } }, { .r = DT__SCALAR } },
      .options = &(const options){ true } },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "integers", .in = { { { 2 } }, { { 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(greater, cases)
