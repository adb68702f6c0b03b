/* Pools of TFLite, channels last. TFLite's SAME does not count pixels outside of the image; it is
 * used if it means the same pixels. Otherwise a PAD comes first, and a float average that counts
 * other pixels than a whole window is multiplied by a correction. For codes, windows that reach
 * past the image become separate pools over the part inside. Dilated windows become maxima of
 * slices. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"
#include "export/trace/trace.h"

#include <math.h>

/* Windows of an image; a signal is an image with one row. */
typedef struct windows {
    int64_t kernel[2], stride[2], before[2], after[2], in[2], out[2], dilation[2];
    bool counts_padding;
} windows;

static windows windows_of(const dt__lite_model *m, const dt_trace_call *c)
{
    const dt_pool_options *o = c->options;
    const dt_trace_value *x = dt__lite_operand(m, c, 0), *y = dt__lite_result_of(m, c);
    windows w = { .counts_padding = o->count_include_pad };
    for (int d = 0; d < 2; d++) {
        const int own = d - (4 - x->rank);
        const bool is = own >= 0;
        w.kernel[d] = is ? o->kernel[own] : 1;
        w.stride[d] = !is ? 1 : o->stride[own] == 0 ? o->kernel[own] : o->stride[own];
        w.before[d] = is ? o->padding[own] : 0;
        w.dilation[d] = is ? dt__max_i64(1, o->dilation[own]) : 1;
        w.in[d] = is ? x->extent[2 + own].size : 1;
        w.out[d] = is ? y->extent[2 + own].size : 1;
        const int64_t end = (w.out[d] - 1) * w.stride[d] + w.dilation[d] * (w.kernel[d] - 1) + 1;
        w.after[d] = dt__max_i64(0, end - w.in[d] - w.before[d]);
    }
    return w;
}

/* Whether SAME gives these windows. */
static bool is_same(const windows *w)
{
    bool same = true;
    for (int d = 0; d < 2; d++) {
        const int64_t all = (w->out[d] - 1) * w->stride[d] + w->kernel[d] - w->in[d];
        same = same && w->out[d] == dt__ceil_div(w->in[d], w->stride[d]) &&
               dt__max_i64(0, all) / 2 == w->before[d];
    }
    return same;
}

/* Pads x by the windows' padding. */
static int padded(dt__lite_model *m, const windows *w, int x, float outside)
{
    const int64_t before[DT__LITE_RANK] = { 0, w->before[0], w->before[1], 0 };
    const int64_t after[DT__LITE_RANK] = { 0, w->after[0], w->after[1], 0 };
    return dt__lite_padded(m, x, before, after, outside);
}

static int pool(dt__lite_model *m, dt__lite_operator op, const windows *w, int x, float outside)
{
    dt__lite *p = &m->p;
    dt__lite_shape s = dt__lite_shape_of(p, x);
    const bool valid = w->before[0] + w->before[1] + w->after[0] + w->after[1] == 0;
    const bool same = !valid && is_same(w) && (op == DT__LITE_MAX_POOL_2D || !w->counts_padding);
    if (!valid && !same) {
        x = padded(m, w, x, outside);
    }
    s.dims[1] = w->out[0];
    s.dims[2] = w->out[1];
    const int y = dt__lite_node(p, op, &x, 1, &s);
    dt__lite_option(p, 0, DT__FLAT_BYTE, same ? DT__LITE_SAME : DT__LITE_VALID);
    dt__lite_option(p, 1, DT__FLAT_INT, w->stride[1]);
    dt__lite_option(p, 2, DT__FLAT_INT, w->stride[0]);
    dt__lite_option(p, 3, DT__FLAT_INT, w->kernel[1]);
    dt__lite_option(p, 4, DT__FLAT_INT, w->kernel[0]);
    dt__lite_option(p, 5, DT__FLAT_BYTE, DT__LITE_NONE);
    return y;
}

/* Maxima of dilated windows: of slices, one per row of a window, then one per column. */
static int max_of_slices(dt__lite_model *m, const windows *w, int x)
{
    x = padded(m, w, x, -INFINITY);
    for (int d = 0; d < 2; d++) {
        int y = -1;
        for (int64_t k = 0; k < w->kernel[d] && !m->p.failed; k++) {
            dt__lite_slice cut = dt__lite_whole(m, x);
            cut.start[1 + d] = k * w->dilation[d];
            cut.stop[1 + d] = cut.start[1 + d] + (w->out[d] - 1) * w->stride[d] + 1;
            cut.step[1 + d] = w->stride[d];
            const int part = dt__lite_sliced(m, x, &cut);
            y = k == 0 ? part : dt__lite_with(m, DT__LITE_MAXIMUM, y, part);
        }
        x = y;
    }
    return x;
}

static void put_max_pool(dt__lite_model *m, const dt_trace_call *c)
{
    const windows w = windows_of(m, c);
    const bool gaps =
        (w.kernel[0] > 1 && w.dilation[0] > 1) || (w.kernel[1] > 1 && w.dilation[1] > 1);
    const int x = dt__lite_last(m, c, 0);
    const int y = gaps ? max_of_slices(m, &w, x) : pool(m, DT__LITE_MAX_POOL_2D, &w, x, -INFINITY);
    dt__lite_out(m, c, 0, y, DT__LITE_LAST);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* Number of pixels that window i counts. */
static int64_t counted(const windows *w, int d, int64_t i, int64_t padding)
{
    const int64_t margin = w->counts_padding ? padding : 0, from = i * w->stride[d] - padding;
    return dt__min_i64(from + w->kernel[d], w->in[d] + margin) - dt__max_i64(from, -margin);
}

/* (pixels per window) / (counted pixels), [1, rows, columns, 1]; -1: 1 everywhere. */
static int correction(dt__lite_model *m, const windows *w)
{
    const int64_t n = w->out[0] * w->out[1];
    float *to = dt__lite_memory(&m->p, n, sizeof *to);
    bool needed = false;
    for (int64_t i = 0; i < n && to != NULL; i++) {
        const int64_t rows = counted(w, 0, i / w->out[1], w->before[0]);
        const int64_t columns = counted(w, 1, i % w->out[1], w->before[1]);
        to[i] = (float)((double)(w->kernel[0] * w->kernel[1]) / (double)(rows * columns));
        needed = needed || to[i] != 1;
    }
    if (!needed) return -1;
    return dt__lite_constant(&m->p,
                             &(dt__lite_array){ .type = DT__LITE_FLOAT32,
                                                .shape = { 4, { 1, w->out[0], w->out[1], 1 } },
                                                .data = to,
                                                .bytes = (size_t)n * sizeof *to,
                                                .lent = true });
}

/* Restricts to windows from ... past - 1 along dimension d; either all are inside of the image, or
 * it is one window, which is cropped to the part inside. */
static void cut_windows(windows *w, int d, int64_t from, int64_t past, int64_t place[2])
{
    const int64_t first = from * w->stride[d] - w->before[d];
    const int64_t last = (past - 1) * w->stride[d] - w->before[d] + w->kernel[d];
    place[0] = dt__max_i64(0, first);
    place[1] = dt__min_i64(w->in[d], last);
    if (past == from + 1) w->kernel[d] = w->stride[d] = place[1] - place[0];
    w->in[d] = place[1] - place[0];
    w->out[d] = past - from;
    w->before[d] = w->after[d] = 0;
}

/* The end of the run of windows inside of the image that begins with `from`; if `from` is not
 * inside, from + 1. */
static int64_t run_of(const windows *w, int d, int64_t from)
{
    int64_t i = from;
    for (; i < w->out[d]; i++) {
        const int64_t first = i * w->stride[d] - w->before[d];
        if (first < 0 || first + w->kernel[d] > w->in[d]) break;
    }
    return dt__max_i64(i, from + 1);
}

/* Means along dimension d and later ones, by joining pools without padding. */
static int means_of_parts(dt__lite_model *m, const windows *w, int x, int d)
{
    if (d == 2) return pool(m, DT__LITE_AVERAGE_POOL_2D, w, x, 0);
    int *part = dt__lite_memory(&m->p, w->out[d], sizeof *part), n = 0;
    for (int64_t i = 0, end; i < w->out[d] && part != NULL && !m->p.failed; i = end) {
        windows own = *w;
        int64_t place[2];
        dt__lite_slice cut = dt__lite_whole(m, x);
        end = run_of(w, d, i);
        cut_windows(&own, d, i, end, place);
        cut.start[1 + d] = place[0];
        cut.stop[1 + d] = place[1];
        part[n++] = means_of_parts(m, &own, dt__lite_sliced(m, x, &cut), d + 1);
    }
    return part == NULL || m->p.failed ? -1 : dt__lite_joined(m, part, n, 1 + d);
}

/* The mean of codes: counted padding has the zero point as its code, as results cannot be corrected
 * by a constant. */
static int coded_means(dt__lite_model *m, windows w, int x)
{
    for (int d = 0; d < 2; d++) {
        if (w.counts_padding) w.after[d] = w.before[d];
    }
    if (w.counts_padding) x = padded(m, &w, x, 0);
    for (int d = 0; d < 2 && w.counts_padding; d++) {
        w.in[d] += w.before[d] + w.after[d];
        w.before[d] = 0;
        w.after[d] = dt__max_i64(0, (w.out[d] - 1) * w.stride[d] + w.kernel[d] - w.in[d]);
    }
    w.counts_padding = false;
    const bool valid = w.before[0] + w.before[1] + w.after[0] + w.after[1] == 0;
    return valid || is_same(&w) ? pool(m, DT__LITE_AVERAGE_POOL_2D, &w, x, 0)
                                : means_of_parts(m, &w, x, 0);
}

static void put_avg_pool(dt__lite_model *m, const dt_trace_call *c)
{
    const windows w = windows_of(m, c);
    if (dt__lite_is_device(c)) {
        dt__lite_out(m, c, 0, coded_means(m, w, dt__lite_last(m, c, 0)), DT__LITE_LAST);
        return;
    }
    int y = pool(m, DT__LITE_AVERAGE_POOL_2D, &w, dt__lite_last(m, c, 0), 0);
    const int factor = is_same(&w) && !w.counts_padding ? -1 : correction(m, &w);
    if (factor >= 0) y = dt__lite_with(m, DT__LITE_MUL, y, factor);
    dt__lite_out(m, c, 0, y, DT__LITE_LAST);
}

static void put_global_avg(dt__lite_model *m, const dt_trace_call *c)
{
    const dt_ints axes = { 2, { 1, 2 } };
    const int x = dt__lite_last(m, c, 0);
    dt__lite_out(m, c, 0, dt__lite_reduced(m, DT__LITE_MEAN, x, &axes, true), DT__LITE_LAST);
}

/* Adaptive pooling of one dimension: means over floor(i in / n) ... ceil((i + 1) in / n) - 1,
 * joined. */
static int bin_means(dt__lite_model *m, int x, int axis, int64_t n)
{
    const int64_t in = dt__lite_shape_of(&m->p, x).dims[axis];
    const dt_ints axes = { 1, { axis } };
    int *bin = dt__lite_memory(&m->p, n, sizeof *bin);
    for (int64_t i = 0; i < n && bin != NULL; i++) {
        dt__lite_slice cut = dt__lite_whole(m, x);
        cut.start[axis] = i * in / n;
        cut.stop[axis] = dt__ceil_div((i + 1) * in, n);
        bin[i] = dt__lite_reduced(m, DT__LITE_MEAN, dt__lite_sliced(m, x, &cut), &axes, true);
    }
    return bin == NULL ? -1 : dt__lite_joined(m, bin, (int)n, axis);
}

static void put_adaptive_avg(dt__lite_model *m, const dt_trace_call *c)
{
    const dt__lite_shape to = dt__lite_last_shape(dt__lite_result_of(m, c));
    int x = dt__lite_last(m, c, 0);
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    if (from.rank == 4 && from.dims[1] % to.dims[1] == 0 && from.dims[2] % to.dims[2] == 0) {
        windows w = { .counts_padding = false };
        for (int d = 0; d < 2; d++) {
            w.in[d] = from.dims[1 + d];
            w.out[d] = to.dims[1 + d];
            w.kernel[d] = w.stride[d] = w.in[d] / w.out[d];
        }
        x = pool(m, DT__LITE_AVERAGE_POOL_2D, &w, x, 0);
    } else {
        for (int d = 1; d <= 2; d++) x = bin_means(m, x, d, to.dims[d]);
    }
    dt__lite_out(m, c, 0, x, DT__LITE_LAST);
}

/* Pixel i of n is pixel floor(i in / n): by an operator if one extent is a multiple of the
 * other. */
static void put_upsample(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite *p = &m->p;
    const dt__lite_shape to = dt__lite_last_shape(dt__lite_result_of(m, c));
    int x = dt__lite_last(m, c, 0);
    dt__lite_shape s = dt__lite_shape_of(p, x);
    if (s.rank == 4 && to.dims[1] % s.dims[1] == 0 && to.dims[2] % s.dims[2] == 0) {
        x = DT__LITE(p, RESIZE_NEAREST_NEIGHBOR, &to, x, dt__lite_ints(p, 0, 2, to.dims + 1));
        dt__lite_option(p, 0, DT__FLAT_BYTE, 0);
        dt__lite_option(p, 1, DT__FLAT_BYTE, 0);
        dt__lite_out(m, c, 0, x, DT__LITE_LAST);
        return;
    }
    for (int d = 1; d <= 2; d++) {
        const int64_t in = s.dims[d], n = to.dims[d];
        int32_t *index = dt__lite_memory(p, n, sizeof *index);
        for (int64_t i = 0; i < n && index != NULL; i++) index[i] = (int32_t)(i * in / n);
        if (index == NULL) return;
        s.dims[d] = n;
        const int at = dt__lite_constant(p, &(dt__lite_array){ .type = DT__LITE_INT32,
                                                               .shape = { 1, { n } },
                                                               .data = index,
                                                               .bytes = (size_t)n * sizeof *index,
                                                               .lent = true });
        x = DT__LITE(p, GATHER, &s, x, at);
        dt__lite_option(p, 0, DT__FLAT_INT, d);
    }
    dt__lite_out(m, c, 0, x, DT__LITE_LAST);
}

const dt__lite_emitter dt__lite_pools[] = {
    { "max_pool2d", "MAX_POOL_2D, PADV2", true, dt__trace_takes_values, put_max_pool },
    { "max_pool1d", "MAX_POOL_2D, PADV2", true, dt__trace_takes_values, put_max_pool },
    { "avg_pool2d", "AVERAGE_POOL_2D, PAD, MUL", true, NULL, put_avg_pool },
    { "avg_pool1d", "AVERAGE_POOL_2D, PAD, MUL", true, NULL, put_avg_pool },
    { "global_avg_pool2d", "MEAN", true, NULL, put_global_avg },
    { "global_avg_pool1d", "MEAN", true, NULL, put_global_avg },
    { "adaptive_avg_pool2d", "AVERAGE_POOL_2D; STRIDED_SLICE, MEAN, CONCATENATION", true, NULL,
      put_adaptive_avg },
    { "adaptive_avg_pool1d", "AVERAGE_POOL_2D; STRIDED_SLICE, MEAN, CONCATENATION", true, NULL,
      put_adaptive_avg },
    { "upsample_nearest", "RESIZE_NEAREST_NEIGHBOR; GATHER", true, NULL, put_upsample },
    { "upsample_nearest1d", "RESIZE_NEAREST_NEIGHBOR; GATHER", true, NULL, put_upsample },
    { NULL, NULL, false, NULL, NULL },
};
