/* Networks with grouped layers: prepared, converted and loaded models have the same bits with every
 * preset and with mixed schemes; training writes only masters; inconsistent files are refused. */
#include "models.h"
#include "testing.h"

#include "core/tensor.h"
#include "nn/module.h"
#include "qat/prepare.h"
#include "qat/quantized.h"
#include "train/run/run.h"

#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;
static char folder[TEST_PATH], path[TEST_PATH];

static dt_ctx *context(int threads)
{
    dt_ctx *c;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&c, &o));
    return c;
}

static void setup(void)
{
    ctx = context(2);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
}

static void teardown(void)
{
    dt_tape_free(t);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- a model -------------------------------------------------------------------------------- */

/* Panels of fewer lanes between experts, groups of 32 that end short. */
static const dt_llama_options options = {
    .vocab = 37,
    .context = 8,
    .layers = 2,
    .heads = 2,
    .width = 24,
    .hidden = 40,
    .theta = 10000,
    .eps = 1e-5,
    .rope = { .factor = 1, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8 },
    .moe = { .given = true, .experts = 5, .top_k = 2, .normalize = true, .balance = 0.01 }
};

#define EXPERTS "model.layers.0.moe.w_up"
#define WEIGHT EXPERTS ".weight"

static dt_model_info info_of(void)
{
    const dt_family *family = dt_family_at(0);
    for (int i = 0; strcmp(family->name, "llama") != 0; i++) family = dt_family_at(i);
    return (dt_model_info){ .family = family, .options = &options };
}

static dt_module *model(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_llama_create(ctx, &options, &m));
    return m;
}

/* [batch, 8] ids, or labels; the caller's to free. */
static dt_tensor *ids_of(dt_ctx *c, int64_t batch, int step)
{
    dt_tensor *x;
    TEST_OK(c, dt_tensor_create(c, DT_I32, 2, (const int64_t[]){ batch, 8 }, &x));
    int32_t *id = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) id[i] = (int32_t)((i * step + i / 8) % options.vocab);
    return x;
}

/* Logits in evaluation: malloc'ed. */
static float *logits(dt_module *m)
{
    dt_tape *tape;
    dt_ctx *c = dt_module_ctx(m);
    dt_tensor *x = ids_of(c, 3, 7);
    const bool trains = dt_is_training(m);
    TEST_OK(c, dt_tape_create(c, &tape));
    dt_no_grad(tape, true);
    dt_train(m, false);
    dt_tensor *y = dt_forward(tape, m, x);
    TEST_OK(c, dt_tape_status(tape));
    float *out = malloc((size_t)y->count * sizeof *out);
    memcpy(out, dt_data(y), (size_t)y->count * sizeof *out);
    dt_train(m, trains);
    dt_tape_free(tape);
    dt_tensor_free(x);
    return out;
}

/* Whether m gives y, which is not released. */
static bool gives(dt_module *m, const float *y)
{
    float *own = logits(m);
    const bool same = memcmp(own, y, (size_t)(3 * 8 * options.vocab) * sizeof *own) == 0;
    free(own);
    return same;
}

static double train_step(dt_module *m, dt_optimizer *o)
{
    dt_tensor *x = ids_of(ctx, 4, 5), *labels = ids_of(ctx, 4, 11);
    dt_train(m, true);
    dt_zero_grad(m);
    dt_tensor *loss = dt_token_loss(t, m, x, labels, NULL, NULL);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    const double value = dt_item(loss);
    dt_tape_reset(t);
    TEST_OK(ctx, dt_optimizer_step(o, t, 1e-2));
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    return value;
}

static void train(dt_module *m, int steps)
{
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    for (int i = 0; i < steps; i++) ck_assert(isfinite(train_step(m, o)));
    dt_optimizer_free(o);
}

static void save(dt_module *m, int grouped)
{
    dt_model_info info = info_of();
    info.grouped = grouped;
    TEST_OK(ctx, dt_model_save(m, &info, path));
}

static dt_module *loaded(dt_ctx *c)
{
    dt_module *copy;
    TEST_OK(c, dt_model_load(c, path, &copy, NULL));
    return copy;
}

/* ---- the same bits everywhere --------------------------------------------------------------- */

/* The model of a file, stacked or expert by expert, also on other numbers of threads. */
static void check_loaded(dt_module *m, const float *y)
{
    static const int forms[] = { DT_GROUPED_STACKED, DT_GROUPED_EXPERTS };
    for (int i = 0; i < 2; i++) {
        save(m, forms[i]);
        dt_ctx *c = context(1 + 2 * i);
        dt_module *copy = loaded(c), *own = loaded(ctx);
        ck_assert_msg(gives(copy, y), "loaded from form %d", forms[i]);
        same_models(m, own);
        dt_module_free(own);
        dt_module_free(copy);
        dt_ctx_free(c);
    }
}

static void check_everywhere(const dt_qat_options *qat)
{
    dt_module *m = model();
    train(m, 1);
    TEST_OK(ctx, dt_prepare(m, qat));
    ck_assert(dt_is_fake_quant(dt_param(m, WEIGHT)) && dt_is_grouped(dt_param(m, WEIGHT)));
    train(m, 3);
    float *y = logits(m);
    check_loaded(m, y);
    const int64_t bytes = dt__module_bytes(m, true);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_tensor *w = dt_param(m, WEIGHT);
    ck_assert(dt_is_packed(w) && dt_is_grouped(w) && dt_grouped_count(w) == options.moe.experts);
    ck_assert_msg(gives(m, y), "converted");
    ck_assert_int_eq(dt__module_bytes(m, true), bytes);
    check_loaded(m, y);
    free(y);
    dt_module_free(m);
}

START_TEST(prepared_converted_and_loaded_agree)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT8_DYNAMIC_INT4_WEIGHT + _i / 2;
    o.forward = _i % 2 == 0 ? DT_FORWARD_INTEGER : DT_FORWARD_SIMULATED;
    check_everywhere(&o);
}
END_TEST

#define WEIGHTS(...)                                                                               \
    {                                                                                              \
        .quant = { __VA_ARGS__ }, .has_bits = true, .has_scheme = true, .has_granularity = true    \
    }

/* Other schemes than presets have, on all weights of experts. */
static const dt_quant_patch schemes[] = {
    WEIGHTS(.bits = 2, .scheme = DT_SCHEME_SYMMETRIC_NO_CLIP, .granularity = DT_PER_CHANNEL),
    WEIGHTS(.bits = 3, .scheme = DT_SCHEME_SYMMETRIC, .granularity = DT_PER_TENSOR),
    WEIGHTS(.bits = 4, .scheme = DT_SCHEME_ASYMMETRIC, .granularity = DT_PER_TENSOR),
    WEIGHTS(.bits = 5, .scheme = DT_SCHEME_ASYMMETRIC, .granularity = DT_PER_CHANNEL),
    WEIGHTS(.bits = 8, .scheme = DT_SCHEME_SYMMETRIC, .granularity = DT_PER_CHANNEL),
    { .quant = { .scheme = DT_SCHEME_Q4_0,
                 .bits = 4,
                 .granularity = DT_PER_GROUP,
                 .group_size = 32 },
      .has_scheme = true,
      .has_bits = true,
      .has_granularity = true,
      .has_group_size = true },
    { .quant = { .bits = 4,
                 .group_size = 8,
                 .granularity = DT_PER_GROUP,
                 .scale_dtype = DT_SCALE_BF16,
                 .ste = DT_STE_CLIPPED },
      .has_bits = true,
      .has_group_size = true,
      .has_granularity = true,
      .has_scale_dtype = true,
      .has_ste = true },
    { .quant = { .range = DT_RANGE_STATIC,
                 .observer = DT_OBSERVER_MSE,
                 .bits = 4,
                 .granularity = DT_PER_GROUP,
                 .group_size = 16 },
      .has_range = true,
      .has_observer = true,
      .has_bits = true,
      .has_granularity = true,
      .has_group_size = true },
    { .quant = { .range = DT_RANGE_STATIC,
                 .observer = DT_OBSERVER_MSE,
                 .bits = 4,
                 .scheme = DT_SCHEME_ASYMMETRIC,
                 .granularity = DT_PER_TENSOR },
      .has_range = true,
      .has_observer = true,
      .has_bits = true,
      .has_scheme = true,
      .has_granularity = true },
    { .quant = { .range = DT_RANGE_LEARNED, .bits = 3, .granularity = DT_PER_TENSOR },
      .has_range = true,
      .has_bits = true,
      .has_granularity = true },
};

START_TEST(every_scheme_agrees)
{
    dt_qat_options o = dt_qat_defaults();
    o.rules[0] = (dt_qat_rule){ .match = "*.moe.w_*", .weight = schemes[_i] };
    o.n_rules = 1;
    check_everywhere(&o);
}
END_TEST

/* Layers of different bits and presets; one of them stays float, another's input does. */
START_TEST(mixed_schemes_agree)
{
    dt_qat_options o = dt_qat_defaults();
    o.rules[0] = (dt_qat_rule){ .match = "model.layers.0.moe.w_gate", .weight = schemes[0] };
    o.rules[1] = (dt_qat_rule){ .match = "*.w_down", .weight = schemes[4] };
    o.rules[2] =
        (dt_qat_rule){ .match = "model.layers.1.moe.w_up", .skip = true, .has_skip = true };
    o.rules[3] = (dt_qat_rule){ .match = "model.layers.1.moe.w_gate",
                                .activation = { .quantize = false, .has_quantize = true } };
    o.n_rules = 4;
    check_everywhere(&o);
}
END_TEST

/* ---- resuming training ---------------------------------------------------------------------- */

static dt_training_state state_of(dt_module *m, dt_optimizer *o)
{
    return (dt_training_state){ .module = m, .info = info_of(), .optimizer = o };
}

/* Two updates, saved, loaded into a float model, two more, equal four uninterrupted ones; the file
 * also restores learned scales and static ranges. */
START_TEST(training_resumes_with_the_same_bits)
{
    dt_qat_options qat = dt_qat_defaults();
    dt_optimizer *o, *again;
    dt_module *m = model(), *copy = model();
    qat.preset = _i == 0 ? DT_INT4_INT4 : DT_INT8_STATIC_INT8_WEIGHT;
    if (_i == 2) qat.rules[0] = (dt_qat_rule){ .match = "*.moe.w_*", .weight = schemes[8] };
    qat.n_rules = _i == 2;
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    TEST_OK(ctx, dt_optimizer_create(copy, NULL, &again));
    for (int i = 0; i < 2; i++) train_step(m, o);
    dt_training_state saved = state_of(m, o), other = state_of(copy, again);
    TEST_OK(ctx, dt_checkpoint_save(&saved, path));
    for (int i = 0; i < 2; i++) train_step(m, o);
    TEST_OK(ctx, dt_checkpoint_load(&other, path));
    for (int i = 0; i < 2; i++) train_step(copy, again);
    same_models(m, copy);
    float *y = logits(m);
    ck_assert(gives(copy, y));
    free(y);
    dt_optimizer_free(o);
    dt_optimizer_free(again);
    dt_module_free(m);
    dt_module_free(copy);
}
END_TEST

/* ---- presets and rules ---------------------------------------------------------------------- */

START_TEST(prepared_layers_print_their_settings)
{
    char text[256];
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = model();
    dt_tensor *w = dt_param(m, WEIGHT);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_describe(w, text, sizeof text);
    ck_assert_str_eq(text, "fake_quant(int4 symmetric group 32, enabled) grouped(5 x [40,24]) f32");
    ck_assert(dt_param(m, "model.layers.0.moe.router.weight")->kind == NULL);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_describe(w, text, sizeof text);
    ck_assert_str_eq(text, "packed(int4 symmetric group 32) grouped(5 x [40,24])");
    dt_module_free(m);
}
END_TEST

/* A scale for each channel of each expert, a shift for each input channel, which all experts
 * share. */
START_TEST(learned_scales_are_of_experts)
{
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = model();
    o.preset = DT_INT4_INT4;
    TEST_OK(ctx, dt_prepare(m, &o));
    ck_assert_int_eq(dt_count(dt_param(m, WEIGHT ".scale")), 5 * 40);
    ck_assert_int_eq(dt_count(dt_param(m, EXPERTS ".input.shift")), 24);
    ck_assert_int_eq(dt_count(dt_param(m, EXPERTS ".input.scale")), 1);
    train(m, 2);
    ck_assert_ptr_nonnull(dt_grad(dt_param(m, WEIGHT ".scale")));
    ck_assert_ptr_nonnull(dt_grad(dt_param(m, EXPERTS ".input.shift")));
    dt_module_free(m);
}
END_TEST

START_TEST(a_converted_model_does_not_train)
{
    dt_module *m = model();
    dt_optimizer *o;
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    train_step(m, o);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_FAILS(ctx, DT_ERR_STATE, "packed", dt_optimizer_step(o, t, 0.1));
    dt_tape_reset(t);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

START_TEST(a_frozen_model_is_not_written)
{
    dt_module *m = model();
    dt_optimizer *o;
    TEST_OK(ctx, dt_prepare(m, NULL));
    float *y = logits(m);
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    train_step(m, o);
    dt_zero_grad(m);
    free(y);
    y = logits(m);
    dt_freeze(m);
    TEST_FAILS(ctx, DT_ERR_STATE, "frozen", dt_fill(dt_inner(dt_param(m, WEIGHT)), 0));
    ck_assert(gives(m, y));
    free(y);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* ---- masters -------------------------------------------------------------------------------- */

/* Neither a forward pass nor a file writes dequantized values into masters. */
START_TEST(masters_stay_masters)
{
    dt_module *m = model();
    TEST_OK(ctx, dt_prepare(m, NULL));
    dt_tensor *master = dt_inner(dt_param(m, WEIGHT)), *image;
    const size_t bytes = (size_t)master->count * sizeof(float);
    float *before = malloc(bytes);
    memcpy(before, dt_data(master), bytes);
    TEST_OK(ctx, dt_dequantize(dt_param(m, WEIGHT), &image));
    ck_assert_mem_ne(before, dt_data(image), bytes);
    free(logits(m));
    save(m, DT_GROUPED_STACKED);
    dt_module *copy = loaded(ctx);
    ck_assert_mem_eq(dt_data(dt_inner(dt_param(copy, WEIGHT))), before, bytes);
    ck_assert_mem_eq(dt_data(master), before, bytes);
    dt_module_free(copy);
    dt_tensor_free(image);
    free(before);
    dt_module_free(m);
}
END_TEST

/* Experts of a packed parameter equal separately packed weights. */
START_TEST(one_packed_parameter_holds_all_experts)
{
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = model();
    o.rules[0] = (dt_qat_rule){ .match = "*.moe.w_*", .weight = schemes[5] };
    o.n_rules = 1;
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_tensor *before, *after, *w = dt_param(m, WEIGHT);
    TEST_OK(ctx, dt_dequantize(w, &before));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_dequantize(w, &after));
    ck_assert_mem_eq(dt_data(before), dt_data(after), (size_t)after->count * sizeof(float));
    for (int64_t e = 0; e < options.moe.experts; e++) {
        dt_tensor *expert = dt_grouped_expert(w, e), *values;
        TEST_OK(ctx, dt_dequantize(expert, &values));
        const float *of_all = (const float *)dt_data(after) + e * values->count;
        ck_assert_mem_eq(dt_data(values), of_all, (size_t)values->count * sizeof(float));
        dt_tensor_free(values);
        dt_tensor_free(expert);
    }
    dt_tensor_free(before);
    dt_tensor_free(after);
    dt_module_free(m);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

/* A copy of the saved file; in its detent.quant the first `from` after the weight's name is
 * replaced by `to`. */
static void rewrite(const char *from, const char *to)
{
    dt_file *f;
    dt_writer *w;
    const char *key, *value;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        char *text = malloc(strlen(value) + strlen(to) + 1);
        strcpy(text, value);
        if (strcmp(key, "detent.quant") == 0) {
            char *at = strstr(strstr(text, "\"" EXPERTS "\""), from);
            ck_assert_ptr_nonnull(at);
            sprintf(at, "%s%s", to, value + (at - text) + strlen(from));
        }
        TEST_OK(ctx, dt_writer_meta(w, key, text));
        free(text);
    }
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        TEST_OK(ctx, dt_writer_add_bytes(w, dt_file_at(f, i)));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

#define OVER_SHAPE "\"shape\":[5,40,24],\"experts\":5"

static const struct {
    const char *from, *to, *words;
} lies[] = {
    { "\"experts\":5", "\"experts\":4", "experts 4; it must be the first extent" },
    { "\"experts\":5", "\"experts\":0", "'experts' must be from 1" },
    { "\"experts\":5", "\"experts\":-5", "'experts' must be from 1" },
    { "\"experts\":5", "\"experts\":true", "a number is expected here" },
    { "\"experts\":5", "\"experts\":9223372036854775807", "experts 9223372036854775807" },
    { ",\"experts\":5", "", "its experts are not those of the model's weight" },
    { OVER_SHAPE, "\"shape\":[200,24],\"experts\":200",
      "experts 200; it must be the first extent" },
    { OVER_SHAPE, "\"shape\":[4,50,24],\"experts\":4", "its shape is not that of the model's" },
    { OVER_SHAPE, "\"shape\":[4294967296,4294967296,0],\"experts\":4294967296",
      "its shape is not that of the model's" },
    { "\"experts\":5", "\"transposed_groups\":5,\"experts\":5",
      "experts 5; it must be the first extent" },
    { "\"experts\":5", "\"experts\":5,\"g_idx\":1", "g_idx 1; it must be the number of groups" },
};

START_TEST(an_inconsistent_file_is_refused)
{
    dt_module *m = model(), *copy;
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    save(m, DT_GROUPED_STACKED);
    rewrite(lies[_i].from, lies[_i].to);
    TEST_FAILS(ctx, DT_ERR_FORMAT, lies[_i].words, dt_model_load(ctx, path, &copy, NULL));
    ck_assert_ptr_null(copy);
    dt_module_free(m);
}
END_TEST

START_TEST(files_list_grouped_weights)
{
    dt_module *m = model();
    dt_file *f;
    dt_file_weights *list;
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    save(m, DT_GROUPED_STACKED);
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_file_weights_read(f, &list));
    int found = 0;
    for (int64_t i = 0; i < dt_file_weights_count(list); i++) {
        const dt_file_weight *w = dt_file_weights_at(list, i);
        ck_assert_int_eq(w->experts, strstr(w->name, ".moe.w_") != NULL ? 5 : 0);
        found += w->experts > 0 && w->rank == 3 && w->packed;
    }
    ck_assert_int_eq(found, 6);
    const dt_file_entry *codes = dt_file_find(f, WEIGHT ".codes");
    ck_assert(codes->rank == 2 && codes->dims[0] == 5 * 40 && codes->dims[1] == 12);
    dt_file_weights_free(list);
    dt_file_close(f);
    dt_module_free(m);
}
END_TEST

Suite *test_grouped_nets_suite(void)
{
    Suite *suite = suite_create("grouped_nets");
    TCase *bits = tcase_create("bits"), *rest = tcase_create("rest");
    tcase_set_timeout(bits, 120);
    tcase_add_checked_fixture(bits, setup, teardown);
    tcase_add_checked_fixture(rest, setup, teardown);
    tcase_add_loop_test(bits, prepared_converted_and_loaded_agree, 0, 2 * TEST_PRESETS);
    tcase_add_loop_test(bits, every_scheme_agrees, 0, DT__COUNT_OF(schemes));
    tcase_add_test(bits, mixed_schemes_agree);
    tcase_add_loop_test(bits, training_resumes_with_the_same_bits, 0, 3);
    tcase_add_test(rest, prepared_layers_print_their_settings);
    tcase_add_test(rest, learned_scales_are_of_experts);
    tcase_add_test(rest, a_converted_model_does_not_train);
    tcase_add_test(rest, a_frozen_model_is_not_written);
    tcase_add_test(rest, masters_stay_masters);
    tcase_add_test(rest, one_packed_parameter_holds_all_experts);
    tcase_add_loop_test(rest, an_inconsistent_file_is_refused, 0, DT__COUNT_OF(lies));
    tcase_add_test(rest, files_list_grouped_weights);
    suite_add_tcase(suite, bits);
    suite_add_tcase(suite, rest);
    return suite;
}
