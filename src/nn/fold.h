/* A batch norm folded into the convolution before it. */
#ifndef DT__NN_FOLD_H
#define DT__NN_FOLD_H

#include "nn/module.h"

/* When a model is built: `norm` takes what `layer` gives, and nothing else does. Prepare folds by
 * it. */
void dt__set_norm(dt_module *layer, dt_module *norm);

/* Whether `layer` is a convolution with a batch norm behind it, by dt__set_norm. */
bool dt__can_fold(const dt_module *layer);

/* Of a folded layer: whether its norm computes with the statistics of a batch now. Then it is given
 * the layer's result and, to divide that by, the factor; else the layer's result is the norm's. */
bool dt__fold_is_live(const dt_module *layer);
dt_tensor *dt__fold_factor(dt_tape *t, const dt_module *layer);
/* The derived weight and bias (bias NULL: none). */
dt_tensor *dt__folded_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight);
dt_tensor *dt__folded_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias);

/* Channels that training does not fold, because the norm's weight is 0 there. */
int64_t dt__unfolded_channels(const dt_module *layer);

/* What a norm was before it went. */
typedef struct dt__removed_norm {
    dt_module *norm;
    const dt_module_type *type;
    dt__entry *entries;
    int64_t n_entries, room_entries;
} dt__removed_norm;

/* Makes a norm the identity, without members; and back; or for good. None can fail. */
void dt__norm_remove(dt_module *norm, dt__removed_norm *out);
void dt__norm_put_back(const dt__removed_norm *removed);
void dt__norm_forget(const dt__removed_norm *removed);
bool dt__is_removed_norm(const dt_module *m);

#endif
