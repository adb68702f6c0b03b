/* train.h: recipes, and the runs that they describe. A recipe is one YAML file that describes a
 * whole experiment; docs/recipe.md lists its keys. */
#ifndef DETENT_TRAIN_H
#define DETENT_TRAIN_H

#include <detent/data.h>
#include <detent/io.h>
#include <detent/nn.h>
#include <detent/optim.h>
#include <detent/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ------------------------------------------------------------------------------ */

/* A recipe after reading, with its errors and the origin of each value. */
typedef struct dt_recipe dt_recipe;

/* What a recipe is read for, which decides what it must contain. */
typedef enum dt_recipe_use {
    DT_RECIPE_TO_TRAIN,    /* `run`, `model` and `data` are required */
    DT_RECIPE_TO_QUANTIZE, /* nothing is required; `quantize` has defaults */
    DT_RECIPE_TO_EVALUATE, /* `data` is required; for text only data.test */
    DT_RECIPE_ANY          /* to quantize if it has `quantize` and no `model`, else to train */
} dt_recipe_use;

/* The text of a recipe and how to read it. */
typedef struct dt_recipe_source {
    const char *path;             /* the file; if `text` is given, only a name for messages */
    const char *text;             /* NULL: read the file */
    size_t bytes;                 /* length of `text` */
    const char *const *overrides; /* "train.optimizer.lr=3e-4" sets, "~qat" removes */
    int n_overrides;
    bool leave_files; /* do not check that the files it names exist */
    bool saved;       /* a run's own copy: former names of keys give no warning */
    bool told;        /* warnings were already given, and are not repeated */
    dt_recipe_use use;
    /* Keys that the caller needs, ended by NULL: "data" with everything below it, "!data.augment"
     * without that part. All other keys of the file are ignored and not checked. NULL: all keys. */
    const char *const *reads;
} dt_recipe_source;

/* Reads a recipe, fills in defaults and checks it. With CONFIG *out is still made, lists all
 * errors, and must be freed; dt_error has the first error. After other errors *out is NULL: IO (no
 * such file, unreadable), NOMEM. Limits of a file: 1 MiB, depth 64, one document, UTF-8; aliases,
 * anchors, tags, merge keys and duplicate keys are errors. */
DT_API dt_status dt_recipe_read(dt_ctx *ctx, const dt_recipe_source *source, dt_recipe **out);
DT_API void dt_recipe_free(dt_recipe *r); /* NULL is allowed */

DT_API int dt_recipe_error_count(const dt_recipe *r); /* number of errors */
/* Line i in the order of the file, "FILE:LINE:COLUMN: error: TEXT" or "command line: error: TEXT";
 * lent; NULL past the last. */
DT_API const char *dt_recipe_error_at(const dt_recipe *r, int i);

/* ---- evaluating --------------------------------------------------------------------------- */

typedef struct dt_evaluation {
    int64_t batch_size; /* default 256; results do not depend on it */
    dt_strings metrics; /* registered metrics, besides the task's; default none */
    /* DT_CACHE_... (experimental/nn.h): language models read keys and values as a decoder with such
     * a cache keeps them; default 0, as floats. With a cache texts run one at a time, and
     * batch_size is ignored. */
    int cache;
    /* Called after each batch with the number of examples that are done, and of all examples; NULL:
     * not called. */
    void (*progress)(void *user, int64_t done, int64_t all);
    void *user;
} dt_evaluation;

/* The defaults of dt_evaluate. */
DT_API dt_evaluation dt_evaluation_defaults(void);

/* The name of a metric, and how it is displayed. */
typedef struct dt_metric {
    const char *name;  /* "accuracy": in files and for dt_metric_value */
    const char *title; /* heading of its column */
    const char *unit;  /* "%", "dB" or NULL */
    double scale;      /* factor from the value to the displayed number */
    int decimals;      /* digits shown */
    bool larger_is_better;
} dt_metric;

/* The most metrics of a run. */
#define DT_MAX_METRICS 20

/* The result of an evaluation. Its metrics depend on the targets of the data:
 *     classes  accuracy, top5 (with more than 5 classes), macro_f1, loss: cross entropy
 *     values   r2, mae, rmse, mse: the loss
 *     bits     macro_f1, average_precision, loss: binary cross entropy
 *     anomaly  recording_auc (of windows of recordings), auc, mse of the normal examples: the loss
 *     images   psnr_mean_of_images, psnr_of_mean_error, mse: the loss
 *     masks    dice, pixel_accuracy, loss: cross entropy of the pixels
 *     tokens   exact_match (of prompts with completions), accuracy, perplexity, loss: cross entropy
 *              of the labels that count
 *     several  those of each output, "OUTPUT.accuracy"; loss: the weighted sum of their losses
 * Registered metrics stand before the loss. docs/run.md has the formulas. */
typedef struct dt_metrics {
    int64_t examples;
    int n; /* number of values; the loss is the last */
    /* Lent for ever; names of several outputs and registered metrics until the context is freed. */
    const dt_metric *metric[DT_MAX_METRICS];
    double value[DT_MAX_METRICS];
    double loss;          /* the last value: mean over labels, or over pixel values */
    double seconds;       /* in the model's forward passes */
    double samples_per_s; /* examples / seconds; 0: not measured by this process */
    double tokens_per_s;  /* input tokens, padding included; 0 without tokens */
} dt_metrics;

/* The metric with this name; NaN if there is none. */
DT_API double dt_metric_value(const dt_metrics *m, const char *name);

/* Runs a model over a dataset in evaluation mode, in order, without gradients, and then restores
 * the model's mode. `options` NULL: the defaults. If `outputs` is not NULL, *outputs becomes a new
 * f32 tensor [examples, ...] of the model's outputs; for language models logits [examples, context,
 * vocab], which are otherwise computed a few rows at a time; of several outputs [examples, numbers
 * of all outputs]. Errors: ARG (an empty dataset, tokens for another than a language model,
 * a cache that is unknown or for another than a language model), SHAPE
 * (outputs that do not fit the targets: [batch, classes] for classes, [batch, channels, height,
 * width] for images, [batch, classes, height, width] for masks; fewer classes than labels), those
 * of the model, NOMEM. */
DT_API dt_status dt_evaluate(dt_module *m, const dt_dataset *d, const dt_evaluation *options,
                             dt_metrics *metrics, dt_tensor **outputs);

/* ---- running ------------------------------------------------------------------------------ */

/* The state of a run after an update. */
typedef struct dt_progress {
    /* "baseline" (float, for comparison), "float" or "qat"; a static string */
    const char *phase;
    int64_t step, steps;    /* updates done, and updates of this training in total */
    double loss;            /* of this update */
    double lr;              /* of this update */
    double validation_loss; /* of the latest evaluation in this call; NaN: none yet */
    /* The first metric of that evaluation, lent for ever; NULL: no evaluation yet, or no metric but
     * the loss. */
    const dt_metric *metric;
    double metric_value;
    /* In that evaluation: the largest and the smallest share of a layer's rows that a single expert
     * got. 0 without experts or evaluation. */
    double busiest_expert, idlest_expert;
    double samples_per_s; /* mean of this call */
    double tokens_per_s;  /* 0 for images */
    double seconds_left;  /* estimated seconds until the end of the run; < 0: not known yet */
    const char *doing;    /* besides updates: "evaluating", "rounding"; NULL: nothing */
    size_t memory;        /* bytes allocated by the context */
    /* With several ranks, means over this call's updates: milliseconds during which messages about
     * gradients and weights were in transit; milliseconds of these in which this rank only waited;
     * and bytes that it sent. */
    double communication_ms, exposed_ms, sent;
} dt_progress;

typedef struct dt_run_control {
    bool resume;              /* continue from the newest valid checkpoint in run.dir */
    bool cluster;             /* join the other ranks, if a launcher of MPI started this process;
                               * at most once in a process */
    bool dry_run;             /* build everything, run one step of each phase, and write nothing */
    bool check_only;          /* open the data, check everything, and return: all errors at once */
    bool (*stop)(void *user); /* called before each update: true saves and ends; NULL: never */
    void (*progress)(void *user, const dt_progress *p); /* after each update; NULL: none */
    /* During evaluation or rounding, as p->doing says; NULL: none. */
    void (*doing)(void *user, const dt_progress *p);
    /* After each evaluation on the validation data, at update p->step; NULL: none. */
    void (*evaluated)(void *user, const dt_progress *p, const dt_metrics *m);
    void *user;
    /* With `data: {format: given}`: the program's own datasets, lent for the call. Training data
     * are required; the others may be NULL. Without validation data `data.validation` splits some
     * off. */
    dt_dataset *train, *validation, *test;
} dt_run_control;

/* The float weights with which a run compares its integers. */
typedef enum dt_float_weights {
    DT_FLOAT_NONE,     /* there are none: QAT started from random weights */
    DT_FLOAT_TRAINED,  /* without `qat`: those at the end, in float.safetensors */
    DT_FLOAT_BASELINE, /* those of train.float_baseline, in baseline.safetensors */
    DT_FLOAT_AT_START, /* those at qat.start_step, half-trained, in float.safetensors */
    DT_FLOAT_INIT,     /* those of model.init, if qat.start_step is 0 */
    DT_FLOAT_ADAPTED   /* with model.pack: packed weights and adapters, in adapters.safetensors */
} dt_float_weights;

/* The four models that a run compares. */
typedef enum dt_contender {
    DT_RUN_FLOAT,     /* the float weights (dt_run_summary.float_weights) */
    DT_RUN_PTQ,       /* the float weights rounded to nearest, without QAT */
    DT_RUN_QAT,       /* the prepared model at the end of training */
    DT_RUN_CONVERTED, /* the converted model, as loaded from its file */
    DT_CONTENDERS
} dt_contender;

typedef struct dt_run_result {
    bool given;
    dt_metrics metrics;
    int64_t bytes; /* size of its tensors */
    double bits_per_weight;
} dt_run_result;

#define DT_STEP_PARTS 3

typedef struct dt_step_part {
    const char *op; /* a name of docs/ops.md, a static string; NULL: end of the list */
    double share;   /* of an update's time */
} dt_step_part;

typedef struct dt_run_summary {
    int rank, ranks; /* rank of this process, and number of ranks: 0 and 1 without a launcher */
    bool by_itself;  /* an error occurred on this rank only: the others do not have it */
    dt_run_result result[DT_CONTENDERS];
    dt_float_weights float_weights; /* which weights the first two results belong to */
    bool begun;                     /* writing began: an IO error is about the run's own files */
    const char *rounder;            /* of the converted model, "nearest"; a static string */
    bool same_bits_as_qat;          /* all outputs of converted file and QAT model agree */
    bool same_bits_from_file;       /* converted model in memory and from its file agree */
    const char *evaluated_on;       /* "test", "validation" or "train"; a static string */
    int64_t steps;                  /* updates */
    int64_t start_step;             /* update at which QAT began, or would have begun */
    bool stopped_early;             /* by train.early_stopping */
    int64_t best_step;              /* update of the best evaluation; 0: not tracked */
    bool ends_with_best;            /* the results belong to the weights of best_step */
    int64_t skipped;                /* updates skipped because of non-finite values or spikes */
    double clipped;                 /* share of quantized weights outside the range of codes */
    double seconds;                 /* of this call */
    size_t peak_memory;
    /* train.threshold: the thresholds of the final model (dt_model_data.thresholds), and the mean
     * over bits of the number that they maximize, on the validation data, with and without
     * thresholds. n 0: none */
    dt_reals thresholds;
    double with_thresholds, without_thresholds;
    dt_metrics decided; /* the final model's with thresholds, on `evaluated_on`; n 0: none */
    /* Properties of the model; set by a dry run too. */
    int64_t parameters, trained; /* all, without adapters; trained ones, with adapters */
    int64_t multiply_adds;       /* per example */
    int64_t float_bytes, quantized_bytes;
    size_t activation_bytes[2]; /* kept for backward: in float, under QAT; 0: no such phase */
    /* Set by a dry run: seconds per update in each phase, measured on a few updates; and an
     * estimate for the whole run, without reading data and writing files. */
    double step_seconds[2], run_seconds;
    /* The ops that take most of an update's time, in descending order; data, dispatch and other ops
     * take the rest. Multiply-adds per second in an update, forward and backward; and in a product
     * of floats [512, 512] by [512, 512] on this machine. */
    dt_step_part step_part[2][DT_STEP_PARTS];
    double step_speed[2], product_speed;
} dt_run_summary;

/* Trains as the recipe says: float until qat.start_step, then QAT. Then converts the model, and
 * checks that the converted model's outputs equal the QAT model's bit for bit. `run.dir` gets
 * recipe.yaml, metrics.jsonl, checkpoints/, float.safetensors, baseline.safetensors, the converted
 * model and summary.json (docs/run.md). The context's random streams start from run.seed, its
 * threads are run.threads while it lasts. Errors: CONFIG (a rule that matches nothing, images or
 * classes that do not fit the model, a run.dir that exists or, to resume, does not, a key that may
 * not change; also with dt_recipe_error_at), NUMERIC (a loss or gradient that is not finite: the
 * first op, module and step), INTERRUPTED (a checkpoint was saved), IO, FORMAT, NOMEM. `control`
 * and `summary` may be NULL. */
DT_API dt_status dt_run(dt_ctx *ctx, dt_recipe *recipe, const dt_run_control *control,
                        dt_run_summary *summary);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/train.h>
#endif
#endif
