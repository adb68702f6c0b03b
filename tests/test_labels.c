/* Labels that name classes, and validation examples drawn class by class: random labels, in tables
 * and in arrays of every kind, compared with a slow implementation. */
#include "array_files.h"
#include "sample.h"

#include <detent/experimental/io.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 160, CLASSES = 9, TEXT = 24 };

static char folder[TEST_PATH];
static const test_draws draws = { .usual = 200, .sanitized = 10, .quick = 40 };

/* The labels of a draw, as text; `kind` decides which. */
typedef struct drawn {
    int n, classes;           /* rows, different labels */
    int label[MOST];          /* of each row, an index of `name` */
    char name[CLASSES][TEXT]; /* in the order that classes should have */
    bool integers, numbers;   /* all names are integers; they are 0 to classes - 1 */
    bool spelled;             /* a name is written in several ways */
} drawn;

static int below(int n) { return rand() % n; }

enum { KINDS = 8 };

/* Kinds: 0 numbers of classes, 1 from 1 on, 2 far apart, 3 below 0, 4 words, 5 numbers beside a
 * word, which are words, 6 numbers of classes and 7 fractions, each row's written in its own way.
 * Names ascend as numbers, or as bytes. */
static drawn draw(int kind, bool sorted)
{
    static const char *const words[CLASSES] = { "Z",   "a",  "a b", "ant",         "b\xc3\xa9",
                                                "c,d", "no", "yes", "\xe6\xb0\xb4" };
    drawn d = { .classes = 2 + below(CLASSES - 2),
                .integers = kind < 4,
                .numbers = kind == 0 || kind == 6,
                .spelled = kind >= 6 };
    d.n = d.classes * 4 + below(MOST - CLASSES * 4);
    int at = kind == 3 ? -50 : kind == 1 ? 1 : kind == 2 ? 10000 : 0;
    for (int i = 0; i < d.classes; i++) {
        if (kind == 4) snprintf(d.name[i], TEXT, "%s", words[i]);
        else if (kind == 5) snprintf(d.name[i], TEXT, i + 1 < d.classes ? "0%d" : "a", i);
        else if (kind == 7) snprintf(d.name[i], TEXT, "%d.%d", at / 10, 1 + at % 9);
        else snprintf(d.name[i], TEXT, "%d", at);
        at += kind == 7 ? 10 : kind < 2 || kind == 6 ? 1 : 1 + below(9000);
    }
    for (int i = 0; i < d.n; i++) d.label[i] = i < 2 * d.classes ? i % d.classes : below(d.classes);
    for (int i = d.n - 1; i > 0; i--) {
        const int k = below(i + 1), other = d.label[k];
        d.label[k] = d.label[i];
        d.label[i] = other;
    }
    for (int i = 1; i < d.n && sorted; i++) { /* as a file that is sorted by class */
        for (int k = i; k > 0 && d.label[k] < d.label[k - 1]; k--) {
            const int other = d.label[k];
            d.label[k] = d.label[k - 1];
            d.label[k - 1] = other;
        }
    }
    return d;
}

static const char *path_of(const char *name)
{
    static char path[TEST_PATH + 40];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *name, file_bytes f)
{
    test_write_file(path_of(name), f.v, f.n);
    file_free(&f);
}

/* A name as row i has it: as it is, or a number with a sign, zeros on both sides or an exponent. */
static const char *spelling(const drawn *d, int i)
{
    static char text[2 * TEXT];
    const char *name = d->name[d->label[i]];
    const int way = d->spelled ? (i < 2 * d->classes ? i / d->classes : below(5)) : 0;
    const char *point = strchr(name, '.');
    if (way == 1) snprintf(text, sizeof text, "%s%s", name, point == NULL ? ".0" : "00");
    else if (way == 2) snprintf(text, sizeof text, "+%s", name);
    else if (way == 3) snprintf(text, sizeof text, "00%s", name);
    else if (way == 4 && point == NULL) snprintf(text, sizeof text, "%s00E-2", name);
    else if (way == 4)
        snprintf(text, sizeof text, "%.*s%se-1", (int)(point - name), name, point + 1);
    else snprintf(text, sizeof text, "%s", name);
    return text;
}

/* A table whose first column is the row's number, and x of the same numbers as an array. */
static void write_table(const drawn *d)
{
    char header[120];
    float x[MOST];
    FILE *f = fopen(path_of("t.csv"), "w");
    fputs("\xef\xbb\xbfrow,kind\r\n", f);
    for (int i = 0; i < d->n; i++) {
        x[i] = (float)i;
        fprintf(f, "%d,\"%s\"\r\n", i, spelling(d, i));
    }
    fclose(f);
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 1), }",
             d->n);
    write_bytes("x.npy", npy_file(1, header, x, (size_t)d->n * sizeof *x));
}

/* Code points of UTF-8, [TEXT] each. */
static void to_points(const char *text, uint32_t *out)
{
    const unsigned char *c = (const unsigned char *)text;
    memset(out, 0, TEXT * sizeof *out);
    for (int i = 0; *c != 0; i++) {
        const int more = *c >= 0xE0 ? 2 : *c >= 0xC0 ? 1 : 0;
        out[i] = more == 0 ? *c : *c & (more == 1 ? 0x1FU : 0x0FU);
        c++;
        for (int k = 0; k < more; k++) out[i] = out[i] << 6 | (*c++ & 0x3FU);
    }
}

/* Labels as an array of bytes, of code points, or of 64-bit integers. */
static void write_labels(const drawn *d, int form)
{
    static const char *const descr[] = { "|S24", "<U24", "<i8" };
    static uint32_t points[MOST][TEXT];
    static char bytes[MOST][TEXT];
    int64_t numbers[MOST];
    char header[120];
    for (int i = 0; i < d->n; i++) {
        const char *name = spelling(d, i);
        memset(bytes[i], 0, TEXT);
        snprintf(bytes[i], TEXT, "%s", name);
        to_points(name, points[i]);
        numbers[i] = strtoll(name, NULL, 10);
    }
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }",
             descr[form], d->n);
    const void *const data[] = { bytes, points, numbers };
    const size_t each[] = { TEXT, TEXT * sizeof(uint32_t), sizeof(int64_t) };
    write_bytes("y.npy", npy_file(1, header, data[form], (size_t)d->n * each[form]));
}

static dt_data_options options_of(bool table)
{
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train_tensors =
        (dt_tensor_files){ true, { 1, { table ? "t.csv" : "x.npy" } }, table ? NULL : "y.npy" };
    if (table) o.columns.target = (dt_strings){ 1, { "kind" } };
    return o;
}

/* Checks a part: x is the number of the row. Marks the rows in `seen`. */
static void check_part(dt_ctx *ctx, const dt_dataset *p, const drawn *d, int *seen)
{
    const dt_loader_options all = { .batch_size = MOST };
    dt_loader *l;
    dt_tensor *x, *y;
    if (p == NULL) return;
    ck_assert_int_eq(dt_dataset_classes(p), d->classes);
    for (int c = 0; c < d->classes; c++) {
        const char *name = dt_dataset_class_name(p, c);
        if (d->numbers) ck_assert_ptr_null(name);
        else ck_assert_str_eq(name, d->name[c]);
    }
    TEST_OK(ctx, dt_loader_create(p, &all, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    for (int64_t i = 0; i < dt_dataset_count(p); i++) {
        const int row = (int)((const float *)dt_data(x))[i];
        ck_assert_int_eq(((const int32_t *)dt_data(y))[i], d->label[row]);
        ck_assert_int_eq(seen[row]++, 0);
        if (i > 0) ck_assert_int_lt((int)((const float *)dt_data(x))[i - 1], row);
    }
    dt_loader_free(l);
}

typedef struct opened {
    dt_dataset *part[3];
} opened;

static dt_status open_parts(dt_ctx *ctx, const dt_data_options *o, opened *p)
{
    return dt_data_open(ctx, o, &p->part[0], &p->part[1], &p->part[2]);
}

static void opened_free(opened *p)
{
    for (int i = 0; i < 3; i++) dt_dataset_free(p->part[i]);
}

/* Words, integers with gaps, numbers of classes, and numbers by their values mean the same in every
 * kind of file, and each row has its own label wherever it goes. */
START_TEST(labels_are_the_same_in_every_file)
{
    dt_ctx *ctx = sample_context(1);
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const int kind = (int)(i % KINDS);
        const drawn d = draw(kind, i % 2 == 1);
        write_table(&d);
        for (int form = 0; form < 4; form++) { /* a table, |S, <U, <i8 */
            opened p;
            int seen[MOST] = { 0 };
            if (form == 3 && !d.integers) continue;
            if (form > 0) write_labels(&d, form - 1);
            dt_data_options o = options_of(form == 0);
            o.validation = 0.1 + 0.1 * below(4);
            o.validation_order = below(2) ? DT_DATA_ORDER_TIME : DT_DATA_ORDER_AUTO;
            TEST_OK(ctx, open_parts(ctx, &o, &p));
            for (int k = 0; k < 2; k++) check_part(ctx, p.part[k], &d, seen);
            for (int k = 0; k < d.n; k++) ck_assert_int_eq(seen[k], 1);
            opened_free(&p);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

static int held_of(const dt_dataset *p, int64_t *count)
{
    int classes = 0;
    for (int64_t i = 0; i < dt_dataset_count(p); i++) count[dt_dataset_label(p, i)]++;
    for (int c = 0; c < CLASSES; c++) classes += count[c] > 0;
    return classes;
}

/* Of a sorted file both parts have every class, near its share; another seed draws other rows. */
START_TEST(shares_have_every_class)
{
    dt_ctx *ctx = sample_context(1);
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const drawn d = draw((int)(i % KINDS), true);
        opened p, other, last;
        int64_t in[2][CLASSES] = { { 0 } };
        write_table(&d);
        dt_data_options o = options_of(true);
        o.validation = 0.1 + 0.1 * below(5);
        o.seed = below(1000);
        TEST_OK(ctx, open_parts(ctx, &o, &p));
        const int64_t held = dt_dataset_count(p.part[1]);
        ck_assert_int_eq(held, (int64_t)(o.validation * d.n));
        ck_assert_int_eq(held_of(p.part[0], in[0]), d.classes);
        if (held >= d.classes) ck_assert_int_eq(held_of(p.part[1], in[1]), d.classes);
        for (int c = 0; c < d.classes && held >= 3 * d.classes; c++) {
            const double all = (double)(in[0][c] + in[1][c]), share = (double)held / d.n;
            ck_assert_msg(fabs((double)in[1][c] - share * all) <= 3, "%d of %g", c, all);
        }
        o.seed++;
        TEST_OK(ctx, open_parts(ctx, &o, &other));
        o.validation_order = DT_DATA_ORDER_TIME;
        TEST_OK(ctx, open_parts(ctx, &o, &last));
        int64_t labels[CLASSES] = { 0 };
        held_of(last.part[1], labels);
        ck_assert_int_gt(labels[d.classes - 1], 0);
        ck_assert_int_eq(dt_dataset_count(other.part[1]), held);
        opened_free(&p);
        opened_free(&other);
        opened_free(&last);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Integers are the numbers of a model's classes where they fit, its names otherwise; a label that
 * is none of its classes is refused. */
START_TEST(a_model_decides)
{
    static const char *const names[] = { "3", "5", "9" };
    dt_ctx *ctx = sample_context(1);
    opened p;
    test_folder(folder);
    test_write_text(path_of("t.csv"), "row,kind\n1,5\n2,9\n3,5\n");
    dt_data_options o = options_of(true);
    o.classes = (dt_class_names){ 10, NULL };
    TEST_OK(ctx, open_parts(ctx, &o, &p));
    ck_assert(dt_dataset_label(p.part[0], 0) == 5 && dt_dataset_classes(p.part[0]) == 10);
    ck_assert_ptr_null(dt_dataset_class_name(p.part[0], 5));
    opened_free(&p);
    o.classes = (dt_class_names){ 3, names };
    TEST_OK(ctx, open_parts(ctx, &o, &p));
    ck_assert(dt_dataset_label(p.part[0], 0) == 1 && dt_dataset_classes(p.part[0]) == 3);
    opened_free(&p);
    test_write_text(path_of("t.csv"), "row,kind\n1,5\n2,4\n");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'4' is not a class of the model", open_parts(ctx, &o, &p));
    o.classes = (dt_class_names){ 0 };
    test_write_text(path_of("u.csv"), "row,kind\n1,6\n");
    o.test_tensors = (dt_tensor_files){ true, { 1, { "u.csv" } }, NULL };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'6' is not a class of the training data",
               open_parts(ctx, &o, &p));
    dt_ctx_free(ctx);
}
END_TEST

/* Names that are numbers: a model and a test part match other spellings by value; if one name is a
 * word, all are words; numbers of 30 digits are compared exactly. */
START_TEST(values_decide_later)
{
    static const char *const numbers[] = { "-0.5", "1.0", "7" }, *const old[] = { "1", "1.0" },
                             *const words[] = { "01", "a" };
    static const struct {
        const char *const *names;
        int64_t n;
        const char *label;
        int wanted; /* -1: refused */
    } cases[] = {
        { numbers, 3, "-5e-1", 0 }, { numbers, 3, "1", 1 },  { numbers, 3, "0700e-2", 2 },
        { numbers, 3, "2", -1 },    { numbers, 3, "x", -1 }, { old, 2, "1.0", 1 },
        { old, 2, "1", 0 },         { old, 2, "01", -1 },    { words, 2, "01", 0 },
        { words, 2, "1", -1 },      { words, 2, "0", -1 },
    };
    dt_ctx *ctx = sample_context(1);
    opened p;
    test_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[80];
        dt_data_options o = options_of(true);
        o.classes = (dt_class_names){ cases[i].n, cases[i].names };
        snprintf(text, sizeof text, "row,kind\n1,%s\n", cases[i].label);
        test_write_text(path_of("t.csv"), text);
        if (cases[i].wanted < 0) {
            TEST_FAILS(ctx, DT_ERR_FORMAT, "is not a class of the model", open_parts(ctx, &o, &p));
            continue;
        }
        TEST_OK(ctx, open_parts(ctx, &o, &p));
        ck_assert_int_eq(dt_dataset_label(p.part[0], 0), cases[i].wanted);
        opened_free(&p);
    }
    dt_data_options o = options_of(true);
    o.test_tensors = (dt_tensor_files){ true, { 1, { "u.csv" } }, NULL };
    test_write_text(path_of("t.csv"),
                    "row,kind\n1,123456789012345678901234567890\n2,123456789012345678901234567891\n"
                    "3,1e2\n4,100.0\n5,04\n6,04\n");
    test_write_text(path_of("u.csv"), "row,kind\n1,4\n2,+1E+2\n");
    TEST_OK(ctx, open_parts(ctx, &o, &p));
    ck_assert_int_eq(dt_dataset_classes(p.part[0]), 4);
    ck_assert_str_eq(dt_dataset_class_name(p.part[0], 0), "04"); /* as it is always written */
    ck_assert_str_eq(dt_dataset_class_name(p.part[0], 1), "100");
    ck_assert_int_eq(dt_dataset_label(p.part[2], 0), 0);
    ck_assert_int_eq(dt_dataset_label(p.part[2], 1), 1);
    opened_free(&p);
    dt_ctx_free(ctx);
}
END_TEST

/* NaN among numbers is a missing value, and among words a word. */
START_TEST(missing_numbers_are_no_class)
{
    static const char *const missing[] = { "nan", "NaN", "NAN", "-nan", "+NaN" };
    static const char *const others[] = { "1", "1.50", "-3", "1e2", "cat" };
    dt_ctx *ctx = sample_context(1);
    opened p;
    test_folder(folder);
    for (int i = 0; i < 25; i++) {
        const dt_data_options o = options_of(true);
        const char *other = others[i % 5];
        char text[80];
        snprintf(text, sizeof text, "row,kind\n1,%s\n2,2\n3,%s\n4,%s\n", other, missing[i / 5],
                 other);
        test_write_text(path_of("t.csv"), text);
        if (i % 5 < 4) {
            TEST_FAILS(ctx, DT_ERR_FORMAT, "a missing value is not a class",
                       open_parts(ctx, &o, &p));
            continue;
        }
        TEST_OK(ctx, open_parts(ctx, &o, &p));
        ck_assert_int_eq(dt_dataset_classes(p.part[0]), 3);
        opened_free(&p);
    }
    dt_ctx_free(ctx);
}
END_TEST

static dt_status collect(void *user, const char *text, size_t bytes)
{
    return strlen(strncat(user, text, bytes)) < 1000 ? DT_OK : DT_ERR_NOMEM;
}

/* A model that was trained on them reads a file of arrays likewise, also where extents do not tell
 * the layouts apart. */
static void read_as_trained(dt_ctx *ctx, const dt_dataset *trained, const dt_tensor *wanted)
{
    char text[2000] = "";
    dt_model_data data;
    dt_dataset *d;
    dt_loader *l;
    dt_tensor *x, *y;
    TEST_OK(ctx, dt_model_data_text(trained, collect, text));
    TEST_OK(ctx, dt_model_data_parse(ctx, text, "text", &data));
    ck_assert(data.channels_last);
    TEST_OK(ctx, dt_model_data_open(ctx, &data, path_of("x.npy"), NULL, &d));
    TEST_OK(ctx, dt_loader_create(d, &(const dt_loader_options){ .batch_size = 4 }, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    ck_assert_int_eq(dt_count(x), dt_count(wanted));
    ck_assert_int_eq(memcmp(dt_data(x), dt_data(wanted), (size_t)dt_count(x) * sizeof(float)), 0);
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_model_data_free(ctx, &data);
}

/* [count, height, width, channels] become [count, channels, height, width]. */
START_TEST(channels_come_first)
{
    dt_ctx *ctx = sample_context(1);
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws) / 4; i++) {
        const bool cube = i % 3 == 0;
        const int n = 1 + below(4), h = 1 + below(5), w = cube ? h : 1 + below(5);
        const int c = cube ? h : 1 + below(70);
        const size_t size = (size_t)(n * h * w * c);
        int16_t *v = malloc(size * sizeof *v);
        uint8_t label[4] = { 0 };
        char header[120];
        opened p;
        for (size_t k = 0; k < size; k++) v[k] = (int16_t)below(30000);
        snprintf(header, sizeof header,
                 "{'descr': '<i2', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }", n, h, w,
                 c);
        write_bytes("x.npy", npy_file(1, header, v, size * sizeof *v));
        snprintf(header, sizeof header,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }", n);
        write_bytes("y.npy", npy_file(1, header, label, (size_t)n));
        dt_data_options o = options_of(false);
        o.layout = DT_LAYOUT_NHWC;
        TEST_OK(ctx, open_parts(ctx, &o, &p));
        int64_t dims[DT_MAX_RANK - 1];
        ck_assert_int_eq(dt_dataset_input_shape(p.part[0], dims), 3);
        ck_assert(dims[0] == c && dims[1] == h && dims[2] == w);
        const dt_loader_options all = { .batch_size = 4 };
        dt_loader *l;
        dt_tensor *x, *y;
        TEST_OK(ctx, dt_loader_create(p.part[0], &all, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        const float *got = dt_data(x);
        for (int k = 0; k < n * c * h * w; k++) {
            const int place = k % (h * w), channel = k / (h * w) % c, example = k / (h * w * c);
            ck_assert(got[k] == (float)v[(example * h * w + place) * c + channel]);
        }
        read_as_trained(ctx, p.part[0], x);
        dt_loader_free(l);
        opened_free(&p);
        free(v);
    }
    dt_ctx_free(ctx);
}
END_TEST

static dt_status open_words(dt_ctx *ctx, void *user)
{
    opened p;
    dt_data_options o = options_of(*(const bool *)user);
    o.validation = 0.3;
    const dt_status s = open_parts(ctx, &o, &p);
    if (s == DT_OK) opened_free(&p);
    return s;
}

START_TEST(every_allocation)
{
    bool table = _i % 2 == 0;
    test_folder(folder);
    const drawn d = draw(_i < 2 ? 4 : 7, true);
    write_table(&d);
    write_labels(&d, 1);
    test_every_allocation(open_words, &table);
}
END_TEST

Suite *test_labels_suite(void)
{
    Suite *suite = suite_create("labels");
    TCase *cases = tcase_create("labels");
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, labels_are_the_same_in_every_file);
    tcase_add_test(cases, shares_have_every_class);
    tcase_add_test(cases, a_model_decides);
    tcase_add_test(cases, values_decide_later);
    tcase_add_test(cases, missing_numbers_are_no_class);
    tcase_add_test(cases, channels_come_first);
    tcase_add_loop_test(cases, every_allocation, 0, 4);
    suite_add_tcase(suite, cases);
    return suite;
}
