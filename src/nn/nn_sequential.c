/* Sequential: its children one after the other, each fed with what the one before made. */
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    dt_tensor *x = in[0];
    for (int64_t i = 0, taken; i < m->n_children; i += taken) {
        const int64_t n = i + 1 < m->n_children ? 2 : 1; /* an op takes no more */
        const dt_link link[2] = { { m->children[i], NULL },
                                  { n > 1 ? m->children[i + 1] : NULL, NULL } };
        dt_tensor *y = dt__forward_links(t, link, n, x, &taken);
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
