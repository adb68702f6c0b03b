/* A task: the loss and the metrics that follow from a dataset's targets. task.c has the table of
 * tasks; each kind of targets has a file task_<targets>.c.
 *
 * Metrics are summed example by example, in order and in double: they do not depend on the batch
 * size. */
#ifndef DT__TRAIN_TASK_H
#define DT__TRAIN_TASK_H

#include "core/core.h"
#include "train/task/ranking.h"

#include <detent/experimental/train.h>

#define DT__SUMS 3
#define DT__MEASURES 4 /* most metrics of a task of one output */

/* Sums over the examples seen so far, from which metrics are computed. */
typedef struct dt__tally {
    dt_ctx *ctx;
    const struct dt__task *task;
    int64_t least_classes; /* classes that occur in the labels */
    int64_t classes; /* classes of the model's outputs; 0: before the first batch, or no labels */
    int64_t places;  /* values of an example's target: 1, pixels, pixels of all channels, tokens */
    bool prompted;   /* dt_dataset_is_prompted */
    const dt_reals *levels, *thresholds; /* of the dataset; NULL: one of several outputs */
    int64_t examples;
    int64_t labels; /* that count in the loss: tokens other than -100, normal examples */
    double sum[DT__SUMS];
    /* Counters of each class, or of each place if the task counts places: DT__WANTED labels,
     * DT__FOUND by the model, DT__BOTH. [0] is the allocation. */
    int64_t *region[3];
    double *total[4]; /* likewise: sums for each place */
    dt__scored *scored;
    int64_t n_scored, room;
    /* Of windows of recordings: the mean score of each recording, and of the last one its number,
     * windows and their sum. */
    bool windows;
    dt__scored *recording;
    int64_t n_recordings, recordings_room, last, last_windows;
    double last_sum;
    /* With several outputs: the sums of each, [n_parts]; made with the first batch. */
    struct dt__tally *part;
    int n_parts;
    const dt_dataset *d;
    const dt_module *m; /* that is evaluated; with several outputs it says where each begins */
    /* Registered metrics, and their sums. */
    const dt_own_metric *own[DT_MAX_METRICS];
    void *state[DT_MAX_METRICS];
    int n_own;
} dt__tally;

enum { DT__WANTED, DT__FOUND, DT__BOTH };

typedef struct dt__measure {
    dt_metric metric;
    double (*value)(const dt__tally *s);
    int64_t classes; /* needs at least so many classes */
    bool prompted;   /* needs prompts with completions */
    bool windows;    /* needs windows of recordings */
} dt__measure;

/* The parts of a loss: by the targets, by the other targets of mixed examples, by the teacher's
 * outputs, and by those of its layers, whose weight is also the number of labels in the batch. */
typedef enum dt__part_of_loss {
    DT__PART_FIRST,
    DT__PART_OTHER,
    DT__PART_TAUGHT,
    DT__PART_FEATURES,
    DT__PARTS
} dt__part_of_loss;
/* Indices of dt_loss_names. */
enum { DT__LOSS_MSE, DT__LOSS_MAE, DT__LOSS_HUBER, DT__LOSS_QUANTILE, DT__LOSS_FOCAL };
/* The index of one of detent's own losses; behind the last: it has no such name. */
int dt__loss_kind(const char *name);

/* A loss by its name. */
typedef struct dt__objective {
    int kind;           /* of values: index into dt_loss_names */
    double huber_delta; /* of huber */
    double focal_gamma; /* 0: cross entropy */
    const dt_loss *own; /* of the program; NULL: the task's */
} dt__objective;

/* The loss `name` (NULL: the task's) for targets of a kind. CONFIG, naming `key` and the losses
 * that there are. */
/* Writes "mse, mae, huber" and the registered losses. */
void dt__loss_list(const dt_ctx *ctx, char *text, size_t room);

dt_status dt__objective_find(dt_ctx *ctx, const char *key, const char *name, dt_target target,
                             dt__objective *out);

/* One batch, and what its forward pass and loss need. */
typedef struct dt__pass {
    dt_tape *t;
    dt_module *m;
    dt_tensor *x, *target;
    dt_tensor *y;           /* the output to compare with; NULL: that of the model for x */
    dt_tensor *other;       /* the other targets of mixed examples; NULL: none are mixed */
    dt_tensor *const *part; /* [DT__PARTS]: weights of the parts */
    double smoothing;       /* label smoothing */
    dt__objective objective;
    dt_tensor *weight; /* of classes, or of positive bits (NULL: 1); levels of quantiles */
    /* With several outputs: which they are, and objective and weight of each. */
    const dt_dataset *d;
    const dt__objective *objectives;
    dt_tensor *const *weights;
    dt_module *teacher;                 /* for distillation; NULL: none */
    const dt_distill_settings *distill; /* settings of distillation */
} dt__pass;

/* What examples of a batch are counted by: f32 [examples, ...], on this rank or sent to another. */
enum {
    DT__ANSWER, /* the output by which models are compared bit for bit */
    DT__ANSWER_TARGET,
    DT__ANSWER_INPUT, /* these where the task needs them, else NULL */
    DT__ANSWER_BEST,
    DT__ANSWER_OUTPUT, /* of the model, where it is wanted and another one than the answer */
    DT__ANSWERS
};

typedef struct dt__task {
    bool has_labels;                   /* targets are labels: outputs are [batch, classes, ...] */
    bool counts_places;                /* has counters and sums for each place */
    bool scores;                       /* `count` adds a score for each place */
    dt__measure measure[DT__MEASURES]; /* the loss is the last; ended by one without value */
    /* The loss summed over all labels of a batch; NULL with the error on the tape. Called by
     * dt__loss alone. */
    dt_tensor *(*loss)(const dt__pass *p);
    /* Runs a batch without gradients; of[DT__ANSWERS], which has the target, gets what is lent by
     * the tape. */
    dt_status (*run)(const dt__pass *p, dt_tensor **of);
    /* Adds the examples of a batch to the sums. SHAPE, NOMEM. */
    dt_status (*add)(dt__tally *s, dt_tensor *const *of);
    /* The model's outputs, f32 [examples, ...], if they are not the answer; else NULL. */
    dt_tensor *(*outputs)(const dt__pass *p);
    /* For dt__add_outputs: adds one example; y is [classes, places], or [places] without
     * labels. */
    void (*count)(dt__tally *s, const float *y, const void *target);
} dt__task;

/* The task of a dataset. */
const dt__task *dt__task_of(const dt_dataset *d);
/* Writes the metrics that apply to this dataset, at most DT_MAX_METRICS, registered ones (names of
 * `own`, checked by dt__tally_add_own) before the loss. NOMEM. */
dt_status dt__task_metrics(const dt_dataset *d, const dt_strings *own, const dt_metric **metric,
                           int *n);

/* Whether the task of these targets has a metric of this name. */
bool dt__task_measures(dt_target target, const char *name);

/* The summed loss of a batch: the task's, or the program's own. */
dt_tensor *dt__loss(const dt__task *task, const dt__pass *p);
/* p->y, or the model's output. */
dt_tensor *dt__answer(const dt__pass *p);

/* `run` and `add` of tasks with `count`: the model's output, by which each example is added. */
dt_status dt__run_outputs(const dt__pass *p, dt_tensor **of);
dt_status dt__add_outputs(dt__tally *s, dt_tensor *const *of);

/* The teacher's output for the batch, without gradients; NULL with the error on the tape. */
dt_tensor *dt__teach(const dt__pass *p);
/* The parts that are there, each times its weight; the first alone is returned as it is. */
dt_tensor *dt__sum_parts(const dt__pass *p, dt_tensor *const part[DT__PARTS]);
/* The loss with the errors of train.distill.features (distill_features.c). */
dt_tensor *dt__loss_with_features(const dt__task *task, const dt__pass *p);

/* NOMEM. Close it in any case. d must live as long. */
dt_status dt__tally_open(dt_ctx *ctx, const dt_dataset *d, dt__tally *s);
void dt__tally_close(dt__tally *s);
/* Adds the examples of a batch. SHAPE if the outputs do not fit the targets, NOMEM. */
dt_status dt__tally_batch(dt__tally *s, const dt_tensor *y, const dt_tensor *target);
/* SHAPE unless outputs are f32 with these dims. */
dt_status dt__tally_check(const dt__tally *s, const dt_tensor *y, int rank, const int64_t *dims);
/* Makes room for n more scores. NOMEM. */
dt_status dt__tally_reserve(dt__tally *s, int64_t n);
/* Computes the metrics. NOMEM. */
dt_status dt__tally_metrics(const dt__tally *s, dt_metrics *m);
/* Adds registered metrics by name. CONFIG, naming `key` and the metrics that there are; NOMEM. */
dt_status dt__tally_add_own(dt__tally *s, const char *key, const dt_strings *own);

/* Rows of outputs and targets in larger rows. */
typedef struct dt__rows {
    int64_t n;
    const float *y;
    int64_t y_step; /* numbers from a row to the next */
    const void *target;
    int64_t target_step; /* cells of four bytes */
} dt__rows;

/* Adds examples of one output with `width` numbers. NOMEM. */
dt_status dt__tally_rows(dt__tally *s, int64_t width, const dt__rows *rows);

/* ---- several outputs (task_several.c) -------------------------------------------------------- */

/* The metric `name` of an output, named OUTPUT.NAME, kept by the context. NULL: NOMEM. */
const dt_metric *dt__metric_of_output(dt_ctx *ctx, const char *output, const dt_metric *metric);

/* Brings joined arrays into the order of the model's inputs and outputs, where it has names. SHAPE
 * if there are others. */
dt_status dt__arrange(const dt_module *m, const dt_dataset *d);

/* The class of the largest of an example's outputs, which are `step` apart; the first of equal
 * ones. */
int64_t dt__first_class(const float *y, int64_t classes, int64_t step);

/* Class 1 of two where output 1 - output 0 is above the threshold; without one dt__first_class. */
int64_t dt__decided_class(const dt_reals *thresholds, const float *y, int64_t classes,
                          int64_t step);

/* Sets examples and input tokens per second. */
void dt__put_speed(dt_metrics *m, const dt_dataset *d, double seconds);

/* sum[i], a place of an example. */
double dt__mean_sum(const dt__tally *s, int i);
/* The mean over classes or places of 2 both / (wanted + found), without those that are in neither:
 * the macro F1 score, the Dice coefficient. */
double dt__mean_overlap(const dt__tally *s);

extern const dt__task dt__task_classes, dt__task_images, dt__task_masks, dt__task_tokens,
    dt__task_values, dt__task_quantiles, dt__task_bits, dt__task_anomaly, dt__task_several;

/* ---- evaluating (eval.c) -------------------------------------------------------------------- */

typedef enum dt__wanted {
    DT__WANTS_METRICS,
    DT__WANTS_ANSWERS, /* DT__ANSWER */
    DT__WANTS_OUTPUTS
} dt__wanted;

typedef struct dt__evaluation {
    dt_module *m;
    const dt_dataset *d;
    const dt_evaluation *options;
    int64_t examples; /* the first; 0: all */
    dt__wanted wanted;
    /* NULL: this process alone. Else rank k runs batches k, k + ranks, ..., and rank 0 counts all
     * of them in order, so that all ranks get the metrics of one; outputs are on rank 0. */
    struct dt__cluster *cluster;
    bool plans; /* it is work by itself (core.h), not a part of a run's */
} dt__evaluation;

/* dt_evaluate; *out: answers or outputs, f32 [examples, ...], which the caller frees. */
dt_status dt__evaluate(const dt__evaluation *e, dt_metrics *metrics, dt_tensor **out);

#endif
