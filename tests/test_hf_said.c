/* What the files of a Hugging Face folder say besides weights: tokens that begin, end and pad
 * texts, in random files and forms; keys that are used, refused or reported. */
#include "testing.h"

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/text/tokenizer.h"
#include "io/hf/hf.h"

#include <detent/experimental/data.h>
#include <detent/export.h>
#include <detent/experimental/io.h>

#include <stdio.h>
#include <stdlib.h>

#define DETENT DETENT_BINARY_DIR "/detent"

enum { VOCAB = 260, ADDED = 256, LINES = 1 << 14, TEXT = 1 << 13 };
enum { BEGIN, END, PAD, KINDS };

static const char *const added[] = { "<|a|>", "<|b|>", "<|c|>", "<|d|>" };
static const char *const id_keys[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
static const char *const text_keys[] = { "bos_token", "eos_token", "pad_token" };

static const char *const files[] = { "config.json", "generation_config.json",
                                     "tokenizer_config.json", "special_tokens_map.json" };

static void note(void *user, const char *line)
{
    char *said = user;
    const size_t used = strlen(said);
    snprintf(said + used, LINES - used, "%s\n", line);
}

static dt_ctx *make_context(char *said)
{
    dt_ctx *ctx;
    said[0] = 0;
    const dt_ctx_options options = { .log = note, .log_user = said };
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    return ctx;
}

static void end_context(dt_ctx *ctx)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- a folder -------------------------------------------------------------------------------- */

/* A byte-level BPE without merges, with four added tokens. */
static void put_tokenizer(dt__chars *t)
{
    dt__put_text(t, "{\"version\": \"1.0\", \"added_tokens\": [");
    for (int i = 0; i < 4; i++) {
        dt__put_text(t, i == 0 ? "{\"id\": " : ", {\"id\": ");
        dt__put_integer(t, ADDED + i);
        dt__put_text(t, ", \"content\": ");
        dt__put_quoted(t, added[i]);
        dt__put_text(t, ", \"special\": true}");
    }
    dt__put_text(t, "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                    "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
                    "\"vocab\": {");
    for (int i = 0; i < 256; i++) {
        char c[8] = "";
        const uint32_t u = dt__byte_char(i);
        if (u < 128) c[0] = (char)u;
        else snprintf(c, sizeof c, "%c%c", (int)(0xc0 | u >> 6), (int)(0x80 | (u & 63)));
        if (i > 0) dt__put_text(t, ",");
        dt__put_quoted(t, c);
        dt__put_text(t, ":");
        dt__put_integer(t, i);
    }
    dt__put_text(t, "}, \"merges\": []}}");
}

#define CONFIG                                                                                     \
    "\"model_type\": \"llama\", \"vocab_size\": 260, \"hidden_size\": 8, \"num_hidden_layers\": "  \
    "1, \"num_attention_heads\": 2, \"intermediate_size\": 8, \"max_position_embeddings\": 32"

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    if (text != NULL) test_write_text(path, text);
    else test_remove(path);
}

/* A model with random weights, and its tokenizer. */
static void make_folder(char folder[TEST_PATH])
{
    static char said[LINES];
    char own[TEST_PATH];
    dt_ctx *ctx = make_context(said);
    dt_module *m;
    dt__chars t = { .ctx = ctx };
    const dt_llama_options o = { .vocab = VOCAB,
                                 .context = 32,
                                 .layers = 1,
                                 .heads = 2,
                                 .width = 8,
                                 .hidden = 8,
                                 .kv_heads = 2,
                                 .head_width = 4,
                                 .theta = 1e4,
                                 .eps = 1e-6,
                                 .rope = { .factor = 1,
                                           .low_freq_factor = 1,
                                           .high_freq_factor = 4,
                                           .original_context = 8192 } };
    put_tokenizer(&t);
    const dt_model_info info = { .family = dt_family_named(ctx, "llama"),
                                 .options = &o,
                                 .tokenizer = dt__chars_text(&t) };
    dt_seed(ctx, 5);
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    test_folder(own);
    test_join(folder, own, "hf");
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, folder));
    dt__release(ctx, t.bytes);
    dt_module_free(m);
    end_context(ctx);
    write_file(folder, "config.json", "{" CONFIG "}");
    write_file(folder, "generation_config.json", NULL);
}

/* ---- drawn tokens ---------------------------------------------------------------------------- */

static int below(dt__stream *s, int n) { return (int)dt__random_below(s, (uint64_t)n); }

/* What a file says; `decided`: it has an id of this kind, even if the model lacks the token. */
typedef struct words {
    dt_text_tokens tokens;
    bool decided[KINDS];
} words;

/* A value of an id: its text, and what is expected of it. */
static void draw_ids(dt__stream *s, int kind, char *text, words *said)
{
    dt_text_tokens *want = &said->tokens;
    int id[3];
    for (int i = 0; i < 3; i++) id[i] = below(s, VOCAB);
    const int how = below(s, 8), n = kind == END ? 1 + below(s, 3) : 1;
    static const char *const nothing[] = { "null", "false", "[]", "-1", "260" };
    said->decided[kind] = how > 3;
    if (how < 5) {
        strcpy(text, nothing[how]);
        return;
    }
    int used = 0;
    if (how > 5) used += sprintf(text, "[ ");
    for (int i = 0; i < (how > 5 ? n : 1); i++) {
        used += sprintf(text + used, "%s%d", i == 0 ? "" : " , ", id[i]);
        if (kind == BEGIN) want->begin = id[i];
        if (kind == PAD) want->pad = id[i];
        if (kind == END) dt__text_tokens_add_end(want, id[i]);
    }
    if (how > 5) sprintf(text + used, "]");
}

static void draw_text(dt__stream *s, int kind, char *text, words *said)
{
    dt_text_tokens *want = &said->tokens;
    const int i = below(s, 4), how = below(s, 5);
    static const char *const forms[] = { "null", "false", "\"<|none|>\"", "\"%s\"",
                                         "{\"special\": true, \"content\": \"%s\", \"id\": [1]}" };
    snprintf(text, 128, forms[how], added[i]);
    said->decided[kind] = how > 2;
    if (how < 3) return;
    if (kind == BEGIN) want->begin = ADDED + i;
    if (kind == PAD) want->pad = ADDED + i;
    if (kind == END) dt__text_tokens_add_end(want, ADDED + i);
}

/* Takes what the next file says, for kinds that no earlier file decides. */
static void take(words *to, const words *from)
{
    if (!to->decided[BEGIN]) to->tokens.begin = from->tokens.begin;
    if (!to->decided[PAD]) to->tokens.pad = from->tokens.pad;
    if (!to->decided[END]) {
        to->tokens.n_end = from->tokens.n_end;
        memcpy(to->tokens.end, from->tokens.end, sizeof to->tokens.end);
    }
    for (int i = 0; i < KINDS; i++) to->decided[i] |= from->decided[i];
}

static void put_first(dt_text_tokens *t, int32_t id)
{
    int32_t other[DT_MOST_ENDS];
    int n = 0;
    if (!dt_text_tokens_end(t, id)) return;
    for (int i = 0; i < t->n_end; i++) {
        if (t->end[i] != id) other[n++] = t->end[i];
    }
    t->end[0] = id;
    memcpy(t->end + 1, other, (size_t)n * sizeof *other);
}

/* Writes the four files with drawn keys; returns what they say together. */
static dt_text_tokens draw_files(dt__stream *s, const char *folder)
{
    static const char *const names[] = { "generation_config.json", "config.json",
                                         "tokenizer_config.json", "special_tokens_map.json" };
    words all = { .tokens = DT_NO_TEXT_TOKENS }, of_texts = all;
    for (int f = 0; f < 4; f++) {
        char text[2048], value[256];
        words want = { .tokens = DT_NO_TEXT_TOKENS };
        int used = sprintf(text, "{%s", f == 1 ? CONFIG : "");
        bool first = f != 1;
        for (int kind = 0; kind < KINDS; kind++) {
            if (below(s, 3) == 0) continue;
            if (f < 2) draw_ids(s, kind, value, &want);
            else draw_text(s, kind, value, &want);
            used += sprintf(text + used, "%s\n\"%s\" : %s", first ? "" : ",",
                            (f < 2 ? id_keys : text_keys)[kind], value);
            first = false;
        }
        sprintf(text + used, "}");
        const bool there = f == 1 || below(s, 4) > 0;
        write_file(folder, names[f], there ? text : NULL);
        if (there) take(f < 2 ? &all : &of_texts, &want);
    }
    take(&all, &of_texts);
    if (of_texts.tokens.n_end > 0) put_first(&all.tokens, of_texts.tokens.end[0]);
    return all.tokens;
}

static void check_tokens(const char *path, const dt_text_tokens *want, const char *where)
{
    static char said[LINES];
    dt_ctx *ctx = make_context(said);
    dt_file *file;
    dt_text_tokens got;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_text_tokens_parse(ctx, dt_file_meta(file, "detent.tokens"), path, &got));
    ck_assert_msg(got.begin == want->begin && got.pad == want->pad,
                  "%s: begin %d, not %d; pad %d, "
                  "not %d",
                  where, got.begin, want->begin, got.pad, want->pad);
    ck_assert_msg(got.n_end == want->n_end, "%s: %d ends, not %d", where, got.n_end, want->n_end);
    for (int i = 0; i < got.n_end; i++) {
        ck_assert_msg(got.end[i] == want->end[i], "%s: end %d is %d, not %d", where, i, got.end[i],
                      want->end[i]);
    }
    dt_file_close(file);
    end_context(ctx);
}

/* Every form of the model says the same; a folder that is written again has the same files. */
static void check_forms(const char *folder, const dt_text_tokens *want)
{
    static char said[LINES];
    char own[TEST_PATH], path[4][TEST_PATH];
    static const char *const names[] = { "model.safetensors", "hf", "new", "model.gguf" };
    dt_ctx *ctx = make_context(said);
    dt_module *m;
    dt_model_info info;
    test_folder(own);
    for (int i = 0; i < 4; i++) test_join(path[i], own, names[i]);
    TEST_OK(ctx, dt_hf_load(ctx, folder, &m, &info));
    TEST_OK(ctx, dt_model_save(m, &info, path[0]));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, path[0], &m, &info));
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, path[1]));
    ck_assert_int_eq(test_shell(NULL, "diff -r %s %s >/dev/null", folder, path[1]), 0);
    info.hf = NULL;
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, path[2]));
    TEST_OK(ctx, dt_export(m, &info, "gguf", NULL, path[3], NULL));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    for (int i = 0; i < 4; i++) check_tokens(path[i], want, names[i]);
    end_context(ctx);
}

static const test_draws draws = { .usual = 400, .sanitized = 10, .quick = 60 };

START_TEST(tokens_are_what_the_first_file_says)
{
    char folder[TEST_PATH];
    dt__stream s = { .key = 17 };
    make_folder(folder);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const dt_text_tokens want = draw_files(&s, folder);
        check_tokens(folder, &want, "the folder");
        if (i % 6 == 0) check_forms(folder, &want);
    }
}
END_TEST

/* Writes a folder again with other tokens than its files say. */
static dt_status change(dt_ctx *ctx, void *folder)
{
    char to[TEST_PATH];
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    test_join(to, folder, "new");
    test_remove(to);
    dt_status s = dt_hf_load(ctx, folder, &m, &info);
    info.tokens = "{\"end\": [259, 5], \"pad\": 258}";
    if (s == DT_OK) s = dt_hf_save(m, &info, NULL, to);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s;
}

/* The files then have those tokens, and keep their other keys; every failing allocation is
 * noticed. */
START_TEST(changed_tokens_replace_those_of_the_files)
{
    static const char *const kept[] = { "use_cache", "temperature", "chat_template", "unk_token" };
    static const dt_text_tokens want = { -1, 258, 2, { 259, 5 } };
    char folder[TEST_PATH], to[TEST_PATH], path[TEST_PATH];
    make_folder(folder);
    write_file(folder, files[0], "{" CONFIG ", \"eos_token_id\": [1], \"use_cache\": true}");
    write_file(folder, files[1], "{\"bos_token_id\": 3, \"temperature\": 1.0}");
    write_file(folder, files[2], "{\"eos_token\": \"<|a|>\", \"chat_template\": \"{{ x }}\"}");
    write_file(folder, files[3], "{\"pad_token\": {\"content\": \"<|b|>\"}, \"unk_token\": null}");
    ck_assert_int_gt(test_every_allocation(change, folder), 50);
    test_join(to, folder, "new");
    check_tokens(to, &want, "changed");
    for (int i = 0; i < 4; i++) {
        test_join(path, to, files[i]);
        char *text = test_read_file(path, NULL);
        ck_assert_msg(strstr(text, kept[i]) != NULL, "%s", text);
        ck_assert_msg(strstr(text, "<|a|>") == NULL && strstr(text, "<|b|>") == NULL, "%s", text);
        free(text);
    }
}
END_TEST

START_TEST(c_tests_for_every_end)
{
    static char said[LINES];
    char folder[TEST_PATH], to[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx = make_context(said);
    dt_module *m;
    dt_model_info info;
    dt_export_options o = dt_export_defaults();
    o.text = true;
    make_folder(folder);
    write_file(folder, files[1], "{\"eos_token_id\": [7, 258, 9]}");
    TEST_OK(ctx, dt_hf_load(ctx, folder, &m, &info));
    test_join(to, folder, "m");
    TEST_OK(ctx, dt_export(m, &info, "c", &o, to, NULL));
    test_join(path, to, "m_text.h");
    char *text = test_read_file(path, NULL);
    ck_assert_ptr_nonnull(strstr(text, "#define M_END 7 "));
    ck_assert_ptr_nonnull(strstr(text, "((token) == 7 || (token) == 258 || (token) == 9)"));
    free(text);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    end_context(ctx);
}
END_TEST

/* Values that are neither an id nor nothing. */
START_TEST(wrong_types_are_named)
{
    static const char *const values[] = { "\"2\"", "{}", "true", "1.5", "[[1]]", "[1, \"2\"]", "" };
    static char said[LINES];
    char folder[TEST_PATH], text[1024];
    make_folder(folder);
    for (int i = 0; i < 2 * 3 * 7; i++) {
        const char *key = id_keys[i % 3], *value = values[i / 6];
        const bool in_config = i % 2 == 0;
        snprintf(text, sizeof text, "{%s%s\"%s\": %s}", in_config ? CONFIG : "",
                 in_config ? ", " : "", key, value);
        write_file(folder, "config.json", in_config ? text : "{" CONFIG "}");
        write_file(folder, "generation_config.json", in_config ? NULL : text);
        dt_ctx *ctx = make_context(said);
        dt_file *file;
        const dt_status s = dt_file_open(ctx, folder, &file);
        ck_assert_msg(s == DT_ERR_FORMAT, "%s: %s", text, dt_status_name(s));
        ck_assert_msg(strstr(dt_error(ctx), "config.json") != NULL, "%s", dt_error(ctx));
        end_context(ctx);
    }
    write_file(folder, "generation_config.json", NULL);
    write_file(folder, "config.json", "{" CONFIG "}");
    write_file(folder, "tokenizer_config.json", "{\"eos_token\": 5}");
    dt_ctx *ctx = make_context(said);
    dt_file *file;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "eos_token", dt_file_open(ctx, folder, &file));
    end_context(ctx);
}
END_TEST

/* ---- keys ------------------------------------------------------------------------------------ */

/* A key that no table lists is reported with its file; without it there is no message. */
START_TEST(unknown_keys_are_named)
{
    static const char *const values[] = { "1", "null", "[1, {\"a\": \"}\"}]", "\"x\"" };
    static char said[LINES];
    char folder[TEST_PATH], text[1024], key[32], path[TEST_PATH];
    dt__stream s = { .key = 23 };
    make_folder(folder);
    for (int i = 0; i < 16; i++) {
        const int f = i % 4;
        for (int c = 0; c < 12; c++) key[c] = (char)('a' + below(&s, 26));
        key[12] = 0;
        for (int with = 0; with < 2; with++) {
            dt_ctx *ctx = make_context(said);
            dt_file *file;
            snprintf(text, sizeof text, "{%s", f == 0 ? CONFIG ", \"use_cache\": true" : "");
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%s%s%s%s}",
                     with ? (f == 0 ? ", " : "") : "", with ? "\"" : "", with ? key : "",
                     with ? "\": " : "", with ? values[i / 4] : "");
            write_file(folder, files[f], text);
            TEST_OK(ctx, dt_file_open(ctx, folder, &file));
            dt_file_close(file);
            TEST_OK(ctx, dt_file_open(ctx, folder, &file)); /* said once */
            dt_file_close(file);
            char *at = strstr(said, key);
            ck_assert_msg((at != NULL) == (with == 1), "%s: %s", text, said);
            ck_assert_msg(!with || strstr(said, files[f]) != NULL, "%s", said);
            ck_assert(at == NULL || strstr(at + 1, key) == NULL);
            end_context(ctx);
        }
        test_join(path, folder, files[f]);
        write_file(folder, files[f], f == 0 ? "{" CONFIG "}" : NULL);
    }
}
END_TEST

/* tokenizer_config.json beside a tokenizer without a template: differences are reported, or refused
 * where ids would differ. */
START_TEST(a_tokenizer_s_own_file_is_followed)
{
    static const struct {
        const char *keys, *said;
        dt_status status;
    } cases[] = {
        { "\"add_bos_token\": false, \"add_eos_token\": null", "", DT_OK },
        { "\"add_bos_token\": true", "add_bos_token is true", DT_OK },
        { "\"add_eos_token\": true", "add_eos_token is true", DT_OK },
        { "\"add_prefix_space\": true, \"tokenizer_class\": \"PreTrainedTokenizerFast\"", "",
          DT_OK },
        { "\"tokenizer_class\": \"GPT2TokenizerFast\", \"add_prefix_space\": true",
          "add_prefix_space true", DT_ERR_UNSUPPORTED },
        { "\"tokenizer_class\": \"GPT2TokenizerFast\", \"add_prefix_space\": false", "", DT_OK },
        { "\"added_tokens_decoder\": {\"257\": {\"content\": \"<|b|>\", \"special\": true}}", "",
          DT_OK },
        { "\"added_tokens_decoder\": {\"257\": {\"content\": \"<|b|>\", \"special\": true, "
          "\"rstrip\": true}}",
          "'<|b|>' has other flags", DT_OK },
        { "\"added_tokens_decoder\": {\"256\": {\"content\": \"<|b|>\"}}", "256 is '<|b|>'",
          DT_OK },
        { "\"added_tokens_decoder\": {\"900\": {\"content\": \"x\"}}", "900 is 'x'", DT_OK },
        { "\"add_bos_token\": 1", "true or false", DT_ERR_FORMAT },
    };
    static char said[LINES];
    char folder[TEST_PATH], text[512];
    make_folder(folder);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_ctx *ctx = make_context(said);
        dt_file *file = NULL;
        snprintf(text, sizeof text, "{%s}", cases[i].keys);
        write_file(folder, files[2], text);
        const dt_status s = dt_file_open(ctx, folder, &file);
        const char *heard = s == DT_OK ? said : dt_error(ctx);
        ck_assert_msg(s == cases[i].status, "%s: %s", text, heard);
        ck_assert_msg(strstr(heard, cases[i].said) != NULL, "%s: %s", text, heard);
        ck_assert_msg(cases[i].said[0] != 0 || heard[0] == 0, "%s: %s", text, heard);
        dt_file_close(file);
        end_context(ctx);
    }
}
END_TEST

/* Gemma 3's tokenizer_config.json has more than a megabyte. */
START_TEST(long_files_are_read)
{
    enum { BYTES = 3 << 20 };
    static const dt_text_tokens want = { -1, -1, 1, { 258 } };
    static const char head[] = "{\"eos_token\": \"<|c|>\", \"chat_template\": \"";
    char folder[TEST_PATH];
    char *text = malloc(BYTES);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', BYTES);
    memcpy(text, head, sizeof head - 1);
    strcpy(text + BYTES - 3, "\"}");
    make_folder(folder);
    write_file(folder, files[2], text);
    free(text);
    check_tokens(folder, &want, "a long file");
}
END_TEST

/* A value of another class that would change what is computed. */
START_TEST(values_of_other_classes_are_refused)
{
    static const char *const keys[][3] = {
        /* key, neutral, not */
        { "is_encoder_decoder", "false", "true" },
        { "add_cross_attention", "false", "true" },
        { "pruned_heads", "{ }", "{\"0\": [1]}" },
        { "attn_logit_softcapping", "null", "50.0" },
        { "final_logit_softcapping", "null", "30" },
        { "attention_multiplier", "1.0", "0.0078125" },
        { "logits_scaling", "1", "8.0" },
        { "embedding_multiplier", "1", "12" },
        { "residual_multiplier", "1e0", "0.22" },
        { "clip_qkv", "null", "8" },
        { "use_mrope", "false", "true" },
        { "is_causal", "true", "false" },
    };
    static char said[LINES];
    char folder[TEST_PATH], text[1024];
    make_folder(folder);
    for (int i = 0; i < DT__COUNT_OF(keys); i++) {
        for (int v = 1; v < 3; v++) {
            dt_ctx *ctx = make_context(said);
            dt_file *file = NULL;
            snprintf(text, sizeof text, "{" CONFIG ", \"%s\": %s}", keys[i][0], keys[i][v]);
            write_file(folder, "config.json", text);
            const dt_status s = dt_file_open(ctx, folder, &file);
            ck_assert_msg(s == (v == 1 ? DT_OK : DT_ERR_UNSUPPORTED), "%s: %s", text,
                          dt_error(ctx));
            ck_assert_msg(v == 1 || strstr(dt_error(ctx), keys[i][0]) != NULL, "%s", dt_error(ctx));
            ck_assert_str_eq(said, "");
            dt_file_close(file);
            end_context(ctx);
        }
    }
}
END_TEST

/* Tokens of added_tokens.json that the tokenizer lacks are reported, unless there is a decoder. */
START_TEST(other_added_tokens_are_said)
{
    static char said[LINES];
    char folder[TEST_PATH], text[256], id[24], word[24];
    dt__stream s = { .key = 31 };
    make_folder(folder);
    for (int i = 0; i < 24; i++) {
        dt_ctx *ctx = make_context(said);
        dt_file *file;
        const int at = below(&s, 4), shift = below(&s, 2), decoder = below(&s, 3) == 0;
        snprintf(text, sizeof text, "{\"%s\": %d, \"<|a|>\": %d}", added[at], ADDED + at + shift,
                 ADDED);
        write_file(folder, "added_tokens.json", text);
        write_file(folder, "tokenizer_config.json",
                   decoder ? "{\"added_tokens_decoder\": {}}" : "{}");
        snprintf(id, sizeof id, "token %d is", ADDED + at + shift);
        snprintf(word, sizeof word, "'%s'", added[at]);
        if (at > 0) {
            TEST_OK(ctx, dt_file_open(ctx, folder, &file));
            dt_file_close(file);
            const bool other = shift == 1 && !decoder;
            ck_assert_msg((strstr(said, id) != NULL) == other, "%s: %s", text, said);
            ck_assert_msg((strstr(said, word) != NULL) == other, "%s: %s", text, said);
        }
        end_context(ctx);
    }
}
END_TEST

/* Values that name no token are reported, for tokens that begin and end texts; the next file
 * decides. */
START_TEST(ids_that_are_none_are_said)
{
    static const char *const values[] = { "-1", "[]", "[-1]", "[ ]", "-100", "[-1, 7]", "7" };
    static char said[LINES];
    char folder[TEST_PATH], text[1024];
    make_folder(folder);
    for (int i = 0; i < 7; i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            if (kind != END && *values[i] == '[') continue;
            dt_ctx *ctx = make_context(said);
            dt_file *file;
            snprintf(text, sizeof text, "{\"%s\": %s}", id_keys[kind], values[i]);
            write_file(folder, "generation_config.json", text);
            snprintf(text, sizeof text, "{" CONFIG ", \"%s\": 9}", id_keys[kind]);
            write_file(folder, "config.json", text);
            TEST_OK(ctx, dt_file_open(ctx, folder, &file));
            dt_file_close(file);
            const bool none = kind != PAD && i < 6;
            ck_assert_msg((strstr(said, "and is not used") != NULL) == none, "%s: %s", text, said);
            ck_assert_msg(!none || strstr(said, "generation_config.json") != NULL, "%s", said);
            end_context(ctx);
        }
    }
}
END_TEST

/* An adapter of PEFT changes the folder's model; weights without a config do not. */
START_TEST(adapters_are_not_left_out)
{
    static const char *const weights[] = { "adapter_model.safetensors", "adapter_model.bin" };
    static const char *const texts[] = { "{}", "{\"peft_type\": \"LORA\", \"r\": 2}", "no JSON",
                                         "" };
    static char said[LINES];
    char folder[TEST_PATH];
    make_folder(folder);
    for (int i = 0; i < 16; i++) {
        const bool config = i < 8, base = i % 2 == 0;
        dt_ctx *ctx = make_context(said);
        dt_module *m;
        write_file(folder, "config.json", base ? "{" CONFIG "}" : NULL);
        write_file(folder, "adapter_config.json", config ? texts[i / 2] : NULL);
        for (int k = 0; k < 2; k++) write_file(folder, weights[k], i >> (1 + k) & 1 ? "" : NULL);
        if (config) {
            TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "merge_and_unload",
                       dt_hf_load(ctx, folder, &m, NULL));
        } else if (base) {
            TEST_OK(ctx, dt_hf_load(ctx, folder, &m, NULL));
            dt_module_free(m);
            for (int k = 0; k < 2; k++) {
                ck_assert((strstr(said, weights[k]) != NULL) == (i >> (1 + k) & 1));
            }
        } else {
            TEST_FAILS(ctx, DT_ERR_IO, "nor a model of transformers",
                       dt_hf_load(ctx, folder, &m, NULL));
        }
        end_context(ctx);
    }
}
END_TEST

/* Folders of transformers, and those that detent writes, have only known keys. */
START_TEST(known_folders_say_nothing)
{
    static const char *const names[] = {
        "families/gpt2",      "families/phi3",    "families/olmo2",
        "families/smollm3",   "families/gemma3",  "families/pythia",
        "families/phi3-long", "families/mistral", "tiny",
        "tiny-mixtral",       "tiny-tied"
    };
    static char said[LINES];
    char name[64], folder[TEST_PATH], own[TEST_PATH], to[TEST_PATH];
    dt_ctx *ctx = make_context(said);
    dt_module *m;
    dt_model_info info;
    snprintf(name, sizeof name, "hf/%s", names[_i]);
    if (test_golden(folder, name)) {
        test_folder(own);
        test_join(to, own, "new");
        TEST_OK(ctx, dt_hf_load(ctx, folder, &m, &info));
        info.hf = NULL;
        TEST_OK(ctx, dt_hf_save(m, &info, NULL, to));
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
        TEST_OK(ctx, dt_hf_load(ctx, to, &m, NULL));
        dt_module_free(m);
        ck_assert_str_eq(said, "");
    }
    end_context(ctx);
}
END_TEST

/* ---- what follows ---------------------------------------------------------------------------- */

/* The ids that `detent sample` makes; their number. */
static int sample(const char *folder, int32_t *ids)
{
    char *text;
    int n = 0;
    ck_assert_int_eq(test_shell(&text,
                                DETENT " sample %s --prompt-ids 7,200 --print-ids "
                                       "--temperature 0 --max-tokens 12 2>/dev/null",
                                folder),
                     0);
    for (char *at = text, *end; (ids[n] = (int32_t)strtol(at, &end, 10), end != at); at = end) n++;
    free(text);
    return n;
}

START_TEST(sampling_ends_at_any_of_them)
{
    char folder[TEST_PATH], text[1024];
    int32_t all[16], ids[16];
    dt__stream s = { .key = 29 };
    make_folder(folder);
    write_file(folder, "tokenizer_config.json", NULL);
    ck_assert_int_eq(sample(folder, all), 12);
    for (int i = 0; i < 4; i++) {
        const int32_t end = all[below(&s, 12)];
        int first = 0;
        while (all[first] != end) first++;
        snprintf(text, sizeof text, "{%s\"eos_token_id\": [259, %d]}", i % 2 ? CONFIG ", " : "",
                 end);
        write_file(folder, "config.json", i % 2 ? text : "{" CONFIG "}");
        write_file(folder, "generation_config.json", i % 2 ? "{\"eos_token_id\": null}" : text);
        ck_assert_int_eq(sample(folder, ids), first);
        ck_assert(memcmp(ids, all, (size_t)first * sizeof *ids) == 0);
    }
}
END_TEST

/* Completions end with the model's first end, also in a tokenizer that the recipe names, if it has
 * the token; characters have none. */
START_TEST(completions_end_with_it)
{
    static const struct {
        const char *tokenizer; /* NULL: the model's */
        int32_t end;
    } cases[] = { { NULL, 258 }, { "file", 258 }, { "bytes", 'z' } };
    static char said[LINES];
    char folder[TEST_PATH], lines[TEST_PATH], own[TEST_PATH];
    make_folder(folder);
    test_join(lines, folder, "lines.jsonl");
    test_join(own, folder, "tokenizer.json");
    test_write_text(lines, "{\"prompt\": \"ab\", \"completion\": \"xyz\"}\n");
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_ctx *ctx = make_context(said);
        dt_dataset *train = NULL, *validation = NULL, *test = NULL;
        dt_data_options o = dt_data_defaults();
        char *text = test_read_file(own, NULL);
        o.format = DT_DATA_JSONL;
        o.context = 16;
        o.train = (dt_strings){ .n = 1, .v = { lines } };
        o.tokenizer = cases[i].tokenizer == NULL || *cases[i].tokenizer == 'f' ? own : "bytes";
        o.given = cases[i].tokenizer == NULL ? text : NULL;
        o.given_tokens = "{\"end\": [258, 9], \"pad\": 257}";
        TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
        const dt__sequence p = *(const dt__sequence *)train->pieces->data;
        ck_assert_int_eq(train->store->ids.id[p.begin + p.n - 1], cases[i].end);
        ck_assert_int_eq(p.n, cases[i].end == 'z' ? 5 : 6);
        ck_assert_msg((strstr(said, "258") != NULL) == (i > 0), "%s", said);
        dt_dataset_free(train);
        dt_dataset_free(validation);
        dt_dataset_free(test);
        free(text);
        end_context(ctx);
    }
}
END_TEST

Suite *test_hf_said_suite(void)
{
    Suite *s = suite_create("hf_said");
    TCase *c = tcase_create("hf_said");
    tcase_add_test(c, tokens_are_what_the_first_file_says);
    tcase_add_test(c, changed_tokens_replace_those_of_the_files);
    tcase_add_test(c, c_tests_for_every_end);
    tcase_add_test(c, wrong_types_are_named);
    tcase_add_test(c, unknown_keys_are_named);
    tcase_add_test(c, a_tokenizer_s_own_file_is_followed);
    tcase_add_test(c, long_files_are_read);
    tcase_add_test(c, values_of_other_classes_are_refused);
    tcase_add_test(c, other_added_tokens_are_said);
    tcase_add_test(c, ids_that_are_none_are_said);
    tcase_add_test(c, adapters_are_not_left_out);
    tcase_add_loop_test(c, known_folders_say_nothing, 0, 11);
    tcase_add_test(c, sampling_ends_at_any_of_them);
    tcase_add_test(c, completions_end_with_it);
    suite_add_tcase(s, c);
    return s;
}
