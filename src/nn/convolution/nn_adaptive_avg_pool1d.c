/* Adaptive average pooling of signals: [N, C, L] to [N, C, length]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct adaptive_pool {
    int64_t length;
} adaptive_pool;

DT__LAYER_FORWARD(dt_adaptive_avg_pool1d(t, x, ((const adaptive_pool *)dt_module_state(m))->length))

const dt_module_type dt__nn_adaptive_avg_pool1d = {
    .name = "adaptive_avg_pool1d",
    .forward = forward,
};

dt_status dt_adaptive_avg_pool1d_create(dt_ctx *ctx, int64_t length, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
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

DT__LAYER_CREATE(dt_size_layer, dt_adaptive_avg_pool1d_create(ctx, o->size[0], out))

DT__LAYER_TYPE(adaptive_avg_pool1d, "means of bins that divide each signal", dt_size_layer,
               layer_keys, 1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

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
