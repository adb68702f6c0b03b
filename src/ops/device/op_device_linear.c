/* Linear layer of codes, as a device computes it: numerics §8, device_products.c. */
#include "ops/device/device_products.h"
#include "ops/ops_list.h"

static const dt_key keys[] = {
    DT__DEVICE_ACTIVATION_KEY(dt_device_linear_options),
    { "one_scale", DT_KEY_BOOL, .offset = offsetof(dt_device_linear_options, one_scale),
      .fallback = "false" },
    { 0 },
};

static const dt_device_linear_options defaults = { 0 };

const dt_op dt__op_device_linear = {
    .name = "device_linear",
    .text = "linear of int8 codes, requantized",
    DT__DEVICE_PRODUCT,
    DT__OP_OPTIONS(dt_device_linear_options, defaults, keys),
};

dt_tensor *dt_device_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                            const dt_device_range *range, const dt_device_linear_options *options)
{
    return dt__device_apply(t, &dt__op_device_linear, x, weight, bias, range, options);
}

static const dt_device_linear_options relu = { .activation = DT_ACT_RELU },
                                      tanh_after = { .activation = DT_ACT_TANH };

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 2 }, .given = true, .values = { 1, -1 } },
              DT__CASE_SCALE,
              DT__CASE_ZERO,
              DT__CASE_ENDS },
      .n_y = 2, .y = { 6, 10 } },
    { "relu",
      .in = { { { 5, 7 } }, { { 3, 7 } }, { { 3 } }, DT__CASE_SCALE, DT__CASE_ZERO, DT__CASE_ENDS },
      .options = &relu, .rough = true },
    { "smooth, without a bias",
      .in = { { { 5, 7 } }, { { 3, 7 } }, { .absent = true }, DT__CASE_SCALE, DT__CASE_ZERO },
      .n_in = 5 },
    { "no rows", .in = { { { 0, 2 } }, { { 3, 2 } }, { { 3 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "columns", .in = { { { 1, 3 } }, { { 3, 2 } }, { { 3 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .fails = DT_ERR_SHAPE, .says = "x has 3 columns, the weight 2" },
    { "activation", .in = { { { 1, 2 } }, { { 3, 2 } }, { { 3 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .options = &tanh_after, .fails = DT_ERR_ARG, .says = "not none, relu or relu6" },
};
DT__CASES(device_linear, cases)
