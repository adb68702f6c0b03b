/* Codes renewal: an optimizer that re-encodes codes in place gives the bits of codes made from the
 * written weight, also over a whole training; codes that cannot be renewed are dropped; NaN and
 * infinity are reported. */
#include "schemes.h"
#include "testing.h"

#include "autograd/codes.h"
#include "nn/module.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <detent/ops.h>
#include <detent/optim.h>

#include <math.h>

/* A parameter w [rows, columns] of a module of its own, or grouped [experts, rows, columns],
 * wrapped, with an optimizer. */
typedef struct subject {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *w;
} subject;

typedef struct setting {
    dt_quant_spec quant;
    int64_t rows, columns, experts; /* 0: not grouped */
    int optimizer, threads;
    bool simulated;
} setting;

static const dt_module_type bag = { .name = "bag" };

/* Eighths: many ties between candidates for a scale, and values half way between two codes. */
static void fill(dt_tensor *x, uint32_t seed)
{
    float *v = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)((int)(seed >> 24) - 128) / 8;
    }
}

static subject begin(const setting *s)
{
    subject b = { 0 };
    dt_ctx_options ctx_options = dt_ctx_defaults();
    ctx_options.threads = s->threads;
    dt_optimizer_options options = dt_optimizer_defaults();
    options.name = s->optimizer;
    options.momentum = 0.5;
    TEST_OK(NULL, dt_ctx_create(&b.ctx, &ctx_options));
    TEST_OK(b.ctx, dt_tape_create(b.ctx, &b.t));
    TEST_OK(b.ctx, dt_module_create(b.ctx, &bag, 0, &b.m));
    const int64_t dims[] = { s->experts, s->rows, s->columns };
    const bool grouped = s->experts > 0;
    TEST_OK(b.ctx, dt_tensor_create(b.ctx, DT_F32, grouped ? 3 : 2, dims + !grouped, &b.w));
    if (grouped) TEST_OK(b.ctx, dt_set_grouped(b.w));
    fill(b.w, 1);
    TEST_OK(b.ctx, dt_module_add_param(b.m, "w", b.w));
    TEST_OK(b.ctx, dt_optimizer_create(b.m, &options, &b.o));
    TEST_OK(b.ctx, dt__fq_wrap(b.w, &(dt__fq){ .quant = s->quant, .simulated = s->simulated }));
    return b;
}

static void end(subject *b)
{
    dt_optimizer_free(b->o);
    dt_module_free(b->m);
    dt_tape_free(b->t);
    dt_ctx_free(b->ctx);
}

static dt_status step(subject *b, uint32_t seed)
{
    dt_grad_clear(b->w);
    TEST_OK(b->ctx, dt_tensor_create(b->ctx, DT_F32, b->w->rank, b->w->dims, &b->w->grad));
    fill(b->w->grad, seed);
    return dt_optimizer_step(b->o, b->t, 0.125);
}

static dt__codes *codes_of(subject *b)
{
    dt__codes *codes;
    TEST_OK(b->ctx, dt__fq_codes(b->w, &codes));
    return codes;
}

static void check_equal(const dt__codes *a, const dt__codes *b)
{
    const bool by_expert = a->map.experts > 0 && a->groups == 1; /* the mask's rows, perhaps */
    const int64_t rows = by_expert ? a->map.experts : a->rows;
    const size_t mask = (size_t)(rows * dt__ceil_div(a->rows / rows * a->columns, 8));
    ck_assert_int_eq(a->clipped, b->clipped);
    ck_assert(a->integer == b->integer);
    ck_assert((a->mask == NULL) == (b->mask == NULL));
    ck_assert_mem_eq(a->panels, b->panels, a->layout.bytes);
    if (a->mask != NULL) ck_assert_mem_eq(a->mask, b->mask, mask);
    if (a->zero != NULL) ck_assert_mem_eq(a->zero, b->zero, (size_t)(a->rows * a->zero_step));
}

/* Whether the scale of a row needs no more than the row. */
static bool is_renewable(const dt_quant_spec *q)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    return q->granularity != DT_PER_TENSOR && !scheme->has_zero && scheme->settle == NULL;
}

/* Codes of one subject are renewed in place. Codes of the other have a second owner during the
 * write, so new ones are made. */
static void compare(const setting *s)
{
    subject a = begin(s), b = begin(s);
    const dt__codes *first = codes_of(&a);
    dt__codes_release((dt__codes *)(uintptr_t)first);
    for (uint32_t i = 0; i < 4; i++) {
        dt__codes *held = codes_of(&b);
        TEST_OK(a.ctx, step(&a, i));
        TEST_OK(b.ctx, step(&b, i));
        ck_assert_mem_eq(dt_data(dt_inner(a.w)), dt_data(dt_inner(b.w)),
                         (size_t)a.w->count * sizeof(float));
        dt__codes *renewed = codes_of(&a), *anew = codes_of(&b);
        ck_assert(anew != held);
        if (is_renewable(&s->quant)) ck_assert_ptr_eq(renewed, first);
        check_equal(renewed, anew);
        dt__codes_release(held);
        dt__codes_release(renewed);
        dt__codes_release(anew);
    }
    end(&a);
    end(&b);
}

static const int64_t shapes[][2] = { { 1, 1 },    { 31, 33 },  { 33, 40 },
                                     { 64, 256 }, { 45, 770 }, { 129, 300 } };

START_TEST(renewed_codes_are_codes_made_anew)
{
    static const int granularities[] = { DT_PER_GROUP, DT_PER_CHANNEL, DT_PER_TENSOR };
    int tried[DT__SCHEMES] = { 0 };
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const int each = (int)test_count((test_draws){ .usual = 1, .sanitized = 5 });
    for (int i = 0; i < DT__SCHEMES * 3 * 3 * 2 * 6; i += each) {
        const int k = i / 6 / DT__SCHEMES;
        setting s = { .quant = dt_weight_quant_defaults(), .threads = 1 + i % 3 };
        s.rows = shapes[i % 6][0];
        s.columns = shapes[i % 6][1];
        s.experts = i / 6 % 4 * (i % 2);
        s.quant.scheme = i / 6 % DT__SCHEMES;
        s.quant.scale_dtype = k % 3;
        s.quant.granularity = granularities[k / 3 % 3];
        s.quant.ste = k / 9 == 0 ? DT_STE_IDENTITY : DT_STE_CLIPPED;
        s.optimizer = (i / 6 + i) % 3;
        s.simulated = i % 5 == 0;
        const dt__scheme *scheme = dt__scheme_of(s.quant.scheme);
        if (!scheme->fp16_blocks) s.quant.bits = 2 + (i / 6 + i) % 7;
        if (scheme->bits != 0) s.quant.bits = scheme->bits;
        if (scheme->group != 0) s.quant.group_size = scheme->group;
        if (scheme->settle != NULL) s.quant.scale_dtype = DT_SCALE_F32;
        if (!scheme_takes(ctx, &s.quant)) continue;
        compare(&s);
        tried[s.quant.scheme]++;
    }
    for (int rule = 0; rule < DT__SCHEMES; rule++) ck_assert_int_ge(tried[rule], 24 / each);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(nothing_depends_on_threads)
{
    setting s = { .quant = dt_weight_quant_defaults(), .rows = 300, .columns = 771 };
    if (_i == 1) s.rows = 75, s.experts = 4;
    for (int optimizer = DT_SGD; optimizer <= DT_ADAMW; optimizer++) {
        s.optimizer = optimizer;
        s.threads = 1;
        subject one = begin(&s);
        dt__codes_release(codes_of(&one));
        for (uint32_t i = 0; i < 3; i++) TEST_OK(one.ctx, step(&one, i));
        dt__codes *want = codes_of(&one);
        static const int counts[] = { 2, 3, 4, 8 };
        for (int k = 0; k < 4; k++) {
            s.threads = counts[k];
            subject many = begin(&s);
            dt__codes_release(codes_of(&many));
            for (uint32_t i = 0; i < 3; i++) TEST_OK(many.ctx, step(&many, i));
            dt__codes *got = codes_of(&many);
            check_equal(got, want);
            dt__codes_release(got);
            end(&many);
        }
        dt__codes_release(want);
        end(&one);
    }
}
END_TEST

START_TEST(codes_of_a_disabled_wrapper_are_not_renewed)
{
    const setting s = { .quant = dt_weight_quant_defaults(), .rows = 64, .columns = 64 };
    subject b = begin(&s);
    TEST_OK(b.ctx, dt_fake_quant_enable(b.w, false));
    TEST_OK(b.ctx, step(&b, 1));
    ck_assert_ptr_null(dt_inner(b.w)->attached);
    TEST_OK(b.ctx, dt_fake_quant_enable(b.w, true));
    dt__codes_release(codes_of(&b));
    TEST_OK(b.ctx, dt_fake_quant_enable(b.w, false));
    TEST_OK(b.ctx, step(&b, 2)); /* and those that were made while it was enabled are gone */
    ck_assert_ptr_null(dt_inner(b.w)->attached);
    end(&b);
}
END_TEST

START_TEST(infinite_weights_are_reported_by_the_next_forward)
{
    const setting s = { .quant = dt_weight_quant_defaults(), .rows = 64, .columns = 64 };
    subject b = begin(&s);
    dt__codes_release(codes_of(&b));
    dt_grad_clear(b.w);
    TEST_OK(b.ctx, dt_tensor_create(b.ctx, DT_F32, 2, b.w->dims, &b.w->grad));
    ((float *)dt_data_mut(b.w->grad))[40 * 64 + 3] = NAN;
    TEST_OK(b.ctx, dt_optimizer_step(b.o, b.t, 0.125));
    ck_assert_ptr_null(dt_inner(b.w)->attached);
    dt__codes *codes;
    TEST_FAILS(b.ctx, DT_ERR_NUMERIC, "quantize w: element 2563 is NaN", dt__fq_codes(b.w, &codes));
    end(&b);
}
END_TEST

/* ---- a whole training ------------------------------------------------------------------------ */

enum { LAYERS = 3, STEPS = 5 };

/* Trains a small network with the default preset; `anew` holds every weight's codes during the
 * write, so that new ones are made. Returns the loss of the last step. */
static float train(int threads, int ste, bool anew)
{
    const dt_mlp_options mlp = { .sizes = { 4, { 100, 70, 40, 10 } }, .bias = true };
    const int64_t dims[2] = { 24, 100 };
    static const char *const weights[LAYERS] = { "layers.0.weight", "layers.1.weight",
                                                 "head.weight" };
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    dt_qat_options qat = dt_qat_defaults();
    qat.weight.quant.ste = ste;
    qat.weight.has_ste = true;
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *x, *labels;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_mlp_create(ctx, &mlp, &m));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
    fill(x, 7);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 1, dims, &labels));
    float last = NAN;
    for (int i = 0; i < STEPS; i++) {
        dt__codes *held[LAYERS] = { NULL };
        dt_tape_reset(t);
        dt_zero_grad(m);
        for (int half = 0; half < 2; half++) { /* accumulated */
            dt_tape_reset(t);
            dt_tensor *loss = dt_cross_entropy(t, dt_forward(t, m, x), labels, NULL);
            TEST_OK(ctx, dt_tape_status(t));
            last = (float)dt_item(loss);
            TEST_OK(ctx, dt_backward(t, loss, NULL));
        }
        for (int l = 0; l < LAYERS && anew; l++) {
            TEST_OK(ctx, dt__fq_codes(dt_param(m, weights[l]), &held[l]));
        }
        TEST_OK(ctx, dt_optimizer_step(o, t, 1e-2));
        for (int l = 0; l < LAYERS; l++) dt__codes_release(held[l]);
    }
    dt_tensor_free(x);
    dt_tensor_free(labels);
    dt_optimizer_free(o);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
    return last;
}

START_TEST(training_has_the_bits_of_codes_made_anew)
{
    static const int counts[] = { 1, 2, 3, 4, 8 };
    for (int ste = DT_STE_IDENTITY; ste <= DT_STE_CLIPPED; ste++) {
        const float want = train(1, ste, true);
        ck_assert(isfinite(want));
        for (int k = 0; k < 5; k++) {
            const float got = train(counts[k], ste, false);
            ck_assert_mem_eq(&got, &want, sizeof want);
        }
    }
}
END_TEST

Suite *test_renewal_suite(void)
{
    Suite *s = suite_create("renewal");
    TCase *c = tcase_create("codes");
    tcase_add_test(c, renewed_codes_are_codes_made_anew);
    tcase_add_loop_test(c, nothing_depends_on_threads, 0, 2);
    tcase_add_test(c, codes_of_a_disabled_wrapper_are_not_renewed);
    tcase_add_test(c, infinite_weights_are_reported_by_the_next_forward);
    tcase_add_test(c, training_has_the_bits_of_codes_made_anew);
    suite_add_tcase(s, c);
    return s;
}
