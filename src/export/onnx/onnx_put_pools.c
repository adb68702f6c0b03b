/* Pooling in ONNX: MaxPool, and averages as sums in detent's order, pixel by pixel of a window, so
 * that the bits are the same. Padding includes all rows and columns that windows reach, so
 * ceil_mode is not needed. */
#include "export/onnx/onnx_put_model.h"
#include "export/trace/trace.h"

#include <math.h>

/* Windows of 1 or 2 dimensions. */
typedef struct windows {
    int n;
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2], in[2], out[2];
} windows;

static windows windows_of(const dt__put_model *m, const dt_trace_call *c)
{
    const dt_pool_options *o = c->options;
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    const dt_trace_value *y = dt_trace_value_at(m->trace, c->out[0]);
    windows w = { .n = x->rank - 2 };
    for (int d = 0; d < w.n; d++) {
        w.kernel[d] = o->kernel[d];
        w.stride[d] = o->stride[d] == 0 ? o->kernel[d] : o->stride[d];
        w.dilation[d] = o->dilation[d] == 0 ? 1 : o->dilation[d];
        w.before[d] = o->padding[d];
        w.in[d] = x->extent[2 + d].size;
        w.out[d] = y->extent[2 + d].size;
        const int64_t window = w.dilation[d] * (w.kernel[d] - 1) + 1;
        const int64_t end = (w.out[d] - 1) * w.stride[d] + window;
        w.after[d] = dt__max_i64(0, end - w.in[d] - w.before[d]);
    }
    return w;
}

static dt__value padded(dt__put *p, dt__value x, const windows *w, float value)
{
    int64_t pads[8] = { 0 };
    bool any = false;
    for (int d = 0; d < w->n; d++) {
        pads[2 + d] = w->before[d];
        pads[2 + w->n + 2 + d] = w->after[d];
        any = any || w->before[d] > 0 || w->after[d] > 0;
    }
    if (!any) return x;
    return DT__PUT(p, "Pad", x, dt__put_i64s(p, 2 * (2 + w->n), pads), dt__put_f32(p, value));
}

static void put_max_pool(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const windows w = windows_of(m, c);
    dt__value x = padded(p, dt__put_in(m, c, 0), &w, -INFINITY);
    dt__value y = DT__PUT(p, "MaxPool", x);
    if (y == NULL) return;
    dt__put_attr_ints(p, "kernel_shape", w.n, w.kernel);
    dt__put_attr_ints(p, "strides", w.n, w.stride);
    dt__put_attr_ints(p, "dilations", w.n, w.dilation);
    dt__put_out(m, c, 0, y);
}

/* The pixels at one position of all windows. */
static dt__value pixels_at(dt__put *p, dt__value x, const windows *w, const int64_t place[2])
{
    int64_t start[2], stop[2], axes[2] = { 2, 3 };
    for (int d = 0; d < w->n; d++) {
        start[d] = place[d];
        stop[d] = place[d] + (w->out[d] - 1) * w->stride[d] + 1;
    }
    return DT__PUT(p, "Slice", x, dt__put_i64s(p, w->n, start), dt__put_i64s(p, w->n, stop),
                   dt__put_i64s(p, w->n, axes), dt__put_i64s(p, w->n, w->stride));
}

/* Number of pixels that window i averages. */
static int64_t counted(const windows *w, const dt_pool_options *o, int d, int64_t i)
{
    if (d >= w->n) return 1;
    const int64_t margin = o->count_include_pad ? w->before[d] : 0;
    const int64_t from = i * w->stride[d] - w->before[d];
    return dt__min_i64(from + w->kernel[d], w->in[d] + margin) - dt__max_i64(from, -margin);
}

static dt__value counts(dt__put *p, const windows *w, const dt_pool_options *o)
{
    const int64_t rows = w->out[0], columns = w->n > 1 ? w->out[1] : 1, n = rows * columns;
    float *count = dt__put_memory(p, n, sizeof *count);
    if (count == NULL) return NULL;
    bool same = true;
    for (int64_t i = 0; i < n; i++) {
        count[i] = (float)(counted(w, o, 0, i / columns) * counted(w, o, 1, i % columns));
        same = same && count[i] == count[0];
    }
    if (same && n > 0) return dt__put_f32(p, count[0]);
    return dt__put_tensor(p, &(dt__put_array){ .type = DT__PUT_FLOAT,
                                               .rank = w->n,
                                               .dims = w->out,
                                               .data = count,
                                               .bytes = (size_t)n * sizeof *count,
                                               .lent = true });
}

static void put_avg_pool(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const windows w = windows_of(m, c);
    const int64_t columns = w.n > 1 ? w.kernel[1] : 1;
    dt__value x = padded(p, dt__put_in(m, c, 0), &w, 0), sum = NULL;
    for (int64_t i = 0; i < w.kernel[0] * columns; i++) {
        dt__value part = pixels_at(p, x, &w, (const int64_t[]){ i / columns, i % columns });
        sum = i == 0 ? part : DT__PUT(p, "Add", sum, part);
    }
    dt__put_out(m, c, 0, DT__PUT(p, "Div", sum, counts(p, &w, c->options)));
}

const dt__put_emitter dt__put_pools[] = {
    { "max_pool2d", "Pad, MaxPool", dt__trace_takes_values, put_max_pool },
    { "max_pool1d", "Pad, MaxPool", dt__trace_takes_values, put_max_pool },
    { "avg_pool2d", "Pad, Slice, Add, Div", NULL, put_avg_pool },
    { "avg_pool1d", "Pad, Slice, Add, Div", NULL, put_avg_pool },
    { NULL, NULL, NULL, NULL },
};
