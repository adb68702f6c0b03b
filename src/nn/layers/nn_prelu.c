/* Relu with a learned slope below 0 [He et al. 2015].      y = x > 0 ? x : weight[c] x
 * weight [channels], or [1] for all channels. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

#include <math.h>

DT__LAYER_FORWARD(dt_prelu(t, x, dt_module_weight(t, m)))

const dt_module_type dt__nn_prelu = { .name = "prelu", .forward = forward };

static dt_status build(dt_module *m, int64_t channels, double init)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 1, &channels, &x));
    return dt_fill(x, init);
}

dt_status dt_prelu_create(dt_ctx *ctx, int64_t channels, double init, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "prelu", "the number of channels", channels));
    if (!isfinite(init)) {
        return dt_fail(ctx, DT_ERR_ARG, "prelu: init is %g; it must be finite", init);
    }
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_prelu, 0, &m));
    return dt__layer_done(build(m, channels, init), m, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("prelu", dt_prelu_layer),
    { "shared", DT_KEY_BOOL, offsetof(dt_prelu_layer, shared), .fallback = "false",
      .text = "all channels have one slope" },
    { "init", DT_KEY_REAL, offsetof(dt_prelu_layer, init), .least = -1e6, .most = 1e6,
      .fallback = "0.25", .text = "the slopes before training" },
    { 0 },
};

DT__LAYER_CREATE(dt_prelu_layer,
                 dt_prelu_create(ctx, o->shared || in->rank < 1 ? 1 : in->dims[0], o->init, out))

DT__LAYER_TYPE(prelu, "relu with a learned slope below 0 for each channel", dt_prelu_layer,
               layer_keys, 1, 1, .create = layer_create);

DT__MAKE(make, dt_prelu_create(ctx, 3, 0.25, out))
DT__MAKE(make_one, dt_prelu_create(ctx, 1, 0.5, out))
DT__MAKE(make_none, dt_prelu_create(ctx, 0, 1, out))
DT__MAKE(make_infinite, dt_prelu_create(ctx, 3, INFINITY, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 3, 2 }, .given = true, .values = { 1, -2, -4, 3, -1, -3 } } },
      .state = "weight", .given = { { "weight", { 0.25, 0.5, -1 } } }, .n_y = 6,
      .y = { 1, -0.5, -2, 3, 1, 3 } },
    { "several images", make, .in = { { { 2, 3, 4, 5 } } }, .state = "weight",
      .first = { { "weight", 0.25, 0.25 } } },
    { "one slope", make_one, .in = { { { 2, 3, 4 } } }, .state = "weight",
      .first = { { "weight", 0.5, 0.5 } } },
    { "no channels", make_none, .fails = DT_ERR_ARG, .says = "prelu: the number of channels" },
    { "no number", make_infinite, .fails = DT_ERR_ARG, .says = "prelu: init is inf" },
    { "other channels", make, .in = { { { 2, 4, 5 } } }, .state = "weight", .fails = DT_ERR_SHAPE,
      .says = "prelu" },
};
DT__LAYER_CASES(prelu, cases)
