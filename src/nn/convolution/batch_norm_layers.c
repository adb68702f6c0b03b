/* The common part of the layers batch_norm1d and batch_norm2d.
 *     y = (x - mean) / sqrt(var + eps) * w + b
 *         over all dimensions but 1 [Ioffe and Szegedy 2015]
 * Training uses the batch's mean and biased variance and updates the running ones by `momentum`
 * (the variance unbiased); evaluation uses the running ones. */
#include "nn/convolution/batch_norm_layers.h"
#include "nn/fold.h"

static dt_tensor *own(const dt_module *m, const char *name) { return dt__entry_find(m, name)->x; }

/* y = activation(x + residual), for a norm that is folded into the convolution before it. */
static dt_tensor *without_norm(dt_tape *t, dt_tensor *x, const dt_epilogue *e)
{
    if (e->residual != NULL) x = dt_add(t, x, e->residual);
    if (e->activation == DT_ACT_RELU6) return dt_relu6(t, x);
    return e->activation == DT_ACT_RELU ? dt_relu(t, x) : x;
}

static void with_epilogue(dt_tape *t, dt_module *m, dt_tensor *x, const dt_epilogue *e,
                          dt_tensor **y)
{
    const dt__batch_norm_layer *s = dt_module_state(m);
    const bool folded = m->normed != NULL && m->normed->folding != DT__APART;
    if (folded && !dt__fold_is_live(m->normed)) {
        *y = without_norm(t, x, e);
        return;
    }
    const dt_batch_norm_options options = { .training = dt_is_training(m),
                                            .momentum = s->momentum,
                                            .eps = s->eps,
                                            .activation = e->activation };
    const dt_batch_norm_operands operands = {
        .weight = dt_module_weight(t, m),
        .bias = own(m, "bias"),
        .running_mean = own(m, "running_mean"),
        .running_var = own(m, "running_var"),
        .residual = e->residual,
        .factor = folded ? dt__fold_factor(t, m->normed) : NULL,
    };
    *y = s->op(t, x, &operands, &options);
}

void dt__batch_norm_run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                        int n_out)
{
    (void)n_in;
    (void)n_out;
    with_epilogue(t, m, in[0], &(dt_epilogue){ .activation = DT_ACT_NONE }, out);
}

const dt_fusion dt__batch_norm_fusion = {
    .forward = with_epilogue,
    .activations = 1u << DT_ACT_NONE | 1u << DT_ACT_RELU | 1u << DT_ACT_RELU6,
    .residual = true,
};

bool dt__is_batch_norm(const dt_module *m) { return m->type->forward == dt__batch_norm_run; }

static dt_status build(dt_module *m, int64_t channels)
{
    dt_tensor *x;
    DT__TRY(dt__new_scale_and_shift(m, channels));
    DT__TRY(dt__new_buffer(m, "running_mean", 1, &channels, &x));
    DT__TRY(dt__new_buffer(m, "running_var", 1, &channels, &x));
    return dt_fill(x, 1.0);
}

dt_status dt__batch_norm_create(dt_ctx *ctx, const dt_module_type *type, int64_t channels,
                                const dt__batch_norm_layer *layer, dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, type->name, "the number of channels", channels));
    DT__TRY(dt__want_share(ctx, type->name, "momentum", layer->momentum));
    DT__TRY(dt__want_share(ctx, type->name, "eps", layer->eps));
    if (layer->momentum == 0 && layer->eps == 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "%s: momentum 0 and eps 0, as in options of zeros: the running statistics "
                       "would never follow the data; usual are 0.1 and 1e-5",
                       type->name);
    }
    dt_module *m;
    DT__TRY(dt_module_create(ctx, type, sizeof *layer, &m));
    *(dt__batch_norm_layer *)dt_module_state(m) = *layer;
    return dt__layer_done(build(m, channels), m, out);
}
