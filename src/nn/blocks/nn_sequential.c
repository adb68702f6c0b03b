/* Sequential: runs its children one after the other, each on the output of the one before. */
#include "nn/lists/layer_type.h"
#include "nn/convolution/batch_norm_layers.h"
#include "nn/convolution/conv_layers.h"
#include "nn/fold.h"
#include "nn/lists/layer_cases.h"
#include "nn/module.h"

DT__FORWARD(forward)
{
    dt_tensor *const first = x;
    for (int64_t i = 0, taken; i < m->n_children; i += taken) {
        const int64_t n = i + 1 < m->n_children ? 2 : 1; /* an op fuses at most two modules */
        const dt_link link[2] = { { m->children[i], NULL },
                                  { n > 1 ? m->children[i + 1] : NULL, NULL } };
        dt_tensor *y = dt__forward_links(t, link, n, x, &taken);
        if (x != first) dt__drop_step(t, x, y);
        x = y;
    }
    return x;
}

const dt_module_type dt__nn_sequential = { .name = "sequential", .forward = forward };

void dt__sequential_added(dt_module *m)
{
    if (m->n_children < 2) return;
    dt_module *const *last = &m->children[m->n_children - 1];
    if (dt__is_batch_norm(last[0]) && dt__takes_norm(last[-1])) {
        dt__set_norm(last[-1], last[0]);
    }
}

dt_status dt_sequential_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt_module_create(ctx, &dt__nn_sequential, 0, out);
}

/* Two linear layers; the tanh between them is fused with the first. */
static dt_status make(dt_ctx *ctx, dt_module **out)
{
    static const char *const names[] = { "0", "1", "2" };
    dt_module *m, *part;
    dt_status s = dt_sequential_create(ctx, &m);
    for (int i = 0; i < 3 && s == DT_OK; i++) {
        s = i == 1 ? dt_activation_create(ctx, "tanh", &part)
                   : dt_linear_create(ctx, 9, 9, i == 0, &part);
        if (s == DT_OK) s = dt_module_add(m, names[i], part);
    }
    if (s != DT_OK) dt_module_free(m);
    *out = s == DT_OK ? m : NULL;
    return s;
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *x = dt_linear(t, in[0], dt_param(m, "0.weight"), dt_param(m, "0.bias"));
    return dt_linear(t, dt_tanh(t, x), dt_param(m, "2.weight"), NULL);
}

static const dt__layer_case cases[] = {
    { "empty", dt_sequential_create, .in = { { { 2 }, .given = true, .values = { 3, 4 } } },
      .n_y = 2, .y = { 3, 4 } },
    { "two layers", make, .in = { { { 4, 9 } } }, .state = "0.weight 0.bias 2.weight",
      .plain = plain },
    { "another width", make, .in = { { { 4, 8 } } }, .state = "0.weight 0.bias 2.weight",
      .fails = DT_ERR_SHAPE, .says = "linear" },
};
DT__LAYER_CASES(sequential, cases)
