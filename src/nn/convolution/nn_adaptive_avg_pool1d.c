/* Adaptive average pooling of signals: [N, C, L] to [N, C, length]. */
#include "nn/convolution/pool_layers.h"

DT__ADAPTIVE_POOL_LAYER(adaptive_avg_pool1d, 1, dt_adaptive_avg_pool1d(t, x, size[0]),
                        "means of bins that divide each signal or image", DT_KEY_INT, 1 << 24,
                        "length")

dt_status dt_adaptive_avg_pool1d_create(dt_ctx *ctx, int64_t length, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__adaptive_create(ctx, &dt__nn_adaptive_avg_pool1d, 1, (const int64_t[]){ length },
                               out);
}

DT__MAKE(make, dt_adaptive_avg_pool1d_create(ctx, 2, out))
DT__MAKE(make_none, dt_adaptive_avg_pool1d_create(ctx, 0, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 1, 3 }, .given = true, .values = { 1, 5, -2 } } }, .n_y = 2,
      .y = { 3, 1.5 } },
    { "several signals", make, .in = { { { 2, 3, 7 } } } },
    { "no length", make_none, .fails = DT_ERR_ARG, .says = "adaptive_avg_pool1d: the length" },
    { "no signal", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "adaptive_avg_pool1d" },
};
DT__LAYER_CASES(adaptive_avg_pool1d, cases)
