/* Row maps: a transposed convolution's weight is cut by output channel. Codes, dequantized values,
 * masks and rounders see rows of outputs; the weight's memory is not changed. Reference values:
 * golden/quant/conv_and_sample. */
#include "testing.h"

#include <detent/io.h>
#include <detent/ops.h>

#include "autograd/codes.h"
#include "core/tensor.h"
#include "kernels/convolution/row_map.h"
#include "qat/quantized.h"

#include <stdio.h>
#include <stdlib.h>

static dt_ctx *context(void)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

START_TEST(test_maps)
{
    dt__row_map map;
    const int64_t dims[4] = { 8, 3, 3, 2 }, huge[3] = { 4, INT64_MAX / 2, 1 };
    ck_assert(dt__row_map_of(2, 4, dims, &map));
    ck_assert_int_eq(dt__mapped_rows(&map), 6);
    ck_assert_int_eq(dt__mapped_columns(&map), 24);
    ck_assert(dt__row_map_of(0, 4, dims, &map) && !dt__is_mapped(&map));
    ck_assert(!dt__row_map_of(3, 4, dims, &map));
    ck_assert(!dt__row_map_of(-2, 4, dims, &map));
    ck_assert(!dt__row_map_of(2, 1, dims, &map));
    ck_assert(!dt__row_map_of(4, 3, huge, &map));
}
END_TEST

/* w[g in + i][o][k] is row g out + o, column i kernel + k; scattering is the way back. */
START_TEST(test_gather)
{
    const int64_t dims[3] = { 6, 2, 5 };
    float w[60], rows[60], back[60];
    dt__row_map m;
    ck_assert(dt__row_map_of(3, 3, dims, &m));
    for (int i = 0; i < 60; i++) w[i] = (float)i;
    dt__rows_gather(&m, w, rows);
    for (int64_t n = 0; n < 60; n++) {
        const int64_t row = n / 10, column = n % 10;
        const int64_t g = row / 2, o = row % 2, i = column / 5, k = column % 5;
        TEST_EACH(rows[n] == (float)(((g * 2 + i) * 2 + o) * 5 + k), "element %d", (int)n);
    }
    dt__rows_scatter(&m, rows, back);
    ck_assert_mem_eq(back, w, sizeof w);
}
END_TEST

/* ---- reference values ------------------------------------------------------------------------ */

static int64_t number(const char *settings, const char *key)
{
    char padded[512], wanted[64];
    snprintf(padded, sizeof padded, " %s", settings);
    snprintf(wanted, sizeof wanted, " %s=", key);
    const char *at = strstr(padded, wanted);
    return at == NULL ? 0 : atoll(at + strlen(wanted));
}

static dt_tensor *load(dt_file *f, const char *name, const char *what)
{
    char full[256];
    dt_tensor *x;
    snprintf(full, sizeof full, "%s/%s", name, what);
    TEST_OK(NULL, dt_file_load(f, full, DT_F32, &x));
    return x;
}

static void assert_same(const dt_tensor *got, const dt_tensor *wanted, const char *name)
{
    const float *a = dt__data(got), *b = dt__data(wanted);
    ck_assert_int_eq(dt_count(got), dt_count(wanted));
    for (int64_t i = 0; i < dt_count(got); i++) {
        TEST_EACH(a[i] == b[i], "%s: element %d is %g, not %g", name, (int)i, a[i], b[i]);
    }
}

/* The dequantized value of a weight, and its gradient with `clipped`. */
static void compare(dt_ctx *ctx, dt_file *f, const char *name, const char *settings)
{
    char input[64];
    sscanf(settings, "input=%63s", input);
    dt__fq fq = { .quant = dt_weight_quant_defaults() };
    fq.quant.bits = number(settings, "bits");
    fq.quant.scheme = strstr(settings, "asymmetric") != NULL ? DT_SCHEME_ASYMMETRIC
                      : strstr(settings, "no_clip") != NULL  ? DT_SCHEME_SYMMETRIC_NO_CLIP
                                                             : DT_SCHEME_SYMMETRIC;
    fq.quant.granularity =
        strstr(settings, "granularity=group") != NULL ? DT_PER_GROUP : DT_PER_CHANNEL;
    fq.quant.group_size = number(settings, "group");
    fq.quant.ste = DT_STE_CLIPPED;
    dt_tensor *w = load(f, input, "x"), *dy = load(f, input, "dy"), *image;
    const int64_t groups = number(settings, "transposed") * number(settings, "groups");
    ck_assert(dt__row_map_of(groups, w->rank, w->dims, &fq.map));
    TEST_OK(ctx, dt_set_requires_grad(w, true));
    TEST_OK(ctx, dt__fq_wrap(w, &fq));
    TEST_OK(ctx, dt_dequantize(w, &image));
    dt_tensor *wanted = load(f, name, "image"), *dw = load(f, name, "dx");
    assert_same(image, wanted, name);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_mul(t, w, dy), NULL), NULL));
    const float *got = dt__data(w->grad), *mask = dt__data(dw), *d = dt__data(dy);
    for (int64_t i = 0; i < w->count; i++) {
        TEST_EACH(got[i] == (mask[i] != 0 ? d[i] : 0), "%s: gradient %d", name, (int)i);
    }
    dt_tape_free(t);
    dt_tensor *all[] = { w, dy, image, wanted, dw };
    for (int i = 0; i < 5; i++) dt_tensor_free(all[i]);
}

START_TEST(test_golden_weights)
{
    static const char *const names[] = {
        "conv/4.symmetric.channel",
        "conv/4.symmetric.g8",
        "conv/8.asymmetric.channel",
        "conv_grouped/4.symmetric.g32",
        "conv_grouped/4.symmetric_no_clip.channel",
        "transposed/4.symmetric.channel",
        "transposed/4.symmetric.g32",
        "transposed_grouped/4.symmetric.channel",
        "transposed_grouped/4.symmetric.g8",
        "transposed_grouped/8.asymmetric.channel",
    };
    char path[TEST_PATH];
    if (!test_golden(path, "quant/conv_and_sample.safetensors")) return;
    dt_ctx *ctx = context();
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *settings = dt_file_meta(f, names[i]);
        ck_assert_ptr_nonnull(settings);
        compare(ctx, f, names[i], settings);
    }
    dt_file_close(f);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- codes, values and gradients of a weight ------------------------------------------------- */

static dt_tensor *weight(dt_ctx *ctx, const dt_quant_spec *quant, int64_t groups)
{
    dt_tensor *w;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 8, 20, 3, 3 }, &w));
    TEST_OK(ctx, dt_fill_normal(w, 0, 1));
    dt__fq fq = { .quant = *quant };
    ck_assert(dt__row_map_of(groups, w->rank, w->dims, &fq.map));
    TEST_OK(ctx, dt__fq_wrap(w, &fq));
    return w;
}

/* The codes of a mapped weight are those of its gathered rows. */
START_TEST(test_codes)
{
    dt_ctx *ctx = context();
    for (int bits = 2; bits <= 8; bits++) {
        for (int rule = DT_SCHEME_SYMMETRIC; rule <= DT_SCHEME_ASYMMETRIC; rule++) {
            for (int g = DT_PER_TENSOR; g <= DT_PER_GROUP; g++) {
                dt_quant_spec q = dt_weight_quant_defaults();
                q.bits = bits;
                q.scheme = rule;
                q.granularity = g;
                q.group_size = 24;
                dt_tensor *w = weight(ctx, &q, 2), *rows;
                const dt__fq *fq = w->ext;
                dt__codes *a, *b;
                TEST_OK(ctx, dt__matrix_of(dt_inner(w), &fq->map, &rows));
                TEST_OK(ctx, dt__fq_codes(w, &a));
                TEST_OK(ctx, dt__codes_make(rows, &(dt__fq){ .quant = q }, "rows", &b));
                const size_t bytes = a->layout.bytes;
                TEST_EACH(a->layout.rows == 40 && a->layout.columns == 36, "extents");
                TEST_EACH(bytes == b->layout.bytes && memcmp(a->panels, b->panels, bytes) == 0,
                          "%d bits, rule %d, granularity %d", bits, rule, g);
                dt__codes_release(a);
                dt__codes_release(b);
                dt_tensor_free(rows);
                dt_tensor_free(w);
            }
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Rows that do not lie as panels have them are not renewed in place: codes go stale instead. */
START_TEST(test_stale)
{
    dt_ctx *ctx = context();
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt__renewal r;
    for (int64_t groups = 0; groups <= 1; groups++) {
        dt_tensor *w = weight(ctx, &q, groups);
        dt__codes *codes;
        TEST_OK(ctx, dt__fq_codes(w, &codes));
        dt__codes_release(codes);
        ck_assert(dt__renew_begin(w, &r) == (groups == 0));
        if (groups == 0) dt__renew_end(&r);
        dt_tensor_free(w);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* A row of codes is a sample, of one scale each or of one for all. */
START_TEST(test_samples)
{
    dt_ctx *ctx = context();
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 3, 2, 5, 7 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    dt__fq fq = { .quant = dt_activation_quant_defaults(), .samples = true };
    for (int whole = 0; whole < 2; whole++) {
        dt__codes *codes;
        float image[70];
        fq.quant.granularity = whole ? DT_PER_TENSOR : DT_PER_SAMPLE;
        TEST_OK(ctx, dt__codes_make(x, &fq, "x", &codes));
        ck_assert(codes->rows == 3 && codes->columns == 70 && codes->groups == 1);
        ck_assert(codes->integer && codes->u != NULL && codes->zero_u != NULL);
        ck_assert(whole == (codes->scale[0] == codes->scale[1]));
        for (int64_t n = 0; n < 3; n++) {
            dt__codes_expand(codes, &(dt__patch){ n, n + 1, 0, 70, image, 70 });
            const float *from = (const float *)dt_data(x) + n * 70;
            ck_assert_int_eq(test_first_far_f32(image, from, 70, codes->scale[n] * 0.51, 0), -1);
        }
        dt__codes_release(codes);
    }
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_row_map_suite(void)
{
    Suite *s = suite_create("row_map");
    TCase *c = tcase_create("row_map");
    tcase_add_test(c, test_maps);
    tcase_add_test(c, test_gather);
    tcase_add_test(c, test_golden_weights);
    tcase_add_test(c, test_codes);
    tcase_add_test(c, test_stale);
    tcase_add_test(c, test_samples);
    suite_add_tcase(s, c);
    return s;
}
