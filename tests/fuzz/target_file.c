/* An arbitrary safetensors file: opened, every tensor loaded in several dtypes, checked, its
 * quantized weights listed. Target model checks files of detent in the same way. */
#include "fuzz.h"

#include "target_arrays.h"
#include "testing.h"

#include <detent/experimental/io.h>

#include <stdio.h>

static void load(const dt_file *file, const dt_file_entry *e)
{
    static const dt_dtype dtypes[] = { DT_F32, DT_F64, DT_I64, DT_I8, DT_BOOL };
    FUZZ_HOLDS(dt_file_find(file, e->name) == e, "%s is not found", e->name);
    fuzz_touch(e->data, e->bytes);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        dt_tensor *x = NULL;
        const dt_status s = dt_file_load(file, e->name, dtypes[i], &x);
        FUZZ_HOLDS((s == DT_OK) == (x != NULL), "%s gave %d", e->name, s);
        dt_tensor_free(x);
    }
}

void fuzz_tensors(const char *path)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_file *file = NULL;
    if (dt_file_open(ctx, path, &file) == DT_OK) {
        const char *key, *value;
        for (int64_t i = 0; i < dt_file_count(file); i++) load(file, dt_file_at(file, i));
        for (int64_t i = 0; dt_file_meta_at(file, i, &key, &value); i++) {
            FUZZ_HOLDS(dt_file_meta(file, key) == value, "%s", key);
        }
        dt_file_weights *w = NULL;
        if (dt_file_weights_read(file, &w) == DT_OK) dt_file_weights_free(w);
        (void)dt_file_check(file);
        (void)dt_model_check(file);
        (void)dt_checkpoint_recipe(file);
        dt_file_close(file);
    } else {
        fuzz_refused(ctx, file != NULL);
    }
    fuzz_end(ctx);
}

static void run(const uint8_t *data, size_t n) { fuzz_tensors(fuzz_safetensors("file", data, n)); }

static void seeds(const fuzz_seeds *s)
{
    static const char *const names[] = { "all_dtypes", "bf16_special",   "escape_keys",
                                         "f16_bf16",   "huge_dims_zero", "metadata_only",
                                         "names",      "rank_9",         "scalar",
                                         "unordered",  "zero_size_dims", "header_spaces" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[TEST_PATH], name[64];
        snprintf(name, sizeof name, "quant/safetensors/valid/%s.safetensors", names[i]);
        if (!test_golden(path, name)) continue;
        const fuzz_bytes b = fuzz_seed_safetensors(path);
        fuzz_seed(s, names[i], b.v, b.n);
        free((void *)(uintptr_t)b.v);
    }
}

const fuzz_target fuzz_target_file = { "file", "a safetensors file", run, seeds };
