/* What of a model with adapters is trained: for files. */
#ifndef DT__QAT_ADAPTERS_H
#define DT__QAT_ADAPTERS_H

#include "nn/lora.h"

/* What is neither an adapter nor learned by quantization requires no gradient from now on; `rest`:
 * only the weights that have an adapter. */
dt_status dt__lora_set_trainable(dt_module *m, bool rest);
/* Whether anything else than adapters and what quantization learns requires a gradient. */
bool dt__lora_trains_rest(dt_module *m);

#endif
