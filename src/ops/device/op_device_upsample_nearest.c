/* Codes of planes resampled to another size (numerics §8): upsample_nearest of codes, a copy. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/pool/resize_ops.h"

static dt_status shape(dt_call *c)
{
    const dt__coding_range none = { 1, 0 };
    return dt__device_through_shape(c, &dt__op_upsample_nearest,
                                    c->coded ? dt__range_of_codes(c->codes[0]) : none);
}

static void forward(const dt_call *c) { dt__op_upsample_nearest.forward(c); }

static void forward_codes(const dt_call *c) { dt__device_through(c, &dt__op_upsample_nearest); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__op_upsample_nearest.backward(c, dy, dx);
}

const dt_op dt__op_device_upsample_nearest = {
    .name = "device_upsample_nearest",
    .text = "the codes of planes resampled to another size by nearest neighbour",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt__size_options, dt__size_defaults, dt__size_keys2d),
    .takes_codes = dt__device_takes_codes,
    .shape = shape,
    .forward = forward,
    .forward_codes = forward_codes,
    .backward = backward,
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
