/* Preset int4-int4 on linear layers: learned scales and shifts as parameters of a model, training,
 * evaluation in the middle of it, convert, and mistakes of known faulty implementations. */
#include "models.h"
#include "testing.h"

#include "autograd/codes.h"
#include "nn/module.h"
#include "qat/prepare.h"

#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>

#include <math.h>

static dt_ctx *ctx;
static dt_tape *t;
static dt_module *m;
static dt_tensor *x, *target;

enum { ROWS = 24, IN = 37, OUT = 10 };

static void setup(void)
{
    const dt_mlp_options mlp = { .sizes = { 3, { IN, 24, OUT } }, .bias = true };
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_mlp_create(ctx, &mlp, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, IN }, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, OUT }, &target));
    TEST_OK(ctx, dt_fill_normal(x, 0.3, 1));
    TEST_OK(ctx, dt_fill_normal(target, 0, 1));
}

static void teardown(void)
{
    dt_tensor_free(x);
    dt_tensor_free(target);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static dt_qat_options int4(int64_t bits)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_INT4;
    o.weight.quant.bits = o.activation.quant.bits = bits;
    o.weight.has_bits = o.activation.has_bits = true;
    return o;
}

static double train(dt_optimizer *o, double lr)
{
    dt_train(m, true);
    dt_tensor *loss = dt_mse(t, dt_forward(t, m, x), target, DT_REDUCE_MEAN);
    ck_assert_msg(loss != NULL, "%s", dt_error(ctx));
    const double value = dt_item(loss);
    dt_zero_grad(m);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_optimizer_step(o, t, lr));
    return value;
}

static dt_optimizer *adam(void)
{
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    return o;
}

static void evaluate(float y[ROWS * OUT])
{
    dt_train(m, false);
    dt_no_grad(t, true);
    dt_tensor *out = dt_forward(t, m, x);
    ck_assert_msg(out != NULL, "%s", dt_error(ctx));
    memcpy(y, dt_data(out), ROWS * OUT * sizeof *y);
    dt_tape_reset(t);
    dt_no_grad(t, false);
}

static float *scale_of(const char *path, int64_t *n)
{
    dt_tensor *s = dt_param(m, path);
    ck_assert_msg(s != NULL, "%s", dt_error(ctx));
    *n = dt_count(s);
    return dt_data_mut(s);
}

/* ---- results of prepare --------------------------------------------------------------------- */

START_TEST(scales_and_shifts_are_parameters)
{
    const dt_qat_options o = int4(4);
    dt_optimizer *before = adam();
    TEST_OK(ctx, dt_prepare(m, &o));
    const struct {
        const char *path;
        int64_t n;
    } want[] = { { "layers.0.input.scale", 1 },   { "layers.0.input.shift", IN },
                 { "layers.0.weight.scale", 24 }, { "head.input.scale", 1 },
                 { "head.input.shift", 24 },      { "head.weight.scale", OUT } };
    for (int i = 0; i < DT__COUNT_OF(want); i++) {
        dt_tensor *p = dt_param(m, want[i].path);
        ck_assert_msg(p != NULL && dt_requires_grad(p) && p->no_decay, "%s", want[i].path);
        ck_assert_int_eq(dt_count(p), want[i].n);
    }
    /* weights begin with 2 mean|w| / sqrt(7), row by row; shifts with 0 */
    int64_t n;
    const float *s = scale_of("layers.0.weight.scale", &n);
    const float *w = dt_data(dt_inner(dt_param(m, "layers.0.weight")));
    for (int r = 0; r < 24; r++) {
        double sum = 0;
        for (int k = 0; k < IN; k++) sum += fabs((double)w[r * IN + k]);
        TEST_NEAR(s[r], 2 * sum / IN / sqrt(7), 0, 1e-6);
    }
    TEST_EACH(scale_of("layers.0.input.shift", &n)[3] == 0, "a shift does not begin with 0");
    train(before, 0.01);
    TEST_EACH(scale_of("layers.0.input.shift", &n)[3] != 0, "the optimizer lost a shift");
    dt_optimizer_free(before);
}
END_TEST

START_TEST(a_range_begins_with_the_first_batch)
{
    const dt_qat_options o = int4(4);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_train(m, false);
    ck_assert_ptr_null(dt_forward(t, m, x));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "has seen no batch"));
    dt_tape_reset(t);
    TEST_FAILS(ctx, DT_ERR_STATE, "has seen no batch", dt_convert(m, NULL, NULL));
    dt_optimizer *opt = adam();
    train(opt, 0);
    double sum = 0;
    for (int i = 0; i < ROWS * IN; i++) sum += fabs((double)((const float *)dt_data(x))[i]);
    int64_t n;
    const float first = *scale_of("layers.0.input.scale", &n);
    TEST_NEAR(first, 2 * sum / (ROWS * IN) / sqrt(7), 0, 1e-6);
    *(float *)dt_data_mut(x) = 1000; /* later batches do not count */
    train(opt, 0);
    ck_assert_float_eq(*scale_of("layers.0.input.scale", &n), first);
    dt_optimizer_free(opt);
}
END_TEST

/* Scales of weights that were first trained in float are initialized from the trained weights. */
START_TEST(scales_begin_where_codes_do)
{
    const dt_qat_options o = int4(4);
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_enable(m, false));
    dt_optimizer *opt = adam();
    for (int i = 0; i < 3; i++) train(opt, 0.3);
    const float *w = dt_data(dt_inner(dt_param(m, "head.weight")));
    double sum = 0;
    for (int k = 0; k < 24; k++) sum += fabs((double)w[k]);
    TEST_OK(ctx, dt_enable(m, true));
    train(opt, 0);
    int64_t n;
    TEST_NEAR(scale_of("head.weight.scale", &n)[0], 2 * sum / 24 / sqrt(7), 0, 1e-6);
    train(opt, 0.1);
    const float learned = scale_of("head.weight.scale", &n)[0];
    TEST_OK(ctx, dt_enable(m, false)); /* and continue from their values */
    TEST_OK(ctx, dt_enable(m, true));
    train(opt, 0);
    ck_assert_float_eq(scale_of("head.weight.scale", &n)[0], learned);
    dt_optimizer_free(opt);
}
END_TEST

/* ---- training ------------------------------------------------------------------------------- */

START_TEST(training_lowers_the_loss)
{
    for (int64_t bits = 2; bits <= 8; bits *= 2) {
        teardown();
        setup();
        const dt_qat_options o = int4(bits);
        TEST_OK(ctx, dt_prepare(m, &o));
        dt_optimizer *opt = adam();
        const double first = train(opt, 0.01);
        double last = first;
        for (int i = 0; i < 60; i++) last = train(opt, 0.01);
        ck_assert_msg(last < 0.75 * first, "%lld bits: %g, then %g", (long long)bits, first, last);
        dt_optimizer_free(opt);
    }
}
END_TEST

START_TEST(scales_stay_positive)
{
    const dt_qat_options o = int4(4);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_optimizer *opt = adam();
    for (int i = 0; i < 5; i++) {
        train(opt, i == 1 ? 100 : 0.5);
        const char *const paths[] = { "layers.0.input.scale", "layers.0.weight.scale",
                                      "head.weight.scale" };
        for (int k = 0; k < 3; k++) {
            int64_t n;
            const float *s = scale_of(paths[k], &n);
            for (int64_t j = 0; j < n; j++) TEST_EACH(s[j] > 0, "%s is %g", paths[k], (double)s[j]);
        }
    }
    dt_optimizer_free(opt);
}
END_TEST

/* The shift's gradient is the sum of dx over rows. The mask of dx and the dequantized value are
 * those of the shifted values. */
START_TEST(gradient_of_the_shift)
{
    const dt_qat_options o = int4(2);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_module *layer = dt_module_at(m, "layers.0");
    dt_optimizer *opt = adam();
    train(opt, 0.05);
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    dt_train(m, true);
    dt_zero_grad(m);
    dt_tensor *y = dt_square(t, dt_forward(t, layer, x));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, y, NULL), NULL));
    int64_t n;
    const float *dx = dt_data(dt_grad(x)), *shift = scale_of("layers.0.input.shift", &n);
    const float *ds = dt_data(dt_grad(dt_param(m, "layers.0.input.shift")));
    const float s = *scale_of("layers.0.input.scale", &n), *in = dt_data(x);
    int passed = 0;
    for (int k = 0; k < IN; k++) {
        double sum = 0;
        for (int r = 0; r < ROWS; r++) {
            const float code = rintf((in[r * IN + k] + shift[k]) * (1 / s));
            const bool inside = code >= -2 && code <= 1;
            TEST_EACH(inside || dx[r * IN + k] == 0, "a clipped element has a gradient");
            sum += (double)dx[r * IN + k];
            passed += inside;
        }
        TEST_NEAR(ds[k], sum, 1e-4, 1e-5);
    }
    ck_assert_int_gt(passed, ROWS * IN / 10);
    ck_assert_int_lt(passed, ROWS * IN);
    dt_optimizer_free(opt);
}
END_TEST

/* Codes made in evaluation are not used by the training that follows. */
START_TEST(evaluation_in_between)
{
    const dt_qat_options o = int4(4);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_optimizer *opt = adam();
    float a[ROWS * OUT], b[ROWS * OUT], c[ROWS * OUT];
    train(opt, 0.05);
    evaluate(a);
    train(opt, 0.05);
    evaluate(b);
    ck_assert_mem_ne(a, b, sizeof a);
    /* only the scale is written: codes follow it, too */
    int64_t n;
    scale_of("head.weight.scale", &n)[0] *= 1.5f;
    evaluate(c);
    ck_assert_mem_ne(b, c, sizeof b);
    for (int i = 0; i < ROWS * OUT; i++) TEST_EACH(i % OUT == 0 || b[i] == c[i], "another column");
    TEST_OK(ctx, dt_convert(m, NULL, NULL)); /* makes codes, or reads existing ones */
    evaluate(a);
    ck_assert_mem_eq(a, c, sizeof a);
    dt_optimizer_free(opt);
}
END_TEST

/* The same steps by codes and by dequantized values: one rounding, forward and backward. */
START_TEST(codes_and_dequantized_values_train_with_the_same_bits)
{
    double loss[2][6];
    for (int simulated = 0; simulated < 2; simulated++) {
        teardown();
        setup();
        dt_qat_options o = int4(4);
        o.forward = simulated ? DT_FORWARD_SIMULATED : DT_FORWARD_INTEGER;
        TEST_OK(ctx, dt_prepare(m, &o));
        dt_optimizer *opt = adam();
        for (int i = 0; i < 6; i++) loss[simulated][i] = train(opt, 1e-4);
        dt_optimizer_free(opt);
    }
    for (int i = 0; i < 6; i++) TEST_NEAR(loss[0][i], loss[1][i], 0, 1e-5);
}
END_TEST

/* Bytes per input element that the forward pass of a layer keeps for backward. */
static double kept_by_pass(int save)
{
    enum { N = 1024, K = 1021 };
    dt_module *layer;
    dt_tensor *in;
    dt_qat_options o = int4(4);
    o.activation.quant.save = save;
    o.activation.has_save = true;
    TEST_OK(ctx, dt_linear_create(ctx, K, 8, true, &layer));
    TEST_OK(ctx, dt_prepare(layer, &o));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ N, K }, &in));
    TEST_OK(ctx, dt_fill_normal(in, 0, 1));
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(dt_forward(t, layer, in));
        dt_tape_reset(t);
    }
    const size_t before = dt_memory_of(ctx).used;
    ck_assert_ptr_nonnull(dt_forward(t, layer, in));
    const size_t after = dt_memory_of(ctx).used;
    dt_tape_reset(t);
    dt_tensor_free(in);
    dt_module_free(layer);
    return (double)(after - before) / (N * K);
}

START_TEST(backward_keeps_codes)
{
    TEST_NEAR(kept_by_pass(DT_SAVED_COMPACT), 0.5 + 1, 0.06, 0);
    TEST_NEAR(kept_by_pass(DT_SAVED_EXACT), 0.5 + 4, 0.06, 0);
}
END_TEST

/* ---- converting ----------------------------------------------------------------------------- */

static void check_convert(int64_t bits, int granularity, bool is_unsigned)
{
    float before[ROWS * OUT], after[ROWS * OUT];
    dt_qat_options o = int4(bits);
    o.weight.quant.granularity = granularity;
    o.weight.has_granularity = true;
    o.activation.quant.is_unsigned = is_unsigned;
    o.activation.has_unsigned = true;
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_optimizer *opt = adam();
    for (int i = 0; i < 3; i++) train(opt, 0.02);
    evaluate(before);
    int64_t n, one;
    float weight[24], input;
    const float *learned = scale_of("layers.0.weight.scale", &n);
    memcpy(weight, learned, (size_t)n * sizeof *weight);
    input = *scale_of("layers.0.input.scale", &one);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    evaluate(after);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_float_eq(*scale_of("layers.0.input.scale", &one), input);
    ck_assert_ptr_null(dt_param(m, "layers.0.weight.scale"));
    const dt__packed *packed = dt_param(m, "layers.0.weight")->ext;
    int8_t codes[24 * IN];
    float scale[24];
    dt__codes_to_rows(packed->codes, &(dt_code_rows){ .codes = codes, .scale = scale });
    for (int r = 0; r < 24; r++) {
        TEST_EACH(scale[r] == weight[n == 1 ? 0 : r], "the scale of row %d has changed", r);
    }
    ck_assert_int_eq(dt_optimizer_step(opt, t, 0.1), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "converted"));
    dt_optimizer_free(opt);
}

START_TEST(converted_is_prepared)
{
    for (int64_t bits = 2; bits <= 8; bits++) {
        for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
            teardown();
            setup();
            check_convert(bits, per_tensor ? DT_PER_TENSOR : DT_PER_CHANNEL, bits % 3 == 0);
        }
    }
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static const dt_mlp_options plain = { .sizes = { 3, { IN, 24, OUT } }, .bias = true };

static dt_module *reloaded(const char *path)
{
    dt_module *again;
    const dt_model_info info = small_info(&plain);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_model_load(ctx, path, &again, NULL));
    same_models(m, again);
    return again;
}

/* Training that was saved and loaded in the middle has the bits of uninterrupted training. */
static void check_resumed(bool early)
{
    char path[TEST_PATH];
    float a[ROWS * OUT], b[ROWS * OUT];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    dt_optimizer_options sgd = dt_optimizer_defaults();
    sgd.name = DT_SGD;
    dt_optimizer *opt;
    TEST_OK(ctx, dt_optimizer_create(m, &sgd, &opt));
    for (int i = 0; i < (early ? 0 : 3); i++) train(opt, 0.05);
    dt_module *first = m, *second = reloaded(path);
    for (int i = 0; i < 3; i++) train(opt, 0.05);
    evaluate(a);
    dt_optimizer_free(opt);
    m = second;
    TEST_OK(ctx, dt_optimizer_create(m, &sgd, &opt));
    for (int i = 0; i < 3; i++) train(opt, 0.05);
    evaluate(b);
    ck_assert_mem_eq(a, b, sizeof a);
    same_models(first, second);
    dt_optimizer_free(opt);
    dt_module_free(first);
}

START_TEST(resumed_bit_for_bit)
{
    for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
        for (int early = 0; early < 2; early++) {
            teardown();
            setup();
            dt_qat_options o = int4(3);
            o.weight.quant.granularity = per_tensor ? DT_PER_TENSOR : DT_PER_CHANNEL;
            o.weight.has_granularity = true;
            TEST_OK(ctx, dt_prepare(m, &o));
            check_resumed(early);
        }
    }
}
END_TEST

START_TEST(converted_files)
{
    char path[TEST_PATH];
    float a[ROWS * OUT], b[ROWS * OUT];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    const dt_qat_options o = int4(4);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_optimizer *opt = adam();
    train(opt, 0.1);
    dt_optimizer_free(opt);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    evaluate(a);
    dt_module *again = reloaded(path);
    dt_module_free(m);
    m = again;
    dt_freeze(m);
    evaluate(b);
    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

static dt_status whole_life(dt_ctx *c, void *user)
{
    const dt_qat_options o = int4(4);
    dt_module *net;
    (void)user;
    DT__TRY(dt_mlp_create(c, &plain, &net));
    const dt_status s = dt_prepare(net, &o);
    const bool left = s != DT_OK && (dt_param(net, "head.input.scale") != NULL ||
                                     dt_param(net, "head.weight.scale") != NULL);
    dt_module_free(net);
    return left ? DT_ERR_STATE : s;
}

START_TEST(a_failed_prepare_leaves_nothing)
{
    ck_assert_int_gt(test_every_allocation(whole_life, NULL), 50);
}
END_TEST

START_TEST(bad_settings_are_named)
{
    dt_qat_options o = int4(4);
    o.weight.quant.scheme = DT_SCHEME_ASYMMETRIC;
    o.weight.has_scheme = true;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "requires scheme symmetric", dt_prepare(m, &o));
    o = int4(4);
    o.activation.quant.range = DT_RANGE_DYNAMIC; /* the shift is removed with it */
    o.activation.has_range = true;
    TEST_OK(ctx, dt_prepare(m, &o));
    ck_assert_ptr_null(dt_param(m, "head.input.shift"));
}
END_TEST

Suite *test_int4_suite(void)
{
    Suite *s = suite_create("int4");
    TCase *c = tcase_create("int4");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, scales_and_shifts_are_parameters);
    tcase_add_test(c, a_range_begins_with_the_first_batch);
    tcase_add_test(c, scales_begin_where_codes_do);
    tcase_add_test(c, training_lowers_the_loss);
    tcase_add_test(c, scales_stay_positive);
    tcase_add_test(c, gradient_of_the_shift);
    tcase_add_test(c, evaluation_in_between);
    tcase_add_test(c, codes_and_dequantized_values_train_with_the_same_bits);
    tcase_add_test(c, backward_keeps_codes);
    tcase_add_test(c, converted_is_prepared);
    tcase_add_test(c, resumed_bit_for_bit);
    tcase_add_test(c, converted_files);
    tcase_add_test(c, a_failed_prepare_leaves_nothing);
    tcase_add_test(c, bad_settings_are_named);
    suite_add_tcase(s, c);
    return s;
}
