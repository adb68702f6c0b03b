/* Embedding lookup.      y[..., :] = weight[index[...], :]
 * The index is integers, or floats that are whole numbers, as columns of a table are.
 *     dweight[v, :] = sum of dy over the positions whose index is v
 * Of a quantized weight only the rows that are read are dequantized. */
#include "autograd/codes.h"
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <math.h>
#include <string.h>

/* Checks an index of floats. */
static dt_status want_whole(const dt_call *c, int64_t n)
{
    const dt_tensor *x = c->arg[1];
    for (int64_t k = 0; k < x->count && !c->tape->shapes_only; k++) {
        const double v = dt__real_at(x, k);
        if (v >= 0 && v < (double)n && v == floor(v)) continue;
        return dt_refuse(c, DT_ERR_ARG, "index[%lld] is %g; expected a whole number in 0...%lld",
                         (long long)k, v, (long long)n - 1);
    }
    return DT_OK;
}

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2, 2));
    DT__TRY(dt__want_rank(c, 1, 0, DT_MAX_RANK - 1));
    const int64_t n = c->in[0]->dims[0];
    DT__TRY(dt__is_float(c->in[1]->dtype) ? want_whole(c, n) : dt__want_indices(c, 1, n, NULL));
    const dt_tensor *index = c->in[1];
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, index->dims, sizeof dims);
    dims[index->rank] = c->in[0]->dims[1];
    return dt_result(c, 0, c->in[0]->dtype, index->rank + 1, dims);
}

static dt__gather rows_of(const dt_call *c)
{
    const dt_tensor *index = c->arg[1];
    return (dt__gather){ .count = index->count,
                         .n = c->arg[0]->dims[1],
                         .index = dt__data(index),
                         .type = index->dtype };
}

static void forward(const dt_call *c)
{
    const dt__gather g = rows_of(c);
    c->kernels->gather(&g, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void forward_codes(const dt_call *c)
{
    const dt__gather g = rows_of(c);
    dt__codes_gather(c->codes[0], &g, dt__data_mut(c->y));
}

/* With per-tensor quantization rows of codes are not rows of the table. */
static bool takes_codes(const dt_call *c, int i)
{
    const dt__codes *codes = c->codes[i];
    const int64_t *dims = c->in[i]->dims;
    return c->in[i]->rank == 2 && codes->rows == dims[0] && codes->columns == dims[1];
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__gather g = rows_of(c);
    c->kernels->fill(dt__count(dx[0]), 0, dt__data_mut(dx[0]));
    c->kernels->scatter_add(&g, dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_embedding = {
    .name = "embedding",
    .text = "y[..., :] = weight[index[...], :]",
    .in_name = { "weight", "index" },
    .out_name = { "y" },
    .role = { DT_CODES, DT_READ },
    .ungrouped = true,
    .undifferentiable = { false, true },
    .saves = { .arg = { DT_NOTHING, DT_VALUE } },
    .saves_coded = { .arg = { DT_NOTHING, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .forward_codes = forward_codes,
    .takes_codes = takes_codes,
    .backward = backward,
};

dt_tensor *dt_embedding(dt_tape *t, dt_tensor *weight, dt_tensor *index)
{
    return dt_apply(t, &dt__op_embedding, DT__CALL(weight, index));
}

#define INDEX(...) __VA_ARGS__, .low = 0, .high = 5, .dtype = DT_I32

static const dt__case cases[] = {
    { "values",
      .in = { { { 3, 2 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } },
              { { 3 }, .given = true, .values = { 2, 0, 2 }, .dtype = DT_I64 } },
      .n_y = 6, .y = { 5, 6, 1, 2, 5, 6 } },
    { "rank 2", .in = { { { 5, 3 } }, { INDEX({ 4, 6 }) } } },
    { "one", .in = { { { 5, 3 } }, { INDEX({ 0 }), .r = DT__SCALAR } } },
    { "wide", .in = { { { 9, 300 } }, { { 200 }, .low = 0, .high = 9, .dtype = DT_I32 } },
      .rough = true },
    { "no index", .in = { { { 5, 3 } }, { { 0 }, 1, .dtype = DT_I32 } } },
    { "outside",
      .in = { { { 3, 2 } }, { { 2 }, .given = true, .values = { 1, -1 }, .dtype = DT_I32 } },
      .fails = DT_ERR_ARG, .says = "index[1] is -1, outside 0...2" },
    { "floats",
      .in = { { { 3, 2 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } },
              { { 3 }, .given = true, .values = { 2, 0, 2 } } },
      .n_y = 6, .y = { 5, 6, 1, 2, 5, 6 } },
    { "between rows", .in = { { { 3, 2 } }, { { 2 }, .given = true, .values = { 1, 0.5 } } },
      .fails = DT_ERR_ARG, .says = "index[1] is 0.5; expected a whole number in 0...2" },
    { "floats outside", .in = { { { 3, 2 } }, { { 2 }, .given = true, .values = { 3, 0 } } },
      .fails = DT_ERR_ARG, .says = "index[0] is 3; expected a whole number in 0...2" },
    { "rank", .in = { { { 3 } }, { INDEX({ 2 }) } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
};
DT__CASES(embedding, cases)
