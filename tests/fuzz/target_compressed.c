/* A folder of integers as compressed-tensors writes it: config.json, then weights as
 * fuzz_safetensors takes them. */
#include "fuzz.h"

#include "saved.h"
#include "target_folder.h"
#include "testing.h"

#include <detent/export.h>

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes config = fuzz_part(&rest);
    fuzz_remove("ct");
    (void)fuzz_file("ct/config.json", config.v, config.n);
    (void)fuzz_safetensors("ct/model.safetensors", rest.v, rest.n);
    fuzz_load_folder(fuzz_path("ct"));
}

static void seeds(const fuzz_seeds *s)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(folder, folder, "llama");
    saved_export("llama", "compressed-tensors", true, folder);
    test_join(path, folder, "config.json");
    char *config = test_read_file(path, NULL);
    test_join(path, folder, "model.safetensors");
    const fuzz_bytes part[] = { fuzz_text(config), fuzz_seed_safetensors(path) };
    fuzz_seed_parts(s, "int4", part, 2);
    free((void *)(uintptr_t)part[1].v);
    free(config);
}

const fuzz_target fuzz_target_compressed = { "compressed", "a folder of compressed-tensors", run,
                                             seeds };
