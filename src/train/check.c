/* Checks that the tables cannot express: keys that depend on each other, and files that must exist.
 *
 * Every error is at a key that was given. A check is skipped if one of its keys has an error
 * already. */
#include "data/data_options.h"
#include "io/gguf.h"
#include "train/recipe.h"
#include "train/task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- helpers ------------------------------------------------------------------------------ */

dt__node *dt__given(const dt_recipe *r, const char *path)
{
    dt__node *node = dt__node_at(r, path, NULL);
    return node == NULL || node->bad ? NULL : node;
}

bool dt__is_bad(const dt_recipe *r, const char *path)
{
    const dt__node *node = dt__node_at(r, path, NULL);
    return node != NULL && node->bad;
}

bool dt__has_bad(const dt_recipe *r, const char *path)
{
    const dt__node *map = dt__node_at(r, path, NULL);
    const dt__node *child = map == NULL ? NULL : map->first;
    while (child != NULL && !child->bad) child = child->next;
    return child != NULL;
}

/* ---- keys that only some choices read ----------------------------------------------------- */

typedef enum chooser {
    BY_OPTIMIZER,
    BY_SCHEDULE,
    BY_FORMAT,
    BY_TASK,
    BY_AVERAGE,
    BY_SPIKES
} chooser;

#define BIT(choice) (1U << (choice))
#define FOLDERS (BIT(DT_DATA_PNG) | BIT(DT_DATA_FOLDER))
#define IMAGE_FILES (BIT(DT_DATA_IDX) | BIT(DT_DATA_CIFAR10) | BIT(DT_DATA_CIFAR100) | FOLDERS)
#define TEXTS (BIT(DT_DATA_TEXT) | BIT(DT_DATA_TOKENS) | BIT(DT_DATA_JSONL))
#define GIVEN BIT(DT_DATA_GIVEN)
#define TENSORS BIT(DT_DATA_TENSORS)
#define FILES (IMAGE_FILES | TEXTS | TENSORS)
#define DRAWN_ARRAYS (BIT(DT_DATA_SOUNDS) | BIT(DT_DATA_SENSORS) | BIT(DT_DATA_TABLE))
#define ARRAYS (TENSORS | DRAWN_ARRAYS)
#define DRAWN (BIT(DT_DATA_DIGITS) | BIT(DT_DATA_ADDER) | DRAWN_ARRAYS)
#define IMAGES (IMAGE_FILES | BIT(DT_DATA_DIGITS))
#define ADAMS (BIT(DT_ADAM) | BIT(DT_ADAMW))
#define STEPS (BIT(DT_CONSTANT) | BIT(DT_STEP) | BIT(DT_MULTISTEP))
#define PLATEAU BIT(DT_PLATEAU)

static const char *const chooser_path[] = { "train.optimizer.name", "train.schedule.name",
                                            "data.format",          "data.task",
                                            "train.average.name",   "train.spikes.policy" };

static const struct {
    const char *path;
    chooser by;
    unsigned choices;
    const char *whose;
} limited[] = {
    { "train.optimizer.momentum", BY_OPTIMIZER, BIT(DT_SGD), "sgd" },
    { "train.optimizer.dampening", BY_OPTIMIZER, BIT(DT_SGD), "sgd" },
    { "train.optimizer.nesterov", BY_OPTIMIZER, BIT(DT_SGD), "sgd" },
    { "train.optimizer.beta1", BY_OPTIMIZER, ADAMS | BIT(DT_LION), "adam, adamw and lion" },
    { "train.optimizer.beta2", BY_OPTIMIZER, ADAMS | BIT(DT_LION), "adam, adamw and lion" },
    { "train.optimizer.eps", BY_OPTIMIZER, ADAMS, "adam and adamw" },
    { "train.schedule.floor", BY_SCHEDULE, ~STEPS,
      "schedules other than constant, step, multistep" },
    { "train.schedule.gamma", BY_SCHEDULE, (STEPS | PLATEAU) & ~BIT(DT_CONSTANT),
      "step, multistep and plateau" },
    { "train.schedule.every", BY_SCHEDULE, BIT(DT_STEP) | BIT(DT_COSINE_RESTARTS),
      "step and cosine_restarts" },
    { "train.schedule.milestones", BY_SCHEDULE, BIT(DT_MULTISTEP), "multistep" },
    { "train.schedule.growth", BY_SCHEDULE, BIT(DT_COSINE_RESTARTS), "cosine_restarts" },
    { "train.schedule.power", BY_SCHEDULE, BIT(DT_POLYNOMIAL), "polynomial" },
    { "train.schedule.rise", BY_SCHEDULE, BIT(DT_ONE_CYCLE), "one_cycle" },
    { "train.schedule.start", BY_SCHEDULE, BIT(DT_ONE_CYCLE), "one_cycle" },
    { "train.schedule.decay_steps", BY_SCHEDULE, BIT(DT_WARMUP_STABLE_DECAY),
      "warmup_stable_decay" },
    { "train.schedule.patience", BY_SCHEDULE, PLATEAU, "plateau" },
    { "train.schedule.least_improvement", BY_SCHEDULE, PLATEAU, "plateau" },
    { "train.schedule.cooldown", BY_SCHEDULE, PLATEAU, "plateau" },
    { "data.dir", BY_FORMAT, FILES, "formats of files" },
    { "data.train", BY_FORMAT, FILES, "formats of files" },
    { "data.test", BY_FORMAT, FILES, "formats of files" },
    { "data.train_count", BY_FORMAT, IMAGES | DRAWN, "images and drawn data" },
    { "data.test_count", BY_FORMAT, IMAGES | DRAWN, "images and drawn data" },
    { "data.task", BY_FORMAT, IMAGES | ARRAYS, "images and arrays" },
    { "data.features", BY_FORMAT, BIT(DT_DATA_SOUNDS) | TENSORS, "sounds and tensors" },
    { "data.mean", BY_FORMAT, IMAGES, "images" },
    { "data.deviation", BY_FORMAT, IMAGES, "images" },
    { "data.augment", BY_FORMAT, IMAGES | ARRAYS, "images and arrays" },
    { "data.tokenizer", BY_FORMAT, TEXTS, "text, tokens and jsonl" },
    { "data.context", BY_FORMAT, TEXTS, "text, tokens and jsonl" },
    { "data.prompt", BY_FORMAT, BIT(DT_DATA_JSONL), "jsonl" },
    { "data.completion", BY_FORMAT, BIT(DT_DATA_JSONL), "jsonl" },
    { "train.mask", BY_FORMAT, BIT(DT_DATA_JSONL) | BIT(DT_DATA_ADDER) | GIVEN,
      "prompts with completions" },
    { "data.split", BY_FORMAT, TENSORS, "tensors" },
    { "data.columns", BY_FORMAT, TENSORS, "tensors" },
    { "data.inputs", BY_FORMAT, TENSORS, "tensors" },
    { "data.outputs", BY_FORMAT, TENSORS, "tensors" },
    { "data.window", BY_FORMAT, TENSORS, "tensors" },
    { "data.standardize", BY_FORMAT, ARRAYS, "arrays" },
    { "data.labels", BY_FORMAT, BIT(DT_DATA_CIFAR100), "cifar100" },
    { "data.channels", BY_FORMAT, FOLDERS, "png and folder" },
    { "data.size", BY_FORMAT, FOLDERS, "png and folder" },
    { "data.source", BY_FORMAT, GIVEN, "given" },
    { "data.seed", BY_FORMAT, DRAWN, "drawn data" },
    { "data.validation", BY_FORMAT, FILES | DRAWN, "formats other than given" },
    { "data.noise", BY_TASK, BIT(DT_DATA_DENOISING), "denoising" },
    { "train.class_weights", BY_TASK, BIT(DT_DATA_CLASSIFICATION) | BIT(DT_DATA_MULTI_LABEL),
      "classification and multi_label" },
    { "train.sampler", BY_TASK, BIT(DT_DATA_CLASSIFICATION), "classification" },
    { "train.distill.temperature", BY_TASK, ~BIT(DT_DATA_REGRESSION), "tasks with labels" },
    { "train.average.decay", BY_AVERAGE, BIT(DT_AVERAGE_EMA), "ema" },
    { "train.average.last", BY_AVERAGE, BIT(DT_AVERAGE_EPOCHS), "epochs" },
    { "train.average.batches", BY_AVERAGE, ~BIT(DT_AVERAGE_NONE), "ema and epochs" },
    { "train.spikes.deviations", BY_SPIKES, ~BIT(DT_SPIKES_IGNORE), "skip, lower and stop" },
    { "train.spikes.window", BY_SPIKES, ~BIT(DT_SPIKES_IGNORE), "skip, lower and stop" },
    { "train.spikes.factor", BY_SPIKES, BIT(DT_SPIKES_LOWER), "lower" },
    { "data.augment.mixup", BY_FORMAT, IMAGES, "images" },
    { "data.augment.cutmix", BY_FORMAT, IMAGES, "images" },
    { "data.augment.mixup", BY_TASK, BIT(DT_DATA_CLASSIFICATION), "classification" },
    { "data.augment.cutmix", BY_TASK, BIT(DT_DATA_CLASSIFICATION), "classification" },
};

static bool is_read(const dt_recipe *r, int i)
{
    const bool sourced = r->options.data.format == DT_DATA_GIVEN && r->options.data.source != NULL;
    if (sourced && strcmp(limited[i].path, "data.validation") == 0) return true;
    const int chosen[] = { r->options.train.optimizer.name, r->options.train.schedule.name,
                           r->options.data.format,          r->options.data.task,
                           r->options.train.average.name,   r->options.train.spikes.policy };
    return (limited[i].choices & BIT(chosen[limited[i].by])) != 0;
}

/* Keys of one input or output, which data.inputs and data.outputs replace. */
static const char *const alone[] = {
    "data.task",           "data.columns.target", "train.loss",
    "train.class_weights", "train.sampler",       "train.metrics",
    "train.huber_delta",   "data.columns.inputs", "train.distill",
};

static bool is_replaced(const dt_recipe *r, int i)
{
    const dt_data_options *d = &r->options.data;
    return (strcmp(alone[i], "data.columns.inputs") == 0 ? d->n_inputs : d->n_outputs) > 0;
}

static bool is_huber(const char *loss) { return loss != NULL && strcmp(loss, "huber") == 0; }

/* Whether a huber_delta belongs to a loss that is huber. */
static bool has_delta(const dt_recipe *r, const char *path)
{
    const dt_data_options *d = &r->options.data;
    if (strcmp(path, "train.huber_delta") == 0) return is_huber(r->options.train.loss);
    for (int64_t i = 0; i < d->n_outputs; i++) {
        char own[48];
        snprintf(own, sizeof own, "data.outputs.%d.huber_delta", (int)i);
        if (strcmp(path, own) == 0) return is_huber(d->outputs[i].loss);
    }
    return true;
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
    return has_delta(r, path) && dt__rounding_applies(r, path);
}

static void check_limited(dt_recipe *r)
{
    for (int i = 0; i < DT__COUNT_OF(limited); i++) {
        dt__node *node = dt__given(r, limited[i].path);
        const char *by = chooser_path[limited[i].by];
        if (node == NULL || is_read(r, i) || dt__is_bad(r, by)) continue;
        dt__complain(r, node, "'%s' belongs to %s, which '%s' does not choose", limited[i].path,
                     limited[i].whose, by);
    }
}

/* ---- training ----------------------------------------------------------------------------- */

/* Of a loss with this name (NULL: the task's) for a task: detent's own, or a registered one. */
static void check_loss(dt_recipe *r, const char *block, const char *name, bool regression)
{
    const char *path = dt__recipe_format(r, "%s.loss", block);
    const char *delta = dt__recipe_format(r, "%s.huber_delta", block);
    dt__node *node = dt__given(r, path), *delta_node = dt__given(r, delta);
    if (dt__is_bad(r, path)) return;
    if (delta_node != NULL && !is_huber(name)) {
        dt__complain(r, delta_node, "'%s' belongs to huber, which '%s' does not choose", delta,
                     path);
    }
    if (node == NULL || name == NULL || dt_loss_named(r->ctx, name) != NULL) return;
    int known = 0;
    while (dt_loss_names[known] != NULL && strcmp(dt_loss_names[known], name) != 0) known++;
    if (dt_loss_names[known] == NULL) {
        char text[DT__MESSAGE_SIZE / 2];
        dt__loss_list(r->ctx, text, sizeof text);
        dt__complain(r, node, "'%s' is '%s'; there are %s", path, name, text);
    } else if (!regression) {
        dt__complain(r, node, "'%s' belongs to regression, which '%s' does not choose", path,
                     strcmp(block, "train") == 0 ? "data.task"
                                                 : dt__recipe_format(r, "%s.task", block));
    }
}

static void check_losses(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (!dt__is_bad(r, "data.task") && d->n_outputs == 0) {
        check_loss(r, "train", r->options.train.loss, d->task == DT_DATA_REGRESSION);
    }
    for (int64_t i = 0; i < d->n_outputs; i++) {
        const char *block = dt__recipe_format(r, "data.outputs.%lld", (long long)i);
        if (dt__has_bad(r, block)) continue;
        check_loss(r, block, d->outputs[i].loss, d->outputs[i].task == DT_DATA_REGRESSION);
    }
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

static void check_optimizer(dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    dt__node *node = dt__given(r, "train.optimizer.nesterov");
    if (node != NULL && o->nesterov && (o->momentum == 0 || o->dampening != 0) &&
        !dt__is_bad(r, "train.optimizer.momentum") && !dt__is_bad(r, "train.optimizer.dampening")) {
        dt__complain(r, node,
                     "'train.optimizer.nesterov' needs a momentum above 0 and no dampening");
    }
}

/* `path` counts updates and must be below `limit`, the value of the key `of`; 0: not set. */
static void check_below(dt_recipe *r, const char *path, int64_t value, const char *of,
                        int64_t limit)
{
    dt__node *node = dt__given(r, path);
    if (node == NULL || limit == 0 || value < limit || dt__is_bad(r, of)) return;
    dt__complain(r, node, "'%s' is %lld, but '%s' ends it at %lld", path, (long long)value, of,
                 (long long)limit);
}

static void check_steps(dt_recipe *r)
{
    const dt_train_options *t = &r->options.train;
    const char *warmup = "train.schedule.warmup_steps";
    check_below(r, warmup, t->schedule.warmup_steps, "train.schedule.total_steps",
                t->schedule.total_steps);
    check_below(r, warmup, t->schedule.warmup_steps, "train.steps", t->steps);
    const char *decay = "train.schedule.decay_steps";
    check_below(r, decay, t->schedule.decay_steps, "train.schedule.total_steps",
                t->schedule.total_steps);
    check_below(r, decay, t->schedule.decay_steps, "train.steps", t->steps);
    check_below(r, "qat.start_step", r->options.qat_schedule.start_step, "train.steps", t->steps);
}

/* Milestones are needed by multistep, and ascend. */
static void check_milestones(dt_recipe *r)
{
    const dt_ints *at = &r->options.train.schedule.milestones;
    const char *path = "train.schedule.milestones";
    dt__node *name = dt__given(r, "train.schedule.name"), *list = dt__given(r, path);
    if (name != NULL && r->options.train.schedule.name == DT_MULTISTEP && at->n == 0 &&
        !dt__is_bad(r, path) && !dt__has_bad(r, path)) {
        dt__complain(r, name, "schedule multistep needs '%s', the updates at which it steps", path);
    }
    for (int i = 1; list != NULL && !dt__has_bad(r, path) && i < at->n; i++) {
        if (at->v[i] > at->v[i - 1]) continue;
        dt__complain(r, dt__node_item(list, i), "'%s' must ascend: %lld is not above %lld", path,
                     (long long)at->v[i], (long long)at->v[i - 1]);
        return;
    }
}

/* Without a file the teacher is the model itself at qat.start_step. */
static void check_distill(dt_recipe *r)
{
    const dt_recipe_options *o = &r->options;
    dt__node *node = dt__given(r, "train.distill");
    if (node == NULL || r->only_quantizes || o->train.distill.teacher != NULL) return;
    if (dt__is_bad(r, "train.distill.teacher") || dt__is_bad(r, "qat.start_step")) return;
    if (!o->qat.given) {
        dt__complain(r, node,
                     "'train.distill' has no teacher: without 'train.distill.teacher' that is the "
                     "model before it is quantized, and there is no 'qat'");
    } else if (o->qat_schedule.start_step == 0 && o->model.init == NULL) {
        dt__complain(r, node,
                     "'train.distill' has no teacher: at 'qat.start_step' 0 the weights are drawn, "
                     "not trained; 'model.init' or 'train.distill.teacher' would give one");
    }
}

static void check_backward(dt_recipe *r)
{
    const dt_recipe_options *o = &r->options;
    dt__node *node = dt__given(r, "train.backward");
    if (node == NULL || r->only_quantizes || o->train.backward == DT_BACKWARD_FLOAT) return;
    if (!o->qat.given) {
        dt__complain(r, node, "'train.backward' is about quantized layers, and there is no 'qat'");
    } else if (o->qat.forward == DT_FORWARD_SIMULATED) {
        dt__complain(r, node,
                     "'train.backward' multiplies the integers of 'qat.forward: integer', "
                     "which here is simulated");
    }
}

static void check_baseline(dt_recipe *r)
{
    dt__node *node = dt__given(r, "train.float_baseline");
    if (node != NULL && r->options.train.float_baseline && dt__node_at(r, "qat", NULL) == NULL) {
        dt__complain(r, node, "'train.float_baseline' compares with 'qat', which is not there");
    }
}

/* ---- data and files ----------------------------------------------------------------------- */

/* Tasks of tensors and of images. */
static void check_task(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *node = dt__given(r, "data.task");
    if (node == NULL || dt__is_bad(r, "data.format") || !((IMAGES | ARRAYS) & BIT(d->format)) ||
        dt__task_fits(d->format, d->task)) {
        return;
    }
    if (d->format == DT_DATA_TENSORS) {
        dt__complain(r, node,
                     "'data.task' %s is for images; tensors have classification, regression, "
                     "multi_label and anomaly",
                     node->text);
        return;
    }
    const dt_key *format = dt_data_keys;
    while (strcmp(format->name, "format") != 0) format++;
    const char *list = "";
    for (int i = 0; format->choices[i] != NULL; i++) {
        if (!dt__task_fits(i, d->task)) continue;
        list = dt__recipe_format(r, "%s%s%s", list, *list == 0 ? "" : " or ", format->choices[i]);
    }
    dt__complain(r, node, "'data.task' %s needs 'data.format' %s", node->text, list);
}

/* Maps of files are of tensors, and so are files to validate. */
static void check_forms(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    static const char *const paths[] = { "data.train", "data.validation", "data.test" };
    if (dt__is_bad(r, "data.format") || d->format == DT_DATA_TENSORS) return;
    for (int i = 0; i < DT__COUNT_OF(paths); i++) {
        dt__node *node = dt__given(r, paths[i]);
        if (node == NULL || (node->kind != DT__MAP && (i != 1 || node->kind == DT__SCALAR)))
            continue;
        dt__complain(r, node, "'%s' names arrays, which are 'data.format' tensors", paths[i]);
    }
}

/* Lists of numbers come in pairs; a share of recordings needs a share. */
static void check_tensors(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *map = dt__given(r, "data.standardize"), *split = dt__given(r, "data.split");
    if (map != NULL && d->standard.given && !dt__has_bad(r, "data.standardize") &&
        (d->standard.mean.n == 0) != (d->standard.deviation.n == 0)) {
        dt__complain(r, map, "'data.standardize' has %s alone; both are wanted, or neither",
                     d->standard.mean.n == 0 ? "a deviation" : "a mean");
    }
    if (split != NULL && d->split == DT_SPLIT_RECORDINGS && d->validation == 0 &&
        !dt__is_bad(r, "data.validation")) {
        dt__complain(r, split, "'data.split' cuts a share, but 'data.validation' is none");
    }
}

/* How many files each part of the data has in this format; 0: any number. */
static bool is_folder_format(int format) { return (FOLDERS & BIT(format)) != 0; }

static int names_wanted(int format)
{
    return format == DT_DATA_IDX ? 2 : is_folder_format(format) || format == DT_DATA_TOKENS ? 1 : 0;
}

static void check_source(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (dt__node_at(r, "data.train", NULL) != NULL) return;
    if (dt__node_at(r, "data", NULL) == NULL) {
        dt_recipe_refuse(r, "data",
                         "missing 'data', which says what is read: its format and files");
        return;
    }
    const bool only_test = r->needs_data && dt__node_at(r, "data.test", NULL) != NULL;
    if (only_test && ((TEXTS & BIT(d->format)) != 0 || d->format == DT_DATA_IDX)) return;
    if (d->format == DT_DATA_TENSORS) {
        dt_recipe_refuse(r, "data",
                         "format tensors needs 'data.train': {x: FILE, y: FILE}, or a list of "
                         "recordings");
    } else if (TEXTS & BIT(d->format)) {
        dt_recipe_refuse(r, "data", "this format needs 'data.train', a list of files");
    } else if (d->format == DT_DATA_IDX) {
        dt_recipe_refuse(r, "data",
                         "format idx needs 'data.train', a list of two files, images "
                         "and labels");
    } else if (dt__node_at(r, "data.dir", NULL) == NULL) {
        dt_recipe_refuse(r, "data", "format %s needs 'data.dir', the folder of its %s",
                         d->format == DT_DATA_CIFAR10    ? "cifar10"
                         : d->format == DT_DATA_CIFAR100 ? "cifar100"
                                                         : "png",
                         is_folder_format(d->format) ? "folders train and test" : "files");
    }
}

static void check_data(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const char *const paths[] = { "data.train", "data.test" };
    const dt_strings *const lists[] = { &d->train, &d->test };
    if (dt__is_bad(r, "data") || dt__is_bad(r, "data.format")) return;
    if ((DRAWN | GIVEN) & BIT(d->format)) return;
    if (r->only_quantizes && !r->needs_data && dt__node_at(r, "data", NULL) == NULL) return;
    check_source(r);
    const int wanted = names_wanted(d->format);
    for (int i = 0; i < 2; i++) {
        dt__node *node = dt__given(r, paths[i]);
        if (node == NULL || wanted == 0 || lists[i]->n == wanted) continue;
        if (i == 0 && r->needs_data && d->test.n > 0) continue; /* evaluation does not read it */
        dt__complain(r, node, "'%s' wants %s, not %d", paths[i],
                     wanted == 2                   ? "two files, images and labels"
                     : d->format == DT_DATA_TOKENS ? "one file"
                                                   : "one folder",
                     lists[i]->n);
    }
    dt__node *channels = dt__given(r, "data.channels");
    if (channels == NULL || !is_folder_format(d->format) || d->channels != 2) return;
    dt__complain(r, channels, "'data.channels' must be 1 (grey) or 3 (red, green, blue), not 2");
}

/* Files of ids need no tokenizer; if one is given, it must be a file. */
static void check_tokenizer(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *node = dt__given(r, "data.tokenizer");
    if (node == NULL || d->format != DT_DATA_TOKENS || dt__is_bad(r, "data.format")) return;
    if (r->needs_data) return; /* the checks below are about training text */
    if (strcmp(d->tokenizer, "bytes") != 0 && strcmp(d->tokenizer, "chars") != 0) return;
    dt__complain(r, node, "'data.tokenizer' of format tokens is a file, not %s", d->tokenizer);
}

/* Complains unless `name` exists and is a file or folder as wanted. Other errors are found when it
 * is opened. */
static void check_exists(dt_recipe *r, const char *path, const char *name, bool is_folder)
{
    struct stat found;
    dt__node *node = dt__given(r, path);
    if (node == NULL || r->leave_files) return;
    const char *shown = dt__recipe_quote_text(r, name, strlen(name));
    if (stat(name, &found) != 0) {
        if (errno != ENOENT && errno != ENOTDIR) return;
        dt__complain(r, node, "'%s': no such %s: %s", path, is_folder ? "folder" : "file", shown);
    } else if (S_ISDIR(found.st_mode) != is_folder) {
        dt__complain(r, node, "'%s': %s is %s", path, shown,
                     is_folder ? "a file, not a folder" : "a folder, not a file");
    }
}

/* The file of FILE or FILE:NAME. */
static const char *without_part(dt_recipe *r, const char *name)
{
    const char *colon = strstr(name, ".npz:");
    if (colon == NULL) colon = strstr(name, ".safetensors:");
    if (colon == NULL) return name;
    return dt__recipe_format(r, "%.*s", (int)(strchr(colon, ':') - name), name);
}

static void check_data_files(dt_recipe *r, const char *path, const dt_strings *names)
{
    const char *dir = r->options.data.dir;
    for (int i = 0; i < names->n && !r->out_of_memory; i++) {
        const char *name = names->v[i];
        if (name == NULL) continue;
        if (r->options.data.format == DT_DATA_TENSORS) {
            if (strpbrk(name, "*?") != NULL) continue;
            name = without_part(r, name);
        }
        if (dir != NULL && *dir != 0 && *name != '/') {
            const char *between = dir[strlen(dir) - 1] == '/' ? "" : "/";
            name = dt__recipe_format(r, "%s%s%s", dir, between, name);
        }
        const char *at = dt__recipe_format(r, "%s.%d", path, i);
        check_exists(r, dt__node_at(r, at, NULL) == NULL ? path : at, name,
                     is_folder_format(r->options.data.format));
    }
}

static void check_tensor_files(dt_recipe *r, const char *path, const dt_tensor_files *files)
{
    const dt_strings y = { files->y != NULL, { files->y } };
    if (!files->given || dt__has_bad(r, path)) return;
    check_data_files(r, dt__recipe_join(r, path, "x"), &files->x);
    check_data_files(r, dt__recipe_join(r, path, "y"), &y);
}

/* Checks that data.dir contains the first of the default file names. */
static void check_usual(dt_recipe *r)
{
    struct stat found;
    const dt_data_options *d = &r->options.data;
    const char *name = is_folder_format(d->format)     ? "train"
                       : d->format == DT_DATA_CIFAR10  ? "data_batch_1.bin"
                       : d->format == DT_DATA_CIFAR100 ? "train.bin"
                                                       : NULL;
    dt__node *node = dt__given(r, "data.dir");
    if (name == NULL || node == NULL || r->leave_files || d->train.n > 0) return;
    if (dt__has_bad(r, "data")) return;
    const char *between = d->dir[strlen(d->dir) - 1] == '/' ? "" : "/";
    const char *path = dt__recipe_format(r, "%s%s%s", d->dir, between, name);
    if (stat(path, &found) == 0 || (errno != ENOENT && errno != ENOTDIR)) return;
    if (stat(dt__recipe_format(r, "%s.gz", path), &found) == 0) return;
    dt__complain(r, node, "'data.dir': no such %s: %s",
                 is_folder_format(d->format) ? "folder" : "file",
                 dt__recipe_quote_text(r, path, strlen(path)));
}

/* data.mean and data.std are statistics of bytes, before scaling. */
static void check_scaling(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const char *const paths[] = { "data.mean", "data.deviation" };
    const dt_reals *const lists[] = { &d->mean, &d->deviation };
    for (int i = 0; i < 2; i++) {
        dt__node *node = dt__given(r, paths[i]);
        for (int k = 0; node != NULL && k < lists[i]->n; k++) {
            const double value = lists[i]->v[k];
            if (value <= (i == 0 ? 1 : 2)) continue;
            dt__remark(r, node, "'%s' is %g, but bytes are 0 to 1 before it: %g/255 is %.4g",
                       paths[i], value, value, value / 255);
            break;
        }
    }
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static void check_files(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (r->options.model.init != NULL) {
        check_exists(r, "model.init", r->options.model.init,
                     r->init_options != NULL && !dt__is_gguf(r->options.model.init));
    }
    if (r->options.train.distill.teacher != NULL) {
        const char *teacher = r->options.train.distill.teacher;
        check_exists(r, "train.distill.teacher", teacher, is_folder(teacher));
    }
    if (dt__is_bad(r, "data.format") || ((DRAWN | GIVEN) & BIT(d->format))) return;
    if (d->tokenizer != NULL && strcmp(d->tokenizer, "bytes") != 0 &&
        strcmp(d->tokenizer, "chars") != 0) {
        check_exists(r, "data.tokenizer", d->tokenizer, false);
    }
    if (d->dir != NULL) check_exists(r, "data.dir", d->dir, true);
    if (dt__is_bad(r, "data.dir")) return;
    check_usual(r);
    check_data_files(r, "data.train", &d->train);
    check_data_files(r, "data.test", &d->test);
    check_data_files(r, "data.validation", &d->validation_files);
    check_tensor_files(r, "data.train", &d->train_tensors);
    check_tensor_files(r, "data.test", &d->test_tensors);
    check_tensor_files(r, "data.validation", &d->validation_tensors);
}

/* Adds a fault in the options of the family at its key. */
static void add_fault(void *user, const char *path, const char *text)
{
    dt_recipe *r = user;
    const char *key = dt__recipe_format(r, "model.%s", path);
    dt_recipe_refuse(r, key, "'%s': %s", key, text);
}

static void check_family(dt_recipe *r)
{
    const dt_model_options *m = &r->options.model;
    if (m->family == NULL || m->family->check == NULL || dt__has_bad(r, "model")) return;
    if (r->model_lacks_key || r->init_unread ||
        (r->only_quantizes && dt__node_at(r, "model", NULL) == NULL))
        return;
    if (m->family->check(r->ctx, m->options, add_fault, r) != DT_OK) r->out_of_memory = true;
}

void dt__recipe_check(dt_recipe *r)
{
    static void (*const checks[])(dt_recipe *) = {
        check_limited,
        check_family,
        check_optimizer,
        check_losses,
        check_alone,
        check_steps,
        check_milestones,
        check_baseline,
        dt__recipe_check_ranges,
        dt__recipe_check_quant,
        dt__recipe_check_init,
        dt__recipe_check_pack,
        check_distill,
        check_backward,
        check_task,
        check_forms,
        check_tensors,
        dt__recipe_check_columns,
        check_data,
        check_scaling,
        check_tokenizer,
        check_files,
    };
    if (r->root->kind != DT__MAP) return;
    for (int i = 0; i < DT__COUNT_OF(checks) && !r->out_of_memory; i++) checks[i](r);
}
