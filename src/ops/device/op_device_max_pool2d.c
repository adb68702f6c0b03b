/* The largest code of each window (numerics §8): max_pool2d of codes. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = { DT__POOL_KEYS(DT_KEY_PAIR, "2, 2", "0, 0", "1, 1"), { 0 } };

static dt_status shape(dt_call *c)
{
    const dt__coding_range none = { 1, 0 };
    return dt__device_through_shape(c, &dt__op_max_pool2d,
                                    c->coded ? dt__range_of_codes(c->codes[0]) : none);
}

static void forward(const dt_call *c) { dt__op_max_pool2d.forward(c); }

static void forward_codes(const dt_call *c) { dt__device_through(c, &dt__op_max_pool2d); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__op_max_pool2d.backward(c, dy, dx);
}

const dt_op dt__op_device_max_pool2d = {
    .name = "device_max_pool2d",
    .text = "the largest code of each window",
    .in_name = { "x" },
    .out_name = { "y", "at" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt__max_pool_options, dt__max_pool_defaults, keys),
    .takes_codes = dt__device_takes_codes,
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    .saves_coded = { .out = { DT_NOTHING, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .forward_codes = forward_codes,
    .backward = backward,
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
