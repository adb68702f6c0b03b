/* A linear layer's product.      y = x W^T + b      dx = dy W, dW = dy^T x, db = sum of dy
 * x [..., in] is a matrix of rows; W is [out, in]. Operands that offer integer codes are multiplied
 * as codes: linear_codes.c. */
#include "autograd/codes.h"
#include "ops/linear_codes.h"
#include "ops/ops_list.h"

#include <string.h>

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 3));
    for (int i = 0; i < c->n_in; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, 0, 1, DT_MAX_RANK));
    DT__TRY(dt__want_rank(c, 1, 2, 2));
    const dt_tensor *x = c->in[0], *w = c->in[1];
    if (dt__columns(x) != w->dims[1]) {
        return dt_refuse(c, DT_ERR_SHAPE, "x has %lld features, weight takes %lld",
                         (long long)dt__columns(x), (long long)w->dims[1]);
    }
    if (c->n_in == 3) DT__TRY(dt__want_dims(c, 2, 1, w->dims));
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = w->dims[0];
    c->scratch_bytes = dt__linear_forward_scratch(c);
    return dt_result(c, 0, x->dtype, x->rank, dims);
}

/* A scheme of the whole tensor cuts x [a, b, in] into a rows of b in elements: no rows of ours. */
static bool takes_codes(const dt_call *c, int i)
{
    return c->codes[i]->columns == dt__columns(c->in[i]);
}

static void forward(const dt_call *c)
{
    const dt_tensor *x = c->arg[0], *w = c->arg[1];
    const int64_t rows = dt__rows(x), in = w->dims[1], out = w->dims[0];
    c->kernels->gemm(&(dt__gemm){ .trans_b = true,
                                  .m = rows,
                                  .n = out,
                                  .k = in,
                                  .a = dt__data(x),
                                  .lda = in,
                                  .b = dt__data(w),
                                  .ldb = in,
                                  .c = dt__data_mut(c->y),
                                  .ldc = out });
    if (c->n_in == 3) c->kernels->add_rows(rows, out, dt__data(c->arg[2]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const int64_t rows = dt__rows(dy), out = dt__columns(dy);
    if (dx[0] != NULL) dt__linear_backward_x(c, dt__data(dy), dt__data_mut(dx[0]));
    if (dx[1] != NULL) dt__linear_backward_w(c, dt__data(dy), dt__data_mut(dx[1]));
    if (c->n_in == 3 && dx[2] != NULL) {
        c->kernels->sum(&(dt__reduce){ .rank = 2,
                                       .dims = { rows, out },
                                       .over = { true },
                                       .divisor = 1,
                                       .x = dt__data(dy),
                                       .y = dt__data_mut(dx[2]) });
    }
}

const dt_op dt__op_linear = {
    .name = "linear",
    .text = "y = x W^T + bias",
    .in_name = { "x", "weight", "bias" },
    .out_name = { "y" },
    .role = { DT_CODES, DT_CODES, DT_READ },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES } },
    .shape = shape,
    .forward = forward,
    .forward_codes = dt__linear_forward_codes,
    .takes_codes = takes_codes,
    .backward = backward,
    .scratch = dt__linear_backward_scratch,
};

dt_tensor *dt_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias)
{
    return dt_apply(t, &dt__op_linear, (dt_tensor *[]){ x, weight, bias }, bias != NULL ? 3 : 2,
                    NULL);
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 2, 3 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, -1, 4 } },
              { { 2 }, .given = true, .values = { 0.5, 1 } } },
      .n_y = 2, .y = { 2.5, 11 } },
    { "no bias", .in = { { { 5, 7 } }, { { 4, 7 } } } },
    { "rank 3", .in = { { { 2, 3, 9 } }, { { 5, 9 } }, { { 5 } } } },
    { "rank 1", .in = { { { 6 } }, { { 5, 6 } }, { { 5 } } } },
    { "many rows", .in = { { { 96, 160 } }, { { 140, 160 } }, { { 140 } } }, .rough = true },
    { "no rows", .in = { { { 0, 6 } }, { { 5, 6 } }, { { 5 } } } },
    { "no features", .in = { { { 3, 0 }, 2 }, { { 2, 0 }, 2 }, { { 2 } } } },
    { "features", .in = { { { 2, 3 } }, { { 5, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 features, weight takes 4" },
    { "bias", .in = { { { 2, 3 } }, { { 5, 3 } }, { { 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "bias must be [5]" },
    { "weight's rank", .in = { { { 2, 3 } }, { { 3 } } }, .fails = DT_ERR_SHAPE, .says = "rank" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 5, 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(linear, cases)
