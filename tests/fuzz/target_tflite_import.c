/* A TFLite file, imported; what is imported is saved and loaded again. */
#include "fuzz.h"

#include "saved.h"

#include <detent/experimental/io.h>

/* dt_graph_inspect refuses the same files as import. */
static void look(dt_ctx *ctx, const char *path, bool imported)
{
    dt_graph_info info;
    const dt_status s = dt_graph_inspect(ctx, path, &info);
    if (s != DT_OK) fuzz_refused(ctx, info.input != NULL);
    FUZZ_HOLDS(imported == (s == DT_OK && info.n_refusals == 0), "%d, %d, %lld: %s", imported, s,
               (long long)info.n_refusals,
               s == DT_OK && info.n_refusals > 0 ? info.refusal[0] : dt_error(ctx));
    dt_graph_info_free(ctx, &info);
}

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_module *m = NULL, *again = NULL;
    dt_model_info info = { 0 };
    const char *path = fuzz_file("a.tflite", data, n);
    const bool imported = dt_tflite_import(ctx, path, &m, &info) == DT_OK;
    if (imported) {
        const char *saved = fuzz_path("again");
        FUZZ_HOLDS(dt_model_save(m, &info, saved) == DT_OK, "not saved: %s", dt_error(ctx));
        FUZZ_HOLDS(dt_model_load(ctx, saved, &again, NULL) == DT_OK, "not loaded: %s",
                   dt_error(ctx));
        dt_module_free(again);
        dt_module_free(m);
    } else {
        fuzz_refused(ctx, m != NULL);
    }
    dt_model_info_free(ctx, &info);
    look(ctx, path, imported);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    saved_export_seed(s, "mlp", "tflite", false);
    saved_export_seed(s, "mlp", "tflite", true);
    saved_export_seed(s, "cnn", "tflite", false);
    saved_export_seed(s, "cnn", "tflite", true);
}

const fuzz_target fuzz_target_tflite_import = { "tflite_import", "a TFLite file, imported", run,
                                                seeds };
