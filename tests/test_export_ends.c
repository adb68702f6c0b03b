/* Networks of several inputs and outputs in each format: every input and output has its own scale,
 * its own name, and the model's values. */
#include "c_folder.h"
#include "list_nets.h"
#include "testing.h"

#include "core/core.h"
#include "nn/module.h"

#include <detent/experimental/export.h>

#include <stdio.h>
#include <stdlib.h>

#define MOST_INPUTS 4
#define BATCH 6

static const test_draws draws = { .usual = 24, .sanitized = 4, .quick = 8 };

/* A drawn network: the sum of layers of all inputs, then its outputs. */
typedef struct net {
    int n_in, n_out;
    char layers[2048];
    const char *in_name[MOST_INPUTS], *out_name[DT_MAX_OUT];
} net;

static void add(net *d, const char *text)
{
    const size_t used = strlen(d->layers);
    ck_assert_int_lt(snprintf(d->layers + used, sizeof d->layers - used, "%s", text),
                     (int)(sizeof d->layers - used));
}

/* An input as an image, or as a row; `flat`: the layer that makes `width` numbers of it. */
static void draw_input(net *d, dt__stream *s, int i, bool image, int64_t width)
{
    char line[300];
    if (image) {
        snprintf(line, sizeof line,
                 "  - {conv2d: c%d, from: [%s], out: %d, padding: 1, activation: relu}\n"
                 "  - {flatten: f%d}\n  - {linear: l%d, out: %lld}\n",
                 i, d->in_name[i], 2 + (int)dt__random_below(s, 3), i, i, (long long)width);
    } else {
        snprintf(line, sizeof line, "  - {linear: l%d, from: [%s], out: %lld}\n", i, d->in_name[i],
                 (long long)width);
    }
    add(d, line);
}

static void draw(uint64_t seed, net *d)
{
    static const char *const names[] = { "left", "b-2", "x", "head.weight", "output", "input1" };
    static const char *const outputs[] = { "kind", "Add", "y1", "size" };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    bool image[MOST_INPUTS];
    char line[200];
    *d = (net){ .n_in = 2 + (int)dt__random_below(&s, MOST_INPUTS - 1),
                .n_out = 1 + (int)dt__random_below(&s, 3) };
    const int first = (int)dt__random_below(&s, 6);
    const int64_t width = 3 + (int64_t)dt__random_below(&s, 6);
    add(d, "  input: {");
    for (int i = 0; i < d->n_in; i++) {
        d->in_name[i] = names[(first + i) % 6];
        image[i] = dt__random_below(&s, 2) == 0;
        const int a = 1 + (int)dt__random_below(&s, 3), b = 4 + (int)dt__random_below(&s, 4);
        if (image[i]) snprintf(line, sizeof line, "[%d, %d, %d]", a, b, b + 1);
        else snprintf(line, sizeof line, "[%d]", 3 + 7 * a + b);
        add(d, i == 0 ? "" : ", ");
        add(d, d->in_name[i]);
        add(d, ": ");
        add(d, line);
    }
    add(d, "}\n  layers:\n");
    for (int i = 0; i < d->n_in; i++) draw_input(d, &s, i, image[i], width);
    for (int i = 1; i < d->n_in; i++) {
        snprintf(line, sizeof line, "  - {add: s%d, from: [%s%d, l%d]}\n", i, i == 1 ? "l" : "s",
                 i - 1, i);
        add(d, line);
    }
    for (int i = 0; i < d->n_out; i++) {
        d->out_name[i] = outputs[(first + i) % 4];
        snprintf(line, sizeof line, "  - {linear: %s, from: [s%d], out: %d}\n", d->out_name[i],
                 d->n_in - 1, 2 + i);
        add(d, line);
    }
    add(d, "  output: [");
    for (int i = 0; i < d->n_out; i++) {
        add(d, i == 0 ? "" : ", ");
        add(d, d->out_name[i]);
    }
    add(d, "]\n");
}

/* Whether the bytes of a file have a text. */
static bool file_has(const char *path, const char *text)
{
    size_t n;
    char *bytes = test_read_file(path, &n);
    bool found = false;
    for (size_t i = 0; i + strlen(text) <= n && !found; i++) {
        found = memcmp(bytes + i, text, strlen(text)) == 0;
    }
    free(bytes);
    return found;
}

static void check_names(const net *d, const char *file, const char *path)
{
    for (int i = 0; i < d->n_in; i++) {
        TEST_EACH(file_has(path, d->in_name[i]), "%s: no name %s", file, d->in_name[i]);
    }
    for (int i = 0; i < d->n_out && d->n_out > 1; i++) {
        TEST_EACH(file_has(path, d->out_name[i]), "%s: no name %s", file, d->out_name[i]);
    }
}

/* A file of format onnx or tflite: --verify finds the model's values, under their names. */
static void check_file(const net *d, dt_module *m, const char *format, const char *folder,
                       uint64_t seed)
{
    char path[TEST_PATH];
    dt_export_summary summary;
    dt_export_difference out[DT_MAX_OUT];
    int n;
    test_join(path, folder, format);
    TEST_OK(m->ctx, dt_export(m, NULL, format, NULL, path, &summary));
    TEST_OK(m->ctx, dt_export_verify(m, NULL, path, out, &n));
    for (int i = 0; i < n; i++) {
        TEST_EACH(!summary.exact || out[i].equal == out[i].values, "%llu, %s: %lld of %lld equal",
                  (unsigned long long)seed, format, (long long)out[i].equal,
                  (long long)out[i].values);
        TEST_EACH(out[i].relative < 1e-2, "%llu, %s: %g apart", (unsigned long long)seed, format,
                  out[i].relative);
        TEST_EACH(d->n_out == 1 || strncmp(out[i].output, d->out_name[i], 3) == 0, "%s: %s is %s",
                  format, d->out_name[i], out[i].output);
    }
    check_names(d, format, path);
}

static void check_c(const net *d, dt_module *m, dt_tensor *const *x)
{
    char path[TEST_PATH], header[TEST_PATH];
    const c_subject o = { m, x, d->n_in, d->n_out, "net" };
    c_new_folder(path);
    TEST_OK(m->ctx, c_export(&o, NULL, path));
    test_join(header, path, "net.h");
    check_names(d, "c", header);
    c_check_folder(path, "cc -O0", "ends");
}

static void check(uint64_t seed, const char *folder)
{
    static const int presets[] = { DT_DEVICE_INT8, DT_INT8_DYNAMIC_INT8_WEIGHT, DT_DEVICE_INT4,
                                   -1 };
    const int preset = presets[seed % 4];
    const bool device = preset == DT_DEVICE_INT8 || preset == DT_DEVICE_INT4;
    dt_ctx_options o = dt_ctx_defaults();
    dt_tensor *x[MOST_INPUTS];
    dt_ctx *ctx;
    net d;
    o.seed = seed;
    o.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    draw(seed, &d);
    dt_module *m = list_net_create(ctx, d.layers);
    for (int i = 0; i < d.n_in; i++) x[i] = list_net_input(m, i, BATCH, 0.3 * (1 << 2 * i));
    TEST_OK(ctx, list_net_quantize(m, preset, x, d.n_in, d.n_out));
    if (device || preset < 0) check_file(&d, m, "tflite", folder, seed);
    if (!device) check_file(&d, m, "onnx", folder, seed);
    if (seed % 8 < 2) check_c(&d, m, x);
    for (int i = 0; i < d.n_in; i++) dt_tensor_free(x[i]);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

START_TEST(every_end_is_its_own)
{
    char folder[TEST_PATH];
    test_folder(folder);
    for (int64_t i = _i; i < test_networks(draws); i += 2) check((uint64_t)i, folder);
}
END_TEST

Suite *test_export_ends_suite(void)
{
    Suite *s = suite_create("export_ends");
    TCase *c = tcase_create("drawn");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, test_begin, test_end);
    tcase_add_loop_test(c, every_end_is_its_own, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
