/* The value of a coded tensor, at the end of an integer network.      y = (q - zero) scale
 * dx = dy. A plain x is copied. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

#include <string.h>

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward_codes(const dt_call *c)
{
    dt__codes_expand_all(c->codes[0], dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    (void)c;
    if (dx[0] == dy) return;
    memcpy(dt__data_mut(dx[0]), dt__data(dy), dt__bytes_of(dy));
}

const dt_op dt__op_device_dequantize = {
    .name = "device_dequantize",
    .text = "the value of int8 codes",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    .takes_codes = dt__device_takes_codes,
    .shape = shape,
    .forward = dt__device_copy_forward,
    .forward_codes = forward_codes,
    .backward = backward,
};

dt_tensor *dt_device_dequantize(dt_tape *t, dt_tensor *x)
{
    return dt_apply(t, &dt__op_device_dequantize, &x, 1, NULL);
}

static const dt__case cases[] = {
    { "a plain tensor", .in = { { { 3 }, .given = true, .values = { 1, -2, 0.25 } } }, .n_y = 3,
      .y = { 1, -2, 0.25 } },
    { "empty", .in = { { { 0, 2 } } } },
    { "integers", .in = { { { 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(device_dequantize, cases)
