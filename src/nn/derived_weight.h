/* Derived weights: a layer whose batch norm is folded in (fold.c) or that has an adapter (lora.c)
 * computes its weight by ops on the tape. Weight hooks get the result. */
#ifndef DT__NN_DERIVED_WEIGHT_H
#define DT__NN_DERIVED_WEIGHT_H

#include "nn/fold.h"
#include "nn/layers/lora.h"

/* The weight and bias that the layer computes with, given its parameters (bias NULL: none). */
dt_tensor *dt__derived_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight);
dt_tensor *dt__derived_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias);

#endif
