/* Properties that the files of a table share, and files that a model is given later: the decimal
 * sign and thousands, times, and which column a name means. Tables are random, and compared with
 * the numbers that were written. */
#include "data/tables/csv.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <detent/experimental/tables.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 4, ROWS = 12 };

static char folder[TEST_PATH];
static uint32_t state;

static int below(int n)
{
    state = state * 1664525U + 1013904223U;
    return (int)((state >> 8) % (uint32_t)n);
}

static void begin(int seed)
{
    state = (uint32_t)seed * 7919U + 17U;
    if (*folder == 0) test_folder(folder);
}

static const char *path_of(const char *name)
{
    static char path[4][TEST_PATH];
    static int turn;
    char *to = path[turn++ % 4];
    test_join(to, folder, name);
    return to;
}

/* ---- numbers -------------------------------------------------------------------------------- */

typedef struct form {
    char separator, decimal, thousands; /* thousands 0: none */
} form;

static form draw_form(void)
{
    const bool comma = below(2);
    form f = { comma ? ";\t|"[below(3)] : ",;\t|"[below(4)], comma ? ',' : '.', 0 };
    if (below(2)) f.thousands = comma ? '.' : ',';
    return f;
}

/* How a field is written, with quotes where it has the separator. */
static int put_number(char *to, const form *f, double v, int places)
{
    char plain[64], text[64];
    int n = 0, used = 0;
    snprintf(plain, sizeof plain, "%.*f", places, v);
    const int whole = (int)strcspn(plain, ".");
    const bool negative = plain[0] == '-';
    for (const char *c = plain; *c != 0; c++, n++) {
        const int left = whole - n;
        const bool group = left > 0 && left % 3 == 0 && n > negative;
        if (group && f->thousands != 0) text[used++] = f->thousands;
        text[used++] = *c == '.' ? f->decimal : *c;
    }
    text[used] = 0;
    const bool quoted = strchr(text, f->separator) != NULL;
    return sprintf(to, quoted ? "\"%s\"" : "%s", text);
}

/* A number whose text shows the form, or an ambiguous one: three digits behind the only sign. */
static double draw_number(const form *f, bool shows, int *places)
{
    if (shows) {
        *places = 1 + below(2);
        return (f->thousands != 0 ? 1000 : 1) * (1 + below(9)) + below(100) / 100.0 + 0.25;
    }
    *places = f->thousands != 0 && below(2) ? 0 : 3;
    return *places == 0 ? 1000 + below(9000) : 1 + below(9) + below(1000) / 1000.0;
}

typedef struct member {
    form f;
    int files, rows[FILES];
    float v[FILES][ROWS];
    char name[FILES][TEST_PATH];
} member;

/* The first file shows the form; the others only where `shows` says so. */
static void write_member(member *m, bool shows)
{
    m->f = draw_form();
    m->files = 2 + below(FILES - 1);
    for (int i = 0; i < m->files; i++) {
        char text[ROWS * 48];
        int used = sprintf(text, "x%cy\n", m->f.separator);
        m->rows[i] = 2 + below(ROWS - 1);
        for (int r = 0; r < m->rows[i]; r++) {
            int places;
            const bool first = i == 0 && r == 0;
            const double v = draw_number(&m->f, first || (shows && below(2)), &places);
            char plain[64];
            snprintf(plain, sizeof plain, "%.*f", places, v);
            m->v[i][r] = strtof(plain, NULL);
            used += put_number(text + used, &m->f, v, places);
            used += sprintf(text + used, "%cc%d\n", m->f.separator, r % 2);
        }
        snprintf(m->name[i], TEST_PATH, "%s",
                 path_of((const char *[]){ "a.csv", "b.csv", "c.csv", "d.csv" }[i]));
        test_write_text(m->name[i], text);
    }
}

static const dt_csv_options columns = { .header = true, .target = { 1, { "y" } } };

START_TEST(one_form_for_all_files)
{
    static member m;
    begin(_i);
    write_member(&m, _i % 2);
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &columns };
    for (int i = 0; i < m.files; i++) {
        dt__csv_table t;
        TEST_OK(ctx, dt__csv_read(&c, m.name[i], &t));
        ck_assert_int_eq(t.rows, m.rows[i]);
        ck_assert_mem_eq(t.x->data, m.v[i], (size_t)m.rows[i] * sizeof(float));
        dt__csv_table_free(&t);
    }
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* A file beside others that shows another sign, or whose numbers were read before it was known. */
START_TEST(forms_that_differ)
{
    static const struct {
        const char *first, *second, *says;
    } bad[] = {
        { "x;y\n1,5;a\n", "x;y\n1.5;a\n", "'1.5' has a decimal point, but numbers of" },
        { "x;y\n1.5;a\n", "x;y\n7;b\n1,25;a\n", "'1,25' has a decimal comma, but numbers of" },
        { "x;y\n1.234;a\n", "x;y\n1,25;a\n", "a.csv' have a decimal point" },
        { "x,y\n\"1,5\",a\n", "x,y\n1.5,a\n", "a.csv' have a decimal comma" },
        { "x;y\n1,5;a\n", "x;y\n1.234;a\n", "'1.234' is not a number with a decimal comma" },
        { "x;y\n1.5;a\n", "x;y\n1,234;a\n", "'1,234' is not a number: a decimal point" },
        { "x;y\n15;a\n", "x;y\n1,234;a\n", "may have a decimal comma or thousands" },
    };
    begin(0);
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &columns };
    dt__csv_table t;
    test_write_text(path_of("a.csv"), bad[_i].first);
    test_write_text(path_of("b.csv"), bad[_i].second);
    TEST_OK(ctx, dt__csv_read(&c, path_of("a.csv"), &t));
    dt__csv_table_free(&t);
    TEST_FAILS(ctx, DT_ERR_FORMAT, bad[_i].says, dt__csv_read(&c, path_of("b.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* Lists in quotes say nothing of numbers with points, in the same file or in another one. */
START_TEST(lists_are_no_decimals)
{
    static const struct {
        const char *first, *second; /* x is 1.234, then 7 */
    } all[] = {
        { "x,tags,y\n1.234,\"3,7\",a\n", "x,tags,y\n7,\"2,9\",a\n" },
        { "x,tags,y\n1.234,5.5,a\n", "x,tags,y\n7,\"2,9\",a\n" },
        { "x,tags,y\n1.234,\"3,7\",a\n0.5,\"3,8\",b\n", "x,tags,y\n7.0,\"2,9\",a\n" },
    };
    begin(0);
    dt_csv_options o = columns;
    o.exclude = (dt_strings){ 1, { "tags" } };
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &o };
    dt__csv_table t[2];
    test_write_text(path_of("a.csv"), all[_i].first);
    test_write_text(path_of("b.csv"), all[_i].second);
    TEST_OK(ctx, dt__csv_read(&c, path_of("a.csv"), &t[0]));
    TEST_OK(ctx, dt__csv_read(&c, path_of("b.csv"), &t[1]));
    ck_assert(*(const float *)t[0].x->data == 1.234F && *(const float *)t[1].x->data == 7);
    dt__csv_table_free(&t[0]);
    dt__csv_table_free(&t[1]);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(thousands_tell_decimals)
{
    static const struct {
        int decimal, thousands;
        const char *text;
        float value; /* 0: it is refused */
    } all[] = {
        { 0, DT_CSV_THOUSANDS_COMMA, "1,234", 1234 },
        { 0, DT_CSV_THOUSANDS_POINT, "1.234", 1234 },
        { 0, DT_CSV_THOUSANDS_NONE, "1,234", 1.234F },
        { 0, DT_CSV_THOUSANDS_NONE, "1.234", 1.234F },
        { 0, 0, "1,234", 0 },
        { 0, 0, "1.234", 1.234F },
        { DT_CSV_DECIMAL_COMMA, 0, "1,234", 1.234F },
        { DT_CSV_DECIMAL_COMMA, 0, "1.234", 0 },
        { DT_CSV_POINT, 0, "1,234", 0 },
        { DT_CSV_POINT, DT_CSV_THOUSANDS_COMMA, "1,234", 1234 },
    };
    begin(0);
    char text[64];
    dt_csv_options o = columns;
    o.decimal = all[_i].decimal;
    o.thousands = all[_i].thousands;
    snprintf(text, sizeof text, "x;y\n%s;a\n", all[_i].text);
    test_write_text(path_of("a.csv"), text);
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &o };
    dt__csv_table t;
    const dt_status s = dt__csv_read(&c, path_of("a.csv"), &t);
    ck_assert_int_eq(s, all[_i].value == 0 ? DT_ERR_FORMAT : DT_OK);
    if (s == DT_OK) ck_assert(*(float *)t.x->data == all[_i].value);
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- the model's form ----------------------------------------------------------------------- */

typedef struct kept_text {
    char bytes[16384];
    size_t n;
} kept_text;

static dt_status take_text(void *user, const char *bytes, size_t n)
{
    kept_text *t = user;
    if (t->n + n >= sizeof t->bytes) return DT_ERR_IO;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return DT_OK;
}

static float first_number(dt_ctx *ctx, dt_dataset *d)
{
    dt_loader_options order = dt_loader_defaults();
    dt_loader *l;
    dt_tensor *x, *y;
    order.batch_size = 1;
    order.shuffle = false;
    TEST_OK(ctx, dt_loader_create(d, &order, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    const float v = ((const float *)dt_data(x))[0];
    dt_loader_free(l);
    return v;
}

/* A table of one row in the form of the training data, by what the model's file keeps. */
START_TEST(a_model_keeps_the_form)
{
    static member m;
    static kept_text kept;
    begin(_i);
    write_member(&m, true);
    dt_ctx *ctx = sample_context(1);
    const bool typed = below(2);
    static const dt_column_rule rule = { .columns = { 1, { "x" } }, .missing = DT_MISSING_MEAN };
    static dt_list_item rules[] = { { .options = (void *)(uintptr_t)&rule } };
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.columns = columns;
    o.train_tensors.given = true;
    for (int i = 0; i < m.files; i++) o.train_tensors.x.v[o.train_tensors.x.n++] = m.name[i];
    if (typed) o.columns.types = (dt_item_list){ 1, rules };
    dt_dataset *d[3], *own;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    kept.n = 0;
    TEST_OK(ctx, dt_model_data_text(d[0], take_text, &kept));
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
    dt_model_data data;
    TEST_OK(ctx, dt_model_data_parse(ctx, kept.bytes, "kept", &data));
    char one[128], plain[64];
    for (int i = 0; i < 8; i++) {
        int places, used = sprintf(one, "x%cz\n", m.f.separator);
        const double v = draw_number(&m.f, i % 2, &places);
        used += put_number(one + used, &m.f, v, places);
        sprintf(one + used, "%c1\n", m.f.separator);
        test_write_text(path_of("one.csv"), one);
        snprintf(plain, sizeof plain, "%.*f", places, v);
        TEST_OK(ctx, dt_model_data_open(ctx, &data, path_of("one.csv"), NULL, &own));
        ck_assert_msg(first_number(ctx, own) == strtof(plain, NULL), "%s is read as %g", one,
                      (double)first_number(ctx, own));
        dt_dataset_free(own);
    }
    const bool comma = m.f.decimal == ',';
    test_write_text(path_of("one.csv"), comma ? "x\n1.5\n" : "x;z\n1,5;1\n");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "is not a number",
               dt_model_data_open(ctx, &data, path_of("one.csv"), NULL, &own));
    dt_model_data_free(ctx, &data);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- times ---------------------------------------------------------------------------------- */

/* Rows in any order; the newest third validates. */
START_TEST(times_have_the_form_of_the_file)
{
    begin(_i);
    enum { N = 30 };
    const int kind = _i % 3; /* numbers with a decimal comma, with thousands, dates by a rule */
    int order[N];
    char text[N * 64];
    int used = sprintf(text, "x;when;y\n");
    for (int i = 0; i < N; i++) order[i] = i;
    for (int i = N - 1; i > 0; i--) {
        const int k = below(i + 1), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
    for (int i = 0; i < N; i++) {
        const int t = order[i];
        used += sprintf(text + used, "%d,5;", t);
        if (kind == 0) used += sprintf(text + used, "%d,%d", t / 4, t % 4 * 2 + 1);
        else if (kind == 1) used += sprintf(text + used, "1.%03d,5", t * 31);
        else used += sprintf(text + used, "%02d.%02d.2023", 1 + t % 3, 1 + t / 3);
        used += sprintf(text + used, ";c%d\n", t % 2);
    }
    test_write_text(path_of("a.csv"), text);
    static const dt_column_rule rule = { .columns = { 1, { "wh*" } },
                                         .type = DT_COLUMN_TIME,
                                         .format = "%d.%m.%Y" };
    static dt_list_item rules[] = { { .options = (void *)(uintptr_t)&rule } };
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.columns = columns;
    o.validation = 1.0 / 3;
    o.train_tensors = (dt_tensor_files){ .given = true, .x = { 1, { path_of("a.csv") } } };
    o.split = (dt_split_options){ .by = DT_SPLIT_TIME, .column = "when" };
    if (kind == 2) o.columns.types = (dt_item_list){ 1, rules };
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d[3];
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    ck_assert_int_eq(dt_dataset_count(d[1]), N / 3);
    for (int part = 0; part < 2; part++) {
        dt_loader_options how = dt_loader_defaults();
        dt_loader *l;
        dt_tensor *x, *y;
        how.batch_size = dt_dataset_count(d[part]);
        TEST_OK(ctx, dt_loader_create(d[part], &how, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        for (int64_t i = 0; i < how.batch_size; i++) {
            ck_assert((((const float *)dt_data(x))[i] > N - N / 3) == (part == 1));
        }
        dt_loader_free(l);
    }
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- names ---------------------------------------------------------------------------------- */

/* A name with * or ? means the column that has it. */
START_TEST(a_name_means_its_column)
{
    static const struct {
        dt_csv_options o;
        const char *inputs; /* joined */
    } all[] = {
        { { .header = true, .target = { 1, { "a*" } } }, "ab,ac,b?,bb," },
        { { .header = true, .target = { 1, { "ab" } }, .exclude = { 1, { "a*" } } }, "ac,b?,bb," },
        { { .header = true, .target = { 1, { "ab" } }, .exclude = { 1, { "b?" } } }, "a*,ac,bb," },
        { { .header = true, .target = { 1, { "ab" } }, .exclude = { 1, { "?c" } } }, "a*,b?,bb," },
        { { .header = true, .target = { 1, { "ab" } }, .inputs = { 1, { "b*" } } }, "b?,bb," },
        { { .header = true, .target = { 1, { "ab" } }, .inputs = { 2, { "b?", "ac" } } },
          "b?,ac," },
    };
    begin(0);
    test_write_text(path_of("a.csv"), "a*,ab,ac,b?,bb\n1,2,3,4,5\n2,3,4,5,6\n");
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &all[_i].o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    char names[64] = "";
    TEST_OK(ctx, dt__csv_read(&c, path_of("a.csv"), &t));
    for (int64_t i = 0; i < c.inputs.n; i++) strcat(strcat(names, c.inputs.word[i]), ",");
    ck_assert_str_eq(names, all[_i].inputs);
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- settings that do nothing --------------------------------------------------------------- */

START_TEST(a_rule_must_decide_something)
{
    static const struct {
        dt_column_rule rule[2];
        const char *says; /* NULL: it is right */
    } all[] = {
        { { { .columns = { 1, { "*" } } },
            { .columns = { 1, { "b" } }, .type = DT_COLUMN_CATEGORY } },
          "the rule of 'b' decides no input" },
        { { { .columns = { 1, { "y" } } }, { .columns = { 1, { "b" } } } },
          "the rule of 'y' decides no input" },
        { { { .columns = { 1, { "a" } } }, { .columns = { 1, { "c" } } } },
          "the rule of 'c' decides no input" },
        { { { .columns = { 1, { "b" } } }, { .columns = { 1, { "*" } } } }, NULL },
        { { { .columns = { 1, { "b" } }, .type = DT_COLUMN_IGNORE },
            { .columns = { 1, { "a" } } } },
          NULL },
    };
    begin(0);
    test_write_text(path_of("a.csv"), "a,b,c,y\n1,2,3,4\n2,3,4,5\n");
    dt_list_item items[] = { { .options = (void *)(uintptr_t)&all[_i].rule[0] },
                             { .options = (void *)(uintptr_t)&all[_i].rule[1] } };
    const dt_csv_options o = {
        .header = true, .target = { 1, { "y" } }, .exclude = { 1, { "c" } }, .types = { 2, items }
    };
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    if (all[_i].says == NULL) TEST_OK(ctx, dt__csv_read(&c, path_of("a.csv"), &t));
    else TEST_FAILS(ctx, DT_ERR_CONFIG, all[_i].says, dt__csv_read(&c, path_of("a.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(columns_are_named_once)
{
    begin(0);
    test_write_text(path_of("a.csv"), "a,b,y\n1,2,3\n2,3,4\n");
    dt_csv_options o = columns;
    if (_i == 0) o.inputs = (dt_strings){ 3, { "a", "b", "a" } };
    else o.target = (dt_strings){ 2, { "y", "y" } };
    dt_ctx *ctx = sample_context(1);
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "is named twice", dt__csv_read(&c, path_of("a.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(comments_are_one_sign)
{
    static const char *const bad[] = { "//", "\"", ",", "7", "x", "-", " ", "\t" };
    begin(0);
    test_write_text(path_of("a.csv"), "a,y\n1,2\n");
    dt_ctx *ctx = sample_context(1);
    dt_csv_options o = columns;
    o.comment = bad[_i];
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "cannot begin comments", dt__csv_read(&c, path_of("a.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

/* split: file keeps files of several lengths whole, each row with its own target. */
START_TEST(files_stay_whole)
{
    begin(_i);
    enum { N = 6 };
    int rows[N], file_of[N] = { 0 };
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.columns = columns;
    o.task = DT_DATA_REGRESSION;
    o.validation = 0.34;
    o.seed = _i;
    o.split = (dt_split_options){ .by = DT_SPLIT_FILE, .test = _i % 2 ? 0.34 : 0 };
    o.train_tensors.given = true;
    static char name[N][TEST_PATH];
    for (int i = 0; i < N; i++) {
        char text[1024];
        int used = sprintf(text, "x,y\n");
        rows[i] = 1 + below(9);
        for (int r = 0; r < rows[i]; r++)
            used += sprintf(text + used, "%d,%d\n", 100 * i + r, 300 * i + 3 * r + 1);
        char own[32];
        snprintf(own, sizeof own, "file%d.csv", i);
        test_join(name[i], folder, own);
        test_write_text(name[i], text);
        o.train_tensors.x.v[o.train_tensors.x.n++] = name[i];
    }
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d[3];
    int seen = 0, part_of[N] = { 0 };
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    for (int part = 0; part < 3; part++) {
        dt_loader *l;
        dt_tensor *x, *y;
        if (d[part] == NULL) continue;
        dt_loader_options how = dt_loader_defaults();
        how.batch_size = dt_dataset_count(d[part]);
        TEST_OK(ctx, dt_loader_create(d[part], &how, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        for (int64_t i = 0; i < how.batch_size; i++, seen++) {
            const float v = ((const float *)dt_data(x))[i];
            const int file = (int)v / 100;
            ck_assert(((const float *)dt_data(y))[i] == 3 * v + 1);
            ck_assert(part_of[file] == 0 || part_of[file] == part + 1);
            part_of[file] = part + 1;
            file_of[file]++;
        }
        dt_loader_free(l);
        dt_dataset_free(d[part]);
    }
    for (int i = 0; i < N; i++) ck_assert_int_eq(file_of[i], rows[i]);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_table_forms_suite(void)
{
    Suite *s = suite_create("table_forms");
    TCase *c = tcase_create("table_forms");
    tcase_add_loop_test(c, one_form_for_all_files, 0, 200);
    tcase_add_loop_test(c, forms_that_differ, 0, 7);
    tcase_add_loop_test(c, lists_are_no_decimals, 0, 3);
    tcase_add_loop_test(c, thousands_tell_decimals, 0, 10);
    tcase_add_loop_test(c, a_model_keeps_the_form, 0, 60);
    tcase_add_loop_test(c, times_have_the_form_of_the_file, 0, 9);
    tcase_add_loop_test(c, a_name_means_its_column, 0, 6);
    tcase_add_loop_test(c, a_rule_must_decide_something, 0, 5);
    tcase_add_loop_test(c, columns_are_named_once, 0, 2);
    tcase_add_loop_test(c, comments_are_one_sign, 0, 8);
    tcase_add_loop_test(c, files_stay_whole, 0, 20);
    suite_add_tcase(s, c);
    return s;
}
