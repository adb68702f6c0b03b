/* OUT.partial, from which an interrupted quantization continues. Its metadata, besides the model's:
 *
 *     detent.partial   { "source": hash, "calibration": hash, "settings": text }
 *     detent.report    [ a weight's report, ... ], in the order in which they were done */
#include "train/quantize/partial.h"

#include "core/system/atomic_file.h"
#include "core/tensor.h"
#include "io/model/model.h"
#include "train/quantize/quantize_report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct origin_text {
    const char *source, *calibration, *settings;
} origin_text;

#define AT(field) .offset = offsetof(origin_text, field)

static const dt_key origin_keys[] = {
    { "source", DT_KEY_STRING, AT(source) },
    { "calibration", DT_KEY_STRING, AT(calibration) },
    { "settings", DT_KEY_STRING, AT(settings) },
    { 0 },
};

dt_status dt__partial_hash(dt_ctx *ctx, const char *path, char digits[DT__HASH_DIGITS + 1])
{
    dt_file *file;
    DT__TRY(dt_file_open(ctx, path, &file));
    const dt_status status = dt__file_hash(file, digits);
    dt_file_close(file);
    return status;
}

dt_status dt__partial_save(const dt__partial *p, dt_module *m, const dt_model_info *info,
                           const dt_quantize_summary *s)
{
    const origin_text origin = { p->origin.source, p->origin.calibration, p->origin.settings };
    dt__chars from = { .ctx = p->ctx }, report = { .ctx = p->ctx };
    dt__put_options(&from, origin_keys, &origin);
    dt__report_put(&report, s, false);
    const dt__meta meta[] = { { DT__KEY_PARTIAL, dt__chars_text(&from) },
                              { DT__KEY_REPORT, dt__chars_text(&report) },
                              { NULL, NULL } };
    const bool room = meta[0].value != NULL && meta[1].value != NULL;
    const dt_status status = room ? dt__model_save_with(m, info, meta, p->path) : DT_ERR_NOMEM;
    DT__RELEASE(p->ctx, from.bytes, report.bytes);
    return status;
}

void dt__partial_remove(dt_ctx *ctx, const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT) return;
    dt__file_fail(ctx, "delete", path, errno);
    dt__say(ctx, "warning: %s; the result is whole", dt_error(ctx));
}

/* FORMAT, with what differs, if it has another origin. */
static dt_status check_origin(const dt__partial *p, const dt_file *file)
{
    static const char *const parts[] = { "of another file", "with other calibration data",
                                         "with other settings" };
    origin_text origin = { NULL };
    dt__json j;
    char *strings = NULL;
    dt_status status = dt__partial_scan(file, DT__KEY_PARTIAL, &j, &strings);
    if (status == DT_OK) status = dt__json_options(&j, origin_keys, &origin);
    if (status == DT_OK) status = dt__json_end(&j);
    const char *const is[] = { origin.source, origin.calibration, origin.settings };
    const char *const wanted[] = { p->origin.source, p->origin.calibration, p->origin.settings };
    for (int i = 0; i < DT__COUNT_OF(is) && status == DT_OK; i++) {
        if (strcmp(is[i], wanted[i]) == 0) continue;
        status = dt_fail(p->ctx, DT_ERR_FORMAT, "%s was begun %s", p->path, parts[i]);
    }
    dt__release(p->ctx, strings);
    return status;
}

/* Whether report i is the first about its weight, and that weight of m is packed. */
static bool is_done(const dt_quantize_summary *s, int64_t i, dt_module *m)
{
    const dt_quantized_weight *w = &s->weight[i];
    const dt_tensor *x = dt_param(m, w->name);
    if (x == NULL || !dt_is_packed(x) || x->rank != w->shape.n) return false;
    for (int k = 0; k < x->rank; k++) {
        if (x->dims[k] != w->shape.v[k]) return false;
    }
    for (int64_t k = 0; k < i; k++) {
        if (strcmp(s->weight[k].name, w->name) == 0) return false;
    }
    return true;
}

static dt_status load_model(const dt_file *file, const dt_quantize_summary *s, dt_module **m)
{
    char shown[DT__SHOWN];
    DT__TRY(dt__model_of_file(file, m, NULL));
    for (int64_t i = 0; i < s->n; i++) {
        if (is_done(s, i, *m)) continue;
        dt_module_free(*m);
        *m = NULL;
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: " DT__KEY_REPORT ": '%s' is not a weight that is done", file->path,
                       dt__shown(s->weight[i].name, shown));
    }
    return DT_OK;
}

dt_status dt__partial_check(const dt_file *file)
{
    DT__TRY(dt_file_check(file));
    if (dt_file_meta(file, DT__KEY_HASH) != NULL) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: the file was damaged: it has no %s", file->path,
                   DT__KEY_HASH);
}

static dt_status load(const dt__partial *p, const dt_file *file, dt_module **m,
                      dt_quantize_summary *s)
{
    DT__TRY(dt__partial_check(file));
    DT__TRY(check_origin(p, file));
    DT__TRY(dt__report_of_file(file, s));
    return load_model(file, s, m);
}

dt_status dt__partial_load(const dt__partial *p, dt_module **m, dt_quantize_summary *s)
{
    dt_file *file = NULL;
    *m = NULL;
    if (access(p->path, F_OK) != 0) return DT_OK;
    dt_status status = dt_file_open(p->ctx, p->path, &file);
    if (status == DT_OK) status = load(p, file, m, s);
    dt_file_close(file);
    if (status == DT_OK || status == DT_ERR_NOMEM) return status;
    dt__say(p->ctx, "%s; begun anew", dt_error(p->ctx));
    const int64_t samples = s->samples; /* of the calibration data, known before */
    dt_quantize_summary_free(s);
    s->samples = samples;
    return DT_OK;
}
