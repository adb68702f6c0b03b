/* Root mean square norm over the last dimension.      y = x / sqrt(mean(x^2) + eps) * w
 * [Zhang and Sennrich 2019]; weight 1 of [width]. Gemma's multiplies by 1 + w, and w begins with
 * 0. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/layers/scalar.h"
#include "nn/blocks/transformer.h"

typedef struct rms_norm {
    double eps;
    bool plus_one;
} rms_norm;

DT__FORWARD(forward)
{
    const rms_norm *s = dt_module_state(m);
    dt_tensor *weight = dt_module_weight(t, m);
    if (s->plus_one) weight = dt__plus(t, weight, 1.0);
    return dt_rms_norm(t, x, weight, s->eps);
}

const dt_module_type dt__nn_rms_norm = { .name = "rms_norm", .forward = forward };

static dt_status build(dt_module *m, int64_t width)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 1, &width, &x));
    return dt_fill(x, ((const rms_norm *)dt_module_state(m))->plus_one ? 0.0 : 1.0);
}

static dt_status create(dt_ctx *ctx, int64_t width, const rms_norm *state, dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "rms_norm", "the width", width));
    DT__TRY(dt__want_share(ctx, "rms_norm", "eps", state->eps));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_rms_norm, sizeof(rms_norm), &m));
    *(rms_norm *)dt_module_state(m) = *state;
    return dt__layer_done(build(m, width), m, out);
}

dt_status dt_rms_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return create(ctx, width, &(rms_norm){ .eps = eps }, out);
}

dt_status dt__rms_norm_create_plus_one(dt_ctx *ctx, int64_t width, double eps, dt_module **out)
{
    return create(ctx, width, &(rms_norm){ .eps = eps, .plus_one = true }, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("rms_norm", dt_norm_layer),
    DT__LAYER_EPS(dt_norm_layer, norms),
    { 0 },
};

DT__LAYER_CREATE(dt_norm_layer,
                 in->rank < 1 ? dt__want_example_rank(ctx, "rms_norm", in, 1)
                              : dt_rms_norm_create(ctx, in->dims[in->rank - 1], o->norms.eps, out))

DT__LAYER_TYPE(rms_norm, "root mean square norm over the last dimension", dt_norm_layer, layer_keys,
               1, 1, .create = layer_create);

DT__MAKE(make, dt_rms_norm_create(ctx, 2, 0.0, out))
DT__MAKE(make_wide, dt_rms_norm_create(ctx, 33, 1e-5, out))
DT__MAKE(make_plus_one, dt__rms_norm_create_plus_one(ctx, 2, 0.0, out))
DT__MAKE(make_none, dt_rms_norm_create(ctx, 0, 1e-5, out))
DT__MAKE(make_negative, dt_rms_norm_create(ctx, 3, -1e-5, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 2, 2 }, .given = true, .values = { 5, -5, 2, 2 } } },
      .state = "weight", .given = { { "weight", { 2, 3 } } }, .n_y = 4, .y = { 2, -3, 2, 3 } },
    { "a batch", make_wide, .in = { { { 2, 3, 33 } } }, .state = "weight",
      .first = { { "weight", 1, 1 } } },
    { "by 1 + weight", make_plus_one,
      .in = { { { 2, 2 }, .given = true, .values = { 5, -5, 2, 2 } } }, .state = "weight",
      .given = { { "weight", { 1, 2 } } }, .first = { { "weight", 0, 0 } }, .n_y = 4,
      .y = { 2, -3, 2, 3 } },
    { "no width", make_none, .fails = DT_ERR_ARG, .says = "rms_norm: the width" },
    { "eps below 0", make_negative, .fails = DT_ERR_ARG, .says = "rms_norm: eps" },
    { "another width", make, .in = { { { 2, 3 } } }, .state = "weight", .fails = DT_ERR_SHAPE,
      .says = "rms_norm" },
};
DT__LAYER_CASES(rms_norm, cases)
