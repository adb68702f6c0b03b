/* A low-rank adapter of a linear layer: parameters `lora_a` [rank, in] and `lora_b` [out, rank]
 * beside its weight, and the weight that follows from them. */
#ifndef DT__NN_LORA_H
#define DT__NN_LORA_H

#include "nn/module.h"

static inline bool dt__has_lora(const dt_module *m) { return m->lora.rank > 0; }

/* Whether a layer can have one. */
bool dt__can_lora(const dt_module *m);
/* Gives the layer one whose weight is as before: lora_a is drawn as a linear layer of its size is,
 * lora_b is 0. Errors: NOMEM; the layer is as it was. */
dt_status dt__lora_attach(dt_module *m, const dt__lora *lora);
/* Takes it away, with its parameters. */
void dt__lora_remove(dt_module *m);

#endif
