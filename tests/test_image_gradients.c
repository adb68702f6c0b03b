/* Gradients of convolutions, pooling, upsampling and padding, over random geometries in f64. In a
 * random direction v, with L = sum of up y,
 *     (L(x + h v) - L(x - h v)) / 2h = sum of dL/dx v
 * for all operands x at once. This finds gradients that are wrong for a few geometries only. */
#include "testing.h"

#include "core/core.h"
#include "core/tensor.h"

#include <detent/experimental/ops.h>

#include <math.h>
#include <stdio.h>

#define ROUNDS 420
#define STEP 1e-6

enum {
    CONV2D,
    TRANSPOSE2D,
    CONV1D,
    TRANSPOSE1D,
    MAX_POOL,
    AVG_POOL,
    ADAPTIVE,
    UPSAMPLE,
    PAD,
    MAX_POOL1D, /* from here on x is [N, C, L] */
    AVG_POOL1D,
    GLOBAL1D,
    ADAPTIVE1D,
    UPSAMPLE1D,
    KINDS
};
static const char *const names[] = {
    "conv2d",     "conv_transpose2d", "conv1d", "conv_transpose1d", "max_pool2d", "avg_pool2d",
    "adaptive2d", "upsample2d",       "pad",    "max_pool1d",       "avg_pool1d", "global1d",
    "adaptive1d", "upsample1d",
};

typedef struct problem {
    int kind, n; /* operands */
    int64_t dims[3][4], size[2];
    int ranks[3];
    dt_conv_options conv;
    dt_pool_options pool;
    dt_pad_options pad;
} problem;

static int64_t pick(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

/* ---- geometries ------------------------------------------------------------------------------ */

static void draw_conv(dt__stream *s, problem *p)
{
    const bool transposed = p->kind == TRANSPOSE2D || p->kind == TRANSPOSE1D;
    const int axes = p->kind == CONV1D || p->kind == TRANSPOSE1D ? 1 : 2;
    const int64_t groups = pick(s, 1, 3), in = groups * pick(s, 1, 3), out = groups * pick(s, 1, 3);
    int64_t *x = p->dims[0], *w = p->dims[1];
    p->n = 3;
    p->ranks[0] = p->ranks[1] = 2 + axes;
    p->ranks[2] = 1;
    p->conv = dt_conv_defaults();
    p->conv.groups = groups;
    x[0] = pick(s, 1, 3);
    x[1] = in;
    w[0] = transposed ? in : out;
    w[1] = (transposed ? out : in) / groups;
    p->dims[2][0] = out;
    for (int a = 0; a < axes; a++) {
        dt_conv_options *o = &p->conv;
        w[2 + a] = pick(s, 1, 4);
        o->stride[a] = pick(s, 1, 3);
        o->dilation[a] = pick(s, 1, 3);
        const int64_t reach = (w[2 + a] - 1) * o->dilation[a] + 1;
        o->padding[a] = pick(s, 0, (reach - 1) / 2);
        if (transposed)
            o->output_padding[a] = pick(s, 0, dt__max_i64(o->stride[a], o->dilation[a]) - 1);
        x[2 + a] = transposed ? pick(s, 1, 5) : reach - 2 * o->padding[a] + pick(s, 0, 6);
    }
}

static void draw_planes(dt__stream *s, problem *p)
{
    int64_t *x = p->dims[0];
    p->n = 1;
    p->ranks[0] = p->kind >= MAX_POOL1D ? 3 : 4;
    x[0] = pick(s, 1, 2);
    x[1] = pick(s, 1, 3);
    p->pool = (dt_pool_options){ .ceil_mode = pick(s, 0, 1), .count_include_pad = pick(s, 0, 1) };
    p->pad = (dt_pad_options){ .pads.n = 4, .mode = (int)pick(s, 0, 3), .value = 0.5 };
    for (int a = 0; a < 2; a++) {
        dt_pool_options *o = &p->pool;
        o->kernel[a] = pick(s, 1, 4);
        o->stride[a] = pick(s, 0, 4);
        o->dilation[a] = p->kind == MAX_POOL || p->kind == MAX_POOL1D ? pick(s, 0, 2) : 1;
        o->padding[a] = pick(s, 0, o->kernel[a] / 2);
        x[2 + a] = (o->kernel[a] - 1) * dt__max_i64(o->dilation[a], 1) + 1 + pick(s, 0, 9);
        p->size[a] = pick(s, 1, 20);
        for (int i = 0; i < 2; i++) p->pad.pads.v[2 * (1 - a) + i] = pick(s, 0, x[2 + a] - 1);
    }
}

/* ---- a call ---------------------------------------------------------------------------------- */

static dt_tensor *run(dt_tape *t, const problem *p, dt_tensor *const *in)
{
    switch (p->kind) {
    case CONV2D: return dt_conv2d(t, in[0], in[1], in[2], &p->conv);
    case TRANSPOSE2D: return dt_conv_transpose2d(t, in[0], in[1], in[2], &p->conv);
    case CONV1D: return dt_conv1d(t, in[0], in[1], in[2], &p->conv);
    case TRANSPOSE1D: return dt_conv_transpose1d(t, in[0], in[1], in[2], &p->conv);
    case MAX_POOL: return dt_max_pool2d(t, in[0], &p->pool, NULL);
    case AVG_POOL: return dt_avg_pool2d(t, in[0], &p->pool);
    case ADAPTIVE: return dt_adaptive_avg_pool2d(t, in[0], p->size[0], p->size[1]);
    case UPSAMPLE: return dt_upsample_nearest(t, in[0], p->size[0], p->size[1]);
    case MAX_POOL1D: return dt_max_pool1d(t, in[0], &p->pool, NULL);
    case AVG_POOL1D: return dt_avg_pool1d(t, in[0], &p->pool);
    case GLOBAL1D: return dt_global_avg_pool1d(t, in[0]);
    case ADAPTIVE1D: return dt_adaptive_avg_pool1d(t, in[0], p->size[0]);
    case UPSAMPLE1D: return dt_upsample_nearest1d(t, in[0], p->size[0]);
    default: return dt_pad(t, in[0], &p->pad);
    }
}

static dt_tensor *random_like(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

static double dot(const dt_tensor *a, const dt_tensor *b)
{
    const double *x = dt_data(a), *y = dt_data(b);
    double sum = 0;
    for (int64_t i = 0; i < a->count; i++) sum += x[i] * y[i];
    return sum;
}

static void move(dt_tensor *x, const dt_tensor *v, double h)
{
    double *to = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) to[i] += h * ((const double *)dt_data(v))[i];
}

static double loss_at(dt_tape *t, const problem *p, dt_tensor *const *in, const dt_tensor *up)
{
    const double loss = dot(run(t, p, in), up);
    dt_tape_reset(t);
    return loss;
}

static void check(dt_ctx *ctx, const problem *p, int round)
{
    dt_tape *t;
    dt_tensor *in[3], *v[3];
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    for (int i = 0; i < p->n; i++) {
        in[i] = random_like(ctx, p->ranks[i], p->dims[i]);
        v[i] = random_like(ctx, p->ranks[i], p->dims[i]);
        TEST_OK(ctx, dt_set_requires_grad(in[i], true));
    }
    dt_tensor *y = run(t, p, in);
    ck_assert_msg(y != NULL, "round %d, %s: %s", round, names[p->kind], dt_error(ctx));
    dt_tensor *up = random_like(ctx, y->rank, y->dims);
    TEST_OK(ctx, dt_backward(t, y, up));
    dt_tape_reset(t);
    for (int i = 0; i < p->n; i++) {
        const double want = dot(dt_grad(in[i]), v[i]);
        move(in[i], v[i], STEP);
        const double above = loss_at(t, p, in, up);
        move(in[i], v[i], -2 * STEP);
        const double below = loss_at(t, p, in, up);
        move(in[i], v[i], STEP);
        const double got = (above - below) / (2 * STEP);
        TEST_EACH(fabs(got - want) <= 1e-6 * (1 + fabs(want)),
                  "round %d, %s, operand %d: differences say %.12g, the gradient %.12g", round,
                  names[p->kind], i, got, want);
    }
    dt_tensor_free(up);
    for (int i = 0; i < p->n; i++) {
        dt_tensor_free(in[i]);
        dt_tensor_free(v[i]);
    }
    dt_tape_free(t);
}

START_TEST(gradients_of_random_geometries)
{
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        dt__stream s = dt__stream_of((uint64_t)round, DT__FOR_USER);
        problem p = { .kind = round % KINDS };
        if (p.kind <= TRANSPOSE1D) draw_conv(&s, &p);
        else draw_planes(&s, &p);
        check(ctx, &p, round);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Channel shuffle [Zhang et al. 2018, ShuffleNet] of two groups, by reshape, permute, reshape. */
static dt_tensor *shuffle(dt_tape *t, dt_tensor *x)
{
    const int64_t *d = x->dims, order[] = { 0, 2, 1, 3, 4 };
    dt_tensor *y = dt_reshape(t, x, 5, (const int64_t[]){ d[0], 2, d[1] / 2, d[2], d[3] });
    y = dt_permute(t, y, order);
    return dt_reshape(t, y, 4, (const int64_t[]){ d[0], d[1], d[2], d[3] });
}

/* The position of the largest pixel of a window in its plane, for index outputs. */
START_TEST(maxima_have_positions)
{
    static const int64_t dims[] = { 1, 1, 2, 4 };
    static const float values[] = { 1, 5, 2, 2, 3, 4, 0, 7 };
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x, *index = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 4, dims, values, &x));
    dt_max_pool2d(t, x, NULL, &index);
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_ptr_nonnull(index);
    ck_assert_int_eq(dt_count(index), 2);
    const int32_t *at = dt_data(index);
    ck_assert(at[0] == 1 && at[1] == 7);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(channels_are_shuffled)
{
    dt_ctx *ctx;
    dt_tape *t;
    const int64_t dims[] = { 1, 6, 1, 2 };
    const float values[] = { 0, 0.5F, 1, 1.5F, 2, 2.5F, 3, 3.5F, 4, 4.5F, 5, 5.5F };
    const float want[] = { 0, 0.5F, 3, 3.5F, 1, 1.5F, 4, 4.5F, 2, 2.5F, 5, 5.5F };
    const float back[] = { 0, 0.5F, 2, 2.5F, 4, 4.5F, 1, 1.5F, 3, 3.5F, 5, 5.5F };
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x, *up;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &up));
    memcpy(dt_data_mut(x), values, sizeof values);
    memcpy(dt_data_mut(up), values, sizeof values);
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    dt_tensor *y = shuffle(t, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    ck_assert_mem_eq(dt_data(y), want, sizeof want);
    TEST_OK(ctx, dt_backward(t, y, up));
    ck_assert_mem_eq(dt_data(dt_grad(x)), back, sizeof back);
    dt_tensor_free(x);
    dt_tensor_free(up);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_image_gradients_suite(void)
{
    Suite *s = suite_create("image_gradients");
    TCase *c = tcase_create("geometries");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, gradients_of_random_geometries);
    tcase_add_test(c, maxima_have_positions);
    tcase_add_test(c, channels_are_shuffled);
    suite_add_tcase(s, c);
    return s;
}
