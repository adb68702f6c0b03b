/* Log mel energies and cepstral coefficients: reference values in double, closed forms, any number
 * of threads, and what is refused. */
#include "testing.h"

#include <detent/experimental/data.h>
#include <detent/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void open_ctx(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }

static void close_ctx(void)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- reference values ------------------------------------------------------------------------ */

static const char *setting(dt_file *file, int c, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "c%d.%s", c, name);
    return dt_file_meta(file, key);
}

static double number(dt_file *file, int c, const char *name)
{
    return strtod(setting(file, c, name), NULL);
}

static dt_features_options options_of(dt_file *file, int c)
{
    const bool is_mfcc = strcmp(setting(file, c, "kind"), "mfcc") == 0;
    return (dt_features_options){ .kind = is_mfcc ? DT_FEATURES_MFCC : DT_FEATURES_LOG_MEL,
                                  .rate = number(file, c, "rate"),
                                  .frame_ms = number(file, c, "frame_ms"),
                                  .step_ms = number(file, c, "step_ms"),
                                  .bins = (int64_t)number(file, c, "bins"),
                                  .coefficients = (int64_t)number(file, c, "coefficients"),
                                  .low_hz = number(file, c, "low_hz"),
                                  .high_hz = number(file, c, "high_hz"),
                                  .floor = number(file, c, "floor") };
}

START_TEST(golden)
{
    char path[TEST_PATH], name[16];
    dt_file *file;
    dt_tensor *x, *want;
    open_ctx();
    test_join(path, DETENT_SOURCE_DIR "/tests/golden", "features.safetensors");
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_load(file, "signal", DT_F32, &x));
    for (int c = 0; c < 3; c++) {
        const dt_features_options o = options_of(file, c);
        dt_features *f;
        float out[4096];
        snprintf(name, sizeof name, "c%d", c);
        TEST_OK(ctx, dt_file_load(file, name, DT_F64, &want));
        TEST_OK(ctx, dt_features_create(ctx, &o, &f));
        ck_assert_int_eq(dt_features_frames(f, dt_count(x)), dt_dim(want, 0));
        ck_assert_int_eq(dt_features_width(f), dt_dim(want, 1));
        TEST_OK(ctx, dt_features_run(f, dt_data(x), 1, dt_count(x), out));
        const double *v = dt_data(want);
        for (int64_t i = 0; i < dt_count(want); i++) TEST_NEAR((double)out[i], v[i], 2e-4, 2e-5);
        dt_features_free(f);
        dt_tensor_free(want);
    }
    dt_tensor_free(x);
    dt_file_close(file);
    close_ctx();
}
END_TEST

/* ---- closed forms ---------------------------------------------------------------------------- */

/* Silence has the logarithm of the floor in every filter, so only the first coefficient. */
START_TEST(silence)
{
    dt_features_options o = dt_features_defaults();
    static float samples[16000], out[49 * 40];
    dt_features *f;
    open_ctx();
    o.kind = DT_FEATURES_LOG_MEL;
    TEST_OK(ctx, dt_features_create(ctx, &o, &f));
    ck_assert_int_eq(dt_features_frames(f, 16000), 49);
    ck_assert_int_eq(dt_features_frames(f, 640), 1);
    ck_assert_int_eq(dt_features_frames(f, 639), 0);
    TEST_OK(ctx, dt_features_run(f, samples, 1, 16000, out));
    for (int i = 0; i < 49 * 40; i++) ck_assert_float_eq(out[i], logf(1e-6f));
    dt_features_free(f);
    o.kind = DT_FEATURES_MFCC;
    TEST_OK(ctx, dt_features_create(ctx, &o, &f));
    TEST_OK(ctx, dt_features_run(f, samples, 1, 16000, out));
    for (int i = 0; i < 490; i++) {
        TEST_NEAR((double)out[i], i % 10 == 0 ? sqrt(40) * log(1e-6) : 0, 1e-4, 1e-6);
    }
    dt_features_free(f);
    close_ctx();
}
END_TEST

/* A tone is loudest in the filter around its frequency. */
START_TEST(tone)
{
    dt_features_options o = dt_features_defaults();
    static float samples[640], out[40];
    dt_features *f;
    open_ctx();
    o.kind = DT_FEATURES_LOG_MEL;
    TEST_OK(ctx, dt_features_create(ctx, &o, &f));
    const double low = 2595 * log10(1 + 20 / 700.0), high = 2595 * log10(1 + 8000 / 700.0);
    for (int hz = 200; hz < 7500; hz += 331) {
        for (int i = 0; i < 640; i++) {
            samples[i] = (float)sin(2 * 3.14159265358979 * hz * i / 16000);
        }
        TEST_OK(ctx, dt_features_run(f, samples, 1, 640, out));
        int best = 0;
        for (int b = 1; b < 40; b++) best = out[b] > out[best] ? b : best;
        const double place = (2595 * log10(1 + hz / 700.0) - low) / (high - low) * 41 - 1;
        ck_assert_msg(fabs(place - best) < 1, "%d Hz: filter %d, not about %g", hz, best, place);
    }
    dt_features_free(f);
    close_ctx();
}
END_TEST

/* ---- threads, memory ------------------------------------------------------------------------- */

START_TEST(threads)
{
    dt_features_options o = dt_features_defaults();
    static float samples[3][2000], first[3 * 5 * 10], out[3 * 5 * 10];
    o.kind = DT_FEATURES_MFCC;
    for (int i = 0; i < 6000; i++) samples[i / 2000][i % 2000] = (float)(i * 7919 % 4001) / 4001;
    for (int n = 1; n <= 3; n++) {
        dt_features *f;
        dt_ctx_options with = dt_ctx_defaults();
        with.threads = n;
        ck_assert_int_eq(dt_ctx_create(&ctx, &with), DT_OK);
        TEST_OK(ctx, dt_features_create(ctx, &o, &f));
        ck_assert_int_eq(dt_features_frames(f, 2000), 5);
        TEST_OK(ctx, dt_features_run(f, samples[0], 3, 2000, n == 1 ? first : out));
        if (n > 1) ck_assert_mem_eq(first, out, sizeof out);
        dt_features_free(f);
        close_ctx();
    }
}
END_TEST

static dt_status create_only(dt_ctx *c, void *unused)
{
    (void)unused;
    dt_features_options o = dt_features_defaults();
    o.kind = DT_FEATURES_MFCC;
    dt_features *f;
    const dt_status status = dt_features_create(c, &o, &f);
    dt_features_free(f);
    return status;
}

START_TEST(no_memory) { test_every_allocation(create_only, NULL); }
END_TEST

/* ---- errors ---------------------------------------------------------------------------------- */

START_TEST(refused)
{
    const dt_features_options usual = dt_features_defaults();
    dt_features_options o[12];
    for (int i = 0; i < 12; i++) {
        o[i] = usual;
        o[i].kind = DT_FEATURES_MFCC;
    }
    static const char *const says[] = {
        "kind is 0",   "rate is nan",        "frame_ms is 0",     "step_ms is -1",
        "bins is 513", "coefficients is 41", "low_hz is 8000",    "high_hz is nan",
        "floor is 0",  "has none of",        "that is 0 samples", "that is 1 samples",
    };
    o[0].kind = DT_FEATURES_NONE;
    o[1].rate = NAN;
    o[2].frame_ms = 0;
    o[3].step_ms = -1;
    o[4].bins = 513;
    o[5].coefficients = 41;
    o[6].low_hz = 8000;
    o[7].high_hz = NAN;
    o[8].floor = 0;
    o[9].bins = 300;
    o[10].step_ms = 0.01;
    o[11].frame_ms = 0.06;
    open_ctx();
    for (int i = 0; i < 12; i++) {
        dt_features *f;
        ck_assert_int_eq(dt_features_create(ctx, &o[i], &f), DT_ERR_ARG);
        ck_assert_ptr_null(f);
        ck_assert_msg(strstr(dt_error(ctx), says[i]) != NULL, "%s", dt_error(ctx));
    }
    o[0].kind = DT_FEATURES_MFCC;
    dt_features *f;
    float samples[639] = { 0 }, out[10];
    TEST_OK(ctx, dt_features_create(ctx, &o[0], &f));
    ck_assert_int_eq(dt_features_run(f, samples, 1, 639, out), DT_ERR_ARG);
    ck_assert_msg(strstr(dt_error(ctx), "a frame has 640") != NULL, "%s", dt_error(ctx));
    ck_assert_int_eq(dt_features_run(f, samples, -1, 640, out), DT_ERR_ARG);
    dt_features_free(f);
    close_ctx();
}
END_TEST

Suite *test_features_suite(void)
{
    Suite *s = suite_create("features");
    TCase *c = tcase_create("features");
    tcase_add_test(c, golden);
    tcase_add_test(c, silence);
    tcase_add_test(c, tone);
    tcase_add_test(c, threads);
    tcase_add_test(c, no_memory);
    tcase_add_test(c, refused);
    suite_add_tcase(s, c);
    return s;
}
