/* Running text, plain or gzip; the first byte chooses tokenizer and validation share. */
#include "target_texts.h"

void fuzz_open_text(dt_data_format format, const char *path, unsigned how)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_data_options o = dt_data_defaults();
    dt_dataset *d = NULL, *validation = NULL, *test = NULL;
    o.format = (int)format;
    o.context = 8;
    o.validation = how & 2 ? 0.25 : 0;
    o.train = (dt_strings){ .n = 1, .v = { path } };
    if (format == DT_DATA_JSONL && (how & 4) != 0) o.prompt = "{{{q}}} {prompt}\n";
    if (format == DT_DATA_JSONL && (how & 8) != 0) o.completion = "{q}{completion}";
    if (format == DT_DATA_JSONL) o.chat = how & 32 ? DT_CHAT_AUTO : DT_CHAT_PLAIN;
    if (format != DT_DATA_TOKENS) o.tokenizer = how & 1 ? "bytes" : "chars";
    if (dt_data_open(ctx, &o, &d, &validation, &test) == DT_OK) {
        fuzz_batches(d);
        fuzz_batches(validation);
        fuzz_batches(test);
    } else {
        fuzz_refused(ctx, d != NULL || validation != NULL || test != NULL);
    }
    fuzz_end(ctx);
}

static void run(const uint8_t *data, size_t n)
{
    if (n > 0) fuzz_open_text(DT_DATA_TEXT, fuzz_file("text", data + 1, n - 1), data[0]);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_seed_text(s, "chars", "\2hello world, hello \xc3\xa9 world\nand again, and again\n");
    fuzz_seed_text(s, "bytes", "\3any bytes \xff\xfe are text\n");
}

const fuzz_target fuzz_target_text = { "text", "running text", run, seeds };
