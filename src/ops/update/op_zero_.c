/* x = 0, in place, of any dtype. */
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <string.h>

static dt_status shape(dt_call *c) { return dt__want_operands(c, 1, 1); }

static void forward(const dt_call *c)
{
    const dt_tensor *x = c->arg[0];
    memset(dt__data_mut(c->arg[0]), 0, dt__bytes_of(x));
}

const dt_op dt__op_zero_ = {
    .name = "zero_",
    .text = "x = 0",
    .in_name = { "x" },
    .role = { DT_WRITE },
    .shape = shape,
    .forward = forward,
};

dt_tensor *dt_zero_(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_zero_, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 3 } } }, .n_y = 3, .y = { 0, 0, 0 } },
    { "integers", .in = { { { 2, 2 }, .low = 0, .high = 9, .dtype = DT_I32 } }, .n_y = 4,
      .y = { 0, 0, 0, 0 } },
    { "empty", .in = { { { 0, 3 } } } },
    { "two", .in = { { { 3 } }, { { 3 } } }, .fails = DT_ERR_ARG, .says = "2 operands" },
};
DT__CASES(zero_, cases)
