/* Root mean square norm over the last dimension.      y = x / sqrt(mean(x^2) + eps) * w      [Zhang and
 * Sennrich 2019]; weight 1 of [width]. */
#include "nn/module.h"

typedef struct rms_norm {
    double eps;
} rms_norm;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const rms_norm *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = dt_rms_norm(t, in[0], dt_module_weight(t, m), s->eps);
}

const dt_module_type dt__nn_rms_norm = { .name = "rms_norm", .forward = forward };

static dt_status build(dt_module *m, int64_t width)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 1, &width, &x));
    return dt_fill(x, 1.0);
}

dt_status dt_rms_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "rms_norm", "the width", width));
    DT__TRY(dt__want_share(ctx, "rms_norm", "eps", eps));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_rms_norm, sizeof(rms_norm), &m));
    ((rms_norm *)dt_module_state(m))->eps = eps;
    return dt__layer_done(build(m, width), m, out);
}
