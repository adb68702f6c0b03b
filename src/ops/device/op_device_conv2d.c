/* 2d convolution of codes, as a device computes it: numerics §8, device_products.c. */
#include "ops/device/device_products.h"
#include "ops/ops_list.h"

static const dt_key keys[] = {
    DT__CONV_KEYS(DT_KEY_PAIR, "1, 1", "0, 0"),
    DT__DEVICE_ACTIVATION_KEY(dt_device_conv_options),
    { 0 },
};

static const dt_device_conv_options defaults = {
    .conv = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 },
};

const dt_op dt__op_device_conv2d = {
    .name = "device_conv2d",
    .text = "conv2d of int8 codes, requantized",
    DT__DEVICE_PRODUCT,
    DT__OP_OPTIONS(dt_device_conv_options, defaults, keys),
};

dt_tensor *dt_device_conv2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                            const dt_device_range *range, const dt_device_conv_options *options)
{
    return dt__device_apply(t, &dt__op_device_conv2d, x, weight, bias, range, options);
}

static const dt_device_conv_options relu6 = { .conv = { .stride = { 2, 1 },
                                                        .padding = { 1, 0 },
                                                        .dilation = { 1, 1 },
                                                        .groups = 2 },
                                              .activation = DT_ACT_RELU6 },
                                    tanh_after = { .conv = { .stride = { 1, 1 },
                                                             .dilation = { 1, 1 },
                                                             .groups = 1 },
                                                   .activation = DT_ACT_TANH };

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 1, 2, 2 }, .given = true, .values = { 1, 0, -1, 2 } },
              { { 1 }, .given = true, .values = { 3 } },
              DT__CASE_SCALE,
              DT__CASE_ZERO,
              DT__CASE_ENDS },
      .n_y = 1, .y = { 9 } },
    { "groups, without bias and ends",
      .in = { { { 2, 4, 5, 6 } },
              { { 6, 2, 3, 2 } },
              { .absent = true },
              DT__CASE_SCALE,
              DT__CASE_ZERO },
      .n_in = 5, .options = &relu6, .rough = true },
    { "a signal", .in = { { { 2, 3, 9 } },
                          { { 4, 3, 3 } },
                          { { 4 } },
                          DT__CASE_SCALE,
                          DT__CASE_ZERO,
                          DT__CASE_ENDS } },
    { "no images",
      .in = { { { 0, 2, 3, 3 } }, { { 1, 2, 2, 2 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "channels",
      .in = { { { 1, 3, 3, 3 } }, { { 1, 2, 2, 2 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .fails = DT_ERR_SHAPE, .says = "weight takes 2" },
    { "activation",
      .in = { { { 1, 2, 3, 3 } }, { { 1, 2, 2, 2 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .options = &tanh_after, .fails = DT_ERR_ARG, .says = "not none, relu or relu6" },
};
DT__CASES(device_conv2d, cases)
