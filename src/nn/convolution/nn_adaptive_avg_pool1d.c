/* Adaptive average pooling of signals: [N, C, L] to [N, C, length]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct adaptive_pool {
    int64_t length;
} adaptive_pool;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const adaptive_pool *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = dt_adaptive_avg_pool1d(t, in[0], s->length);
}

const dt_module_type dt__nn_adaptive_avg_pool1d = {
    .name = "adaptive_avg_pool1d",
    .forward = forward,
};

dt_status dt_adaptive_avg_pool1d_create(dt_ctx *ctx, int64_t length, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "adaptive_avg_pool1d", "the length", length));
    DT__TRY(dt_module_create(ctx, &dt__nn_adaptive_avg_pool1d, sizeof(adaptive_pool), out));
    *(adaptive_pool *)dt_module_state(*out) = (adaptive_pool){ length };
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("adaptive_avg_pool1d", dt_size_layer),
    { "size", DT_KEY_INT, offsetof(dt_size_layer, size), .least = 1, .most = 1 << 24,
      .fallback = "!", .text = "length of the result" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_size_layer *o = options;
    (void)in;
    (void)n_in;
    return dt_adaptive_avg_pool1d_create(ctx, o->size[0], out);
}

DT__LAYER_TYPE(adaptive_avg_pool1d, "means of bins that divide each signal", dt_size_layer,
               layer_keys, 1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_adaptive_avg_pool1d_create(ctx, 2, out);
}

static dt_status make_none(dt_ctx *ctx, dt_module **out)
{
    return dt_adaptive_avg_pool1d_create(ctx, 0, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 1, 3 }, .given = true, .values = { 1, 5, -2 } } }, .n_y = 2,
      .y = { 3, 1.5 } },
    { "several signals", make, .in = { { { 2, 3, 7 } } } },
    { "no length", make_none, .fails = DT_ERR_ARG, .says = "adaptive_avg_pool1d: the length" },
    { "no signal", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "adaptive_avg_pool1d" },
};
DT__LAYER_CASES(adaptive_avg_pool1d, cases)
