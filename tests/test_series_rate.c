/* data.series.rate: rows of several sensors are resampled to one clock. Each draw is two random
 * files with steps, gaps and series of their own; the values at each moment are computed again by
 * searching all rows. */
#include "data/arrays.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <detent/experimental/tables.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 90, MOST = 2 * EACH, COLUMNS = 3, ROOM = 4000, LABELS = 3 };

static char folder[TEST_PATH];
static uint32_t state;

static int below(int n)
{
    state = state * 1664525U + 1013904223U;
    return (int)((state >> 8) % (uint32_t)n);
}

/* A row has the columns of its file: x and the label, or x.2 and y; NaN, -1: an empty field. */
typedef struct row {
    int who, label;
    double time, v[COLUMNS];
} row;

typedef struct sensors {
    row row[MOST]; /* EACH of the first file, then of the second */
    int n, series, length, stride, method;
    double rate, gap; /* 0: by default */
    bool typed;       /* y may be missing */
} sensors;

static void draw_file(sensors *s, int file)
{
    double clock[4] = { 0.25 * below(3), 0.25 * below(3), 1, 0 };
    const double step = file == 0 ? 0.25 : 0.5;
    int label = 0;
    for (int i = 0; i < EACH; i++) {
        row *r = &s->row[s->n++];
        r->who = i < s->series ? i : i * s->series / EACH;
        r->time = clock[r->who] += below(25) == 0 ? 4 : step * (1 + below(3) / 8.0);
        if (below(6) == 0) label = below(LABELS);
        r->label = file == 0 ? (i < LABELS ? i : label) : -1;
        for (int c = 0; c < COLUMNS; c++) {
            const bool there = (file == 0) == (c == 0) && below(15) > 0;
            r->v[c] = there ? below(4000) / 16.0 : (double)NAN;
        }
    }
}

static sensors draw_sensors(int i)
{
    state = (uint32_t)i * 7919U + 11U;
    sensors s = { .series = 1 + below(3), .method = i % 3, .typed = i % 2 };
    s.length = 1 + below(5);
    s.stride = 1 + below(s.length + 2);
    s.rate = (double[]){ 2, 3.5, 8 }[below(3)];
    s.gap = below(2) ? 1.25 : 0;
    draw_file(&s, 0);
    draw_file(&s, 1);
    return s;
}

static int put_number(char *to, double v)
{
    return isnan(v) ? sprintf(to, ",") : sprintf(to, "%.17g,", v);
}

static void write_file(const sensors *s, int file, const char *name)
{
    static char text[EACH * 96];
    char path[TEST_PATH];
    int used = sprintf(text, file == 0 ? "x,when,label,who\n" : "x;y;when;who\n");
    for (int i = 0; i < EACH; i++) {
        const row *r = &s->row[file * EACH + i];
        const int begin = used;
        used += put_number(text + used, r->v[file]);
        if (file == 1) used += put_number(text + used, r->v[2]);
        used += put_number(text + used, r->time - 50);
        if (file == 0) used += sprintf(text + used, "c%d,", r->label);
        used += sprintf(text + used, "p%d\n", r->who);
        for (int k = begin; k < used && file == 1; k++) text[k] = text[k] == ',' ? ';' : text[k];
    }
    test_join(path, folder, name);
    test_write_file(path, text, (size_t)used);
}

static dt_column_rule rule = { .type = DT_COLUMN_NUMBER,
                               .missing = DT_MISSING_CONSTANT,
                               .fill = "-7",
                               .columns = { 1, { "y" } } };
static dt_list_item items[] = { { NULL, &rule } };

static dt_data_options write_sensors(const sensors *s)
{
    test_folder(folder);
    write_file(s, 0, "a.csv");
    write_file(s, 1, "b.csv");
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train_tensors = (dt_tensor_files){ true, { 1, { "a.csv+b.csv" } }, NULL };
    o.columns.target = (dt_strings){ 1, { "label" } };
    o.window = (dt_window){ .given = true, .length = s->length, .stride = s->stride };
    o.series = (dt_series_options){ .given = true,
                                    .gap = s->gap,
                                    .time = "when",
                                    .rate = s->rate,
                                    .method = s->method,
                                    .by = { 1, { "who" } } };
    if (s->typed) o.columns.types = (dt_item_list){ 1, items };
    return o;
}

/* ---- once more ------------------------------------------------------------------------------ */

typedef struct moment {
    int label;
    int64_t k;
    double v[COLUMNS];
} moment;

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The row of a series with a value of column c at or before a time (`side` -1), or after it. */
static const row *nearest(const sensors *s, int who, int c, double time, int side)
{
    const row *best = NULL;
    for (int i = 0; i < s->n; i++) {
        const row *r = &s->row[i];
        if (r->who != who || (c >= 0 && isnan(r->v[c])) || (c == -2 && r->label < 0)) continue;
        if ((side < 0) != (r->time <= time)) continue;
        const double best_time = best == NULL ? 0 : best->time;
        if (best == NULL || (side < 0 ? r->time > best_time : r->time < best_time)) best = r;
    }
    return best;
}

static double gap_of(const sensors *s)
{
    double most = 1 / s->rate;
    if (s->gap > 0) return s->gap;
    for (int c = 0; c < COLUMNS; c++) {
        double step[MOST];
        int n = 0;
        for (int i = 0; i < s->n; i++) {
            const row *r = &s->row[i];
            const row *next = isnan(r->v[c]) ? NULL : nearest(s, r->who, c, r->time, 1);
            if (next != NULL) step[n++] = next->time - r->time;
        }
        qsort(step, (size_t)n, sizeof *step, by_number);
        most = fmax(most, step[n / 2]);
    }
    return 3.003 * most;
}

static double value_of(const sensors *s, int who, int c, double time, double gap)
{
    const row *last = nearest(s, who, c, time + 1e-3 / s->rate, -1);
    const row *next = nearest(s, who, c, time + 1e-3 / s->rate, 1);
    const double before = last == NULL ? INFINITY : time - last->time;
    const double after = next == NULL ? INFINITY : next->time - time;
    gap += 1e-3 / s->rate;
    if (before <= 1e-3 / s->rate) return last->v[c];
    if (s->method == DT_SERIES_BEFORE) return before <= gap ? last->v[c] : (double)NAN;
    if (s->method == DT_SERIES_NEAREST) {
        if (before > gap && after > gap) return (double)NAN;
        return before <= after ? last->v[c] : next->v[c];
    }
    if (before + after > gap) return (double)NAN;
    return (last->v[c] * after + next->v[c] * before) / (before + after);
}

/* The moments of a series, in order. Rows more than a gap apart do not influence each other. */
static int sample(const sensors *s, int who, double gap, moment *out)
{
    const row *first = nearest(s, who, -1, -1, 1);
    int n = 0, label = -1;
    for (int64_t k = 0; first != NULL && k < 100000; k++) {
        const double time = first->time + (double)k / s->rate;
        const row *last = nearest(s, who, -1, time + 1e-3 / s->rate, -1);
        const row *next = nearest(s, who, -1, time + 1e-3 / s->rate, 1);
        const bool there = last->time >= time - 1e-3 / s->rate;
        if (next == NULL && !there) break;
        const bool gone = next == NULL || next->time - last->time > gap + 1e-3 / s->rate;
        moment m = { .k = k };
        if (gone && !there) {
            label = -1;
            continue;
        }
        const row *labelled = nearest(s, who, -2, time + 1e-3 / s->rate, -1);
        label = labelled == NULL ? -1 : labelled->label;
        /* a label counts as long as rows follow it */
        for (const row *r = labelled; r != NULL && r->time < last->time;) {
            const row *after = nearest(s, who, -1, r->time, 1);
            if (after->time - r->time > gap + 1e-3 / s->rate) label = -1;
            r = after;
        }
        m.label = label;
        bool lacks = label < 0;
        for (int c = 0; c < COLUMNS; c++) {
            m.v[c] = value_of(s, who, c, time, gap);
            if (isnan(m.v[c]) && s->typed && c == 2) m.v[c] = -7;
            lacks = lacks || isnan(m.v[c]);
        }
        if (!lacks) out[n++] = m;
    }
    return n;
}

static int search(const sensors *s, moment (*window)[8])
{
    static moment m[ROOM];
    const double gap = gap_of(s);
    int windows = 0;
    for (int i = 0; i < s->series; i++) {
        const int n = sample(s, s->row[i].who, gap, m);
        for (int begin = 0, past; begin < n; begin = past) {
            for (past = begin + 1; past < n && m[past].k == m[past - 1].k + 1;) past++;
            for (int k = begin; k + s->length <= past; k += s->stride) {
                memcpy(window[windows++], m + k, (size_t)s->length * sizeof *m);
            }
        }
    }
    return windows;
}

static void compare(dt_ctx *ctx, const sensors *s, const dt_dataset *d, moment (*w)[8], int n)
{
    dt_loader *l;
    dt_tensor *x, *y;
    const bool labels = dt_dataset_classes(d) > 1;
    ck_assert_int_eq(dt_dataset_count(d), n);
    const dt_loader_options all = { .batch_size = n };
    TEST_OK(ctx, dt_loader_create(d, &all, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    ck_assert_int_eq(dt_dim(x, 2), COLUMNS);
    const float *v = dt_data(x);
    for (int i = 0; i < n; i++) {
        if (labels) ck_assert_int_eq(dt_dataset_label(d, i), w[i][s->length - 1].label);
        for (int k = 0; k < s->length * COLUMNS; k++, v++) {
            const double wanted = w[i][k / COLUMNS].v[k % COLUMNS];
            ck_assert_double_le(fabs((double)*v - wanted), 1e-4);
        }
    }
    dt_loader_free(l);
}

static dt_status add_text(void *user, const char *bytes, size_t n)
{
    strncat(user, bytes, n);
    return DT_OK;
}

/* A program with only the model's file gets the same bits; there labels select no moments. */
static void open_again(dt_ctx *ctx, const dt_dataset *d, const char *names)
{
    static char text[16384];
    char path[3 * TEST_PATH];
    dt_model_data data;
    dt_dataset *again;
    text[0] = 0;
    TEST_OK(ctx, dt_model_data_text(d, add_text, text));
    ck_assert_ptr_nonnull(strstr(text, "\"rate\""));
    TEST_OK(ctx, dt_model_data_parse(ctx, text, "text", &data));
    snprintf(path, sizeof path, "%s/a.csv+%s/%s", folder, folder, names);
    TEST_OK(ctx, dt_model_data_open(ctx, &data, path, NULL, &again));
    const dt__array_store *s = d->arrays, *t = again->arrays;
    const int64_t n = dt_dataset_count(d), each = dt__array_size(s);
    ck_assert_int_ge(dt_dataset_count(again), n);
    float *x = malloc((size_t)each * 2 * sizeof *x);
    for (int64_t i = 0, at = 0; i < n; i++, at++) {
        dt__array_example(s, i, x);
        for (;; at++) { /* of moments before the first label there are windows, too */
            ck_assert_int_lt(at, dt_dataset_count(again));
            dt__array_example(t, at, x + each);
            if (memcmp(x, x + each, (size_t)each * sizeof *x) == 0) break;
        }
    }
    free(x);
    dt_dataset_free(again);
    dt_model_data_free(ctx, &data);
}

START_TEST(moments_are_those_of_a_search)
{
    static moment w[ROOM][8];
    const sensors s = draw_sensors(_i);
    const int n = search(&s, w);
    dt_ctx *ctx = sample_context(1);
    const dt_data_options o = write_sensors(&s);
    dt_dataset *d[3];
    const dt_status status = dt_data_open(ctx, &o, &d[0], &d[1], &d[2]);
    if (n == 0) {
        ck_assert(status == DT_ERR_CONFIG || status == DT_ERR_FORMAT);
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "data."));
    } else {
        if (status != DT_OK) ck_abort_msg("%s", dt_error(ctx));
        compare(ctx, &s, d[0], w, n);
        if (s.stride == 1) open_again(ctx, d[0], "b.csv");
    }
    dt_dataset_free(d[0]);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- bad input ------------------------------------------------------------------------------ */

#define refuses(ctx, o, s, words)                                                                  \
    do {                                                                                           \
        dt_dataset *d[3] = { NULL };                                                               \
        TEST_FAILS(ctx, s, words, dt_data_open(ctx, o, &d[0], &d[1], &d[2]));                      \
    } while (0)

static void write_rows(const char *name, const char *rows)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_file(path, rows, strlen(rows));
}

START_TEST(bad_sensors_are_refused)
{
    dt_ctx *ctx = sample_context(1);
    sensors s = draw_sensors(3);
    s.rate = 2, s.gap = 2, s.length = 1, s.typed = false;
    const dt_data_options good = write_sensors(&s);
    dt_data_options o = good;
    o.series.rate = 0;
    refuses(ctx, &o, DT_ERR_CONFIG, "expected files with a header and a data.series.rate");
    o = good, o.series.rate = 1e9, o.series.gap = 1e6;
    refuses(ctx, &o, DT_ERR_CONFIG, "data.series.rate: 1e+09 rows a unit of 'when'");
    o = good, o.train_tensors.x.v[0] = "a.csv+c.csv";
    refuses(ctx, &o, DT_ERR_IO, "c.csv");
    o = good, o.train_tensors.x.v[0] = "?.csv+b.csv";
    refuses(ctx, &o, DT_ERR_CONFIG, "2 files match '?.csv', but 1 'b.csv'");
    write_rows("b.csv", "x,y,when\n1,2,3\n");
    refuses(ctx, &good, DT_ERR_CONFIG, "has no column 'who' of data.series");
    write_rows("b.csv", "x,y,x,when,who\n1,2,3,4,p0\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "two columns have the same name, 'x.2'");
    write_rows("b.csv", "x,y,when,who\n1,2,-49,p0\n\"1\n\",zwei,-48,p0\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "b.csv': row 2, column 'x.2'");
    write_rows("b.csv", "x,y,when,who\n1,2,-49,p0\n1,2,-49,p0\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "have the same time, and values in column 'x.2'");
    write_rows("b.csv", "x,y,when,who\n1,2,-49,p0\n1,2\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "b.csv': line 3 has 2 fields; expected 4");
    write_rows("b.csv", "x,y,when,who\n1,2,soon,p0\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "'soon' is not a time of data.series");
    write_rows("b.csv", "x,y,when,who\n1,2,900,p0\n");
    refuses(ctx, &good, DT_ERR_FORMAT, "no moment has a value of every column within 2");
    write_rows("b.csv", "");
    refuses(ctx, &good, DT_ERR_FORMAT, "an empty file; expected");
    dt_ctx_free(ctx);
}
END_TEST

static dt_status open_both(dt_ctx *ctx, void *user)
{
    dt_dataset *d[3] = { NULL };
    const dt_status s = dt_data_open(ctx, user, &d[0], &d[1], &d[2]);
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
    return s;
}

START_TEST(memory_may_run_out)
{
    sensors s = draw_sensors(_i);
    s.rate = 2, s.gap = 2, s.length = 1;
    dt_data_options o = write_sensors(&s);
    test_every_allocation(open_both, &o);
}
END_TEST

/* Patterns of tables with several files, and what dt_table_look_at finds. */
START_TEST(patterns_join_files_in_order)
{
    static const char *const rows[] = { "x,when,label\n1,0,u\n2,1,v\n3,2,v\n",
                                        "y,when\n10,0.5\n20,1.5\n" };
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = dt_data_defaults();
    dt_dataset *d[3];
    dt_table_look look;
    const dt_csv_options header = { .header = true };
    char name[32], path[3 * TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "%d_%c.csv", i / 2, 'a' + i % 2);
        write_rows(name, rows[i % 2]);
    }
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train_tensors = (dt_tensor_files){ true, { 1, { "*_a.csv+*_b.csv" } }, NULL };
    o.columns.target = (dt_strings){ 1, { "label" } };
    o.window = (dt_window){ .given = true, .length = 1, .stride = 1 };
    o.series = (dt_series_options){ .given = true, .time = "when", .rate = 2 };
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    ck_assert_int_eq(dt_dataset_count(d[0]), 9); /* 0.5, 1 and 1.5 of each */
    float x[2];
    dt__array_example(d[0]->arrays, 4, x);
    ck_assert_float_eq(x[0], 2);
    ck_assert_float_eq(x[1], 15);
    dt_dataset_free(d[0]);
    snprintf(path, sizeof path, "%s/*_a.csv+%s/*_b.csv", folder, folder);
    TEST_OK(ctx, dt_table_look_at(ctx, path, &header, &look));
    ck_assert_int_eq(look.files, 3);
    ck_assert_int_eq(look.n, 3);
    ck_assert_double_eq(look.column[1].spread, 0);
    dt_table_look_free(ctx, &look);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_series_rate_suite(void)
{
    Suite *s = suite_create("series_rate");
    TCase *c = tcase_create("series_rate");
    tcase_add_loop_test(c, moments_are_those_of_a_search, 0, 200);
    tcase_add_test(c, bad_sensors_are_refused);
    tcase_add_test(c, patterns_join_files_in_order);
    tcase_add_loop_test(c, memory_may_run_out, 1, 3);
    suite_add_tcase(s, c);
    return s;
}
