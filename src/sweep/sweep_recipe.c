/* The recipe of a run of a sweep: the sweep's recipe with the values of its trial, run.dir and
 * run.seed, and in a short rung of halving with lengths in proportion:
 *     epochs and steps    length / reduce^(rungs - 1 - rung), rounded
 *     lengths within      likewise, rounded down, so that they still fit into the training */
#include "sweep/sweep_plan.h"

#include <stdio.h>

int64_t dt__rung_count(const dt_sweep *s)
{
    return s->o.method == DT_SWEEP_HALVING ? s->o.rungs : 1;
}

int64_t dt__rung_size(const dt_sweep *s, int64_t rung)
{
    int64_t n = s->n_trials - s->n_refused;
    for (int64_t i = 0; i < rung; i++) n = dt__ceil_div(n, s->o.reduce);
    return n;
}

static const char *const length_paths[DT__LENGTHS] = {
    [DT__LENGTH_EPOCHS] = "train.epochs",
    [DT__LENGTH_STEPS] = "train.steps",
    "qat.start_step",
    "qat.freeze_observer_step",
    "qat.freeze_norm_step",
    "qat.layer_steps",
    "train.schedule.warmup_steps",
    "train.schedule.total_steps",
    "train.schedule.decay_steps",
    "train.schedule.every",
    "train.average.last",
};

void dt__trial_take(dt__trial *t, const dt_recipe *recipe)
{
    const dt_recipe_options *o = dt_recipe_get(recipe);
    const dt_schedule *schedule = &o->train.schedule;
    const int64_t length[DT__LENGTHS] = { o->train.epochs,
                                          o->train.steps,
                                          o->qat.given ? o->qat_schedule.start_step : 0,
                                          o->qat.given ? o->qat_schedule.freeze_observer_step : 0,
                                          o->qat.given ? o->qat_schedule.freeze_norm_step : 0,
                                          o->qat.given ? o->qat_schedule.layer_steps : 0,
                                          schedule->warmup_steps,
                                          schedule->total_steps,
                                          schedule->decay_steps,
                                          schedule->every,
                                          o->train.average.last };
    for (int i = 0; i < DT__LENGTHS; i++) {
        t->length[i] = dt__recipe_applies(recipe, length_paths[i]) ? length[i] : 0;
    }
    t->milestones = schedule->milestones;
    if (!dt__recipe_applies(recipe, "train.schedule.milestones")) t->milestones.n = 0;
    t->seed = o->run.seed;
}

int64_t dt__rung_length(const dt_sweep *s, int64_t rung, int key, int64_t length)
{
    const bool is_rounded = key == DT__LENGTH_EPOCHS || key == DT__LENGTH_STEPS;
    int64_t divisor = 1;
    for (int64_t i = rung + 1; i < dt__rung_count(s); i++) divisor *= s->o.reduce;
    const bool up = is_rounded && length % divisor >= divisor - divisor / 2;
    return length == 0 ? 0 : dt__max_i64(1, length / divisor + (up && divisor > 1));
}

/* Writes the name of the run's folder within the sweep's. */
static const char *trial_run_name(dt_sweep *s, const dt__trial_run *run)
{
    char rung[24] = "", seed[32] = "";
    if (s->o.method == DT_SWEEP_HALVING) {
        snprintf(rung, sizeof rung, "-r%lld", (long long)run->rung + 1);
    }
    if (s->o.folds > 0) {
        snprintf(seed, sizeof seed, "-fold%lld", (long long)run->seed);
    } else if (s->o.seeds > 1) {
        snprintf(seed, sizeof seed, "-seed%lld", (long long)(run->trial->seed + run->seed));
    }
    return dt__recipe_format(s->file, "%s%s%s", run->trial->name, rung, seed);
}

/* Overrides: the values, run.dir, run.seed or folds, and lengths. */
typedef struct grafting {
    dt_sweep *s;
    dt__graft graft[DT_SWEEP_KEYS + 5 + DT__LENGTHS + DT_MAX_LIST];
    int n;
} grafting;

static void add(grafting *g, const char *path, const char *text)
{
    const dt__node *where = g->s->file->root;
    const dt__node *node = dt__scalar_at(g->s->file, where, text);
    if (node != NULL) g->graft[g->n++] = (dt__graft){ path, node, node };
}

static void add_number(grafting *g, const char *path, int64_t value)
{
    add(g, path, dt__recipe_format(g->s->file, "%lld", (long long)value));
}

/* Shortens milestones, which must still ascend. */
static void add_lengths(grafting *g, const dt__trial_run *run)
{
    const dt__trial *t = run->trial;
    dt_sweep *s = g->s;
    int64_t before = 0;
    for (int i = 0; i < DT__LENGTHS; i++) {
        const int64_t length = dt__rung_length(s, run->rung, i, t->length[i]);
        if (length != t->length[i]) add_number(g, length_paths[i], length);
    }
    for (int i = 0; i < t->milestones.n && run->rung < dt__rung_count(s) - 1; i++) {
        const int64_t at = dt__rung_length(s, run->rung, DT__LENGTHS, t->milestones.v[i]);
        before = dt__max_i64(before + 1, at);
        add_number(g, dt__recipe_format(s->file, "train.schedule.milestones.%d", i), before);
    }
}

dt_status dt__trial_recipe(dt_sweep *s, const dt__trial_run *run, dt_recipe **out)
{
    const dt__trial *t = run->trial;
    grafting g = { .s = s };
    dt_recipe_source source = s->recipe;
    source.told = true;
    for (int k = 0; k < s->n_keys; k++) {
        g.graft[g.n++] = (dt__graft){ s->key[k].path, s->key[k].key, t->value[k] };
    }
    const char *name = run->dir != NULL ? run->dir : trial_run_name(s, run);
    add(&g, "run.dir", dt__recipe_format(s->file, "%s/%s", s->o.dir, name));
    if (s->base_folds > 0) add_number(&g, "run.folds", 0);
    if (s->o.folds > 0) {
        add_number(&g, "data.split.folds", s->o.folds);
        add_number(&g, "data.split.fold", run->seed);
        if (s->tests) add_number(&g, "data.split.test", 0); /* the fold is the test data */
    } else if (run->seed > 0) {
        add_number(&g, "run.seed", t->seed + run->seed);
    }
    add_lengths(&g, run);
    *out = NULL;
    if (s->file->out_of_memory) return dt__recipe_verdict(s->file);
    return dt__recipe_read_grafted(s->ctx, &source, &(dt__grafts){ s->file->file, g.graft, g.n },
                                   out);
}
