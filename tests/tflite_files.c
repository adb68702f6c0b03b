/* Exports of format tflite, read back. */
#include "tflite_files.h"

#include "testing.h"

#include "core/tensor.h"
#include "export/trace/trace.h"
#include "export/verify/tflite/verify_tflite.h"

#include <detent/experimental/export.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_trace *trace_of(const tflite_subject *s)
{
    dt_ctx *ctx = dt_module_ctx(s->m);
    dt_trace_input in[DT_MAX_IN];
    dt_trace *t;
    const dt_exporter *e = dt_exporter_named("tflite");
    if (s->info != NULL) {
        TEST_OK(ctx, dt__trace_for(s->m, s->info, e, false, &t));
        return t;
    }
    for (int i = 0; i < s->n_in; i++) {
        in[i] = (dt_trace_input){ .dtype = s->x[i]->dtype, .rank = s->x[i]->rank, .dims = { 1 } };
        for (int d = 1; d < s->x[i]->rank; d++) in[i].dims[d] = s->x[i]->dims[d];
    }
    const dt_trace_options o = { .input = in, .n_inputs = s->n_in, .becomes = e->becomes };
    TEST_OK(ctx, dt_trace_create(s->m, &o, &t));
    return t;
}

static void save(const char *stem, const char *what, const dt_tensor *x)
{
    char path[TEST_PATH];
    dt_writer *w;
    snprintf(path, sizeof path, "%s.%s.safetensors", stem, what);
    TEST_OK(x->ctx, dt_writer_create(x->ctx, &w));
    TEST_OK(x->ctx, dt_writer_add(w, what, x));
    TEST_OK(x->ctx, dt_writer_write(w, path));
    dt_writer_free(w);
}

static void write(tflite_subject *s, const char *path)
{
    dt_ctx *ctx = dt_module_ctx(s->m);
    const dt_export_options o = dt_export_defaults();
    dt_trace *t = trace_of(s);
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        char why[200] = "";
        const dt_trace_call *c = dt_trace_call_at(t, i);
        TEST_EACH(dt_exporter_named("tflite")->expresses(t, c, &o, why, sizeof why), "%s: %s",
                  c->op->name, why);
    }
    const dt_export_call call = {
        .ctx = ctx, .m = s->m, .trace = t, .options = &o, .path = path, .summary = &s->summary
    };
    TEST_OK(ctx, dt_exporter_named("tflite")->write(&call));
    dt_trace_free(t);
}

double tflite_check(tflite_subject *s, const char *stem, bool keep)
{
    char path[TEST_PATH];
    dt_ctx *ctx = dt_module_ctx(s->m);
    dt_export_difference d[DT_MAX_OUT];
    dt_tensor *y[1];
    dt_tape *t;
    size_t n;
    snprintf(path, sizeof path, "%s.tflite", stem);
    s->summary = (dt_export_summary){ .bytes = 0 };
    write(s, path);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(s->m, false);
    TEST_OK(ctx, dt_forward_n(t, s->m, s->x, s->n_in, y, 1));
    char *bytes = test_read_file(path, &n);
    ck_assert_uint_eq(n, s->summary.bytes);
    const dt__span file = { bytes, n };
    const dt__verify_tensors of = { s->x, y, s->n_in, 1, NULL };
    const dt_status status = dt__verify_tflite(ctx, path, &file, &of, d);
    TEST_EACH(status == DT_OK, "%s: %s", stem, dt_error(ctx));
    if (keep) {
        save(stem, "in", s->x[0]);
        save(stem, "out", y[0]);
    }
    free(bytes);
    dt_tape_free(t);
    return d[0].relative;
}

bool tflite_has(const char *bytes, size_t n, const char *text)
{
    const size_t length = strlen(text) + 1;
    for (size_t i = 0; i + length <= n; i++) {
        if (memcmp(bytes + i, text, length) == 0) return true;
    }
    return false;
}
