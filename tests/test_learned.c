/* Learned scales: the reference values of ../shared/golden/quant, with bounds and ties; compact
 * residuals against their stated bound; equal bits on any number of threads. */
#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/ops.h>

#include "kernels/kernels.h"
#include "qat/schemes/learned.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

/* ---- reference values ----------------------------------------------------------------------- */

static dt_tensor *load(dt_file *file, const char *name, const char *what, dt_dtype dtype)
{
    char full[256];
    dt_tensor *x;
    snprintf(full, sizeof full, "%s/%s", name, what);
    if (dt_file_find(file, full) == NULL) return NULL;
    ck_assert_int_eq(dt_file_load(file, full, dtype, &x), DT_OK);
    return x;
}

/* One case of the file: operands, and what must come of them. */
typedef struct golden {
    dt_quant_spec quant;
    dt_tensor *x, *s, *dy, *ds, *dx, *begin, *mask;
} golden;

static golden golden_of(dt_file *file, const char *name, const char *settings)
{
    golden g = { .quant = dt_weight_quant_defaults() };
    const char *bits = strstr(settings, "bits=");
    g.quant.bits = atoi(bits + 5);
    g.quant.granularity =
        strstr(settings, "granularity=channel") != NULL ? DT_PER_CHANNEL : DT_PER_TENSOR;
    g.x = load(file, name, "x", DT_F32);
    g.s = load(file, name, "s", DT_F32);
    g.dy = load(file, name, "dy", DT_F32);
    g.ds = load(file, name, "ds_recip", DT_F64);
    g.dx = load(file, name, "dx", DT_F64);
    g.begin = load(file, name, "s_init", DT_F64);
    g.mask = load(file, name, "mask_recip", DT_U8);
    return g;
}

static void discard(golden *g)
{
    dt_tensor *all[] = { g->x, g->s, g->dy, g->ds, g->dx, g->begin, g->mask };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
}

static dt__learning learning_of(const golden *g, float *d, float *ds)
{
    const int64_t blocks = dt_count(g->s);
    return (dt__learning){ .quant = &g->quant,
                           .blocks = blocks,
                           .n = dt_count(g->x) / blocks,
                           .scale = dt_data(g->s),
                           .x = dt_data(g->x),
                           .d = d,
                           .ds = ds };
}

/* The sum of absolute terms of a block, in double, and with it the sum of |dy|. */
static double magnitude(const golden *g, int64_t block, double *gradient)
{
    const float *x = dt_data(g->x), *dy = dt_data(g->dy), *s = dt_data(g->s);
    const uint8_t *mask = dt_data(g->mask);
    const int64_t n = dt_count(g->x) / dt_count(g->s);
    const double low = dt__qmin(&g->quant), high = dt__qmax(&g->quant);
    const double factor = 1 / sqrt((double)n * high);
    double sum = 0;
    *gradient = 0;
    for (int64_t i = block * n; i < (block + 1) * n; i++) {
        const double v = (double)(x[i] * (1.0f / s[block])), near = rint(v) - v;
        sum += fabs((double)dy[i] * (mask[i] ? near : v < low ? low : high));
        *gradient += fabs((double)dy[i]) * factor;
    }
    return sum * factor;
}

/* From values within 1e-5 of the sum of absolute terms; from residuals within 1/254 of the sum of
 * |dy| besides. The straight-through gradient is exact in both. */
static void check_gradient(dt_ctx *ctx, const char *name, const golden *g, bool compact)
{
    const int64_t count = dt_count(g->x), blocks = dt_count(g->s), n = count / blocks;
    float *d = malloc((size_t)count * sizeof *d), *ds = malloc((size_t)blocks * sizeof *ds);
    int8_t *residual = malloc((size_t)count);
    memcpy(d, dt_data(g->dy), (size_t)count * sizeof *d);
    dt__learning l = learning_of(g, d, ds);
    for (int64_t b = 0; compact && b < blocks; b++) {
        dt_tensor *row;
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &n, l.x + b * n, &row));
        dt__learned_residual(ctx, l.quant, row, l.scale[b], residual + b * n);
        dt_tensor_free(row);
    }
    if (compact) {
        l.x = NULL;
        l.residual = residual;
    }
    TEST_OK(ctx, dt__learn_scales(ctx, &l));
    const double *want = dt_data(g->ds);
    const uint8_t *mask = dt_data(g->mask);
    const float *dy = dt_data(g->dy);
    for (int64_t b = 0; b < blocks; b++) {
        double gradient;
        const double bound = 1e-5 * magnitude(g, b, &gradient);
        const double far = fabs((double)ds[b] - want[b]);
        TEST_EACH(far <= bound + (compact ? gradient / 254 : 0), "%s: ds[%lld] = %g, not %g", name,
                  (long long)b, (double)ds[b], want[b]);
    }
    for (int64_t i = 0; i < count; i++) {
        const float pass = mask[i] ? dy[i] : 0;
        TEST_EACH(memcmp(&d[i], &pass, sizeof pass) == 0 || (d[i] == 0 && pass == 0),
                  "%s: dx[%lld] = %g, not %g", name, (long long)i, (double)d[i], (double)pass);
    }
    free(d);
    free(ds);
    free(residual);
}

static void check_begin(dt_ctx *ctx, const char *name, const golden *g)
{
    dt_tensor *s;
    const double *want = dt_data(g->begin);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, g->s->rank, g->s->dims, &s));
    TEST_OK(ctx, dt__learned_begin(g->x, &g->quant, s, 0));
    for (int64_t i = 0; i < dt_count(s); i++) {
        const double got = (double)((const float *)dt_data(s))[i];
        TEST_EACH(test_near(got, want[i], 0, 1.2e-7), "%s: begins with %g, not %g", name, got,
                  want[i]);
    }
    dt_tensor_free(s);
}

START_TEST(reference_values)
{
    char path[TEST_PATH];
    if (!test_golden(path, "quant/lsq.safetensors")) return;
    dt_ctx *ctx = context(2);
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    int cases = 0;
    for (int64_t i = 0; i < dt_file_meta_count(file); i++) {
        const char *name, *settings;
        dt_file_meta_at(file, i, &name, &settings);
        if (strchr(name, '/') == NULL) continue;
        golden g = golden_of(file, name, settings);
        check_gradient(ctx, name, &g, false);
        check_gradient(ctx, name, &g, true);
        check_begin(ctx, name, &g);
        discard(&g);
        cases++;
    }
    ck_assert_int_ge(cases, 23);
    dt_file_close(file);
    dt_ctx_free(ctx);
}
END_TEST

/* The same sums by Brevitas, whose division agrees with the reciprocal away from ties. */
START_TEST(reference_values_of_brevitas)
{
    char path[TEST_PATH], other[TEST_PATH];
    if (!test_golden(path, "quant/lsq.safetensors")) return;
    if (!test_golden(other, "quant/lsq_brevitas.safetensors")) return;
    dt_ctx *ctx = context(1);
    dt_file *file, *peer;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_open(ctx, other, &peer));
    for (int64_t i = 0; i < dt_file_meta_count(peer); i++) {
        const char *name, *settings;
        dt_file_meta_at(peer, i, &name, &settings);
        if (strchr(name, '/') == NULL || strncmp(name, "ties", 4) == 0) continue;
        golden g = golden_of(file, name, dt_file_meta(file, name));
        dt_tensor_free(g.ds);
        g.ds = load(peer, name, "ds_times_g", DT_F64);
        check_gradient(ctx, name, &g, false);
        discard(&g);
    }
    dt_file_close(file);
    dt_file_close(peer);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- properties ----------------------------------------------------------------------------- */

/* Unsigned codes are clipped at 0, with a slope of 0 there, and at 2^bits - 1. */
START_TEST(unsigned_codes_begin_at_zero)
{
    const float x[6] = { -3, 0.4f, 1.4f, 2.6f, 3.4f, 9 }, s = 1;
    float d[6] = { 1, 1, 1, 1, 1, 1 }, ds;
    const dt_quant_spec q = { .bits = 2, .is_unsigned = true, .activation = true };
    dt_ctx *ctx = context(1);
    const dt__learning l = { &q, 1, 6, &s, x, NULL, d, &ds, 0 };
    TEST_OK(ctx, dt__learn_scales(ctx, &l));
    const float pass[6] = { 0, 1, 1, 1, 1, 0 };
    ck_assert_mem_eq(d, pass, sizeof pass);
    TEST_NEAR(ds, (0 - 0.4 - 0.4 + 0.4 - 0.4 + 3) / sqrt(18), 1e-6, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* A clipped element contributes its bound to the scale's gradient, independent of its size and
 * mask. */
START_TEST(clipped_elements_count)
{
    const float x[2] = { 100, -100 }, s = 0.5f;
    const dt_quant_spec q = { .bits = 4 };
    dt_ctx *ctx = context(1);
    for (int i = 0; i < 2; i++) {
        float d[1] = { -0.25f }, ds;
        const dt__learning l = { &q, 1, 1, &s, x + i, NULL, d, &ds, 0 };
        TEST_OK(ctx, dt__learn_scales(ctx, &l));
        ck_assert_float_eq(d[0], 0);
        TEST_NEAR(ds, (i == 0 ? -1.75 : 2) / sqrt(7), 1e-6, 0);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Gradients and first scales of 3 blocks that end within a chunk. */
static void fill_result(int threads, float *ds, float *begin)
{
    enum { N = 40000 };
    dt_ctx *ctx = context(threads);
    const int64_t dims[2] = { 3, N }, one = 3;
    dt_tensor *x, *d, *s;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &d));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1, &one, &s));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_fill_normal(d, 0, 1));
    const dt_quant_spec q = { .bits = 4, .granularity = DT_PER_CHANNEL };
    TEST_OK(ctx, dt__learned_begin(x, &q, s, 0));
    memcpy(begin, dt_data(s), 3 * sizeof *begin);
    const dt__learning l = { &q, 3, N, dt_data(s), dt_data(x), NULL, dt_data_mut(d), ds, 0 };
    TEST_OK(ctx, dt__learn_scales(ctx, &l));
    dt_tensor_free(x);
    dt_tensor_free(d);
    dt_tensor_free(s);
    dt_ctx_free(ctx);
}

START_TEST(same_bits_on_any_threads)
{
    float ds[3], begin[3];
    fill_result(1, ds, begin);
    for (int threads = 2; threads <= 16; threads *= 2) {
        float other[3], first[3];
        fill_result(threads, other, first);
        ck_assert_mem_eq(other, ds, sizeof ds);
        ck_assert_mem_eq(first, begin, sizeof begin);
    }
}
END_TEST

/* ---- on a tape ------------------------------------------------------------------------------ */

static dt_tensor *normal(dt_ctx *ctx, int64_t rows, int64_t columns, bool leaf)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ rows, columns }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, leaf));
    return x;
}

static dt_quant_spec learned(int64_t bits, bool activation, int save)
{
    return (dt_quant_spec){ .bits = bits,
                            .granularity = activation ? DT_PER_TENSOR : DT_PER_CHANNEL,
                            .activation = activation,
                            .range = DT_RANGE_LEARNED,
                            .save = save };
}

/* Backward of y = tanh(x^): dx and ds against dt__learn_scales of dy (1 - y^2). */
static void check_tape(const dt_quant_spec *q, bool leaf, bool inner, double within)
{
    dt_ctx *ctx = context(2);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = normal(ctx, 7, 90, leaf), *dy = normal(ctx, 7, 90, false), *scale;
    TEST_OK(ctx, dt_learned_scale(x, q, &scale));
    dt_tensor *in = inner ? dt_neg(t, dt_neg(t, x)) : x;
    dt_tensor *y = dt_tanh(t, dt_fake_quant_learned(t, in, q, scale));
    if (inner) dt_drop(t, in);
    ck_assert_ptr_nonnull(y);
    float d[630], ds[7];
    const float *up = dt_data(dy), *value = dt_data(y);
    for (int i = 0; i < 630; i++) d[i] = up[i] * (1 - value[i] * value[i]);
    TEST_OK(ctx, dt_backward(t, y, dy));
    const dt__learning l = {
        q, dt_count(scale), 630 / dt_count(scale), dt_data(scale), dt_data(x), NULL, d, ds, 0
    };
    TEST_OK(ctx, dt__learn_scales(ctx, &l));
    const float *got = dt_data(dt_grad(scale));
    for (int64_t i = 0; i < dt_count(scale); i++) TEST_NEAR(got[i], ds[i], within, 1e-5);
    ck_assert_int_eq(dt_grad(x) != NULL, leaf);
    if (leaf) ck_assert_int_eq(test_first_far_f32(dt_data(dt_grad(x)), d, 630, 1e-6, 0), -1);
    dt_tensor_free(x);
    dt_tensor_free(dy);
    dt_tensor_free(scale);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

START_TEST(gradients_through_a_tape)
{
    for (int64_t bits = 2; bits <= 8; bits += 2) {
        for (int leaf = 0; leaf < 2; leaf++) {
            for (int inner = 0; inner < 2; inner++) {
                const dt_quant_spec compact = learned(bits, true, DT_SAVED_COMPACT),
                                    exact = learned(bits, true, DT_SAVED_EXACT),
                                    weight = learned(bits, false, DT_SAVED_COMPACT);
                check_tape(&compact, leaf, inner, 0.05);
                check_tape(&exact, leaf, inner, 1e-6);
                check_tape(&weight, leaf, inner, 1e-6);
            }
        }
    }
}
END_TEST

/* The data for the gradient must not change before it is computed. */
static void check_written(const dt_quant_spec *q, bool write_scale, dt_status expected)
{
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = normal(ctx, 4, 40, true), *scale;
    TEST_OK(ctx, dt_learned_scale(x, q, &scale));
    dt_tensor *y = dt_sum(t, dt_fake_quant_learned(t, x, q, scale), NULL);
    ck_assert_ptr_nonnull(y);
    ((float *)dt_data_mut(write_scale ? scale : x))[0] += 1;
    ck_assert_int_eq(dt_backward(t, y, NULL), expected);
    if (expected != DT_OK) ck_assert_ptr_nonnull(strstr(dt_error(ctx), "was written"));
    dt_tensor_free(x);
    dt_tensor_free(scale);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* The scale of a block, and its gradient, by itself: a tensor with one scale. */
static void block_alone(dt_ctx *ctx, const float *x, const float *dy, int64_t n, float both[2])
{
    dt_quant_spec q = learned(4, false, 0);
    dt_tensor *w, *s;
    float d[64];
    q.granularity = DT_PER_TENSOR;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1, &n, &w));
    memcpy(dt_data_mut(w), x, (size_t)n * sizeof *x);
    memcpy(d, dy, (size_t)n * sizeof *d);
    TEST_OK(ctx, dt_learned_scale(w, &q, &s));
    both[0] = *(const float *)dt_data(s);
    const dt__learning l = { .quant = &q,
                             .blocks = 1,
                             .n = n,
                             .scale = dt_data(s),
                             .x = dt_data(w),
                             .d = d,
                             .ds = &both[1] };
    TEST_OK(ctx, dt__learn_scales(ctx, &l));
    dt_tensor_free(s);
    dt_tensor_free(w);
}

/* A row of 40 in groups of 16: two of 16, and one of 8. */
START_TEST(groups_are_as_tensors_by_themselves)
{
    dt_ctx *ctx = context(2);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = normal(ctx, 5, 40, true), *dy = normal(ctx, 5, 40, false), *scale;
    dt_quant_spec q = learned(4, false, 0);
    q.granularity = DT_PER_GROUP;
    q.group_size = 16;
    TEST_OK(ctx, dt_learned_scale(x, &q, &scale));
    ck_assert_int_eq(dt_count(scale), 15);
    TEST_OK(ctx, dt_backward(t, dt_neg(t, dt_neg(t, dt_fake_quant_learned(t, x, &q, scale))), dy));
    const float *ds = dt_data(dt_grad(scale));
    for (int b = 0; b < 15; b++) {
        const int64_t first = b / 3 * 40 + b % 3 * 16, n = b % 3 == 2 ? 8 : 16;
        float alone[2];
        block_alone(ctx, (const float *)dt_data(x) + first, (const float *)dt_data(dy) + first, n,
                    alone);
        ck_assert(((const float *)dt_data(scale))[b] == alone[0]);
        ck_assert(ds[b] == alone[1]);
    }
    dt_tensor_free(scale);
    dt_tensor_free(dy);
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(values_written_before_backward)
{
    const dt_quant_spec compact = learned(4, true, DT_SAVED_COMPACT),
                        exact = learned(4, true, DT_SAVED_EXACT), weight = learned(4, false, 0);
    check_written(&weight, false, DT_ERR_STATE);
    check_written(&weight, true, DT_ERR_STATE);
    check_written(&exact, false, DT_ERR_STATE);
    check_written(&exact, true, DT_ERR_STATE);
    check_written(&compact, false, DT_OK); /* it has all it needs */
    check_written(&compact, true, DT_OK);
}
END_TEST

/* A pass without gradients keeps nothing for backward, and codes follow the scale. */
START_TEST(codes_follow_the_scale)
{
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = normal(ctx, 4, 40, false), *scale;
    const dt_quant_spec q = learned(4, true, DT_SAVED_COMPACT);
    TEST_OK(ctx, dt_learned_scale(x, &q, &scale));
    dt__codes *a, *b, *c;
    dt_no_grad(t, true);
    TEST_OK(ctx, dt__fq_codes(dt_fake_quant_learned(t, x, &q, scale), &a));
    ck_assert_ptr_null(a->residual);
    dt_no_grad(t, false);
    TEST_OK(ctx, dt__fq_codes(dt_fake_quant_learned(t, x, &q, scale), &b));
    ck_assert_ptr_nonnull(b->residual);
    ck_assert_mem_eq(a->u, b->u, 80); /* two codes a byte */
    ck_assert_ptr_null(b->mask);
    *(float *)dt_data_mut(scale) *= 2;
    TEST_OK(ctx, dt__fq_codes(dt_fake_quant_learned(t, x, &q, scale), &c));
    ck_assert_mem_ne(c->u, b->u, 80);
    dt__codes_release(a);
    dt__codes_release(b);
    dt__codes_release(c);
    dt_tensor_free(x);
    dt_tensor_free(scale);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bad_settings)
{
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = normal(ctx, 4, 40, true), *scale;
    dt_quant_spec q = learned(4, false, 0);
    q.scheme = DT_SCHEME_ASYMMETRIC;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "requires scheme symmetric", dt_learned_scale(x, &q, &scale));
    q = learned(4, false, 0);
    q.is_unsigned = true;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "are signed", dt_learned_scale(x, &q, &scale));
    q = learned(4, false, 7);
    TEST_FAILS(ctx, DT_ERR_CONFIG, "not a way to save", dt_learned_scale(x, &q, &scale));
    q = learned(4, false, 0);
    ck_assert_ptr_null(dt_fake_quant(t, x, &q, true));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "requires a scale"));
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_fake_quant_learned(t, x, &q, NULL));
    ((float *)dt_data_mut(x))[3] = NAN;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "element 3", dt_learned_scale(x, &q, &scale));
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

/* A recipe that repeats the preset's settings changes nothing; another range has no shift. */
START_TEST(the_preset_said_again)
{
    dt_quant_spec weight, activation;
    dt_quant_patch patch = { .quant.range = DT_RANGE_LEARNED, .has_range = true };
    ck_assert(dt_qat_preset(DT_INT4_INT4, &weight, &activation));
    dt_quant_spec again = activation;
    dt_quant_apply(&again, &patch);
    ck_assert(again.shift && dt__same_quant(&again, &activation));
    patch.quant.range = DT_RANGE_STATIC;
    dt_quant_apply(&again, &patch);
    ck_assert(!again.shift);
}
END_TEST

Suite *test_learned_suite(void)
{
    Suite *s = suite_create("learned");
    TCase *c = tcase_create("learned");
    tcase_add_test(c, reference_values);
    tcase_add_test(c, reference_values_of_brevitas);
    tcase_add_test(c, unsigned_codes_begin_at_zero);
    tcase_add_test(c, clipped_elements_count);
    tcase_add_test(c, same_bits_on_any_threads);
    tcase_add_test(c, gradients_through_a_tape);
    tcase_add_test(c, groups_are_as_tensors_by_themselves);
    tcase_add_test(c, values_written_before_backward);
    tcase_add_test(c, codes_follow_the_scale);
    tcase_add_test(c, bad_settings);
    tcase_add_test(c, the_preset_said_again);
    suite_add_tcase(s, c);
    return s;
}
