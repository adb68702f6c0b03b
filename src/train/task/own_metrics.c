/* Losses and metrics that a program has registered, and the losses by name. */
#include "core/tensor.h"
#include "train/task/task.h"

#include <detent/ops.h>
#include <stdio.h>
#include <string.h>

/* Whether registered losses and metrics support targets of this kind. */
static bool compares(dt_target target)
{
    return target == DT_TARGET_CLASS || target == DT_TARGET_VALUES || target == DT_TARGET_BITS ||
           target == DT_TARGET_IMAGE || target == DT_TARGET_MASK;
}

int dt__loss_kind(const char *name)
{
    int i = 0;
    while (dt_loss_names[i] != NULL && strcmp(dt_loss_names[i], name) != 0) i++;
    return i;
}

static bool fits(int kind, dt_target target)
{
    const bool labels = target == DT_TARGET_CLASS || target == DT_TARGET_MASK;
    if (dt_loss_names[kind] == NULL) return false;
    return kind == DT__LOSS_FOCAL ? labels : target == DT_TARGET_VALUES;
}

const dt_loss *dt_loss_named(const dt_ctx *ctx, const char *name)
{
    if (ctx == NULL) return NULL;
    return dt__registered_named(ctx, DT__LOSSES, name);
}

dt_status dt_loss_register(dt_ctx *ctx, const dt_loss *loss)
{
    DT__NEED(NULL, ctx);
    if (loss == NULL || loss->name == NULL || loss->name[0] == 0 || loss->sum == NULL ||
        !compares(loss->target)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "loss: a name, a function and targets that are classes, values, bits, "
                       "images or masks must be given");
    }
    if (dt_loss_names[dt__loss_kind(loss->name)] != NULL ||
        dt_loss_named(ctx, loss->name) != NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "loss: there is a loss '%s' already", loss->name);
    }
    return dt__register(ctx, DT__LOSSES, loss);
}

/* Appends the names in a registry to the message in `text`: "a, b and c are there". */
static void add_names(const dt_ctx *ctx, dt__registered which, char *text, size_t room)
{
    for (int64_t i = 0; i < ctx->registry[which].n; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, room - n, "%s%s", n > 0 ? ", " : "",
                 *(const char *const *)ctx->registry[which].item[i]);
    }
}

void dt__loss_list(const dt_ctx *ctx, char *text, size_t room)
{
    text[0] = 0;
    for (int i = 0; dt_loss_names[i] != NULL; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, room - n, "%s%s", i > 0 ? ", " : "", dt_loss_names[i]);
    }
    add_names(ctx, DT__LOSSES, text, room);
}

dt_status dt__objective_find(dt_ctx *ctx, const char *key, const char *name, dt_target target,
                             dt__objective *out)
{
    *out = (dt__objective){ .kind = 0, .huber_delta = 1 };
    if (name == NULL) return DT_OK;
    out->kind = dt__loss_kind(name);
    if (fits(out->kind, target)) return DT_OK;
    out->own = dt_loss_named(ctx, name);
    if (out->own != NULL && out->own->target == target) return DT_OK;
    char names[DT__MESSAGE_SIZE / 2];
    dt__loss_list(ctx, names, sizeof names);
    if (out->own != NULL || dt_loss_names[out->kind] != NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%s: the loss '%s' is not for the targets of the data",
                       key, name);
    }
    return dt_fail(ctx, DT_ERR_CONFIG, "%s: there is no loss '%s'; there are %s", key, name, names);
}

dt_tensor *dt__answer(const dt__pass *p)
{
    return p->y != NULL ? p->y : dt_forward(p->t, p->m, p->x);
}

dt_tensor *dt__loss(const dt__task *task, const dt__pass *p)
{
    const dt_loss *own = p->objective.own;
    const bool features = p->teacher != NULL && p->distill->features.n > 0;
    if (own == NULL) return features ? dt__loss_with_features(task, p) : task->loss(p);
    dt_tensor *y = dt_contiguous(p->t, dt__answer(p));
    dt_tensor *sum = y == NULL ? NULL : own->sum(p->t, y, p->target, own->user);
    if (sum != NULL && sum->rank == 0 && sum->dtype == DT_F32) return sum;
    if (dt_tape_status(p->t) == DT_OK) {
        dt_tape_fail(p->t, DT_ERR_STATE, "loss '%s': it gave no scalar of f32", own->name);
    }
    return NULL;
}

const dt_own_metric *dt_metric_named(const dt_ctx *ctx, const char *name)
{
    if (ctx == NULL) return NULL;
    return dt__registered_named(ctx, DT__METRICS, name);
}

dt_status dt_metric_register(dt_ctx *ctx, const dt_own_metric *metric)
{
    DT__NEED(NULL, ctx);
    if (metric == NULL || metric->metric.name == NULL || metric->metric.name[0] == 0 ||
        metric->metric.title == NULL || metric->add == NULL || metric->value == NULL ||
        !compares(metric->target)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "metric: a name, a title, both functions and targets that are classes, "
                       "values, bits, images or masks must be given");
    }
    if (strlen(metric->metric.name) > DT_MAX_NAME) {
        return dt_fail(ctx, DT_ERR_ARG, "metric: a name of %zu bytes; the most are %d",
                       strlen(metric->metric.name), DT_MAX_NAME);
    }
    bool taken = dt_metric_named(ctx, metric->metric.name) != NULL;
    for (int target = 0; target <= DT_TARGET_SEVERAL; target++) {
        taken = taken || dt__task_measures((dt_target)target, metric->metric.name);
    }
    if (taken) {
        return dt_fail(ctx, DT_ERR_ARG, "metric: there is a metric '%s' already",
                       metric->metric.name);
    }
    return dt__register(ctx, DT__METRICS, metric);
}

static dt_status add_one(dt__tally *s, const char *key, const char *name)
{
    const dt_own_metric *own = dt_metric_named(s->ctx, name);
    const dt_target target = dt_dataset_target(s->d);
    char names[DT__MESSAGE_SIZE / 2] = "";
    if (own == NULL) {
        add_names(s->ctx, DT__METRICS, names, sizeof names);
        return dt_fail(s->ctx, DT_ERR_CONFIG,
                       "%s: no metric '%s' is registered; those that are: %s" DT__PLUGIN_ADDS, key,
                       name, names[0] == 0 ? "none" : names);
    }
    if (own->target != target) {
        return dt_fail(s->ctx, DT_ERR_CONFIG,
                       "%s: the metric '%s' is not for the targets of the data", key, name);
    }
    for (int i = 0; i < s->n_own; i++) {
        if (s->own[i] != own) continue;
        return dt_fail(s->ctx, DT_ERR_CONFIG, "%s: the metric '%s' is named twice", key, name);
    }
    if (s->n_own == DT_MAX_METRICS - DT__MEASURES) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "%s: more than %d metrics", key, s->n_own);
    }
    s->state[s->n_own] = dt__alloc_zero(s->ctx, own->state_size + 1);
    if (s->state[s->n_own] == NULL) return DT_ERR_NOMEM;
    s->own[s->n_own++] = own;
    return DT_OK;
}

dt_status dt__tally_add_own(dt__tally *s, const char *key, const dt_strings *own)
{
    for (int i = 0; i < own->n; i++) DT__TRY(add_one(s, key, own->v[i]));
    return DT_OK;
}
