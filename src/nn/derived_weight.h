/* Derived weights: a layer with a folded batch norm (fold.c) or an adapter (lora.c) computes its
 * weight by ops on the tape. Its weight hooks get the derived weight. */
#ifndef DT__NN_DERIVED_WEIGHT_H
#define DT__NN_DERIVED_WEIGHT_H

#include "nn/fold.h"
#include "nn/layers/lora.h"

/* The derived weight and bias, given the layer's parameters (bias NULL: none). */
dt_tensor *dt__derived_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight);
dt_tensor *dt__derived_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias);

#endif
