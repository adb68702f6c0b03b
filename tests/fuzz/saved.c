/* Small models in files, as seeds of several targets; called by detent-test alone. */
#include "saved.h"

#include "models.h"
#include "target_checkpoint.h"
#include "testing.h"

#include <detent/export.h>

#include <stdio.h>

const char *const saved_names[] = { "float", "prepared", "converted", "static" };

static fuzz_bytes bytes_of(dt_module *m, const dt_model_info *info)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    TEST_OK(dt_module_ctx(m), dt_model_save(m, info, path));
    return fuzz_seed_safetensors(path);
}

fuzz_bytes saved_model(int state)
{
    static const int64_t sizes[] = { 8, 6, 3, 0 };
    dt_ctx *ctx = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const dt_mlp_options o = small_options(sizes, 1, 0);
    const dt_model_info info = small_info(&o);
    dt_module *m = small_model(ctx, &o);
    if (state != SAVED_FLOAT) {
        dt_qat_options q = dt_qat_defaults();
        q.preset = state == SAVED_STATIC ? DT_INT8_STATIC_INT8_WEIGHT : DT_INT8_DYNAMIC_INT4_WEIGHT;
        TEST_OK(ctx, dt_prepare(m, &q));
        if (state == SAVED_STATIC) TEST_OK(ctx, dt_observe(m, true));
        dt_train(m, state == SAVED_STATIC);
        free(outputs_of(m, 4, 8));
    }
    if (state == SAVED_CONVERTED) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    const fuzz_bytes b = bytes_of(m, &info);
    dt_module_free(m);
    dt_ctx_free(ctx);
    return b;
}

fuzz_bytes saved_checkpoint(void)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "checkpoint.safetensors");
    dt_ctx *ctx = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    fuzz_run_state r;
    fuzz_run_open(ctx, &r);
    TEST_OK(ctx, dt_checkpoint_save(&r.state, path));
    fuzz_run_close(&r);
    dt_ctx_free(ctx);
    return fuzz_seed_safetensors(path);
}

static const dt_llama_options llama = { .vocab = 16,
                                        .context = 8,
                                        .layers = 1,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .width = 32,
                                        .hidden = 32,
                                        .tied = true,
                                        .theta = 1e4,
                                        .eps = 1e-5,
                                        .rope = { 0, 1, 1, 4, 8192 } };
static const dt_cnn_options cnn = { .image = { 3, { 1, 6, 6 } },
                                    .norms = { 1, 0.1, 1e-5 },
                                    .n_blocks = 1,
                                    .blocks = { { .out = 4,
                                                  .kernel = 3,
                                                  .stride = 1,
                                                  .padding = 1,
                                                  .groups = 1,
                                                  .norm = 1,
                                                  .activation = 1,
                                                  .pool = 1 } },
                                    .outputs = 3 };
static const dt_mlp_options mlp = {
    .sizes = { 3, { 8, 6, 3 } }, .bias = true, .momentum = 0.1, .eps = 1e-5
};

void saved_export_scheme(const char *family, const char *format, int scheme, const char *path)
{
    dt_ctx *ctx = NULL;
    dt_module *m = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const dt_model_info info = { .family = dt_family_named(ctx, family),
                                 .options = strcmp(family, "llama") == 0 ? (const void *)&llama
                                            : strcmp(family, "cnn") == 0 ? (const void *)&cnn
                                                                         : (const void *)&mlp };
    TEST_OK(ctx, info.family->create(ctx, info.options, &m));
    dt_qat_options q = dt_qat_defaults();
    dt_train(m, false);
    if (scheme >= 0) {
        q.preset = DT_INT4_WEIGHT;
        q.weight.quant.scheme = scheme;
        q.weight.has_scheme = true;
        TEST_OK(ctx, dt_prepare(m, &q));
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
    }
    TEST_OK(ctx, dt_export(m, &info, format, NULL, path, NULL));
    dt_module_free(m);
    dt_ctx_free(ctx);
}

void saved_export(const char *family, const char *format, bool converted, const char *path)
{
    const int scheme = strcmp(family, "llama") == 0 ? DT_SCHEME_Q4_0 : DT_SCHEME_SYMMETRIC;
    saved_export_scheme(family, format, converted ? scheme : -1, path);
}

void saved_export_seed(const fuzz_seeds *s, const char *family, const char *format, bool converted)
{
    char path[TEST_PATH], name[64];
    size_t n;
    test_folder(path);
    test_join(path, path, "model");
    saved_export(family, format, converted, path);
    snprintf(name, sizeof name, "%s%s", family, converted ? "-int4" : "");
    char *bytes = test_read_file(path, &n);
    fuzz_seed(s, name, bytes, n);
    free(bytes);
}
