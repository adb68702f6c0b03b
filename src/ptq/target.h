/* The weight op and the rounding options of a model's layer. */
#ifndef DT__PTQ_TARGET_H
#define DT__PTQ_TARGET_H

#include "nn/module.h"
#include "ptq/matrix.h"

/* The op that a module's weight belongs to; false for layers that rounders do not support:
 * embeddings and user-defined layers. */
bool dt__weight_op_of(const dt_module *m, dt_weight_op *out);

/* *out = the options for a layer. accumulator.input, if not given, becomes the range of the layer's
 * input codes. Errors: CONFIG, naming the layer (a bounded method with float inputs, or settings
 * that do not suit its quantization spec `quant`). */
dt_status dt__layer_options(const dt_module *layer, const dt_quant_spec *quant,
                            const dt_rounding_options *options, dt_rounding_options *out);

#endif
