/* x = from, in place; `from` broadcasts. For a FakeQuantTensor on either side, its master is
 * used. */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    DT__TRY(dt__want_dtype(c, 1, c->in[0]->dtype));
    return dt__want_broadcast(c, 1, 0);
}

static void forward(const dt_call *c)
{
    const dt_tensor *x = c->arg[0], *from = c->arg[1];
    dt__copy copy = { .rank = x->rank, .x = dt__data(from), .y = dt__data_mut(c->arg[0]) };
    const int shift = x->rank - from->rank;
    for (int d = 0; d < x->rank; d++) {
        copy.dims[d] = x->dims[d];
        copy.y_strides[d] = x->strides[d];
        const bool moves = d >= shift && from->dims[d - shift] != 1;
        copy.x_strides[d] = moves ? from->strides[d - shift] : 0;
    }
    dt__copy_bytes(&copy, dt_dtype_size(x->dtype));
}

const dt_op dt__op_copy_ = {
    .name = "copy_",
    .text = "x = from, broadcasting",
    .in_name = { "x", "from" },
    .role = { DT_WRITE, DT_RAW },
    .strided = true,
    .shape = shape,
    .forward = forward,
};

dt_tensor *dt_copy_(dt_tape *t, dt_tensor *x, dt_tensor *from)
{
    return dt_apply(t, &dt__op_copy_, DT__CALL(x, from));
}

static const dt__case cases[] = {
    { "values", .in = { { { 3 } }, { { 3 }, .given = true, .values = { 1, -2, 3 } } }, .n_y = 3,
      .y = { 1, -2, 3 } },
    { "broadcast", .in = { { { 2, 2 } }, { { 2, 1 }, .given = true, .values = { 1, 2 } } },
      .n_y = 4, .y = { 1, 1, 2, 2 } },
    { "a scalar", .in = { { { 3, 2 } }, { .r = DT__SCALAR } } },
    { "integers", .in = { { { 3, 2 }, .low = 0, .high = 9, .dtype = DT_I64 },
                          { { 2 }, .low = 0, .high = 9, .dtype = DT_I64 } } },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "too large", .in = { { { 3 } }, { { 2, 3 } } }, .fails = DT_ERR_SHAPE, .says = "broadcast" },
    { "dtype", .in = { { { 3 } }, { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(copy_, cases)
