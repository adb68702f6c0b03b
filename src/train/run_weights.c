/* train.class_weights: a factor for each class in the loss of training.
 *     classes  balanced: examples / (classes that occur times n), n the examples of the class
 *     bits     the factor of ones; balanced: zeros / ones of the label
 * A class or label without an example (or one) has factor 1. As PyTorch's, a mean of weighted cross
 * entropies divides by the sum of the labels' weights, one of binary cross entropies by their
 * number. */
#include "core/tensor.h"
#include "data/arrays.h"
#include "train/run.h"

static bool has_classes(const dt__run *r) { return dt_dataset_target(r->train) == DT_TARGET_CLASS; }

/* Examples of each class, or ones of each bit. */
static void count_targets(const dt_dataset *d, bool classes, double *ones)
{
    const int64_t outputs = dt_dataset_outputs(d);
    for (int64_t k = 0; k < outputs; k++) ones[k] = 0;
    for (int64_t i = 0; i < d->count; i++) {
        if (classes) ones[d->kind->label(d, i)]++;
        const float *bits = classes ? NULL : dt__array_target(d, i);
        for (int64_t k = 0; k < outputs && !classes; k++) ones[k] += (double)bits[k];
    }
}

static dt_status balance(dt__run *r, float *weight, int64_t n)
{
    const int64_t outputs = dt_dataset_outputs(r->train);
    const double examples = (double)dt_dataset_count(r->train);
    double occur = 0, *ones = dt__alloc_array(r->ctx, outputs, sizeof *ones);
    if (ones == NULL) return DT_ERR_NOMEM;
    count_targets(r->train, has_classes(r), ones);
    for (int64_t i = 0; i < outputs; i++) occur += ones[i] > 0;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = 1;
        if (i >= outputs || ones[i] == 0) continue;
        weight[i] =
            (float)(has_classes(r) ? examples / (occur * ones[i]) : (examples - ones[i]) / ones[i]);
    }
    dt__release(r->ctx, ones);
    return DT_OK;
}

static dt_status fill(dt__run *r, const dt_reals *given, int64_t n)
{
    float *weight = dt_data_mut(r->weight);
    if (weight == NULL) return dt_error_status(r->ctx);
    if (given->n == DT_WEIGHTS_BALANCED) return balance(r, weight, n);
    for (int64_t i = 0; i < n; i++) weight[i] = i < given->n ? (float)given->v[i] : 1;
    return DT_OK;
}

dt_status dt__run_open_weights(dt__run *r)
{
    const dt_reals *given = &r->o->train.class_weights;
    const dt_target target = dt_dataset_target(r->train);
    const int64_t outputs = dt_dataset_outputs(r->train);
    const char *path = "train.class_weights";
    if (given->n == DT_WEIGHTS_NONE) return DT_OK;
    if (target != DT_TARGET_CLASS && target != DT_TARGET_BITS) {
        return dt_recipe_refuse(r->recipe, path, "'%s' needs data with classes", path);
    }
    if (given->n >= 0 && given->n != outputs) {
        return dt_recipe_refuse(r->recipe, path, "'%s' has %d weights for %lld classes", path,
                                given->n, (long long)outputs);
    }
    const dt_model_options *m = &r->o->model;
    dt_example in, out = { .rank = 1, .dims = { outputs } };
    if (m->family->shapes != NULL) {
        DT__TRY(m->family->shapes(r->ctx, m->options, &in, &out));
    }
    DT__TRY(dt_tensor_create(r->ctx, DT_F32, 1, out.dims, &r->weight));
    return fill(r, given, out.dims[0]);
}

double dt__run_divisor(dt__run *r, int64_t batches)
{
    if (r->weight == NULL || !has_classes(r)) return (double)dt_loader_labels(r->loader, batches);
    return dt__loader_weigh(r->loader, batches, dt_data(r->weight));
}
