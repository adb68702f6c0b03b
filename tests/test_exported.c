/* Exported files as modules (dt_export_open): drawn networks in every format against the model, on
 * inputs and in the table of dt_evaluate; files that are damaged or of another kind are named. */
#include "list_nets.h"
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/export.h>
#include <detent/train.h>

#include <math.h>

#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 30, .sanitized = 15, .quick = 5 };
static char folder[TEST_PATH];

static void begin(void)
{
    test_begin();
    test_folder(folder);
}

static void end(void) { test_end(); }

/* Layers of channels that have their own tables, slopes or copies as codes. */
static const char *between(dt__stream *s)
{
    static const char *const all[] = { "",
                                       "    - {prelu: m, init: -0.3}\n",
                                       "    - {prelu: m, shared: true, init: 1.5}\n",
                                       "    - {upsample_nearest: m, factor: 2}\n",
                                       "    - {upsample_nearest: m, factor: 3}\n    - relu6\n",
                                       "    - {tanh: m}\n    - relu\n" };
    return all[dt__random_below(s, DT__COUNT_OF(all))];
}

/* A network of images or of rows. */
static dt_module *draw(dt_ctx *ctx, uint64_t seed)
{
    char text[800];
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    const int channels = 1 + (int)dt__random_below(&s, 3), rows = 3 + (int)dt__random_below(&s, 4);
    const int out = 2 + (int)dt__random_below(&s, 4);
    if (seed % 5 == 4) { /* lines, moments first or channels first */
        const bool turned = seed % 2 == 0;
        snprintf(text, sizeof text,
                 "  input: [%d, %d]\n  layers:\n%s"
                 "    - {conv1d: a, out: 4, kernel: 3, stride: %d, padding: 1, activation: relu}\n"
                 "    - {%s: p, kernel: 2}\n%s"
                 "    - {conv1d: c, out: 4, kernel: 2, groups: 2}\n"
                 "%s    - flatten\n    - {linear: b, out: %d}\n",
                 turned ? 11 + rows : channels, turned ? channels : 11 + rows,
                 turned ? "    - {permute: t, dims: [0, 2, 1]}\n" : "", 1 + (int)(seed / 10 % 2),
                 seed % 4 < 2 ? "max_pool1d" : "avg_pool1d", between(&s),
                 seed % 3 == 0 ? "    - global_avg_pool1d\n" : "", out);
    } else if (seed % 4 == 3) {
        snprintf(text, sizeof text,
                 "  input: [%d]\n  layers:\n    - {linear: a, out: 7, activation: relu}\n"
                 "    - {linear: b, out: %d}\n",
                 rows, out);
    } else {
        snprintf(text, sizeof text,
                 "  input: [%d, %d, 5]\n  layers:\n"
                 "    - {conv2d: a, out: 4, kernel: 3, padding: 1, activation: relu}\n%s%s"
                 "    - flatten\n    - {linear: b, out: %d}\n",
                 channels, rows, seed % 2 == 0 ? "    - {max_pool2d: p, kernel: 2}\n" : "",
                 between(&s), out);
    }
    return list_net_create(ctx, text);
}

typedef struct subject {
    dt_ctx *ctx;
    dt_module *m;
    dt_tensor *x;
    bool device;
} subject;

static subject make(uint64_t seed)
{
    static const int presets[] = { -1, DT_INT8_DYNAMIC_INT8_WEIGHT, DT_DEVICE_INT8 };
    const int preset = presets[seed % 3];
    subject s = { .device = preset == DT_DEVICE_INT8 };
    dt_ctx_options o = dt_ctx_defaults();
    o.seed = seed;
    o.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&s.ctx, &o));
    s.m = draw(s.ctx, seed);
    s.x = list_net_input(s.m, 0, 5, 1);
    TEST_OK(s.ctx, list_net_quantize(s.m, preset, &s.x, 1, 1));
    return s;
}

static void forget(subject *s)
{
    dt_tensor_free(s->x);
    dt_module_free(s->m);
    dt_ctx_free(s->ctx);
}

/* The largest difference over the largest output. */
static double apart(dt_tensor *a, dt_tensor *b)
{
    double most = 0, largest = 0;
    ck_assert_int_eq(dt_rank(a), dt_rank(b));
    ck_assert_int_eq(dt_count(a), dt_count(b));
    const float *x = dt_data(a), *y = dt_data(b);
    for (int64_t i = 0; i < dt_count(a); i++) {
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)x[i]));
    }
    return most / largest;
}

static double compare(const subject *s, const char *path)
{
    dt_module *file;
    dt_tape *t;
    ck_assert(dt_export_is_file(path));
    TEST_OK(s->ctx, dt_export_open(s->ctx, path, &file, NULL));
    TEST_OK(s->ctx, dt_tape_create(s->ctx, &t));
    dt_no_grad(t, true);
    dt_train(s->m, false);
    dt_tensor *own = dt_contiguous(t, dt_forward(t, s->m, s->x));
    dt_tensor *y = dt_forward(t, file, s->x);
    TEST_OK(s->ctx, dt_tape_status(t));
    const double most = apart(own, y);
    dt_tape_free(t);
    dt_module_free(file);
    return most;
}

static void write(const subject *s, const char *format, char path[TEST_PATH])
{
    char name[64];
    snprintf(name, sizeof name, "net%s%s", *format == 'c' ? "" : ".", *format == 'c' ? "" : format);
    test_join(path, folder, name);
    test_remove(path);
    TEST_OK(s->ctx, dt_export(s->m, NULL, format, NULL, path, NULL));
}

START_TEST(the_file_computes_what_the_model_does)
{
    for (int64_t i = 0; i < test_networks(draws); i++) {
        char path[TEST_PATH];
        subject s = make((uint64_t)i);
        if (!s.device) {
            write(&s, "onnx", path);
            ck_assert(compare(&s, path) < 1e-5);
        }
        if (s.device || i % 3 == 0) {
            write(&s, "tflite", path);
            ck_assert(compare(&s, path) < (s.device ? 1e-12 : 1e-5));
        }
        if (test_has_compiler("cc")) {
            write(&s, "c", path);
            ck_assert(compare(&s, path) == 0);
        }
        forget(&s);
    }
}
END_TEST

/* Extents n of examples, and of some results, which fit both layouts: [n, n] and [n, n, n]. */
static void draw_equal(uint64_t seed, char *text, size_t size)
{
    static const char *const bodies[][4] = {
        { "    - flatten\n    - {linear: b, out: 3}\n",
          "    - {permute: t, dims: [0, 2, 1]}\n    - {conv1d: a, out: %d, kernel: 1}\n",
          "    - {conv1d: a, out: %d, kernel: 3, padding: 1}\n    - relu\n",
          "    - {conv1d: a, out: %d, kernel: 3, padding: 1}\n    - {permute: t, dims: [0, 2, "
          "1]}\n" },
        { "    - flatten\n    - {linear: b, out: 3}\n",
          "    - {conv2d: a, out: %d, kernel: 3, padding: 1}\n    - relu\n",
          "    - {conv2d: a, out: %d, kernel: 3, padding: 1}\n    - {permute: t, dims: [0, 3, 2, "
          "1]}\n",
          "    - {permute: t, dims: [0, 2, 1, 3]}\n    - {conv2d: a, out: %d, kernel: 1}\n" },
    };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    const int n = 2 + (int)dt__random_below(&s, 5), rank = (int)(seed % 2);
    const char *body = bodies[rank][seed / 2 % 4], *place = strstr(body, "%d");
    size_t used = (size_t)snprintf(text, size,
                                   rank == 0 ? "  input: [%d, %d]\n" : "  input: [%d, %d, ", n, n);
    if (rank == 1) used += (size_t)snprintf(text + used, size - used, "%d]\n", n);
    used += (size_t)snprintf(text + used, size - used, "  layers:\n");
    if (place == NULL) snprintf(text + used, size - used, "%s", body);
    else snprintf(text + used, size - used, "%.*s%d%s", (int)(place - body), body, n, place + 2);
}

START_TEST(extents_need_not_tell)
{
    for (uint64_t i = 0; i < 16; i++) {
        char text[400], path[TEST_PATH];
        dt_ctx_options o = dt_ctx_defaults();
        subject s = { .device = false };
        o.seed = i;
        draw_equal(i, text, sizeof text);
        TEST_OK(NULL, dt_ctx_create(&s.ctx, &o));
        s.m = list_net_create(s.ctx, text);
        s.x = list_net_input(s.m, 0, 3, 1);
        write(&s, "tflite", path);
        TEST_EACH(compare(&s, path) < 1e-5, "%s", text);
        write(&s, "onnx", path);
        TEST_EACH(compare(&s, path) < 1e-5, "%s", text);
        forget(&s);
    }
}
END_TEST

static void fails(dt_ctx *ctx, dt_status status, const char *text, const char *name)
{
    char path[TEST_PATH];
    dt_module *file;
    test_join(path, folder, name);
    TEST_FAILS(ctx, status, text, dt_export_open(ctx, path, &file, NULL));
    ck_assert(file == NULL);
}

START_TEST(other_files_are_named)
{
    char path[TEST_PATH];
    subject s = make(0);
    dt_module *file;
    fails(s.ctx, DT_ERR_FORMAT, "not an exported file that can be run", "net.txt");
    fails(s.ctx, DT_ERR_IO, "cannot open", "nothing.onnx");
    fails(s.ctx, DT_ERR_IO, "cannot open", "nothing.tflite");
    fails(s.ctx, DT_ERR_FORMAT, "not a folder of format c", "");
    test_join(path, folder, "bad.onnx");
    test_write_text(path, "no graph");
    fails(s.ctx, DT_ERR_FORMAT, "not an ONNX file", "bad.onnx");
    test_join(path, folder, "bad.tflite");
    test_write_text(path, "");
    fails(s.ctx, DT_ERR_FORMAT, "it is empty", "bad.tflite");
    ck_assert(!dt_export_is_file(folder) && !dt_export_is_file(NULL));
    ck_assert_int_eq(dt_export_open(s.ctx, NULL, &file, NULL), DT_ERR_ARG);
    forget(&s);
}
END_TEST

START_TEST(folders_that_are_damaged_are_named)
{
    char path[TEST_PATH], header[TEST_PATH], *text;
    size_t n;
    subject s = make(0);
    dt_module *file;
    if (!test_has_compiler("cc")) return;
    write(&s, "c", path);
    test_join(header, path, "net.h");
    text = test_read_file(header, &n);
    static const char *const changes[][2] = { { "NET_INPUTS ", "NET_INPUTS -" },
                                              { "NET_INPUTS ", "NET_INPUTS 9" },
                                              { "NET_ARENA_BYTES ", "NET_ARENA_BYTES -" },
                                              { "NET_OUTPUTS ", "NET_OUT_PUTS " },
                                              { "elements of y, [", "elements of y, [0, " } };
    for (int i = 0; i < 5; i++) {
        char *at = strstr(text, changes[i][0]), *changed = malloc(n + 64);
        ck_assert(at != NULL && changed != NULL);
        snprintf(changed, n + 64, "%.*s%s%s", (int)(at - text), text, changes[i][1],
                 at + strlen(changes[i][0]));
        test_write_text(header, changed);
        TEST_FAILS(s.ctx, DT_ERR_FORMAT, "does not say inputs, outputs and arena",
                   dt_export_open(s.ctx, path, &file, NULL));
        free(changed);
    }
    test_write_text(header, text);
    free(text);
    setenv("CC", "no-such-compiler", 1);
    TEST_FAILS(s.ctx, DT_ERR_IO, "cannot run the C compiler",
               dt_export_open(s.ctx, path, &file, NULL));
    setenv("CC", "false", 1);
    TEST_FAILS(s.ctx, DT_ERR_FORMAT, "did not compile it",
               dt_export_open(s.ctx, path, &file, NULL));
    unsetenv("CC");
    setenv("TMPDIR", "/nowhere", 1);
    TEST_FAILS(s.ctx, DT_ERR_IO, "cannot make", dt_export_open(s.ctx, path, &file, NULL));
    unsetenv("TMPDIR");
    forget(&s);
}
END_TEST

START_TEST(examples_of_another_shape_are_refused)
{
    static const char *const formats[] = { "onnx", "tflite", "c" };
    for (int i = 0; i < 3; i++) {
        char path[TEST_PATH];
        dt_module *file;
        dt_tape *t;
        dt_tensor *x;
        subject s = make(0);
        if (i == 2 && !test_has_compiler("cc")) return;
        write(&s, formats[i], path);
        TEST_OK(s.ctx, dt_export_open(s.ctx, path, &file, NULL));
        TEST_OK(s.ctx, dt_tape_create(s.ctx, &t));
        TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_F32, 3, (const int64_t[]){ 2, 3, 4 }, &x));
        TEST_OK(s.ctx, dt_fill(x, 0));
        dt_forward(t, file, x);
        ck_assert_int_ne(dt_tape_status(t), DT_OK);
        dt_tape_free(t);
        dt_tensor_free(x);
        dt_module_free(file);
        forget(&s);
    }
}
END_TEST

Suite *test_exported_suite(void)
{
    Suite *s = suite_create("exported");
    TCase *c = tcase_create("files");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, the_file_computes_what_the_model_does);
    tcase_add_test(c, extents_need_not_tell);
    tcase_add_test(c, other_files_are_named);
    tcase_add_test(c, folders_that_are_damaged_are_named);
    tcase_add_test(c, examples_of_another_shape_are_refused);
    suite_add_tcase(s, c);
    return s;
}
