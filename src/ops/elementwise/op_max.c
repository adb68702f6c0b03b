/* The largest element along a dimension.
 *     y = max over k of x[.., k, ..]      dx = dy at the first k where x = y, else 0
 * NaN counts as the largest. Result 1 is that first k. */
#include "autograd/op.h"
#include "ops/ops_list.h"
#include "ops/softmax.h"

typedef struct options {
    int64_t dim;
    bool keepdim;
} options;

static const options defaults = { .dim = -1 };

static const dt_key keys[] = {
    { "dim", DT_KEY_INT, .offset = offsetof(options, dim), .fallback = "-1" },
    { "keepdim", DT_KEY_BOOL, .offset = offsetof(options, keepdim), .fallback = "false" },
    { 0 },
};

/* state[0]: the dimension */
static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    const dt_tensor *x = c->in[0];
    int dim, rank = 0;
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 1, DT_MAX_RANK));
    DT__TRY(dt__want_dim(c, 0, o->dim, &dim));
    if (x->dims[dim] < 1 || x->dims[dim] > INT32_MAX) {
        return dt_refuse(c, DT_ERR_SHAPE,
                         "the dimension has %lld elements, expected 1 to 2147483647",
                         (long long)x->dims[dim]);
    }
    for (int d = 0; d < x->rank; d++) {
        if (d != dim) dims[rank++] = x->dims[d];
        else if (o->keepdim) dims[rank++] = 1;
    }
    c->state[0] = dim;
    DT__TRY(dt_result(c, 0, x->dtype, rank, dims));
    return dt_result(c, 1, DT_I32, rank, dims);
}

static void forward(const dt_call *c)
{
    const dt__lines l = dt__lines_of(c->arg[0], (int)c->state[0]);
    c->kernels->max(&l, dt__data(c->arg[0]), dt__data_mut(c->y), dt__data_mut(c->out[1]));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__lines l = dt__lines_of(dx[0], (int)c->state[0]);
    c->kernels->max_backward(&l, dt__data(c->out[1]), dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_max = {
    .name = "max",
    .text = "the largest element along `dim`, and its index",
    .in_name = { "x" },
    .out_name = { "y", "index" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_max(dt_tape *t, dt_tensor *x, int64_t dim, bool keepdim, dt_tensor **index)
{
    dt_tensor *out[2] = { NULL };
    dt_apply_n(t, &dt__op_max, DT__CALL_WITH((&(options){ dim, keepdim }), x), out, 2);
    if (index != NULL) *index = out[1];
    return out[0];
}

#define ALONG(...) DT__WITH(options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 3 }, .given = true, .values = { 1, 3, 2, -1, -5, -1 } } }, .n_y = 2,
      .y = { 3, -1 }, .rough = true },
    { "columns", .in = { { { 2, 3 }, .given = true, .values = { 1, 3, 2, -1, 5, 2 } } },
      .options = ALONG(0, true), .n_y = 3, .y = { 1, 5, 2 }, .rough = true },
    { "not a number",
      .in = { { { 2, 3 }, .given = true, .values = { 1, DT__NAN, 2, 1, 2, DT__NAN } } }, .n_y = 2,
      .y = { DT__NAN, DT__NAN }, .rough = true },
    { "in between", .in = { { { 2, 5, 3 } } }, .options = ALONG(1, false) },
    { "first", .in = { { { 4, 3, 2 } } }, .options = ALONG(-3, true) },
    { "lanes", .in = { { { 5, 133 } } }, .options = ALONG(-1, false) },
    { "long", .in = { { { 3, 40003 } } }, .rough = true },
    { "wide", .in = { { { 3, 20, 700 } } }, .options = ALONG(1, false), .rough = true },
    { "no lines", .in = { { { 0, 3 } } } },
    { "of nothing", .in = { { { 2, 0 }, 2 } }, .fails = DT_ERR_SHAPE, .says = "has 0 elements" },
    { "no such dimension", .in = { { { 2, 3 } } }, .options = ALONG(2, false), .fails = DT_ERR_ARG,
      .says = "dimension 2" },
    { "a scalar", .in = { { .r = DT__SCALAR } }, .fails = DT_ERR_SHAPE, .says = "rank 0" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(max, cases)
