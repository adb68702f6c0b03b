/* Checks of `train`: losses, the optimizer, and numbers of updates. */
#include "train/recipe/recipe.h"
#include "train/task/task.h"

#include <string.h>

/* Settings of one of detent's own losses. */
static const struct {
    const char *key;
    int loss;
} settings[] = {
    { "huber_delta", DT__LOSS_HUBER },
    { "focal_gamma", DT__LOSS_FOCAL },
    { "quantiles", DT__LOSS_QUANTILE },
};

/* NULL: the task's loss. */
static bool is_loss(const char *name, int kind)
{
    return name != NULL && dt__loss_kind(name) == kind;
}

bool dt__loss_reads(const char *name, const char *key)
{
    for (int i = 0; i < DT__COUNT_OF(settings); i++) {
        if (strcmp(settings[i].key, key) == 0) return is_loss(name, settings[i].loss);
    }
    return true;
}

/* Of a loss with this name (NULL: the task's) for a task: detent's own, or a registered one. */
static void check_loss(dt_recipe *r, const char *block, const char *name, int task)
{
    const char *path = dt__recipe_format(r, "%s.loss", block);
    dt__node *node = dt__given(r, path);
    if (dt__is_bad(r, path)) return;
    for (int i = 0; i < DT__COUNT_OF(settings); i++) {
        const char *key = dt__recipe_format(r, "%s.%s", block, settings[i].key);
        dt__node *set = dt__given(r, key);
        if (set == NULL || is_loss(name, settings[i].loss)) continue;
        dt__complain(r, set, "'%s' belongs to %s, which '%s' does not choose", key,
                     dt_loss_names[settings[i].loss], path);
    }
    if (node == NULL || name == NULL || dt_loss_named(r->ctx, name) != NULL) return;
    const int known = dt__loss_kind(name);
    const bool focal = known == DT__LOSS_FOCAL;
    const bool fits = focal ? task == DT_DATA_CLASSIFICATION || task == DT_DATA_SEGMENTATION ||
                                  task == DT_DATA_MULTI_LABEL
                            : task == DT_DATA_REGRESSION;
    if (dt_loss_names[known] == NULL) {
        char text[DT__MESSAGE_SIZE / 2];
        dt__loss_list(r->ctx, text, sizeof text);
        dt__complain(r, node, "'%s' is '%s'; there are %s" DT__PLUGIN_ADDS, path, name, text);
    } else if (!fits) {
        dt__complain(r, node, "'%s' belongs to %s, which '%s' does not choose", path,
                     focal ? "classification, segmentation and multi_label" : "regression",
                     strcmp(block, "train") == 0 ? "data.task"
                                                 : dt__recipe_format(r, "%s.task", block));
    }
}

static void check_losses(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (!dt__is_bad(r, "data.task") && d->n_outputs == 0) {
        check_loss(r, "train", r->options.train.loss, d->task);
    }
    for (int64_t i = 0; i < d->n_outputs; i++) {
        const char *block = dt__recipe_format(r, "data.outputs.%lld", (long long)i);
        if (dt__has_bad(r, block)) continue;
        check_loss(r, block, d->outputs[i].loss, d->outputs[i].task);
    }
}

/* What only the values of a loss's settings show. */
static void check_settings(dt_recipe *r)
{
    const dt_train_options *t = &r->options.train;
    dt__node *smoothing = dt__given(r, "train.label_smoothing");
    dt__node *levels = dt__given(r, "train.quantiles");
    if (smoothing != NULL && t->label_smoothing > 0 && is_loss(t->loss, DT__LOSS_FOCAL)) {
        dt__complain(r, smoothing, "'train.label_smoothing' and loss focal exclude each other");
    }
    dt__node *weights = dt__given(r, "train.class_weights");
    if (weights != NULL && t->class_weights.n == DT_WEIGHTS_BALANCED &&
        t->sampler == DT_SAMPLER_BALANCED) {
        dt__remark(r, weights,
                   "'train.class_weights' is balanced, and so is 'train.sampler': rare classes "
                   "count twice over; one of the two balances them");
    }
    if (smoothing != NULL && t->label_smoothing == 1) {
        dt__complain(r, smoothing,
                     "'train.label_smoothing' is 1: labels would not count; expected less");
    }
    for (int i = 1; levels != NULL && !dt__has_bad(r, "train.quantiles") && i < t->quantiles.n;
         i++) {
        if (t->quantiles.v[i] > t->quantiles.v[i - 1]) continue;
        dt__complain(r, dt__node_item(levels, i),
                     "'train.quantiles' must ascend: %g is not above %g", t->quantiles.v[i],
                     t->quantiles.v[i - 1]);
        return;
    }
}

/* Whether there is the optimizer that `own` names. */
static void check_own_optimizer(dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    dt__node *node = dt__given(r, "train.optimizer.own"),
             *name = dt__given(r, "train.optimizer.name");
    if (o->name != DT_OWN_OPTIMIZER || dt__is_bad(r, "train.optimizer")) return;
    if (node == NULL) {
        dt__complain(r, name,
                     "'train.optimizer.name' is own, so 'train.optimizer.own' must name "
                     "an optimizer that a plugin registers");
    } else if (dt_optimizer_named(r->ctx, o->own) == NULL) {
        dt__complain(r, node,
                     "'train.optimizer.own': no optimizer %s is registered" DT__PLUGIN_ADDS,
                     dt__recipe_quote(r, node));
    }
}

/* The largest product of rate and decay of a parameter, group by group. */
static double largest_decay(const dt_optimizer_options *o)
{
    double most = 1;
    for (int64_t i = 0; i < o->n_groups; i++) {
        const dt_parameter_group *g = &o->groups[i];
        if (!g->frozen && g->rate * g->weight_decay > most) most = g->rate * g->weight_decay;
    }
    return most * o->lr * o->weight_decay;
}

/* Refuses learning rates of 0, and those whose weight decay alone would change the sign of
 * parameters. */
static void check_rates(dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    dt__node *rate = dt__given(r, "train.optimizer.lr");
    dt__node *decay = dt__given(r, "train.optimizer.weight_decay");
    if (dt__has_bad(r, "train.optimizer")) return;
    for (int64_t i = 0; i < o->n_groups; i++) {
        const char *path = dt__recipe_format(r, "train.optimizer.groups.%lld.rate", (long long)i);
        dt__node *node = dt__given(r, path);
        if (node == NULL || o->groups[i].rate > 0 || o->groups[i].frozen) continue;
        dt__complain(r, node, "'%s' is 0: 'frozen: true' says so, or expected a factor above 0",
                     path);
    }
    if (rate != NULL && o->lr == 0) {
        dt__remark(r, rate, "'train.optimizer.lr' is 0: no parameter is changed");
    }
    if (decay == NULL || (o->name != DT_ADAMW && o->name != DT_LION)) return;
    if (largest_decay(o) < 1) return;
    dt__complain(r, decay,
                 "'train.optimizer.weight_decay' times the rate is %g: each update multiplies "
                 "parameters by 1 less that; expected a product below 1",
                 largest_decay(o));
}

static void check_optimizer(dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    check_own_optimizer(r);
    check_rates(r);
    dt__node *node = dt__given(r, "train.optimizer.nesterov");
    if (node != NULL && o->nesterov && (o->momentum == 0 || o->dampening != 0) &&
        !dt__is_bad(r, "train.optimizer.momentum") && !dt__is_bad(r, "train.optimizer.dampening")) {
        dt__complain(r, node,
                     "'train.optimizer.nesterov' needs a momentum above 0 and no dampening");
    }
}

/* `path` counts updates and must be below `limit`, the value of key `of`; value 0: not set. */
static void check_below(dt_recipe *r, const char *path, int64_t value, const char *of,
                        int64_t limit)
{
    dt__node *node = dt__given(r, path);
    if (node == NULL || limit == 0 || value < limit || dt__is_bad(r, of)) return;
    dt__complain(r, node, "'%s' is %lld, but '%s' ends it at %lld", path, (long long)value, of,
                 (long long)limit);
}

/* Both keys may be given if one is 0, as in the recipe that a run saves. */
static void check_start(dt_recipe *r)
{
    const dt_qat_schedule *q = &r->options.qat_schedule;
    dt__node *share = dt__given(r, "qat.start_share");
    if (share == NULL || q->start_share == 0 || q->start_step == 0) return;
    if (dt__is_bad(r, "qat.start_share") || dt__is_bad(r, "qat.start_step")) return;
    dt__complain(r, share,
                 "'qat.start_share' and 'qat.start_step' exclude each other: both say when QAT "
                 "begins; ~qat.start_step leaves that one out");
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
    check_start(r);
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

void dt__recipe_check_train(dt_recipe *r)
{
    check_optimizer(r);
    check_losses(r);
    check_settings(r);
    check_steps(r);
    check_milestones(r);
}
