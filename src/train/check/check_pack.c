/* Checks of `model.pack`: packed weights are not trained, only adapters beside them. */
#include "train/recipe/recipe.h"

bool dt__packs(const dt_model_options *m) { return m->pack || m->packing.given; }

void dt__recipe_check_pack(dt_recipe *r)
{
    dt__node *node = dt__given(r, "model.pack");
    const dt_model_options *m = &r->options.model;
    if (node == NULL || !dt__packs(m) || r->only_quantizes) return;
    if (m->init == NULL) {
        dt__complain(r, node, "'model.pack' packs the weights of 'model.init', which is not given");
    }
    if (dt__node_at(r, "adapters", NULL) == NULL) {
        dt__complain(r, node,
                     "'model.pack': packed weights cannot be trained; give 'adapters', which are "
                     "trained beside them, or leave 'model.pack' out");
    }
    if (m->n_map > 0) {
        dt__complain(r, dt__given(r, "model.map"),
                     "'model.map': 'model.pack' reads tensors by the names of the model");
    }
    dt__node *qat = dt__given(r, "qat");
    if (qat == NULL) return;
    dt__complain(r, qat, "'qat' trains float weights; 'model.pack' packs those of 'model.init'");
}
