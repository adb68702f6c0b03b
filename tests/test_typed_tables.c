/* Tables as users have them: forms of files, typed columns with missing values, damaged tables. */
#include "data/arrays.h"
#include "data/tables/csv_types.h"
#include "sample.h"

#include <detent/experimental/tables.h>

#include <math.h>
#include <iconv.h>
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

static int below(int n) { return rand() % n; }

/* ---- forms ---------------------------------------------------------------------------------- */

typedef struct form {
    char separator, decimal, thousands; /* 0: none */
    int encoding;
    bool crlf, quotes, comments;
} form;

static form draw_form(void)
{
    static const char separators[] = { ',', ';', '\t', '|' };
    form f = { separators[below(4)], '.', 0, below(5), below(2), below(2), below(2) };
    if (f.separator != ',' && below(2)) f.decimal = ',';
    if (f.separator != ',' && below(2)) f.thousands = f.decimal == ',' ? '.' : ',';
    return f;
}

static void put_number(char *to, double v, const form *f)
{
    char digits[32], *out = to;
    snprintf(digits, sizeof digits, "%.2f", fabs(v));
    const size_t whole = strcspn(digits, ".");
    if (f->quotes) *out++ = '"';
    if (v < 0) *out++ = '-';
    for (size_t i = 0; digits[i] != 0; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0 && f->thousands != 0) *out++ = f->thousands;
        *out++ = digits[i] == '.' ? f->decimal : digits[i];
    }
    if (f->quotes) *out++ = '"';
    *out = 0;
}

/* Text of code points below 256, one byte each, in an encoding. */
static void write_text(const char *path, const char *text, int encoding)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    if (encoding == DT_CSV_ENCODING_AUTO) fputs("\xef\xbb\xbf", f);
    if (encoding == DT_CSV_UTF16LE) fputs("\xff\xfe", f);
    if (encoding == DT_CSV_UTF16BE) fputs("\xfe\xff", f);
    for (const char *c = text; *c != 0; c++) {
        const int code = (unsigned char)*c;
        if (encoding == DT_CSV_UTF16BE) fputc(0, f);
        if (encoding < DT_CSV_LATIN1 && code > 127) fputc(0xC0 | code >> 6, f);
        fputc(encoding < DT_CSV_LATIN1 && code > 127 ? 0x80 | (code & 63) : code, f);
        if (encoding == DT_CSV_UTF16LE) fputc(0, f);
    }
    ck_assert(fclose(f) == 0);
}

static void add(char *text, const char *more)
{
    strcat(text, more);
    ck_assert(strlen(text) < 8000);
}

/* Numbers are read correctly from a file in any form, which its first rows show. */
START_TEST(forms_are_found)
{
    dt_ctx *ctx = sample_context(1);
    srand((unsigned)_i);
    static char text[16384];
    float wanted[60];
    const form f = draw_form();
    const int rows = 4 + below(12);
    const char *end = f.crlf ? "\r\n" : "\n";
    const char one[] = { f.separator, 0 };
    dt_csv_options o = { .header = true,
                         .encoding = f.encoding == DT_CSV_LATIN1 ? DT_CSV_LATIN1 : 0 };
    o.comment = f.comments ? "#" : NULL;
    snprintf(text, sizeof text,
             "%sgr\xf6\xdf"
             "e%sb,c%s",
             f.comments ? "# 1;2|3\n" : "", one, end);
    if (f.separator == ',')
        snprintf(text, sizeof text,
                 "gr\xf6\xdf"
                 "e,b%s",
                 end);
    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < 2; k++) {
            char number[48];
            const double v = (below(2) ? 1 : -1) * (below(4000000) + 100001) / 100.0;
            char digits[32];
            snprintf(digits, sizeof digits, "%.2f", v);
            wanted[2 * i + k] = strtof(digits, NULL);
            put_number(number, v, &f);
            add(text, number);
            add(text, k == 0 ? one : end);
        }
        if (f.comments && f.separator != ',' && below(3) == 0) add(text, "# a comment\n");
    }
    if (f.separator == ',') o.comment = NULL;
    write_text(path_of("form.csv"), text, f.encoding);
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    TEST_OK(ctx, dt__csv_read(&c, path_of("form.csv"), &t));
    ck_assert_int_eq(t.rows, rows);
    ck_assert_str_eq(c.inputs.word[0], "gr\xc3\xb6\xc3\x9f"
                                       "e");
    for (int i = 0; i < 2 * rows; i++) {
        ck_assert_msg(((float *)t.x->data)[i] == wanted[i], "number %d: %.9g, not %.9g\n%s", i,
                      (double)((float *)t.x->data)[i], (double)wanted[i], text);
    }
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* Columns of a file in code page 1252 and of the same in UTF-8 have one name, though the key says
 * latin-1 of both. The reference is the system's iconv. */
START_TEST(latin_1_is_what_windows_writes)
{
    dt_ctx *ctx = sample_context(1);
    srand((unsigned)_i);
    char windows[64], utf8[256], *from = windows, *to = utf8;
    size_t n = 0, room = sizeof utf8 - 1;
    for (int i = 1 + below(12); i > 0; i--) {
        const int byte = 0x80 + below(0x80);
        const bool none = strchr("\x81\x8d\x8f\x90\x9d", byte) != NULL;
        windows[n++] = none ? 'e' : (char)byte;
    }
    windows[n++] = (char)0xE9;
    windows[n] = 0;
    const iconv_t change = iconv_open("UTF-8", "CP1252");
    if (change == (iconv_t)-1) {
        dt_ctx_free(ctx);
        test_skip("the system's iconv does not know CP1252");
        return;
    }
    size_t left = n;
    ck_assert(iconv(change, &from, &left, &to, &room) == 0);
    iconv_close(change);
    *to = 0;
    const char *const names[] = { windows, utf8 };
    for (int i = 0; i < 2; i++) {
        char text[400];
        snprintf(text, sizeof text, "%s,b\n1,2\n", names[i]);
        test_write_text(path_of("l.csv"), text);
        dt_csv_options o = { .header = true, .encoding = DT_CSV_LATIN1 };
        dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
        dt__csv_table t;
        TEST_OK(ctx, dt__csv_read(&c, path_of("l.csv"), &t));
        ck_assert_str_eq(c.inputs.word[0], utf8);
        dt__csv_table_free(&t);
        dt__csv_free(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- types ---------------------------------------------------------------------------------- */

static dt_status open_table(dt_ctx *ctx, const dt_column_rule *rules, int n, double validation,
                            dt_dataset *out[3])
{
    dt_list_item items[8];
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.task = DT_DATA_REGRESSION;
    o.train_tensors = (dt_tensor_files){ .given = true, .x = { 1, { path_of("t.csv") } } };
    o.columns.target = (dt_strings){ 1, { "y" } };
    o.columns.types = (dt_item_list){ n, items };
    o.validation = validation;
    o.validation_order = DT_DATA_ORDER_TIME;
    for (int i = 0; i < n; i++) items[i] = (dt_list_item){ NULL, (void *)(uintptr_t)&rules[i] };
    return dt_data_open(ctx, &o, &out[0], &out[1], &out[2]);
}

static void close_all(dt_dataset *d[3])
{
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
}

/* Columns are fitted to the rows that are trained on alone, and all rows are encoded by them. */
START_TEST(columns_are_fitted_to_training_rows)
{
    static const dt_column_rule rules[] = {
        { .columns = { 1, { "age" } }, .missing = DT_MISSING_MEDIAN, .indicator = true },
        { .columns = { 1, { "c*" } }, .type = DT_COLUMN_CATEGORY, .missing = DT_MISSING_CODE },
        { .columns = { 1, { "b" } },
          .type = DT_COLUMN_BOOLEAN,
          .missing = DT_MISSING_LAST,
          .indicator = true },
        { .columns = { 1, { "t" } },
          .type = DT_COLUMN_TIME,
          .format = "%d.%m.%Y",
          .parts = { 2, { "seconds", "weekday" } },
          .missing = DT_MISSING_FREQUENT },
        { .columns = { 1, { "id" } }, .type = DT_COLUMN_IGNORE },
    };
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d[3] = { NULL, NULL, NULL };
    test_write_text(path_of("t.csv"), "id,age,city,b,t,y\n"
                                      "q,30,Paris,yes,01.01.2024,0\n"
                                      "r,NA,Bonn,,02.01.2024,1\n"
                                      "s,10,?,no,01.01.2024,2\n"
                                      "t,50,Bonn,,,3\n"
                                      "u,1000,Rome,true,08.01.2024,4\n"
                                      "v,,Bonn,F,07.01.2024,5\n");
    TEST_OK(ctx, open_table(ctx, rules, 5, 0.34, d));
    ck_assert_int_eq(dt_dataset_count(d[0]), 4);
    static const float wanted[6][9] = {
        { 30, 0, 0, 1, 0, 1, 0, 0, 0 },           { 30, 1, 1, 0, 0, 1, 1, 86400, 1 },
        { 10, 0, 0, 0, 1, 0, 0, 0, 0 },           { 50, 0, 1, 0, 0, 0, 1, 0, 0 },
        { 1000, 0, 0, 0, 0, 1, 0, 7 * 86400, 0 }, { 30, 1, 1, 0, 0, 0, 0, 6 * 86400, 6 },
    };
    float x[9];
    int64_t dims[DT_MAX_RANK - 1];
    ck_assert(dt_dataset_input_shape(d[1], dims) == 1 && dims[0] == 9);
    for (int i = 0; i < 6; i++) {
        dt__array_example(d[0]->arrays, i, x);
        for (int k = 0; k < 9; k++) {
            ck_assert_msg(x[k] == wanted[i][k], "row %d, %s: %g, not %g", i,
                          d[0]->arrays->column_name[k], (double)x[k], (double)wanted[i][k]);
        }
    }
    static const char *const names[] = { "age",        "age missing",  "city=Bonn",
                                         "city=Paris", "city missing", "b",
                                         "b missing",  "t seconds",    "t weekday" };
    for (int k = 0; k < 9; k++) ck_assert_str_eq(d[0]->arrays->column_name[k], names[k]);
    ck_assert_ptr_nonnull(strstr(dt__array_fields(d[0])->column[1].category[1], "Paris"));
    close_all(d);
    dt_ctx_free(ctx);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median and quartiles of drawn numbers with holes. */
START_TEST(numbers_are_scaled)
{
    static const dt_column_rule rule = { .columns = { 1, { "*" } },
                                         .missing = DT_MISSING_MEAN,
                                         .scale = DT_SCALE_ROBUST,
                                         .words = { 1, { "-999" } } };
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d[3] = { NULL, NULL, NULL };
    double v[80], sum = 0;
    int n = 0;
    const int rows = 10 + below(60);
    FILE *f = fopen(path_of("t.csv"), "w");
    fputs("x,y\n", f);
    for (int i = 0; i < rows; i++) {
        if (i > 3 && below(4) == 0) {
            fputs("-999,1\n", f);
            continue;
        }
        v[n] = below(1000) / 8.0;
        fprintf(f, "%g,1\n", v[n]);
        sum += v[n++];
    }
    fclose(f);
    TEST_OK(ctx, open_table(ctx, &rule, 1, 0, d));
    const dt_column *c = &dt__array_fields(d[0])->column[0];
    qsort(v, (size_t)n, sizeof *v, by_value);
    ck_assert(c->fill == sum / n);
    ck_assert(c->offset == (v[(n - 1) / 2] + v[n / 2]) / 2);
    const double p = 0.75 * (n - 1), q = 0.25 * (n - 1);
    const int i = (int)p, k = (int)q;
    const double range = v[i] + (v[i + 1] - v[i]) * (p - i) - (v[k] + (v[k + 1] - v[k]) * (q - k));
    ck_assert(c->factor == (range > 0 ? range : 1));
    close_all(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(rules_that_do_not_fit)
{
    static const struct {
        dt_column_rule rule;
        const char *table, *message;
    } cases[] = {
        { { .missing = DT_MISSING_CODE }, "x,y\n1,1\n", "code belongs to type: category" },
        { { .missing = DT_MISSING_CONSTANT }, "x,y\n1,1\n", "constant requires it" },
        { { .missing = DT_MISSING_CONSTANT, .fill = "q" }, "x,y\n1,1\n", "'q' is not a value" },
        { { .fill = "3" }, "x,y\n1,1\n", "belongs to missing: constant" },
        { { .indicator = true }, "x,y\n1,1\n", "indicator requires missing" },
        { { .type = DT_COLUMN_CATEGORY, .scale = DT_SCALE_LOG }, "x,y\n1,1\n", "scale belongs" },
        { { .format = "%d" }, "x,y\n1,1\n", "belong to type: time" },
        { { .type = DT_COLUMN_TIME, .format = "%Q" }, "x,y\n1,1\n", "directive" },
        { { .type = DT_COLUMN_TIME, .parts = { 1, { "hours" } } }, "x,y\n1,1\n", "'hours' is not" },
        { { .missing = DT_MISSING_MEAN, .type = DT_COLUMN_BOOLEAN }, "x,y\n1,1\n", "frequent" },
        { { .type = DT_COLUMN_CATEGORY }, "x,y\n,1\n", "line 2, column 1 ('x'): '' is missing" },
        { { .type = DT_COLUMN_BOOLEAN },
          "x,y\n1,1\nso,1\n",
          "line 3, column 1 ('x'): 'so' is not" },
        { { .type = DT_COLUMN_TIME }, "x,y\nnever,1\n", "line 2, column 1 ('x'): 'never'" },
        { { .missing = DT_MISSING_MEDIAN }, "x,y\n,1\n?,2\n", "no value in the rows" },
        { { .type = DT_COLUMN_IGNORE }, "x,y\n1,1\n", "no input is left" },
        { { .columns = { 1, { "z" } } }, "x,y\n1,1\n", "'z' is not a column" },
        { { .type = DT_COLUMN_NUMBER }, "x,y\n16777217,1\n16777216,1\n", "both 16777216 in f32" },
    };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_dataset *d[3] = { NULL, NULL, NULL };
        dt_column_rule rule = cases[i].rule;
        if (rule.columns.n == 0) rule.columns = (dt_strings){ 1, { "x" } };
        test_write_text(path_of("t.csv"), cases[i].table);
        const dt_status s = open_table(ctx, &rule, 1, 0, d);
        ck_assert_msg(s == DT_ERR_CONFIG || s == DT_ERR_FORMAT, "case %d: %d", i, (int)s);
        ck_assert_msg(strstr(dt_error(ctx), cases[i].message) != NULL, "case %d: no '%s': %s", i,
                      cases[i].message, dt_error(ctx));
        close_all(d);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* A file shows all of its errors; rows that are left out are not among them. */
START_TEST(errors_are_shown_together)
{
    dt_ctx *ctx = sample_context(1);
    static const struct {
        int bad;
        const char *said;
    } cases[] = { { 1, "'b0' is not a number" },
                  { 3, "line 2, column 2 ('x'): 'b0' is not a number" },
                  { 3, "(the first of 3 errors in this file)" },
                  { 40, "(the first of at least 20 errors in this file)" } };
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_dataset *d[3] = { NULL, NULL, NULL };
        FILE *f = fopen(path_of("t.csv"), "w");
        fputs("y,x\n", f);
        for (int k = 0; k < cases[i].bad; k++) fprintf(f, "1,b%d\n2,3\n", k);
        fclose(f);
        TEST_FAILS(ctx, DT_ERR_FORMAT, cases[i].said, open_table(ctx, NULL, 0, 0, d));
        close_all(d);
    }
    const dt_csv_options o = { .header = true, .rows = DT_CSV_ROWS_SKIP };
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    test_write_text(path_of("t.csv"), "a,b\n1,2\n3\n4,5,6\n\"7\",8\n9,\"10\n\",1\n11,12\n");
    TEST_OK(ctx, dt__csv_read(&c, path_of("t.csv"), &t));
    static const float wanted[] = { 1, 2, 7, 8, 11, 12 };
    ck_assert_int_eq(t.rows, 3);
    ck_assert_mem_eq(t.x->data, wanted, sizeof wanted);
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status look_and_open(dt_ctx *ctx, void *user)
{
    const dt_csv_options o = { .header = true };
    dt_dataset *d[3] = { NULL, NULL, NULL };
    dt_table_look look;
    const dt_status s = dt_table_look_at(ctx, path_of("t.csv"), &o, &look);
    if (s != DT_OK) return s;
    ck_assert_int_eq(look.n, 6);
    ck_assert(look.rows == 4 && look.column[1].missing == 1 && look.column[2].different == 3);
    static const int types[] = { DT_COLUMN_NUMBER,  DT_COLUMN_NUMBER, DT_COLUMN_CATEGORY,
                                 DT_COLUMN_BOOLEAN, DT_COLUMN_TIME,   DT_COLUMN_NUMBER };
    for (int i = 0; i < 6; i++) ck_assert_int_eq(look.column[i].type, types[i]);
    ck_assert_str_eq(look.column[4].format, "%d.%m.%Y");
    dt_table_look_free(ctx, &look);
    const dt_status opened = open_table(ctx, user, 4, 0.25, d);
    close_all(d);
    return opened;
}

START_TEST(every_allocation)
{
    static const dt_column_rule rules[] = {
        { .columns = { 1, { "age" } }, .missing = DT_MISSING_MEDIAN, .scale = DT_SCALE_QUANTILE },
        { .columns = { 1, { "city" } }, .type = DT_COLUMN_CATEGORY, .most = 2 },
        { .columns = { 1, { "b" } }, .type = DT_COLUMN_BOOLEAN },
        { .columns = { 1, { "t" } }, .type = DT_COLUMN_TIME, .format = "%d.%m.%Y" },
    };
    test_write_text(path_of("t.csv"), "id;age;city;b;t;y\n"
                                      "1;30,5;Paris;yes;01.01.2024;0\n"
                                      "2;NA;Bonn;no;02.01.2024;1\n"
                                      "3;10,25;Rome;no;01.01.2024;2\n"
                                      "4;50,0;Bonn;no;30.01.2024;3\n");
    ck_assert_int_gt(test_every_allocation(look_and_open, (void *)(uintptr_t)rules), 40);
}
END_TEST

/* ---- damaged tables ------------------------------------------------------------------------- */

#define DAMAGES 300

/* A table of numbers with one damage: it is refused with the number of its line, or each row that
 * is read is a row of the table. */
START_TEST(damaged_tables)
{
    dt_ctx *ctx = sample_context(1);
    for (int draw = 0; draw < DAMAGES; draw++) {
        char text[2000], *at;
        size_t n = 0;
        srand(7000U + (unsigned)draw);
        const int rows = 3 + below(8), columns = 2 + below(4);
        for (int k = 0; k < columns; k++) n += (size_t)sprintf(text + n, k > 0 ? ",c%d" : "c%d", k);
        for (int i = 0; i < rows; i++) {
            for (int k = 0; k < columns; k++) {
                n += (size_t)sprintf(text + n, "%c%d.5", k > 0 ? ',' : '\n', 100 * i + k);
            }
        }
        text[n++] = '\n';
        const size_t past_head = strcspn(text, "\n") + 1;
        at = text + past_head + (size_t)below((int)(n - past_head));
        static const char marks[] = { ',', '\n', '"', 'x', '\r', ';', '\t', (char)0xE9, '-', '.' };
        const int kind = below(4);
        const size_t behind = n - (size_t)(at - text);
        if (kind == 0) *at = marks[below(10)];
        if (kind == 1) memmove(at, at + 1, behind), n--;
        if (kind == 2) memmove(at + 1, at, behind), *at = marks[below(10)], n++;
        if (kind == 3) n = (size_t)(at - text);
        text[n] = 0;
        test_write_text(path_of("d.csv"), text);
        const dt_csv_options o = { .header = true, .rows = draw % 2 };
        dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
        dt__csv_table t;
        const dt_status s = dt__csv_read(&c, path_of("d.csv"), &t);
        if (s != DT_OK) {
            const bool named = strstr(dt_error(ctx), ": line ") != NULL ||
                               strstr(dt_error(ctx), "no rows below") != NULL;
            ck_assert_msg(s == DT_ERR_FORMAT && named, "draw %d: %s\n%s", draw, dt_error(ctx),
                          text);
        }
        int odd = 0;
        for (int64_t i = 0; s == DT_OK && i < t.rows; i++) {
            const float *x = (const float *)t.x->data + i * columns;
            for (int k = 0; k < columns; k++) {
                odd +=
                    fmodf(x[k] - 0.5F, 100) != (float)k || floorf(x[k] / 100) != floorf(x[0] / 100);
            }
        }
        /* one field may have another number, none may be in another column */
        ck_assert_msg(odd <= columns, "draw %d: %d numbers\n%s", draw, odd, text);
        dt__csv_table_free(&t);
        dt__csv_free(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- detent new ----------------------------------------------------------------------------- */

/* Tables of drawn columns with holes: their recipes can be trained, and predict reads them. */
START_TEST(new_tables_can_be_trained)
{
    char *output;
    srand(40U + (unsigned)_i);
    const int columns = 1 + below(6), rows = 40 + below(40);
    int kind[6];
    FILE *f = fopen(path_of("n.csv"), "w");
    for (int k = 0; k < columns; k++) {
        kind[k] = below(7);
        fprintf(f, "c%d;", k);
    }
    fputs("steady;y\n", f);
    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < columns; k++) {
            const bool hole = kind[k] != 0 && below(6) == 0;
            static const char *const words[] = { "red", "green", "blue, light", "q'x" };
            if (hole) fputs(below(2) ? "" : "NA", f);
            else if (kind[k] == 2) fputs(words[below(4)], f);
            else if (kind[k] == 3) fputs(below(2) ? "Yes" : "no", f);
            else if (kind[k] == 4) fprintf(f, "%02d.%02d.2023", 1 + below(28), 1 + below(12));
            else if (kind[k] == 5) fprintf(f, "text %d", i);
            else fprintf(f, "%d,%d", below(50), 1 + below(9));
            fputc(';', f);
        }
        fprintf(f, "%d,5;%s\n", below(90), below(2) ? "up" : "down");
    }
    fclose(f);
    const int status = test_shell(
        &output,
        "cd '%s' && rm -rf n.yaml runs && D='" DETENT_BINARY_DIR "/detent' && { COLUMNS=80 $D new "
        "n.yaml --data n.csv --target y --bits 8 && $D train n.yaml train.epochs=1 "
        "train.float_baseline=false && $D eval runs/n && $D predict runs/n/model.safetensors "
        "n.csv; } </dev/null 2>&1",
        folder);
    ck_assert_msg(status == 0, "draw %d: %d: %s", _i, status, output);
    free(output);
}
END_TEST

Suite *test_typed_tables_suite(void)
{
    Suite *s = suite_create("typed_tables");
    TCase *cases = tcase_create("typed_tables");
    tcase_set_timeout(cases, 300);
    tcase_add_loop_test(cases, forms_are_found, 0, 200);
    tcase_add_loop_test(cases, latin_1_is_what_windows_writes, 0, 20);
    tcase_add_test(cases, columns_are_fitted_to_training_rows);
    tcase_add_loop_test(cases, numbers_are_scaled, 0, 20);
    tcase_add_test(cases, rules_that_do_not_fit);
    tcase_add_test(cases, errors_are_shown_together);
    tcase_add_test(cases, every_allocation);
    tcase_add_test(cases, damaged_tables);
    tcase_add_loop_test(cases, new_tables_can_be_trained, 0, 12);
    suite_add_tcase(s, cases);
    return s;
}
