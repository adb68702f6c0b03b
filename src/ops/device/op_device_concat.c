/* Codes of several tensors, one after the other along a dimension (numerics §8): concat of codes,
 * which share scale and zero point. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/softmax.h"

DT__DEVICE_THROUGH(dt__op_concat)

const dt_op dt__op_device_concat = {
    .name = "device_concat",
    .text = "the codes of the operands one after the other along `dim`",
    .in_name = { "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                 "x13", "x14", "x15" },
    .out_name = { "y" },
    .role = { DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES,
              DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES, DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt__dim_options, dt__dim_defaults, dt__dim_keys),
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_concat(dt_tape *t, dt_tensor *const *x, int n, int64_t dim)
{
    return dt_apply(t, &dt__op_device_concat, x, n, &(dt__dim_options){ dim });
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 3 } },
              { { 1 }, .given = true, .values = { 5 } } },
      .n_y = 3, .y = { 1, 3, 5 } },
    { "rows", .in = { { { 2, 3 } }, { { 2, 4 } } } },
    { "seven",
      .in = { { { 2 } }, { { 1 } }, { { 2 } }, { { 3 } }, { { 1 } }, { { 2 } }, { { 1 } } } },
    { "empty", .in = { { { 0, 2 } }, { { 0, 1 } } } },
    { "shapes", .in = { { { 2, 3 } }, { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "differs" },
};
DT__CASES(device_concat, cases)
