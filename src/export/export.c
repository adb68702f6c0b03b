/* The list of exporters, and what all of them have in common: the trace, and the error that lists
 * all that a format cannot express, before anything is written. */
#include "export/exporters.h"
#include "export/trace.h"

#include <stdio.h>
#include <string.h>

#define DT__EXPORTER(name) &dt__exporter_##name,
static const dt_exporter *const exporters[] = {
#include "export/exporters.inc"
};
#undef DT__EXPORTER

const char *const dt_onnx_ops[] = { "plain", "nbits", "qdq", NULL };

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
    return dt_model_save(e->m, &info, e->path);
}

/* ---- what a format cannot express ------------------------------------------------------------ */

/* The list of refused calls, as text. Calls of one op with one reason have one line, which names
 * the first modules. */
typedef struct refusals {
    char text[DT__MESSAGE_SIZE];
    size_t used;
    int64_t n, hidden;
} refusals;

static bool says(const refusals *r, const char *line) { return strstr(r->text, line) != NULL; }

static void add_refusal(refusals *r, const dt_trace_call *c, const char *why)
{
    char line[320];
    const size_t room = sizeof r->text - r->used;
    snprintf(line, sizeof line, "\n  %s in %s (%s): %s", c->op->name,
             c->module[0] != 0 ? c->module : "the model", c->type, why);
    if (says(r, line)) return;
    r->n++;
    if (strlen(line) + 120 > room) r->hidden++;
    else r->used += (size_t)snprintf(r->text + r->used, room, "%s", line);
}

static dt_status check_calls(const dt_exporter *e, const dt_trace *t, const dt_export_options *o)
{
    dt_ctx *ctx = t->ctx;
    refusals r = { .used = 0 };
    for (int64_t i = 0; i < t->n_calls && e->expresses != NULL; i++) {
        char why[200] = "the format has no such op";
        if (!e->expresses(t, &t->call[i], o, why, sizeof why)) add_refusal(&r, &t->call[i], why);
    }
    if (r.n == 0) return DT_OK;
    if (r.hidden > 0) {
        snprintf(r.text + r.used, sizeof r.text - r.used, "\n  and %lld more", (long long)r.hidden);
    }
    return dt_fail(ctx, DT_ERR_UNSUPPORTED, "format %s cannot express this model:%s", e->name,
                   r.text);
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
    char base[16];
    *exporter = NULL;
    *options = dt_export_defaults();
    if (name == NULL) return false;
    const size_t n = strcspn(name, "-");
    snprintf(base, sizeof base, "%.*s", (int)(n < sizeof base ? n : 0), name);
    *exporter = dt_exporter_named(base);
    if (*exporter == NULL || name[n] == 0) return *exporter != NULL;
    const bool onnx = strcmp(base, "onnx") == 0;
    for (int i = 0; onnx && dt_onnx_ops[i] != NULL; i++) {
        options->onnx_ops = i;
        if (strcmp(dt_onnx_ops[i], name + n + 1) == 0) return true;
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
    if (!e->traced) return e->suits != NULL ? e->suits(m, info) : DT_OK;
    DT__TRY(dt_trace_model(m, info, true, &t));
    const dt_status s = check_calls(e, t, &o);
    dt_trace_free(t);
    return s;
}

static dt_status trace_and_write(const dt_exporter *e, dt_export_call *call)
{
    dt_trace *t;
    if (dt_is_prepared(call->m)) {
        return dt_fail(call->ctx, DT_ERR_STATE,
                       "export: format %s holds integers; convert the model first", e->name);
    }
    DT__TRY(dt_trace_model(call->m, call->info, false, &t));
    dt_status s = check_calls(e, t, call->options);
    call->trace = t;
    if (s == DT_OK) s = e->write(call);
    dt_trace_free(t);
    return s;
}

static dt_status check_options(dt_ctx *ctx, const dt_export_options *o)
{
    if (o->onnx_ops < DT_ONNX_PLAIN || o->onnx_ops > DT_ONNX_QDQ) {
        return dt_fail(ctx, DT_ERR_ARG, "export: onnx_ops is %d, outside of %d ... %d", o->onnx_ops,
                       DT_ONNX_PLAIN, DT_ONNX_QDQ);
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
    return e->traced ? trace_and_write(e, &call) : e->write(&call);
}
