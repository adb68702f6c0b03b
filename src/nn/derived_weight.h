/* Weights that a layer does not hold but computes, by ops on the tape, from what it holds: with a
 * norm folded in (fold.c), or with an adapter (lora.c). Weight hooks meet the result. */
#ifndef DT__NN_DERIVED_WEIGHT_H
#define DT__NN_DERIVED_WEIGHT_H

#include "nn/fold.h"
#include "nn/lora.h"

/* What the layer computes with, from the weight and the bias (NULL: none) that it holds. */
dt_tensor *dt__derived_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight);
dt_tensor *dt__derived_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias);

#endif
