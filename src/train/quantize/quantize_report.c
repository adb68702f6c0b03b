/* The report of post-training quantization. One table of keys describes a weight's entry, in the
 * JSON for other programs and in partial results. */
#include "train/quantize/quantize_report.h"

#include "core/tensor.h"
#include "io/model/model.h"
#include "qat/quantized.h"

#include <string.h>

#define AT(field) .offset = offsetof(dt_quantized_weight, field)
#define OF(field) .offset = offsetof(dt_quantized_weight, report.field)

/* Limit of counts that are read, so that sums over all weights stay below 2^63. */
#define MOST_COUNT 1e14
#define MOST_WEIGHTS 65536
#define COUNT(name, field)                                                                         \
    {                                                                                              \
        name, DT_KEY_INT, OF(field), .most = MOST_COUNT                                            \
    }

static const dt_key weight_keys[] = {
    { "name", DT_KEY_STRING, AT(name) },
    { "scheme", DT_KEY_STRING, AT(scheme) },
    { "shape", DT_KEY_INTS, AT(shape) },
    { "method", DT_KEY_STRING, OF(method) },
    { "fallback", DT_KEY_BOOL, OF(fallback) },
    { "unreached", DT_KEY_BOOL, OF(unreached) },
    { "untreated", DT_KEY_BOOL, OF(untreated) },
    COUNT("rows", rows),
    COUNT("columns", columns),
    COUNT("groups", groups),
    COUNT("samples", samples),
    COUNT("unseen", unseen),
    { "unseen_experts", DT_KEY_INTS, OF(unseen_experts), .most = MOST_COUNT,
      .was = "unseen_members" },
    COUNT("dead", dead),
    COUNT("zeros_kept", zeros_kept),
    COUNT("kept_nearest", kept_nearest),
    { "damping_share", DT_KEY_REAL, OF(damping_share) },
    { "damping", DT_KEY_REAL, OF(damping) },
    { "loss", DT_KEY_REAL, OF(loss) },
    { "error", DT_KEY_REAL, OF(error) },
    { "nearest_error", DT_KEY_REAL, OF(nearest_error) },
    COUNT("changed", changed),
    COUNT("accumulator_bits", accumulator_bits),
    COUNT("sum_bits", sum_bits),
    { "seconds", DT_KEY_REAL, OF(seconds) },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_quantize_summary, field)

static const dt_key total_keys[] = {
    { "samples", DT_KEY_INT, AT(samples) },
    { "layers", DT_KEY_INT, AT(total.layers) },
    { "resumed", DT_KEY_INT, AT(resumed) },
    { "fallbacks", DT_KEY_INT, AT(total.fallbacks) },
    { "unreached", DT_KEY_INT, AT(total.unreached) },
    { "untreated", DT_KEY_INT, AT(total.untreated) },
    { "unseen", DT_KEY_INT, AT(total.unseen) },
    { "elements", DT_KEY_INT, AT(total.elements) },
    { "dead", DT_KEY_INT, AT(total.dead) },
    { "zeros_kept", DT_KEY_INT, AT(total.zeros_kept) },
    { "kept_nearest", DT_KEY_INT, AT(total.kept_nearest) },
    { "accumulator_bits", DT_KEY_INT, AT(total.accumulator_bits) },
    { "seconds", DT_KEY_REAL, AT(seconds) },
    { "peak_memory", DT_KEY_INT, AT(peak_memory) },
    { "copied", DT_KEY_INT, AT(n_copied) },
    { "bytes_before", DT_KEY_INT, AT(bytes_before) },
    { "bytes", DT_KEY_INT, AT(bytes) },
    { 0 },
};

static void free_strings(dt_quantize_summary *s, const dt_quantized_weight *w)
{
    DT__RELEASE(s->ctx, (void *)(uintptr_t)w->name, (void *)(uintptr_t)w->scheme,
                (void *)(uintptr_t)w->report.method);
}

dt_status dt__report_append(dt_quantize_summary *s, const dt_quantized_weight *w)
{
    DT__TRY(DT__RESERVE(s->ctx, s->weight, s->n, s->room));
    dt_quantized_weight own = *w;
    own.name = dt__copy_string(s->ctx, w->name);
    own.scheme = dt__copy_string(s->ctx, w->scheme);
    own.report.method = dt__copy_string(s->ctx, w->report.method);
    if (own.name != NULL && own.scheme != NULL && own.report.method != NULL) {
        s->weight[s->n++] = own;
        return DT_OK;
    }
    free_strings(s, &own);
    return DT_ERR_NOMEM;
}

dt_status dt__report_add(dt_quantize_summary *s, dt_module *m, const char *path,
                         const dt_round_report *report)
{
    char scheme[96] = "";
    dt_quantized_weight w = { .name = path, .scheme = scheme, .report = *report };
    const dt_tensor *x = dt_param(m, path);
    if (x == NULL) return dt_fail(s->ctx, DT_ERR_ARG, "the model has no weight '%s'", path);
    if (dt__quant_of(x) != NULL) dt__quant_text(dt__quant_of(x), scheme, sizeof scheme);
    w.shape.n = x->rank;
    memcpy(w.shape.v, x->dims, (size_t)x->rank * sizeof w.shape.v[0]);
    return dt__report_append(s, &w);
}

void dt_quantize_summary_free(dt_quantize_summary *s)
{
    if (s == NULL) return;
    for (int64_t i = 0; i < s->n; i++) free_strings(s, &s->weight[i]);
    for (int64_t i = 0; i < s->n_copied; i++) dt__release(s->ctx, s->copied[i]);
    DT__RELEASE(s->ctx, s->copied, s->weight);
    *s = (dt_quantize_summary){ .ctx = s->ctx };
}

/* Sums and largest over all weights. */
void dt__report_total(dt_quantize_summary *s)
{
    dt_ptq_report all = { .layers = s->n };
    for (int64_t i = 0; i < s->n; i++) {
        const dt_round_report *r = &s->weight[i].report;
        int64_t elements = 1;
        dt__product(s->weight[i].shape.n, s->weight[i].shape.v, &elements);
        all.elements += elements;
        all.fallbacks += r->fallback;
        all.unreached += r->unreached;
        all.untreated += r->untreated;
        all.unseen += r->unseen;
        all.dead += r->dead;
        all.zeros_kept += r->zeros_kept;
        all.kept_nearest += r->kept_nearest;
        all.accumulator_bits = dt__max_i64(all.accumulator_bits, r->accumulator_bits);
        all.seconds += r->seconds;
    }
    s->total = all;
}

void dt__report_put(dt__chars *t, const dt_quantize_summary *s, bool lines)
{
    dt__put_text(t, "[");
    for (int64_t i = 0; dt__put_each(t, i, s->n); i++) {
        if (lines) dt__put_text(t, "\n");
        dt__put_options(t, weight_keys, &s->weight[i]);
    }
    dt__put_text(t, "]");
}

static dt_status read_list(dt__json *j, dt_quantize_summary *s)
{
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        dt_quantized_weight w = { .name = NULL };
        int64_t elements = 1;
        DT__TRY(dt__json_options(j, weight_keys, &w));
        if (!dt__product(w.shape.n, w.shape.v, &elements) || elements > (int64_t)MOST_COUNT ||
            s->n == MOST_WEIGHTS) {
            return dt__json_fail(j, "more weights, or larger ones, than there can be");
        }
        DT__TRY(dt__report_append(s, &w));
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

dt_status dt__partial_scan(const dt_file *file, const char *key, dt__json *j, char **strings)
{
    bool has;
    DT__TRY(dt__meta_scan(file, key, j, strings, &has));
    if (has) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: %s is missing", file->path, key);
}

dt_status dt__report_of_file(const dt_file *file, dt_quantize_summary *s)
{
    dt__json j;
    char *strings = NULL;
    dt_status status = dt__partial_scan(file, DT__KEY_REPORT, &j, &strings);
    if (status == DT_OK) status = read_list(&j, s);
    dt__release(file->ctx, strings);
    return status;
}

dt_status dt_quantize_summary_json(const dt_quantize_summary *s, dt_sink sink, void *user)
{
    DT__NEED2(NULL, s, s->ctx);
    DT__NEED(s->ctx, sink);
    dt__chars t = { .ctx = s->ctx };
    dt__put_text(&t, "{\"weights\":");
    dt__report_put(&t, s, true);
    dt__put_text(&t, ",\n\"copied\":[");
    for (int64_t i = 0; dt__put_each(&t, i, s->n_copied); i++) dt__put_quoted(&t, s->copied[i]);
    dt__put_text(&t, "],\n\"total\":");
    dt__put_options(&t, total_keys, s);
    dt__put_text(&t, "}\n");
    const dt_status status = t.failed ? DT_ERR_NOMEM : sink(user, t.bytes, t.used);
    dt__release(s->ctx, t.bytes);
    return status;
}
