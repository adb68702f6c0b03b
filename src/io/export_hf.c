/* Exporter hf: a folder in the format of Hugging Face's transformers (hf_save.c). */
#include "io/export.h"

const dt_exporter dt__exporter_hf = {
    .name = "hf",
    .text = "a folder of config.json and model.safetensors, for Hugging Face's transformers and "
            "what else reads Llama, Qwen2, Qwen3 and Mixtral",
    .folder = true,
    .floats = true,
    .write = dt_hf_save,
};
