/* Max pooling of images. */
#include "nn/lists/layer_cases.h"
#include "nn/convolution/pool_layers.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_max_pool2d(t, in[0], dt_module_state(m), NULL);
}

const dt_module_type dt__nn_max_pool2d = { .name = "max_pool2d", .forward = forward };

dt_status dt_max_pool2d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    return dt__pool_create(ctx, &dt__nn_max_pool2d, options, 2, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__POOL_KEYS("max_pool2d", DT_KEY_PAIR),
    { "dilation", DT_KEY_PAIR, DT__POOL_EXTENT(dilation, 0, "0", "distance of elements; 0: 1") },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_max_pool2d_create(ctx, &((const dt_pool_layer *)options)->pool, out);
}

DT__LAYER_TYPE(max_pool2d, "the largest value of each window", dt_pool_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt_pool_options strided = { .kernel = { 2, 2 }, .stride = { 2, 1 } },
                             flat = { .kernel = { 2, 0 } },
                             back = { .kernel = { 2, 2 }, .stride = { -1, 0 } };

static dt_status make(dt_ctx *ctx, dt_module **out) { return dt_max_pool2d_create(ctx, NULL, out); }

static dt_status make_strided(dt_ctx *ctx, dt_module **out)
{
    return dt_max_pool2d_create(ctx, &strided, out);
}

static dt_status make_flat(dt_ctx *ctx, dt_module **out)
{
    return dt_max_pool2d_create(ctx, &flat, out);
}

static dt_status make_back(dt_ctx *ctx, dt_module **out)
{
    return dt_max_pool2d_create(ctx, &back, out);
}

#define IMAGE                                                                                      \
    {                                                                                              \
        { 1, 1, 2, 3 }, .given = true, .values = { 1, 5, -2, 3, 4, 0 }                             \
    }

static const dt__layer_case cases[] = {
    { "the defaults", make, .in = { IMAGE }, .n_y = 1, .y = { 5 } },
    { "strides", make_strided, .in = { IMAGE }, .n_y = 2, .y = { 5, 5 } },
    { "several images", make_strided, .in = { { { 2, 3, 5, 4 } } } },
    { "no kernel", make_flat, .fails = DT_ERR_ARG, .says = "kernel is 0" },
    { "a stride below 0", make_back, .fails = DT_ERR_ARG, .says = "below 0" },
    { "no image", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "max_pool2d" },
};
DT__LAYER_CASES(max_pool2d, cases)
