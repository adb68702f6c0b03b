/* JSON lines: running text, or prompts with completions, by formats or without; the first byte as
 * of target text. With 16 in it the first line is a format, and the rest a prompt for it. */
#include "target_texts.h"

#include <detent/experimental/text.h>
#include <string.h>

static dt_status take(void *user, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)user += bytes;
    return DT_OK;
}

static void fill(const char *text, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    char format[256];
    size_t written = 0;
    const char *end = memchr(text, '\n', n < sizeof format ? n : sizeof format - 1);
    if (end != NULL && memchr(text, 0, (size_t)(end - text)) == NULL) {
        memcpy(format, text, (size_t)(end - text));
        format[end - text] = 0;
        const size_t left = n - (size_t)(end - text) - 1;
        if (dt_prompt_fill(ctx, format, end + 1, left, take, &written) != DT_OK) {
            fuzz_refused(ctx, written > 0);
        }
    }
    fuzz_end(ctx);
}

static void run(const uint8_t *data, size_t n)
{
    if (n > 1 && (data[0] & 16) != 0) fill((const char *)data + 1, n - 1);
    if (n > 0) fuzz_open_text(DT_DATA_JSONL, fuzz_file("lines.jsonl", data + 1, n - 1), data[0]);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_seed_text(s, "text",
                   "\1{\"text\": \"hello \\u00e9 \\ud83d\\ude00 there\"}\n"
                   "{\"text\": \"b\", \"other\": [1, {\"a\": null}]}\n");
    fuzz_seed_text(s, "formats",
                   "\14{\"q\": \"a\", \"prompt\": \"1+1=\", \"completion\": \"2\"}\n"
                   "{\"prompt\": \"\", \"completion\": \"b\", \"q\": \"\"}\n");
    fuzz_seed_text(s, "filled", "\20{a}: {{b}} {b}\n{\"b\": \"1\", \"a\": \"2\"}");
    fuzz_seed_text(s, "prompts",
                   "\2{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n"
                   "{\"prompt\": \"2\", \"completion\": \"31\"}\n"
                   "{\"completion\": \"=\", \"prompt\": \"\"}\n");
    fuzz_seed_text(s, "messages",
                   "\1{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
                   "\"assistant\", \"content\": \"b\", \"weight\": 1}], \"tools\": []}\n"
                   "{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}\n"
                   "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": "
                   "\"gpt\", \"value\": \"b\"}], \"system\": \"c\"}\n");
}

const fuzz_target fuzz_target_jsonl = { "jsonl", "JSON lines", run, seeds };
