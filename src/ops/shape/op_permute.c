/* Dimensions in another order: a view.      Dimension i of y is dimension dims[i] of x. */
#include "ops/ops_list.h"
#include "ops/shape/view.h"

#include <string.h>

static const dt__permute_options defaults = { 0 };

const dt_key dt__permute_keys[] = {
    { "dims", DT_KEY_INTS, .offset = offsetof(dt__permute_options, dims), .fallback = "!" },
    { 0 },
};

static dt_status order_of(const dt_call *c, int *order)
{
    const dt__permute_options *o = c->options;
    const int rank = c->in[0]->rank;
    unsigned seen = 0;
    if (o->dims.n != rank) {
        return dt_refuse(c, DT_ERR_ARG, "%d dimensions given, x has %d", o->dims.n, rank);
    }
    for (int d = 0; d < rank; d++) {
        DT__TRY(dt__want_dim(c, 0, o->dims.v[d], &order[d]));
        if ((seen >> order[d] & 1) != 0) {
            return dt_refuse(c, DT_ERR_ARG, "dimension %d is given twice", order[d]);
        }
        seen |= 1u << order[d];
    }
    return DT_OK;
}

dt_status dt__permutation_of(const dt_call *c, const dt_tensor *x, dt__view_part *out)
{
    int order[DT_MAX_RANK];
    DT__TRY(order_of(c, order));
    out->offset = 0;
    for (int d = 0; d < x->rank; d++) {
        out->dims[d] = x->dims[order[d]];
        out->strides[d] = x->strides[order[d]];
    }
    return DT_OK;
}

static dt_status shape(dt_call *c)
{
    int order[DT_MAX_RANK];
    DT__TRY(order_of(c, order));
    return dt__permuted(c, order);
}

const dt_op dt__op_permute = {
    .name = "permute",
    .text = "dimension i of y is dimension dims[i] of x: a view",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .strided = true,
    DT__OP_OPTIONS(dt__permute_options, defaults, dt__permute_keys),
    .shape = shape,
    .forward = dt__view_forward,
    .backward = dt__permuted_backward,
};

dt__permute_options dt__permute_to(const dt_tensor *x, const int64_t *dims)
{
    dt__permute_options o = { .dims.n = x != NULL ? dt_rank(x) : 0 };
    if (o.dims.n > 0) memcpy(o.dims.v, dims, (size_t)o.dims.n * sizeof dims[0]);
    return o;
}

dt_tensor *dt_permute(dt_tape *t, dt_tensor *x, const int64_t *dims)
{
    DT__NEED_OP(t, dims);
    const dt__permute_options o = dt__permute_to(x, dims);
    return dt_apply(t, &dt__op_permute, DT__CALL_WITH(&o, x));
}

#define DIMS(...) DT__WITH(dt__permute_options, { __VA_ARGS__ })

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = DIMS(3, { 2, 0, 1 }), .n_y = 4, .y = { 1, 3, 2, 4 } },
    { "rank 4", .in = { { { 2, 3, 4, 5 } } }, .options = DIMS(4, { 2, 0, -1, 1 }) },
    { "a scalar", .in = { { .r = DT__SCALAR } } },
    { "bytes", .in = { { { 2, 3 }, .low = 0, .high = 9, .dtype = DT_U8 } },
      .options = DIMS(2, { 1, 0 }) },
    { "empty", .in = { { { 0, 3 } } }, .options = DIMS(2, { 1, 0 }) },
    { "too few", .in = { { { 2, 3 } } }, .options = DIMS(1, { 0 }), .fails = DT_ERR_ARG,
      .says = "1 dimensions given, x has 2" },
    { "twice", .in = { { { 2, 3 } } }, .options = DIMS(2, { 0, -2 }), .fails = DT_ERR_ARG,
      .says = "twice" },
};
DT__CASES(permute, cases)
