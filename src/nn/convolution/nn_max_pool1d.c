/* Max pooling of signals [N, C, L]. */
#include "nn/lists/layer_cases.h"
#include "nn/convolution/pool_layers.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_max_pool1d(t, in[0], dt_module_state(m), NULL);
}

const dt_module_type dt__nn_max_pool1d = { .name = "max_pool1d", .forward = forward };

dt_status dt_max_pool1d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    return dt__pool_create(ctx, &dt__nn_max_pool1d, options, 1, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__POOL_KEYS("max_pool1d", DT_KEY_INT),
    { "dilation", DT_KEY_INT, DT__POOL_EXTENT(dilation, 0, "0", "distance of elements; 0: 1") },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_max_pool1d_create(ctx, &((const dt_pool_layer *)options)->pool, out);
}

DT__LAYER_TYPE(max_pool1d, "the largest value of each window", dt_pool_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt_pool_options strided = { .kernel = { 2 }, .stride = { 1 } },
                             none = { .kernel = { 0, 2 } },
                             back = { .kernel = { 2 }, .padding = { -1 } };

static dt_status make(dt_ctx *ctx, dt_module **out) { return dt_max_pool1d_create(ctx, NULL, out); }

static dt_status make_strided(dt_ctx *ctx, dt_module **out)
{
    return dt_max_pool1d_create(ctx, &strided, out);
}

static dt_status make_none(dt_ctx *ctx, dt_module **out)
{
    return dt_max_pool1d_create(ctx, &none, out);
}

static dt_status make_back(dt_ctx *ctx, dt_module **out)
{
    return dt_max_pool1d_create(ctx, &back, out);
}

#define SIGNAL                                                                                     \
    {                                                                                              \
        { 1, 1, 5 }, .given = true, .values = { 1, 5, -2, 4, 3 }                                   \
    }

static const dt__layer_case cases[] = {
    { "the defaults", make, .in = { SIGNAL }, .n_y = 2, .y = { 5, 4 } },
    { "strides", make_strided, .in = { SIGNAL }, .n_y = 4, .y = { 5, 5, 4, 4 } },
    { "several signals", make_strided, .in = { { { 2, 3, 7 } } } },
    { "no kernel", make_none, .fails = DT_ERR_ARG, .says = "kernel is 0" },
    { "padding below 0", make_back, .fails = DT_ERR_ARG, .says = "below 0" },
    { "no signal", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "max_pool1d" },
};
DT__LAYER_CASES(max_pool1d, cases)
