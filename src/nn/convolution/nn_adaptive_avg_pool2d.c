/* Adaptive average pooling of images: [N, C, H, W] to [N, C, height, width]. */
#include "nn/convolution/pool_layers.h"

DT__ADAPTIVE_POOL_LAYER(adaptive_avg_pool2d, 2, dt_adaptive_avg_pool2d(t, x, size[0], size[1]),
                        "means of bins that divide each signal or image", DT_KEY_PAIR, 1 << 16,
                        "height and width")

dt_status dt_adaptive_avg_pool2d_create(dt_ctx *ctx, int64_t height, int64_t width, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__adaptive_create(ctx, &dt__nn_adaptive_avg_pool2d, 2,
                               (const int64_t[]){ height, width }, out);
}

DT__MAKE(make, dt_adaptive_avg_pool2d_create(ctx, 1, 2, out))
DT__MAKE(make_flat, dt_adaptive_avg_pool2d_create(ctx, 2, 0, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 1, 2, 3 }, .given = true, .values = { 1, 5, -2, 3, 4, 0 } } },
      .n_y = 2, .y = { 3.25, 1.75 } },
    { "several images", make, .in = { { { 2, 3, 5, 4 } } } },
    { "no width", make_flat, .fails = DT_ERR_ARG, .says = "adaptive_avg_pool2d: the width" },
    { "no image", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "adaptive_avg_pool2d" },
};
DT__LAYER_CASES(adaptive_avg_pool2d, cases)
