/* Linear layer.      y = x W^T + b      weight [out, in], bias [out], both drawn uniform in
 * +-1/sqrt(in), as PyTorch's are [He et al. 2015 with a = sqrt(5)]. */
#include "nn/module.h"

#include <math.h>

static dt_tensor *product(dt_tape *t, dt_module *m, dt_tensor *x, int activation)
{
    const dt__entry *bias = dt__entry_find(m, "bias");
    return dt_linear_act(t, x, dt_module_weight(t, m), bias == NULL ? NULL : bias->x,
                         &(dt_linear_after){ .activation = activation });
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = product(t, m, in[0], DT_ACT_NONE);
}

dt_tensor *dt__linear_forward(dt_tape *t, dt_module *m, dt_tensor *x, int activation)
{
    const char *before;
    if (t->status != DT_OK || x == NULL || dt__module_enter(t, m, &before) != DT_OK) return NULL;
    dt_tensor *y = product(t, m, dt__run_hooks(t, m, DT_SITE_INPUT, x), activation);
    dt__module_leave(t, m, before, &y, 1);
    return y;
}

const dt_module_type dt__nn_linear = {
    .name = "linear",
    .forward = forward,
    .quantizable = DT_QUANTIZED_BY_PRESET,
};

static dt_status build(dt_module *m, int64_t in, int64_t out_features, bool bias)
{
    const double bound = 1.0 / sqrt((double)in);
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2, (const int64_t[]){ out_features, in }, &x));
    DT__TRY(dt__draw_uniform(x, DT__FOR_INIT, -bound, bound));
    if (!bias) return DT_OK;
    DT__TRY(dt__new_param(m, "bias", 1, &out_features, &x));
    return dt__draw_uniform(x, DT__FOR_INIT, -bound, bound);
}

dt_status dt_linear_create(dt_ctx *ctx, int64_t in, int64_t out_features, bool bias,
                           dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "linear", "the number of inputs", in));
    DT__TRY(dt__want_extent(ctx, "linear", "the number of outputs", out_features));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_linear, 0, &m));
    return dt__layer_done(build(m, in, out_features, bias), m, out);
}
