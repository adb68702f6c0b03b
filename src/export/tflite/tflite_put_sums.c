/* Sums, maxima and softmax in TFLite. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"
#include "export/trace/trace.h"

#include <string.h>

/* Axes of operand 0 in the trace; an empty list: all. */
static dt_ints axes_of(const dt_trace_value *x, const dt_ints *dims)
{
    dt_ints axes = { .n = dims->n == 0 ? x->rank : dims->n };
    for (int i = 0; i < axes.n; i++)
        axes.v[i] = dims->n == 0 ? i : dt__trace_axis(dims->v[i], x->rank);
    return axes;
}

/* Whether the axes are all spatial dimensions of an image. */
static bool is_of_pixels(const dt_trace_value *x, const dt_ints *axes)
{
    bool gone[DT_MAX_RANK] = { false };
    for (int i = 0; i < axes->n; i++) gone[axes->v[i]] = true;
    bool pixels = !gone[0] && !gone[1];
    for (int d = 2; d < x->rank; d++) pixels = pixels && gone[d];
    return pixels;
}

static void reduce(dt__lite_model *m, const dt_trace_call *c, dt__lite_operator op,
                   const dt_ints *axes, bool keep)
{
    const dt_trace_value *x = dt__lite_operand(m, c, 0);
    if (dt__lite_is_last(m, c, 0) && is_of_pixels(x, axes)) {
        const dt_ints pixels = { 2, { 1, 2 } };
        const int y = dt__lite_reduced(m, op, dt__lite_last(m, c, 0), &pixels, keep);
        dt__lite_out(m, c, 0, y, keep ? DT__LITE_LAST : DT__LITE_PLAIN);
        return;
    }
    const int y = dt__lite_reduced(m, op, dt__lite_plain(m, c, 0), axes, keep);
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

static void put_sum(dt__lite_model *m, const dt_trace_call *c)
{
    const bool keep = dt__trace_integer(c, "keepdim") != 0;
    const bool mean = strstr(c->op->name, "mean") != NULL; /* also supports codes */
    const dt_ints axes = axes_of(dt__lite_operand(m, c, 0), dt__trace_list(c, "dims"));
    reduce(m, c, mean ? DT__LITE_MEAN : DT__LITE_SUM, &axes, keep);
}

static void put_max(dt__lite_model *m, const dt_trace_call *c)
{
    const int rank = dt__lite_operand(m, c, 0)->rank;
    const dt_ints axes = { 1, { dt__trace_axis(dt__trace_integer(c, "dim"), rank) } };
    reduce(m, c, DT__LITE_REDUCE_MAX, &axes, dt__trace_integer(c, "keepdim") != 0);
}

/* TFLite's softmax is over the last dimension; channels are the last of an image. */
static void put_softmax(dt__lite_model *m, const dt_trace_call *c)
{
    const bool log = strcmp(c->op->name, "log_softmax") == 0;
    const int rank = dt__lite_operand(m, c, 0)->rank;
    const int d = dt__trace_axis(dt__trace_integer(c, "dim"), rank);
    const bool last = dt__lite_is_last(m, c, 0) && d == 1;
    int x = last ? dt__lite_last(m, c, 0) : dt__lite_plain(m, c, 0);
    int64_t order[DT_MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = i;
    order[d] = rank - 1;
    order[rank - 1] = d;
    const bool turned = !last && d != rank - 1;
    if (turned) x = dt__lite_transposed(m, x, rank, order);
    int y = dt__lite_map(m, log ? DT__LITE_LOG_SOFTMAX : DT__LITE_SOFTMAX, x);
    if (!log) dt__lite_option_float(&m->p, 0, 1);
    if (turned) y = dt__lite_transposed(m, y, rank, order);
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

const dt__lite_emitter dt__lite_sums[] = {
    { "sum", "SUM", false, NULL, put_sum },
    { "mean", "MEAN", false, NULL, put_sum },
    { "max", "REDUCE_MAX", false, dt__trace_takes_values, put_max },
    { "softmax", "SOFTMAX", false, NULL, put_softmax },
    { "log_softmax", "LOG_SOFTMAX", false, NULL, put_softmax },
    { NULL, NULL, false, NULL, NULL },
};
