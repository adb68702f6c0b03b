/* A batch norm folded into the convolution or linear layer before it. */
#ifndef DT__NN_FOLD_H
#define DT__NN_FOLD_H

#include "nn/module.h"

/* For constructors of models: declares that `norm` is the only reader of `layer`'s output.
 * dt_prepare folds such pairs. */
void dt__set_norm(dt_module *layer, dt_module *norm);

/* Whether a batch norm can be folded into `layer`: a convolution, or a linear layer without an
 * adapter. */
bool dt__takes_norm(const dt_module *layer);
/* Whether `layer` is such a layer and its norm (dt__set_norm) is a batch norm; without `linear`
 * only convolutions count. */
bool dt__can_fold(const dt_module *layer, bool linear);

/* For a folded layer: whether its norm uses batch statistics now. If so, the norm divides the
 * layer's output by the fold factor and normalizes it; if not, it returns the layer's output. */
bool dt__fold_is_live(const dt_module *layer);
/* The fold factor, weight / sqrt(running_var + eps) of the norm, [channels]. */
dt_tensor *dt__fold_factor(dt_tape *t, const dt_module *layer);
/* The factor of one channel in double, from the current running variance; and the number of
 * channels. */
double dt__fold_factor_at(const dt_module *layer, int64_t channel);
int64_t dt__fold_channels(const dt_module *layer);
/* |factor|, by which scales of the layer's own weight become scales of the folded weight:
 * [channels], one per row; with `whole` its maximum, for a single scale. */
dt_tensor *dt__fold_size(dt_tape *t, const dt_module *layer, bool whole);
/* The derived weight and bias (bias NULL: none). */
dt_tensor *dt__folded_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight);
dt_tensor *dt__folded_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias);

/* The number of channels that training does not fold, because the norm's weight is 0 there. */
int64_t dt__unfolded_channels(const dt_module *layer);

/* The type and entries that a norm had before dt__norm_remove. */
typedef struct dt__removed_norm {
    dt_module *norm;
    const dt_module_type *type;
    dt__entry *entries;
    int64_t n_entries, room_entries;
} dt__removed_norm;

/* Turn a norm into the identity without entries; undo that; or free the removed entries. None can
 * fail. */
void dt__norm_remove(dt_module *norm, dt__removed_norm *out);
void dt__norm_put_back(const dt__removed_norm *removed);
void dt__norm_forget(const dt__removed_norm *removed);
bool dt__is_removed_norm(const dt_module *m);

#endif
