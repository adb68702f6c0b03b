/* The keys of a recipe: joins the tables of its blocks. */
#include "data/data_options.h"
#include "ptq/keys.h"
#include "qat/quantized.h"
#include "train/recipe/recipe.h"

#include <detent/experimental/io.h>

static const char *const nonfinite_names[] = { "stop", "skip", NULL };
static const char *const spike_names[] = { "ignore", "skip", "lower", "stop", NULL };
static const char *const average_names[] = { "none", "ema", "epochs", NULL };
static const char *const sampler_names[] = { "shuffle", "balanced", NULL };
static const char *const threshold_names[] = { "none", "f1", "balanced", NULL };
static const char *const mask_names[] = { "completion", "all", NULL };
static const char *const product_names[] = { "f32", "bf16", "bf16-tiles", NULL };
static const char *const backward_names[] = { "float", "int8", "int8-all", NULL };
static const char *const shard_choices[] = { "auto", "on", "off", NULL };
static const char *const experts_names[] = { "everywhere", "spread", NULL };
static const char *const finish_names[] = { "last", "best", NULL };

#define AT(field) .offset = offsetof(dt_run_options, field)

static const dt_key run_keys[] = {
    { "dir", DT_KEY_PATH, AT(dir), .fallback = "!", .resumable = true,
      .text = "folder of the run" },
    { "seed", DT_KEY_INT, AT(seed), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "seed of initial weights, order of the data, augmentation, dropout" },
    { "threads", DT_KEY_INT, AT(threads), .most = 1024, .fallback = "0", .resumable = true,
      .text = "results do not depend on it; 0: OMP_NUM_THREADS, else one per processor" },
    { "folds", DT_KEY_INT, AT(folds), .most = 100, .fallback = "0",
      .text = "cross-validation: runs that each test another part of the training data; 0: one "
              "run" },
    { "report", DT_KEY_BOOL, AT(report), .fallback = "true", .resumable = true,
      .text = "write report.html, a page about the run" },
    { "plugins", DT_KEY_STRINGS, AT(plugins),
      .text = "shared objects to load (docs/plugins.md); FILE@xxh3:DIGITS pins a file's hash" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_cluster_options, field)

static const dt_key cluster_keys[] = {
    { "bucket_mb", DT_KEY_REAL, AT(bucket_mb), .least = 0.001, .most = 512, .fallback = "4",
      .resumable = true, .text = "MiB of gradient that ranks add up at once" },
    { "timeout", DT_KEY_REAL, AT(timeout), .most = DT_NO_LIMIT, .fallback = "600",
      .resumable = true, .text = "seconds until a silent rank ends the run; 0: never" },
    { "check_steps", DT_KEY_INT, AT(check_steps), .most = DT_NO_LIMIT, .fallback = "100",
      .resumable = true, .text = "updates between comparisons of all ranks' weights; 0: never" },
    { "shard_optimizer", DT_KEY_CHOICE, AT(shard_optimizer), .choices = shard_choices,
      .fallback = "auto", .resumable = true,
      .text = "each rank updates a part of the parameters and keeps its optimizer state; auto: "
              "from 32 MiB of state on" },
    { "sync_norm", DT_KEY_BOOL, AT(sync_norm), .fallback = "false",
      .text = "with `train.shards`: batch norms use statistics of whole batches" },
    { "experts", DT_KEY_CHOICE, AT(experts), .choices = experts_names, .fallback = "everywhere",
      .resumable = true, .text = "spread: each rank has a share of every mixture's experts" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_name_rule, field)

static const dt_key name_keys[] = {
    { "from", DT_KEY_STRING, AT(from), .fallback = "!",
      .text = "extended regular expression of a whole name in the file" },
    { "to", DT_KEY_STRING, AT(to),
      .text = "its name in the model, with \\1 to \\9 for parentheses of `from`" },
    { "skip", DT_KEY_BOOL, AT(skip), .fallback = "false",
      .text = "such tensors are left out, in place of `to`" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_model_options, field)

const dt_key dt_model_keys[] = {
    { "family", DT_KEY_STRING, AT(family_name), .fallback = "!", .text = "what kind of model" },
    { "init", DT_KEY_PATH, AT(init),
      .text = "initial weights, and options that are not given: safetensors, GGUF, or a Hugging "
              "Face folder" },
    { "map", DT_KEY_LIST, AT(map), .most = DT_MAX_NAME_RULES, .keys = name_keys,
      .size = sizeof(dt_name_rule), .count = offsetof(dt_model_options, n_map),
      .text = "renames tensors of `init`; the first match applies" },
    { "pack", DT_KEY_BOOL, AT(pack), .fallback = "false",
      .text = "pack weights of `init` and train `adapters` beside them; integers keep their "
              "settings, floats become int4 of the default preset" },
    { "pack", DT_KEY_MAP, AT(packing), .keys = dt_qat_keys, .other_form = true,
      .given = offsetof(dt_model_options, packing.given),
      .text = "likewise, of floats, by these settings" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_checkpoint_options, field)

static const dt_key checkpoint_keys[] = {
    { "every_steps", DT_KEY_INT, AT(every_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "updates between checkpoints; 0: only at the end" },
    { "every_minutes", DT_KEY_REAL, AT(every_minutes), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "also every so many minutes; 0: not" },
    { "keep", DT_KEY_INT, AT(keep), .most = DT_NO_LIMIT, .fallback = "3",
      .text = "most that are kept; 0: all" },
    { "best", DT_KEY_BOOL, AT(best), .fallback = "false",
      .text = "also keep best.safetensors, of the best evaluation" },
    { "grouped", DT_KEY_CHOICE, AT(grouped), .choices = dt_grouped_forms, .fallback = "stacked",
      .choices_were = (const char *const[]){ "members", "experts", NULL },
      .text = "grouped parameters P in files: one tensor P, or P.0, P.1 and so on" },
    { 0 },
};

static const dt_key evaluate_keys[] = {
    { "every_steps", DT_KEY_INT, .offset = offsetof(dt_evaluate_options, every_steps),
      .most = DT_NO_LIMIT, .fallback = "0",
      .text = "updates between evaluations; 0: an epoch; language models: a tenth of the time" },
    { "samples", DT_KEY_INT, .offset = offsetof(dt_evaluate_options, samples), .most = 64,
      .fallback = "0",
      .text = "validation examples whose answers each evaluation writes to metrics.jsonl" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_early_stopping_options, field)

static const dt_key early_stopping_keys[] = {
    { "patience", DT_KEY_INT, AT(patience), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "stop after this many evaluations without improvement; 0: never" },
    { "least_improvement", DT_KEY_REAL, AT(least_improvement), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "smallest decrease of the validation loss that is an improvement" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_log_options, field)

static const dt_key log_keys[] = {
    { "every_steps", DT_KEY_INT, AT(every_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "updates between lines of metrics.jsonl; 0: 50, of short runs fewer" },
    { "layers_every_steps", DT_KEY_INT, AT(layers_every_steps), .most = DT_NO_LIMIT,
      .fallback = "200", .text = "likewise, of lines with figures of layers; 0: none" },
    { "csv", DT_KEY_BOOL, AT(csv), .fallback = "false",
      .text = "also write metrics.csv: metrics.jsonl without figures of layers" },
    { "tensorboard", DT_KEY_BOOL, AT(tensorboard), .fallback = "false",
      .text = "also write an event file for TensorBoard" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_spike_options, field)

static const dt_key spike_keys[] = {
    { "policy", DT_KEY_CHOICE, AT(policy), .choices = spike_names, .fallback = "ignore",
      .text = "on a spike: ignore it, skip the update, lower the rate, or stop" },
    { "deviations", DT_KEY_REAL, AT(deviations), .least = 1, .most = 1e6, .fallback = "6",
      .text = "a loss this many deviations above the mean is a spike" },
    { "window", DT_KEY_INT, AT(window), .least = 2, .most = DT_NO_LIMIT, .fallback = "100",
      .text = "updates over which mean and deviation are computed" },
    { "factor", DT_KEY_REAL, AT(factor), .most = 1, .fallback = "0.5",
      .text = "lower: factor on the learning rate, from then on" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_average_options, field)

static const dt_key average_keys[] = {
    { "name", DT_KEY_CHOICE, AT(name), .choices = average_names, .fallback = "none",
      .text = "ema: exponential moving average; epochs: the mean after each of the last epochs" },
    { "decay", DT_KEY_REAL, AT(decay), .most = 0.9999999, .fallback = "0.999",
      .text = "ema: share of the average that an update keeps, less at first" },
    { "last", DT_KEY_INT, AT(last), .least = 1, .most = DT_NO_LIMIT, .fallback = "5",
      .text = "epochs: how many of the last epochs" },
    { "batches", DT_KEY_INT, AT(batches), .most = DT_NO_LIMIT, .fallback = "64",
      .text = "training batches for running statistics and observers of the averaged model; 0: "
              "none" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_distill_settings, field)

static const dt_key distill_keys[] = {
    { "weight", DT_KEY_REAL, AT(weight), .most = 1, .fallback = "0.5",
      .text = "weight of the teacher's loss; the labels' has 1 - weight" },
    { "temperature", DT_KEY_REAL, AT(temperature), .least = 0.01, .most = 100, .fallback = "1",
      .text = "T, the divisor of logits" },
    { "teacher", DT_KEY_PATH, AT(teacher),
      .text = "model that teaches from the first update; absent: the float weights at "
              "qat.start_step" },
    { "features", DT_KEY_STRINGS, AT(features),
      .text = "layers whose outputs are fitted to the teacher's, by mean squared error" },
    { "feature_weight", DT_KEY_REAL, AT(feature_weight), .most = 1e6, .fallback = "1",
      .text = "weight of these errors" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_train_options, field)

static const dt_key train_keys[] = {
    { "epochs", DT_KEY_INT, AT(epochs), .least = 1, .most = DT_NO_LIMIT, .fallback = "10",
      .resumable = true, .text = "passes over the training data" },
    { "steps", DT_KEY_INT, AT(steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "number of updates, in place of epochs; 0: follows from epochs" },
    { "batch_size", DT_KEY_INT, AT(batch_size), .least = 1, .most = 1 << 20, .fallback = "64",
      .text = "examples per batch" },
    { "eval_batch_size", DT_KEY_INT, AT(eval_batch_size), .least = 1, .most = 1 << 20,
      .fallback = "256", .text = "examples per batch in evaluation" },
    { "accumulate", DT_KEY_INT, AT(accumulate), .least = 1, .most = 1 << 20, .fallback = "1",
      .text = "batches per update (gradient accumulation)" },
    { "shards", DT_KEY_INT, AT(shards), .most = 1024, .fallback = "0",
      .text = "parts of a batch whose gradients are added in a fixed tree: same bits on any "
              "number of ranks that divides it; 0: one per rank" },
    { "optimizer", DT_KEY_MAP, AT(optimizer), .keys = dt_optimizer_keys, .text = "the optimizer" },
    { "schedule", DT_KEY_MAP, AT(schedule), .keys = dt_schedule_keys,
      .text = "the learning rate over time" },
    { "clip_grad_norm", DT_KEY_REAL, AT(clip_grad_norm), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "largest global norm of the gradients; 0: no clipping" },
    { "label_smoothing", DT_KEY_REAL, AT(label_smoothing), .most = 1, .fallback = "0",
      .text = "share of each label that is spread over all classes" },
    { "loss", DT_KEY_STRING, AT(loss),
      .text = "regression: mse (default), mae, huber, quantile; classes and bits: focal; or a "
              "registered loss" },
    { "metrics", DT_KEY_STRINGS, AT(metrics), .text = "registered metrics, besides the task's" },
    { "huber_delta", DT_KEY_REAL, AT(huber_delta), .least = 1e-30, .most = 1e30, .fallback = "1",
      .text = "loss huber: largest error that is squared" },
    { "focal_gamma", DT_KEY_REAL, AT(focal_gamma), .most = 100, .fallback = "2",
      .text = "loss focal: an example counts (1 - p)^gamma, p the probability of its class" },
    { "quantiles", DT_KEY_REALS, AT(quantiles), .least = 1e-6, .most = 1 - 1e-6, .fewest = 1,
      .fallback = "[0.1, 0.5, 0.9]",
      .text = "loss quantile: ascending levels, each an output for each target" },
    { "class_weights", DT_KEY_REALS, AT(class_weights), .choices = dt__weights_names, .most = 1e30,
      .fallback = "none", .fewest = 1,
      .text = "factor of each class in training's loss; balanced: by frequency" },
    { "sampler", DT_KEY_CHOICE, AT(sampler), .choices = sampler_names, .fallback = "shuffle",
      .text = "each example of an epoch once, or draws of every class equally often (balanced)" },
    { "threshold", DT_KEY_CHOICE, AT(threshold), .choices = threshold_names, .fallback = "none",
      .text = "two classes, multi_label: thresholds with the best such score of the validation "
              "data" },
    { "mask", DT_KEY_CHOICE, AT(mask), .choices = mask_names, .fallback = "completion",
      .text = "prompts, chats: tokens in training's loss: of completions and answers, or all" },
    { "distill", DT_KEY_MAP, AT(distill), .keys = distill_keys,
      .given = offsetof(dt_train_options, distill.given),
      .text = "distillation from a float teacher: language models, classification, regression" },
    { "nonfinite", DT_KEY_CHOICE, AT(nonfinite), .choices = nonfinite_names, .fallback = "stop",
      .text = "on a loss or gradient that is not finite: end the run, or skip the update" },
    { "spikes", DT_KEY_MAP, AT(spikes), .keys = spike_keys, .resumable = true,
      .text = "what to do when a loss is far above the earlier ones" },
    { "average", DT_KEY_MAP, AT(average), .keys = average_keys,
      .text = "averages of the parameters, which are evaluated, compared and converted in place of "
              "the parameters" },
    { "float_baseline", DT_KEY_BOOL, AT(float_baseline), .fallback = "false",
      .text = "also train a float model as long, to compare: baseline.safetensors" },
    { "evaluate", DT_KEY_MAP, AT(evaluate), .keys = evaluate_keys,
      .text = "when the model is evaluated on the validation data" },
    { "early_stopping", DT_KEY_MAP, AT(early_stopping), .keys = early_stopping_keys,
      .text = "ends training when the validation loss no longer improves" },
    { "finish_with", DT_KEY_CHOICE, AT(finish_with), .choices = finish_names, .fallback = "last",
      .text = "weights that are converted: of the last update, or the best evaluation" },
    { "recompute", DT_KEY_BOOL, AT(recompute), .fallback = "false",
      .text = "activation checkpointing: less memory, more time, the same bits" },
    { "backward", DT_KEY_CHOICE, AT(backward), .choices = backward_names, .fallback = "float",
      .text = "QAT: gradients as products of floats; of integers in hidden linear layers and "
              "experts; or in all but the last layer (int8-all)" },
    { "float", DT_KEY_CHOICE, AT(products), .choices = product_names, .fallback = "f32",
      .text = "products of floats in training; bf16 is fast with AVX-512 BF16, bf16-tiles "
              "(another order of sums) with AMX-BF16" },
    { "checkpoint", DT_KEY_MAP, AT(checkpoint), .keys = checkpoint_keys, .resumable = true,
      .text = "when the state of the training is saved" },
    { "log", DT_KEY_MAP, AT(log), .keys = log_keys, .resumable = true,
      .text = "what is logged during training" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_convert_options, field)

static const dt_key convert_keys[] = {
    { "output", DT_KEY_PATH, AT(output), .fallback = "model.safetensors",
      .text = "file of the converted model, inside run.dir" },
    { "formats", DT_KEY_STRINGS, AT(formats),
      .text = "formats of `detent export` that the model must fit; checked before training" },
    DT__ROUNDING_OPTIONS_KEYS(offsetof(dt_convert_options, rounding)),
    { "calibration", DT_KEY_MAP, AT(calibration), .keys = dt__calibration_keys,
      .text = "training data for the rounder's statistics" },
    { 0 },
};

/* Block `qat` fills two structs, so offsets are those in the struct that contains both. */
#define DT__OF_QAT(field) offsetof(dt_recipe_options, qat.field)
#define DT__OF_SCHEDULE(field) offsetof(dt_recipe_options, qat_schedule.field)
const dt_key dt__qat_block_keys[] = {
#include "qat/keys_qat.inc"
};

dt_qat_schedule dt_qat_schedule_defaults(void)
{
    return (dt_qat_schedule){ .calibrate_batches = 16, .rate = 1 };
}

#undef AT
#define AT(field) .offset = offsetof(dt_recipe_options, field)

const dt_key dt_recipe_keys[] = {
    { "run", DT_KEY_MAP, AT(run), .keys = run_keys,
      .text = "folder, seed, threads and folds of the run" },
    { "model", DT_KEY_MAP, AT(model), .keys = dt_model_keys, .text = "what is trained" },
    { "data", DT_KEY_MAP, AT(data), .keys = dt_data_keys, .text = "what it is trained on" },
    { "train", DT_KEY_MAP, AT(train), .keys = train_keys, .text = "how it is trained" },
    { "qat", DT_KEY_MAP, .keys = dt__qat_block_keys,
      .given = offsetof(dt_recipe_options, qat.given),
      .text = "quantization-aware training; without this block the model stays float" },
    { "adapters", DT_KEY_MAP, AT(adapters), .keys = dt_lora_keys,
      .given = offsetof(dt_recipe_options, adapters.given),
      .text =
          "low-rank adapters (LoRA), trained in place of the weights; converting or merging adds "
          "them to the weights" },
    { "convert", DT_KEY_MAP, AT(convert), .keys = convert_keys,
      .text = "the integer model at the end" },
    { "cluster", DT_KEY_MAP, AT(cluster), .keys = cluster_keys,
      .text = "runs of several ranks, started by a launcher of MPI" },
    { "quantize", DT_KEY_MAP, AT(quantize), .keys = dt_quantize_keys,
      .given = offsetof(dt_recipe_options, quantize.given),
      .text = "post-training quantization, as by `detent quantize`; a recipe with only this block "
              "needs no `run`, `model` and `data`" },
    { 0 },
};
