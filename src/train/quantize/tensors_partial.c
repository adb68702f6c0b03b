/* OUTPUT.partial: the finished weights of an unfinished file, in the form of the final file
 * (detent.tensors), and in its metadata
 *
 *     detent.partial = [ hash, ... ]      of all that a weight's codes depend on
 *     detent.report  = [ report, ... ]    in the same order
 *
 * It is written when the work ends early, and at intervals of at least two seconds and at least
 * twenty times as long as writing takes. Finished tensors are then lent by the file, and their
 * memory is freed. */
#include "core/text/row_named.h"
#include "core/clock.h"
#include "io/model/model.h"
#include "train/quantize/partial.h"
#include "train/quantize/quantize_report.h"
#include "train/quantize/tensors.h"

#include <string.h>
#include <unistd.h>

#define LEAST_SECONDS 2.0
#define SHARE 20.0

/* ---- what codes depend on ------------------------------------------------------------------- */

static dt_status hash(const dt__tensors_run *r, const dt__tensor_plan *p, char key[])
{
    dt__chars t = { .ctx = r->ctx };
    dt__tensor_weight meta = p->meta;
    meta.samples = r->o->calibration.samples;
    meta.ordered = false; /* both are determined by the rest */
    dt__put_text(&t, dt_version());
    dt__put_tensor_weight(&t, &meta);
    dt__put_options(&t, dt_rounding_options_keys, &p->options);
    DT__PUT_ALL(&t, p->input == NULL ? "" : p->input->dtype,
                p->float_input == NULL ? "" : p->float_input->dtype, p->entry->dtype);
    if (p->index != NULL || p->offsets != NULL) dt__put_text(&t, p->index != NULL ? "i" : "o");
    const dt_file_entry *parts[] = { p->entry, p->input, p->float_input, p->index, p->offsets };
    dt__span span[1 + DT__COUNT_OF(parts)] = { { t.bytes, t.used } };
    for (int i = 0; i < DT__COUNT_OF(parts); i++) {
        span[i + 1] = (dt__span){ parts[i] == NULL ? NULL : parts[i]->data,
                                  parts[i] == NULL ? 0 : parts[i]->bytes };
    }
    const dt_status s =
        t.failed ? DT_ERR_NOMEM : dt__hash_spans(r->ctx, span, DT__COUNT_OF(span), key);
    dt__release(r->ctx, t.bytes);
    return s;
}

static dt_status ensure_key(const dt__tensors_run *r, dt__tensor_plan *p)
{
    return p->key[0] != 0 ? DT_OK : hash(r, p, p->key);
}

static dt__tensor_plan *plan_of(const dt__tensors_run *r, const char *name)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (strcmp(r->plan[i].entry->name, name) == 0) return &r->plan[i];
    }
    return NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

dt_status dt__tensors_add(const dt__tensors_run *r, dt_writer *w)
{
    dt__chars t = { .ctx = r->ctx };
    bool first = true;
    dt_status s = DT_OK;
    dt__put_text(&t, "{");
    for (int64_t i = 0; i < r->n && s == DT_OK; i++) {
        const dt__tensor_plan *p = &r->plan[i];
        if (!p->done) continue;
        dt__put_comma(&t, &first);
        DT__PUT_ALL(&t, DT__QUOTED(p->meta.name), ":");
        dt__put_tensor_weight(&t, &p->meta);
        s = dt__row_parts_add(r->ctx, w, NULL, p->meta.name, &p->parts);
    }
    dt__put_text(&t, "}");
    const char *text = dt__chars_text(&t);
    if (s == DT_OK) s = text == NULL ? DT_ERR_NOMEM : dt_writer_meta(w, DT__KEY_TENSORS, text);
    dt__release(r->ctx, t.bytes);
    return s;
}

static dt_status add_keys(const dt__tensors_run *r, dt_writer *w)
{
    dt__chars keys = { .ctx = r->ctx }, reports = { .ctx = r->ctx };
    bool first = true;
    dt_status s = DT_OK;
    dt__put_text(&keys, "[");
    for (int64_t i = 0; i < r->summary->n && s == DT_OK; i++) {
        dt__tensor_plan *p = plan_of(r, r->summary->weight[i].name);
        s = ensure_key(r, p);
        dt__put_comma(&keys, &first);
        dt__put_quoted(&keys, p->key);
    }
    dt__put_text(&keys, "]");
    dt__report_put(&reports, r->summary, false);
    const char *a = dt__chars_text(&keys), *b = dt__chars_text(&reports);
    if (s == DT_OK && (a == NULL || b == NULL)) s = DT_ERR_NOMEM;
    if (s == DT_OK) s = dt_writer_meta(w, DT__KEY_PARTIAL, a);
    if (s == DT_OK) s = dt_writer_meta(w, DT__KEY_REPORT, b);
    DT__RELEASE(r->ctx, keys.bytes, reports.bytes);
    return s;
}

/* ---- lending -------------------------------------------------------------------------------- */

/* The parts of a weight in an open, checked file. */
static dt_status lend(const dt_file *file, const char *name, dt__row_parts *out)
{
    *out = (dt__row_parts){ 0 };
    for (int i = 0; i < DT__ROW_PARTS; i++) {
        const dt_file_entry *e;
        DT__TRY(dt__file_part(file, name, dt__row_suffix[i], &e));
        if (e == NULL) continue;
        out->part[i] = *e;
        out->part[i].name = dt__row_suffix[i];
    }
    return DT_OK;
}

/* Frees the memory of finished tensors and lends them from `file`, which is closed where that
 * fails. */
static dt_status lend_all(dt__tensors_run *r, dt_file *file)
{
    dt__row_parts *parts = dt__alloc_array(r->ctx, r->n, sizeof *parts);
    dt_status s = parts == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t i = 0; i < r->n && s == DT_OK; i++) {
        if (r->plan[i].done) s = lend(file, r->plan[i].meta.name, &parts[i]);
    }
    for (int64_t i = 0; i < r->n && s == DT_OK; i++) {
        if (!r->plan[i].done) continue;
        r->plan[i].parts = parts[i];
        dt__tensors_drop(r, &r->plan[i]);
    }
    dt__release(r->ctx, parts);
    dt_file_close(s == DT_OK ? r->partial : file);
    if (s == DT_OK) r->partial = file;
    return s;
}

static dt_status write_partial(dt__tensors_run *r)
{
    dt_writer *w = NULL;
    dt_file *file = NULL;
    dt_status s = dt_writer_create(r->ctx, &w);
    if (s == DT_OK) s = dt__tensors_add(r, w);
    if (s == DT_OK) s = add_keys(r, w);
    if (s == DT_OK) s = dt_writer_write(w, r->partial_path);
    dt_writer_free(w);
    if (s == DT_OK) s = dt_file_open(r->ctx, r->partial_path, &file);
    return s == DT_OK ? lend_all(r, file) : s;
}

dt_status dt__tensors_keep(dt__tensors_run *r, bool now)
{
    const double start = dt__seconds(), since = start - r->saved;
    if (r->summary->n == 0) return DT_OK;
    if (!now && (since < LEAST_SECONDS || since < SHARE * r->saving)) return DT_OK;
    DT__TRY(write_partial(r));
    r->saved = dt__seconds();
    r->saving = r->saved - start;
    return DT_OK;
}

/* ---- resuming ------------------------------------------------------------------------------ */

/* The metadata of a partial result. */
typedef struct found {
    dt_file *file;
    dt__tensors tensors;
    dt_quantize_summary reports;
    char *keys_text; /* memory of the hashes */
    int64_t fit;
} found;

static const dt__tensor_weight *described(const found *f, const char *name)
{
    return dt__row_named(f->tensors.at, f->tensors.n, sizeof *f->tensors.at, name);
}

/* Takes weight i of the partial result if its hash fits. */
static dt_status take(dt__tensors_run *r, found *f, int64_t i, const char *key)
{
    const dt_quantized_weight *w = &f->reports.weight[i];
    const dt__tensor_weight *meta = described(f, w->name);
    dt__tensor_plan *p = plan_of(r, w->name);
    if (p == NULL || !p->rounds || p->done || meta == NULL) return DT_OK;
    DT__TRY(ensure_key(r, p));
    if (strcmp(p->key, key) != 0) return DT_OK;
    DT__TRY(dt__report_append(r->summary, w));
    DT__TRY(lend(f->file, w->name, &p->parts));
    p->meta.samples = meta->samples;
    p->meta.ordered = meta->ordered;
    p->done = true;
    f->fit++;
    return DT_OK;
}

static dt_status take_all(dt__tensors_run *r, found *f)
{
    dt__json j;
    DT__TRY(dt__partial_scan(f->file, DT__KEY_PARTIAL, &j, &f->keys_text));
    int64_t i = 0;
    for (bool more = dt__json_open(&j, '['); more; more = dt__json_more(&j, ']'), i++) {
        const char *key;
        DT__TRY(dt__json_string(&j, &key));
        if (i >= f->reports.n) return dt__json_fail(&j, "more hashes than reports");
        DT__TRY(take(r, f, i, key));
    }
    DT__TRY(j.status);
    return dt__json_end(&j);
}

static dt_status look(dt__tensors_run *r, found *f)
{
    DT__TRY(dt_file_open(r->ctx, r->partial_path, &f->file));
    DT__TRY(dt__partial_check(f->file));
    DT__TRY(dt_model_check(f->file));
    DT__TRY(dt__tensors_read(f->file, &f->tensors));
    DT__TRY(dt__report_of_file(f->file, &f->reports));
    return take_all(r, f);
}

static void forget(dt__tensors_run *r)
{
    dt_quantize_summary *s = r->summary;
    dt_quantize_summary taken = { .ctx = r->ctx, .weight = s->weight, .n = s->n };
    for (int64_t i = 0; i < r->n; i++) r->plan[i].done = false;
    dt_quantize_summary_free(&taken);
    s->weight = NULL;
    s->n = s->room = 0;
}

dt_status dt__tensors_resume(dt__tensors_run *r)
{
    found f = { .tensors.ctx = r->ctx, .reports.ctx = r->ctx };
    if (access(r->partial_path, F_OK) != 0) return DT_OK;
    dt_status s = look(r, &f);
    if (s != DT_OK && s != DT_ERR_NOMEM) {
        dt__say(r->ctx, "%s; begun anew", dt_error(r->ctx));
        forget(r);
        s = DT_OK;
    } else if (s == DT_OK && f.fit < f.reports.n) {
        dt__say(r->ctx, "%s: %lld of its %lld weights are of other weights, inputs or settings",
                r->partial_path, (long long)(f.reports.n - f.fit), (long long)f.reports.n);
    }
    if (r->summary->n > 0) r->partial = f.file;
    else dt_file_close(f.file);
    r->summary->resumed = r->summary->n;
    dt__tensors_free(&f.tensors);
    dt_quantize_summary_free(&f.reports);
    dt__release(r->ctx, f.keys_text);
    return s;
}
