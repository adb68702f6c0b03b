/* Adaptive average pooling of images: [N, C, H, W] to [N, C, height, width]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct adaptive_pool {
    int64_t height, width;
} adaptive_pool;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const adaptive_pool *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = dt_adaptive_avg_pool2d(t, in[0], s->height, s->width);
}

const dt_module_type dt__nn_adaptive_avg_pool2d = {
    .name = "adaptive_avg_pool2d",
    .forward = forward,
};

dt_status dt_adaptive_avg_pool2d_create(dt_ctx *ctx, int64_t height, int64_t width, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "adaptive_avg_pool2d", "the height", height));
    DT__TRY(dt__want_extent(ctx, "adaptive_avg_pool2d", "the width", width));
    DT__TRY(dt_module_create(ctx, &dt__nn_adaptive_avg_pool2d, sizeof(adaptive_pool), out));
    *(adaptive_pool *)dt_module_state(*out) = (adaptive_pool){ height, width };
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("adaptive_avg_pool2d", dt_size_layer),
    { "size", DT_KEY_PAIR, offsetof(dt_size_layer, size), .least = 1, .most = 1 << 16,
      .fallback = "!", .text = "height and width of the result" },
    { 0 },
};

DT__LAYER_CREATE(dt_size_layer, dt_adaptive_avg_pool2d_create(ctx, o->size[0], o->size[1], out))

DT__LAYER_TYPE(adaptive_avg_pool2d, "means of bins that divide each image", dt_size_layer,
               layer_keys, 1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

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
