/* Gradients as products of integers (numerics, "Integer backward"): against values of another
 * program and against the formulas once more, for every set of kernels and number of threads. */
#include "testing.h"

#include "autograd/codes.h"
#include "kernels/sets.h"
#include "qat/quantized.h"

#include <detent/io.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a layer --------------------------------------------------------------------------------- */

typedef struct layer {
    int64_t m, n, k;
    const float *x, *w, *dy;
    dt_quant_spec of_x, of_w;
    int activation;
    bool float_x; /* x is not quantized */
    bool float_backward;
} layer;

typedef struct gradients {
    float *dx, *dw; /* [m][k], [n][k] */
    float *y;
    /* what they were computed from: codes of x, values of W */
    uint8_t *u;
    float *sx, *value;
    int32_t *zu;
} gradients;

static void free_gradients(gradients *g)
{
    free(g->dx);
    free(g->dw);
    free(g->y);
    free(g->u);
    free(g->sx);
    free(g->value);
    free(g->zu);
}

static void *copy_of(const void *from, int64_t count, size_t element)
{
    void *to = malloc((size_t)count * element + 1);
    if (count > 0) memcpy(to, from, (size_t)count * element);
    return to;
}

static dt_tensor *leaf(dt_ctx *ctx, int64_t rows, int64_t columns, const float *data)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ rows, columns }, data, &x));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    return x;
}

static void keep_operands(const layer *l, dt_tensor *x, dt_tensor *w, gradients *out)
{
    dt__codes *codes;
    dt_tensor *value;
    TEST_OK(dt_ctx_of(w), dt_dequantize(w, &value));
    out->value = copy_of(dt_data(value), l->n * l->k, sizeof(float));
    dt_tensor_free(value);
    if (l->float_x) return;
    TEST_OK(dt_ctx_of(w), dt__fq_codes(x, &codes));
    out->u = malloc((size_t)(l->m * l->k) + DT__STEP);
    for (int64_t r = 0; r < l->m; r++) dt__codes_row(codes, NULL, r, out->u + r * l->k);
    out->sx = copy_of(codes->scale, l->m, sizeof(float));
    out->zu = copy_of(codes->zero_u, l->m, sizeof(int32_t));
    dt__codes_release(codes);
}

static void run(dt_ctx *ctx, const layer *l, gradients *out)
{
    dt_tape *t;
    dt_tensor *x = leaf(ctx, l->m, l->k, l->x), *w = leaf(ctx, l->n, l->k, l->w), *dy;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx,
            dt__fq_wrap(w, &(dt__fq){ .quant = l->of_w, .int8_backward = !l->float_backward }));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ l->m, l->n }, l->dy, &dy));
    dt_tensor *read = l->float_x ? x : dt_fake_quant(t, x, &l->of_x, true);
    const dt_linear_after after = { l->activation, NULL };
    dt_tensor *y = dt_linear_act(t, read, w, NULL, &after);
    TEST_OK(ctx, dt_tape_status(t));
    *out = (gradients){ .y = copy_of(dt_data(y), l->m * l->n, sizeof(float)) };
    keep_operands(l, read, w, out);
    TEST_OK(ctx, dt_backward(t, y, dy));
    out->dx = copy_of(dt_data(dt_grad(x)), l->m * l->k, sizeof(float));
    out->dw = copy_of(dt_data(dt_grad(w)), l->n * l->k, sizeof(float));
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_tensor_free(dy);
}

static dt_ctx *context(uint64_t mask, int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.cpu_mask = mask;
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

/* ---- the formulas ---------------------------------------------------------------------------- */

static int code_of(float v, float scale, float most)
{
    const float inverse = 1 / scale, scaled = v * inverse;
    return (int)lrintf(fminf(fmaxf(scaled, -most), most));
}

/* The scale of n values that are `step` apart. */
static float scale_of(int64_t n, const float *x, int64_t step, float most)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i * step]));
    return fmaxf(largest / most, 0x1p-126f);
}

typedef struct sum {
    double value, size; /* of all terms */
} sum;

static sum of_x(const layer *l, const gradients *g, const float *dy, int64_t m, int64_t k)
{
    const float sd = scale_of(l->n, dy + m * l->n, 1, 63);
    const float sw = scale_of(l->n, g->value + k, l->k, 127);
    double total = 0, size = 0;
    for (int64_t n = 0; n < l->n; n++) {
        const int p = code_of(dy[m * l->n + n], sd, 63) * code_of(g->value[n * l->k + k], sw, 127);
        total += p;
        size += abs(p);
    }
    return (sum){ total * (double)sw * (double)sd, size * (double)sw * (double)sd };
}

static sum of_w(const layer *l, const gradients *g, const float *dy, int64_t n, int64_t k)
{
    sum s = { 0, 0 };
    for (int64_t m0 = 0; m0 < l->m; m0 += 128) {
        float e[128];
        const int64_t rows = dt__min_i64(128, l->m - m0);
        for (int64_t i = 0; i < rows; i++) e[i] = dy[(m0 + i) * l->n + n] * g->sx[m0 + i];
        const float scale = scale_of(rows, e, 1, 63);
        for (int64_t i = 0; i < rows; i++) {
            const int x = g->u[(m0 + i) * l->k + k] - g->zu[m0 + i];
            const double p = (double)scale * (double)(code_of(e[i], scale, 63) * x);
            s.value += p;
            s.size += fabs(p);
        }
    }
    return s;
}

/* dy behind the mask of relu. */
static float *masked(const layer *l, const gradients *g)
{
    float *dy = copy_of(l->dy, l->m * l->n, sizeof(float));
    for (int64_t i = 0; i < l->m * l->n && l->activation == DT_ACT_RELU; i++) {
        if (!(g->y[i] > 0)) dy[i] = 0;
    }
    return dy;
}

static void check_formulas(const layer *l, const gradients *g)
{
    float *dy = masked(l, g);
    for (int64_t i = 0; i < l->m * l->k; i++) {
        const sum want = of_x(l, g, dy, i / l->k, i % l->k);
        TEST_EACH(fabs((double)g->dx[i] - want.value) <= 1e-6 * want.size, "dx[%lld]: %g, not %g",
                  (long long)i, (double)g->dx[i], want.value);
    }
    for (int64_t i = 0; i < l->n * l->k && !l->float_x; i++) {
        const sum want = of_w(l, g, dy, i / l->k, i % l->k);
        TEST_EACH(fabs((double)g->dw[i] - want.value) <= 1e-6 * want.size, "dw[%lld]: %g, not %g",
                  (long long)i, (double)g->dw[i], want.value);
    }
    free(dy);
}

/* ---- random layers --------------------------------------------------------------------------- */

static uint64_t state;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static float *values(int64_t n, float size, float shift)
{
    float *x = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) x[i] = size * ((float)below(1 << 20) * 0x1p-19f - 1) + shift;
    return x;
}

static dt_quant_spec random_weight(void)
{
    static const int64_t bits[] = { 4, 8, 2, 5 }, groups[] = { 32, 8, 64 };
    dt_quant_spec q = dt_weight_quant_defaults();
    q.bits = bits[below(4)];
    q.granularity = below(3) == 0 ? DT_PER_CHANNEL : DT_PER_GROUP;
    q.group_size = groups[below(3)];
    if (below(4) == 0) q.scheme = DT_SCHEME_ASYMMETRIC; /* multiplied in fp32 forward */
    return q;
}

static layer layer_of(int64_t m, int64_t n, int64_t k)
{
    layer l = { .m = m, .n = n, .k = k };
    l.of_x = dt_activation_quant_defaults();
    l.of_x.bits = below(4) == 0 ? 4 : 8;
    l.of_w = random_weight();
    l.activation = below(2) == 0 ? DT_ACT_RELU : DT_ACT_NONE;
    l.x = values(l.m * l.k, 2, (float)below(5) - 2);
    l.w = values(l.n * l.k, 0.1f, 0);
    float *dy = values(l.m * l.n, 1e-4f, 0);
    for (int64_t i = 0; i < l.m * l.n; i++) {
        const int64_t row = i / l.n;
        if (row % 11 == 7) dy[i] = 0;
        if (row % 5 == 3) dy[i] *= 0x1p-20f;
        if (i % l.n == l.n / 2) dy[i] *= 1000;
    }
    l.dy = dy;
    return l;
}

static layer random_layer(int64_t most)
{
    static const int64_t rows[] = { 1, 2, 3, 31, 127, 128, 129, 256, 300 };
    const int64_t m = rows[below(9)], n = 1 + below(most);
    return layer_of(m, n, 1 + below(most));
}

static void free_layer(const layer *l)
{
    free((void *)(uintptr_t)l->x);
    free((void *)(uintptr_t)l->w);
    free((void *)(uintptr_t)l->dy);
}

static void check_values(const layer *l)
{
    dt_ctx *ctx = context(UINT64_MAX, 2);
    gradients g;
    run(ctx, l, &g);
    check_formulas(l, &g);
    free_gradients(&g);
    free_layer(l);
    dt_ctx_free(ctx);
}

START_TEST(gradients_have_the_stated_values)
{
    const int64_t rounds = test_count((test_draws){ .usual = 60, .quick = 30, .sanitized = 8 });
    state = 1;
    for (int64_t i = 0; i < rounds; i++) {
        const layer l = random_layer(i % 6 == 0 ? 200 : 70);
        check_values(&l);
    }
}
END_TEST

/* More terms of W^ than are dequantized at once, and more panels of x than are made at once. */
START_TEST(long_layers_have_the_stated_values)
{
    const int64_t rounds = test_count((test_draws){ .usual = 2, .sanitized = 1 });
    state = 3;
    for (int64_t i = 0; i < rounds; i++) {
        const int64_t more = below(40);
        const layer outputs = layer_of(30 + more, 4097 + 5 * more, 1 + more);
        check_values(&outputs);
        const layer inputs = layer_of(513 + 4 * more, 1 + more % 4, 5000 + 7 * more);
        check_values(&inputs);
    }
}
END_TEST

/* ---- the same bits everywhere ---------------------------------------------------------------- */

static void check_same(const layer *l, const gradients *a, const gradients *b, const char *where)
{
    const size_t x = (size_t)(l->m * l->k) * sizeof(float);
    const size_t w = (size_t)(l->n * l->k) * sizeof(float);
    TEST_EACH(memcmp(a->dx, b->dx, x) == 0, "%s: another dx", where);
    TEST_EACH(memcmp(a->dw, b->dw, w) == 0, "%s: another dw", where);
}

START_TEST(every_set_and_number_of_threads_has_the_same_bits)
{
    static const int threads[] = { 1, 2, 3, 16 };
    const int64_t rounds = test_count((test_draws){ .usual = 12, .sanitized = 3 });
    state = 2;
    for (int64_t i = 0; i < rounds; i++) {
        const layer l = random_layer(300);
        gradients first = { 0 };
        const dt__kernel_set *set;
        for (int s = 0; (set = dt__kernel_set_at(s)) != NULL; s++) {
            for (int n = 0; n < DT__COUNT_OF(threads) && dt__kernel_set_runs(set); n++) {
                dt_ctx *ctx = context(set->needs, threads[n]);
                gradients g;
                run(ctx, &l, &g);
                if (first.dx == NULL) {
                    first = g;
                } else {
                    check_same(&l, &first, &g, set->name);
                    free_gradients(&g);
                }
                dt_ctx_free(ctx);
            }
        }
        free_gradients(&first);
        free_layer(&l);
    }
}
END_TEST

/* ---- another program ------------------------------------------------------------------------- */

static dt_tensor *load(dt_file *file, int c, const char *name, dt_dtype dtype)
{
    char path[32];
    dt_tensor *x;
    snprintf(path, sizeof path, "c%d.%s", c, name);
    ck_assert_int_eq(dt_file_load(file, path, dtype, &x), DT_OK);
    return x;
}

static int64_t number(dt_file *file, int c, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "c%d.%s", c, name);
    return atoll(dt_file_meta(file, path));
}

static void compare(const float *got, const dt_tensor *want, const char *name, int c)
{
    const double *v = dt_data(want);
    double size = 0;
    for (int64_t i = 0; i < dt_count(want); i++) size = fmax(size, fabs(v[i]));
    for (int64_t i = 0; i < dt_count(want); i++) {
        TEST_EACH(fabs((double)got[i] - v[i]) <= 2e-6 * size, "case %d, %s[%lld]: %g, not %g", c,
                  name, (long long)i, (double)got[i], v[i]);
    }
}

START_TEST(golden)
{
    char path[TEST_PATH];
    dt_file *file;
    dt_ctx *ctx = context(UINT64_MAX, 2);
    test_join(path, DETENT_SOURCE_DIR "/tests/golden", "backward.safetensors");
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    for (int c = 0; c < 5; c++) {
        dt_tensor *t[5];
        const char *const names[] = { "x", "w", "dy", "dx", "dw" };
        for (int i = 0; i < 5; i++) t[i] = load(file, c, names[i], i < 3 ? DT_F32 : DT_F64);
        layer l = { dt_dim(t[0], 0),
                    dt_dim(t[1], 0),
                    dt_dim(t[0], 1),
                    dt_data(t[0]),
                    dt_data(t[1]),
                    dt_data(t[2]),
                    .of_x = dt_activation_quant_defaults() };
        l.of_x.bits = number(file, c, "x_bits");
        l.of_w = dt_weight_quant_defaults();
        l.of_w.bits = number(file, c, "bits");
        l.of_w.group_size = number(file, c, "group");
        if (l.of_w.group_size == 0) l.of_w.granularity = DT_PER_CHANNEL;
        gradients g;
        run(ctx, &l, &g);
        compare(g.dx, t[3], "dx", c);
        compare(g.dw, t[4], "dw", c);
        free_gradients(&g);
        for (int i = 0; i < 5; i++) dt_tensor_free(t[i]);
    }
    dt_file_close(file);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what stays float, and forward ----------------------------------------------------------- */

static double cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Forward has the bits that it has with a float backward, and gradients are near it. */
START_TEST(forward_keeps_its_bits)
{
    state = 3;
    for (int i = 0; i < 10; i++) {
        layer l = random_layer(200);
        l.m = 256;
        free_layer(&l);
        l.x = values(l.m * l.k, 2, 0);
        l.w = values(l.n * l.k, 0.1f, 0);
        l.dy = values(l.m * l.n, 1e-4f, 0);
        dt_ctx *ctx = context(UINT64_MAX, 2);
        gradients of_integers, of_floats;
        run(ctx, &l, &of_integers);
        l.float_backward = true;
        run(ctx, &l, &of_floats);
        ck_assert_mem_eq(of_integers.y, of_floats.y, (size_t)(l.m * l.n) * sizeof(float));
        ck_assert(memcmp(of_integers.dw, of_floats.dw, (size_t)(l.n * l.k) * sizeof(float)) != 0);
        ck_assert_double_gt(cosine(of_integers.dx, of_floats.dx, l.m * l.k), 0.999);
        ck_assert_double_gt(cosine(of_integers.dw, of_floats.dw, l.n * l.k), 0.999);
        free_gradients(&of_integers);
        free_gradients(&of_floats);
        free_layer(&l);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Without codes of x, dw is that of a float backward and dx is by integers. */
START_TEST(float_activations_have_a_float_dw)
{
    state = 4;
    for (int i = 0; i < 6; i++) {
        layer l = random_layer(100);
        l.float_x = true;
        dt_ctx *ctx = context(UINT64_MAX, 2);
        gradients of_integers, of_floats;
        run(ctx, &l, &of_integers);
        check_formulas(&l, &of_integers);
        l.float_backward = true;
        run(ctx, &l, &of_floats);
        ck_assert_mem_eq(of_integers.dw, of_floats.dw, (size_t)(l.n * l.k) * sizeof(float));
        free_gradients(&of_integers);
        free_gradients(&of_floats);
        free_layer(&l);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* A value that is not finite makes its row of dx, and its output of dw, NaN, and no other. */
START_TEST(what_is_not_finite_stays_so)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) {
        state = 5;
        layer l = random_layer(40);
        float *dy = (float *)(uintptr_t)l.dy;
        const int64_t m = l.m / 2, n = l.n / 2;
        l.activation = DT_ACT_NONE;
        dy[m * l.n + n] = bad[i];
        dt_ctx *ctx = context(UINT64_MAX, 2);
        gradients g;
        run(ctx, &l, &g);
        for (int64_t j = 0; j < l.m * l.k; j++) {
            TEST_EACH(isnan(g.dx[j]) == (j / l.k == m), "dx[%lld]", (long long)j);
        }
        for (int64_t j = 0; j < l.n * l.k; j++) {
            TEST_EACH(isnan(g.dw[j]) == (j / l.k == n), "dw[%lld]", (long long)j);
        }
        free_gradients(&g);
        free_layer(&l);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- convolutions ---------------------------------------------------------------------------- */

/* A convolution [batch, in, size, size + 1] of square kernels; a group has in / groups channels. */
typedef struct conv {
    int64_t batch, in, out, size, kernel, groups;
    dt_conv_options options;
    bool transposed;
    int64_t x_bits;
} conv;

typedef struct conv_run {
    int64_t dims[4]; /* of y */
    gradients g;     /* u [batch][in, ...]; y, dx and dw as tensors */
    float *dy;
    int64_t n_x, n_w;
} conv_run;

static conv random_conv(void)
{
    conv c = { .batch = 1 + below(3), .size = 3 + below(8), .kernel = 1 + below(3) };
    c.groups = below(3) == 0 ? 2 : 1;
    c.in = c.groups * (1 + below(6) + (c.groups > 1));
    c.out = c.groups * (1 + below(40));
    c.options = dt_conv_defaults();
    c.options.groups = c.groups;
    c.transposed = below(3) == 0;
    c.x_bits = below(4) == 0 ? 4 : 8;
    for (int i = 0; i < 2; i++) {
        c.options.stride[i] = 1 + below(2);
        c.options.dilation[i] = 1 + (below(4) == 0 && c.kernel == 2);
        c.options.padding[i] = below(2) * (c.kernel > 1);
    }
    return c;
}

static dt_tensor *leaf4(dt_ctx *ctx, const int64_t *dims, float size, float shift)
{
    dt_tensor *x;
    float *data = values(dims[0] * dims[1] * dims[2] * dims[3], size, shift);
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 4, dims, data, &x));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    free(data);
    return x;
}

static void keep_conv(const conv *c, dt_tensor *x, dt_tensor *w, conv_run *out)
{
    dt__codes *codes;
    dt_tensor *value;
    const int64_t each = dt_count(x) / c->batch;
    TEST_OK(dt_ctx_of(w), dt_dequantize(w, &value));
    out->g.value = copy_of(dt_data(value), dt_count(w), sizeof(float));
    dt_tensor_free(value);
    TEST_OK(dt_ctx_of(w), dt__fq_codes(x, &codes));
    out->g.u = malloc((size_t)dt_count(x) + DT__STEP);
    for (int64_t s = 0; s < c->batch; s++) dt__codes_row(codes, NULL, s, out->g.u + s * each);
    out->g.sx = copy_of(codes->scale, c->batch, sizeof(float));
    out->g.zu = copy_of(codes->zero_u, c->batch, sizeof(int32_t));
    dt__codes_release(codes);
}

static void run_conv(dt_ctx *ctx, const conv *c, conv_run *out)
{
    dt_tape *t;
    const int64_t of_x[4] = { c->batch, c->in, c->size, c->size + 1 };
    const int64_t of_w[4] = { c->transposed ? c->in : c->out,
                              (c->transposed ? c->out : c->in) / c->groups, c->kernel, c->kernel };
    dt_tensor *x = leaf4(ctx, of_x, 2, 0.5f), *w = leaf4(ctx, of_w, 0.1f, 0), *dy;
    dt__fq like = { .quant = dt_activation_quant_defaults(), .enabled = true, .samples = true };
    like.quant.granularity = DT_PER_SAMPLE;
    like.quant.bits = c->x_bits;
    dt__fq of = { .quant = dt_weight_quant_defaults(), .int8_backward = true };
    ck_assert(dt__row_map_of(c->transposed ? c->groups : 0, 4, of_w, &of.map));
    TEST_OK(ctx, dt__fq_wrap(w, &of));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *read = dt__fake_quant_as(t, x, &like);
    dt_tensor *y = (c->transposed ? dt_conv_transpose2d : dt_conv2d)(t, read, w, NULL, &c->options);
    TEST_OK(ctx, dt_tape_status(t));
    *out = (conv_run){ .n_x = dt_count(x), .n_w = dt_count(w) };
    for (int i = 0; i < 4; i++) out->dims[i] = dt_dim(y, i);
    dy = leaf4(ctx, out->dims, 1e-3f, 0);
    TEST_OK(ctx, dt_set_requires_grad(dy, false));
    out->dy = copy_of(dt_data(dy), dt_count(dy), sizeof(float));
    keep_conv(c, read, w, out);
    TEST_OK(ctx, dt_backward(t, y, dy));
    out->g.dx = copy_of(dt_data(dt_grad(x)), out->n_x, sizeof(float));
    out->g.dw = copy_of(dt_data(dt_grad(w)), out->n_w, sizeof(float));
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_tensor_free(dy);
}

static void free_conv(conv_run *r)
{
    free_gradients(&r->g);
    free(r->dy);
}

/* One product of a convolution: indices of x, w and y, and the position of y. */
typedef struct term {
    int64_t sample, channel, x, w, y, position;
} term;

/* Calls `each` for all products. For a transposed convolution positions of y are scattered to. */
static void every_term(const conv *c, const conv_run *r, void (*each)(void *user, const term *t),
                       void *user)
{
    const int64_t h = c->size, v = c->size + 1, q = r->dims[2], p = r->dims[3], k = c->kernel;
    const int64_t in = c->in / c->groups, out = c->out / c->groups;
    const dt_conv_options *o = &c->options;
    const int64_t big[2] = { c->transposed ? q : h, c->transposed ? p : v };
    const int64_t small[2] = { c->transposed ? h : q, c->transposed ? v : p };
    for (int64_t i = 0; i < c->batch * c->groups * in * out * k * k * small[0] * small[1]; i++) {
        int64_t left = i;
        const int64_t b = left % small[1], a = (left /= small[1]) % small[0];
        const int64_t kx = (left /= small[0]) % k, ky = (left /= k) % k;
        const int64_t no = (left /= k) % out, ni = (left /= out) % in;
        const int64_t g = (left /= in) % c->groups, s = left / c->groups;
        const int64_t y0 = a * o->stride[0] - o->padding[0] + ky * o->dilation[0];
        const int64_t x0 = b * o->stride[1] - o->padding[1] + kx * o->dilation[1];
        if (y0 < 0 || x0 < 0 || y0 >= big[0] || x0 >= big[1]) continue;
        const int64_t at[2] = { c->transposed ? a : y0, c->transposed ? b : x0 };
        const int64_t to[2] = { c->transposed ? y0 : a, c->transposed ? x0 : b };
        const int64_t row = c->transposed ? g * in + ni : g * out + no;
        const int64_t column = c->transposed ? no : ni, columns = c->transposed ? out : in;
        term t = { .sample = s, .channel = g * out + no, .position = to[0] * p + to[1] };
        t.x = ((s * c->in + g * in + ni) * h + at[0]) * v + at[1];
        t.y = (s * c->out + t.channel) * q * p + t.position;
        t.w = ((row * columns + column) * k + ky) * k + kx;
        each(user, &t);
    }
}

typedef struct conv_sums {
    const conv *c;
    const conv_run *r;
    float *sw; /* by input channel */
    float *se; /* by block and output channel */
    double *x; /* sums of dx, */
    double *w, *w_size;
} conv_sums;

static int64_t channel_of_x(const conv_sums *s, int64_t x)
{
    return x / (s->c->size * (s->c->size + 1)) % s->c->in;
}

static int64_t block_of(const conv_sums *s, const term *t)
{
    const int64_t positions = s->r->dims[2] * s->r->dims[3];
    return (t->sample * positions + t->position) / 128 * s->c->out + t->channel;
}

static void find_scales(void *user, const term *t)
{
    conv_sums *s = user;
    float *sw = &s->sw[channel_of_x(s, t->x)];
    *sw = fmaxf(*sw, fabsf(s->r->g.value[t->w]));
}

static void add_term(void *user, const term *t)
{
    conv_sums *s = user;
    const conv_run *r = s->r;
    const int64_t each = s->c->out * r->dims[2] * r->dims[3];
    const float sd = scale_of(each, r->dy + t->sample * each, 1, 63);
    const float sw = fmaxf(s->sw[channel_of_x(s, t->x)] / 127, 0x1p-126f);
    const int d = code_of(r->dy[t->y], sd, 63), w = code_of(r->g.value[t->w], sw, 127);
    const double unit = (double)sw * (double)sd;
    s->x[t->x] += d * w * unit;
    const float e = r->dy[t->y] * r->g.sx[t->sample], se = s->se[block_of(s, t)];
    const double p = (double)se * code_of(e, se, 63) * (r->g.u[t->x] - r->g.zu[t->sample]);
    s->w[t->w] += p;
    s->w_size[t->w] += fabs(p);
}

static void block_scales(conv_sums *s)
{
    const int64_t positions = s->r->dims[2] * s->r->dims[3], out = s->c->out;
    const int64_t rows = s->c->batch * positions;
    for (int64_t i = 0; i < rows * out; i++) {
        const int64_t m = i / out, n = i % out, sample = m / positions;
        const float dy = s->r->dy[(sample * out + n) * positions + m % positions];
        float *se = &s->se[m / 128 * out + n];
        *se = fmaxf(*se, fabsf(dy * s->r->g.sx[sample]));
    }
    for (int64_t i = 0; i < (rows + 127) / 128 * out; i++)
        s->se[i] = fmaxf(s->se[i] / 63, 0x1p-126f);
}

/* What codes + 128 and their correction can add up to in dx[i]: its rounding error is a share. */
static double size_of_x(const conv_sums *s, int64_t i)
{
    const int64_t each = s->c->out * s->r->dims[2] * s->r->dims[3];
    const int64_t sample = i / (s->r->n_x / s->c->batch);
    const int64_t terms = s->c->out / s->c->groups * s->c->kernel * s->c->kernel;
    const double sd = (double)scale_of(each, s->r->dy + sample * each, 1, 63);
    return (double)s->sw[channel_of_x(s, i)] * sd * (double)(terms * (63 + 128));
}

static void check_conv(const conv *c, const conv_run *r)
{
    const int64_t blocks = (c->batch * r->dims[2] * r->dims[3] + 127) / 128;
    conv_sums s = { .c = c, .r = r };
    s.sw = calloc((size_t)c->in, sizeof(float));
    s.se = calloc((size_t)(blocks * c->out), sizeof(float));
    s.x = calloc((size_t)r->n_x, sizeof(double));
    s.w = calloc((size_t)r->n_w, 2 * sizeof(double));
    s.w_size = s.w + r->n_w;
    block_scales(&s);
    every_term(c, r, find_scales, &s);
    every_term(c, r, add_term, &s);
    for (int64_t i = 0; i < r->n_x; i++) {
        TEST_EACH(fabs((double)r->g.dx[i] - s.x[i]) <= 1e-6 * size_of_x(&s, i),
                  "dx[%lld]: %g, not %g", (long long)i, (double)r->g.dx[i], s.x[i]);
    }
    for (int64_t i = 0; i < r->n_w && !c->transposed; i++) {
        TEST_EACH(fabs((double)r->g.dw[i] - s.w[i]) <= 1e-6 * s.w_size[i], "dw[%lld]: %g, not %g",
                  (long long)i, (double)r->g.dw[i], s.w[i]);
    }
    free(s.sw);
    free(s.se);
    free(s.x);
    free(s.w);
}

START_TEST(convolutions_have_the_stated_values)
{
    const int64_t rounds = test_count((test_draws){ .usual = 40, .quick = 20, .sanitized = 6 });
    for (int64_t i = 0; i < rounds; i++) {
        conv_run first = { .dy = NULL };
        const dt__kernel_set *set;
        state = (uint64_t)i;
        const conv c = random_conv();
        const uint64_t drawn = state;
        for (int k = 0; (set = dt__kernel_set_at(k)) != NULL; k++) {
            if (!dt__kernel_set_runs(set)) continue;
            dt_ctx *ctx = context(set->needs, 1 + k);
            conv_run r;
            state = drawn;
            run_conv(ctx, &c, &r);
            if (first.dy == NULL) {
                check_conv(&c, &r);
                first = r;
            } else {
                TEST_EACH(memcmp(first.g.dx, r.g.dx, (size_t)r.n_x * sizeof(float)) == 0, "%s: dx",
                          set->name);
                TEST_EACH(c.transposed ||
                              memcmp(first.g.dw, r.g.dw, (size_t)r.n_w * sizeof(float)) == 0,
                          "%s: dw", set->name);
                free_conv(&r);
            }
            dt_ctx_free(ctx);
        }
        free_conv(&first);
    }
}
END_TEST

/* ---- the choice ------------------------------------------------------------------------------ */

START_TEST(the_first_and_the_last_layer_stay_float)
{
    static const int want[3][4] = { { 0, 0, 0, 0 },
                                    { 0, DT_GRADIENTS_INT8, DT_GRADIENTS_INT8, 0 },
                                    { DT_GRADIENTS_INT8, DT_GRADIENTS_INT8, DT_GRADIENTS_INT8,
                                      0 } };
    static const char *const paths[] = { "layers.0", "layers.1", "layers.2", "head" };
    const dt_mlp_options o = { .sizes = { 5, { 8, 16, 16, 8, 4 } }, .bias = true };
    dt_ctx *ctx = context(UINT64_MAX, 1);
    dt_module *m;
    TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
    TEST_FAILS(ctx, DT_ERR_STATE, "not prepared", dt_set_backward(m, DT_BACKWARD_INT8));
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "3 is not one of the backward", dt_set_backward(m, 3));
    for (int how = DT_BACKWARD_INT8_ALL; how >= DT_BACKWARD_FLOAT; how--) {
        TEST_OK(ctx, dt_set_backward(m, how));
        for (int i = 0; i < 4; i++) {
            const dt_module *at = dt_module_at(m, paths[i]);
            ck_assert_ptr_nonnull(at);
            ck_assert_int_eq(dt_gradients_of(at), want[how][i]);
        }
    }
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* With several outputs each has a last layer, also if layers without weights follow. */
START_TEST(the_layer_of_each_output_stays_float)
{
    dt_linear_layer hidden = { .head = { .name = "hidden" }, .out = 16 };
    dt_linear_layer kind = { .head = { .name = "kind", .from = { 1, { "hidden" } } }, .out = 9 };
    dt_linear_layer part = { .head = { .name = "part", .from = { 1, { "hidden" } } }, .out = 8 };
    dt_linear_layer level = { .head = { .name = "level", .from = { 1, { "part" } } }, .out = 2 };
    dt_plain_layer soft = { .head = { .name = "soft", .from = { 1, { "kind" } } } };
    dt_list_item items[] = { { dt_layer_kind("linear"), &hidden },
                             { dt_layer_kind("linear"), &kind },
                             { dt_layer_kind("tanh"), &soft },
                             { dt_layer_kind("linear"), &part },
                             { dt_layer_kind("linear"), &level } };
    const dt_layers_options o = { .input = { 1, { NULL }, { { 1, { 8 } } } },
                                  .layers = { DT__COUNT_OF(items), items },
                                  .output = { 2, { "soft", "level" } } };
    static const char *const paths[] = { "hidden.linear", "kind.linear", "part.linear",
                                         "level.linear" };
    dt_ctx *ctx = context(UINT64_MAX, 1);
    dt_module *m;
    TEST_OK(ctx, dt_layers_create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, NULL));
    for (int how = DT_BACKWARD_INT8; how <= DT_BACKWARD_INT8_ALL; how++) {
        const int first = how == DT_BACKWARD_INT8 ? DT_GRADIENTS_FLOAT : DT_GRADIENTS_INT8;
        const int want[] = { first, DT_GRADIENTS_FLOAT, DT_GRADIENTS_INT8, DT_GRADIENTS_FLOAT };
        TEST_OK(ctx, dt_set_backward(m, how));
        for (int i = 0; i < DT__COUNT_OF(paths); i++) {
            const int is = dt_gradients_of(dt_module_at(m, paths[i]));
            ck_assert_msg(is == want[i], "%s: %d, not %d", paths[i], is, want[i]);
        }
    }
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* A classifier to which all classes are about equally likely: the gradient of the first layer lacks
 * what the head loses of the other classes. */
START_TEST(many_classes_have_the_gradients_of_floats)
{
    static const int64_t classes[] = { 10, 48, 100, 400, 3000 };
    const int64_t n = classes[_i], rows = 64, count = 24 * 32;
    const dt_mlp_options o = { .sizes = { 4, { 24, 32, 32, n } }, .bias = true };
    dt_ctx *ctx = context(UINT64_MAX, 2);
    dt_tensor *x, *labels, *w;
    dt_tape *t;
    dt_module *m;
    float *gradient[2];
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
    TEST_OK(ctx, dt_fill_uniform(dt_param(m, "head.weight"), 0, 0.1));
    TEST_OK(ctx, dt_prepare(m, NULL));
    w = dt_param(m, "layers.0.weight");
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ rows, 24 }, &x));
    TEST_OK(ctx, dt_fill_uniform(x, -1, 1));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 1, &rows, &labels));
    for (int64_t i = 0; i < rows; i++) ((int32_t *)dt_data_mut(labels))[i] = (int32_t)(i * 37 % n);
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_set_backward(m, i == 0 ? DT_BACKWARD_FLOAT : DT_BACKWARD_INT8_ALL));
        dt_tape_reset(t);
        dt_zero_grad(m);
        dt_tensor *loss = dt_cross_entropy(t, dt_forward(t, m, x), labels, NULL);
        TEST_OK(ctx, dt_backward(t, loss, NULL));
        gradient[i] = copy_of(dt_data(dt_grad(w)), count, sizeof(float));
    }
    const double c = cosine(gradient[0], gradient[1], count);
    ck_assert_msg(c > 0.98, "%lld classes: a cosine of %g", (long long)n, c);
    free(gradient[0]);
    free(gradient[1]);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_int8_backward_suite(void)
{
    Suite *s = suite_create("int8_backward");
    TCase *c = tcase_create("int8_backward");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, golden);
    tcase_add_test(c, gradients_have_the_stated_values);
    tcase_add_test(c, the_layer_of_each_output_stays_float);
    tcase_add_loop_test(c, many_classes_have_the_gradients_of_floats, 0, 5);
    tcase_add_test(c, long_layers_have_the_stated_values);
    tcase_add_test(c, every_set_and_number_of_threads_has_the_same_bits);
    tcase_add_test(c, forward_keeps_its_bits);
    tcase_add_test(c, float_activations_have_a_float_dw);
    tcase_add_test(c, what_is_not_finite_stays_so);
    tcase_add_test(c, convolutions_have_the_stated_values);
    tcase_add_test(c, the_first_and_the_last_layer_stay_float);
    suite_add_tcase(s, c);
    return s;
}
