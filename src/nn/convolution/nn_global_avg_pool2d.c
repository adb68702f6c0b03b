/* Global average pooling of images: [N, C, H, W] to [N, C, 1, 1]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

DT__LAYER_FORWARD(dt_global_avg_pool2d(t, x))

const dt_module_type dt__nn_global_avg_pool2d = { .name = "global_avg_pool2d", .forward = forward };

dt_status dt_global_avg_pool2d_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt_module_create(ctx, &dt__nn_global_avg_pool2d, 0, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("global_avg_pool2d", dt_plain_layer),
    { 0 },
};

DT__LAYER_CREATE(dt_plain_layer, dt_global_avg_pool2d_create(ctx, out))

DT__LAYER_TYPE(global_avg_pool2d, "mean of each channel: [channels, 1, 1]", dt_plain_layer,
               layer_keys, 1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt__layer_case cases[] = {
    { "values", dt_global_avg_pool2d_create,
      .in = { { { 1, 2, 2, 2 }, .given = true, .values = { 1, 2, 3, 6, -1, 0, 0, 2 } } }, .n_y = 2,
      .y = { 3, 0.25 } },
    { "several images", dt_global_avg_pool2d_create, .in = { { { 2, 3, 4, 5 } } } },
    { "no image", dt_global_avg_pool2d_create, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "global_avg_pool2d" },
};
DT__LAYER_CASES(global_avg_pool2d, cases)
