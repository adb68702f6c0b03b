/* The means of bins that divide the lines of x [N, C, L], as PyTorch's AdaptiveAvgPool1d.
 *     y[.., i] = mean of x[.., floor(i L / length) ... ceil((i+1) L / length) - 1]
 *     dx = sum of dy / n over the bins that contain x, n the bin's number of elements */
#include "ops/ops_list.h"
#include "ops/pool/resize_ops.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt__resize_lower_line(t, in, given, out, dt_adaptive_avg_pool2d);
}

DT__RESIZE_OP(adaptive_avg_pool1d, "the means of bins that divide each line", 1d, adaptive_avg_pool,
              false, lower)

dt_tensor *dt_adaptive_avg_pool1d(dt_tape *t, dt_tensor *x, int64_t length)
{
    return apply(t, x, length, 0);
}

static const dt__case cases[] = {
    { "values", .in = { { { 1, 1, 5 }, .given = true, .values = { 1, 2, 3, 4, 8 } } },
      .options = DT__TO(3), .n_y = 3, .y = { 1.5, 3, 6 } },
    { "uneven", .in = { { { 2, 3, 23 } } }, .options = DT__TO(5) },
    { "upward", .in = { { { 2, 3, 3 } } }, .options = DT__TO(7) },
    { "long", .in = { { { 4, 8, 1033 } } }, .options = DT__TO(9), .rough = true },
    { "no signals", .in = { { { 0, 2, 4 } } }, .options = DT__TO(2) },
    { "no pixels", .in = { { { 2, 3, 0 }, 3 } }, .options = DT__TO(2), .fails = DT_ERR_SHAPE,
      .says = "no pixel" },
    { "no length", .in = { { { 1, 1, 2 } } }, .options = DT__TO(-1), .fails = DT_ERR_ARG,
      .says = "a length of -1" },
    { "rank", .in = { { { 2, 2 } } }, .options = DT__TO(4), .fails = DT_ERR_SHAPE,
      .says = "rank 2" },
    { "integers", .in = { { { 1, 1, 2 }, .dtype = DT_I32 } }, .options = DT__TO(1),
      .fails = DT_ERR_DTYPE },
};
DT__CASES(adaptive_avg_pool1d, cases)
