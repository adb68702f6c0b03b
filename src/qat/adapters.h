/* Which parameters of a model with adapters are trained, for files. */
#ifndef DT__QAT_ADAPTERS_H
#define DT__QAT_ADAPTERS_H

#include "nn/layers/lora.h"

/* Makes adapters and learned scales and shifts the only parameters that require a gradient; with
 * `rest`, all parameters do but the weights that have an adapter. */
dt_status dt__lora_set_trainable(dt_module *m, bool rest);
/* Whether parameters other than adapters, learned scales and shifts require a gradient. */
bool dt__lora_trains_rest(dt_module *m);

#endif
