/* Quantization of convolution layers: what prepare makes of presets and rules; prepared, converted
 * and loaded models of every kind of layer have the same bits; gradients; memory kept for
 * backward. */
#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include "autograd/codes.h"
#include "core/tensor.h"
#include "io/model/model.h"
#include "qat/prepare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- models ---------------------------------------------------------------------------------- */

typedef dt_status (*create)(dt_ctx *c, const dt_conv_layer *layer, dt_module **out);

static void add(dt_module *m, const char *name, create make, const dt_conv_layer *layer)
{
    dt_module *child;
    TEST_OK(ctx, make(ctx, layer, &child));
    TEST_OK(ctx, dt_module_add(m, name, child));
}

static void add_relu(dt_module *m, const char *name)
{
    dt_module *child;
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &child));
    TEST_OK(ctx, dt_module_add(m, name, child));
}

/* Rows of 27, 9, 36 and 36, few of which a group divides. */
static dt_module *of_images(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    dt_conv_layer l = { 3, 8, { 3, 3 }, true, dt_conv_defaults() };
    l.conv.padding[0] = l.conv.padding[1] = 1;
    add(m, "whole", dt_conv2d_create, &l);
    add_relu(m, "relu");
    l.in = l.conv.groups = 8;
    l.out = 16;
    add(m, "depthwise", dt_conv2d_create, &l);
    l.in = 16;
    l.out = 12;
    l.conv.groups = 4;
    l.conv.dilation[1] = 2;
    add(m, "grouped", dt_conv2d_create, &l);
    l = (dt_conv_layer){ 12, 6, { 3, 3 }, true, dt_conv_defaults() };
    l.conv.groups = 3;
    l.conv.stride[0] = l.conv.stride[1] = 2;
    l.conv.output_padding[1] = 1;
    add(m, "transposed", dt_conv_transpose2d_create, &l);
    l = (dt_conv_layer){ 6, 5, { 1, 1 }, false, dt_conv_defaults() };
    add(m, "head", dt_conv2d_create, &l);
    return m;
}

static dt_module *of_signals(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    dt_conv_layer l = { 4, 6, { 5 }, true, dt_conv_defaults() };
    l.conv.stride[0] = 2;
    add(m, "conv", dt_conv1d_create, &l);
    l = (dt_conv_layer){ 6, 4, { 4 }, true, dt_conv_defaults() };
    l.conv.stride[0] = l.conv.groups = 2;
    add(m, "transposed", dt_conv_transpose1d_create, &l);
    return m;
}

static dt_tensor *input_of(bool images)
{
    const int64_t dims[2][4] = { { 3, 4, 33 }, { 3, 3, 9, 7 } };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, images ? 4 : 3, dims[images], &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

/* y of a model in eval, to be freed. */
static float *forward(dt_module *m, dt_tensor *x, int64_t *n)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, false);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    *n = dt_count(y);
    float *out = malloc((size_t)*n * sizeof *out);
    memcpy(out, dt_data(y), (size_t)*n * sizeof *out);
    dt_tape_free(t);
    return out;
}

static void assert_same(dt_module *m, dt_tensor *x, const float *wanted, const char *what)
{
    int64_t n;
    float *y = forward(m, x, &n);
    ck_assert_msg(memcmp(y, wanted, (size_t)n * sizeof *y) == 0, "%s differs", what);
    free(y);
}

/* ---- prepared = converted = loaded ---------------------------------------------------------- */

static dt_module *loaded(dt_module *m, bool images, const char *path)
{
    dt_file *f;
    dt_module *copy = images ? of_images() : of_signals();
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_model_check(f));
    const dt__restoring r = { .file = f, .m = copy, .quantized = true };
    TEST_OK(ctx, dt__restore(&r));
    dt_file_close(f);
    return copy;
}

static void same_everywhere(const dt_qat_options *o, bool images, const char *what)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    dt_module *m = images ? of_images() : of_signals();
    dt_tensor *x = input_of(images);
    int64_t n;
    float *plain = forward(m, x, &n);
    TEST_OK(ctx, dt_prepare(m, o));
    float *y = forward(m, x, &n);
    ck_assert_msg(memcmp(plain, y, (size_t)n * sizeof *y) != 0, "%s: not quantized", what);
    dt_module *copy = loaded(m, images, path);
    assert_same(copy, x, y, what);
    dt_module_free(copy);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    assert_same(m, x, y, what);
    copy = loaded(m, images, path);
    assert_same(copy, x, y, what);
    dt_module_free(copy);
    dt_module_free(m);
    dt_tensor_free(x);
    free(plain);
    free(y);
}

START_TEST(prepared_converted_and_loaded_agree)
{
    static const int presets[] = { DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT4_WEIGHT,
                                   DT_INT8_DYNAMIC_INT8_WEIGHT };
    static const int64_t groups[] = { 8, 16, 32, 4096 };
    dt_qat_options o = dt_qat_defaults();
    o.preset = presets[_i % 3];
    o.forward = _i / 3 % 2 == 0 ? DT_FORWARD_INTEGER : DT_FORWARD_SIMULATED;
    o.weight.has_group_size = true;
    o.weight.has_scheme = _i >= 6; /* with zero points: multiplied dequantized, not as integers */
    o.weight.quant.scheme = DT_SCHEME_ASYMMETRIC;
    for (int g = 0; g < 4; g++) {
        char what[64];
        snprintf(what, sizeof what, "preset %d, forward %d, group %d", o.preset, o.forward,
                 (int)groups[g]);
        o.weight.quant.group_size = groups[g];
        same_everywhere(&o, true, what);
        same_everywhere(&o, false, what);
    }
}
END_TEST

/* The dequantized value of a converted weight has the weight's shape and the values of the prepared
 * one. */
START_TEST(dequantized_weights_have_the_weights_shape)
{
    dt_module *m = of_images();
    dt_tensor *before, *after;
    TEST_OK(ctx, dt_prepare(m, NULL));
    dt_tensor *w = dt_param(m, "transposed.weight");
    TEST_OK(ctx, dt_dequantize(w, &before));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_dequantize(w, &after));
    ck_assert(dt_rank(after) == 4 && dt_dim(after, 0) == 12 && dt_dim(after, 1) == 2);
    ck_assert_mem_eq(dt_data(before), dt_data(after), (size_t)dt_count(after) * sizeof(float));
    dt_tensor_free(before);
    dt_tensor_free(after);
    dt_module_free(m);
}
END_TEST

/* A rounder sees rows of outputs. A rounder to nearest gives the codes of convert without a
 * rounder. */
static dt_status to_nearest(void *user, const char *path, const dt_tensor *master,
                            const dt_quant_spec *quant, const dt_code_rows *to)
{
    dt__codes *c;
    if (strcmp(path, "transposed.weight") == 0) {
        *(bool *)user = dt_rank(master) == 2 && dt_dim(master, 0) == 6;
    }
    DT__TRY(dt__codes_make(master, &(dt__fq){ .quant = *quant }, path, &c));
    dt__codes_to_rows(c, to);
    dt__codes_release(c);
    return DT_OK;
}

START_TEST(rounders_see_rows_of_outputs)
{
    dt_module *m = of_images();
    dt_tensor *x = input_of(true);
    int64_t n;
    bool seen = false;
    TEST_OK(ctx, dt_prepare(m, NULL));
    float *y = forward(m, x, &n);
    TEST_OK(ctx, dt_convert(m, &(dt_rounder){ "test", to_nearest, &seen }, NULL));
    ck_assert(seen);
    assert_same(m, x, y, "rounded by a rounder");
    free(y);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- settings -------------------------------------------------------------------------------- */

START_TEST(inputs_are_quantized_per_sample)
{
    dt_module *m = of_images();
    TEST_OK(ctx, dt_prepare(m, NULL));
    const dt__input_hook *hook = dt__input_hook_of(dt_module_at(m, "transposed"));
    ck_assert_int_eq(hook->quant.granularity, DT_PER_SAMPLE);
    dt_module_free(m);
}
END_TEST

START_TEST(tokens_and_groups_are_refused)
{
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = of_images();
    o.n_rules = 1;
    o.rules[0] = (dt_qat_rule){ .match = "grouped", .activation.has_granularity = true };
    o.rules[0].activation.quant.granularity = DT_PER_TOKEN;
    TEST_FAILS(ctx, DT_ERR_CONFIG,
               "prepare: grouped: the input of a conv2d is quantized per sample",
               dt_prepare(m, &o));
    o.rules[0].activation.quant.granularity = DT_PER_GROUP;
    o.rules[0].activation.quant.group_size = 8;
    o.rules[0].activation.has_group_size = true;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "not per group", dt_prepare(m, &o));
    o.rules[0].activation.quant.granularity = DT_PER_TENSOR;
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_module_free(m);
}
END_TEST

START_TEST(groups_are_multiples_of_8)
{
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = of_images();
    o.weight.has_group_size = true;
    o.weight.quant.group_size = 27;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "whole: group_size must be a positive multiple of 8",
               dt_prepare(m, &o));
    ck_assert(!dt_is_prepared(m));
    dt_module_free(m);
}
END_TEST

/* A file's groups of a weight must be those of the model. */
START_TEST(transposed_groups_are_checked)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    dt_module *m = of_signals(), *other;
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    TEST_OK(ctx, dt_sequential_create(ctx, &other));
    dt_conv_layer l = { 4, 6, { 5 }, true, dt_conv_defaults() };
    add(other, "conv", dt_conv1d_create, &l);
    l = (dt_conv_layer){ 2, 6, { 4 }, true, dt_conv_defaults() }; /* the same shape, no groups */
    l.in = 6;
    l.out = 2;
    add(other, "transposed", dt_conv_transpose1d_create, &l);
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    const dt__restoring r = { .file = f, .m = other, .quantized = true };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "transposed_groups", dt__restore(&r));
    ck_assert(!dt_is_converted(other));
    dt_file_close(f);
    dt_module_free(m);
    dt_module_free(other);
}
END_TEST

/* ---- groups ---------------------------------------------------------------------------------- */

/* A convolution with two groups equals two separate convolutions. */
START_TEST(groups_equal_separate_convolutions)
{
    dt_tape *t;
    dt_tensor *x, *w[2], *y[3];
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 2, 5, 8, 9 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 20, 5, 3, 3 }, &w[i]));
        TEST_OK(ctx, dt_fill_normal(w[i], 0, 1));
    }
    const dt__fq samples = { .quant = dt_activation_quant_defaults(),
                             .enabled = true,
                             .samples = true };
    dt__fq of_x = samples;
    of_x.quant.granularity = DT_PER_SAMPLE;
    const dt__fq of_w = { .quant = dt_weight_quant_defaults(), .enabled = true };
    dt_conv_options o = dt_conv_defaults();
    for (int i = 0; i < 2; i++) {
        y[i] = dt_conv2d(t, dt__fake_quant_as(t, x, &of_x), dt__fake_quant_as(t, w[i], &of_w), NULL,
                         &o);
    }
    dt_tensor *twice = dt_concat(t, (dt_tensor *[]){ x, x }, 2, 1), *both = dt_concat(t, w, 2, 0);
    o.groups = 2;
    y[2] = dt_conv2d(t, dt__fake_quant_as(t, twice, &of_x), dt__fake_quant_as(t, both, &of_w), NULL,
                     &o);
    dt_tensor *alone = dt_concat(t, y, 2, 1);
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_mem_eq(dt_data(alone), dt_data(y[2]), (size_t)dt_count(alone) * sizeof(float));
    dt_tape_free(t);
    dt_tensor *all[] = { x, w[0], w[1] };
    for (int i = 0; i < 3; i++) dt_tensor_free(all[i]);
}
END_TEST

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct pass {
    dt_tape *t;
    dt_tensor *x, *w, *y;
} pass;

/* y and the gradients for `dy`, of plain or quantized operands. */
static void run_pass(pass *p, bool transposed, const dt__fq *of_x, const dt__fq *of_w,
                     const dt_tensor *dy)
{
    dt_conv_options o = dt_conv_defaults();
    o.stride[1] = 2;
    o.padding[0] = 1;
    o.groups = 2;
    TEST_OK(ctx, dt_set_requires_grad(p->x, true));
    TEST_OK(ctx, dt_set_requires_grad(p->w, true));
    TEST_OK(ctx, dt_tape_create(ctx, &p->t));
    dt_tensor *x = of_x == NULL ? p->x : dt__fake_quant_as(p->t, p->x, of_x);
    dt_tensor *w = of_w == NULL ? p->w : dt__fake_quant_as(p->t, p->w, of_w);
    p->y = (transposed ? dt_conv_transpose2d : dt_conv2d)(p->t, x, w, NULL, &o);
    TEST_OK(ctx, dt_tape_status(p->t));
    if (of_x != NULL && of_w != NULL) { /* codes are all that waits for backward */
        ck_assert_int_eq(atomic_load(&p->x->storage->needed), 0);
        ck_assert_int_eq(atomic_load(&p->w->storage->needed), 0);
    }
    if (dy != NULL) TEST_OK(ctx, dt_backward(p->t, p->y, dy));
}

static void assert_near(const dt_tensor *a, const dt_tensor *b)
{
    ck_assert_int_eq(test_first_far_f32(dt_data(a), dt_data(b), dt_count(a), 1e-5, 1e-5), -1);
}

/* Gradients equal those of a float convolution of the dequantized values. */
START_TEST(gradients_are_straight_through)
{
    const bool transposed = _i % 2 == 1, simulated = _i / 2 == 1, only_weight = _i / 2 == 2;
    dt__fq of_x = { .quant = dt_activation_quant_defaults(),
                    .enabled = true,
                    .simulated = simulated,
                    .samples = true };
    of_x.quant.granularity = DT_PER_SAMPLE;
    dt__fq of_w = { .quant = dt_weight_quant_defaults(), .enabled = true, .simulated = simulated };
    pass a, b;
    const int64_t x_dims[4] = { 3, 6, 7, 9 },
                  w_dims[4] = { transposed ? 6 : 8, transposed ? 4 : 3, 3, 2 };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, x_dims, &a.x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, w_dims, &a.w));
    TEST_OK(ctx, dt_fill_normal(a.x, 0, 1));
    TEST_OK(ctx, dt_fill_normal(a.w, 0, 1));
    ck_assert(dt__row_map_of(transposed ? 2 : 0, 4, w_dims, &of_w.map));
    run_pass(&a, transposed, only_weight ? NULL : &of_x, &of_w, NULL);
    dt_tensor *dy;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, a.y->dims, &dy));
    TEST_OK(ctx, dt_fill_normal(dy, 0, 1));
    TEST_OK(ctx, dt_backward(a.t, a.y, dy));
    dt__codes *cx, *cw;
    TEST_OK(ctx, dt__codes_make(a.x, &of_x, "x", &cx));
    TEST_OK(ctx, dt__codes_make(a.w, &of_w, "w", &cw));
    TEST_OK(ctx, dt__dequantized(ctx, a.x, cx, &b.x));
    TEST_OK(ctx, dt__dequantized(ctx, a.w, cw, &b.w));
    if (only_weight) dt__copy_tensor(a.x, b.x);
    run_pass(&b, transposed, NULL, NULL, dy);
    assert_near(a.y, b.y);
    assert_near(dt_grad(a.x), dt_grad(b.x));
    assert_near(dt_grad(a.w), dt_grad(b.w));
    dt__codes_release(cx);
    dt__codes_release(cw);
    dt_tape_free(a.t);
    dt_tape_free(b.t);
    dt_tensor *all[] = { a.x, a.w, b.x, b.w, dy };
    for (int i = 0; i < 5; i++) dt_tensor_free(all[i]);
}
END_TEST

/* A batch whose images are too large to be expanded at once. */
START_TEST(slices_of_a_batch_add_up)
{
    dt_tape *t;
    dt_tensor *x, *w, *dy;
    const int64_t side = 1700, batch = 3;
    const dt__fq of_x = { .quant.scheme = DT_SCHEME_SYMMETRIC,
                          .quant.bits = 8,
                          .quant.activation = true,
                          .quant.granularity = DT_PER_TENSOR,
                          .enabled = true,
                          .samples = true };
    const dt__fq of_w = { .quant = dt_weight_quant_defaults(), .enabled = true };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (int64_t[]){ batch, 1, side, side }, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (int64_t[]){ batch, 1, side, side }, &dy));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (int64_t[]){ 1, 1, 1, 1 }, &w));
    TEST_OK(ctx, dt_fill(x, 1));
    TEST_OK(ctx, dt_fill(w, 1));
    for (int64_t n = 0; n < batch; n++) { /* 1, 2, 3 per pixel */
        float *of_sample = (float *)dt_data_mut(dy) + n * side * side;
        for (int64_t i = 0; i < side * side; i++) of_sample[i] = (float)(n + 1);
    }
    TEST_OK(ctx, dt_set_requires_grad(w, true));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *y =
        dt_conv2d(t, dt__fake_quant_as(t, x, &of_x), dt__fake_quant_as(t, w, &of_w), NULL, NULL);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt_backward(t, y, dy));
    const double image = 127 * (1 / 127.5); /* of 1 */
    TEST_NEAR(*(const float *)dt_data(dt_grad(w)), (double)(6 * side * side) * image, 0, 0.01);
    dt_tape_free(t);
    dt_tensor *all[] = { x, w, dy };
    for (int i = 0; i < 3; i++) dt_tensor_free(all[i]);
}
END_TEST

/* ---- failing allocations --------------------------------------------------------------------- */

static dt_status train_one(dt_ctx *c, dt_module *m, dt_tensor *x)
{
    dt_tape *t;
    DT__TRY(dt_tape_create(c, &t));
    const dt_status s = dt_backward(t, dt_sum(t, dt_forward(t, m, x), NULL), NULL);
    dt_tape_free(t);
    return s;
}

static dt_status prepare_train_convert(dt_ctx *c, void *user)
{
    dt_module *m = NULL;
    dt_tensor *x = NULL;
    dt_conv_layer l = { 6, 4, { 3, 2 }, true, dt_conv_defaults() };
    (void)user;
    l.conv.groups = 2;
    dt_qat_options o = dt_qat_defaults();
    o.weight.quant.ste = DT_STE_CLIPPED;
    o.weight.has_ste = true;
    dt_status s = dt_conv_transpose2d_create(c, &l, &m);
    if (s == DT_OK) s = dt_prepare(m, &o);
    if (s == DT_OK) s = dt_tensor_create(c, DT_F32, 4, (int64_t[]){ 2, 6, 3, 3 }, &x);
    if (s == DT_OK) s = dt_fill_normal(x, 0, 1);
    if (s == DT_OK) s = train_one(c, m, x);
    if (s == DT_OK) s = dt_convert(m, NULL, NULL);
    dt_tensor_free(x);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_gt(test_every_allocation(prepare_train_convert, NULL), 20);
}
END_TEST

Suite *test_conv_qat_suite(void)
{
    Suite *s = suite_create("conv_qat");
    TCase *c = tcase_create("conv_qat");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, prepared_converted_and_loaded_agree, 0, 9);
    tcase_add_test(c, dequantized_weights_have_the_weights_shape);
    tcase_add_test(c, rounders_see_rows_of_outputs);
    tcase_add_test(c, inputs_are_quantized_per_sample);
    tcase_add_test(c, tokens_and_groups_are_refused);
    tcase_add_test(c, groups_are_multiples_of_8);
    tcase_add_test(c, transposed_groups_are_checked);
    tcase_add_test(c, groups_equal_separate_convolutions);
    tcase_add_loop_test(c, gradients_are_straight_through, 0, 6);
    tcase_add_test(c, slices_of_a_batch_add_up);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
