/* Checks keys that only some optimizers, schedules, data formats or tasks read, and keys of single
 * inputs and outputs, which data.inputs and data.outputs replace. */
#include "train/recipe/choices.h"
#include "train/recipe/recipe.h"

#include <stdio.h>
#include <string.h>

typedef enum chooser {
    BY_OPTIMIZER,
    BY_SCHEDULE,
    BY_FORMAT,
    BY_TASK,
    BY_AVERAGE,
    BY_SPIKES
} chooser;

#define ADAMS (DT__BIT(DT_ADAM) | DT__BIT(DT_ADAMW))
#define STEPS (DT__BIT(DT_CONSTANT) | DT__BIT(DT_STEP) | DT__BIT(DT_MULTISTEP))
#define PLATEAU DT__BIT(DT_PLATEAU)
#define OWN DT__BIT(DT_OWN_OPTIMIZER)

static const char *const chooser_path[] = { "train.optimizer.name", "train.schedule.name",
                                            "data.format",          "data.task",
                                            "train.average.name",   "train.spikes.policy" };

static const struct {
    const char *path;
    chooser by;
    unsigned choices;
    const char *whose;
} limited[] = {
    { "train.optimizer.own", BY_OPTIMIZER, OWN, "own" },
    { "train.optimizer.momentum", BY_OPTIMIZER, DT__BIT(DT_SGD) | OWN, "sgd" },
    { "train.optimizer.dampening", BY_OPTIMIZER, DT__BIT(DT_SGD), "sgd" },
    { "train.optimizer.nesterov", BY_OPTIMIZER, DT__BIT(DT_SGD), "sgd" },
    { "train.optimizer.beta1", BY_OPTIMIZER, ADAMS | OWN | DT__BIT(DT_LION),
      "adam, adamw and lion" },
    { "train.optimizer.beta2", BY_OPTIMIZER, ADAMS | OWN | DT__BIT(DT_LION),
      "adam, adamw and lion" },
    { "train.optimizer.eps", BY_OPTIMIZER, ADAMS | OWN, "adam and adamw" },
    { "train.schedule.floor", BY_SCHEDULE, ~STEPS,
      "schedules other than constant, step, multistep" },
    { "train.schedule.gamma", BY_SCHEDULE, (STEPS | PLATEAU) & ~DT__BIT(DT_CONSTANT),
      "step, multistep and plateau" },
    { "train.schedule.every", BY_SCHEDULE, DT__BIT(DT_STEP) | DT__BIT(DT_COSINE_RESTARTS),
      "step and cosine_restarts" },
    { "train.schedule.milestones", BY_SCHEDULE, DT__BIT(DT_MULTISTEP), "multistep" },
    { "train.schedule.growth", BY_SCHEDULE, DT__BIT(DT_COSINE_RESTARTS), "cosine_restarts" },
    { "train.schedule.power", BY_SCHEDULE, DT__BIT(DT_POLYNOMIAL), "polynomial" },
    { "train.schedule.rise", BY_SCHEDULE, DT__BIT(DT_ONE_CYCLE), "one_cycle" },
    { "train.schedule.start", BY_SCHEDULE, DT__BIT(DT_ONE_CYCLE), "one_cycle" },
    { "train.schedule.decay_steps", BY_SCHEDULE, DT__BIT(DT_WARMUP_STABLE_DECAY),
      "warmup_stable_decay" },
    { "train.schedule.patience", BY_SCHEDULE, PLATEAU, "plateau" },
    { "train.schedule.least_improvement", BY_SCHEDULE, PLATEAU, "plateau" },
    { "train.schedule.cooldown", BY_SCHEDULE, PLATEAU, "plateau" },
    { "data.dir", BY_FORMAT, DT__FILES, "formats of files" },
    { "data.train", BY_FORMAT, DT__FILES, "formats of files" },
    { "data.test", BY_FORMAT, DT__FILES, "formats of files" },
    { "data.train_count", BY_FORMAT, DT__IMAGES | DT__DRAWN, "images and drawn data" },
    { "data.test_count", BY_FORMAT, DT__IMAGES | DT__DRAWN, "images and drawn data" },
    { "data.task", BY_FORMAT, DT__IMAGES | DT__ARRAYS, "images and arrays" },
    { "data.features", BY_FORMAT, DT__BIT(DT_DATA_SOUNDS) | DT__TENSORS, "sounds and tensors" },
    { "data.mean", BY_FORMAT, DT__IMAGES, "images" },
    { "data.deviation", BY_FORMAT, DT__IMAGES, "images" },
    { "data.augment", BY_FORMAT, DT__IMAGES | DT__ARRAYS, "images and arrays" },
    { "data.tokenizer", BY_FORMAT, DT__TEXTS, "text, tokens and jsonl" },
    { "data.context", BY_FORMAT, DT__TEXTS, "text, tokens and jsonl" },
    { "data.prompt", BY_FORMAT, DT__BIT(DT_DATA_JSONL), "jsonl" },
    { "data.completion", BY_FORMAT, DT__BIT(DT_DATA_JSONL), "jsonl" },
    { "data.chat", BY_FORMAT, DT__BIT(DT_DATA_JSONL), "jsonl" },
    { "data.system", BY_FORMAT, DT__BIT(DT_DATA_JSONL), "jsonl" },
    { "train.mask", BY_FORMAT, DT__BIT(DT_DATA_JSONL) | DT__BIT(DT_DATA_ADDER) | DT__GIVEN,
      "prompts with completions" },
    { "data.split", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.validation_order", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.file_names", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.layout", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.columns", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.cache", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.inputs", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.outputs", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.window", BY_FORMAT, DT__TENSORS, "tensors" },
    { "data.standardize", BY_FORMAT, DT__ARRAYS, "arrays" },
    { "data.labels", BY_FORMAT, DT__BIT(DT_DATA_CIFAR100), "cifar100" },
    { "data.channels", BY_FORMAT, DT__FOLDERS, "png and folder" },
    { "data.size", BY_FORMAT, DT__FOLDERS, "png and folder" },
    { "data.source", BY_FORMAT, DT__GIVEN, "given" },
    { "data.seed", BY_FORMAT, DT__DRAWN | DT__TENSORS, "drawn data and tensors" },
    { "data.validation", BY_FORMAT, DT__FILES | DT__DRAWN, "formats other than given" },
    { "data.noise", BY_TASK, DT__BIT(DT_DATA_DENOISING), "denoising" },
    { "data.normal", BY_TASK, DT__BIT(DT_DATA_ANOMALY), "anomaly" },
    { "train.class_weights", BY_TASK,
      DT__BIT(DT_DATA_CLASSIFICATION) | DT__BIT(DT_DATA_MULTI_LABEL),
      "classification and multi_label" },
    { "train.sampler", BY_TASK, DT__BIT(DT_DATA_CLASSIFICATION), "classification" },
    { "train.distill.temperature", BY_TASK, ~DT__BIT(DT_DATA_REGRESSION), "tasks with labels" },
    { "train.average.decay", BY_AVERAGE, DT__BIT(DT_AVERAGE_EMA), "ema" },
    { "train.average.last", BY_AVERAGE, DT__BIT(DT_AVERAGE_EPOCHS), "epochs" },
    { "train.average.batches", BY_AVERAGE, ~DT__BIT(DT_AVERAGE_NONE), "ema and epochs" },
    { "train.spikes.deviations", BY_SPIKES, ~DT__BIT(DT_SPIKES_IGNORE), "skip, lower and stop" },
    { "train.spikes.window", BY_SPIKES, ~DT__BIT(DT_SPIKES_IGNORE), "skip, lower and stop" },
    { "train.spikes.factor", BY_SPIKES, DT__BIT(DT_SPIKES_LOWER), "lower" },
    { "data.augment.mixup", BY_FORMAT, DT__IMAGES, "images" },
    { "data.augment.cutmix", BY_FORMAT, DT__IMAGES, "images" },
    { "data.augment.mixup", BY_TASK, DT__BIT(DT_DATA_CLASSIFICATION), "classification" },
    { "data.augment.cutmix", BY_TASK, DT__BIT(DT_DATA_CLASSIFICATION), "classification" },
};

static bool is_read(const dt_recipe *r, int i)
{
    const bool sourced = r->options.data.format == DT_DATA_GIVEN && r->options.data.source != NULL;
    if (sourced && strcmp(limited[i].path, "data.validation") == 0) return true;
    const int chosen[] = { r->options.train.optimizer.name, r->options.train.schedule.name,
                           r->options.data.format,          r->options.data.task,
                           r->options.train.average.name,   r->options.train.spikes.policy };
    return (limited[i].choices & DT__BIT(chosen[limited[i].by])) != 0;
}

const char *dt__recipe_limited_by_format(int i, int format)
{
    if (i >= DT__COUNT_OF(limited)) return NULL;
    const bool excluded = limited[i].by == BY_FORMAT && !(limited[i].choices & DT__BIT(format));
    return excluded ? limited[i].path : "";
}

/* Keys of one input or output, which data.inputs and data.outputs replace. */
static const char *const alone[] = {
    "data.task",         "data.columns.target", "train.loss",      "train.class_weights",
    "train.sampler",     "train.metrics",       "train.quantiles", "train.huber_delta",
    "train.focal_gamma", "data.columns.inputs", "train.distill",
};

static bool is_replaced(const dt_recipe *r, int i)
{
    const dt_data_options *d = &r->options.data;
    return (strcmp(alone[i], "data.columns.inputs") == 0 ? d->n_inputs : d->n_outputs) > 0;
}

/* Whether the selected loss reads this setting of losses. */
static bool loss_reads(const dt_recipe *r, const char *path)
{
    const dt_data_options *d = &r->options.data;
    const char *key = strrchr(path, '.'), *loss = r->options.train.loss;
    for (int64_t i = 0; i < d->n_outputs; i++) {
        char own[48];
        snprintf(own, sizeof own, "data.outputs.%d.", (int)i);
        if (strncmp(path, own, strlen(own)) == 0) loss = d->outputs[i].loss;
    }
    return key == NULL || dt__loss_reads(loss, key + 1);
}

bool dt__recipe_applies(const dt_recipe *r, const char *path)
{
    for (int i = 0; i < DT__COUNT_OF(limited); i++) {
        if (strcmp(limited[i].path, path) == 0 && !is_read(r, i)) return false;
    }
    for (int i = 0; i < DT__COUNT_OF(alone); i++) {
        if (strcmp(alone[i], path) == 0 && is_replaced(r, i)) return false;
    }
    if (strncmp(path, "data.columns", 12) == 0 && !dt__recipe_has_tables(r)) return false;
    const int by = r->options.data.split.by;
    if (strcmp(path, "data.validation_order") == 0 && by != DT_SPLIT_AUTO && by != DT_SPLIT_FILE) {
        return false;
    }
    return loss_reads(r, path) && dt__rounding_applies(r, path) && !dt__recipe_is_idle(r, path);
}

static void check_alone(dt_recipe *r)
{
    for (int i = 0; i < DT__COUNT_OF(alone); i++) {
        dt__node *node = dt__given(r, alone[i]);
        if (node == NULL || !is_replaced(r, i)) continue;
        dt__complain(r, node,
                     "'%s' is for one input and output; 'data.inputs' and 'data.outputs' "
                     "say it of each",
                     alone[i]);
    }
}

void dt__recipe_check_limited(dt_recipe *r)
{
    for (int i = 0; i < DT__COUNT_OF(limited); i++) {
        dt__node *node = dt__given(r, limited[i].path);
        const char *by = chooser_path[limited[i].by];
        if (node == NULL || is_read(r, i) || dt__is_bad(r, by)) continue;
        dt__complain(r, node, "'%s' belongs to %s, which '%s' does not choose", limited[i].path,
                     limited[i].whose, by);
    }
    check_alone(r);
}
