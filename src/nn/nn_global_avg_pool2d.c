/* The mean of each plane of images: [N, C, H, W] to [N, C, 1, 1]. */
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_global_avg_pool2d(t, in[0]);
}

const dt_module_type dt__nn_global_avg_pool2d = { .name = "global_avg_pool2d", .forward = forward };

dt_status dt_global_avg_pool2d_create(dt_ctx *ctx, dt_module **out)
{
    return dt_module_create(ctx, &dt__nn_global_avg_pool2d, 0, out);
}
