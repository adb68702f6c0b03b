/* The FakeQuantTensor: its master, gradients on the wrapper, codes made once per version, no
 * dequantized values kept; the straight-through gradient against its closed form. */
#include "schemes.h"
#include "testing.h"

#include "autograd/op.h"
#include "autograd/codes.h"
#include "qat/quantized.h"

#include <detent/experimental/ops.h>
#include <detent/experimental/qat.h>

#include <math.h>

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static dt_tensor *random_matrix(int64_t rows, int64_t columns)
{
    dt_tensor *x;
    const int64_t dims[2] = { rows, columns };
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, dims, &x), DT_OK);
    ck_assert_int_eq(dt_fill_normal(x, 0, 1), DT_OK);
    return x;
}

static dt_tensor *leaf(int64_t rows, int64_t columns)
{
    dt_tensor *x = random_matrix(rows, columns);
    ck_assert_int_eq(dt_set_requires_grad(x, true), DT_OK);
    return x;
}

static dt_tensor *wrapped(int64_t rows, int64_t columns, const dt_quant_spec *quant)
{
    dt_tensor *w = leaf(rows, columns);
    ck_assert_int_eq(dt__fq_wrap(w, &(dt__fq){ .quant = *quant }), DT_OK);
    return w;
}

START_TEST(an_op_reads_dequantized_values)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(5, 70, &q), *image;
    ck_assert_int_eq(dt_dequantize(w, &image), DT_OK);
    const float *got = dt_data(dt_tanh(t, w)), *want = dt_data(dt_tanh(t, image));
    ck_assert_ptr_nonnull(got);
    ck_assert_mem_eq(got, want, 5 * 70 * sizeof(float));
    const float *master = dt_data(dt_inner(w)), *x = dt_data(image);
    int differ = 0;
    for (int i = 0; i < 350; i++) differ += master[i] != x[i];
    ck_assert_int_gt(differ, 300);
    dt_tensor_free(w);
    dt_tensor_free(image);
}
END_TEST

/* d tanh(x^) straight through: (1 - tanh(x^)^2) * dy, masked under `clipped`. */
static void check_gradient(int ste, bool enabled)
{
    dt_quant_spec q = dt_weight_quant_defaults();
    q.ste = ste;
    q.bits = 2;
    dt_tensor *w = wrapped(6, 40, &q), *dy = random_matrix(6, 40), *image;
    ck_assert_int_eq(dt_dequantize(w, &image), DT_OK);
    ck_assert_int_eq(dt_fake_quant_enable(w, enabled), DT_OK);
    dt_tensor *y = dt_tanh(t, w);
    ck_assert_int_eq(dt_backward(t, y, dy), DT_OK);
    ck_assert_ptr_null(dt_grad(dt_inner(w)));
    const float *g = dt_data(dt_grad(w)), *up = dt_data(dy);
    const float *master = dt_data(dt_inner(w)), *x = dt_data(enabled ? image : dt_inner(w));
    dt__codes *codes;
    ck_assert_int_eq(dt__fq_codes(w, &codes), DT_OK);
    ck_assert_int_gt(codes->clipped, ste == DT_STE_CLIPPED ? 5 : -1);
    int masked = 0;
    for (int i = 0; i < 240; i++) {
        const float th = tanhf(x[i]);
        float want = up[i] * (1 - th * th);
        const float scale = fabsf(((const float *)dt_data(image))[i]);
        const bool top = enabled && ste == DT_STE_CLIPPED && master[i] > 0 &&
                         master[i] > 1.49f * scale && scale > 0;
        if (top && g[i] == 0) {
            masked++;
            want = 0;
        }
        ck_assert_float_le(fabsf(g[i] - want), 1e-6f);
    }
    ck_assert_int_eq(masked, enabled && ste == DT_STE_CLIPPED ? (int)codes->clipped : 0);
    dt__codes_release(codes);
    dt_tensor_free(w);
    dt_tensor_free(dy);
    dt_tensor_free(image);
}

START_TEST(gradient_lands_on_the_wrapper) { check_gradient(DT_STE_IDENTITY, true); }
END_TEST
START_TEST(gradient_lands_while_disabled) { check_gradient(DT_STE_IDENTITY, false); }
END_TEST
START_TEST(clipped_gradient_is_masked) { check_gradient(DT_STE_CLIPPED, true); }
END_TEST

START_TEST(codes_are_made_once_per_version)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(8, 64, &q);
    dt__codes *a, *b, *c;
    ck_assert_int_eq(dt__fq_codes(w, &a), DT_OK);
    ck_assert_int_eq(dt__fq_codes(w, &b), DT_OK);
    ck_assert_ptr_eq(a, b);
    float *master = dt_data_mut(dt_inner(w));
    master[3] += 1;
    ck_assert_int_eq(dt__fq_codes(w, &c), DT_OK);
    ck_assert_ptr_ne(a, c);
    dt__codes_release(a);
    dt__codes_release(b);
    dt__codes_release(c);
    dt_tensor_free(w);
}
END_TEST

START_TEST(wrappers_of_one_activation_share_codes)
{
    const dt_quant_spec q = dt_activation_quant_defaults();
    dt_tensor *x = leaf(4, 30);
    dt_tensor *y = dt_tanh(t, x);
    dt__codes *a, *b;
    ck_assert_int_eq(dt__fq_codes(dt_fake_quant(t, y, &q, true), &a), DT_OK);
    ck_assert_int_eq(dt__fq_codes(dt_fake_quant(t, y, &q, true), &b), DT_OK);
    ck_assert_ptr_eq(a, b);
    dt__codes_release(a);
    dt__codes_release(b);
    dt_tensor_free(x);
}
END_TEST

START_TEST(no_dequantized_value_is_kept)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(256, 256, &q);
    dt_tensor *y = dt_tanh(t, w); /* keeps only y, 256 KiB, and no dequantized value */
    const size_t used = dt_memory_of(ctx).used;
    dt_tape_reset(t);
    ck_assert_uint_lt(used - dt_memory_of(ctx).used, (size_t)400 * 1024);
    (void)y;
    dt_tensor_free(w);
}
END_TEST

START_TEST(activations_pass_gradients_on)
{
    const dt_quant_spec q = dt_activation_quant_defaults();
    dt_tensor *x = leaf(4, 30), *dy = random_matrix(4, 30);
    dt_tensor *y = dt_tanh(t, dt_fake_quant(t, x, &q, true));
    ck_assert_int_eq(dt_backward(t, y, dy), DT_OK);
    ck_assert_ptr_nonnull(dt_grad(x));
    dt_tensor_free(x);
    dt_tensor_free(dy);
}
END_TEST

START_TEST(a_wrapper_prints_its_settings)
{
    dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(8, 64, &q);
    char text[200];
    dt_describe(w, text, sizeof text);
    ck_assert_str_eq(text, "fake_quant(int4 symmetric group 32, enabled) f32[8,64]");
    ck_assert_ptr_null(dt_data(w));
    ck_assert_int_eq(dt_error_status(ctx), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "dt_inner"));
    dt_tensor *alias;
    ck_assert_int_eq(dt_alias(w, &alias), DT_OK);
    ck_assert(dt_is_fake_quant(alias));
    dt_tensor_free(alias);
    ck_assert(dt_is_fake_quant(dt_detach(t, w)));
    dt_tensor_free(w);
}
END_TEST

/* One activation wrapped in three ways in one pass: each wrapper has codes by its own spec. */
START_TEST(a_tensor_has_codes_for_each_specification)
{
    dt_tensor *x = leaf(4, 32);
    dt_quant_spec q = dt_activation_quant_defaults();
    dt_tensor *fine = dt_fake_quant(t, x, &q, true);
    q.bits = 3;
    dt_tensor *coarse = dt_fake_quant(t, x, &q, true);
    const dt__fq simulated = { .quant = q, .enabled = true, .simulated = true };
    dt__codes *codes[3];
    ck_assert_int_eq(dt__fq_codes(fine, &codes[0]), DT_OK);
    ck_assert_int_eq(dt__fq_codes(coarse, &codes[1]), DT_OK);
    ck_assert_int_eq(dt__fq_codes(dt__fake_quant_as(t, x, &simulated), &codes[2]), DT_OK);
    ck_assert_int_eq(codes[0]->bits, 8);
    ck_assert_int_eq(codes[1]->bits, 3);
    ck_assert(codes[1]->integer);
    ck_assert(!codes[2]->integer);
    for (int i = 0; i < 3; i++) dt__codes_release(codes[i]);
    dt_tensor_free(x);
}
END_TEST

/* A write frees the codes' memory at once, not when new codes are made. */
START_TEST(a_write_drops_codes_at_once)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(4, 32, &q);
    dt_no_grad(t, true);
    ck_assert_ptr_nonnull(dt_tanh(t, w));
    ck_assert_ptr_nonnull(dt_inner(w)->attached);
    ck_assert_ptr_nonnull(dt_mul_(t, w, NULL, 2));
    ck_assert_ptr_null(dt_inner(w)->attached);
    dt_tensor_free(w);
}
END_TEST

/* Codes renewed in place have the bytes of newly made ones, with masks and counts. They are renewed
 * in place only if no other owner holds them. */
static void check_renewed(dt_tensor *w, const dt_quant_spec *q, bool fails)
{
    dt__codes *codes, *fresh;
    ck_assert_int_eq(dt__fq_codes(w, &codes), DT_OK);
    dt__renewal r;
    ck_assert(!dt__renew_begin(w, &r)); /* we hold them */
    dt__codes_release(codes);
    ck_assert_int_eq(dt_fill_normal(dt_inner(w), 0, 2), DT_OK);
    float *x = dt_data_mut(dt_inner(w));
    if (fails) x[33 * w->dims[1] + 1] = INFINITY;
    const bool begins = dt__renew_begin(w, &r);
    ck_assert_int_eq(begins,
                     q->granularity != DT_PER_TENSOR && !dt__scheme_of(q->scheme)->has_zero);
    if (!begins) return;
    for (int64_t p = r.codes->layout.panels - 1; p >= 0; p--) dt__renew_panel(&r, p);
    dt__renew_end(&r);
    if (fails) {
        TEST_FAILS(ctx, DT_ERR_NUMERIC, "is infinite", dt__fq_codes(w, &codes));
        return;
    }
    ck_assert_int_eq(dt__fq_codes(w, &codes), DT_OK);
    ck_assert_ptr_eq(codes, r.codes);
    ck_assert_int_eq(dt__codes_make(dt_inner(w), &(dt__fq){ .quant = *q }, "fresh", &fresh), DT_OK);
    ck_assert_mem_eq(codes->panels, fresh->panels, codes->layout.bytes);
    ck_assert_int_eq(codes->clipped, fresh->clipped);
    ck_assert((codes->mask == NULL) == (fresh->mask == NULL));
    if (codes->mask != NULL) ck_assert_mem_eq(codes->mask, fresh->mask, 45 * 9);
    dt__codes_release(codes);
    dt__codes_release(fresh);
}

START_TEST(codes_are_renewed_in_place)
{
    for (int i = 0; i < 2 * DT__SCHEMES * 3; i++) {
        dt_quant_spec q = dt_weight_quant_defaults();
        q.ste = i % 2 == 0 ? DT_STE_IDENTITY : DT_STE_CLIPPED;
        q.scheme = i / 2 % DT__SCHEMES;
        q.granularity = i / (2 * DT__SCHEMES);
        if (dt__scheme_of(q.scheme)->bits != 0) q.bits = dt__scheme_of(q.scheme)->bits;
        if (!scheme_takes(ctx, &q)) continue;
        dt_tensor *w = wrapped(45, 70, &q);
        dt__renewal r;
        ck_assert(!dt__renew_begin(w, &r)); /* there are none yet */
        check_renewed(w, &q, false);
        check_renewed(w, &q, false);
        check_renewed(w, &q, true);
        dt_tensor_free(w);
    }
}
END_TEST

START_TEST(views_of_a_dequantized_value_refuse_writes)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(4, 32, &q);
    dt_no_grad(t, true);
    dt_tensor *view = dt_transpose(t, w, 0, 1);
    ck_assert_ptr_nonnull(dt_strided_data(view));
    ck_assert_ptr_null(dt_strided_data_mut(view));
    ck_assert_int_eq(dt_error_status(ctx), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "dt_inner"));
    ck_assert_ptr_null(dt_mul_(t, view, NULL, 2));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "dt_inner"));
    dt_tensor_free(w);
}
END_TEST

START_TEST(bad_values_are_named)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = wrapped(4, 32, &q);
    ((float *)dt_data_mut(dt_inner(w)))[37] = NAN;
    ck_assert_ptr_null(dt_tanh(t, w));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "37"));
    dt_tensor_free(w);
}
END_TEST

Suite *test_fake_quant_suite(void)
{
    Suite *s = suite_create("fake_quant");
    TCase *c = tcase_create("wrapper");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, an_op_reads_dequantized_values);
    tcase_add_test(c, a_tensor_has_codes_for_each_specification);
    tcase_add_test(c, a_write_drops_codes_at_once);
    tcase_add_test(c, codes_are_renewed_in_place);
    tcase_add_test(c, views_of_a_dequantized_value_refuse_writes);
    tcase_add_test(c, gradient_lands_on_the_wrapper);
    tcase_add_test(c, gradient_lands_while_disabled);
    tcase_add_test(c, clipped_gradient_is_masked);
    tcase_add_test(c, codes_are_made_once_per_version);
    tcase_add_test(c, wrappers_of_one_activation_share_codes);
    tcase_add_test(c, no_dequantized_value_is_kept);
    tcase_add_test(c, activations_pass_gradients_on);
    tcase_add_test(c, a_wrapper_prints_its_settings);
    tcase_add_test(c, bad_values_are_named);
    suite_add_tcase(s, c);
    return s;
}
