/* Format c: features of signals. The functions of an export give the bits of dt_features_run, for
 * transforms of every size; data that does not fit the model is refused. */
#include "c_folder.h"

#include "core/core.h"

#include <detent/experimental/data.h>
#include <detent/nn.h>

#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 3, CHANNELS = 2 };

typedef void features_function(const float *samples, float *x, void *arena);

static dt_module *mlp_of(dt_ctx *ctx, int64_t inputs)
{
    const dt_mlp_options options = { .sizes = { 2, { inputs, 4 } }, .eps = 1e-5, .momentum = 0.1 };
    dt_module *m;
    TEST_OK(ctx, dt_mlp_create(ctx, &options, &m));
    return m;
}

static dt_status export_with(dt_module *m, int64_t inputs, const char *data, const char *path)
{
    dt_ctx *ctx = dt_module_ctx(m);
    const dt_model_info info = { .data = data };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, inputs }, &x));
    const c_subject o = { m, &x, 1, 1, "net" };
    const dt_status s = c_export(&o, &info, path);
    dt_tensor_free(x);
    return s;
}

/* Signals of both channels, side by side as an export reads them, and one behind the other. */
static void make_signals(int64_t samples, float *beside, float *behind)
{
    uint32_t state = 1;
    for (int64_t i = 0; i < samples * CHANNELS; i++) {
        state = state * 1664525u + 1013904223u;
        const float v = (float)((int32_t)(state >> 16) - 32768) / 32768;
        beside[i] = v;
        behind[i % CHANNELS * samples + i / CHANNELS] = v;
    }
}

static void compare_features(dt_ctx *ctx, const dt_features_options *o, const c_loaded *l)
{
    dt_features *f;
    TEST_OK(ctx, dt_features_create(ctx, o, &f));
    int64_t samples = 1;
    while (dt_features_frames(f, samples) < FRAMES) samples++;
    const size_t n = (size_t)(FRAMES * CHANNELS * dt_features_width(f));
    const size_t bytes = (size_t)(samples * CHANNELS) * sizeof(float);
    float *beside = malloc(bytes), *behind = malloc(bytes);
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    make_signals(samples, beside, behind);
    TEST_OK(ctx, dt_features_run(f, behind, CHANNELS, samples, want));
    ((features_function *)c_function_of(l, "net_features"))(beside, got, l->arena);
    ck_assert_mem_eq(want, got, n * sizeof *want);
    free(beside);
    free(behind);
    free(want);
    free(got);
    dt_features_free(f);
}

/* detent.data of a model that reads `input`. */
static void put_data(const dt_features_options *o, const char *input, char *to, size_t size)
{
    snprintf(to, size,
             "{\"target\": \"classes\", \"input\": %s, \"features\": {\"kind\": \"%s\", \"rate\": "
             "%g, \"frame_ms\": %g, \"step_ms\": %g, \"bins\": %d, \"coefficients\": %d, "
             "\"low_hz\": %g, \"high_hz\": %g, \"floor\": %g}}",
             input, o->kind == DT_FEATURES_MFCC ? "mfcc" : "log_mel", o->rate, o->frame_ms,
             o->step_ms, (int)o->bins, (int)o->coefficients, o->low_hz, o->high_hz, o->floor);
}

/* Frames of `frame` samples. */
static void check_features(int kind, int frame, int bins, const char *cc)
{
    char path[TEST_PATH], data[400], input[64];
    dt_features_options o = dt_features_defaults();
    dt_ctx *ctx;
    o.kind = kind;
    o.rate = 8000;
    o.frame_ms = frame / 8.0;
    o.step_ms = 5;
    o.bins = bins;
    o.coefficients = 1 + bins / 2;
    o.low_hz = 0;
    const int64_t width = kind == DT_FEATURES_MFCC ? o.coefficients : bins;
    snprintf(input, sizeof input, "[%d, %d, %d]", CHANNELS, FRAMES, (int)width);
    put_data(&o, input, data, sizeof data);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const int64_t inputs = CHANNELS * FRAMES * width;
    dt_module *m = mlp_of(ctx, inputs);
    c_new_folder(path);
    TEST_OK(ctx, export_with(m, inputs, data, path));
    c_check_folder(path, cc, "features");
    c_loaded l = c_load(path, cc);
    compare_features(ctx, &o, &l);
    c_unload(&l);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

START_TEST(features_have_the_same_bits)
{
    static const struct {
        int kind, frame, bins;
        const char *cc;
    } cases[] = {
        { DT_FEATURES_MFCC, 320, 20, "cc " C_STRICT " -O1" }, /* transforms of 512, */
        { DT_FEATURES_LOG_MEL, 200, 17, "cc -O3 -march=native -ffp-contract=fast" }, /* 256, */
        { DT_FEATURES_MFCC, 7, 2, "cc " C_STRICT " -O0" },                           /* 8, */
        { DT_FEATURES_LOG_MEL, 3, 1, "cc " C_STRICT " -O0" },                        /* 4 */
    };
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        check_features(cases[i].kind, cases[i].frame, cases[i].bins, cases[i].cc);
    }
}
END_TEST

/* A model of 20 numbers, and what its data says of examples. */
START_TEST(other_data_is_refused)
{
    static const struct {
        int kind, bins; /* kind -1: mean and deviation */
        const char *input, *says;
    } cases[] = {
        { -1, 0, "[1, 2, 11]", "another size" },
        { -1, 0, "[9223372036854775807, 2]", "another size" },
        { DT_FEATURES_LOG_MEL, 40, "[1, 2, 10]", "no [channels, frames, 40]" },
        { DT_FEATURES_MFCC, 40, "[20]", "no [channels, frames, 10]" },
        { DT_FEATURES_MFCC, 40, "[1, 3, 10]", "another size" },
        { DT_FEATURES_MFCC, 300, "[1, 2, 10]", "bins is 300" },
    };
    char path[TEST_PATH], data[400];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = mlp_of(ctx, 20);
    c_new_folder(path);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_features_options o = dt_features_defaults();
        o.kind = cases[i].kind;
        o.bins = cases[i].bins;
        put_data(&o, cases[i].input, data, sizeof data);
        if (cases[i].kind < 0) {
            snprintf(data, sizeof data,
                     "{\"target\": \"classes\", \"input\": %s, \"mean\": [0], \"deviation\": [1]}",
                     cases[i].input);
        }
        ck_assert_int_ne(export_with(m, 20, data, path), DT_OK);
        ck_assert_msg(strstr(dt_error(ctx), cases[i].says) != NULL, "%s", dt_error(ctx));
        ck_assert(!test_file_exists(path));
    }
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_export_c_features_suite(void)
{
    Suite *s = suite_create("export_c_features");
    TCase *c = tcase_create("features");
    tcase_add_test(c, features_have_the_same_bits);
    tcase_add_test(c, other_data_is_refused);
    suite_add_tcase(s, c);
    return s;
}
