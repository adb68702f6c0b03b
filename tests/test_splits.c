/* data.split: parts by class, group, time and file, folds, and names of files. The tables are
 * random: rows with a number, a group, a time and a class. */
#include "array_files.h"
#include "sample.h"

#include "data/splits/leaks.h"
#include "data/splits/name_pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400, PARTS = 3 };

typedef struct table {
    int n, groups, classes;
    int group[MOST], label[MOST], time[MOST];
} table;

static char folder[TEST_PATH];
static uint32_t state;

static int below(int n)
{
    state = state * 1664525U + 1013904223U;
    return (int)((state >> 8) % (uint32_t)n);
}

static table draw_table(int i)
{
    state = (uint32_t)i * 7919U + 17U;
    table t = { .n = 100 + below(MOST - 100), .groups = 8 + below(30), .classes = 2 + below(3) };
    for (int r = 0; r < t.n; r++) {
        t.group[r] = below(t.groups);
        t.label[r] = r < 2 * t.classes ? r % t.classes : below(4) == 0 ? below(t.classes) : 0;
        t.time[r] = r;
    }
    for (int r = t.n - 1; r > 0; r--) { /* times in no order of the file */
        const int other = below(r + 1), time = t.time[r];
        t.time[r] = t.time[other];
        t.time[other] = time;
    }
    return t;
}

static dt_data_options write_table(const table *t, bool dates)
{
    static char text[MOST * 64];
    char path[TEST_PATH], time[32];
    int used = sprintf(text, "row,group,time,label\n");
    for (int r = 0; r < t->n; r++) {
        const int at = t->time[r];
        if (dates)
            snprintf(time, sizeof time, "%d-%02d-%02dT00:00:00Z", 2024 + at / 336, 1 + at / 28 % 12,
                     1 + at % 28);
        else snprintf(time, sizeof time, "%d.5", 3 * at - 100);
        used += sprintf(text + used, "%d,g %d,%s,c%d\n", r, t->group[r], time, t->label[r]);
    }
    test_folder(folder);
    test_join(path, folder, "t.csv");
    test_write_file(path, text, (size_t)used);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train_tensors = (dt_tensor_files){ true, { 1, { "t.csv" } }, NULL };
    o.columns.inputs = (dt_strings){ 1, { "row" } };
    o.columns.target = (dt_strings){ 1, { "label" } };
    return o;
}

/* part[r] becomes the part of row r; every row is in one of them. */
static void take_parts(dt_ctx *ctx, const dt_data_options *o, const table *t, int *part)
{
    dt_dataset *d[PARTS];
    for (int r = 0; r < t->n; r++) part[r] = -1;
    TEST_OK(ctx, dt_data_open(ctx, o, &d[0], &d[1], &d[2]));
    for (int p = 0; p < PARTS; p++) {
        dt_loader *l;
        dt_tensor *x, *y;
        if (d[p] == NULL) continue;
        const dt_loader_options all = { .batch_size = dt_dataset_count(d[p]) };
        TEST_OK(ctx, dt_loader_create(d[p], &all, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        for (int64_t i = 0; i < dt_dataset_count(d[p]); i++) {
            const int r = (int)((const float *)dt_data(x))[i];
            ck_assert_int_eq(part[r], -1);
            part[r] = p;
            ck_assert_int_eq(dt_dataset_label(d[p], i), t->label[r]);
        }
        dt_loader_free(l);
        dt_dataset_free(d[p]);
    }
    for (int r = 0; r < t->n; r++) ck_assert_int_ge(part[r], 0);
}

static int count(const int *part, const table *t, int p, int label)
{
    int n = 0;
    for (int r = 0; r < t->n; r++) n += part[r] == p && (label < 0 || t->label[r] == label);
    return n;
}

/* No group is in two parts, and the shares are near what they should be. */
START_TEST(groups_stay_whole)
{
    const table t = draw_table(_i);
    int part[MOST], of[64], largest = 0, size[64] = { 0 };
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = write_table(&t, false);
    o.split = (dt_split_options){ .by = DT_SPLIT_GROUP, .column = "group", .test = 0.25 };
    o.validation = 0.2;
    o.seed = _i;
    take_parts(ctx, &o, &t, part);
    for (int g = 0; g < t.groups; g++) of[g] = -1;
    for (int r = 0; r < t.n; r++) {
        if (of[t.group[r]] < 0) of[t.group[r]] = part[r];
        ck_assert_int_eq(of[t.group[r]], part[r]);
        if (++size[t.group[r]] > largest) largest = size[t.group[r]];
    }
    ck_assert_int_le(abs(count(part, &t, 2, -1) - t.n / 4), largest);
    ck_assert_int_le(abs(count(part, &t, 1, -1) - (t.n - t.n / 4) / 5), largest + 1);
    dt_ctx_free(ctx);
}
END_TEST

/* Every row is in the test part of one fold; of each class a fold has its share within one row, or
 * by groups no group is in two of them. */
START_TEST(folds_hold_each_row_once)
{
    const table t = draw_table(_i);
    const bool grouped = _i % 2 == 1;
    int part[MOST], fold[MOST];
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = write_table(&t, false);
    o.split = (dt_split_options){ .by = grouped ? DT_SPLIT_GROUP : DT_SPLIT_STRATIFIED,
                                  .column = grouped ? "group" : NULL,
                                  .folds = 2 + _i % 4 };
    for (int r = 0; r < t.n; r++) fold[r] = -1;
    for (o.split.fold = 0; o.split.fold < o.split.folds; o.split.fold++) {
        take_parts(ctx, &o, &t, part);
        for (int r = 0; r < t.n; r++) {
            if (part[r] != 2) continue;
            ck_assert_int_eq(fold[r], -1);
            fold[r] = (int)o.split.fold;
        }
        for (int c = 0; c < t.classes && !grouped; c++) {
            const int all = count(part, &t, 2, c) + count(part, &t, 0, c);
            const int least = all / (int)o.split.folds, n = count(part, &t, 2, c);
            ck_assert(n == least || n == least + 1);
        }
    }
    for (int r = 0; r < t.n; r++) {
        ck_assert_int_ge(fold[r], 0);
        for (int k = 0; k < r && grouped; k++) {
            if (t.group[k] == t.group[r]) ck_assert_int_eq(fold[k], fold[r]);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Training is older than validation, which is older than the test. */
START_TEST(time_goes_forward)
{
    const table t = draw_table(_i);
    int part[MOST], newest[PARTS] = { -1, -1, -1 }, oldest[PARTS] = { MOST, MOST, MOST };
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = write_table(&t, _i % 2 == 0);
    o.split = (dt_split_options){ .by = DT_SPLIT_TIME, .column = "time", .test = 0.2 };
    o.validation = 0.25;
    take_parts(ctx, &o, &t, part);
    for (int r = 0; r < t.n; r++) {
        if (t.time[r] > newest[part[r]]) newest[part[r]] = t.time[r];
        if (t.time[r] < oldest[part[r]]) oldest[part[r]] = t.time[r];
    }
    ck_assert_int_eq(count(part, &t, 2, -1), t.n / 5);
    ck_assert(newest[0] < oldest[1] && newest[1] < oldest[2]);
    o.split.folds = 3;
    o.split.test = 0;
    dt_dataset *d[PARTS];
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.split.folds: data in the order of time",
               dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(what_is_refused)
{
    static const struct {
        dt_split_options split;
        const char *says;
    } bad[] = {
        { { .by = DT_SPLIT_GROUP, .test = 0.2 }, "group requires data.split.column" },
        { { .by = DT_SPLIT_GROUP, .column = "none", .test = 0.2 }, "'none' is not a column" },
        { { .by = DT_SPLIT_TIME, .column = "group", .test = 0.2 },
          "is not a time; expected numbers in all rows" },
        { { .by = DT_SPLIT_GROUP, .column = "group", .folds = 100 }, "groups cannot make 100" },
        { { .by = DT_SPLIT_TIME + 1 }, "data.split.by is out of its range" },
        { { .folds = 1 }, "data.split.folds is out of its range" },
        { { .folds = 3, .fold = 3 }, "data.split.fold is out of its range" },
    };
    const table t = draw_table(3);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = write_table(&t, false);
    dt_dataset *d[PARTS];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.split = bad[i].split;
        TEST_FAILS(ctx, DT_ERR_CONFIG, bad[i].says, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    }
    o.split = (dt_split_options){ .test = 0.2 };
    o.test_tensors = o.train_tensors;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.test names files",
               dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    dt_ctx_free(ctx);
}
END_TEST

/* Recordings whose classes and groups are in their names. */
START_TEST(names_of_recordings)
{
    int16_t samples[20];
    char name[32];
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d[PARTS];
    dt_data_options o = dt_data_defaults();
    test_folder(folder);
    for (int i = 0; i < 24; i++) {
        char path[TEST_PATH];
        for (int k = 0; k < 20; k++) samples[k] = (int16_t)(i % 4); /* its group */
        snprintf(name, sizeof name, "c%d_speaker-%d_%d.wav", i % 3, i % 4, i);
        test_join(path, folder, name);
        file_bytes f = wav_file(1, 4000, samples, 20);
        test_write_file(path, f.v, f.n);
        file_free(&f);
    }
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train = (dt_strings){ 1, { "*.wav" } };
    o.file_names = "{label}_speaker-{group}_{index}.wav";
    o.split = (dt_split_options){ .by = DT_SPLIT_GROUP, .test = 0.25 };
    o.validation = 0.3;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    int part_of[4] = { -1, -1, -1, -1 }, all = 0;
    ck_assert_int_eq(dt_dataset_classes(d[0]), 3);
    ck_assert_str_eq(dt_dataset_class_name(d[0], 2), "c2");
    for (int p = 0; p < PARTS; p++) {
        dt_loader *l;
        dt_tensor *x, *y;
        const dt_loader_options each = { .batch_size = dt_dataset_count(d[p]) };
        TEST_OK(ctx, dt_loader_create(d[p], &each, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        for (int64_t i = 0; i < dt_dataset_count(d[p]); i++) {
            const int group = (int)((const float *)dt_data(x))[20 * i];
            ck_assert(part_of[group] < 0 || part_of[group] == p);
            part_of[group] = p;
            all++;
        }
        dt_loader_free(l);
        dt_dataset_free(d[p]);
    }
    ck_assert_int_eq(all, 24);
    o.file_names = "{label}-{group}.flac";
    TEST_FAILS(ctx, DT_ERR_FORMAT, "is not of the form",
               dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- leaks ---------------------------------------------------------------------------------- */

enum { COLUMNS = 4, LEAKING = 60 };

static void keep_warnings(void *text, const char *line)
{
    if (strncmp(line, "warning: ", 9) == 0) strncat(text, line, 2000);
}

static dt_dataset *rows_of(dt_ctx *ctx, const float *x, const void *y, dt_target target)
{
    dt_dataset *d;
    const bool labels = target == DT_TARGET_CLASS;
    const dt_arrays a = { .count = LEAKING,
                          .rank = 1,
                          .dims = { COLUMNS },
                          .axis = -1,
                          .x = x,
                          .target = target,
                          .y_dtype = labels ? DT_ARRAY_I32 : DT_ARRAY_F32,
                          .y = y,
                          .outputs = labels ? 3 : 1 };
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    return d;
}

/* For random tables: reports a column that is a function of the target, and rows that are in two
 * parts. */
START_TEST(leaks_are_said)
{
    float x[2][LEAKING * COLUMNS], values[LEAKING];
    int32_t labels[LEAKING];
    char text[8192] = "", words[80];
    dt_ctx_options o = dt_ctx_defaults();
    o.log = keep_warnings;
    o.log_user = text;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    state = (uint32_t)_i + 5;
    const int column = below(COLUMNS), same = below(5);
    const bool leaks = _i % 3 != 0, values_leak = _i % 2 == 0;
    for (int i = 0; i < LEAKING; i++) {
        labels[i] = i % 3;
        values[i] = (float)below(1000) / 7;
        for (int p = 0; p < 2; p++) {
            for (int c = 0; c < COLUMNS; c++) x[p][i * COLUMNS + c] = (float)below(100000);
        }
        if (!leaks) continue;
        x[0][i * COLUMNS + column] =
            values_leak ? 3 - 2 * values[i] : (float)((labels[i] * 5 + 1) % 7);
    }
    for (int i = 0; i < same; i++) {
        memcpy(x[1] + (3 * i + 1) * COLUMNS, x[0] + (2 * i + 7) * COLUMNS, COLUMNS * sizeof **x);
    }
    const dt_target target = values_leak ? DT_TARGET_VALUES : DT_TARGET_CLASS;
    const void *y = values_leak ? (const void *)values : labels;
    dt_dataset *train = rows_of(ctx, x[0], y, target), *test = rows_of(ctx, x[1], y, target);
    TEST_OK(ctx, dt__say_leaks((const dt_dataset *const[]){ train, NULL, test }));
    snprintf(words, sizeof words, "data.test: %d of %d examples are in the training data", same,
             LEAKING);
    ck_assert_msg((strstr(text, words) != NULL) == (same > 0), "%s", text);
    ck_assert_msg((strstr(text, "(number 1 of 'arrays: x' is number 7 of 'arrays: x')") != NULL) ==
                      (same > 0),
                  "%s", text);
    snprintf(words, sizeof words, "the input '%d' alone determines", column);
    ck_assert_msg((strstr(text, words) != NULL) == leaks, "%s", text);
    ck_assert_msg(leaks || strstr(text, "alone determines") == NULL, "%s", text);
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status open_and_look(dt_ctx *ctx, void *user)
{
    dt_dataset *d[PARTS];
    dt_status status = dt_data_open(ctx, user, &d[0], &d[1], &d[2]);
    if (status == DT_OK) status = dt__say_leaks((const dt_dataset *const[]){ d[0], d[1], d[2] });
    for (int p = 0; p < PARTS; p++) dt_dataset_free(d[p]);
    return status;
}

START_TEST(memory_may_run_out)
{
    static const dt_split_options splits[] = {
        { .by = DT_SPLIT_GROUP, .column = "group", .test = 0.3 },
        { .by = DT_SPLIT_TIME, .column = "time", .test = 0.3 },
        { .by = DT_SPLIT_STRATIFIED, .folds = 3, .fold = 1 },
    };
    const table t = draw_table(2);
    dt_data_options o = write_table(&t, true);
    o.validation = 0.2;
    o.split = splits[_i];
    test_every_allocation(open_and_look, &o);
}
END_TEST

/* ---- folds of the program ------------------------------------------------------------------- */

/* run.folds does what --folds does: one plan, the same runs; contradicting settings are
 * reported. */
static void compare_doors(void)
{
    static const struct {
        const char *words;
        int status;
        const char *says;
    } members[] = {
        { "train r.yaml run.folds=3 --quiet", 0, "3 folds each" }, /* takes on r-sweep's plan */
        { "train r.yaml run.folds=3 run.dir=q --quiet && cmp q-sweep/001-fold1/float.safetensors "
          "r-sweep/001-fold1/float.safetensors && ls q-sweep",
          0, "001-fold2" },
        { "train r.yaml run.folds=3 --folds 2 run.dir=p --quiet", 0, "2 folds each" },
        { "train r.yaml run.folds=3 --dry-run", 0, "3 runs of 1 recipe" },
        { "train r.yaml run.folds=3 --resume", 2, "--resume and run.folds exclude each other" },
        { "sweep r.yaml s.yaml run.folds=3 --quiet", 2, "has run.folds 3; in a sweep 'folds: 3'" },
        { "sweep r.yaml k.yaml", 2, "'run.folds' is set by the sweep itself" },
    };
    char *output;
    ck_assert(test_shell(&output,
                         "cd %s && echo 'keys: {train.epochs: [1, 2]}' >s.yaml && "
                         "echo 'keys: {run.folds: [2, 3]}' >k.yaml",
                         folder) == 0);
    free(output);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const int status = test_shell(&output, "cd %s && '" DETENT_BINARY_DIR "/detent' %s 2>&1",
                                      folder, members[i].words);
        ck_assert_msg(status == members[i].status && strstr(output, members[i].says) != NULL,
                      "%s: %d: %s", members[i].words, status, output);
        free(output);
    }
}

START_TEST(the_program_runs_folds)
{
    const table t = draw_table(1);
    char *output;
    write_table(&t, false);
    const int status = test_shell(
        &output,
        "cd %s && printf 'run: {dir: r}\\nmodel: {family: mlp, sizes: [1, %d]}\\ndata: {format: "
        "tensors, train: {x: t.csv}, columns: {inputs: row, target: label}, validation: 0.2, "
        "split: {by: stratified}}\\ntrain: {epochs: 1}\\n' >r.yaml && '" DETENT_BINARY_DIR
        "/detent' sweep r.yaml --folds 3 --quiet 2>&1 && ls r-sweep && '" DETENT_BINARY_DIR
        "/detent' eval r-sweep/001-fold1/float.safetensors 2>&1",
        folder, t.classes);
    ck_assert_msg(status == 0, "%s", output);
    static const char *const words[] = { "3 folds each", "001-fold0", "001-fold1", "001-fold2",
                                         "balanced_accuracy" };
    for (int i = 0; i < 5; i++) ck_assert_msg(strstr(output, words[i]) != NULL, "%s", output);
    free(output);
    const int one = test_shell(
        &output, "cd %s && '" DETENT_BINARY_DIR "/detent' sweep r.yaml --folds 1 2>&1", folder);
    ck_assert_int_eq(one, 2);
    ck_assert_ptr_nonnull(strstr(output, "--folds is 1, and should be 2 to 100"));
    free(output);
    compare_doors();
}
END_TEST

/* ---- names ---------------------------------------------------------------------------------- */

START_TEST(fields_of_names)
{
    static const struct {
        const char *pattern, *path, *field, *is;
    } names[] = {
        { "{label}_{group}_{index}.wav", "a/0_george_12.wav", "group", "george" },
        { "{label}_{group}_{index}.wav", "0_george_12.wav", "index", "12" },
        { "x{label}", "a/xyes", "label", "yes" },
        { "{label}.wav", "a.b/two.words.wav", "label", "two.words" },
        { "{label}_{group}.wav", "a_b_c.wav", "group", "b_c" },
        { "{label}_{group}.wav", "_b.wav", "label", NULL },
        { "{label}_{group}.wav", "a_.wav", "group", NULL },
        { "{label}_{group}.wav", "ab.wav", "label", NULL },
        { "{label}.wav", "a.flac", "label", NULL },
        { "{label}.wav", "a.wav", "group", NULL },
        { "{label}{group}", "ab", "label", NULL },
        { "{label", "a", "label", NULL },
        { "{label}}", "a}", "label", NULL },
        { "", "", "label", NULL },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *begin;
        size_t n;
        const bool found =
            dt__name_field(names[i].pattern, names[i].path, names[i].field, &begin, &n);
        ck_assert_msg(found == (names[i].is != NULL), "%s in %s", names[i].pattern, names[i].path);
        if (!found) continue;
        ck_assert_uint_eq(n, strlen(names[i].is));
        ck_assert_mem_eq(begin, names[i].is, n);
    }
    ck_assert_ptr_null(dt__name_pattern_fault("{label}_{x}.wav"));
    ck_assert_ptr_nonnull(dt__name_pattern_fault("{x}.wav"));
    ck_assert_ptr_nonnull(dt__name_pattern_fault("{label}{group}"));
    ck_assert_ptr_nonnull(dt__name_pattern_fault("a}{label}"));
    ck_assert_ptr_nonnull(dt__name_pattern_fault("{}{label}"));
}
END_TEST

Suite *test_splits_suite(void)
{
    Suite *s = suite_create("splits");
    TCase *c = tcase_create("splits");
    tcase_add_loop_test(c, groups_stay_whole, 0, 20);
    tcase_add_loop_test(c, folds_hold_each_row_once, 0, 12);
    tcase_add_loop_test(c, time_goes_forward, 0, 8);
    tcase_add_test(c, what_is_refused);
    tcase_add_test(c, names_of_recordings);
    tcase_add_test(c, fields_of_names);
    tcase_add_loop_test(c, leaks_are_said, 0, 18);
    tcase_add_loop_test(c, memory_may_run_out, 0, 3);
    tcase_add_test(c, the_program_runs_folds);
    suite_add_tcase(s, c);
    return s;
}
