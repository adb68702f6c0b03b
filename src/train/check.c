/* What the tables cannot say: keys that depend on each other, and files that must exist.
 *
 * Every check points at a key that was given; one whose keys were refused already is left out. */
#include "train/recipe.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* ---- helpers ------------------------------------------------------------------------------ */

/* The key at `path`, if it was given and nothing was wrong with it so far. */
static dt__node *given(const dt_recipe *r, const char *path)
{
    dt__node *node = dt__node_at(r, path, NULL);
    return node == NULL || node->bad ? NULL : node;
}

static bool is_bad(const dt_recipe *r, const char *path)
{
    const dt__node *node = dt__node_at(r, path, NULL);
    return node != NULL && node->bad;
}

/* ---- keys that only some choices read ----------------------------------------------------- */

typedef enum chooser { BY_OPTIMIZER, BY_SCHEDULE, BY_FORMAT, BY_TASK } chooser;

#define BIT(choice) (1U << (choice))
#define FILES (BIT(DT_DATA_IDX) | BIT(DT_DATA_CIFAR10) | BIT(DT_DATA_CIFAR100) | BIT(DT_DATA_PNG))
#define ADAMS (BIT(DT_ADAM) | BIT(DT_ADAMW))

static const char *const chooser_path[] = { "train.optimizer.name", "train.schedule.name",
                                            "data.format", "data.task" };

static const struct {
    const char *path;
    chooser by;
    unsigned choices;
    const char *whose;
} limited[] = {
    { "train.optimizer.momentum", BY_OPTIMIZER, BIT(DT_SGD), "sgd" },
    { "train.optimizer.dampening", BY_OPTIMIZER, BIT(DT_SGD), "sgd" },
    { "train.optimizer.nesterov", BY_OPTIMIZER, BIT(DT_SGD), "sgd" },
    { "train.optimizer.beta1", BY_OPTIMIZER, ADAMS, "adam and adamw" },
    { "train.optimizer.beta2", BY_OPTIMIZER, ADAMS, "adam and adamw" },
    { "train.optimizer.eps", BY_OPTIMIZER, ADAMS, "adam and adamw" },
    { "train.schedule.floor", BY_SCHEDULE, BIT(DT_LINEAR) | BIT(DT_COSINE), "linear and cosine" },
    { "train.schedule.gamma", BY_SCHEDULE, BIT(DT_STEP), "step" },
    { "train.schedule.every", BY_SCHEDULE, BIT(DT_STEP), "step" },
    { "data.dir", BY_FORMAT, FILES, "idx, cifar10, cifar100 and png" },
    { "data.train", BY_FORMAT, FILES, "idx, cifar10, cifar100 and png" },
    { "data.test", BY_FORMAT, FILES, "idx, cifar10, cifar100 and png" },
    { "data.labels", BY_FORMAT, BIT(DT_DATA_CIFAR100), "cifar100" },
    { "data.channels", BY_FORMAT, BIT(DT_DATA_PNG), "png" },
    { "data.seed", BY_FORMAT, BIT(DT_DATA_DIGITS), "digits" },
    { "data.noise", BY_TASK, BIT(DT_DATA_DENOISING), "denoising" },
};

static bool is_read(const dt_recipe *r, int i)
{
    const int chosen[] = { r->options.train.optimizer.name, r->options.train.schedule.name,
                           r->options.data.format, r->options.data.task };
    return (limited[i].choices & BIT(chosen[limited[i].by])) != 0;
}

bool dt__recipe_applies(const dt_recipe *r, const char *path)
{
    for (int i = 0; i < DT__COUNT_OF(limited); i++) {
        if (strcmp(limited[i].path, path) == 0) return is_read(r, i);
    }
    return true;
}

static void check_limited(dt_recipe *r)
{
    for (int i = 0; i < DT__COUNT_OF(limited); i++) {
        dt__node *node = given(r, limited[i].path);
        const char *by = chooser_path[limited[i].by];
        if (node == NULL || is_read(r, i) || is_bad(r, by)) continue;
        dt__complain(r, node, "'%s' belongs to %s, which '%s' does not choose", limited[i].path,
                     limited[i].whose, by);
    }
}

/* ---- training ----------------------------------------------------------------------------- */

static void check_optimizer(dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    dt__node *node = given(r, "train.optimizer.nesterov");
    if (node != NULL && o->nesterov && (o->momentum == 0 || o->dampening != 0) &&
        !is_bad(r, "train.optimizer.momentum") && !is_bad(r, "train.optimizer.dampening")) {
        dt__complain(r, node,
                     "'train.optimizer.nesterov' needs a momentum above 0 and no dampening");
    }
}

/* `path` counts updates and must be below `limit`, which the key `of` sets; 0: not set. */
static void check_below(dt_recipe *r, const char *path, int64_t value, const char *of,
                        int64_t limit)
{
    dt__node *node = given(r, path);
    if (node == NULL || limit == 0 || value < limit || is_bad(r, of)) return;
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
    check_below(r, "qat.start_step", r->options.qat.start_step, "train.steps", t->steps);
}

static void check_baseline(dt_recipe *r)
{
    dt__node *node = given(r, "train.float_baseline");
    if (node != NULL && r->options.train.float_baseline && dt__node_at(r, "qat", NULL) == NULL) {
        dt__complain(r, node, "'train.float_baseline' compares with 'qat', which is not there");
    }
}

/* ---- quantization ------------------------------------------------------------------------- */

typedef struct operand {
    const char *path; /* "qat.weight", "qat.rules.2.activation" */
    bool is_weight;
    dt_quant quant; /* with the preset and the recipe's head in it */
} operand;

/* Complains at the first of `names` that this operand's map gives. */
static void refuse_operand(dt_recipe *r, const operand *o, const char *const names[3],
                           const char *words)
{
    for (int i = 0; i < 3 && names[i] != NULL; i++) {
        dt__node *node = given(r, dt__recipe_join(r, o->path, names[i]));
        if (node == NULL) continue;
        dt__complain(r, node, "'%s.%s': %s", o->path, names[i], words);
        return;
    }
}

/* Whether a key of the map at `path` was refused: what follows from it would be said twice. */
static bool has_bad(const dt_recipe *r, const char *path)
{
    const dt__node *map = dt__node_at(r, path, NULL);
    const dt__node *child = map == NULL ? NULL : map->first;
    while (child != NULL && !child->bad) child = child->next;
    return child != NULL;
}

static void check_operand(dt_recipe *r, const operand *o)
{
    if (has_bad(r, o->path) || has_bad(r, o->is_weight ? "qat.weight" : "qat.activation")) return;
    const dt_quant *q = &o->quant;
    const bool by_group = q->granularity == DT_PER_GROUP;
    const bool by_value = q->granularity == DT_PER_TOKEN || q->granularity == DT_PER_SAMPLE;
    const char *const by[3] = { "granularity" };
    if (o->is_weight && by_value) {
        refuse_operand(r, o, by, "weights are quantized by tensor, channel or group");
    }
    if (!o->is_weight && (by_group || q->granularity == DT_PER_CHANNEL)) {
        refuse_operand(r, o, by, "activations are quantized by tensor, token or sample");
    }
    if (o->is_weight && !by_group) {
        refuse_operand(r, o, (const char *const[3]){ "group_size" },
                       "only granularity group has a group size");
    }
    if (q->rule == DT_RULE_Q4_0 &&
        (q->bits != 4 || !by_group || q->group_size != 32 || !o->is_weight)) {
        refuse_operand(r, o, (const char *const[3]){ "bits", "group_size", "rule" },
                       "rule q4_0 is for weights of 4 bits in groups of 32");
    }
    const bool from_zero = q->range == DT_RANGE_LEARNED && !o->is_weight;
    if (q->is_unsigned && q->rule != DT_RULE_ASYMMETRIC && !from_zero) {
        refuse_operand(r, o, (const char *const[3]){ "unsigned", "rule" },
                       "unsigned codes need rule asymmetric");
    }
}

static void check_operands(dt_recipe *r, const char *path, const dt_quant *weight,
                           const dt_quant *activation)
{
    check_operand(r, &(operand){ dt__recipe_join(r, path, "weight"), true, *weight });
    check_operand(r, &(operand){ dt__recipe_join(r, path, "activation"), false, *activation });
}

static void check_rule(dt_recipe *r, const char *path)
{
    dt__node *node = given(r, path);
    if (node == NULL || node->kind != DT__MAP || node->count != 1) return;
    if (given(r, dt__recipe_join(r, path, "match")) == NULL) return;
    dt__complain(r, node,
                 "'%s' selects modules but says nothing of them: give it skip, weight or "
                 "activation",
                 path);
}

static void check_qat(dt_recipe *r)
{
    const dt_qat_options *q = &r->options.qat;
    if (given(r, "qat") == NULL || is_bad(r, "qat.preset")) return;
    dt_quant weight, activation;
    dt_qat_preset(q->preset, &weight, &activation);
    dt_quant_apply(&weight, &q->weight);
    dt_quant_apply(&activation, &q->activation);
    check_operands(r, "qat", &weight, &activation);
    for (int64_t i = 0; i < q->n_rules && !r->out_of_memory; i++) {
        dt_quant w = weight, a = activation;
        dt_quant_apply(&w, &q->rules[i].weight);
        dt_quant_apply(&a, &q->rules[i].activation);
        const char *path = dt__recipe_format(r, "qat.rules.%lld", (long long)i);
        check_operands(r, path, &w, &a);
        check_rule(r, path);
    }
}

/* ---- data and files ----------------------------------------------------------------------- */

static void check_task(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *node = given(r, "data.task");
    if (node == NULL || d->task != DT_DATA_SEGMENTATION || d->format == DT_DATA_DIGITS) return;
    if (is_bad(r, "data.format")) return;
    dt__complain(r, node,
                 "'data.task' segmentation needs 'data.format' digits: no other has masks");
}

/* How many names a part of the data has, by its format; 0: any. */
static int names_wanted(int format)
{
    return format == DT_DATA_IDX ? 2 : format == DT_DATA_PNG ? 1 : 0;
}

static void check_source(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (dt__node_at(r, "data.train", NULL) != NULL) return;
    if (d->format == DT_DATA_IDX) {
        dt_recipe_refuse(r, "data",
                         "format idx needs 'data.train', a list of two files, images "
                         "and labels");
    } else if (dt__node_at(r, "data.dir", NULL) == NULL) {
        dt_recipe_refuse(r, "data", "format %s needs 'data.dir', the folder of its %s",
                         d->format == DT_DATA_CIFAR10    ? "cifar10"
                         : d->format == DT_DATA_CIFAR100 ? "cifar100"
                                                         : "png",
                         d->format == DT_DATA_PNG ? "folders train and test" : "files");
    }
}

static void check_data(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const char *const paths[] = { "data.train", "data.test" };
    const dt_strings *const lists[] = { &d->train, &d->test };
    if (is_bad(r, "data") || is_bad(r, "data.format") || d->format == DT_DATA_DIGITS) return;
    check_source(r);
    const int wanted = names_wanted(d->format);
    for (int i = 0; i < 2; i++) {
        dt__node *node = given(r, paths[i]);
        if (node == NULL || wanted == 0 || lists[i]->n == wanted) continue;
        dt__complain(r, node, "'%s' wants %s, not %d", paths[i],
                     wanted == 2 ? "two files, images and labels" : "one folder", lists[i]->n);
    }
    dt__node *channels = given(r, "data.channels");
    if (channels == NULL || d->format != DT_DATA_PNG || d->channels != 2) return;
    dt__complain(r, channels, "'data.channels' must be 1 (grey) or 3 (red, green, blue), not 2");
}

/* Complains unless `name` exists and is what it should be. What cannot be told is left to whoever
 * opens it. */
static void check_exists(dt_recipe *r, const char *path, const char *name, bool is_folder)
{
    struct stat found;
    dt__node *node = given(r, path);
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

static void check_data_files(dt_recipe *r, const char *path, const dt_strings *names)
{
    const char *dir = r->options.data.dir;
    for (int i = 0; i < names->n && !r->out_of_memory; i++) {
        const char *name = names->v[i];
        if (name == NULL) continue;
        if (dir != NULL && *dir != 0 && *name != '/') {
            const char *between = dir[strlen(dir) - 1] == '/' ? "" : "/";
            name = dt__recipe_format(r, "%s%s%s", dir, between, name);
        }
        check_exists(r, dt__recipe_format(r, "%s.%d", path, i), name,
                     r->options.data.format == DT_DATA_PNG);
    }
}

static void check_files(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (r->options.model.init != NULL) {
        check_exists(r, "model.init", r->options.model.init, false);
    }
    if (is_bad(r, "data.format") || d->format == DT_DATA_DIGITS) return;
    if (d->dir != NULL) check_exists(r, "data.dir", d->dir, true);
    if (is_bad(r, "data.dir")) return;
    check_data_files(r, "data.train", &d->train);
    check_data_files(r, "data.test", &d->test);
}

void dt__recipe_check(dt_recipe *r)
{
    static void (*const checks[])(dt_recipe *) = {
        check_limited, check_optimizer, check_steps, check_baseline,
        check_qat,     check_task,      check_data,  check_files,
    };
    if (r->root->kind != DT__MAP) return;
    for (int i = 0; i < DT__COUNT_OF(checks) && !r->out_of_memory; i++) checks[i](r);
}
