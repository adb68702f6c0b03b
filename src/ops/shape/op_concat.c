/* Concatenation along one dimension.      dx_i = the slice of dy at the position of x_i */
#include "ops/ops_list.h"
#include "ops/softmax.h"

#include <string.h>

static dt_status shape(dt_call *c)
{
    const dt__dim_options *o = c->options;
    const dt_tensor *first = c->in[0];
    int dim;
    DT__TRY(dt__want_dim(c, 0, o->dim, &dim));
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, first->dims, sizeof dims);
    for (int i = 1; i < c->n_in; i++) {
        const dt_tensor *x = c->in[i];
        DT__TRY(dt__want_dtype(c, i, first->dtype));
        bool fits = x->rank == first->rank;
        for (int d = 0; d < first->rank && fits; d++) fits = d == dim || x->dims[d] == dims[d];
        if (!fits) {
            return dt_refuse(c, DT_ERR_SHAPE, "x%d differs from x0 outside dimension %d", i, dim);
        }
        if (x->dims[dim] > INT64_MAX - dims[dim]) { /* possible if a tensor has no elements */
            return dt_refuse(c, DT_ERR_SHAPE, "the sum of the extents of dimension %d is too large",
                             dim);
        }
        dims[dim] += x->dims[dim];
    }
    c->state[0] = dim;
    return dt_result(c, 0, first->dtype, first->rank, dims);
}

/* Copies `part` into `whole`, at index `at` of the dimension, or back. */
static void copy_part(const dt_call *c, const dt_tensor *part, const dt_tensor *whole, int64_t at,
                      bool back)
{
    const int dim = (int)c->state[0];
    dt__copy copy = { .rank = part->rank };
    char *inside = (char *)(uintptr_t)dt__data(whole) +
                   (size_t)(at * whole->strides[dim]) * dt_dtype_size(whole->dtype);
    void *alone = (void *)(uintptr_t)dt__data(part);
    memcpy(copy.dims, part->dims, sizeof copy.dims);
    memcpy(back ? copy.y_strides : copy.x_strides, part->strides, sizeof copy.x_strides);
    memcpy(back ? copy.x_strides : copy.y_strides, whole->strides, sizeof copy.x_strides);
    copy.x = back ? inside : alone;
    copy.y = back ? alone : (void *)inside;
    if (part->count > 0) dt__copy_bytes(&copy, dt_dtype_size(whole->dtype));
}

static void forward(const dt_call *c)
{
    int64_t at = 0;
    for (int i = 0; i < c->n_in; i++) {
        copy_part(c, c->arg[i], c->y, at, false);
        at += c->arg[i]->dims[c->state[0]];
    }
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    int64_t at = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (dx[i] != NULL) copy_part(c, dx[i], dy, at, true);
        at += c->arg[i]->dims[c->state[0]];
    }
}

const dt_op dt__op_concat = {
    .name = "concat",
    .text = "the operands one after the other along `dim`",
    .in_name = { "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                 "x13", "x14", "x15" },
    .out_name = { "y" },
    .ungrouped = true,
    .strided = true,
    DT__OP_OPTIONS(dt__dim_options, dt__dim_defaults, dt__dim_keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_concat(dt_tape *t, dt_tensor *const *x, int n, int64_t dim)
{
    if (n > 0) DT__NEED_OP(t, x);
    return dt_apply(t, &dt__op_concat, x, n, &(dt__dim_options){ dim });
}

#define LONG ((INT64_C(1) << 62) - 1)
#define NONE                                                                                       \
    {                                                                                              \
        { 0, LONG }, .dtype = DT_U8                                                                \
    }
#define ALONG(dim) DT__WITH(dt__dim_options, dim)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 1 }, .given = true, .values = { 1, 2 } },
              { { 2, 2 }, .given = true, .values = { 3, 4, 5, 6 } } },
      .n_y = 6, .y = { 1, 3, 4, 2, 5, 6 } },
    { "three", .in = { { { 2, 3, 2 } }, { { 2, 1, 2 } }, { { 2, 4, 2 } } }, .options = ALONG(1) },
    { "alone", .in = { { { 2, 3 } } }, .options = ALONG(0) },
    { "an empty part", .in = { { { 2, 0 }, 2 }, { { 2, 3 } } } },
    { "integers", .in = { { { 4 }, .low = 0, .high = 9, .dtype = DT_I64 },
                          { { 3 }, .low = 0, .high = 9, .dtype = DT_I64 } } },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } }, .options = ALONG(0) },
    { "misfit", .in = { { { 2, 3 } }, { { 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x1 differs from x0 outside dimension 1" },
    { "dtype", .in = { { { 2, 3 } }, { { 2, 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
#if SIZE_MAX > UINT32_MAX /* with 32-bit sizes no tensor is so long */
    { "too long", .in = { NONE, NONE, NONE }, .fails = DT_ERR_SHAPE,
      .says = "dimension 1 is too large" },
#endif
    { "a scalar", .in = { { .r = DT__SCALAR }, { .r = DT__SCALAR } }, .fails = DT_ERR_ARG,
      .says = "dimension -1" },
};
DT__CASES(concat, cases)
