/* tokenizer.json and a text: what is encoded decodes to itself, unless a normalizer or a
 * sentencepiece vocabulary may change it; what is written is read again and encodes the same. */
#include "fuzz.h"

#include "testing.h"

#include <detent/experimental/text.h>

#include <stdio.h>

typedef struct match {
    fuzz_bytes text;
    size_t at;
    bool same;
} match;

static dt_status compare(void *user, const char *part, size_t n)
{
    match *m = user;
    if (m->at + n > m->text.n || memcmp(m->text.v + m->at, part, n) != 0) m->same = false;
    m->at += n;
    return DT_OK;
}

/* Whether a tokenizer that was written has what changes a text. */
static bool changes_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    FUZZ_NEEDS(f != NULL && fseek(f, 0, SEEK_END) == 0, "%s", path);
    const size_t n = (size_t)ftell(f);
    char *text = malloc(n + 1);
    rewind(f);
    FUZZ_NEEDS(text != NULL && fread(text, 1, n, f) == n, "%s", path);
    fclose(f);
    text[n] = 0;
    const bool normalizes = strstr(text, "\"normalizer\":{") != NULL;
    const bool pieces = strstr(text, "\"byte_fallback\":true") != NULL;
    free(text);
    return normalizes || pieces;
}

static void encode(dt_ctx *ctx, const dt_tokenizer *k, const dt_tokenizer *again, fuzz_bytes text)
{
    const bool may_change = changes_text(fuzz_path("tokenizer.json"));
    dt_ids ids = { 0 }, others = { 0 };
    const dt_encoding all = { true, true };
    match m = { text, 0, true };
    if (dt_tokenizer_encode(k, (const char *)text.v, text.n, NULL, &ids) == DT_OK) {
        FUZZ_HOLDS(dt_tokenizer_decode(k, ids.id, ids.n, false, compare, &m) == DT_OK, "%s",
                   dt_error(ctx));
        FUZZ_HOLDS(may_change || (m.same && m.at == text.n), "%zu of %zu bytes come back", m.at,
                   text.n);
        FUZZ_HOLDS(dt_tokenizer_encode(again, (const char *)text.v, text.n, NULL, &others) == DT_OK,
                   "%s", dt_error(ctx));
        FUZZ_HOLDS(ids.n == others.n, "%lld ids, read again %lld", (long long)ids.n,
                   (long long)others.n);
        FUZZ_HOLDS(ids.n == 0 || memcmp(ids.id, others.id, (size_t)ids.n * sizeof *ids.id) == 0,
                   "other ids");
    }
    dt_ids_free(&ids);
    dt_ids_free(&others);
    (void)dt_tokenizer_encode(k, (const char *)text.v, text.n, &all, &ids);
    dt_ids_free(&ids);
}

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes text = fuzz_part(&rest);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_tokenizer *k = NULL, *again = NULL;
    if (dt_tokenizer_parse(ctx, (const char *)rest.v, rest.n, "t", &k) == DT_OK) {
        const char *path = fuzz_path("tokenizer.json");
        FUZZ_HOLDS(dt_tokenizer_write(k, path) == DT_OK, "not written: %s", dt_error(ctx));
        FUZZ_HOLDS(dt_tokenizer_read(ctx, path, &again) == DT_OK, "not read again: %s",
                   dt_error(ctx));
        encode(ctx, k, again, text);
        dt_tokenizer_free(again);
        dt_tokenizer_free(k);
    } else {
        fuzz_refused(ctx, k != NULL);
    }
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const char *const names[] = { "gpt2-512", "llama3-512", "models/llama2",
                                         "models/gemma" };
    static const char *const kept[] = { "gpt2", "llama3", "llama2", "gemma" };
    static const char *const small[] = {
        "{\"model\":{\"type\":\"bytes\"}}",
        "{\"model\":{\"type\":\"chars\",\"characters\":\"\\n !\\\\ab\\u00e4\\u20ac\"}}"
    };
    for (int i = 0; i < 2; i++) {
        const fuzz_bytes few[] = { fuzz_text("ab !\n"), fuzz_text(small[i]) };
        fuzz_seed_parts(s, i == 0 ? "bytes" : "chars", few, 2);
    }
    for (int i = 0; i < 4; i++) { /* the last two are of sentencepiece */
        char path[TEST_PATH];
        test_join(path, "tokenizer", names[i]);
        test_join(path, path, "tokenizer.json");
        char name[TEST_PATH];
        memcpy(name, path, sizeof name);
        if (!test_golden(path, name)) continue;
        char *json = test_read_file(path, NULL);
        const fuzz_bytes part[] = { fuzz_text("Hello  world\n 1234 it's \xc3\xa9<|endoftext|>"),
                                    fuzz_text(json) };
        fuzz_seed_parts(s, kept[i], part, 2);
        free(json);
    }
}

const fuzz_target fuzz_target_tokenizer = { "tokenizer", "tokenizer.json and a text", run, seeds };
