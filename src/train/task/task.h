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
    int64_t least_classes; /* number of classes in the labels */
    int64_t classes; /* classes of the model's outputs; 0: before the first batch, or no labels */
    int64_t places;  /* values of an example's target: 1, pixels, pixels of all channels, tokens */
    bool prompted;   /* dt_dataset_is_prompted */
    const dt_reals *levels, *thresholds; /* of the dataset; NULL for one of several outputs */
    int64_t examples;
    int64_t labels; /* that count in the loss: tokens other than -100, normal examples */
    double sum[DT__SUMS];
    /* Counters per class, or per place if the task counts places: DT__WANTED labels, DT__FOUND by
     * the model, DT__BOTH. [0] is the allocation. */
    int64_t *region[3];
    double *total[4]; /* sums per place */
    dt__scored *scored;
    int64_t n_scored, room;
    /* For windows of recordings: the mean score of each recording, and for the last one its index,
     * number of windows and their sum. */
    bool windows;
    dt__scored *recording;
    int64_t n_recordings, recordings_room, last, last_windows;
    double last_sum;
    /* With several outputs: the sums of each, [n_parts]; allocated with the first batch. */
    struct dt__tally *part;
    int n_parts;
    const dt_dataset *d;
    /* the evaluated module; with several outputs, it defines where each begins */
    const dt_module *m;
    /* Registered metrics, and their sums. */
    const dt_own_metric *own[DT_MAX_METRICS];
    void *state[DT_MAX_METRICS];
    int n_own;
} dt__tally;

enum { DT__WANTED, DT__FOUND, DT__BOTH };

typedef struct dt__measure {
    dt_metric metric;
    double (*value)(const dt__tally *s);
    int64_t classes; /* smallest number of classes to which the metric applies */
    bool prompted;   /* only for prompts with completions */
    bool windows;    /* only for windows of recordings */
} dt__measure;

/* Parts of a loss: from the targets, from the other targets of mixed examples, from the teacher's
 * outputs, and from those of its layers, whose weight is also the number of labels in the batch. */
typedef enum dt__part_of_loss {
    DT__PART_FIRST,
    DT__PART_OTHER,
    DT__PART_TAUGHT,
    DT__PART_FEATURES,
    DT__PARTS
} dt__part_of_loss;
/* Indices of dt_loss_names. */
enum { DT__LOSS_MSE, DT__LOSS_MAE, DT__LOSS_HUBER, DT__LOSS_QUANTILE, DT__LOSS_FOCAL };
/* The index of one of detent's own losses; DT__LOSS_FOCAL + 1: no such loss. */
int dt__loss_kind(const char *name);

/* A loss by its name. */
typedef struct dt__objective {
    int kind;           /* index into dt_loss_names */
    double huber_delta; /* of huber */
    double focal_gamma; /* 0: cross entropy */
    const dt_loss *own; /* registered loss; NULL: the task's */
} dt__objective;

/* Writes "mse, mae, huber" and the registered losses. */
void dt__loss_list(const dt_ctx *ctx, char *text, size_t room);
/* Finds the loss `name` (NULL: the task's) for targets of a kind. CONFIG, naming `key` and the
 * existing losses. */
dt_status dt__objective_find(dt_ctx *ctx, const char *key, const char *name, dt_target target,
                             dt__objective *out);

/* One batch, and what its forward pass and loss need. */
typedef struct dt__pass {
    dt_tape *t;
    dt_module *m;
    dt_tensor *x, *target;
    dt_tensor *y;           /* the output to compare with; NULL: the model's output for x */
    dt_tensor *other;       /* the other targets of mixed examples; NULL: none are mixed */
    dt_tensor *const *part; /* [DT__PARTS]: weights of the loss's parts */
    double smoothing;       /* label smoothing */
    dt__objective objective;
    /* class weights, or weights of positive bits (NULL: 1); or quantile levels */
    dt_tensor *weight;
    /* With several outputs: their dataset, and objective and weight of each. */
    const dt_dataset *d;
    const dt__objective *objectives;
    dt_tensor *const *weights;
    dt_module *teacher;                 /* for distillation; NULL: none */
    const dt_distill_settings *distill; /* settings of distillation */
} dt__pass;

/* Tensors of a batch from which metrics are computed: f32 [examples, ...], on this rank or sent to
 * another. */
enum {
    DT__ANSWER, /* the output by which models are compared bit for bit */
    DT__ANSWER_TARGET,
    DT__ANSWER_INPUT, /* input and target if the task needs them, else NULL */
    DT__ANSWER_BEST,
    DT__ANSWER_OUTPUT, /* the model's output, if it is requested and differs from the answer */
    DT__ANSWERS
};

typedef struct dt__task {
    bool has_labels;                   /* targets are labels: outputs are [batch, classes, ...] */
    bool counts_places;                /* counters and sums per place */
    bool scores;                       /* `count` adds one score per place */
    dt__measure measure[DT__MEASURES]; /* the last one is the loss; ended by one without value */
    /* The loss summed over all labels of a batch; NULL with the error on the tape. Called only by
     * dt__loss. */
    dt_tensor *(*loss)(const dt__pass *p);
    /* Runs a batch without gradients; of[DT__ANSWERS], in which the target is set, receives tensors
     * lent by the tape. */
    dt_status (*run)(const dt__pass *p, dt_tensor **of);
    /* Adds the examples of a batch to the sums. SHAPE, NOMEM. */
    dt_status (*add)(dt__tally *s, dt_tensor *const *of);
    /* The model's outputs, f32 [examples, ...], if they differ from the answer; else NULL. */
    dt_tensor *(*outputs)(const dt__pass *p);
    /* For dt__add_outputs: adds one example; y is [classes, places], or [places] without
     * labels. */
    void (*count)(dt__tally *s, const float *y, const void *target);
} dt__task;

/* The task of a dataset. */
const dt__task *dt__task_of(const dt_dataset *d);
/* Lists the metrics for this dataset, at most DT_MAX_METRICS, with registered ones (`own`, checked
 * by dt__tally_add_own) before the loss. NOMEM. */
dt_status dt__task_metrics(const dt_dataset *d, const dt_strings *own, const dt_metric **metric,
                           int *n);

/* Whether the task of these targets has a metric of this name. */
bool dt__task_measures(dt_target target, const char *name);

/* The summed loss of a batch: the task's, or a registered one. */
dt_tensor *dt__loss(const dt__task *task, const dt__pass *p);
/* p->y, or the model's output. */
dt_tensor *dt__answer(const dt__pass *p);

/* `run` and `add` of tasks with `count`: `run` returns the model's output, `add` counts each
 * example. */
dt_status dt__run_outputs(const dt__pass *p, dt_tensor **of);
dt_status dt__add_outputs(dt__tally *s, dt_tensor *const *of);

/* The teacher's output for the batch, without gradients; NULL with the error on the tape. */
dt_tensor *dt__teach(const dt__pass *p);
/* The sum of the parts that are not NULL, times their weights; if it is only the first, it is
 * returned unweighted. */
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
/* Allocates for n more scores. NOMEM. */
dt_status dt__tally_reserve(dt__tally *s, int64_t n);
/* Computes the metrics. NOMEM. */
dt_status dt__tally_metrics(const dt__tally *s, dt_metrics *m);
/* Adds registered metrics by name. CONFIG, naming `key` and the existing metrics; NOMEM. */
dt_status dt__tally_add_own(dt__tally *s, const char *key, const dt_strings *own);

/* Rows of outputs and targets within larger rows. */
typedef struct dt__rows {
    int64_t n;
    const float *y;
    int64_t y_step; /* numbers from a row to the next */
    const void *target;
    int64_t target_step; /* in cells of four bytes */
} dt__rows;

/* Adds examples of one output with `width` numbers. NOMEM. */
dt_status dt__tally_rows(dt__tally *s, int64_t width, const dt__rows *rows);

/* ---- several outputs (task_several.c) -------------------------------------------------------- */

/* The metric `name` of an output, named OUTPUT.NAME; memory of the context. NULL: NOMEM. */
const dt_metric *dt__metric_of_output(dt_ctx *ctx, const char *output, const dt_metric *metric);

/* Sorts joined arrays by the names of the model's inputs and outputs, if it has names. SHAPE if the
 * names differ. */
dt_status dt__arrange(const dt_module *m, const dt_dataset *d);

/* The class with the largest of an example's outputs, which are `step` apart; the first of equal
 * ones. */
int64_t dt__first_class(const float *y, int64_t classes, int64_t step);

/* For two classes: 1 if output 1 - output 0 is above the threshold; without thresholds
 * dt__first_class. */
int64_t dt__decided_class(const dt_reals *thresholds, const float *y, int64_t classes,
                          int64_t step);

/* Sets examples and input tokens per second. */
void dt__put_speed(dt_metrics *m, const dt_dataset *d, double seconds);

/* The mean of sum[i] per place of an example. */
double dt__mean_sum(const dt__tally *s, int i);
/* The mean over classes or places of 2 both / (wanted + found), without those for which the
 * denominator is 0: the macro F1 score, the Dice coefficient. */
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
    /* NULL: this process alone. Else rank k runs batches k, k + ranks, ..., and rank 0 adds up all
     * of them in order, so that all ranks get the metrics of a single process; outputs are on rank
     * 0. */
    struct dt__cluster *cluster;
    bool plans; /* plans its own progress (core.h), as it is not a part of a run */
} dt__evaluation;

/* dt_evaluate; *out: requested answers or outputs, f32 [examples, ...], which the caller frees. */
dt_status dt__evaluate(const dt__evaluation *e, dt_metrics *metrics, dt_tensor **out);

#endif
