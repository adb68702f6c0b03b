/* A Hugging Face folder: config.json, index (or none), tokenizer.json (or none), weights as
 * fuzz_safetensors takes them. With an index there are two shards of the same bytes. What is loaded
 * can be saved as a model of detent. */
#include "fuzz.h"

#include "saved.h"
#include "target_folder.h"
#include "testing.h"

#include <detent/io.h>

#include <sys/stat.h>

void fuzz_load_folder(const char *folder)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_module *m = NULL;
    dt_model_info info = { 0 };
    if (dt_model_load(ctx, folder, &m, &info) == DT_OK) {
        FUZZ_HOLDS(dt_model_save(m, &info, fuzz_path("again")) == DT_OK, "loaded, not saved: %s",
                   dt_error(ctx));
        dt_module_free(m);
    } else {
        fuzz_refused(ctx, m != NULL);
    }
    dt_model_info_free(ctx, &info);
    fuzz_end(ctx);
}

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes config = fuzz_part(&rest), index = fuzz_part(&rest), text = fuzz_part(&rest);
    fuzz_remove("hf");
    (void)fuzz_file("hf/config.json", config.v, config.n);
    if (text.n > 0) (void)fuzz_file("hf/tokenizer.json", text.v, text.n);
    if (index.n == 0) {
        (void)fuzz_safetensors("hf/model.safetensors", rest.v, rest.n);
    } else {
        (void)fuzz_file("hf/model.safetensors.index.json", index.v, index.n);
        (void)fuzz_safetensors("hf/model-00001-of-00002.safetensors", rest.v, rest.n);
        (void)fuzz_safetensors("hf/model-00002-of-00002.safetensors", rest.v, rest.n);
    }
    fuzz_load_folder(fuzz_path("hf"));
}

/* The whole file, or no bytes; to be freed with free(). */
static fuzz_bytes file_of(const char *folder, const char *name, bool weights)
{
    char path[TEST_PATH];
    size_t n;
    test_join(path, folder, name);
    if (!test_file_exists(path)) return (fuzz_bytes){ NULL, 0 };
    if (weights) return fuzz_seed_safetensors(path);
    char *bytes = test_read_file(path, &n);
    return (fuzz_bytes){ (uint8_t *)bytes, n };
}

void fuzz_seed_folder(const fuzz_seeds *s, const char *name, const char *folder)
{
    char index[TEST_PATH];
    test_join(index, folder, "model.safetensors.index.json");
    const bool shards = test_file_exists(index);
    const fuzz_bytes part[] = {
        file_of(folder, "config.json", false),
        file_of(folder, "model.safetensors.index.json", false),
        file_of(folder, "tokenizer.json", false),
        file_of(folder, shards ? "model-00001-of-00002.safetensors" : "model.safetensors", true),
    };
    fuzz_seed_parts(s, name, part, 4);
    for (int i = 0; i < 4; i++) free((void *)(uintptr_t)part[i].v);
}

static void seeds(const fuzz_seeds *s)
{
    static const char *const names[] = { "tiny", "tiny-tied", "two-shards" };
    char folder[TEST_PATH], path[TEST_PATH];
    for (int i = 0; i < 3; i++) {
        test_join(path, i == 2 ? "hf/odd" : "hf", names[i]);
        if (test_golden(folder, path)) fuzz_seed_folder(s, names[i], folder);
    }
    test_folder(folder);
    test_join(folder, folder, "llama");
    saved_export("llama", "hf", false, folder);
    fuzz_seed_folder(s, "small", folder);
}

const fuzz_target fuzz_target_hf = { "hf", "a Hugging Face folder", run, seeds };
