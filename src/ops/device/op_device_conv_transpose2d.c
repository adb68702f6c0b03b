/* 2d transposed convolution of codes, as a device computes it: numerics §8, device_products.c. */
#include "ops/device/device_products.h"

DT__DEVICE_CONV_OP(conv_transpose2d, "conv_transpose2d of int8 codes, requantized",
                   DT__CONV_OUTPUT_PADDING(DT_KEY_PAIR, "0, 0"),
                   DT__DEVICE_ACTIVATION_KEY(dt_device_conv_options))

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 1, 2, 2 }, .given = true, .values = { 1, 0, -1, 2 } },
              { { 1 }, .given = true, .values = { 3 } },
              DT__CASE_SCALE,
              DT__CASE_ZERO,
              DT__CASE_ENDS },
      .n_y = 9, .y = { 4, 5, 3, 5, 7, 7, 0, 5, 11 } },
    { "groups, without bias and ends",
      .in = { { { 2, 4, 5, 6 } },
              { { 4, 3, 3, 2 } },
              { .absent = true },
              DT__CASE_SCALE,
              DT__CASE_ZERO },
      .n_in = 5, .options = &relu6, .rough = true },
    { "no images",
      .in = { { { 0, 2, 3, 3 } }, { { 2, 1, 2, 2 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "channels",
      .in = { { { 1, 3, 3, 3 } }, { { 2, 1, 2, 2 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .fails = DT_ERR_SHAPE, .says = "weight takes 2" },
    { "activation",
      .in = { { { 1, 2, 3, 3 } }, { { 2, 1, 2, 2 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .options = &tanh_after, .fails = DT_ERR_ARG, .says = "not none, relu or relu6" },
};
DT__CASES(device_conv_transpose2d, cases)
