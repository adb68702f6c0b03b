/* The reader of TFLite files: every truncation of a file and many flipped bits end in an error or
 * in a run, and damage of each kind is named. */
#include "testing.h"
#include "tflite_files.h"

#include "core/core.h"
#include "io/tflite/lite.h"

#include <detent/nn.h>
#include <detent/qat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined TEST_SANITIZED
#define STEP 7 /* bytes between those that are tried */
#else
#define STEP 1
#endif

static dt_ctx *ctx;
static test_memory memory;
static char *file;
static size_t size;

/* A small network of convolutions with 4 bits, pools and a linear layer. */
static void make_file(void)
{
    static const int64_t dims[] = { 2, 2, 6, 5 };
    char folder[TEST_PATH], stem[TEST_PATH], path[TEST_PATH + 8];
    dt_conv_layer l = {
        .in = 2, .out = 4, .kernel = { 3, 3 }, .bias = true, .conv = dt_conv_defaults()
    };
    dt_qat_options o = dt_qat_defaults();
    dt_module *m, *child;
    dt_tensor *x;
    test_folder(folder);
    test_join(stem, folder, "net");
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_conv2d_create(ctx, &l, &child));
    TEST_OK(ctx, dt_module_add(m, "conv", child));
    TEST_OK(ctx, dt_max_pool2d_create(ctx, NULL, &child));
    TEST_OK(ctx, dt_module_add(m, "pool", child));
    TEST_OK(ctx, dt_flatten_create(ctx, &child));
    TEST_OK(ctx, dt_module_add(m, "flatten", child));
    TEST_OK(ctx, dt_linear_create(ctx, 8, 3, true, &child));
    TEST_OK(ctx, dt_module_add(m, "head", child));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    o.weight.quant.granularity = DT_PER_CHANNEL;
    o.weight.has_granularity = true;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
    ck_assert(tflite_check(&s, stem, false) < 1e-2);
    snprintf(path, sizeof path, "%s.tflite", stem);
    file = test_read_file(path, &size);
    dt_tensor_free(x);
    dt_module_free(m);
}

static void begin(void)
{
    dt_ctx_options o = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    o.allocator = test_allocator(&memory);
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    make_file();
}

static void end(void)
{
    free(file);
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

/* Reads and runs n bytes, which end where memory ends. */
static dt_status try(const char *bytes, size_t n)
{
    static const dt__vlite_limits limits = { .bytes = 1 << 20, .work = 1e6 };
    dt__vlite *v;
    char *own = malloc(n == 0 ? 1 : n);
    ck_assert_ptr_nonnull(own);
    memcpy(own, bytes, n);
    dt_status s = dt__vlite_open(ctx, "net.tflite", &(dt__span){ own, n }, &limits, &v);
    for (int i = 0; s == DT_OK && i < dt__vlite_inputs(v); i++) {
        const int64_t count = dt__vlite_input(v, i)->count;
        float *x = count > 1 << 20 ? NULL : calloc((size_t)count + 1, sizeof *x);
        s = x == NULL ? DT_ERR_NOMEM : dt__vlite_give(v, i, x);
        free(x);
    }
    if (s == DT_OK) s = dt__vlite_run(v);
    dt__vlite_close(v);
    free(own);
    return s;
}

START_TEST(every_truncation)
{
    TEST_OK(ctx, try(file, size));
    for (size_t n = 0; n < size; n += STEP) {
        const dt_status s = try(file, n);
        TEST_EACH(s != DT_OK, "%zu of %zu bytes are read", n, size);
        TEST_EACH(strlen(dt_error(ctx)) > 0, "%zu bytes: no message", n);
    }
}
END_TEST

/* Each byte with one bit flipped, then with another value; then pairs of bytes. */
START_TEST(flipped_bits)
{
    dt__stream random = dt__stream_of(3, DT__FOR_USER);
    int64_t refused = 0, tried = 0;
    for (size_t i = (size_t)_i; i < size; i += 4 * STEP) {
        for (int kind = 0; kind < 3; kind++) {
            const char was = file[i], other = (char)dt__random_below(&random, 256);
            const size_t j = (size_t)dt__random_below(&random, size);
            const char behind = file[j];
            const int bit = 1 << dt__random_below(&random, 8);
            file[i] = kind == 0 ? (char)(was ^ bit) : other;
            if (kind == 2) file[j] = (char)dt__random_below(&random, 256);
            refused += try(file, size) != DT_OK;
            tried++;
            file[j] = behind;
            file[i] = was;
        }
    }
    ck_assert_int_gt(refused, tried / 20);
    TEST_OK(ctx, try(file, size));
}
END_TEST

START_TEST(damage_is_named)
{
    char other[] = "abcdefgh";
    ck_assert_int_eq(try(other, 8), DT_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "not a file of this kind (TFL3), at byte 4"));
    const char first = file[0];
    file[0] = (char)0xff;
    file[1] = (char)0xff;
    ck_assert_int_eq(try(file, size), DT_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "outside of the file, at byte 0"));
    file[0] = first;
}
END_TEST

/* The smallest input is code -128, also where its quotient by the step, -42.5, is less as a product
 * with the step's inverse. */
START_TEST(codes_stay_in_their_range)
{
    static const float x[] = { -0x1.ddba02p+3f, 0x1.2a944p+6f }, weight[] = { 1, 0 };
    char folder[TEST_PATH], stem[TEST_PATH], path[TEST_PATH + 8];
    dt_qat_options o = dt_qat_defaults();
    dt_module *m;
    dt_tensor *in;
    dt__vlite *v;
    size_t n;
    test_folder(folder);
    test_join(stem, folder, "codes");
    TEST_OK(ctx, dt_linear_create(ctx, 2, 1, false, &m));
    memcpy(dt_data_mut(dt_param(m, "weight")), weight, sizeof weight);
    o.preset = DT_INT8_DYNAMIC_INT8_WEIGHT;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ 1, 2 }, x, &in));
    tflite_check(&(tflite_subject){ .m = m, .x = &in, .n_in = 1 }, stem, false);
    snprintf(path, sizeof path, "%s.tflite", stem);
    char *bytes = test_read_file(path, &n);
    TEST_OK(ctx, dt__vlite_open(ctx, path, &(dt__span){ bytes, n }, NULL, &v));
    TEST_OK(ctx, dt__vlite_give(v, 0, x));
    TEST_OK(ctx, dt__vlite_run(v));
    const double step = ((double)x[1] - (double)x[0]) / 255;
    TEST_NEAR(dt__vlite_output(v, 0)->f[0], -42 * step, 0.2 * step, 0);
    dt__vlite_close(v);
    free(bytes);
    dt_tensor_free(in);
    dt_module_free(m);
}
END_TEST

Suite *test_verify_tflite_suite(void)
{
    Suite *s = suite_create("verify_tflite");
    TCase *c = tcase_create("files");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, every_truncation);
    tcase_add_loop_test(c, flipped_bits, 0, 4);
    tcase_add_test(c, damage_is_named);
    tcase_add_test(c, codes_stay_in_their_range);
    suite_add_tcase(s, c);
    return s;
}
