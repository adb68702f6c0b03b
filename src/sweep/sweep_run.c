/* Runs a sweep: a grid or random draws, every recipe once; or successive halving [Jamieson and
 * Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter optimization"]: rung k
 * of K trains ceil(runs / reduce^k) recipes for reduce^(K - 1 - k) times fewer epochs than the
 * recipe says. The best of them enter rung k + 1, where they are trained from the start, since the
 * schedule depends on the length. */
#include "sweep/sweep_plan.h"

#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plan as text ----------------------------------------------------------------------- */

static void put_trial(const dt_sweep *s, dt__chars *t, const dt__trial *trial)
{
    dt__put_text(t, "{\"name\": ");
    dt__put_quoted(t, trial->name);
    for (int k = 0; k < s->n_keys; k++) {
        DT__PUT_ALL(t, ", ", DT__QUOTED(s->key[k].path), ": ", DT__QUOTED(trial->text[k]));
    }
}

/* Writes the plan: the recipe without settings that may change, and the values of all runs. */
static dt_status write_plan(dt_sweep *s, dt__chars *t)
{
    dt_recipe_source source = s->recipe;
    dt_recipe *base;
    const dt__node *root = s->file->root;
    const dt__graft free_keys[] = { { "run.threads", root, dt__scalar_at(s->file, root, "0") },
                                    { "run.folds", root, dt__scalar_at(s->file, root, "0") },
                                    { "run.dir", root, dt__scalar_at(s->file, root, "-") } };
    if (s->file->out_of_memory) return dt__recipe_verdict(s->file);
    source.told = true;
    DT__TRY(dt__recipe_read_grafted(s->ctx, &source, &(dt__grafts){ s->file->file, free_keys, 3 },
                                    &base));
    dt__put_text(t, "{\"recipe\": ");
    dt_status status = dt_recipe_json(base, dt__collect, t);
    if (status == DT_OK) status = dt__work_put_data(base, t);
    dt_recipe_free(base);
    const int64_t numbers[] = { s->o.method, s->o.seeds, s->o.rungs, s->o.reduce, s->o.folds };
    dt__put_text(t, ", \"settings\": [");
    /* plans without folds omit them, as before folds existed */
    const int n = DT__COUNT_OF(numbers) - (s->o.folds == 0);
    for (int i = 0; i < n; i++) {
        if (i > 0) dt__put_text(t, ", ");
        dt__put_integer(t, numbers[i]);
    }
    dt__put_text(t, "], \"metric\": ");
    dt__put_quoted(t, s->o.metric != NULL ? s->o.metric : "");
    dt__put_text(t, ", \"runs\": [");
    for (int64_t i = 0; i < s->n_trials; i++) {
        dt__put_text(t, i > 0 ? ",\n  " : "\n  ");
        put_trial(s, t, &s->trial[i]);
        dt__put_text(t, "}");
    }
    dt__put_text(t, "\n]");
    if (s->excluded > 0) dt__put_text(t, ", \"excluded\": ");
    if (s->excluded > 0) dt__put_integer(t, s->excluded);
    dt__put_text(t, "}\n");
    return status == DT_OK && t->failed ? DT_ERR_NOMEM : status;
}

/* ---- one recipe in one rung ----------------------------------------------------------------- */

#define MOST_SEEDS 100

typedef struct results {
    double chosen[MOST_SEEDS], result[MOST_SEEDS];
    int64_t n;
} results;

static dt_status read_result(dt_sweep *s, dt__trial *t, const char *dir, results *all)
{
    dt__job_result r;
    DT__TRY(dt__job_read(s->ctx, dir, s->metric, &r));
    if (!isfinite(r.result) && !isfinite(r.validated)) {
        snprintf(t->error, sizeof t->error, "no finite %.200s", s->metric);
        return DT_OK;
    }
    if (!isfinite(r.validated)) r.validated = r.result;
    else if (s->chosen_on[0] == 0) strcpy(s->chosen_on, "validation");
    if (s->chosen_on[0] == 0) strcpy(s->chosen_on, r.evaluated_on);
    strcpy(s->result_on, r.evaluated_on);
    all->chosen[all->n] = r.validated;
    all->result[all->n++] = r.result;
    t->row.bytes = r.bytes;
    return DT_OK;
}

static dt_status do_run(dt_sweep *s, dt__trial *t, const dt__trial_run *run, dt__job *job,
                        results *all)
{
    dt_recipe *recipe;
    dt_status status = dt__trial_recipe(s, run, &recipe);
    if (status == DT_OK) status = dt__job_do(s->ctx, recipe, job);
    if (status == DT_OK && job->error[0] != 0) {
        snprintf(t->error, sizeof t->error, "%s", job->error);
    } else if (status == DT_OK) {
        status = read_result(s, t, dt_recipe_get(recipe)->run.dir, all);
    }
    dt_recipe_free(recipe);
    job->i++;
    job->done += job->own;
    return status;
}

static dt_status do_trial(dt_sweep *s, dt__trial *t, int64_t rung, dt__job *job)
{
    results all = { .n = 0 };
    t->row.rung = rung + 1;
    t->error[0] = 0;
    for (int64_t seed = 0; seed < s->o.seeds; seed++) {
        const dt__trial_run run = { .trial = t, .rung = rung, .seed = seed };
        DT__TRY(do_run(s, t, &run, job, &all));
    }
    t->row.chosen = dt__page_spread_of(all.chosen, all.n);
    t->row.result = dt__page_spread_of(all.result, all.n);
    t->row.error = t->error[0] != 0 ? t->error : NULL;
    return DT_OK;
}

/* ---- the order of recipes ------------------------------------------------------------------- */

/* Orders trials, best first: by the last rung, whether all seeds have a result, and the metric. */
static int compare(const dt__trial *a, const dt__trial *b, bool larger)
{
    const bool whole_a = a->row.error == NULL, whole_b = b->row.error == NULL;
    const double x = a->row.chosen.mean, y = b->row.chosen.mean;
    if (a->row.rung != b->row.rung) return a->row.rung > b->row.rung ? -1 : 1;
    if (whole_a != whole_b) return whole_a ? -1 : 1;
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? 0 : isnan(x) ? 1 : -1;
    if (x == y) return 0;
    return (x > y) == larger ? -1 : 1;
}

static int by_larger(const void *a, const void *b)
{
    const dt__trial *x = *(const dt__trial *const *)a, *y = *(const dt__trial *const *)b;
    const int order = compare(x, y, true);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_smaller(const void *a, const void *b)
{
    const dt__trial *x = *(const dt__trial *const *)a, *y = *(const dt__trial *const *)b;
    const int order = compare(x, y, false);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static void sort(dt_sweep *s)
{
    const bool larger = dt__job_metric(s->ctx, s->metric).larger_is_better;
    qsort(s->order, (size_t)s->n_trials, sizeof(dt__trial *), larger ? by_larger : by_smaller);
}

/* ---- what remains of it --------------------------------------------------------------------- */

/* Writes a page about the runs, unless all of them failed; their errors are in the rows. */
static dt_status write_report(dt_sweep *s)
{
    char path[DT__JOB_PATH];
    int64_t failed = 0;
    for (int64_t i = 0; i < s->n_trials; i++) failed += s->trial[i].row.error != NULL;
    if (failed == s->n_trials) return DT_OK;
    DT__TRY(dt__job_path(s->ctx, s->o.dir, "report.html", path));
    return dt_report_write(s->ctx, &s->o.dir, 1, &(dt_report_options){ .output = path });
}

/* Writes why recipes are not valid, for pages and comparisons. */
static dt_status write_refused(const dt_sweep *s, const dt__work *w)
{
    for (int64_t i = 0; i < s->n_trials; i++) {
        const dt__trial *t = &s->trial[i];
        char name[24];
        dt__chars text = { .ctx = s->ctx };
        if (t->refused == NULL) continue;
        snprintf(name, sizeof name, "%s.refused", t->name);
        dt__put_text(&text, t->refused);
        const dt_status status = dt__work_write(w, name, &text);
        dt__release(s->ctx, text.bytes);
        DT__TRY(status);
    }
    return DT_OK;
}

static dt_status write_best(dt_sweep *s, const dt__work *w)
{
    const dt__trial_run run = { .trial = s->order[0],
                                .rung = dt__rung_count(s) - 1,
                                .dir = "best" };
    dt_recipe *recipe;
    if (s->order[0]->row.chosen.n == 0) return DT_OK;
    dt_status status = dt__trial_recipe(s, &run, &recipe);
    if (status == DT_OK) status = dt__work_write_recipe(w, "best.yaml", recipe);
    dt_recipe_free(recipe);
    return status;
}

/* Fails if no run has a result of the metric that the description names: the task does not have
 * it. */
static dt_status check_metric(const dt_sweep *s)
{
    for (int64_t i = 0; i < s->n_trials; i++) {
        if (s->order[i]->row.chosen.n > 0 || s->o.metric == NULL) return DT_OK;
        if (strncmp(s->order[i]->error, "no finite ", 10) != 0) continue;
        return dt_fail(s->ctx, DT_ERR_CONFIG, "the runs have no metric '%s'", s->metric);
    }
    return DT_OK;
}

/* The work of a run in a rung: its updates, as a fraction of those of the recipe. */
static double work_of(const dt_sweep *s, int64_t rung)
{
    return pow((double)s->o.reduce, (double)(rung + 1 - dt__rung_count(s)));
}

/* Estimates the work of each trial relative to the mean, if progress is reported. A run that cannot
 * be opened fails when its turn comes. */
static dt_status plan_trials(dt_sweep *s, const dt_sweep_control *control)
{
    const bool wanted = control != NULL && control->progress != NULL;
    double all = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_trials; i++) {
        dt__trial *t = &s->trial[i];
        const dt__trial_run run = { .trial = t, .rung = dt__rung_count(s) - 1 };
        dt_recipe *recipe = NULL;
        dt_status status = wanted && s->n_trials > 1 && t->refused == NULL
                               ? dt__trial_recipe(s, &run, &recipe)
                               : DT_ERR_CONFIG;
        if (status == DT_OK) status = dt__run_units(s->ctx, recipe, &t->work);
        dt_recipe_free(recipe);
        if (status == DT_ERR_NOMEM) return status;
        if (status != DT_OK) t->work = 0;
        all += t->work;
        n += t->work > 0;
    }
    for (int64_t i = 0; i < s->n_trials; i++) {
        dt__trial *t = &s->trial[i];
        t->work = t->work > 0 ? t->work * (double)n / all : 1;
    }
    return DT_OK;
}

/* Runs all rungs. A recipe without a result enters no further rung. */
static dt_status run_rungs(dt_sweep *s, const dt_sweep_control *control)
{
    dt__job job = { .control = control, .n = dt_sweep_run_count(s) };
    DT__TRY(plan_trials(s, control));
    for (int64_t rung = 0; rung < dt__rung_count(s); rung++) {
        job.all += (double)dt__rung_size(s, rung) * (double)s->o.seeds * work_of(s, rung);
    }
    for (int64_t rung = 0; rung < dt__rung_count(s); rung++) {
        int64_t n = dt__rung_size(s, rung);
        const double work = work_of(s, rung);
        for (; rung > 0 && n > 0 && s->order[n - 1]->row.chosen.n == 0; n--) {
            job.n -= s->o.seeds;
            job.all -= work * (double)s->o.seeds;
        }
        for (int64_t i = 0; i < n; i++) {
            job.own = work * s->order[i]->work;
            DT__TRY(do_trial(s, s->order[i], rung, &job));
        }
        DT__TRY(check_metric(s));
        sort(s);
    }
    return DT_OK;
}

/* Sorts recipes by name, refused ones last. */
static void order_trials(dt_sweep *s)
{
    int64_t n = 0;
    for (int refused = 0; refused < 2; refused++) {
        for (int64_t i = 0; i < s->n_trials; i++) {
            if ((s->trial[i].refused != NULL) == (refused == 1)) s->order[n++] = &s->trial[i];
        }
    }
}

dt_status dt_sweep_run(dt_sweep *s, const dt_sweep_control *control)
{
    DT__NEED(NULL, s);
    dt__work w;
    dt__chars plan = { .ctx = s->ctx };
    if (s->file->n_complaints > 0) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "%s", dt_sweep_error_at(s, 0));
    }
    snprintf(s->metric, sizeof s->metric, "%s", s->o.metric != NULL ? s->o.metric : "");
    order_trials(s);
    dt_status status = write_plan(s, &plan);
    if (status == DT_OK) status = dt__work_open(s->ctx, s->o.dir, &plan, &w);
    dt__release(s->ctx, plan.bytes);
    if (status != DT_OK) return status;
    status = write_refused(s, &w);
    if (status == DT_OK) status = run_rungs(s, control);
    if (status == DT_OK) status = write_best(s, &w);
    if (status == DT_OK) status = write_report(s);
    dt__work_close(&w);
    return status;
}
