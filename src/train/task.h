/* A task: the loss and the metrics that follow from a dataset's targets. task.c has the table of
 * tasks; each kind of targets has a file task_<targets>.c.
 *
 * Metrics are summed example by example, in order and in double: they do not depend on the batch
 * size. */
#ifndef DT__TRAIN_TASK_H
#define DT__TRAIN_TASK_H

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
    int64_t labels; /* for tokens: labels that are not -100 */
    double seconds; /* in the model */
    double sum[DT__SUMS];
    int64_t *region[3]; /* for masks: pixels of each class; [0] is the allocation */
} dt__tally;

typedef struct dt__measure {
    dt_metric metric;
    double (*value)(const dt__tally *s);
    int64_t classes; /* needs at least so many classes */
    bool prompted;   /* needs prompts with completions */
} dt__measure;

/* One batch, and what its forward pass and loss need. */
typedef struct dt__pass {
    dt_tape *t;
    dt_module *m;
    dt_tensor *x, *target;
    double smoothing;                   /* label smoothing */
    dt_module *teacher;                 /* for distillation of a language model; NULL: none */
    const dt_distill_settings *distill; /* settings of distillation */
} dt__pass;

typedef struct dt__task {
    bool has_labels;                     /* targets are labels: outputs are [batch, classes, ...] */
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

dt__tally dt__tally_open(dt_ctx *ctx, const dt_dataset *d);
void dt__tally_close(dt__tally *s);
/* Adds the examples of a batch. SHAPE if the outputs do not fit the targets, NOMEM. */
dt_status dt__tally_batch(dt__tally *s, const dt_tensor *y, const dt_tensor *target);
/* Computes the metrics. */
void dt__tally_metrics(const dt__tally *s, dt_metrics *m);

/* Sets examples and input tokens per second. */
void dt__put_speed(dt_metrics *m, const dt_dataset *d, double seconds);

extern const dt__task dt__task_classes, dt__task_images, dt__task_masks, dt__task_tokens;

/* ---- evaluating (eval.c) -------------------------------------------------------------------- */

typedef enum dt__wanted {
    DT__WANTS_METRICS,
    DT__WANTS_ANSWERS, /* dt__task.evaluate */
    DT__WANTS_OUTPUTS
} dt__wanted;

/* dt_evaluate that returns answers or outputs, f32 [examples, ...]; the caller frees them. */
dt_status dt__evaluate(dt_module *m, const dt_dataset *d, int64_t batch_size, dt__wanted wanted,
                       dt_metrics *metrics, dt_tensor **out);

#endif
