/* Recipes: every kind of mistake with its line and column, overrides, `config show` read back,
 * damaged text, and failing allocations. */
#include "testing.h"

#include <detent/io.h>
#include <detent/experimental/train.h>
#include <jansson.h>

#include <stdlib.h>

#define MODEL "model: {family: mlp, sizes: [4, 2]}\n"
#define DATA "data: {format: digits}\n"
#define CNN "run: {dir: r}\nmodel: {family: cnn, image: [1, 28, 28], outputs: 10, "
#define HEAD "run: {dir: r}\n" MODEL DATA

static dt_recipe_source source_of(const char *text)
{
    return (dt_recipe_source){ .path = "bad.yaml", .text = text, .bytes = strlen(text) };
}

static dt_ctx *create_ctx(void)
{
    dt_ctx *ctx = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    return ctx;
}

/* ---- mistakes ----------------------------------------------------------------------------- */

typedef struct bad_recipe {
    const char *name, *text;
    const char *errors[6];
    const char *override;
} bad_recipe;

#define BAD(name_, text_, ...) { .name = name_, .text = text_, .errors = { __VA_ARGS__ } },
#define BAD_LINE(override_, name_, text_, ...)                                                     \
    { .name = name_, .text = text_, .errors = { __VA_ARGS__ }, .override = override_ },

static const bad_recipe bad_recipes[] = {
#include "bad_recipes.inc"
};

#define N_BAD ((int)(sizeof bad_recipes / sizeof bad_recipes[0]))

/* `want` is "4:17: words" or "command line: error: words", where | separates words. */
static bool matches(const char *line, const char *want)
{
    static const char file[] = "bad.yaml:", error[] = "error: ";
    char words[512];
    snprintf(words, sizeof words, "%s", want);
    char *part = words;
    if (strncmp(want, "command line", 12) == 0) {
        const size_t n = strlen("command line: error: ");
        if (strncmp(line, want, n) != 0) return false;
        part += n;
        line += n;
    } else {
        const size_t n = strcspn(want, " ") + 1;
        if (strncmp(line, file, strlen(file)) != 0) return false;
        line += strlen(file);
        if (strncmp(line, want, n) != 0 || strncmp(line + n, error, strlen(error)) != 0)
            return false;
        part += n;
        line += n + strlen(error);
    }
    for (char *bar; part != NULL; part = bar) {
        bar = strchr(part, '|');
        if (bar != NULL) *bar++ = 0;
        if (strstr(line, part) == NULL) return false;
    }
    return true;
}

static void check_mistake(const bad_recipe *bad)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe_source source = source_of(bad->text);
    source.overrides = &bad->override;
    source.n_overrides = bad->override != NULL;
    source.use = DT_RECIPE_ANY;
    dt_recipe *r = NULL;
    const dt_status status = dt_recipe_read(ctx, &source, &r);
    ck_assert_msg(status == DT_ERR_CONFIG, "%s: %s", bad->name, dt_status_name(status));
    int n = 0;
    for (; n < 6 && bad->errors[n] != NULL; n++) {
        const char *line = dt_recipe_error_at(r, n);
        ck_assert_msg(line != NULL, "%s: no error %d", bad->name, n);
        ck_assert_msg(matches(line, bad->errors[n]), "%s: %s", bad->name, line);
    }
    ck_assert_msg(dt_recipe_error_count(r) == n, "%s: %d errors: %s", bad->name,
                  dt_recipe_error_count(r), dt_recipe_error_at(r, n));
    ck_assert_ptr_null(dt_recipe_error_at(r, n));
    ck_assert_ptr_null(dt_recipe_error_at(r, -1));
    const char *first = dt_recipe_error_at(r, 0);
    ck_assert_int_eq(strncmp(dt_error(ctx), first, strlen(first)), 0);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}

/* A process takes every 16th: under a sanitizer a process costs more than a recipe. */
enum { PROCESSES = 16 };

START_TEST(mistakes_have_a_place)
{
    for (int i = _i; i < N_BAD; i += PROCESSES) check_mistake(&bad_recipes[i]);
}
END_TEST

START_TEST(limits_hold)
{
    enum { BYTES = (1 << 20) + 2 };
    dt_ctx *ctx = create_ctx();
    char *text = malloc(BYTES);
    ck_assert_ptr_nonnull(text);
    memset(text, '#', BYTES);
    dt_recipe *r = NULL;
    dt_recipe_source source = { .path = "bad.yaml", .text = text, .bytes = BYTES };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "bad.yaml:1:1: error: longer than 1048576 bytes",
               dt_recipe_read(ctx, &source, &r));
    dt_recipe_free(r);
    memset(text, '[', 200);
    source.bytes = 200;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "bad.yaml:1:65: error: nested deeper than 64",
               dt_recipe_read(ctx, &source, &r));
    dt_recipe_free(r);
    size_t n = 0;
    for (int i = 0; i < 5000; i++) n += (size_t)snprintf(text + n, 32, "key%d: 1\n", i);
    source.bytes = n;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "more than 4096 entries", dt_recipe_read(ctx, &source, &r));
    dt_recipe_free(r);
    n = 0;
    for (int i = 0; i < 200; i++) n += (size_t)snprintf(text + n, 32, "key%d: 1\n", i);
    source.bytes = n;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "(and 202 more)", dt_recipe_read(ctx, &source, &r));
    ck_assert_int_eq(dt_recipe_error_count(r), 100);
    dt_recipe_free(r);
    free(text);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    dt_recipe_source source = { .path = "/nowhere/a.yaml" };
    TEST_FAILS(ctx, DT_ERR_IO, "/nowhere/a.yaml", dt_recipe_read(ctx, &source, &r));
    ck_assert_ptr_null(r);
    source.path = "/";
    TEST_FAILS(ctx, DT_ERR_IO, "/: cannot read", dt_recipe_read(ctx, &source, &r));
    source.path = NULL;
    TEST_FAILS(ctx, DT_ERR_ARG, "no path", dt_recipe_read(ctx, &source, &r));
    dt_ctx_free(ctx);
}
END_TEST

/* A file that does not exist may be created later; one that cannot be accessed is an error. */
START_TEST(a_model_that_cannot_be_read)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    char text[600];
    snprintf(text, sizeof text,
             "run: {dir: r}\nmodel: {family: mlp, sizes: [4, 2], init: x%0300d}\n" DATA, 0);
    const dt_recipe_source source = source_of(text);
    TEST_FAILS(ctx, DT_ERR_IO, "cannot read: File name too long", dt_recipe_read(ctx, &source, &r));
    ck_assert_ptr_null(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(later_errors_join)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    const char *override = "qat.rules.1.match=zzz";
    dt_recipe_source source = source_of(HEAD "qat:\n  rules:\n    - {match: nose, skip: true}\n"
                                             "    - {match: ear, skip: true}\n");
    source.overrides = &override;
    source.n_overrides = 1;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    int line = 0, column = 0;
    ck_assert(dt_recipe_position(r, "qat.rules.0.match", &line, &column));
    ck_assert_int_eq(line, 6);
    ck_assert_int_eq(column, 15);
    ck_assert(!dt_recipe_position(r, "qat.rules.1.match", &line, &column));
    ck_assert(!dt_recipe_position(r, "qat.forward", &line, &column));
    ck_assert(!dt_recipe_position(r, "qat.rules.x.match", &line, &column));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "command line: error: no module zzz",
               dt_recipe_refuse(r, "qat.rules.1.match", "no module %s", "zzz"));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "bad.yaml:6:15: error: no module nose",
               dt_recipe_refuse(r, "qat.rules.0.match", "no module %s", "nose"));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "bad.yaml:1:6: error: about seed",
               dt_recipe_refuse(r, "run.seed", "about seed"));
    ck_assert_int_eq(dt_recipe_error_count(r), 3);
    ck_assert_ptr_nonnull(strstr(dt_recipe_error_at(r, 0), "about seed"));
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(rules_must_match_the_model)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    dt_module *m = NULL;
    const char *override = "qat.rules.3.match=tail";
    dt_recipe_source source =
        source_of("run: {dir: r}\nmodel: {family: mlp, sizes: [4, 3, 2]}\n" DATA
                  "qat:\n  rules:\n    - {match: layers.7, skip: true}\n"
                  "    - {match: layers, weight: {bits: 8}}\n"
                  "    - {match: \"norms*\", skip: true}\n    - {match: head, skip: true}\n");
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    const dt_model_options *o = &dt_recipe_get(r)->model;
    TEST_OK(ctx, o->family->create(ctx, o->options, &m));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "bad.yaml:6:15: error: 'qat.rules.0.match': 'layers.7' matches",
               dt_recipe_check_model(r, m));
    ck_assert_int_eq(dt_recipe_error_count(r), 2);
    ck_assert_ptr_nonnull(strstr(dt_recipe_error_at(r, 0), "(layers.0, head)"));
    ck_assert_ptr_nonnull(strstr(dt_recipe_error_at(r, 1), "bad.yaml:8:15: error: 'qat.rules.2"));
    dt_recipe_free(r);
    source.overrides = &override;
    source.n_overrides = 1;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "(and 2 more)", dt_recipe_check_model(r, m));
    ck_assert_ptr_nonnull(strstr(dt_recipe_error_at(r, 2), "command line: error: 'qat.rules.3"));
    dt_recipe_free(r);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- valid recipes ------------------------------------------------------------------------ */

static const char full[] =
    "# everything\n"
    "run: {dir: \"runs/caf\xC3\xA9 \\\"1\\\"\", seed: 7, threads: 2}\n"
    "model:\n"
    "  family: mlp\n"
    "  sizes: [784, 64, 10]\n"
    "  activation: gelu\n"
    "  norm: layer\n"
    "  dropout: 1e-1\n"
    "data:\n"
    "  train: [a, b]\n"
    "  test:\n"
    "    - 'it''s'\n"
    "    - \"a\\nb\\u2028c\"\n"
    "  validation: 0.25\n"
    "  mean: -0.5\n"
    "  augment: {shift: 2}\n"
    "train:\n"
    "  epochs: +3\n"
    "  optimizer: {name: sgd, lr: 3.0e-4, momentum: 0.9, nesterov: true, decay: all}\n"
    "  schedule: {name: step, gamma: 0.5, every: 10}\n"
    "  checkpoint: {every_steps: 500}\n"
    "  nonfinite: skip\n"
    "qat:\n"
    "  preset: int4-weight\n"
    "  weight: {bits: 3, group_size: 64, scale_dtype: f16, ste: clipped}\n"
    "  activation: {quantize: false}\n"
    "  start_step: 4\n"
    "  rules:\n"
    "    - match: '*.up'\n"
    "      weight: {scheme: asymmetric, unsigned: true}\n"
    "    - {match: head, skip: true}\n";

static dt_recipe *read_ok(dt_ctx *ctx, const char *text, const char *const *overrides, int n)
{
    dt_recipe *r = NULL;
    dt_recipe_source source = source_of(text);
    source.leave_files = true;
    source.overrides = overrides;
    source.n_overrides = n;
    const dt_status status = dt_recipe_read(ctx, &source, &r);
    ck_assert_msg(status == DT_OK, "%s\n%s", dt_error(ctx), text);
    return r;
}

START_TEST(values_arrive)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = read_ok(ctx, full, NULL, 0);
    const dt_recipe_options *o = dt_recipe_get(r);
    ck_assert_str_eq(o->run.dir, "runs/caf\xC3\xA9 \"1\"");
    ck_assert_int_eq(o->run.seed, 7);
    ck_assert_str_eq(o->model.family->name, "mlp");
    const dt_mlp_options *mlp = o->model.options;
    ck_assert_int_eq(mlp->sizes.n, 3);
    ck_assert_int_eq(mlp->sizes.v[1], 64);
    ck_assert_str_eq(dt_activation_names[mlp->activation], "gelu");
    ck_assert(mlp->dropout == 0.1 && mlp->bias && mlp->eps == 1e-5);
    ck_assert_ptr_null(o->model.init);
    ck_assert_str_eq(o->data.test.v[0], "it's");
    ck_assert_str_eq(o->data.test.v[1], "a\nb\xE2\x80\xA8"
                                        "c");
    ck_assert(o->data.mean.v[0] == -0.5 && o->data.deviation.v[0] == 1 &&
              o->data.augment.shift == 2);
    ck_assert(o->train.epochs == 3 && o->train.batch_size == 64 && o->train.accumulate == 1);
    ck_assert_int_eq(o->train.optimizer.name, DT_SGD);
    ck_assert_int_eq(o->train.optimizer.decay, DT_DECAY_ALL);
    ck_assert(o->train.optimizer.lr == 3e-4 && o->train.optimizer.nesterov);
    ck_assert_int_eq(o->train.schedule.name, DT_STEP);
    ck_assert_int_eq(o->train.nonfinite, DT_NONFINITE_SKIP);
    ck_assert(o->train.checkpoint.every_steps == 500 && o->train.checkpoint.keep == 3);
    const dt_qat_options *q = &o->qat;
    ck_assert(q->given && q->preset == DT_INT4_WEIGHT && q->n_rules == 2);
    ck_assert(o->qat_schedule.start_step == 4 && o->qat_schedule.calibrate_batches == 16);
    ck_assert(q->weight.has_bits && q->weight.quant.bits == 3 && !q->weight.has_scheme);
    ck_assert(q->weight.has_ste && q->weight.quant.ste == DT_STE_CLIPPED);
    ck_assert(q->activation.has_quantize && !q->activation.quantize);
    ck_assert_str_eq(q->rules[0].match, "*.up");
    ck_assert(!q->rules[0].has_skip && q->rules[0].weight.has_unsigned);
    ck_assert(q->rules[1].has_skip && q->rules[1].skip && !q->rules[1].weight.has_bits);
    ck_assert_str_eq(o->convert.output, "model.safetensors");
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(the_shortest_recipe)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = read_ok(ctx, "\xEF\xBB\xBF---\n" HEAD "...\n", NULL, 0);
    const dt_recipe_options *o = dt_recipe_get(r);
    ck_assert(!o->qat.given && o->qat.n_rules == 0);
    ck_assert_int_eq(o->data.format, DT_DATA_DIGITS);
    const dt_optimizer_options want = dt_optimizer_defaults(), *got = &o->train.optimizer;
    ck_assert(got->name == want.name && got->lr == want.lr && got->decay == want.decay);
    ck_assert(got->weight_decay == want.weight_decay && got->momentum == want.momentum);
    ck_assert(got->dampening == want.dampening && got->nesterov == want.nesterov);
    ck_assert(got->beta1 == want.beta1 && got->beta2 == want.beta2 && got->eps == want.eps);
    const dt_data_options data = dt_data_defaults();
    ck_assert(o->data.mean.v[0] == data.mean.v[0] && o->data.deviation.v[0] == data.deviation.v[0]);
    ck_assert(o->data.validation == data.validation && o->data.seed == data.seed);
    ck_assert(o->data.train_count == data.train_count && o->data.test_count == data.test_count);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(strings_may_look_like_anything)
{
    static const char *const looks[] = {
        "no", "null", "~", "1e-5", "0x10", "true", "12:30", "a b"
    };
    dt_ctx *ctx = create_ctx();
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "run:\n  dir: %s\n" MODEL DATA, looks[i]);
        dt_recipe *r = read_ok(ctx, text, NULL, 0);
        ck_assert_str_eq(dt_recipe_get(r)->run.dir, looks[i]);
        dt_recipe_free(r);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* A target chooses settings that are not given. */
START_TEST(a_target_chooses_the_rest)
{
    static const struct {
        const char *text;
        int preset, scale_dtype, formats;
    } targets[] = {
        { "qat: {target: detent}\n", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_SCALE_F32, 0 },
        { "qat: {target: detent, preset: int4-int4}\n", DT_INT4_INT4, DT_SCALE_F32, 0 },
        { "qat: {target: onnxruntime}\n", DT_INT8_BLOCK_INT4_WEIGHT, DT_SCALE_F32, 1 },
        { "qat: {target: onnxruntime}\nconvert: {formats: [onnx, c]}\n", DT_INT8_BLOCK_INT4_WEIGHT,
          DT_SCALE_F32, 2 },
        { "qat: {target: llama.cpp, preset: int8-block-int4-weight, weight: {bits: 2}}\n",
          DT_INT8_BLOCK_INT4_WEIGHT, DT_SCALE_F32, 1 },
    };
    dt_ctx *ctx = create_ctx();
    for (int i = 0; i < (int)(sizeof targets / sizeof targets[0]); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "run: {dir: r}\nmodel: {family: mlp, sizes: [64, 10]}\n"
                 "data: {format: digits}\ntrain: {steps: 10}\n%s",
                 targets[i].text);
        dt_recipe *r = NULL;
        const dt_recipe_source source = { .path = "t.yaml", .text = text, .bytes = strlen(text) };
        TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
        const dt_recipe_options *o = dt_recipe_get(r);
        ck_assert_int_eq(o->qat.preset, targets[i].preset);
        ck_assert_int_eq(o->qat.weight.quant.scale_dtype, targets[i].scale_dtype);
        ck_assert_int_eq(o->convert.formats.n, targets[i].formats);
        dt_recipe_free(r);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Settings that follow from the bits of weights; they never replace a key that is given, nor a
 * scheme that the target's arithmetic requires. -1: not chosen. */
typedef struct best_choice {
    const char *model, *keys; /* and data of the model */
    int scheme, range, granularity;
    double damping, rate, freeze; /* freeze 0.02: from 0.1 */
} best_choice;

#define LAYERS(layer)                                                                              \
    "{family: layers, input: [1, 28, 28], layers: [" layer ", flatten, {linear: head, out: "       \
    "10}]}\n" DATA
#define LINEAR LAYERS("{linear: l, out: 4}")
#define CONV LAYERS("{conv2d: c, out: 4}")
#define MEMORY                                                                                     \
    "{family: layers, input: [4, 4], layers: [{gru: g, hidden: 4, last: true}, {linear: head, "    \
    "out: 10}]}\n" DATA
#define LANGUAGE                                                                                   \
    "{family: gpt, vocab: 12, context: 11, layers: 1, heads: 1, width: 8}\ndata: {format: "        \
    "adder}\ntrain: {epochs: 1}\n"
static const best_choice best_choices[] = {
    { LINEAR, "weight: {bits: 2}", DT_SCHEME_ASYMMETRIC, -1, -1, 1e-3, 6, 0 },
    { LINEAR, "weight: {bits: 2, scheme: symmetric}", DT_SCHEME_SYMMETRIC, -1, -1, 1e-3, 6, 0 },
    { LINEAR, "weight: {bits: 2}, damping: 0, rate: 2", DT_SCHEME_ASYMMETRIC, -1, -1, 0, 2, 0 },
    { LINEAR, "weight: {bits: 2, range: learned}", -1, DT_RANGE_LEARNED, -1, 1e-3, 6, 0 },
    { LINEAR, "weight: {bits: 2}, preset: int4-int4", -1, -1, -1, 1e-3, 6, 0 },
    { LINEAR, "weight: {bits: 2}, target: onnxruntime", -1, -1, -1, 1e-3, 6, 0 },
    { LINEAR, "weight: {bits: 2, granularity: channel}", -1, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6,
      0 },
    { LINEAR, "weight: {bits: 2, granularity: channel, range: learned}", -1, DT_RANGE_LEARNED,
      DT_PER_CHANNEL, 0, 6, 0 },
    { MEMORY, "weight: {bits: 2, granularity: channel}", DT_SCHEME_ASYMMETRIC, -1, DT_PER_CHANNEL,
      1e-3, 6, 0 },
    { MEMORY, "weight: {bits: 3}", DT_SCHEME_ASYMMETRIC, -1, -1, 0, 6, 0 },
    { MEMORY, "weight: {scheme: ternary}", DT_SCHEME_TERNARY, -1, -1, 0, 24, 0 },
    { MEMORY "train: {optimizer: {lr: 0.01}}\n", "weight: {scheme: ternary}", DT_SCHEME_TERNARY, -1,
      -1, 0, 4.8, 0 },
    { "{family: layers, input: [4, 8], layers: [{conv1d: c, out: 4}, {gru: g, hidden: 4, last: "
      "true}, {linear: head, out: 10}]}\n" DATA,
      "weight: {scheme: ternary}", DT_SCHEME_TERNARY, -1, -1, 0, 12, 0.02 },
    { LINEAR, "weight: {bits: 3}", DT_SCHEME_ASYMMETRIC, -1, -1, 0, 6, 0 },
    { LINEAR, "weight: {bits: 4}", -1, -1, -1, 0, 6, 0 },
    { LINEAR, "preset: int4-int4", -1, -1, -1, 0, 6, 0 },
    { LINEAR, "preset: device-int4", -1, -1, -1, 0, 1, 0 },
    { LINEAR, "preset: device-int8", -1, -1, -1, 0, 1, 0 },
    { CONV, "weight: {bits: 2}", DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6,
      0.02 },
    { LAYERS("{repeat: 2, name: b, layers: [{conv2d: c, out: 1}]}"), "weight: {bits: 2}",
      DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0.02 },
    { CONV, "weight: {bits: 2, range: learned}", DT_SCHEME_HALF_LEVELS, DT_RANGE_LEARNED,
      DT_PER_CHANNEL, 0, 6, 0.02 },
    { CONV, "weight: {bits: 2, granularity: tensor, scale_dtype: f16}", DT_SCHEME_HALF_LEVELS,
      DT_RANGE_STATIC, DT_PER_TENSOR, 0, 6, 0.02 },
    { CONV, "weight: {bits: 3, range: dynamic}", -1, DT_RANGE_DYNAMIC, DT_PER_CHANNEL, 0, 6, 0 },
    { CONV, "weight: {scheme: ternary}, rules: [{match: c, weight: {bits: 2}}]", DT_SCHEME_TERNARY,
      -1, -1, 0, 12, 0 },
    { CONV, "weight: {scheme: ternary}, rules: [{match: c, weight: {quantize: false}}]",
      DT_SCHEME_TERNARY, -1, -1, 0, 12, 0.02 },
    { CONV, "weight: {bits: 2, group_size: 16}", DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, -1, 0, 6,
      0.02 },
    { CONV, "weight: {bits: 2}, rules: [{match: c, weight: {bits: 8}}]", -1, DT_RANGE_STATIC,
      DT_PER_CHANNEL, 0, 6, 0 },
    { CONV, "weight: {bits: 2}, rules: [{match: c, skip: true}]", DT_SCHEME_HALF_LEVELS,
      DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0.02 },
    { CONV, "weight: {bits: 2}, rules: [{match: c, weight: {scheme: symmetric}}]", -1,
      DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0 },
    { CONV, "weight: {bits: 2, scheme: ternary}", DT_SCHEME_TERNARY, -1, -1, 0, 12, 0.02 },
    { CONV, "weight: {scheme: ternary}", DT_SCHEME_TERNARY, -1, -1, 0, 12, 0.02 },
    { CONV, "weight: {scheme: ternary}, freeze: 0", DT_SCHEME_TERNARY, -1, -1, 0, 12, 0 },
    { LINEAR, "weight: {scheme: ternary}", DT_SCHEME_TERNARY, -1, -1, 0, 12, 0.02 },
    { LANGUAGE, "start_step: 5, weight: {scheme: ternary}", DT_SCHEME_TERNARY, DT_RANGE_STATIC, -1,
      0, 1, 0.02 },
    { LANGUAGE,
      "start_step: 5, weight: {scheme: ternary}, rules: [{match: head, weight: {bits: 8, scheme: "
      "symmetric}}]",
      DT_SCHEME_TERNARY, DT_RANGE_STATIC, -1, 0, 1, 0.02 },
    { LANGUAGE, "start_step: 5, weight: {scheme: ternary, range: learned}", DT_SCHEME_TERNARY,
      DT_RANGE_LEARNED, -1, 0, 1, 0.02 },
    { LANGUAGE, "start_step: 5, weight: {scheme: ternary, range: dynamic}", DT_SCHEME_TERNARY,
      DT_RANGE_DYNAMIC, -1, 0, 1, 0 },
    { LANGUAGE, "start_step: 5, weight: {scheme: ternary}, target: onnxruntime", DT_SCHEME_TERNARY,
      -1, -1, 0, 1, 0 },
    { LANGUAGE, "start_step: 5, weight: {scheme: symmetric, bits: 2}", DT_SCHEME_SYMMETRIC, -1, -1,
      0, 1, 0 },
    { LANGUAGE "cluster: {experts: spread}\n", "start_step: 5, weight: {bits: 2}",
      DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, -1, 0, 1, 0 },
    { CONV "adapters: {rank: 2}\n", "weight: {bits: 3}", -1, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6,
      0 },
    { LINEAR, "weight: {scheme: half_levels}", DT_SCHEME_HALF_LEVELS, -1, -1, 1e-3, 6, 0 },
    { CONV, "weight: {bits: 2}, target: onnxruntime", -1, -1, -1, 0, 6, 0 },
    { CONV, "weight: {bits: 3}", -1, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0.02 },
    { CONV, "weight: {bits: 4}", -1, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0 },
    { CONV, "preset: int4-weight", -1, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0 },
    { CONV, "forward: integer", -1, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 6, 0 },
    { CONV, "preset: int8-block-int4-weight", -1, -1, -1, 0, 6, 0 },
    { LAYERS("{conv2d: c, out: 4}") "train: {optimizer: {lr: 3e-3}}\n", "weight: {bits: 2}",
      DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, DT_PER_CHANNEL, 0, 4, 0.02 },
    { LINEAR "train: {optimizer: {name: adam, lr: 5e-3}}\n", "weight: {bits: 4}", -1, -1, -1, 0,
      2.4, 0 },
    { LINEAR "train: {optimizer: {lr: 0.05}}\n", "weight: {bits: 4}", -1, -1, -1, 0, 1, 0 },
    { LINEAR "train: {optimizer: {lr: 7e-3}}\n", "weight: {bits: 3}", DT_SCHEME_ASYMMETRIC, -1, -1,
      0, 1.71, 0 },
    { LINEAR "train: {optimizer: {lr: 0}}\n", "weight: {bits: 4}", -1, -1, -1, 0, 1, 0 },
    { LINEAR "train: {optimizer: {name: sgd, lr: 0.05}}\n", "weight: {bits: 4}", -1, -1, -1, 0, 4,
      0 },
    { CONV, "weight: {bits: 5}", -1, -1, -1, 0, 1, 0 },
    { LANGUAGE, "start_step: 5, weight: {bits: 2}", DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, -1, 0,
      1, 0.02 },
    { LANGUAGE, "start_step: 5, weight: {bits: 2}, rules: [{match: head, weight: {bits: 8}}]",
      DT_SCHEME_HALF_LEVELS, DT_RANGE_STATIC, -1, 0, 1, 0.02 },
    { LANGUAGE,
      "start_step: 5, weight: {bits: 2}, rules: [{match: head, weight: {bits: 8, range: dynamic}}]",
      -1, -1, -1, 0, 1, 0 },
    { LANGUAGE, "weight: {bits: 2}", DT_SCHEME_ASYMMETRIC, -1, -1, 1e-3, 1, 0 },
    { LANGUAGE, "weight: {bits: 2}, start_step: 0", DT_SCHEME_ASYMMETRIC, -1, -1, 1e-3, 1, 0 },
    { LANGUAGE, "weight: {scheme: ternary}", DT_SCHEME_TERNARY, -1, -1, 1e-3, 1, 0 },
    { LANGUAGE, "weight: {bits: 3}", DT_SCHEME_ASYMMETRIC, -1, -1, 0, 1, 0 },
    { LANGUAGE, "weight: {bits: 4}", -1, -1, -1, 0, 1, 0 },
    { CONV, "preset: int8-dynamic-int8-weight", -1, -1, -1, 0, 1, 0 },
};

START_TEST(the_best_is_chosen_by_bits_and_layers)
{
    const best_choice *of = &best_choices[_i];
    dt_ctx *ctx = create_ctx();
    char text[1024];
    dt_recipe *r = NULL;
    snprintf(text, sizeof text, "run: {dir: r}\nmodel: %sqat: {recipe: best, %s}\n", of->model,
             of->keys);
    const dt_recipe_source source = source_of(text);
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    const dt_recipe_options *o = dt_recipe_get(r);
    const dt_quant_patch *w = &o->qat.weight;
    ck_assert_int_eq(w->has_scheme ? w->quant.scheme : -1, of->scheme);
    ck_assert_int_eq(w->has_range ? w->quant.range : -1, of->range);
    ck_assert_int_eq(w->has_granularity ? w->quant.granularity : -1, of->granularity);
    ck_assert_double_eq(o->qat_schedule.damping, of->damping);
    ck_assert_double_eq(o->qat_schedule.rate, of->rate);
    ck_assert_double_eq(o->qat_schedule.freeze, of->freeze);
    ck_assert_double_eq(o->qat_schedule.freeze_from, 5 * of->freeze);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* Drawn weights train in float for a share of the updates, by kind of layer and width, unless the
 * recipe says from which update on. */
typedef struct best_start {
    const char *model;
    double ternary, bits; /* of ternary weights, of 2, 3 and 4 bits */
} best_start;

static const best_start best_starts[] = {
    { LINEAR, 0.05, 0.1 },
    { MEMORY, 0.05, 0.1 },
    { CONV, 0.05, 0.33 },
    { LANGUAGE, 0, 0 },
};

START_TEST(the_best_start_is_a_share)
{
    static const struct {
        const char *keys;
        double share; /* -1: that of the table */
    } beside[] = {
        { "rate: 2", -1 },       { "start_share: 0.7", 0.7 }, { "start_share: 0", 0 },
        { "start_step: 20", 0 }, { "start_step: 0", 0 },
    };
    static const char *const widths[] = { "scheme: ternary", "bits: 2", "bits: 3", "bits: 4",
                                          "bits: 8" };
    const best_start *of = &best_starts[_i];
    dt_ctx *ctx = create_ctx();
    for (int w = 0; w < 5; w++) {
        for (int k = 0; k < 5; k++) {
            char text[1024];
            dt_recipe *r = NULL;
            snprintf(text, sizeof text,
                     "run: {dir: r}\nmodel: %sqat: {recipe: best, weight: {%s}, %s}\n", of->model,
                     widths[w], beside[k].keys);
            const dt_recipe_source source = source_of(text);
            TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
            const double best = w == 0 ? of->ternary : w < 4 ? of->bits : 0;
            ck_assert_double_eq(dt_recipe_get(r)->qat_schedule.start_share,
                                beside[k].share < 0 ? best : beside[k].share);
            dt_recipe_free(r);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Half levels have 2 bits: a rule with other bits gets a scheme that has them. */
START_TEST(rules_of_other_bits_have_a_scheme)
{
    static const char *const texts[] = {
        "run: {dir: r}\nmodel: " LANGUAGE
        "qat: {recipe: best, start_step: 5, weight: {bits: 2}, rules: [{match: c, "
        "skip: true}, {match: h*, weight: {bits: 8}}, {match: head, weight: {bits: 2}}]}\n",
        "run: {dir: r}\nmodel: " LANGUAGE
        "qat: {recipe: best, start_step: 5, weight: {bits: 3}, rules: [{match: c, "
        "skip: true}, {match: h*, weight: {bits: 8}}, {match: head, weight: {bits: 2}}]}\n",
    };
    dt_ctx *ctx = create_ctx();
    for (int i = 0; i < 2; i++) {
        dt_recipe *r = NULL;
        const dt_recipe_source source = source_of(texts[i]);
        TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
        const dt_qat_rule *rule = dt_recipe_get(r)->qat.rules;
        ck_assert(!rule[0].weight.has_scheme && !rule[2].weight.has_scheme);
        ck_assert_int_eq(rule[1].weight.has_scheme, i == 0);
        ck_assert(i == 1 || rule[1].weight.quant.scheme == DT_SCHEME_SYMMETRIC);
        dt_recipe_free(r);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(the_command_line_wins)
{
    static const char *const overrides[] = {
        "run.seed=1",
        "run.seed=2",
        "~train.epochs",
        "train.optimizer.lr=5e-1",
        "run.dir=a=b",
        "qat.rules.0.skip=true",
        "~qat.rules.1",
        "model.sizes.1=99",
        "model.sizes.3=10",
        "train.checkpoint={every_steps: 1, keep: 9}",
        "convert.output=m.st",
        "qat.rules.1.match='*'",
        "qat.rules.1.weight.bits=8",
    };
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = read_ok(ctx, full, overrides, 13);
    const dt_recipe_options *o = dt_recipe_get(r);
    const dt_mlp_options *mlp = o->model.options;
    ck_assert_int_eq(o->run.seed, 2);
    ck_assert_int_eq(o->train.epochs, 10);
    ck_assert(o->train.optimizer.lr == 0.5);
    ck_assert_str_eq(o->run.dir, "a=b");
    ck_assert(o->qat.n_rules == 2 && o->qat.rules[0].skip);
    ck_assert_str_eq(o->qat.rules[1].match, "*");
    ck_assert_int_eq(o->qat.rules[1].weight.quant.bits, 8);
    ck_assert(mlp->sizes.n == 4 && mlp->sizes.v[1] == 99 && mlp->sizes.v[3] == 10);
    ck_assert(o->train.checkpoint.every_steps == 1 && o->train.checkpoint.keep == 9);
    ck_assert_str_eq(o->convert.output, "m.st");
    dt_recipe_free(r);
    static const char *const made[] = { "qat.rules.0.match=head", "qat.rules.0.skip=true" };
    r = read_ok(ctx, HEAD, made, 2);
    ck_assert(dt_recipe_get(r)->qat.given && dt_recipe_get(r)->qat.n_rules == 1);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- showing ------------------------------------------------------------------------------ */

typedef struct text {
    char bytes[1 << 19];
    size_t n;
} text;

static dt_status take(void *user, const char *bytes, size_t n)
{
    text *t = user;
    if (t->n + n >= sizeof t->bytes) return DT_ERR_IO;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return DT_OK;
}

START_TEST(shown_recipes_read_back)
{
    static const char *const overrides[] = { "run.seed=5", "qat.rules.1.match=\"*.x, y: z # t\"" };
    static const char *const none[] = { "~qat" };
    dt_ctx *ctx = create_ctx();
    for (int i = 0; i < 3; i++) {
        static text yaml, again, json, json_again;
        yaml.n = again.n = json.n = json_again.n = 0;
        dt_recipe *r = i == 2 ? read_ok(ctx, full, none, 1) : read_ok(ctx, full, overrides, 2 * i);
        TEST_OK(ctx, dt_recipe_show(r, take, &yaml));
        TEST_OK(ctx, dt_recipe_json(r, take, &json));
        dt_recipe *back = read_ok(ctx, yaml.bytes, NULL, 0);
        TEST_OK(ctx, dt_recipe_json(back, take, &json_again));
        ck_assert_str_eq(json.bytes, json_again.bytes);
        ck_assert_ptr_nonnull(strstr(yaml.bytes, "# bad.yaml:18\n"));
        ck_assert_ptr_nonnull(strstr(yaml.bytes, "# default\n"));
        ck_assert(i != 1 || strstr(yaml.bytes, "seed: 5 ") != NULL);
        ck_assert((strstr(yaml.bytes, "# command line\n") != NULL) == (i == 1));
        ck_assert((strstr(yaml.bytes, "\nqat:") != NULL) == (i < 2));
        json_error_t error;
        json_t *parsed = json_loads(json.bytes, JSON_REJECT_DUPLICATES, &error);
        ck_assert_msg(parsed != NULL, "%s", error.text);
        json_decref(parsed);
        dt_recipe_free(r);
        dt_recipe_free(back);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- recipes that train nothing ------------------------------------------------------------ */

static const char rounding_text[] =
    "run: {threads: 2}\n"
    "quantize:\n"
    "  rounder: a2gptq\n"
    "  weight: {bits: 3, group_size: 12}\n"
    "  rounding: {order: weight, damping_mean: all}\n"
    "  accumulator: {bits: 16, tile: 12, input: [-128, 127]}\n"
    "  calibration: {samples: 64}\n"
    "  tensors:\n"
    "    - {match: \"up.*\", op: conv_transpose2d, stride: [2, 1], padding: 1, groups: 2}\n"
    "    - {match: head, rounder: nearest, weight: {bits: 8, granularity: channel}}\n"
    "    - {match: \"*.table\", skip: true}\n";

static dt_status read_for(dt_ctx *ctx, const char *words, dt_recipe_use use, dt_recipe **out)
{
    dt_recipe_source source = source_of(words);
    source.use = use;
    return dt_recipe_read(ctx, &source, out);
}

START_TEST(a_recipe_may_only_quantize)
{
    static text yaml, json, json_again;
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL, *back = NULL;
    TEST_OK(ctx, read_for(ctx, rounding_text, DT_RECIPE_ANY, &r));
    ck_assert(dt_recipe_only_quantizes(r));
    const dt_recipe_options *all = dt_recipe_get(r);
    const dt_quantize_options *o = &all->quantize;
    ck_assert(o->given && all->run.threads == 2 && all->run.dir == NULL);
    ck_assert_int_eq(o->rounding.rounder, DT_ROUND_A2GPTQ);
    ck_assert_int_eq(o->rounding.rounding.order, DT_ORDER_WEIGHT);
    ck_assert(o->rounding.rounding.damping == 0.01 && o->rounding.rounding.block == 128);
    ck_assert(o->rounding.accumulator.bits == 16 && o->rounding.accumulator.input.v[0] == -128);
    ck_assert(o->calibration.samples == 64 && o->calibration.cache_mb == 1024);
    ck_assert(o->weight.has_group_size && o->weight.quant.group_size == 12);
    ck_assert_int_eq(o->n_tensors, 3);
    const dt_tensor_rule *up = &o->tensors[0], *head = &o->tensors[1];
    ck_assert(up->op == DT_WEIGHT_CONV_TRANSPOSE2D && up->stride[0] == 2 && up->stride[1] == 1);
    ck_assert(up->padding[0] == 1 && up->padding[1] == 1 && up->groups == 2 && !up->has_dilation);
    ck_assert(head->has_rounder && head->rounder == DT_ROUND_NEAREST && !head->has_op);
    ck_assert(o->tensors[2].skip);
    yaml.n = json.n = json_again.n = 0;
    TEST_OK(ctx, dt_recipe_show(r, take, &yaml));
    TEST_OK(ctx, dt_recipe_json(r, take, &json));
    ck_assert_ptr_null(strstr(yaml.bytes, "train:"));
    ck_assert_ptr_nonnull(strstr(yaml.bytes, "stride: [2, 1]"));
    TEST_OK(ctx, read_for(ctx, yaml.bytes, DT_RECIPE_TO_QUANTIZE, &back));
    TEST_OK(ctx, dt_recipe_json(back, take, &json_again));
    ck_assert_str_eq(json.bytes, json_again.bytes);
    TEST_FAILS(ctx, DT_ERR_CONFIG, "not read as one to train by", dt_run(ctx, r, NULL, NULL));
    dt_recipe_free(r);
    dt_recipe_free(back);
    TEST_FAILS(ctx, DT_ERR_CONFIG, "missing key 'model.family'",
               read_for(ctx, rounding_text, DT_RECIPE_TO_TRAIN, &r));
    ck_assert_int_eq(dt_recipe_error_count(r), 3);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* A model without family is shown, too. */
START_TEST(a_model_may_be_a_file_alone)
{
    static text yaml, json;
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    yaml.n = json.n = 0;
    dt_recipe_source source = source_of("model: {init: none.safetensors}\n");
    source.use = DT_RECIPE_TO_QUANTIZE;
    source.leave_files = true;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    TEST_OK(ctx, dt_recipe_show(r, take, &yaml));
    TEST_OK(ctx, dt_recipe_json(r, take, &json));
    ck_assert_ptr_nonnull(strstr(yaml.bytes, "init: none.safetensors"));
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* One recipe can have the settings of every rounder; those that the chosen one does not read give a
 * warning. */
static void take_line(void *user, const char *line)
{
    text *all = user;
    all->n += (size_t)snprintf(all->bytes + all->n, sizeof all->bytes - all->n, "%s\n", line);
}

START_TEST(settings_of_other_rounders_are_warned_of)
{
    static text log;
    static const char *const rounders[] = { "nearest", "gptq", "gpfq", "qronos", "a2qronos" };
    static const char *const unread[] = {
        "bad.yaml:2:13: warning: 'quantize.rounding' is not read: it belongs to gptq, gpfq",
        "bad.yaml:2:50: warning: 'quantize.rounding.alpha' is not read: it belongs to qronos",
        "bad.yaml:2:38: warning: 'quantize.rounding.damping' is not read: it belongs to gptq",
        "bad.yaml:3:16: warning: 'quantize.accumulator' is not read: it belongs to a2gptq", ""
    };
    const dt_ctx_options options = { .log = take_line, .log_user = &log };
    for (int i = 0; i < 5; i++) {
        dt_ctx *ctx = NULL;
        dt_recipe *r = NULL;
        char override[64];
        const char *overrides[] = { override };
        log.n = 0;
        log.bytes[0] = 0;
        snprintf(override, sizeof override, "quantize.rounder=%s", rounders[i]);
        ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
        dt_recipe_source source =
            source_of("quantize:\n"
                      "  rounding: {order: weight, damping: 0.1, alpha: 1e-3}\n"
                      "  accumulator: {bits: 16, tile: 32}\n");
        source.use = DT_RECIPE_TO_QUANTIZE;
        source.overrides = overrides;
        source.n_overrides = 1;
        TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
        ck_assert_msg(strstr(log.bytes, unread[i]) != NULL, "%s: %s", rounders[i], log.bytes);
        dt_recipe_free(r);
        dt_ctx_free(ctx);
    }
}
END_TEST

static dt_recipe *read_logged(const char *value, const char *override, text *log)
{
    char words[512];
    const dt_ctx_options options = { .log = take_line, .log_user = log };
    dt_ctx *ctx = NULL;
    log->n = 0;
    log->bytes[0] = 0;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    snprintf(words, sizeof words, HEAD "%s", value);
    dt_recipe *r = read_ok(ctx, words, &override, override != NULL);
    dt_ctx_free(ctx); /* the recipe keeps it */
    return r;
}

/* A key that another key makes ineffective; an override of a key in the file gives no warning. */
START_TEST(idle_keys_are_warned_of)
{
    static text log;
    static const struct {
        const char *recipe, *override, *warning; /* NULL: none */
    } cases[] = {
        { "train: {epochs: 3, steps: 50}\n", NULL, "'train.epochs' is not read: 'train.steps'" },
        { "train: {steps: 50}\n", "train.epochs=3", "'train.epochs' is not read: 'train.steps'" },
        { "train: {epochs: 3}\n", "train.steps=50", NULL },
        { "train: {epochs: 3, steps: 0}\n", NULL, NULL },
        { "train: {optimizer: {name: sgd, dampening: 0.5}}\n", NULL, "'train.optimizer.momentum'" },
        { "train: {optimizer: {name: sgd, dampening: 0.5, momentum: 0.9}}\n", NULL, NULL },
        { "train: {schedule: {name: constant, total_steps: 90}}\n", NULL, "has no end" },
        { "train: {schedule: {name: cosine, total_steps: 90}}\n", NULL, NULL },
        { "", "data={format: sounds, features: {bins: 20}}", "'data.features.kind' is none" },
        { "", "data={format: sounds, features: {bins: 20, kind: mfcc}}", NULL },
        { "train: {optimizer: {lr: 0}}\n", NULL, "'train.optimizer.lr' is 0: no parameter" },
        { "train: {optimizer: {lr: 1e-9}}\n", NULL, NULL },
        { "train: {sampler: balanced, class_weights: balanced}\n", NULL, "count twice over" },
        { "train: {sampler: balanced}\n", NULL, NULL },
        { "train: {class_weights: balanced}\n", NULL, NULL },
        { "train: {log: {layers_every_steps: 5}}\n", NULL, "there is no 'qat'" },
        { "qat: {}\ntrain: {log: {layers_every_steps: 5}}\n", NULL, NULL },
        { "cluster: {sync_norm: true}\n", NULL, "'train.shards' is below 2" },
        { "train: {shards: 2}\ncluster: {sync_norm: true}\n", NULL, NULL },
        { "qat: {}\nconvert: {calibration: {samples: 5}}\n", NULL, "nearest, which reads no data" },
        { "qat: {}\nconvert: {rounder: gptq, calibration: {samples: 5}}\n",
          "convert.rounder=nearest", NULL },
        { "qat: {}\nconvert: {rounder: gptq, rounding: {damping: 0.1, damping_absolute: 1}}\n",
          NULL, "'convert.rounding.damping' is not read: 'convert.rounding.damping_absolute'" },
        { "qat: {weight: {own: mine}}\n", NULL, "'qat.weight.own' is not read" },
        { "qat: {start_step: 1}\ntrain: {distill: {feature_weight: 2}}\n", NULL,
          "'train.distill.feature_weight' is not read" },
        { "qat: {freeze_from: 0.1}\n", NULL, "'qat.freeze_from' is not read: 'qat.freeze' is 0" },
        { "qat: {freeze_momentum: 0.1}\n", NULL, "'qat.freeze_momentum' is not read" },
        { "qat: {freeze: 0.02, freeze_from: 0.1, freeze_momentum: 0.1}\n", NULL, NULL },
        { "quantize: {rounder: gptq, rounding: {damping: 0.1, damping_absolute: 1}}\n", NULL,
          "'quantize.rounding.damping' is not read: 'quantize.rounding.damping_absolute'" },
        { "train: {checkpoint: {keep: 2}}\n", NULL, "'train.checkpoint.keep' is not read" },
        { "train: {checkpoint: {keep: 2, every_minutes: 5}}\n", NULL, NULL },
        { "train: {optimizer: {decay: all, weight_decay: 0}}\n", NULL,
          "'train.optimizer.decay' is not read" },
        { "train: {optimizer: {decay: all}}\n", "train.optimizer.weight_decay=0", NULL },
        { "qat: {activation: {quantize: false, bits: 8}}\n", NULL,
          "'qat.activation.bits' is not read: 'qat.activation.quantize' is false" },
        { "qat: {activation: {bits: 8}}\n", "qat.activation.quantize=false", NULL },
        { "qat: {activation: {quantize: false}}\n", NULL, NULL },
        { "qat: {weight: {quantize: false, bits: 4}, rules: [{match: head, weight: {quantize: "
          "true}}]}\n",
          NULL, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dt_recipe *r = read_logged(cases[i].recipe, cases[i].override, &log);
        const bool warned = strstr(log.bytes, "warning: ") != NULL;
        ck_assert_msg(warned == (cases[i].warning != NULL), "%zu: %s", i, log.bytes);
        if (warned) {
            ck_assert_msg(strstr(log.bytes, cases[i].warning) != NULL, "%zu: %s", i, log.bytes);
        }
        dt_recipe_free(r);
    }
}
END_TEST

/* Settings of norms beside no norm, or one that does not read them; families have own defaults. */
START_TEST(settings_of_norms_are_warned_of)
{
    static text log;
    static const struct {
        const char *model;
        const char *warning[2]; /* of momentum and eps; NULL: none */
    } cases[] = {
        { "family: mlp, sizes: [784, 10]", { "'momentum' is not read: 'norm' is none", "'eps'" } },
        { "family: mlp, norm: layer, sizes: [784, 10]", { "'norm' is layer", NULL } },
        { "family: mlp, norm: batch, sizes: [784, 10]", { NULL, NULL } },
        { "family: resnet, image: [1, 28, 28], outputs: 10", { NULL, NULL } },
        { "family: resnet, norm: none, image: [1, 28, 28], outputs: 10",
          { "'momentum'", "'eps'" } },
        { "family: cnn, image: [1, 28, 28], blocks: [{out: 4, norm: none}], outputs: 10",
          { "'momentum'", "'eps'" } },
        { "family: cnn, image: [1, 28, 28], blocks: [{out: 4}, {out: 4, norm: group}], outputs: 10",
          { NULL, NULL } },
        { "family: layers, input: [784], layers: [{linear: a, out: 10}]",
          { "'momentum'", "'eps'" } },
        { "family: layers, input: [784], layers: [{linear: a, norm: batch, out: 10}]",
          { NULL, NULL } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[1024];
        const char *model = cases[i].model;
        const bool list = strstr(model, "layers") != NULL;
        const dt_ctx_options options = { .log = take_line, .log_user = &log };
        dt_ctx *ctx = NULL;
        const int n = (int)strlen(model) - (list ? 2 : 0); /* keys of the layer, or of the model */
        log.n = 0;
        log.bytes[0] = 0;
        snprintf(words, sizeof words,
                 "run: {dir: r}\nmodel: {%.*s, momentum: 0.2, eps: 1e-4%s}\n" DATA, n, model,
                 model + n);
        ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
        dt_recipe *r = read_ok(ctx, words, NULL, 0);
        for (int k = 0; k < 2; k++) {
            static const char *const keys[] = { "'momentum' is not read", "'eps' is not read" };
            const bool warned = strstr(log.bytes, keys[k]) != NULL;
            ck_assert_msg(warned == (cases[i].warning[k] != NULL), "%zu: %s", i, log.bytes);
            if (warned) ck_assert_ptr_nonnull(strstr(log.bytes, cases[i].warning[k]));
        }
        dt_recipe_free(r);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Of layers without a norm no settings of one are shown: it is a recipe without warnings. */
START_TEST(shown_layers_are_read_without_a_warning)
{
    static text log, yaml;
    const dt_ctx_options options = { .log = take_line, .log_user = &log };
    dt_ctx *ctx = NULL;
    log.n = yaml.n = 0;
    log.bytes[0] = 0;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    dt_recipe *r = read_ok(ctx,
                           "run: {dir: r}\nmodel: {family: layers, input: [784], layers: [{linear: "
                           "a, out: 9, norm: layer}, {linear: b, out: 10}]}\n" DATA,
                           NULL, 0);
    TEST_OK(ctx, dt_recipe_show(r, take, &yaml));
    dt_recipe_free(r);
    ck_assert_ptr_nonnull(strstr(yaml.bytes, "eps: 1e-5"));
    dt_recipe_free(read_ok(ctx, yaml.bytes, NULL, 0));
    ck_assert_str_eq(log.bytes, "");
    dt_ctx_free(ctx);
}
END_TEST

/* An old name of a key or choice has the same meaning, and a warning gives the new name. */
START_TEST(old_names_can_be_read)
{
    static text log;
    static const struct {
        const char *recipe, *override, *warning;
        int scheme; /* of qat.rules.0.weight */
        int grouped;
    } cases[] = {
        { "qat: {rules: [{match: a, weight: {rule: asymmetric}}]}\n", NULL,
          "bad.yaml:4:35: warning: 'qat.rules.0.weight.rule' is now called 'scheme'\n",
          DT_SCHEME_ASYMMETRIC, DT_GROUPED_STACKED },
        { "qat: {rules: [{match: a, weight: {rule: asymmetric}}]}\n",
          "qat.rules.0.weight.rule=symmetric_no_clip",
          "command line: warning: 'qat.rules.0.weight.rule' is now called "
          "'qat.rules.0.weight.scheme'\n",
          DT_SCHEME_SYMMETRIC_NO_CLIP, DT_GROUPED_STACKED },
        { "qat: {rules: [{match: a, weight: {scheme: q4_0}}]}\n",
          "qat.rules.0.weight={rule: asymmetric}",
          "command line: warning: 'qat.rules.0.weight.rule' is now called 'scheme'\n",
          DT_SCHEME_ASYMMETRIC, DT_GROUPED_STACKED },
        { "qat: {rules: [{match: a, weight: {rule: q4_0, bits: 3}}]}\n", "~qat.rules.0.weight.rule",
          "command line: warning: 'qat.rules.0.weight.rule' is now called "
          "'qat.rules.0.weight.scheme'\n",
          DT_SCHEME_SYMMETRIC, DT_GROUPED_STACKED },
        { "qat: {rules: [{match: a, weight: {bits: 3}}]}\ntrain: {checkpoint: {grouped: "
          "members}}\n",
          NULL,
          "bad.yaml:5:31: warning: 'train.checkpoint.grouped': members is now called experts\n",
          DT_SCHEME_SYMMETRIC, DT_GROUPED_EXPERTS },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dt_recipe *r = read_logged(cases[i].recipe, cases[i].override, &log);
        const dt_recipe_options *o = dt_recipe_get(r);
        ck_assert_msg(strstr(log.bytes, cases[i].warning) != NULL, "%zu: %s", i, log.bytes);
        ck_assert_int_eq(o->qat.rules[0].weight.quant.scheme, cases[i].scheme);
        ck_assert_int_eq(o->train.checkpoint.grouped, cases[i].grouped);
        log.n = 0;
        log.bytes[0] = 0;
        ck_assert_int_eq(dt_recipe_show(r, take, &log), DT_OK);
        ck_assert_ptr_null(strstr(log.bytes, "rule:"));
        ck_assert_ptr_null(strstr(log.bytes, "members"));
        dt_recipe_free(r);
    }
}
END_TEST

/* A run's own copy of its recipe is read without a warning: its user does not edit it. */
START_TEST(old_names_in_a_saved_recipe_give_no_warning)
{
    static text log;
    const dt_ctx_options options = { .log = take_line, .log_user = &log };
    dt_ctx *ctx = NULL;
    dt_recipe *r = NULL;
    dt_recipe_source source = source_of(HEAD "qat: {weight: {rule: asymmetric}}\n"
                                             "train: {steps: 5, epochs: 3}\n");
    source.saved = true;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    ck_assert_int_eq(dt_recipe_get(r)->qat.weight.quant.scheme, DT_SCHEME_ASYMMETRIC);
    ck_assert_str_eq(log.bytes, "");
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(quantize_has_defaults)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    TEST_OK(ctx, read_for(ctx, HEAD, DT_RECIPE_TO_QUANTIZE, &r));
    const dt_quantize_options *o = &dt_recipe_get(r)->quantize;
    const dt_rounding_options d = dt_rounding_defaults();
    ck_assert(!o->given && o->calibration.cache_mb == 1024);
    ck_assert(o->rounding.rounding.alpha == d.rounding.alpha);
    ck_assert_int_eq(o->rounding.accumulator.input.n, 0);
    dt_recipe_free(r);
    TEST_OK(ctx, read_for(ctx, HEAD "quantize: {rounder: gptq}\n", DT_RECIPE_ANY, &r));
    ck_assert(!dt_recipe_only_quantizes(r) && dt_recipe_get(r)->quantize.given);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(keys_of_several_rules_belong_together)
{
    static text yaml;
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = read_ok(ctx,
                           HEAD "qat:\n  calibrate_batches: 4\n  activation: {percentile: 99}\n"
                                "  rules:\n    - {match: a, activation: {range: static}}\n"
                                "    - {match: '*', activation: {observer: percentile}}\n",
                           NULL, 0);
    TEST_OK(ctx, dt_recipe_show(r, take, &yaml));
    ck_assert_ptr_nonnull(strstr(yaml.bytes, "calibrate_batches: 4 "));
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status refuse_bytes(void *user, const char *bytes, size_t n)
{
    (void)bytes;
    size_t *left = user;
    if (n > *left) return DT_ERR_IO;
    *left -= n;
    return DT_OK;
}

START_TEST(sinks_may_fail)
{
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = read_ok(ctx, full, NULL, 0);
    const size_t apart = (size_t)test_count((test_draws){ 7, 97, 29 });
    for (size_t room = 0; room < 400; room += apart) {
        size_t left = room;
        ck_assert_int_eq(dt_recipe_show(r, refuse_bytes, &left), DT_ERR_IO);
        left = room;
        ck_assert_int_eq(dt_recipe_json(r, refuse_bytes, &left), DT_ERR_IO);
        left = room;
        ck_assert_int_eq(dt_recipe_schema(ctx, refuse_bytes, &left), DT_ERR_IO);
        left = room;
        ck_assert_int_eq(dt_recipe_markdown(ctx, refuse_bytes, &left), DT_ERR_IO);
    }
    dt_recipe_refuse(r, "run.dir", "x");
    size_t left = 0;
    TEST_FAILS(ctx, DT_ERR_STATE, "has errors", dt_recipe_show(r, refuse_bytes, &left));
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(the_schema_is_json)
{
    static text schema;
    schema.n = 0;
    dt_ctx *ctx = create_ctx();
    TEST_OK(ctx, dt_recipe_schema(ctx, take, &schema));
    json_error_t error;
    json_t *root = json_loads(schema.bytes, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root != NULL, "line %d: %s", error.line, error.text);
    const json_t *lr = root;
    static const char *const path[] = { "properties", "train",      "properties",
                                        "optimizer",  "properties", "lr" };
    for (int i = 0; i < 6; i++) lr = json_object_get(lr, path[i]);
    ck_assert_str_eq(json_string_value(json_object_get(lr, "type")), "number");
    ck_assert(json_real_value(json_object_get(lr, "default")) == 1e-3);
    json_decref(root);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- the tables ---------------------------------------------------------------------------- */

static void check_table(const dt_key *keys, const char *path)
{
    for (const dt_key *k = keys; k->name != NULL; k++) {
        char here[200];
        snprintf(here, sizeof here, "%s.%s", path, k->name);
        ck_assert_msg(strspn(k->name, "abcdefghijklmnopqrstuvwxyz_0123456789") == strlen(k->name),
                      "%s: a name of small letters", here);
        ck_assert_msg(k->text != NULL && *k->text != 0, "%s has no sentence", here);
        ck_assert_msg(k->text[strlen(k->text) - 1] != '.', "%s: a full stop", here);
        ck_assert_msg(strchr(k->text, '|') == NULL, "%s: a bar would end a table's cell", here);
        ck_assert_msg(k->type == DT_KEY_CHOICE ? k->choices != NULL
                                               : k->choices == NULL || k->type == DT_KEY_REALS,
                      "%s: choices", here);
        ck_assert_msg((k->type == DT_KEY_MAP || k->type == DT_KEY_LIST) == (k->keys != NULL),
                      "%s: keys", here);
        ck_assert_msg(k->least <= k->most, "%s: an empty range", here);
        ck_assert_msg(!k->other_form || (k > keys && strcmp(k[-1].name, k->name) == 0),
                      "%s: a form of no key", here);
        for (const dt_key *twin = keys; twin != k; twin++) {
            const bool form = k->other_form && twin->type != k->type;
            ck_assert_msg(strcmp(twin->name, k->name) != 0 || form, "%s stands twice", here);
        }
        if (k->keys != NULL) check_table(k->keys, here);
    }
}

START_TEST(tables_are_complete)
{
    check_table(dt_recipe_keys, "");
    const dt_family *family;
    for (int i = 0; (family = dt_family_at(i)) != NULL; i++) {
        check_table(family->keys, family->name);
        for (const dt_key *k = family->keys; k->name != NULL; k++) {
            for (const dt_key *m = dt_model_keys; m->name != NULL; m++) {
                ck_assert_str_ne(k->name, m->name);
            }
        }
    }
}
END_TEST

/* ---- damaged files ------------------------------------------------------------------------ */

static void read_any(dt_ctx *ctx, const char *bytes, size_t n)
{
    dt_recipe *r = NULL;
    dt_recipe_source source = {
        .path = "bad.yaml", .text = bytes, .bytes = n, .leave_files = true
    };
    const dt_status status = dt_recipe_read(ctx, &source, &r);
    ck_assert_msg(status == DT_OK || status == DT_ERR_CONFIG, "%s", dt_error(ctx));
    ck_assert((status == DT_OK) == (dt_recipe_error_count(r) == 0));
    dt_recipe_free(r);
}

START_TEST(damaged_text_survives)
{
    static const char letters[] = "\t\n #&*!{}[]:,-?|>'\"%@`~<=.09aZ\\\xC3\x80\xFF\x01";
    dt_ctx *ctx = create_ctx();
    const size_t n = strlen(full), apart = (size_t)test_count((test_draws){ 1, 4, 1 });
    for (size_t i = 0; i <= n; i += apart) {
        char *cut = malloc(i + 1); /* exactly so large, so that a sanitizer sees reads behind it */
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, full, i);
        read_any(ctx, cut, i);
        free(cut);
    }
    uint32_t state = 1;
    for (int64_t i = 0; i < test_count((test_draws){ 6000, 1500, 3000 }); i++) {
        char copy[sizeof full];
        memcpy(copy, full, sizeof full);
        for (int64_t j = 0; j <= i % 3; j++) {
            state = state * 1664525u + 1013904223u;
            const char letter = letters[(state >> 8) % (sizeof letters - 1)];
            copy[(state >> 16) % n] = letter;
        }
        read_any(ctx, copy, n);
    }
    dt_ctx_free(ctx);
}
END_TEST

static const char *const some_overrides[] = { "run.seed=2", "qat.rules.0.skip=true", "train.x=1" };

static dt_status read_once(dt_ctx *ctx, void *user)
{
    dt_recipe *r = NULL;
    dt_recipe_source source = source_of(user);
    source.leave_files = true;
    source.overrides = some_overrides;
    source.n_overrides = 3;
    dt_status status = dt_recipe_read(ctx, &source, &r);
    if (status == DT_ERR_CONFIG) status = DT_OK;
    dt_recipe_free(r);
    return status;
}

static char long_text[64 * 1024];

START_TEST(every_allocation_may_fail)
{
    size_t n = (size_t)snprintf(long_text, sizeof long_text, "%s", full);
    for (int i = 0; i < 60; i++) {
        n += (size_t)snprintf(long_text + n, sizeof long_text - n,
                              "    - {match: layer.%d, weight: {bits: %d}, sikp: 1}\n", i, i % 9);
    }
    ck_assert_int_gt(test_every_allocation(read_once, long_text), 3);
}
END_TEST

START_TEST(every_malloc_may_fail)
{
    if (!test_malloc_can_fail()) return;
    dt_ctx *ctx = create_ctx();
    for (int64_t i = 1;; i++) {
        test_malloc_fail_at(i);
        const dt_status status = read_once(ctx, (void *)full);
        const int64_t calls = test_malloc_calls();
        test_malloc_fail_at(0);
        if (calls < i) {
            ck_assert_int_eq(status, DT_OK);
            ck_assert_int_gt(i, 50);
            break;
        }
        ck_assert_msg(status == DT_ERR_NOMEM, "call %lld: %s", (long long)i, dt_error(ctx));
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "out of memory"));
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- shipped ------------------------------------------------------------------------------ */

static const char *const names[] = {
    "digits-mlp",           "digits-2bit",        "mnist-mlp",        "mnist-mlp-int8",
    "mnist-mlp-finetune",   "mnist-cnn",          "digits-cnn",       "mnist-cnn-w4a4",
    "digits-unet-denoise",  "cifar10-resnet20",   "mnist-tfc-w2a2",   "adder",
    "shakespeare-char-gpt", "shakespeare-llama",  "shakespeare-moe",  "names-bytes-tiny",
    "finetune-llama-int4",  "sounds-dscnn",       "sensors-conv1d",   "sensors-gru",
    "sensors-anomaly",      "table-classes",      "table-values",     "digits-mobilenet",
    "table-columns",        "mlperf-resnet8",     "mlperf-mobilenet", "mlperf-dscnn",
    "mlperf-wakeword",      "mlperf-autoencoder",
};

START_TEST(shipped_recipes_are_right)
{
    char path[TEST_PATH];
    snprintf(path, sizeof path, "%s/configs/%s.yaml", DETENT_SOURCE_DIR, names[_i]);
    dt_ctx *ctx = create_ctx();
    dt_recipe *r = NULL;
    const dt_recipe_source source = { .path = path, .leave_files = true };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    ck_assert(dt_recipe_get(r)->qat.given);
    static text yaml;
    yaml.n = 0;
    TEST_OK(ctx, dt_recipe_show(r, take, &yaml));
    dt_recipe_free(r);
    dt_recipe_free(read_ok(ctx, yaml.bytes, NULL, 0));
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_recipe_suite(void)
{
    Suite *suite = suite_create("recipe");
    TCase *mistakes = tcase_create("mistakes");
    tcase_add_loop_test(mistakes, mistakes_have_a_place, 0, PROCESSES);
    tcase_add_test(mistakes, limits_hold);
    tcase_add_test(mistakes, files_that_cannot_be_read);
    tcase_add_test(mistakes, a_model_that_cannot_be_read);
    tcase_add_test(mistakes, later_errors_join);
    tcase_add_test(mistakes, rules_must_match_the_model);
    suite_add_tcase(suite, mistakes);
    TCase *values = tcase_create("values");
    tcase_add_test(values, values_arrive);
    tcase_add_test(values, the_shortest_recipe);
    tcase_add_test(values, strings_may_look_like_anything);
    tcase_add_test(values, a_target_chooses_the_rest);
    tcase_add_loop_test(values, the_best_is_chosen_by_bits_and_layers, 0,
                        sizeof best_choices / sizeof best_choices[0]);
    tcase_add_loop_test(values, the_best_start_is_a_share, 0,
                        sizeof best_starts / sizeof *best_starts);
    tcase_add_test(values, rules_of_other_bits_have_a_scheme);
    tcase_add_test(values, the_command_line_wins);
    tcase_add_test(values, shown_recipes_read_back);
    tcase_add_test(values, keys_of_several_rules_belong_together);
    tcase_add_test(values, sinks_may_fail);
    tcase_add_test(values, the_schema_is_json);
    tcase_add_test(values, tables_are_complete);
    tcase_add_test(values, a_recipe_may_only_quantize);
    tcase_add_test(values, a_model_may_be_a_file_alone);
    tcase_add_test(values, quantize_has_defaults);
    tcase_add_test(values, old_names_can_be_read);
    tcase_add_test(values, old_names_in_a_saved_recipe_give_no_warning);
    tcase_add_test(values, settings_of_other_rounders_are_warned_of);
    tcase_add_test(values, idle_keys_are_warned_of);
    tcase_add_test(values, settings_of_norms_are_warned_of);
    tcase_add_test(values, shown_layers_are_read_without_a_warning);
    tcase_add_loop_test(values, shipped_recipes_are_right, 0,
                        (int)(sizeof names / sizeof names[0]));
    suite_add_tcase(suite, values);
    TCase *damage = tcase_create("damage");
    tcase_set_timeout(damage, 120);
    tcase_add_test(damage, damaged_text_survives);
    tcase_add_test(damage, every_allocation_may_fail);
    tcase_add_test(damage, every_malloc_may_fail);
    suite_add_tcase(suite, damage);
    return suite;
}
