/* A task: the loss and the metrics that follow from a dataset's targets. task.c has the table of
 * tasks; each kind of targets has a file task_<targets>.c.
 *
 * Metrics are summed example by example, in order and in double: they do not depend on the batch
 * size. */
#ifndef DT__TRAIN_TASK_H
#define DT__TRAIN_TASK_H

#include "train/ranking.h"

#include <detent/train.h>

#define DT__SUMS 3

/* Sums over the examples seen so far, from which metrics are computed. */
typedef struct dt__tally {
    dt_ctx *ctx;
    const struct dt__task *task;
    int64_t least_classes; /* classes that occur in the labels */
    int64_t classes; /* classes of the model's outputs; 0: before the first batch, or no labels */
    int64_t places;  /* values of an example's target: 1, pixels, pixels of all channels, tokens */
    bool prompted;   /* dt_dataset_is_prompted */
    int64_t examples;
    int64_t labels; /* that count in the loss: tokens other than -100, normal examples */
    double seconds; /* in the model */
    double sum[DT__SUMS];
    /* Counters of each class, or of each place if the task counts places: DT__WANTED labels,
     * DT__FOUND by the model, DT__BOTH. [0] is the allocation. */
    int64_t *region[3];
    double *total[4]; /* likewise: sums for each place */
    dt__scored *scored;
    int64_t n_scored, room;
} dt__tally;

enum { DT__WANTED, DT__FOUND, DT__BOTH };

typedef struct dt__measure {
    dt_metric metric;
    double (*value)(const dt__tally *s);
    int64_t classes; /* needs at least so many classes */
    bool prompted;   /* needs prompts with completions */
} dt__measure;

/* The parts of a loss: by the targets, by the other targets of mixed examples, by the teacher. */
typedef enum dt__part_of_loss {
    DT__PART_FIRST,
    DT__PART_OTHER,
    DT__PART_TAUGHT,
    DT__PARTS
} dt__part_of_loss;

/* One batch, and what its forward pass and loss need. */
typedef struct dt__pass {
    dt_tape *t;
    dt_module *m;
    dt_tensor *x, *target;
    dt_tensor *other;       /* the other targets of mixed examples; NULL: none are mixed */
    dt_tensor *const *part; /* [DT__PARTS]: weights of the parts */
    double smoothing;       /* label smoothing */
    int loss;               /* DT_LOSS_...; of regression */
    double huber_delta;
    dt_tensor *weight;                  /* of classes, or of positive bits; NULL: 1 */
    dt_module *teacher;                 /* for distillation; NULL: none */
    const dt_distill_settings *distill; /* settings of distillation */
} dt__pass;

typedef struct dt__task {
    bool has_labels;                     /* targets are labels: outputs are [batch, classes, ...] */
    bool counts_places;                  /* has counters and sums for each place */
    bool scores;                         /* `count` adds a score for each place */
    dt__measure measure[DT_MAX_METRICS]; /* the loss is the last; ended by one without value */
    /* The loss summed over all labels of a batch; NULL with the error on the tape. */
    dt_tensor *(*loss)(const dt__pass *p);
    /* Runs a batch without gradients and adds its examples to the sums. *answer, lent by the tape,
     * is the output f32 [examples, ...] by which models are compared bit for bit. */
    dt_status (*evaluate)(dt__tally *s, const dt__pass *p, dt_tensor **answer);
    /* The model's outputs, f32 [examples, ...], if they are not the answer; else NULL. */
    dt_tensor *(*outputs)(const dt__pass *p);
    /* For dt__evaluate_outputs: adds one example; y is [classes, places], or [places] without
     * labels. */
    void (*count)(dt__tally *s, const float *y, const void *target);
} dt__task;

/* The task of a dataset. */
const dt__task *dt__task_of(const dt_dataset *d);
/* Number of values in an example's target. */
int64_t dt__task_places(const dt_dataset *d);
/* Writes the metrics that apply to this dataset, at most DT_MAX_METRICS, and returns their
 * number. */
int dt__task_metrics(const dt_dataset *d, const dt_metric **metric);

/* `evaluate` of tasks with `count`: runs the model and adds each example by its output. */
dt_status dt__evaluate_outputs(dt__tally *s, const dt__pass *p, dt_tensor **answer);

/* The teacher's output for the batch, without gradients; NULL with the error on the tape. */
dt_tensor *dt__teach(const dt__pass *p);
/* The parts that are there, each times its weight; the first alone is returned as it is. */
dt_tensor *dt__sum_parts(const dt__pass *p, dt_tensor *const part[DT__PARTS]);

dt__tally dt__tally_open(dt_ctx *ctx, const dt_dataset *d);
void dt__tally_close(dt__tally *s);
/* Adds the examples of a batch. SHAPE if the outputs do not fit the targets, NOMEM. */
dt_status dt__tally_batch(dt__tally *s, const dt_tensor *y, const dt_tensor *target);
/* SHAPE unless outputs are f32 with these dims. */
dt_status dt__tally_check(const dt__tally *s, const dt_tensor *y, int rank, const int64_t *dims);
/* Makes room for n more scores. NOMEM. */
dt_status dt__tally_reserve(dt__tally *s, int64_t n);
/* Computes the metrics. */
void dt__tally_metrics(const dt__tally *s, dt_metrics *m);

/* The class of the largest of an example's outputs, which are `step` apart; the first of equal
 * ones. */
int64_t dt__first_class(const float *y, int64_t classes, int64_t step);

/* Sets examples and input tokens per second. */
void dt__put_speed(dt_metrics *m, const dt_dataset *d, double seconds);

/* The mean over classes or places of 2 both / (wanted + found), without those that are in neither:
 * the macro F1 score, the Dice coefficient. */
double dt__mean_overlap(const dt__tally *s);

extern const dt__task dt__task_classes, dt__task_images, dt__task_masks, dt__task_tokens,
    dt__task_values, dt__task_bits, dt__task_anomaly;

/* ---- evaluating (eval.c) -------------------------------------------------------------------- */

typedef enum dt__wanted {
    DT__WANTS_METRICS,
    DT__WANTS_ANSWERS, /* dt__task.evaluate */
    DT__WANTS_OUTPUTS
} dt__wanted;

/* dt_evaluate that returns answers or outputs, f32 [examples, ...]; the caller frees them. */
dt_status dt__evaluate(dt_module *m, const dt_dataset *d, int64_t batch_size, dt__wanted wanted,
                       dt_metrics *metrics, dt_tensor **out);
/* The metrics of the first batches that hold `examples` examples or more. */
dt_status dt__evaluate_some(dt_module *m, const dt_dataset *d, int64_t batch_size, int64_t examples,
                            dt_metrics *metrics);

#endif
