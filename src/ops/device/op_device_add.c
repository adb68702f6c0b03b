/* y = a + b of coded tensors of one shape: numerics §8, device_zip.c. */
#include "ops/device/device_zip.h"
#include "ops/ops_list.h"

const dt_op dt__op_device_add = {
    .name = "device_add",
    .text = "a + b of int8 codes, requantized",
    DT__DEVICE_ZIP_OPERANDS,
    .saves = { .y = DT_VALUE },
    .saves_coded = { .out = { DT_NOTHING, DT_VALUE } },
};

dt_tensor *dt_device_add(dt_tape *t, dt_tensor *a, dt_tensor *b, const dt_device_range *range,
                         const dt_device_zip_options *options)
{
    return dt__device_zip_apply(t, &dt__op_device_add, a, b, range, options);
}

static const dt_device_zip_options relu6 = { .activation = DT_ACT_RELU6 },
                                   tanh_after = { .activation = DT_ACT_TANH };

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { 2, -1 } },
              DT__CASE_SCALE,
              DT__CASE_ZERO,
              DT__CASE_ENDS },
      .n_y = 2, .y = { 3, 1 } },
    { "relu6", .in = { { { 2, 3, 4 } }, { { 2, 3, 4 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .options = &relu6, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "broadcast", .in = { { { 2, 3 } }, { { 3 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .fails = DT_ERR_SHAPE },
    { "activation", .in = { { { 2 } }, { { 2 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .options = &tanh_after, .fails = DT_ERR_ARG, .says = "not none, relu or relu6" },
};
DT__CASES(device_add, cases)
