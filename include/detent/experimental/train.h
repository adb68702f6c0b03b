/* experimental/train.h: the options that a recipe sets, tools for recipes, own losses and metrics,
 * scores of classes, quantizing without training. Tables beside the structs (keys.h) describe a
 * recipe's keys; the errors, the JSON schema and docs/recipe.md are generated from those tables. */
#ifndef DETENT_EXPERIMENTAL_TRAIN_H
#define DETENT_EXPERIMENTAL_TRAIN_H

#include <detent/train.h>
#include <detent/experimental/data.h>
#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/optim.h>
#include <detent/experimental/ptq.h>
#include <detent/experimental/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a recipe says ------------------------------------------------------------------- */

typedef struct dt_run_options {
    const char *dir;
    int64_t seed;
    int64_t threads; /* 0: one per processor */
    /* runs of a cross-validation, which dt_sweep_source.folds trains; 0: one run */
    int64_t folds;
    bool report;        /* write report.html, and the files that it needs */
    dt_strings plugins; /* paths as in dt_plugin_load */
} dt_run_options;

/* dt_cluster_options.shard_optimizer: whether each rank updates a part of the parameters and has
 * only that part of the optimizer's state. */
enum { DT_SHARD_AUTO, DT_SHARD_ON, DT_SHARD_OFF };

/* dt_cluster_options.experts: whether each rank has all experts of mixtures, or a share of the
 * experts and multiplies the rows of all ranks by these. */
enum { DT_EXPERTS_EVERYWHERE, DT_EXPERTS_SPREAD };

/* Runs of several ranks: processes that a launcher of MPI started. */
typedef struct dt_cluster_options {
    double bucket_mb;    /* MiB per bucket of the gradient */
    double timeout;      /* seconds until a rank counts as missing; 0: never */
    int64_t check_steps; /* updates between comparisons of all ranks' weights; 0: none */
    int shard_optimizer; /* DT_SHARD_... */
    bool sync_norm;      /* statistics of batch norms are computed over all shards of a batch */
    int experts;         /* DT_EXPERTS_... */
} dt_cluster_options;

typedef struct dt_model_options {
    const char *family_name;
    const char *init;                    /* initial weights; NULL: random, from run.seed */
    dt_name_rule map[DT_MAX_NAME_RULES]; /* names of tensors in that file */
    int64_t n_map;
    /* The weights of `init` are packed when they are read, and adapters are trained beside them.
     * Integers in the file keep their settings; floats are quantized as `packing` says. */
    bool pack;
    dt_qat_options packing;
    const dt_family *family;
    const void *options; /* the family's struct, for family->create */
} dt_model_options;

typedef struct dt_checkpoint_options {
    int64_t every_steps;  /* 0: only at the end of training */
    double every_minutes; /* 0: not by time */
    int64_t keep;         /* number of newest checkpoints to keep; 0: all */
    bool best;            /* also keep best.safetensors */
    int grouped;          /* DT_GROUPED_...: form of grouped weights in files */
} dt_checkpoint_options;

/* Evaluations on the validation data during training. */
typedef struct dt_evaluate_options {
    int64_t every_steps; /* 0: at the end of each epoch */
    int64_t samples;     /* examples that are written together with the model's outputs */
} dt_evaluate_options;

typedef struct dt_early_stopping_options {
    /* evaluations without improvement before training stops; 0: never stop */
    int64_t patience;
    double least_improvement; /* smallest decrease of the loss that counts */
} dt_early_stopping_options;

enum { DT_FINISH_LAST, DT_FINISH_BEST }; /* dt_train_options.finish_with */

typedef struct dt_log_options {
    int64_t every_steps;        /* 0: 50, fewer in short runs, so that there are 50 lines */
    int64_t layers_every_steps; /* QAT: updates between figures of the layers; 0: none */
    bool csv, tensorboard;      /* write metrics.csv, events for TensorBoard */
} dt_log_options;

enum { DT_SAMPLER_SHUFFLE, DT_SAMPLER_BALANCED }; /* dt_train_options.sampler */

/* What the thresholds of two classes, or of bits, maximize on the validation data: the F1 score, or
 * balanced accuracy. dt_train_options.threshold */
enum { DT_THRESHOLD_NONE, DT_THRESHOLD_F1, DT_THRESHOLD_BALANCED };

/* Which tokens of prompts with completions are targets. dt_train_options.mask */
enum { DT_MASK_COMPLETION, DT_MASK_ALL };

enum { DT_NONFINITE_STOP, DT_NONFINITE_SKIP }; /* dt_train_options.nonfinite */

/* The reaction to a loss spike: none, skip the update, lower the rate permanently, or end the run
 * with NUMERIC. dt_spike_options.policy */
enum { DT_SPIKES_IGNORE, DT_SPIKES_SKIP, DT_SPIKES_LOWER, DT_SPIKES_STOP };

/* A loss is a spike if it is above m + deviations max(s, |m|/100), where m and s are mean and
 * standard deviation of the earlier losses, with weights that decay by 1 - 1/window per update. The
 * first `window` losses of a phase are not spikes. */
typedef struct dt_spike_options {
    int policy; /* DT_SPIKES_... */
    double deviations;
    int64_t window;
    double factor; /* lower: factor of the rate */
} dt_spike_options;

/* Averages of the parameters, which replace the parameters in evaluation, comparison and
 * conversion. dt_average_options.name */
enum { DT_AVERAGE_NONE, DT_AVERAGE_EMA, DT_AVERAGE_EPOCHS };

/* ema: after each update average += (1-d) (p - average), d = min(decay, (1+n)/(10+n)) after n
 * updates; epochs: the mean of the parameters after each of the last `last` epochs. An average
 * restarts when the model is prepared. */
typedef struct dt_average_options {
    int name; /* DT_AVERAGE_... */
    double decay;
    int64_t last;
    int64_t batches; /* training batches for the averaged model's statistics; 0: none */
} dt_average_options;

typedef struct dt_distill_settings {
    bool given;
    double weight;         /* of the teacher's loss; the loss of the labels has 1 - weight */
    double temperature;    /* T: the logits of teacher and model are divided by it */
    const char *teacher;   /* file or folder; NULL: the float weights at qat.start_step */
    dt_strings features;   /* paths of layers whose outputs should match the teacher's */
    double feature_weight; /* weight of the sum of their mean squared errors */
} dt_distill_settings;

typedef struct dt_train_options {
    int64_t epochs;
    int64_t steps; /* number of updates; 0: follows from epochs */
    int64_t batch_size;
    int64_t eval_batch_size;
    int64_t accumulate; /* gradient accumulation: batches per update */
    int64_t shards;     /* parts of a batch; 0: one for each rank */
    dt_optimizer_options optimizer;
    dt_schedule schedule;
    double clip_grad_norm; /* 0: off */
    double label_smoothing;
    const char *loss;       /* a name of dt_loss_names, or of a registered loss; NULL: the task's */
    double huber_delta;     /* largest error that the Huber loss squares */
    double focal_gamma;     /* loss focal (dt_cross_entropy_options) */
    dt_reals quantiles;     /* loss quantile: its levels */
    dt_reals class_weights; /* one per class; n may be DT_WEIGHTS_... */
    int sampler;            /* DT_SAMPLER_... */
    int threshold;          /* DT_THRESHOLD_... */
    int mask;               /* DT_MASK_... */
    dt_strings metrics;     /* registered metrics, besides the task's */
    dt_distill_settings distill;
    int nonfinite;
    dt_spike_options spikes;
    dt_average_options average;
    bool float_baseline;
    dt_evaluate_options evaluate;
    dt_early_stopping_options early_stopping;
    int finish_with; /* DT_FINISH_... */
    bool recompute;  /* activation checkpointing (dt_recompute) */
    int backward;    /* DT_BACKWARD_... of dt_set_backward, under QAT */
    int products;    /* DT_PRODUCTS_... of dt_set_products */
    dt_checkpoint_options checkpoint;
    dt_log_options log;
} dt_train_options;

/* The calibration data of a rounder. */
typedef struct dt_calibration_options {
    int64_t samples;    /* examples, at most; 0: all of a file, 512 for a model */
    int64_t batch_size; /* 0: as many as fit 64 MiB, for a model 32 */
    int64_t cache_mb;   /* for a model: limit of the calibration cache */
} dt_calibration_options;

typedef struct dt_convert_options {
    const char *output; /* relative to run.dir */
    dt_strings formats; /* formats to which export must be possible */
    dt_rounding_options rounding;
    dt_calibration_options calibration;
} dt_convert_options;

/* A rule for tensors of a file without a model. `match` is a glob over a tensor's name or over a
 * prefix of it that ends before a dot (`a` selects `a.weight`). For each key the last matching rule
 * that sets it applies. */
typedef struct dt_tensor_rule {
    const char *match;
    bool skip, has_skip;
    int op; /* DT_WEIGHT_... */
    /* 1d ops use [0]. */
    int64_t stride[2], padding[2], output_padding[2], dilation[2];
    int64_t groups;
    int rounder; /* DT_ROUND_... */
    dt_quant_patch weight;
    bool has_op, has_stride, has_padding, has_output_padding, has_dilation, has_groups, has_rounder;
} dt_tensor_rule;

/* Post-training quantization of a model, or of a file of tensors. */
typedef struct dt_quantize_options {
    bool given;
    dt_rounding_options rounding;
    bool correct_bias; /* dt_ptq_options.correct_bias; only with a model */
    dt_calibration_options calibration;
    dt_quant_patch weight; /* changes to dt_weight_quant_defaults; only without a model */
    dt_tensor_rule tensors[DT_MAX_RULES]; /* only without a model */
    int64_t n_tensors;
} dt_quantize_options;

/* Runtimes that a recipe can name in `qat.target`. */
enum {
    DT_RUNTIME_DETENT,
    DT_RUNTIME_LLAMA_CPP,
    DT_RUNTIME_ONNXRUNTIME,
    DT_RUNTIME_LITERT,
    DT_RUNTIME_TRANSFORMERS,
    DT_RUNTIME_DEVICE /* CMSIS-NN, TensorFlow Lite Micro */
};

enum { DT_QAT_AS_GIVEN, DT_QAT_BEST };

/* The schedule of quantization in a run: the keys of a recipe's `qat` block that dt_prepare does
 * not use. Updates are counted from the beginning of the run. */
typedef struct dt_qat_schedule {
    int target;         /* DT_RUNTIME_...: only used in recipes, where it determines other keys */
    int recipe;         /* DT_QAT_AS_GIVEN, DT_QAT_BEST: likewise, by the bits of weights */
    int64_t start_step; /* float updates before the model is prepared */
    double start_share; /* or as a share of all updates, rounded, at least one; 0: not used */
    int64_t calibrate_batches; /* batches that observe static ranges before QAT */
    int64_t refresh_steps; /* updates between computations of a weight's static range; 0: once */
    int64_t freeze_observer_step; /* update at which activations' static ranges freeze; 0: never */
    int64_t freeze_norm_step;     /* update at which folded norms' statistics freeze; 0: never */
    double rate;                  /* factor of the learning rate while the model is prepared */
    int64_t layer_steps;  /* updates after which the next layer is quantized; 0: all at once */
    int64_t norm_batches; /* batches for the statistics of the finished model's norms; 0: none */
    int estimator;        /* DT_ESTIMATOR_..., for the gradients of weights */
    /* initial strength, 0: dt_estimator_strength; final strength, 0: the initial one */
    double strength, strength_end;
    double damping; /* lambda of dt_damp at the last update; 0: none */
    /* Threshold and momentum of dt_freezer_step. The threshold falls from freeze_from at start_step
     * (0: it is `freeze` throughout) to `freeze` at the last update (0: nothing is frozen). */
    double freeze, freeze_from, freeze_momentum;
    int cache; /* DT_CACHE_... of dt_set_cache while prepared, and in the result */
} dt_qat_schedule;

/* The defaults of those keys. */
DT_API dt_qat_schedule dt_qat_schedule_defaults(void);

typedef struct dt_recipe_options {
    dt_run_options run;
    dt_model_options model;
    dt_data_options data;
    dt_train_options train;
    dt_lora_options adapters;     /* adapters.given: the recipe has this block */
    dt_qat_options qat;           /* qat.given: the recipe has this block */
    dt_qat_schedule qat_schedule; /* more keys of block `qat` */
    dt_convert_options convert;
    dt_quantize_options quantize;
    dt_cluster_options cluster;
} dt_recipe_options;

/* The root of all tables. `model` has its own keys and those of the chosen family. */
extern DT_API const dt_key dt_recipe_keys[];
/* The keys of the block `model` that all families have. */
extern DT_API const dt_key dt_model_keys[];
/* The keys of the block `quantize`. */
extern DT_API const dt_key dt_quantize_keys[];

/* ---- reading ------------------------------------------------------------------------------ */

/* Sets all options to the recipe's defaults; blocks such as `qat` are not given. Errors: NOMEM. */
DT_API dt_status dt_recipe_defaults(dt_ctx *ctx, dt_recipe_options *options);
/* A recipe from options made in C: start with dt_recipe_defaults, set run.dir, model.family_name,
 * model.options (the family's struct), data, and everything that differs from the defaults. The
 * recipe copies all of it; dt_recipe_show prints it as YAML. Errors, and *out after them, as for
 * dt_recipe_read; messages use `name` as the file. */
DT_API dt_status dt_recipe_create(dt_ctx *ctx, const char *name, const dt_recipe_options *options,
                                  dt_recipe **out);

/* Whether it was read to quantize without training. Options of blocks that it does not give are
 * then meaningless. */
DT_API bool dt_recipe_only_quantizes(const dt_recipe *r);

/* Its options, lent; complete only if there is no error. */
DT_API const dt_recipe_options *dt_recipe_get(const dt_recipe *r);

/* Adds an error that is found later, such as a rule that matches no module, at the key `path`
 * ("qat.rules.0.match") or the nearest given key above it. Returns CONFIG (or NOMEM), with the line
 * as dt_error. */
DT_API dt_status dt_recipe_refuse(dt_recipe *r, const char *path, const char *format, ...)
    DT_PRINTF(3, 4);

/* Reads a map of weights (docs/format.md): YAML with the keys `tensors`, patterns of names in the
 * order in which they are tried, and `layout`. With OK or CONFIG *out owns the memory of the map
 * and lists all errors, as in dt_recipe_read; the caller frees it. Other errors: IO, NOMEM. */
DT_API dt_status dt_weight_map_read(dt_ctx *ctx, const char *path, dt_weight_map *map,
                                    dt_recipe **out);

/* dt_data_open with the recipe's `data`. Errors caused by the recipe have the position of their
 * key. `model` is the model that the data are for, or NULL: its tokenizer, if it has one, replaces
 * data.tokenizer, its tokens end the data's texts, and its classes are those of the labels
 * (dt_data_options.classes). For a model with a family, a line is logged with the classes that have
 * no example. With `train` NULL no training data are returned; for a recipe read to evaluate,
 * training text is not read at all. */
DT_API dt_status dt_recipe_open_data(dt_recipe *r, const dt_model_info *model, dt_dataset **train,
                                     dt_dataset **validation, dt_dataset **test);

/* Checks that need the model: adds an error for each rule of `qat` that matches no module. CONFIG
 * if the recipe has errors afterwards. */
DT_API dt_status dt_recipe_check_model(dt_recipe *r, dt_module *m);
/* Adds the adapters of `adapters` to a new model, and turns on activation checkpointing of its
 * blocks with `train.recompute`. CONFIG, as an error of the recipe, if the model does not support
 * them. */
DT_API dt_status dt_recipe_adapt(dt_recipe *r, dt_module *m);

/* The position of a key in the file. False if it was not given, or given on the command line. */
DT_API bool dt_recipe_position(const dt_recipe *r, const char *path, int *line, int *column);

/* The choice (of a list ended by NULL) that is nearest to a misspelt `word`, or else the only one
 * that begins with it; NULL: none. */
DT_API const char *dt_nearest(const char *const *choices, const char *word);

/* ---- showing ------------------------------------------------------------------------------ */

/* The recipe with every default filled in, as YAML; a comment says where each value comes from
 * (file and line, command line, default). Reading it again gives the same values. STATE if the
 * recipe has errors. */
DT_API dt_status dt_recipe_show(const dt_recipe *r, dt_sink sink, void *user);
/* The same as JSON, without origins. */
DT_API dt_status dt_recipe_json(const dt_recipe *r, dt_sink sink, void *user);
/* The JSON schema (draft 2020-12) of all recipes. */
DT_API dt_status dt_recipe_schema(dt_ctx *ctx, dt_sink sink, void *user);
/* The page of all keys in Markdown: docs/recipe.md. */
DT_API dt_status dt_recipe_markdown(dt_ctx *ctx, dt_sink sink, void *user);

/* The library's build and environment, for bug reports: calls `sink` with a line "name\tvalue\n"
 * for each of version, compiler, options, kernels, and every library with its version or why it is
 * missing. Loads OpenBLAS and oneDNN. Errors: those of dt_kernels_name and the sink, NOMEM. */
DT_API dt_status dt_build_facts(dt_ctx *ctx, dt_sink sink, void *user);

/* ---- layers of a model ---------------------------------------------------------------------- */

/* A module without children, in execution order. */
typedef struct dt_layer_row {
    const char *path, *type; /* lent for the call */
    dt_shape output;         /* of one example */
    int64_t parameters;      /* elements of its parameters */
    int64_t multiply_adds;   /* per example */
    int64_t bytes;           /* size of its tensors */
} dt_layer_row;

/* Called with each layer of a model. */
typedef void (*dt_layer_visit)(void *user, const dt_layer_row *row);

/* Visits the layers of m, a model of this family and these options in any state. Shapes come from
 * the shape functions of the ops: nothing is computed. `as_packed`: weights of a prepared model
 * count with their converted size. Errors: ARG (a family whose shapes are not known), those of
 * family->create, NOMEM. */
DT_API dt_status dt_model_layers(dt_module *m, const dt_family *family, const void *options,
                                 bool as_packed, dt_layer_visit visit, void *user);

/* ---- evaluating --------------------------------------------------------------------------- */

/* An own loss: `train.loss`, or the loss of an output, may name it. */
typedef struct dt_loss {
    const char *name;
    const char *text; /* one sentence */
    dt_target target; /* classes, values, bits, images or masks: the targets that it needs */
    /* Returns the loss summed over all labels of the batch (over examples for classes, over values
     * for the others), a scalar on the tape; y are the model's outputs, target is that of
     * dt_loader_next. A run divides by the number of labels. NULL with an error on the tape. */
    dt_tensor *(*sum)(dt_tape *t, dt_tensor *y, dt_tensor *target, void *user);
    void *user;
} dt_loss;

/* The names of detent's own losses, ended by NULL: of regression mse (the default), mae, huber and
 * quantile; of classes, masks and bits focal. */
extern DT_API const char *const dt_loss_names[];
/* Registers a loss for recipes of this context. It must stay valid until the context is freed.
 * Errors: ARG (no name or function, other targets, a name that is taken), NOMEM. */
DT_API dt_status dt_loss_register(dt_ctx *ctx, const dt_loss *loss);
/* The registered loss of this name; NULL if there is none. */
DT_API const dt_loss *dt_loss_named(const dt_ctx *ctx, const char *name);

/* An own metric: `train.metrics` may name it. */
typedef struct dt_own_metric {
    dt_metric metric;  /* its name has at most DT_MAX_NAME bytes */
    dt_target target;  /* classes, values, bits, images or masks: the targets that it needs */
    size_t state_size; /* bytes of its sums, which are initially zeros */
    /* Adds an example: its n outputs, and its target as dt_loader_next gives it. Called in order,
     * on one thread. */
    void (*add)(void *state, const float *y, int64_t n, const void *target);
    double (*value)(const void *state); /* called after the last example */
} dt_own_metric;

/* Like dt_loss_register. */
DT_API dt_status dt_metric_register(dt_ctx *ctx, const dt_own_metric *metric);
/* Like dt_loss_named. */
DT_API const dt_own_metric *dt_metric_named(const dt_ctx *ctx, const char *name);

/* Checks that a model, read from `path` (with which messages begin), accepts the examples of a
 * dataset and predicts its targets; with several inputs and outputs, reorders those of the dataset
 * like the model's. OK also if `info` has no family, or one with unknown shapes. A line is logged
 * if mean and deviation are not those of the model, or are not given for pixels. Errors: FORMAT
 * (what the model reads or predicts, and what the data are), NOMEM. */
DT_API dt_status dt_model_check_data(dt_ctx *ctx, const char *path, const dt_model_info *info,
                                     const dt_dataset *d);

/* The confusion matrix of `outputs`, which dt_evaluate gave for d: *out, i64 [classes, classes], is
 * made; element [label, class] counts the examples of that label whose largest output (of equal
 * ones the first) is that class. Errors: ARG (targets that are not labels of examples), SHAPE,
 * NOMEM. */
DT_API dt_status dt_confusion(const dt_dataset *d, const dt_tensor *outputs, dt_tensor **out);

/* A model's results per class, since accuracy is dominated by frequent classes. Classes without
 * examples are excluded from means; a number that is not defined is NaN. With p = softmax(outputs):
 *     recall = found and labelled / labelled, precision = found and labelled / found,
 *     f1 = 2 found and labelled / (found + labelled)
 *     average precision: the area under the curve of precision over recall, by p[class] */
typedef struct dt_class_scores {
    double balanced_accuracy; /* mean recall */
    double average_precision; /* mean */
    /* Expected calibration error (Guo et al. 2017, equation 3): examples are put into 15 bins of
     * equal width by the largest p; sum over bins of share |accuracy - mean of the largest p| */
    double calibration_error;
    /* f64 [classes, 5]: labelled, precision, recall, f1, average precision; the caller's */
    dt_tensor *each;
} dt_class_scores;

/* For `outputs`, which dt_evaluate gave for d. Errors: as for dt_confusion. */
DT_API dt_status dt_class_scores_of(const dt_dataset *d, const dt_tensor *outputs,
                                    dt_class_scores *out);

/* ---- running ------------------------------------------------------------------------------ */

/* The text of summary.json. */
DT_API dt_status dt_run_summary_json(dt_ctx *ctx, const dt_run_summary *summary, dt_sink sink,
                                     void *user);

/* ---- quantizing without training ------------------------------------------------------------ */

/* The result for one weight. */
typedef struct dt_quantized_weight {
    const char *name;   /* "layers.0.weight" */
    const char *scheme; /* "int4 symmetric group 32" */
    dt_ints shape;
    dt_round_report report;
} dt_quantized_weight;

/* The result for a model, or for a file of tensors. It owns all memory that it points to. */
typedef struct dt_quantize_summary {
    dt_ctx *ctx;
    dt_quantized_weight *weight; /* in the order of rounding */
    int64_t n, wanted;           /* weights rounded so far, and in total */
    int64_t resumed;             /* how many of these, from the first on, an earlier call rounded */
    /* calibration samples used; for a file the largest number of any weight */
    int64_t samples;
    dt_ptq_report total; /* totals over all weights, including those of earlier calls */
    double seconds;      /* of this call */
    int64_t peak_memory; /* bytes */
    int64_t room;        /* capacity of `weight` */
    char **copied;       /* for a file: names of the tensors copied unchanged */
    int64_t n_copied;
    int64_t bytes_before, bytes; /* for a file: size of its tensors, and of the new tensors */
    int rank;                    /* of this process; 0 without a launcher */
    /* an error occurred on this rank only: the others do not have it */
    bool by_itself;
} dt_quantize_summary;

enum { DT_CODES_PACKED, DT_CODES_I8 };

/* A file of tensors without a model, to be quantized. */
typedef struct dt_tensors_job {
    const char *weights;      /* safetensors file to read */
    const char *calibration;  /* safetensors file of their inputs; NULL: none */
    const char *output;       /* file to write */
    int codes;                /* DT_CODES_...: packed, or one per byte */
    bool (*stop)(void *user); /* called regularly: true ends the call; NULL: never */
    void (*weight)(void *user, const dt_quantize_summary *s); /* after each weight, or NULL */
    void *user;
} dt_tensors_job;

/* Rounds the weights of a file by the recipe's `quantize`; the recipe must have been read to
 * quantize. Tensors of rank 2 are weights of linear layers, of rank 4 of conv2d, others if the
 * recipe's rules say so; all other tensors are copied. The calibration file has the inputs of
 * weight NAME as NAME, [samples, in] or [n, channels, ...], and, where they differ, those of the
 * float model as NAME.float. OUTPUT gets NAME.codes, NAME.scale and perhaps NAME.zero_point and
 * NAME.g_idx (docs/format.md), the same bytes on any number of threads. Only one weight and its
 * statistics are in memory at a time. Finished weights are saved in OUTPUT.partial from time to
 * time and when the call ends early; a call with the same weights, inputs and settings continues
 * from it. The caller frees `summary` by dt_quantize_summary_free, also after an error; it may be
 * NULL. Errors: CONFIG (rules that match no tensor, settings unfit for one, missing inputs; also
 * with dt_recipe_error_at), FORMAT (a file that is damaged, is a model or quantized already; inputs
 * of the wrong shape or of no weight; duplicate names), NUMERIC (a weight or input that is not
 * finite), INTERRUPTED, IO (also if OUTPUT is one of the files read), NOMEM. */
DT_API dt_status dt_quantize_tensors(dt_ctx *ctx, dt_recipe *recipe, const dt_tensors_job *job,
                                     dt_quantize_summary *summary);

/* Frees what a summary owns; NULL is allowed. */
DT_API void dt_quantize_summary_free(dt_quantize_summary *s);

/* {"weights": [{...}, ...], "total": {...}}: every field. Errors: those of the sink, NOMEM. */
DT_API dt_status dt_quantize_summary_json(const dt_quantize_summary *s, dt_sink sink, void *user);

/* A model to be quantized without training. */
typedef struct dt_quantize_job {
    const char *model;        /* file of a float model, or of a QAT checkpoint */
    const char *output;       /* file to write */
    bool converts;            /* take the rounder from `convert`, not from `quantize` */
    bool cluster;             /* join the other ranks, as in dt_run_control */
    bool (*stop)(void *user); /* called after each weight: true ends the call; NULL: never */
    void (*weight)(void *user, const dt_quantize_summary *s); /* after each weight, or NULL */
    void *user;
} dt_quantize_job;

/* Quantizes a model without training. A float model is prepared as the recipe's `qat` says (a QAT
 * checkpoint is prepared already), then converted by dt_ptq. Calibration data are the recipe's
 * training examples without augmentation, the first of a shuffle by run.seed. After each weight
 * OUTPUT.partial is rewritten. A call with the same model, data and settings continues from it and
 * gives the same bytes as an uninterrupted one; a partial file that does not match is reported in
 * the log and ignored. It is removed at the end. The context's random streams start from run.seed,
 * its number of threads is run.threads during the call. The caller frees `summary` by
 * dt_quantize_summary_free, also after an error; it may be NULL. Errors: CONFIG (no `qat` for a
 * float model, settings unfit for it, keys for files without a model, missing data; also with
 * dt_recipe_error_at), FORMAT (a model that is converted already, takes other examples, or is
 * damaged), NUMERIC, INTERRUPTED (the partial result was kept), IO, NOMEM. */
DT_API dt_status dt_quantize_model(dt_ctx *ctx, dt_recipe *recipe, const dt_quantize_job *job,
                                   dt_quantize_summary *summary);

/* ---- rotation ------------------------------------------------------------------------------- */

typedef struct dt_rotate_job {
    const char *model;  /* file of a float model of family llama */
    const char *output; /* file to write */
    int64_t hadamard;   /* as in dt_rotate_options */
} dt_rotate_job;

/* dt_rotate of a file. With a recipe the matrices are learned from its training examples, those of
 * dt_quantize_model (`quantize.calibration.samples`), and signs are drawn by run.seed; NULL: they
 * are not learned. Errors: FORMAT (not a model of detent, or one with other examples), CONFIG,
 * UNSUPPORTED, STATE and ARG as for dt_rotate, IO, NUMERIC, NOMEM; the output is then unchanged. */
DT_API dt_status dt_rotate_model(dt_ctx *ctx, dt_recipe *recipe, const dt_rotate_job *job);

#ifdef __cplusplus
}
#endif
#endif
