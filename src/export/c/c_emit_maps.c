/* Format c: elementwise functions, and of two operands that broadcast. */
#include "export/c/c_emit.h"
#include "export/c/c_views.h"
#include "export/trace/trace.h"

#include <stdio.h>

static void emit_gelu(dt__c_program *p, const dt_trace_call *c)
{
    const bool tanh = *(const int *)dt__c_field(c, "approximate") != 0;
    const char *text = tanh ? "map_gelu_tanh" : "map_gelu_erf";
    dt__c_want(p, text);
    dt__c_line(p, "%s(%s, %lld, %s);", text, dt__c_in(p, c, 0).text,
               (long long)dt__c_count(p, c->out[0]), dt__c_out(p, c, 0).text);
}

/* map_<op>(x, n, option, y) */
static void emit_with(dt__c_program *p, const dt_trace_call *c, const char *key)
{
    char text[32];
    snprintf(text, sizeof text, "map_%s", c->op->name);
    dt__c_want(p, text);
    dt__c_line(p, "%s(%s, %lld, %s, %s);", text, dt__c_in(p, c, 0).text,
               (long long)dt__c_count(p, c->out[0]), dt__c_float((float)dt__c_real(c, key)).text,
               dt__c_out(p, c, 0).text);
}

static void emit_leaky(dt__c_program *p, const dt_trace_call *c) { emit_with(p, c, "slope"); }
static void emit_elu(dt__c_program *p, const dt_trace_call *c) { emit_with(p, c, "alpha"); }

/* A missing bound is infinite. */
static dt__c_name bound(double v)
{
    const float most = 3.402823466e+38f;
    return dt__c_float(v > (double)most ? most : v < -(double)most ? -most : (float)v);
}

static void emit_clamp(dt__c_program *p, const dt_trace_call *c)
{
    dt__c_want(p, "map_clamp");
    dt__c_line(p, "map_clamp(%s, %lld, %s, %s, %s);", dt__c_in(p, c, 0).text,
               (long long)dt__c_count(p, c->out[0]), bound(dt__c_real(c, "min")).text,
               bound(dt__c_real(c, "max")).text, dt__c_out(p, c, 0).text);
}

static void emit_swiglu(dt__c_program *p, const dt_trace_call *c)
{
    dt__c_want(p, "map_swiglu");
    dt__c_line(p, "map_swiglu(%s, %s, %lld, %s);", dt__c_in(p, c, 0).text, dt__c_in(p, c, 1).text,
               (long long)dt__c_count(p, c->out[0]), dt__c_out(p, c, 0).text);
}

static void emit_dropout(dt__c_program *p, const dt_trace_call *c)
{
    dt__c_line(p, "memcpy(%s, %s, %lld);", dt__c_out(p, c, 0).text, dt__c_in(p, c, 0).text,
               (long long)dt__c_count(p, c->out[0]) * (long long)sizeof(float));
}

/* One slope per channel, or one for all. */
static void emit_prelu(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[0].value, all = dt__c_count(p, x);
    const int64_t n = dt__c_count(p, c->in[1].value);
    const int rank = dt__c_rank(p, x);
    int64_t outer = n == 1 || rank < 2 ? 1 : dt__c_dim(p, x, 0);
    const int64_t inner = all / dt__max_i64(1, outer * n);
    dt__c_want(p, "map_prelu");
    dt__c_line(p, "map_prelu(%s, %lld, %lld, %lld, %s, %s);", dt__c_in(p, c, 0).text,
               (long long)outer, (long long)n, (long long)inner, dt__c_in(p, c, 1).text,
               dt__c_out(p, c, 0).text);
}

/* Strides of operand i along the result's dimensions; 0 where it is broadcast. */
static void strides(const dt__c_program *p, const dt_trace_call *c, int i, int64_t *out)
{
    const int64_t x = c->in[i].value;
    const int rank = dt__c_rank(p, c->out[0]), own = dt__c_rank(p, x);
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        const int at = d - (rank - own);
        const int64_t n = at >= 0 ? dt__c_dim(p, x, at) : 1;
        out[d] = n == 1 ? 0 : step;
        step *= n;
    }
}

/* Formats " + i0 * 64 + i1 * 4" for all dimensions but the last. */
static void offsets(const dt__c_view *v, const int64_t *step, char *to, size_t size)
{
    size_t used = 0;
    to[0] = '\0';
    for (int d = 0; d + 1 < v->rank; d++) {
        if (step[d] == 0) continue;
        used += (size_t)snprintf(to + used, size - used, " + i%d * %lld", d, (long long)step[d]);
    }
}

/* Merges adjacent dimensions along which both operands have regular strides. */
static void merge(dt__c_view *v, int64_t *other)
{
    dt__c_merge(v, other);
    if (v->rank > 0) return;
    v->rank = 1;
    v->dims[0] = 1;
    v->strides[0] = other[0] = 1;
}

/* Applies function `name` to operands 0 and k, for all elements of the result. */
static void emit_zip(dt__c_program *p, const dt_trace_call *c, const char *name, int k)
{
    dt__c_view v = { .rank = dt__c_rank(p, c->out[0]) };
    int64_t other[DT_MAX_RANK], y[DT_MAX_RANK], n = 1;
    char a[160], b[160], to[160];
    for (int d = 0; d < v.rank; d++) v.dims[d] = dt__c_dim(p, c->out[0], d);
    strides(p, c, 0, v.strides);
    strides(p, c, k, other);
    merge(&v, other);
    for (int d = v.rank - 1; d >= 0; d--) {
        y[d] = n;
        n *= v.dims[d];
    }
    offsets(&v, v.strides, a, sizeof a);
    offsets(&v, other, b, sizeof b);
    offsets(&v, y, to, sizeof to);
    const dt__c_name x0 = dt__c_in(p, c, 0), x1 = dt__c_in(p, c, k), out = dt__c_out(p, c, 0);
    dt__c_want(p, name);
    for (int d = 0; d + 1 < v.rank; d++) {
        dt__c_line(p, "for (int32_t i%d = 0; i%d < %lld; i%d++) {", d, d, (long long)v.dims[d], d);
    }
    const int last = v.rank - 1;
    dt__c_line(p, "%s(%s%s, %lld, %s%s, %lld, %lld, %s%s);", name, x0.text, a,
               (long long)v.strides[last], x1.text, b, (long long)other[last],
               (long long)v.dims[last], out.text, to);
    for (int d = 0; d + 1 < v.rank; d++) dt__c_line(p, "}");
}

static void emit_pair(dt__c_program *p, const dt_trace_call *c)
{
    char name[16];
    snprintf(name, sizeof name, "map_%s", c->op->name);
    emit_zip(p, c, name, 1);
}

static void emit_greater(dt__c_program *p, const dt_trace_call *c)
{
    emit_zip(p, c, dt__c_flag(c, "equal") ? "map_not_less" : "map_greater", 1);
}

static void emit_where(dt__c_program *p, const dt_trace_call *c)
{
    emit_zip(p, c, "map_where", 1);
    emit_zip(p, c, "map_where_not", 2);
}

const dt__c_emitter dt__c_emit_maps[] = {
#define DT__MAP(name, ...) { #name, "map_" #name, NULL, NULL },
#include "kernels/elementwise.inc"
    { "relu", "map_relu", NULL, NULL },
    { "neg", "map_neg", NULL, NULL },
    { "where", NULL, dt__trace_takes_floats, emit_where },
    { "gelu", NULL, NULL, emit_gelu },
    { "leaky_relu", NULL, NULL, emit_leaky },
    { "elu", NULL, NULL, emit_elu },
    { "prelu", NULL, NULL, emit_prelu },
    { "clamp", NULL, NULL, emit_clamp },
    { "swiglu", NULL, NULL, emit_swiglu },
    { "dropout", NULL, NULL, emit_dropout },
    { "add", NULL, NULL, emit_pair },
    { "sub", NULL, NULL, emit_pair },
    { "mul", NULL, NULL, emit_pair },
    { "div", NULL, NULL, emit_pair },
    { "maximum", NULL, NULL, emit_pair },
    { "greater", NULL, NULL, emit_greater },
    { 0 },
};
