/* The plan of a sweep, for src/sweep alone: its keys and their values, its recipes. */
#ifndef DT__SWEEP_PLAN_H
#define DT__SWEEP_PLAN_H

#include "sweep/jobs.h"
#include "train/recipe/recipe.h"

/* A range that values are drawn from. */
typedef struct dt__range {
    double from, to;
    int scale; /* linear, log */
    bool whole;
} dt__range;

typedef struct dt__swept {
    const char *path;
    dt__node *key, *value; /* value: the list, or the map of the range */
    bool is_range;
    dt__range range;
} dt__swept;

/* Settings of a recipe that count updates or epochs, which halving shortens. The first two are the
 * length of the training. */
enum { DT__LENGTH_EPOCHS, DT__LENGTH_STEPS, DT__LENGTHS = 11 };

/* A recipe of the sweep. */
typedef struct dt__trial {
    dt_sweep_row row;
    char name[8];
    const dt__node *value[DT_SWEEP_KEYS];
    const char *text[DT_SWEEP_KEYS];
    int64_t seed;                /* its run.seed */
    int64_t length[DT__LENGTHS]; /* in the last rung; 0: the recipe has none */
    dt_ints milestones;          /* in the last rung */
    double work; /* of a run in the last rung, relative to other recipes; 0: unknown */
    char error[256];
    const char *refused; /* why its recipe is not valid; NULL: it is */
} dt__trial;

struct dt_sweep {
    dt_ctx *ctx;
    dt_recipe
        *file; /* the description: its tree, its errors, and the memory of all that is below */
    dt_sweep_options o;
    dt_recipe_source recipe;
    int64_t base_folds; /* run.folds of the recipe, which its runs do not have */
    bool tests;         /* its data.split.test is a fraction, which folds replace */
    dt__swept key[DT_SWEEP_KEYS];
    const char *path[DT_SWEEP_KEYS];
    int n_keys;
    const dt__node *exclude; /* the list of rules; NULL: none */
    int64_t excluded;        /* combinations that the rules exclude */
    dt__trial *trial;
    int64_t n_trials, n_refused;
    dt__trial **order; /* best first */
    char metric[DT_MAX_METRIC_NAME];
    char chosen_on[16], result_on[16];
};

/* The number of recipes in a rung (from 0): ceil(n / reduce^rung) of those that are not refused;
 * all without halving. */
int64_t dt__rung_size(const dt_sweep *s, int64_t rung);
/* The number of rungs; 1 without halving. */
int64_t dt__rung_count(const dt_sweep *s);
/* A length of the last rung shortened to a rung; at least 1 if it is above 0. `key`: its index in
 * dt__trial.length; DT__LENGTHS: a milestone. */
int64_t dt__rung_length(const dt_sweep *s, int64_t rung, int key, int64_t length);

/* A run of a recipe. */
typedef struct dt__trial_run {
    const dt__trial *trial;
    int64_t rung, seed; /* from 0; with folds `seed` is the fold */
    const char *dir;    /* name within the sweep's folder; NULL: from trial, rung and seed */
} dt__trial_run;

/* Makes the recipe of a run. After CONFIG *out has the errors; the caller frees it in any case. */
dt_status dt__trial_recipe(dt_sweep *s, const dt__trial_run *run, dt_recipe **out);
/* Copies seed and lengths from the recipe of the trial in the last rung. */
void dt__trial_take(dt__trial *t, const dt_recipe *recipe);

/* sweep_values.c: reads `keys` of the description; makes the trials and their values. */
void dt__sweep_read_keys(dt_sweep *s, dt__node *keys);
void dt__sweep_make_trials(dt_sweep *s, dt__node *keys);
/* sweep_exclude.c: checks the rules of `exclude` against the keys, and stores them. */
void dt__sweep_read_exclude(dt_sweep *s, dt__node *rules);
bool dt__sweep_excludes(dt_sweep *s, const dt__trial *t);
/* A value as one line of YAML; lives as long as the sweep. */
const char *dt__node_text(dt_recipe *memory, const dt__node *node);
/* A new scalar with the position of `where`. */
const dt__node *dt__scalar_at(dt_recipe *memory, const dt__node *where, const char *text);

#endif
