/* train.h: recipes, and the runs that they describe.
 *
 * A recipe is one YAML file that holds a whole experiment. Its keys are described by tables
 * (keys.h) that stand beside the structs they fill; the errors, the JSON schema and docs/recipe.md
 * come from those tables.
 */
#ifndef DETENT_TRAIN_H
#define DETENT_TRAIN_H

#include <detent/data.h>
#include <detent/nn.h>
#include <detent/optim.h>
#include <detent/ptq.h>
#include <detent/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a recipe says ------------------------------------------------------------------- */

typedef struct dt_run_options {
    const char *dir;
    int64_t seed;
    int64_t threads; /* 0: as many as there are processors */
} dt_run_options;

typedef struct dt_model_options {
    const char *family_name;
    const char *init; /* weights to start from; NULL: drawn from the seed */
    const dt_family *family;
    const void *options; /* the family's struct, for family->create */
} dt_model_options;

typedef struct dt_checkpoint_options {
    int64_t every_steps; /* 0: only at the end */
    int64_t keep;        /* the newest so many; 0: all */
    bool best;           /* and best.safetensors, of the best evaluation */
    int grouped;         /* DT_GROUPED_...: of these files and of the run's models */
} dt_checkpoint_options;

/* Evaluations on the validation data while a run trains. */
typedef struct dt_evaluate_options {
    int64_t every_steps; /* 0: at the end of each epoch */
} dt_evaluate_options;

typedef struct dt_early_stopping_options {
    int64_t patience;         /* evaluations in a row that are no better than the best; 0: any */
    double least_improvement; /* by which the loss must fall below the best to be better */
} dt_early_stopping_options;

enum { DT_FINISH_LAST, DT_FINISH_BEST }; /* dt_train_options.finish_with */

typedef struct dt_log_options {
    int64_t every_steps;
} dt_log_options;

enum { DT_NONFINITE_STOP, DT_NONFINITE_SKIP }; /* dt_train_options.nonfinite */

typedef struct dt_distill_settings {
    bool given;
    double weight;       /* share of the teacher in the loss; the labels have the rest */
    double temperature;  /* of both distributions that are compared */
    const char *teacher; /* a model's file or folder; NULL: the float weights at qat.start_step */
} dt_distill_settings;

typedef struct dt_train_options {
    int64_t epochs;
    int64_t steps; /* stop after so many updates; 0: as epochs say */
    int64_t batch_size;
    int64_t eval_batch_size;
    int64_t accumulate; /* batches of one update */
    dt_optimizer_options optimizer;
    dt_schedule schedule;
    double clip_grad_norm; /* 0: off */
    double label_smoothing;
    dt_distill_settings distill;
    int nonfinite;
    bool float_baseline;
    dt_evaluate_options evaluate;
    dt_early_stopping_options early_stopping;
    int finish_with; /* the weights of the last update, or of the best evaluation */
    bool recompute;  /* dt_recompute */
    dt_checkpoint_options checkpoint;
    dt_log_options log;
} dt_train_options;

/* Which data a rounder looks at. */
typedef struct dt_calibration_options {
    int64_t samples;    /* at most so many; 0: all of a calibration file, 512 examples of a model */
    int64_t batch_size; /* that are in memory together; 0: as fits 64 MiB, of a model 32 */
    int64_t cache_mb;   /* of a model: activations that may be kept between layers */
} dt_calibration_options;

typedef struct dt_convert_options {
    const char *output; /* relative to run.dir */
    dt_rounding_options rounding;
    dt_calibration_options calibration;
} dt_convert_options;

/* What a recipe says of tensors without a model, by their names. `match` is a glob over a whole
 * name or what its dots end (`a` selects `a.weight`); the last matching rule wins, key by key. */
typedef struct dt_tensor_rule {
    const char *match;
    bool skip, has_skip;
    int op; /* DT_WEIGHT_... */
    int64_t stride[2], padding[2], output_padding[2],
        dilation[2]; /* of an op over one extent: [0] */
    int64_t groups;
    int rounder; /* DT_ROUND_... */
    dt_quant_patch weight;
    bool has_op, has_stride, has_padding, has_output_padding, has_dilation, has_groups, has_rounder;
} dt_tensor_rule;

/* Rounding without training: of a model, or of a file of tensors. */
typedef struct dt_quantize_options {
    bool given;
    dt_rounding_options rounding;
    dt_calibration_options calibration;
    dt_quant_patch weight; /* on dt_weight_quant_defaults; of files without a model */
    dt_tensor_rule tensors[DT_MAX_RULES]; /* likewise */
    int64_t n_tensors;
} dt_quantize_options;

/* When a run does what with quantization: the keys of a recipe's `qat` block that dt_prepare does
 * not read. Updates are counted from the beginning of the run. */
typedef struct dt_qat_schedule {
    int64_t start_step;           /* updates in float before the model is prepared */
    int64_t calibrate_batches;    /* that set the static ranges of activations of trained weights */
    int64_t refresh_steps;        /* updates between two static ranges of a weight; 0: only one */
    int64_t freeze_observer_step; /* updates until static ranges of activations stay; 0: never */
    int64_t freeze_norm_step;     /* updates until statistics of folded norms stay; 0: never */
} dt_qat_schedule;

/* The defaults of those keys. */
DT_API dt_qat_schedule dt_qat_schedule_defaults(void);

typedef struct dt_recipe_options {
    dt_run_options run;
    dt_model_options model;
    dt_data_options data;
    dt_train_options train;
    dt_lora_options adapters;     /* adapters.given says whether there is such a block */
    dt_qat_options qat;           /* qat.given says whether there is such a block */
    dt_qat_schedule qat_schedule; /* of the same block */
    dt_convert_options convert;
    dt_quantize_options quantize;
} dt_recipe_options;

/* The root of all tables. `model` holds besides its own keys those of the chosen family. */
extern DT_API const dt_key dt_recipe_keys[];
extern DT_API const dt_key dt_model_keys[];
extern DT_API const dt_key dt_quantize_keys[];

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct dt_recipe dt_recipe;

/* What a recipe is read for. */
typedef enum dt_recipe_use {
    DT_RECIPE_TO_TRAIN,    /* `run`, `model` and `data` must be there */
    DT_RECIPE_TO_QUANTIZE, /* no block must; `quantize` has its defaults where it is not given */
    DT_RECIPE_TO_EVALUATE, /* `data` must be there, of text its test part alone */
    DT_RECIPE_ANY /* the one or the other: to quantize, if it has `quantize` and no `model` */
} dt_recipe_use;

/* Where a recipe comes from. */
typedef struct dt_recipe_source {
    const char *path;             /* the file; with `text`, only its name in messages */
    const char *text;             /* NULL: read the file */
    size_t bytes;                 /* of `text` */
    const char *const *overrides; /* "train.optimizer.lr=3e-4" sets, "~qat" removes */
    int n_overrides;
    bool leave_files; /* do not look whether the files that it names exist */
    dt_recipe_use use;
} dt_recipe_source;

/* Reads, completes and checks a recipe. *out is the caller's also with CONFIG, for its list of all
 * errors; dt_error has the first. Else: IO (no such file, unreadable), NOMEM, and *out is NULL.
 * Limits of a file: 1 MiB, depth 64, one document, UTF-8; aliases, anchors, tags, merge keys and
 * duplicate keys are errors. */
DT_API dt_status dt_recipe_read(dt_ctx *ctx, const dt_recipe_source *source, dt_recipe **out);
DT_API void dt_recipe_free(dt_recipe *r); /* NULL is allowed */

/* Whether it was read as one that trains nothing: blocks that it does not give mean nothing
 * then. */
DT_API bool dt_recipe_only_quantizes(const dt_recipe *r);

/* What it says, lent; complete only where there is no error. */
DT_API const dt_recipe_options *dt_recipe_get(const dt_recipe *r);

DT_API int dt_recipe_error_count(const dt_recipe *r); /* of those below */
/* Line i in the order of the file, "FILE:LINE:COLUMN: error: TEXT" or "command line: error: TEXT";
 * lent; NULL past the last. */
DT_API const char *dt_recipe_error_at(const dt_recipe *r, int i);

/* Adds an error found later, such as a rule that matches no module, at the key `path`
 * ("qat.rules.0.match") or the nearest one above it that was given. Returns CONFIG (or NOMEM), with
 * the line as dt_error. */
DT_API dt_status dt_recipe_refuse(dt_recipe *r, const char *path, const char *format, ...)
    DT_PRINTF(3, 4);

/* dt_data_open of what it says; an error that is the recipe's stands where the key does.
 * `tokenizer`, text of dt_tokenizer_text or NULL, is a model's own, which stands in place of
 * data.tokenizer. `train` may be NULL: training data are not wanted, and text of a recipe read to
 * evaluate is not read. */
DT_API dt_status dt_recipe_open_data(dt_recipe *r, const char *tokenizer, dt_dataset **train,
                                     dt_dataset **validation, dt_dataset **test);

/* What needs the model that the recipe describes: adds an error for each rule of `qat` that matches
 * no module. CONFIG if the recipe has errors now. */
DT_API dt_status dt_recipe_check_model(dt_recipe *r, dt_module *m);
/* Gives a new model of the recipe the adapters of `adapters`, and recomputes its blocks where
 * `train.recompute` says so. CONFIG, as an error of the recipe, where the model does not suit
 * them. */
DT_API dt_status dt_recipe_adapt(dt_recipe *r, dt_module *m);

/* Where the key was given in the file. False where it was not, or on the command line. */
DT_API bool dt_recipe_position(const dt_recipe *r, const char *path, int *line, int *column);

/* Which of `choices`, ended by NULL, `word` was perhaps meant to be; NULL: none is near. */
DT_API const char *dt_nearest(const char *const *choices, const char *word);

/* ---- showing ------------------------------------------------------------------------------ */

/* The recipe with every default filled in, as YAML with each value's origin in a comment (file and
 * line, command line, default). Read again it gives the same values. STATE if it has errors. */
DT_API dt_status dt_recipe_show(const dt_recipe *r, dt_sink sink, void *user);
/* The same as JSON, without origins. */
DT_API dt_status dt_recipe_json(const dt_recipe *r, dt_sink sink, void *user);
/* The JSON schema (draft 2020-12) of all recipes. */
DT_API dt_status dt_recipe_schema(dt_ctx *ctx, dt_sink sink, void *user);
/* The page of all keys in Markdown: docs/recipe.md. */
DT_API dt_status dt_recipe_markdown(dt_ctx *ctx, dt_sink sink, void *user);

/* ---- evaluating --------------------------------------------------------------------------- */

typedef struct dt_evaluation {
    int64_t batch_size; /* default 256; results do not depend on it */
} dt_evaluation;

/* The defaults of dt_evaluate. */
DT_API dt_evaluation dt_evaluation_defaults(void);

/* What a metric is called, and how people read it. */
typedef struct dt_metric {
    const char *name;  /* "accuracy": in files, and of dt_metric_value */
    const char *title; /* the head of a column */
    const char *unit;  /* "%", "dB" or NULL */
    double scale;      /* what the value is multiplied by for people */
    int decimals;      /* shown to people */
    bool larger_is_better;
} dt_metric;

#define DT_MAX_METRICS 4

/* How well a model does. The targets of the data say by what:
 *     classes  accuracy, top5 (with more than 5 classes), loss: cross entropy
 *     images   psnr_mean_of_images, psnr_of_mean_error, mse: the loss
 *     masks    dice, pixel_accuracy, loss: cross entropy of the pixels
 *     tokens   exact_match (of prompts with completions), accuracy, perplexity, loss: cross entropy
 *              of the labels that count
 * docs/run.md has the formulas. */
typedef struct dt_metrics {
    int64_t examples;
    int n; /* of the values: the best known first, the loss last */
    const dt_metric *metric[DT_MAX_METRICS]; /* lent for ever */
    double value[DT_MAX_METRICS];
    double loss;          /* the last value: the mean over labels, or over values of images */
    double seconds;       /* in the model's forward passes */
    double samples_per_s; /* examples / seconds */
    double tokens_per_s;  /* of tokens: those that were read, padding too; else 0 */
} dt_metrics;

/* The value of this name; NaN where there is none. */
DT_API double dt_metric_value(const dt_metrics *m, const char *name);

/* Runs a model over a dataset in evaluation mode, in order, without gradients; the mode that was
 * set comes back. `options` NULL: the defaults. *outputs, unless `outputs` is NULL, becomes a new
 * f32 tensor [examples, ...] of the model's outputs; of tokens logits [examples, context, vocab],
 * which are else made a few rows at a time. Errors: ARG (an empty dataset, tokens for another than
 * a language model), SHAPE (outputs that do not fit the targets: [batch, classes] for classes,
 * [batch, channels, height, width] for images, [batch, classes, height, width] for masks; fewer
 * classes than labels), those of the model, NOMEM. */
DT_API dt_status dt_evaluate(dt_module *m, const dt_dataset *d, const dt_evaluation *options,
                             dt_metrics *metrics, dt_tensor **outputs);

/* ---- running ------------------------------------------------------------------------------ */

/* Where a run is, after each update. */
typedef struct dt_progress {
    const char *phase;      /* "baseline" (float, to compare), "float" or "qat"; lent for ever */
    int64_t step, steps;    /* updates done and wanted in this training */
    double loss;            /* of this update */
    double lr;              /* of this update */
    double validation_loss; /* of the latest evaluation; NaN: this call has made none */
    double busiest_expert;  /* there, the largest share of a layer's choices that an expert took */
    double
        idlest_expert; /* and the smallest; both 0 where there are no experts, or no evaluation */
    double samples_per_s; /* mean of this call */
    double tokens_per_s;  /* the same of tokens; 0 where examples are images */
    double seconds_left;  /* until the last update of the run */
    size_t memory;        /* bytes that the context holds */
} dt_progress;

typedef struct dt_run_control {
    bool resume;              /* go on from the newest good checkpoint in run.dir */
    bool dry_run;             /* build everything, run one step of each phase, write nothing */
    bool (*stop)(void *user); /* asked before each update: true saves and ends; NULL: never */
    void (*progress)(void *user, const dt_progress *p); /* NULL: nobody watches */
    void *user;
} dt_run_control;

/* The four models that a run compares. */
typedef enum dt_contender {
    DT_RUN_FLOAT,     /* the weights at qat.start_step, or those of the float baseline */
    DT_RUN_PTQ,       /* the same rounded to nearest, without training */
    DT_RUN_QAT,       /* prepared, at the end */
    DT_RUN_CONVERTED, /* integers, as read back from the file */
    DT_CONTENDERS
} dt_contender;

typedef struct dt_run_result {
    bool given;
    dt_metrics metrics;
    int64_t bytes; /* of its tensors */
    double bits_per_weight;
} dt_run_result;

typedef struct dt_run_summary {
    dt_run_result result[DT_CONTENDERS];
    bool begun;               /* whether it came so far as to write: then IO is of its own files */
    const char *rounder;      /* of the converted model: "nearest"; lent for ever */
    bool same_bits_as_qat;    /* the converted model in memory and from its file, every output */
    bool same_bits_from_file; /* of these two alone: other rounders choose other codes */
    const char *evaluated_on; /* "test", "validation" or "train"; lent for ever */
    int64_t steps;            /* updates */
    bool stopped_early;       /* fewer than the recipe has: no evaluation was better for too long */
    int64_t best_step;        /* of the best evaluation; 0: none was looked for */
    bool ends_with_best;      /* the table is about the weights of best_step */
    int64_t skipped;          /* of them lost to values that were not finite */
    double clipped;           /* share of the quantized weights that the code range cut off */
    double seconds;           /* of this call */
    size_t peak_memory;
    /* The model: also of a dry run. */
    int64_t parameters, trained; /* without adapters; those that updates change, with them */
    int64_t multiply_adds;       /* of one example */
    int64_t float_bytes, quantized_bytes;
    size_t activation_bytes[2]; /* that one update holds at most: float, QAT; 0: no such phase */
} dt_run_summary;

/* Trains as the recipe says: float until qat.start_step, then QAT, then converts, and proves that
 * the converted model answers with the same bits. `run.dir` gets recipe.yaml, metrics.jsonl,
 * checkpoints/, float.safetensors, the converted model and summary.json (docs/run.md). The
 * context's random streams start from run.seed, its threads are run.threads while it lasts. Errors:
 * CONFIG (a rule that matches nothing, images or classes that do not fit the model, a run.dir that
 * exists or, to resume, does not, a key that may not change; also with dt_recipe_error_at), NUMERIC
 * (a loss or gradient that is not finite: the first op, module and step), INTERRUPTED (a checkpoint
 * was saved), IO, FORMAT, NOMEM. `control` and `summary` may be NULL. */
DT_API dt_status dt_run(dt_ctx *ctx, dt_recipe *recipe, const dt_run_control *control,
                        dt_run_summary *summary);

/* The text of summary.json. */
DT_API dt_status dt_run_summary_json(dt_ctx *ctx, const dt_run_summary *summary, dt_sink sink,
                                     void *user);

/* ---- quantizing without training ------------------------------------------------------------ */

/* What became of a weight. */
typedef struct dt_quantized_weight {
    const char *name;   /* "layers.0.weight" */
    const char *scheme; /* "int4 symmetric group 32" */
    dt_ints shape;
    dt_round_report report;
} dt_quantized_weight;

/* What became of a model, or of a file of tensors. It owns what it points at. */
typedef struct dt_quantize_summary {
    dt_ctx *ctx;
    dt_quantized_weight *weight; /* in the order in which they were rounded */
    int64_t n, wanted;           /* of them: done, and to be done in all */
    int64_t resumed;             /* the first so many were done by an earlier call */
    int64_t samples;             /* that were looked at; of a file, the most of any weight */
    dt_ptq_report total;         /* of all weights, those of an earlier call too */
    double seconds;              /* of this call */
    int64_t peak_memory;         /* bytes */
    int64_t room;                /* elements that `weight` has room for */
    char **copied;               /* of a file: tensors that are no weights, or skipped by a rule */
    int64_t n_copied;
    int64_t bytes_before, bytes; /* of a file: of all its tensors, and of the new ones */
} dt_quantize_summary;

enum { DT_CODES_PACKED, DT_CODES_I8 };

/* Files of tensors without a model. */
typedef struct dt_tensors_job {
    const char *weights;      /* safetensors file */
    const char *calibration;  /* another one, of their inputs; NULL: none */
    const char *output;       /* file to write */
    int codes;                /* DT_CODES_...: as many in a byte as fit, or one */
    bool (*stop)(void *user); /* asked again and again: true ends the call; NULL: never */
    void (*weight)(void *user, const dt_quantize_summary *s); /* after each weight; NULL: nobody */
    void *user;
} dt_tensors_job;

/* Rounds the weights of a file, as `quantize` of the recipe says, which was read to quantize:
 * tensors of rank 2 as linear layers', of rank 4 as those of conv2d, others by its rules; what is
 * left is copied byte by byte. Inputs of weight NAME are NAME in the calibration file, [samples,
 * in] or [n, channels, ...], and where they differ the float model's are NAME.float. OUTPUT gets
 * NAME.codes, NAME.scale and perhaps NAME.zero_point and NAME.g_idx (docs/format.md), the same
 * bytes on any number of threads. One weight and its sums are in memory at a time. What is done is
 * kept in OUTPUT.partial when the call is ended early, and now and then; a call with the same
 * weights, inputs and settings goes on from it. `summary`, also of a call that failed, is to be
 * given up by dt_quantize_summary_free; NULL: nobody asks. Errors: CONFIG (rules that suit no
 * tensor, settings that do not suit one, inputs that are missing; also with dt_recipe_error_at),
 * FORMAT (a file that is damaged, is a model or rounded already; inputs of another shape or of no
 * weight; names that would stand twice), NUMERIC (a weight or input that is not finite),
 * INTERRUPTED, IO (also: OUTPUT is one of the files that are read), NOMEM. */
DT_API dt_status dt_quantize_tensors(dt_ctx *ctx, dt_recipe *recipe, const dt_tensors_job *job,
                                     dt_quantize_summary *summary);

/* Gives up what a summary holds; NULL is allowed. */
DT_API void dt_quantize_summary_free(dt_quantize_summary *s);

/* {"weights": [{...}, ...], "total": {...}}: every field. Errors: those of the sink, NOMEM. */
DT_API dt_status dt_quantize_summary_json(const dt_quantize_summary *s, dt_sink sink, void *user);

/* A model that is to be quantized without training. */
typedef struct dt_quantize_job {
    const char *model;        /* file of a float model, or of a QAT checkpoint */
    const char *output;       /* file to write */
    bool converts;            /* the rounder is that of the recipe's `convert`, not of `quantize` */
    bool (*stop)(void *user); /* asked after each weight: true ends the call; NULL: never */
    void (*weight)(void *user, const dt_quantize_summary *s); /* after each weight; NULL: nobody */
    void *user;
} dt_quantize_job;

/* Quantizes a model without training. A float model is prepared as the recipe's `qat` says (a QAT
 * checkpoint is prepared already), then converted by dt_ptq with training images of the recipe's
 * data, without augmentation: the first of a shuffle by run.seed. After each weight OUTPUT.partial
 * is written anew; a call with the same model, data and settings goes on from it, and gives the
 * same bytes as one that was not interrupted. One that does not fit is said, and begun anew. It is
 * removed at the end. The context's random streams start from run.seed, its threads are run.threads
 * while it lasts. `summary`, also of a call that failed, is to be given up by
 * dt_quantize_summary_free; NULL: nobody asks. Errors: CONFIG (no `qat` for a float model, settings
 * that do not suit it, keys of plain files, data that is not there; also with dt_recipe_error_at),
 * FORMAT (a model that is converted already, that takes other images, damaged), NUMERIC,
 * INTERRUPTED (the partial result was kept), IO, NOMEM. */
DT_API dt_status dt_quantize_model(dt_ctx *ctx, dt_recipe *recipe, const dt_quantize_job *job,
                                   dt_quantize_summary *summary);

#ifdef __cplusplus
}
#endif
#endif
