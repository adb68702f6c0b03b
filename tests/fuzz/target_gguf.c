/* A GGUF file, loaded as a model, saved, loaded again. */
#include "fuzz.h"

#include "saved.h"
#include "target_folder.h"

static void run(const uint8_t *data, size_t n) { fuzz_load_folder(fuzz_file("m.gguf", data, n)); }

static void seeds(const fuzz_seeds *s)
{
    saved_export_seed(s, "llama", "gguf", false);
    saved_export_seed(s, "llama", "gguf", true);
}

const fuzz_target fuzz_target_gguf = { "gguf", "a GGUF file", run, seeds };
