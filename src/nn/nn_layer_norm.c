/* Layer norm over the last dimension.      y = (x - mean) / sqrt(var + eps) * w + b      [Ba et al.
 * 2016]; weight 1 and bias 0 of [width]. */
#include "nn/module.h"

typedef struct layer_norm {
    double eps;
} layer_norm;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const layer_norm *s = dt_module_state(m);
    dt_layer_norm_options options = dt_layer_norm_defaults();
    options.eps = s->eps;
    (void)n_in;
    (void)n_out;
    out[0] =
        dt_layer_norm(t, in[0], dt_module_weight(t, m), dt__entry_find(m, "bias")->x, &options);
}

const dt_module_type dt__nn_layer_norm = { .name = "layer_norm", .forward = forward };

static dt_status build(dt_module *m, int64_t width)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 1, &width, &x));
    DT__TRY(dt_fill(x, 1.0));
    return dt__new_param(m, "bias", 1, &width, &x);
}

dt_status dt_layer_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "layer_norm", "the width", width));
    DT__TRY(dt__want_share(ctx, "layer_norm", "eps", eps));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_layer_norm, sizeof(layer_norm), &m));
    ((layer_norm *)dt_module_state(m))->eps = eps;
    return dt__layer_done(build(m, width), m, out);
}
