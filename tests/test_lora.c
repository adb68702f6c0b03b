/* Adapters: their gradients and closed forms, what is trained and what is not, quantization of the
 * merged weight, merging, files and refusals. */
#include "models.h"
#include "testing.h"

#include "core/core.h"
#include "io/model/model.h"
#include "nn/module.h"
#include "qat/derived_quant.h"

#include <detent/experimental/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static char path[TEST_PATH];
static const int64_t sizes[] = { 40, 24, 17, 10, 0 };
static const char *const layers[] = { "layers.0", "layers.1", "head" };

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(path);
    test_join(path, path, "model.safetensors");
}

static void teardown(void) { dt_ctx_free(ctx); }

static dt_module *model(void)
{
    const dt_mlp_options o = small_options(sizes, 0, 0);
    return small_model(ctx, &o);
}

static dt_tensor *part(dt_module *m, int layer, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%s.%s", layers[layer], name);
    return dt_param(m, text);
}

static dt_lora_options rank(int64_t n)
{
    dt_lora_options o = dt_lora_defaults();
    o.rank = n;
    o.alpha = 6;
    return o;
}

static void add(dt_module *m, const dt_lora_options *o) { TEST_OK(ctx, dt_lora_add(m, o)); }

/* A loss of this batch, backward, and a step of plain descent. */
static void train(dt_module *m, int steps)
{
    dt_tape *t;
    dt_optimizer *o;
    dt_tensor *x, *labels;
    const dt_optimizer_options options = { .name = DT_SGD, .lr = 0.5 };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 16, 40 }, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 1, (const int64_t[]){ 16 }, &labels));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    int32_t *label = dt_data_mut(labels);
    for (int i = 0; i < 16; i++) label[i] = i % 10;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    for (int i = 0; i < steps; i++) {
        dt_tape_reset(t);
        dt_zero_grad(m);
        dt_backward(t, dt_cross_entropy(t, dt_forward(t, m, x), labels, NULL), NULL);
        TEST_OK(ctx, dt_optimizer_step(o, t, 0.5));
    }
    dt_optimizer_free(o);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(labels);
}

static bool same(float *a, float *b)
{
    const bool equal = memcmp(a, b, 7 * 10 * sizeof(float)) == 0;
    free(b);
    return equal;
}

static float *outputs(dt_module *m) { return outputs_of(m, 7, 40); }

/* ---- gradients ------------------------------------------------------------------------------ */

static dt_tensor *load(const dt_file *f, const char *c, const char *name, dt_dtype dtype)
{
    char text[128];
    dt_tensor *x;
    snprintf(text, sizeof text, "%s.%s", c, name);
    TEST_OK(ctx, dt_file_load(f, text, dtype, &x));
    return x;
}

static void compare(const dt_file *f, const char *c, const char *name, const dt_tensor *got)
{
    dt_tensor *want = load(f, c, name, DT_F64);
    const double *b = dt_data(want);
    ck_assert_int_eq(dt_count(got), dt_count(want));
    for (int64_t i = 0; i < dt_count(want); i++) {
        const bool real = dt_dtype_of(got) == DT_F64;
        const double a =
            real ? ((const double *)dt_data(got))[i] : (double)((const float *)dt_data(got))[i];
        TEST_EACH(test_near(a, b[i], real ? 1e-12 : 1e-6, real ? 1e-10 : 1e-4),
                  "%s.%s[%d]: %.9g, %.9g", c, name, (int)i, a, b[i]);
    }
    dt_tensor_free(want);
}

/* y = x (W + alpha / rank B A)^T, and the gradients of all four. */
static void run_golden(const dt_file *f, const char *c, dt_dtype dtype)
{
    static const char *const names[] = { "x", "weight", "lora_a", "lora_b" };
    char key[64];
    dt_tensor *in[4], *up = load(f, c, "up.y", dtype);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "in.%s", names[i]);
        in[i] = load(f, c, key, dtype);
        TEST_OK(ctx, dt_set_requires_grad(in[i], true));
    }
    snprintf(key, sizeof key, "%s.alpha", c);
    const double alpha = strtod(dt_file_meta(f, key), NULL);
    dt_tensor *y = dt_linear(t, in[0], dt_lora(t, in[1], in[2], in[3], alpha), NULL);
    TEST_OK(ctx, dt_tape_status(t));
    compare(f, c, "out.y", y);
    TEST_OK(ctx, dt_backward(t, y, up));
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "grad.%s", names[i]);
        compare(f, c, key, dt_grad(in[i]));
        dt_tensor_free(in[i]);
    }
    dt_tensor_free(up);
    dt_tape_free(t);
}

START_TEST(reference_values)
{
    dt_file *f;
    if (!test_golden(path, "ops/lora_linear.safetensors")) return;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    test_names cases;
    test_list(dt_file_meta(f, "cases"), &cases);
    ck_assert_int_gt(cases.n, 0);
    for (int i = 0; i < cases.n; i++) {
        run_golden(f, cases.name[i], DT_F32);
        run_golden(f, cases.name[i], DT_F64);
    }
    dt_file_close(f);
}
END_TEST

/* ---- which parameters exist, and which are trained ------------------------------------------ */

START_TEST(begins_as_the_model_was)
{
    dt_module *m = model();
    float *before = outputs(m);
    const int64_t all = dt_param_count(m);
    const dt_lora_options o = rank(4);
    add(m, &o);
    ck_assert(dt_has_lora(m));
    ck_assert(same(before, outputs(m)));
    free(before);
    ck_assert_int_eq(dt_trained_count(m), 4 * (40 + 24) + 4 * (24 + 17));
    ck_assert_int_eq(dt_param_count(m), all + dt_trained_count(m));
    ck_assert_ptr_null(part(m, 2, "lora_a")); /* the head has none unless it is named */
    const float *a = dt_data(part(m, 0, "lora_a")), *b = dt_data(part(m, 0, "lora_b"));
    double most = 0;
    for (int i = 0; i < 160; i++) most = fmax(most, fabs((double)a[i]));
    ck_assert(most <= 1 / sqrt(40) && most > 0.9 / sqrt(40));
    for (int i = 0; i < 96; i++) TEST_EACH(b[i] == 0, "lora_b[%d] is %g", i, (double)b[i]);
    dt_module_free(m);
}
END_TEST

typedef struct noted {
    int slots, others;
} noted;

static dt_status note_slot(void *user, const char *slot, const char *of, dt_tensor *x)
{
    noted *n = user;
    (void)slot;
    (void)x;
    n->slots++;
    n->others += strstr(of, "lora_") == NULL;
    return DT_OK;
}

START_TEST(only_adapters_are_trained)
{
    dt_module *m = model();
    dt_optimizer *o;
    noted n = { 0, 0 };
    const dt_lora_options options = rank(2);
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    const size_t before = dt_memory_of(ctx).used;
    add(m, &options);
    TEST_OK(ctx, dt_optimizer_visit(o, note_slot, &n));
    ck_assert_int_eq(n.slots, 3 * 4); /* two moments and a step for two parameters of two layers */
    ck_assert_int_eq(n.others, 0);
    ck_assert(dt_memory_of(ctx).used < before); /* moments of the rest went */
    dt_optimizer_free(o);
    dt_module *copy = model();
    TEST_OK(ctx, dt_module_load(copy,
                                (const dt_named[]){ { "layers.0.weight", part(m, 0, "weight") },
                                                    { "layers.0.bias", part(m, 0, "bias") },
                                                    { "layers.1.weight", part(m, 1, "weight") },
                                                    { "layers.1.bias", part(m, 1, "bias") },
                                                    { "head.weight", part(m, 2, "weight") },
                                                    { "head.bias", part(m, 2, "bias") } },
                                6));
    train(m, 3);
    for (int i = 0; i < 3; i++) {
        const dt_tensor *w = part(m, i, "weight"), *b = part(m, i, "bias");
        ck_assert_mem_eq(dt_data(w), dt_data(part(copy, i, "weight")), (size_t)w->count * 4);
        ck_assert_mem_eq(dt_data(b), dt_data(part(copy, i, "bias")), (size_t)b->count * 4);
    }
    ck_assert_double_ne((double)*(const float *)dt_data(part(m, 0, "lora_b")), 0);
    dt_module_free(copy);
    dt_module_free(m);
}
END_TEST

START_TEST(the_rest_may_be_trained)
{
    dt_module *m = model();
    dt_lora_options o = rank(3);
    o.train_rest = true;
    o.match = (dt_strings){ 1, { "layers.1" } };
    add(m, &o);
    ck_assert(!dt_requires_grad(part(m, 1, "weight")));
    ck_assert(dt_requires_grad(part(m, 1, "bias")));
    ck_assert(dt_requires_grad(part(m, 0, "weight")));
    ck_assert(dt_requires_grad(part(m, 2, "weight")));
    ck_assert_int_eq(dt_trained_count(m), dt_param_count(m) - 24 * 17);
    TEST_OK(ctx, dt_lora_merge(m));
    ck_assert_int_eq(dt_trained_count(m), dt_param_count(m));
    dt_module_free(m);
}
END_TEST

/* ---- merging -------------------------------------------------------------------------------- */

/* |W' - (W + s B A)| <= (rank + 2) u (|W| + s |B| |A|), u = 2^-24: each product and each sum is
 * rounded once. */
START_TEST(merging_is_the_formula_within_rounding)
{
    dt_module *m = model(), *copy = model();
    const dt_lora_options o = rank(4);
    add(m, &o);
    train(m, 4);
    add(copy, &o);
    TEST_OK(ctx, dt_module_copy_state(copy, m));
    float *before = outputs(m);
    TEST_OK(ctx, dt_lora_merge(m));
    ck_assert(same(before, outputs(m)));
    free(before);
    ck_assert(!dt_has_lora(m));
    ck_assert_int_eq(dt_trained_count(m), dt_param_count(m));
    const float *a = dt_data(part(copy, 0, "lora_a")), *b = dt_data(part(copy, 0, "lora_b"));
    const float *w = dt_data(part(copy, 0, "weight")), *merged = dt_data(part(m, 0, "weight"));
    for (int i = 0; i < 24 * 40; i++) {
        double y = (double)w[i], most = fabs(y);
        for (int k = 0; k < 4; k++) {
            const double p = 6.0 / 4 * (double)b[i / 40 * 4 + k] * (double)a[k * 40 + i % 40];
            y += p;
            most += fabs(p);
        }
        TEST_EACH(fabs((double)merged[i] - y) <= 6 * 0x1p-24 * most, "weight %d: %.9g, not %.9g", i,
                  (double)merged[i], y);
    }
    TEST_FAILS(ctx, DT_ERR_STATE, "no adapter", dt_lora_merge(m));
    dt_module_free(m);
    dt_module_free(copy);
}
END_TEST

/* ---- quantization --------------------------------------------------------------------------- */

static dt_module *loaded(dt_module *m)
{
    const dt_mlp_options o = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&o);
    dt_module *copy;
    TEST_OK(ctx, dt_model_save(m, &info, path));
    const dt__stream stream = ctx->stream[DT__FOR_INIT];
    TEST_OK(ctx, dt_model_load(ctx, path, &copy, NULL));
    ck_assert_mem_eq(&stream, &ctx->stream[DT__FOR_INIT], sizeof stream);
    if (!dt_is_converted(m)) ck_assert_int_eq(dt_trained_count(copy), dt_trained_count(m));
    same_models(m, copy);
    return copy;
}

static void assert_loaded(dt_module *m, float *y)
{
    dt_module *copy = loaded(m);
    ck_assert(same(y, outputs(copy)));
    dt_module_free(copy);
}

/* Adapters on layers 0 and head, before or after prepare; then trained, kept, merged and
 * converted. */
static void compare_everywhere(const dt_qat_options *qat, bool adapters_first)
{
    dt_module *m = model(), *merged;
    dt_lora_options o = rank(4);
    o.match = (dt_strings){ 2, { "layers.0", "head" } };
    train(m, 1);
    if (adapters_first) add(m, &o);
    TEST_OK(ctx, dt_prepare(m, qat));
    if (!adapters_first) train(m, 1);
    if (!adapters_first) add(m, &o);
    ck_assert(dt_is_prepared(m) && dt_has_lora(m));
    train(m, 3);
    float *y = outputs(m);
    assert_loaded(m, y);
    merged = loaded(m);
    TEST_OK(ctx, dt_lora_merge(merged));
    ck_assert(dt_is_prepared(merged));
    assert_loaded(merged, y);
    TEST_OK(ctx, dt_convert(merged, NULL, NULL));
    ck_assert(same(y, outputs(merged)));
    dt_convert_report report;
    TEST_OK(ctx, dt_convert(m, NULL, &report));
    ck_assert_int_eq(report.folded, 0);
    ck_assert(!dt_is_prepared(m) && dt_is_converted(m) && !dt_has_lora(m));
    ck_assert(same(y, outputs(m)));
    same_models(m, merged);
    assert_loaded(m, y);
    free(y);
    dt_module_free(merged);
    dt_module_free(m);
}

START_TEST(prepared_converted_merged_and_loaded_agree)
{
    dt_qat_options o = dt_qat_defaults();
    for (o.preset = DT_INT8_DYNAMIC_INT4_WEIGHT; o.preset < TEST_PRESETS; o.preset++) {
        compare_everywhere(&o, true);
        compare_everywhere(&o, false);
    }
    o = dt_qat_defaults(); /* an adapter on a layer that stays float */
    o.rules[0] = (dt_qat_rule){ .match = "head", .skip = true, .has_skip = true };
    o.n_rules = 1;
    compare_everywhere(&o, true);
    compare_everywhere(&o, false);
    o = dt_qat_defaults(); /* static scales and zero points */
    o.weight.quant = (dt_quant_spec){ .scheme = DT_SCHEME_ASYMMETRIC, .range = DT_RANGE_STATIC };
    o.weight.has_scheme = o.weight.has_range = true;
    compare_everywhere(&o, true);
    compare_everywhere(&o, false);
}
END_TEST

/* Codes are those of W + s B A, not of W. */
START_TEST(the_merged_weight_is_quantized)
{
    dt_module *m = model();
    const dt_lora_options o = rank(4);
    add(m, &o);
    train(m, 2);
    TEST_OK(ctx, dt_prepare(m, NULL));
    dt_module *plain = loaded(m);
    TEST_OK(ctx, dt_lora_merge(plain));
    dt_tensor *want, *got;
    TEST_OK(ctx, dt_dequantize(part(plain, 0, "weight"), &want));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_dequantize(part(m, 0, "weight"), &got));
    ck_assert_mem_eq(dt_data(got), dt_data(want), (size_t)got->count * 4);
    dt_tensor_free(got);
    dt_tensor_free(want);
    dt_module_free(plain);
    dt_module_free(m);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

static void refused(dt_module *m, const dt_lora_options *o, dt_status status, const char *says)
{
    const uint64_t before = dt__module_changes(m);
    const int64_t trained = dt_trained_count(m);
    TEST_FAILS(ctx, status, says, dt_lora_add(m, o));
    ck_assert_uint_eq(before, dt__module_changes(m));
    ck_assert_int_eq(trained, dt_trained_count(m));
}

START_TEST(mistakes_are_named_and_change_nothing)
{
    dt_module *m = model();
    dt_lora_options o = rank(0);
    refused(m, &o, DT_ERR_CONFIG, "rank 0");
    o = rank(18);
    refused(m, &o, DT_ERR_CONFIG, "rank 18 is above the shorter side of layers.1");
    o = rank(2);
    o.alpha = -1;
    refused(m, &o, DT_ERR_CONFIG, "alpha -1");
    o = rank(2);
    o.match = (dt_strings){ 2, { "layers.0", "layer.1" } };
    refused(m, &o, DT_ERR_CONFIG, "'layer.1' selects no linear layer");
    o = rank(2);
    add(m, &o);
    refused(m, &o, DT_ERR_STATE, "layers.0 has an adapter already");
    TEST_FAILS(ctx, DT_ERR_ARG, "adapter", dt_module_tie(m, "layers.0.weight", "layers.1.weight"));
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    add(m, &o); /* beside packed weights: test_packed_lora.c */
    dt_module_free(m);
    m = model();
    dt_freeze(m);
    refused(m, &o, DT_ERR_STATE, "frozen");
    dt_module_free(m);
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    refused(m, &o, DT_ERR_CONFIG, "no linear layer");
    dt_module_free(m);
}
END_TEST

START_TEST(shared_weights_have_none)
{
    const int64_t equal[] = { 12, 12, 12, 12, 0 };
    const dt_mlp_options options = small_options(equal, 0, 0);
    dt_module *m = small_model(ctx, &options);
    TEST_OK(ctx, dt_module_tie(m, "head.weight", "layers.1.weight"));
    dt_lora_options o = rank(2);
    refused(m, &o, DT_ERR_CONFIG, "'layers.1.weight' and 'head.weight' share a weight");
    o.match = (dt_strings){ 1, { "layers.0" } };
    add(m, &o);
    dt_module_free(m);
}
END_TEST

/* A copy of the file with another detent.lora; NULL: without. */
static void rewrite(const char *text)
{
    dt_file *f;
    dt_writer *w;
    const char *key, *value;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        if (strcmp(key, "detent.lora") != 0) TEST_OK(ctx, dt_writer_meta(w, key, value));
    }
    if (text != NULL) TEST_OK(ctx, dt_writer_meta(w, "detent.lora", text));
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        TEST_OK(ctx, dt_writer_add_bytes(w, dt_file_at(f, i)));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

START_TEST(bad_files_are_refused_and_change_nothing)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { NULL, "not of this model (layers.0.lora_a" },
        { "{}", "a string is expected here" },
        { "{\"layers\":{},\"train_rest\":false}", "it must be 'train_rest'" },
        { "{\"train_rest\":false,\"layers\":{\"layers.9\":{\"rank\":2,\"alpha\":6}}}",
          "no such module" },
        { "{\"train_rest\":false,\"layers\":{\"\":{\"rank\":2,\"alpha\":6}}}",
          "not a linear layer" },
        { "{\"train_rest\":false,\"layers\":{\"layers.0\":{\"rank\":25,\"alpha\":6}}}",
          "above the shorter side" },
        { "{\"train_rest\":false,\"layers\":{\"layers.0\":{\"rank\":0,\"alpha\":6}}}", "rank" },
        { "{\"train_rest\":false,\"layers\":{\"layers.0\":{\"rank\":3,\"alpha\":6}}}",
          "layers.0.lora_a is F32[2,40], not [3,40]" },
        { "{\"train_rest\":false,\"layers\":{\"layers.0\":{\"rank\":2,\"alpha\":6}}} x", "" },
    };
    dt_module *m = model(), *other = model();
    dt_lora_options o = rank(2);
    add(m, &o);
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        const int64_t trained = dt_trained_count(other);
        dt_file *f;
        dt_module_free(loaded(m));
        rewrite(bad[i].text);
        TEST_OK(ctx, dt_file_open(ctx, path, &f));
        const dt__restoring r = { .file = f, .m = other, .quantized = true };
        TEST_FAILS(ctx, DT_ERR_FORMAT, bad[i].says, dt__restore(&r));
        ck_assert(!dt_has_lora(other));
        ck_assert_int_eq(trained, dt_trained_count(other));
        dt_file_close(f);
    }
    dt_module_free(loaded(m));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "merge it first", dt_model_load_weights(other, path));
    dt_module_free(m);
    dt_module_free(other);
}
END_TEST

static dt_status whole_life(dt_ctx *c, void *user)
{
    const dt_mlp_options options = small_options(sizes, 0, 0);
    const dt_lora_options o = rank(2);
    dt_module *m = NULL;
    (void)user;
    DT__TRY(dt_mlp_create(c, &options, &m));
    dt_status s = dt_lora_add(m, &o);
    if (s == DT_OK) s = dt_prepare(m, NULL);
    if (s == DT_OK) s = dt_lora_merge(m);
    if (s == DT_OK) s = dt_lora_add(m, &o);
    if (s == DT_OK) s = dt_convert(m, NULL, NULL);
    dt_module_free(m);
    return s;
}

START_TEST(memory_that_fails_leaves_nothing) { test_every_allocation(whole_life, NULL); }
END_TEST

Suite *test_lora_suite(void)
{
    Suite *s = suite_create("lora");
    TCase *c = tcase_create("lora");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, reference_values);
    tcase_add_test(c, begins_as_the_model_was);
    tcase_add_test(c, only_adapters_are_trained);
    tcase_add_test(c, the_rest_may_be_trained);
    tcase_add_test(c, merging_is_the_formula_within_rounding);
    tcase_add_test(c, prepared_converted_merged_and_loaded_agree);
    tcase_add_test(c, the_merged_weight_is_quantized);
    tcase_add_test(c, mistakes_are_named_and_change_nothing);
    tcase_add_test(c, shared_weights_have_none);
    tcase_add_test(c, bad_files_are_refused_and_change_nothing);
    tcase_add_test(c, memory_that_fails_leaves_nothing);
    suite_add_tcase(s, c);
    return s;
}
