/* The logarithm of softmax along one dimension.      y = x - max - log(sum of exp(x - max))
 *     dx = dy - exp(y) (sum of dy) */
#include "ops/ops_list.h"
#include "ops/softmax.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const int64_t dim = ((const dt__dim_options *)given)->dim;
    if (in[0]->count == 0) return;
    dt_tensor *x = dt_sub(t, in[0], dt_max(t, in[0], dim, true, NULL));
    dt_tensor *all = dt_sum(t, dt_exp(t, x), &(dt_reduce_options){ { 1, { dim } }, true });
    out[0] = dt_sub(t, x, dt_log(t, all));
}

DT__ALONG_OP(log_softmax, "y = x - max - log(sum of exp(x - max)) along `dim`")

#define ALONG(dim) DT__WITH(dt__dim_options, dim)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 1000, 0 } } }, .n_y = 4,
      .y = { -1.3132616875182228, -0.31326168751822286, 0, -1000 } },
    { "last", .in = { { { 3, 21 } } } },
    { "in between", .in = { { { 2, 5, 3 } } }, .options = ALONG(1) },
    { "first", .in = { { { 4, 3 } } }, .options = ALONG(-2) },
    { "long", .in = { { { 40, 700 } } }, .rough = true },
    { "no lines", .in = { { { 0, 3 } } } },
    { "empty lines", .in = { { { 3, 0 }, 2 } } },
    { "no such dimension", .in = { { { 3, 2 } } }, .options = ALONG(2), .fails = DT_ERR_ARG,
      .says = "dimension 2" },
    { "a scalar", .in = { { .r = DT__SCALAR } }, .fails = DT_ERR_ARG, .says = "dimension -1" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(log_softmax, cases)
