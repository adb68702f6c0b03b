/* Rotated language models: matrices are orthogonal; random Llamas keep their function, with drawn
 * and with learned matrices; outliers of the residual stream go; learned matrices have the same
 * bits on any number of threads. */
#include "random_nets.h"
#include "testing.h"

#include "kernels/products/blas_library.h"
#include "nn/families/family.h"
#include "nn/module.h"
#include "ptq/rotate/rotate_learn.h"
#include "ptq/rotate/rotation.h"

#include <detent/experimental/ptq.h>

#include <math.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 120, .quick = 60, .sanitized = 12 };

static dt_ctx *context_of(uint64_t seed, int threads)
{
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *ctx;
    options.seed = seed;
    options.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt__blas_load(ctx));
    return ctx;
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* The largest element of r r^T - I. */
static double residual(int64_t n, const double *r)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = i == j ? -1 : 0;
            for (int64_t k = 0; k < n; k++) sum += r[i * n + k] * r[j * n + k];
            most = fmax(most, fabs(sum));
        }
    }
    return most;
}

START_TEST(test_rotations_are_orthogonal_and_spread_every_channel)
{
    for (int64_t n = 1; n <= 130; n += 1 + n / 8) {
        dt__stream s = dt__stream_of((uint64_t)n, DT__FOR_USER);
        double *r = malloc((size_t)(n * n) * sizeof *r);
        dt__rotation_draw(n, &s, r);
        ck_assert_double_lt(residual(n, r), 1e-12);
        const double most = sqrt(((n & (n - 1)) == 0 ? 1.0 : 2.0) / (double)n);
        for (int64_t i = 0; i < n * n; i++) ck_assert_double_le(fabs(r[i]), most + 1e-12);
        free(r);
    }
}
END_TEST

/* Rows with large values in two channels. */
static double *rows_with_outliers(int64_t rows, int64_t n)
{
    dt__stream s = dt__stream_of((uint64_t)n, DT__FOR_USER);
    double *x = malloc((size_t)(rows * n) * sizeof *x);
    for (int64_t i = 0; i < rows * n; i++) {
        const bool large = i % n == n / 2 || i % n == n / 3;
        x[i] = (dt__random_unit(&s) - 0.5) * (large ? 20 : 1);
    }
    return x;
}

START_TEST(test_learning_lowers_the_fourth_power_with_the_same_bits_on_any_threads)
{
    for (int64_t n = 3; n <= 60; n += 19) {
        double *first = NULL, *x = rows_with_outliers(97, n);
        for (int threads = 1; threads <= 3; threads += 2) {
            dt_ctx *ctx = context_of(1, threads);
            dt__stream s = dt__stream_of(7, DT__FOR_USER);
            double before = 0, after = 0, *r = malloc((size_t)(n * n) * sizeof *r);
            dt__rotation_draw(n, &s, r);
            dt__team *const team = dt__threads_enter(ctx);
            TEST_OK(ctx, dt__rotation_learn(ctx, 97, n, x, r, &before, &after));
            dt__threads_leave(team);
            ck_assert_double_lt(after, 0.98 * before);
            ck_assert_double_lt(residual(n, r), 1e-11);
            if (first == NULL) first = r;
            else {
                ck_assert_mem_eq(first, r, (size_t)(n * n) * sizeof *r);
                free(r);
            }
            dt_ctx_free(ctx);
        }
        free(first);
        free(x);
    }
}
END_TEST

/* ---- models --------------------------------------------------------------------------------- */

/* Draws gains and biases, which begin with 1 and 0. */
static void draw_vectors(dt_module *m)
{
    DT__EACH_ENTRY(each, e, m) {
        if (e->x->rank != 1) continue;
        TEST_OK(m->ctx, dt_fill_uniform(e->x, -1, 2));
    }
}

static dt_status fetch(void *user, int64_t i, dt_tensor **x)
{
    (void)i;
    *x = user;
    return DT_OK;
}

/* The logits of ids x, to be freed. */
static float *logits_of(dt_module *m, dt_tensor *x, int64_t *n)
{
    dt_tape *t;
    TEST_OK(m->ctx, dt_tape_create(m->ctx, &t));
    dt_train(m, false);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(m->ctx, dt_tape_status(t));
    *n = y->count;
    float *values = malloc((size_t)*n * sizeof *values);
    memcpy(values, dt_data(y), (size_t)*n * sizeof *values);
    dt_tape_free(t);
    return values;
}

static void same_function(uint64_t seed, dt_module *from, dt_module *m, dt_tensor *x)
{
    int64_t n, other;
    float *a = logits_of(from, x, &n), *b = logits_of(m, x, &other);
    double most = 0, error = 0;
    ck_assert_int_eq(n, other);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i]));
        error = fmax(error, fabs((double)a[i] - (double)b[i]));
    }
    if (error > 2e-4 * most + 1e-6) {
        ck_abort_msg("seed %llu: logits differ by %g of %g", (unsigned long long)seed, error, most);
    }
    free(a);
    free(b);
}

/* Experts that a rounding may choose otherwise. */
static bool has_choices(const random_net *d)
{
    const dt_moe_options *moe = &d->options.llama.moe;
    return moe->given && moe->top_k < moe->experts;
}

static void check_net(uint64_t seed, bool learns)
{
    random_net d = random_net_of_family(seed, "llama");
    if (has_choices(&d)) d.options.llama.moe.top_k = d.options.llama.moe.experts;
    dt_ctx *ctx = context_of(seed, 1 + (int)(seed % 2));
    dt_module *from = random_net_create(ctx, &d), *m = NULL;
    dt_llama_options rotated;
    dt_tensor *x = random_net_input(ctx, &d);
    const dt_calibration data = { 3, fetch, x };
    const bool free = !d.options.llama.moe.given && dt__llama_block(&d.options.llama).hadamard == 0;
    const dt_rotate_options how = {
        .seed = seed,
        .data = learns ? &data : NULL,
        .hadamard = free && seed % 3 > 0 ? d.options.llama.hidden & -d.options.llama.hidden : 0
    };
    draw_vectors(from);
    const dt_status s = dt_rotate(from, &d.options.llama, &how, &m, &rotated);
    if (d.options.llama.block.given && d.options.llama.block.norms != DT_BLOCK_NORMS_BEFORE) {
        ck_assert_int_eq(s, DT_ERR_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "block.norms"));
        ck_assert_ptr_null(m);
    } else {
        TEST_OK(ctx, s);
        ck_assert(!rotated.tied);
        if (how.hadamard > 0) ck_assert_int_eq(rotated.block.hadamard, how.hadamard);
        same_function(seed, from, m, x);
    }
    dt_module_free(m);
    dt_module_free(from);
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}

START_TEST(test_random_llamas_keep_their_function)
{
    const uint64_t n = (uint64_t)test_networks(draws);
    for (uint64_t seed = 0; seed < n; seed++) check_net(seed, false);
}
END_TEST

START_TEST(test_so_do_those_whose_matrices_are_learned)
{
    const uint64_t n = (uint64_t)test_networks(draws) / 4;
    for (uint64_t seed = 1000; seed < 1000 + n; seed++) check_net(seed, true);
}
END_TEST

/* ---- outliers ------------------------------------------------------------------------------- */

static const dt_llama_options small = { .vocab = 40,
                                        .context = 32,
                                        .layers = 2,
                                        .heads = 4,
                                        .width = 48,
                                        .hidden = 64,
                                        .tied = true,
                                        .theta = 10000,
                                        .eps = 1e-5,
                                        .rope = { .factor = 1, .original_context = 8192 } };

/* The relative error of the logits with 4-bit weights and activations. */
static double error_of(dt_module *m, dt_tensor *x)
{
    int64_t n;
    dt_qat_options qat = dt_qat_defaults();
    qat.activation = (dt_quant_patch){ .quant = { .bits = 4 }, .has_bits = true };
    float *exact = logits_of(m, x, &n);
    TEST_OK(m->ctx, dt_prepare(m, &qat));
    float *rounded = logits_of(m, x, &n);
    double error = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = (double)rounded[i] - (double)exact[i];
        error += e * e;
        sum += (double)exact[i] * (double)exact[i];
    }
    free(exact);
    free(rounded);
    return sqrt(error / sum);
}

START_TEST(test_a_channel_of_large_values_costs_less)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        const random_net d = { .seed = seed, .batch = 4, .vocab = 40, .tokens = 32 };
        dt_ctx *ctx = context_of(seed, 2);
        dt_module *from, *m;
        dt_llama_options rotated;
        TEST_OK(ctx, dt_llama_create(ctx, &small, &from));
        float *tokens = dt_data_mut(dt_param(from, "model.embed_tokens.weight"));
        for (int64_t i = 0; i < small.vocab; i++) tokens[i * small.width + 5] = 1;
        TEST_OK(ctx, dt_rotate(from, &small, NULL, &m, &rotated));
        dt_tensor *x = random_net_input(ctx, &d);
        const double before = error_of(from, x), after = error_of(m, x);
        ck_assert_double_lt(after, 0.5 * before);
        dt_tensor_free(x);
        dt_module_free(m);
        dt_module_free(from);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

START_TEST(test_what_cannot_be_rotated_is_refused)
{
    dt_ctx *ctx = context_of(1, 1);
    dt_module *m, *out = NULL;
    dt_llama_options rotated;
    TEST_OK(ctx, dt_linear_create(ctx, 3, 3, false, &m));
    ck_assert_int_eq(dt_rotate(m, &small, NULL, &out, &rotated), DT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "llama"));
    dt_module_free(m);
    TEST_OK(ctx, dt_llama_create(ctx, &small, &m));
    dt_rotate_options how = { .hadamard = 3 };
    ck_assert_int_eq(dt_rotate(m, &small, &how, &out, &rotated), DT_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "power of two"));
    how.hadamard = INT64_MIN;
    ck_assert_int_eq(dt_rotate(m, &small, &how, &out, &rotated), DT_ERR_ARG);
    how.hadamard = 2 * small.hidden;
    ck_assert_int_eq(dt_rotate(m, &small, &how, &out, &rotated), DT_ERR_ARG);
    dt_llama_options twice = small;
    twice.block = (dt_block_options){ .given = true, .hadamard = 2 };
    how.hadamard = 4;
    ck_assert_int_eq(dt_rotate(m, &twice, &how, &out, &rotated), DT_ERR_STATE);
    dt_llama_options other = small;
    other.hidden *= 2;
    ck_assert_int_eq(dt_rotate(m, &other, NULL, &out, &rotated), DT_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "not those of the model"));
    other.heads = 0;
    ck_assert_int_eq(dt_rotate(m, &other, NULL, &out, &rotated), DT_ERR_ARG);
    other = small;
    other.qkv_bias = true;
    ck_assert_int_eq(dt_rotate(m, &other, NULL, &out, &rotated), DT_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "q_proj.bias"));
    float *up = dt_data_mut(dt_param(m, "model.layers.1.mlp.up_proj.weight"));
    const float before = up[7];
    up[7] = NAN;
    ck_assert_int_eq(dt_rotate(m, &small, NULL, &out, &rotated), DT_ERR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "up_proj.weight: element 7 is nan"));
    up[7] = before;
    TEST_OK(ctx, dt_lora_add(m, NULL));
    ck_assert_int_eq(dt_rotate(m, &small, NULL, &out, &rotated), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "merge"));
    TEST_OK(ctx, dt_lora_merge(m));
    TEST_OK(ctx, dt_prepare(m, NULL));
    ck_assert_int_eq(dt_rotate(m, &small, NULL, &out, &rotated), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "quantized"));
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_rotate_suite(void)
{
    Suite *s = suite_create("rotate");
    TCase *c = tcase_create("rotate");
    tcase_add_test(c, test_rotations_are_orthogonal_and_spread_every_channel);
    tcase_add_test(c, test_learning_lowers_the_fourth_power_with_the_same_bits_on_any_threads);
    tcase_add_test(c, test_random_llamas_keep_their_function);
    tcase_add_test(c, test_so_do_those_whose_matrices_are_learned);
    tcase_add_test(c, test_a_channel_of_large_values_costs_less);
    tcase_add_test(c, test_what_cannot_be_rotated_is_refused);
    suite_add_tcase(s, c);
    return s;
}
