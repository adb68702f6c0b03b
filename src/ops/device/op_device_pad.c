/* Codes with the code of a value around them (numerics §8): pad of codes. A value below the range
 * becomes the lowest code, so that max pooling ignores it. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

#include <math.h>

static const dt_pad_options defaults = { .mode = DT_PAD_CONSTANT };

static const dt_key keys[] = {
    { "pads", DT_KEY_INTS, .offset = offsetof(dt_pad_options, pads), .least = INT32_MIN,
      .most = INT32_MAX, .fallback = "!" },
    { "value", DT_KEY_REAL, .offset = offsetof(dt_pad_options, value), .fallback = "0" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const dt_pad_options *o = c->options;
    if (o->mode != DT_PAD_CONSTANT || isnan(o->value)) {
        return dt_refuse(
            c, DT_ERR_ARG,
            "codes are padded with a number alone: expected mode DT_PAD_CONSTANT and a value");
    }
    return dt__device_through_shape(c, &dt__op_pad, dt__device_range_of_x(c));
}

DT__DEVICE_FLOATS(dt__op_pad)

/* The float op pads differences from the zero point. */
static void forward_codes(const dt_call *c)
{
    const dt__coding_range r = dt__range_of_codes(c->codes[0]);
    dt_pad_options o = *(const dt_pad_options *)c->options;
    dt_call inner = *c;
    o.value = dt__device_code(o.value, r) - r.zero;
    inner.options = &o;
    dt__device_through(&inner, &dt__op_pad);
}

const dt_op dt__op_device_pad = {
    .name = "device_pad",
    .text = "the codes, and that of a value around them",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_pad_options, defaults, keys),
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_pad(dt_tape *t, dt_tensor *x, const dt_pad_options *options)
{
    return dt_apply(t, &dt__op_device_pad, &x, 1, options);
}

static const dt_pad_options around = { .pads = { 2, { 1, 2 } } },
                            seven = { .pads = { 2, { 1, 2 } }, .value = 7 },
                            mirror = { .pads = { 2, { 1, 1 } }, .mode = DT_PAD_REFLECT };

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2 }, .given = true, .values = { 1, 3 } } }, .options = &around,
      .n_y = 5, .y = { 0, 1, 3, 0, 0 } },
    { "empty", .in = { { { 0, 2 } } }, .options = &around },
    { "another value", .in = { { { 1, 2 }, .given = true, .values = { 1, 3 } } }, .options = &seven,
      .n_y = 5, .y = { 7, 1, 3, 7, 7 } },
    { "reflected", .in = { { { 1, 3 } } }, .options = &mirror, .fails = DT_ERR_ARG,
      .says = "a number alone" },
};
DT__CASES(device_pad, cases)
