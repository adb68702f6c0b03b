/* The tape: gradients, accumulation, scopes, the first error is kept, use after write, no
 * allocation from the second step on. */
#include "testing.h"

#include "autograd/op.h"

#include <check.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>
#include <math.h>
#include <string.h>

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

static dt_tensor *leaf(int64_t n, const float *values)
{
    dt_tensor *x;
    ck_assert_int_eq(dt_tensor_from(ctx, DT_F32, 1, &n, values, &x), DT_OK);
    ck_assert_int_eq(dt_set_requires_grad(x, true), DT_OK);
    return x;
}

/* Sizes in bytes are size_t: extents that overflow its 32 bits are refused. */
START_TEST(shapes_beyond_the_address_space)
{
    static const int64_t most = SIZE_MAX < INT64_MAX ? (int64_t)SIZE_MAX : INT64_MAX - 8;
    const int64_t dims[][2] = { { most + 8, 1 }, { most / 4, 2 }, { most / 2, 4 }, { 1, most } };
    for (int i = 0; i < DT__COUNT_OF(dims); i++) {
        dt_tensor *x = (dt_tensor *)ctx;
        TEST_FAILS(ctx, DT_ERR_ARG, "too large", dt_tensor_create(ctx, DT_F32, 2, dims[i], &x));
        ck_assert_ptr_null(x);
    }
    size_t bytes;
    ck_assert(!dt__add_size(SIZE_MAX, 1, &bytes) && !dt__add_size(1, UINT64_MAX, &bytes));
    ck_assert(!dt__mul_size(SIZE_MAX / 2 + 1, 2, &bytes) && !dt__mul_size(2, UINT64_MAX, &bytes));
    ck_assert(dt__mul_size(SIZE_MAX, 1, &bytes) && bytes == SIZE_MAX);
    void *block = dt__alloc_array(ctx, most / 4 + 3, 8);
    ck_assert_ptr_null(block);
    ck_assert_int_eq(dt__reserve(ctx, &block, most / 8, &(int64_t){ most / 8 }, 8), DT_ERR_NOMEM);
}
END_TEST

static const float three[3] = { -1.0f, 0.25f, 2.0f };

START_TEST(gradient_flows_and_accumulates)
{
    dt_tensor *x = leaf(3, three), *dy;
    const float up[3] = { 1.0f, 2.0f, -1.0f };
    const int64_t n = 3;
    ck_assert_int_eq(dt_tensor_from(ctx, DT_F32, 1, &n, up, &dy), DT_OK);
    for (int pass = 1; pass <= 2; pass++) {
        dt_tensor *y = dt_tanh(t, dt_tanh(t, x));
        ck_assert_int_eq(dt_backward(t, y, dy), DT_OK);
        const float *g = dt_data(dt_grad(x));
        for (int i = 0; i < 3; i++) {
            const double a = tanh((double)three[i]), b = tanh(a);
            const double want = pass * (double)up[i] * (1 - b * b) * (1 - a * a);
            ck_assert_double_le(fabs((double)g[i] - want), 1e-6);
        }
        dt_tape_reset(t);
    }
    dt_tensor_free(x);
    dt_tensor_free(dy);
}
END_TEST

/* A quantized weight cannot be the gradient given to backward. */
START_TEST(a_gradient_from_outside_is_plain)
{
    dt_tensor *x = leaf(3, three), *weight = leaf(3, three);
    dt_quant_spec spec, unused;
    dt_qat_preset(DT_INT8_DYNAMIC_INT8_WEIGHT, &spec, &unused);
    spec.granularity = DT_PER_TENSOR;
    const dt_tensor *quantized = dt_fake_quant(t, weight, &spec, true);
    dt_tensor *y = dt_square(t, x);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "a plain tensor like the loss", dt_backward(t, y, quantized));
    dt_tensor_free(weight);
    dt_tensor_free(x);
}
END_TEST

START_TEST(second_backward_is_refused)
{
    dt_tensor *x = leaf(1, three);
    dt_tensor *y = dt_tanh(t, x);
    ck_assert_int_eq(dt_backward(t, y, NULL), DT_OK);
    ck_assert_int_eq(dt_backward(t, y, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "already run"));
    dt_tensor_free(x);
}
END_TEST

START_TEST(use_after_write_is_noticed)
{
    dt_tensor *x = leaf(1, three);
    dt_tensor *y = dt_tanh(t, x);
    *(float *)dt_data_mut(y) = 7;
    ck_assert_int_eq(dt_backward(t, y, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "tanh"));
    dt_tensor_free(x);
}
END_TEST

START_TEST(dropped_tensors_are_refused)
{
    dt_tensor *x = leaf(3, three);
    dt_tensor *y = dt_tanh(t, x);
    dt_drop(t, y);
    ck_assert_ptr_null(dt_data(y));
    ck_assert_ptr_null(dt_tanh(t, y));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_ptr_null(dt_tanh(t, x)); /* the error stays */
    dt_tape_reset(t);
    ck_assert_ptr_nonnull(dt_tanh(t, x));
    dt_tensor_free(x);
}
END_TEST

START_TEST(a_dropped_tensor_still_serves_backward)
{
    dt_tensor *x = leaf(1, three);
    dt_tensor *y = dt_tanh(t, x), *z = dt_tanh(t, y);
    dt_drop(t, y);
    ck_assert_int_eq(dt_backward(t, z, NULL), DT_OK);
    ck_assert_ptr_nonnull(dt_grad(x));
    dt_tensor_free(x);
}
END_TEST

START_TEST(no_allocation_from_the_second_step)
{
    dt_tensor *x = leaf(3, three);
    uint64_t after_first = 0;
    for (int step = 0; step < 5; step++) {
        dt_tape_reset(t);
        dt_grad_clear(x);
        dt_tensor *y = x;
        for (int i = 0; i < 50; i++) y = dt_tanh(t, y);
        const int64_t one = 3;
        dt_tensor *dy;
        ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 1, &one, &dy), DT_OK);
        ck_assert_int_eq(dt_backward(t, y, dy), DT_OK);
        dt_tensor_free(dy);
        if (step == 0) after_first = dt_memory_of(ctx).allocations;
    }
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, after_first);
    dt_tensor_free(x);
}
END_TEST

START_TEST(detach_stops_gradients)
{
    dt_tensor *x = leaf(1, three);
    dt_tensor *y = dt_tanh(t, dt_detach(t, x));
    ck_assert_int_eq(dt_backward(t, y, NULL), DT_ERR_ARG);
    dt_tensor_free(x);
}
END_TEST

START_TEST(no_grad_records_nothing)
{
    dt_tensor *x = leaf(1, three);
    ck_assert(!dt_no_grad(t, true));
    dt_tensor *y = dt_tanh(t, x);
    ck_assert(!dt_requires_grad(y));
    ck_assert_ptr_nonnull(dt_mul_(t, x, NULL, 2)); /* no tensor needs its storage any more */
    ck_assert(dt_no_grad(t, false));
    ck_assert(dt_requires_grad(dt_tanh(t, x)));
    dt_tensor_free(x);
}
END_TEST

START_TEST(an_alias_is_a_leaf_with_its_own_gradient)
{
    dt_tensor *x = leaf(1, three), *alias;
    ck_assert_int_eq(dt_alias(x, &alias), DT_OK);
    ck_assert(dt_requires_grad(alias));
    ck_assert_int_eq(dt_backward(t, dt_tanh(t, alias), NULL), DT_OK);
    ck_assert_ptr_nonnull(dt_grad(alias));
    ck_assert_ptr_null(dt_grad(x));
    dt_tensor_free(alias);
    dt_tensor_free(x);
}
END_TEST

/* Gradients of tensors between the loss and the leaves are freed after their use. */
START_TEST(gradients_in_between_are_freed)
{
    dt_tensor *x = leaf(3, three);
    dt_tensor *y = dt_tanh(t, x), *loss = dt_sum(t, y, NULL);
    ck_assert_int_eq(dt_backward(t, loss, NULL), DT_OK);
    ck_assert_ptr_null(dt_grad(y));
    ck_assert_ptr_null(dt_grad(loss));
    ck_assert_ptr_nonnull(dt_grad(x));
    dt_tensor_free(x);
}
END_TEST

START_TEST(a_watched_tape_names_the_gradient)
{
    const float zero = 0;
    dt_tensor *x = leaf(1, &zero);
    ck_assert(!dt_tape_watch(t, true));
    ck_assert_int_eq(dt_backward(t, dt_sqrt(t, x), NULL), DT_ERR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "sqrt: the gradient of x"));
    ck_assert_ptr_null(dt_grad(x));
    dt_tensor_free(x);
}
END_TEST

START_TEST(a_tape_refuses_ops_after_backward)
{
    dt_tensor *x = leaf(1, three);
    ck_assert_int_eq(dt_backward(t, dt_tanh(t, x), NULL), DT_OK);
    ck_assert_ptr_null(dt_tanh(t, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "dt_tape_reset"));
    dt_tensor_free(x);
}
END_TEST

START_TEST(accumulating_a_gradient_is_a_write)
{
    dt_tensor *x = leaf(1, three);
    ck_assert_int_eq(dt_backward(t, dt_tanh(t, x), NULL), DT_OK);
    const uint64_t before = dt_tensor_version(dt_grad(x));
    dt_tape_reset(t);
    ck_assert_int_eq(dt_backward(t, dt_tanh(t, x), NULL), DT_OK);
    ck_assert_uint_gt(dt_tensor_version(dt_grad(x)), before);
    dt_tensor_free(x);
}
END_TEST

START_TEST(undifferentiable_operands_get_no_gradient)
{
    const int64_t dims[2] = { 3, 1 };
    const float one = 1, values[3] = { 1, 2, 4 };
    dt_tensor *x, *p[4];
    ck_assert_int_eq(dt_tensor_from(ctx, DT_F32, 2, dims, values, &x), DT_OK);
    ck_assert_int_eq(dt_set_requires_grad(x, true), DT_OK);
    for (int i = 0; i < 4; i++) p[i] = leaf(1, &one);
    const dt_batch_norm_operands operands = { p[0], p[1], p[2], p[3], NULL, NULL };
    dt_tensor *y = dt_batch_norm1d(t, x, &operands, NULL);
    ck_assert_int_eq(dt_backward(t, dt_sum(t, dt_square(t, y), NULL), NULL), DT_OK);
    for (int i = 0; i < 4; i++) ck_assert((dt_grad(p[i]) != NULL) == (i < 2));
    for (int i = 0; i < 4; i++) dt_tensor_free(p[i]);
    dt_tensor_free(x);
}
END_TEST

static dt_tensor *cut(dt_tensor *x, int64_t start, int64_t stop, int64_t step)
{
    const dt_slice_options o = { .dims = { 1, { 0 } },
                                 .starts = { 1, { start } },
                                 .stops = { 1, { stop } },
                                 .steps = { 1, { step } } };
    return dt_slice(t, x, &o);
}

/* Slices that overlap, before and after readers whose gradients share the memory of others. */
START_TEST(slices_add_to_one_gradient)
{
    const float values[6] = { 1, 2, 3, 4, 5, 6 };
    dt_tensor *x = leaf(6, values), *u[2];
    for (int i = 0; i < 2; i++) {
        dt_tensor *twice = dt_add(t, x, x);
        u[0] = dt_add(t, dt_add(t, twice, twice), x);
        u[1] = x; /* a leaf, to whose gradient the second pass adds */
        dt_tensor *first = dt_sum(t, dt_neg(t, u[i]), NULL);
        dt_tensor *odd = dt_sum(t, dt_square(t, cut(u[i], 0, 6, 2)), NULL);
        dt_tensor *left = dt_sum(t, cut(u[i], 1, 5, 1), NULL);
        dt_tensor *last = dt_sum(t, u[i], NULL);
        dt_tensor *loss = dt_add(t, dt_add(t, first, odd), dt_add(t, left, last));
        ck_assert_int_eq(dt_backward(t, loss, NULL), DT_OK);
        dt_tape_reset(t);
    }
    const float *g = dt_data(dt_grad(x));
    for (int i = 0; i < 6; i++) {
        const float square = i % 2 == 0 ? 2 * values[i] : 0, inner = i >= 1 && i < 5 ? 1 : 0;
        ck_assert_float_eq(g[i], 5 * (5 * square + inner) + square + inner);
    }
    dt_tensor_free(x);
}
END_TEST

Suite *test_autograd_suite(void)
{
    Suite *s = suite_create("autograd");
    TCase *c = tcase_create("tape");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, gradient_flows_and_accumulates);
    tcase_add_test(c, a_gradient_from_outside_is_plain);
    tcase_add_test(c, second_backward_is_refused);
    tcase_add_test(c, use_after_write_is_noticed);
    tcase_add_test(c, dropped_tensors_are_refused);
    tcase_add_test(c, a_dropped_tensor_still_serves_backward);
    tcase_add_test(c, no_allocation_from_the_second_step);
    tcase_add_test(c, detach_stops_gradients);
    tcase_add_test(c, no_grad_records_nothing);
    tcase_add_test(c, an_alias_is_a_leaf_with_its_own_gradient);
    tcase_add_test(c, gradients_in_between_are_freed);
    tcase_add_test(c, a_watched_tape_names_the_gradient);
    tcase_add_test(c, a_tape_refuses_ops_after_backward);
    tcase_add_test(c, accumulating_a_gradient_is_a_write);
    tcase_add_test(c, shapes_beyond_the_address_space);
    tcase_add_test(c, undifferentiable_operands_get_no_gradient);
    tcase_add_test(c, slices_add_to_one_gradient);
    suite_add_tcase(s, c);
    return s;
}
