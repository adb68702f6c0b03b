/* Layers `affine` of targets: y = x deviation[c] + mean[c], of output c of the training targets.
 * Then the earlier layers compute numbers near 1 for targets in any unit, as Adam's steps have a
 * fixed size. Sums are in double, in the order of the examples:
 *     mean += (t - mean) / n,  M2 += (t - mean before) (t - mean),  deviation = sqrt(M2 / n)
 * [Welford 1962]; a constant target has deviation 1. */
#include "core/tensor.h"
#include "data/arrays.h"
#include "nn/layers/affine.h"
#include "nn/module.h"
#include "train/run/run.h"

#include <math.h>

/* Sets output k of the layer from target c. */
static void set_output(const dt_dataset *d, dt_module *layer, int64_t k, int64_t c)
{
    double mean = 0, m2 = 0;
    for (int64_t i = 0; i < d->count; i++) {
        const double t = (double)((const float *)dt__array_target(d, i))[c], before = t - mean;
        mean += before / (double)(i + 1);
        m2 += before * (t - mean);
    }
    const float deviation = (float)sqrt(m2 / (double)d->count);
    float *scale = dt__values_mut(dt__entry_find(layer, "weight")->x);
    float *bias = dt__values_mut(dt__entry_find(layer, "bias")->x);
    scale[k] = deviation > 0 ? deviation : 1;
    bias[k] = (float)mean;
}

static dt_status set(dt__run *r, dt_module *layer)
{
    const dt_dataset *d = r->data.train;
    const int64_t n = dt_count(dt__entry_find(layer, "bias")->x);
    const int64_t each = dt__max_i64(1, d->quantiles.n);
    if (d->kind != &dt__data_arrays || d->target != DT_TARGET_VALUES) {
        return dt_recipe_refuse(r->recipe, "model.layers",
                                "affine '%s' is of targets, which requires data.task: regression",
                                layer->name);
    }
    if (n != each * dt__array_cells(d)) {
        return dt_recipe_refuse(r->recipe, "model.layers",
                                "affine '%s' is of targets: its shape has %lld elements, but the "
                                "data have %lld targets%s",
                                layer->name, (long long)n, (long long)dt__array_cells(d),
                                each > 1 ? ", each with all of train.quantiles" : "");
    }
    for (int64_t k = 0; k < n; k++) set_output(d, layer, k, k / each);
    return DT_OK;
}

dt_status dt__run_set_affine(dt__run *r, dt_module *m)
{
    if (dt__affine_of_targets(m)) DT__TRY(set(r, m));
    for (int64_t i = 0; i < m->n_children; i++) DT__TRY(dt__run_set_affine(r, m->children[i]));
    return DT_OK;
}
