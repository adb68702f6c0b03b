/* Plugins in the program: those of examples/plugins are used in training, stored by name and hash,
 * and required by every command that reads the run or its model. */
#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/experimental/plugin.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define EXAMPLES DETENT_BINARY_DIR "/examples/"
#define SOURCES DETENT_SOURCE_DIR "/examples/plugins/"

static char folder[TEST_PATH], said[1 << 15];
static dt_ctx *ctx;

static void setup(void)
{
    test_folder(folder);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
}

static void teardown(void) { dt_ctx_free(ctx); }

/* The exit status of `detent ARGUMENTS` in the test's folder; what it says is in `said`. */
static int detent(const char *arguments)
{
    char line[3 * TEST_PATH];
    snprintf(line, sizeof line, "cd '%s' && '" DETENT_BINARY_DIR "/detent' %s 2>&1", folder,
             arguments);
    FILE *out = popen(line, "r");
    ck_assert_ptr_nonnull(out);
    const size_t n = fread(said, 1, sizeof said - 1, out);
    said[n] = 0;
    const int status = pclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_runs(const char *arguments)
{
    const int status = detent(arguments);
    ck_assert_msg(status == 0, "%s: %d: %s", arguments, status, said);
}

static void check_fails(const char *arguments, const char *message)
{
    const int status = detent(arguments);
    ck_assert_msg(status != 0, "%s works", arguments);
    ck_assert_msg(strstr(said, message) != NULL, "%s: %s", arguments, said);
}

static void copy_plugin(const char *name)
{
    char line[3 * TEST_PATH];
    snprintf(line, sizeof line, "cp '" EXAMPLES "%s' '%s'", name, folder);
    ck_assert_int_eq(system(line), 0);
}

#define SHORT "data.train_count=300 data.test_count=100 train.epochs=1 run.report=false --quiet "

static void train_pact(void)
{
    copy_plugin("pact.so");
    check_runs("train " SOURCES "pact.yaml run.plugins=[./pact.so] run.dir=run qat.start_step=2 "
               "train.checkpoint.every_steps=2 " SHORT);
}

/* ---- the program ---------------------------------------------------------------------------- */

START_TEST(a_layer_is_trained_and_converted)
{
    train_pact();
    char path[TEST_PATH];
    test_join(path, folder, "run/recipe.yaml");
    char *recipe = test_read_file(path, NULL);
    ck_assert_ptr_nonnull(strstr(recipe, "./pact.so@xxh3:"));
    free(recipe);
    check_runs("eval run");
    check_runs("train run --resume --quiet");
    check_runs("export run --format c -o out --quiet");
    check_runs("export run --format onnx --verify -o out.onnx --quiet");
    check_runs("inspect run --layers");
    ck_assert_ptr_nonnull(strstr(said, "pact"));
    check_runs("eval run/model.safetensors run/recipe.yaml");
    check_runs("eval run/model.safetensors run");
    check_fails("inspect run/model.safetensors --layers", "needs plugin 'pact' of XXH3 ");
    check_runs("inspect run/model.safetensors --layers --plugin ./pact.so");
    test_write_text((test_join(path, folder, "s.yaml"), path),
                    "keys: {train.optimizer.lr: [1e-3, 2e-3]}\n");
    check_runs("sweep run/recipe.yaml s.yaml --quiet run.dir=swept");
}
END_TEST

START_TEST(another_file_or_none_is_refused)
{
    char path[TEST_PATH];
    train_pact();
    test_join(path, folder, "pact.so");
    FILE *file = fopen(path, "ab");
    fputc(0, file);
    fclose(file);
    static const char *const commands[] = { "eval run", "train run --resume",
                                            "inspect run --layers",
                                            "export run --format c -o out" };
    for (int i = 0; i < 4; i++) check_fails(commands[i], "another file than the one that was used");
    check_fails("inspect run/model.safetensors --layers --plugin ./pact.so",
                "was written with another file of plugin 'pact'");
    remove(path);
    for (int i = 0; i < 4; i++) check_fails(commands[i], "'run.plugins': ");
    check_runs("eval run --plugin " EXAMPLES
               "pact.so"); /* the same file, which lies elsewhere now */
    check_fails("eval run --plugin " EXAMPLES "stochastic.so", "'run.plugins': ./pact.so: cannot");
}
END_TEST

/* The recipe of a run names the plugin; a sweep of it may compare by the plugin's metric. */
START_TEST(a_loss_and_a_metric_are_swept)
{
    char path[TEST_PATH];
    check_runs("train " DETENT_SOURCE_DIR "/configs/table-values.yaml run.dir=run "
               "--plugin " EXAMPLES "values.so train.loss=quartic train.metrics=[worst] "
               "data.train_count=300 data.test_count=60 train.epochs=1 qat.start_step=2 "
               "train.schedule.warmup_steps=0 run.report=false --quiet");
    check_runs("eval run");
    ck_assert_ptr_nonnull(strstr(said, "worst "));
    test_write_text((test_join(path, folder, "s.yaml"), path),
                    "metric: worst\nkeys: {train.loss: [mse, quartic]}\n");
    check_runs("sweep run/recipe.yaml s.yaml --quiet run.dir=run");
    ck_assert_ptr_nonnull(strstr(said, "worst, best first by "));
    check_runs("compare run-sweep");
    ck_assert_ptr_nonnull(strstr(said, "worst"));
    test_write_text(path, "metric: best\nkeys: {train.loss: [mse, quartic]}\n");
    check_fails("sweep run/recipe.yaml s.yaml --quiet run.dir=run", "no task has a metric 'best'");
}
END_TEST

/* Every weight is a multiple of the grid after training in float. */
START_TEST(an_optimizer_is_trained_with)
{
    char path[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    copy_plugin("stochastic.so");
    check_runs("train " SOURCES "stochastic.yaml --plugin=./stochastic.so run.dir=run "
               "qat.start_step=2 " SHORT);
    check_runs("eval run");
    test_join(path, folder, "stochastic.so");
    TEST_OK(ctx, dt_plugin_load(ctx, path));
    test_join(path, folder, "run/float.safetensors");
    TEST_OK(ctx, dt_model_load(ctx, path, &m, &info));
    const dt_tensor *w = dt_param(m, "layers.0.weight");
    for (int64_t i = 0; i < dt_count(w); i++) {
        const double v = ((const float *)dt_data(w))[i] * 256.0;
        ck_assert(v == rint(v));
    }
    dt_module_free(m);
    dt_model_info_free(ctx, &info);
}
END_TEST

/* The plugin's scales are powers of two, and the converted model has the bits of the trained one,
 * in memory, from its file and in ONNX; without the plugin, file and recipe are refused. */
START_TEST(a_scheme_is_trained_and_converted)
{
    char path[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    copy_plugin("power_scales.so");
    check_runs("train " SOURCES "power_scales.yaml run.plugins=[./power_scales.so] run.dir=run "
               "qat.start_step=2 train.checkpoint.every_steps=2 " SHORT);
    test_join(path, folder, "run/summary.json");
    char *summary = test_read_file(path, NULL);
    ck_assert_ptr_nonnull(strstr(summary, "\"same_bits_as_qat\": true"));
    free(summary);
    check_runs("eval run");
    check_runs("train run --resume --quiet");
    check_runs("inspect run");
    ck_assert_ptr_nonnull(strstr(said, "power_scales"));
    check_runs("export run --format onnx --verify -o out.onnx --quiet");
    check_runs("export run --format c -o out --quiet");
    check_fails("inspect run/model.safetensors --layers", "needs plugin 'power_scales' of XXH3 ");
    test_join(path, folder, "power_scales.so");
    TEST_OK(ctx, dt_plugin_load(ctx, path));
    test_join(path, folder, "run/model.safetensors");
    TEST_OK(ctx, dt_model_load(ctx, path, &m, &info));
    dt_tensor *values;
    TEST_OK(ctx, dt_dequantize(dt_param(m, "fc1.weight"), &values));
    const int64_t columns = dt_dim(values, 1);
    for (int64_t i = 0; i < dt_count(values); i += columns) {
        int exponent;
        float largest = 0;
        for (int64_t k = i; k < i + columns; k++) {
            largest = fmaxf(largest, fabsf(((const float *)dt_data(values))[k]));
        }
        const float part = frexpf(largest, &exponent) * 16; /* a code of at most 4 bits */
        ck_assert_msg(part == rintf(part), "%g", (double)largest);
    }
    dt_tensor_free(values);
    dt_module_free(m);
    dt_model_info_free(ctx, &info);
}
END_TEST

START_TEST(schemes_are_checked)
{
#define RECIPE "config validate " SOURCES "power_scales.yaml "
#define LOADED RECIPE "--plugin " EXAMPLES "power_scales.so "
    check_runs(LOADED);
    check_fails(RECIPE, "'qat.weight.own': there is no scheme 'power_scales': a plugin has it");
    check_fails(LOADED "qat.weight.own=other", "'qat.weight.own': there is no scheme 'other'");
    check_fails(LOADED "'~qat.weight.own'", "scheme own requires 'own'");
    check_fails(LOADED "qat.activation.range=dynamic", "activations with range static");
    check_fails(LOADED "qat.weight.range=learned", "own");
    static const dt_own_scheme nameless = { .text = "none" };
    TEST_FAILS(ctx, DT_ERR_ARG, "a name and a function", dt_scheme_register(ctx, &nameless));
    TEST_OK(ctx, dt_plugin_load(ctx, EXAMPLES "power_scales.so"));
    const dt_own_scheme *it = dt_scheme_named(ctx, "power_scales");
    ck_assert_ptr_nonnull(it);
    TEST_FAILS(ctx, DT_ERR_ARG, "already", dt_scheme_register(ctx, it));
    const dt_own_scheme taken = { .name = "symmetric", .scale = it->scale };
    TEST_FAILS(ctx, DT_ERR_ARG, "already", dt_scheme_register(ctx, &taken));
    const float lo[] = { 0, -7, -7.5f, -1 }, hi[] = { 0, 3, 14, 1 };
    float scale[4];
    it->scale(4, lo, hi, -8, 7, scale);
    ck_assert(scale[0] == 0x1p-126f && scale[1] == 1 && scale[2] == 2 && scale[3] == 0.25f);
}
END_TEST

/* ---- what is no plugin ---------------------------------------------------------------------- */

static const struct {
    const char *plugin, *message;
} bad[] = {
    { "text.so", "plugin text.so: " },
    { "text.c", "cc -shared -fPIC -I INCLUDE text.c -o NAME.so" },
    { "nowhere.so", "nowhere.so" },
    { ".", "." },
    { "''", "expected a file" },
    { EXAMPLES "other_abi.so", "compiled with headers of another detent (plugin ABI 999" },
    { EXAMPLES "no_plugin.so", "it has no dt_this_plugin, which DT_PLUGIN" },
    { EXAMPLES "failing.so", "loss: a name, a function and targets" },
    { EXAMPLES "pact.so@xxh3:12", "expected 16 hexadecimal digits" },
    { EXAMPLES "pact.so@xxh3:0123456789abcdef", "another file than the one that was used" },
};

START_TEST(no_plugin)
{
    char path[TEST_PATH], line[2 * TEST_PATH];
    test_write_text((test_join(path, folder, "text.so"), path), "not a library\n");
    test_write_text((test_join(path, folder, "text.c"), path), "int source;\n");
    snprintf(line, sizeof line, "config validate " SOURCES "stochastic.yaml --plugin %s",
             bad[_i].plugin);
    check_fails(line, bad[_i].message);
    snprintf(line, sizeof line, "config validate " SOURCES "stochastic.yaml 'run.plugins=[%s]'",
             strcmp(bad[_i].plugin, "''") == 0 ? "\"\"" : bad[_i].plugin);
    check_fails(line, bad[_i].message);
}
END_TEST

START_TEST(names_without_their_plugin)
{
    check_fails("config validate " SOURCES "stochastic.yaml",
                "'train.optimizer.own': no optimizer 'stochastic' is registered");
    check_fails("config validate " SOURCES "pact.yaml",
                "there is no 'pact' (did you mean 'pad'?); a plugin can add one");
    check_fails("config validate " SOURCES "stochastic.yaml '~train.optimizer.own'",
                "'train.optimizer.name' is own, so");
    check_fails("config validate " SOURCES "stochastic.yaml train.optimizer.name=sgd",
                "'train.optimizer.own' belongs to own");
}
END_TEST

START_TEST(a_context_loads_once)
{
    TEST_OK(ctx, dt_plugin_load(ctx, EXAMPLES "pact.so"));
    TEST_OK(ctx, dt_plugin_load(ctx, EXAMPLES "pact.so"));
    ck_assert_str_eq(dt_plugin_at(ctx, 0)->name, "pact");
    ck_assert_ptr_null(dt_plugin_at(ctx, 1));
    ck_assert_ptr_nonnull(dt_layer_kind_in(ctx, "pact"));
    ck_assert_ptr_null(dt_layer_kind("pact"));
}
END_TEST

Suite *test_plugins_suite(void)
{
    Suite *s = suite_create("plugins");
    TCase *c = tcase_create("plugins");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 600);
    tcase_add_test(c, a_layer_is_trained_and_converted);
    tcase_add_test(c, another_file_or_none_is_refused);
    tcase_add_test(c, a_loss_and_a_metric_are_swept);
    tcase_add_test(c, an_optimizer_is_trained_with);
    tcase_add_test(c, a_scheme_is_trained_and_converted);
    tcase_add_test(c, schemes_are_checked);
    tcase_add_loop_test(c, no_plugin, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(c, names_without_their_plugin);
    tcase_add_test(c, a_context_loads_once);
    suite_add_tcase(s, c);
    return s;
}
