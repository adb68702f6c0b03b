/* The arithmetic of integer networks (numerics §8) against the reference values of CMSIS-NN: every
 * case of golden/device, every instruction set, one to four threads. */
#include "device_golden.h"

#include "core/core.h"
#include "core/tensor.h"
#include "kernels/device_loops.h"
#include "kernels/convolution/qconv.h"
#include "kernels/sets.h"
#include "ops/device/device_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_ctx *context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

/* ---- building blocks ------------------------------------------------------------------------- */

static void check_blocks(device_golden *g)
{
    int64_t n;
    device_at(g, "scales");
    const double *real = device_data(g, "real", DT_F64, &n);
    const int32_t *m = device_data(g, "multiplier", DT_I32, NULL);
    const int32_t *e = device_data(g, "shift", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) {
        const dt__multiplier by = dt__multiplier_of(real[i]);
        ck_assert_msg(by.m == m[i] && by.shift == e[i], "%.17g: %d, %d", real[i], by.m, by.shift);
    }
    g->compared += 2 * n;
    device_at(g, "values");
    const int32_t *v = device_data(g, "value", DT_I32, &n),
                  *r = device_data(g, "result", DT_I32, NULL);
    m = device_data(g, "multiplier", DT_I32, NULL);
    e = device_data(g, "shift", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) {
        ck_assert_int_eq(dt__requantize(v[i], (dt__multiplier){ m[i], e[i] }), r[i]);
    }
    g->compared += n;
    device_at(g, "high_mult");
    v = device_data(g, "a", DT_I32, &n);
    e = device_data(g, "b", DT_I32, NULL);
    r = device_data(g, "result", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(dt__high_mult(v[i], e[i]), r[i]);
    g->compared += n;
    device_at(g, "divide");
    v = device_data(g, "a", DT_I32, &n);
    e = device_data(g, "exponent", DT_I32, NULL);
    r = device_data(g, "result", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(dt__div_pow2(v[i], e[i]), r[i]);
    g->compared += n;
    device_at(g, "exp");
    v = device_data(g, "a", DT_I32, &n);
    r = device_data(g, "result", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(dt__device_exp(v[i]), r[i]);
    g->compared += n;
    device_at(g, "reciprocal");
    v = device_data(g, "a", DT_I32, &n);
    r = device_data(g, "result", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(dt__device_reciprocal(v[i]), r[i]);
    g->compared += n;
}

START_TEST(blocks)
{
    dt_ctx *ctx = context(1);
    device_golden g;
    if (device_open(ctx, "requantize", &g)) {
        check_blocks(&g);
        device_close(&g);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- layers ---------------------------------------------------------------------------------- */

enum { FULLY_CONNECTED, CONVOLUTION, DEPTHWISE, TRANSPOSED };

/* A layer of a file, as the kernel takes it. */
typedef struct layer {
    dt__conv conv;
    bool transposed;
    int64_t x[4], y[4]; /* [n, h, w, c] */
    int64_t rows, columns;
    dt__panel_layout layout;
    void *panels;
    int8_t *codes; /* [rows][columns] */
    uint8_t *u;
    float *sx;
    int32_t *zu, *offset;
    dt__multiplier *by;
    int zero, least, most;
} layer;

static dt__coding_range range_of(device_golden *g, const char *scale, const char *zero)
{
    const float *s = device_data(g, scale, DT_F32, NULL);
    return (dt__coding_range){ s[0], (int)device_number(g, zero, 0) };
}

/* Multipliers and clamps follow from scales as the file has them. */
static void check_parameters(device_golden *g, int kind, layer *l)
{
    int64_t n, scales;
    const dt__coding_range x = range_of(g, "input_scale", "zx"),
                           y = range_of(g, "output_scale", "zy");
    const float *w = device_data(g, "weight_scale", DT_F32, &scales);
    const int32_t *m = device_data(g, "multiplier", DT_I32, &n);
    const int32_t *e = device_data(g, "shift", DT_I32, NULL);
    for (int64_t o = 0; o < n; o++) {
        const float product = x.scale * w[o];
        const double real = kind == FULLY_CONNECTED && scales == 1
                                ? (double)product / (double)y.scale
                                : (double)x.scale * (double)w[o % scales] / (double)y.scale;
        const dt__multiplier by = dt__multiplier_of(real);
        ck_assert_msg(by.m == m[o] && by.shift == e[o], "%s: multiplier %lld", g->name,
                      (long long)o);
    }
    for (int64_t o = 0; o < l->rows; o++) l->by[o] = (dt__multiplier){ m[o % n], e[o % n] };
    const int activation = device_says(g, "act", "relu")    ? DT_ACT_RELU
                           : device_says(g, "act", "relu6") ? DT_ACT_RELU6
                                                            : DT_ACT_NONE;
    dt__device_clamps(activation, y, &l->least, &l->most);
    if (!device_says(g, "act", "relu_n1_to_1")) {
        ck_assert_int_eq(l->least, device_number(g, "amin", 0));
        ck_assert_int_eq(l->most, device_number(g, "amax", 0));
    }
    l->least = (int)device_number(g, "amin", 0);
    l->most = (int)device_number(g, "amax", 0);
    l->zero = y.zero;
    g->compared += 2 * n + 2;
}

static void find_geometry(device_golden *g, int kind, layer *l)
{
#define NUMBER(key, otherwise) device_number(g, key, otherwise)
    const int64_t n = NUMBER("N", 1), in = NUMBER("C", 0), out = NUMBER("O", 0);
    if (kind == FULLY_CONNECTED) {
        const int64_t batch = NUMBER("B", 1), k = NUMBER("K", 0), rows = NUMBER("N", 0);
        l->conv = (dt__conv){ batch,    k,        rows,     1,     { 1, 1 },
                              { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0 }, { 1, 1 } };
        memcpy(l->x, (int64_t[]){ batch, 1, 1, k }, sizeof l->x);
        memcpy(l->y, (int64_t[]){ batch, 1, 1, rows }, sizeof l->y);
        l->rows = rows;
        l->columns = k;
        return;
    }
    memcpy(l->x, (int64_t[]){ n, NUMBER("H", 1), NUMBER("W", 1), in }, sizeof l->x);
    memcpy(l->y, (int64_t[]){ n, NUMBER("OH", 1), NUMBER("OW", 1), out }, sizeof l->y);
    const int64_t groups = kind == DEPTHWISE ? in : NUMBER("g", 1);
    l->transposed = kind == TRANSPOSED;
    const int64_t *x = l->transposed ? l->y : l->x, *y = l->transposed ? l->x : l->y;
    l->conv = (dt__conv){ n,
                          x[3],
                          y[3],
                          groups,
                          { x[1], x[2] },
                          { y[1], y[2] },
                          { NUMBER("KH", 1), NUMBER("KW", 1) },
                          { NUMBER("sh", 1), NUMBER("sw", 1) },
                          { NUMBER("ph", 0), NUMBER("pw", 0) },
                          { NUMBER("dh", 1), NUMBER("dw", 1) } };
    l->rows = out;
    l->columns = in / groups * dt__conv_taps(&l->conv);
#undef NUMBER
}

/* Weights to [rows][channel][tap]. */
static void read_weights(device_golden *g, int kind, layer *l)
{
    int64_t n;
    const int8_t *w = device_data(g, "weights", DT_I8, &n);
    const int64_t taps = dt__conv_taps(&l->conv), channels = l->columns / taps;
    ck_assert_int_eq(n, l->rows * l->columns);
    l->codes = malloc((size_t)n + 1);
    for (int64_t o = 0; o < l->rows; o++) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t t = 0; t < taps; t++) {
                const int64_t from =
                    kind == DEPTHWISE ? t * l->rows + o : (o * taps + t) * channels + c;
                l->codes[o * l->columns + c * taps + t] = w[from];
            }
        }
    }
    const dt__panel_shape shape = { .rows = l->rows,
                                    .columns = l->columns,
                                    .group = l->columns,
                                    .bits = (int)device_number(g, "bits", 8) };
    ck_assert(dt__panel_layout_of(&shape, &l->layout));
    float *ones = malloc((size_t)l->rows * sizeof *ones);
    for (int64_t o = 0; o < l->rows; o++) ones[o] = 1;
    l->panels = aligned_alloc(64, (l->layout.bytes + 63) / 64 * 64);
    dt__panel_pack(&l->layout, &(dt__code_matrix){ l->codes, l->columns, ones, 1 }, l->panels);
    free(ones);
}

static void read_layer(device_golden *g, int kind, layer *l)
{
    int64_t n;
    *l = (layer){ 0 };
    find_geometry(g, kind, l);
    read_weights(g, kind, l);
    l->by = malloc((size_t)l->rows * sizeof *l->by);
    l->offset = malloc((size_t)l->rows * sizeof *l->offset);
    check_parameters(g, kind, l);
    const int zx = (int)device_number(g, "zx", 0);
    const int32_t *bias = device_data(g, "bias", DT_I32, NULL);
    for (int64_t o = 0; o < l->rows; o++) {
        int64_t sum = 0;
        for (int64_t k = 0; k < l->columns; k++) sum += l->codes[o * l->columns + k];
        l->offset[o] = (int32_t)(uint32_t)((bias == NULL ? 0 : bias[o]) - sum * (zx + 128));
    }
    const int8_t *x = device_data(g, "input", DT_I8, &n);
    l->u = malloc((size_t)n + 64);
    device_to_planes(x, l->x, (int8_t *)l->u);
    for (int64_t i = 0; i < n; i++) l->u[i] = (uint8_t)((int8_t)l->u[i] + 128);
    l->sx = malloc((size_t)l->x[0] * sizeof *l->sx);
    l->zu = malloc((size_t)l->x[0] * sizeof *l->zu);
    for (int64_t i = 0; i < l->x[0]; i++) l->sx[i] = 1, l->zu[i] = zx + 128;
}

static void free_layer(layer *l)
{
    free(l->codes);
    free(l->panels);
    free(l->by);
    free(l->offset);
    free(l->u);
    free(l->sx);
    free(l->zu);
}

static void run_layer(dt_ctx *ctx, const dt__kernels *kernels, device_golden *g, const layer *l)
{
    const int64_t image = l->y[1] * l->y[2] * l->y[3], n = l->y[0] * image;
    uint8_t *u = malloc((size_t)n + 64);
    int8_t *y = malloc((size_t)n + 1);
    const dt__qconv_codes to = { .offset = l->offset,
                                 .by = l->by,
                                 .zero = l->zero,
                                 .least = l->least,
                                 .most = l->most,
                                 .u = u,
                                 .ldu = image };
    dt__qconv q = { .conv = &l->conv,
                    .transposed = l->transposed,
                    .layout = &l->layout,
                    .panels = l->panels,
                    .u = l->u,
                    .ldu = l->x[1] * l->x[2] * l->x[3],
                    .sx = l->sx,
                    .zu = l->zu,
                    .codes = &to,
                    .threads = dt_threads(ctx) };
    q.scratch = aligned_alloc(64, (dt__qconv_scratch(&q) + 63) / 64 * 64);
    for (int general = 0; general < 2; general++) {
        memset(u, 99, (size_t)n);
        dt__team *const threads = dt__threads_enter(ctx);
        if (general) dt__qconv_run_general(kernels, &q);
        else dt__qconv_run(kernels, &q);
        dt__threads_leave(threads);
        for (int64_t i = 0; i < n; i++) u[i] = (uint8_t)(u[i] - 128);
        device_from_planes((const int8_t *)u, l->y, y);
        device_equal(g, "output", y);
        if (general == 0) continue;
        g->compared -= n;
    }
    free(q.scratch);
    free(u);
    free(y);
}

static void check_layers(const char *name, int kind)
{
    for (int threads = 1; threads <= 4; threads++) {
        dt_ctx *ctx = context(threads);
        device_golden g;
        if (!device_open(ctx, name, &g)) {
            dt_ctx_free(ctx);
            return;
        }
        int64_t cases = 0;
        const dt__kernel_set *set;
        for (; device_case(&g, cases); cases++) {
            layer l;
            read_layer(&g, kind, &l);
            for (int s = 0; (set = dt__kernel_set_at(s)) != NULL; s++) {
                if (!dt__kernel_set_runs(set)) continue;
                run_layer(ctx, set->f32, &g, &l);
                dt_tensor_free(g.held[--g.n_held]);
                dt_tensor_free(g.held[--g.n_held]);
            }
            free_layer(&l);
        }
        if (threads == 1)
            printf("%s: %lld cases, %lld elements of all sets equal\n", name, (long long)cases,
                   (long long)g.compared);
        ck_assert_int_gt(cases, 0);
        device_close(&g);
        dt_ctx_free(ctx);
    }
}

START_TEST(layers)
{
    static const char *const names[] = { "fully_connected", "convolution", "depthwise",
                                         "transposed" };
    check_layers(names[_i], _i);
}
END_TEST

/* ---- the others ------------------------------------------------------------------------------ */

static uint8_t *biased(const int8_t *x, int64_t n)
{
    uint8_t *u = malloc((size_t)n + 1);
    for (int64_t i = 0; i < n; i++) u[i] = (uint8_t)(x[i] + 128);
    return u;
}

static void compare(device_golden *g, const char *name, uint8_t *u, int64_t n)
{
    for (int64_t i = 0; i < n; i++) u[i] = (uint8_t)(u[i] - 128);
    device_equal(g, name, (const int8_t *)u);
}

static void check_zip(device_golden *g)
{
    int64_t n;
    const float *scale = device_data(g, "scales", DT_F32, NULL);
    const int8_t *first = device_data(g, "a", DT_I8, &n), *second = device_data(g, "b", DT_I8, &n);
    uint8_t *a = biased(first, n), *b = biased(second, n);
    uint8_t *y = malloc((size_t)n + 1);
    const dt__device_zip z = { .n = n,
                               .a = a,
                               .b = b,
                               .zero_a = (int)device_number(g, "z1", 0),
                               .zero_b = (int)device_number(g, "z2", 0),
                               .zero = (int)device_number(g, "zy", 0),
                               .least = (int)device_number(g, "amin", 0),
                               .most = (int)device_number(g, "amax", 0),
                               .y = y };
    dt__device_add add;
    dt__multiplier mul;
    if (device_says(g, "op", "add")) {
        ck_assert(dt__device_add_make(scale[0], scale[1], scale[2], &add));
        ck_assert_int_eq(add.a.m, device_number(g, "m1", 0));
        ck_assert_int_eq(add.b.shift, device_number(g, "e2", 0));
        ck_assert_int_eq(add.y.m, device_number(g, "my", 0));
        dt__device_add_codes(&z, &add);
    } else {
        ck_assert(dt__device_mul_make(scale[0], scale[1], scale[2], &mul));
        ck_assert_int_eq(mul.m, device_number(g, "my", 0));
        ck_assert_int_eq(mul.shift, device_number(g, "ey", 0));
        dt__device_mul_codes(&z, mul);
    }
    compare(g, "output", y, n);
    free(a);
    free(b);
    free(y);
}

static void check_softmax(device_golden *g)
{
    int64_t n;
    const float *scale = device_data(g, "input_scale", DT_F32, NULL);
    const int8_t *input = device_data(g, "input", DT_I8, &n);
    uint8_t *x = biased(input, n), *y = malloc((size_t)n + 1);
    char beta[64];
    dt__device_softmax s;
    device_word(g, "beta", beta);
    ck_assert(dt__device_softmax_make((double)scale[0] * (double)strtof(beta, NULL), &s));
    ck_assert_int_eq(s.by.m, device_number(g, "multiplier", 0));
    ck_assert_int_eq(s.by.shift, device_number(g, "left_shift", 0));
    ck_assert_int_eq(s.least, device_number(g, "diff_min", 0));
    dt__device_softmax_codes(&s, device_number(g, "rows", 1), device_number(g, "n", 1), x, y);
    compare(g, "output", y, n);
    free(x);
    free(y);
}

static void clamp_planes(const device_golden *g, const uint8_t *u, int64_t n, int8_t *y)
{
    const int amin = (int)device_number(g, "amin", 0), amax = (int)device_number(g, "amax", 0);
    for (int64_t i = 0; i < n; i++) {
        const int code = u[i] - 128;
        y[i] = (int8_t)(code < amin ? amin : code > amax ? amax : code);
    }
}

static void check_pool(device_golden *g)
{
    int64_t n;
    const int8_t *input = device_data(g, "input", DT_I8, &n);
    const int64_t x[4] = { device_number(g, "N", 1), device_number(g, "H", 1),
                           device_number(g, "W", 1), device_number(g, "C", 1) };
    const int64_t y[4] = { x[0], device_number(g, "OH", 1), device_number(g, "OW", 1), x[3] };
    const int64_t m = y[0] * y[1] * y[2] * y[3];
    int8_t *planes = malloc((size_t)n + 1), *out = malloc((size_t)m + 1);
    int8_t *planes_of_y = malloc((size_t)m + 1);
    device_to_planes(input, x, planes);
    uint8_t *u = biased(planes, n), *to = malloc((size_t)m + 1);
    const dt__windows p = { .planes = x[0] * x[3],
                            .in = { x[1], x[2] },
                            .out = { y[1], y[2] },
                            .kernel = { device_number(g, "KH", 1), device_number(g, "KW", 1) },
                            .stride = { device_number(g, "sh", 1), device_number(g, "sw", 1) },
                            .padding = { device_number(g, "ph", 0), device_number(g, "pw", 0) },
                            .dilation = { 1, 1 },
                            .x = u,
                            .y = to };
    dt__device_avg_codes(&p, 0);
    clamp_planes(g, to, m, planes_of_y);
    device_from_planes(planes_of_y, y, out);
    device_equal(g, "avg", out);
    /* maxima are those of floats, as the op computes them */
    float *numbers = malloc((size_t)n * sizeof *numbers + 1),
          *most = malloc((size_t)m * sizeof *most + 1);
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)u[i];
    dt__windows of = p;
    of.x = numbers;
    of.y = most;
    g->ctx->kernels[DT_F32]->max_pool(&of);
    for (int64_t i = 0; i < m; i++) to[i] = (uint8_t)most[i];
    clamp_planes(g, to, m, planes_of_y);
    device_from_planes(planes_of_y, y, out);
    device_equal(g, "max", out);
    free(numbers);
    free(most);
    free(planes);
    free(planes_of_y);
    free(out);
    free(u);
    free(to);
}

START_TEST(others)
{
    static const struct {
        const char *name;
        void (*check)(device_golden *g);
    } kinds[] = { { "elementwise", check_zip },
                  { "softmax", check_softmax },
                  { "pooling", check_pool } };
    for (int threads = 1; threads <= 4; threads += 3) {
        dt_ctx *ctx = context(threads);
        device_golden g;
        if (device_open(ctx, kinds[_i].name, &g)) {
            int64_t i = 0;
            dt__team *const team = dt__threads_enter(ctx);
            for (; device_case(&g, i); i++) kinds[_i].check(&g);
            dt__threads_leave(team);
            if (threads == 1)
                printf("%s: %lld cases, %lld elements equal\n", kinds[_i].name, (long long)i,
                       (long long)g.compared);
            ck_assert_int_gt(i, 0);
            device_close(&g);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

Suite *test_device_kernels_suite(void)
{
    Suite *s = suite_create("device_kernels");
    TCase *c = tcase_create("golden");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, blocks);
    tcase_add_loop_test(c, layers, 0, 4);
    tcase_add_loop_test(c, others, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
