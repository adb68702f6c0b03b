/* The mean of the codes of each window, halves away from zero (numerics §8): avg_pool2d of codes.
 * Padding that counts has the zero point. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = { DT__POOL_KEYS(DT_KEY_PAIR, "2, 2", "0, 0", "1, 1"),
                               DT__AVG_POOL_KEY,
                               { 0 } };

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__avg_pool2d_shape(c));
    return c->coded ? dt__result_to_coded(c, 0, dt__range_of_codes(c->codes[0])) : DT_OK;
}

DT__DEVICE_FLOATS(dt__op_avg_pool2d)

static void forward_codes(const dt_call *c)
{
    dt__windows p = dt__avg_pool_windows(c);
    p.x = c->codes[0]->u;
    p.y = dt__coded_codes(c->y)->u;
    dt__device_avg_codes(&p, dt__range_of_codes(c->codes[0]).zero);
    dt__drop_storage(c->y);
}

const dt_op dt__op_device_avg_pool2d = {
    .name = "device_avg_pool2d",
    .text = "the mean of the codes of each window",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_pool_options, dt__pool_defaults, keys),
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_avg_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options)
{
    return dt_apply(t, &dt__op_device_avg_pool2d, &x, 1, options);
}

static const dt_pool_options counted = { .kernel = { 3, 3 },
                                         .stride = { 2, 2 },
                                         .padding = { 1, 1 },
                                         .dilation = { 1, 1 },
                                         .count_include_pad = true };

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 4 }, .given = true, .values = { 1, 3, -1, -2, 2, 0, -4, -3 } } },
      .n_y = 2, .y = { 1.5, -2.5 } },
    { "padding counts", .in = { { { 1, 1, 2, 2 }, .given = true, .values = { 9, 18, -9, 0 } } },
      .options = &counted, .n_y = 1, .y = { 2 } },
    { "a rest", .in = { { { 2, 3, 5, 7 } } } },
    { "no images", .in = { { { 0, 2, 4, 4 } } } },
    { "rank", .in = { { { 3, 4, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 3" },
};
DT__CASES(device_avg_pool2d, cases)
