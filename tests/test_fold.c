/* Batch norm folding: the same function as the unfolded network; the same bits in prepared,
 * converted and loaded models; gradients; channels with gamma 0; frozen statistics. */
#include "testing.h"

#include "core/tensor.h"
#include "io/model/model.h"
#include "nn/fold.h"
#include "nn/blocks/unit.h"
#include "qat/derived_quant.h"

#include <detent/experimental/io.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- a model of three units: conv, depthwise with a residual, transposed in groups ---------- */

#define UNITS 3

typedef struct units {
    dt__unit unit[UNITS];
} units;

static void units_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                          int n_out)
{
    const units *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *first = dt__unit_forward(t, &s->unit[0], in[0]);
    dt__unit second = s->unit[1];
    second.residual = first;
    dt_tensor *y = dt__unit_forward(t, &second, first);
    out[0] = dt__unit_forward(t, &s->unit[2], y);
}

static const dt_module_type units_type = { .name = "units", .forward = units_forward };

static void add(dt_module *m, const char *name, dt_status made, dt_module *child, dt_module **lent)
{
    TEST_OK(ctx, made);
    TEST_OK(ctx, dt_module_add(m, name, child));
    *lent = child;
}

/* Norms whose channels all have different statistics and weights. */
static void stir(dt_module *norm)
{
    static const char *const names[] = { "weight", "bias", "running_mean", "running_var" };
    for (int i = 0; i < 4; i++) {
        dt_tensor *x = dt_param(norm, names[i]);
        TEST_OK(ctx, dt_fill_uniform(x, i == 2 ? -0.3 : 0.4, i == 2 ? 0.3 : 1.6));
    }
}

static dt_module *model(bool signals)
{
    static const char *const names[UNITS][3] = { { "a", "an", "af" },
                                                 { "b", "bn", "bf" },
                                                 { "c", "cn", "cf" } };
    static const char *const activations[UNITS] = { "relu", "relu", "tanh" };
    dt_conv_layer layer[UNITS] = {
        { 3, 8, { 3, 3 }, true, dt_conv_defaults() },
        { 8, 8, { 3, 3 }, false, dt_conv_defaults() },
        { 8, 6, { 3, 2 }, true, dt_conv_defaults() },
    };
    for (int i = 0; i < 2; i++) layer[i].conv.padding[0] = layer[i].conv.padding[1] = 1;
    layer[1].conv.groups = 8;
    layer[2].conv.groups = 2;
    layer[2].conv.stride[0] = 2;
    dt_module *m, *made = NULL;
    TEST_OK(ctx, dt_module_create(ctx, &units_type, sizeof(units), &m));
    for (int i = 0; i < UNITS; i++) {
        dt__unit *u = &((units *)dt_module_state(m))->unit[i];
        const dt_conv_layer *l = &layer[i];
        const dt_status s = signals  ? i == 2 ? dt_conv_transpose1d_create(ctx, l, &made)
                                              : dt_conv1d_create(ctx, l, &made)
                             : i == 2 ? dt_conv_transpose2d_create(ctx, l, &made)
                                     : dt_conv2d_create(ctx, l, &made);
        add(m, names[i][0], s, made, &u->layer);
        const dt_status n = signals ? dt_batch_norm1d_create(ctx, l->out, 0.1, 1e-5, &made)
                                    : dt_batch_norm2d_create(ctx, l->out, 0.1, 1e-5, &made);
        add(m, names[i][1], n, made, &u->norm);
        const dt_status f = dt_activation_create(ctx, activations[i], &made);
        add(m, names[i][2], f, made, &u->activation);
        dt__set_norm(u->layer, u->norm);
        stir(u->norm);
    }
    return m;
}

static dt_tensor *input(bool signals)
{
    const int64_t dims[2][4] = { { 4, 3, 7, 6 }, { 4, 3, 21 } };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, signals ? 3 : 4, dims[signals], &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

/* y in evaluation, to be freed. */
static dt_tensor *evaluate(dt_module *m, dt_tensor *x)
{
    dt_tape *t;
    dt_tensor *copy;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, false);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt_tensor_from(ctx, y->dtype, y->rank, y->dims, dt_data(y), &copy));
    dt_tape_free(t);
    dt_train(m, true);
    return copy;
}

static bool same(const dt_tensor *a, const dt_tensor *b)
{
    return a->count == b->count && memcmp(dt_data(a), dt_data(b), (size_t)a->count * 4) == 0;
}

static void assert_near(const dt_tensor *a, const dt_tensor *b, double within, const char *what)
{
    double most = 0, apart = 0;
    const float *x = dt_data(a), *y = dt_data(b);
    ck_assert_int_eq(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        most = fmax(most, fabs((double)y[i]));
        apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
    }
    ck_assert_msg(apart <= within * most + 1e-6, "%s: %g apart, %g large", what, apart, most);
}

/* ---- the same function ---------------------------------------------------------------------- */

/* A forward pass in training and its gradients, with fake quantization disabled, equal those of the
 * unfolded network, except for rounding. */
static void train_once(dt_module *m, dt_tensor *x, dt_tensor **y)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_zero_grad(m);
    dt_tensor *out = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt_tensor_from(ctx, out->dtype, out->rank, out->dims, dt_data(out), y));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_square(t, out), NULL), NULL));
    dt_tape_free(t);
}

typedef struct pair {
    dt_module *folded;
} pair;

static dt_status compare_expert(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    dt_tensor *other = dt_param(((const pair *)user)->folded, path);
    if (kind == DT_BUFFER) assert_near(other, x, 1e-5, path);
    else if (strcmp(path, "a.bias") != 0 &&
             strcmp(path, "c.bias") != 0) { /* those are 0 but for noise */
        assert_near(dt_grad(other), dt_grad(x), 2e-4, path);
    }
    return DT_OK;
}

static void compare_training(bool signals)
{
    dt_seed(ctx, 3);
    dt_module *plain = model(signals), *folded = model(signals);
    dt_tensor *x = input(signals), *y, *z;
    TEST_OK(ctx, dt_module_copy_state(folded, plain));
    TEST_OK(ctx, dt_prepare(folded, NULL));
    ck_assert_int_eq(folded->children[0]->folding, DT__FOLDED);
    TEST_OK(ctx, dt_enable(folded, false));
    for (int step = 0; step < 2; step++) {
        train_once(plain, x, &y);
        train_once(folded, x, &z);
        assert_near(z, y, 1e-5, "y in training");
        pair p = { folded };
        TEST_OK(ctx, dt_module_visit(plain, compare_expert, &p));
        dt_tensor_free(y);
        dt_tensor_free(z);
    }
    y = evaluate(plain, x);
    z = evaluate(folded, x);
    assert_near(z, y, 1e-5, "y in evaluation");
    dt_tensor_free(y);
    dt_tensor_free(z);
    dt_tensor_free(x);
    dt_module_free(plain);
    dt_module_free(folded);
}

START_TEST(trains_as_the_plain_network_does)
{
    compare_training(false);
    compare_training(true);
}
END_TEST

/* With frozen statistics folded training equals training of the unfolded network with its norms in
 * evaluation. */
START_TEST(trains_as_norms_in_evaluation_once_frozen)
{
    dt_seed(ctx, 4);
    dt_module *plain = model(false), *folded = model(false);
    dt_tensor *x = input(false), *y, *z, *mean;
    TEST_OK(ctx, dt_module_copy_state(folded, plain));
    TEST_OK(ctx, dt_prepare(folded, NULL));
    TEST_OK(ctx, dt_enable(folded, false));
    dt_norms_freeze(folded, true);
    dt_tensor *running = dt_param(folded, "an.running_mean");
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, running->dims, dt_data(running), &mean));
    dt_train(plain, false);
    train_once(plain, x, &y);
    train_once(folded, x, &z);
    assert_near(z, y, 1e-5, "y");
    pair p = { folded };
    TEST_OK(ctx, dt_module_visit(plain, compare_expert, &p));
    ck_assert(same(running, mean));
    assert_near(dt_grad(dt_param(folded, "a.bias")), dt_grad(dt_param(plain, "a.bias")), 2e-4,
                "the bias");
    dt_tensor_free(mean);
    dt_tensor_free(y);
    dt_tensor_free(z);
    dt_tensor_free(x);
    dt_module_free(plain);
    dt_module_free(folded);
}
END_TEST

/* ---- channels with gamma 0 ------------------------------------------------------------------ */

START_TEST(channels_of_0_are_left_alone_in_training)
{
    dt_seed(ctx, 5);
    dt_module *m = model(false);
    dt_tensor *x = input(false), *y;
    ((float *)dt_data_mut(dt_param(m, "an.weight")))[2] = 0;
    ((float *)dt_data_mut(dt_param(m, "cn.weight")))[5] = -0.0F;
    TEST_OK(ctx, dt_prepare(m, NULL));
    ck_assert_int_eq(dt_unfolded_channels(m), 2);
    train_once(m, x, &y);
    const float *data = dt_data(y);
    for (int64_t i = 0; i < y->count; i++) ck_assert(isfinite(data[i]));
    const float *d = dt_data(dt_grad(dt_param(m, "an.weight")));
    ck_assert(isfinite(d[2]) && d[2] != 0); /* it can leave 0 */
    dt_tensor *z = evaluate(m, x);
    dt_convert_report report;
    TEST_OK(ctx, dt_convert(m, NULL, &report));
    ck_assert_int_eq(report.folded, 3);
    ck_assert_int_eq(report.unfolded, 2);
    dt_tensor *converted = evaluate(m, x);
    ck_assert(same(z, converted));
    dt_tensor_free(converted);
    dt_tensor_free(z);
    dt_tensor_free(y);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- bits ----------------------------------------------------------------------------------- */

static dt_module *loaded(dt_module *m, bool signals, const char *path)
{
    dt_file *f;
    dt_module *copy = model(signals);
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_model_check(f));
    const dt__restoring r = { .file = f, .m = copy, .quantized = true };
    TEST_OK(ctx, dt__restore(&r));
    dt_file_close(f);
    return copy;
}

static void assert_loaded(dt_module *m, bool signals, const char *path, dt_tensor *x,
                          const dt_tensor *y)
{
    dt_module *copy = loaded(m, signals, path);
    dt_tensor *z = evaluate(copy, x);
    ck_assert(same(z, y));
    dt_tensor_free(z);
    dt_module_free(copy);
}

static void compare_everywhere(const dt_qat_options *o, bool signals, bool frozen)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    dt_module *m = model(signals);
    dt_tensor *x = input(signals), *y;
    dt_tensor *plain = evaluate(m, x);
    TEST_OK(ctx, dt_prepare(m, o));
    dt_norms_freeze(m, frozen);
    train_once(m, x, &y); /* ranges see a batch */
    dt_tensor_free(y);
    y = evaluate(m, x);
    ck_assert(!same(plain, y));
    dt_module *copy = loaded(m, signals, path);
    ck_assert_int_eq(copy->children[0]->folding, frozen ? DT__FOLDED_FROZEN : DT__FOLDED);
    dt_module_free(copy);
    assert_loaded(m, signals, path, x, y);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_tensor *z = evaluate(m, x);
    ck_assert(same(z, y));
    ck_assert(!dt_is_prepared(m) && dt_is_converted(m));
    ck_assert_ptr_null(dt__entry_find(m->children[1], "weight"));
    ck_assert_ptr_nonnull(dt_param(m, "b.bias"));
    assert_loaded(m, signals, path, x, y);
    dt_tensor_free(plain);
    dt_tensor_free(z);
    dt_tensor_free(y);
    dt_tensor_free(x);
    dt_module_free(m);
}

START_TEST(prepared_converted_and_loaded_agree)
{
    dt_qat_options o = dt_qat_defaults();
    for (o.preset = DT_INT8_DYNAMIC_INT4_WEIGHT; o.preset < TEST_PRESETS; o.preset++) {
        compare_everywhere(&o, false, o.preset % 2 == 0);
        compare_everywhere(&o, true, o.preset % 2 == 1);
    }
    o = dt_qat_defaults();
    o.forward = DT_FORWARD_SIMULATED;
    compare_everywhere(&o, false, false);
    o = dt_qat_defaults(); /* static scales and zero points */
    o.weight.quant = (dt_quant_spec){ .scheme = DT_SCHEME_ASYMMETRIC, .range = DT_RANGE_STATIC };
    o.weight.has_scheme = o.weight.has_range = true;
    compare_everywhere(&o, false, false);
}
END_TEST

/* A learned scale belongs to the layer's own weight from the first pass on. */
START_TEST(learned_scales_begin_with_the_own_weight)
{
    dt_module *m = model(false);
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_INT4;
    const float *w = dt_data(dt_param(m, "a.weight"));
    double want[8] = { 0 };
    for (int r = 0; r < 8; r++) {
        for (int k = 0; k < 27; k++) want[r] += fabs((double)w[27 * r + k]) / 27;
        want[r] *= 2 / sqrt(7);
    }
    TEST_OK(ctx, dt_prepare(m, &o));
    const float *scale = dt_data(dt_param(m, "a.weight.scale"));
    for (int r = 0; r < 8; r++) TEST_NEAR(scale[r], want[r], 0, 1e-5);
    ck_assert_ptr_null(dt_param(m, "b.bias")); /* nothing is left of computing it */
    dt_module_free(m);
}
END_TEST

START_TEST(norms_stay_without_folding)
{
    dt_module *m = model(false);
    dt_qat_options o = dt_qat_defaults();
    o.fold_norm = false;
    TEST_OK(ctx, dt_prepare(m, &o));
    ck_assert(dt_is_fake_quant(dt_param(m, "a.weight")));
    ck_assert_int_eq(m->children[0]->folding, DT__APART);
    dt_convert_report report;
    TEST_OK(ctx, dt_convert(m, NULL, &report));
    ck_assert_int_eq(report.folded, 0);
    ck_assert_ptr_nonnull(dt_param(m, "an.weight"));
    dt_module_free(m);
}
END_TEST

START_TEST(prepare_twice_and_back)
{
    dt_module *m = model(false);
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_FAILS(ctx, DT_ERR_STATE, "already", dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_FAILS(ctx, DT_ERR_STATE, "already", dt_convert(m, NULL, NULL));
    TEST_FAILS(ctx, DT_ERR_STATE, "already", dt_prepare(m, NULL));
    dt_module_free(m);
}
END_TEST

/* A file of a converted model does not load into a model without norms, which stays unchanged. */
START_TEST(a_load_that_fails_leaves_norms_alone)
{
    char path[TEST_PATH];
    dt_file *f;
    test_folder(path);
    test_join(path, path, "model.safetensors");
    dt_module *m = model(false), *copy = model(false);
    dt_tensor *x = input(false), *before = evaluate(copy, x);
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    dt_module *extra;
    TEST_OK(ctx, dt_linear_create(ctx, 3, 3, true, &extra));
    TEST_OK(ctx, dt_module_add(copy, "extra", extra));
    const dt__restoring r = { .file = f, .m = copy, .quantized = true };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "missing", dt__restore(&r));
    ck_assert_ptr_null(dt__entry_find(dt_module_at(copy, "b"), "bias"));
    dt_tensor *after = evaluate(copy, x);
    ck_assert(same(before, after));
    dt_file_close(f);
    dt_tensor_free(x);
    dt_tensor_free(before);
    dt_tensor_free(after);
    dt_module_free(m);
    dt_module_free(copy);
}
END_TEST

Suite *test_fold_suite(void)
{
    Suite *s = suite_create("fold");
    TCase *c = tcase_create("fold");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, trains_as_the_plain_network_does);
    tcase_add_test(c, trains_as_norms_in_evaluation_once_frozen);
    tcase_add_test(c, channels_of_0_are_left_alone_in_training);
    tcase_add_test(c, prepared_converted_and_loaded_agree);
    tcase_add_test(c, learned_scales_begin_with_the_own_weight);
    tcase_add_test(c, norms_stay_without_folding);
    tcase_add_test(c, prepare_twice_and_back);
    tcase_add_test(c, a_load_that_fails_leaves_norms_alone);
    suite_add_tcase(s, c);
    return s;
}
