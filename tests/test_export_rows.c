/* Format onnx: an example that is not finite, or overflows, changes no other example of its batch,
 * in each kind of operators. With DETENT_EXPORTS=FOLDER the files stay there. */
#include "list_nets.h"
#include "testing.h"

#include "core/core.h"
#include "core/tensor.h"
#include "io/onnx/interpret/interpret.h"
#include "nn/module.h"

#include <detent/export.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 5
#define GOOD 2 /* the row that is right */

static const test_draws draws = { .usual = 96, .sanitized = 8, .quick = 32 };

static const char *const activations[] = { "silu",      "sigmoid", "tanh",       "gelu",
                                           "hardswish", "elu",     "leaky_relu", "softmax" };

/* Forms of the file, and the preset for each. */
static const struct {
    int preset, ops;
    int64_t accuracy;
    bool strict; /* no value is cast to a type that cannot hold it */
} ways[] = {
    { -1, DT_ONNX_PLAIN, 0, true },
    { DT_INT8_DYNAMIC_INT4_WEIGHT, DT_ONNX_PLAIN, 0, false },
    { DT_INT8_STATIC_INT8_WEIGHT, DT_ONNX_PLAIN, 0, false },
    { DT_INT8_STATIC_INT8_WEIGHT, DT_ONNX_QDQ, 0, false },
    { DT_INT4_WEIGHT, DT_ONNX_NBITS, 0, true },
    { DT_INT8_BLOCK_INT4_WEIGHT, DT_ONNX_NBITS, 4, false },
};

/* Rows, images or steps, with a drawn activation behind each product. */
static void draw(dt__stream *s, char *text, size_t size)
{
    const char *a = activations[dt__random_below(s, 8)], *b = activations[dt__random_below(s, 7)];
    const int width = 8 + (int)dt__random_below(s, 40), out = 2 + (int)dt__random_below(s, 4);
    const int kind = (int)dt__random_below(s, 4);
    if (kind == 0) {
        snprintf(text, size,
                 "  input: [%d]\n  layers:\n  - {linear: a, out: %d}\n  - %s\n"
                 "  - {linear: b, out: %d}\n  - %s\n",
                 width, width + 3, b, out, a);
    } else if (kind == 1) {
        snprintf(text, size,
                 "  input: [2, 6, 7]\n  layers:\n  - {conv2d: a, out: %d, padding: 1}\n  - %s\n"
                 "  - global_avg_pool2d\n  - flatten\n  - {linear: b, out: %d}\n  - %s\n",
                 width, b, out, a);
    } else {
        snprintf(text, size,
                 "  input: [6, %d]\n  layers:\n  - {%s: r, hidden: %d, last: true}\n  - %s\n"
                 "  - {linear: b, out: %d}\n  - %s\n",
                 width, kind == 2 ? "gru" : "lstm", 8 + width % 5, b, out, a);
    }
}

/* Values that are not finite or overflow: in all places of a row, or in one. */
static void spoil(dt__stream *s, float *row, int64_t n)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e30f };
    const float v = bad[dt__random_below(s, 6)];
    const bool all = dt__random_below(s, 2) == 0;
    const int64_t at = (int64_t)dt__random_below(s, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) row[i] = all || i == at ? v : row[i];
}

/* Outputs of the file; the caller frees them. */
static float *run(dt_ctx *ctx, const char *path, dt_tensor *x, int open, const char *what,
                  int64_t *n)
{
    dt__verify *v;
    const dt__verify_limits limits = { .open = open };
    TEST_OK(ctx, dt__verify_open(ctx, path, &limits, &v));
    dt__verify_named in = {
        dt__verify_input_name(v, 0),
        { .type = DT__VERIFY_F32, .rank = x->rank, .count = x->count, .data = dt_data_mut(x) }
    };
    memcpy(in.value.dims, x->dims, sizeof x->dims);
    const dt_status s = dt__verify_run(v, &in, 1);
    TEST_EACH(s == DT_OK, "%s: open casts %d: %s", what, open, dt_error(ctx));
    const dt__verify_value *y = dt__verify_output(v, 0);
    *n = y->count / BATCH;
    float *values = malloc((size_t)y->count * sizeof *values);
    ck_assert_ptr_nonnull(values);
    memcpy(values, y->data, (size_t)y->count * sizeof *values);
    dt__verify_close(v);
    return values;
}

static void compare(dt_ctx *ctx, const char *path, dt_tensor *x, bool strict, const char *what)
{
    dt__stream s = dt__stream_of((uint64_t)x->count, DT__FOR_USER);
    int64_t n;
    const int64_t row = x->count / BATCH;
    float *want = run(ctx, path, x, DT__VERIFY_OPEN_FAILS, what, &n);
    for (int64_t i = 0; i < BATCH; i++) {
        if (i != GOOD) spoil(&s, (float *)dt_data_mut(x) + i * row, row);
    }
    for (int open = strict ? DT__VERIFY_OPEN_FAILS : DT__VERIFY_OPEN_LEAST;
         open <= DT__VERIFY_OPEN_ZERO; open++) {
        float *got = run(ctx, path, x, open, what, &n);
        TEST_EACH(memcmp(got + GOOD * n, want + GOOD * n, (size_t)n * sizeof *got) == 0,
                  "%s: the good row has other values", what);
        free(got);
    }
    free(want);
}

static void check(uint64_t seed, const char *folder)
{
    char layers[1024], what[1200], path[TEST_PATH], name[64];
    const int way = (int)(seed % DT__COUNT_OF(ways));
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    dt_ctx_options o = dt_ctx_defaults();
    dt_ctx *ctx;
    o.seed = seed;
    o.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    draw(&s, layers, sizeof layers);
    snprintf(what, sizeof what, "%llu, way %d:\n%s", (unsigned long long)seed, way, layers);
    snprintf(name, sizeof name, "rows-%llu.onnx", (unsigned long long)seed);
    test_join(path, folder, name);
    dt_module *m = list_net_create(ctx, layers);
    dt_tensor *x = list_net_input(m, 0, BATCH, 1.5);
    dt_export_options options = dt_export_defaults();
    options.onnx_ops = ways[way].ops;
    options.accuracy = ways[way].accuracy;
    dt_status status = list_net_quantize(m, ways[way].preset, &x, 1, 1);
    TEST_EACH(status == DT_OK, "%s: %s", what, dt_error(ctx));
    status = dt_export(m, NULL, "onnx", &options, path, NULL);
    TEST_EACH(status == DT_OK, "%s: %s", what, dt_error(ctx));
    compare(ctx, path, x, ways[way].strict, what);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

START_TEST(bad_rows_stay_alone)
{
    char folder[TEST_PATH];
    const char *kept = getenv("DETENT_EXPORTS");
    test_folder(folder);
    for (int64_t i = _i; i < test_networks(draws); i += 2) {
        check((uint64_t)i, kept != NULL ? kept : folder);
    }
}
END_TEST

Suite *test_export_rows_suite(void)
{
    Suite *s = suite_create("export_rows");
    TCase *c = tcase_create("drawn");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, test_begin, test_end);
    tcase_add_loop_test(c, bad_rows_stay_alone, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
