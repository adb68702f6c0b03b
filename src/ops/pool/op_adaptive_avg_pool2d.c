/* The means of bins that divide the planes of x [N, C, H, W], as PyTorch's AdaptiveAvgPool2d.
 *     y[.., i, j] = mean of x over rows floor(i H / height) ... ceil((i+1) H / height) - 1, and
 *         columns likewise
 *     dx = sum of dy / n over the bins that contain x, n the bin's number of pixels */
#include "ops/ops_list.h"
#include "ops/pool/resize_ops.h"

DT__RESIZE_OP(adaptive_avg_pool2d, "the means of bins that divide each plane", 2d,
              adaptive_avg_pool, false, NULL)

dt_tensor *dt_adaptive_avg_pool2d(dt_tape *t, dt_tensor *x, int64_t height, int64_t width)
{
    return apply(t, x, height, width);
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 3, 3 }, .given = true, .values = { 1, 2, 3, 4, 5, 6, 7, 8, 9 } } },
      .options = DT__TO(2, 2), .n_y = 4, .y = { 3, 4, 6, 7 } },
    { "one bin", .in = { { { 1, 2, 2, 2 }, .given = true, .values = { 1, 2, 3, 6, -1, 0, 0, 2 } } },
      .options = DT__TO(1, 1), .n_y = 2, .y = { 3, 0.25 } },
    { "upward", .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 3 } } },
      .options = DT__TO(2, 3), .n_y = 6, .y = { 1, 2, 3, 1, 2, 3 } },
    { "uneven", .in = { { { 2, 3, 7, 11 } } }, .options = DT__TO(3, 4) },
    { "wide bins", .in = { { { 2, 2, 3, 41 } } }, .options = DT__TO(2, 2) },
    { "threads", .in = { { { 4, 8, 33, 31 } } }, .options = DT__TO(7, 7), .rough = true },
    { "no images", .in = { { { 0, 2, 4, 4 } } }, .options = DT__TO(2, 2) },
    { "no pixels", .in = { { { 2, 3, 0, 4 } } }, .options = DT__TO(2, 2), .fails = DT_ERR_SHAPE,
      .says = "no pixel" },
    { "no size", .in = { { { 1, 1, 2, 2 } } }, .options = DT__TO(0, 2), .fails = DT_ERR_ARG,
      .says = "a size of 0 x 2" },
    { "rank", .in = { { { 2, 2, 2 } } }, .options = DT__TO(4, 4), .fails = DT_ERR_SHAPE,
      .says = "rank 3" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .options = DT__TO(1, 1),
      .fails = DT_ERR_DTYPE },
};
DT__CASES(adaptive_avg_pool2d, cases)
