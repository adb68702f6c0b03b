/* Format c: norms and softmax. A batch norm in evaluation is a linear function per channel, whose
 * coefficients are computed here, as the kernel computes them. */
#include "export/c/c_program.h"
#include "export/c/c_views.h"

#include "core/tensor.h"
#include "export/trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, SHIFT, MEAN, VARIANCE, RESIDUAL, FACTOR };

static bool takes_batch_norm(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    for (int i = 1; i < c->n_in; i++) {
        if (i == RESIDUAL || c->in[i].value < 0) continue;
        const dt_value_kind kind = dt_trace_value_at(t, c->in[i].value)->kind;
        if (kind == DT_VALUE_PARAMETER || kind == DT_VALUE_CONSTANT) continue;
        snprintf(why, size, "its %s is computed from an input", c->op->in_name[i]);
        return false;
    }
    if (!dt__c_flag(c, "training")) return true;
    snprintf(why, size, "it uses the statistics of a batch");
    return false;
}

/* Element k of an operand that may be absent. */
static double value_at(const dt__c_program *p, const dt_trace_call *c, int i, int64_t k,
                       double absent)
{
    if (i >= c->n_in || c->in[i].value < 0) return absent;
    const dt_tensor *x = dt_trace_value_at(p->trace, c->in[i].value)->tensor;
    return (double)((const float *)dt__values(x))[k];
}

/* y = (x - middle) slope + offset, computed in double as in kernels/plain/plain_batch_norm.inc. */
static void line_of(const dt__c_program *p, const dt_trace_call *c, int64_t k, float line[3])
{
    const double variance = value_at(p, c, VARIANCE, k, 1);
    const double rstd = 1 / sqrt((variance < 0 ? 0 : variance) + dt__c_real(c, "eps"));
    const double f = value_at(p, c, FACTOR, k, 1), mean = value_at(p, c, MEAN, k, 0) * f;
    const double slope = value_at(p, c, WEIGHT, k, 1) * rstd / f, middle = (double)(float)mean;
    line[0] = (float)middle;
    line[1] = (float)slope;
    line[2] = (float)(value_at(p, c, SHIFT, k, 0) + (middle - mean) * slope);
}

static void emit_batch_norm(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[X].value, channels = dt__c_dim(p, x, 1);
    const int64_t inner = dt__c_count(p, x) / dt__max_i64(1, channels);
    char name[24], what[DT__C_COMMENT];
    float *lines = dt__alloc_array(p->ctx, channels, 3 * sizeof *lines);
    if (lines == NULL) {
        dt__c_fail(p, DT_ERR_NOMEM);
        return;
    }
    for (int64_t k = 0; k < channels; k++) line_of(p, c, k, lines + 3 * k);
    snprintf(name, sizeof name, "n%lld", (long long)p->at);
    dt__c_floats(p, name, dt__c_comment(c->module, what), lines, 3 * channels);
    dt__release(p->ctx, lines);
    const dt__c_name in = dt__c_in(p, c, X), out = dt__c_out(p, c, 0);
    dt__c_want(p, "map_line");
    dt__c_line(p, "for (int32_t i = 0; i < %lld; i++) { /* a channel: middle, slope, offset */",
               (long long)channels);
    dt__c_line(p,
               "map_line(%s + i * %lld, %lld, %s[3 * i], %s[3 * i + 1], %s[3 * i + 2], "
               "%s + i * %lld);",
               in.text, (long long)inner, (long long)inner, name, name, name, out.text,
               (long long)inner);
    dt__c_line(p, "}");
    dt__c_put_after(p, c, RESIDUAL, *(const int *)dt__c_field(c, "activation"));
}

static dt__c_name number(double v)
{
    dt__c_name name;
    snprintf(name.text, sizeof name.text, "%.17g", v);
    return name;
}

static void emit_layer_norm(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[X].value, last = dt__c_int(c, "normalized_dims", 0);
    int64_t n = 1;
    for (int d = 1; d <= last; d++) n *= dt__c_dim(p, x, -d);
    dt__c_want(p, "norm_layer");
    dt__c_line(p, "norm_layer(%s, %lld, %lld, %s, %s, %s, %s);", dt__c_in(p, c, X).text,
               (long long)(dt__c_count(p, x) / dt__max_i64(1, n)), (long long)n,
               dt__c_in(p, c, WEIGHT).text, dt__c_in(p, c, SHIFT).text,
               number(dt__c_real(c, "eps")).text, dt__c_out(p, c, 0).text);
}

static void emit_rms_norm(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[X].value, n = dt__c_dim(p, x, -1);
    dt__c_want(p, "norm_rms");
    dt__c_line(p, "norm_rms(%s, %lld, %lld, %s, %s, %s);", dt__c_in(p, c, X).text,
               (long long)(dt__c_count(p, x) / dt__max_i64(1, n)), (long long)n,
               dt__c_in(p, c, WEIGHT).text, number(dt__c_real(c, "eps")).text,
               dt__c_out(p, c, 0).text);
}

static void emit_group_norm(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[X].value, all = dt__c_dim(p, x, 1), groups = dt__c_int(c, "groups", 0);
    dt__c_want(p, "norm_group");
    dt__c_line(p, "norm_group(%s, %lld, %lld, %lld, %s, %s, %s, %s);", dt__c_in(p, c, X).text,
               (long long)groups, (long long)(all / groups),
               (long long)(dt__c_count(p, x) / dt__max_i64(1, all)), dt__c_in(p, c, WEIGHT).text,
               dt__c_in(p, c, SHIFT).text, number(dt__c_real(c, "eps")).text,
               dt__c_out(p, c, 0).text);
}

static void emit_softmax(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t x = c->in[X].value;
    const int rank = dt__c_rank(p, x), dim = dt__trace_axis(dt__c_int(c, "dim", 0), rank);
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < dim; d++) outer *= dt__c_dim(p, x, d);
    for (int d = dim + 1; d < rank; d++) inner *= dt__c_dim(p, x, d);
    dt__c_want(p, strcmp(c->op->name, "softmax") == 0 ? "softmax_lines" : c->op->name);
    dt__c_line(p, "%s(%s, %lld, %lld, %lld, %s);", c->op->name, dt__c_in(p, c, X).text,
               (long long)outer, (long long)dt__c_dim(p, x, dim), (long long)inner,
               dt__c_out(p, c, 0).text);
}

const dt__c_emitter dt__c_emit_norms[] = {
    { "batch_norm2d", NULL, takes_batch_norm, emit_batch_norm },
    { "batch_norm1d", NULL, takes_batch_norm, emit_batch_norm },
    { "layer_norm", NULL, NULL, emit_layer_norm },
    { "rms_norm", NULL, NULL, emit_rms_norm },
    { "group_norm", NULL, NULL, emit_group_norm },
    { "softmax", NULL, NULL, emit_softmax },
    { "log_softmax", NULL, NULL, emit_softmax },
    { 0 },
};
