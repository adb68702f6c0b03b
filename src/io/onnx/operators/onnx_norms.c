/* Normalizations. */
#include "io/onnx/onnx.h"

#include <math.h>

/* Adds a norm whose weights are the inputs after the first, one number per channel; reshapes its
 * result. */
static dt_status finish_norm(dt__onnx *g, dt__onnx_layer *l, const dt__onnx_layer *x,
                             const dt_shape *shape)
{
    static const char *const paths[] = { "weight", "bias", "running_mean", "running_var" };
    const int n = dt__onnx_is(l, "group_norm") ? 2 : 4;
    dt_norm_layer *o = l->options;
    o->norms.eps = dt__onnx_real_attribute(g->node, "epsilon", (double)1e-5f);
    for (int i = 0; i < n; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, 1 + i);
        if (v->count != x->shape.dims[0]) {
            return dt__onnx_refuse(g, "%s has %lld numbers; expected %lld", paths[i],
                                   (long long)v->count, (long long)x->shape.dims[0]);
        }
        DT__TRY(dt__onnx_weigh(g, l, paths[i], v));
    }
    DT__TRY(dt__onnx_add_on(g, l, x));
    DT__TRY(dt__onnx_reshaped(g, l, shape, &l));
    return dt__onnx_image_result(g, 0, l);
}

dt_status dt__onnx_batch_norm(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    for (int i = 1; i < 5; i++) {
        if (dt__onnx_out(g, i) == NULL) continue;
        return dt__onnx_refuse(
            g, "it has %d outputs, as in training; export the model in evaluation mode", i + 1);
    }
    DT__TRY(dt__onnx_image(g, 0, &x));
    const dt_shape shape = x->shape;
    if (shape.rank < 1)
        return dt__onnx_refuse(g, "its input has no channels; expected [batch, channels, ...]");
    if (shape.rank > 3) { /* a volume is normalized as a signal */
        dt_shape flat = { 2, { shape.dims[0], 1 } };
        for (int i = 1; i < shape.rank; i++) flat.dims[1] *= shape.dims[i];
        DT__TRY(dt__onnx_reshaped(g, x, &flat, &x));
    }
    DT__TRY(dt__onnx_new(g, x->shape.rank == 3 ? "batch_norm2d" : "batch_norm1d", &l));
    ((dt_norm_layer *)l->options)->norms.momentum =
        1 - dt__onnx_real_attribute(g->node, "momentum", (double)0.9f);
    return finish_norm(g, l, x, &shape);
}

dt_status dt__onnx_instance_norm(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_image(g, 0, &x));
    if (x->shape.rank < 2)
        return dt__onnx_refuse(g, "its input has no channels; expected [batch, channels, ...]");
    DT__TRY(dt__onnx_new(g, "group_norm", &l));
    ((dt_norm_layer *)l->options)->norms.groups = x->shape.dims[0];
    return finish_norm(g, l, x, &x->shape);
}

/* Expands one number per group to one per channel: version 18 has them by group, 21 by channel. */
static dt_status by_channel(dt__onnx *g, const dt__onnx_value *v, int64_t groups, int64_t channels,
                            dt__onnx_value *out)
{
    const float *from;
    float *to;
    const char *initializer = v->initializer;
    DT__TRY(dt__onnx_floats_of(g, v, "a weight", &from));
    const int64_t n = g->file->opset < 21 ? groups : channels;
    if (v->count != n) {
        return dt__onnx_refuse(g, "a weight has %lld numbers; expected %lld", (long long)v->count,
                               (long long)n);
    }
    *out = (dt__onnx_value){ .name = v->name };
    DT__TRY(dt__onnx_constant(g, out, 1, &channels, &to, NULL));
    out->initializer = n == channels ? initializer : NULL;
    for (int64_t i = 0; i < channels; i++) to[i] = from[i / (channels / n)];
    return DT_OK;
}

dt_status dt__onnx_group_norm(dt__onnx *g)
{
    static const char *const paths[] = { "weight", "bias" };
    dt__onnx_layer *x, *l;
    dt__onnx_value weight;
    const int64_t groups = dt__onnx_int_of(g->node, "num_groups", 0);
    DT__TRY(dt__onnx_image(g, 0, &x));
    if (x->shape.rank < 1 || groups < 1 || x->shape.dims[0] % groups != 0) {
        return dt__onnx_refuse(g, "num_groups is %lld, which does not divide the channels",
                               (long long)groups);
    }
    DT__TRY(dt__onnx_new(g, "group_norm", &l));
    dt_norm_layer *o = l->options;
    o->norms.groups = groups;
    o->norms.eps = dt__onnx_real_attribute(g->node, "epsilon", (double)1e-5f);
    for (int i = 0; i < 2; i++) {
        DT__TRY(by_channel(g, dt__onnx_in(g, 1 + i), groups, x->shape.dims[0], &weight));
        DT__TRY(dt__onnx_weigh(g, l, paths[i], &weight));
    }
    DT__TRY(dt__onnx_add_on(g, l, x));
    return dt__onnx_image_result(g, 0, l);
}

/* Weight i of the node, which has, or broadcasts to, the dimensions from `axis` on. */
static dt_status weigh_last(dt__onnx *g, dt__onnx_layer *l, const dt_shape *x, int axis, int i,
                            const char *path)
{
    const dt__onnx_value *v = dt__onnx_in(g, i);
    const int rank = x->rank - (axis - 1);
    if (v == NULL) return DT_OK; /* the bias stays zero */
    bool fits = v->kind == DT__ONNX_CONSTANT && v->rank == rank;
    for (int k = 0; k < rank && fits; k++) fits = v->dims[k] == x->dims[axis - 1 + k];
    if (fits) return dt__onnx_weigh(g, l, path, v);
    return dt__onnx_refuse(g, "its %s must be a constant of the dimensions that it norms", path);
}

/* Normalizes over several dimensions: merges them, and splits the result. */
static dt_status last_norm(dt__onnx *g, const char *kind, bool has_bias)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    dt__onnx_layer *x, *l;
    int axis;
    dt_shape flat = { .rank = 0 };
    DT__TRY(dt__onnx_ordered(g, &v));
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", -1), v.rank, &axis));
    if (axis <= dt__onnx_batch_at(&v))
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    x = dt__onnx_maker(g, &v);
    axis = v.axis[axis];
    const dt_shape shape = x->shape;
    for (int i = 1; i < axis; i++) flat.dims[flat.rank++] = shape.dims[i - 1];
    flat.dims[flat.rank++] = 1;
    for (int i = axis; i <= shape.rank; i++) flat.dims[flat.rank - 1] *= shape.dims[i - 1];
    DT__TRY(dt__onnx_reshaped(g, x, &flat, &x));
    DT__TRY(dt__onnx_new(g, kind, &l));
    ((dt_norm_layer *)l->options)->norms.eps =
        dt__onnx_real_attribute(g->node, "epsilon", (double)1e-5f);
    DT__TRY(weigh_last(g, l, &shape, axis, 1, "weight"));
    if (has_bias) DT__TRY(weigh_last(g, l, &shape, axis, 2, "bias"));
    DT__TRY(dt__onnx_add_on(g, l, x));
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    dt__onnx_keep(g, 0, &v, l);
    return DT_OK;
}

dt_status dt__onnx_layer_norm(dt__onnx *g)
{
    const bool more = dt__onnx_out(g, 1) != NULL || dt__onnx_out(g, 2) != NULL;
    return more ? dt__onnx_long_norm(g) : last_norm(g, "layer_norm", true);
}

dt_status dt__onnx_rms_norm(dt__onnx *g) { return last_norm(g, "rms_norm", false); }

/* The mean over `size` neighbouring channels, with zeros beyond the first and the last. */
static dt_status mean_of_channels(dt__onnx *g, int64_t size, dt__onnx_layer *x,
                                  dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    int last[DT_MAX_RANK] = { 0 }, back[DT_MAX_RANK] = { 0 };
    const int rank = x->shape.rank;
    dt_shape whole, lines = { 2, { 1, x->shape.dims[0] } };
    for (int i = 1; i <= rank; i++) {
        last[i] = i < rank ? i + 1 : 1;
        back[i] = i == 1 ? rank : i - 1;
        if (i < rank) lines.dims[0] *= x->shape.dims[i];
    }
    DT__TRY(dt__onnx_permuted(g, x, last, &l));
    whole = l->shape;
    DT__TRY(dt__onnx_reshaped(g, l, &lines, &l));
    DT__TRY(dt__onnx_padded(g, l, 2, (size - 1) / 2, size / 2, 0, &x));
    DT__TRY(dt__onnx_new(g, "avg_pool1d", &l));
    dt_pool_options *o = &((dt_pool_layer *)l->options)->pool;
    o->kernel[0] = size;
    o->stride[0] = 1;
    DT__TRY(dt__onnx_add_on(g, l, x));
    DT__TRY(dt__onnx_reshaped(g, l, &whole, &l));
    return dt__onnx_permuted(g, l, back, out);
}

/* LRN: x / (bias + alpha mean(x^2 of `size` neighbouring channels))^beta */
dt_status dt__onnx_local_norm(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    const int64_t size = dt__onnx_int_of(g->node, "size", 0);
    const double beta = dt__onnx_real_attribute(g->node, "beta", 0.75);
    DT__TRY(dt__onnx_image(g, 0, &x));
    if (x->shape.rank < 2 || size < 1 || size > 2 * x->shape.dims[0]) {
        return dt__onnx_refuse(g, "its size is %lld channels; expected 1 to %lld", (long long)size,
                               (long long)(2 * dt__max_i64(x->shape.dims[0], 1)));
    }
    if (!(fabs(beta) <= 16)) return dt__onnx_refuse(g, "its beta is %g; expected -16 to 16", beta);
    DT__TRY(dt__onnx_simple(g, "square", x, &l));
    DT__TRY(mean_of_channels(g, size, l, &l));
    DT__TRY(dt__onnx_scaled(g, l, dt__onnx_real_attribute(g->node, "alpha", (double)1e-4f),
                            dt__onnx_real_attribute(g->node, "bias", 1), &l));
    const dt__onnx_layer *from = l;
    DT__TRY(dt__onnx_new(g, "pow", &l));
    ((dt_pow_layer *)l->options)->exponent = beta;
    DT__TRY(dt__onnx_add_on(g, l, from));
    from = l;
    DT__TRY(dt__onnx_new(g, "div", &l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add_on(g, l, from));
    return dt__onnx_image_result(g, 0, l);
}
