/* A file of ids; the first byte as of target text, and whether an id has 2 or 4 bytes. */
#include "target_texts.h"

static void run(const uint8_t *data, size_t n)
{
    if (n == 0) return;
    const char *name = data[0] & 4 ? "ids.u32.bin" : "ids.bin";
    fuzz_open_text(DT_DATA_TOKENS, fuzz_file(name, data + 1, n - 1), data[0]);
}

static void seeds(const fuzz_seeds *s)
{
    static const uint8_t two[33] = { 2, 1, 0, 5, 0, 7, 1 }, four[65] = { 4, 1, 0, 0, 0, 9 };
    fuzz_seed(s, "u16", two, sizeof two);
    fuzz_seed(s, "u32", four, sizeof four);
}

const fuzz_target fuzz_target_tokens = { "tokens", "a file of ids", run, seeds };
