/* Codes in another shape (numerics §8).      y[k] = x[k] in row-major order      dx = dy */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

#include <string.h>

typedef struct options {
    dt_ints shape;
} options;

static const options defaults = { 0 };

static const dt_key keys[] = {
    { "shape", DT_KEY_INTS, .offset = offsetof(options, shape), .most = DT_NO_LIMIT,
      .fallback = "!" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    int64_t count;
    char text[160];
    DT__TRY(dt__want_float(c, 0));
    if (o->shape.n < 1 || o->shape.n > DT_MAX_RANK ||
        !dt__product(o->shape.n, o->shape.v, &count) || count != c->in[0]->count) {
        const int shown = (int)dt__max_i64(0, dt__min_i64(o->shape.n, DT_MAX_RANK));
        return dt_refuse(c, DT_ERR_SHAPE, "%lld elements do not fit %s", (long long)c->in[0]->count,
                         dt__dims_text(shown, o->shape.v, text, sizeof text));
    }
    if (!c->coded) return dt_result(c, 0, c->in[0]->dtype, o->shape.n, o->shape.v);
    return dt__result_coded(c, 0, o->shape.n, o->shape.v, dt__range_of_codes(c->codes[0]));
}

static void forward_codes(const dt_call *c)
{
    memcpy(dt__coded_codes(c->y)->u, c->codes[0]->u, (size_t)c->y->count);
}

const dt_op dt__op_device_reshape = {
    .name = "device_reshape",
    .text = "the same codes, row-major, in another shape",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(options, defaults, keys),
    .takes_codes = dt__device_takes_codes,
    .shape = shape,
    .forward = dt__device_copy_forward,
    .forward_codes = forward_codes,
    .backward = dt__reshaped_backward,
};

dt_tensor *dt_device_reshape(dt_tape *t, dt_tensor *x, int rank, const int64_t *dims)
{
    if (rank > 0) DT__NEED_OP(t, dims);
    options o = { .shape.n = rank };
    if (rank > 0 && rank <= DT_MAX_LIST) memcpy(o.shape.v, dims, (size_t)rank * sizeof dims[0]);
    return dt_apply(t, &dt__op_device_reshape, &x, 1, &o);
}

static const options flat = { { 1, { 6 } } }, none = { { 2, { 0, 6 } } }, wrong = { { 1, { 5 } } };

static const dt__case cases[] = {
    { "values", .in = { { { 2, 3 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } } },
      .options = &flat, .n_y = 6, .y = { 1, 2, 3, 4, 5, 6 } },
    { "empty", .in = { { { 0, 2, 3 } } }, .options = &none },
    { "another size", .in = { { { 2, 3 } } }, .options = &wrong, .fails = DT_ERR_SHAPE,
      .says = "6 elements do not fit" },
};
DT__CASES(device_reshape, cases)
