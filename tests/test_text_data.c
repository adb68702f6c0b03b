/* Datasets of tokens: windows of running text, prompts with completions, sums, and the `data:`
 * block of recipes of text. */
#include "sample.h"

#include <detent/experimental/io.h>
#include <detent/experimental/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NONE (-100)

/* Ids that are their own places. */
static dt_dataset *counted_text(dt_ctx *ctx, int64_t n, int64_t context)
{
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)i;
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_text_create(ctx, ids, n, n, context, &d));
    free(ids);
    return d;
}

static dt_loader *loader_of(dt_dataset *d, dt_ctx *ctx, int64_t batch_size, bool shuffle)
{
    dt_loader *l = NULL;
    const dt_loader_options o = { .batch_size = batch_size, .shuffle = shuffle, .seed = 5 };
    TEST_OK(ctx, dt_loader_create(d, &o, &l));
    return l;
}

/* ---- running text -------------------------------------------------------------------------- */

START_TEST(every_token_once)
{
    static const struct {
        int64_t n, context, batch_size;
    } shapes[] = { { 50, 7, 3 }, { 50, 49, 3 }, { 50, 60, 1 }, { 2, 1, 4 }, { 57, 8, 100 } };
    const int64_t n = shapes[_i].n, context = shapes[_i].context;
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = counted_text(ctx, n, context);
    dt_loader *l = loader_of(d, ctx, shapes[_i].batch_size, false);
    ck_assert_int_eq(dt_dataset_target(d), DT_TARGET_TOKENS);
    ck_assert_int_eq(dt_dataset_classes(d), n);
    ck_assert_int_eq(dt_dataset_context(d), context);
    ck_assert(!dt_dataset_is_prompted(d));
    ck_assert_int_eq(dt_dataset_count(d), (n - 1 + context - 1) / context);
    ck_assert_int_eq(dt_loader_labels(l, INT64_MAX), n - 1);
    ck_assert_int_eq(dt_loader_labels(l, INT64_MIN), 0);
    int64_t next = 0;
    for (int64_t b = 0; b < dt_loader_batches(l); b++) {
        dt_tensor *x, *target;
        const int64_t labels = dt_loader_labels(l, 1), before = next;
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        const int32_t *in = dt_data(x), *out = dt_data(target);
        ck_assert_int_eq(dt_dim(x, 1), context);
        for (int64_t i = 0; i < dt_dim(x, 0) * context; i++) {
            if (next == n - 1) {
                TEST_EACH(in[i] == 0 && out[i] == NONE, "padding is %d, %d", in[i], out[i]);
                continue;
            }
            TEST_EACH(in[i] == next && out[i] == next + 1, "place %lld: %d, %d", (long long)next,
                      in[i], out[i]);
            next++;
        }
        ck_assert_int_eq(labels, next - before);
    }
    ck_assert_int_eq(next, n - 1);
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* The offset of an epoch; its windows follow each other, all are there once, and every label
 * counts. */
static int64_t offset_of_epoch(dt_ctx *ctx, dt_loader *l, int64_t epoch, int64_t context)
{
    bool seen[64] = { false };
    int64_t least = INT64_MAX;
    const int64_t count = dt_loader_examples(l);
    TEST_OK(ctx, dt_loader_seek(l, (dt_position){ epoch, 0 }));
    ck_assert_int_eq(dt_loader_labels(l, dt_loader_batches(l)), count * context);
    for (int64_t b = 0; b < dt_loader_batches(l); b++) {
        dt_tensor *x, *target;
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        for (int64_t i = 0; i < dt_dim(x, 0); i++) {
            const int32_t *in = (const int32_t *)dt_data(x) + i * context;
            const int32_t *out = (const int32_t *)dt_data(target) + i * context;
            for (int64_t t = 0; t < context; t++) {
                TEST_EACH(in[t] == in[0] + t && out[t] == in[t] + 1, "a window has a gap");
            }
            TEST_EACH(!seen[in[0] / context], "window %lld twice", (long long)(in[0] / context));
            seen[in[0] / context] = true;
            least = in[0] < least ? in[0] : least;
        }
    }
    for (int64_t w = 0; w < count; w++) ck_assert(seen[w]);
    return least;
}

START_TEST(epochs_begin_at_random_offsets)
{
    const int64_t context = 8, n = 203;
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = counted_text(ctx, n, context);
    dt_loader *l = loader_of(d, ctx, 5, true), *other = loader_of(d, ctx, 24, true);
    bool found[8] = { false };
    int offsets = 0;
    ck_assert_int_eq(dt_loader_examples(l), (n - context) / context);
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        const int64_t offset = offset_of_epoch(ctx, l, epoch, context);
        ck_assert(offset >= 0 && offset < context);
        ck_assert_int_eq(offset_of_epoch(ctx, other, epoch, context), offset);
        offsets += !found[offset];
        found[offset] = true;
    }
    ck_assert_int_eq(offsets, context);
    dt_loader_free(l);
    dt_loader_free(other);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Any batch is the same, wherever one comes from. */
START_TEST(seek)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = counted_text(ctx, 333, 9);
    dt_loader *a = loader_of(d, ctx, 7, true), *b = loader_of(d, ctx, 7, true);
    dt_tensor *x, *y, *tx, *ty;
    for (int i = 0; i < 17; i++) {
        const dt_position at = dt_loader_position(a);
        TEST_OK(ctx, dt_loader_next(a, &x, &tx));
        TEST_OK(ctx, dt_loader_seek(b, (dt_position){ 3, 2 }));
        TEST_OK(ctx, dt_loader_next(b, &y, &ty));
        TEST_OK(ctx, dt_loader_seek(b, at));
        TEST_OK(ctx, dt_loader_next(b, &y, &ty));
        const size_t bytes = (size_t)dt_count(x) * sizeof(int32_t);
        ck_assert_int_eq(dt_count(x), dt_count(y));
        ck_assert(memcmp(dt_data(x), dt_data(y), bytes) == 0);
        ck_assert(memcmp(dt_data(tx), dt_data(ty), bytes) == 0);
    }
    dt_loader_free(a);
    dt_loader_free(b);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(short_text)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = counted_text(ctx, 9, 8);
    dt_loader *l = loader_of(d, ctx, 4, true);
    ck_assert_int_eq(dt_loader_examples(l), 1);
    ck_assert_int_eq(offset_of_epoch(ctx, l, 0, 8), 0);
    dt_loader_free(l);
    dt_dataset_free(d);
    d = counted_text(ctx, 8, 8);
    const dt_loader_options o = dt_loader_defaults();
    TEST_FAILS(ctx, DT_ERR_ARG, "0 sequences of tokens do not fill", dt_loader_create(d, &o, &l));
    const dt_loader_options moving = { .batch_size = 1, .augment.shift = 1 };
    TEST_FAILS(ctx, DT_ERR_ARG, "neither moved", dt_loader_create(d, &moving, &l));
    ck_assert_ptr_null(dt_dataset_image(d, 0));
    ck_assert_int_eq(dt_dataset_label(d, 0), -1);
    dt_dataset_free(d);
    const int32_t ids[] = { 0, 1, 2 };
    TEST_FAILS(ctx, DT_ERR_ARG, "id 2 at place 2", dt_text_create(ctx, ids, 3, 2, 2, &d));
    TEST_FAILS(ctx, DT_ERR_ARG, "at least 2", dt_text_create(ctx, ids, 1, 3, 2, &d));
    TEST_FAILS(ctx, DT_ERR_ARG, "windows of 0", dt_text_create(ctx, ids, 3, 3, 0, &d));
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(split)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = counted_text(ctx, 50, 7), *last = NULL;
    TEST_FAILS(ctx, DT_ERR_ARG, "expected 0 to 7", dt_dataset_split(d, 8, &last));
    TEST_OK(ctx, dt_dataset_split(d, 3, &last));
    ck_assert_int_eq(dt_dataset_count(d), 4);
    ck_assert_int_eq(dt_dataset_count(last), 3);
    dt_loader *l = loader_of(d, ctx, 9, false);
    ck_assert_int_eq(dt_loader_labels(l, 1), 28);
    dt_loader_free(l);
    dt_dataset_free(d);
    l = loader_of(last, ctx, 9, false);
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    ck_assert_int_eq(((const int32_t *)dt_data(x))[0], 28);
    ck_assert_int_eq(((const int32_t *)dt_data(target))[20], 49);
    dt_loader_free(l);
    dt_dataset_free(last);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- sums ---------------------------------------------------------------------------------- */

static dt_status add_bytes(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
    return DT_OK;
}

/* Text of example i of a batch: the prompt, and the tokens that count. */
static void text_of(const dt_dataset *d, dt_tensor *x, dt_tensor *target, char *asked, char *wanted)
{
    const dt_tokenizer *k = dt_dataset_tokenizer(d);
    const int32_t *in = dt_data(x), *out = dt_data(target);
    asked[0] = wanted[0] = 0;
    for (int64_t t = 0; t < dt_dim(x, 1); t++) {
        if (out[t] == NONE) continue;
        if (wanted[0] == 0) dt_tokenizer_decode(k, in, t + 1, false, add_bytes, asked);
        dt_tokenizer_decode(k, &out[t], 1, false, add_bytes, wanted);
    }
}

static int compare(const void *a, const void *b) { return strcmp(a, b); }

START_TEST(sums)
{
    dt_ctx *ctx = sample_context(1);
    enum { MANY = 3000 };
    char(*all)[16] = calloc(2 * MANY, sizeof *all);
    for (int part = 0; part < 2; part++) {
        dt_dataset *d = NULL;
        TEST_OK(ctx, dt_adder_create(ctx, part == 0 ? 0 : 1000000 - MANY, MANY, 1, &d));
        ck_assert_int_eq(dt_dataset_classes(d), 12);
        ck_assert_int_eq(dt_dataset_context(d), 11);
        ck_assert(dt_dataset_is_prompted(d));
        dt_loader *l = loader_of(d, ctx, 1, false);
        for (int i = 0; i < MANY; i++) {
            dt_tensor *x, *target;
            char asked[32], wanted[32], right[64];
            ck_assert_int_eq(dt_loader_labels(l, 1), 4);
            TEST_OK(ctx, dt_loader_next(l, &x, &target));
            text_of(d, x, target, asked, wanted);
            const int a = atoi(asked), b = atoi(asked + 4), c = a + b;
            snprintf(right, sizeof right, "%d%d%d%d", c % 10, c / 10 % 10, c / 100 % 10, c / 1000);
            TEST_EACH(strlen(asked) == 8 && asked[3] == '+' && asked[7] == '=', "'%s'", asked);
            TEST_EACH(strcmp(wanted, right) == 0, "'%s' '%s'", asked, wanted);
            strcpy(all[part * MANY + i], asked);
        }
        dt_loader_free(l);
        dt_dataset_free(d);
    }
    qsort(all, 2 * MANY, sizeof *all, compare);
    for (int i = 1; i < 2 * MANY; i++)
        TEST_EACH(strcmp(all[i - 1], all[i]) != 0, "%s twice", all[i]);
    free(all);
    dt_dataset *d;
    TEST_FAILS(ctx, DT_ERR_ARG, "adder", dt_adder_create(ctx, 999999, 2, 1, &d));
    TEST_FAILS(ctx, DT_ERR_ARG, "adder", dt_adder_create(ctx, -1, 2, 1, &d));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- `data:` of a recipe ------------------------------------------------------------------- */

typedef struct opened {
    dt_dataset *train, *validation, *test;
} opened;

static void opened_free(opened *d)
{
    dt_dataset_free(d->train);
    dt_dataset_free(d->validation);
    dt_dataset_free(d->test);
    *d = (opened){ NULL, NULL, NULL };
}

static dt_data_options options_of(int format, const char *dir, const char *tokenizer)
{
    dt_data_options o = dt_data_defaults();
    o.format = format;
    o.dir = dir;
    o.tokenizer = tokenizer;
    o.context = 4;
    return o;
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_text(path, text);
}

/* All text of a dataset of running text. */
static void running_text(dt_ctx *ctx, dt_dataset *d, char *text)
{
    const dt_tokenizer *k = dt_dataset_tokenizer(d);
    dt_loader *l = loader_of(d, ctx, 1, false);
    text[0] = 0;
    for (int64_t w = 0; w < dt_loader_batches(l); w++) {
        dt_tensor *x, *target;
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        const int32_t *in = dt_data(x), *out = dt_data(target);
        for (int64_t t = 0; t < dt_dim(x, 1) && out[t] != NONE; t++) {
            if (w == 0 && t == 0) dt_tokenizer_decode(k, in, 1, false, add_bytes, text);
            dt_tokenizer_decode(k, out + t, 1, false, add_bytes, text);
        }
    }
    dt_loader_free(l);
}

START_TEST(open_text)
{
    static const char *const tokenizers[] = { "bytes", "chars" };
    char folder[TEST_PATH], text[256];
    test_folder(folder);
    put(folder, "a.txt", "zwölf Boxkämpfer ");
    put(folder, "b.txt", "jagen Eva");
    put(folder, "test.txt", "zwölf");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(DT_DATA_TEXT, folder, tokenizers[_i]);
    o.train = (dt_strings){ 2, { "a.txt", "b.txt" } };
    o.test = (dt_strings){ 1, { "test.txt" } };
    o.validation = 0.56; /* cut inside of the second umlaut */
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_classes(d.train), _i == 0 ? 256 : 21);
    running_text(ctx, d.train, text);
    ck_assert_str_eq(text, "zwölf Boxkä");
    running_text(ctx, d.validation, text);
    ck_assert_str_eq(text, "mpfer jagen Eva");
    running_text(ctx, d.test, text);
    ck_assert_str_eq(text, "zwölf");
    ck_assert(dt_dataset_tokenizer(d.train) == dt_dataset_tokenizer(d.test));
    opened_free(&d);
    o.train.n = 0; /* to evaluate a model that has its tokenizer */
    dt_tokenizer *k;
    char own[512] = "";
    TEST_OK(ctx, dt_tokenizer_chars(ctx, "flöwz", 6, &k));
    TEST_OK(ctx, dt_tokenizer_text(k, add_bytes, own));
    o.given = own;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert(d.train == NULL && d.validation == NULL);
    ck_assert_int_eq(dt_dataset_classes(d.test), 5);
    dt_tokenizer_free(k);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(open_tokens)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "train.bin");
    int32_t ids[100];
    for (int i = 0; i < 100; i++) ids[i] = i * 7 % 100 * 600;
    dt_ctx *ctx = sample_context(1);
    TEST_OK(ctx, dt_tokens_write(ctx, path, ids, 100, 2));
    test_join(path, folder, "test.u32.bin");
    TEST_OK(ctx, dt_tokens_write(ctx, path, ids, 30, 4));
    dt_data_options o = options_of(DT_DATA_TOKENS, folder, NULL);
    o.train = (dt_strings){ 1, { "train.bin" } };
    o.test = (dt_strings){ 1, { "test.u32.bin" } };
    o.validation = 0.25;
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_classes(d.train), 59401);
    ck_assert_int_eq(dt_dataset_count(d.train), 19);
    ck_assert_int_eq(dt_dataset_count(d.validation), 6);
    ck_assert_int_eq(dt_dataset_count(d.test), 8);
    ck_assert_ptr_null(dt_dataset_tokenizer(d.train));
    dt_loader *l = loader_of(d.validation, ctx, 6, false);
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    for (int i = 0; i < 24; i++) {
        ck_assert_int_eq(((const int32_t *)dt_data(x))[i], ids[75 + i]);
        ck_assert_int_eq(((const int32_t *)dt_data(target))[i], ids[76 + i]);
    }
    dt_loader_free(l);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

static void collect_line(void *user, const char *line) { strncat(user, line, 255); }

START_TEST(open_lines)
{
    char folder[TEST_PATH], said[1024] = "", asked[64], wanted[64], text[256];
    test_folder(folder);
    put(folder, "pairs.jsonl",
        "{\"prompt\": \"ab\", \"completion\": \"c\"}\n\n"
        "{\"completion\": \"\\u00e4\", \"id\": [1, {\"x\": null}], \"prompt\": \"\"}\r\n"
        "{\"prompt\": \"abcd\", \"completion\": \"ef\"}\n"
        "{\"prompt\": \"b\", \"completion\": \"cba\"}");
    put(folder, "texts.jsonl",
        "{\"text\": \"one\"}\n{\"text\": \"two\\n\"}\n{\"text\": \"three\"}\n");
    dt_ctx_options with = dt_ctx_defaults();
    with.log = collect_line;
    with.log_user = said;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &with), DT_OK);
    dt_data_options o = options_of(DT_DATA_JSONL, folder, "bytes");
    o.train = (dt_strings){ 1, { "pairs.jsonl" } };
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert(dt_dataset_is_prompted(d.train));
    ck_assert_int_eq(dt_dataset_count(d.train), 3);
    ck_assert_int_eq(dt_dataset_context(d.train), 3);
    ck_assert_msg(strstr(said, "1 of 4 examples") != NULL && strstr(said, "longest has 6") != NULL,
                  "%s", said);
    static const char *const wanted_of[][2] = { { "ab", "c" }, { "\xc3", "\xa4" }, { "b", "cba" } };
    dt_loader *l = loader_of(d.train, ctx, 1, false);
    for (int i = 0; i < 3; i++) {
        dt_tensor *x, *target;
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        text_of(d.train, x, target, asked, wanted);
        ck_assert_str_eq(asked, wanted_of[i][0]);
        ck_assert_str_eq(wanted, wanted_of[i][1]);
    }
    dt_loader_free(l);
    opened_free(&d);
    o.train.v[0] = "texts.jsonl";
    o.validation = 0.3;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    running_text(ctx, d.train, text);
    ck_assert_str_eq(text, "onetwo\n");
    running_text(ctx, d.validation, text);
    ck_assert_str_eq(text, "three");
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

/* With a tokenizer that has an end-of-text token: it separates documents, and ends each completion,
 * where it counts. */
START_TEST(ends_of_text)
{
    char folder[TEST_PATH], tokenizer[TEST_PATH], text[256], asked[64], wanted[64];
    if (!test_golden(tokenizer, "tokenizer/gpt2-512")) return;
    test_join(tokenizer, tokenizer, "tokenizer.json");
    test_folder(folder);
    put(folder, "texts.jsonl", "{\"text\": \"one\"}\n{\"text\": \"<|endoftext|>two\"}\n");
    put(folder, "pairs.jsonl",
        "{\"prompt\": \"the king\", \"completion\": \" is\"}\n"
        "{\"prompt\": \"\", \"completion\": \" is\"}\n");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(DT_DATA_JSONL, folder, tokenizer);
    o.context = 40;
    o.train = (dt_strings){ 1, { "pairs.jsonl" } };
    o.test = (dt_strings){ 1, { "texts.jsonl" } };
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_classes(d.train), 512);
    running_text(ctx, d.test, text);
    ck_assert_str_eq(text, "one<|endoftext|><|endoftext|>two"); /* the second one is plain text */
    dt_loader *l = loader_of(d.train, ctx, 1, false);
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    text_of(d.train, x, target, asked, wanted);
    ck_assert_str_eq(asked, "the king");
    ck_assert_str_eq(wanted, " is<|endoftext|>");
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    text_of(d.train, x, target, asked, wanted);
    ck_assert_str_eq(asked, " is"); /* the end is predicted */
    ck_assert_str_eq(wanted, "<|endoftext|>");
    dt_loader_free(l);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

/* Fields of lines become prompts and completions by formats, which the datasets keep; with
 * dt_loader_options.prompts prompts are learned too. */
START_TEST(formats)
{
    char folder[TEST_PATH], asked[64], wanted[64], kept[256] = "";
    test_folder(folder);
    put(folder, "lines.jsonl",
        "{\"q\": \"a\", \"tags\": [1], \"a\": \"b\"}\n{\"a\": \"\\u00e4\", \"q\": \"{q}\"}\n"
        "{\"q\": \"\", \"a\": \"c\"}\n");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(DT_DATA_JSONL, folder, "bytes");
    o.context = 32;
    o.prompt = "{{{q}|{q}}} ";
    o.completion = "{a}.";
    o.validation = 0.4;
    o.train = (dt_strings){ 1, { "lines.jsonl" } };
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    static const char *const wanted_of[][2] = { { "{a|a} ", "b." },
                                                { "{{q}|{q}} ", "\xc3\xa4." },
                                                { "{|} ", "c." } };
    ck_assert_int_eq(dt_dataset_count(d.train), 1);
    ck_assert_int_eq(dt_dataset_count(d.validation), 2);
    dt_loader *l[] = { loader_of(d.train, ctx, 1, false), loader_of(d.validation, ctx, 1, false) };
    for (int i = 0; i < 3; i++) {
        dt_tensor *x, *target;
        TEST_OK(ctx, dt_loader_next(l[i > 0], &x, &target));
        text_of(i > 0 ? d.validation : d.train, x, target, asked, wanted);
        ck_assert_str_eq(asked, wanted_of[i][0]);
        ck_assert_str_eq(wanted, wanted_of[i][1]);
    }
    dt_loader_free(l[0]);
    dt_loader_free(l[1]);
    const dt_loader_options all = { .batch_size = 1, .prompts = true };
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_create(d.train, &all, &l[0]));
    ck_assert_int_eq(dt_loader_labels(l[0], 1), 7);
    TEST_OK(ctx, dt_loader_next(l[0], &x, &target));
    text_of(d.train, x, target, asked, wanted);
    ck_assert_str_eq(wanted, "a|a} b.");
    dt_loader_free(l[0]);
    TEST_OK(ctx, dt_model_data_text(d.train, add_bytes, kept));
    ck_assert_str_eq(kept, "{\"target\": \"tokens\", \"prompt\": \"{{{q}|{q}}} \", "
                           "\"completion\": \"{a}.\"}");
    dt_model_data about;
    TEST_OK(ctx, dt_model_data_parse(ctx, kept, "kept", &about));
    ck_assert_str_eq(about.prompt, o.prompt);
    ck_assert_str_eq(about.completion, o.completion);
    dt_model_data_free(ctx, &about);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

static const struct {
    const char *prompt, *completion, *line;
    dt_status code;
    const char *says;
} bad_formats[] = {
    { "{q", NULL, "", DT_ERR_CONFIG, "data.prompt: the brace at byte 0 begins or ends no field" },
    { "Q: }", NULL, "", DT_ERR_CONFIG, "data.prompt: the brace at byte 3" },
    { "{}", NULL, "", DT_ERR_CONFIG, "data.prompt: the brace at byte 0" },
    { "{a{b}}", NULL, "", DT_ERR_CONFIG, "data.prompt: the brace at byte 0" },
    { "Q: ", NULL, "", DT_ERR_CONFIG, "data.prompt: it has no field" },
    { "{{q}}", NULL, "", DT_ERR_CONFIG, "data.prompt: it has no field" },
    { NULL, "yes", "", DT_ERR_CONFIG, "data.completion: it has no field" },
    { "{a}{b}{c}{d}{e}{f}{g}{h}{i}", "{j}{k}{l}{m}{n}{o}{p}{q}", "", DT_ERR_CONFIG,
      "data.completion: more than 16 fields" },
    { "{q}", NULL, "{\"q\": \"a\"}", DT_ERR_FORMAT, "line 1: there is no \"completion\", a field" },
    { "{q}", "{a}", "{\"q\": \"a\", \"a\": \"b\"}\n{\"a\": \"b\"}", DT_ERR_FORMAT,
      "line 2: there is no \"q\"" },
    { "{q}", "{a}", "{\"q\": \"a\", \"a\": 5}", DT_ERR_FORMAT, "line 1" },
    { "{q}", "{a}", "{\"q\": \"a\", \"q\": \"b\", \"a\": \"\"}", DT_ERR_FORMAT, "occurs twice" },
    { "{q}", " {a}{b}.", "{\"q\": \"a\", \"b\": \"\", \"a\": \"\"}", DT_ERR_FORMAT,
      "line 1: the completion is empty" },
    { "{q}", "{a}", "{\"q\": \"abcd\", \"a\": \"ef\"}", DT_ERR_CONFIG,
      "is longer: the longest has 6 tokens" },
};

START_TEST(formats_are_checked)
{
    char folder[TEST_PATH];
    test_folder(folder);
    put(folder, "data", bad_formats[_i].line);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(DT_DATA_JSONL, folder, "bytes");
    o.train = (dt_strings){ 1, { "data" } };
    o.prompt = bad_formats[_i].prompt;
    o.completion = bad_formats[_i].completion;
    opened d = { 0 };
    TEST_FAILS(ctx, bad_formats[_i].code, bad_formats[_i].says,
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

/* The text of the only field, or an object with several. */
START_TEST(prompts_are_filled)
{
    char text[256] = "";
    dt_ctx *ctx = sample_context(1);
    TEST_OK(ctx, dt_prompt_fill(ctx, "<{x}{x}>", "{y}", 3, add_bytes, text));
    ck_assert_str_eq(text, "<{y}{y}>");
    text[0] = 0;
    const char *both = "{\"b\": \"2\", \"z\": [], \"a\": \"1\"}";
    TEST_OK(ctx, dt_prompt_fill(ctx, "{a}+{b}=", both, strlen(both), add_bytes, text));
    ck_assert_str_eq(text, "1+2=");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "there is no \"c\"",
               dt_prompt_fill(ctx, "{a}{c}", both, strlen(both), add_bytes, text));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "an object with the fields of the prompt's format",
               dt_prompt_fill(ctx, "{a}{b}", "1", 1, add_bytes, text));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "no field", dt_prompt_fill(ctx, "a", "", 0, add_bytes, text));
    ck_assert_str_eq(text, "1+2=");
    dt_ctx_free(ctx);
}
END_TEST

static const struct bad {
    const char *name, *tokenizer, *train, *test;
    int format;
    double validation;
    dt_status code;
    const char *text;
} bad[] = {
    { "empty", "bytes", "", NULL, DT_DATA_TEXT, 0, DT_ERR_CONFIG, "data.train.0: '" },
    { "short", "bytes", "abcd", NULL, DT_DATA_TEXT, 0, DT_ERR_CONFIG,
      "data.context is 4, but data.train holds 4 tokens: 3 at most fit" },
    { "nothing left", "bytes", "a", NULL, DT_DATA_TEXT, 0.5, DT_ERR_CONFIG,
      "data.context is 4, but data.train holds 0 tokens: 0 at most fit" },
    { "short by validation", "bytes", "abcdefgh", NULL, DT_DATA_TEXT, 0.5, DT_ERR_CONFIG,
      "data.context is 4, but data.train holds 4 tokens" },
    { "no validation", "bytes", "abcdefgh", NULL, DT_DATA_TEXT, 0.01, DT_ERR_CONFIG,
      "data.validation: 1 token" },
    { "no UTF-8", "chars", "abc\nde\xff", NULL, DT_DATA_TEXT, 0, DT_ERR_CONFIG,
      "is not UTF-8: byte 6, in line 2; 'bytes' takes any text" },
    { "no such character", "chars", "abcdefgh", "abx", DT_DATA_TEXT, 0, DT_ERR_CONFIG,
      "data.test: text 1 of it: " },
    { "no test", "bytes", "abcdefgh", "a", DT_DATA_TEXT, 0, DT_ERR_CONFIG, "data.test: 1 token" },
    { "no tokenizer", "nowhere.json", "abcdefgh", NULL, DT_DATA_TEXT, 0, DT_ERR_IO,
      "nowhere.json" },
    { "no object", "bytes", "{\"text\": \"abc\"}\n[1]\n", NULL, DT_DATA_JSONL, 0, DT_ERR_FORMAT,
      "line 2" },
    { "no text", "bytes", "{\"txt\": \"abc\"}\n", NULL, DT_DATA_JSONL, 0, DT_ERR_FORMAT,
      "\"prompt\" and \"completion\"" },
    { "prompt alone", "bytes", "{\"prompt\": \"abc\"}\n", NULL, DT_DATA_JSONL, 0, DT_ERR_FORMAT,
      "must be there" },
    { "twice", "bytes", "{\"text\": \"abc\", \"text\": \"d\"}\n", NULL, DT_DATA_JSONL, 0,
      DT_ERR_FORMAT, "occurs twice" },
    { "both kinds", "bytes", "{\"text\": \"abc\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n",
      NULL, DT_DATA_JSONL, 0, DT_ERR_FORMAT, "expected one kind" },
    { "no string", "bytes", "{\"text\": 5}\n", NULL, DT_DATA_JSONL, 0, DT_ERR_FORMAT, "line 1" },
    { "behind it", "bytes", "{\"text\": \"abc\"} x\n", NULL, DT_DATA_JSONL, 0, DT_ERR_FORMAT,
      "line 1" },
    { "all too long", "bytes", "{\"prompt\": \"abc\", \"completion\": \"defg\"}\n", NULL,
      DT_DATA_JSONL, 0, DT_ERR_CONFIG,
      "data.context is 4, but every example of data.train is longer: the longest has 7 tokens, "
      "which requires data.context 6" },
    { "no completion", "bytes", "{\"prompt\": \"a\", \"completion\": \"\"}\n", NULL, DT_DATA_JSONL,
      0, DT_ERR_CONFIG, "has no completion" },
    { "no completion of a long prompt", "bytes",
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"abc\", \"completion\": \"\"}\n",
      NULL, DT_DATA_JSONL, 0, DT_ERR_CONFIG, "data.train: example 2 of it has no completion" },
    { "a token that nothing predicts", "bytes", "{\"prompt\": \"\", \"completion\": \"b\"}\n", NULL,
      DT_DATA_JSONL, 0, DT_ERR_CONFIG, "has no prompt, and a completion of one token" },
    { "no lines to validate", "bytes", "{\"text\": \"abcdefgh\"}\n", NULL, DT_DATA_JSONL, 0.5,
      DT_ERR_CONFIG, "data.validation" },
    { "odd bytes", NULL, "abc", NULL, DT_DATA_TOKENS, 0, DT_ERR_FORMAT, "data" },
    { "no ids", NULL, "", NULL, DT_DATA_TOKENS, 0, DT_ERR_CONFIG, "is empty" },
};

START_TEST(bad_text)
{
    char folder[TEST_PATH];
    test_folder(folder);
    const struct bad *b = &bad[_i];
    put(folder, "data", b->train);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(b->format, folder, b->tokenizer);
    o.validation = b->validation;
    o.train = (dt_strings){ 1, { "data" } };
    if (b->test != NULL) {
        put(folder, "test", b->test);
        o.test = (dt_strings){ 1, { "test" } };
    }
    const size_t used = dt_memory_of(ctx).used;
    opened d;
    const dt_status status = dt_data_open(ctx, &o, &d.train, &d.validation, &d.test);
    ck_assert_msg(status == b->code && strstr(dt_error(ctx), b->text) != NULL, "%s: %s: %s",
                  b->name, dt_status_name(status), dt_error(ctx));
    ck_assert(d.train == NULL && d.validation == NULL && d.test == NULL);
    ck_assert_uint_eq(dt_memory_of(ctx).used, used);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bad_settings)
{
    dt_ctx *ctx = sample_context(1);
    opened d;
    dt_data_options o = options_of(DT_DATA_TEXT, NULL, "chars");
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.train names no file",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    o = options_of(DT_DATA_TOKENS, NULL, NULL);
    o.train = (dt_strings){ 2, { "a", "b" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.train names 2 files",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    o.context = 0;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.context",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    o = options_of(DT_DATA_ADDER, NULL, NULL);
    o.train_count = 999000;
    o.test_count = 1001;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.test_count is 1001, but of 1000000 sums 1000 are left",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- failing allocations ------------------------------------------------------------------- */

static dt_status open_and_read(dt_ctx *ctx, const dt_data_options *o)
{
    opened d;
    dt_loader *l = NULL;
    dt_tensor *x, *target;
    const dt_loader_options options = { .batch_size = 2, .shuffle = true };
    dt_status status = dt_data_open(ctx, o, &d.train, &d.validation, &d.test);
    if (status == DT_OK) status = dt_loader_create(d.train, &options, &l);
    if (status == DT_OK) status = dt_loader_next(l, &x, &target);
    dt_loader_free(l);
    opened_free(&d);
    return status;
}

typedef struct trial {
    const char *folder, *file, *tokenizer;
    int format;
    int64_t count; /* of examples that are drawn */
} trial;

static dt_status scenario(dt_ctx *ctx, void *user)
{
    const trial *t = user;
    dt_data_options o = options_of(t->format, t->folder, t->tokenizer);
    o.train = o.test = (dt_strings){ t->file != NULL, { t->file } };
    o.validation = 0.4;
    o.train_count = o.test_count = t->count;
    return open_and_read(ctx, &o);
}

/* Each format in a context of its own, so that no memory is reused. */
START_TEST(memory_fails)
{
    char folder[TEST_PATH];
    test_folder(folder);
    put(folder, "text", "abcdefghijklmnopqrstuvwxyz");
    put(folder, "lines",
        "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\", \"completion\": \"d\"}\n");
    const trial trials[] = { { folder, "text", "chars", DT_DATA_TEXT, 0 },
                             { folder, "text", NULL, DT_DATA_TOKENS, 0 },
                             { folder, "lines", "bytes", DT_DATA_JSONL, 0 },
                             { folder, NULL, NULL, DT_DATA_ADDER, 20 } };
    for (int i = 0; i < DT__COUNT_OF(trials); i++) {
        trial t = trials[i];
        ck_assert_int_gt(test_every_allocation(scenario, &t), 15);
    }
}
END_TEST

/* A small file shall not fill the memory. */
START_TEST(gzip_is_no_bomb)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx = sample_context(1);
    char *text;
    size_t bytes;
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && head -c 16000000 /dev/zero | gzip > good.gz && "
                                "head -c 17000000 /dev/zero | gzip > bomb.gz",
                                folder),
                     0);
    test_join(path, folder, "good.gz");
    TEST_OK(ctx, dt_text_read(ctx, path, &text, &bytes));
    ck_assert_uint_eq(bytes, 16000000);
    dt_text_free(ctx, text);
    test_join(path, folder, "bomb.gz");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "unpack it first", dt_text_read(ctx, path, &text, &bytes));
    dt_ctx_free(ctx);
}
END_TEST

/* A writer to a pipe may be slow; a pipe without a writer would block forever. */
START_TEST(pipes_have_writers)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx = sample_context(1);
    char *text;
    size_t bytes;
    test_folder(folder);
    test_join(path, folder, "pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    TEST_FAILS(ctx, DT_ERR_IO, "a pipe into which nobody writes",
               dt_text_read(ctx, path, &text, &bytes));
    ck_assert_int_eq(
        test_shell(NULL, "(sleep 0.2; exec >%s; sleep 3; printf words) >/dev/null 2>&1 &", path),
        0);
    TEST_OK(ctx, dt_text_read(ctx, path, &text, &bytes));
    ck_assert_uint_eq(bytes, 5);
    ck_assert_mem_eq(text, "words", 5);
    dt_text_free(ctx, text);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_text_data_suite(void)
{
    Suite *s = suite_create("text_data");
    TCase *running = tcase_create("running text");
    tcase_add_loop_test(running, every_token_once, 0, 5);
    tcase_add_test(running, epochs_begin_at_random_offsets);
    tcase_add_test(running, seek);
    tcase_add_test(running, short_text);
    tcase_add_test(running, split);
    suite_add_tcase(s, running);
    TCase *recipe = tcase_create("recipe");
    tcase_add_test(recipe, sums);
    tcase_add_loop_test(recipe, open_text, 0, 2);
    tcase_add_test(recipe, open_tokens);
    tcase_add_test(recipe, open_lines);
    tcase_add_test(recipe, ends_of_text);
    tcase_add_test(recipe, formats);
    tcase_add_loop_test(recipe, formats_are_checked, 0, DT__COUNT_OF(bad_formats));
    tcase_add_test(recipe, prompts_are_filled);
    tcase_add_loop_test(recipe, bad_text, 0, DT__COUNT_OF(bad));
    tcase_add_test(recipe, bad_settings);
    tcase_add_test(recipe, memory_fails);
    tcase_add_test(recipe, gzip_is_no_bomb);
    tcase_add_test(recipe, pipes_have_writers);
    suite_add_tcase(s, recipe);
    return s;
}
