/* The largest code of each window (numerics §8): max_pool2d of codes. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = { DT__POOL_KEYS(DT_KEY_PAIR, "2, 2", "0, 0", "1, 1"), { 0 } };

DT__DEVICE_THROUGH(dt__op_max_pool2d)

const dt_op dt__op_device_max_pool2d = {
    .name = "device_max_pool2d",
    .text = "the largest code of each window",
    .in_name = { "x" },
    .out_name = { "y", "at" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt__max_pool_options, dt__max_pool_defaults, keys),
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    .saves_coded = { .out = { DT_NOTHING, DT_VALUE } },
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_max_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options)
{
    const dt__max_pool_options o = { .pool = options != NULL ? *options : dt__pool_defaults };
    return dt_apply(t, &dt__op_device_max_pool2d, &x, 1, &o);
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 4 }, .given = true, .values = { 1, 3, -1, -2, 2, 0, -4, -3 } } },
      .n_y = 2, .y = { 3, -1 } },
    { "a rest", .in = { { { 2, 3, 5, 7 } } } },
    { "no images", .in = { { { 0, 2, 4, 4 } } } },
    { "rank", .in = { { { 3, 4, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 3" },
};
DT__CASES(device_max_pool2d, cases)
