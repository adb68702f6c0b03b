/* Softmax of codes over the last dimension, with scale 1/256 and zero point -128 (numerics §8).
 *     dx = y (dy - sum of y dy), y being the value of the codes */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/softmax.h"

enum { VALUE = 1 };

static dt_status shape(dt_call *c)
{
    dt__device_softmax s;
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 1, DT_MAX_RANK));
    const dt_tensor *x = c->in[0];
    if (dt__columns(x) > DT__DEVICE_SOFTMAX_MOST) {
        return dt_refuse(c, DT_ERR_ARG, "a row has %lld elements; at most %d have sums that fit",
                         (long long)dt__columns(x), DT__DEVICE_SOFTMAX_MOST);
    }
    if (!c->coded) return dt__shape_like(c, 0);
    const float scale = dt__range_of_codes(c->codes[0]).scale;
    if (!dt__device_softmax_make((double)scale, &s)) {
        return dt_refuse(c, DT_ERR_NUMERIC, "the scale %g of x is too small", (double)scale);
    }
    DT__TRY(dt__result_coded(c, 0, x->rank, x->dims, (dt__coding_range){ 0x1p-8f, -128 }));
    return c->recording ? dt_result(c, VALUE, DT_F32, x->rank, x->dims) : DT_OK;
}

static dt__lines lines_of(const dt_tensor *x) { return dt__lines_of(x, x->rank - 1); }

static void forward(const dt_call *c)
{
    const dt__lines l = lines_of(c->arg[0]);
    c->kernels->softmax(&l, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void forward_codes(const dt_call *c)
{
    const dt__codes *x = c->codes[0], *y = dt__coded_codes(c->y);
    dt__device_softmax s;
    dt__device_softmax_make((double)dt__range_of_codes(x).scale, &s);
    dt__device_softmax_codes(&s, dt__rows(c->y), dt__columns(c->y), x->u, y->u);
    if (c->n_out > VALUE) dt__codes_expand_all(y, dt__data_mut(c->out[VALUE]));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__lines l = lines_of(dy);
    const dt_tensor *y = c->coded ? c->out[VALUE] : c->y;
    c->kernels->softmax_backward(&l, dt__data(y), dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_device_softmax = {
    .name = "device_softmax",
    .text = "softmax over the last dimension; the scale of its codes is 1/256",
    .in_name = { "x" },
    .out_name = { "y", "value" },
    .role = { DT_CODES },
    .ungrouped = true,
    .saves = { .y = DT_VALUE },
    .saves_coded = { .out = { DT_NOTHING, DT_VALUE } },
    DT__DEVICE_FUNCTIONS,
};

dt_tensor *dt_device_softmax(dt_tape *t, dt_tensor *x)
{
    return dt_apply(t, &dt__op_device_softmax, &x, 1, NULL);
}

static const dt__case cases[] = {
    { "two equal elements", .in = { { { 1, 2 }, .given = true, .values = { 3, 3 } } }, .n_y = 2,
      .y = { 0.5, 0.5 } },
    { "rows", .in = { { { 4, 7 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "a long row", .in = { { { 1, 512 } } }, .fails = DT_ERR_ARG, .says = "at most 511" },
};
DT__CASES(device_softmax, cases)
