/* Sums, maxima, softmax and norms in ONNX. Sums are computed in double and rounded to float once,
 * as in detent. The order of additions differs, which changes the rounded result in fewer than one
 * of 2^20 cases. */
#include "export/onnx/onnx_put_model.h"

#include <math.h>
#include <string.h>

static dt__value reduced(dt__put *p, const char *op, dt__value x, const dt_ints *axes, bool keep)
{
    dt__value y = DT__PUT(p, op, x, dt__put_i64s(p, axes->n, axes->v));
    if (y != NULL) dt__put_attr_int(p, "keepdims", keep);
    return y;
}

/* A sum over axes in double; the mean: divided by the number of elements. */
static dt__value wide_sum(dt__put *p, dt__value x, const dt_ints *axes, bool keep, int64_t divisor)
{
    dt__value y = reduced(p, "ReduceSum", dt__put_cast(p, x, DT__PUT_DOUBLE), axes, keep);
    return divisor == 1 ? y : DT__PUT(p, "Div", y, dt__put_f64(p, (double)divisor));
}

static bool is_symbolic(dt_extent e) { return e.batch != 0 || e.length != 0; }

/* The axes in an option (an empty list: all), and their number of elements; 0: it depends on the
 * batch or length. */
static dt_ints axes_of(const dt_trace_value *x, const dt_ints *dims, int64_t *elements)
{
    dt_ints axes = { 0 };
    *elements = 1;
    for (int i = 0; i < (dims->n == 0 ? x->rank : dims->n); i++) {
        const int d = dims->n == 0 ? i : dt__put_dim(x, dims->v[i]);
        axes.v[axes.n++] = d;
        *elements = is_symbolic(x->extent[d]) ? 0 : *elements * x->extent[d].size;
    }
    return axes;
}

static void put_sum(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    int64_t elements;
    const dt_ints axes = axes_of(dt__put_operand(m, c, 0), dt__trace_list(c, "dims"), &elements);
    const bool keep = dt__trace_integer(c, "keepdim") != 0, mean = strcmp(c->op->name, "mean") == 0;
    dt__value x = dt__put_in(m, c, 0), y;
    if (mean && elements == 0) {
        y = reduced(p, "ReduceMean", dt__put_cast(p, x, DT__PUT_DOUBLE), &axes, keep);
    } else {
        y = wide_sum(p, x, &axes, keep, mean ? elements : 1);
    }
    dt__put_out(m, c, 0, dt__put_cast(p, y, DT__PUT_FLOAT));
}

static void put_max(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    const dt_ints axes = { 1, { dt__put_dim(x, dt__trace_integer(c, "dim")) } };
    const bool keep = dt__trace_integer(c, "keepdim") != 0;
    dt__value v = dt__put_in(m, c, 0);
    if (c->out[0] >= 0) dt__put_out(m, c, 0, reduced(&m->p, "ReduceMax", v, &axes, keep));
    if (c->n_out < 2 || c->out[1] < 0) return;
    dt__value at = DT__PUT(&m->p, "ArgMax", v);
    if (at != NULL) {
        dt__put_attr_int(&m->p, "axis", axes.v[0]);
        dt__put_attr_int(&m->p, "keepdims", keep);
    }
    dt__put_out(m, c, 1, dt__put_cast(&m->p, at, DT__PUT_INT32));
}

static void put_softmax(dt__put_model *m, const dt_trace_call *c)
{
    const bool log = strcmp(c->op->name, "log_softmax") == 0;
    m->near = true;
    dt__value y = DT__PUT(&m->p, log ? "LogSoftmax" : "Softmax", dt__put_in(m, c, 0));
    const int dim = dt__put_dim(dt__put_operand(m, c, 0), dt__trace_integer(c, "dim"));
    if (y != NULL) dt__put_attr_int(&m->p, "axis", dim);
    dt__put_out(m, c, 0, y);
}

static void put_global_avg(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    dt_ints axes = { 0 };
    int64_t pixels = 1;
    for (int d = 2; d < x->rank; d++) {
        axes.v[axes.n++] = d;
        pixels *= x->extent[d].size;
    }
    dt__value y = wide_sum(&m->p, dt__put_in(m, c, 0), &axes, true, pixels);
    dt__put_out(m, c, 0, dt__put_cast(&m->p, y, DT__PUT_FLOAT));
}

/* Adaptive pooling of one dimension: sums in double over floor(i in / n) ... ceil((i + 1) in / n) -
 * 1. */
static dt__value bin_sums(dt__put_model *m, dt__value x, int dim, int64_t in, int64_t n)
{
    dt__put *p = &m->p;
    const dt_ints axes = { 1, { dim } };
    dt__value *bin = dt__put_memory(p, n, sizeof *bin);
    for (int64_t i = 0; i < n && !p->failed; i++) {
        const int64_t from = i * in / n, to = dt__ceil_div((i + 1) * in, n);
        dt__value part =
            DT__PUT(p, "Slice", x, DT__PUT_I64(p, from), DT__PUT_I64(p, to), DT__PUT_I64(p, dim));
        bin[i] = reduced(p, "ReduceSum", part, &axes, true);
    }
    if (p->failed) return NULL;
    dt__value y = dt__put_node(p, "Concat", bin, (int)n);
    if (y != NULL) dt__put_attr_int(p, "axis", dim);
    return y;
}

static void put_adaptive_avg(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    const dt_trace_value *y = dt_trace_value_at(m->trace, c->out[0]);
    dt__value v = dt__put_cast(p, dt__put_in(m, c, 0), DT__PUT_DOUBLE);
    int64_t dims[2] = { 1, 1 }, in[2] = { 1, 1 };
    const int axes = x->rank - 2;
    for (int d = x->rank - 1; d >= 2; d--) {
        in[2 - axes + d - 2] = x->extent[d].size;
        dims[2 - axes + d - 2] = y->extent[d].size;
        v = bin_sums(m, v, d, x->extent[d].size, y->extent[d].size);
    }
    double *count = dt__put_memory(p, dims[0] * dims[1], sizeof *count);
    if (count == NULL) return;
    for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
        const int64_t r = i / dims[1], s = i % dims[1];
        const int64_t rows = dt__ceil_div((r + 1) * in[0], dims[0]) - r * in[0] / dims[0];
        const int64_t columns = dt__ceil_div((s + 1) * in[1], dims[1]) - s * in[1] / dims[1];
        count[i] = (double)(rows * columns);
    }
    const dt__put_array a = { .type = DT__PUT_DOUBLE,
                              .rank = axes,
                              .dims = dims + 2 - axes,
                              .data = count,
                              .lent = true,
                              .bytes = (size_t)(dims[0] * dims[1]) * sizeof *count };
    v = DT__PUT(p, "Div", v, dt__put_tensor(p, &a));
    dt__put_out(m, c, 0, dt__put_cast(p, v, DT__PUT_FLOAT));
}

const dt__put_emitter dt__put_sums[] = {
    { "sum", "ReduceSum, Cast", NULL, put_sum },
    { "mean", "ReduceSum, Div, Cast; ReduceMean", NULL, put_sum },
    { "max", "ReduceMax, ArgMax", NULL, put_max },
    { "softmax", "Softmax", NULL, put_softmax },
    { "log_softmax", "LogSoftmax", NULL, put_softmax },
    { "global_avg_pool2d", "ReduceSum, Div, Cast", NULL, put_global_avg },
    { "global_avg_pool1d", "ReduceSum, Div, Cast", NULL, put_global_avg },
    { "adaptive_avg_pool2d", "Slice, ReduceSum, Concat, Div, Cast", NULL, put_adaptive_avg },
    { "adaptive_avg_pool1d", "Slice, ReduceSum, Concat, Div, Cast", NULL, put_adaptive_avg },
    { NULL, NULL, NULL, NULL },
};
