/* dt_search: trains with uniform bits, measures the costs on float weights of these runs, chooses
 * bits, and trains with them. */
#include "sweep/search.h"

#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_SEEDS 100

/* ---- runs ----------------------------------------------------------------------------------- */

static dt_status do_run(dt__searching *a, dt__search_form which, int64_t seed, double *value)
{
    dt_search_summary *out = a->summary;
    char name[64], dir[DT__JOB_PATH];
    dt_recipe *recipe;
    dt__job_result r = { .result = (double)NAN };
    dt__job job = { .control = a->control,
                    .i = seed + (which == DT__AUTOMATIC ? a->seeds : 0),
                    .n = 2 * a->seeds,
                    .own = 1,
                    .all = 2 * (double)a->seeds };
    job.done = (double)job.i;
    dt__search_name(a, which, seed, name);
    DT__TRY(dt__job_path(a->s.ctx, out->dir, name, dir));
    DT__TRY(dt__search_recipe(a, which, seed, name, &recipe));
    dt_status status = dt__job_do(a->s.ctx, recipe, &job);
    dt_recipe_free(recipe);
    if (status == DT_OK && job.error[0] != 0) {
        snprintf(out->error, sizeof out->error, "%.48s: %.200s", name, job.error);
    } else if (status == DT_OK) {
        status = dt__job_read(a->s.ctx, dir, a->metric, &r);
        if (r.evaluated_on[0] != 0) strcpy(a->result_on, r.evaluated_on);
        *(which == DT__UNIFORM ? &out->uniform_run_bytes : &out->automatic_run_bytes) = r.bytes;
    }
    *value = r.result;
    return status;
}

static dt_status do_runs(dt__searching *a, dt__search_form which)
{
    double value[MOST_SEEDS];
    for (int64_t i = 0; i < a->seeds; i++) DT__TRY(do_run(a, which, i, &value[i]));
    const dt_spread spread = dt__page_spread_of(value, a->seeds);
    *(which == DT__UNIFORM ? &a->summary->uniform : &a->summary->automatic) = spread;
    return DT_OK;
}

/* Finds the float weights of the first run: of its baseline, of update qat.start_step, or its
 * initial ones. */
static dt_status float_weights(const dt__searching *a, char path[DT__JOB_PATH])
{
    char name[64], dir[DT__JOB_PATH];
    dt__search_name(a, DT__UNIFORM, 0, name);
    DT__TRY(dt__job_path(a->s.ctx, a->summary->dir, name, dir));
    if (a->s.o->train.float_baseline) {
        return dt__job_path(a->s.ctx, dir, "baseline.safetensors", path);
    }
    if (dt__starts_in_float(a->s.o)) {
        return dt__job_path(a->s.ctx, dir, "float.safetensors", path);
    }
    snprintf(path, DT__JOB_PATH, "%s", a->s.o->model.init);
    return DT_OK;
}

/* ---- what is written ------------------------------------------------------------------------ */

static dt_status write_plan(dt__searching *a, dt__chars *t)
{
    dt_recipe *base;
    dt_recipe_source source = *a->source;
    static const char *const free_keys[] = { "run.threads=0", "run.dir='-'" };
    memcpy(a->override + source.n_overrides, free_keys, sizeof free_keys);
    source.overrides = a->override;
    source.n_overrides += DT__COUNT_OF(free_keys);
    source.told = true;
    DT__TRY(dt_recipe_read(a->s.ctx, &source, &base));
    dt__put_text(t, "{\"budget\": ");
    DT__PUT_ALL(t, a->o->budget, ", \"recipe\": ");
    dt_status status = dt_recipe_json(base, dt__collect, t);
    if (status == DT_OK) status = dt__work_put_data(base, t);
    dt__put_text(t, "}\n");
    dt_recipe_free(base);
    return status;
}

static dt_status write_best(dt__searching *a, const dt__work *w)
{
    dt_recipe *recipe;
    DT__TRY(dt__search_recipe(a, DT__AUTOMATIC, 0, "best", &recipe));
    const dt_status status = dt__work_write_recipe(w, "best.yaml", recipe);
    dt_recipe_free(recipe);
    return status;
}

/* Writes a page about the runs of the first seeds, uniform and automatic in turn, as many as a page
 * holds. */
static dt_status write_report(const dt__searching *a)
{
    char dir[DT_MOST_SIDES][DT__JOB_PATH], name[64], path[DT__JOB_PATH];
    const char *dirs[DT_MOST_SIDES];
    int n = 0;
    for (int64_t i = 0; i < 2 * a->seeds && n < DT_MOST_SIDES; i++, n++) {
        dt__search_name(a, i % 2 == 0 ? DT__UNIFORM : DT__AUTOMATIC, i / 2, name);
        DT__TRY(dt__job_path(a->s.ctx, a->summary->dir, name, dir[n]));
        dirs[n] = dir[n];
    }
    if (a->summary->error[0] != 0) return DT_OK;
    DT__TRY(dt__job_path(a->s.ctx, a->summary->dir, "report.html", path));
    return dt_report_write(a->s.ctx, dirs, n, &(dt_report_options){ .output = path });
}

/* ---- the search ----------------------------------------------------------------------------- */

static dt_status check_recipe(const dt__searching *a)
{
    const dt_recipe_options *o = a->s.o;
    const char *what = NULL;
    if (!o->qat.given) what = "the recipe has no `qat` whose bits could be chosen";
    else if (o->run.folds > 0) what = "recipes with run.folds are not searched; run.folds=0";
    else if (o->adapters.given) what = "recipes with `adapters` are not searched";
    else if (o->run.seed > INT64_MAX - (a->seeds - 1)) what = "run.seed leaves no seeds above it";
    else if (!o->train.float_baseline && !dt__starts_in_float(o) && o->model.init == NULL) {
        what = "there are no float weights to measure: qat.start_step above 0, "
               "train.float_baseline, or model.init";
    }
    return what == NULL ? DT_OK : dt_fail(a->s.ctx, DT_ERR_CONFIG, "%s", what);
}

/* Computes sizes, and chooses the uniform bits to compare with: the most that fit. */
static dt_status take_sizes(dt__searching *a)
{
    dt_search_summary *out = a->summary;
    dt__search_bounds(&a->s, &out->least, &out->most);
    for (int bits = 8; bits >= 2; bits--) {
        out->uniform_bytes[bits] = dt__search_uniform(&a->s, bits);
        const bool fits = out->uniform_bytes[bits] > 0 && out->uniform_bytes[bits] <= a->o->budget;
        if (fits && out->uniform_bits == 0) out->uniform_bits = bits;
    }
    for (int bits = 2; bits <= 8 && out->uniform_bits == 0; bits++) {
        if (out->uniform_bytes[bits] > 0) out->uniform_bits = bits;
    }
    if (a->o->budget < out->least) {
        return dt_fail(a->s.ctx, DT_ERR_CONFIG,
                       "a budget of %lld byte%s cannot be met; the least possible is %lld",
                       (long long)a->o->budget, DT__S(a->o->budget), (long long)out->least);
    }
    if (out->uniform_bits > 0) return DT_OK;
    return dt_fail(a->s.ctx, DT_ERR_CONFIG, "no number of bits is possible for all layers");
}

/* Copies the layers into the summary. */
static dt_status show_layers(dt__searching *a, bool measured)
{
    dt_search_summary *out = a->summary;
    out->layer = dt__alloc_zero(a->s.ctx, (size_t)a->s.n * sizeof *out->layer);
    if (out->layer == NULL) return DT_ERR_NOMEM;
    out->bytes = measured ? a->s.fixed : 0;
    for (int64_t i = 0; i < a->s.n; i++) {
        const dt__search_layer *l = &a->s.layer[i];
        const dt__choice *c = &l->choice[l->chosen], *u = dt__search_choice_of(a, l, DT__UNIFORM);
        char *path = dt__copy_string(a->s.ctx, l->path);
        if (path == NULL) return DT_ERR_NOMEM;
        out->layer[out->n_layers++] = (dt_search_layer){ .path = path,
                                                         .elements = l->elements,
                                                         .bits = c->bits,
                                                         .uniform_bits = u->bits,
                                                         .group_size = c->group_size,
                                                         .bytes = c->bytes,
                                                         .cost = c->cost,
                                                         .uniform_cost = u->cost };
        if (measured) out->bytes += c->bytes;
    }
    return DT_OK;
}

static dt_status choose(dt__searching *a)
{
    char path[DT__JOB_PATH];
    bool fits;
    DT__TRY(float_weights(a, path));
    DT__TRY(dt__search_costs(&a->s, a->recipe, path));
    DT__TRY(dt__search_choose(&a->s, a->o->budget, &fits));
    return show_layers(a, true);
}

static dt_status work(dt__searching *a)
{
    dt__work w;
    dt__chars plan = { .ctx = a->s.ctx };
    dt_status status = write_plan(a, &plan);
    if (status == DT_OK) status = dt__work_open(a->s.ctx, a->summary->dir, &plan, &w);
    dt__release(a->s.ctx, plan.bytes);
    if (status != DT_OK) return status;
    status = do_runs(a, DT__UNIFORM);
    if (status == DT_OK && a->summary->error[0] != 0) {
        status = dt_fail(a->s.ctx, DT_ERR_STATE, "%s", a->summary->error);
    }
    if (status == DT_OK) status = choose(a);
    if (status == DT_OK) status = write_best(a, &w);
    if (status == DT_OK) status = do_runs(a, DT__AUTOMATIC);
    if (status == DT_OK) status = write_report(a);
    dt__work_close(&w);
    return status;
}

static dt_status find_dir(dt__searching *a)
{
    const char *dir = a->s.o->run.dir;
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    a->summary->dir = a->o->dir != NULL ? dt__copy_string(a->s.ctx, a->o->dir)
                                        : dt__format_string(a->s.ctx, "%.*s-search", (int)n, dir);
    return a->summary->dir == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status search(dt__searching *a)
{
    DT__TRY(dt_recipe_read(a->s.ctx, a->source, &a->recipe));
    a->s.o = dt_recipe_get(a->recipe);
    DT__TRY(check_recipe(a));
    DT__TRY(find_dir(a));
    DT__TRY(dt__search_layers(&a->s));
    DT__TRY(take_sizes(a));
    if (a->o->dry_run) return show_layers(a, false);
    DT__TRY(dt__search_make_room(a));
    return work(a);
}

static dt_status name_metric(const dt__searching *a)
{
    static const char *const data[] = { "test", "validation", "train" };
    a->summary->metric_name = dt__copy_string(a->s.ctx, a->metric);
    if (a->summary->metric_name == NULL) return DT_ERR_NOMEM;
    const dt__page_metric m = dt__job_metric(a->s.ctx, a->summary->metric_name);
    const char *on = "";
    for (int i = 0; i < DT__COUNT_OF(data); i++) {
        if (strcmp(data[i], a->result_on) == 0) on = data[i];
    }
    a->summary->metric = (dt_sweep_metric){ m.name, m.title, m.unit, m.scale, m.decimals, on, on };
    return DT_OK;
}

dt_status dt_search(dt_ctx *ctx, const dt_recipe_source *recipe, const dt_search_options *options,
                    const dt_sweep_control *control, dt_search_summary *summary)
{
    DT__NEED3(ctx, ctx, options, summary);
    dt__searching a = { .s = { .ctx = ctx },
                        .source = recipe,
                        .o = options,
                        .control = control,
                        .summary = summary,
                        .seeds = dt__max_i64(options->seeds, 1) };
    *summary = (dt_search_summary){ .ctx = ctx };
    if (options->budget < 1 || a.seeds > MOST_SEEDS) {
        return dt_fail(ctx, DT_ERR_ARG, "dt_search: a budget of at least 1, and at most %d seeds",
                       MOST_SEEDS);
    }
    dt_status status = search(&a);
    if (status == DT_OK) status = name_metric(&a);
    DT__RELEASE(ctx, a.text, a.override);
    dt_recipe_free(a.recipe);
    dt__search_free(&a.s);
    return status;
}

void dt_search_summary_free(dt_search_summary *s)
{
    if (s == NULL || s->ctx == NULL) return;
    for (int64_t i = 0; i < s->n_layers; i++) {
        dt__release(s->ctx, (char *)(uintptr_t)s->layer[i].path);
    }
    DT__RELEASE(s->ctx, s->layer, s->dir, s->metric_name);
    *s = (dt_search_summary){ 0 };
}
