/* y = a where a >= 0, else a * b, b the slopes of channels: numerics §8, device_zip.c. */
#include "ops/device/device_zip.h"
#include "ops/ops_list.h"

const dt_op dt__op_device_prelu = {
    .name = "device_prelu",
    .text = "a where a >= 0, else a * b of int8 codes, requantized",
    DT__DEVICE_ZIP_OPERANDS,
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES }, .out = { DT_NOTHING, DT_VALUE } },
};

dt_tensor *dt_device_prelu(dt_tape *t, dt_tensor *a, dt_tensor *slope, const dt_device_range *range)
{
    return dt__device_zip_apply(t, &dt__op_device_prelu, a, slope, range, NULL);
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 2 }, .given = true, .values = { 4, -4, -2, 3 } },
              { { 2 }, .given = true, .values = { 0.5, -0.25 } },
              DT__CASE_SCALE,
              DT__CASE_ZERO,
              DT__CASE_ENDS },
      .n_y = 4, .y = { 4, 1, -1, 3 } },
    { "channels", .in = { { { 2, 3, 4, 2 } }, { { 3, 1, 1 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "one slope", .in = { { { 2, 3, 4 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "empty", .in = { { { 0, 3 } }, { { 3 } }, DT__CASE_SCALE, DT__CASE_ZERO } },
    { "activation", .in = { { { 2, 1 } }, { { 1 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .options = DT__WITH(dt_device_zip_options, DT_ACT_RELU), .fails = DT_ERR_ARG,
      .says = "an activation cannot" },
    { "more slopes", .in = { { { 2, 1 } }, { { 2, 3 } }, DT__CASE_SCALE, DT__CASE_ZERO },
      .fails = DT_ERR_SHAPE, .says = "the slopes have more" },
};
DT__CASES(device_prelu, cases)
