/* Numbers that f32 merges: columns drawn at random, in arrays of all types and in tables, are
 * refused if and only if the definition in merging.h says so, where they are trained on and where a
 * model reads them. */
#include "array_files.h"
#include "data/tables/merging.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 60, COLUMNS = 3 };

static char folder[TEST_PATH];

static const char *path_of(const char *name)
{
    static char path[TEST_PATH];
    if (folder[0] == 0) test_folder(folder);
    test_join(path, folder, name);
    return path;
}

typedef struct drawing {
    uint32_t word[4];
    uint64_t at;
} drawing;

static uint32_t below(drawing *d, uint32_t n)
{
    if (d->at % 4 == 0) dt__philox(37, d->at / 4, d->word);
    return d->word[d->at++ % 4] % n;
}

/* ---- columns ------------------------------------------------------------------------------ */

/* Seconds, milliseconds and others since 1970; numbers of parts; places on a map; measurements. */
static const struct {
    double from, step;
    uint32_t steps;
} kinds[] = {
    { 1700000000, 1, 300 },
    { 1700000000, 3600, 5000 },
    { 1700000000000, 60000, 100000 },
    { 1.7e18, 1e9, 1000 },
    { 16777000, 1, 1000 },
    { 0, 1, 20000000 },
    { -1, 2.0 / 65536, 65536 },
    { 52.5163, 1e-7, 200 },
    { 1, 1e-9, 50 },
    { 1700000000.5, 0.1, 500 },
    { 0, 1e-3, 100000 },
    { -40000000, 3, 30000000 },
    { 0.1, 0, 1 },
    { 1e30, 1e25, 100 },
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void draw_column(drawing *d, int kind, bool whole, double *v)
{
    for (int i = 0; i < ROWS; i++) {
        v[i * COLUMNS] = kinds[kind].from + kinds[kind].step * below(d, kinds[kind].steps);
        if (whole) v[i * COLUMNS] = floor(v[i * COLUMNS]);
    }
}

/* The definition, pair by pair. */
static bool is_merged(const double *v, int rows)
{
    double low = INFINITY, high = -INFINITY;
    bool real = false, found = false;
    for (int i = 0; i < rows; i++) {
        const double a = v[i * COLUMNS];
        low = fmin(low, a);
        high = fmax(high, a);
        real = real || a != floor(a);
        for (int k = 0; k < i; k++) {
            const double b = v[k * COLUMNS];
            const double far = fabs(a - b) / fmax(fabs(a), fabs(b));
            found = found || ((float)a == (float)b && a != b &&
                              (far > 0x1p-48 || (a == floor(a) && b == floor(b))));
        }
    }
    const float largest = (float)fmax(fabs(low), fabs(high));
    const double step = (double)nextafterf(largest, INFINITY) - (double)largest;
    return found && (!real || high - low < 4096 * step);
}

typedef struct table {
    double v[ROWS * COLUMNS];
    int bad; /* the column that should be refused first, -1: none */
} table;

static void draw_table(drawing *d, bool whole, table *t)
{
    t->bad = -1;
    for (int c = 0; c < COLUMNS; c++) {
        const int kind = below(d, 3) == 0 ? (int)below(d, KINDS) : 6;
        draw_column(d, kind, whole, t->v + c);
        if (t->bad < 0 && is_merged(t->v + c, ROWS)) t->bad = c;
    }
}

static void assert_status(dt_ctx *ctx, dt_status s, const table *t, const char *form)
{
    char where[40];
    snprintf(where, sizeof where, form, t->bad);
    if (t->bad < 0) {
        ck_assert_msg(s == DT_OK, "%s", dt_error(ctx));
    } else {
        ck_assert_msg(s == DT_ERR_FORMAT && strstr(dt_error(ctx), where) != NULL &&
                          strstr(dt_error(ctx), "are both") != NULL &&
                          strstr(dt_error(ctx), "offset") != NULL,
                      "%s: %s", where, s == DT_OK ? "accepted" : dt_error(ctx));
    }
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* As inputs or as targets of regression. */
static dt_status make_arrays(dt_ctx *ctx, const table *t, dt_array_dtype dtype, bool targets)
{
    static const float other[ROWS];
    static int64_t wide[ROWS * COLUMNS];
    static int32_t narrow[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        wide[i] = fabs(t->v[i]) < 9e18 ? (int64_t)t->v[i] : 0;
        narrow[i] = fabs(t->v[i]) < 2e9 ? (int32_t)t->v[i] : 0;
    }
    const void *v = dtype == DT_ARRAY_F64   ? (const void *)t->v
                    : dtype == DT_ARRAY_I64 ? (const void *)wide
                                            : (const void *)narrow;
    dt_arrays a = { .count = ROWS, .rank = 1, .axis = -1, .target = DT_TARGET_VALUES };
    a.dims[0] = targets ? 1 : COLUMNS;
    a.outputs = targets ? COLUMNS : 1;
    a.x_dtype = targets ? DT_ARRAY_F32 : dtype;
    a.y_dtype = targets ? dtype : DT_ARRAY_F32;
    a.x = targets ? other : v;
    a.y = targets ? v : other;
    dt_dataset *d = NULL;
    const dt_status s = dt_dataset_from_arrays(ctx, &a, &d);
    dt_dataset_free(d);
    return s;
}

START_TEST(arrays)
{
    static const dt_array_dtype dtypes[] = { DT_ARRAY_F64, DT_ARRAY_I64, DT_ARRAY_I32 };
    const dt_array_dtype dtype = dtypes[_i];
    const int64_t draws = test_count((test_draws){ .usual = 400, .sanitized = 100 });
    const double most = dtype == DT_ARRAY_I32 ? 2e9 : 9e18;
    drawing d = { .at = 1000000 * (uint64_t)_i };
    dt_ctx *ctx = sample_context(1);
    int refused = 0;
    for (int64_t i = 0; i < draws; i++) {
        table t;
        draw_table(&d, dtype != DT_ARRAY_F64, &t);
        bool fits = true;
        for (int k = 0; k < ROWS * COLUMNS; k++) fits = fits && fabs(t.v[k]) < most;
        if (dtype != DT_ARRAY_F64 && !fits) continue;
        const bool targets = below(&d, 2) == 0;
        assert_status(ctx, make_arrays(ctx, &t, dtype, targets), &t,
                      targets ? "y: column %d (counted" : "x: column %d (counted");
        refused += t.bad >= 0;
    }
    ck_assert_int_gt(refused, (int)draws / 20);
    ck_assert_int_lt(refused, (int)draws);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Integers beyond 2^53, which doubles merge as well. */
START_TEST(large_integers)
{
    static const int64_t first[] = { INT64_C(1) << 53, -(INT64_C(1) << 53) - 1, INT64_C(1) << 54,
                                     INT64_C(1234567890123456789) };
    dt_ctx *ctx = sample_context(1);
    int64_t v[2] = { first[_i], first[_i] + 1 };
    char message[80];
    snprintf(message, sizeof message, "%lld and %lld are both", (long long)v[0], (long long)v[1]);
    static const float y[2];
    dt_dataset *d = NULL;
    const dt_arrays a = { .count = 2,
                          .rank = 1,
                          .dims = { 1 },
                          .axis = -1,
                          .x = v,
                          .x_dtype = DT_ARRAY_I64,
                          .y = y,
                          .y_dtype = DT_ARRAY_F32,
                          .outputs = 1,
                          .target = DT_TARGET_VALUES };
    TEST_FAILS(ctx, DT_ERR_FORMAT, message, dt_dataset_from_arrays(ctx, &a, &d));
    v[1] = v[0];
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Channels of images and signals are columns; batches that are split from a set share the check. */
START_TEST(channels)
{
    static double v[4 * 2 * 25];
    static const float y[4];
    dt_ctx *ctx = sample_context(2);
    dt_dataset *d = NULL;
    for (int first = 0; first < 2; first++) {
        for (int i = 0; i < 4 * 2 * 25; i++) {
            const int channel = first ? i / 25 % 2 : i % 2;
            v[i] = channel == 1 ? 1e9 + i : 0.001 * i;
        }
        dt_arrays a = { .count = 4,
                        .rank = 2,
                        .axis = first ? 0 : 1,
                        .x = v,
                        .x_dtype = DT_ARRAY_F64,
                        .y = y,
                        .y_dtype = DT_ARRAY_F32,
                        .outputs = 1,
                        .target = DT_TARGET_VALUES };
        a.dims[0] = first ? 2 : 25;
        a.dims[1] = first ? 25 : 2;
        TEST_FAILS(ctx, DT_ERR_FORMAT, first ? "channel 1 (counted" : "column 1 (counted",
                   dt_dataset_from_arrays(ctx, &a, &d));
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Measurements of full precision are no error, however many there are. */
START_TEST(measurements)
{
    enum { N = 60000 };
    double *v = malloc(3 * N * sizeof *v);
    float *y = calloc(N, sizeof *y);
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = NULL;
    drawing z = { .at = 11 };
    for (int i = 0; i < N; i++) {
        const double a = (below(&z, UINT32_MAX) + 0.5) / 4294967296;
        const double b = (below(&z, UINT32_MAX) + 0.5) / 4294967296;
        v[3 * i] = sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
        v[3 * i + 1] = 1013.25 + 20 * v[3 * i];
        v[3 * i + 2] = exp(20 * b);
    }
    const dt_arrays a = { .count = N,
                          .rank = 1,
                          .dims = { 3 },
                          .axis = -1,
                          .x = v,
                          .x_dtype = DT_ARRAY_F64,
                          .y = y,
                          .y_dtype = DT_ARRAY_F32,
                          .outputs = 1,
                          .target = DT_TARGET_VALUES };
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    dt_dataset_free(d);
    free(v);
    free(y);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- tables ------------------------------------------------------------------------------- */

static void write_table(drawing *d, const char *name, const table *t)
{
    static const char *const forms[] = { "%.17g", "%.17g", "\"%.17g\"", " %.16e" };
    file_bytes f = { NULL, 0 };
    file_text(&f, "c0,c1,c2,y\n");
    for (int i = 0; i < ROWS; i++) {
        char text[200];
        for (int c = 0; c < COLUMNS; c++) {
            snprintf(text, sizeof text, forms[below(d, 4)], t->v[i * COLUMNS + c]);
            file_text(&f, text);
            file_text(&f, ",");
        }
        file_text(&f, i % 2 == 0 ? "0\n" : "1\n");
    }
    test_write_file(path_of(name), f.v, f.n);
    file_free(&f);
}

static dt_status train_by(dt_ctx *ctx, const char *name, const char *target, int scale)
{
    char column[] = "t";
    dt_column_rule rule = { .columns = { 1, { column } }, .scale = scale };
    dt_list_item items[] = { { NULL, &rule } };
    dt_dataset *part[3];
    char path[TEST_PATH];
    strcpy(path, path_of(name));
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.train_tensors = (dt_tensor_files){ .given = true, .x = { 1, { path } } };
    o.columns.target = (dt_strings){ 1, { target } };
    o.task = strcmp(target, "y") == 0 ? DT_DATA_CLASSIFICATION : DT_DATA_REGRESSION;
    o.standardize = true;
    if (scale != DT_SCALE_NONE) o.columns.types = (dt_item_list){ 1, items };
    const dt_status s = dt_data_open(ctx, &o, &part[0], &part[1], &part[2]);
    for (int i = 0; i < 3; i++) dt_dataset_free(part[i]);
    return s;
}

static dt_status train_on(dt_ctx *ctx, const char *name, const char *target)
{
    return train_by(ctx, name, target, DT_SCALE_NONE);
}

static dt_status predict(dt_ctx *ctx, const char *name)
{
    static const char text[] = "{\"target\": \"values\", \"input\": [3], \"output\": [1], "
                               "\"columns\": [\"c0\", \"c1\", \"c2\"]}";
    dt_model_data data;
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_model_data_parse(ctx, text, "model", &data));
    const dt_status s = dt_model_data_open(ctx, &data, path_of(name), NULL, &d);
    dt_dataset_free(d);
    dt_model_data_free(ctx, &data);
    return s;
}

START_TEST(tables)
{
    const int64_t draws = test_count((test_draws){ .usual = 200, .sanitized = 60 });
    drawing d = { .at = 7000000 };
    dt_ctx *ctx = sample_context(1);
    int refused = 0;
    for (int64_t i = 0; i < draws; i++) {
        table t;
        draw_table(&d, below(&d, 2) == 0, &t);
        write_table(&d, "t.Csv", &t);
        assert_status(ctx, train_on(ctx, "t.Csv", "y"), &t, "t.Csv': column 'c%d'");
        assert_status(ctx, predict(ctx, "t.Csv"), &t, "t.Csv': column 'c%d'");
        if (is_merged(t.v + 2, ROWS) && t.bad == 2) { /* as the target of regression, too */
            assert_status(ctx, train_on(ctx, "t.Csv", "c2"), &t, "t.Csv': column 'c%d'");
        }
        refused += t.bad >= 0;
    }
    ck_assert_int_gt(refused, 20);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* A single pair far apart in a table, of which one number is small and comes first. */
START_TEST(single_pair)
{
    static const char *const texts[][2] = {
        { "1\n1\n1\n1.00000001\n", "1.00000001 and 1 are both 1" },
        { "0\n16777216\n5\n16777217\n", "16777216 and 16777217 are both 16777216" },
        { "20000000001\n3\n20000000000\n", "20000000001 and 20000000000 are both" },
        { "1700000000\n1.7e9\n1700000000.0\n", NULL },
        { "0.1\n0.10\n1e-1\n0.1000000\n", NULL },
        { "0.30000000000000004\n0.3\n", NULL },
        { "0\n0.1\n0.1000000001\n1\n", NULL },
    };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < DT__COUNT_OF(texts); i++) {
        static const char head[] = "{\"target\": \"values\", \"input\": [1], \"output\": [1]}";
        char text[200];
        dt_model_data data;
        dt_dataset *d = NULL;
        snprintf(text, sizeof text, "t\n%s", texts[i][0]);
        test_write_text(path_of("pair.csv"), text);
        TEST_OK(ctx, dt_model_data_parse(ctx, head, "model", &data));
        const dt_status s = dt_model_data_open(ctx, &data, path_of("pair.csv"), NULL, &d);
        if (texts[i][1] == NULL) ck_assert_msg(s == DT_OK, "%s: %s", text, dt_error(ctx));
        else
            ck_assert_msg(s == DT_ERR_FORMAT && strstr(dt_error(ctx), texts[i][1]) != NULL,
                          "%s: %s", text, s == DT_OK ? "accepted" : dt_error(ctx));
        dt_dataset_free(d);
        dt_model_data_free(ctx, &data);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Of a column by its logarithm, where the logarithms are fractions over few numbers of f32. */
START_TEST(logarithms)
{
    drawing d = { .at = 9000000 };
    dt_ctx *ctx = sample_context(1);
    int refused = 0;
    for (int i = 0; i < 100; i++) {
        const int kind = (int)below(&d, KINDS);
        double v[ROWS * COLUMNS], scaled[ROWS * COLUMNS] = { 0 };
        file_bytes f = { NULL, 0 };
        draw_column(&d, kind, true, v);
        file_text(&f, "t,y\n");
        for (int k = 0; k < ROWS; k++) {
            char text[80];
            snprintf(text, sizeof text, "%.17g,%d\n", v[k * COLUMNS], k % 2);
            file_text(&f, text);
            const double a = fabs(v[k * COLUMNS]);
            scaled[k * COLUMNS] = copysign(log1p(a), v[k * COLUMNS]);
        }
        test_write_file(path_of("log.csv"), f.v, f.n);
        file_free(&f);
        const dt_status s = train_by(ctx, "log.csv", "y", DT_SCALE_LOG);
        const bool bad = is_merged(scaled, ROWS);
        ck_assert_msg(bad ? s != DT_OK && strstr(dt_error(ctx), "one logarithm") : s == DT_OK,
                      "kind %d: %s", kind, s == DT_OK ? "accepted" : dt_error(ctx));
        refused += bad;
    }
    ck_assert_int_gt(refused, 10);
    ck_assert_int_lt(refused, 90);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status train_again(dt_ctx *ctx, void *user)
{
    (void)user;
    return train_on(ctx, "merged.csv", "y");
}

START_TEST(every_allocation)
{
    drawing d = { .at = 3 };
    table t;
    for (int c = 0; c < COLUMNS; c++) draw_column(&d, 1, true, t.v + c); /* hours: none merge */
    write_table(&d, "merged.csv", &t);
    ck_assert_int_gt(test_every_allocation(train_again, NULL), 10);
}
END_TEST

Suite *test_merging_suite(void)
{
    Suite *suite = suite_create("merging");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, arrays, 0, 3);
    tcase_add_loop_test(c, large_integers, 0, 4);
    tcase_add_test(c, logarithms);
    tcase_add_test(c, channels);
    tcase_add_test(c, measurements);
    tcase_add_test(c, tables);
    tcase_add_test(c, single_pair);
    tcase_add_test(c, every_allocation);
    suite_add_tcase(suite, c);
    return suite;
}
