/* Sequential: its children one after the other, each fed with what the one before made. A linear layer
 * and the activation behind it run as one op. */
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    dt_tensor *x = in[0];
    for (int64_t i = 0; i < m->n_children; i++) {
        dt_module *part = m->children[i];
        const bool pair = i + 1 < m->n_children && dt__is_fused(t, part, m->children[i + 1]);
        dt_tensor *y =
            pair ? dt__forward_fused(t, part, m->children[++i], x) : dt_forward(t, part, x);
        if (x != in[0]) dt__drop_step(t, x, y);
        x = y;
    }
    out[0] = x;
}

const dt_module_type dt__nn_sequential = { .name = "sequential", .forward = forward };

dt_status dt_sequential_create(dt_ctx *ctx, dt_module **out)
{
    return dt_module_create(ctx, &dt__nn_sequential, 0, out);
}
