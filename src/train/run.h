/* Inside a run. run.c is its order; each sibling is one idea:
 *     run_setup.c    data, model, optimizer
 *     run_check.c    what can be wrong, before anything is written
 *     run_folder.c   run.dir and its small files
 *     run_state.c    what a checkpoint holds, saving it, resuming
 *     run_teacher.c  train.distill: the model that is learned from
 *     run_ranges.c   prepare, and batches for static ranges
 *     run_step.c     one update, and what happens to values that are not finite
 *     run_buffers.c  what an update writes beside parameters, to be put back
 *     run_loop.c     updates one after the other: lines of metrics, checkpoints, progress
 *     run_best.c     the validation data on the way: the best evaluation, and an early end
 *     run_routing.c  evaluating, and which experts the data goes to
 *     run_compare.c  float, rounded, trained and converted; the proof
 *     run_summary.c  sizes, summary.json
 *     run_dry.c      a run that writes nothing */
#ifndef DT__TRAIN_RUN_H
#define DT__TRAIN_RUN_H

#include "core/json.h"
#include "train/recipe.h"
#include "train/task.h"

#include <detent/io.h>

/* A run is one training or two: with train.float_baseline the baseline comes first. */
typedef enum dt__stage { DT__BASELINE, DT__MAIN } dt__stage;

/* Counters and values that a checkpoint keeps. */
typedef enum dt__counter {
    DT__COUNT_STAGE,
    DT__COUNT_STEP,           /* updates done in this stage */
    DT__COUNT_PREPARED,       /* 1: the model is prepared */
    DT__COUNT_LINES,          /* of metrics.jsonl */
    DT__COUNT_SINCE,          /* updates since the latest line */
    DT__COUNT_LIMITED,        /* of them, those whose gradient was scaled down */
    DT__COUNT_SKIPPED,        /* updates lost to values that were not finite */
    DT__COUNT_BASELINE_STEPS, /* of the baseline, once it is over */
    DT__COUNT_BEST_STEP,      /* of the best evaluation of the last phase; 0: none yet */
    DT__COUNT_WAITED,         /* evaluations since then */
    DT__COUNT_STOPPED,        /* 1: training ended early */
    DT__COUNTS
} dt__counter;

typedef enum dt__value {
    DT__VALUE_LOSS_SUM, /* since the latest line */
    DT__VALUE_NORM_SUM,
    DT__VALUE_BEST_LOSS, /* of the best evaluation; 0: none yet */
    DT__VALUE_RESULTS    /* from here on: metrics and seconds of float, then those of ptq */
} dt__value;

#define DT__VALUES (DT__VALUE_RESULTS + 2 * (DT_MAX_METRICS + 1))

/* The share of a layer's choices that its busiest expert took, and its idlest: the most and the
 * least of all layers. */
typedef struct dt__experts {
    bool any; /* the model has experts */
    double busiest, idlest;
} dt__experts;

typedef struct dt__run {
    dt_ctx *ctx;
    dt_recipe *recipe;
    const dt_recipe_options *o;
    dt_run_control control;
    dt_run_summary *summary;
    /* data */
    dt_dataset *train, *validation, *test;
    const dt_dataset *evaluated; /* the one that the table is about */
    const dt__task *task;
    const dt_metric *metric[DT_MAX_METRICS];
    int n_metrics;
    int64_t batches, per_epoch, steps; /* batches and updates of an epoch, updates of a stage */
    int64_t range_params;              /* parameters that are learned scales, not weights */
    int64_t start;                     /* update at which the main stage is prepared */
    /* the stage that runs */
    dt_module *model;
    dt_module *teacher; /* of train.distill, from when it teaches on; else NULL */
    dt_optimizer *optimizer;
    dt_loader *loader;
    dt_tape *tape;
    dt_tensor *share; /* 1 / places of the update: the gradient of each summed loss */
    dt_schedule schedule;
    struct dt__kept *kept; /* nonfinite: skip; buffers as they were before the update */
    int64_t n_kept;
    uint64_t kept_of; /* changes of the model that they stand for */
    dt_named_count count[DT__COUNTS];
    dt_named_value value[DT__VALUES];
    int n_values;
    char value_name[DT__VALUES][48];
    dt_training_state state;
    /* files */
    char *checkpoints[2]; /* folder of each stage */
    char *resolved;       /* text of recipe.yaml */
    char *hf;             /* what model.init's folder said besides; NULL: nothing */
    char *tokenizer;      /* of the data, as text for files; NULL: none */
    bool rewrite;         /* it differs from what the file says, in keys that may change */
    int metrics;          /* descriptor; -1: closed */
    /* progress */
    double began;         /* the clock when this process began to train */
    int64_t trained;      /* updates of this process */
    int64_t samples;      /* examples in them */
    double line_clock;    /* the clock at the latest line */
    int64_t line_samples; /* images since then */
    double validated;     /* the latest validation loss of this process; NaN: none */
    dt__experts experts;  /* of that evaluation */
} dt__run;

#define DT__RUN_PATH 4096

static inline int64_t *dt__run_count(dt__run *r, dt__counter i) { return &r->count[i].value; }
static inline double *dt__run_value(dt__run *r, int i) { return &r->value[i].value; }
/* Of a result that stands before the end (float, ptq): metric i, or with i = n_metrics the
 * seconds. */
static inline double *dt__run_result(dt__run *r, dt_contender which, int i)
{
    const int first = which == DT_RUN_PTQ ? r->n_metrics + 1 : 0;
    return &r->value[DT__VALUE_RESULTS + first + i].value;
}

/* run.dir/name into path. IO where it is too long. */
dt_status dt__run_path(dt__run *r, const char *name, char path[DT__RUN_PATH]);
/* "baseline", "float" or "qat". */
const char *dt__run_phase(const dt__run *r);

/* Whether the main stage makes updates in float: before it is prepared, or at all without `qat`. */
bool dt__run_trains_in_float(const dt__run *r);
/* Whether the weights that are prepared were trained before, here or in model.init, and not just
 * drawn: their static ranges are then calibrated first. */
bool dt__run_prepares_trained(const dt__run *r);

/* ---- run_setup.c ---- */

dt_status dt__run_open(dt__run *r);
void dt__run_close(dt__run *r);
/* A new model as the recipe says; the random streams go on. */
dt_status dt__run_model(dt__run *r, dt_module **out);
/* Everything of a stage as it is before its first update. */
dt_status dt__run_begin_stage(dt__run *r, dt__stage stage);
void dt__run_end_stage(dt__run *r);
dt_status dt__run_loader(dt__run *r);

/* ---- run_check.c ---- */

dt_status dt__run_check(dt__run *r);
/* check_fit.c: CONFIG where the recipe's model does not fit the data. */
dt_status dt__check_fit(dt_recipe *r, const dt_dataset *d);
/* Whether the examples of a dataset go into a model; else FORMAT: the file `path` is another
 * model's. */
dt_status dt__check_examples(dt_ctx *ctx, const char *path, const dt_model_info *info,
                             const dt_dataset *d);

/* ---- run_folder.c ---- */

/* Makes run.dir, or opens the one that is there. */
dt_status dt__run_folder(dt__run *r);
/* Says so where run.dir is there already, which a run that is not dry refuses. */
void dt__run_predict_folder(dt__run *r);
/* Writes recipe.yaml again where a resumed run changed it: once it is known that the run goes
 * on. */
dt_status dt__run_keep_recipe(dt__run *r);
/* Appends a line, which the newline ends. */
dt_status dt__run_append(dt__run *r, const char *line, size_t bytes);
/* Waits until the lines are on the disk. */
dt_status dt__run_sync(dt__run *r);
/* Makes the folders on the way to a file. */
dt_status dt__run_make_parents(dt__run *r, const char *path);
/* Cuts metrics.jsonl behind line `lines`. */
dt_status dt__run_truncate(dt__run *r, int64_t lines);
dt_status dt__run_write(dt__run *r, const char *name, const char *text, size_t bytes);
/* A dt_sink into a dt__chars. */
dt_status dt__run_collect(void *chars, const char *text, size_t bytes);

/* ---- differ.c ---- */

/* The path of the first key that differs and that a resumed run may not change (`all`: or may), ""
 * if there is none. The path lives as long as `a`. */
const char *dt__recipe_difference(dt_recipe *a, const dt_recipe *b, bool all);
/* The keys that it may change, "a, b and c"; lives as long as `r`. */
const char *dt__recipe_resumable(dt_recipe *r);

/* ---- run_state.c ---- */

void dt__run_name_state(dt__run *r);
dt_status dt__run_save(dt__run *r);
/* Begins the stage of the newest good checkpoint and loads it; *found false: there is none. */
dt_status dt__run_resume(dt__run *r, bool *found);

/* ---- run_teacher.c ---- */

/* Whether the float weights at the start step are the teacher. */
bool dt__run_teaches_itself(const dt__run *r);
/* Opens the teacher of `m` where there is one by now: `prepared`, the float weights are in their
 * file. */
dt_status dt__run_open_teacher(dt__run *r, const dt_module *m, bool prepared);

/* ---- run_ranges.c ---- */

/* Prepares m as the recipe says. `trained`: its static ranges see batches before anybody uses them;
 * else the first updates do that. */
dt_status dt__run_prepare(dt__run *r, dt_module *m, bool trained);
/* Before an update: freezes observers and folded norms, and has ranges of weights computed anew,
 * where the recipe says. */
dt_status dt__run_update_ranges(dt__run *r);

/* ---- run_step.c ---- */

typedef struct dt__update_result {
    double loss, norm, lr;
    double factor; /* what clipping multiplies the gradients by */
    int64_t samples;
    bool skipped; /* something was not finite: nothing was written */
} dt__update_result;

dt_status dt__run_update(dt__run *r, dt__update_result *u);

/* ---- run_buffers.c ---- */

typedef enum dt__way { DT__KEEP, DT__PUT_BACK } dt__way;

/* Makes room for copies of the model's buffers; none where no update is ever given up. */
dt_status dt__run_open_buffers(dt__run *r);
void dt__run_close_buffers(dt__run *r);
dt_status dt__run_buffers(dt__run *r, dt__way way);

/* ---- run_loop.c ---- */

/* Updates until `end`, or until training ends early. */
dt_status dt__run_until(dt__run *r, int64_t end);
/* Of metrics.jsonl: an object with step, epoch and phase; its end, and its way to the file. */
void dt__run_begin_line(dt__run *r, dt__chars *t);
dt_status dt__run_end_line(dt__run *r, dt__chars *t);

/* ---- run_best.c ---- */

/* CONFIG where the recipe wants evaluations and there is nothing to evaluate on. */
dt_status dt__run_check_evaluation(dt__run *r);
/* Evaluates where the latest update is one after which the recipe wants it. */
dt_status dt__run_validate(dt__run *r);
/* After the last update of a stage: its model is what the run ends with. */
dt_status dt__run_take_best(dt__run *r);

/* ---- run_routing.c ---- */

/* dt_evaluate of the stage's model over the validation data; *experts says how its rows were
 * spread. */
dt_status dt__run_evaluate(dt__run *r, const dt_evaluation *options, dt_metrics *metrics,
                           dt__experts *experts);

/* ---- run_compare.c ---- */

/* Evaluates the float model and its rounded form, and keeps the figures. */
dt_status dt__run_compare_float(dt__run *r);
/* Evaluates the trained model, converts it, proves, and writes the files of the end. */
dt_status dt__run_finish(dt__run *r);
/* Bytes of the model's tensors; as_packed: with wrapped weights as integers and scales. */
int64_t dt__module_bytes(dt_module *m, bool as_packed);

/* ---- run_dry.c ---- */

dt_status dt__run_dry(dt__run *r);
/* Parameters and sizes of a model, prepared or not, into the summary. */
void dt__run_describe(dt__run *r, dt_module *m);
/* Multiply-adds of an example. The model keeps hooks that count: it is not to be used further. */
dt_status dt__run_count_products(dt__run *r, dt_module *trial);
/* Runs m over one example of zeros, in training where it is in training. */
dt_status dt__run_one_example(dt__run *r, dt_module *m);

#endif
