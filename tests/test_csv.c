/* Tables in CSV files, and decimal numbers. */
#include "data/tables/csv.h"
#include "data/tables/decimal.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers ------------------------------------------------------------------------------ */

/* The digits of a number must read as strtof reads them: random digits, and halves between floats
 * with something far behind them. */
START_TEST(numbers_are_rounded)
{
    const int64_t draws = test_count((test_draws){ .usual = 300000, .sanitized = 30000 });
    uint32_t word[4];
    for (int64_t i = 0; i < draws; i++) {
        char text[200];
        float bits;
        dt__decimal d;
        dt__philox(3, (uint64_t)i, word);
        memcpy(&bits, &word[0], sizeof bits);
        if (!isfinite(bits)) bits = 1;
        const float next = nextafterf(bits, INFINITY);
        const int form = (int)(i % 6);
        if (form == 0) snprintf(text, sizeof text, "%.9g", (double)bits);
        if (form == 1) snprintf(text, sizeof text, "%.17e", (double)bits * 1.00000001);
        if (form == 2) snprintf(text, sizeof text, "%u.%u", word[1] % 1000, word[2]);
        if (form == 3) snprintf(text, sizeof text, "-%u%ue-%u", word[1], word[2], word[3] % 60);
        if (form == 4) snprintf(text, sizeof text, "%.150g", ((double)bits + (double)next) / 2);
        if (form == 5)
            snprintf(text, sizeof text, "%u%09u%09u%sE%d", word[1], word[2] % 1000000000,
                     word[3] % 1000000000, word[0] & 1 ? "0000000001" : "",
                     (int)(word[2] % 100) - 70);
        const char *end = text + strlen(text);
        ck_assert_ptr_eq(dt__decimal_read(text, end, &d), end);
        const float wanted = strtof(text, NULL);
        TEST_EACH(memcmp(&d.value, &wanted, sizeof wanted) == 0 &&
                      d.too_large == (bool)isinf(wanted),
                  "%s: %.9g, not %.9g", text, (double)d.value, (double)wanted);
        const double exact = strtod(text, NULL);
        TEST_EACH(d.too_large || fabs(d.exact.value - exact) <= fabs(exact) * 0x1p-50 ||
                      (double)d.value == d.exact.value,
                  "%s: %.17g, not %.17g", text, d.exact.value, exact);
    }
}
END_TEST

START_TEST(forms_of_numbers)
{
    static const struct {
        const char *text;
        int length; /* of the number; -1: none */
        float value;
    } all[] = {
        { "1", 1, 1 },      { "+2.5,", 4, 2.5F }, { ".5", 2, 0.5F },       { "5.", 2, 5 },
        { "-0", 2, -0.0F }, { "1e3x", 3, 1000 },  { "1e", 1, 1 },          { "1e+", 1, 1 },
        { "007", 3, 7 },    { "1E-2", 4, 0.01F }, { "", -1, 0 },           { ".", -1, 0 },
        { "-", -1, 0 },     { "e5", -1, 0 },      { "nan", -1, 0 },        { "inf", -1, 0 },
        { "0x10", 1, 0 },   { "1,5", 1, 1 },      { "0e99999999", 10, 0 }, { "1e-99999999", 11, 0 },
    };
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        dt__decimal d;
        const char *end = all[i].text + strlen(all[i].text);
        const char *after = dt__decimal_read(all[i].text, end, &d);
        if (all[i].length < 0) ck_assert_ptr_null(after);
        else ck_assert_msg(after == all[i].text + all[i].length, "%s", all[i].text);
        ck_assert_msg(memcmp(&d.value, &all[i].value, sizeof d.value) == 0, "%s: %g", all[i].text,
                      (double)d.value);
    }
}
END_TEST

/* ---- tables ------------------------------------------------------------------------------- */

static char folder[TEST_PATH];

static const char *path_of(const char *name)
{
    static char path[TEST_PATH];
    if (folder[0] == 0) test_folder(folder);
    test_join(path, folder, name);
    return path;
}

static dt__csv reader(dt_ctx *ctx, const dt_csv_options *o, dt_target target)
{
    return (dt__csv){ .ctx = ctx, .options = o, .target = target };
}

/* Texts of key columns become codes, each word one in every file; they are inputs only where they
 * are named. */
START_TEST(keys_become_codes)
{
    static const dt_csv_options options[] = {
        { .header = true, .target = { 1, { "y" } } },
        { .header = true, .inputs = { 2, { "x", "when" } }, .target = { 1, { "y" } } },
    };
    dt_ctx *ctx = sample_context(1);
    for (int named = 0; named < 2; named++) {
        dt__csv c = reader(ctx, &options[named], DT_TARGET_VALUES);
        dt__csv_table first, second;
        ck_assert(dt__words_add(ctx, &c.keys, "who", 3) == 0);
        ck_assert(dt__words_add(ctx, &c.keys, "when", 4) == 1);
        test_write_text(path_of("k.csv"), "when,x,who,y\n3,1,ann,0\n5,2,\"b,o\",0\n3,4,,1\n");
        test_write_text(path_of("l.csv"), "y,who,x,when\n3,eve,1,5\n5,ann,2,7\n");
        TEST_OK(ctx, dt__csv_read(&c, path_of("k.csv"), &first));
        TEST_OK(ctx, dt__csv_read(&c, path_of("l.csv"), &second));
        ck_assert_int_eq(c.inputs.n, 1 + named);
        static const int32_t a[] = { 0, 0, 1, 1, 2, 0 }, b[] = { 3, 1, 0, 2 };
        ck_assert_mem_eq(first.key->data, a, sizeof a);
        ck_assert_mem_eq(second.key->data, b, sizeof b);
        ck_assert_str_eq(c.key_words[0].word[1], "b,o");
        ck_assert_str_eq(c.key_words[0].word[3], "eve");
        if (named) ck_assert(((float *)first.x->data)[3] == 5);
        dt__csv_table_free(&first);
        dt__csv_table_free(&second);
        dt__csv_free(&c);
    }
    dt__csv c = reader(ctx, &options[0], DT_TARGET_VALUES);
    dt__csv_table t;
    ck_assert(dt__words_add(ctx, &c.keys, "where", 5) == 0);
    TEST_FAILS(ctx, DT_ERR_CONFIG, "'where' is not a column",
               dt__csv_read(&c, path_of("k.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(a_table)
{
    static const dt_csv_options o = { .header = true,
                                      .inputs = { 2, { "c*", "a" } },
                                      .target = { 1, { "kind, of" } } };
    dt_ctx *ctx = sample_context(1);
    dt__csv c = reader(ctx, &o, DT_TARGET_CLASS);
    dt__csv_table t;
    test_write_text(path_of("a.csv"), "\xef\xbb\xbf"
                                      "a, b ,\"kind, of\",c1,c2\r\n"
                                      "1,x,\"a \"\"dog\"\"\",2,3\r\n"
                                      "\r\n"
                                      " 4 ,\"two\nlines, and\", cat ,\"5\",-6e-1\n"
                                      "7,,cat,8,9");
    TEST_OK(ctx, dt__csv_read(&c, path_of("a.csv"), &t));
    ck_assert_int_eq(t.rows, 3);
    ck_assert_int_eq(c.inputs.n, 3);
    ck_assert_str_eq(c.inputs.word[0], "c1");
    ck_assert_str_eq(c.inputs.word[2], "a");
    static const float x[9] = { 2, 3, 1, 5, -0.6F, 4, 8, 9, 7 };
    ck_assert_int_eq(memcmp(t.x->data, x, sizeof x), 0);
    TEST_OK(ctx, dt__csv_close(&c, &t, 1));
    ck_assert(!c.labels.is_numbers && c.labels.words.n == 2);
    ck_assert_str_eq(c.labels.words.word[0], "a \"dog\"");
    ck_assert_str_eq(c.labels.words.word[1], "cat");
    static const int32_t y[3] = { 0, 1, 1 };
    ck_assert_int_eq(memcmp(t.y->data, y, sizeof y), 0);
    dt__csv_table_free(&t);
    /* another file: columns in another order, and a class that the first lacks */
    test_write_text(path_of("b.csv"), "\"kind, of\",a,c2,c1\ncat,1,2,3\n");
    TEST_OK(ctx, dt__csv_read(&c, path_of("b.csv"), &t));
    static const float other[3] = { 3, 2, 1 };
    ck_assert_int_eq(memcmp(t.x->data, other, sizeof other), 0);
    ck_assert_int_eq(*(int32_t *)t.y->data, 1);
    dt__csv_table_free(&t);
    test_write_text(path_of("b.csv"), "\"kind, of\",a,c2,c1\nowl,1,2,3\n");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "line 2, column 1 ('kind, of'): 'owl' is not a class of the",
               dt__csv_read(&c, path_of("b.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* Names end up in files that are UTF-8. */
START_TEST(names_are_utf8)
{
    static const dt_csv_options o = { .header = true,
                                      .inputs = { 1, { "a" } },
                                      .target = { 1, { "kind" } } };
    static const struct {
        const char *text, *words;
    } all[] = {
        { "a,kind\n1,\xc3\xa4\n", NULL },
        { "a,kind\n1,x\n2,\xff\n", "line 3, column 2 ('kind')" },
        { "a,kind,\xe4\n1,x,2\n", "line 1, column 3" },
    };
    dt_ctx *ctx = sample_context(1);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        dt__csv c = reader(ctx, &o, DT_TARGET_CLASS);
        dt__csv_table t;
        test_write_text(path_of("u.csv"), all[i].text);
        const dt_status status = dt__csv_read(&c, path_of("u.csv"), &t);
        ck_assert_int_eq(status, all[i].words == NULL ? DT_OK : DT_ERR_FORMAT);
        if (all[i].words != NULL) ck_assert_ptr_nonnull(strstr(dt_error(ctx), all[i].words));
        dt__csv_table_free(&t);
        dt__csv_free(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Blanks around a number do not count, in quotes as little as without. */
START_TEST(blanks_around_numbers)
{
    static const dt_csv_options o = { .header = true,
                                      .inputs = { 2, { "a", "b" } },
                                      .target = { 1, { "y" } } };
    static const char *const blanks[] = { "", " ", "\t", " \t  " };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < 2 * 4 * 4; i++) {
        char text[80];
        const char *quote = i % 2 ? "\"" : "", *before = blanks[i / 2 % 4], *after = blanks[i / 8];
        snprintf(text, sizeof text, "a,b,y\n%s%s-2.5%s%s,4,%s%s7%s%s\n", quote, before, after,
                 quote, quote, before, after, quote);
        test_write_text(path_of("b.csv"), text);
        dt__csv c = reader(ctx, &o, DT_TARGET_VALUES);
        dt__csv_table t;
        const dt_status status = dt__csv_read(&c, path_of("b.csv"), &t);
        TEST_EACH(status == DT_OK, "%s%s", text, dt_error(ctx));
        const float *x = t.x->data, *y = t.y->data;
        TEST_EACH(t.rows == 1 && x[0] == -2.5f && x[1] == 4 && y[0] == 7, "%s", text);
        dt__csv_table_free(&t);
        dt__csv_free(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Several readers of one file give what each gives alone; those that share inputs or targets share
 * memory. A column may be an input for one, a class for another and a number for a third. */
START_TEST(several_readings)
{
    enum { READINGS = 5 };
    static const dt_csv_options o[READINGS] = {
        { .header = true, .inputs = { 2, { "a", "c" } }, .target = { 1, { "kind" } } },
        { .header = true, .inputs = { 1, { "b" } }, .target = { 1, { "kind" } } },
        { .header = true, .inputs = { 2, { "a", "c" } }, .target = { 2, { "b", "d" } } },
        { .header = true, .inputs = { 2, { "c", "a" } }, .target = { 1, { "kind" } } },
        { .header = true, .inputs = { 1, { "*" } }, .target = { 1, { "kind" } } },
    };
    static const dt_target target[READINGS] = { DT_TARGET_CLASS, DT_TARGET_CLASS, DT_TARGET_VALUES,
                                                DT_TARGET_VALUES, DT_TARGET_VALUES };
    dt_ctx *ctx = sample_context(1);
    dt__csv all[READINGS], *each[READINGS];
    dt__csv_table got[READINGS];
    test_write_text(path_of("s.csv"), "a,b,\"k\"\"\",kind,c,d\n1,2,x,\"7\",3,1\n4,5,\"y\"\"z\","
                                      "8,6,0\n7,8,,7,9,1\n");
    for (int i = 0; i < READINGS; i++) {
        all[i] = reader(ctx, &o[i], target[i]);
        each[i] = &all[i];
    }
    all[1].y_of = &all[0];
    all[2].x_of = &all[0];
    dt_status status = dt__csv_read_all(each, READINGS, path_of("s.csv"), got);
    ck_assert_int_eq(status, DT_ERR_FORMAT); /* '*' has words */
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "line 2, column 3 ('k\"'): 'x' is not a number"));
    for (int i = 0; i < READINGS; i++) dt__csv_table_free(&got[i]);
    TEST_OK(ctx, dt__csv_read_all(each, READINGS - 1, path_of("s.csv"), got));
    ck_assert(got[1].y == got[0].y && got[2].x == got[0].x);
    for (int i = 0; i < READINGS - 1; i++) {
        dt__csv one = reader(ctx, &o[i], target[i]);
        dt__csv_table alone;
        TEST_OK(ctx, dt__csv_read(&one, path_of("s.csv"), &alone));
        ck_assert(alone.rows == 3 && got[i].rows == 3);
        const size_t x = 3 * (size_t)one.inputs.n * sizeof(float);
        const size_t y = 3 * (size_t)one.targets.n * sizeof(float);
        ck_assert_int_eq(memcmp(alone.x->data, got[i].x->data, x), 0);
        ck_assert_int_eq(memcmp(alone.y->data, got[i].y->data, y), 0);
        dt__csv_table_free(&alone);
        dt__csv_free(&one);
    }
    for (int i = 0; i < READINGS - 1; i++) dt__csv_table_free(&got[i]);
    for (int i = 0; i < READINGS; i++) dt__csv_free(&all[i]);
    dt_ctx_free(ctx);
}
END_TEST

/* Integers with gaps are names of classes, in numerical order; for a model with more classes they
 * are class numbers. */
START_TEST(integers)
{
    static const dt_csv_options o = { .header = false,
                                      .inputs = { 0, { NULL } },
                                      .target = { 1, { "1" } } };
    static const int32_t y[2][3] = { { 1, 0, 1 }, { 10, 2, 10 } };
    dt_ctx *ctx = sample_context(1);
    dt__csv c = reader(ctx, &o, DT_TARGET_CLASS);
    dt__csv_table t;
    c.labels.known.n = _i ? 11 : 0;
    test_write_text(path_of("i.csv"), "0.5,10,1\n0.25,2,1\n1,10,1\n");
    for (int again = 0; again < 2; again++) {
        TEST_OK(ctx, dt__csv_read(&c, path_of("i.csv"), &t));
        TEST_OK(ctx, dt__csv_close(&c, &t, 1));
        ck_assert_int_eq(memcmp(t.y->data, y[_i], sizeof y[_i]), 0);
        dt__csv_table_free(&t);
    }
    ck_assert_int_eq(c.labels.is_numbers, _i);
    ck_assert_int_eq(c.labels.classes, _i ? 11 : 2);
    if (_i == 0) ck_assert_str_eq(dt__labels_names(&c.labels)[0], "2");
    ck_assert_int_eq(c.inputs.n, 2);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

/* Many rows, written and read back; lines end as the loop says. */
START_TEST(many_rows)
{
    enum { ROWS = 5000, COLUMNS = 7 };
    static const dt_csv_options o = { .header = true,
                                      .inputs = { 0, { NULL } },
                                      .target = { 2, { "c5", "c6" } } };
    dt_ctx *ctx = sample_context(1);
    FILE *f = fopen(path_of("m.csv"), "w");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(f, "c%d%s", c, c + 1 < COLUMNS ? "," : _i ? "\r\n" : "\n");
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        fprintf(f, "%.9g%s", (double)i / 3, (i + 1) % COLUMNS != 0 ? "," : _i ? "\r\n" : "\n");
    }
    fclose(f);
    dt__csv c = reader(ctx, &o, DT_TARGET_VALUES);
    dt__csv_table t;
    TEST_OK(ctx, dt__csv_read(&c, path_of("m.csv"), &t));
    ck_assert(t.rows == ROWS && c.inputs.n == 5 && c.targets.n == 2);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const int row = i / COLUMNS, column = i % COLUMNS;
        const float got = column < 5 ? ((float *)t.x->data)[5 * row + column]
                                     : ((float *)t.y->data)[2 * row + column - 5];
        TEST_EACH(got == (float)((double)i / 3), "number %d: %g", i, (double)got);
    }
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text;
        dt_status status;
        const char *message;
    } cases[] = {
        { "a,b,y\n1,,0\n", DT_ERR_FORMAT,
          "line 2, column 2 ('b'): '' is empty; expected a number" },
        { "a,b,y\n1,2,\n", DT_ERR_FORMAT, "line 2, column 3 ('y'): '' is empty" },
        { "a,b,y\n1,2,1\n1,x2,1\n", DT_ERR_FORMAT, "line 3, column 2 ('b'): 'x2' is not a number" },
        { "a,b,y\n1,2 3,1\n", DT_ERR_FORMAT, "'2 3' is not a number" },
        { "a,b,y\n1,nan,1\n", DT_ERR_FORMAT, "'nan' is not a number" },
        { "a,b,y\n1,1e39,1\n", DT_ERR_FORMAT, "'1e39' is beyond the range" },
        { "a,b,y\n1,2\n", DT_ERR_FORMAT, "line 2 has 2 fields; expected 3" },
        { "a,b,y\n1,2,1,4\n", DT_ERR_FORMAT, "line 2 has more than 3 fields" },
        { "a,b,y\n1,\"2,1\n3,4,5", DT_ERR_FORMAT,
          "line 2, column 2 ('b'): '2,1?3,4,5' begins with" },
        { "a,b,y\n1,\"2\"3,1\n", DT_ERR_FORMAT, "text behind its quote" },
        { "a,b,y\n1,2,0.5\n", DT_ERR_FORMAT, "'0.5' is neither 0 nor 1" },
        { "a,b,b,y\n1,2,3,1\n", DT_ERR_FORMAT, "columns 2 and 3 have the same name, 'b'" },
        { "a,c,y\n1,2,1\n", DT_ERR_CONFIG, "data.columns.inputs: 'b' is not a column of" },
        { "a,b\n1,2\n", DT_ERR_CONFIG, "data.columns.target: 'y' is not a column of" },
        { "a,b,y\n", DT_ERR_FORMAT, "no rows" },
        { "\n\r\n", DT_ERR_FORMAT, "an empty file; expected" },
        { "", DT_ERR_FORMAT, "an empty file; expected" },
    };
    static const dt_csv_options o = { .header = true,
                                      .inputs = { 2, { "a", "b" } },
                                      .target = { 1, { "y" } } };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt__csv c = reader(ctx, &o, DT_TARGET_BITS);
        dt__csv_table t;
        test_write_text(path_of("r.csv"), cases[i].text);
        TEST_FAILS(ctx, cases[i].status, cases[i].message, dt__csv_read(&c, path_of("r.csv"), &t));
        dt__csv_table_free(&t);
        dt__csv_free(&c);
    }
    static const dt_csv_options both = { .header = true,
                                         .inputs = { 1, { "y" } },
                                         .target = { 1, { "y" } } };
    dt__csv c = reader(ctx, &both, DT_TARGET_BITS);
    dt__csv_table t;
    test_write_text(path_of("r.csv"), "y\n1\n");
    TEST_FAILS(ctx, DT_ERR_CONFIG, "'y' is the target", dt__csv_read(&c, path_of("r.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    test_write_file(path_of("r.csv"), "y\n1\0\n", 5);
    c = reader(ctx, &both, DT_TARGET_BITS);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "NUL", dt__csv_read(&c, path_of("r.csv"), &t));
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

static const char sample_text[] =
    "a,b,y,\"z\"\"\n\"\r\n1,2.5e1,dog,\"x\"\r\n3,-4,cat,\n\"5\",6,\"dog\",9";

static dt_status read_sample(dt_ctx *ctx, void *user)
{
    static const dt_csv_options o = { .header = true,
                                      .inputs = { 2, { "a", "b" } },
                                      .target = { 1, { "y" } } };
    dt__csv c = reader(ctx, &o, DT_TARGET_CLASS);
    dt__csv_table t;
    dt_status status = dt__csv_read(&c, user, &t);
    if (status == DT_OK) status = dt__csv_close(&c, &t, 1);
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    return status;
}

/* Truncated and mutated tables are read or refused, but nothing else. */
START_TEST(damaged)
{
    dt_ctx *ctx = sample_context(1);
    const int64_t draws = test_count((test_draws){ .usual = 4000, .sanitized = 2000 });
    const size_t n = sizeof sample_text - 1;
    uint32_t word[4];
    int64_t read = 0;
    for (int64_t i = 0; i < (int64_t)n + draws; i++) {
        static const char values[] = ",\n\r\"\"x0-.e\t ";
        char text[sizeof sample_text];
        memcpy(text, sample_text, sizeof text);
        dt__philox(4, (uint64_t)i, word);
        for (uint32_t k = 0; i >= (int64_t)n && k <= word[3] % 3; k++) {
            text[word[k] % n] = values[(word[k] >> 20) % (sizeof values - 1)];
        }
        test_write_file(path_of("d.csv"), text, i < (int64_t)n ? (size_t)i : n);
        char path[TEST_PATH];
        memcpy(path, path_of("d.csv"), sizeof path);
        const dt_status status = read_sample(ctx, path);
        TEST_EACH(status == DT_OK || status == DT_ERR_FORMAT || status == DT_ERR_CONFIG, "%s",
                  dt_error(ctx));
        read += status == DT_OK;
    }
    ck_assert_int_gt(read, 0);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(every_allocation)
{
    test_write_text(path_of("e.csv"), sample_text);
    char path[TEST_PATH];
    memcpy(path, path_of("e.csv"), sizeof path);
    ck_assert_int_gt(test_every_allocation(read_sample, path), 10);
}
END_TEST

Suite *test_csv_suite(void)
{
    Suite *suite = suite_create("csv");
    TCase *cases = tcase_create("csv");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, numbers_are_rounded);
    tcase_add_test(cases, forms_of_numbers);
    tcase_add_test(cases, a_table);
    tcase_add_test(cases, keys_become_codes);
    tcase_add_test(cases, names_are_utf8);
    tcase_add_test(cases, blanks_around_numbers);
    tcase_add_test(cases, several_readings);
    tcase_add_loop_test(cases, integers, 0, 2);
    tcase_add_loop_test(cases, many_rows, 0, 2);
    tcase_add_test(cases, refused);
    tcase_add_test(cases, damaged);
    tcase_add_test(cases, every_allocation);
    suite_add_tcase(suite, cases);
    return suite;
}
