/* data.series: windows of tables in long form. The tables are random; which rows belong to which
 * window, and its label, is computed again by searching. */
#include "data/arrays.h"
#include "sample.h"

#include <detent/experimental/io.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 240, ROOM = 4 * MOST, LABELS = 3 };

static char folder[TEST_PATH];
static uint32_t state;

static int below(int n)
{
    state = state * 1664525U + 1013904223U;
    return (int)((state >> 8) % (uint32_t)n);
}

typedef struct table {
    int n, series, length, stride, rule;
    bool timed, named, dates, typed;
    int of[MOST], label[MOST];
    double time[MOST], v[MOST]; /* v NaN: missing */
    double gap;                 /* 0: by default */
} table;

/* Series in blocks or one among the other; with times the rows may be in no order. */
static void draw_labels(table *t)
{
    int label = 0;
    for (int r = 0; r < t->n; r++) {
        if (below(t->rule == DT_SERIES_PURE ? 15 : 3) == 0) label = below(LABELS);
        t->label[r] = r < LABELS ? r : label;
        t->v[r] = below(4) == 0 ? (double)NAN : below(2000) / 8.0;
    }
    t->v[0] = 1;
}

static void swap_rows(table *t, int a, int b)
{
    const int of = t->of[a], label = t->label[a];
    const double time = t->time[a], v = t->v[a];
    t->of[a] = t->of[b], t->label[a] = t->label[b], t->time[a] = t->time[b], t->v[a] = t->v[b];
    t->of[b] = of, t->label[b] = label, t->time[b] = time, t->v[b] = v;
}

static table draw_table(int i)
{
    double clock[8] = { 0 };
    state = (uint32_t)i * 7919U + 31U;
    table t = { .n = 60 + below(MOST - 60), .series = 1 + below(6), .rule = i % 3 };
    t.length = 1 + below(8);
    t.stride = 1 + below(t.length + 3);
    t.timed = below(3) > 0;
    t.named = t.series > 1 || below(2);
    t.dates = t.timed && below(2);
    t.typed = below(2);
    t.gap = t.timed && below(2) ? 1.5 : 0;
    const bool blocks = below(2);
    for (int r = 0; r < t.n; r++) {
        t.of[r] = blocks ? r * t.series / t.n : below(t.series);
        t.time[r] = clock[t.of[r]] += below(12) == 0 ? 10 : below(5) == 0 ? 0.5 : 0.25;
    }
    draw_labels(&t);
    for (int r = t.n - 1; r > 0 && t.timed && below(2) == 0; r--) swap_rows(&t, r, below(r + 1));
    return t;
}

static void put_time(char *to, const table *t, int r)
{
    const int ms = (int)(t->time[r] * 1000), s = ms / 1000;
    if (t->dates)
        sprintf(to, "2024-05-31T%02d:%02d:%02d.%03d", s / 3600, s / 60 % 60, s % 60, ms % 1000);
    else sprintf(to, "%.17g", t->time[r] - 100);
}

static dt_column_rule rule = { .type = DT_COLUMN_NUMBER, .missing = DT_MISSING_LAST };
static dt_list_item items[] = { { NULL, &rule } };

static dt_data_options write_table(const table *t)
{
    static char text[MOST * 96];
    char path[TEST_PATH], time[64], v[32];
    int used = sprintf(text, "row,subject,when,session,v,label\n");
    for (int r = 0; r < t->n; r++) {
        put_time(time, t, r);
        snprintf(v, sizeof v, t->typed && isnan(t->v[r]) ? "" : "%.4f",
                 isnan(t->v[r]) ? 0 : t->v[r]);
        used += sprintf(text + used, "%d,p%d,%s,%d,%s,c%d\n", r, t->of[r] / 2, time, t->of[r] % 2,
                        v, t->label[r]);
    }
    test_folder(folder);
    test_join(path, folder, "t.csv");
    test_write_file(path, text, (size_t)used);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train_tensors = (dt_tensor_files){ true, { 1, { "t.csv" } }, NULL };
    o.columns.inputs = (dt_strings){ 2, { "row", "v" } };
    o.columns.target = (dt_strings){ 1, { "label" } };
    o.window = (dt_window){ .given = true, .length = t->length, .stride = t->stride };
    o.series = (dt_series_options){ .given = true, .gap = t->gap, .label = t->rule };
    if (t->timed) o.series.time = "when";
    if (t->named) o.series.by = (dt_strings){ 2, { "subject", "session" } };
    rule.columns = (dt_strings){ 1, { "v" } };
    if (t->typed) o.columns.types = (dt_item_list){ 1, items };
    return o;
}

/* ---- once more ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The rows of the series of row r, in order. */
static int rows_of(const table *t, int r, int *rows)
{
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        if (t->of[i] == t->of[r]) rows[n++] = i;
    }
    for (int i = 1; i < n && t->timed; i++) {
        for (int k = i; k > 0 && t->time[rows[k]] < t->time[rows[k - 1]]; k--) {
            const int row = rows[k];
            rows[k] = rows[k - 1];
            rows[k - 1] = row;
        }
    }
    return n;
}

static double gap_of(const table *t)
{
    static double step[MOST];
    int rows[MOST], n = 0;
    if (!t->timed) return INFINITY;
    if (t->gap > 0) return t->gap;
    for (int r = 0; r < t->n; r++) {
        const int all = rows_of(t, r, rows);
        for (int i = 1; i < all && rows[0] >= 0; i++) {
            if (rows[i] == r) step[n++] = t->time[r] - t->time[rows[i - 1]];
        }
    }
    qsort(step, (size_t)n, sizeof *step, by_number);
    return 3.003 * step[n / 2];
}

static int label_of(const table *t, const int *rows)
{
    int best = 0, count[LABELS] = { 0 }, last[LABELS] = { 0 };
    if (t->rule != DT_SERIES_MAJORITY) return t->label[rows[t->length - 1]];
    for (int i = 0; i < t->length; i++) {
        count[t->label[rows[i]]]++;
        last[t->label[rows[i]]] = i;
    }
    for (int c = 1; c < LABELS; c++) {
        if (count[c] > count[best] || (count[c] == count[best] && last[c] > last[best])) best = c;
    }
    return best;
}

/* A window: its rows, and what stands above each in its run. */
typedef struct window {
    int row[8], label;
    double v[8]; /* filled in by the last one of the run; NaN: there is none */
} window;

static bool is_pure(const table *t, const int *rows)
{
    int i = 0;
    while (i < t->length && t->label[rows[i]] == t->label[rows[0]]) i++;
    return i == t->length;
}

static int search(const table *t, window *out)
{
    const double gap = gap_of(t);
    int n = 0, rows[MOST];
    for (int r = 0; r < t->n; r++) {
        int first = 0;
        while (t->of[first] != t->of[r]) first++;
        if (first != r) continue; /* series are in the order of their first rows */
        const int all = rows_of(t, r, rows);
        for (int begin = 0, past; begin < all; begin = past) {
            for (past = begin + 1; past < all; past++) {
                if (t->timed && t->time[rows[past]] - t->time[rows[past - 1]] > gap) break;
            }
            for (int i = begin; i + t->length <= past; i += t->stride) {
                if (t->rule == DT_SERIES_PURE && !is_pure(t, rows + i)) continue;
                window *w = &out[n++];
                w->label = label_of(t, rows + i);
                for (int k = 0; k < t->length; k++) {
                    w->row[k] = rows[i + k];
                    w->v[k] = (double)NAN;
                    for (int at = begin; at <= i + k; at++) {
                        if (!isnan(t->v[rows[at]])) w->v[k] = t->v[rows[at]];
                    }
                }
            }
        }
    }
    return n;
}

/* The median of the values in rows of windows. */
static double median_of(const table *t, const window *w, int n)
{
    static double v[MOST];
    int count = 0;
    for (int r = 0; r < t->n; r++) {
        bool used = false;
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < t->length; k++) used = used || w[i].row[k] == r;
        }
        if (used && !isnan(t->v[r])) v[count++] = t->v[r];
    }
    if (count == 0) return 0;
    qsort(v, (size_t)count, sizeof *v, by_number);
    return (v[(count - 1) / 2] + v[count / 2]) / 2;
}

static void compare(dt_ctx *ctx, const table *t, const dt_dataset *d, const window *w, int n)
{
    const bool labels = dt_dataset_classes(d) == LABELS;
    dt_loader *l;
    dt_tensor *x, *y;
    const double median = median_of(t, w, n);
    ck_assert_int_eq(dt_dataset_count(d), n);
    const dt_loader_options all = { .batch_size = n };
    TEST_OK(ctx, dt_loader_create(d, &all, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    ck_assert_int_eq(dt_dim(x, 1), t->length);
    ck_assert_int_eq(dt_dim(x, 2), 2);
    const float *v = dt_data(x);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(dt_dataset_label(d, i), labels ? w[i].label : 0);
        for (int k = 0; k < t->length; k++, v += 2) {
            const double raw = t->v[w[i].row[k]], last = isnan(w[i].v[k]) ? median : w[i].v[k];
            ck_assert_int_eq((int)v[0], w[i].row[k]);
            ck_assert_float_eq(v[1], (float)(t->typed ? last : isnan(raw) ? 0 : raw));
        }
    }
    dt_loader_free(l);
}

static dt_status add_text(void *user, const char *bytes, size_t n)
{
    strncat(user, bytes, n);
    return DT_OK;
}

/* A program with only the model's file gets the same windows, with the texts of their last rows. */
static void open_again(dt_ctx *ctx, const table *t, const dt_dataset *d, const window *w, int n)
{
    static char text[16384];
    char path[TEST_PATH], time[64];
    dt_model_data data;
    dt_dataset *again;
    if (t->rule == DT_SERIES_PURE) return; /* labels choose windows */
    text[0] = 0;
    TEST_OK(ctx, dt_model_data_text(d, add_text, text));
    TEST_OK(ctx, dt_model_data_parse(ctx, text, "text", &data));
    test_join(path, folder, "t.csv");
    TEST_OK(ctx, dt_model_data_open(ctx, &data, path, NULL, &again));
    compare(ctx, t, again, w, n);
    ck_assert_int_eq(dt_dataset_kept(again), 2 * t->named + t->timed);
    for (int i = 0; i < n && t->timed; i++) {
        put_time(time, t, w[i].row[t->length - 1]);
        ck_assert_str_eq(dt_dataset_kept_text(again, 2 * t->named, i), time);
    }
    dt_dataset_free(again);
    dt_model_data_free(ctx, &data);
}

START_TEST(windows_are_those_of_a_search)
{
    static window w[ROOM];
    const table t = draw_table(_i);
    const int n = search(&t, w);
    dt_ctx *ctx = sample_context(1);
    const dt_data_options o = write_table(&t);
    dt_dataset *d[3];
    const dt_status s = dt_data_open(ctx, &o, &d[0], &d[1], &d[2]);
    if (n == 0) {
        ck_assert_int_eq(s, DT_ERR_CONFIG);
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "data.window.length"));
    } else if (s != DT_OK) { /* columns without a value in the windows */
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "has no value in the rows"));
    } else {
        compare(ctx, &t, d[0], w, n);
        open_again(ctx, &t, d[0], w, n);
    }
    dt_dataset_free(d[0]);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- parts ---------------------------------------------------------------------------------- */

/* No row is in two parts, whole groups or series are in one, and the newest rows are the newest. */
static void check_parts(dt_ctx *ctx, const table *t, dt_dataset *d[3], int by)
{
    int part[MOST], group[8];
    double newest[3] = { -1, -1, -1 }, oldest[3] = { INFINITY, INFINITY, INFINITY };
    for (int r = 0; r < t->n; r++) part[r] = -1;
    for (int i = 0; i < 8; i++) group[i] = -1;
    for (int p = 0; p < 3; p++) {
        dt_loader *l;
        dt_tensor *x, *y;
        const dt_loader_options all = { .batch_size = dt_dataset_count(d[p]) };
        ck_assert_int_ge(all.batch_size, 1);
        TEST_OK(ctx, dt_loader_create(d[p], &all, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        const float *v = dt_data(x);
        for (int64_t i = 0; i < all.batch_size * t->length; i++) {
            const int r = (int)v[2 * i], of = by == DT_SPLIT_GROUP ? t->of[r] / 2 : t->of[r];
            ck_assert(part[r] == -1 || part[r] == p);
            ck_assert(by == DT_SPLIT_TIME || group[of] == -1 || group[of] == p);
            part[r] = group[of] = p;
            newest[p] = fmax(newest[p], t->time[r]);
            oldest[p] = fmin(oldest[p], t->time[r]);
        }
        dt_loader_free(l);
        dt_dataset_free(d[p]);
    }
    if (by != DT_SPLIT_TIME) return;
    ck_assert(newest[0] <= oldest[1] && newest[1] <= oldest[2]);
}

START_TEST(parts_share_no_row)
{
    static const int kinds[] = { DT_SPLIT_GROUP, DT_SPLIT_TIME, DT_SPLIT_AUTO };
    dt_ctx *ctx = sample_context(1);
    table t = draw_table(_i);
    dt_dataset *d[3];
    t.length = 3, t.stride = 1 + _i % 3, t.series = 6, t.typed = false, t.rule = DT_SERIES_LAST;
    t.timed = t.named = true, t.gap = 0, t.n = MOST;
    for (int r = 0; r < t.n; r++) {
        t.of[r] = r * 6 / MOST;
        t.time[r] = r % (MOST / 6) * 0.25;
        t.label[r] = r % LABELS;
    }
    dt_data_options o = write_table(&t);
    o.split = (dt_split_options){ .by = kinds[_i % 3], .test = 0.25 };
    if (_i % 3 == 0) o.split.column = "subject";
    o.validation = 0.3;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    check_parts(ctx, &t, d, kinds[_i % 3]);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- bad input ------------------------------------------------------------------------------ */

static void refuses(dt_ctx *ctx, const dt_data_options *o, dt_status s, const char *words)
{
    dt_dataset *d[3] = { NULL };
    TEST_FAILS(ctx, s, words, dt_data_open(ctx, o, &d[0], &d[1], &d[2]));
}

static void write_rows(const char *rows)
{
    char path[TEST_PATH];
    test_join(path, folder, "t.csv");
    test_write_file(path, rows, strlen(rows));
}

START_TEST(bad_series_are_refused)
{
    dt_ctx *ctx = sample_context(1);
    table t = draw_table(1);
    t.timed = t.named = true, t.dates = t.typed = false;
    const dt_data_options good = write_table(&t);
    dt_data_options o = good;
    o.series.by = (dt_strings){ 1, { "person" } };
    refuses(ctx, &o, DT_ERR_CONFIG, "'person' is not a column");
    o = good, o.series.time = "clock";
    refuses(ctx, &o, DT_ERR_CONFIG, "'clock' is not a column");
    o = good, o.window.length = MOST + 1;
    refuses(ctx, &o, DT_ERR_CONFIG, "the longest run of rows");
    o = good, o.window.seconds = 2;
    refuses(ctx, &o, DT_ERR_CONFIG, "data.window.length");
    o = good, o.window.length = 0, o.window.seconds = 1e-3;
    refuses(ctx, &o, DT_ERR_CONFIG, "data.window.seconds");
    o = good, o.split.by = DT_SPLIT_STRATIFIED, o.validation = 0.2;
    refuses(ctx, &o, DT_ERR_CONFIG, "expected group, file, time or auto");
    o = good, o.train_tensors = (dt_tensor_files){ .given = false };
    o.train = (dt_strings){ 1, { "t.csv" } };
    refuses(ctx, &o, DT_ERR_CONFIG, "data.");
    write_rows("row,subject,when,session,v,label\n0,a,1,0,1,x\n1,a,2,0,1,y\n2,a,2,0,1,y\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "rows 2 and 3 are of one series and have the same time");
    write_rows("row,subject,when,session,v,label\n0,a,1,0,1,x\n1,a,,0,1,y\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "row 2, column 'when': '' is not a time");
    write_rows("row,subject,when,session,v,label\n0,a,1,0,1,x\n1,a,2024-05-31,0,1,y\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "expected numbers in all rows");
    dt_ctx_free(ctx);
}
END_TEST

/* Opens the data, writes the description that a model's file has, and reads the table by it. */
static dt_status open_both(dt_ctx *ctx, void *user)
{
    static char text[16384];
    char path[TEST_PATH];
    dt_dataset *d[4] = { NULL };
    dt_model_data data = { .target = NULL };
    text[0] = 0;
    test_join(path, folder, "t.csv");
    dt_status s = dt_data_open(ctx, user, &d[0], &d[1], &d[2]);
    if (s == DT_OK) s = dt_model_data_text(d[0], add_text, text);
    if (s == DT_OK) s = dt_model_data_parse(ctx, text, "text", &data);
    if (s == DT_OK) s = dt_model_data_open(ctx, &data, path, NULL, &d[3]);
    for (int i = 0; i < 4; i++) dt_dataset_free(d[i]);
    dt_model_data_free(ctx, &data);
    return s;
}

START_TEST(memory_may_run_out)
{
    table t = draw_table(_i);
    t.length = 2, t.stride = 1, t.n = 60, t.named = t.typed = true, t.rule = DT_SERIES_MAJORITY;
    dt_data_options o = write_table(&t);
    o.split = (dt_split_options){ .test = 0.3 };
    o.validation = 0.2;
    test_every_allocation(open_both, &o);
}
END_TEST

Suite *test_series_suite(void)
{
    Suite *s = suite_create("series");
    TCase *c = tcase_create("series");
    tcase_add_loop_test(c, windows_are_those_of_a_search, 0, 300);
    tcase_add_loop_test(c, parts_share_no_row, 0, 30);
    tcase_add_test(c, bad_series_are_refused);
    tcase_add_loop_test(c, memory_may_run_out, 1, 4);
    suite_add_tcase(s, c);
    return s;
}
