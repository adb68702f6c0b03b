/* Preset int4-int4 on convolutions: outputs and all gradients against a float convolution of
 * dequantized values, on NCHW, for random kernels, strides, paddings, dilations and groups, images
 * that are not square, and transposed convolutions; then convert. */
#include "testing.h"

#include "autograd/codes.h"
#include "nn/module.h"
#include "qat/schemes/learned.h"
#include "qat/prepare.h"

#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <math.h>
#include <stdlib.h>

typedef struct problem {
    const char *name;
    bool transposed, signal;
    int64_t in, out, size[2], kernel[2];
    dt_conv_options o;
} problem;

#define CONV(s0, s1, p0, p1, d0, d1, g)                                                            \
    {                                                                                              \
        .stride = { s0, s1 }, .padding = { p0, p1 }, .dilation = { d0, d1 }, .groups = g           \
    }

static const problem problems[] = {
    { "plain", 0, 0, 3, 5, { 7, 9 }, { 3, 3 }, CONV(1, 1, 1, 1, 1, 1, 1) },
    { "one pixel", 0, 0, 6, 4, { 5, 3 }, { 1, 1 }, CONV(1, 1, 0, 0, 1, 1, 1) },
    { "dilated", 0, 0, 4, 6, { 11, 8 }, { 3, 2 }, CONV(1, 2, 2, 1, 3, 2, 1) },
    { "grouped", 0, 0, 6, 4, { 6, 10 }, { 2, 3 }, CONV(2, 1, 1, 2, 1, 1, 2) },
    { "depthwise", 0, 0, 5, 5, { 9, 4 }, { 3, 3 }, CONV(2, 1, 1, 1, 1, 1, 5) },
    { "wide padding", 0, 0, 2, 3, { 2, 5 }, { 3, 3 }, CONV(1, 1, 3, 2, 1, 1, 1) },
    { "transposed", 1, 0, 4, 3, { 5, 4 }, { 3, 2 }, CONV(2, 3, 1, 0, 1, 1, 1) },
    { "transposed groups", 1, 0, 6, 4, { 3, 5 }, { 2, 3 }, CONV(1, 2, 0, 1, 2, 1, 2) },
    { "signal", 0, 1, 4, 6, { 13, 1 }, { 3, 1 }, CONV(2, 1, 1, 0, 2, 1, 2) },
    { "transposed signal", 1, 1, 4, 6, { 7, 1 }, { 3, 1 }, CONV(2, 1, 1, 0, 1, 1, 2) },
};

enum { BATCH = 4 };

/* A layer that has been trained a little, and a batch. */
typedef struct world {
    const problem *p;
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_tensor *x;
} world;

static void run_layer(const world *w, dt_tensor **y)
{
    *y = dt_forward(w->t, w->m, w->x);
    TEST_OK(w->ctx, dt_tape_status(w->t));
}

static void train(const world *w, int steps)
{
    dt_optimizer *opt;
    TEST_OK(w->ctx, dt_optimizer_create(w->m, NULL, &opt));
    for (int i = 0; i < steps; i++) {
        dt_tensor *y;
        run_layer(w, &y);
        dt_zero_grad(w->m);
        TEST_OK(w->ctx, dt_backward(w->t, dt_sum(w->t, dt_square(w->t, y), NULL), NULL));
        dt_tape_reset(w->t);
        TEST_OK(w->ctx, dt_optimizer_step(opt, w->t, 0.03));
    }
    dt_zero_grad(w->m);
    dt_optimizer_free(opt);
}

static world open_world(const problem *p, int64_t bits, int granularity)
{
    world w = { .p = p };
    const dt_conv_layer layer = { p->in, p->out, { p->kernel[0], p->kernel[1] }, true, p->o };
    const int64_t dims[4] = { BATCH, p->in, p->size[0], p->size[1] };
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_INT4;
    o.weight.quant = (dt_quant_spec){ .bits = bits, .granularity = granularity };
    o.weight.has_bits = o.weight.has_granularity = o.activation.has_save = true;
    o.activation.quant.save = DT_SAVED_EXACT;
    TEST_OK(NULL, dt_ctx_create(&w.ctx, NULL));
    TEST_OK(w.ctx, dt_tape_create(w.ctx, &w.t));
    TEST_OK(w.ctx, (p->signal       ? p->transposed ? dt_conv_transpose1d_create : dt_conv1d_create
                    : p->transposed ? dt_conv_transpose2d_create
                                    : dt_conv2d_create)(w.ctx, &layer, &w.m));
    TEST_OK(w.ctx, dt_tensor_create(w.ctx, DT_F32, p->signal ? 3 : 4, dims, &w.x));
    TEST_OK(w.ctx, dt_fill_normal(w.x, 0.3, 1));
    TEST_OK(w.ctx, dt_prepare(w.m, &o));
    train(&w, 3);
    TEST_OK(w.ctx, dt_set_requires_grad(w.x, true));
    return w;
}

static void close_world(world *w)
{
    dt_tensor_free(w->x);
    dt_module_free(w->m);
    dt_tape_free(w->t);
    dt_ctx_free(w->ctx);
}

/* ---- the same by dequantized values --------------------------------------------------------- */

/* x + shift, and its dequantized value, as leaves. */
static void image_of_input(const world *w, dt_tensor **shifted, dt_tensor **image)
{
    const float *x = dt_data(w->x), *shift = dt_data(dt_param(w->m, "input.shift"));
    const float s = *(const float *)dt_data(dt_param(w->m, "input.scale"));
    const int64_t n = dt_count(w->x), inner = n / (BATCH * w->p->in);
    TEST_OK(w->ctx, dt_tensor_create(w->ctx, DT_F32, dt_rank(w->x), w->x->dims, shifted));
    TEST_OK(w->ctx, dt_tensor_create(w->ctx, DT_F32, dt_rank(w->x), w->x->dims, image));
    float *v = dt_data_mut(*shifted), *y = dt_data_mut(*image);
    for (int64_t i = 0; i < n; i++) {
        v[i] = x[i] + shift[i / inner % w->p->in];
        y[i] = fminf(fmaxf(rintf(v[i] * (1 / s)), -8), 7) * s;
    }
    TEST_OK(w->ctx, dt_set_requires_grad(*image, true));
}

static dt_tensor *float_conv(const world *w, dt_tensor *x, dt_tensor *weight)
{
    const problem *p = w->p;
    dt_tensor *bias = dt_param(w->m, "bias");
    return (p->signal       ? p->transposed ? dt_conv_transpose1d : dt_conv1d
            : p->transposed ? dt_conv_transpose2d
                            : dt_conv2d)(w->t, x, weight, bias, &p->o);
}

static void check_near(const char *name, const char *what, const dt_tensor *got, const float *want)
{
    const float *g = dt_data(got);
    float most = 0;
    for (int64_t i = 0; i < dt_count(got); i++) most = fmaxf(most, fabsf(want[i]));
    const int64_t far = test_first_far_f32(g, want, dt_count(got), 2e-5 * (double)most, 0);
    ck_assert_msg(far < 0, "%s: %s[%lld] is %g, not %g", name, what, (long long)far, (double)g[far],
                  (double)want[far]);
}

/* Gradients of values and scale from d, that of the dequantized value; rows of the scale in memory
 * order or gathered. */
static void check_learned(const world *w, const char *what, const dt_tensor *values,
                          const dt_tensor *d, const dt_tensor *scale, const dt__fq *how)
{
    dt_tensor *rows, *v;
    TEST_OK(w->ctx, dt__matrix_of(values, &how->map, &v));
    TEST_OK(w->ctx, dt__matrix_of(d, &how->map, &rows));
    const int64_t n = dt_count(values), blocks = dt_count(scale);
    float *dx = malloc((size_t)n * sizeof *dx), *ds = malloc((size_t)blocks * sizeof *ds);
    memcpy(dx, dt_data(rows != NULL ? rows : d), (size_t)n * sizeof *dx);
    const dt__learning l = {
        &how->quant, blocks, n / blocks, dt_data(scale), dt_data(v != NULL ? v : values), NULL,
        dx,          ds,     0
    };
    TEST_OK(w->ctx, dt__learn_scales(w->ctx, &l));
    check_near(w->p->name, what, dt_grad(scale), ds);
    dt_tensor_free(rows);
    dt_tensor_free(v);
    free(dx);
    free(ds);
}

static void check_masked(const world *w, const dt_tensor *got, const dt_tensor *values, float s,
                         const dt_tensor *d)
{
    const float *v = dt_data(values), *up = dt_data(d);
    float *want = malloc((size_t)dt_count(got) * sizeof *want);
    for (int64_t i = 0; i < dt_count(got); i++) {
        const float q = rintf(v[i] * (1 / s));
        want[i] = q >= -8 && q <= 7 ? up[i] : 0;
    }
    check_near(w->p->name, "dx", got, want);
    free(want);
}

/* Sums of dx over all but the channels. */
static void check_shift(const world *w)
{
    const int64_t n = dt_count(w->x), inner = n / (BATCH * w->p->in);
    const float *dx = dt_data(dt_grad(w->x));
    float want[8] = { 0 };
    for (int64_t i = 0; i < n; i++) want[i / inner % w->p->in] += dx[i];
    check_near(w->p->name, "the shift's gradient", dt_grad(dt_param(w->m, "input.shift")), want);
}

static void check_problem(const problem *p, int64_t bits, int granularity)
{
    world w = open_world(p, bits, granularity);
    dt_tensor *shifted, *image, *weight, *y, *dy, *bias = dt_param(w.m, "bias");
    dt_tensor *parameter = dt_param(w.m, "weight");
    image_of_input(&w, &shifted, &image);
    TEST_OK(w.ctx, dt_dequantize(parameter, &weight));
    TEST_OK(w.ctx, dt_set_requires_grad(weight, true));
    run_layer(&w, &y);
    TEST_OK(w.ctx, dt_tensor_create(w.ctx, DT_F32, dt_rank(y), y->dims, &dy));
    TEST_OK(w.ctx, dt_fill_normal(dy, 0, 1));
    dt_tensor *plain = float_conv(&w, image, weight);
    check_near(p->name, "y", y, dt_data(plain));
    TEST_OK(w.ctx, dt_backward(w.t, y, dy));
    dt_tape_reset(w.t);
    dt_tensor *db = dt_grad(bias);
    float keep[8];
    memcpy(keep, dt_data(db), (size_t)dt_count(db) * sizeof *keep);
    dt_grad_clear(bias);
    TEST_OK(w.ctx, dt_backward(w.t, float_conv(&w, image, weight), dy));
    check_near(p->name, "db", dt_grad(bias), keep);
    const dt__fq input = { .quant = dt__input_hook_of(w.m)->quant };
    const dt_tensor *input_scale = dt_param(w.m, "input.scale");
    check_learned(&w, "the input scale's gradient", shifted, dt_grad(image), input_scale, &input);
    check_masked(&w, dt_grad(w.x), shifted, *(const float *)dt_data(input_scale), dt_grad(image));
    check_shift(&w);
    check_learned(&w, "the weight scale's gradient", dt_inner(parameter), dt_grad(weight),
                  dt_param(w.m, "weight.scale"), parameter->ext);
    dt_tensor *all[] = { shifted, image, weight, dy };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
    close_world(&w);
}

START_TEST(equals_a_float_convolution_of_dequantized_values)
{
    check_problem(&problems[_i], 4, DT_PER_CHANNEL);
    check_problem(&problems[_i], 2, DT_PER_TENSOR);
    check_problem(&problems[_i], 8, DT_PER_CHANNEL);
}
END_TEST

START_TEST(converted_is_prepared)
{
    world w = open_world(&problems[_i], 4, _i % 2 == 0 ? DT_PER_CHANNEL : DT_PER_TENSOR);
    dt_tensor *before, *after;
    dt_train(w.m, false);
    dt_no_grad(w.t, true);
    run_layer(&w, &before);
    float *bits = malloc((size_t)dt_count(before) * sizeof *bits);
    memcpy(bits, dt_data(before), (size_t)dt_count(before) * sizeof *bits);
    dt_tape_reset(w.t);
    TEST_OK(w.ctx, dt_convert(w.m, NULL, NULL));
    dt_no_grad(w.t, true);
    run_layer(&w, &after);
    ck_assert_mem_eq(bits, dt_data(after), (size_t)dt_count(after) * sizeof *bits);
    free(bits);
    close_world(&w);
}
END_TEST

Suite *test_int4_conv_suite(void)
{
    Suite *s = suite_create("int4_conv");
    TCase *c = tcase_create("int4_conv");
    tcase_add_loop_test(c, equals_a_float_convolution_of_dequantized_values, 0,
                        DT__COUNT_OF(problems));
    tcase_add_loop_test(c, converted_is_prepared, 0, DT__COUNT_OF(problems));
    suite_add_tcase(s, c);
    return s;
}
