/* Runs that are done once, and the folder that they share.
 *
 *     DIR/plan.json     what is to be done there, as text: another plan needs another folder
 *     DIR/NAME/         a run; finished if it has summary.json, else it is resumed
 *     DIR/NAME.failed   the message of a run that would fail again */
#define _DEFAULT_SOURCE /* flock */
#include "sweep/jobs.h"

#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"
#include "data/content_hash.h"
#include "report/page_run.h"
#include "train/recipe/choices.h"
#include "train/run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

dt_status dt__job_path(dt_ctx *ctx, const char *dir, const char *name, char path[DT__JOB_PATH])
{
    const int n = snprintf(path, DT__JOB_PATH, "%s/%s", dir, name);
    if (n > 0 && n < DT__JOB_PATH) return DT_OK;
    return dt_fail(ctx, DT_ERR_IO, "the path of '%s' in the folder is too long", name);
}

static bool holds(dt_ctx *ctx, const char *dir, const char *name)
{
    char path[DT__JOB_PATH];
    return dt__job_path(ctx, dir, name, path) == DT_OK && access(path, F_OK) == 0;
}

/* A damaged summary counts as missing: the run is resumed, and writes it again. */
static bool is_finished(dt_ctx *ctx, const char *dir, bool report)
{
    dt__page_run r;
    if (!holds(ctx, dir, "summary.json") || (report && !holds(ctx, dir, "report.html"))) {
        return false;
    }
    if (dt__page_run_open(ctx, dir, &r) != DT_OK) return false;
    const bool whole = dt__field_text(r.summary.root, "evaluated_on")[0] != 0;
    dt__page_run_close(&r);
    return whole;
}

static dt_status failed_path(dt_ctx *ctx, const char *dir, char path[DT__JOB_PATH])
{
    const int n = snprintf(path, DT__JOB_PATH, "%s.failed", dir);
    if (n > 0 && n < DT__JOB_PATH) return DT_OK;
    return dt_fail(ctx, DT_ERR_IO, "the path of '%s' is too long", dir);
}

/* Reads the message of a run that failed in an earlier call; false: there is none. */
static bool has_failed(dt_ctx *ctx, const char *dir, dt__job *job)
{
    char path[DT__JOB_PATH];
    FILE *file = failed_path(ctx, dir, path) == DT_OK ? fopen(path, "rb") : NULL;
    if (file == NULL) return false;
    const size_t n = fread(job->error, 1, sizeof job->error - 1, file);
    fclose(file);
    job->error[n] = 0;
    job->error[strcspn(job->error, "\n")] = 0;
    if (n == 0) strcpy(job->error, "it failed in an earlier call");
    return true;
}

/* Stores the context's error as that of the run. If the machine caused it, no file is written, and
 * the next call tries again. */
static dt_status note_failure(dt_ctx *ctx, const char *dir, dt_status s, dt__job *job)
{
    char path[DT__JOB_PATH];
    if (s == DT_ERR_INTERRUPTED || s == DT_ERR_NOMEM) return s;
    snprintf(job->error, sizeof job->error, "%s", dt_error(ctx));
    job->error[strcspn(job->error, "\n")] = 0;
    if (s == DT_ERR_IO) return DT_OK;
    DT__TRY(failed_path(ctx, dir, path));
    return dt__file_replace(ctx, path, &(const dt__span){ job->error, strlen(job->error) }, 1);
}

dt_status dt__job_do(dt_ctx *ctx, dt_recipe *recipe, dt__job *job)
{
    const char *dir = dt_recipe_get(recipe)->run.dir;
    const dt_sweep_control none = { 0 }, *c = job->control != NULL ? job->control : &none;
    job->error[0] = 0;
    if (is_finished(ctx, dir, dt_recipe_get(recipe)->run.report)) return DT_OK;
    if (has_failed(ctx, dir, job)) return DT_OK;
    if (c->stop != NULL && c->stop(c->user)) {
        return dt_fail(ctx, DT_ERR_INTERRUPTED, "interrupted before '%s'", dir);
    }
    bool unbegun;
    DT__TRY(dt__run_is_unbegun(ctx, dir, &unbegun));
    const bool resume = unbegun || holds(ctx, dir, "recipe.yaml");
    const dt_sweep_turn turn = { dir, job->i, job->n, job->done / job->all, job->own / job->all };
    if (c->begins != NULL) c->begins(c->user, &turn);
    const dt_run_control control = { .resume = resume,
                                     .stop = c->stop,
                                     .progress = c->progress,
                                     .doing = c->doing,
                                     .user = c->user };
    const dt_status s = dt_run(ctx, recipe, &control, NULL);
    return s == DT_OK ? s : note_failure(ctx, dir, s, job);
}

dt__page_metric dt__job_metric(const dt_ctx *ctx, const char *name)
{
    const dt_own_metric *own = dt_metric_named(ctx, name);
    if (own == NULL) return dt__page_metric_of(name);
    const dt_metric *m = &own->metric;
    return (dt__page_metric){ m->name,  m->title,    m->unit != NULL ? m->unit : "",
                              m->scale, m->decimals, m->larger_is_better };
}

dt_status dt__job_read(dt_ctx *ctx, const char *dir, char metric[DT_MAX_METRIC_NAME],
                       dt__job_result *out)
{
    dt__page_run r;
    *out = (dt__job_result){ .validated = (double)NAN, .result = (double)NAN };
    DT__TRY(dt__page_run_open(ctx, dir, &r));
    if (metric[0] == 0) snprintf(metric, DT_MAX_METRIC_NAME, "%s", dt__page_first_metric(&r).name);
    out->validated = dt__page_validated(&r, metric);
    out->result = dt__page_result(&r, metric);
    out->bytes = dt__page_bytes(&r);
    snprintf(out->evaluated_on, sizeof out->evaluated_on, "%s",
             dt__field_text(r.summary.root, "evaluated_on"));
    dt__page_run_close(&r);
    return DT_OK;
}

#define PLAN "plan.json"

static dt_status refuse(const dt__work *w)
{
    return dt_fail(w->ctx, DT_ERR_CONFIG,
                   "'%s' exists and holds something else; give another run.dir, or remove it",
                   w->dir);
}

/* Opens the folder, creating it if necessary, and locks it until it is closed. Without locks in the
 * file system it stays unlocked. */
static dt_status lock(dt__work *w, const char *path)
{
    DT__TRY(dt__run_make_parents(w->ctx, path));
    w->lock = dt__sys_open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->lock < 0 && errno == ENOTDIR) return refuse(w);
    if (w->lock < 0) return dt__file_fail(w->ctx, "open", w->dir, errno);
    if (flock(w->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_STATE,
                   "another process works in '%s'; wait for its end, or give another run.dir",
                   w->dir);
}

/* Refuses a folder whose plan is not exactly this text. */
static dt_status check_plan(const dt__work *w, const dt__chars *plan)
{
    char part[4096];
    size_t at = 0;
    ssize_t n = -1;
    const int file = dt__sys_open_at(w->lock, PLAN, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return dt__file_fail(w->ctx, "open", PLAN, errno);
    while ((n = dt__sys_read_at(file, part, sizeof part, (off_t)at)) > 0) {
        if ((size_t)n > plan->used - at || memcmp(part, plan->bytes + at, (size_t)n) != 0) break;
        at += (size_t)n;
    }
    const int error = errno;
    dt__sys_close(file);
    if (n < 0) return dt__file_fail(w->ctx, "read", PLAN, error);
    if (n == 0 && at == plan->used) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_CONFIG,
                   "'%s' was begun with another recipe or description, or files of data have "
                   "changed; give another folder, or remove it",
                   w->dir);
}

dt_status dt__work_put_data(dt_recipe *recipe, dt__chars *plan)
{
    dt_ctx *ctx = recipe->ctx;
    dt_dataset *part[3] = { NULL };
    uint64_t hash = 0;
    if ((DT__FILES & DT__BIT(dt_recipe_get(recipe)->data.format)) == 0) return DT_OK;
    const dt_logger log = ctx->log; /* the runs will print these messages */
    ctx->log = NULL;
    const dt_status s = dt_recipe_open_data(recipe, NULL, &part[0], &part[1], &part[2]);
    ctx->log = log;
    for (int i = 0; i < 3; i++) {
        if (part[i] != NULL) hash = hash * 31 + dt__content_hash(part[i]);
        dt_dataset_free(part[i]);
    }
    if (s != DT_OK) return s == DT_ERR_NOMEM ? s : DT_OK;
    dt__put_text(plan, ", \"data\": ");
    dt__put_integer(plan, (int64_t)(hash >> 12)); /* JSON numbers have 53 bits */
    return DT_OK;
}

dt_status dt__work_open(dt_ctx *ctx, const char *dir, const dt__chars *plan, dt__work *out)
{
    char path[DT__JOB_PATH];
    *out = (dt__work){ ctx, dir, -1 };
    if (plan->failed) return DT_ERR_NOMEM;
    DT__TRY(dt__job_path(ctx, dir, PLAN, path));
    dt_status s = lock(out, path);
    const bool begun = access(path, F_OK) == 0;
    bool unbegun = false;
    if (s == DT_OK && !begun) s = dt__run_is_unbegun(ctx, dir, &unbegun);
    if (s == DT_OK && !begun) {
        s = !unbegun ? refuse(out)
                     : dt__file_replace(ctx, path, &(const dt__span){ plan->bytes, plan->used }, 1);
    } else if (s == DT_OK) {
        s = check_plan(out, plan);
    }
    if (s != DT_OK) dt__work_close(out);
    return s;
}

void dt__work_close(dt__work *w)
{
    if (w->lock >= 0) dt__sys_close(w->lock);
    w->lock = -1;
}

dt_status dt__work_write(const dt__work *w, const char *name, const dt__chars *text)
{
    char path[DT__JOB_PATH];
    if (text->failed) return DT_ERR_NOMEM;
    DT__TRY(dt__job_path(w->ctx, w->dir, name, path));
    return dt__file_replace(w->ctx, path, &(const dt__span){ text->bytes, text->used }, 1);
}

dt_status dt__work_write_recipe(const dt__work *w, const char *name, const dt_recipe *recipe)
{
    dt__chars t = { .ctx = w->ctx };
    dt_status s = dt_recipe_show(recipe, dt__collect, &t);
    if (s == DT_OK) s = dt__work_write(w, name, &t);
    dt__release(w->ctx, t.bytes);
    return s;
}

void dt__put_spread_json(dt__chars *t, const char *name, dt_spread s)
{
    const double value[] = { s.mean, s.deviation };
    DT__PUT_ALL(t, ", \"", name);
    dt__put_text(t, "\": {\"n\": ");
    dt__put_integer(t, s.n);
    for (int i = 0; i < 2; i++) {
        dt__put_text(t, i == 0 ? ", \"mean\": " : ", \"deviation\": ");
        if (isfinite(value[i])) dt__put_real(t, value[i]);
        else dt__put_text(t, "null");
    }
    dt__put_text(t, "}");
}
