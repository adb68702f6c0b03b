/* Softmax along one dimension.      y = exp(x - max) / sum of exp(x - max)
 *     dx = y (dy - sum of y dy)      If all elements are -inf, y is 0. */
#include "ops/ops_list.h"
#include "ops/softmax.h"

#include <math.h>

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const int64_t dim = ((const dt__dim_options *)given)->dim;
    if (in[0]->count == 0) return;
    dt_tensor *most = dt_max(t, in[0], dim, true, NULL);
    most = dt_clamp(t, most, -3e38, INFINITY); /* instead of -inf, if all elements are -inf */
    dt_tensor *e = dt_exp(t, dt_sub(t, in[0], most));
    dt_tensor *all = dt_sum(t, e, &(dt_reduce_options){ { 1, { dim } }, true });
    /* 0 / 1e-30 if all elements are -inf; otherwise `all` is at least 1 */
    out[0] = dt_div(t, e, dt_clamp(t, all, 1e-30, INFINITY));
}

DT__ALONG_OP(softmax, "y = exp(x - max) / sum of exp(x - max) along `dim`")

#define ALONG(dim) DT__WITH(dt__dim_options, dim)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 1000, -INFINITY } } },
      .n_y = 4, .y = { 0.2689414213699951, 0.7310585786300049, 1, 0 }, .rough = true },
    { "-inf alone", .in = { { { 2 }, .given = true, .values = { -INFINITY, -INFINITY } } },
      .n_y = 2, .y = { 0, 0 }, .rough = true },
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
DT__CASES(softmax, cases)
