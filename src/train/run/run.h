/* The parts of a run, for src/train alone. run.c calls them in order:
 *     run_setup.c    data, model, optimizer
 *     run_affine.c   layers that scale outputs as the training targets are
 *     run_check.c    errors that are found before anything is written
 *     run_packed.c   model.pack: packed weights under the adapters
 *     run_folder.c   run.dir and its small files
 *     run_state.c    what a checkpoint holds, saving, resuming
 *     run_content.c  whether a checkpoint's data are still the same
 *     run_teacher.c  train.distill: the teacher model
 *     run_ranges.c   prepares the model, and sets and freezes static ranges
 *     run_weights.c  train.class_weights
 *     run_step.c     one update, and values that are not finite
 *     run_spikes.c   train.spikes: losses far above those before
 *     run_average.c  train.average: averages of the parameters
 *     run_buffers.c  buffers that an update writes, restored if it is skipped
 *     run_quantizing.c  how a prepared model trains: estimator, damping, layer after layer
 *     run_loop.c     the training loop: lines of metrics, checkpoints, progress
 *     run_rate.c     the learning rate of an update
 *     run_best.c     validation: the best evaluation, early stopping
 *     run_routing.c  evaluation, and how rows are spread over experts
 *     run_compare.c  evaluates float, rounded, trained and converted models
 *     run_confusion.c  confusion.json
 *     run_layers.c   figures of layers during QAT, layers-begin.json, layers-end.json
 *     run_sensitivity.c  sensitivity.json
 *     run_examples.c   examples.json
 *     run_machine.c    machine.json
 *     run_columns.c    columns.json
 *     run_memory.c     the memory of each rank
 *     shards.h         train.shards, and runs of several ranks
 *     run_mirror.c   metrics.csv, events for TensorBoard
 *     run_summary.c  sizes, summary.json
 *     run_dry.c      a run that writes nothing */
#ifndef DT__TRAIN_RUN_H
#define DT__TRAIN_RUN_H

#include "core/ranks.h"
#include "core/text/json.h"
#include "ptq/rounding_cost.h"
#include "train/recipe/recipe.h"
#include "train/task/task.h"

#include <detent/experimental/io.h>

/* A run has one stage or two: with train.float_baseline the baseline is trained first. */
typedef enum dt__stage { DT__BASELINE, DT__MAIN } dt__stage;

/* Counters and values that a checkpoint saves. */
typedef enum dt__counter {
    DT__COUNT_STAGE,
    DT__COUNT_STEP,           /* updates done in this stage */
    DT__COUNT_PREPARED,       /* 1: the model is prepared */
    DT__COUNT_LINES,          /* lines of metrics.jsonl */
    DT__COUNT_SINCE,          /* updates since the latest line */
    DT__COUNT_LIMITED,        /* of these, updates whose gradient was clipped */
    DT__COUNT_SKIPPED,        /* updates skipped: values not finite, or spikes */
    DT__COUNT_BASELINE_STEPS, /* updates of the finished baseline */
    DT__COUNT_BEST_STEP,      /* update of the best evaluation of the last phase; 0: none yet */
    DT__COUNT_WAITED,         /* evaluations since then */
    DT__COUNT_STOPPED,        /* 1: training ended early */
    DT__COUNT_PLATEAU_SEEN,   /* these four: state of dt_plateau */
    DT__COUNT_PLATEAU_WAITED,
    DT__COUNT_PLATEAU_COOLING,
    DT__COUNT_REDUCTIONS,
    DT__COUNT_SPIKES,
    DT__COUNT_SPIKES_SEEN, /* losses in the statistics for spikes */
    DT__COUNT_LOWERED,     /* times that a spike lowered the rate */
    DT__COUNT_AVERAGED,    /* number of values in the averages of parameters */
    /* the data of training, validation and test; absent in older checkpoints */
    DT__COUNT_EXAMPLES,
    DT__COUNT_TRAIN_HASH,
    DT__COUNT_VALIDATION_HASH,
    DT__COUNT_TEST_HASH,
    DT__COUNT_START,        /* the update at which QAT begins */
    DT__COUNT_TEACHER_HASH, /* hash of the teacher; 0: none, or not yet */
    DT__COUNTS
} dt__counter;

typedef enum dt__value {
    DT__VALUE_LOSS_SUM, /* since the latest line */
    DT__VALUE_NORM_SUM,
    DT__VALUE_BEST_LOSS, /* of the best evaluation; 0: none yet */
    DT__VALUE_PLATEAU_BEST,
    DT__VALUE_SPIKES_MEAN,
    DT__VALUE_SPIKES_VARIANCE,
    DT__VALUE_RESULTS /* first of the metrics of float, then of ptq */
} dt__value;

#define DT__VALUES (DT__VALUE_RESULTS + 2 * DT_MAX_METRICS)

/* The largest and the smallest share of a layer's rows that one expert got, over all layers. */
typedef struct dt__experts {
    bool any; /* the model has experts */
    double busiest, idlest;
} dt__experts;

/* The batches of an update. */
typedef struct dt__batch_range {
    dt__stream stream[DT__PURPOSES]; /* random streams before the first of them */
    dt_position position;
    int64_t batches, examples;
    double labels; /* number of labels, or sum of their weights */
} dt__batch_range;

/* What an update computed. */
typedef struct dt__update_result {
    double loss, norm, lr;
    double factor; /* of gradient clipping */
    int64_t samples;
    bool skipped; /* loss or gradient was not finite, or a spike: no parameter was written */
} dt__update_result;

/* Bytes of a rank's memory while it trained. */
typedef struct dt__rank_memory {
    double peak; /* largest sum of all tensors */
    double weights, gradient, optimizer;
    double activations; /* the rest of `peak`: activations, codes, examples, scratch */
} dt__rank_memory;

/* The other ranks of a run. */
typedef struct dt__run_ranks {
    struct dt__cluster *cluster; /* NULL: there are none */
    struct dt__shards *shards;   /* NULL: an update has one shard */
    int64_t n_shards;
    dt_logger log;           /* the context's logger, which is unset on all ranks but 0 */
    bool together;           /* every rank has the same error as this one */
    bool asked_to_stop;      /* some rank was asked to stop */
    bool asked_to_save;      /* rank 0 requests a checkpoint, by its clock */
    dt__rank_memory *memory; /* for each rank, after training; else NULL */
} dt__run_ranks;

/* The datasets of a run, and the sizes of an epoch and a stage. */
typedef struct dt__run_data {
    dt_dataset *train, *validation, *test;
    const dt_dataset *evaluated; /* for the final results */
    const dt__task *task;
    const dt_metric *metric[DT_MAX_METRICS];
    int n_metrics;
    int64_t batches, per_epoch, steps; /* per epoch: batches and updates; updates of a stage */
    int64_t range_params;              /* parameters that are learned scales, not weights */
    int64_t start;                     /* update before which the main stage prepares its model */
    dt__round_cost rounding;           /* cost of rounding all weights */
    int64_t layers;                    /* layers that have a quantized weight */
    /* of the data (run_content.c); 0: not computed yet */
    int64_t content[DT__COUNT_START - DT__COUNT_EXAMPLES];
} dt__run_data;

/* State of the current stage. */
typedef struct dt__run_stage {
    dt_module *model;
    dt_module *teacher; /* for train.distill, once it is needed; else NULL */
    dt_optimizer *optimizer;
    dt_freezer *freezer; /* for qat.freeze; else NULL */
    dt_frozen frozen;    /* after the latest update */
    dt_loader *loader;
    dt_tape *tape;
    dt_tensor *share;           /* 1 / labels of the update: the gradient of each summed loss */
    dt_tensor *part[DT__PARTS]; /* weights of the parts of a loss */
    double labels_each;         /* labels per example, on average over the update */
    /* For each output: the loss, and the weights of its classes; NULL: none. */
    dt__objective objective[DT_MAX_JOINED];
    dt_tensor *weight[DT_MAX_JOINED];
    dt_schedule schedule;
    struct dt__saved_buffer *saved; /* copies of buffers; NULL: not needed, or none */
    int64_t n_saved;
    uint64_t saved_at; /* the model's change counter when `saved` was made */
    dt_named_count count[DT__COUNTS];
    dt_named_value value[DT__VALUES];
    int n_values;
    char value_name[DT__VALUES][DT_MAX_METRIC_NAME];
    dt_training_state state;
} dt__run_stage;

/* Texts for a run's files, and open files. */
typedef struct dt__run_files {
    char *checkpoints[2]; /* folder of each stage's checkpoints */
    char *resolved;       /* text of recipe.yaml */
    char *base;           /* with model.pack: detent.base of its files; else NULL */
    char *hf;             /* metadata of model.init's Hugging Face folder, or NULL */
    char *init_data;      /* what model.init was trained on (detent.data), or NULL */
    char *init_tokenizer; /* of model.init, or NULL */
    bool describes_init;  /* model.init is a file of detent with metadata about its training data */
    char *tokenizer;      /* of the data, as dt_tokenizer_text, or NULL */
    char *tokens;         /* of the model, as dt_model_info.tokens, or NULL */
    char *data;           /* metadata about the training data, as dt_model_data_text, or NULL */
    bool rewrite;         /* recipe.yaml differs in resumable keys */
    int metrics;          /* descriptor of metrics.jsonl; -1: closed */
} dt__run_files;

/* Clocks and counts since the start of this process, for lines of metrics and the remaining
 * time. */
typedef struct dt__run_pace {
    double opened;                 /* time at which dt_run was called */
    double began;                  /* time at which this process began to train */
    int64_t trained;               /* updates made by this process */
    int64_t samples;               /* examples in these updates */
    double seconds[DT_CONTENDERS]; /* of evaluating float, ptq; 0: not in this process */
    double saved_clock;            /* time of the latest checkpoint */
    double line_clock;             /* time of the latest line of metrics */
    int64_t line_samples;          /* examples since then */
    int64_t line_trained;          /* `trained` then */
    dt__cluster_costs line_costs;  /* what communication had cost then */
    double validated;              /* the latest validation loss of this process; NaN: none */
    double first_metric;           /* metric[0] of that evaluation */
    dt__experts experts;           /* of that evaluation */
    dt__update_result latest;
} dt__run_pace;

typedef struct dt__run {
    dt_ctx *ctx;
    dt_recipe *recipe;
    const dt_recipe_options *o;
    dt_run_control control;
    dt_run_summary *summary;
    dt__run_ranks ranks;
    dt__run_data data;
    dt__run_stage stage;
    dt__run_files files;
    dt__run_pace pace;
} dt__run;

#define DT__RUN_PATH 4096

static inline int64_t *dt__run_count(dt__run *r, dt__counter i) { return &r->stage.count[i].value; }
static inline double *dt__run_value(dt__run *r, int i) { return &r->stage.value[i].value; }
/* Metric i of a result that is known before the end (float, ptq). */
static inline double *dt__run_result(dt__run *r, dt_contender which, int i)
{
    const int first = which == DT_RUN_PTQ ? r->data.n_metrics : 0;
    return &r->stage.value[DT__VALUE_RESULTS + first + i].value;
}

/* Writes run.dir/name into path. IO if it is too long. */
dt_status dt__run_path(dt__run *r, const char *name, char path[DT__RUN_PATH]);
/* "baseline", "float" or "qat". */
const char *dt__run_phase(const dt__run *r);

/* Whether the main stage makes updates in float: before it prepares the model, or without `qat`. */
bool dt__run_trains_in_float(const dt__run *r);
/* The weights that the first rows of the table of results compare with. */
dt_float_weights dt__run_float_weights(const dt__run *r);
/* Whether the weights are trained when they are prepared, in this run or in model.init, and not
 * random. Static ranges are then calibrated before the first QAT update. */
bool dt__run_prepares_trained(const dt__run *r);

/* ---- run_packed.c ---- */

/* Makes the model of packed weights, without adapters (model.pack). If the run has a folder, the
 * weights are saved there, and r->files.base names the file. */
dt_status dt__run_packed_model(dt__run *r, dt_module **out);

/* ---- run_setup.c ---- */

dt_status dt__run_open(dt__run *r);
void dt__run_close(dt__run *r);
/* Makes a new model by the recipe; draws from the context's random streams. */
dt_status dt__run_model(dt__run *r, dt_module **out);
dt_status dt__run_plain_model(dt__run *r, dt_module **out); /* without adapters */
/* Creates what a stage needs, in the state before its first update. */
dt_status dt__run_begin_stage(dt__run *r, dt__stage stage);
void dt__run_end_stage(dt__run *r);
dt_status dt__run_loader(dt__run *r);

/* ---- run_affine.c ---- */

/* Sets the layers `affine` of a model with new weights from the targets. CONFIG if they do not fit
 * the training data. */
dt_status dt__run_set_affine(dt__run *r, dt_module *m);

/* ---- run_check.c ---- */

typedef dt_status dt__run_test(dt__run *r);

/* Runs all n tests, so that every error gets into the recipe's list. CONFIG does not stop it; other
 * errors do. */
dt_status dt__run_collect_errors(dt__run *r, dt__run_test *const *tests, int n);
/* All checks before a run's first file is written. CONFIG with all errors in the recipe's list. */
dt_status dt__run_check(dt__run *r);
/* check_fit.c: CONFIG where the recipe's model does not fit the data. */
dt_status dt__check_fit(dt_recipe *r, const dt_dataset *d);
/* check_length.c: warns of settings that never take effect in a run of this length. */
void dt__say_length(const dt__run *r);
/* check_joined.c: for joined arrays, sorts their parts by the model's inputs and outputs; FORMAT if
 * they do not fit, or if other data would have to be joined. */
dt_status dt__check_joined(const dt_family *family, const void *options, const dt_dataset *d);
/* Warns if the numbers of the data are scaled differently from those of the model at `path`.
 * `text`: metadata in its file (dt_model_info.data), or NULL. `trains`: training uses the data's
 * scaling, otherwise the model's is used. Errors: NOMEM, those of dt__compare_reading. */
dt_status dt__say_scaling(dt_ctx *ctx, const char *path, const char *text, const dt_dataset *d,
                          bool trains);
/* Features and rates of signals that the model does not read, and columns, targets and classes in
 * the places of others, are FORMAT, or said where a new run trains. Evaluations read classes by
 * their names. */
typedef enum { DT__READ_TO_TRAIN, DT__READ_TO_EVALUATE, DT__READ_TO_RESUME } dt__reading_use;
dt_status dt__compare_reading(dt_ctx *ctx, const char *path, const dt_model_data *model,
                              const dt_model_data *data, dt__reading_use use);
/* Warns if ids of the data's tokenizer are other tokens than those of the model at `path`, whose
 * own tokenizer is `text`; either may be NULL. Errors: NOMEM. */
dt_status dt__say_tokens(dt_ctx *ctx, const char *path, const char *text, const dt_tokenizer *data);
/* dt__say_scaling, then sets the data's mean and deviation to the model's; FORMAT if they do not
 * fit. */
dt_status dt__give_scaling(dt_ctx *ctx, const char *path, const char *text, dt_dataset *d);
/* FORMAT if the model, read from `path`, does not take the examples of the dataset. */
dt_status dt__check_examples(dt_ctx *ctx, const char *path, const dt_model_info *info,
                             const dt_dataset *d);

/* ---- run_content.c ---- */

/* Sets the counters that identify the data in a checkpoint. */
void dt__run_set_content(dt__run *r);
/* FORMAT if the checkpoint was trained on other data than r->data.train and r->validation. */
dt_status dt__run_check_content(dt__run *r, const dt_file *checkpoint);

/* ---- run_folder.c ---- */

/* Creates run.dir, or opens an existing one to resume. */
dt_status dt__run_folder(dt__run *r);
/* Names the folders of its checkpoints. NOMEM. */
dt_status dt__run_name_folders(dt__run *r);
/* For a dry run: logs that run.dir exists, which a real run refuses. */
void dt__run_predict_folder(dt__run *r);
/* Rewrites recipe.yaml if a resumed run changed it. Called once it is certain that the run
 * continues. */
dt_status dt__run_keep_recipe(dt__run *r);
/* Appends a line, newline included, to metrics.jsonl. */
dt_status dt__run_append(dt__run *r, const char *line, size_t bytes);
/* fsync of metrics.jsonl. */
dt_status dt__run_sync(dt__run *r);
/* Creates the folders of a file's path. */
dt_status dt__run_make_parents(dt_ctx *ctx, const char *path);
/* *unbegun: the folder exists and is empty, or has only temporary files, of a run that was killed
 * before it wrote its recipe. IO if it cannot be read. */
dt_status dt__run_is_unbegun(dt_ctx *ctx, const char *dir, bool *unbegun);
/* Truncates metrics.jsonl after `lines` lines. */
dt_status dt__run_truncate(dt__run *r, int64_t lines);
dt_status dt__run_write(dt__run *r, const char *name, const char *text, size_t bytes);
/* Writes a file that the report shows, without waiting for the disk. NOMEM if the text failed. */
dt_status dt__run_write_shown(dt__run *r, const char *name, const dt__chars *text);
/* A dt_sink that appends to a dt__chars. */
dt_status dt__collect(void *chars, const char *text, size_t bytes);

/* ---- differ.c ---- */

/* The path of the first key that differs and is not resumable (with `all`, of any key); "" if there
 * is none. It lives as long as `a`. */
const char *dt__recipe_difference(dt_recipe *a, const dt_recipe *b, bool all);
/* The resumable keys, "a, b and c"; lives as long as `r`. */
const char *dt__recipe_resumable(dt_recipe *r);

/* ---- run_state.c ---- */

void dt__run_name_state(dt__run *r);
const char *dt__run_counter_name(dt__counter i); /* name in a checkpoint */
/* dt_checkpoint_load, also with expert parallelism. FORMAT also if the file is of another run. */
dt_status dt__run_load(dt__run *r, const char *path);
dt_status dt__run_save(dt__run *r);
/* Begins the stage of the newest valid checkpoint and loads it; *found false: there is none. */
dt_status dt__run_resume(dt__run *r, bool *found);

/* ---- run_teacher.c ---- */

/* Whether the teacher is the run's own model at qat.start_step. */
bool dt__run_teaches_itself(const dt__run *r);
/* Loads the teacher of `m` if it exists yet. `prepared`: float.safetensors has been written. */
dt_status dt__run_open_teacher(dt__run *r, const dt_module *m, bool prepared);
/* FORMAT if the stage's checkpoint was trained with another teacher; else the stage's counters
 * identify it. */
dt_status dt__run_check_teacher(dt__run *r);
/* CONFIG, at its key, if a layer of train.distill.features is not in m or has no output of its own.
 * `whose`: "the model", for the message. */
dt_status dt__run_check_features(dt__run *r, dt_module *m, const char *whose);

/* ---- run_ranges.c ---- */

/* Makes m, which is prepared or is the result, use a quantized key-value cache as in qat.cache. */
dt_status dt__run_set_cache(const dt__run *r, dt_module *m);
/* Prepares m by the recipe. `trained`: first calibrates static ranges of activations with some
 * batches; else the first updates initialize them. */
dt_status dt__run_prepare(dt__run *r, dt_module *m, bool trained);
/* After preparing, or resuming a prepared model: applies train.backward, and logs which layers get
 * integers. */
dt_status dt__run_set_backward(dt__run *r);
/* Before an update: freezes observers and folded norms, and recomputes static ranges of weights, at
 * the steps that the recipe gives. */
dt_status dt__run_update_ranges(dt__run *r);

/* ---- run_quantizing.c ---- */

/* Before an update of a prepared model: quantizes further layers, sets the estimator. */
dt_status dt__run_quantize_more(dt__run *r);
/* Logs the keys that qat.recipe set. */
void dt__run_say_best(const dt__run *r);
/* The factor of qat.rate on the next update's learning rate; 1 before the model is prepared. */
double dt__run_qat_rate(dt__run *r);
/* Adds the gradients of qat.damping. Resets the tape. */
dt_status dt__run_damp(dt__run *r);
/* After an update: applies qat.freeze, and at the end logs how many weights are frozen. Resets the
 * tape. */
dt_status dt__run_freeze(dt__run *r);
void dt__run_say_frozen(dt__run *r);
/* After training: qat.norm_batches. */
dt_status dt__run_follow_norms(dt__run *r);
/* CONFIG if these keys do not fit a prepared model of the run. */
dt_status dt__run_check_quantizing(dt__run *r, dt_module *trial);

/* ---- run_step.c ---- */

dt_status dt__run_update(dt__run *r, dt__update_result *u);
/* Forward and backward of one batch; adds its loss, which is not divided by labels. */
dt_status dt__run_batch(dt__run *r, dt_tensor *x, dt_tensor *target, double *loss);
/* Fills `out` for the loss of the loader's latest batch; `share`: also writes the weights of the
 * loss's parts. */
dt_status dt__run_pass(dt__run *r, dt_tensor *x, dt_tensor *target, dt__pass *out);

/* ---- shards.c ---- */

static inline bool dt__run_is_sharded(const dt__run *r) { return r->ranks.shards != NULL; }
/* At the start of a stage: makes r->ranks.shards if an update has several shards. NOMEM. */
dt_status dt__shards_open(dt__run *r);
void dt__shards_close(dt__run *r);
/* Computes the gradient of the update over all shards, and the sum of their losses. NUMERIC also if
 * another rank has a non-finite value. */
dt_status dt__shards_gradient(dt__run *r, const dt__batch_range *p, double *loss);
/* After NUMERIC, and again while results are checked: the message of the first shard that has
 * one. */
dt_status dt__run_first_words(dt__run *r, char words[DT__MESSAGE_SIZE]);

/* ---- run_cluster.c ---- */

/* Joins the other ranks, and determines the number of shards. */
dt_status dt__run_join(dt__run *r);
/* After opening, with its status: an error of any rank becomes the error of all; differences
 * between ranks are errors. */
dt_status dt__run_agree(dt__run *r, dt_status status);
/* Whether this rank writes files: rank 0. */
bool dt__run_writes(const dt__run *r);
/* Runs `work` on all ranks, which share parts of it (dt__cluster_meet); an error of any rank
 * becomes the error of all. */
dt_status dt__run_together(dt__run *r, dt_status (*work)(dt__run *r));
/* Runs `work` on rank 0, while the others wait; all return its status. */
dt_status dt__run_alone(dt__run *r, dt_status (*work)(dt__run *r));
/* Flags that this rank sends with its shards, as a set of DT__FLAG_... */
int64_t dt__run_flags(dt__run *r);
void dt__run_take_flags(dt__run *r, int rank, int64_t flags);
/* Whether this rank was asked to stop. */
bool dt__run_wants_to_stop(dt__run *r);
/* After an update: compares the weights of all ranks, if cluster.check_steps requires it now. */
dt_status dt__run_compare_ranks(dt__run *r);
/* Makes the optimizer of r->stage.model, sharded among ranks if cluster.shard_optimizer is set. */
dt_status dt__run_optimizer(dt__run *r);
/* With cluster.experts: spread, on several ranks: opens the exchange of rows. NOMEM. */
dt_status dt__run_open_spread(dt__run *r);
/* CONFIG if cluster.experts does not fit the model or the number of ranks. */
dt_status dt__run_check_spread(dt__run *r);
/* The first keeps only this rank's experts of r->stage.model; the second restores all of them.
 * Called by all ranks together. In both cases the optimizer has the state of this rank's experts.
 * NOMEM, STATE. */
dt_status dt__run_cut_experts(dt__run *r);
dt_status dt__run_join_experts(dt__run *r);
/* After training with cluster.experts: frees the optimizer, and gives all ranks the whole model, to
 * be evaluated, rounded and written as usual. */
dt_status dt__run_end_spread(dt__run *r);
/* Leaves the other ranks; `status` is the result of the run. */
void dt__run_leave(dt__run *r, dt_status status);

/* ---- run_time.c ---- */

/* Plans the remaining work of the run, by its counters. Errors: NOMEM. */
dt_status dt__run_plan(dt__run *r);
/* The work of a whole run (dt__ledger_units). Errors: as dt_run. */
dt_status dt__run_units(dt_ctx *ctx, dt_recipe *recipe, double *units);
/* Stores the cost of rounding the trial model, whose positions were counted for one example. */
struct dt__positions;
void dt__run_cost_rounding(dt__run *r, dt_module *trial, const struct dt__positions *counted);
/* Counts an update as done. */
void dt__run_time_update(dt__run *r, int64_t samples);
/* dt__evaluate, counted as work; reports progress to control.progress. */
dt_status dt__run_time_evaluation(dt__run *r, const dt__evaluation *e, dt_metrics *metrics,
                                  dt_tensor **out);
/* dt__rounding_run, counted likewise. */
struct dt__rounding;
struct dt__rounding_job;
dt_status dt__run_time_rounding(dt__run *r, const struct dt__rounding *p,
                                const struct dt__rounding_job *job);

/* ---- run_rate.c ---- */

/* The learning rate of the next update. */
double dt__run_rate(dt__run *r);
/* Passes the loss of an evaluation to schedule plateau; logs if the rate is reduced. */
void dt__run_plateau(dt__run *r, double loss);
/* Resets the plateau, as losses before the model is prepared are not comparable. */
void dt__run_forget_plateau(dt__run *r);
/* CONFIG if a group of train.optimizer.groups matches no parameter of m, or all are frozen. */
dt_status dt__run_check_groups(dt__run *r, dt_module *m);

/* ---- run_spikes.c ---- */

/* Adds the loss of an update to mean and variance; returns whether it is a spike, which is counted
 * and logged. */
bool dt__run_is_spike(dt__run *r, double loss);
/* Resets them, as losses before the model is prepared are not comparable. */
void dt__run_forget_spikes(dt__run *r);

/* ---- run_average.c ---- */

/* After an update: averages the parameters, if train.average requires it now. */
dt_status dt__run_average(dt__run *r);
/* Swaps parameters and their averages, if there are averages. */
dt_status dt__run_swap_average(dt__run *r);
/* Replaces the parameters by their averages, and updates statistics of norms for them. */
dt_status dt__run_take_average(dt__run *r);
/* Restores the parameters. */
dt_status dt__run_leave_average(dt__run *r);
/* Runs forward passes in training mode over whole batches of a shuffle of the training examples,
 * without augmentation, to update norms and observers. Draws nothing from the run's random
 * streams. */
dt_status dt__run_follow(dt__run *r, int64_t batches);

/* ---- run_buffers.c ---- */

typedef enum dt__buffers_task { DT__BUFFERS_SAVE, DT__BUFFERS_RESTORE } dt__buffers_task;

/* Allocates copies of the model's buffers, if updates may be skipped or parameters are averaged. */
dt_status dt__run_open_buffers(dt__run *r);
void dt__run_close_buffers(dt__run *r);
/* Copies the model's buffers, or restores them from the copies. */
dt_status dt__run_buffers(dt__run *r, dt__buffers_task task);

/* ---- run_loop.c ---- */

/* Progress after the latest update. */
dt_progress dt__run_progress(const dt__run *r);

/* Whether train.checkpoint.every_minutes have passed since the last checkpoint, by this rank's
 * clock. */
bool dt__run_is_late(const dt__run *r);
/* Trains until `end` updates are done, or until early stopping. */
dt_status dt__run_until(dt__run *r, int64_t end);
/* A line of metrics.jsonl: the first begins an object with step, epoch and phase; the second ends
 * it and appends it to the file. */
void dt__run_begin_line(dt__run *r, dt__chars *t);
dt_status dt__run_end_line(dt__run *r, dt__chars *t);

/* ---- run_best.c ---- */

/* CONFIG if the recipe needs evaluations and there are no validation data. */
dt_status dt__run_check_evaluation(dt__run *r);
/* Evaluates if an evaluation is due after the latest update. */
dt_status dt__run_validate(dt__run *r);
/* Number of evaluations of a stage up to an update. */
int64_t dt__run_validations(const dt__run *r, int64_t step);
/* After the last update of a stage: restores the best weights, if train.finish_with is best. */
dt_status dt__run_take_best(dt__run *r);

/* ---- run_routing.c ---- */

/* dt_evaluate of the stage's model on the validation data; *experts gets the shares of experts. */
dt_status dt__run_evaluate(dt__run *r, const dt_evaluation *options, dt_metrics *metrics,
                           dt__experts *experts);

/* ---- run_weights.c ---- */

/* Makes r->stage.weight by train.class_weights or data.outputs. CONFIG if a list does not fit the
 * classes. */
dt_status dt__run_open_weights(dt__run *r);
void dt__run_close_weights(dt__run *r);
/* train.threshold: CONFIG if data or model have no thresholds; the other chooses thresholds for
 * r->stage.model, for r->files.data and the summary (run_threshold.c). */
dt_status dt__run_check_threshold(dt__run *r);
dt_status dt__run_choose_thresholds(dt__run *r);
/* *width: the model's numbers for output i; unchanged if unknown. */
dt_status dt__run_width(const dt__run *r, int i, int64_t *width);
/* Sets r->files.data, the metadata about the examples of r->data.train. NOMEM. */
dt_status dt__run_keep_data(dt__run *r);
/* Finds r->stage.objective by name. CONFIG. */
dt_status dt__run_find_objectives(dt__run *r);
/* The divisor of the sum of losses in an update of the next `batches` batches: number of labels, or
 * sum of their weights. */
double dt__run_divisor(dt__run *r, int64_t batches);

/* ---- run_confusion.c ---- */

/* Writes confusion.json of the outputs for all evaluated examples, unless targets are not labels of
 * examples, or classes are too many. */
dt_status dt__run_write_confusion(dt__run *r, dt_tensor *outputs);

/* ---- run_mirror.c ---- */

/* Writes metrics.csv and events for TensorBoard, if requested, from the existing lines of
 * metrics.jsonl. */
dt_status dt__run_begin_mirror(dt__run *r);
/* Adds a line of metrics to both. */
dt_status dt__run_mirror(dt__run *r, const char *line, size_t bytes);

/* ---- run_layers.c ---- */

/* After an update: writes layers-begin.json after the first one of QAT, and a line with figures of
 * the layers if train.log.layers_every_steps requires it. */
dt_status dt__run_log_layers(dt__run *r);
/* Writes figures of the layers, with their histograms, to run.dir/name. */
dt_status dt__run_write_layers(dt__run *r, const char *name);

/* ---- what the report shows besides; nothing is written without run.report ---- */

/* Evaluates the prepared model with each layer in float, and restores it. Before that: the number
 * of examples that are used for n layers. */
int64_t dt__run_sensitivity_examples(const dt__run *r, int64_t n);
dt_status dt__run_write_sensitivity(dt__run *r);
/* `outputs`: of m for all evaluated examples. */
dt_status dt__run_write_examples(dt__run *r, dt_module *m, dt_tensor *outputs);
/* train.evaluate.samples: CONFIG if the data have no examples to show; the other writes the line of
 * metrics.jsonl after an evaluation. */
dt_status dt__run_check_samples(dt__run *r);
dt_status dt__run_log_samples(dt__run *r);
/* Writes columns.json: the typed columns of a table. */
dt_status dt__run_write_columns(dt__run *r);
/* Writes machine.json. `seconds`: duration of this call so far. */
dt_status dt__run_write_machine(dt__run *r, double seconds);
/* Removes machine.json from the folder of a resumed run. */
dt_status dt__run_forget_machine(dt__run *r);

/* ---- run_compare.c ---- */

/* Evaluates the float model and the float model rounded to nearest, and stores both results. */
dt_status dt__run_compare_float(dt__run *r);
/* Evaluates the trained model, converts it, compares outputs bit for bit, and writes the final
 * files. */
dt_status dt__run_finish(dt__run *r);
/* Bytes of the model's tensors; `as_packed`: as if wrapped weights were converted. */
int64_t dt__module_bytes(dt_module *m, bool as_packed);
/* Bytes of the tensors of the module at `path` and below; NULL: of all. */
int64_t dt__bytes_below(dt_module *m, const char *path, bool as_packed);

/* ---- run_memory.c ---- */

/* After training: collects the memory of all ranks in r->ranks.memory, and logs a line for each. */
dt_status dt__run_measure_memory(dt__run *r);
/* The largest number of bytes of gradients on this rank. */
dt_status dt__shards_bytes(const dt__run *r, int64_t *bytes);

/* ---- run_dry.c ---- */

/* Measures the time of ops on a tape, by name (run_costs.c). */
#define DT__COSTS 64

typedef struct dt__costs {
    dt_tape *tape;
    dt_step_part part[DT__COSTS]; /* with seconds instead of shares */
    int n, depth;
    double begun;
} dt__costs;

void dt__costs_begin(dt__costs *c, dt_tape *t);
/* The DT_STEP_PARTS largest parts of an update of this duration. */
void dt__costs_end(dt__costs *c, double seconds, dt_step_part *most);
/* Measures multiply-adds per second of a float matrix product. The tape must be empty, and is empty
 * afterwards. */
dt_status dt__costs_product(dt_tape *t, double *speed);

dt_status dt__run_dry(dt__run *r);
/* Writes numbers of parameters and sizes of a model, prepared or not, to the summary. */
void dt__run_describe(dt__run *r, dt_module *m);
/* Counts the multiply-adds of one example. */
dt_status dt__run_count_products(dt__run *r, dt_module *trial);
/* Runs m on one example of zeros, in the mode it is in, and adds its multiply-adds to *products
 * (NULL: nowhere). */
dt_status dt__run_one_example(dt__run *r, dt_module *m, int64_t *products);

#endif
