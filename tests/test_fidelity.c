/* The central promise: a prepared model in evaluation, the converted model, and the converted model
 * saved and loaded give the same bits. Random networks: depth, odd sizes, batches of 1 to 300,
 * norms, activations, bias or none, presets, rules, groups that do not divide rows, bits, scale
 * dtypes, before and after a training step. 1000 networks, 100 under a sanitizer;
 * DETENT_NETWORKS overrides the number, DETENT_SEED sets the first seed. */
#include "schemes.h"
#include "testing.h"

#include "core/core.h"

#include <detent/io.h>
#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 1000, .quick = 300, .sanitized = 50 };
#define DEEPEST 4

/* The drawn settings, for the message of a failure. */
typedef struct drawn {
    uint64_t seed;
    int64_t batch, sizes[DEEPEST + 1];
    int layers;
    dt_mlp_options mlp;
    dt_qat_options qat;
    bool step; /* a training step between prepare and evaluation */
    double multiply_adds;
} drawn;

static int64_t pick(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

static bool chance(dt__stream *s, double p) { return dt__random_unit(s) < p; }

static void draw_weight(dt__stream *s, dt_quant_patch *w)
{
    static const int64_t groups[] = { 8, 32, 64, 128, 1 << 20 };
    *w = (dt_quant_patch){ 0 };
    w->quant.group_size = groups[pick(s, 0, 4)];
    w->has_group_size = true;
    w->quant.bits = pick(s, 2, 8);
    w->has_bits = chance(s, 0.3);
    if (chance(s, 0.3)) {
        w->quant.scale_dtype = (int)pick(s, DT_SCALE_F32, DT_SCALE_BF16);
        w->has_scale_dtype = true;
    }
    if (chance(s, 0.2)) {
        w->quant.granularity = (int)pick(s, DT_PER_TENSOR, DT_PER_GROUP);
        w->has_granularity = true;
    }
    if (chance(s, 0.3)) {
        patch_scheme(w, (int)pick(s, 0, 2 * DT__SCHEMES));
    }
    if (chance(s, 0.08)) patch_blocks(w, (int)pick(s, 0, DT__SCHEMES));
    w->has_scheme = true; /* else symmetric, which has any bits and groups */
    if (dt__scheme_of(w->quant.scheme)->bits == 0) w->has_bits = true;
    if (chance(s, 0.2)) {
        w->quant.ste = DT_STE_CLIPPED;
        w->has_ste = true;
    }
}

/* Inputs in blocks of small floats, with whose codes those of the weights are multiplied, or the
 * values where either are floats. */
static void draw_blocks(dt__stream *s, dt_qat_options *o)
{
    if (chance(s, 0.5)) {
        o->preset = (int)pick(s, DT_NVFP4_NVFP4, DT_MXFP8_MXFP4);
        o->weight = (dt_quant_patch){ 0 };
    } else {
        patch_blocks(&o->activation, (int)pick(s, 0, DT__SCHEMES));
        o->weight = o->activation;
    }
    o->rules[0].activation = (dt_quant_patch){ .has_quantize = true }; /* its groups differ */
}

static drawn draw(uint64_t seed)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    drawn d = { .seed = seed, .layers = (int)pick(&s, 1, DEEPEST), .batch = pick(&s, 1, 300) };
    /* chosen so that the mean of batch * sum(in * out) is about three million */
    for (int i = 0; i <= d.layers; i++) d.sizes[i] = pick(&s, 1, chance(&s, 0.25) ? 270 : 130);
    d.mlp = (dt_mlp_options){ .activation = (int)pick(&s, 0, 4),
                              .norm = (int)pick(&s, 0, 2),
                              .bias = chance(&s, 0.5),
                              .momentum = 0.1,
                              .eps = 1e-5,
                              .dropout = chance(&s, 0.3) ? 0.2 : 0 };
    d.mlp.sizes.n = d.layers + 1;
    for (int i = 0; i <= d.layers; i++) d.mlp.sizes.v[i] = d.sizes[i];
    for (int i = 0; i < d.layers; i++) {
        d.multiply_adds += (double)d.batch * (double)d.sizes[i] * (double)d.sizes[i + 1];
    }
    d.qat = dt_qat_defaults();
    d.qat.preset = (int)pick(&s, DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT8_DYNAMIC_INT8_WEIGHT);
    d.qat.forward = chance(&s, 0.15) ? DT_FORWARD_SIMULATED : DT_FORWARD_INTEGER;
    if (chance(&s, 0.8)) draw_weight(&s, &d.qat.weight);
    if (chance(&s, 0.3)) {
        d.qat.rules[0].match = "head";
        draw_weight(&s, &d.qat.rules[0].weight);
        d.qat.n_rules = 1;
    }
    if (chance(&s, 0.15)) draw_blocks(&s, &d.qat);
    d.step = d.batch > 1 && chance(&s, 0.3);
    return d;
}

static dt_tensor *new_input(dt_ctx *ctx, const drawn *d)
{
    dt_tensor *x;
    const int64_t dims[2] = { d->batch, d->sizes[0] };
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, dims, &x), DT_OK);
    ck_assert_int_eq(dt_fill_normal(x, 0.1, 1), DT_OK);
    return x;
}

static void train_once(dt_tape *t, dt_module *m, dt_tensor *x)
{
    dt_optimizer *o;
    ck_assert_int_eq(dt_optimizer_create(m, NULL, &o), DT_OK);
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    dt_tensor *loss = dt_mean(t, dt_mul(t, y, y), NULL);
    ck_assert_msg(dt_backward(t, loss, NULL) == DT_OK, "%s", dt_error(dt_tape_ctx(t)));
    ck_assert_int_eq(dt_optimizer_step(o, t, 0.01), DT_OK);
    dt_zero_grad(m);
    dt_tape_reset(t);
    dt_optimizer_free(o);
}

static void observe(dt_tape *t, dt_module *m, dt_tensor *x)
{
    ck_assert_int_eq(dt_observe(m, true), DT_OK);
    dt_train(m, false);
    dt_no_grad(t, true);
    ck_assert_msg(dt_forward(t, m, x) != NULL, "%s", dt_error(dt_tape_ctx(t)));
    ck_assert_int_eq(dt_observe(m, false), DT_OK);
    dt_tape_reset(t);
}

/* The output in evaluation mode, a copy. */
static float *outputs(dt_ctx *ctx, dt_module *m, dt_tensor *x, int64_t *n)
{
    dt_tape *t;
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
    dt_train(m, false);
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    *n = dt_count(y);
    float *copy = malloc((size_t)*n * sizeof(float) + 1);
    memcpy(copy, dt_data(y), (size_t)*n * sizeof(float));
    dt_tape_free(t);
    return copy;
}

static void compare(const drawn *d, const float *a, const float *b, int64_t n, const char *what)
{
    if (memcmp(a, b, (size_t)n * sizeof a[0]) == 0) return;
    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(memcmp(&a[i], &b[i], sizeof a[i]) == 0,
                      "network %llu: %s: output %lld is %.9g, prepared %.9g",
                      (unsigned long long)d->seed, what, (long long)i, (double)b[i], (double)a[i]);
    }
}

/* Saves m, loads it in a context with another number of threads, and compares. */
static void check_file(const drawn *d, dt_module *m, const float *want, const dt_tensor *x)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    const dt_model_info info = { .family = dt_family_at(0), .options = &d->mlp };
    ck_assert_msg(dt_model_save(m, &info, path) == DT_OK, "network %llu: %s",
                  (unsigned long long)d->seed, dt_error(dt_module_ctx(m)));
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 3;
    dt_ctx *ctx;
    dt_module *loaded;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    ck_assert_msg(dt_model_load(ctx, path, &loaded, NULL) == DT_OK, "network %llu: %s",
                  (unsigned long long)d->seed, dt_error(ctx));
    ck_assert(dt_is_converted(loaded));
    dt_tensor *input;
    ck_assert_int_eq(
        dt_tensor_from(ctx, DT_F32, 2, (int64_t[]){ d->batch, d->sizes[0] }, dt_data(x), &input),
        DT_OK);
    int64_t n;
    float *got = outputs(ctx, loaded, input, &n);
    compare(d, want, got, n, "loaded");
    free(got);
    dt_tensor_free(input);
    dt_module_free(loaded);
    dt_ctx_free(ctx);
    remove(path);
}

static double check_network(uint64_t seed)
{
    const drawn d = draw(seed);
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = seed;
    options.threads = 2;
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
    ck_assert_msg(dt_mlp_create(ctx, &d.mlp, &m) == DT_OK, "%s", dt_error(ctx));
    ck_assert_msg(dt_prepare(m, &d.qat) == DT_OK, "network %llu: %s", (unsigned long long)seed,
                  dt_error(ctx));
    dt_tensor *x = new_input(ctx, &d);
    if (d.step) train_once(t, m, x);
    if (dt_is_observed(m)) observe(t, m, x);
    int64_t n;
    float *prepared = outputs(ctx, m, x, &n);
    ck_assert_msg(dt_convert(m, NULL, NULL) == DT_OK, "%s", dt_error(ctx));
    float *converted = outputs(ctx, m, x, &n);
    compare(&d, prepared, converted, n, "converted");
    check_file(&d, m, prepared, x);
    free(prepared);
    free(converted);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
    return d.multiply_adds;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

START_TEST(prepared_converted_and_loaded_are_equal)
{
    const uint64_t first = number_from("DETENT_SEED", 1);
    const uint64_t count = (uint64_t)test_networks(draws);
    double multiply_adds = 0;
    for (uint64_t i = 0; i < count; i++) multiply_adds += check_network(first + i);
    fprintf(stderr, "fidelity: %llu networks, %.2f million multiply-adds each, equal bits\n",
            (unsigned long long)count, multiply_adds / 1e6 / (double)count);
}
END_TEST

Suite *test_fidelity_suite(void)
{
    Suite *s = suite_create("fidelity");
    TCase *c = tcase_create("networks");
    tcase_set_timeout(c, 900);
    tcase_add_test(c, prepared_converted_and_loaded_are_equal);
    suite_add_tcase(s, c);
    return s;
}
