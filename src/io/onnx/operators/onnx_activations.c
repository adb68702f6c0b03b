/* Elementwise functions. They do not depend on the order of dimensions. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>
#include <string.h>

static dt_status apply(dt__onnx *g, const char *kind)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_simple(g, kind, dt__onnx_maker(g, v), &l));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

static const struct function {
    const char *op, *kind;
} functions[] = {
    { "Relu", "relu" },
    { "Sigmoid", "sigmoid" },
    { "Tanh", "tanh" },
    { "HardSwish", "hardswish" },
    { "Erf", "erf" },
    { "Exp", "exp" },
    { "Log", "log" },
    { "Sqrt", "sqrt" },
    { "Neg", "neg" },
    { "Abs", "abs" },
    { "Reciprocal", "reciprocal" },
    { "Sign", "sign" },
    { "Floor", "floor" },
    { "Ceil", "ceil" },
    { "Round", "round" },
    { "Softplus", "softplus" },
    { "Softsign", "softsign" },
    { "Mish", "mish" },
};

/* An operator without attributes that has an equal layer. */
dt_status dt__onnx_function(dt__onnx *g)
{
    const struct function *f = functions;
    while (strcmp(f->op, g->node->op_type) != 0) f++;
    return apply(g, f->kind);
}

dt_status dt__onnx_gelu(dt__onnx *g)
{
    const bool is_tanh = dt__onnx_says(g, "approximate", "tanh", "none");
    return apply(g, is_tanh ? "gelu_tanh" : "gelu");
}

/* x sigmoid(alpha x) */
dt_status dt__onnx_swish(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const double alpha = dt__onnx_real_attribute(g->node, "alpha", 1);
    dt__onnx_layer *x = dt__onnx_maker(g, v), *gate, *l;
    if (alpha == 1) return apply(g, "silu");
    DT__TRY(dt__onnx_scaled(g, x, alpha, 0, &gate));
    DT__TRY(dt__onnx_simple(g, "sigmoid", gate, &gate));
    DT__TRY(dt__onnx_new(g, "mul", &l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add_on(g, l, gate));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* min(max(x, least), most); an infinite bound means none. If least > most, the result is `most`. */
static dt_status clamp(dt__onnx *g, dt__onnx_layer *x, double least, double most,
                       dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_new(g, "clamp", &l));
    dt_clamp_layer *o = l->options;
    o->has_min = !isinf(least);
    o->has_max = !isinf(most);
    o->min = fmin(least, most);
    o->max = most;
    dt__onnx_read_from(l, x);
    *out = l;
    return dt__onnx_add(g, l);
}

dt_status dt__onnx_hard_sigmoid(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const double alpha = dt__onnx_real_attribute(g->node, "alpha", (double)0.2f);
    const double beta = dt__onnx_real_attribute(g->node, "beta", 0.5);
    dt__onnx_layer *l;
    if (alpha == (double)(float)(1.0 / 6) && beta == 0.5) return apply(g, "hardsigmoid");
    if (!isfinite(alpha) || !isfinite(beta))
        return dt__onnx_refuse(g, "alpha or beta is infinite; expected numbers");
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, v), alpha, beta, &l));
    DT__TRY(clamp(g, l, 0, 1, &l));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

dt_status dt__onnx_clip(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    double at[2] = { dt__onnx_real_attribute(g->node, "min", -INFINITY),
                     dt__onnx_real_attribute(g->node, "max", INFINITY) };
    dt__onnx_layer *l;
    for (int i = 0; i < 2; i++) {
        const dt__onnx_value *bound = dt__onnx_in(g, 1 + i);
        if (bound != NULL) DT__TRY(dt__onnx_real_of(g, bound, "a bound", &at[i]));
    }
    if (isnan(at[0]) || isnan(at[1])) return dt__onnx_refuse(g, "a bound is not a number");
    if (at[0] <= -(double)FLT_MAX) at[0] = -INFINITY; /* old files write this for no bound */
    if (at[1] >= (double)FLT_MAX) at[1] = INFINITY;
    if (at[0] == 0 && at[1] == 6) return apply(g, "relu6");
    if (at[0] == 0 && isinf(at[1])) return apply(g, "relu");
    if (at[0] == -INFINITY && at[1] == INFINITY) return apply(g, "identity");
    if (at[0] == INFINITY || at[1] == -INFINITY) {
        return dt__onnx_refuse(g, "its bounds are %g and %g, between which there is no number",
                               at[0], at[1]);
    }
    DT__TRY(clamp(g, dt__onnx_maker(g, v), at[0], at[1], &l));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

/* ---- what exp bends below 0 ------------------------------------------------------------------ */

/* factor (max(x, 0) + alpha (e^min(x, 0) - 1)), of Elu and Selu */
static dt_status elu(dt__onnx *g, double alpha, double factor)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_layer *x = dt__onnx_maker(g, v), *above, *below, *l;
    if (!isfinite(alpha) || !isfinite(factor))
        return dt__onnx_refuse(g, "alpha is infinite; expected a number");
    if (alpha == 1) {
        DT__TRY(dt__onnx_simple(g, "elu", x, &l));
    } else {
        DT__TRY(dt__onnx_simple(g, "relu", x, &above));
        DT__TRY(clamp(g, x, -INFINITY, 0, &below));
        DT__TRY(dt__onnx_simple(g, "elu", below, &below));
        DT__TRY(dt__onnx_scaled(g, below, alpha, 0, &below));
        DT__TRY(dt__onnx_new(g, "add", &l));
        dt__onnx_read_from(l, above);
        DT__TRY(dt__onnx_add_on(g, l, below));
    }
    DT__TRY(dt__onnx_scaled(g, l, factor, 0, &l));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

dt_status dt__onnx_elu(dt__onnx *g)
{
    return elu(g, dt__onnx_real_attribute(g->node, "alpha", 1), 1);
}

dt_status dt__onnx_selu(dt__onnx *g)
{
    return elu(g, dt__onnx_real_attribute(g->node, "alpha", (double)1.67326319217681884765625F),
               dt__onnx_real_attribute(g->node, "gamma", (double)1.05070102214813232421875F));
}

/* max(x, 0) + min(alpha (e^(x / alpha) - 1), 0) = alpha elu(x / alpha) for alpha above 0 */
dt_status dt__onnx_celu(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const double alpha = dt__onnx_real_attribute(g->node, "alpha", 1);
    dt__onnx_layer *l;
    if (!(alpha > 0)) return dt__onnx_refuse(g, "alpha is %g; it must be above 0", alpha);
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, v), 1 / alpha, 0, &l));
    DT__TRY(dt__onnx_simple(g, "elu", l, &l));
    DT__TRY(dt__onnx_scaled(g, l, alpha, 0, &l));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

/* ---- thresholds ------------------------------------------------------------------------------ */

/* *y = a > b ? chosen : other; each operand may be a number. */
static dt_status choose(dt__onnx *g, const dt__onnx_value *const compared[2],
                        const dt__onnx_value *chosen, const dt__onnx_value *other,
                        dt__onnx_value *y)
{
    static const dt__onnx_form greater = { "greater", false }, where = { "where", false };
    dt__onnx_value above;
    DT__TRY(dt__onnx_apply(g, &greater, compared, 2, &above));
    const dt__onnx_value *const v[] = { &above, chosen, other };
    return dt__onnx_apply(g, &where, v, 3, y);
}

/* x > alpha ? x : 0 */
dt_status dt__onnx_thresholded_relu(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_value alpha, zero, y;
    DT__TRY(dt__onnx_numeral(g, dt__onnx_real_attribute(g->node, "alpha", 1), &alpha));
    DT__TRY(dt__onnx_numeral(g, 0, &zero));
    const dt__onnx_value *const compared[] = { &x, &alpha };
    return dt__onnx_finish(g, choose(g, compared, &x, &zero, &y), &y);
}

static dt_status shifted(dt__onnx *g, const dt__onnx_value *x, double by, dt__onnx_value *out)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, x), 1, by, &l));
    *out = *x;
    out->layer = l->index;
    out->plain = -1;
    out->name = dt__onnx_out(g, 0)->name;
    return DT_OK;
}

/* x < -lambd ? x + bias : x > lambd ? x - bias : 0 */
dt_status dt__onnx_shrink(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const double bias = dt__onnx_real_attribute(g->node, "bias", 0),
                 lambd = dt__onnx_real_attribute(g->node, "lambd", 0.5);
    dt__onnx_value low, high, zero, up, down, y;
    DT__TRY(dt__onnx_numeral(g, -lambd, &low));
    DT__TRY(dt__onnx_numeral(g, lambd, &high));
    DT__TRY(dt__onnx_numeral(g, 0, &zero));
    DT__TRY(shifted(g, &x, bias, &up));
    DT__TRY(shifted(g, &x, -bias, &down));
    const dt__onnx_value *const above[] = { &x, &high }, *const below[] = { &low, &x };
    DT__TRY(choose(g, above, &down, &zero, &y));
    const dt__onnx_value right = y;
    return dt__onnx_finish(g, choose(g, below, &up, &right, &y), &y);
}

/* ---- slopes ---------------------------------------------------------------------------------- */

/* ReLU with negative slopes: one slope, or one per channel. */
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
    const double alpha = dt__onnx_real_attribute(g->node, "alpha", (double)0.01f);
    dt__onnx_layer *l;
    if (alpha == (double)0.01f) return apply(g, "leaky_relu");
    float *slope = dt__onnx_memory(g, 1, sizeof *slope);
    if (slope == NULL) return DT_ERR_NOMEM;
    *slope = (float)alpha;
    DT__TRY(with_slopes(g, dt__onnx_maker(g, v), slope, 1, &l));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

/* x > 0 ? x : x slope, for slopes of any shape that broadcasts to x */
static dt_status sloped(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *slopes)
{
    const dt__onnx_value x = *v, own = *slopes;
    dt__onnx_value zero, y, below;
    DT__TRY(dt__onnx_numeral(g, 0, &zero));
    DT__TRY(dt__onnx_times(g, &x, &own));
    below = *dt__onnx_out(g, 0);
    const dt__onnx_value *const compared[] = { &x, &zero };
    return dt__onnx_finish(g, choose(g, compared, &x, &below, &y), &y);
}

dt_status dt__onnx_prelu(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0), *slopes = dt__onnx_in(g, 1);
    const float *slope;
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_floats_of(g, slopes, "the slope", &slope));
    DT__TRY(dt__onnx_plain(g, v, &x));
    /* the dimension of the slopes that is the channels */
    const int spatial = slopes->rank - x->shape.rank;
    const bool by_channel = x->shape.rank > 0 && slopes->count == x->shape.dims[0] &&
                            (spatial == 0 || spatial == 1) &&
                            slopes->dims[spatial] == slopes->count;
    if (slopes->count != 1 && !by_channel) return sloped(g, v, slopes);
    DT__TRY(with_slopes(g, x, slope, slopes->count, &l));
    DT__TRY(dt__onnx_hint(g, l, slopes->initializer, false));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

dt_status dt__onnx_dropout(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    double p = dt__onnx_real_attribute(g->node, "ratio", 0.5);
    dt__onnx_layer *l;
    if (dt__onnx_in(g, 1) != NULL) DT__TRY(dt__onnx_real_of(g, dt__onnx_in(g, 1), "ratio", &p));
    const dt__onnx_value *training = dt__onnx_in(g, 2);
    double trains = 0;
    if (training != NULL) DT__TRY(dt__onnx_real_of(g, training, "training_mode", &trains));
    if (trains != 0)
        return dt__onnx_refuse(g, "it has training_mode; export the model in evaluation mode");
    DT__TRY(dt__onnx_new(g, "dropout", &l));
    ((dt_dropout_layer *)l->options)->p = p;
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, v)));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

/* Before version 13 softmax is over all dimensions from `axis` on. */
dt_status dt__onnx_softmax(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const bool is_log = strcmp(g->node->op_type, "LogSoftmax") == 0, old = g->file->opset < 13;
    dt__onnx_layer *l;
    int axis;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", old ? 1 : -1), v->rank, &axis));
    for (int i = axis + 1; old && i < v->rank; i++) {
        if (dt__onnx_extent(g, v, i).value == 1 && !dt__onnx_extent(g, v, i).batch) continue;
        return dt__onnx_refuse(g, "it is over several dimensions; expected one");
    }
    if (v->axis[axis] == 0)
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    DT__TRY(dt__onnx_new(g, is_log ? "log_softmax" : "softmax", &l));
    ((dt_dim_layer *)l->options)->dim = v->axis[axis];
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, v)));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}
