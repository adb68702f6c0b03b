/* Group norm over groups of channels of each image.      y = (x - mean) / sqrt(var + eps) * w + b
 * [Wu and He 2018]; weight 1 and bias 0 of [channels]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

DT__LAYER_FORWARD(dt_group_norm(t, x, dt_module_weight(t, m), dt__entry_find(m, "bias")->x,
                                dt_module_state(m)))

const dt_module_type dt__nn_group_norm = { .name = "group_norm", .forward = forward };

dt_status dt_group_norm_create(dt_ctx *ctx, int64_t groups, int64_t channels, double eps,
                               dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "group_norm", "the number of groups", groups));
    DT__TRY(dt__want_extent(ctx, "group_norm", "the number of channels", channels));
    DT__TRY(dt__want_share(ctx, "group_norm", "eps", eps));
    if (channels % groups != 0) {
        return dt_fail(ctx, DT_ERR_ARG, "group_norm: %lld groups do not divide %lld channels",
                       (long long)groups, (long long)channels);
    }
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_group_norm, sizeof(dt_group_norm_options), &m));
    *(dt_group_norm_options *)dt_module_state(m) = (dt_group_norm_options){ groups, eps };
    return dt__layer_done(dt__new_scale_and_shift(m, channels), m, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("group_norm", dt_norm_layer),
    DT__LAYER_GROUPS(dt_norm_layer, norms),
    DT__LAYER_EPS(dt_norm_layer, norms),
    { 0 },
};

DT__LAYER_CREATE(dt_norm_layer, in->rank < 1 ? dt__want_example_rank(ctx, "group_norm", in, 1)
                                             : dt_group_norm_create(ctx, o->norms.groups,
                                                                    in->dims[0], o->norms.eps, out))

DT__LAYER_TYPE(group_norm, "group norm over groups of channels", dt_norm_layer, layer_keys, 1, 1,
               .create = layer_create);

DT__MAKE(make, dt_group_norm_create(ctx, 1, 2, 0.0, out))
DT__MAKE(make_two, dt_group_norm_create(ctx, 2, 6, 1e-5, out))
DT__MAKE(make_odd, dt_group_norm_create(ctx, 2, 3, 1e-5, out))
DT__MAKE(make_none, dt_group_norm_create(ctx, 0, 3, 1e-5, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 2, 1, 2 }, .given = true, .values = { 1, 3, 3, 1 } } },
      .state = "weight bias", .given = { { "weight", { 2, 3 } }, { "bias", { 1, -1 } } }, .n_y = 4,
      .y = { -1, 3, 2, -4 } },
    { "two groups", make_two, .in = { { { 2, 6, 3, 2 } } }, .state = "weight bias",
      .first = { { "weight", 1, 1 }, { "bias", 0, 0 } } },
    { "groups that do not divide", make_odd, .fails = DT_ERR_ARG,
      .says = "2 groups do not divide 3" },
    { "no groups", make_none, .fails = DT_ERR_ARG, .says = "group_norm: the number of groups" },
    { "other channels", make_two, .in = { { { 2, 5, 3, 2 } } }, .state = "weight bias",
      .fails = DT_ERR_SHAPE, .says = "group_norm" },
};
DT__LAYER_CASES(group_norm, cases)
