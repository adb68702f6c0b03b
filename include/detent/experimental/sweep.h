/* sweep.h: many runs of one recipe: sweeps over values of its keys, and a search for the bits of
 * each layer under a budget of bytes. */
#ifndef DETENT_EXPERIMENTAL_SWEEP_H
#define DETENT_EXPERIMENTAL_SWEEP_H

#include <detent/experimental/report.h>
#include <detent/experimental/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A run that begins: number i of n (n may decrease), in the folder `dir`. `done` is the share of
 * the total work before this run, `own` that of this run, both measured in updates. */
typedef struct dt_sweep_turn {
    const char *dir;
    int64_t i, n;
    double done, own;
} dt_sweep_turn;

/* Callbacks of sweeps and searches; all may be NULL. */
typedef struct dt_sweep_control {
    bool (*stop)(void *user); /* as in dt_run_control */
    void (*progress)(void *user, const dt_progress *p);
    void (*doing)(void *user, const dt_progress *p);
    void (*begins)(void *user, const dt_sweep_turn *turn); /* before a run */
    void *user;
} dt_sweep_control;

/* ---- sweeps -------------------------------------------------------------------------------- */

/* The most keys that one sweep varies. */
#define DT_SWEEP_KEYS 16
#define DT_SWEEP_RUNS 4096 /* the largest value of sweep.most_runs */

enum { DT_SWEEP_GRID, DT_SWEEP_RANDOM, DT_SWEEP_HALVING };

/* The settings of a sweep besides its keys. */
typedef struct dt_sweep_options {
    int method;         /* DT_SWEEP_... */
    const char *dir;    /* NULL: run.dir of the recipe followed by "-sweep" */
    const char *metric; /* the metric by which recipes are compared; NULL: the first of the task */
    int64_t runs;       /* random, halving: number of recipes that are drawn */
    int64_t seed;       /* of the random draws */
    int64_t seeds;      /* runs of each recipe, with run.seed, run.seed + 1, ... */
    int64_t folds;      /* in place of seeds: runs that hold back one fold each; 0: none */
    int64_t rungs, reduce;
    int64_t most_runs;
} dt_sweep_options;

/* The root of the table of keys; the sweep's `keys` are parsed separately. */
extern DT_API const dt_key dt_sweep_keys[];

/* A sweep: a recipe, and the values of its keys. */
typedef struct dt_sweep dt_sweep;

/* A recipe and the description of a sweep over its keys. */
typedef struct dt_sweep_source {
    dt_recipe_source recipe;
    const char *path; /* file of the description; if `text` is given, only a name for messages */
    const char *text; /* NULL: read the file */
    size_t bytes;     /* length of `text` */
    int64_t seeds;    /* overrides the description; 0: does not */
    int64_t folds;    /* likewise */
} dt_sweep_source;

/* Reads recipe and description, draws the values, and reads the recipe of every run. With CONFIG
 * *out is still made, lists all errors with file, line and column, and must be freed; after other
 * errors *out is NULL: IO, NOMEM. Nothing is written. Texts of `source` need not outlive the
 * call. */
DT_API dt_status dt_sweep_read(dt_ctx *ctx, const dt_sweep_source *source, dt_sweep **out);
DT_API void dt_sweep_free(dt_sweep *s); /* NULL is allowed */
/* Number of errors. */
DT_API int dt_sweep_error_count(const dt_sweep *s);
/* Line i of the errors, lent; NULL past the last. */
DT_API const char *dt_sweep_error_at(const dt_sweep *s, int i);
DT_API const dt_sweep_options *dt_sweep_get(const dt_sweep *s); /* lent; `dir` is resolved */

/* Trains every recipe that has no results yet, each run in its own folder below `dir`, and
 * continues interrupted runs: the results have the bits of a sweep that was never interrupted. A
 * run that fails leaves its message in DIR/NAME.failed, which prevents further attempts, and the
 * other runs go on. DIR/NAME.refused says why a recipe is invalid. At the end DIR/best.yaml is the
 * complete recipe of the best row, and DIR/report.html is the page of all runs (dt_report_write).
 * `control` NULL: no callbacks. Errors: CONFIG (DIR holds another sweep; a metric that the runs do
 * not have), STATE (another process is running this sweep), INTERRUPTED, IO, NOMEM. */
DT_API dt_status dt_sweep_run(dt_sweep *s, const dt_sweep_control *control);

/* A recipe of the sweep, with the results of its runs. */
typedef struct dt_sweep_row {
    const char *name;         /* "007"; the names of its folders begin with it */
    const char *const *value; /* value of each key, as text */
    int64_t rung;             /* halving: the last rung that it took part in, counted from 1 */
    dt_spread chosen;         /* metric on `chosen_on`; n 0: no result */
    dt_spread result;         /* metric of the final model on `result_on` */
    int64_t bytes;            /* size of the final model; 0: no result */
    const char *error;        /* the error of a run that failed; NULL: none */
    /* Why its combination of values is invalid, so that it is not run; NULL: it is valid. Each of
     * its values is valid in another recipe; otherwise the description has an error. */
    const char *refused;
} dt_sweep_row;

DT_API int64_t dt_sweep_row_count(const dt_sweep *s); /* recipes */
/* Row i, lent; best first after dt_sweep_run, in the order of names before. NULL past the last. */
DT_API const dt_sweep_row *dt_sweep_row_at(const dt_sweep *s, int64_t i);
DT_API int dt_sweep_key_count(const dt_sweep *s);             /* keys with values */
DT_API const char *dt_sweep_key_at(const dt_sweep *s, int i); /* "train.optimizer.lr", lent */
DT_API int64_t dt_sweep_run_count(const dt_sweep *s);         /* all runs, over all rungs */
DT_API int64_t dt_sweep_excluded(const dt_sweep *s); /* combinations that `exclude` removed */

/* The metric of the rows; its name is "" before there are results. */
typedef struct dt_sweep_metric {
    const char *name, *title, *unit;
    double scale; /* factor from the value to the displayed number */
    int decimals;
    const char *chosen_on, *result_on; /* "validation", "test" or "train" */
} dt_sweep_metric;
/* Its strings live as long as the sweep. */
DT_API dt_sweep_metric dt_sweep_metric_of(const dt_sweep *s);

/* All rows as JSON. */
DT_API dt_status dt_sweep_json(const dt_sweep *s, dt_sink sink, void *user);

/* ---- automatic bits ------------------------------------------------------------------------- */

/* A layer with a quantized weight, and the settings that were chosen for it. */
typedef struct dt_search_layer {
    const char *path;
    int64_t elements;
    int bits, uniform_bits;
    int64_t group_size; /* 0: a scale per output channel; -1: as in the recipe */
    int64_t bytes;      /* size of the layer's tensors */
    /* loss with only this layer quantized like this, minus loss of the float model */
    double cost;
    double uniform_cost;
} dt_search_layer;

typedef struct dt_search_options {
    int64_t budget;  /* bytes of the final model's tensors, at most */
    int64_t seeds;   /* runs of each model, with run.seed, run.seed + 1, ...; 0: 1 */
    const char *dir; /* NULL: run.dir of the recipe followed by "-search" */
    bool dry_run;    /* only compute sizes: nothing is trained or written */
} dt_search_options;

/* The result of a search. It owns all memory that it points to. */
typedef struct dt_search_summary {
    dt_ctx *ctx;
    char *dir;
    int64_t least, most;      /* bytes of the smallest and the largest possible choice */
    int64_t uniform_bytes[9]; /* [bits]: size with these bits in all layers; 0: not possible */
    /* the uniform bits of the comparison: the most that fit, else the fewest */
    int uniform_bits;
    dt_search_layer *layer; /* in the order of the module tree */
    int64_t n_layers;
    int64_t bytes;                /* size of the choice */
    dt_sweep_metric metric;       /* zeros after an error */
    char *metric_name;            /* name of `metric` */
    dt_spread uniform, automatic; /* results; n 0: not run */
    int64_t uniform_run_bytes, automatic_run_bytes;
    char error[256]; /* of a run that failed; "": none */
} dt_search_summary;

/* Chooses bits (2, 4 or 8, since others need the bytes of the next of these) and, if scales are per
 * group, the group size of each layer's weight so that the model has at most `budget` bytes; trains
 * the recipe with this choice, and with uniform bits.
 *
 * The method: runs with uniform bits come first, and provide float weights. cost(layer, choice) is
 * the loss of this float model with one layer's weight alone rounded to nearest, minus the loss of
 * the float model, on validation data, else on training data. Then sum cost is minimal under sum
 * bytes <= budget, which is the multiple-choice knapsack problem, by dynamic programming [Kellerer,
 * Pferschy, Pisinger 2004, "Knapsack problems", 11.5]; costs are taken as independent of each other
 * [Cai et al. 2020, "ZeroQ", section 3.2].
 *
 * Folders, continuing and report are as of dt_sweep_run: DIR/uniform-seedS, DIR/automatic-seedS,
 * DIR/best.yaml (the recipe with a rule for each layer), DIR/report.html. The caller frees
 * `summary` by dt_search_summary_free, also after an error. Errors: CONFIG (a recipe with errors,
 * without `qat`, with adapters, or without float weights; a budget below `least`, which the message
 * says; too many layers), as dt_sweep_run. */
DT_API dt_status dt_search(dt_ctx *ctx, const dt_recipe_source *recipe,
                           const dt_search_options *options, const dt_sweep_control *control,
                           dt_search_summary *summary);
DT_API void dt_search_summary_free(dt_search_summary *s); /* NULL is allowed */
/* The summary as JSON. Errors: those of the sink, NOMEM. */
DT_API dt_status dt_search_json(const dt_search_summary *s, dt_sink sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
