/* Exporter hf: a folder in the format of Hugging Face's transformers (src/io/hf/hf_save.c). */
#include "export/exporters.h"
#include "export/trace/random_inputs.h"
#include "io/hf/hf.h"

static dt_status write(const dt_export_call *e)
{
    DT__TRY(dt_hf_save(e->m, e->info, &e->options->hf, e->path));
    return dt__note_floats(e, "activations are floats there, and the model's codes are left out");
}

static dt_status check(const dt_export_call *e) { return dt__hf_check(e->ctx, e->info, false); }

const dt_exporter dt__exporter_hf = {
    .name = "hf",
    .text = "a folder of config.json and model.safetensors, for Hugging Face's transformers and "
            "what else reads Llama, Qwen2, Qwen3, Mixtral, Phi-3, OLMo 2, SmolLM3, Gemma 3, "
            "GPT-2 and Pythia",
    .folder = true,
    .floats = true,
    .check = check,
    .write = write,
};
