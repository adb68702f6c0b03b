/* The common part of the four convolution layers.
 *     weight [out, in/groups, kernel], transposed [in, out/groups, kernel]; bias [out]
 * Both are initialized uniform in +-1/sqrt(n), where n is the number of elements of weight[0], as
 * in PyTorch. (For a transposed convolution that is not its fan-in.) */
#include "nn/convolution/conv_layers.h"

#include <math.h>

const dt__conv_state *dt__conv_state_of(const dt_module *m)
{
    return m->type->forward == dt__conv_run ? m->state : NULL;
}

int64_t dt__conv_groups(const dt_module *m)
{
    return ((const dt__conv_state *)m->state)->layer.conv.groups;
}

void dt__conv_run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                  int n_out)
{
    const dt__conv_state *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *weight = dt_module_weight(t, m);
    out[0] = s->kind->op(t, in[0], weight, dt__module_bias(t, m), &s->layer.conv);
}

static dt_status check_axis(dt_ctx *ctx, const dt__conv_kind *kind, const dt_conv_layer *l, int i)
{
    const dt_conv_options *o = &l->conv;
    const char *name = kind->type->name;
    DT__TRY(dt__want_extent(ctx, name, "the kernel's extent", l->kernel[i]));
    DT__TRY(dt__want_extent(ctx, name, "stride", o->stride[i]));
    DT__TRY(dt__want_extent(ctx, name, "dilation", o->dilation[i]));
    if (o->padding[i] < 0) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: padding is %lld, expected at least 0", name,
                       (long long)o->padding[i]);
    }
    const int64_t most = dt__max_i64(o->stride[i], o->dilation[i]) - 1;
    if (o->output_padding[i] >= 0 && o->output_padding[i] <= (kind->transposed ? most : 0)) {
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_ARG, "%s: output_padding is %lld, expected 0...%lld", name,
                   (long long)o->output_padding[i], (long long)(kind->transposed ? most : 0));
}

static dt_status check(dt_ctx *ctx, const dt__conv_kind *kind, const dt_conv_layer *l)
{
    const char *name = kind->type->name;
    const int64_t groups = l->conv.groups;
    DT__TRY(dt__want_extent(ctx, name, "the number of input channels", l->in));
    DT__TRY(dt__want_extent(ctx, name, "the number of output channels", l->out));
    DT__TRY(dt__want_extent(ctx, name, "the number of groups", groups));
    if (l->in % groups != 0 || l->out % groups != 0) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: %lld groups do not divide %lld and %lld channels",
                       name, (long long)groups, (long long)l->in, (long long)l->out);
    }
    for (int i = 0; i < kind->axes; i++) DT__TRY(check_axis(ctx, kind, l, i));
    return DT_OK;
}

static dt_status build(dt_module *m, const dt__conv_kind *kind, const dt_conv_layer *l)
{
    int64_t dims[4] = { kind->transposed ? l->in : l->out,
                        (kind->transposed ? l->out : l->in) / l->conv.groups };
    double terms = (double)dims[1];
    for (int i = 0; i < kind->axes; i++) {
        dims[2 + i] = l->kernel[i];
        terms *= (double)l->kernel[i];
    }
    const double bound = 1.0 / sqrt(terms);
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2 + kind->axes, dims, &x));
    DT__TRY(dt__draw_uniform(x, DT__FOR_INIT, -bound, bound));
    if (!l->bias) return DT_OK;
    DT__TRY(dt__new_param(m, "bias", 1, &l->out, &x));
    return dt__draw_uniform(x, DT__FOR_INIT, -bound, bound);
}

dt_status dt__conv_create(dt_ctx *ctx, const dt__conv_kind *kind, const dt_conv_layer *layer,
                          dt_module **out)
{
    *out = NULL;
    DT__TRY(check(ctx, kind, layer));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, kind->type, sizeof(dt__conv_state), &m));
    *(dt__conv_state *)dt_module_state(m) = (dt__conv_state){ kind, *layer };
    return dt__layer_done(build(m, kind, layer), m, out);
}

dt_status dt__conv_layer_create(dt_ctx *ctx, const dt__conv_kind *kind, const void *options,
                                const dt_shape *in, dt_module **out)
{
    const dt_conv_item *o = options;
    DT__TRY(dt__want_example_rank(ctx, kind->type->name, in, 1 + kind->axes));
    dt_conv_layer layer = {
        .in = in->dims[0],
        .out = o->out,
        .bias = dt__layer_bias(o->has_bias, o->bias, &o->after),
        .conv = dt_conv_defaults(),
    };
    layer.kernel[0] = layer.kernel[1] = 1;
    for (int i = 0; i < kind->axes; i++) {
        layer.kernel[i] = o->kernel[i];
        layer.conv.stride[i] = o->stride[i];
        layer.conv.padding[i] = o->padding[i];
        layer.conv.dilation[i] = o->dilation[i];
        layer.conv.output_padding[i] = o->output_padding[i];
    }
    layer.conv.groups = o->groups;
    return dt__conv_create(ctx, kind, &layer, out);
}
