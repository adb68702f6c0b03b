/* Nearest-neighbour resampling of the planes of x [N, C, H, W] to another size.
 *     y[.., i, j] = x[.., floor(i H / height), floor(j W / width)]
 *     dx = sum of dy over the pixels that copy x */
#include "ops/ops_list.h"
#include "ops/pool/resize_ops.h"

DT__RESIZE_OP(upsample_nearest, "planes resampled to another size by nearest neighbour", 2d,
              upsample, true, NULL)

dt_tensor *dt_upsample_nearest(dt_tape *t, dt_tensor *x, int64_t height, int64_t width)
{
    return apply(t, x, height, width);
}

static const dt__case cases[] = {
    { "values", .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } } },
      .options = DT__TO(2, 4), .n_y = 8, .y = { 1, 1, 2, 2, 1, 1, 2, 2 } },
    { "twice", .in = { { { 2, 3, 3, 4 } } }, .options = DT__TO(6, 8) },
    { "uneven", .in = { { { 1, 2, 3, 5 } } }, .options = DT__TO(5, 11) },
    { "downward", .in = { { { 1, 2, 6, 7 } } }, .options = DT__TO(4, 3) },
    { "one pixel", .in = { { { 2, 2, 4, 5 } } }, .options = DT__TO(1, 1) },
    { "threads", .in = { { { 4, 8, 17, 15 } } }, .options = DT__TO(34, 30), .rough = true },
    { "no images", .in = { { { 0, 2, 4, 4 } } }, .options = DT__TO(8, 8) },
    { "no pixels", .in = { { { 2, 3, 0, 4 } } }, .options = DT__TO(2, 2), .fails = DT_ERR_SHAPE,
      .says = "no pixel" },
    { "no size", .in = { { { 1, 1, 2, 2 } } }, .options = DT__TO(0, 2), .fails = DT_ERR_ARG,
      .says = "a size of 0 x 2" },
    { "overflow", .in = { { { 1, 1, 2, 2 } } }, .options = DT__TO(2, INT64_MAX),
      .fails = DT_ERR_ARG, .says = "a size of 2 x 9223372036854775807" },
    { "rank", .in = { { { 2, 2, 2 } } }, .options = DT__TO(4, 4), .fails = DT_ERR_SHAPE,
      .says = "rank 3" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .options = DT__TO(4, 4),
      .fails = DT_ERR_DTYPE },
};
DT__CASES(upsample_nearest, cases)
