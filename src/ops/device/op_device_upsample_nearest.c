/* Codes of planes resampled to another size (numerics §8): upsample_nearest of codes, a copy. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/pool/resize_ops.h"

DT__DEVICE_THROUGH(dt__op_upsample_nearest)

const dt_op dt__op_device_upsample_nearest = {
    .name = "device_upsample_nearest",
    .text = "the codes of planes resampled to another size by nearest neighbour",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt__size_options, dt__size_defaults, dt__size_keys2d),
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_upsample_nearest(dt_tape *t, dt_tensor *x, int64_t height, int64_t width)
{
    const dt__size_options o = { { height, width } };
    return dt_apply(t, &dt__op_device_upsample_nearest, DT__CALL_WITH(&o, x));
}

static const dt__case cases[] = {
    { "values", .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } } },
      .options = DT__TO(2, 4), .n_y = 8, .y = { 1, 1, 2, 2, 1, 1, 2, 2 } },
    { "uneven", .in = { { { 2, 3, 3, 4 } } }, .options = DT__TO(5, 9) },
    { "no images", .in = { { { 0, 2, 4, 4 } } }, .options = DT__TO(8, 8) },
    { "no size", .in = { { { 1, 1, 2, 2 } } }, .options = DT__TO(0, 2), .fails = DT_ERR_ARG,
      .says = "a size of 0 x 2" },
};
DT__CASES(device_upsample_nearest, cases)
