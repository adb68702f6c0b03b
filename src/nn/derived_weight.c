/* The weight and the bias that a layer computes with. Only convolutions and linear layers have a
 * folded norm, and only linear layers have an adapter; no layer has both. */
#include "nn/derived_weight.h"

dt_tensor *dt__derived_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight)
{
    if (layer->folding != DT__APART) return dt__folded_weight(t, layer, weight);
    if (!dt__has_lora(layer) || layer->lora.beside) return weight;
    return dt_lora(t, weight, dt__entry_find(layer, "lora_a")->x,
                   dt__entry_find(layer, "lora_b")->x, layer->lora.alpha);
}

dt_tensor *dt__derived_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias)
{
    return layer->folding == DT__APART ? bias : dt__folded_bias(t, layer, bias);
}
