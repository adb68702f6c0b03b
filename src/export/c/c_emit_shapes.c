/* Format c: ops that move elements. Views in the memory of their operand need no statement. */
#include "export/c/c_program.h"
#include "export/c/c_views.h"
#include "export/trace/trace.h"

#include <stdio.h>
#include <string.h>

/* Copies the elements of a view to `to` (an expression); y: strides of the destination. */
static void put_copy(dt__c_program *p, const char *x, dt__c_view v, const char *to, int64_t *y)
{
    dt__c_merge(&v, y);
    char from[192], into[192];
    size_t used = (size_t)snprintf(from, sizeof from, "%s", x);
    size_t put = (size_t)snprintf(into, sizeof into, "%s", to);
    if (v.offset != 0) {
        used += (size_t)snprintf(from + used, sizeof from - used, " + %lld", (long long)v.offset);
    }
    /* the last dimension is copied by one statement */
    const bool line = v.rank > 0 && y[v.rank - 1] == 1;
    const int loops = line ? v.rank - 1 : v.rank;
    for (int d = 0; d < loops; d++) {
        dt__c_line(p, "for (int32_t i%d = 0; i%d < %lld; i%d++) {", d, d, (long long)v.dims[d], d);
        used += (size_t)snprintf(from + used, sizeof from - used, " + i%d * %lld", d,
                                 (long long)v.strides[d]);
        put += (size_t)snprintf(into + put, sizeof into - put, " + i%d * %lld", d, (long long)y[d]);
    }
    const long long n = line ? (long long)v.dims[v.rank - 1] : 1;
    if (!line || v.strides[v.rank - 1] == 1) {
        dt__c_line(p, "memcpy(%s, %s, %lld * sizeof(float));", into, from, n);
    } else {
        dt__c_want(p, "shape_copy");
        dt__c_line(p, "copy_steps(%s, %lld, %lld, %s);", from, (long long)v.strides[v.rank - 1], n,
                   into);
    }
    for (int d = 0; d < loops; d++) dt__c_line(p, "}");
}

static void strides_of(const dt__c_program *p, int64_t value, int64_t *strides)
{
    int64_t step = 1;
    for (int d = dt__c_rank(p, value) - 1; d >= 0; d--) {
        strides[d] = step;
        step *= dt__c_dim(p, value, d);
    }
}

static bool same_place(const dt__c_program *p, int64_t a, int64_t b, int64_t offset)
{
    const dt__c_place *x = &p->place[a], *y = &p->place[b];
    return x->home == y->home && x->index == y->index && x->offset == y->offset + offset;
}

static void emit_view(dt__c_program *p, const dt_trace_call *c)
{
    dt__c_view v;
    int64_t y[DT_MAX_RANK];
    dt__c_view_of(p, c, &v);
    const bool quantized = c->in[0].quant != NULL;
    if (!quantized && same_place(p, c->out[0], c->in[0].value, v.offset) && dt__c_is_run(&v))
        return;
    if (dt__c_count(p, c->out[0]) == 0) return;
    strides_of(p, dt_trace_is_view(c) ? c->in[0].value : c->out[0], y);
    put_copy(p, dt__c_in(p, c, 0).text, v, dt__c_out(p, c, 0).text, y);
}

static void emit_concat(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t y = c->out[0];
    const int dim = dt__trace_axis(dt__c_int(c, "dim", 0), dt__c_rank(p, y));
    int64_t strides[DT_MAX_RANK], own[DT_MAX_RANK], at = 0;
    for (int i = 0; i < c->n_in; i++) {
        const int64_t x = c->in[i].value;
        dt__c_view v = { .rank = dt__c_rank(p, x) };
        strides_of(p, x, v.strides);
        strides_of(p, y, strides);
        memcpy(own, strides, sizeof own);
        for (int d = 0; d < v.rank; d++) v.dims[d] = dt__c_dim(p, x, d);
        const int64_t offset = at * strides[dim];
        at += v.dims[dim];
        if (dt__c_count(p, x) == 0) continue;
        if (c->in[i].quant == NULL && dt__c_is_concat_run(p, c) && same_place(p, x, y, offset)) {
            continue;
        }
        char to[96];
        snprintf(to, sizeof to, "%s + %lld", dt__c_out(p, c, 0).text, (long long)offset);
        put_copy(p, dt__c_in(p, c, i).text, v, to, own);
    }
}

static int64_t before_of(const dt_ints *pads, int rank, int d)
{
    const int i = 2 * (rank - 1 - d);
    return i < pads->n ? pads->v[i] : 0;
}

/* Opens the loop over dimension d of the result: element i<d> is element k<d> of x, or of
 * padding. */
static void open_dimension(dt__c_program *p, const dt_trace_call *c, int d, int64_t before)
{
    const int64_t n = dt__c_dim(p, c->in[0].value, d), out = dt__c_dim(p, c->out[0], d);
    dt__c_line(p, "for (int32_t i%d = 0; i%d < %lld; i%d++) {", d, d, (long long)out, d);
    dt__c_line(p, "const int32_t k%d = pad_place(i%d, %lld, %lld, %d);", d, d, (long long)n,
               (long long)before, *(const int *)dt__c_field(c, "mode"));
}

static void emit_pad(dt__c_program *p, const dt_trace_call *c)
{
    const dt_ints *pads = dt__c_ints(c, "pads");
    const int64_t x = c->in[0].value, y = c->out[0];
    const int rank = dt__c_rank(p, x);
    const dt__c_name in = dt__c_in(p, c, 0), out = dt__c_out(p, c, 0);
    int64_t from[DT_MAX_RANK], to[DT_MAX_RANK];
    char at[192], into[192], inside[160] = "";
    size_t a = (size_t)snprintf(at, sizeof at, "%s", in.text);
    size_t b = (size_t)snprintf(into, sizeof into, "%s", out.text), k = 0;
    strides_of(p, x, from);
    strides_of(p, y, to);
    dt__c_want(p, "shape_pad_line");
    int open = 0;
    for (int d = 0; d + 1 < rank; d++) {
        if (dt__c_dim(p, y, d) == 1) continue;
        open_dimension(p, c, d, before_of(pads, rank, d));
        open++;
        a += (size_t)snprintf(at + a, sizeof at - a, " + k%d * %lld", d, (long long)from[d]);
        b += (size_t)snprintf(into + b, sizeof into - b, " + i%d * %lld", d, (long long)to[d]);
        k += (size_t)snprintf(inside + k, sizeof inside - k, "%sk%d >= 0", k > 0 ? " && " : "", d);
    }
    const int64_t n = rank > 0 ? dt__c_dim(p, x, -1) : 1;
    dt__c_line(p, "pad_line(%s%s%s%s, %lld, %lld, %d, %s, %lld, %s);", inside, k > 0 ? " ? " : "",
               at, k > 0 ? " : 0" : "", (long long)n,
               (long long)(rank > 0 ? before_of(pads, rank, rank - 1) : 0),
               *(const int *)dt__c_field(c, "mode"),
               dt__c_float((float)dt__c_real(c, "value")).text,
               (long long)(rank > 0 ? dt__c_dim(p, y, -1) : 1), into);
    while (open-- > 0) dt__c_line(p, "}");
}

void dt__c_resize(dt__c_program *p, const dt_trace_call *c, const char *function)
{
    const int64_t x = c->in[0].value, y = c->out[0];
    const bool lines = dt__c_rank(p, x) == 3;
    dt__c_line(p, "%s(%s, %lld, %lld, %lld, %lld, %lld, %s);", function, dt__c_in(p, c, 0).text,
               (long long)dt__c_dim(p, x, 1), (long long)(lines ? 1 : dt__c_dim(p, x, 2)),
               (long long)dt__c_dim(p, x, -1), (long long)(lines ? 1 : dt__c_dim(p, y, 2)),
               (long long)dt__c_dim(p, y, -1), dt__c_out(p, c, 0).text);
}

static void emit_upsample(dt__c_program *p, const dt_trace_call *c)
{
    dt__c_want(p, "shape_upsample");
    dt__c_resize(p, c, "upsample");
}

const dt__c_emitter dt__c_emit_shapes[] = {
    { "reshape", NULL, NULL, emit_view },
    { "flatten", NULL, NULL, emit_view },
    { "slice", NULL, NULL, emit_view },
    { "permute", NULL, NULL, emit_view },
    { "transpose", NULL, NULL, emit_view },
    { "concat", NULL, NULL, emit_concat },
    { "pad", NULL, NULL, emit_pad },
    { "upsample_nearest", NULL, NULL, emit_upsample },
    { "upsample_nearest1d", NULL, NULL, emit_upsample },
    { 0 },
};
