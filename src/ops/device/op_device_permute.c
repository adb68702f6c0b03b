/* Codes with their dimensions in another order (numerics §8): a copy.
 *     y[i_0, i_1, ...] = x[..., dimension dims[d] of x at i_d, ...]      dx: the same way back */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

static const dt__permute_options defaults = { 0 };

DT__DEVICE_VIEW(dt__permutation_of)

const dt_op dt__op_device_permute = {
    .name = "device_permute",
    .text = "the same codes with dimensions in another order",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt__permute_options, defaults, dt__permute_keys),
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_permute(dt_tape *t, dt_tensor *x, const int64_t *dims)
{
    DT__NEED_OP(t, dims);
    const dt__permute_options o = dt__permute_to(x, dims);
    return dt_apply(t, &dt__op_device_permute, &x, 1, &o);
}

#define DIMS(...) DT__WITH(dt__permute_options, { __VA_ARGS__ })

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 3 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } } },
      .options = DIMS(3, { 0, 2, 1 }), .n_y = 6, .y = { 1, 4, 2, 5, 3, 6 } },
    { "rank 4", .in = { { { 2, 3, 4, 5 } } }, .options = DIMS(4, { 0, 3, -3, 2 }) },
    { "empty", .in = { { { 0, 3, 2 } } }, .options = DIMS(3, { 0, 2, 1 }) },
    { "too few", .in = { { { 2, 3 } } }, .options = DIMS(1, { 0 }), .fails = DT_ERR_ARG,
      .says = "1 dimensions given, x has 2" },
    { "twice", .in = { { { 2, 3 } } }, .options = DIMS(2, { 0, -2 }), .fails = DT_ERR_ARG,
      .says = "twice" },
};
DT__CASES(device_permute, cases)
