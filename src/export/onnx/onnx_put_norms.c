/* Norms in ONNX, with detent's order of operations: statistics in double, elements in float. The
 * sums are added in another order (onnx_put_sums.c). */
#include "export/onnx/onnx_put_model.h"

#include <math.h>

/* Sum over axes in double, divided by n. */
static dt__value wide_mean(dt__put *p, dt__value x, int axes, const int64_t *axis, int64_t n)
{
    dt__value sum = DT__PUT(p, "ReduceSum", x, dt__put_i64s(p, axes, axis));
    return DT__PUT(p, "Div", sum, dt__put_f64(p, (double)n));
}

/* 1 / sqrt(v + eps) */
static dt__value root(dt__put *p, dt__value v, double eps)
{
    dt__value s = DT__PUT(p, "Sqrt", DT__PUT(p, "Add", v, dt__put_f64(p, eps)));
    return DT__PUT(p, "Div", dt__put_f64(p, 1), s);
}

static dt__value weighted(dt__put_model *m, const dt_trace_call *c, dt__value y)
{
    return dt__trace_has(c, 1) ? DT__PUT(&m->p, "Mul", y, dt__put_in(m, c, 1)) : y;
}

static dt__value plus(dt__put_model *m, const dt_trace_call *c, int i, dt__value y)
{
    return dt__trace_has(c, i) ? DT__PUT(&m->p, "Add", y, dt__put_in(m, c, i)) : y;
}

static void put_layer_norm(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_trace_value *v = dt__put_operand(m, c, 0);
    const int axes = (int)dt__trace_integer(c, "normalized_dims");
    int64_t axis[DT_MAX_RANK], n = 1;
    for (int i = 0; i < axes; i++) {
        axis[i] = v->rank - axes + i;
        n *= v->extent[axis[i]].size;
    }
    dt__value x = dt__put_in(m, c, 0), wide = dt__put_cast(p, x, DT__PUT_DOUBLE);
    dt__value mean = wide_mean(p, wide, axes, axis, n);
    dt__value d = DT__PUT(p, "Sub", wide, mean);
    dt__value var = wide_mean(p, DT__PUT(p, "Mul", d, d), axes, axis, n);
    dt__value r = dt__put_cast(p, root(p, var, dt__trace_number(c, "eps")), DT__PUT_FLOAT);
    dt__value middle = dt__put_cast(p, mean, DT__PUT_FLOAT);
    dt__value rest = DT__PUT(p, "Sub", dt__put_cast(p, middle, DT__PUT_DOUBLE), mean);
    dt__value y = DT__PUT(p, "Sub", x, middle);
    y = DT__PUT(p, "Add", y, dt__put_cast(p, rest, DT__PUT_FLOAT));
    y = DT__PUT(p, "Mul", y, r);
    dt__put_out(m, c, 0, plus(m, c, 2, weighted(m, c, y)));
}

static void put_rms_norm(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_trace_value *v = dt__put_operand(m, c, 0);
    dt__value x = dt__put_in(m, c, 0), wide = dt__put_cast(p, x, DT__PUT_DOUBLE);
    dt__value square = DT__PUT(p, "Mul", wide, wide);
    square = wide_mean(p, square, 1, (const int64_t[]){ -1 }, v->extent[v->rank - 1].size);
    dt__value r = dt__put_cast(p, root(p, square, dt__trace_number(c, "eps")), DT__PUT_FLOAT);
    dt__put_out(m, c, 0, weighted(m, c, DT__PUT(p, "Mul", x, r)));
}

enum { B_X, B_WEIGHT, B_BIAS, B_MEAN, B_VAR, B_RESIDUAL, B_FACTOR };

/* Three numbers per channel: y = (x - middle) slope + offset. */
static void batch_constants(const dt__put_model *m, const dt_trace_call *c, int64_t n, float *to)
{
    const float *weight = dt__put_data(m, c, B_WEIGHT), *bias = dt__put_data(m, c, B_BIAS);
    const float *factor = dt__put_data(m, c, B_FACTOR), *mean_of = dt__put_data(m, c, B_MEAN);
    const float *var_of = dt__put_data(m, c, B_VAR);
    for (int64_t i = 0; i < n; i++) {
        const double var = dt__float_or(var_of, i, 1), f = dt__float_or(factor, i, 1),
                     mean = dt__float_or(mean_of, i, 0) * f;
        const double rstd = 1 / sqrt((var < 0 ? 0 : var) + dt__trace_number(c, "eps"));
        const double slope = dt__float_or(weight, i, 1) * rstd / f, middle = (double)(float)mean;
        to[i] = (float)middle;
        to[n + i] = (float)slope;
        to[2 * n + i] = (float)(dt__float_or(bias, i, 0) + (middle - mean) * slope);
    }
}

static void put_batch_norm(dt__put_model *m, const dt_trace_call *c)
{
    static const char *const ops[] = { "Sub", "Mul", "Add" };
    dt__put *p = &m->p;
    const dt_trace_value *v = dt__put_operand(m, c, B_X);
    const int64_t n = v->extent[1].size, dims[DT_MAX_RANK] = { n, 1, 1, 1, 1, 1, 1, 1 };
    float *constants = dt__put_memory(p, 3 * n, sizeof *constants);
    if (constants == NULL) return;
    batch_constants(m, c, n, constants);
    dt__value y = dt__put_in(m, c, B_X);
    for (int i = 0; i < 3; i++) {
        const dt__put_array a = { .type = DT__PUT_FLOAT,
                                  .rank = v->rank - 1,
                                  .dims = dims,
                                  .data = constants + i * n,
                                  .lent = true,
                                  .bytes = (size_t)n * sizeof *constants };
        y = DT__PUT(p, ops[i], y, dt__put_tensor(p, &a));
    }
    y = plus(m, c, B_RESIDUAL, y);
    const int64_t activation = dt__trace_integer(c, "activation");
    dt__put_out(m, c, 0,
                activation == DT_ACT_RELU    ? DT__PUT(p, "Relu", y)
                : activation == DT_ACT_RELU6 ? dt__put_relu6(m, y)
                                             : y);
}

/* A number per channel in double, [groups, channels of a group]. */
static dt__value by_group(dt__put_model *m, const dt_trace_call *c, int i, int64_t groups)
{
    dt__value v = DT__PUT(&m->p, "Reshape", dt__put_in(m, c, i), DT__PUT_I64(&m->p, groups, -1));
    return dt__put_cast(&m->p, v, DT__PUT_DOUBLE);
}

/* Casts [N, groups, channels] from double to floats [N, C, 1, ...]. */
static dt__value by_channel(dt__put *p, dt__value v, int rank, int64_t channels)
{
    const int64_t shape[DT_MAX_RANK] = { -1, channels, 1, 1, 1, 1, 1, 1 };
    return DT__PUT(p, "Reshape", dt__put_cast(p, v, DT__PUT_FLOAT), dt__put_i64s(p, rank, shape));
}

static void put_group_norm(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_trace_value *v = dt__put_operand(m, c, 0);
    const int64_t channels = v->extent[1].size, groups = dt__trace_integer(c, "groups");
    int64_t n = channels / groups;
    for (int d = 2; d < v->rank; d++) n *= v->extent[d].size;
    const int64_t last[] = { 2 };
    dt__value x = dt__put_in(m, c, 0);
    dt__value rows = DT__PUT(p, "Reshape", x, DT__PUT_I64(p, -1, groups, n));
    rows = dt__put_cast(p, rows, DT__PUT_DOUBLE);
    dt__value first =
        DT__PUT(p, "Slice", rows, DT__PUT_I64(p, 0), DT__PUT_I64(p, 1), DT__PUT_I64(p, 2));
    dt__value d = DT__PUT(p, "Sub", rows, first);
    dt__value shift = wide_mean(p, d, 1, last, n);
    dt__value var = wide_mean(p, DT__PUT(p, "Mul", d, d), 1, last, n);
    var = DT__PUT(p, "Sub", var, DT__PUT(p, "Mul", shift, shift));
    var = DT__PUT(p, "Max", var, dt__put_f64(p, 0));
    dt__value slope = root(p, var, dt__trace_number(c, "eps")); /* [N, groups, 1] */
    dt__value mean = DT__PUT(p, "Add", first, shift);
    dt__value middle = dt__put_cast(p, dt__put_cast(p, mean, DT__PUT_FLOAT), DT__PUT_DOUBLE);
    dt__value ones = dt__put_f64(p, 1);
    if (dt__trace_has(c, 1)) ones = by_group(m, c, 1, groups);
    else ones = DT__PUT(p, "Expand", ones, DT__PUT_I64(p, groups, channels / groups));
    slope = DT__PUT(p, "Mul", slope, ones);
    dt__value offset = DT__PUT(p, "Mul", DT__PUT(p, "Sub", middle, mean), slope);
    if (dt__trace_has(c, 2)) offset = DT__PUT(p, "Add", offset, by_group(m, c, 2, groups));
    middle = DT__PUT(p, "Expand", middle, DT__PUT_I64(p, 1, groups, channels / groups));
    dt__value y = DT__PUT(p, "Sub", x, by_channel(p, middle, v->rank, channels));
    y = DT__PUT(p, "Mul", y, by_channel(p, slope, v->rank, channels));
    dt__put_out(m, c, 0, DT__PUT(p, "Add", y, by_channel(p, offset, v->rank, channels)));
}

const dt__put_emitter dt__put_norms[] = {
    { "layer_norm", "ReduceSum, Sqrt, Sub, Mul, Add, Cast", NULL, put_layer_norm },
    { "rms_norm", "ReduceSum, Sqrt, Mul, Cast", NULL, put_rms_norm },
    { "batch_norm1d", "Sub, Mul, Add, Relu, Clip", NULL, put_batch_norm },
    { "batch_norm2d", "Sub, Mul, Add, Relu, Clip", NULL, put_batch_norm },
    { "group_norm", "ReduceSum, Sqrt, Sub, Mul, Add, Cast", NULL, put_group_norm },
    { NULL, NULL, NULL, NULL },
};
