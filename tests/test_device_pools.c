/* Pools of integer networks with windows of every kind: kernels, strides, gaps, padding that counts
 * or not, windows past the image, and padding below all values in front of a maximum. The codes are
 * those of the op of floats, the same when the model is converted, in the .tflite file and in C.
 * With DETENT_EXPORTS=FOLDER the files stay there, integers-pool-N.tflite beside
 * integers-pool-N.in.safetensors and integers-pool-N.out.safetensors, for
 * scripts/exports/tflite_check.py. */
#include "c_folder.h"
#include "testing.h"
#include "tflite_files.h"

#include "core/core.h"

#include <detent/experimental/device.h>
#include <detent/experimental/nn.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 200, .quick = 80, .sanitized = 20 };

/* ---- drawing --------------------------------------------------------------------------------- */

typedef struct windows {
    dt_pool_options pool;
    dt_pad_options pad; /* in front of a maximum; no pads: none */
    bool max;
    int64_t channels, side[2];
} windows;

static int64_t below(uint64_t *state, int64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)n);
}

/* Whether each window has a pixel, as the op requires. */
static bool is_valid(const windows *w)
{
    for (int d = 0; d < 2; d++) {
        const int64_t gap = w->pool.dilation[d], window = gap * (w->pool.kernel[d] - 1) + 1;
        const int64_t pads =
            w->pad.pads.n == 0 ? 0 : w->pad.pads.v[2 - 2 * d] + w->pad.pads.v[3 - 2 * d];
        const int64_t n = w->side[d] + pads, padding = w->pool.padding[d];
        if (padding > window / 2 || window > n + 2 * padding) return false;
        if (gap > 1 && n < window) return false;
    }
    return true;
}

static windows draw(uint64_t *state)
{
    static const double values[] = { -3e38, -INFINITY, -1e4, -0.25 };
    windows w;
    do {
        w = (windows){ .pool = dt_pool_defaults(), .max = below(state, 2) == 0 };
        w.channels = 1 + below(state, 3);
        const bool gaps = w.max && below(state, 3) == 0;
        const bool same = below(state, 2) == 0; /* in both directions */
        w.pool.ceil_mode = below(state, 2) == 0;
        w.pool.count_include_pad = below(state, 2) == 0;
        if (w.max && below(state, 2) == 0) w.pad.pads.n = 4;
        w.pad.value = values[below(state, 4)];
        for (int d = 0; d < 2; d++) {
            w.side[d] = 1 + below(state, 11);
            w.pool.kernel[d] = same && d > 0 ? w.pool.kernel[0] : 1 + below(state, 5);
            w.pool.stride[d] = same && d > 0 ? w.pool.stride[0] : below(state, 5);
            w.pool.padding[d] = same && d > 0 ? w.pool.padding[0] : below(state, 3);
            w.pool.dilation[d] = gaps ? 1 + below(state, 3) : 1;
        }
        for (int i = 0; i < w.pad.pads.n; i++) w.pad.pads.v[i] = below(state, 3);
        /* a file with a cube does not say which dimension is that of channels */
    } while (!is_valid(&w) || (w.side[0] == w.channels && w.side[1] == w.channels));
    return w;
}

static const char *text_of(const windows *w)
{
    static char text[256];
    const dt_pool_options *o = &w->pool;
    const int64_t *p = w->pad.pads.v;
    snprintf(text, sizeof text,
             "%s [%lld, %lld, %lld] kernel %lld %lld stride %lld %lld padding %lld %lld gap %lld "
             "%lld ceil %d counts %d pads %d: %lld %lld %lld %lld of %g",
             w->max ? "max" : "mean", (long long)w->channels, (long long)w->side[0],
             (long long)w->side[1], (long long)o->kernel[0], (long long)o->kernel[1],
             (long long)o->stride[0], (long long)o->stride[1], (long long)o->padding[0],
             (long long)o->padding[1], (long long)o->dilation[0], (long long)o->dilation[1],
             (int)o->ceil_mode, (int)o->count_include_pad, w->pad.pads.n, (long long)p[0],
             (long long)p[1], (long long)p[2], (long long)p[3], w->pad.value);
    return text;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static dt_tensor *input_of(dt_ctx *ctx, const windows *w)
{
    const int64_t dims[] = { 2, w->channels, w->side[0], w->side[1] };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_fill_uniform(x, -1, 1.7));
    return x;
}

/* Maxima are the codes of the op of floats; means are its values, rounded to the nearest code. */
static void check_op(dt_ctx *ctx, const windows *w)
{
    const int64_t one = 1;
    const float s = 0.011f;
    const int8_t z = -37;
    dt_device_range r = { .ends = NULL };
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = input_of(ctx, w);
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &one, &s, &r.scale));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I8, 1, &one, &z, &r.zero_point));
    dt_tensor *codes = dt_device_quantize(t, x, &r), *floats = dt_device_dequantize(t, codes);
    if (w->pad.pads.n > 0) {
        codes = dt_device_pad(t, codes, &w->pad);
        floats = dt_pad(t, floats, &w->pad);
    }
    dt_tensor *y = w->max ? dt_device_max_pool2d(t, codes, &w->pool)
                          : dt_device_avg_pool2d(t, codes, &w->pool);
    dt_tensor *want =
        w->max ? dt_max_pool2d(t, floats, &w->pool, NULL) : dt_avg_pool2d(t, floats, &w->pool);
    y = dt_device_dequantize(t, y);
    TEST_OK(ctx, dt_tape_status(t));
    const float *got = dt_data(y), *real = dt_data(want);
    const bool fills = w->pad.pads.n > 0 && w->pad.value > -1; /* it is rounded, too */
    for (int64_t i = 0; i < dt_count(y); i++) {
        const double lowest = (-128 - z) * (double)s;
        const double v = fmax((double)real[i], lowest), off = fabs((double)got[i] - v);
        const double bound = w->max && !fills ? 1e-6 : 0.5001 * (double)s;
        TEST_EACH(off <= bound, "%s: value %lld is %g, not %g", text_of(w), (long long)i,
                  (double)got[i], v);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(r.scale);
    dt_tensor_free(r.zero_point);
}

START_TEST(codes_are_those_of_floats)
{
    dt_ctx *ctx;
    uint64_t state = 11;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int64_t i = 0; i < 5 * test_count(draws); i++) {
        const windows w = draw(&state);
        check_op(ctx, &w);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- networks -------------------------------------------------------------------------------- */

static void add(dt_module *m, const char *name, dt_module *part)
{
    TEST_OK(dt_module_ctx(m), dt_module_add(m, name, part));
}

/* A convolution, what is drawn, and a flattened result. */
static dt_module *network_of(dt_ctx *ctx, const windows *w)
{
    dt_module *m, *part;
    const dt_conv_layer conv = { w->channels, w->channels, { 1, 1 }, true, dt_conv_defaults() };
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_conv2d_create(ctx, &conv, &part));
    add(m, "conv", part);
    if (w->pad.pads.n > 0) {
        TEST_OK(ctx, dt_pad_create(ctx, &w->pad, &part));
        add(m, "pad", part);
    }
    TEST_OK(ctx, w->max ? dt_max_pool2d_create(ctx, &w->pool, &part)
                        : dt_avg_pool2d_create(ctx, &w->pool, &part));
    add(m, "pool", part);
    TEST_OK(ctx, dt_flatten_create(ctx, &part));
    add(m, "flat", part);
    return m;
}

static dt_tensor *forward(dt_ctx *ctx, dt_module *m, dt_tensor *x, bool training)
{
    dt_tape *t;
    dt_tensor *copy;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, training);
    const dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, dt_rank(y), (int64_t[]){ dt_dim(y, 0), dt_dim(y, 1) },
                                dt_data(y), &copy));
    dt_tape_free(t);
    return copy;
}

static void check_network(dt_ctx *ctx, const windows *w, int64_t number, bool compiles)
{
    char folder[TEST_PATH], stem[TEST_PATH + 32];
    const char *keep = getenv("DETENT_EXPORTS");
    const dt_shape shape = { 3, { w->channels, w->side[0], w->side[1] } };
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    o.inputs = &shape;
    o.n_inputs = 1;
    dt_module *m = network_of(ctx, w);
    dt_tensor *x = input_of(ctx, w);
    const dt_status s = dt_prepare(m, &o);
    TEST_EACH(s == DT_OK, "%s: %s", text_of(w), dt_error(ctx));
    dt_tensor_free(forward(ctx, m, x, true));
    dt_tensor *want = forward(ctx, m, x, false);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_tensor *got = forward(ctx, m, x, false);
    TEST_EACH(memcmp(dt_data(want), dt_data(got), (size_t)dt_count(got) * sizeof(float)) == 0,
              "%s: converted, it has other bits", text_of(w));
    if (keep == NULL) test_folder(folder);
    snprintf(stem, sizeof stem, "%s/integers-pool-%lld", keep != NULL ? keep : folder,
             (long long)number);
    tflite_subject lite = { .m = m, .x = &x, .n_in = 1 };
    const double apart = tflite_check(&lite, stem, keep != NULL);
    TEST_EACH(apart == 0, "%s: %g apart in %s", text_of(w), apart, stem);
    if (compiles) c_check_model(m, x, "gcc " C_STRICT " -O1", text_of(w));
    dt_tensor_free(want);
    dt_tensor_free(got);
    dt_tensor_free(x);
    dt_module_free(m);
}

START_TEST(networks_of_pools)
{
    dt_ctx *ctx;
    uint64_t state = 5;
    int64_t gaps = 0, counts = 0, pads = 0;
    const bool compiler = test_has_compiler("gcc");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int64_t i = 0; i < test_count(draws); i++) {
        const windows w = draw(&state);
        /* one of each text of C */
        const bool gap = w.max && (w.pool.dilation[0] > 1 || w.pool.dilation[1] > 1);
        const bool counted =
            !w.max && w.pool.count_include_pad && w.pool.padding[0] + w.pool.padding[1] > 0;
        const bool first =
            (gap && gaps++ < 2) || (counted && counts++ < 2) || (w.pad.pads.n > 0 && pads++ < 2);
        check_network(ctx, &w, i, compiler && first);
    }
    ck_assert(test_count(draws) < 40 || (gaps > 0 && counts > 0 && pads > 0));
    dt_ctx_free(ctx);
}
END_TEST

/* A value below 0 that an op other than max_pool2d reads would leave the range. */
START_TEST(padding_that_is_refused)
{
    dt_ctx *ctx;
    uint64_t state = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const dt_shape shape = { 3, { 2, 6, 6 } };
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    o.inputs = &shape;
    o.n_inputs = 1;
    for (int i = 0; i < 3; i++) {
        windows w = draw(&state);
        w.channels = 2;
        w.side[0] = w.side[1] = 6;
        w.pool = dt_pool_defaults();
        w.max = i == 2;
        w.pad = (dt_pad_options){ .pads = { 4, { 1, 0, 2, 1 } },
                                  .value = i == 0   ? -3e38
                                           : i == 1 ? -0.1
                                                    : 0.5 };
        dt_module *m = network_of(ctx, &w);
        ck_assert_int_eq(dt_prepare(m, &o), DT_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(dt_error(ctx), "pad of pad: only zeros can be padded") != NULL, "%s",
                      dt_error(ctx));
        dt_module_free(m);
    }
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_device_pools_suite(void)
{
    Suite *s = suite_create("device_pools");
    TCase *c = tcase_create("pools");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, codes_are_those_of_floats);
    tcase_add_test(c, networks_of_pools);
    tcase_add_test(c, padding_that_is_refused);
    suite_add_tcase(s, c);
    return s;
}
