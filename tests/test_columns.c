/* Typed columns of tables: the numbers that fields become, against formulas in long double and the
 * C library's calendar; fields from texts; the text of a model file. */
#include "drawn_columns.h"

#include "data/arrays.h"

#include <detent/experimental/io.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static dt_ctx *ctx;

static void open_context(void) { TEST_OK(NULL, dt_ctx_create(&ctx, NULL)); }
static void close_context(void) { dt_ctx_free(ctx); }

/* A growing text. */
typedef struct text {
    char *bytes;
    size_t n;
} text;

static dt_status collect(void *user, const char *bytes, size_t n)
{
    text *t = user;
    t->bytes = realloc(t->bytes, t->n + n + 1);
    memcpy(t->bytes + t->n, bytes, n);
    t->bytes[t->n += n] = 0;
    return DT_OK;
}

/* ---- formulas -------------------------------------------------------------------------------- */

static long double scaled(const dt_column *c, long double v)
{
    const int n = (int)c->n_quantiles;
    if (c->scale == DT_SCALE_LOG) return copysignl(log1pl(fabsl(v)), v);
    if (c->scale == DT_SCALE_ROBUST) return (v - c->offset) / c->factor;
    if (c->scale == DT_SCALE_NONE) return v;
    if (v < c->quantiles[0]) return -1;
    if (v >= c->quantiles[n - 1]) return 1;
    int i = n - 1;
    while (c->quantiles[i] > v) i--;
    const long double low = c->quantiles[i], high = c->quantiles[i + 1];
    return -1 + 2 * (i + (v - low) / (high - low)) / (n - 1);
}

static int time_parts(const dt_column *c, double v, long double *y)
{
    const long double pi = acosl(-1), day = floorl(v / 86400.0L), second = v - day * 86400;
    const time_t whole = (time_t)floor(v);
    struct tm tm, next;
    gmtime_r(&whole, &tm);
    const time_t passed = 3600 * tm.tm_hour + 60 * tm.tm_min + tm.tm_sec;
    const time_t begin = whole - passed - 86400 * (time_t)tm.tm_yday;
    const time_t last = begin + 365 * (time_t)86400;
    gmtime_r(&last, &next);
    const time_t end = last + (next.tm_year == tm.tm_year ? 86400 : 0);
    const int weekday = (tm.tm_wday + 6) % 7;
    const long double alone[] = {
        v - (long double)c->offset, second / 3600, weekday, tm.tm_yday, tm.tm_mon + 1,
        tm.tm_year + 1900
    };
    const long double turn[] = { second / 86400, (weekday * 86400.0L + second) / 604800,
                                 (v - (long double)begin) / (long double)(end - begin) };
    int n = 0;
    for (int i = 0; i < 9; i++) {
        if ((c->parts >> i & 1) == 0) continue;
        if (i < 6) {
            y[n++] = alone[i];
            continue;
        }
        y[n++] = sinl(2 * pi * turn[i - 6]);
        y[n++] = cosl(2 * pi * turn[i - 6]);
    }
    return n;
}

/* The numbers that a field becomes; returns how many. */
static int expected(const dt_column *c, double field, long double *y)
{
    const bool missing = isnan(field);
    int n = 0;
    if (c->type == DT_COLUMN_IGNORE) return 0;
    double v = missing ? c->fill : field;
    if (missing && c->missing == DT_MISSING_CODE) v = (double)c->n_categories + 1;
    if (c->type == DT_COLUMN_TIME) n = time_parts(c, v, y);
    else if (c->type == DT_COLUMN_NUMBER) y[n++] = scaled(c, v);
    else if (c->type == DT_COLUMN_BOOLEAN || c->embedded) y[n++] = v;
    else
        for (int k = 1; k <= c->n_categories + (c->missing == DT_MISSING_CODE); k++)
            y[n++] = k == v;
    if (c->indicator) y[n++] = missing;
    return n;
}

/* Compares within one rounding to f32, plus the error of double. */
static bool is_near(float x, long double y, const dt_column *c)
{
    const bool time = c->type == DT_COLUMN_TIME;
    const long double slack = time ? 1e-6L : fabsl(y) * 2e-15L + 1e-15L;
    return fabsl(x - y) <= fabsl(y) * 0x1.0001p-24L + slack + 0x1p-149L;
}

START_TEST(numbers_are_the_formulas)
{
    drawn_columns d;
    draw_columns(&d, (uint64_t)_i);
    const int64_t width = dt_columns_width(&d.all);
    float *x = malloc((size_t)width * sizeof *x + 1);
    for (int row = 0; row < 40; row++) {
        dt_field field[DRAWN_COLUMNS];
        for (int i = 0; i < d.all.n; i++) field[i].number = draw_field(&d, &d.column[i]);
        TEST_OK(ctx, dt_columns_encode(ctx, &d.all, field, x));
        const float *at = x;
        for (int i = 0; i < d.all.n; i++) {
            long double y[24];
            const int n = expected(&d.column[i], field[i].number, y);
            ck_assert_int_eq(n, dt_column_width(&d.column[i]));
            for (int k = 0; k < n; k++) {
                TEST_EACH(is_near(at[k], y[k], &d.column[i]),
                          "column %d, type %d, scale %d, parts %x, %.17g, number %d: %.9g, %.21Lg",
                          i, d.column[i].type, d.column[i].scale, d.column[i].parts,
                          field[i].number, k, (double)at[k], y[k]);
            }
            at += n;
        }
        ck_assert_int_eq(at - x, width);
    }
    free(x);
}
END_TEST

/* ---- the text -------------------------------------------------------------------------------- */

START_TEST(text_keeps_the_bits)
{
    drawn_columns d;
    dt_columns again;
    text t = { 0 }, u = { 0 };
    draw_columns(&d, (uint64_t)_i);
    TEST_OK(ctx, dt_columns_text(ctx, &d.all, collect, &t));
    TEST_OK(ctx, dt_columns_parse(ctx, t.bytes, "text", &again));
    TEST_OK(ctx, dt_columns_text(ctx, &again, collect, &u));
    ck_assert_str_eq(t.bytes, u.bytes);
    const int64_t width = dt_columns_width(&d.all);
    ck_assert_int_eq(width, dt_columns_width(&again));
    float *x = malloc((size_t)width * sizeof *x + 1), *y = malloc((size_t)width * sizeof *x + 1);
    for (int row = 0; row < 20; row++) {
        dt_field field[DRAWN_COLUMNS];
        for (int i = 0; i < d.all.n; i++) field[i].number = draw_field(&d, &d.column[i]);
        TEST_OK(ctx, dt_columns_encode(ctx, &d.all, field, x));
        TEST_OK(ctx, dt_columns_encode(ctx, &again, field, y));
        ck_assert_mem_eq(x, y, (size_t)width * sizeof *x);
    }
    dt_columns_free(ctx, &again);
    free(x);
    free(y);
    free(t.bytes);
    free(u.bytes);
}
END_TEST

START_TEST(bad_texts_are_refused)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "'[' is expected" },
        { "[", "expected" },
        { "[{}]", "must have a name" },
        { "[{\"name\": \"\", \"type\": \"number\"}]", "must have a name" },
        { "[{\"name\": \"a\", \"type\": \"reel\"}]", "type" },
        { "[{\"name\": \"a\", \"typ\": \"number\"}]", "unknown key 'typ'" },
        { "[{\"name\": \"a\", \"type\": \"number\", \"scale\": \"robust\"}]", "above 0" },
        { "[{\"name\": \"a\", \"scale\": \"robust\", \"factor\": 1e999}]", "range of double" },
        { "[{\"name\": \"a\", \"scale\": \"quantile\", \"quantiles\": [1]}]", "2 quantiles" },
        { "[{\"name\": \"a\", \"scale\": \"quantile\", \"quantiles\": [2, 1]}]", "in order" },
        { "[{\"name\": \"a\", \"type\": \"category\"}]", "categories" },
        { "[{\"name\": \"a\", \"type\": \"category\", \"categories\": [1]}]", "expected" },
        { "[{\"name\": \"a\", \"type\": \"category\", \"categories\": [\"b\"], \"missing\": "
          "\"mean\"}]",
          "mean" },
        { "[{\"name\": \"a\", \"type\": \"category\", \"categories\": [\"b\"], \"missing\": "
          "\"constant\", \"fill\": 2}]",
          "fill" },
        { "[{\"name\": \"a\", \"type\": \"boolean\", \"missing\": \"code\"}]", "of categories" },
        { "[{\"name\": \"a\", \"type\": \"boolean\", \"scale\": \"log\"}]", "of numbers" },
        { "[{\"name\": \"a\", \"type\": \"boolean\", \"missing\": \"mean\", \"fill\": 2}]",
          "fill" },
        { "[{\"name\": \"a\", \"embedded\": true}]", "of categories" },
        { "[{\"name\": \"a\", \"type\": \"time\"}]", "parts" },
        { "[{\"name\": \"a\", \"type\": \"time\", \"parts\": [\"week\"]}]", "part of a time" },
        { "[{\"name\": \"a\", \"type\": \"time\", \"parts\": [\"year\"], \"format\": \"%Q\"}]",
          "directive" },
        { "[{\"name\": \"a\", \"type\": \"time\", \"parts\": [\"year\"], \"format\": \"%\"}]",
          "directive" },
        { "[{\"name\": \"a\", \"type\": \"time\", \"parts\": [\"year\"], \"missing\": \"mean\", "
          "\"fill\": 1e12}]",
          "fill" },
        { "[{\"name\": \"a\"}] 1", "" },
    };
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        dt_columns c;
        const dt_status s = dt_columns_parse(ctx, bad[i].text, "text", &c);
        ck_assert_msg(s == DT_ERR_FORMAT, "%s: %s", bad[i].text, dt_status_name(s));
        ck_assert_msg(strstr(dt_error(ctx), bad[i].says) != NULL, "%s: %s", bad[i].text,
                      dt_error(ctx));
        ck_assert(c.n == 0 && c.memory == NULL);
    }
}
END_TEST

/* A truncated text is refused, and a changed byte does no harm. */
START_TEST(damaged_texts_do_no_harm)
{
    drawn_columns d;
    text t = { 0 };
    draw_columns(&d, (uint64_t)_i);
    TEST_OK(ctx, dt_columns_text(ctx, &d.all, collect, &t));
    for (size_t i = 0; i < t.n; i++) {
        const char was = t.bytes[i];
        dt_columns c;
        t.bytes[i] = 0;
        ck_assert_int_eq(dt_columns_parse(ctx, t.bytes, "text", &c), DT_ERR_FORMAT);
        t.bytes[i] = (char)drawn_bits(&d);
        if (dt_columns_parse(ctx, t.bytes, "text", &c) == DT_OK) {
            const dt_field field[DRAWN_COLUMNS] = { { 1 } };
            const int64_t width = dt_columns_width(&c);
            float *x = malloc((size_t)width * sizeof *x + 1);
            (void)dt_columns_encode(ctx, &c, field, x);
            free(x);
            dt_columns_free(ctx, &c);
        }
        t.bytes[i] = was;
    }
    free(t.bytes);
}
END_TEST

/* detent.data of a dataset of rows has their columns. */
START_TEST(model_files_have_the_columns)
{
    drawn_columns d;
    text t = { 0 }, u = { 0 }, v = { 0 };
    dt_dataset *rows;
    dt_model_data data;
    draw_columns(&d, (uint64_t)_i);
    const int64_t width = dt_columns_width(&d.all);
    const dt_arrays arrays = { .count = 1,
                               .rank = 1,
                               .dims = { width },
                               .x_dtype = DT_ARRAY_F32,
                               .x = calloc((size_t)width, sizeof(float)),
                               .target = DT_TARGET_CLASS,
                               .y_dtype = DT_ARRAY_U8,
                               .y = "",
                               .outputs = 2 };
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &rows));
    ck_assert_ptr_null(dt__array_fields(rows));
    TEST_OK(ctx, dt__array_store_fields(rows->arrays, &d.all));
    TEST_OK(ctx, dt_model_data_text(rows, collect, &t));
    TEST_OK(ctx, dt_model_data_parse(ctx, t.bytes, "model", &data));
    ck_assert_ptr_nonnull(data.table);
    TEST_OK(ctx, dt_columns_text(ctx, &d.all, collect, &u));
    TEST_OK(ctx, dt_columns_text(ctx, data.table, collect, &v));
    ck_assert_str_eq(u.bytes, v.bytes);
    dt_model_data_free(ctx, &data);
    d.column[0].type = 99;
    ck_assert_int_eq(dt__array_store_fields(rows->arrays, &d.all), DT_ERR_ARG);
    dt_dataset_free(rows);
    free((void *)(uintptr_t)arrays.x);
    free(t.bytes);
    free(u.bytes);
    free(v.bytes);
}
END_TEST

/* Each word of a description says what the column does. */
START_TEST(columns_are_described)
{
    static const char *const words[] = { "x", "y" };
    static const struct {
        dt_column column;
        const char *says[3];
    } cases[] = {
        { { .name = "a", .scale = DT_SCALE_ROBUST, .offset = 38, .factor = 20.5 },
          { "number", "(v - 38) / 20.5", "refused" } },
        { { .name = "a",
            .type = DT_COLUMN_CATEGORY,
            .n_categories = 2,
            .category = words,
            .missing = DT_MISSING_FREQUENT,
            .fill = 2,
            .indicator = true },
          { "category", "one-hot of 2 categories", "frequent y, and an indicator" } },
        { { .name = "a",
            .type = DT_COLUMN_TIME,
            .parts = DT_TIME_HOUR | DT_TIME_OF_WEEK,
            .missing = DT_MISSING_CONSTANT,
            .fill = 7 },
          { "time", "hour, of_week", "constant 7" } },
        { { .name = "a", .type = DT_COLUMN_IGNORE }, { "ignore", "", "" } },
    };
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        for (int about = 0; about < 3; about++) {
            char got[DT_COLUMN_TEXT];
            ck_assert_str_eq(dt_column_describe(&cases[i].column, (dt_column_about)about, got),
                             cases[i].says[about]);
        }
    }
}
END_TEST

static dt_status copy_of(dt_ctx *own, void *user)
{
    text t = { 0 };
    dt_columns c;
    const drawn_columns *d = user;
    dt_status s = dt_columns_text(own, &d->all, collect, &t);
    if (s == DT_OK) s = dt_columns_parse(own, t.bytes, "text", &c);
    if (s == DT_OK) dt_columns_free(own, &c);
    free(t.bytes);
    return s;
}

START_TEST(allocations_fail)
{
    drawn_columns d;
    draw_columns(&d, 7);
    test_every_allocation(copy_of, &d);
}
END_TEST

/* ---- fields ---------------------------------------------------------------------------------- */

static double parsed(const dt_column *c, const char *from)
{
    dt_field f;
    ck_assert_msg(dt_column_parse(ctx, c, from, strlen(from), &f) == DT_OK, "%s", dt_error(ctx));
    return f.number;
}

static void refused(const dt_column *c, const char *from, const char *says)
{
    dt_field f;
    const dt_status s = dt_column_parse(ctx, c, from, strlen(from), &f);
    ck_assert_msg(s == DT_ERR_FORMAT, "'%s': %s %.17g", from, dt_status_name(s), f.number);
    ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "'%s': %s", from, dt_error(ctx));
}

START_TEST(numbers_are_rounded_to_nearest)
{
    static const dt_column number = { .name = "a" };
    static const char *const known[] = {
        "0",
        "-0",
        "1e-400",
        "4.9e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "9007199254740993",
        "9007199254740992.99999999999999999999999",
        "1e22",
        "1e23",
        "1e-22",
        ".5",
        "5.",
        "+7",
        "123456789012345678901234567890",
        "0.000000000000000000000001e24",
    };
    drawn_columns d = { .state = (uint64_t)_i };
    char digits[1200];
    for (int i = 0; i < DT__COUNT_OF(known); i++) {
        const double got = parsed(&number, known[i]), want = strtod(known[i], NULL);
        ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "%s: %.17g", known[i], got);
    }
    for (int i = 0; i < 300; i++) {
        const uint64_t bits = drawn_bits(&d);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        snprintf(digits, sizeof digits, "%.*e", drawn_below(&d, 3) == 0 ? 900 : 16, v);
        ck_assert(parsed(&number, digits) == strtod(digits, NULL));
        /* halfway to the next, and just beyond */
        snprintf(digits, sizeof digits, "%.900Le", ((long double)v + nextafter(v, 2 * v)) / 2);
        ck_assert(parsed(&number, digits) == strtod(digits, NULL));
    }
    refused(&number, "1e309", "range of f64");
    refused(&number, "1,5", "not a number");
    refused(&number, "0x10", "not a number");
    refused(&number, "nano", "not a number");
    refused(&number, "1 ", "not a number");
    static const char *const missing[] = { "", "NA", "nan", "Null", "?", "-999" };
    static const char *const words[] = { "-999" };
    const dt_column holes = { .name = "a", .n_words = 1, .word = words };
    for (int i = 0; i < DT__COUNT_OF(missing); i++) ck_assert(isnan(parsed(&holes, missing[i])));
}
END_TEST

START_TEST(words_are_found)
{
    static const dt_column boolean = { .name = "a", .type = DT_COLUMN_BOOLEAN };
    static const char *const words[] = { "b", "ab", "abc", "7" };
    const dt_column category = {
        .name = "a", .type = DT_COLUMN_CATEGORY, .n_categories = 4, .category = words
    };
    static const char *const two[][2] = { { "False", "TRUE" }, { "no", "Yes" }, { "OFF", "on" },
                                          { "f", "T" },        { "N", "y" },    { "0", "1" } };
    for (int i = 0; i < DT__COUNT_OF(two); i++) {
        ck_assert(parsed(&boolean, two[i][0]) == 0 && parsed(&boolean, two[i][1]) == 1);
    }
    refused(&boolean, "2", "not a boolean");
    refused(&boolean, "tru", "not a boolean");
    refused(&boolean, "truee", "not a boolean");
    for (int i = 0; i < 4; i++) ck_assert(parsed(&category, words[i]) == i + 1);
    ck_assert(parsed(&category, "a") == 0 && parsed(&category, "abcd") == 0);
    ck_assert(isnan(parsed(&category, "")));
}
END_TEST

/* Times that the C library prints, in many forms. */
START_TEST(times_are_those_printed)
{
    static const struct {
        const char *print, *format;
        int64_t step; /* seconds that the form tells apart */
    } forms[] = {
        { "%Y-%m-%dT%H:%M:%S", NULL, 1 },
        { "%Y-%m-%d %H:%M:%SZ", NULL, 1 },
        { "%Y%m%dT%H%M%S", NULL, 1 },
        { "%Y-%m-%dT%H:%M", NULL, 60 },
        { "%Y-%m-%dt%H", NULL, 3600 },
        { "%Y-%m-%d", NULL, 86400 },
        { "%Y%m%d", NULL, 86400 },
        { "%Y-%j", NULL, 86400 },
        { "%Y%j", NULL, 86400 },
        { "%G-W%V-%u", NULL, 86400 },
        { "%GW%V%u", NULL, 86400 },
        { "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", 1 },
        { "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p", 1 },
        { "%A, %d %B %Y, %T", "%A, %d %B %Y, %T", 1 },
        { "%a %b %e %H:%M:%S %Y", "%a %b %e %T %Y", 1 },
        { "%Y %j", "%Y %j", 86400 },
        { "%s", "%s", 1 },
    };
    drawn_columns d = { .state = (uint64_t)_i + 99 };
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < DT__COUNT_OF(forms); k++) {
            /* years 1000 to 9998: %Y of the C library has no leading zeros */
            const int64_t least = -30610224000, at = least + (int64_t)(drawn_bits(&d) >> 1) %
                                                                 (INT64_C(253370764800) - least);
            const int64_t step = forms[k].step;
            const int64_t v = at - ((at % step) + step) % step;
            const dt_column time = { .name = "a",
                                     .type = DT_COLUMN_TIME,
                                     .format = forms[k].format };
            const time_t t = (time_t)v;
            char printed[80];
            struct tm tm;
            gmtime_r(&t, &tm);
            strftime(printed, sizeof printed, forms[k].print, &tm);
            TEST_EACH(parsed(&time, printed) == (double)v, "%s: %lld, %.17g", printed, (long long)v,
                      parsed(&time, printed));
        }
    }
}
END_TEST

START_TEST(times_by_hand)
{
    static const struct {
        const char *format, *text;
        double seconds;
    } good[] = {
        { NULL, "1970-01-01", 0 },
        { NULL, "0001-01-01", -62135596800.0 },
        { NULL, "9999-12-31T23:59:59.5", 253402300799.5 },
        { NULL, "2000-02-29", 951782400 },
        { NULL, "2024-12-31T24:00", 1735689600 },
        { NULL, "2024-05", 1714521600 },
        { NULL, "2020-W53-7", 1609632000 },
        { NULL, "2024-05-31T13:45:00+02:00", 1717155900 },
        { NULL, "2024-05-31T13:45:00-0330", 1717175700 },
        { NULL, "2024-05-31T13:45:00 +02", 1717155900 },
        { NULL, "2024-05-31 13:45:00.125Z", 1717163100.125 },
        { NULL, "2024-05-31 13:45:00,5", 1717163100.5 },
        { NULL, "2024-05-31T13,5", 1717162200 },
        { NULL, "2024-05-31T13:45.25", 1717163115 },
        { NULL, "13:45", 49500 },
        { NULL, "T1345", 49500 },
        { "%d/%m/%y", "01/02/68", 3095280000.0 },
        { "%d/%m/%y", "01/02/69", -28857600 },
        { "%H:%M:%S.%f", "00:00:01.000001", 1.000001 },
        { "%I %p", "12 am", 0 },
        { "%I %p", "12 PM", 43200 },
        { "%Y-%m-%d %z", "1970-01-01 +01:00", -3600 },
        { "%Y-%m-%d %Z", "1970-01-01 UTC", 0 },
        { "100%% %Y", "100% 1970", 0 },
    };
    static const struct {
        const char *format, *text, *says;
    } bad[] = {
        { NULL, "2023-02-29", "day that its month lacks" },
        { NULL, "1900-02-29", "day that its month lacks" },
        { NULL, "2023-13-01", "month" },
        { NULL, "2023-00-01", "month" },
        { NULL, "2023-366", "day that its year lacks" },
        { NULL, "2021-W53-1", "week" },
        { NULL, "2020-W10-8", "day of the week" },
        { NULL, "0000-01-01", "year" },
        { NULL, "2023-01-01T24:01", "hour" },
        { NULL, "2023-01-01T25:00", "hour" },
        { NULL, "2023-01-01T12:60", "minute" },
        { NULL, "2023-01-01T12:00:60", "second" },
        { NULL, "2023-01-01T12:00:00+24:00", "zone" },
        { NULL, "0001-01-01T00:00:00+00:01", "beyond the years" },
        { NULL, "2023-1-1", "ISO 8601" },
        { NULL, "2023", "ISO 8601" },
        { NULL, "31.05.2024", "ISO 8601" },
        { NULL, "2023-01-01T", "ISO 8601" },
        { NULL, "2023-01-01T12:00:00.", "ISO 8601" },
        { NULL, "2023-01-01T12:00:00Zz", "ISO 8601" },
        { "%d.%m.%Y", "31.05.24", "expected %d.%m.%Y" },
        { "%d.%m.%Y", "31.05.2024 ", "expected %d.%m.%Y" },
        { "%A %d.%m.%Y", "monday 31.05.2024", "weekday" },
        { "%I:%M", "11:00", "am or pm" },
        { "%I:%M %p", "13:00 pm", "1 to 12" },
        { "%Y-%m-%d %Z", "1970-01-01 CET", "expected" },
    };
    for (int i = 0; i < DT__COUNT_OF(good); i++) {
        const dt_column time = { .name = "a", .type = DT_COLUMN_TIME, .format = good[i].format };
        const double got = parsed(&time, good[i].text);
        ck_assert_msg(got == good[i].seconds, "%s: %.17g", good[i].text, got);
    }
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        const dt_column time = { .name = "a", .type = DT_COLUMN_TIME, .format = bad[i].format };
        refused(&time, bad[i].text, bad[i].says);
    }
}
END_TEST

START_TEST(wrong_fields_are_refused)
{
    static const char *const words[] = { "b" };
    static const struct {
        dt_column column;
        double field;
        const char *says;
    } bad[] = {
        { { .name = "a" }, (double)NAN, "missing" },
        { { .name = "a" }, 1e39, "range of f32" },
        { { .name = "a" }, (double)INFINITY, "finite" },
        { { .name = "a", .type = DT_COLUMN_BOOLEAN }, 0.5, "boolean" },
        { { .name = "a", .type = DT_COLUMN_TIME, .parts = 1 }, 1e15, "years" },
        { { .name = "a", .type = DT_COLUMN_CATEGORY, .n_categories = 1, .category = words },
          2,
          "code" },
        { { .name = "a", .type = DT_COLUMN_CATEGORY, .n_categories = 1, .category = words },
          0.5,
          "code" },
        { { .name = "a", .type = DT_COLUMN_CATEGORY, .n_categories = 1, .category = words },
          -1,
          "code" },
    };
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        const dt_columns c = { .n = 1, .column = &bad[i].column };
        const dt_field field = { bad[i].field };
        float x[4];
        ck_assert_int_eq(dt_columns_encode(ctx, &c, &field, x), DT_ERR_FORMAT);
        ck_assert_msg(strstr(dt_error(ctx), bad[i].says) != NULL, "%s", dt_error(ctx));
        ck_assert_msg(strstr(dt_error(ctx), "'a'") != NULL, "%s", dt_error(ctx));
    }
}
END_TEST

Suite *test_columns_suite(void)
{
    const test_draws draws = { 400, 40, 60 };
    Suite *s = suite_create("columns");
    TCase *c = tcase_create("columns");
    tcase_add_checked_fixture(c, open_context, close_context);
    const int n = (int)test_count(draws);
    tcase_add_loop_test(c, numbers_are_the_formulas, 0, n);
    tcase_add_loop_test(c, text_keeps_the_bits, 0, n);
    tcase_add_loop_test(c, damaged_texts_do_no_harm, 0, 6);
    tcase_add_test(c, bad_texts_are_refused);
    tcase_add_loop_test(c, model_files_have_the_columns, 0, 10);
    tcase_add_test(c, columns_are_described);
    tcase_add_test(c, allocations_fail);
    tcase_add_loop_test(c, numbers_are_rounded_to_nearest, 0, 3);
    tcase_add_test(c, words_are_found);
    tcase_add_test(c, times_are_those_printed);
    tcase_add_test(c, times_by_hand);
    tcase_add_test(c, wrong_fields_are_refused);
    suite_add_tcase(s, c);
    return s;
}
