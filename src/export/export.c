/* The list of exporters, and what all share: the trace, and the error that lists all calls a format
 * cannot express, before anything is written. */
#include "export/c/c_program.h"
#include "export/exporters.h"
#include "core/refusals.h"
#include "export/trace/trace.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DT__EXPORTER(name) &dt__exporter_##name,
static const dt_exporter *const exporters[] = {
#include "export/exporters.inc"
};
#undef DT__EXPORTER

const char *const dt_onnx_opsets[] = { "21", "25", NULL };
const char *const dt_onnx_ops[] = { "plain", "nbits", "qdq", NULL };
const char *const dt_gguf_types[] = { "trained", "f32",   "f16",  "q4_0", "q8_0",
                                      "tq1_0",   "tq2_0", "q2_0", "q1_0", NULL };

const dt_exporter *dt_exporter_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(exporters) ? exporters[i] : NULL;
}

const dt_exporter *dt_exporter_named(const char *name)
{
    for (int i = 0; name != NULL && i < DT__COUNT_OF(exporters); i++) {
        const dt_exporter *e = exporters[i];
        if (strcmp(e->name, name) == 0) return e;
        if (e->was != NULL && strcmp(e->was, name) == 0) return e;
    }
    return NULL;
}

dt_export_options dt_export_defaults(void)
{
    return (dt_export_options){ .hf = { .dtype = DT_HF_AS_READ } };
}

dt_status dt__export_own(const dt_export_call *e, int grouped)
{
    const dt_hf_options *o = &e->options->hf;
    if (o->dtype != DT_HF_AS_READ || o->dequantize) {
        return dt_fail(e->ctx, DT_ERR_ARG,
                       "export: a file of detent holds a model as it is; dtype and dequantize are "
                       "of format hf");
    }
    dt_model_info info = { .family = NULL };
    if (e->info != NULL) info = *e->info;
    info.grouped = grouped;
    info.base = NULL; /* the whole model is written, so the base's path must not be in the file */
    return dt_model_save(e->m, &info, e->path);
}

/* ---- what a format cannot express ------------------------------------------------------------ */

/* Whether a result has no elements for every batch size: runtimes treat it differently. */
static bool is_empty(const dt_trace *t, const dt_trace_call *c)
{
    for (int i = 0; i < c->n_out; i++) {
        const dt_trace_value *v = dt_trace_value_at(t, c->out[i]);
        if (v != NULL && dt_trace_count(v, 1, 1) == 0) return true;
    }
    return false;
}

/* Whether exported files can compute the dynamic ranges of the call's operands: those of blocks and
 * of the three schemes before q4_0 in the list. Else `why` receives the reason. */
static bool computes_ranges(const dt_trace_call *c, char *why, size_t size)
{
    for (int i = 0; i < c->n_in; i++) {
        const dt_quant_spec *q = c->in[i].quant;
        if (q == NULL || !q->activation || q->range != DT_RANGE_DYNAMIC) continue;
        if (q->scheme < DT_SCHEME_Q4_0 || dt__has_blocks(q->scheme)) continue;
        snprintf(why, size,
                 "its input has a dynamic range of scheme %s, which files do not compute; "
                 "asymmetric, symmetric and symmetric_no_clip can be exported",
                 dt__scheme_of(q->scheme)->name);
        return false;
    }
    return true;
}

dt_status dt__check_calls(const dt_exporter *e, const dt_trace *t, const dt_export_options *o)
{
    dt__refusals r = { .used = 0 };
    t->ctx->status = DT_OK;
    for (int64_t i = 0; i < t->n_calls && e->expresses != NULL; i++) {
        const dt_trace_call *c = &t->call[i];
        char why[200] = "the format has no such op";
        if (is_empty(t, c)) snprintf(why, sizeof why, "its result has no elements");
        else if (computes_ranges(c, why, sizeof why) && e->expresses(t, c, o, why, sizeof why))
            continue;
        if (t->ctx->status == DT_ERR_NOMEM) return DT_ERR_NOMEM;
        dt__refusals_add(&r, "%s in %s (%s): %s", c->op->name,
                         c->module[0] != 0 ? c->module : "the model", c->type, why);
    }
    return dt__refusals_end(t->ctx, &r, DT_ERR_UNSUPPORTED, DT__CANNOT_EXPRESS, e->name);
}

/* ---- exporting ------------------------------------------------------------------------------- */

static dt_status find(dt_ctx *ctx, const char *format, const dt_exporter **out)
{
    *out = dt_exporter_named(format);
    if (*out != NULL) return DT_OK;
    char names[256] = "";
    for (int i = 0; i < DT__COUNT_OF(exporters); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", exporters[i]->name);
    }
    return dt_fail(ctx, DT_ERR_ARG, "export: no format '%s'; there are: %s",
                   format == NULL ? "" : format, names);
}

bool dt_export_format(const char *name, const dt_exporter **exporter, dt_export_options *options)
{
    if (exporter == NULL) return false;
    if (options == NULL) return false;
    char base[16];
    *options = dt_export_defaults();
    *exporter = dt_exporter_named(name);
    if (name == NULL || *exporter != NULL) return *exporter != NULL;
    const size_t n = strcspn(name, "-");
    snprintf(base, sizeof base, "%.*s", (int)(n < sizeof base ? n : 0), name);
    *exporter = dt_exporter_named(base);
    const struct {
        const char *format, *const *names;
        int *option;
    } forms[] = { { "onnx", dt_onnx_ops, &options->onnx_ops },
                  { "gguf", dt_gguf_types, &options->gguf_type } };
    for (int f = 0; name[n] != 0 && f < DT__COUNT_OF(forms); f++) {
        if (strcmp(base, forms[f].format) != 0) continue;
        for (*forms[f].option = 0; forms[f].names[*forms[f].option] != NULL; ++*forms[f].option) {
            if (strcmp(forms[f].names[*forms[f].option], name + n + 1) == 0) return true;
        }
    }
    return false;
}

dt_status dt_export_check(dt_module *m, const dt_model_info *info, const char *format)
{
    dt_export_options o;
    const dt_exporter *e;
    dt_trace *t;
    if (m == NULL) return DT_ERR_ARG;
    if (!dt_export_format(format, &e, &o)) DT__TRY(find(dt_module_ctx(m), format, &e));
    const dt_export_call call = {
        .ctx = dt_module_ctx(m), .m = m, .info = info, .options = &o, .path = ""
    };
    if (e->check != NULL) DT__TRY(e->check(&call));
    if (!e->traced) return DT_OK;
    DT__TRY(dt__trace_for(m, info, e, true, &t));
    const dt_status s = dt__check_calls(e, t, &o);
    dt_trace_free(t);
    return s;
}

/* ---- another arithmetic ---------------------------------------------------------------------- */

#define QUICK 3e7 /* multiply-adds per example up to which the difference is measured */

static double work_of(const dt_trace *t)
{
    double all = 0;
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        all += (double)dt_trace_multiply_adds(t, dt_trace_call_at(t, i), 1, 1);
    }
    return all;
}

/* Warns that a file computes results that differ from the model's, with the measured difference. */
static dt_status tell_change(const dt_export_call *call)
{
    const dt_export_options *o = call->options;
    dt_export_difference d[DT_MAX_OUT];
    int n = 0;
    char line[200];
    if (!call->summary->changed || o->note == NULL) return DT_OK;
    const bool quick = !o->past && work_of(call->trace) <= QUICK;
    if (quick) DT__TRY(dt_export_verify(call->m, call->info, call->path, d, &n));
    double absolute = 0, relative = 0;
    for (int i = 0; i < n; i++) {
        absolute = fmax(absolute, d[i].absolute);
        relative = fmax(relative, d[i].relative);
    }
    const int used =
        snprintf(line, sizeof line, "activations have other codes than the model's, or none: ");
    if (quick) {
        snprintf(line + used, sizeof line - (size_t)used, DT_DIFFERENCE_TEXT, absolute, relative);
    } else {
        snprintf(line + used, sizeof line - (size_t)used,
                 "--verify measures the largest difference");
    }
    o->note(o->user, line);
    return DT_OK;
}

double dt__elements_of_call(const dt_trace *t, const dt_trace_call *c)
{
    double n = 0;
    for (int i = 0; i < c->n_in; i++) {
        const dt_trace_value *v = dt_trace_value_at(t, c->in[i].value);
        if (v != NULL && v->tensor != NULL) n += (double)dt_count(v->tensor);
    }
    return n;
}

void dt__did_convert(dt_ctx *ctx, double elements)
{
    if (elements > 0) dt__did_work(ctx, DT__CONVERT, elements);
    else dt__pass_work(ctx);
}

/* Plans progress: about a byte per element is written, or for a C file a number. */
static void plan_work(const dt_exporter *e, const dt_trace *t)
{
    double elements = 0;
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        elements += dt__elements_of_call(t, dt_trace_call_at(t, i));
    }
    /* in addition to reading the file for verification */
    dt__expect_work(t->ctx, DT__CONVERT, elements);
    dt__plan_work(t->ctx, DT__CONVERT, elements);
    dt__expect_work(t->ctx, e == &dt__exporter_c ? DT__PRINT : DT__WRITE, elements);
    dt__pass_work(t->ctx);
}

static dt_status trace_and_write(const dt_exporter *e, dt_export_call *call)
{
    dt_trace *t;
    if (dt_is_prepared(call->m)) {
        return dt_fail(call->ctx, DT_ERR_STATE,
                       "export: format %s holds integers; convert the model first", e->name);
    }
    DT__TRY(dt__trace_for(call->m, call->info, e, false, &t));
    dt_status s = dt__check_calls(e, t, call->options);
    call->trace = t;
    plan_work(e, t);
    if (s == DT_OK) s = e->write(call);
    dt__cut_work(t->ctx, DT__WRITE); /* the file may be smaller than expected */
    if (s == DT_OK) s = tell_change(call);
    dt_trace_free(t);
    return s;
}

static dt_status check_options(dt_ctx *ctx, const dt_export_options *o)
{
    if (o->onnx_ops < DT_ONNX_PLAIN || o->onnx_ops > DT_ONNX_QDQ) {
        return dt_fail(ctx, DT_ERR_ARG, "export: onnx_ops is %d, outside of %d ... %d", o->onnx_ops,
                       DT_ONNX_PLAIN, DT_ONNX_QDQ);
    }
    if (o->gguf_type < DT_GGUF_TRAINED || o->gguf_type > DT_GGUF_Q1_0) {
        return dt_fail(ctx, DT_ERR_ARG, "export: gguf_type is %d, outside of %d ... %d",
                       o->gguf_type, DT_GGUF_TRAINED, DT_GGUF_Q1_0);
    }
    if (o->onnx_opset < 0 || o->onnx_opset > 1) {
        return dt_fail(ctx, DT_ERR_ARG, "export: onnx_opset is %d, outside of 0 ... 1",
                       o->onnx_opset);
    }
    if (o->accuracy != 0 && o->accuracy != 4) {
        return dt_fail(ctx, DT_ERR_ARG, "export: accuracy must be 0 or 4, not %lld",
                       (long long)o->accuracy);
    }
    if (o->context < 0) {
        return dt_fail(ctx, DT_ERR_ARG, "export: a context of %lld tokens; it must not be negative",
                       (long long)o->context);
    }
    return DT_OK;
}

dt_status dt_export(dt_module *m, const dt_model_info *info, const char *format,
                    const dt_export_options *options, const char *path, dt_export_summary *summary)
{
    if (m == NULL) return DT_ERR_ARG;
    const dt_export_options o = options != NULL ? *options : dt_export_defaults();
    dt_export_summary own = { .bytes = 0 };
    const dt_exporter *e;
    dt_export_call call = { .ctx = dt_module_ctx(m),
                            .m = m,
                            .info = info,
                            .options = &o,
                            .path = path,
                            .summary = summary != NULL ? summary : &own };
    *call.summary = (dt_export_summary){ .bytes = 0 };
    DT__TRY(find(call.ctx, format, &e));
    if (path == NULL) return dt_fail(call.ctx, DT_ERR_ARG, "export: path is NULL");
    DT__TRY(check_options(call.ctx, &o));
    if (e->check != NULL) DT__TRY(e->check(&call));
    return e->traced ? trace_and_write(e, &call) : e->write(&call);
}

/* ---- costs ----------------------------------------------------------------------------------- */

static dt_status trace_costs(const dt_export_call *call, dt_cost_fn each, void *user, dt_costs *out)
{
    if (dt_trace_has_length(call->trace)) {
        return dt_fail(call->ctx, DT_ERR_UNSUPPORTED,
                       "costs: the memory of a language model depends on the length of its text; "
                       "the README.md of its export as C has it");
    }
    DT__TRY(dt__check_calls(&dt__exporter_c, call->trace, call->options));
    return dt__c_costs(call, each, user, out);
}

dt_status dt_export_costs(dt_module *m, const dt_model_info *info, dt_cost_fn each, void *user,
                          dt_costs *out)
{
    if (m == NULL) return DT_ERR_ARG;
    dt_ctx *ctx = dt_module_ctx(m);
    DT__NEED(ctx, each);
    DT__NEED(ctx, out);
    const dt_export_options o = dt_export_defaults();
    dt_trace *t;
    *out = (dt_costs){ .flash = 0 };
    if (dt_is_prepared(m)) {
        return dt_fail(ctx, DT_ERR_STATE,
                       "costs: they are those of integers; convert the model first");
    }
    DT__TRY(dt__trace_for(m, info, &dt__exporter_c, false, &t));
    const dt_export_call call = {
        .ctx = ctx, .m = m, .info = info, .trace = t, .options = &o, .path = ""
    };
    const dt_status s = trace_costs(&call, each, user, out);
    dt_trace_free(t);
    return s;
}
