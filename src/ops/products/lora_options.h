/* The options that both ops of low-rank adapters share, defined in op_lora.c. */
#ifndef DT__OPS_LORA_OPTIONS_H
#define DT__OPS_LORA_OPTIONS_H

#include "autograd/op.h"

extern const dt_lora_weight_options dt__lora_defaults;
extern const dt_key dt__lora_weight_keys[];

#endif
