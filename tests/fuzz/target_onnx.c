/* An ONNX file, imported; what is imported is saved and loaded again. */
#include "fuzz.h"

#include "saved.h"
#include "testing.h"

#include <detent/experimental/io.h>

#include <stdio.h>
#include <string.h>

/* dt_graph_inspect refuses the same files as import. */
static void look(dt_ctx *ctx, const char *path, bool imported)
{
    dt_graph_info info;
    const dt_status s = dt_graph_inspect(ctx, path, &info);
    if (s != DT_OK) fuzz_refused(ctx, info.input != NULL);
    FUZZ_HOLDS(imported == (s == DT_OK && info.n_refusals == 0), "%s: %d, %d", path, s,
               (int)info.n_refusals);
    for (int64_t i = 0; i < info.n_refusals; i++) {
        fuzz_touch(info.refusal[i], strlen(info.refusal[i]));
    }
    dt_graph_info_free(ctx, &info);
}

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_module *m = NULL, *again = NULL;
    dt_model_info info = { 0 };
    const char *onnx = fuzz_file("a.onnx", data, n);
    if (dt_onnx_import(ctx, onnx, NULL, &m, &info) == DT_OK) {
        const char *path = fuzz_path("again");
        FUZZ_HOLDS(dt_model_save(m, &info, path) == DT_OK, "not saved: %s", dt_error(ctx));
        FUZZ_HOLDS(dt_model_load(ctx, path, &again, NULL) == DT_OK, "not loaded: %s",
                   dt_error(ctx));
        dt_module_free(again);
        dt_module_free(m);
    } else {
        fuzz_refused(ctx, m != NULL);
    }
    const bool imported = info.family != NULL;
    dt_model_info_free(ctx, &info);
    look(ctx, onnx, imported);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const char *const names[] = { "cnn",       "fixed",  "folded", "keras", "old",
                                         "recurrent", "tokens", "two",    "up" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[TEST_PATH];
        size_t n;
        snprintf(path, sizeof path, "%s/tests/onnx/%s.onnx", DETENT_SOURCE_DIR, names[i]);
        char *bytes = test_read_file(path, &n);
        fuzz_seed(s, names[i], bytes, n);
        free(bytes);
    }
    saved_export_seed(s, "mlp", "onnx", false);
}

const fuzz_target fuzz_target_onnx = { "onnx", "an ONNX file, imported", run, seeds };
