/* Merges neighbouring dimensions: a view if x is contiguous, else a copy.
 *     y[.., k, ..] = x[.., i, j, .., ..]      k the row-major number of (i, j, ..)
 *     dx = dy in the shape of x */
#include "ops/ops_list.h"
#include "ops/shape/view.h"

typedef struct options {
    int64_t start, end;
} options;

static const options defaults = { 0, -1 };

static const dt_key keys[] = {
    { "start_dim", DT_KEY_INT, .offset = offsetof(options, start), .fallback = "0" },
    { "end_dim", DT_KEY_INT, .offset = offsetof(options, end), .fallback = "-1" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    const dt_tensor *x = c->in[0];
    int64_t dims[DT_MAX_RANK] = { 1 };
    if (x->rank == 0) return dt__reshaped(c, 1, dims);
    int start, end, rank = 0;
    DT__TRY(dt__want_dim(c, 0, o->start, &start));
    DT__TRY(dt__want_dim(c, 0, o->end, &end));
    if (start > end) {
        return dt_refuse(c, DT_ERR_ARG, "dimension %d comes after dimension %d", start, end);
    }
    for (int d = 0; d < x->rank; d++) {
        if (d > start && d <= end) dims[rank - 1] *= x->dims[d];
        else dims[rank++] = x->dims[d];
    }
    return dt__reshaped(c, rank, dims);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const options *o = given;
    const int from = in[0]->rank, start = (int)(o->start < 0 ? o->start + from : o->start);
    const int end = (int)(o->end < 0 ? o->end + from : o->end);
    int64_t dims[DT_MAX_RANK] = { 1 };
    int rank = from == 0;
    for (int d = 0; d < from; d++) {
        if (d > start && d <= end) dims[rank - 1] *= in[0]->dims[d];
        else dims[rank++] = in[0]->dims[d];
    }
    out[0] = dt_reshape(t, in[0], rank, dims);
}

const dt_op dt__op_flatten = {
    .name = "flatten",
    .text = "merges dimensions `start_dim` ... `end_dim` into one",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .strided = true,
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = dt__reshaped_forward,
    .backward = dt__reshaped_backward,
    .lower = lower,
};

dt_tensor *dt_flatten(dt_tape *t, dt_tensor *x, int64_t start, int64_t end)
{
    return dt_apply(t, &dt__op_flatten, DT__CALL_WITH((&(options){ start, end }), x));
}

#define DIMS(start, end) DT__WITH(options, start, end)

static const dt__case cases[] = {
    { "whole", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4,
      .y = { 1, 2, 3, 4 } },
    { "but the first", .in = { { { 2, 3, 4 } } }, .options = DIMS(1, -1) },
    { "in between", .in = { { { 2, 3, 4, 5 } } }, .options = DIMS(-3, 2) },
    { "one", .in = { { { 2, 3 } } }, .options = DIMS(1, 1) },
    { "a scalar", .in = { { .r = DT__SCALAR } } },
    { "empty", .in = { { { 2, 0, 3 } } }, .options = DIMS(1, 2) },
    { "the wrong way", .in = { { { 2, 3 } } }, .options = DIMS(1, 0), .fails = DT_ERR_ARG,
      .says = "dimension 1 comes after dimension 0" },
    { "no such dimension", .in = { { { 2, 3 } } }, .options = DIMS(0, 2), .fails = DT_ERR_ARG,
      .says = "dimension 2" },
};
DT__CASES(flatten, cases)
