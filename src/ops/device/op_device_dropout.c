/* Dropout of codes, in training (numerics §8): a dropped code becomes the zero point, and the scale
 * is divided by 1 - p. Random words and backward are those of op dropout. */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

static const double half = 0.5;

static const dt_key keys[] = {
    { "p", DT_KEY_REAL, .offset = 0, .most = 1, .fallback = "0.5" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const double p = *(const double *)c->options;
    if (!(p >= 0 && p < 1)) return dt_refuse(c, DT_ERR_ARG, "p is %g; at least 0 and below 1", p);
    dt__coding_range r = dt__device_range_of_x(c);
    r.scale = (float)((double)r.scale / (1 - p));
    return dt__device_through_shape(c, &dt__op_dropout, r);
}

DT__DEVICE_FLOATS(dt__op_dropout)

/* Elements that are kept become divided by 1 - p in the base op; multiplied by it again they round
 * to the original codes. */
static void forward_codes(const dt_call *c)
{
    dt__device_through_scaled(c, &dt__op_dropout, 1 - *(const double *)c->options);
}

const dt_op dt__op_device_dropout = {
    .name = "device_dropout",
    .text = "the codes with probability 1-p, else the zero point",
    .random = true,
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(double, half, keys),
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_dropout(dt_tape *t, dt_tensor *x, double p)
{
    return dt_apply(t, &dt__op_device_dropout, &x, 1, &p);
}

static const double none = 0, most = 1;

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { 1, 2, -1 } } }, .options = &none,
      .n_y = 3, .y = { 1, 2, -1 } },
    { "random", .in = { { { 4, 9 } } }, .rough = true },
    { "empty", .in = { { { 0, 2 } } } },
    { "everything", .in = { { { 2 } } }, .options = &most, .fails = DT_ERR_ARG, .says = "below 1" },
};
DT__CASES(device_dropout, cases)
