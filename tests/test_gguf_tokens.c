/* Tokenizers in the keys of a GGUF file, as a table: which become detent's JSON, which are left out
 * with a reason, and which keys are an error. Whole files are in test_gguf.c. */
#include "testing.h"

#include "core/text/byte_order.h"
#include "io/gguf/gguf_keys.h"
#include "io/safetensors/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_KEYS = 10, ROOM = 8192 };

/* "name=T:value;...": T is s (a string), S, I, F (arrays of strings with | between them, of i32, of
 * f32), i (an i32) or b (a bool); an element @ stands for 256, one for each byte. Names are those
 * behind "tokenizer.ggml.". */
typedef struct fields {
    dt__gguf_key key[MOST_KEYS];
    char name[MOST_KEYS][64];
    unsigned char data[ROOM];
    size_t used;
    int n;
} fields;

static void put(fields *f, const void *bytes, size_t n)
{
    ck_assert(f->used + n <= sizeof f->data);
    memcpy(f->data + f->used, bytes, n);
    f->used += n;
}

static void put_string(fields *f, const char *text, size_t n)
{
    uint64_t length;
    dt__copy_little(&length, &(uint64_t){ n }, sizeof length);
    put(f, &length, sizeof length);
    put(f, text, n);
}

static void put_element(fields *f, char kind, const char *text, size_t n)
{
    const float real = strtof(text, NULL);
    const int32_t whole = (int32_t)strtol(text, NULL, 10);
    char bytes[4];
    dt__copy_little(bytes, kind == 'F' ? (const void *)&real : &whole, sizeof bytes);
    if (kind == 's' || kind == 'S') put_string(f, text, n);
    else if (kind == 'b') put(f, &(char){ whole != 0 }, 1);
    else put(f, bytes, sizeof bytes);
}

/* A token, type or score for each byte. */
static uint64_t put_bytes(fields *f, char kind)
{
    char text[8];
    for (unsigned i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", i);
        put_element(f, kind, kind == 'S' ? text : kind == 'I' ? "6" : "0", strlen(text));
    }
    return 256;
}

static void put_value(fields *f, dt__gguf_key *k, char kind, const char *text, size_t n)
{
    static const char arrays[] = "SIF";
    const char *end = text + n;
    const char between = kind == 'S' ? '|' : ',';
    k->is_array = strchr(arrays, kind) != NULL;
    k->type = kind == 's' || kind == 'S' ? DT__GGUF_KEY_STRING
              : kind == 'F'              ? DT__GGUF_KEY_F32
              : kind == 'b'              ? DT__GGUF_KEY_BOOL
                                         : DT__GGUF_KEY_I32;
    k->data = f->data + f->used;
    while (text <= end) {
        const char *next = k->is_array ? memchr(text, between, (size_t)(end - text)) : NULL;
        if (next == NULL) next = end;
        if (*text == '@') {
            k->n += put_bytes(f, kind);
        } else {
            put_element(f, kind, text, (size_t)(next - text));
            k->n++;
        }
        text = next + 1;
    }
}

static int by_name(const void *a, const void *b)
{
    const dt__gguf_key *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void parse(fields *f, const char *spec)
{
    *f = (fields){ .n = 0 };
    while (*spec != 0) {
        const size_t n = strcspn(spec, ";");
        const char *is = memchr(spec, '=', n);
        ck_assert(is != NULL && f->n < MOST_KEYS);
        char *name = f->name[f->n];
        snprintf(name, sizeof f->name[0], "tokenizer.ggml.%.*s", (int)(is - spec), spec);
        dt__gguf_key *k = &f->key[f->n++];
        k->name = name;
        k->bytes = strlen(name);
        put_value(f, k, is[1], is + 3, (size_t)(spec + n - is - 3));
        spec += n + (spec[n] == ';');
    }
    qsort(f->key, (size_t)f->n, sizeof f->key[0], by_name);
}

/* ---- cases ----------------------------------------------------------------------------------- */

#define RWKV "model=s:rwkv;"
#define BPE "model=s:gpt2;merges=S:a b;"
#define TWO                                                                                        \
    "model=s:llama;tokens=S:<unk>|<s>|</s>|a|b|\xe2\x96\x81|ab|@;token_type=I:2,3,3,1,1,1,1,@;"
#define SCORED TWO "scores=F:0,0,0,0,0,0,-1,@;"
#define OTHER "only byte-level BPE, sentencepiece, bytes and characters are known here"
#define NO_CHARS "its tokens are not bytes or characters"

static const struct {
    const char *keys, *words; /* in the JSON, the line that is said, or the error */
    dt_status status;
    bool there;
} cases[] = {
    /* characters and escapes */
    { RWKV "tokens=S:\\t|\\n|\\r| |!|\\\\|a|\xe2\x82\xac",
      "\"chars\",\"characters\":\"\\u0009\\u000a\\u000d !", DT_OK, true },
    { RWKV "tokens=S:\\x41|\\x5a|\\x7a", "\"characters\":\"AZz\"", DT_OK, true },
    { RWKV "tokens=S:b|a", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:a|ab", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:abcde", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\\", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\\x4", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\\x", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\\xg1", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\\x1g", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\\x1G", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:\xff", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:a|b;token_type=I:3,1", NO_CHARS, DT_OK, false },
    { RWKV "tokens=S:a|b|c;token_type=I:1,1,5", "\"characters\":\"ab\"", DT_OK, true },
    /* what is not known */
    { "model=s:gpt2;tokens=S:a|b", OTHER, DT_OK, false },
    { "model=s:bert;tokens=S:a|b;merges=S:a b", OTHER, DT_OK, false },
    { "tokens=S:a|b", OTHER, DT_OK, false },
    { "model=s:gpt2", "", DT_OK, false },
    { BPE "tokens=S:a|b|ab", "tokenizer.ggml.pre is none that is known here", DT_OK, false },
    { BPE "tokens=S:a|b|ab;pre=s:other", "tokenizer.ggml.pre is none that is known here", DT_OK,
      false },
    { TWO, "tokenizer.ggml.scores are missing", DT_OK, false },
    /* arrays that are wrong */
    { "model=s:gpt2;tokens=s:a", "tokenizer.ggml.tokens' must be an array of strings",
      DT_ERR_FORMAT, false },
    { "model=s:gpt2;tokens=I:1,2", "tokenizer.ggml.tokens' must be an array of strings",
      DT_ERR_FORMAT, false },
    { BPE "tokens=S:a|b;token_type=F:1,1", "tokenizer.ggml.token_type' must be an array of i32",
      DT_ERR_FORMAT, false },
    { "model=s:gpt2;tokens=S:a|b;merges=I:1", "tokenizer.ggml.merges' must be an array of strings",
      DT_ERR_FORMAT, false },
    { TWO "scores=I:1,2", "tokenizer.ggml.scores' must be an array of f32", DT_ERR_FORMAT, false },
    { TWO "scores=F:1,2", "scores' has 2 elements, 'tokenizer.ggml.tokens' 263", DT_ERR_FORMAT,
      false },
    { BPE "tokens=S:a|b;token_type=I:1", "token_type' has 1 elements, 'tokenizer.ggml.tokens' 2",
      DT_ERR_FORMAT, false },
    { "model=I:1;tokens=S:a", "tokenizer.ggml.model", DT_ERR_FORMAT, false },
    { BPE "tokens=S:a|b|ab;pre=i:1", "tokenizer.ggml.pre", DT_ERR_FORMAT, false },
    { BPE "pre=s:gpt-2;tokens=S:a|\xff", "tokens': element 1 is not UTF-8", DT_ERR_FORMAT, false },
    { "model=s:gpt2;pre=s:gpt-2;tokens=S:a|b;merges=S:a b|\xc3 c",
      "merges': element 1 is not UTF-8", DT_ERR_FORMAT, false },
    { "model=s:llama;tokens=S:a|\xe2\x96;scores=F:0,0", "tokens': element 1 is not UTF-8",
      DT_ERR_FORMAT, false },
    { BPE "pre=s:gpt-2;tokens=S:a|b|ab;bos_token_id=s:a", "tokenizer.ggml.bos_token_id",
      DT_ERR_FORMAT, false },
    { BPE "pre=s:gpt-2;tokens=S:a|b|ab;add_bos_token=i:2", "tokenizer.ggml.add_bos_token",
      DT_ERR_FORMAT, false },
    { SCORED "add_space_prefix=i:1", "tokenizer.ggml.add_space_prefix", DT_ERR_FORMAT, false },
    { SCORED "add_eos_token=i:1", "tokenizer.ggml.add_eos_token", DT_ERR_FORMAT, false },
    { SCORED "eos_token_id=s:x", "tokenizer.ggml.eos_token_id", DT_ERR_FORMAT, false },
    /* byte-level BPE without a token for each byte: test_gguf.c has those with them */
    { BPE "pre=s:gpt-2;tokens=S:a|b|ab", "byte 0x00 (U+0100) is not in the vocabulary", DT_OK,
      false },
    { BPE "pre=s:llama3;tokens=S:a|b|ab|<s>;token_type=I:1,1,1,3;bos_token_id=i:3",
      "its tokenizer is left out", DT_OK, false },
    /* a token in front of texts, behind them, both, the same one */
    { SCORED "bos_token_id=i:1;eos_token_id=i:2",
      "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
      "\"type_"
      "id\":0}}],\"pair\"",
      DT_OK, true },
    { SCORED "bos_token_id=i:1;add_bos_token=b:0;eos_token_id=i:2;add_eos_token=b:1",
      "\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"</s>\"",
      DT_OK, true },
    { SCORED "bos_token_id=i:1;eos_token_id=i:2;add_eos_token=b:1",
      "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]},\"</s>\":{",
      DT_OK, true },
    { SCORED "bos_token_id=i:2;eos_token_id=i:2;add_eos_token=b:1",
      "\"special_tokens\":{\"</s>\":{\"id\":\"</s>\",\"ids\":[2],\"tokens\":[\"</s>\"]}}}", DT_OK,
      true },
    { SCORED "bos_token_id=i:263", "\"post_processor\":null", DT_OK, true },
    { SCORED "add_space_prefix=b:0", "\"normalizers\":[{\"type\":\"Replace\"", DT_OK, true },
    { TWO "scores=F:0,0,0,0,0,0,nan,@", "or a score that is not a number", DT_OK, false },
};

static void keep(void *user, const char *line) { snprintf(user, 512, "%s", line); }

START_TEST(keys_become_a_tokenizer)
{
    char said[512] = "", path[] = "t.gguf";
    fields f;
    parse(&f, cases[_i].keys);
    dt_ctx_options o = dt_ctx_defaults();
    o.log = keep;
    o.log_user = said;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    dt_file file = { .ctx = ctx, .path = path };
    const dt__gguf_file g = { .ctx = ctx, .file = &file, .key = f.key, .n_keys = f.n };
    dt__chars t = { .ctx = ctx };
    bool there = true;
    const dt_status s = dt__gguf_put_tokenizer(&g, &t, &there);
    dt__put(&t, "", 1);
    const char *text = s != DT_OK ? dt_error(ctx) : there ? t.bytes : said;
    ck_assert_msg(s == cases[_i].status, "%s: %s", dt_status_name(s), text);
    ck_assert_msg(there == cases[_i].there, "there %d: %.300s", there, text);
    ck_assert_msg(strstr(text, cases[_i].words) != NULL, "not '%s' but %.900s", cases[_i].words,
                  text);
    dt__release(ctx, t.bytes);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_gguf_tokens_suite(void)
{
    Suite *s = suite_create("gguf_tokens");
    TCase *c = tcase_create("gguf_tokens");
    tcase_add_loop_test(c, keys_become_a_tokenizer, 0, (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(s, c);
    return s;
}
