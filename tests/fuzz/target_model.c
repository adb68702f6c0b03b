/* A model's file: built, saved, loaded again: what was read can be written, and read. */
#include "fuzz.h"

#include "saved.h"

#include <detent/io.h>

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_module *m = NULL, *again = NULL;
    dt_model_info info = { 0 };
    if (dt_model_load(ctx, fuzz_safetensors("model", data, n), &m, &info) == DT_OK) {
        const char *path = fuzz_path("again");
        FUZZ_HOLDS(dt_model_save(m, &info, path) == DT_OK, "loaded, but not saved: %s",
                   dt_error(ctx));
        FUZZ_HOLDS(dt_model_load(ctx, path, &again, NULL) == DT_OK, "saved, but not loaded: %s",
                   dt_error(ctx));
        dt_module_free(again);
        dt_module_free(m);
    } else {
        fuzz_refused(ctx, m != NULL);
    }
    dt_model_info_free(ctx, &info);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    for (int i = 0; i < SAVED_STATES; i++) {
        const fuzz_bytes b = saved_model(i);
        fuzz_seed(s, saved_names[i], b.v, b.n);
        free((void *)(uintptr_t)b.v);
    }
}

const fuzz_target fuzz_target_model = { "model", "a model's file", run, seeds };
