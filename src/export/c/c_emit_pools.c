/* Format c: pools, sums, means and maxima. */
#include "export/c/c_emit.h"
#include "export/c/c_views.h"

#include "kernels/kernels.h"
#include "kernels/loops.h"
#include "export/trace/trace.h"

#include <stdio.h>
#include <string.h>

typedef struct windows {
    int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
} windows;

static int64_t or_else(int64_t v, int64_t other) { return v != 0 ? v : other; }

static windows windows_of(const dt__c_program *p, const dt_trace_call *c, bool dilated)
{
    const int64_t x = c->in[0].value, y = c->out[0];
    const bool lines = dt__c_rank(p, x) == 3;
    windows w = { .in = { 1 }, .out = { 1 }, .kernel = { 1 }, .stride = { 1 }, .dilation = { 1 } };
    for (int d = lines ? 1 : 0; d < 2; d++) {
        const int i = lines ? 0 : d;
        w.in[d] = dt__c_dim(p, x, 2 + i);
        w.out[d] = dt__c_dim(p, y, 2 + i);
        w.kernel[d] = dt__c_int(c, "kernel", i);
        w.stride[d] = or_else(dt__c_int(c, "stride", i), w.kernel[d]);
        w.padding[d] = dt__c_int(c, "padding", i);
        w.dilation[d] = dilated ? or_else(dt__c_int(c, "dilation", i), 1) : 1;
    }
    return w;
}

static void put_windows(dt__c_program *p, const dt_trace_call *c, const windows *w)
{
    dt__c_want(p, "pool_shape");
    dt__c_line(p, "/* planes, in, out; kernel, stride; padding, dilation */");
    dt__c_line(p,
               "static const pool_shape windows = { %lld, %lld, %lld, %lld, %lld, %lld, %lld, "
               "%lld, %lld, %lld, %lld, %lld, %lld };",
               (long long)dt__c_dim(p, c->in[0].value, 1), (long long)w->in[0], (long long)w->in[1],
               (long long)w->out[0], (long long)w->out[1], (long long)w->kernel[0],
               (long long)w->kernel[1], (long long)w->stride[0], (long long)w->stride[1],
               (long long)w->padding[0], (long long)w->padding[1], (long long)w->dilation[0],
               (long long)w->dilation[1]);
}

static void emit_max_pool(dt__c_program *p, const dt_trace_call *c)
{
    const windows w = windows_of(p, c, true);
    const dt__c_name x = dt__c_in(p, c, 0);
    dt__c_want(p, "pool_max");
    dt__c_line(p, "{");
    put_windows(p, c, &w);
    dt__c_line(p, "max_pool(&windows, %s, %s);", x.text, dt__c_out(p, c, 0).text);
    dt__c_line(p, "}");
}

/* 2 x 2 windows with stride 2: detent adds their pixels without an initial zero, which matters if
 * all are -0. */
static bool is_quarter(const windows *w)
{
    bool is = true;
    for (int d = 0; d < 2; d++) {
        is = is && w->kernel[d] == 2 && w->stride[d] == 2 && w->padding[d] == 0 &&
             2 * w->out[d] <= w->in[d];
    }
    return is;
}

static void emit_avg_pool(dt__c_program *p, const dt_trace_call *c)
{
    const windows w = windows_of(p, c, false);
    const dt__c_name x = dt__c_in(p, c, 0);
    dt__c_want(p, "pool_average");
    dt__c_line(p, "{");
    put_windows(p, c, &w);
    dt__c_line(p, "average_pool(&windows, %s, %s, %d, %s);", x.text,
               is_quarter(&w) ? "-0.0f" : "0.0f", dt__c_flag(c, "count_include_pad"),
               dt__c_out(p, c, 0).text);
    dt__c_line(p, "}");
}

static void emit_adaptive(dt__c_program *p, const dt_trace_call *c)
{
    dt__c_want(p, "pool_adaptive");
    dt__c_resize(p, c, "adaptive_pool");
}

/* The dimensions, innermost first, after one of `line` elements unless that is 1. */
static dt__axes inwards(const dt__axes *of, int64_t line)
{
    dt__axes a = { .dims = { line }, .strides = { 1 }, .rank = line != 1 };
    for (int d = of->rank - 1; d >= 0; d--) {
        a.dims[a.rank] = of->dims[d];
        a.strides[a.rank++] = of->strides[d];
    }
    return a;
}

/* Opens nested loops, outermost first; the list of dimensions begins with the innermost. */
static void open_loops(dt__c_program *p, char index, int n, const int64_t *dims)
{
    for (int d = n - 1; d >= 0; d--) {
        dt__c_line(p, "for (int32_t %c%d = 0; %c%d < %lld; %c%d++) {", index, d, index, d,
                   (long long)dims[d], index, d);
    }
}

static size_t add_offsets(char *to, size_t used, size_t size, char index, int n,
                          const int64_t *strides)
{
    for (int d = n - 1; d >= 0; d--) {
        used += (size_t)snprintf(to + used, size - used, " + %c%d * %lld", index, d,
                                 (long long)strides[d]);
    }
    return used;
}

static void put_sum(dt__c_program *p, const dt_trace_call *c, const bool *over, bool mean)
{
    dt__reduce all = { .rank = dt__c_rank(p, c->in[0].value) };
    for (int d = 0; d < all.rank; d++) all.dims[d] = dt__c_dim(p, c->in[0].value, d);
    memcpy(all.over, over, (size_t)all.rank * sizeof *over);
    const dt__reduction r = dt__reduction_of(&all);
    const dt__axes kept = inwards(&r.kept, r.over_last ? 1 : r.line), sum = inwards(&r.over, 1);
    const int64_t count = r.over.count * (r.over_last ? r.line : 1);
    const dt__c_name x = dt__c_in(p, c, 0), y = dt__c_out(p, c, 0);
    char at[192], to[192];
    int64_t strides[DT_MAX_RANK], step = 1;
    for (int d = 0; d < kept.rank; d++) {
        strides[d] = step;
        step *= kept.dims[d];
    }
    size_t used = (size_t)snprintf(at, sizeof at, "%s", x.text);
    used = add_offsets(at, used, sizeof at, 'i', kept.rank, kept.strides);
    add_offsets(at, used, sizeof at, 'j', sum.rank, sum.strides);
    used = (size_t)snprintf(to, sizeof to, "%s", y.text);
    add_offsets(to, used, sizeof to, 'i', kept.rank, strides);
    open_loops(p, 'i', kept.rank, kept.dims);
    dt__c_line(p, "{");
    dt__c_line(p, "double total = 0;");
    open_loops(p, 'j', sum.rank, sum.dims);
    if (r.over_last) {
        const char *function = r.line > DT__CHUNK ? "sum_long" : "sum_lanes";
        dt__c_want(p, function);
        dt__c_line(p, "total += %s(%s, %lld);", function, at, (long long)r.line);
    } else {
        dt__c_line(p, "total += (double)(%s)[0];", at);
    }
    for (int d = 0; d < sum.rank; d++) dt__c_line(p, "}");
    dt__c_line(p, "(%s)[0] = (float)(total / %lld);", to, (long long)(mean ? count : 1));
    dt__c_line(p, "}");
    for (int d = 0; d < kept.rank; d++) dt__c_line(p, "}");
}

static void reduced(const dt__c_program *p, const dt_trace_call *c, bool *over)
{
    const dt_ints *dims = dt__c_ints(c, "dims");
    const int rank = dt__c_rank(p, c->in[0].value);
    for (int d = 0; d < rank; d++) over[d] = dims->n == 0;
    for (int i = 0; i < dims->n; i++) over[dt__trace_axis(dims->v[i], rank)] = true;
}

static void emit_sum(dt__c_program *p, const dt_trace_call *c)
{
    bool over[DT_MAX_RANK];
    reduced(p, c, over);
    put_sum(p, c, over, strcmp(c->op->name, "mean") == 0);
}

static void emit_global(dt__c_program *p, const dt_trace_call *c)
{
    bool over[DT_MAX_RANK] = { false, false, true, true };
    put_sum(p, c, over, true);
}

static void emit_max(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[0].value;
    const int rank = dt__c_rank(p, x), dim = dt__trace_axis(dt__c_int(c, "dim", 0), rank);
    const dt__c_name in = dt__c_in(p, c, 0), out = dt__c_out(p, c, 0);
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < dim; d++) outer *= dt__c_dim(p, x, d);
    for (int d = dim + 1; d < rank; d++) inner *= dt__c_dim(p, x, d);
    const long long n = (long long)dt__c_dim(p, x, dim);
    dt__c_want(p, "map_max");
    dt__c_line(p, "for (int32_t i = 0; i < %lld; i++) {", (long long)(outer * inner));
    dt__c_line(p, "(%s)[i] = largest(%s + i / %lld * %lld + i %% %lld, %lld, %lld);", out.text,
               in.text, (long long)inner, n * (long long)inner, (long long)inner, n,
               (long long)inner);
    dt__c_line(p, "}");
}

const dt__c_emitter dt__c_emit_pools[] = {
    { "max_pool2d", NULL, dt__trace_takes_values, emit_max_pool },
    { "max_pool1d", NULL, dt__trace_takes_values, emit_max_pool },
    { "avg_pool2d", NULL, NULL, emit_avg_pool },
    { "avg_pool1d", NULL, NULL, emit_avg_pool },
    { "adaptive_avg_pool2d", NULL, NULL, emit_adaptive },
    { "adaptive_avg_pool1d", NULL, NULL, emit_adaptive },
    { "global_avg_pool2d", NULL, NULL, emit_global },
    { "global_avg_pool1d", NULL, NULL, emit_global },
    { "sum", NULL, NULL, emit_sum },
    { "mean", NULL, NULL, emit_sum },
    { "max", NULL, dt__trace_takes_values, emit_max },
    { 0 },
};
