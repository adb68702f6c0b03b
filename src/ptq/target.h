/* What a layer of a model is to a rounder. */
#ifndef DT__PTQ_TARGET_H
#define DT__PTQ_TARGET_H

#include "nn/module.h"
#include "ptq/matrix.h"

/* The op that a module's weight belongs to; false where its inputs are not those of a product: an
 * embedding, a layer of one's own. */
bool dt__weight_op_of(const dt_module *m, dt_weight_op *out);

/* *out = the options for a layer: inputs of accumulators that are not given are what its
 * activations' codes can be. CONFIG, naming the layer, where those are floats, and for settings
 * that do not suit its scheme `quant`. */
dt_status dt__layer_options(const dt_module *layer, const dt_quant_spec *quant,
                            const dt_rounding_options *options, dt_rounding_options *out);

#endif
