/* JSON lines: running text, or prompts with completions; the first byte as of target text. */
#include "target_texts.h"

static void run(const uint8_t *data, size_t n)
{
    if (n > 0) fuzz_open_text(DT_DATA_JSONL, fuzz_file("lines.jsonl", data + 1, n - 1), data[0]);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_seed_text(s, "text",
                   "\1{\"text\": \"hello \\u00e9 \\ud83d\\ude00 there\"}\n"
                   "{\"text\": \"b\", \"other\": [1, {\"a\": null}]}\n");
    fuzz_seed_text(s, "prompts",
                   "\2{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n"
                   "{\"prompt\": \"2\", \"completion\": \"31\"}\n"
                   "{\"completion\": \"=\", \"prompt\": \"\"}\n");
}

const fuzz_target fuzz_target_jsonl = { "jsonl", "JSON lines", run, seeds };
