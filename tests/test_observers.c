/* Observers: the reference values of golden/quant (observers, mse), order statistics against
 * sorting, the random sample for percentiles once more values were seen than are kept, and NaN and
 * infinity. */
#include "testing.h"

#include "core/tensor.h"
#include "qat/schemes/least_error.h"
#include "qat/observe.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <detent/experimental/io.h>
#include <detent/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;
static dt_file *file; /* of reference values; NULL: none */

static void open_ctx(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}

static void setup(void) { open_ctx(2); }

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static bool open_golden(const char *name)
{
    char path[TEST_PATH];
    if (!test_golden(path, name)) return false;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    return true;
}

/* The bytes of a case's tensor; NULL where there is none. */
static const void *golden(const char *name, const char *part)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s/%s", name, part);
    const dt_file_entry *e = dt_file_find(file, whole);
    return e == NULL ? NULL : e->data;
}

static dt_quant_spec static_quant(int observer, bool symmetric)
{
    dt_quant_spec q = dt_activation_quant_defaults();
    q.range = DT_RANGE_STATIC;
    q.granularity = DT_PER_TENSOR;
    q.observer = observer;
    if (symmetric) q.scheme = DT_SCHEME_SYMMETRIC;
    return q;
}

static dt_module *new_quantizer(const dt_quant_spec *q)
{
    dt_module *m;
    TEST_OK(ctx, dt__quantizer_create(ctx, q, &(dt__quantizer_size){ .scales = 1 }, &m));
    return m;
}

static dt_tensor *tensor_of(const float *values, int64_t rows, int64_t columns)
{
    dt_tensor *x;
    const int64_t dims[2] = { rows, columns };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, dims, values, &x));
    return x;
}

static dt_status observe(dt_module *m, const float *values, int64_t rows, int64_t columns)
{
    dt_tensor *x = tensor_of(values, rows, columns);
    const dt_status s = dt__observe(t, x, dt__quantizer_of(m));
    dt_tape_reset(t);
    dt_tensor_free(x);
    return s;
}

static float value_of(const dt_tensor *x) { return *(const float *)dt_data(x); }

/* ---- reference values ----------------------------------------------------------------------- */

static void check_probe(const char *name, const dt__quantizer *q)
{
    const float *probe = golden(name, "probe"), *dy = golden(name, "probe_dy");
    if (probe == NULL) return;
    dt_tensor *x = tensor_of(probe, 8, 16), *g = tensor_of(dy, 8, 16);
    const dt__fq fq = {
        .quant = q->quant, .enabled = true, .scale = q->scale, .zero_point = q->zero_point
    };
    dt_tensor *loss = NULL;
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    dt_tensor *image = dt_reshape(t, dt__fake_quant_as(t, x, &fq), 1, (int64_t[]){ 128 });
    const float *want = golden(name, "probe_image"), *want_dx = golden(name, "probe_dx");
    for (int i = 0; i < 128; i++) {
        TEST_EACH(((const float *)dt_data(image))[i] == want[i], "%s: image %d", name, i);
    }
    dt_tensor *flat = dt_reshape(t, g, 1, (int64_t[]){ 128 });
    loss = dt_sum(t, dt_mul(t, image, flat), NULL);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    const float *dx = dt_data(dt_grad(x));
    for (int i = 0; i < 128; i++) { /* the mask is theirs, the value dy itself */
        TEST_EACH(dx[i] == (want_dx[i] != 0 ? dy[i] : 0), "%s: gradient %d", name, i);
    }
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_tensor_free(g);
}

/* "normal/moving0.01.asymmetric" */
static bool check_golden(const char *name)
{
    const char *kind = strchr(name, '/') + 1;
    const bool moving = strncmp(kind, "moving", 6) == 0;
    if (!moving && strncmp(kind, "minmax", 6) != 0) return false;
    const bool symmetric = strstr(kind, ".asymmetric") == NULL;
    dt_quant_spec q =
        static_quant(moving ? DT_OBSERVER_MOVING_AVERAGE : DT_OBSERVER_MINMAX, symmetric);
    if (moving) q.averaging = atof(kind + 6);
    char of_batches[160];
    snprintf(of_batches, sizeof of_batches, "%.*s/batches", (int)(kind - 1 - name), name);
    const dt_file_entry *batches = dt_file_find(file, of_batches);
    const int64_t n = batches->dims[1] * batches->dims[2];
    const float *lo = golden(name, "min"), *hi = golden(name, "max"), *s = golden(name, "scale");
    const int32_t *zp = golden(name, "zp");
    dt_module *m = new_quantizer(&q);
    const dt__quantizer *r = dt__quantizer_of(m);
    for (int64_t i = 0; i < batches->dims[0]; i++) {
        const float *x = (const float *)batches->data + i * n;
        TEST_OK(ctx, observe(m, x, batches->dims[1], batches->dims[2]));
        ck_assert_msg(value_of(r->lo) == lo[i] && value_of(r->hi) == hi[i], "%s: %lld: range", name,
                      (long long)i);
        ck_assert_msg(value_of(r->scale) == s[i], "%s: %lld: scale", name, (long long)i);
        const int zero = symmetric ? 0 : *(const int8_t *)dt_data(r->zero_point);
        ck_assert_int_eq(zero, zp[i]);
        ck_assert_int_eq(*(const int64_t *)dt_data(r->count), (i + 1) * n);
    }
    check_probe(name, r);
    dt_module_free(m);
    return true;
}

START_TEST(ranges_are_those_of_torch)
{
    if (!open_golden("quant/observers.safetensors")) return;
    int cases = 0;
    const char *name, *text;
    for (int64_t i = 0; dt_file_meta_at(file, i, &name, &text); i++) {
        if (strstr(text, "peer=torch.ao") != NULL) cases += check_golden(name);
    }
    ck_assert_int_ge(cases, 10);
    dt_file_close(file);
}
END_TEST

/* Their percentile p has 100 - p below it, and as much above. */
START_TEST(percentiles_are_those_of_numpy)
{
    static const char *const names[] = { "normal/percentile99.0", "normal/percentile99.9",
                                         "relu/percentile99.0" };
    static const double p[] = { 99, 99.9, 99 };
    if (!open_golden("quant/observers.safetensors")) return;
    for (int i = 0; i < 3; i++) {
        const dt_file_entry *e = dt_file_find(file, i == 2 ? "relu/batches" : "normal/batches");
        dt_quant_spec q = static_quant(DT_OBSERVER_PERCENTILE, false);
        q.percentile = 2 * p[i] - 100;
        dt_module *m = new_quantizer(&q);
        const dt__quantizer *r = dt__quantizer_of(m);
        const int64_t n = e->dims[1] * e->dims[2];
        for (int64_t k = 0; k < e->dims[0]; k++) {
            TEST_OK(ctx, observe(m, (const float *)e->data + k * n, e->dims[1], e->dims[2]));
        }
        const double lo = *(const double *)golden(names[i], "quantile_lo");
        const double hi = *(const double *)golden(names[i], "quantile_hi");
        TEST_NEAR(value_of(r->lo), lo, 0, 2e-6);
        TEST_NEAR(value_of(r->hi), hi, 0, 2e-6);
        dt_module_free(m);
    }
    dt_file_close(file);
}
END_TEST

static void check_block(const char *name, const dt_quant_spec *q, int64_t block, int64_t n)
{
    char of_x[160];
    snprintf(of_x, sizeof of_x, "%.*s/x", (int)strcspn(name, "/"), name);
    const float *x = (const float *)dt_file_find(file, of_x)->data + block * n;
    const double *errors = (const double *)golden(name, "errors") + 20 * block;
    const int want = ((const int32_t *)golden(name, "step"))[block];
    float lo = 0, hi = 0;
    for (int64_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    double least = errors[0];
    for (int i = 1; i < 20; i++) least = errors[i] < least ? errors[i] : least;
    const float whole = hi;
    const int step = dt__least_error(q, n, x, &lo, &hi);
    ck_assert_msg(step == want || errors[step] <= least * (1 + 1e-5), "%s: block %lld: %d, not %d",
                  name, (long long)block, step, want);
    ck_assert(hi == whole * (float)(1 - step / 100.0));
}

START_TEST(least_errors_are_those_of_llm_compressor)
{
    if (!open_golden("quant/mse.safetensors")) return;
    int64_t blocks = 0;
    const char *name, *text;
    for (int64_t i = 0; dt_file_meta_at(file, i, &name, &text); i++) {
        if (strstr(text, "rule=mse") == NULL) continue;
        dt_quant_spec q = dt_activation_quant_defaults();
        q.bits = atoi(strstr(text, "bits=") + 5);
        if (strstr(text, "base=symmetric") != NULL) q.scheme = DT_SCHEME_SYMMETRIC;
        char part[160];
        snprintf(part, sizeof part, "%s/step", name);
        const int64_t n = dt_file_find(file, part)->count;
        snprintf(part, sizeof part, "%.*s/x", (int)strcspn(name, "/"), name);
        const int64_t values = dt_file_find(file, part)->count;
        for (int64_t k = 0; k < n; k++) check_block(name, &q, k, values / n);
        blocks += n;
    }
    ck_assert_int_ge(blocks, 248);
    dt_file_close(file);
}
END_TEST

/* ---- order statistics ----------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

START_TEST(quantiles_are_those_of_sorted_values)
{
    static const double shares[] = { 0, 1e-4, 0.1, 0.25, 0.5, 0.777, 0.999, 1 };
    static float x[1000], sorted[1000];
    for (int round = 0; round < 8; round++) {
        const int n = round == 0 ? 1 : round == 1 ? 2 : 1000;
        for (int i = 0; i < n; i++) {
            const float v = sinf((float)(i * 37 + round)) * powf(10, (float)(i % 7 - 3));
            x[i] = round % 3 == 2 && v < 0 ? 0 : round == 7 ? 1.5f : v;
        }
        const bool magnitudes = round % 2 == 1;
        for (int i = 0; i < n; i++) sorted[i] = magnitudes ? fabsf(x[i]) : x[i];
        qsort(sorted, (size_t)n, sizeof *sorted, by_value);
        for (int k = 0; k < DT__COUNT_OF(shares); k++) {
            const double at = shares[k] * (n - 1);
            const int low = (int)at, high = low + 1 < n ? low + 1 : low;
            const double want =
                (double)sorted[low] + (at - low) * ((double)sorted[high] - (double)sorted[low]);
            const float got = dt__quantile(x, n, shares[k], magnitudes);
            TEST_EACH(got == (float)want, "round %d, share %g: %g, not %g", round, shares[k],
                      (double)got, want);
        }
    }
}
END_TEST

START_TEST(symmetric_percentiles_are_of_magnitudes)
{
    dt_quant_spec q = static_quant(DT_OBSERVER_PERCENTILE, true);
    q.percentile = 50;
    dt_module *m = new_quantizer(&q);
    const float x[] = { -8, 1, 2, -3, 4 };
    TEST_OK(ctx, observe(m, x, 1, 5));
    ck_assert(value_of(dt__quantizer_of(m)->hi) == 3 && value_of(dt__quantizer_of(m)->lo) == -3);
    dt_module_free(m);
}
END_TEST

/* Each of 40,000 values is kept with the same probability for every batch size, and all values are
 * kept while there is room; the same seed keeps the same ones. */
START_TEST(samples_are_uniform)
{
    enum { KEPT = 4000, BATCH = 1000, BATCHES = 40 };
    static float x[BATCH], first[KEPT];
    dt_quant_spec q = static_quant(DT_OBSERVER_PERCENTILE, false);
    q.samples = KEPT;
    for (int again = 0; again < 2; again++) {
        teardown();
        open_ctx(1 + again);
        dt_module *m = new_quantizer(&q);
        const dt__quantizer *r = dt__quantizer_of(m);
        int tenth[10] = { 0 };
        for (int b = 0; b < BATCHES; b++) {
            for (int i = 0; i < BATCH; i++) x[i] = (float)(b * BATCH + i);
            TEST_OK(ctx, observe(m, x, 1, BATCH));
            if (b != 3) continue;
            for (int i = 0; i < KEPT; i++) {
                TEST_EACH(((const float *)dt_data(r->values))[i] == (float)i, "%d", i);
            }
        }
        const float *kept = dt_data(r->values);
        for (int i = 0; i < KEPT; i++) tenth[(int)kept[i] / (BATCH * BATCHES / 10)]++;
        for (int i = 0; i < 10; i++) ck_assert_int_lt(abs(tenth[i] - KEPT / 10), 100);
        if (again) ck_assert_mem_eq(first, kept, sizeof first);
        memcpy(first, kept, sizeof first);
        dt_module_free(m);
    }
}
END_TEST

/* ---- the op --------------------------------------------------------------------------------- */

START_TEST(bad_values_change_nothing)
{
    const float bad[] = { NAN, INFINITY, -INFINITY, 3e38f };
    static const char *const words[] = { "element 2 is NaN", "element 2 is infinite",
                                         "element 2 is infinite", "too large" };
    for (int observer = DT_OBSERVER_MINMAX; observer <= DT_OBSERVER_MSE; observer++) {
        const dt_quant_spec q = static_quant(observer, false);
        dt_module *m = new_quantizer(&q);
        const dt__quantizer *r = dt__quantizer_of(m);
        const float good[] = { 1, -2, 0.5f };
        TEST_OK(ctx, observe(m, good, 1, 3));
        const float scale = value_of(r->scale), lo = value_of(r->lo);
        for (int i = 0; i < 4; i++) {
            const float x[] = { 1, 2, bad[i] };
            TEST_FAILS(ctx, DT_ERR_NUMERIC, words[i], observe(m, x, 1, 3));
            ck_assert(value_of(r->scale) == scale && value_of(r->lo) == lo);
            ck_assert_int_eq(*(const int64_t *)dt_data(r->count), 3);
        }
        TEST_OK(ctx, observe(m, good, 0, 3)); /* no values: nothing is seen */
        ck_assert_int_eq(*(const int64_t *)dt_data(r->count), 3);
        dt_module_free(m);
    }
}
END_TEST

START_TEST(ranges_do_not_depend_on_threads)
{
    enum { ROWS = 50, COLUMNS = 1001 };
    static float x[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = sinf((float)i) * (i % 997 == 0 ? 40 : 1);
    for (int observer = DT_OBSERVER_MINMAX; observer <= DT_OBSERVER_MSE; observer++) {
        float scale[3];
        for (int k = 0; k < 3; k++) {
            teardown();
            open_ctx(1 + 2 * k);
            const dt_quant_spec q = static_quant(observer, false);
            dt_module *m = new_quantizer(&q);
            TEST_OK(ctx, observe(m, x, ROWS, COLUMNS));
            scale[k] = value_of(dt__quantizer_of(m)->scale);
            dt_module_free(m);
        }
        ck_assert(scale[0] == scale[1] && scale[0] == scale[2]);
    }
}
END_TEST

Suite *test_observers_suite(void)
{
    Suite *s = suite_create("observers");
    TCase *c = tcase_create("observers");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, ranges_are_those_of_torch);
    tcase_add_test(c, percentiles_are_those_of_numpy);
    tcase_add_test(c, least_errors_are_those_of_llm_compressor);
    tcase_add_test(c, quantiles_are_those_of_sorted_values);
    tcase_add_test(c, symmetric_percentiles_are_of_magnitudes);
    tcase_add_test(c, samples_are_uniform);
    tcase_add_test(c, bad_values_change_nothing);
    tcase_add_test(c, ranges_do_not_depend_on_threads);
    suite_add_tcase(s, c);
    return s;
}
