/* Batch norm over all dimensions but 1.      y = (x - mean) / sqrt(var + eps) * w + b      [Ioffe
 * and Szegedy 2015]. Training takes the batch's mean and biased variance and moves the running ones
 * by `momentum` (the variance unbiased); evaluation takes the running ones. */
#include "nn/module.h"

typedef struct batch_norm {
    double momentum, eps;
} batch_norm;

static dt_tensor *own(const dt_module *m, const char *name) { return dt__member_find(m, name)->x; }

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const batch_norm *s = dt_module_state(m);
    const dt_batch_norm_options options = { .training = dt_is_training(m),
                                            .momentum = s->momentum,
                                            .eps = s->eps };
    (void)n_in;
    (void)n_out;
    out[0] = dt_batch_norm1d(t, in[0], dt_module_weight(t, m), own(m, "bias"),
                             own(m, "running_mean"), own(m, "running_var"), &options);
}

const dt_module_type dt__nn_batch_norm1d = { .name = "batch_norm1d", .forward = forward };

static dt_status build(dt_module *m, int64_t channels)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 1, &channels, &x));
    DT__TRY(dt_fill(x, 1.0));
    DT__TRY(dt__new_param(m, "bias", 1, &channels, &x));
    DT__TRY(dt__new_buffer(m, "running_mean", 1, &channels, &x));
    DT__TRY(dt__new_buffer(m, "running_var", 1, &channels, &x));
    return dt_fill(x, 1.0);
}

dt_status dt_batch_norm1d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                 dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "batch_norm1d", "the number of channels", channels));
    DT__TRY(dt__want_share(ctx, "batch_norm1d", "momentum", momentum));
    DT__TRY(dt__want_share(ctx, "batch_norm1d", "eps", eps));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_batch_norm1d, sizeof(batch_norm), &m));
    *(batch_norm *)dt_module_state(m) = (batch_norm){ momentum, eps };
    return dt__layer_done(build(m, channels), m, out);
}
