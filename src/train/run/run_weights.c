/* The loss of each output, and train.class_weights (for several outputs those of data.outputs), a
 * factor for each class in the training loss.
 *     classes  balanced: examples / (classes that occur times n), n the examples of the class
 *     bits     the factor of ones; balanced: zeros / ones of the label
 * A class (or label) that no example has gets factor 1. As in PyTorch, the mean of weighted cross
 * entropies divides by the sum of the labels' weights, and that of binary cross entropies by their
 * number; with several outputs, each divides by the number of examples. */
#include "core/tensor.h"
#include "data/joined.h"
#include "train/run/run.h"

#include <stdio.h>

/* An output of the training data: its targets, and its settings in the recipe or the join. */
typedef struct output {
    dt_dataset d; /* a view */
    const char *loss;
    double huber_delta;
    const dt_reals *weights;
    char loss_key[40], weights_key[40];
} output;

static int count_outputs(const dt__run *r)
{
    return dt_dataset_target(r->data.train) == DT_TARGET_SEVERAL ? r->data.train->joined->n_outputs
                                                                 : 1;
}

static output output_of(const dt__run *r, int i)
{
    const dt_train_options *t = &r->o->train;
    const dt__joined *j = r->data.train->joined;
    output o = { .loss = t->loss,
                 .huber_delta = t->huber_delta,
                 .weights = &t->class_weights,
                 .loss_key = "train.loss",
                 .weights_key = "train.class_weights" };
    o.d = j == NULL ? *r->data.train : dt__joined_view(r->data.train, &j->output[i]);
    if (j == NULL || (r->o->data.n_outputs == 0 && count_outputs(r) == 1)) return o;
    o.loss = j->output[i].loss;
    o.huber_delta = j->output[i].huber_delta;
    o.weights = &j->output[i].class_weights;
    const int place = j->output[i].number;
    snprintf(o.loss_key, sizeof o.loss_key, "data.outputs.%d.loss", place);
    snprintf(o.weights_key, sizeof o.weights_key, "data.outputs.%d.class_weights", place);
    return o;
}

/* Checks that a registered loss has one target. */
static dt_status check_own(dt__run *r, const output *o)
{
    const dt_augment_options *a = &r->o->data.augment;
    const char *key = r->o->train.distill.given ? "train.distill"
                      : a->mixup > 0            ? "data.augment.mixup"
                      : a->cutmix > 0           ? "data.augment.cutmix"
                                                : NULL;
    if (key == NULL) return DT_OK;
    return dt_recipe_refuse(r->recipe, key, "'%s' has no part in the loss '%s' of the program", key,
                            o->loss);
}

dt_status dt__run_find_objectives(dt__run *r)
{
    for (int i = 0; i < count_outputs(r); i++) {
        const output o = output_of(r, i);
        DT__TRY(dt__recipe_blame(
            r->recipe, o.loss_key, DT_ERR_CONFIG,
            dt__objective_find(r->ctx, o.loss_key, o.loss, o.d.target, &r->stage.objective[i])));
        r->stage.objective[i].huber_delta = o.huber_delta;
        const int kind = r->stage.objective[i].kind;
        if (kind == DT__LOSS_FOCAL) r->stage.objective[i].focal_gamma = r->o->train.focal_gamma;
        if (kind >= DT__LOSS_QUANTILE && r->stage.objective[i].own == NULL &&
            r->data.train->joined != NULL) {
            return dt_recipe_refuse(r->recipe, o.loss_key,
                                    "'%s' is %s, which requires data of one input and one output",
                                    o.loss_key, o.loss);
        }
        if (r->stage.objective[i].own == NULL) continue;
        DT__TRY(check_own(r, &o));
        if (o.weights->n == DT_WEIGHTS_NONE) continue;
        return dt_recipe_refuse(r->recipe, o.weights_key,
                                "'%s' has no part in the loss '%s' of the program", o.weights_key,
                                o.loss);
    }
    return DT_OK;
}

/* ---- weights of classes --------------------------------------------------------------------- */

static bool has_classes(const dt_dataset *d) { return dt_dataset_target(d) == DT_TARGET_CLASS; }

/* Number of examples of each class, or of ones of each bit. */
static void count_targets(const dt_dataset *d, double *ones)
{
    const int64_t outputs = dt_dataset_outputs(d);
    const bool classes = has_classes(d);
    for (int64_t k = 0; k < outputs; k++) ones[k] = 0;
    for (int64_t i = 0; i < d->count; i++) {
        if (classes) ones[d->kind->label(d, i)]++;
        const float *bits = classes ? NULL : dt__array_target(d, i);
        for (int64_t k = 0; k < outputs && !classes; k++) ones[k] += (double)bits[k];
    }
}

static dt_status balance(const dt_dataset *d, float *weight, int64_t n)
{
    const int64_t outputs = dt_dataset_outputs(d);
    const double examples = (double)dt_dataset_count(d);
    double occur = 0, *ones = dt__alloc_array(d->ctx, outputs, sizeof *ones);
    if (ones == NULL) return DT_ERR_NOMEM;
    count_targets(d, ones);
    for (int64_t i = 0; i < outputs; i++) occur += ones[i] > 0;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = 1;
        if (i >= outputs || ones[i] == 0) continue;
        weight[i] =
            (float)(has_classes(d) ? examples / (occur * ones[i]) : (examples - ones[i]) / ones[i]);
    }
    dt__release(d->ctx, ones);
    return DT_OK;
}

static dt_status fill(const output *o, dt_tensor *x)
{
    const dt_reals *given = o->weights;
    float *weight = dt_data_mut(x);
    if (weight == NULL) return dt_error_status(x->ctx);
    if (given->n == DT_WEIGHTS_BALANCED) return balance(&o->d, weight, x->count);
    for (int64_t i = 0; i < x->count; i++) weight[i] = i < given->n ? (float)given->v[i] : 1;
    return DT_OK;
}

dt_status dt__run_width(const dt__run *r, int i, int64_t *width)
{
    const dt_model_options *m = &r->o->model;
    dt_model_sides sides;
    if (m->family->sides != NULL) {
        DT__TRY(m->family->sides(r->ctx, m->options, &sides));
        *width = sides.out[i].dims[0];
    } else if (m->family->shapes != NULL) {
        DT__TRY(m->family->shapes(r->ctx, m->options, &sides.in[0], &sides.out[0]));
        *width = sides.out[0].dims[0];
    }
    return DT_OK;
}

static bool are_zeros(const dt_reals *list)
{
    int i = 0;
    while (i < list->n && list->v[i] == 0) i++;
    return list->n > 0 && i == list->n;
}

/* The levels of quantiles. */
static dt_status open_levels(dt__run *r)
{
    const dt_reals *levels = &r->data.train->quantiles;
    const int64_t n = levels->n;
    DT__TRY(dt_tensor_create(r->ctx, DT_F32, 1, &n, &r->stage.weight[0]));
    float *level = dt_data_mut(r->stage.weight[0]);
    if (level == NULL) return dt_error_status(r->ctx);
    for (int i = 0; i < n; i++) level[i] = (float)levels->v[i];
    return DT_OK;
}

static dt_status open_weights(dt__run *r, int i)
{
    const output o = output_of(r, i);
    const dt_target target = dt_dataset_target(&o.d);
    const int64_t outputs = dt_dataset_outputs(&o.d);
    if (r->data.train->quantiles.n > 0) return open_levels(r);
    if (o.weights->n == DT_WEIGHTS_NONE) return DT_OK;
    if (target != DT_TARGET_CLASS && target != DT_TARGET_BITS) {
        return dt_recipe_refuse(r->recipe, o.weights_key, "'%s' needs data with classes",
                                o.weights_key);
    }
    if (o.weights->n >= 0 && o.weights->n != outputs) {
        return dt_recipe_refuse(r->recipe, o.weights_key, "'%s' has %d weight%s for %lld classes",
                                o.weights_key, o.weights->n, DT__S(o.weights->n),
                                (long long)outputs);
    }
    if (are_zeros(o.weights)) {
        return dt_recipe_refuse(
            r->recipe, o.weights_key,
            "'%s' has weights of 0 alone: nothing would be learned; expected at least one above 0",
            o.weights_key);
    }
    int64_t width = outputs;
    DT__TRY(dt__run_width(r, i, &width));
    DT__TRY(dt_tensor_create(r->ctx, DT_F32, 1, &width, &r->stage.weight[i]));
    return fill(&o, r->stage.weight[i]);
}

dt_status dt__run_open_weights(dt__run *r)
{
    for (int i = 0; i < count_outputs(r); i++) DT__TRY(open_weights(r, i));
    return DT_OK;
}

void dt__run_close_weights(dt__run *r)
{
    for (int i = 0; i < DT_MAX_JOINED; i++) {
        dt_tensor_free(r->stage.weight[i]);
        r->stage.weight[i] = NULL;
    }
}

double dt__run_divisor(dt__run *r, int64_t batches)
{
    if (r->stage.weight[0] == NULL || !has_classes(r->data.train)) {
        return (double)dt_loader_labels(r->stage.loader, batches);
    }
    return dt__loader_weigh(r->stage.loader, batches, dt_data(r->stage.weight[0]));
}
