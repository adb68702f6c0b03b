/* Functions of each element. The order of dimensions does not matter to them. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Result 0 is that of a layer with the dimensions of v in its order. */
static dt_status keep_order(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_layer *l)
{
    const dt__onnx_value x = *v;
    dt__onnx_same(g, 0, &x);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    out->layer = l->index;
    out->plain = -1;
    return DT_OK;
}

static dt_status apply(dt__onnx *g, const char *kind)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_simple(g, kind, dt__onnx_maker(g, v), &l));
    return keep_order(g, v, l);
}

dt_status dt__onnx_relu(dt__onnx *g) { return apply(g, "relu"); }
dt_status dt__onnx_sigmoid(dt__onnx *g) { return apply(g, "sigmoid"); }
dt_status dt__onnx_tanh(dt__onnx *g) { return apply(g, "tanh"); }
dt_status dt__onnx_hard_swish(dt__onnx *g) { return apply(g, "hardswish"); }
dt_status dt__onnx_erf(dt__onnx *g) { return apply(g, "erf"); }

dt_status dt__onnx_gelu(dt__onnx *g)
{
    const bool is_tanh = dt__onnx_says(g, "approximate", "tanh", "none");
    return apply(g, is_tanh ? "gelu_tanh" : "gelu");
}

dt_status dt__onnx_elu(dt__onnx *g) { return apply(g, "elu"); /* alpha is 1, by the table */ }

/* ---- bounds ---------------------------------------------------------------------------------- */

#define LARGEST_BOUND 1e20 /* products with 6 / bound keep their bits */

/* relu6((x - from) s) / s for s = 6 / width: what x is above `from`, at most the width. With a
 * negative width what x is below `from`. */
static dt_status above(dt__onnx *g, dt__onnx_layer *x, double from, double width,
                       dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_scaled(g, x, 6 / width, -from * (6 / width), &l));
    DT__TRY(dt__onnx_simple(g, "relu6", l, &l));
    return dt__onnx_scaled(g, l, width / 6, from, out);
}

/* min(max(x, low), high). A difference between x and a bound of another magnitude would round x
 * away, so bounds around 0 take the positive and the negative part of x apart, and others begin at
 * the one that is nearer to 0:
 *     min(relu(x), high) + max(-relu(-x), low)      low < 0 < high */
static dt_status clamp(dt__onnx *g, const dt__onnx_value *v, dt__onnx_layer *x, const double at[2])
{
    dt__onnx_layer *l, *part[2];
    const double width = at[1] - at[0];
    if (fabs(at[0]) > LARGEST_BOUND || fabs(at[1]) > LARGEST_BOUND) {
        return dt__onnx_refuse(g, "bounds %g and %g; %g is the largest that is known", at[0], at[1],
                               LARGEST_BOUND);
    }
    if (at[0] >= 0) {
        DT__TRY(above(g, x, at[0], width, &l));
        return keep_order(g, v, l);
    }
    if (at[1] <= 0) {
        DT__TRY(above(g, x, at[1], -width, &l));
        return keep_order(g, v, l);
    }
    for (int i = 0; i < 2; i++) DT__TRY(above(g, x, 0, at[1 - i], &part[i]));
    DT__TRY(dt__onnx_new(g, "add", &l));
    for (int i = 0; i < 2; i++) dt__onnx_read_from(l, part[i]);
    DT__TRY(dt__onnx_add(g, l));
    return keep_order(g, v, l);
}

dt_status dt__onnx_hard_sigmoid(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const double alpha = dt__onnx_real(g, "alpha", (double)0.2f);
    const double beta = dt__onnx_real(g, "beta", 0.5);
    dt__onnx_layer *l;
    if (alpha == (double)(float)(1.0 / 6) && beta == 0.5) return apply(g, "hardsigmoid");
    if (!isfinite(alpha) || !isfinite(beta)) return dt__onnx_refuse(g, "alpha or beta is infinite");
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, v), 6 * alpha, 6 * beta, &l));
    DT__TRY(dt__onnx_simple(g, "relu6", l, &l));
    DT__TRY(dt__onnx_scaled(g, l, 1.0 / 6, 0, &l));
    return keep_order(g, v, l);
}

dt_status dt__onnx_clip(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    double at[2] = { dt__onnx_real(g, "min", -INFINITY), dt__onnx_real(g, "max", INFINITY) };
    for (int i = 0; i < 2; i++) {
        const dt__onnx_value *bound = dt__onnx_in(g, 1 + i);
        if (bound != NULL) DT__TRY(dt__onnx_real_of(g, bound, "a bound", &at[i]));
    }
    if (isnan(at[0]) || isnan(at[1])) return dt__onnx_refuse(g, "a bound is not a number");
    const bool below = at[0] > -(double)FLT_MAX, above = at[1] < (double)FLT_MAX;
    if (at[0] == 0 && at[1] == 6) return apply(g, "relu6");
    if (at[0] == 0 && !above) return apply(g, "relu");
    if (!below && !above) return apply(g, "identity");
    if (below && above && at[0] < at[1]) return clamp(g, v, dt__onnx_maker(g, v), at);
    return dt__onnx_refuse(g, "bounds %g and %g; two bounds, or 0 alone, are known", at[0], at[1]);
}

/* relu with slopes below 0: one, or one for each channel. */
static dt_status with_slopes(dt__onnx *g, dt__onnx_layer *x, const float *slope, int64_t n,
                             dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, "prelu", out));
    ((dt_prelu_layer *)(*out)->options)->shared = n == 1;
    dt__onnx_read_from(*out, x);
    DT__TRY(dt__onnx_weigh_floats(g, *out, "weight", slope, n));
    return dt__onnx_add(g, *out);
}

dt_status dt__onnx_leaky_relu(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const double alpha = dt__onnx_real(g, "alpha", (double)0.01f);
    dt__onnx_layer *l;
    if (alpha == (double)0.01f) return apply(g, "leaky_relu");
    float *slope = dt__onnx_memory(g, 1, sizeof *slope);
    if (slope == NULL) return DT_ERR_NOMEM;
    *slope = (float)alpha;
    DT__TRY(with_slopes(g, dt__onnx_maker(g, v), slope, 1, &l));
    return keep_order(g, v, l);
}

dt_status dt__onnx_prelu(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0), *slopes = dt__onnx_in(g, 1);
    const float *slope;
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_floats_of(g, slopes, "the slope", &slope));
    DT__TRY(dt__onnx_plain(g, v, &x));
    const int spatial = slopes->rank - x->shape.rank; /* where the channels are in the slopes */
    const bool by_channel = x->shape.rank > 0 && slopes->count == x->shape.dims[0] &&
                            (spatial == 0 || spatial == 1) &&
                            slopes->dims[spatial] == slopes->count;
    if (slopes->count != 1 && !by_channel) {
        return dt__onnx_refuse(g, "%lld slopes; 1, or one for each channel, are known",
                               (long long)slopes->count);
    }
    DT__TRY(with_slopes(g, x, slope, slopes->count, &l));
    DT__TRY(dt__onnx_hint(g, l, slopes->initializer, false));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

dt_status dt__onnx_dropout(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    double p = dt__onnx_real(g, "ratio", 0.5);
    dt__onnx_layer *l;
    if (dt__onnx_in(g, 1) != NULL) DT__TRY(dt__onnx_real_of(g, dt__onnx_in(g, 1), "ratio", &p));
    const dt__onnx_value *training = dt__onnx_in(g, 2);
    double trains = 0;
    if (training != NULL) DT__TRY(dt__onnx_real_of(g, training, "training_mode", &trains));
    if (trains != 0)
        return dt__onnx_refuse(g, "with training_mode; export the model in evaluation");
    DT__TRY(dt__onnx_new(g, "dropout", &l));
    ((dt_dropout_layer *)l->options)->p = p;
    dt__onnx_read_from(l, dt__onnx_maker(g, v));
    DT__TRY(dt__onnx_add(g, l));
    return keep_order(g, v, l);
}

/* Before version 13 softmax runs over all dimensions from `axis` on. */
dt_status dt__onnx_softmax(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const bool is_log = strcmp(g->node->op_type, "LogSoftmax") == 0, old = g->file->opset < 13;
    dt__onnx_layer *l;
    int axis;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", old ? 1 : -1), v->rank, &axis));
    for (int i = axis + 1; old && i < v->rank; i++) {
        if (dt__onnx_extent(g, v, i).value == 1 && !dt__onnx_extent(g, v, i).batch) continue;
        return dt__onnx_refuse(g, "over several dimensions");
    }
    if (v->axis[axis] == 0) return dt__onnx_refuse(g, "over the batch");
    DT__TRY(dt__onnx_new(g, is_log ? "log_softmax" : "softmax", &l));
    ((dt_dim_layer *)l->options)->dim = v->axis[axis];
    dt__onnx_read_from(l, dt__onnx_maker(g, v));
    DT__TRY(dt__onnx_add(g, l));
    return keep_order(g, v, l);
}
