/* qat.target of a recipe: every shipped recipe with every target is accepted, or refused because of
 * its model, never because of a setting that the target chooses; what is trained for litert can be
 * exported and is correct, for drawn networks; adapters do not prevent a format. And --verify: a
 * file that fails is not left at the given path. */
#include "fault_runs.h"
#include "list_nets.h"
#include "models.h"
#include "testing.h"

#include "core/core.h"
#include "core/tensor.h"
#include "nn/lists/graph.h"
#include "nn/module.h"

#include <detent/experimental/export.h>
#include <detent/io.h>
#include <detent/experimental/train.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "
#define CONFIGS DETENT_SOURCE_DIR "/configs"

static const char *const targets[] = { "llama.cpp", "onnxruntime", "litert", "transformers",
                                       "device" };

/* ---- shipped recipes ------------------------------------------------------------------------- */

static dt_status read_recipe(dt_ctx *ctx, const char *path, const char *target, dt_recipe **r)
{
    char given[64];
    const char *const overrides[] = { "~qat.preset", given };
    size_t n;
    char *text = test_read_file(path, &n);
    snprintf(given, sizeof given, "qat.target=%s", target);
    const dt_recipe_source source = { .path = path,
                                      .text = text,
                                      .bytes = n,
                                      .overrides = overrides,
                                      .n_overrides = 2,
                                      .leave_files = true };
    const dt_status s = dt_recipe_read(ctx, &source, r);
    free(text);
    return s;
}

/* Prepares the model and asks each format of the target whether it can hold it, as a run does
 * before training. */
static dt_status ask_formats(dt_ctx *ctx, const dt_recipe_options *o)
{
    dt_module *m;
    const dt_model_info info = { .family = o->model.family, .options = o->model.options };
    DT__TRY(o->model.family->create(ctx, o->model.options, &m));
    dt_status s = dt_prepare(m, &o->qat);
    for (int i = 0; s == DT_OK && i < o->convert.formats.n; i++) {
        s = dt_export_check(m, &info, o->convert.formats.v[i]);
    }
    dt_module_free(m);
    return s;
}

/* Whether a target can hold any model of this kind. */
static bool is_taken(const char *name, const char *target)
{
    static const char *const networks[] = { "digits-cnn",   "sensors-conv1d", "digits-mobilenet",
                                            "sounds-dscnn", "digits-unet",    "sensors-gru",
                                            "digits-mlp" };
    for (int i = 0; i < DT__COUNT_OF(networks); i++) {
        if (strncmp(name, networks[i], strlen(networks[i])) == 0) {
            return strcmp(target, "litert") == 0 || strcmp(target, "onnxruntime") == 0;
        }
    }
    return false;
}

static void check_recipe(const char *name, const char *target)
{
    static const char *const chosen[] = { "granularity", "scheme:", "scale_dtype", "range:" };
    char path[TEST_PATH];
    dt_recipe *r = NULL;
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    test_join(path, CONFIGS, name);
    dt_status s = read_recipe(ctx, path, target, &r);
    if (s == DT_OK && dt_recipe_get(r)->model.family != NULL) {
        s = ask_formats(ctx, dt_recipe_get(r));
    }
    TEST_EACH(s == DT_OK || !is_taken(name, target), "%s, %s: %s", name, target, dt_error(ctx));
    const bool given =
        s != DT_OK && strstr(dt_error(ctx), "'qat.") != NULL; /* a key of the recipe */
    for (int i = 0; s != DT_OK && !given && i < DT__COUNT_OF(chosen); i++) {
        TEST_EACH(strstr(dt_error(ctx), chosen[i]) == NULL, "%s: %s refuses itself: %s", name,
                  target, dt_error(ctx));
    }
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}

START_TEST(targets_refuse_no_setting_of_their_own)
{
    DIR *d = opendir(CONFIGS);
    const struct dirent *e;
    int n = 0;
    ck_assert_ptr_nonnull(d);
    while ((e = readdir(d)) != NULL) {
        if (strstr(e->d_name, ".yaml") == NULL) continue;
        check_recipe(e->d_name, targets[_i]);
        n++;
    }
    closedir(d);
    ck_assert_int_ge(n, 20);
}
END_TEST

/* ---- litert ---------------------------------------------------------------------------------- */

static const test_draws draws = { .usual = 60, .sanitized = 2, .quick = 10 };

/* Convolutions, with squeeze-excitation, depthwise and transposed ones; or a row's layers. */
static void draw(dt__stream *s, char *text, size_t size)
{
    static const char *const words[] = { "hardswish", "relu", "silu", "relu6" };
    const char *a = words[dt__random_below(s, 4)];
    const int c = 4 * (1 + (int)dt__random_below(s, 5)), in = 1 + (int)dt__random_below(s, 4);
    const int kind = (int)dt__random_below(s, 3);
    if (kind == 0) {
        snprintf(text, size,
                 "  input: [%d, 8, 8]\n  layers:\n"
                 "  - {conv2d: stem, out: %d, padding: 1, norm: batch}\n  - {%s: act}\n"
                 "  - {conv2d: deep, out: %d, groups: %d, padding: 1, norm: batch}\n"
                 "  - {global_avg_pool2d: mean}\n  - {conv2d: down, out: 4, kernel: 1}\n"
                 "  - {relu: r}\n  - {conv2d: up, out: %d, kernel: 1}\n  - {hardsigmoid: gate}\n"
                 "  - {mul: scaled, from: [deep, gate]}\n  - {flatten: f}\n"
                 "  - {linear: head, out: 5}\n",
                 in, c, a, c, c, c);
    } else if (kind == 1) {
        snprintf(text, size,
                 "  input: [%d, 6, 6]\n  layers:\n  - {conv2d: a, out: %d, padding: 1}\n  - %s\n"
                 "  - {conv_transpose2d: b, out: %d, kernel: 2, stride: 2, groups: %d}\n"
                 "  - {conv2d: d, out: 3}\n",
                 in, c, a, c, dt__random_below(s, 2) == 0 ? 1 : 4);
    } else {
        snprintf(text, size,
                 "  input: [%d]\n  layers:\n  - {linear: a, out: %d}\n  - %s\n"
                 "  - {linear: b, out: 3}\n",
                 17 + 9 * c, c, a);
    }
}

static dt_status train_for_litert(dt_module *m, int64_t bits, dt_tensor *x)
{
    dt_qat_options o = dt_qat_defaults();
    dt_tape *t;
    o.preset = bits == 8 ? DT_INT8_DYNAMIC_INT8_WEIGHT : DT_INT8_DYNAMIC_INT4_WEIGHT;
    o.litert = true;
    o.weight.quant.bits = bits;
    o.weight.has_bits = bits < 8;
    o.weight.quant.scale_dtype = DT_SCALE_BF16;
    o.weight.has_scale_dtype = true;
    DT__TRY(dt_prepare(m, &o));
    DT__TRY(dt_export_check(m, NULL, "tflite"));
    DT__TRY(dt_tape_create(m->ctx, &t));
    dt_train(m, true);
    const dt_tensor *y = dt_forward(t, m, x);
    const dt_status s = y == NULL ? dt_error_status(m->ctx) : DT_OK;
    dt_tape_free(t);
    dt_train(m, false);
    return s == DT_OK ? dt_convert(m, NULL, NULL) : s;
}

START_TEST(litert_trains_what_it_takes)
{
    static const int64_t bits[] = { 4, 8, 2, 7, 5 };
    char folder[TEST_PATH], path[TEST_PATH], text[1500];
    dt_export_difference d[DT_MAX_OUT];
    int n;
    test_folder(folder);
    test_join(path, folder, "m.tflite");
    for (int64_t i = 0; i < test_networks(draws); i++) {
        dt__stream s = dt__stream_of((uint64_t)i, DT__FOR_USER);
        dt_ctx_options o = dt_ctx_defaults();
        dt_ctx *ctx;
        o.seed = (uint64_t)i;
        o.threads = 1;
        TEST_OK(NULL, dt_ctx_create(&ctx, &o));
        draw(&s, text, sizeof text);
        dt_module *m = list_net_create(ctx, text);
        dt_tensor *x = list_net_input(m, 0, 4, 1);
        dt_status status = train_for_litert(m, bits[i % 5], x);
        if (status == DT_OK) status = dt_export(m, NULL, "tflite", NULL, path, NULL);
        if (status == DT_OK) status = dt_export_verify(m, NULL, path, d, &n);
        TEST_EACH(status == DT_OK, "%lld bits: %s\n%s", (long long)bits[i % 5], dt_error(ctx),
                  text);
        TEST_EACH(d[0].relative < 0.1, "%lld bits: %g apart\n%s", (long long)bits[i % 5],
                  d[0].relative, text);
        dt_tensor_free(x);
        dt_module_free(m);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- adapters -------------------------------------------------------------------------------- */

static void run_shell(int wanted, const char *has, const char *command)
{
    char folder[TEST_PATH], *output;
    test_folder(folder);
    const int status = test_shell(&output, "cd '%s' && { %s; } 2>&1", folder, command);
    ck_assert_msg((status == 0) == (wanted == 0), "%s: status %d: %s", command, status, output);
    ck_assert_msg(strstr(output, has) != NULL, "%s: %s", command, output);
    free(output);
}

#define LLAMA                                                                                      \
    "yes 'a line of text, and another' | head -30 > t.txt && printf 'run: {dir: r, report: "       \
    "false}\\nmodel: {family: llama, vocab: 256, context: 16, layers: 1, heads: 2, kv_heads: 2, "  \
    "width: 64, hidden: 96}\\ndata: {format: text, train: [t.txt], test: [t.txt], tokenizer: "     \
    "bytes, context: 16}\\ntrain: {steps: 3, batch_size: 2}\\nqat: {start_step: 1}\\n"             \
    "adapters: {rank: 3}\\n' > l.yaml && " DETENT "train l.yaml "

/* Formats are asked about the final model: with its adapters merged. */
START_TEST(adapters_are_merged_before_they_leave)
{
    static const char *const ways[] = { "qat.target=llama.cpp", "convert.formats=[gguf-f32,hf]",
                                        "qat.target=transformers", "convert.formats=[c,onnx]" };
    char command[2048];
    snprintf(command, sizeof command, LLAMA "'%s' && ls r", ways[_i]);
    run_shell(0, "model", command);
}
END_TEST

/* ---- --verify -------------------------------------------------------------------------------- */

#define NET                                                                                        \
    "printf 'run: {dir: r, report: false}\\nmodel: {family: mlp, sizes: [784, 12, 10]}\\n"         \
    "data: {format: digits, train_count: 60, test_count: 20}\\n"                                   \
    "train: {steps: 2, batch_size: 20}\\nqat: {start_step: 1}\\n' > n.yaml && " DETENT             \
    "train n.yaml > log 2>&1 && "

/* Each mapping of a file fails in turn: the file at the path is the old one, or a correct new
 * one. */
START_TEST(a_system_that_fails_leaves_no_file)
{
    if (!fault_shim()) return;
    char command[2048];
    snprintf(command, sizeof command,
             NET DETENT "export r --format onnx -o good.onnx --quiet && bad=0; "
                        "for n in 1 2 3 4 5 6 7 8; do rm -f *.bad; echo old > m.onnx; "
                        "if LD_PRELOAD='%s' FAULT_KIND=mmap FAULT_AT=$n " DETENT
                        "export r --format onnx -o m.onnx --verify --quiet > log 2>&1; "
                        "then cmp m.onnx good.onnx || exit 1; else echo old | cmp m.onnx - || "
                        "exit 1; bad=1; fi; [ ! -e m.onnx.bad ] || exit 1; done; echo bad=$bad",
             fault_library());
    run_shell(0, "bad=1", command);
}
END_TEST

/* Results that are not finite: the file keeps the name PATH.bad, and the old file at PATH stays. */
START_TEST(a_wrong_file_is_named_bad)
{
    static const int64_t sizes[] = { 4, 6, 3, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&o);
    char path[TEST_PATH], folder[TEST_PATH], command[3 * TEST_PATH];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "large.safetensors");
    dt_module *m = small_model(ctx, &o);
    TEST_OK(ctx, dt_fill(dt_param(m, "head.weight"), 3e38));
    TEST_OK(ctx, dt_fill(dt_param(m, "layers.0.weight"), 3));
    TEST_OK(ctx, dt_fill(dt_param(m, "layers.0.bias"), 50));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    snprintf(command, sizeof command,
             "cp '%s' x.st && echo old > m.onnx && { " DETENT
             "export x.st --format onnx -o m.onnx --verify; [ $? = 1 ]; } && "
             "echo old | cmp - m.onnx && [ -s m.onnx.bad ]",
             path);
    run_shell(0, "the file that failed is m.onnx.bad", command);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* One form of a difference, with both figures; no line of a kind twice. */
START_TEST(lines_of_exports)
{
    run_shell(0, "largest difference 0 (relative to the largest output: 0)",
              NET DETENT "export r --format onnx -o m.onnx --verify && [ ! -e m.onnx.bad ]");
    run_shell(0, "activations have other codes than the model's, or none: largest difference ",
              NET DETENT "export r --format onnx --ops nbits -o m.onnx > out && cat out && "
                         "[ $(grep -c 'stay in float' out) -le 2 ]");
}
END_TEST

Suite *test_export_targets_suite(void)
{
    Suite *s = suite_create("export_targets");
    TCase *c = tcase_create("targets");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, test_begin, test_end);
    tcase_add_loop_test(c, targets_refuse_no_setting_of_their_own, 0, DT__COUNT_OF(targets));
    tcase_add_test(c, litert_trains_what_it_takes);
    tcase_add_loop_test(c, adapters_are_merged_before_they_leave, 0, 4);
    tcase_add_test(c, a_system_that_fails_leaves_no_file);
    tcase_add_test(c, a_wrong_file_is_named_bad);
    tcase_add_test(c, lines_of_exports);
    suite_add_tcase(s, c);
    return s;
}
