/* Texts with a byte order mark: every reader of text skips the mark of UTF-8 and refuses those of
 * UTF-16 and UTF-32 with a message that says how to write UTF-8. */
#include "sample.h"

#include <detent/experimental/io.h>
#include <detent/experimental/text.h>
#include <detent/experimental/train.h>

#include <stdio.h>
#include <stdlib.h>

static char folder[TEST_PATH];

static const char *path_of(const char *name)
{
    static char path[TEST_PATH];
    if (folder[0] == 0) test_folder(folder);
    test_join(path, folder, name);
    return path;
}

/* ---- readers: each returns a number that depends on the whole text -------------------------- */

typedef struct reading {
    dt_ctx *ctx;
    char path[TEST_PATH];
    int64_t sum;
} reading;

static dt_status read_data(reading *r, int format, const char *tokenizer)
{
    dt_dataset *part[3];
    dt_data_options o = dt_data_defaults();
    o.format = format;
    o.context = 4;
    o.tokenizer = tokenizer;
    o.train = (dt_strings){ 1, { r->path } };
    if (format == DT_DATA_TENSORS) {
        o.train = (dt_strings){ 0 };
        o.train_tensors = (dt_tensor_files){ .given = true, .x = { 1, { r->path } } };
        o.columns.inputs = (dt_strings){ 1, { "first" } };
        o.columns.target = (dt_strings){ 1, { "kind" } };
    }
    const dt_status s = dt_data_open(r->ctx, &o, &part[0], &part[1], &part[2]);
    if (s == DT_OK) r->sum = 1000 * dt_dataset_count(part[0]) + dt_dataset_classes(part[0]);
    for (int i = 0; i < 3; i++) dt_dataset_free(part[i]);
    return s;
}

static dt_status read_csv(reading *r) { return read_data(r, DT_DATA_TENSORS, NULL); }
static dt_status read_text(reading *r) { return read_data(r, DT_DATA_TEXT, "chars"); }
static dt_status read_bytes(reading *r) { return read_data(r, DT_DATA_TEXT, "bytes"); }
static dt_status read_lines(reading *r) { return read_data(r, DT_DATA_JSONL, "bytes"); }

static dt_status read_whole(reading *r)
{
    char *text;
    size_t bytes;
    const dt_status s = dt_text_read(r->ctx, r->path, &text, &bytes);
    if (s != DT_OK) return s;
    r->sum = (int64_t)bytes;
    for (size_t i = 0; i < bytes; i++) r->sum = 31 * r->sum % 1000003 + text[i];
    ck_assert_int_eq(text[bytes], 0);
    dt_text_free(r->ctx, text);
    return DT_OK;
}

static dt_status read_tokenizer(reading *r)
{
    dt_tokenizer *k;
    const dt_status s = dt_tokenizer_read(r->ctx, r->path, &k);
    if (s == DT_OK) r->sum = dt_tokenizer_vocab(k);
    if (s == DT_OK) dt_tokenizer_free(k);
    return s;
}

static dt_status read_recipe(reading *r)
{
    dt_recipe *recipe;
    const dt_recipe_source source = { .path = r->path };
    const dt_status s = dt_recipe_read(r->ctx, &source, &recipe);
    if (s == DT_OK) r->sum = dt_recipe_get(recipe)->train.batch_size;
    dt_recipe_free(recipe);
    return s == DT_ERR_CONFIG ? DT_ERR_FORMAT : s; /* errors of a recipe */
}

/* Of a folder of transformers, whose file the text is. */
static dt_status read_folder(reading *r)
{
    dt_module *m;
    dt_model_info info;
    char path[TEST_PATH];
    snprintf(path, sizeof path, "%.*s", (int)(strrchr(r->path, '/') - r->path), r->path);
    const dt_status s = dt_hf_load(r->ctx, path, &m, &info);
    if (s != DT_OK) return s;
    r->sum = dt_param_count(m);
    dt_module_free(m);
    dt_model_info_free(r->ctx, &info);
    return DT_OK;
}

static const struct {
    const char *name, *text; /* NULL: of the folder */
    dt_status (*read)(reading *r);
} readers[] = {
    { "t.csv", "first,kind\n1,a\n2,b\n3,a\n", read_csv },
    { "t.CSV", "\"first\",kind\n1,a\n2,b\n3,a\n", read_csv },
    { "t.txt", "some words of a text, and more", read_text },
    { "b.txt", "some words of a text, and more", read_bytes },
    { "t.jsonl", "{\"text\": \"some words\"}\n{\"text\": \"more of them\"}\n", read_lines },
    { "p.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n", read_lines },
    { "whole.txt", "some words", read_whole },
    { "empty.txt", "", read_whole },
    { "k.json", "{\"model\": {\"type\": \"chars\", \"characters\": \"abc\"}}", read_tokenizer },
    { "r.yaml",
      "run: {dir: x}\nmodel: {family: mlp, sizes: [784, 10]}\ndata: {format: digits}\n"
      "train: {batch_size: 17}\n",
      read_recipe },
    { "hf/config.json", NULL, read_folder },
    { "hf/model.safetensors.index.json", NULL, read_folder },
};

/* Writes the text behind a mark of n bytes. */
static void write_with(const reading *r, const char *mark, size_t n, const char *text)
{
    const size_t bytes = strlen(text);
    char *all = malloc(n + bytes + 1);
    memcpy(all, mark, n);
    memcpy(all + n, text, bytes);
    test_write_file(r->path, all, n + bytes);
    free(all);
}

START_TEST(marks)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } foreign[] = {
        { "\xFF\xFE", 2, "iconv -f UTF-16 -t UTF-8" },
        { "\xFE\xFF", 2, "iconv -f UTF-16 -t UTF-8" },
        { "\xFF\xFE\0\0", 4, "iconv -f UTF-32 -t UTF-8" },
        { "\0\0\xFE\xFF", 4, "iconv -f UTF-32 -t UTF-8" },
    };
    reading r = { .ctx = sample_context(1) };
    char golden[TEST_PATH], *kept = NULL;
    size_t bytes;
    strcpy(r.path, path_of(readers[_i].name));
    if (readers[_i].text == NULL) {
        char *output = NULL;
        if (!test_golden(golden, "hf/odd/two-shards")) return;
        ck_assert_int_eq(test_shell(&output, "rm -rf '%s' && cp -r '%s' '%s'", path_of("hf"),
                                    golden, path_of("hf")),
                         0);
        free(output);
        TEST_OK(r.ctx, dt_text_read(r.ctx, r.path, &kept, &bytes));
    }
    const char *text = kept != NULL ? kept : readers[_i].text;
    write_with(&r, "", 0, text);
    TEST_OK(r.ctx, readers[_i].read(&r));
    const int64_t sum = r.sum;
    r.sum = -1;
    write_with(&r, "\xEF\xBB\xBF", 3, text);
    TEST_OK(r.ctx, readers[_i].read(&r));
    ck_assert_int_eq(r.sum, sum);
    for (int i = 0; i < DT__COUNT_OF(foreign); i++) {
        const bool known = readers[_i].read == read_csv && foreign[i].n == 2;
        write_with(&r, foreign[i].bytes, foreign[i].n, text);
        TEST_FAILS(r.ctx, DT_ERR_FORMAT, known ? "a text in UTF-16 is damaged" : foreign[i].words,
                   readers[_i].read(&r));
    }
    dt_text_free(r.ctx, kept);
    ck_assert_uint_eq(dt_memory_of(r.ctx).used, 0);
    dt_ctx_free(r.ctx);
}
END_TEST

Suite *test_byte_marks_suite(void)
{
    Suite *suite = suite_create("byte_marks");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, marks, 0, DT__COUNT_OF(readers));
    suite_add_tcase(suite, c);
    return suite;
}
