/* The mean of each window of images. */
#include "nn/pool_layers.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_avg_pool2d(t, in[0], dt_module_state(m));
}

const dt_module_type dt__nn_avg_pool2d = { .name = "avg_pool2d", .forward = forward };

dt_status dt_avg_pool2d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out)
{
    return dt__pool_create(ctx, &dt__nn_avg_pool2d, options, out);
}
