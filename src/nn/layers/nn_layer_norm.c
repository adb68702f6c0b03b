/* Layer norm over the last dimension.      y = (x - mean) / sqrt(var + eps) * w + b      [Ba et al.
 * 2016]; weight 1 and bias 0 of [width]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct layer_norm {
    double eps;
} layer_norm;

DT__FORWARD(forward)
{
    const layer_norm *s = dt_module_state(m);
    dt_layer_norm_options options = dt_layer_norm_defaults();
    options.eps = s->eps;
    return dt_layer_norm(t, x, dt_module_weight(t, m), dt__entry_find(m, "bias")->x, &options);
}

const dt_module_type dt__nn_layer_norm = { .name = "layer_norm", .forward = forward };

dt_status dt_layer_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "layer_norm", "the width", width));
    DT__TRY(dt__want_share(ctx, "layer_norm", "eps", eps));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_layer_norm, sizeof(layer_norm), &m));
    ((layer_norm *)dt_module_state(m))->eps = eps;
    return dt__layer_done(dt__new_scale_and_shift(m, width), m, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("layer_norm", dt_norm_layer),
    DT__LAYER_EPS(dt_norm_layer, norms),
    { 0 },
};

DT__LAYER_CREATE(dt_norm_layer, in->rank < 1 ? dt__want_example_rank(ctx, "layer_norm", in, 1)
                                             : dt_layer_norm_create(ctx, in->dims[in->rank - 1],
                                                                    o->norms.eps, out))

DT__LAYER_TYPE(layer_norm, "layer norm over the last dimension", dt_norm_layer, layer_keys, 1, 1,
               .create = layer_create);

DT__MAKE(make, dt_layer_norm_create(ctx, 2, 0.0, out))
DT__MAKE(make_wide, dt_layer_norm_create(ctx, 33, 1e-5, out))
DT__MAKE(make_none, dt_layer_norm_create(ctx, 0, 1e-5, out))
DT__MAKE(make_negative, dt_layer_norm_create(ctx, 3, -1e-5, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 2, 2 }, .given = true, .values = { 3, 5, 7, 3 } } },
      .state = "weight bias", .given = { { "weight", { 2, 3 } }, { "bias", { 1, -1 } } }, .n_y = 4,
      .y = { -1, 2, 3, -4 } },
    { "a batch", make_wide, .in = { { { 2, 3, 33 } } }, .state = "weight bias",
      .first = { { "weight", 1, 1 }, { "bias", 0, 0 } } },
    { "no width", make_none, .fails = DT_ERR_ARG, .says = "layer_norm: the width" },
    { "eps below 0", make_negative, .fails = DT_ERR_ARG, .says = "layer_norm: eps" },
    { "another width", make, .in = { { { 2, 3 } } }, .state = "weight bias", .fails = DT_ERR_SHAPE,
      .says = "layer_norm" },
};
DT__LAYER_CASES(layer_norm, cases)
