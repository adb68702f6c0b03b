/* A folder of integers as compressed-tensors writes it: config.json, then weights as
 * fuzz_safetensors takes them. */
#include "fuzz.h"

#include "saved.h"
#include "target_folder.h"
#include "testing.h"

#include <detent/export.h>
#include <detent/qat.h>

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes config = fuzz_part(&rest);
    fuzz_remove("ct");
    (void)fuzz_file("ct/config.json", config.v, config.n);
    (void)fuzz_safetensors("ct/model.safetensors", rest.v, rest.n);
    fuzz_load_folder(fuzz_path("ct"));
}

static void seed(const fuzz_seeds *s, const char *name, int scheme)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(folder, folder, "llama");
    saved_export_scheme("llama", "compressed-tensors", scheme, folder);
    test_join(path, folder, "config.json");
    char *config = test_read_file(path, NULL);
    test_join(path, folder, "model.safetensors");
    const fuzz_bytes part[] = { fuzz_text(config), fuzz_seed_safetensors(path) };
    fuzz_seed_parts(s, name, part, 2);
    free((void *)(uintptr_t)part[1].v);
    free(config);
}

static void seeds(const fuzz_seeds *s)
{
    seed(s, "int4", DT_SCHEME_Q4_0);
    seed(s, "nvfp4", DT_SCHEME_NVFP4);
    seed(s, "mxfp4", DT_SCHEME_MXFP4);
    seed(s, "mxfp8", DT_SCHEME_MXFP8);
}

const fuzz_target fuzz_target_compressed = { "compressed", "a folder of compressed-tensors", run,
                                             seeds };
