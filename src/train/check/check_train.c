/* Checks of `train`: losses, the optimizer, and numbers of updates. */
#include "train/recipe/recipe.h"
#include "train/task/task.h"

#include <string.h>

bool dt__is_huber(const char *loss) { return loss != NULL && strcmp(loss, "huber") == 0; }

/* Of a loss with this name (NULL: the task's) for a task: detent's own, or a registered one. */
static void check_loss(dt_recipe *r, const char *block, const char *name, bool regression)
{
    const char *path = dt__recipe_format(r, "%s.loss", block);
    const char *delta = dt__recipe_format(r, "%s.huber_delta", block);
    dt__node *node = dt__given(r, path), *delta_node = dt__given(r, delta);
    if (dt__is_bad(r, path)) return;
    if (delta_node != NULL && !dt__is_huber(name)) {
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

void dt__recipe_check_train(dt_recipe *r)
{
    check_optimizer(r);
    check_losses(r);
    check_steps(r);
    check_milestones(r);
}
