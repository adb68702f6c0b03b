/* Codes with their dimensions in another order (numerics §8): a copy.
 *     y[i_0, i_1, ...] = x[..., dimension dims[d] of x at i_d, ...]      dx: the same way back */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

#include <string.h>

typedef struct options {
    dt_ints dims;
} options;

static const options defaults = { 0 };

static const dt_key keys[] = {
    { "dims", DT_KEY_INTS, .offset = offsetof(options, dims), .fallback = "!",
      .text = "for each dimension of the result, the dimension of x" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    const dt_tensor *x = c->in[0];
    int64_t dims[DT_MAX_RANK];
    unsigned seen = 0;
    DT__TRY(dt__want_float(c, 0));
    if (o->dims.n != x->rank) {
        return dt_refuse(c, DT_ERR_ARG, "%d dimensions given, x has %d", o->dims.n, x->rank);
    }
    for (int d = 0; d < x->rank; d++) {
        int from;
        DT__TRY(dt__want_dim(c, 0, o->dims.v[d], &from));
        if ((seen >> from & 1) != 0) {
            return dt_refuse(c, DT_ERR_ARG, "dimension %d is given twice", from);
        }
        seen |= 1u << from;
        c->state[d] = from;
        dims[d] = x->dims[from];
    }
    if (!c->coded) return dt_result(c, 0, x->dtype, x->rank, dims);
    return dt__result_coded(c, 0, x->rank, dims, dt__range_of_codes(c->codes[0]));
}

/* Copies elements of `size` bytes from x to y, or back, in the order of y. */
static void copy(const dt_call *c, const char *from, size_t size, bool back, char *to)
{
    int64_t own[DT_MAX_RANK], stride[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 }, place = 0;
    const dt_tensor *y = c->y;
    for (int d = 0; d < y->rank; d++) own[c->state[d]] = y->dims[d]; /* extents of x */
    for (int d = 0; d < y->rank; d++) {
        stride[d] = 1;
        for (int64_t k = c->state[d] + 1; k < y->rank; k++) stride[d] *= own[k];
    }
    for (int64_t i = 0; i < y->count; i++) {
        const size_t x_at = (size_t)place * size, y_at = (size_t)i * size;
        memcpy(to + (back ? x_at : y_at), from + (back ? y_at : x_at), size);
        for (int d = y->rank - 1; d >= 0; d--) {
            place += stride[d];
            if (++at[d] < y->dims[d]) break;
            place -= stride[d] * y->dims[d];
            at[d] = 0;
        }
    }
}

static void forward(const dt_call *c)
{
    copy(c, dt__data(c->arg[0]), dt_dtype_size(c->y->dtype), false, dt__data_mut(c->y));
}

static void forward_codes(const dt_call *c)
{
    copy(c, (const char *)c->codes[0]->u, 1, false, (char *)dt__coded_codes(c->y)->u);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    copy(c, dt__data(dy), dt_dtype_size(dy->dtype), true, dt__data_mut(dx[0]));
}

const dt_op dt__op_device_permute = {
    .name = "device_permute",
    .text = "the same codes with dimensions in another order",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    .takes_codes = dt__device_takes_codes,
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .forward_codes = forward_codes,
    .backward = backward,
};

dt_tensor *dt_device_permute(dt_tape *t, dt_tensor *x, const int64_t *dims)
{
    DT__NEED_OP(t, dims);
    options o = { .dims.n = x != NULL ? dt_rank(x) : 0 };
    if (o.dims.n > 0) memcpy(o.dims.v, dims, (size_t)o.dims.n * sizeof dims[0]);
    return dt_apply(t, &dt__op_device_permute, &x, 1, &o);
}

#define DIMS(...) DT__WITH(options, { __VA_ARGS__ })

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 3 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } } },
      .options = DIMS(3, { 0, 2, 1 }), .n_y = 6, .y = { 1, 4, 2, 5, 3, 6 } },
    { "rank 4", .in = { { { 2, 3, 4, 5 } } }, .options = DIMS(4, { 0, 3, -3, 2 }) },
    { "empty", .in = { { { 0, 3, 2 } } }, .options = DIMS(3, { 0, 2, 1 }) },
    { "too few", .in = { { { 2, 3 } } }, .options = DIMS(1, { 0 }), .fails = DT_ERR_ARG,
      .says = "1 dimensions given, x has 2" },
    { "twice", .in = { { { 2, 3 } } }, .options = DIMS(2, { 0, -2 }), .fails = DT_ERR_ARG,
      .says = "twice" },
};
DT__CASES(device_permute, cases)
