/* Chains of modules: layer, norm, residual and activation have the same bits fused and one after
 * the other; composite modules that run their parts by the public functions are calibrated like any
 * other. */
#include "testing.h"

#include "core/core.h"
#include "nn/blocks/unit.h"

#include <detent/experimental/ops.h>
#include <detent/experimental/ptq.h>
#include <stdio.h>
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

START_TEST(chains_have_the_bits_of_separate_calls)
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

/* ---- composite modules ---------------------------------------------------------------------- */

#define WIDTH 16

/* A highway layer [Srivastava et al. 2015]: g = sigmoid(gate(x)), y = x + g (relu(plain(x)) - x).
 * Each way runs the two linear layers by other functions. */
typedef struct highway {
    dt_module *plain, *relu, *gate, *sigmoid;
    int way;
} highway;

enum { EACH_ALONE, CHAINS, SAME_INPUT, WAYS };

static void run_parts(dt_tape *tape, const highway *s, dt_tensor *x, dt_tensor **h, dt_tensor **g)
{
    dt_module *const layers[2] = { s->plain, s->gate };
    dt_tensor *y[2];
    if (s->way == CHAINS) {
        *h = dt_forward_chain(tape, (const dt_link[]){ { s->plain, NULL }, { s->relu, NULL } }, 2,
                              x);
        *g = dt_forward_chain(tape, (const dt_link[]){ { s->gate, NULL }, { s->sigmoid, NULL } }, 2,
                              x);
        return;
    }
    if (s->way == SAME_INPUT) dt_forward_each(tape, layers, 2, x, y);
    for (int i = 0; i < 2 && s->way == EACH_ALONE; i++) y[i] = dt_forward(tape, layers[i], x);
    *h = dt_forward(tape, s->relu, y[0]);
    *g = dt_forward(tape, s->sigmoid, y[1]);
}

static void run_highway(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in,
                        dt_tensor **out, int n_out)
{
    dt_tensor *h, *g;
    (void)n_in;
    (void)n_out;
    run_parts(tape, dt_module_state(m), in[0], &h, &g);
    out[0] = dt_add(tape, in[0], dt_mul(tape, g, dt_sub(tape, h, in[0])));
}

static const dt_module_type highway_type = { .name = "highway", .forward = run_highway };

static dt_status add_linear(dt_module *m, const char *name, dt_module **part)
{
    dt_linear_create(dt_module_ctx(m), WIDTH, WIDTH, true, part);
    return dt_module_add(m, name, *part);
}

static dt_status add_function(dt_module *m, const char *name, dt_module **part)
{
    dt_activation_create(dt_module_ctx(m), name, part);
    return dt_module_add(m, name, *part);
}

static dt_module *make_highway(int way)
{
    dt_module *m;
    dt_seed(ctx, 7);
    TEST_OK(ctx, dt_module_create(ctx, &highway_type, sizeof(highway), &m));
    highway *s = dt_module_state(m);
    s->way = way;
    TEST_OK(ctx, add_linear(m, "plain", &s->plain));
    TEST_OK(ctx, add_linear(m, "gate", &s->gate));
    TEST_OK(ctx, add_function(m, "relu", &s->relu));
    TEST_OK(ctx, add_function(m, "sigmoid", &s->sigmoid));
    return m;
}

static dt_status lend_batch(void *user, int64_t i, dt_tensor **x)
{
    (void)i;
    *x = user;
    return DT_OK;
}

typedef struct tally {
    int64_t layers, samples;
    char warned[256];
} tally;

static dt_status tally_layer(void *user, const char *path, const dt_round_report *r)
{
    tally *n = user;
    TEST_EACH(strcmp(r->method, "gptq") == 0 && r->samples > 0 && !r->unreached && !r->untreated,
              "%s: %s, %lld samples", path, r->method, (long long)r->samples);
    n->layers++;
    n->samples += r->samples;
    return DT_OK;
}

static void quantize(dt_module *m, dt_tensor *x, tally *n)
{
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = DT_ROUND_GPTQ;
    o.done = tally_layer;
    o.user = n;
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_ptq(m, NULL, &(dt_calibration){ 1, lend_batch, x }, &o, NULL));
}

START_TEST(every_way_to_run_layers_is_calibrated_with_the_same_bits)
{
    float first[8 * WIDTH];
    for (int way = 0; way < WAYS; way++) {
        tally n = { 0 };
        open_context();
        dt_module *m = make_highway(way);
        dt_tensor *x = normal(2, (const int64_t[]){ 8, WIDTH });
        quantize(m, x, &n);
        ck_assert_int_eq(n.layers, 2);
        ck_assert_int_eq(n.samples, 16);
        dt_no_grad(t, true);
        const dt_tensor *y = dt_forward(t, m, x);
        ck_assert_ptr_nonnull(y);
        if (way == 0) memcpy(first, dt_data(y), sizeof first);
        ck_assert_mem_eq(first, dt_data(y), sizeof first);
        dt_tensor_free(x);
        dt_module_free(m);
        close_context();
    }
}
END_TEST

/* A composite that reads the weight of its part has skipped the part's input hook. */
static void run_by_weight(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in,
                          dt_tensor **out, int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_linear(tape, in[0], dt_module_weight(tape, dt_module_at(m, "plain")), NULL);
}

static const dt_module_type thief_type = { .name = "thief", .forward = run_by_weight };

START_TEST(a_weight_is_not_lent_outside_its_forward)
{
    open_context();
    dt_module *m, *part;
    TEST_OK(ctx, dt_module_create(ctx, &thief_type, 0, &m));
    TEST_OK(ctx, add_linear(m, "plain", &part));
    dt_tensor *x = normal(2, (const int64_t[]){ 2, WIDTH });
    ck_assert_ptr_null(dt_forward(t, m, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "module plain (linear): its weight is read"));
    dt_tensor_free(x);
    dt_module_free(m);
    close_context();
}
END_TEST

/* A layer that reads its part's parameter directly: no batch ever reaches the part. */
static void run_beside(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                       int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_forward(tape, dt_module_at(m, "plain"), in[0]);
    out[0] = dt_linear(tape, out[0], dt_param(m, "hidden.weight"), NULL);
}

static const dt_module_type beside_type = { .name = "beside", .forward = run_beside };

static void listen(void *user, const char *line)
{
    char *to = user;
    snprintf(to, 256, "%s", line);
}

static dt_status take_report(void *user, const char *path, const dt_round_report *r)
{
    TEST_EACH(r->unreached == (strcmp(path, "hidden.weight") == 0), "%s", path);
    ++*(int *)user;
    return DT_OK;
}

START_TEST(layers_without_calibration_data_are_reported)
{
    char heard[256] = "";
    int layers = 0;
    dt_ctx_options options = dt_ctx_defaults();
    options.log = listen;
    options.log_user = heard;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_module *m, *part;
    dt_ptq_report report;
    TEST_OK(ctx, dt_module_create(ctx, &beside_type, 0, &m));
    TEST_OK(ctx, add_linear(m, "plain", &part));
    TEST_OK(ctx, add_linear(m, "hidden", &part));
    dt_tensor *x = normal(2, (const int64_t[]){ 8, WIDTH });
    TEST_OK(ctx, dt_prepare(m, NULL));
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = DT_ROUND_GPTQ;
    o.done = take_report;
    o.user = &layers;
    TEST_OK(ctx, dt_ptq(m, NULL, &(dt_calibration){ 1, lend_batch, x }, &o, &report));
    ck_assert(layers == 2 && report.unreached == 1 && report.untreated == 0);
    ck_assert_str_eq(heard, "ptq: hidden.weight is rounded to nearest, not by gptq: no calibration "
                            "batch reached its layer");
    dt_tensor_free(x);
    dt_module_free(m);
    close_context();
}
END_TEST

START_TEST(bad_chains_are_refused)
{
    open_context();
    dt_module *m = make_highway(CHAINS);
    dt_tensor *x = normal(2, (const int64_t[]){ 2, WIDTH }), *y[DT_MAX_OUT + 1] = { NULL };
    ck_assert_ptr_null(dt_forward_chain(NULL, NULL, 0, x));
    ck_assert_ptr_null(dt_forward_chain(t, NULL, 0, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_ARG);
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_forward_chain(t, (const dt_link[]){ { NULL, x } }, 1, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_ARG);
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_forward_chain(t, (const dt_link[]){ { m, NULL } }, 1, NULL));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_ARG);
    dt_tape_reset(t);
    ck_assert_int_eq(dt_forward_each(t, &m, 0, x, y), DT_ERR_ARG);
    dt_tape_reset(t);
    dt_no_grad(t, true);
    ck_assert_int_eq(dt_forward_each(t, (dt_module *const[]){ m, NULL }, 2, x, y), DT_ERR_ARG);
    ck_assert(y[0] == NULL && y[1] == NULL);
    dt_tape_reset(t);
    ck_assert_int_eq(dt_forward_each(t, &m, 1, NULL, y), DT_ERR_ARG);
    dt_tensor_free(x);
    dt_module_free(m);
    close_context();
}
END_TEST

/* Fused forwards of a user's type: one that makes nothing, and an activation of no known number. */
static void make_nothing(dt_tape *tape, dt_module *m, dt_tensor *x, const dt_epilogue *e,
                         dt_tensor **y)
{
    (void)tape;
    (void)m;
    (void)x;
    (void)e;
    (void)y;
}

static void make_none(dt_tape *tape, dt_module *const *m, int n, dt_tensor *const *x, dt_tensor **y)
{
    (void)tape;
    (void)m;
    (void)n;
    (void)x;
    (void)y;
}

static void pass_on(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)tape;
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = in[0];
}

static int number_33(const dt_module *m)
{
    (void)m;
    return 33;
}

static const dt_fusion empty_fusion = {
    .forward = make_nothing, .activations = ~UINT32_C(0), .residual = true, .joint = make_none
};
static const dt_module_type empty_type = { .name = "empty",
                                           .forward = pass_on,
                                           .fusion = &empty_fusion };
static const dt_module_type odd_activation = { .name = "odd",
                                               .forward = pass_on,
                                               .activation = number_33 };

START_TEST(fusions_of_a_users_type_are_checked)
{
    open_context();
    dt_module *m, *odd;
    TEST_OK(ctx, dt_module_create(ctx, &empty_type, 0, &m));
    TEST_OK(ctx, dt_module_create(ctx, &odd_activation, 0, &odd));
    dt_tensor *x = normal(2, (const int64_t[]){ 2, WIDTH }), *y[2];
    ck_assert_ptr_nonnull(
        dt_forward_chain(t, (const dt_link[]){ { m, NULL }, { odd, NULL } }, 2, x));
    ck_assert_ptr_null(dt_forward_chain(t, (const dt_link[]){ { m, x } }, 1, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "has made no output 0"));
    dt_tape_reset(t);
    dt_no_grad(t, true);
    ck_assert_int_eq(dt_forward_each(t, (dt_module *const[]){ m, m }, 2, x, y), DT_ERR_STATE);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_module_free(odd);
    close_context();
}
END_TEST

/* A residual that broadcasts is refused whether or not the module is fused. */
START_TEST(a_residual_has_the_shape_of_the_output)
{
    open_context();
    dt_module *linear, *norm;
    TEST_OK(ctx, dt_linear_create(ctx, WIDTH, WIDTH, true, &linear));
    TEST_OK(ctx, dt_layer_norm_create(ctx, WIDTH, 1e-5, &norm));
    dt_tensor *x = normal(2, (const int64_t[]){ 2, WIDTH });
    dt_tensor *r = normal(2, (const int64_t[]){ 1, WIDTH });
    dt_module *const parts[] = { linear, norm };
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(dt_forward_chain(t, (const dt_link[]){ { parts[i], r } }, 1, x));
        ck_assert_int_eq(dt_tape_status(t), DT_ERR_SHAPE);
        dt_tape_reset(t);
    }
    dt_tensor_free(x);
    dt_tensor_free(r);
    dt_module_free(linear);
    dt_module_free(norm);
    close_context();
}
END_TEST

Suite *test_chain_suite(void)
{
    Suite *s = suite_create("chain");
    TCase *c = tcase_create("forward");
    tcase_add_test(c, chains_have_the_bits_of_separate_calls);
    tcase_add_test(c, hooks_run_and_keep_ops_apart);
    tcase_add_test(c, every_way_to_run_layers_is_calibrated_with_the_same_bits);
    tcase_add_test(c, a_weight_is_not_lent_outside_its_forward);
    tcase_add_test(c, layers_without_calibration_data_are_reported);
    tcase_add_test(c, bad_chains_are_refused);
    tcase_add_test(c, fusions_of_a_users_type_are_checked);
    tcase_add_test(c, a_residual_has_the_shape_of_the_output);
    suite_add_tcase(s, c);
    return s;
}
