/* Norms in TFLite, composed of its operators: y = (x - mean) / sqrt(var + eps) * weight + bias. A
 * batch norm that is not folded into a convolution is a product and a sum. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"

#include <math.h>
#include <stdio.h>

static int weighted(dt__lite_model *m, const dt_trace_call *c, int y)
{
    return dt__trace_has(c, 1) ? dt__lite_with(m, DT__LITE_MUL, y, dt__lite_plain(m, c, 1)) : y;
}

static int biased(dt__lite_model *m, const dt_trace_call *c, int y)
{
    return dt__trace_has(c, 2) ? dt__lite_with(m, DT__LITE_ADD, y, dt__lite_plain(m, c, 2)) : y;
}

/* x / sqrt(mean(x^2) + eps) over axes */
static int scaled(dt__lite_model *m, int x, const dt_ints *axes, double eps)
{
    int v = dt__lite_map(m, DT__LITE_SQUARE, x);
    v = dt__lite_reduced(m, DT__LITE_MEAN, v, axes, true);
    v = dt__lite_with(m, DT__LITE_ADD, v, dt__lite_float(&m->p, (float)eps));
    return dt__lite_with(m, DT__LITE_MUL, x, dt__lite_map(m, DT__LITE_RSQRT, v));
}

/* (x - mean) / sqrt(mean((x - mean)^2) + eps) over axes */
static int normalized(dt__lite_model *m, int x, const dt_ints *axes, double eps)
{
    const int mean = dt__lite_reduced(m, DT__LITE_MEAN, x, axes, true);
    return scaled(m, dt__lite_with(m, DT__LITE_SUB, x, mean), axes, eps);
}

static void put_layer_norm(dt__lite_model *m, const dt_trace_call *c)
{
    const int rank = dt__lite_operand(m, c, 0)->rank;
    dt_ints axes = { .n = (int)dt__trace_integer(c, "normalized_dims") };
    for (int i = 0; i < axes.n; i++) axes.v[i] = rank - axes.n + i;
    const int y = normalized(m, dt__lite_plain(m, c, 0), &axes, dt__trace_number(c, "eps"));
    dt__lite_out(m, c, 0, biased(m, c, weighted(m, c, y)), DT__LITE_PLAIN);
}

static void put_rms_norm(dt__lite_model *m, const dt_trace_call *c)
{
    const dt_ints axes = { 1, { dt__lite_operand(m, c, 0)->rank - 1 } };
    const int y = scaled(m, dt__lite_plain(m, c, 0), &axes, dt__trace_number(c, "eps"));
    dt__lite_out(m, c, 0, weighted(m, c, y), DT__LITE_PLAIN);
}

/* Reshapes [N, H, W, C] to [N, pixels, groups, channels of a group]. */
static void put_group_norm(dt__lite_model *m, const dt_trace_call *c)
{
    const dt_trace_value *v = dt__lite_operand(m, c, 0);
    const int64_t groups = dt__trace_integer(c, "groups");
    const dt_ints axes = { 2, { 1, 3 } };
    const bool image = v->rank == 3 || v->rank == 4;
    const int x = image ? dt__lite_last(m, c, 0) : dt__lite_plain(m, c, 0);
    const dt__lite_shape s = dt__lite_shape_of(&m->p, x);
    const int64_t channels = s.dims[s.rank - 1];
    const int64_t pixels = image ? s.dims[1] * s.dims[2] : 1;
    const dt__lite_shape cut = { 4, { s.dims[0], pixels, groups, channels / groups } };
    int y = dt__lite_reshaped(m, x, &cut, 0);
    y = normalized(m, y, &axes, dt__trace_number(c, "eps"));
    y = dt__lite_reshaped(m, y, &s, 0);
    y = biased(m, c, weighted(m, c, y));
    dt__lite_out(m, c, 0, y, image ? DT__LITE_LAST : DT__LITE_PLAIN);
}

static bool takes_group_norm(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const int rank = dt_trace_value_at(t, c->in[0].value)->rank;
    if (rank >= 2 && rank <= 4) return true;
    snprintf(why, size, "%d dimensions; the format's images have 4 at most", rank);
    return false;
}

enum { B_X, B_WEIGHT, B_BIAS, B_MEAN, B_VAR, B_RESIDUAL, B_FACTOR };

static void put_batch_norm(dt__lite_model *m, const dt_trace_call *c)
{
    const float *weight = dt__lite_data(m, c, B_WEIGHT), *bias = dt__lite_data(m, c, B_BIAS);
    const float *factor = dt__lite_data(m, c, B_FACTOR), *mean = dt__lite_data(m, c, B_MEAN);
    const float *var = dt__lite_data(m, c, B_VAR);
    const dt_trace_value *v = dt__lite_operand(m, c, B_X);
    const int64_t n = v->extent[1].size;
    float *slope = dt__lite_memory(&m->p, n, sizeof *slope);
    float *offset = dt__lite_memory(&m->p, n, sizeof *offset);
    if (slope == NULL || offset == NULL) return;
    for (int64_t i = 0; i < n; i++) {
        const double root = sqrt(fmax(dt__float_or(var, i, 1), 0) + dt__trace_number(c, "eps"));
        const double k = dt__float_or(weight, i, 1) / root;
        slope[i] = (float)(k / dt__float_or(factor, i, 1));
        offset[i] = (float)(dt__float_or(bias, i, 0) - dt__float_or(mean, i, 0) * k);
    }
    const bool last = v->rank > 2;
    int y = last ? dt__lite_last(m, c, B_X) : dt__lite_plain(m, c, B_X);
    y = dt__lite_with(m, DT__LITE_MUL, y, dt__lite_floats(m, c->module, n, slope));
    y = dt__lite_with(m, DT__LITE_ADD, y, dt__lite_floats(m, c->module, n, offset));
    if (dt__trace_has(c, B_RESIDUAL)) {
        const int add = last ? dt__lite_last(m, c, B_RESIDUAL) : dt__lite_plain(m, c, B_RESIDUAL);
        y = dt__lite_with(m, DT__LITE_ADD, y, add);
    }
    y = dt__lite_activated(m, y, dt__trace_integer(c, "activation"));
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

const dt__lite_emitter dt__lite_norms[] = {
    { "layer_norm", "MEAN, SUB, SQUARE, ADD, RSQRT, MUL", false, NULL, put_layer_norm },
    { "rms_norm", "SQUARE, MEAN, ADD, RSQRT, MUL", false, NULL, put_rms_norm },
    { "batch_norm1d", "in the convolution, or MUL, ADD", false, NULL, put_batch_norm },
    { "batch_norm2d", "in the convolution, or MUL, ADD", true, NULL, put_batch_norm },
    { "group_norm", "RESHAPE, MEAN, SUB, SQUARE, ADD, RSQRT, MUL", true, takes_group_norm,
      put_group_norm },
    { NULL, NULL, false, NULL, NULL },
};
