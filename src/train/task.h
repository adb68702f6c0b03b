/* A task: what a model learns from its data, and how well it does. It follows from the dataset's
 * targets; task.c has the table, and a file each kind of targets.
 *
 * What is measured is summed example by example, in order and in double: it does not depend on how
 * examples are batched. */
#ifndef DT__TRAIN_TASK_H
#define DT__TRAIN_TASK_H

#include <detent/train.h>

#define DT__SUMS 3

/* What is known of the examples seen so far. */
typedef struct dt__tally {
    dt_ctx *ctx;
    const struct dt__task *task;
    int64_t least_classes; /* that the labels have */
    int64_t classes;       /* that the model tells apart; 0: no batch was seen, or no labels */
    int64_t places; /* values of an example's target: 1, pixels, pixels of all channels, tokens */
    bool prompted;  /* dt_dataset_is_prompted */
    int64_t examples;
    int64_t labels; /* of tokens: those that counted */
    double seconds; /* in the model */
    double sum[DT__SUMS];
    int64_t *region[3]; /* of masks, in each class: pixels; [0] holds them all */
} dt__tally;

typedef struct dt__measure {
    dt_metric metric;
    double (*value)(const dt__tally *s);
    int64_t classes; /* it says something where the data has at least so many */
    bool prompted;   /* or of prompts with completions alone */
} dt__measure;

/* A batch on its way through a model. */
typedef struct dt__pass {
    dt_tape *t;
    dt_module *m;
    dt_tensor *x, *target;
    double smoothing;   /* of labels */
    dt_module *teacher; /* of a language model: answers to learn besides the labels; NULL: none */
    const dt_distill_settings *distill; /* how, where there is a teacher */
} dt__pass;

typedef struct dt__task {
    bool has_labels; /* targets are labels: outputs have a dimension of classes behind the batch */
    dt__measure measure[DT_MAX_METRICS]; /* the best known first, the loss last; then no value */
    /* The sum of the loss over all labels of a batch; NULL with the error on the tape. */
    dt_tensor *(*loss)(const dt__pass *p);
    /* Runs a batch without gradients and adds its examples. *answer, lent by the tape, is what a
     * model answers, f32 [examples, ...]: equal bits of it are equal models. */
    dt_status (*evaluate)(dt__tally *s, const dt__pass *p, dt_tensor **answer);
    /* The model's outputs, f32 [examples, ...]; NULL: the answer. */
    dt_tensor *(*outputs)(const dt__pass *p);
    /* Of dt__evaluate_outputs: adds one example; y [classes, places], or [places] without
     * labels. */
    void (*count)(dt__tally *s, const float *y, const void *target);
} dt__task;

/* That of a dataset. */
const dt__task *dt__task_of(const dt_dataset *d);
/* Values of an example's target, each of which adds to the loss. */
int64_t dt__task_places(const dt_dataset *d);
/* The metrics that say something of this dataset, into at most DT_MAX_METRICS places; their
 * number. */
int dt__task_metrics(const dt_dataset *d, const dt_metric **metric);

/* Runs the model, and adds examples by what it gives: `evaluate` of tasks with `count`. */
dt_status dt__evaluate_outputs(dt__tally *s, const dt__pass *p, dt_tensor **answer);

dt__tally dt__tally_open(dt_ctx *ctx, const dt_dataset *d);
void dt__tally_close(dt__tally *s);
/* Adds the examples of a batch. SHAPE where the outputs are none for these targets, NOMEM. */
dt_status dt__tally_batch(dt__tally *s, const dt_tensor *y, const dt_tensor *target);
/* The metrics of what was added. */
void dt__tally_metrics(const dt__tally *s, dt_metrics *m);

/* Examples, and tokens of x, a second. */
void dt__put_speed(dt_metrics *m, const dt_dataset *d, double seconds);

extern const dt__task dt__task_classes, dt__task_images, dt__task_masks, dt__task_tokens;

/* ---- evaluating (eval.c) -------------------------------------------------------------------- */

typedef enum dt__wanted {
    DT__WANTS_METRICS,
    DT__WANTS_ANSWERS, /* dt__task.evaluate */
    DT__WANTS_OUTPUTS
} dt__wanted;

/* dt_evaluate that gives the one or the other, f32 [examples, ...], to be freed. */
dt_status dt__evaluate(dt_module *m, const dt_dataset *d, int64_t batch_size, dt__wanted wanted,
                       dt_metrics *metrics, dt_tensor **out);

#endif
