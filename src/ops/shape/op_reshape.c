/* The same elements in another shape: a view where x is contiguous, else a copy.
 *     y[k] = x[k] in row-major order      dx = dy in the shape of x */
#include "ops/ops_list.h"
#include "ops/shape/view.h"

#include <string.h>

typedef struct options {
    dt_ints shape;
} options;

static const options defaults = { 0 };

static const dt_key keys[] = {
    { "shape", DT_KEY_INTS, .offset = offsetof(options, shape), .least = -1, .most = DT_NO_LIMIT,
      .fallback = "!" },
    { 0 },
};

/* The extents with -1 inferred. */
static dt_status resolve(const dt_call *c, const dt_ints *o, int64_t *dims)
{
    const int64_t count = c->in[0]->count;
    char text[160];
    int open = -1;
    int64_t known = 1;
    bool fits = o->n >= 0 && o->n <= DT_MAX_RANK;
    for (int d = 0; d < o->n && fits; d++) {
        dims[d] = o->v[d];
        if (dims[d] == -1 && open < 0) open = d;
        else fits = dims[d] >= 0 && !__builtin_mul_overflow(known, dims[d], &known);
    }
    if (fits && open >= 0) {
        fits = known > 0 && count % known == 0;
        if (fits) dims[open] = count / known;
    } else if (fits) {
        fits = known == count;
    }
    if (fits) return DT_OK;
    const int shown = (int)dt__max_i64(0, dt__min_i64(o->n, DT_MAX_RANK));
    return dt_refuse(c, DT_ERR_SHAPE, "%lld elements do not fit %s", (long long)count,
                     dt__dims_text(shown, o->v, text, sizeof text));
}

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    int64_t dims[DT_MAX_RANK] = { 0 };
    DT__TRY(resolve(c, &o->shape, dims));
    return dt__reshaped(c, o->shape.n, dims);
}

const dt_op dt__op_reshape = {
    .name = "reshape",
    .text = "the same elements, row-major, in another shape",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .strided = true,
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = dt__reshaped_forward,
    .backward = dt__reshaped_backward,
};

dt_tensor *dt_reshape(dt_tape *t, dt_tensor *x, int rank, const int64_t *dims)
{
    if (rank > 0) DT__NEED_OP(t, dims);
    options o = { .shape.n = rank };
    if (rank > 0 && rank <= DT_MAX_LIST) memcpy(o.shape.v, dims, (size_t)rank * sizeof dims[0]);
    return dt_apply(t, &dt__op_reshape, DT__CALL_WITH(&o, x));
}

dt_tensor *dt_contiguous(dt_tape *t, dt_tensor *x)
{
    if (x == NULL || (x->kind == NULL && dt_is_contiguous(x))) return x;
    return dt_reshape(t, x, x->rank, x->dims);
}

#define TO(...) DT__WITH(options, { __VA_ARGS__ })

static const dt__case cases[] = {
    { "inferred", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = TO(3, { 1, -1, 2 }), .n_y = 4, .y = { 1, 2, 3, 4 } },
    { "rank 4", .in = { { { 6, 4 } } }, .options = TO(4, { 2, 3, 1, 4 }) },
    { "to a scalar", .in = { { { 1, 1 } } }, .options = TO(0, { 0 }) },
    { "empty", .in = { { { 0, 3 } } }, .options = TO(2, { 5, 0 }) },
    { "misfit", .in = { { { 2, 3 } } }, .options = TO(1, { 5 }), .fails = DT_ERR_SHAPE,
      .says = "6 elements do not fit [5]" },
    { "two open", .in = { { { 2, 3 } } }, .options = TO(2, { -1, -1 }), .fails = DT_ERR_SHAPE },
    { "overflow", .in = { { { 2, 3 } } }, .options = TO(2, { INT64_MAX, 3 }),
      .fails = DT_ERR_SHAPE },
};
DT__CASES(reshape, cases)
