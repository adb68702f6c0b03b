/* A low-rank adapter (LoRA) of a linear layer: additional parameters `lora_a` [rank, in] and
 * `lora_b` [out, rank], and the weight that the layer computes with. */
#ifndef DT__NN_LORA_H
#define DT__NN_LORA_H

#include "nn/module.h"

static inline bool dt__has_lora(const dt_module *m) { return m->lora.rank > 0; }

/* Whether a layer can have an adapter. */
bool dt__can_lora(const dt_module *m);
/* Adds an adapter. lora_a is initialized like a linear layer's weight, lora_b to 0, so the layer
 * computes as before. Errors: NOMEM, which leaves the layer unchanged. */
dt_status dt__lora_attach(dt_module *m, const dt__lora *lora);
/* The product of an adapter beside a packed weight, plus `residual` unless that is NULL. */
dt_tensor *dt__lora_product(dt_tape *t, const dt_module *m, dt_tensor *x, dt_tensor *residual);
/* Whether the adapter's gradient can be computed apart from the merged weight's: the tape records,
 * the weight itself is not trained, and the hooks of the weight pass the gradient on unchanged. */
bool dt__lora_is_apart(const dt_tape *t, const dt_module *m);
/* x W'^T + bias for the merged weight W', with the adapter's gradient computed this way. */
dt_tensor *dt__lora_linear(dt_tape *t, dt_module *m, dt_tensor *x);
/* Removes the adapter and its parameters. */
void dt__lora_remove(dt_module *m);

#endif
