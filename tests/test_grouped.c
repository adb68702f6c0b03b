/* Grouped parameters: which tensors are grouped, how they print, which ops refuse them, shard axes.
 * Experts: the storage, gradient and codes that they share, and lifetimes. */
#include "testing.h"

#include "core/tensor.h"
#include "ops/ops_list.h"
#include "qat/quantized.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>
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

/* ---- tensors --------------------------------------------------------------------------------- */

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

/* ---- which tensors are grouped --------------------------------------------------------------- */

START_TEST(only_a_plain_leaf_is_marked)
{
    dt_tensor *x = random_tensor(DT_F32, 1, (const int64_t[]){ 4 });
    TEST_FAILS(ctx, DT_ERR_SHAPE, "it is [4]", dt_set_grouped(x));
    dt_tensor_free(x);
    x = random_tensor(DT_F32, 2, (const int64_t[]){ 0, 4 });
    TEST_FAILS(ctx, DT_ERR_SHAPE, "at least one expert", dt_set_grouped(x));
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

START_TEST(aliases_are_grouped_and_results_are_not)
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

START_TEST(they_print_count_and_expert)
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

START_TEST(shard_axes_follow_the_expert)
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

/* ---- ops ------------------------------------------------------------------------------------- */

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
static dt_tensor *upsample1d(dt_tensor *w) { return dt_upsample_nearest1d(t, w, 10); }
static dt_tensor *linear(dt_tensor *w)
{
    dt_tensor *x = dt_tanh(t, dt_detach(t, w));
    return dt_linear(t, x, w, NULL);
}

static const refused rearranging[] = {
    { "reshape: x is a grouped parameter of 3 [4,5]; dt_grouped_expert", reshape },
    { "flatten: x is a grouped", flatten },
    { "transpose: x is a grouped", transpose },
    { "permute: x is a grouped", permute },
    { "concat: x1 is a grouped", concat },
    { "slice: x is a grouped", slice },
    { "pad: x is a grouped", pad },
    { "upsample_nearest: x is a grouped", upsample },
    { "upsample_nearest1d: x is a grouped", upsample1d },
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

START_TEST(rearranging_ops_are_refused)
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

/* Ops with role CODES read the rows as one matrix, except those for experts; rearranging ops, and
 * the cells, which read rows as gates, would mix experts: they are refused. All others are
 * allowed. */
START_TEST(every_op_accepts_or_refuses_grouped_operands)
{
    static const dt_op *const ops[] = {
#define DT__OP(name) &dt__op_##name,
#include "ops/ops.inc"
#undef DT__OP
    };
    static const dt_op *const arrange[] = { &dt__op_reshape,
                                            &dt__op_flatten,
                                            &dt__op_transpose,
                                            &dt__op_permute,
                                            &dt__op_slice,
                                            &dt__op_concat,
                                            &dt__op_pad,
                                            &dt__op_upsample_nearest,
                                            &dt__op_upsample_nearest1d,
                                            &dt__op_gru_cell,
                                            &dt__op_lstm_cell };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        bool wanted = false;
        for (int k = 0; k < DT_MAX_IN; k++) wanted = wanted || ops[i]->role[k] == DT_CODES;
        wanted = wanted && ops[i] != &dt__op_grouped_linear;
        for (size_t k = 0; k < sizeof arrange / sizeof arrange[0]; k++) {
            wanted = wanted || ops[i] == arrange[k];
        }
        TEST_EACH(ops[i]->ungrouped == wanted, "%s", ops[i]->name);
    }
}
END_TEST

START_TEST(reading_ops_are_allowed)
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

/* ---- experts: handles ------------------------------------------------------------------------ */

static dt_tensor *expert(dt_tensor *w, int64_t i)
{
    dt_tensor *m = dt_grouped_expert(w, i);
    ck_assert_msg(m != NULL, "%s", dt_error(ctx));
    return m;
}

static const float *f32(const dt_tensor *x)
{
    const float *data = dt_data(x);
    ck_assert_msg(data != NULL, "%s", dt_error(ctx));
    return data;
}

START_TEST(an_expert_shares_the_storage)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5), *m = expert(w, 2);
    check_text(m, "f32[4,5]");
    ck_assert(!dt_is_grouped(m));
    ck_assert(dt_is_contiguous(m));
    ck_assert_ptr_eq(f32(m), f32(w) + 40);
    const uint64_t before = dt_tensor_version(w);
    TEST_OK(ctx, dt_fill(m, 7));
    ck_assert_uint_gt(dt_tensor_version(w), before);
    TEST_EACH(f32(w)[40] == 7 && f32(w)[59] == 7 && f32(w)[39] != 7, "another expert was filled");
    dt_tensor_free(w);
    TEST_EACH(f32(m)[0] == 7 && f32(m)[19] == 7, "the storage went with w"); /* m keeps it */
    dt_tensor_free(m);
}
END_TEST

START_TEST(experts_out_of_range_are_refused)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5);
    const int64_t none[] = { -1, 3, INT64_MAX, INT64_MIN };
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_null(dt_grouped_expert(w, none[i]));
        ck_assert_int_eq(dt_error_status(ctx), DT_ERR_ARG);
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "experts 0...2"));
    }
    dt_tensor *m = expert(w, 0), *plain = random_tensor(DT_F32, 2, (const int64_t[]){ 3, 4 });
    ck_assert_ptr_null(dt_grouped_expert(m, 0));
    ck_assert_int_eq(dt_error_status(ctx), DT_ERR_STATE);
    TEST_FAILS(ctx, DT_ERR_STATE, "is an expert", dt_set_grouped(m));
    ck_assert_ptr_null(dt_grouped_expert(plain, 0));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "not a grouped parameter but f32[3,4]"));
    dt_tensor_free(plain);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* At any time before or after dt_set_requires_grad of w. */
START_TEST(an_expert_requires_grad_as_its_parameter_does)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5), *early = expert(w, 1);
    dt_no_grad(t, true);
    dt_tensor *quiet = expert(w, 2);
    dt_no_grad(t, false);
    ck_assert(dt_requires_grad(early) && dt_requires_grad(quiet));
    TEST_OK(ctx, dt_set_requires_grad(w, false));
    ck_assert(!dt_requires_grad(early));
    ck_assert(!dt_requires_grad(dt_tanh(t, early)));
    TEST_OK(ctx, dt_set_requires_grad(w, true));
    ck_assert(dt_requires_grad(dt_tanh(t, early)));
    TEST_FAILS(ctx, DT_ERR_STATE, "follows its grouped parameter",
               dt_set_requires_grad(early, false));
    dt_tensor_free(early);
    dt_tensor_free(quiet);
    dt_tensor_free(w);
}
END_TEST

START_TEST(an_expert_is_no_parameter_of_a_module)
{
    dt_module *m;
    dt_tensor *w = experts(DT_F32, 3, 4, 5);
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_FAILS(ctx, DT_ERR_STATE, "is an expert", dt_module_add_param(m, "w", expert(w, 0)));
    dt_tensor_free(w);
    dt_module_free(m);
}
END_TEST

/* Experts of a tensor lent by a tape: those of a detached tensor take no gradient. */
START_TEST(experts_of_a_detached_parameter)
{
    dt_tensor *w = experts(DT_F32, 3, 4, 5), *m = expert(dt_detach(t, w), 1);
    ck_assert_ptr_eq(f32(m), f32(w) + 20);
    ck_assert(!dt_requires_grad(m));
    ck_assert(!dt_requires_grad(dt_tanh(t, m)));
    dt_tape_reset(t);
    ck_assert_ptr_eq(f32(m), f32(w) + 20);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* ---- experts: gradients ---------------------------------------------------------------------- */

typedef struct net {
    int64_t count, rows, in, out;
    dt_tensor *x, *w, *v; /* w [count, out, in], v [count, in, out] */
} net;

static net random_net(int seed)
{
    net n = {
        1 + seed % 5, 1 + seed * 7 % 6, 1 + seed * 5 % 9, 1 + seed * 3 % 8, NULL, NULL, NULL
    };
    n.x = random_tensor(DT_F64, 2, (const int64_t[]){ n.rows, n.in });
    n.w = experts(DT_F64, n.count, n.out, n.in);
    n.v = experts(DT_F64, n.count, n.in, n.out);
    return n;
}

static void free_net(net *n)
{
    dt_tensor_free(n->x);
    dt_tensor_free(n->w);
    dt_tensor_free(n->v);
}

/* Sum of squares of x + silu(x w^T) v^T, expert after expert, the first of which comes once
 * more. */
static dt_tensor *loss_of(dt_tape *tape, const net *n, dt_tensor *const *w, dt_tensor *const *v)
{
    dt_tensor *x = n->x;
    for (int64_t i = 0; i <= n->count; i++) {
        const int64_t e = i % n->count;
        dt_tensor *h = dt_silu(tape, dt_linear(tape, x, w[e], NULL));
        x = dt_add(tape, x, dt_linear(tape, h, v[e], NULL));
    }
    return dt_sum(tape, dt_square(tape, x), NULL);
}

static void take_experts(dt_tensor *w, dt_tensor **m)
{
    for (int64_t i = 0; i < dt_grouped_count(w); i++) m[i] = expert(w, i);
}

static void take_copies(dt_tensor *w, dt_tensor **m)
{
    const int64_t n = dt_count(w) / dt_grouped_count(w);
    for (int64_t i = 0; i < dt_grouped_count(w); i++) {
        const double *from = (const double *)dt_data(w) + i * n;
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F64, 2, (const int64_t[]){ dt_dim(w, 1), dt_dim(w, 2) },
                                    from, &m[i]));
        TEST_OK(ctx, dt_set_requires_grad(m[i], true));
    }
}

static void free_all(int64_t n, dt_tensor **m)
{
    for (int64_t i = 0; i < n; i++) dt_tensor_free(m[i]);
}

/* Gradients of experts have the bits of those of separate parameters. */
static void check_gradients(const dt_tensor *w, dt_tensor *const *m, dt_tensor *const *apart)
{
    const int64_t n = dt_count(w) / dt_grouped_count(w);
    for (int64_t i = 0; i < dt_grouped_count(w); i++) {
        const double *wanted = dt_data(dt_grad(apart[i])), *got = dt_data(dt_grad(m[i]));
        TEST_EACH(got == (const double *)dt_data(dt_grad(w)) + i * n, "not the slice of w");
        TEST_EACH(memcmp(got, wanted, (size_t)n * sizeof *got) == 0, "expert %lld", (long long)i);
    }
}

START_TEST(gradients_are_those_of_separate_parameters)
{
    net n = random_net(_i);
    dt_tensor *w[5], *v[5], *w_apart[5], *v_apart[5];
    take_experts(n.w, w);
    take_experts(n.v, v);
    take_copies(n.w, w_apart);
    take_copies(n.v, v_apart);
    for (int pass = 0; pass < 2; pass++) { /* the second accumulates */
        TEST_OK(ctx, dt_backward(t, loss_of(t, &n, w, v), NULL));
        dt_tape_reset(t);
        TEST_OK(ctx, dt_backward(t, loss_of(t, &n, w_apart, v_apart), NULL));
        dt_tape_reset(t);
        check_gradients(n.w, w, w_apart);
        check_gradients(n.v, v, v_apart);
    }
    free_all(n.count, w);
    free_all(n.count, v);
    free_all(n.count, w_apart);
    free_all(n.count, v_apart);
    free_net(&n);
}
END_TEST

static double value_at(const net *n)
{
    dt_tensor *w[5], *v[5];
    take_experts(n->w, w);
    take_experts(n->v, v);
    dt_no_grad(t, true);
    const double loss = dt_item(loss_of(t, n, w, v));
    dt_no_grad(t, false);
    dt_tape_reset(t);
    free_all(n->count, w);
    free_all(n->count, v);
    return loss;
}

START_TEST(gradients_are_differences)
{
    net n = random_net(_i);
    dt_tensor *w[5], *v[5];
    take_experts(n.w, w);
    take_experts(n.v, v);
    TEST_OK(ctx, dt_backward(t, loss_of(t, &n, w, v), NULL));
    free_all(n.count, w); /* nothing of them is needed any more */
    free_all(n.count, v);
    dt_tape_reset(t);
    const double *g = dt_data(dt_grad(n.w)), h = 1e-6;
    for (int64_t i = 0; i < dt_count(n.w); i++) {
        double *x = (double *)dt_data_mut(n.w) + i;
        const double at = *x;
        *x = at + h;
        const double above = value_at(&n);
        *x = at - h;
        const double below = value_at(&n);
        *x = at;
        const double wanted = (above - below) / (2 * h);
        TEST_EACH(test_near(g[i], wanted, 1e-4, 1e-5), "%lld: %g, not %g", (long long)i, g[i],
                  wanted);
    }
    free_net(&n);
}
END_TEST

START_TEST(gradients_of_unused_experts_are_zero)
{
    dt_tensor *w = experts(DT_F32, 3, 2, 2), *m = expert(w, 1);
    ck_assert_ptr_null(dt_grad(m));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, m, NULL), NULL));
    const float wanted[12] = { [4] = 1, [5] = 1, [6] = 1, [7] = 1 };
    ck_assert_mem_eq(f32(dt_grad(w)), wanted, sizeof wanted);
    ck_assert_ptr_eq(dt_grad(m), dt_grad(m)); /* lent, not made each time */
    ck_assert_int_eq(dt_rank(dt_grad(m)), 2);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* The whole parameter and experts of it, in one pass. */
START_TEST(whole_and_expert_add_up)
{
    dt_tensor *w = experts(DT_F32, 2, 1, 3), *m = expert(w, 1);
    dt_tensor *y = dt_add(t, dt_sum(t, w, NULL), dt_sum(t, m, NULL));
    TEST_OK(ctx, dt_backward(t, dt_add(t, y, dt_sum(t, m, NULL)), NULL));
    const float wanted[6] = { 1, 1, 1, 3, 3, 3 };
    ck_assert_mem_eq(f32(dt_grad(w)), wanted, sizeof wanted);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

START_TEST(clearing_an_expert_leaves_the_others)
{
    dt_tensor *w = experts(DT_F32, 2, 1, 3), *m = expert(w, 1);
    dt_grad_clear(m); /* there is nothing yet */
    TEST_OK(ctx, dt_backward(t, dt_sum(t, w, NULL), NULL));
    dt_grad_clear(m);
    const float wanted[6] = { 1, 1, 1, 0, 0, 0 };
    ck_assert_mem_eq(f32(dt_grad(w)), wanted, sizeof wanted);
    dt_grad_clear(w);
    ck_assert_ptr_null(dt_grad(m));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, m, NULL), NULL));
    ck_assert_float_eq(f32(dt_grad(m))[2], 1);
    ck_assert_float_eq(f32(dt_grad(w))[2], 0);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* Two tapes, each with an expert of its own, and one expert on both. */
START_TEST(experts_of_several_tapes)
{
    dt_tape *other;
    TEST_OK(ctx, dt_tape_create(ctx, &other));
    dt_tensor *w = experts(DT_F32, 2, 1, 2), *first = expert(w, 0), *second = expert(w, 1);
    dt_tensor *y = dt_sum(t, dt_add(t, first, second), NULL), *z = dt_sum(other, second, NULL);
    TEST_OK(ctx, dt_backward(t, y, NULL));
    TEST_OK(ctx, dt_backward(other, z, NULL));
    const float wanted[4] = { 1, 1, 2, 2 };
    ck_assert_mem_eq(f32(dt_grad(w)), wanted, sizeof wanted);
    dt_tensor_free(first);
    dt_tensor_free(second);
    dt_tensor_free(w);
    dt_tape_free(other);
}
END_TEST

/* The gradient is stored at the handle that the expert owns, and freed with it. */
START_TEST(a_freed_parameter_lives_in_its_experts)
{
    dt_tensor *w = experts(DT_F32, 2, 1, 2), *m = expert(w, 1), *other = expert(w, 0);
    dt_tensor_free(w);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, m, NULL), NULL));
    ck_assert_float_eq(f32(dt_grad(m))[0], 1);
    ck_assert_float_eq(f32(dt_grad(other))[0], 0);
    dt_tensor_free(m);
    ck_assert_float_eq(f32(dt_grad(other))[1], 0);
    dt_tensor_free(other);
}
END_TEST

START_TEST(aliases_have_slots_of_their_own)
{
    dt_tensor *w = experts(DT_F32, 2, 1, 2), *m = expert(w, 1), *alias, *whole;
    TEST_OK(ctx, dt_alias(m, &alias));
    TEST_OK(ctx, dt_alias(w, &whole));
    dt_tensor *of_alias = expert(whole, 1);
    ck_assert_ptr_eq(f32(alias), f32(m));
    dt_tensor *y = dt_add(t, dt_sum(t, alias, NULL), dt_sum(t, dt_detach(t, m), NULL));
    TEST_OK(ctx, dt_backward(t, dt_add(t, y, dt_sum(t, of_alias, NULL)), NULL));
    ck_assert_ptr_null(dt_grad(w));
    ck_assert_ptr_null(dt_grad(m));
    ck_assert_float_eq(f32(dt_grad(alias))[0], 1);
    ck_assert_int_eq(dt_count(dt_grad(alias)), 2);
    ck_assert_float_eq(f32(dt_grad(whole))[3], 1);
    ck_assert_float_eq(f32(dt_grad(whole))[0], 0);
    dt_tensor_free(of_alias);
    dt_tensor_free(whole);
    dt_tensor_free(alias);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

START_TEST(views_of_an_expert_lead_to_it)
{
    dt_tensor *w = experts(DT_F32, 2, 2, 3), *m = expert(w, 1);
    dt_tensor *y = dt_reshape(t, dt_transpose(t, m, 0, 1), 1, (const int64_t[]){ 6 });
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_square(t, y), NULL), NULL));
    const float *x = f32(m), *g = f32(dt_grad(w));
    for (int i = 0; i < 6; i++) {
        TEST_EACH(g[i] == 0 && g[6 + i] == 2 * x[i], "element %d", i);
    }
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

START_TEST(an_expert_written_since_is_noticed)
{
    dt_tensor *w = experts(DT_F32, 2, 2, 3), *m = expert(w, 1), *other = expert(w, 0);
    dt_tensor *y = dt_sum(t, dt_square(t, m), NULL);
    ck_assert_ptr_null(dt_mul_(t, other, NULL, 0.5)); /* one storage */
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "still needed by a recorded square"));
    dt_tape_reset(t);
    y = dt_sum(t, dt_square(t, m), NULL);
    *(float *)dt_data_mut(w) += 1;
    ck_assert_int_eq(dt_backward(t, y, NULL), DT_ERR_STATE);
    dt_tensor_free(other);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

static dt_status every_allocation(dt_ctx *c, void *user)
{
    (void)user;
    dt_tape *tape = NULL;
    dt_tensor *w = NULL, *m = NULL;
    dt_status s = dt_tape_create(c, &tape);
    if (s == DT_OK) s = dt_tensor_create(c, DT_F32, 3, (const int64_t[]){ 2, 3, 4 }, &w);
    if (s == DT_OK) s = dt_set_grouped(w);
    if (s == DT_OK) s = dt_set_requires_grad(w, true);
    if (s == DT_OK && (m = dt_grouped_expert(w, 1)) == NULL) s = dt_error_status(c);
    if (s == DT_OK) s = dt_backward(tape, dt_sum(tape, dt_square(tape, m), NULL), NULL);
    if (s == DT_OK && dt_grad(m) == NULL) s = dt_error_status(c);
    dt_tensor_free(m);
    dt_tensor_free(w);
    dt_tape_free(tape);
    return s;
}

START_TEST(no_allocation_may_fail_badly) { test_every_allocation(every_allocation, NULL); }
END_TEST

Suite *test_grouped_suite(void)
{
    Suite *s = suite_create("grouped");
    TCase *mark = tcase_create("mark");
    tcase_add_checked_fixture(mark, setup, teardown);
    tcase_add_test(mark, only_a_plain_leaf_is_marked);
    tcase_add_test(mark, a_strided_tensor_is_not_marked);
    tcase_add_test(mark, aliases_are_grouped_and_results_are_not);
    tcase_add_test(mark, they_print_count_and_expert);
    tcase_add_test(mark, shard_axes_follow_the_expert);
    suite_add_tcase(s, mark);
    TCase *ops = tcase_create("ops");
    tcase_add_checked_fixture(ops, setup, teardown);
    tcase_add_test(ops, rearranging_ops_are_refused);
    tcase_add_test(ops, every_op_accepts_or_refuses_grouped_operands);
    tcase_add_test(ops, reading_ops_are_allowed);
    suite_add_tcase(s, ops);
    TCase *experts = tcase_create("experts");
    tcase_add_checked_fixture(experts, setup, teardown);
    tcase_add_test(experts, an_expert_shares_the_storage);
    tcase_add_test(experts, experts_out_of_range_are_refused);
    tcase_add_test(experts, an_expert_requires_grad_as_its_parameter_does);
    tcase_add_test(experts, an_expert_is_no_parameter_of_a_module);
    tcase_add_test(experts, experts_of_a_detached_parameter);
    suite_add_tcase(s, experts);
    TCase *gradients = tcase_create("gradients");
    tcase_add_checked_fixture(gradients, setup, teardown);
    tcase_add_loop_test(gradients, gradients_are_those_of_separate_parameters, 0, 20);
    tcase_add_loop_test(gradients, gradients_are_differences, 1, 6);
    tcase_add_test(gradients, gradients_of_unused_experts_are_zero);
    tcase_add_test(gradients, whole_and_expert_add_up);
    tcase_add_test(gradients, clearing_an_expert_leaves_the_others);
    tcase_add_test(gradients, experts_of_several_tapes);
    tcase_add_test(gradients, a_freed_parameter_lives_in_its_experts);
    tcase_add_test(gradients, aliases_have_slots_of_their_own);
    tcase_add_test(gradients, views_of_an_expert_lead_to_it);
    tcase_add_test(gradients, an_expert_written_since_is_noticed);
    tcase_add_test(gradients, no_allocation_may_fail_badly);
    suite_add_tcase(s, gradients);
    return s;
}
