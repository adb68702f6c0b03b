/* dt_quantize_tensors: quantizes a file of weights without a model. Checks all settings, names and
 * shapes first, then rounds one weight after the other, and writes the whole file at the end. */
#include "train/quantize/rounding.h"
#include "core/clock.h"
#include "core/tensor.h"
#include "io/safetensors/file_apart.h"
#include "io/model/model.h"
#include "ptq/rounding_cost.h"
#include "train/quantize/partial.h"
#include "train/quantize/quantize_report.h"
#include "train/quantize/tensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The output and its partial file must not be files that are read. */
static dt_status check_same(const dt__tensors_run *r, const char *to)
{
    DT__TRY(dt__file_apart(r->ctx, to, r->job->weights));
    return dt__file_apart(r->ctx, to, r->job->calibration);
}

/* Finds errors of the output path now, and not at the end, after hours of work. */
static dt_status check_output(const dt__tensors_run *r)
{
    const char *path = r->job->output, *slash = strrchr(path, '/');
    struct stat about;
    DT__TRY(check_same(r, path));
    DT__TRY(check_same(r, r->partial_path));
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        return dt_fail(r->ctx, DT_ERR_IO, "%s: cannot write: the path is not a regular file",
                       dt__path_tail(path));
    }
    char *folder = dt__format_string(r->ctx, "%.*s",
                                     slash == NULL   ? 1
                                     : slash == path ? 1
                                                     : (int)(slash - path),
                                     slash == NULL ? "." : path);
    if (folder == NULL) return DT_ERR_NOMEM;
    dt_status s = DT_OK;
    if (access(folder, W_OK | X_OK) != 0) s = dt__file_fail(r->ctx, "write", path, errno);
    dt__release(r->ctx, folder);
    return s;
}

/* Copies the source's metadata, except detent's own keys. */
static dt_status copy_meta(const dt__tensors_run *r, dt_writer *w)
{
    const char *key, *value;
    for (int64_t i = 0; dt_file_meta_at(r->weights, i, &key, &value); i++) {
        if (strncmp(key, DT__OWN_PREFIX, strlen(DT__OWN_PREFIX)) == 0) continue;
        DT__TRY(dt_writer_meta(w, key, value));
    }
    dt__chars t = { .ctx = r->ctx };
    dt__put_options(&t, dt_rounding_options_keys, &r->o->rounding);
    const char *text = dt__chars_text(&t);
    const dt_status s = text == NULL ? DT_ERR_NOMEM : dt_writer_meta(w, DT__KEY_ROUNDING, text);
    dt__release(r->ctx, t.bytes);
    return s;
}

static dt_status fill_writer(const dt__tensors_run *r, dt_writer *w)
{
    DT__TRY(copy_meta(r, w));
    DT__TRY(dt__tensors_add(r, w));
    for (int64_t i = 0; i < r->n; i++) {
        if (!r->plan[i].rounds) DT__TRY(dt_writer_add_bytes(w, r->plan[i].entry));
    }
    return DT_OK;
}

static dt_status write_output(const dt__tensors_run *r)
{
    dt_writer *w = NULL;
    dt_status s = dt_writer_create(r->ctx, &w);
    if (s == DT_OK) s = fill_writer(r, w);
    if (s == DT_OK) s = dt_writer_write(w, r->job->output);
    dt_writer_free(w);
    if (s == DT_OK) dt__partial_remove(r->ctx, r->partial_path);
    return s;
}

static dt_status count_tensors(dt__tensors_run *r)
{
    dt_quantize_summary *s = r->summary;
    s->copied = dt__alloc_array(r->ctx, r->n, sizeof *s->copied);
    if (s->copied == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r->n; i++) {
        const dt__tensor_plan *p = &r->plan[i];
        s->bytes_before += (int64_t)p->entry->bytes;
        if (p->rounds) {
            s->wanted++;
            continue;
        }
        s->bytes += (int64_t)p->entry->bytes;
        s->copied[s->n_copied] = dt__copy_string(r->ctx, p->entry->name);
        if (s->copied[s->n_copied] == NULL) return DT_ERR_NOMEM;
        s->n_copied++;
    }
    return DT_OK;
}

/* The bytes of a part follow from its dtype and dims. */
static void count_codes(dt__tensors_run *r)
{
    dt_quantize_summary *s = r->summary;
    for (int64_t i = 0; i < r->n; i++) {
        const dt__tensor_plan *p = &r->plan[i];
        if (!p->done) continue;
        s->samples = dt__max_i64(s->samples, p->meta.samples);
        for (int k = 0; k < DT__ROW_PARTS; k++) {
            const dt_file_entry *e = &p->parts.part[k];
            int64_t count = 0;
            size_t bytes = 0;
            if (e->data == NULL || !dt__product(e->rank, e->dims, &count)) continue;
            if (dt__file_bytes(dt__file_dtype_of(e->dtype), count, &bytes))
                s->bytes += (int64_t)bytes;
        }
    }
    dt__report_total(s);
}

/* Saves the partial result. Work continues if that fails. */
static dt_status keep(dt__tensors_run *r)
{
    const dt_status s = dt__tensors_keep(r, false);
    if (s == DT_OK || s == DT_ERR_NOMEM) return s;
    dt__say(r->ctx, "%s", dt_error(r->ctx));
    r->saved = dt__seconds();
    r->saving += 1;
    return DT_OK;
}

/* Adds the cost of rounding a tensor; a sample of a convolution is a position of its input. */
static void add_cost(const dt__tensors_run *r, const dt__tensor_plan *p, dt__round_cost *cost)
{
    const int64_t given = r->o->calibration.samples;
    const dt_file_entry *x = p->input;
    double samples = 0;
    if (x != NULL && x->dims[0] > 0) {
        const int64_t channels = dt__is_convolution(&p->op) ? x->dims[1] : x->dims[x->rank - 1];
        const double part = given > 0 ? fmin((double)given / (double)x->dims[0], 1) : 1;
        samples = part * (double)x->count / (double)dt__max_i64(channels, 1);
    }
    if (p->op.kind == DT_WEIGHT_GROUPED_LINEAR) samples /= (double)p->entry->dims[0];
    const dt__round_case of = { .method = dt__method_of(p->options.rounder),
                                .op = &p->op,
                                .rank = p->entry->rank,
                                .dims = p->entry->dims,
                                .differ = p->float_input != NULL,
                                .samples = samples };
    dt__round_cost_add(r->ctx, &of, cost);
}

static dt_status plan_work(const dt__tensors_run *r)
{
    dt__round_cost cost = { .codes = 0 };
    int rounder = DT_ROUND_NEAREST;
    for (int64_t i = 0; i < r->n; i++) {
        const dt__tensor_plan *p = &r->plan[i];
        if (!p->rounds || p->done) continue;
        add_cost(r, p, &cost);
        rounder = p->options.rounder;
    }
    cost.forward = 0; /* inputs are given */
    dt__plan_rounding(r->ctx, &cost);
    return r->ctx->told == NULL ? DT_OK : dt__try_rounding(r->ctx, rounder, &cost);
}

static dt_status round_all(dt__tensors_run *r)
{
    DT__TRY(plan_work(r));
    for (int64_t i = 0; i < r->n; i++) {
        dt__tensor_plan *p = &r->plan[i];
        if (!p->rounds || p->done) continue;
        DT__TRY(dt__tensors_round(r, p));
        if (r->job->weight != NULL) r->job->weight(r->job->user, r->summary);
        DT__TRY(keep(r));
    }
    count_codes(r);
    return write_output(r);
}

/* Saves the partial result of a call that ends early. If that fails, its error is returned. */
static dt_status keep_rest(dt__tensors_run *r, dt_status status)
{
    char why[DT__MESSAGE_SIZE / 2], kept[DT__MESSAGE_SIZE / 2];
    if (status != DT_ERR_INTERRUPTED && status != DT_ERR_NOMEM) return status;
    if (r->summary->n == r->summary->resumed) return status;
    snprintf(why, sizeof why, "%s", dt_error(r->ctx));
    const dt_status s = dt__tensors_keep(r, true);
    if (s == DT_OK) return dt_fail(r->ctx, status, "%s", why);
    snprintf(kept, sizeof kept, "%s", dt_error(r->ctx));
    return dt_fail(r->ctx, s, "%s; what is done could not be kept: %s", why, kept);
}

static dt_status run(dt__tensors_run *r)
{
    r->partial_path = dt__format_string(r->ctx, "%s.partial", r->job->output);
    if (r->partial_path == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__tensors_plan(r));
    DT__TRY(check_output(r));
    DT__TRY(count_tensors(r));
    DT__TRY(dt__tensors_resume(r));
    r->saved = dt__seconds();
    const dt_status status = round_all(r);
    return status == DT_OK ? DT_OK : keep_rest(r, status);
}

static void close_run(dt__tensors_run *r)
{
    for (int64_t i = 0; r->plan != NULL && i < r->n; i++) dt__tensors_drop(r, &r->plan[i]);
    DT__RELEASE(r->ctx, r->plan, r->partial_path);
    dt_file_close(r->weights);
    dt_file_close(r->inputs);
    dt_file_close(r->partial);
}

static dt_status check_call(dt_ctx *ctx, dt_recipe *recipe, const dt_tensors_job *job)
{
    if (job->weights == NULL || job->output == NULL || job->codes < DT_CODES_PACKED ||
        job->codes > DT_CODES_I8) {
        return dt_fail(ctx, DT_ERR_ARG, "dt_quantize_tensors: no path, or no form of codes");
    }
    if (dt_recipe_error_count(recipe) > 0) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%s", dt_recipe_error_at(recipe, 0));
    }
    if (recipe->options.quantize.given && recipe->options.quantize.correct_bias) {
        return dt_recipe_refuse(recipe, "quantize.correct_bias",
                                "'quantize.correct_bias' is of models: a file of tensors does not "
                                "say which bias belongs to a weight");
    }
    if (recipe->only_quantizes || recipe->options.quantize.given) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "recipe %s has no 'quantize'", recipe->file);
}

dt_status dt_quantize_tensors(dt_ctx *ctx, dt_recipe *recipe, const dt_tensors_job *job,
                              dt_quantize_summary *summary)
{
    DT__NEED3(ctx, ctx, recipe, job);
    dt_quantize_summary unwanted;
    dt__tensors_run r = { .ctx = ctx, .recipe = recipe, .job = job };
    r.summary = summary != NULL ? summary : &unwanted;
    r.o = &dt_recipe_get(recipe)->quantize;
    *r.summary = (dt_quantize_summary){ .ctx = ctx };
    DT__TRY(check_call(ctx, recipe, job));
    const int threads = ctx->threads;
    const int64_t wanted = dt_recipe_get(recipe)->run.threads;
    if (wanted > 0) DT__TRY(dt__threads_set(ctx, (int)wanted));
    const double start = dt__seconds();
    dt_memory_reset_peak(ctx);
    const dt_status status = run(&r);
    r.summary->seconds = dt__seconds() - start;
    r.summary->peak_memory = (int64_t)dt_memory_of(ctx).peak;
    close_run(&r);
    const dt_status back = dt__threads_set(ctx, threads);
    dt_quantize_summary_free(summary == NULL ? &unwanted : NULL);
    return status == DT_OK ? back : status;
}
