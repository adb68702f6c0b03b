/* Numbers of tables that are kept in files (data.cache), compared with reading the tables again;
 * windows of long files. */
#include "data/arrays.h"
#include "data/content_hash.h"
#include "data/tables/csv_types.h"
#include "sample.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[TEST_PATH];

static const char *path_of(const char *name)
{
    static char path[16][TEST_PATH];
    static int next;
    char *own = path[next++ % 16];
    if (folder[0] == 0) test_folder(folder);
    test_join(own, folder, name);
    return own;
}

static int below(int n) { return rand() % n; }

/* ---- windows -------------------------------------------------------------------------------- */

/* Writes a field with what separates fields and rows in it; `value` is what it means. */
static void put_text(FILE *f, char *value, int most)
{
    static const char letters[] = "ab,;\n\"# \r\t|1.";
    const int n = below(most);
    fputc('"', f);
    for (int i = 0; i < n; i++) {
        value[i] = i == 0 || i == n - 1 ? 'x' : letters[below(sizeof letters - 1)];
        if (value[i] == '"') fputc('"', f);
        fputc(value[i], f);
    }
    value[n] = 0;
    fputc('"', f);
}

/* Rows are read as they were written, wherever windows end in them: fields with ends of lines, one
 * that is longer than a window, comments with quotes, quotes inside of fields. */
START_TEST(rows_pass_through_windows)
{
    srand((unsigned)_i);
    const bool comments = _i % 2 == 1;
    const int rows = 3000 + below(2000), giant = below(rows), shape = _i % 3;
    char **text = calloc((size_t)rows, sizeof *text);
    FILE *f = fopen(path_of("w.csv"), "wb");
    ck_assert(text != NULL && f != NULL);
    fputs("x,key,inch,y\n", f);
    for (int i = 0; i < rows; i++) {
        const int most = i == giant ? 3000000 : shape == 0 ? 8 : 1500;
        text[i] = malloc((size_t)most + 1);
        ck_assert_ptr_nonnull(text[i]);
        if (comments && below(4) == 0) fputs("# it's, \"a comment\n", f);
        fprintf(f, "%d.25,", i);
        put_text(f, text[i], most);
        fprintf(f, ",5\" pipe,%d%s", i % 7, i < rows - 1 || below(2) ? "\n" : "");
    }
    ck_assert(fclose(f) == 0);
    const dt_csv_options o = { .header = true,
                               .inputs = { 1, { "x" } },
                               .target = { 1, { "y" } },
                               .comment = comments ? "#" : NULL };
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    ck_assert(dt__words_add(ctx, &c.keys, "key", 3) == 0);
    TEST_OK(ctx, dt__csv_read(&c, path_of("w.csv"), &t));
    ck_assert_int_eq(t.rows, rows);
    for (int i = 0; i < rows; i++) {
        const int32_t code = ((int32_t *)t.key->data)[i];
        TEST_EACH(((float *)t.x->data)[i] == (float)i + 0.25F &&
                      ((float *)t.y->data)[i] == (float)(i % 7) &&
                      strcmp(c.key_words[0].word[code], text[i]) == 0,
                  "row %d", i);
        free(text[i]);
    }
    free(text);
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* What is wrong far behind the first window is found there. */
START_TEST(errors_behind_the_first_window)
{
    static const struct {
        const char *end, *message;
    } all[] = {
        { "7,oops\n", "line 400002, column 2 ('y'): 'oops'" },
        { "7,\"oops\n", "line 400002, column 2 ('y'): 'oops?' begins with a quote" },
        { "7\n", "line 400002 has 1 field;" },
    };
    dt_ctx *ctx = sample_context(1);
    const dt_csv_options o = { .header = true, .target = { 1, { "y" } } };
    for (int i = 0; i <= DT__COUNT_OF(all); i++) {
        FILE *f = fopen(path_of("e.csv"), "wb");
        ck_assert_ptr_nonnull(f);
        fputs("x,y\n", f);
        for (int k = 0; k < 400000; k++) fprintf(f, "%d,1\n", k % 9);
        if (i < DT__COUNT_OF(all)) fputs(all[i].end, f);
        else fwrite("7,\0001\n", 1, 5, f);
        ck_assert(fclose(f) == 0);
        dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
        dt__csv_table t;
        TEST_FAILS(ctx, DT_ERR_FORMAT,
                   i < DT__COUNT_OF(all) ? all[i].message : "a NUL byte; expected text",
                   dt__csv_read(&c, path_of("e.csv"), &t));
        dt__csv_table_free(&t);
        dt__csv_free(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- caches --------------------------------------------------------------------------------- */

/* A drawn table: numbers, holes, words, integers that f32 would merge in columns of their own. */
static void write_table(const char *name, int rows)
{
    static const char *const words[] = { "red", "green", "dark, blue", "" };
    FILE *f = fopen(path_of(name), "wb");
    ck_assert_ptr_nonnull(f);
    fputs("a,b,colour,who,y\n", f);
    for (int i = 0; i < rows; i++) {
        fprintf(f, "%d.%03d,", below(100) - 50, below(1000));
        if (below(5) > 0) fprintf(f, "%d", below(100000));
        fprintf(f, ",\"%s\",p%d,%s\n", words[below(4)], below(9), below(2) ? "yes" : "no");
    }
    ck_assert(fclose(f) == 0);
}

typedef struct reading {
    uint64_t hash[3];
    int64_t count[3];
    char said[4096];
} reading;

static void hear(void *user, const char *text)
{
    reading *r = user;
    if (strlen(r->said) + strlen(text) + 2 < sizeof r->said) strcat(strcat(r->said, text), "\n");
}

static void set_options(dt_data_options *o, dt_list_item items[2], int variant, const char *cache)
{
    static const dt_column_rule rules[] = {
        { .columns = { 1, { "b" } }, .missing = DT_MISSING_MEDIAN, .scale = DT_SCALE_ROBUST },
        { .columns = { 1, { "colour" } },
          .type = DT_COLUMN_CATEGORY,
          .missing = DT_MISSING_FREQUENT },
    };
    *o = dt_data_defaults();
    o->format = DT_DATA_TENSORS;
    o->train_tensors = (dt_tensor_files){ .given = true, .x = { 1, { path_of("a.csv") } } };
    if (variant & 2) o->train_tensors.x = (dt_strings){ 2, { path_of("a.csv"), path_of("b.csv") } };
    o->test_tensors = (dt_tensor_files){ .given = true, .x = { 1, { path_of("c.csv") } } };
    o->validation = 0.2;
    o->columns.target = (dt_strings){ 1, { "y" } };
    o->columns.exclude = (dt_strings){ 1, { "who" } };
    for (int i = 0; i < 2; i++) items[i] = (dt_list_item){ NULL, (void *)(uintptr_t)&rules[i] };
    if (variant & 1) o->columns.types = (dt_item_list){ 2, items };
    else o->columns.inputs = (dt_strings){ 1, { "a" } };
    if (variant & 4) o->split = (dt_split_options){ .by = DT_SPLIT_GROUP, .column = "who" };
    o->standardize = true;
    o->cache = cache;
}

static dt_status open_data(dt_ctx *ctx, const dt_data_options *o, reading *r)
{
    dt_dataset *d[3] = { NULL, NULL, NULL };
    const dt_status s = dt_data_open(ctx, o, &d[0], &d[1], &d[2]);
    for (int i = 0; i < 3; i++) {
        if (s == DT_OK) r->hash[i] = dt__content_hash(d[i]);
        if (s == DT_OK) r->count[i] = dt_dataset_count(d[i]);
        dt_dataset_free(d[i]);
    }
    return s;
}

static reading read_all(int variant, const char *cache, int threads)
{
    reading r = { .said = "" };
    dt_list_item items[2];
    dt_data_options o;
    dt_ctx *ctx;
    dt_ctx_options own = dt_ctx_defaults();
    own.threads = threads;
    own.log = hear;
    own.log_user = &r;
    ck_assert_int_eq(dt_ctx_create(&ctx, &own), DT_OK);
    set_options(&o, items, variant, cache);
    TEST_OK(ctx, open_data(ctx, &o, &r));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
    return r;
}

static void assert_same(const reading *a, const reading *b)
{
    ck_assert_mem_eq(a->hash, b->hash, sizeof a->hash);
    ck_assert_mem_eq(a->count, b->count, sizeof a->count);
}

/* With and without a cache, while it is made and when it is there, on one thread and two: the same
 * numbers, classes and parts. */
START_TEST(the_same_numbers)
{
    srand((unsigned)_i);
    test_folder(folder);
    write_table("a.csv", 300 + below(3000));
    write_table("b.csv", 200 + below(100));
    write_table("c.csv", 50 + below(100));
    char cache[TEST_PATH];
    test_join(cache, folder, "cache");
    const reading plain = read_all(_i, "no", 1);
    const reading first = read_all(_i, cache, 1), second = read_all(_i, cache, 2);
    assert_same(&plain, &first);
    assert_same(&plain, &second);
    ck_assert_ptr_null(strstr(plain.said, "data.cache"));
    ck_assert_ptr_nonnull(strstr(first.said, "are kept in"));
    ck_assert_ptr_nonnull(strstr(second.said, "are read from"));
    ck_assert_ptr_null(strstr(second.said, "are kept in"));
    ck_assert_int_eq(sample_entries(cache), _i & 2 ? 6 : 4);
    /* other settings, and another content of the same length, are other files */
    const reading other = read_all(_i ^ 1, cache, 1), own = read_all(_i ^ 1, NULL, 1);
    assert_same(&other, &own);
    ck_assert_ptr_null(strstr(other.said, "are read from"));
    const int files = sample_entries(cache);
    FILE *f = fopen(path_of("a.csv"), "r+b");
    ck_assert(f != NULL && fseek(f, 17, SEEK_SET) == 0);
    const char digit = fgetc(f) == '1' ? '2' : '1';
    ck_assert(fseek(f, 17, SEEK_SET) == 0 && fputc(digit, f) == digit && fclose(f) == 0);
    const reading changed = read_all(_i, cache, 1), wanted = read_all(_i, NULL, 1);
    assert_same(&changed, &wanted);
    ck_assert_ptr_nonnull(strstr(changed.said, "of what it held before are removed"));
    ck_assert_int_eq(sample_entries(cache), files);
}
END_TEST

/* Files that are damaged, cut short, or of another program are made again, with a line. */
START_TEST(damaged_caches)
{
    srand((unsigned)_i);
    test_folder(folder);
    write_table("a.csv", 200);
    write_table("b.csv", 20);
    write_table("c.csv", 50);
    char cache[TEST_PATH];
    test_join(cache, folder, "cache");
    const reading first = read_all(_i % 2, cache, 1);
    for (int round = 0; round < 12; round++) {
        char path[TEST_PATH];
        DIR *entries = opendir(cache);
        ck_assert_ptr_nonnull(entries);
        const struct dirent *e;
        int skip = below(4);
        while ((e = readdir(entries)) != NULL && (e->d_name[0] == '.' || skip-- > 0)) {
        }
        ck_assert_ptr_nonnull(e);
        test_join(path, cache, e->d_name);
        closedir(entries);
        size_t size;
        char *bytes = test_read_file(path, &size);
        const int how = round % 4;
        if (how == 0) bytes[below((int)size)] ^= (char)(1 << below(8));
        if (how == 1) size = (size_t)below((int)size);
        if (how == 2) size = 0;
        if (how < 3) test_write_file(path, bytes, size);
        else test_remove(path);
        free(bytes);
        const reading again = read_all(_i % 2, cache, 1);
        assert_same(&first, &again);
        const bool table = strstr(path, ".table") != NULL;
        ck_assert_msg(strstr(again.said, "is read again") != NULL || (how == 3 && table), "%s",
                      again.said);
        const reading third = read_all(_i % 2, cache, 1);
        assert_same(&first, &third);
        ck_assert_ptr_null(strstr(third.said, "is read again"));
    }
}
END_TEST

static dt_status open_cached(dt_ctx *ctx, void *cache)
{
    reading r;
    dt_list_item items[2];
    dt_data_options o;
    set_options(&o, items, 7, cache);
    test_remove(cache);
    DT__TRY(open_data(ctx, &o, &r));
    return open_data(ctx, &o, &r);
}

/* No room on the disk, no folder, no memory: errors, and no file is left. */
START_TEST(without_room)
{
    reading r;
    dt_list_item items[2];
    dt_data_options o;
    test_folder(folder);
    srand(5);
    write_table("a.csv", 3000);
    write_table("b.csv", 30);
    write_table("c.csv", 30);
    dt_ctx *ctx = sample_context(1);
    char cache[TEST_PATH];
    test_join(cache, folder, "cache");
    set_options(&o, items, 7, cache);
    ck_assert(test_limit_files(10000));
    const dt_status s = open_data(ctx, &o, &r);
    test_limit_files(-1);
    ck_assert_int_eq(s, DT_ERR_IO);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "data.cache"));
    ck_assert_int_eq(sample_entries(cache), 0);
    set_options(&o, items, 7, path_of("a.csv"));
    TEST_FAILS(ctx, DT_ERR_IO, "make the folder of data.cache", open_data(ctx, &o, &r));
    set_options(&o, items, 7, path_of("a.csv/folder"));
    TEST_FAILS(ctx, DT_ERR_IO, "make the folder of data.cache", open_data(ctx, &o, &r));
    dt_ctx_free(ctx);
    write_table("a.csv", 60);
    ck_assert_int_gt(test_every_allocation(open_cached, cache), 20);
}
END_TEST

Suite *test_table_cache_suite(void)
{
    Suite *suite = suite_create("table_cache");
    TCase *cases = tcase_create("table_cache");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, rows_pass_through_windows, 0, 6);
    tcase_add_test(cases, errors_behind_the_first_window);
    tcase_add_loop_test(cases, the_same_numbers, 0, 8);
    tcase_add_loop_test(cases, damaged_caches, 0, 4);
    tcase_add_test(cases, without_room);
    suite_add_tcase(suite, cases);
    return suite;
}
