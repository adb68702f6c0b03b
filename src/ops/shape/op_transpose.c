/* Swaps two dimensions: a view.      y[.., j, .., i, ..] = x[.., i, .., j, ..] */
#include "ops/ops_list.h"
#include "ops/shape/view.h"

typedef struct options {
    int64_t dim0, dim1;
} options;

static const options defaults = { -2, -1 };

static const dt_key keys[] = {
    { "dim0", DT_KEY_INT, .offset = offsetof(options, dim0), .fallback = "-2" },
    { "dim1", DT_KEY_INT, .offset = offsetof(options, dim1), .fallback = "-1" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    int order[DT_MAX_RANK], a, b;
    DT__TRY(dt__want_dim(c, 0, o->dim0, &a));
    DT__TRY(dt__want_dim(c, 0, o->dim1, &b));
    for (int d = 0; d < c->in[0]->rank; d++) order[d] = d == a ? b : d == b ? a : d;
    return dt__permuted(c, order);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const options *o = given;
    const int rank = in[0]->rank;
    const int64_t a = o->dim0 < 0 ? o->dim0 + rank : o->dim0;
    const int64_t b = o->dim1 < 0 ? o->dim1 + rank : o->dim1;
    int64_t order[DT_MAX_RANK];
    for (int d = 0; d < rank; d++) order[d] = d == a ? b : d == b ? a : d;
    out[0] = dt_permute(t, in[0], order);
}

const dt_op dt__op_transpose = {
    .name = "transpose",
    .text = "swaps dimensions dim0 and dim1: a view",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .strided = true,
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = dt__view_forward,
    .backward = dt__permuted_backward,
    .lower = lower,
};

dt_tensor *dt_transpose(dt_tape *t, dt_tensor *x, int64_t dim0, int64_t dim1)
{
    return dt_apply(t, &dt__op_transpose, DT__CALL_WITH((&(options){ dim0, dim1 }), x));
}

#define DIMS(...) DT__WITH(options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4,
      .y = { 1, 3, 2, 4 } },
    { "far apart", .in = { { { 2, 3, 4 } } }, .options = DIMS(0, -1) },
    { "the same", .in = { { { 2, 3 } } }, .options = DIMS(1, 1) },
    { "integers", .in = { { { 2, 3 }, .low = 0, .high = 9, .dtype = DT_I32 } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "no such dimension", .in = { { { 2, 3 } } }, .options = DIMS(0, 2), .fails = DT_ERR_ARG,
      .says = "dimension 2" },
};
DT__CASES(transpose, cases)
