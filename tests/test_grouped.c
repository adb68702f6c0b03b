/* Grouped parameters: the mark and who keeps it, how they print, who refuses them, shard axes. */
#include "testing.h"

#include "core/tensor.h"
#include "qat/quantized.h"

#include <detent/ops.h>
#include <detent/qat.h>

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

/* ---- tensors ------------------------------------------------------------------------------------ */

static dt_tensor *random_tensor(dt_dtype dtype, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, dtype, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

static dt_tensor *experts(dt_dtype dtype, int64_t count, int64_t rows, int64_t columns)
{
    dt_tensor *w = random_tensor(dtype, 3, (const int64_t[]){ count, rows, columns });
    TEST_OK(ctx, dt_set_grouped(w));
    TEST_OK(ctx, dt_set_requires_grad(w, true));
    return w;
}

static void check_text(const dt_tensor *x, const char *wanted)
{
    char text[256];
    dt_describe(x, text, sizeof text);
    ck_assert_str_eq(text, wanted);
}

/* ---- the mark ------------------------------------------------------------------------------------- */

START_TEST(only_a_plain_leaf_is_marked)
{
    dt_tensor *x = random_tensor(DT_F32, 1, (const int64_t[]){ 4 });
    TEST_FAILS(ctx, DT_ERR_SHAPE, "x is [4]", dt_set_grouped(x));
    dt_tensor_free(x);
    x = random_tensor(DT_F32, 2, (const int64_t[]){ 0, 4 });
    TEST_FAILS(ctx, DT_ERR_SHAPE, "at least one member", dt_set_grouped(x));
    dt_tensor_free(x);
    x = random_tensor(DT_F32, 3, (const int64_t[]){ 3, 4, 5 });
    ck_assert(!dt_is_grouped(x));
    ck_assert_int_eq(dt_grouped_count(x), 0);
    TEST_FAILS(ctx, DT_ERR_STATE, "lent by a tape", dt_set_grouped(dt_tanh(t, x)));
    TEST_OK(ctx, dt_set_grouped(x));
    TEST_OK(ctx, dt_set_grouped(x));
    ck_assert(dt_is_grouped(x));
    ck_assert_int_eq(dt_grouped_count(x), 3);
    dt_tensor_free(x);
    x = random_tensor(DT_F32, 3, (const int64_t[]){ 3, 4, 5 });
    TEST_OK(ctx, dt__fq_wrap(x, &(dt__fq){ .quant = dt_weight_quant_defaults() }));
    TEST_FAILS(ctx, DT_ERR_STATE, "before it is prepared", dt_set_grouped(x));
    dt_tensor_free(x);
}
END_TEST

START_TEST(a_strided_tensor_is_not_marked)
{
    dt_tensor *x = random_tensor(DT_F32, 3, (const int64_t[]){ 3, 4, 5 }), *view;
    TEST_OK(ctx, dt_tensor_narrow(x, 2, 1, 3, &view));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "strided", dt_set_grouped(view));
    dt_tensor_free(view);
    dt_tensor_free(x);
}
END_TEST

START_TEST(aliases_keep_the_mark_and_results_do_not)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5), *alias;
    TEST_OK(ctx, dt_alias(w, &alias));
    ck_assert_int_eq(dt_grouped_count(alias), 3);
    ck_assert_int_eq(dt_grouped_count(dt_detach(t, w)), 3);
    ck_assert(!dt_is_grouped(dt_mul(t, w, w)));
    dt_tensor_free(alias);
    dt_tensor_free(w);
}
END_TEST

START_TEST(they_print_count_and_member)
{
    dt_tensor *w = experts(DT_F32, 8, 6, 64);
    check_text(w, "grouped(8 x [6,64]) f32");
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = dt_weight_quant_defaults() }));
    check_text(w, "fake_quant(int4 symmetric group 32, enabled) grouped(8 x [6,64]) f32");
    check_text(dt_detach(t, w),
               "fake_quant(int4 symmetric group 32, enabled) grouped(8 x [6,64]) f32");
    check_text(dt_inner(w), "grouped(8 x [6,64]) f32");
    dt_tensor_free(w);
    w = random_tensor(DT_F64, 2, (const int64_t[]){ 2, 7 });
    TEST_OK(ctx, dt_set_grouped(w));
    check_text(w, "grouped(2 x [7]) f64");
    dt_tensor_free(w);
}
END_TEST

START_TEST(shard_axes_follow_the_member)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5);
    ck_assert_int_eq(dt_grouped_shard_axis(w, 0), 1); /* out */
    ck_assert_int_eq(dt_grouped_shard_axis(w, 1), 2); /* in */
    ck_assert_int_eq(dt_grouped_shard_axis(w, -1), 2);
    ck_assert_int_eq(dt_grouped_shard_axis(w, -2), 1);
    const int none[] = { 2, -3, 100, INT32_MIN };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(dt_grouped_shard_axis(w, none[i]), -1);
        ck_assert_int_eq(dt_error_status(ctx), DT_ERR_ARG);
    }
    dt_tensor_free(w);
    w = random_tensor(DT_F32, 3, (const int64_t[]){ 3, 4, 5 });
    ck_assert_int_eq(dt_grouped_shard_axis(w, 0), -1);
    ck_assert_int_eq(dt_error_status(ctx), DT_ERR_STATE);
    dt_tensor_free(w);
}
END_TEST

/* ---- ops ---------------------------------------------------------------------------------------------- */

typedef struct refused {
    const char *says;
    dt_tensor *(*run)(dt_tensor *w);
} refused;

static dt_tensor *reshape(dt_tensor *w) { return dt_reshape(t, w, 1, (const int64_t[]){ -1 }); }
static dt_tensor *flatten(dt_tensor *w) { return dt_flatten(t, w, 0, 1); }
static dt_tensor *transpose(dt_tensor *w) { return dt_transpose(t, w, 1, 2); }
static dt_tensor *permute(dt_tensor *w) { return dt_permute(t, w, (const int64_t[]){ 0, 2, 1 }); }
static dt_tensor *concat(dt_tensor *w)
{
    dt_tensor *plain = dt_tanh(t, w);
    return dt_concat(t, (dt_tensor *[]){ plain, w }, 2, 0);
}
static dt_tensor *slice(dt_tensor *w)
{
    const dt_slice_options o = { .dims = { 1, { 0 } },
                                 .starts = { 1, { 1 } },
                                 .stops = { 1, { 2 } } };
    return dt_slice(t, w, &o);
}
static dt_tensor *pad(dt_tensor *w)
{
    const dt_pad_options o = { .pads = { 2, { 1, 1 } } };
    return dt_pad(t, w, &o);
}
static dt_tensor *upsample(dt_tensor *w) { return dt_upsample_nearest(t, w, 8, 10); }
static dt_tensor *linear(dt_tensor *w)
{
    dt_tensor *x = dt_tanh(t, dt_detach(t, w));
    return dt_linear(t, x, w, NULL);
}

static const refused rearranging[] = {
    { "reshape: x is a grouped parameter of 3 [4,5]; dt_grouped_member", reshape },
    { "flatten: x is a grouped", flatten },
    { "transpose: x is a grouped", transpose },
    { "permute: x is a grouped", permute },
    { "concat: x1 is a grouped", concat },
    { "slice: x is a grouped", slice },
    { "pad: x is a grouped", pad },
    { "upsample_nearest: x is a grouped", upsample },
    { "linear: weight is a grouped", linear },
};

static void check_refused(dt_tensor *w)
{
    for (size_t i = 0; i < sizeof rearranging / sizeof rearranging[0]; i++) {
        const char *says = rearranging[i].says;
        ck_assert_ptr_null(rearranging[i].run(w));
        ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
        ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "'%s' is not in '%s'", says,
                      dt_error(ctx));
        dt_tape_reset(t);
    }
}

START_TEST(what_rearranges_is_refused)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5), *view = w;
    check_refused(w);
    TEST_FAILS(ctx, DT_ERR_STATE, "narrow: x is a grouped parameter of 3 [4,5]",
               dt_tensor_narrow(w, 0, 1, 1, &view));
    ck_assert_ptr_null(view);
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = dt_weight_quant_defaults() }));
    TEST_OK(ctx, dt_fake_quant_enable(w, false));
    check_refused(w);
    dt_tensor_free(w);
}
END_TEST

START_TEST(what_reads_is_not)
{
    dt_tensor *w = experts(DT_F64, 3, 4, 5);
    dt_tensor *x = random_tensor(DT_F64, 3, (const int64_t[]){ 3, 5, 2 });
    dt_tensor *y = dt_matmul(t, dt_silu(t, w), x);
    ck_assert_ptr_nonnull(y);
    ck_assert(!dt_is_grouped(y));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, y, NULL), NULL));
    ck_assert_int_eq(dt_count(dt_grad(w)), 60);
    dt_tensor_free(x);
    dt_tensor_free(w);
}
END_TEST

Suite *test_grouped_suite(void)
{
    Suite *s = suite_create("grouped");
    TCase *mark = tcase_create("mark");
    tcase_add_checked_fixture(mark, setup, teardown);
    tcase_add_test(mark, only_a_plain_leaf_is_marked);
    tcase_add_test(mark, a_strided_tensor_is_not_marked);
    tcase_add_test(mark, aliases_keep_the_mark_and_results_do_not);
    tcase_add_test(mark, they_print_count_and_member);
    tcase_add_test(mark, shard_axes_follow_the_member);
    suite_add_tcase(s, mark);
    TCase *ops = tcase_create("ops");
    tcase_add_checked_fixture(ops, setup, teardown);
    tcase_add_test(ops, what_rearranges_is_refused);
    tcase_add_test(ops, what_reads_is_not);
    suite_add_tcase(s, ops);
    return s;
}
