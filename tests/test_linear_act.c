/* dt_linear_act against dt_linear and the ops after it: the same bits forward and backward, with
 * every kind of product and on any number of threads, and no more memory kept for backward. */
#include "testing.h"

#include "autograd/tape.h"
#include "core/core.h"
#include "qat/quantized.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

typedef enum road { FLOATS, DOUBLES, INTEGER, SIMULATED, WEIGHTS_ONLY, INPUTS_ONLY, ROADS } road;

typedef struct setup {
    int64_t m, n, k;
    int activation, threads;
    bool bias, residual;
    road road;
} setup;

#define OPERANDS 4

typedef struct outcome {
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *in[OPERANDS], *up; /* x, weight, bias, residual */
    dt_tensor *y;
    size_t held;
} outcome;

static dt_tensor *apply(dt_tape *t, int activation, dt_tensor *x)
{
    switch (activation) {
    case DT_ACT_RELU: return dt_relu(t, x);
    case DT_ACT_GELU: return dt_gelu(t, x, DT_GELU_ERF);
    case DT_ACT_GELU_TANH: return dt_gelu(t, x, DT_GELU_TANH);
    case DT_ACT_TANH: return dt_tanh(t, x);
    case DT_ACT_SIGMOID: return dt_sigmoid(t, x);
    case DT_ACT_SILU: return dt_silu(t, x);
    case DT_ACT_RELU6: return dt_relu6(t, x);
    case DT_ACT_HARDSWISH: return dt_hardswish(t, x);
    case DT_ACT_HARDSIGMOID: return dt_hardsigmoid(t, x);
    case DT_ACT_ELU: return dt_elu(t, x, 1);
    default: return x;
    }
}

/* One step further: x is freed, unless backward needs it. */
static dt_tensor *next(dt_tape *t, dt_tensor *x, dt_tensor *y)
{
    if (x != y) dt_drop(t, x);
    return y;
}

static dt_tensor *chain(const setup *s, outcome *o, dt_tensor *x)
{
    dt_tensor *y = dt_linear(o->t, x, o->in[1], o->in[2]);
    if (s->residual) y = next(o->t, y, dt_add(o->t, y, o->in[3]));
    return next(o->t, y, apply(o->t, s->activation, y));
}

/* Results besides y live until the tape is reset or a module's scope ends. */
static void drop_others(dt_tape *t, const dt_tensor *y)
{
    for (int64_t i = 0; i < t->n_lent; i++) {
        if (t->lent[i] != y && t->lent[i]->kind == NULL) dt_drop(t, t->lent[i]);
    }
}

static dt_tensor *operand(dt_ctx *ctx, const setup *s, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, s->road == DOUBLES ? DT_F64 : DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    return x;
}

static void open(const setup *s, outcome *o)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = s->threads;
    *o = (outcome){ 0 };
    TEST_OK(NULL, dt_ctx_create(&o->ctx, &options));
    TEST_OK(o->ctx, dt_tape_create(o->ctx, &o->t));
    dt_seed(o->ctx, 3);
    o->in[0] = operand(o->ctx, s, 2, (int64_t[]){ s->m, s->k });
    o->in[1] = operand(o->ctx, s, 2, (int64_t[]){ s->n, s->k });
    if (s->bias) o->in[2] = operand(o->ctx, s, 1, &s->n);
    if (s->residual) o->in[3] = operand(o->ctx, s, 2, (int64_t[]){ s->m, s->n });
    o->up = operand(o->ctx, s, 2, (int64_t[]){ s->m, s->n });
    const dt_quant_spec quant = dt_weight_quant_defaults();
    if (s->road >= INTEGER && s->road != INPUTS_ONLY) {
        TEST_OK(o->ctx, dt__fq_wrap(o->in[1], &(dt__fq){ .quant = quant,
                                                         .simulated = s->road == SIMULATED }));
    }
}

static void run(const setup *s, bool fused, outcome *o)
{
    open(s, o);
    dt_tensor *x = o->in[0];
    const dt__fq fq = { .quant = dt_activation_quant_defaults(),
                        .enabled = true,
                        .simulated = s->road == SIMULATED };
    const size_t before = dt_memory_of(o->ctx).used;
    if (s->road >= INTEGER && s->road != WEIGHTS_ONLY) x = dt__fake_quant_as(o->t, x, &fq);
    const dt_linear_after after = { s->activation, o->in[3] };
    o->y = fused ? dt_linear_act(o->t, x, o->in[1], o->in[2], &after) : chain(s, o, x);
    ck_assert_msg(o->y != NULL, "%s", dt_error(o->ctx));
    drop_others(o->t, o->y);
    o->held = dt_memory_of(o->ctx).used - before;
    TEST_OK(o->ctx, dt_backward(o->t, o->y, o->up));
}

static void close(outcome *o)
{
    for (int i = 0; i < OPERANDS; i++) dt_tensor_free(o->in[i]);
    dt_tensor_free(o->up);
    dt_tape_free(o->t);
    dt_ctx_free(o->ctx);
}

static void check_equal(const dt_tensor *a, const dt_tensor *b)
{
    ck_assert_int_eq(dt_count(a), dt_count(b));
    const size_t bytes = (size_t)dt_count(a) * dt_dtype_size(dt_dtype_of(a));
    ck_assert(bytes == 0 || memcmp(dt_data(a), dt_data(b), bytes) == 0);
}

static void check(const setup *s)
{
    setup one = *s;
    one.threads = 1;
    outcome a, b;
    run(s, true, &a);
    run(&one, false, &b);
    check_equal(a.y, b.y);
    for (int i = 0; i < OPERANDS; i++) {
        if (a.in[i] != NULL) check_equal(dt_grad(a.in[i]), dt_grad(b.in[i]));
    }
    ck_assert_uint_le(a.held, b.held + (size_t)s->m * 8); /* rows of bits end at a byte */
    close(&a);
    close(&b);
}

/* One of so many combinations is tried. */
static const test_draws combination_steps = { .usual = 1, .sanitized = 3 };

static void check_shape(int64_t m, int64_t n, int64_t k)
{
    static const int threads[] = { 1, 2, 3, 8 };
    const int64_t step = test_count(combination_steps);
    int turn = 0;
    for (road r = 0; r < ROADS; r++) {
        for (int activation = DT_ACT_NONE; activation <= DT_ACT_ELU; activation++) {
            for (int with = 0; with < 4; with++, turn++) {
                if (turn % step != 0) continue;
                check(&(setup){ .m = m,
                                .n = n,
                                .k = k,
                                .activation = activation,
                                .threads = threads[turn % 4],
                                .bias = (with & 1) != 0,
                                .residual = (with & 2) != 0,
                                .road = r });
            }
        }
    }
}

START_TEST(bits_of_the_chain) { check_shape(5, 13, 40); }
END_TEST
START_TEST(bits_of_the_chain_where_threads_share) { check_shape(150, 144, 64); }
END_TEST
START_TEST(bits_of_a_single_column) { check_shape(70, 1, 33); }
END_TEST
START_TEST(bits_of_a_single_row) { check_shape(1, 70, 33); }
END_TEST
START_TEST(bits_without_rows) { check_shape(0, 7, 40); }
END_TEST

/* NaN passes, -0 becomes 0, in the same bits. */
START_TEST(special_values)
{
    const int64_t dims[2] = { 1, 11 }, square[2] = { 11, 11 };
    const setup s = { .road = FLOATS };
    for (int activation = DT_ACT_NONE; activation <= DT_ACT_ELU; activation++) {
        outcome a, b;
        outcome *const both[2] = { &a, &b };
        for (int i = 0; i < 2; i++) {
            outcome *o = both[i];
            *o = (outcome){ 0 };
            TEST_OK(NULL, dt_ctx_create(&o->ctx, NULL));
            TEST_OK(o->ctx, dt_tape_create(o->ctx, &o->t));
            o->in[0] = operand(o->ctx, &s, 2, dims);
            o->in[1] = operand(o->ctx, &s, 2, square);
            o->in[3] = operand(o->ctx, &s, 2, dims);
            o->up = operand(o->ctx, &s, 2, dims);
            TEST_OK(o->ctx, dt_fill(o->in[0], 0));
            const float values[] = { NAN, -0.0F, 0, INFINITY, -INFINITY, 1e-45F, -1e-45F, 3e38F };
            memcpy(dt_data_mut(o->in[3]), values, sizeof values);
            const setup with = { .activation = activation, .residual = true };
            const dt_linear_after after = { activation, o->in[3] };
            o->y = i == 0 ? dt_linear_act(o->t, o->in[0], o->in[1], NULL, &after)
                          : chain(&with, o, o->in[0]);
            TEST_OK(o->ctx, dt_backward(o->t, o->y, o->up));
        }
        check_equal(a.y, b.y);
        check_equal(dt_grad(a.in[3]), dt_grad(b.in[3]));
        close(&a);
        close(&b);
    }
}
END_TEST

/* ---- layers ---------------------------------------------------------------------------------- */

static dt_module *make(dt_ctx *ctx)
{
    dt_module *net, *part;
    TEST_OK(ctx, dt_sequential_create(ctx, &net));
    TEST_OK(ctx, dt_linear_create(ctx, 6, 7, true, &part));
    TEST_OK(ctx, dt_module_add(net, "0", part));
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &part));
    TEST_OK(ctx, dt_module_add(net, "1", part));
    return net;
}

static dt_tensor *count_calls(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    (void)t;
    (void)m;
    ++*(int *)user;
    return x;
}

/* A linear layer and its activation are one record on the tape, unless a hook reads the value
 * between them. */
START_TEST(layers_fuse_unless_hooked)
{
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x;
    int calls = 0;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 4, 6 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    dt_module *net = make(ctx);
    float first[28];
    memcpy(first, dt_data(dt_forward(t, net, x)), sizeof first);
    ck_assert_int_eq(t->n_records, 1);
    dt_tape_reset(t);
    TEST_OK(ctx,
            dt_hook_add(dt_module_at(net, "1"), DT_SITE_INPUT, count_calls, &calls, NULL, NULL));
    const dt_tensor *y = dt_forward(t, net, x);
    ck_assert_int_eq(t->n_records, 2);
    ck_assert_int_eq(calls, 1);
    ck_assert_mem_eq(dt_data(y), first, sizeof first);
    dt_tensor_free(x);
    dt_module_free(net);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_linear_act_suite(void)
{
    Suite *s = suite_create("linear_act");
    TCase *c = tcase_create("bits");
    tcase_add_test(c, bits_of_the_chain);
    tcase_add_test(c, bits_of_the_chain_where_threads_share);
    tcase_add_test(c, bits_of_a_single_column);
    tcase_add_test(c, bits_of_a_single_row);
    tcase_add_test(c, bits_without_rows);
    tcase_add_test(c, special_values);
    tcase_add_test(c, layers_fuse_unless_hooked);
    suite_add_tcase(s, c);
    return s;
}
