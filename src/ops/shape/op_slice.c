/* Every step-th element from start to below stop of some dimensions: a view.
 *     y[.., i, ..] = x[.., start + i step, ..]      dx = dy there, else 0
 * Backward adds to the gradient that x already has: slicing x into many parts costs as much as one
 * pass over x, not one per slice. Starts and stops are as in Python: negative ones count from the
 * end; both are clamped to the extent. */
#include "ops/ops_list.h"
#include "ops/shape/view.h"

#include <string.h>

#define AT(field) .offset = offsetof(dt_slice_options, field)

static const dt_slice_options defaults = { .dims.n = 0 };

const dt_key dt__slice_keys[] = {
    { "dims", DT_KEY_INTS, AT(dims) },
    { "starts", DT_KEY_INTS, AT(starts) },
    { "stops", DT_KEY_INTS, AT(stops) },
    { "steps", DT_KEY_INTS, AT(steps), .least = 1, .most = DT_NO_LIMIT },
    { 0 },
};

static dt_status check(const dt_call *c)
{
    const dt_slice_options *o = c->options;
    const int n = o->dims.n;
    if (n >= 0 && n <= DT_MAX_LIST && o->starts.n == n && o->stops.n == n &&
        (o->steps.n == n || o->steps.n == 0)) {
        return DT_OK;
    }
    return dt_refuse(c, DT_ERR_ARG, "%d dims, %d starts, %d stops, %d steps", n, o->starts.n,
                     o->stops.n, o->steps.n);
}

dt_status dt__slice_of(const dt_call *c, const dt_tensor *x, dt__view_part *out)
{
    const dt_slice_options *o = c->options;
    DT__TRY(check(c));
    memcpy(out->dims, x->dims, sizeof out->dims);
    memcpy(out->strides, x->strides, sizeof out->strides);
    out->offset = 0;
    unsigned seen = 0;
    for (int i = 0; i < o->dims.n; i++) {
        int d;
        DT__TRY(dt__want_dim(c, 0, o->dims.v[i], &d));
        const int64_t step = o->steps.n > 0 ? o->steps.v[i] : 1, extent = x->dims[d];
        if ((seen >> d & 1) != 0) return dt_refuse(c, DT_ERR_ARG, "dimension %d is given twice", d);
        if (step < 1) return dt_refuse(c, DT_ERR_ARG, "step %lld is below 1", (long long)step);
        seen |= 1u << d;
        const int64_t start = dt__bound_in(o->starts.v[i], extent),
                      stop = dt__bound_in(o->stops.v[i], extent);
        const int64_t length = stop - start;
        out->dims[d] = length > 0 ? (length - 1) / step + 1 : 0;
        if (length > 0) out->offset += start * x->strides[d];
        if (out->dims[d] > 1) out->strides[d] *= step;
    }
    return DT_OK;
}

static dt_status shape(dt_call *c)
{
    const dt_tensor *x = c->arg[0];
    dt__view_part y;
    DT__TRY(dt__slice_of(c, x, &y));
    return dt__result_view(c, 0, x->rank, y.dims, y.strides, x->offset + y.offset);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__view_part y;
    if (dy->count == 0 || dt__slice_of(c, dx[0], &y) != DT_OK) return;
    dt__copy copy = { .rank = dy->rank, .x = dt__data(dy) };
    copy.y = (char *)dt__data_mut(dx[0]) + (size_t)y.offset * dt_dtype_size(dy->dtype);
    memcpy(copy.dims, dy->dims, sizeof copy.dims);
    memcpy(copy.x_strides, dy->strides, sizeof copy.x_strides);
    memcpy(copy.y_strides, y.strides, sizeof copy.y_strides);
    c->kernels->add_strided(&copy);
}

const dt_op dt__op_slice = {
    .name = "slice",
    .text = "elements start, start+step, ... below stop of each dimension: a view",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .strided = true,
    .adds = { true },
    DT__OP_OPTIONS(dt_slice_options, defaults, dt__slice_keys),
    .shape = shape,
    .forward = dt__view_forward,
    .backward = backward,
};

dt_tensor *dt_slice(dt_tape *t, dt_tensor *x, const dt_slice_options *options)
{
    return dt_apply(t, &dt__op_slice, DT__CALL_WITH(options, x));
}

#define CUT(dim, start, stop, step)                                                                \
    DT__WITH(dt_slice_options, .dims = { 1, { dim } }, .starts = { 1, { start } },                 \
             .stops = { 1, { stop } }, .steps = { 1, { step } })

static const dt_slice_options both = {
    .dims = { 2, { 0, -1 } },
    .starts = { 2, { 1, -4 } },
    .stops = { 2, { 9, -1 } },
};
static const dt_slice_options uneven = {
    .dims = { 2, { 0, 1 } },
    .starts = { 2, { 0, 0 } },
    .stops = { 1, { 2 } },
};

static const dt__case cases[] = {
    { "values", .in = { { { 6 }, .given = true, .values = { 0, 1, 2, 3, 4, 5 } } },
      .options = CUT(0, 1, 6, 2), .n_y = 3, .y = { 1, 3, 5 } },
    { "from the end", .in = { { { 3, 5 } } }, .options = &both },
    { "in between", .in = { { { 2, 5, 3 } } }, .options = CUT(1, -3, 100, 2) },
    { "whole", .in = { { { 2, 3 } } } },
    { "integers", .in = { { { 4, 2 }, .low = 0, .high = 9, .dtype = DT_I32 } },
      .options = CUT(0, 1, 3, 1) },
    { "empty slice", .in = { { { 3, 5 } } }, .options = CUT(1, 2, 2, 1) },
    { "empty", .in = { { { 0, 3 } } }, .options = CUT(1, 0, 2, 1) },
    { "lists", .in = { { { 2, 3 } } }, .options = &uneven, .fails = DT_ERR_ARG,
      .says = "2 starts, 1 stops" },
    { "step", .in = { { { 2, 3 } } }, .options = CUT(0, 0, 2, 0), .fails = DT_ERR_ARG,
      .says = "step 0" },
    { "no such dimension", .in = { { { 2, 3 } } }, .options = CUT(2, 0, 2, 1), .fails = DT_ERR_ARG,
      .says = "dimension 2" },
};
DT__CASES(slice, cases)
