/* Messages about suspicious data: classes that differ only in spelling, or are missing; files of a
 * pattern whose numbers are not in the order of reading; files of two patterns that are joined
 * though their names differ; columns in other units; and data that a model reads differently. All
 * are drawn at random, and a message is expected if and only if the data are suspicious. */
#include "sample.h"

#include "data/arrays.h"
#include "data/alike.h"
#include "data/tables/tensor_names.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 12, LONG = 64, ROWS = 40, COLUMNS = 3 };

typedef struct drawing {
    uint32_t word[4];
    uint64_t at;
} drawing;

static uint32_t below(drawing *d, uint32_t n)
{
    if (d->at % 4 == 0) dt__philox(41, d->at / 4, d->word);
    return d->word[d->at++ % 4] % n;
}

static void keep(void *user, const char *line)
{
    char *said = user;
    const size_t used = strlen(said);
    snprintf(said + used, DT__MESSAGE_SIZE - used, "%s\n", line);
}

static dt_ctx *listening(char said[DT__MESSAGE_SIZE])
{
    dt_ctx_options o = dt_ctx_defaults();
    dt_ctx *ctx;
    o.threads = 1;
    o.log = keep;
    o.log_user = said;
    said[0] = 0;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

/* ---- classes -------------------------------------------------------------------------------- */

static const char *const plain[MOST] = { "yes",          "no",         "caf\u00e9", "new york",
                                         "12",           "na\u00efve", "x-ray",     "half",
                                         "\u03b1\u03b2", "0.5",        "a",         "b" };

/* Spellings of the same names. */
static const char *const other[MOST][3] = { { "Yes", " yes", "yes\u200b" },
                                            { "NO", "no ", "\uff4e\uff4f" },
                                            { "cafe\u0301", "CAF\u00c9", "caf\u00e9\u00a0" },
                                            { "New  York", "new\u00a0york", "NEW YORK" },
                                            { "12.0", "012", "+12" },
                                            { "nai\u0308ve", "Na\u00efve", "na\u00efve\t" },
                                            { "x\u2010ray", "X-Ray", "x\u2013ray" },
                                            { "half ", "HALF", "ha\u00adlf" },
                                            { "\u0391\u0392", "\u03b1\u0392", " \u03b1\u03b2" },
                                            { ".5", "0.50", "5e-1" },
                                            { "a ", "\uff41", " a" },
                                            { "b\ufeff", "b  ", "\tb" } };

static const char *const absent[] = { "NA", "n/a", "NaN", "null", "?", "-", "#N/A", " ", "<NA>" };

START_TEST(classes)
{
    char said[DT__MESSAGE_SIZE];
    drawing d = { .at = 0 };
    dt_ctx *ctx = listening(said);
    int found[2] = { 0 };
    for (int i = 0; i < 400; i++) {
        const char *name[MOST + 2];
        const int first = (int)below(&d, MOST - 4), n = 2 + (int)below(&d, 3);
        const bool alike = below(&d, 2) == 0, missing = below(&d, 2) == 0;
        int64_t names = 0;
        for (int k = 0; k < n; k++) name[names++] = plain[first + k];
        if (alike) name[names++] = other[first + (int)below(&d, (uint32_t)n)][below(&d, 3)];
        if (missing) name[names++] = absent[below(&d, DT__COUNT_OF(absent))];
        const dt__name_list list = { "data.train", "classes", "so", name, names };
        said[0] = 0;
        TEST_OK(ctx, dt__say_alike(ctx, &list));
        ck_assert_msg((strstr(said, "differ in case") != NULL) == alike, "%s %s: %s", name[0],
                      name[names - 1], said);
        ck_assert_msg((strstr(said, "looks like a missing") != NULL) == missing, "%s: %s",
                      name[names - 1], said);
        found[0] += alike;
        found[1] += missing;
    }
    ck_assert_int_gt(found[0], 100);
    ck_assert_int_gt(found[1], 100);
    /* Single letters are distinct classes; so are words and numbers with other differences. */
    static const char *const apart[] = {
        "A", "a", "B", "b", "0", "1", "O", "l", "none", "no", "on"
    };
    const dt__name_list list = { "data.train", "classes", "so", apart, DT__COUNT_OF(apart) };
    said[0] = 0;
    TEST_OK(ctx, dt__say_alike(ctx, &list));
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- the order of files --------------------------------------------------------------------- */

static int64_t files_of(dt_ctx *ctx, const char *folder, const char *pattern, bool *larger)
{
    dt__tensor_names names = { .v = NULL };
    char path[TEST_PATH];
    strcpy(path, pattern);
    const dt_strings list = { 1, { path } };
    TEST_OK(ctx, dt__tensor_names_add(ctx, "data.train", folder, &list, &names));
    const int64_t n = names.n;
    *larger = names.larger != NULL;
    dt__tensor_names_free(ctx, &names);
    return n;
}

static void make(const char *folder, const char *name)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_text(path, "a\n1\n");
}

START_TEST(order)
{
    char said[DT__MESSAGE_SIZE], folder[TEST_PATH];
    drawing d = { .at = 1000 };
    dt_ctx *ctx = listening(said);
    int wrong = 0;
    for (int i = 0; i < 60; i++) {
        static const uint32_t most[] = { 9, 12, 120, 2000 };
        const bool padded = below(&d, 3) == 0;
        int number[4];
        char name[4][LONG];
        bool inverted = false, larger;
        test_folder(folder);
        for (int k = 0; k < 4; k++) {
            number[k] = (int)below(&d, most[below(&d, 4)]);
            snprintf(name[k], LONG, padded ? "run_%05d.npy" : "run_%d.npy", number[k]);
            make(folder, name[k]);
        }
        for (int k = 0; k < 16; k++) {
            inverted |= strcmp(name[k / 4], name[k % 4]) < 0 && number[k / 4] > number[k % 4];
        }
        ck_assert_int_ge(files_of(ctx, folder, "run_*.npy", &larger), 1);
        ck_assert_msg(larger == inverted, "%s %s %s %s", name[0], name[1], name[2], name[3]);
        wrong += inverted;
    }
    ck_assert_int_gt(wrong, 10);
    ck_assert_int_lt(wrong, 50);
    dt_ctx_free(ctx);
}
END_TEST

/* Sensors of the same runs, and of runs of which each lacks another. */
START_TEST(pairs)
{
    static const struct {
        const char *first, *second, *pattern;
    } forms[] = {
        { "r%d_acc.csv", "r%d_gyro.csv", "*_acc.csv+*_gyro.csv" },
        { "acc_%d.csv", "gyro_%d.csv", "acc_*.csv+gyro_*.csv" },
        { "a_%d.csv", "g_%d.csv", "a*.csv+g*.csv" },
        { "acc %d x.csv", "mag %d y.csv", "acc*.csv+mag*.csv" },
    };
    char said[DT__MESSAGE_SIZE], folder[TEST_PATH];
    drawing d = { .at = 5000 };
    dt_ctx *ctx = listening(said);
    for (int i = 0; i < 80; i++) {
        const int form = (int)below(&d, DT__COUNT_OF(forms));
        const int from = (int)below(&d, 20), without = (int)below(&d, 4);
        const bool same = below(&d, 2) == 0;
        char name[LONG];
        bool larger;
        test_folder(folder);
        for (int k = 0; k < 4; k++) {
            snprintf(name, LONG, forms[form].first, from + k);
            if (k != without) make(folder, name);
            snprintf(name, LONG, forms[form].second, from + k);
            if (k != (same ? without : (without + 1) % 4)) make(folder, name);
        }
        said[0] = 0;
        ck_assert_int_eq(files_of(ctx, folder, forms[form].pattern, &larger), 3);
        ck_assert_msg((strstr(said, "are joined, though") == NULL) == same, "%s, %d: %s",
                      forms[form].pattern, from, said);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- units ---------------------------------------------------------------------------------- */

/* Tables of which a column is multiplied, divided or moved, and tables as those trained on. */
START_TEST(units)
{
    static const double shifts[] = { -1e3, -20, 20, 500 },
                        factors[] = { 1e3, 255, 1e-3, 1 / 255.0 };
    static double x[ROWS * COLUMNS];
    static const float y[ROWS];
    char said[DT__MESSAGE_SIZE], words[40];
    drawing d = { .at = 9000 };
    dt_ctx *ctx = listening(said);
    for (int i = 0; i < 200; i++) {
        const int kind = (int)below(&d, 3), changed = (int)below(&d, COLUMNS);
        const uint32_t by = below(&d, 4);
        const bool one = below(&d, 4) == 0; /* mean and deviation for all columns */
        double mean[COLUMNS], deviation[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) {
            const int from = one ? 0 : c;
            deviation[c] = c > 0 && one ? deviation[0] : 2 * pow(10, (int)below(&d, 9) - 4);
            mean[c] = c > 0 && one ? mean[0] : deviation[c] * ((int)below(&d, 7) - 3);
            for (int k = 0; k < ROWS; k++) {
                const double u = ((int)below(&d, 2001) - 1000) / 600.0;
                double *v = &x[k * COLUMNS + c];
                *v = mean[from] + deviation[from] * u;
                if (c == changed && kind == 1) *v *= factors[by];
                if (c == changed && kind == 2) *v += deviation[from] * shifts[by];
            }
        }
        const dt_arrays a = { .count = ROWS,
                              .rank = 1,
                              .dims = { COLUMNS },
                              .axis = -1,
                              .x = x,
                              .x_dtype = DT_ARRAY_F64,
                              .y = y,
                              .y_dtype = DT_ARRAY_F32,
                              .outputs = 1,
                              .target = DT_TARGET_VALUES };
        dt_dataset *data = NULL;
        TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &data));
        said[0] = 0;
        const dt__trained_units trained = { .n = one ? 1 : COLUMNS,
                                            .mean = mean,
                                            .deviation = deviation };
        TEST_OK(ctx, dt__say_far(data, &trained));
        snprintf(words, sizeof words, "warning: channel %d has mean", changed);
        if (kind == 0) ck_assert_str_eq(said, "");
        else ck_assert_msg(strncmp(said, words, strlen(words)) == 0, "%d: %s", i, said);
        dt_dataset_free(data);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Images as numbers, for a model that was trained on pixels, standardized or not. */
START_TEST(numbers_for_pixels)
{
    static const double factors[] = { 1, 255, 2, -1 };
    static double x[ROWS * COLUMNS];
    static const float y[ROWS];
    char said[DT__MESSAGE_SIZE];
    drawing d = { .at = 77 };
    dt_ctx *ctx = listening(said);
    for (int i = 0; i < 100; i++) {
        const uint32_t by = below(&d, 4);
        const bool plain_ones = below(&d, 2) == 0;
        const double mean = plain_ones ? 0 : 0.3, deviation = plain_ones ? 1 : 0.25;
        for (int k = 0; k < ROWS * COLUMNS; k++) x[k] = factors[by] * below(&d, 256) / 255.0;
        const dt_arrays a = { .count = ROWS,
                              .rank = 3,
                              .dims = { 1, 1, COLUMNS },
                              .x = x,
                              .x_dtype = DT_ARRAY_F64,
                              .y = y,
                              .y_dtype = DT_ARRAY_F32,
                              .outputs = 1,
                              .target = DT_TARGET_VALUES };
        const dt__trained_units trained = { 1, &mean, &deviation, true };
        dt_dataset *data = NULL;
        TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &data));
        said[0] = 0;
        TEST_OK(ctx, dt__say_far(data, &trained));
        ck_assert_msg((strstr(said, "on pixels, bytes or numbers from 0 to 1") != NULL) == (by > 0),
                      "%d: %s", i, said);
        dt_dataset_free(data);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what a model reads --------------------------------------------------------------------- */

/* Some of `plain`, in their order. */
static int64_t draw_names(drawing *d, const char *names[MOST])
{
    int64_t n = 0;
    for (int i = 0; i < MOST; i++) {
        if (below(d, 3) > 0) names[n++] = plain[i];
    }
    return n;
}

/* Classes or columns of the data in another order than those of the model that is trained on. */
START_TEST(names_in_other_places)
{
    char said[DT__MESSAGE_SIZE], words[80];
    drawing d = { .at = 1234 };
    dt_ctx *ctx = listening(said);
    for (int i = 0; i < 200; i++) {
        const char *names[2][MOST];
        dt_model_data side[2] = { { .target = "classes" }, { .target = "classes" } };
        const bool columns = below(&d, 2) == 0;
        int64_t n[2], at = 0;
        for (int k = 0; k < 2; k++) {
            n[k] = draw_names(&d, names[k]);
            *(columns ? &side[k].n_columns : &side[k].n_names) = n[k];
            *(columns ? &side[k].columns : &side[k].names) = names[k];
        }
        while (at < n[0] && at < n[1] && names[0][at] == names[1][at]) at++;
        const bool others = at < n[0] && at < n[1];
        snprintf(words, sizeof words, "%s %d of the data is '%s', ", columns ? "column" : "class",
                 (int)at, others ? names[1][at] : "");
        for (int use = DT__READ_TO_TRAIN; use <= DT__READ_TO_RESUME; use++) {
            said[0] = 0;
            const dt_status s = dt__compare_reading(ctx, "m", &side[0], &side[1], use);
            const bool matters = others && (columns || use != DT__READ_TO_EVALUATE);
            const bool refused = matters && use != DT__READ_TO_TRAIN;
            ck_assert_int_eq(s, refused ? DT_ERR_FORMAT : DT_OK);
            const char *found = strstr(refused ? dt_error(ctx) : said, words);
            ck_assert_msg((found != NULL) == matters, "%s", said);
            if (!matters || refused) ck_assert_str_eq(said, "");
        }
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Changes one setting of the features, or the rate of recordings. */
START_TEST(features_of_other_settings)
{
    char said[DT__MESSAGE_SIZE];
    dt_ctx *ctx = listening(said);
    for (int i = 0; i < 11; i++) {
        dt_model_data model = { .rate = 8000, .features = dt_features_defaults() }, data;
        dt_features_options *f = &data.features;
        model.features.kind = i == 10 ? DT_FEATURES_NONE : DT_FEATURES_MFCC;
        model.features.rate = 8000;
        data = model;
        switch (i) {
        case 0: f->kind = DT_FEATURES_LOG_MEL; break;
        case 1: f->rate = 16000; break;
        case 2: f->frame_ms = 30; break;
        case 3: f->step_ms = 10; break;
        case 4: f->bins = 41; break;
        case 5: f->coefficients = 11; break;
        case 6: f->low_hz = 21; break;
        case 7: f->high_hz = 3000; break;
        case 8: f->floor = 1e-5; break;
        case 9: f->high_hz = 4000; break; /* half of the rate, which 0 means */
        default: data.rate = 16000; break;
        }
        said[0] = 0;
        TEST_OK(ctx, dt__compare_reading(ctx, "m", &model, &data, DT__READ_TO_TRAIN));
        ck_assert_int_eq(strstr(said, "warning: m reads ") != NULL, i != 9);
        said[0] = 0;
        if (i == 9)
            TEST_OK(ctx, dt__compare_reading(ctx, "m", &model, &data, DT__READ_TO_EVALUATE));
        else
            TEST_FAILS(ctx, DT_ERR_FORMAT, "m: the model reads ",
                       dt__compare_reading(ctx, "m", &model, &data, DT__READ_TO_EVALUATE));
        ck_assert_str_eq(said, "");
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Tokenizers of characters, in their order of code points: an id is another one behind the first
 * that one of them lacks. */
START_TEST(ids_of_other_tokens)
{
    char said[DT__MESSAGE_SIZE], words[60];
    drawing d = { .at = 999 };
    dt_ctx *ctx = listening(said);
    for (int i = 0; i < 100; i++) {
        char set[2][27], text[2][100];
        int n[2] = { 0 }, others = 0;
        dt_tokenizer *data;
        for (int k = 0; k < 2; k++) {
            for (char c = 'a'; c <= 'z'; c++) {
                if (below(&d, 12) > 0 || c == 'z') set[k][n[k]++] = c;
            }
            snprintf(text[k], sizeof text[k],
                     "{\"model\": {\"type\": \"chars\", \"characters\": \"%.*s\"}}", n[k], set[k]);
        }
        for (int c = 0; c < n[0] && c < n[1]; c++) others += set[0][c] != set[1][c];
        TEST_OK(ctx, dt_tokenizer_parse(ctx, text[1], strlen(text[1]), "data", &data));
        said[0] = 0;
        TEST_OK(ctx, dt__say_tokens(ctx, "m", text[0], data));
        snprintf(words, sizeof words, "warning: %d ids of data.tokenizer", others);
        if (others == 0) ck_assert_str_eq(said, "");
        else ck_assert_msg(strncmp(said, words, strlen(words)) == 0, "%s: %s", text[0], said);
        said[0] = 0;
        TEST_OK(ctx, dt__say_tokens(ctx, "m", NULL, data));
        TEST_OK(ctx, dt__say_tokens(ctx, "m", text[0], NULL));
        TEST_OK(ctx, dt__say_tokens(ctx, "m", text[1], data));
        TEST_OK(ctx, dt__say_tokens(ctx, "m", "{\"model\": 3}", data)); /* not read */
        ck_assert_str_eq(said, "");
        dt_tokenizer_free(data);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status say(dt_ctx *ctx, void *user)
{
    const dt__name_list list = { "data.train", "classes", "so", plain, MOST };
    (void)user;
    return dt__say_alike(ctx, &list);
}

START_TEST(every_allocation) { ck_assert_int_gt(test_every_allocation(say, NULL), 2); }
END_TEST

Suite *test_alike_suite(void)
{
    Suite *suite = suite_create("alike");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, classes);
    tcase_add_test(c, order);
    tcase_add_test(c, pairs);
    tcase_add_test(c, units);
    tcase_add_test(c, numbers_for_pixels);
    tcase_add_test(c, names_in_other_places);
    tcase_add_test(c, features_of_other_settings);
    tcase_add_test(c, ids_of_other_tokens);
    tcase_add_test(c, every_allocation);
    suite_add_tcase(suite, c);
    return suite;
}
