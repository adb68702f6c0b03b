/* Units: layer, norm, residual and activation give the bits of one after the other. */
#include "testing.h"

#include "core/core.h"
#include "nn/unit.h"

#include <detent/ops.h>
#include <string.h>

static dt_ctx *ctx;
static dt_tape *t;

static void open_context(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_seed(ctx, 5);
}

static void close_context(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static dt_tensor *normal(int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    return x;
}

#define CHANNELS 5
static const int64_t dims[4] = { 3, CHANNELS, 7, 9 };

typedef struct net {
    dt_module *conv, *norm, *activation;
} net;

static net make_net(const char *activation)
{
    const dt_conv_layer layer = {
        .in = CHANNELS,
        .out = CHANNELS,
        .kernel = { 3, 3 },
        .bias = true,
        .conv = { .stride = { 1, 1 }, .padding = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 }
    };
    net n;
    TEST_OK(ctx, dt_conv2d_create(ctx, &layer, &n.conv));
    TEST_OK(ctx, dt_batch_norm2d_create(ctx, CHANNELS, 0.1, 1e-5, &n.norm));
    TEST_OK(ctx, dt_activation_create(ctx, activation, &n.activation));
    return n;
}

static void free_net(net *n)
{
    dt_module_free(n->conv);
    dt_module_free(n->norm);
    dt_module_free(n->activation);
}

static dt_tensor *one_by_one(const net *n, dt_tensor *x, dt_tensor *residual)
{
    dt_tensor *y = dt_forward(t, n->norm, dt_forward(t, n->conv, x));
    if (residual != NULL) y = dt_add(t, y, residual);
    return dt_forward(t, n->activation, y);
}

static void take(const dt_tensor *x, float *to)
{
    ck_assert_ptr_nonnull(x);
    memcpy(to, dt_data(x), (size_t)dt_count(x) * sizeof *to);
}

#define ELEMENTS (3 * CHANNELS * 7 * 9)

typedef struct outcome {
    float y[ELEMENTS], dx[ELEMENTS], dr[ELEMENTS], dw[CHANNELS], db[CHANNELS], mean[CHANNELS];
} outcome;

static void run(const char *activation, bool with_residual, bool as_unit, outcome *out)
{
    open_context();
    net n = make_net(activation);
    dt_tensor *x = normal(4, dims), *r = normal(4, dims), *up = normal(4, dims);
    dt_tensor *residual = with_residual ? r : NULL;
    const dt__unit u = { n.conv, n.norm, n.activation, residual };
    dt_tensor *y = as_unit ? dt__unit_forward(t, &u, x) : one_by_one(&n, x, residual);
    memset(out, 0, sizeof *out);
    take(y, out->y);
    TEST_OK(ctx, dt_backward(t, y, up));
    take(dt_grad(x), out->dx);
    if (with_residual) take(dt_grad(r), out->dr);
    take(dt_grad(dt_param(n.norm, "weight")), out->dw);
    take(dt_grad(dt_param(n.norm, "bias")), out->db);
    take(dt_param(n.norm, "running_mean"), out->mean);
    dt_tensor_free(x);
    dt_tensor_free(r);
    dt_tensor_free(up);
    free_net(&n);
    close_context();
}

START_TEST(bits_of_one_after_the_other)
{
    static const char *const activations[] = { "relu", "gelu", "identity" };
    static outcome fused, apart;
    for (int i = 0; i < 3; i++) {
        for (int residual = 0; residual < 2; residual++) {
            run(activations[i], residual == 1, true, &fused);
            run(activations[i], residual == 1, false, &apart);
            ck_assert_mem_eq(&fused, &apart, sizeof fused);
        }
    }
}
END_TEST

static dt_tensor *count_calls(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    (void)tape;
    (void)m;
    ++*(int *)user;
    return x;
}

START_TEST(hooks_run_and_keep_ops_apart)
{
    open_context();
    int calls = 0;
    net n = make_net("relu");
    dt_tensor *x = normal(4, dims);
    const dt__unit u = { n.conv, n.norm, n.activation, NULL };
    ck_assert_ptr_nonnull(dt__unit_forward(t, &u, x));
    ck_assert_int_eq(t->n_records, 2);
    dt_tape_reset(t);
    dt_module *parts[] = { n.conv, n.norm, n.activation };
    for (int i = 0; i < 3; i++) {
        TEST_OK(ctx, dt_hook_add(parts[i], DT_SITE_INPUT, count_calls, &calls, NULL, NULL));
    }
    ck_assert_ptr_nonnull(dt__unit_forward(t, &u, x));
    ck_assert_int_eq(t->n_records, 3);
    ck_assert_int_eq(calls, 3);
    dt_tensor_free(x);
    free_net(&n);
    close_context();
}
END_TEST

Suite *test_unit_suite(void)
{
    Suite *s = suite_create("unit");
    TCase *c = tcase_create("forward");
    tcase_add_test(c, bits_of_one_after_the_other);
    tcase_add_test(c, hooks_run_and_keep_ops_apart);
    suite_add_tcase(s, c);
    return s;
}
