/* The JSON scanner on untrusted files: strings with every escape, numbers, skipped values, and text
 * that is not JSON. The writer is tested by the suites of files. */
#include "testing.h"

#include "core/text/json.h"
#include "core/text/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static char strings[8192];

static void setup(void) { ck_assert(dt_ctx_create(&ctx, NULL) == DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

static dt__json scanner(const char *text, size_t bytes)
{
    ck_assert(bytes <= sizeof strings);
    const unsigned char *begin = (const unsigned char *)text;
    return (dt__json){ .ctx = ctx,
                       .path = "a.json",
                       .what = "the text",
                       .begin = begin,
                       .at = begin,
                       .end = begin + bytes,
                       .strings = strings };
}

static dt__json scan(const char *text) { return scanner(text, strlen(text)); }

/* ---- strings -------------------------------------------------------------------------------- */

START_TEST(strings_hold_every_character)
{
    static const char bytes[] = "a\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0z";
    dt__json j =
        scan("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude00\\u0000z\" \"\xc3\xa9\"");
    const char *text;
    size_t n;
    TEST_OK(ctx, dt__json_bytes(&j, &text, &n));
    ck_assert(n == sizeof bytes - 1 && memcmp(text, bytes, sizeof bytes) == 0);
    TEST_OK(ctx, dt__json_string(&j, &text));
    ck_assert_str_eq(text, "\xc3\xa9");
    TEST_OK(ctx, dt__json_end(&j));
}
END_TEST

/* Untrusted names are shown without control characters (also of C1), direction marks and incomplete
 * characters. */
START_TEST(names_are_cleaned)
{
    static const struct {
        const char *name, *shown;
    } cases[] = {
        { "layer.0.weight", "layer.0.weight" },
        { "\x1b[31m\x7f\n", "?[31m??" },
        { "\xc2\x9b"
          "31m",
          "?31m" }, /* U+009B, which begins a sequence */
        { "a\xe2\x80\xae"
          "b\xe2\x81\xa6",
          "a?b?" },                           /* U+202E, U+2066 */
        { "\xe2\x80\xa8\xef\xbb\xbf", "??" }, /* U+2028, U+FEFF */
        { "\xc3\xa9 \xe6\x97\xa5", "\xc3\xa9 \xe6\x97\xa5" },
        { "\xff\xc3", "??" },
    };
    char text[DT__SHOWN];
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        ck_assert_str_eq(dt__shown(cases[i].name, text), cases[i].shown);
    }
    memset(text, 'x', sizeof text - 1);
    text[DT__SHOWN - 1] = 0;
    char shown[DT__SHOWN];
    ck_assert_str_eq(dt__shown(text, shown), text);
}
END_TEST

START_TEST(written_json_reads_back)
{
    char all[0x80 + 4];
    for (int i = 0; i < 0x80; i++) all[i] = (char)i;
    memcpy(all + 0x80, "\xf4\x8f\xbf\xbf", 4);
    dt__chars out = { .ctx = ctx };
    dt__put_quoted_bytes(&out, all, sizeof all);
    dt__json j = scanner(out.bytes, out.used);
    const char *text;
    size_t n;
    TEST_OK(ctx, dt__json_bytes(&j, &text, &n));
    ck_assert(n == sizeof all && memcmp(text, all, n) == 0);
    TEST_OK(ctx, dt__json_end(&j));
    dt__release(ctx, out.bytes);
}
END_TEST

static const struct {
    const char *text, *message;
} bad_strings[] = {
    { "\"a\\u0000b\"", "character 0" },
    { "\"\\ud800\"", "both halves of a surrogate pair" },
    { "\"\\udc00\\ud800\"", "both halves of a surrogate pair" },
    { "\"\\ud800\\u0041\"", "both halves of a surrogate pair" },
    { "\"\\ud800\\n\"", "both halves of a surrogate pair" },
    { "\"\\u12g4\"", "four hexadecimal digits" },
    { "\"\\u12", "four hexadecimal digits" },
    { "\"\\x41\"", "must be followed by one of" },
    { "\"a\nb\"", "bare control" },
    { "\"\xc0\x80\"", "not UTF-8" },
    { "\"\xed\xa0\x80\"", "not UTF-8" },
    { "\"\xf4\x90\x80\x80\"", "not UTF-8" },
    { "\"\xe2\x82\"", "not UTF-8" },
    { "\"abc", "ends within a string" },
    { "\"abc\\", "ends within a string" },
    { "abc", "a string is expected here" },
    { "", "a string is expected here" },
};

START_TEST(no_string)
{
    dt__json j = scan(bad_strings[_i].text);
    const char *text;
    TEST_FAILS(ctx, DT_ERR_FORMAT, bad_strings[_i].message, dt__json_string(&j, &text));
}
END_TEST

/* In a text of several lines a message names line and column. */
START_TEST(places_of_faults)
{
    char text[200] = "[1, ", place[60];
    srand((unsigned)_i);
    const int lines = rand() % 5, blanks = rand() % 9;
    for (int i = 0; i < lines; i++) strcat(text, "\n");
    for (int i = 0; i < blanks; i++) strcat(text, " ");
    if (lines == 0) snprintf(place, sizeof place, "byte %d of", 4 + blanks);
    else snprintf(place, sizeof place, "line %d, column %d of", lines + 1, blanks + 1);
    dt__json j = scan(strcat(text, "?"));
    TEST_FAILS(ctx, DT_ERR_FORMAT, place, dt__json_skip(&j));
}
END_TEST

/* ---- numbers and words ----------------------------------------------------------------------- */

START_TEST(numbers)
{
    dt__json j = scan("-0 -9223372036854775807 42,-1.5e-3 1E+2 0.25 null nul true");
    int64_t i;
    char r[DT__NUMBER_TEXT];
    bool truth;
    TEST_OK(ctx, dt__json_signed(&j, &i));
    ck_assert_int_eq(i, 0);
    TEST_OK(ctx, dt__json_signed(&j, &i));
    ck_assert(i == -INT64_MAX);
    TEST_OK(ctx, dt__json_signed(&j, &i));
    ck_assert_int_eq(i, 42);
    TEST_OK(ctx, dt__json_expect(&j, ','));
    TEST_OK(ctx, dt__json_number(&j, r));
    ck_assert_str_eq(r, "-1.5e-3");
    TEST_OK(ctx, dt__json_number(&j, r));
    ck_assert_str_eq(r, "1E+2");
    TEST_OK(ctx, dt__json_number(&j, r));
    ck_assert_str_eq(r, "0.25");
    ck_assert(dt__json_null(&j));
    ck_assert(!dt__json_null(&j));
    j.at += 3;
    TEST_OK(ctx, dt__json_bool(&j, &truth));
    ck_assert(truth && dt__json_peek(&j) == 0);
}
END_TEST

static const char *const no_integers[] = {
    "1.5", "1e3", "9223372036854775808", "+1", "01", "-", ".5", "\"1\"", "", "true", "- 1"
};

START_TEST(no_integer)
{
    dt__json j = scan(no_integers[_i]);
    int64_t i;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "", dt__json_signed(&j, &i));
}
END_TEST

/* ---- skipping ------------------------------------------------------------------------------- */

static const char *const values[] = {
    "0",
    "-1.25e-300",
    "123456789012345678901234567890123456789012345678901234567890",
    "\"a \\u0000 b\"",
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "[[],{},[[]]]",
    "[1,\"]\",{\"}\":[null]}]",
    "{\"a\":1,\"b\":{\"c\":[{}]},\"d\":\"\"}",
    " [ 1 , 2 ] ",
};

START_TEST(skip_passes_over_one_value)
{
    char text[256];
    snprintf(text, sizeof text, "%s , 7", values[_i]);
    dt__json j = scan(text);
    int64_t i = 0;
    TEST_OK(ctx, dt__json_skip(&j));
    ck_assert(j.strings == strings);
    TEST_OK(ctx, dt__json_expect(&j, ','));
    TEST_OK(ctx, dt__json_integer(&j, &i));
    ck_assert_int_eq(i, 7);
}
END_TEST

static const char *const no_values[] = {
    "",       "[",       "{",        "[1",         "[1,",       "[1,]",    "[,1]",
    "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{\"a\" 1}", "{1:2}",   "{a:1}",
    "]",      "}",       "[1}",      "{\"a\":1]",  "[1 2]",     "nul",     "tru",
    "NaN",    "-",       "01",       "1.",         "'a'",       "\"\\q\"", "[\"\xff\"]",
};

START_TEST(skip_refuses_text_that_is_not_json)
{
    dt__json j = scan(no_values[_i]);
    dt_status status = dt__json_skip(&j);
    if (status == DT_OK) status = dt__json_end(&j);
    ck_assert_msg(status == DT_ERR_FORMAT, "%s", no_values[_i]);
}
END_TEST

START_TEST(skip_has_a_depth)
{
    char text[4 * DT__JSON_DEPTH + 16];
    for (int extra = 0; extra < 2; extra++) {
        const int depth = DT__JSON_DEPTH + extra;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        dt__json j = scanner(text, 2 * (size_t)depth);
        if (extra == 0) TEST_OK(ctx, dt__json_skip(&j));
        else TEST_FAILS(ctx, DT_ERR_FORMAT, "more than 64", dt__json_skip(&j));
    }
}
END_TEST

/* ---- numbers as text ------------------------------------------------------------------------ */

/* The shortest text, by trying one number of digits after the other. */
static void shortest(double value, char text[32])
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) return;
    }
}

START_TEST(reals_are_as_short_as_they_can_be)
{
    static const double given[] = { 0.1,
                                    -0.1,
                                    1e-5,
                                    1.5e300,
                                    5e-324,
                                    2.5e-310,
                                    1e9,
                                    -3e22,
                                    1.0 / 3,
                                    2 / 3.,
                                    1e-300,
                                    123456789012345678.0,
                                    0.30000000000000004,
                                    HUGE_VAL,
                                    -HUGE_VAL };
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        double value = given[i % DT__COUNT_OF(given)];
        char wanted[32], got[32], *e;
        state = state * 6364136223846793005U + 1442695040888963407U;
        if (i >= DT__COUNT_OF(given)) memcpy(&value, &state, sizeof value);
        if (i % 3 == 1) value = (double)(float)value;
        if (value != value || (fabs(value) < 1e9 && value == floor(value))) continue;
        dt__print_real(value, got);
        shortest(value, wanted);
        if ((e = strchr(wanted, 'e')) != NULL) { /* without zeros before the exponent */
            e += 2;
            memmove(e, e + strspn(e, "0"), strlen(e + strspn(e, "0")) + 1);
        }
        ck_assert_str_eq(got, wanted);
    }
}
END_TEST

Suite *test_json_suite(void)
{
    Suite *s = suite_create("json");
    TCase *c = tcase_create("scan");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, strings_hold_every_character);
    tcase_add_test(c, names_are_cleaned);
    tcase_add_test(c, written_json_reads_back);
    tcase_add_loop_test(c, no_string, 0, DT__COUNT_OF(bad_strings));
    tcase_add_loop_test(c, places_of_faults, 0, 10);
    tcase_add_test(c, numbers);
    tcase_add_test(c, reals_are_as_short_as_they_can_be);
    tcase_add_loop_test(c, no_integer, 0, DT__COUNT_OF(no_integers));
    tcase_add_loop_test(c, skip_passes_over_one_value, 0, DT__COUNT_OF(values));
    tcase_add_loop_test(c, skip_refuses_text_that_is_not_json, 0, DT__COUNT_OF(no_values));
    tcase_add_test(c, skip_has_a_depth);
    suite_add_tcase(s, c);
    return s;
}
