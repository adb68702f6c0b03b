/* Activation checkpointing: modules that backward runs again against modules that keep everything,
 * on random networks of every family, float and prepared: outputs, gradients, buffers, parameters
 * after steps and random streams have the same bits. Memory that it keeps, and what it refuses.
 * DETENT_NETWORKS sets the number of networks, DETENT_SEED the first seed. */
#include "random_nets.h"
#include "testing.h"

#include "autograd/segment.h"
#include "nn/module.h"

#include <detent/experimental/ops.h>
#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 300, .quick = 150, .sanitized = 30 };

static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoll(text, NULL, 10) : otherwise;
}

static bool chance(dt__stream *s, double p) { return dt__random_unit(s) < p; }

/* ---- two equal networks --------------------------------------------------------------------- */

/* A network with its batch and all that trains it. */
typedef struct side {
    dt_ctx *ctx;
    dt_module *m;
    dt_tensor *x;
    dt_tape *t;
    dt_optimizer *o;
} side;

static void open_side(side *s, uint64_t seed)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.seed = seed;
    o.threads = 1;
    *s = (side){ 0 };
    TEST_OK(NULL, dt_ctx_create(&s->ctx, &o));
    TEST_OK(s->ctx, dt_tape_create(s->ctx, &s->t));
}

static void close_side(side *s)
{
    dt_optimizer_free(s->o);
    dt_tape_free(s->t);
    dt_tensor_free(s->x);
    dt_module_free(s->m);
    dt_ctx_free(s->ctx);
}

/* Any number of micro-batches, then a step. Returns the first loss. */
static double train(side *s, int batches)
{
    double first = 0;
    dt_zero_grad(s->m);
    for (int i = 0; i < batches; i++) {
        dt_tape_reset(s->t);
        dt_tensor *y = dt_forward(s->t, s->m, s->x);
        dt_tensor *loss = dt_mean(s->t, dt_mul(s->t, y, y), NULL);
        TEST_OK(s->ctx, dt_backward(s->t, loss, NULL));
        if (i == 0) first = dt_item(loss);
    }
    return first;
}

static void step(side *s)
{
    if (s->o == NULL) TEST_OK(s->ctx, dt_optimizer_create(s->m, NULL, &s->o));
    TEST_OK(s->ctx, dt_optimizer_step(s->o, s->t, 0.01));
}

static bool same_bits(const dt_tensor *a, const dt_tensor *b)
{
    if (a == NULL || b == NULL) return a == b;
    return memcmp(dt_data(a), dt_data(b), (size_t)dt_count(a) * dt_dtype_size(dt_dtype_of(a))) == 0;
}

static dt_status compare(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    const side *other = user;
    dt_tensor *y = dt_param(other->m, path);
    (void)kind;
    TEST_EACH(y != NULL && same_bits(dt_inner(x), dt_inner(y)), "%s differs", path);
    TEST_EACH(same_bits(dt_grad(x), dt_grad(y)), "the gradient of %s differs", path);
    return DT_OK;
}

static void assert_same(side *a, side *b)
{
    dt_module_visit(a->m, compare, b);
    TEST_EACH(same_bits(dt_grad(a->x), dt_grad(b->x)), "the gradient of the input differs");
    TEST_EACH(memcmp(a->ctx->stream, b->ctx->stream, sizeof a->ctx->stream) == 0,
              "the random streams differ");
}

static void train_both(side *a, side *b, int batches)
{
    const double loss = train(a, batches), again = train(b, batches);
    TEST_EACH(loss == again, "the losses are %.9g and %.9g", loss, again);
    assert_same(a, b);
    step(a);
    step(b);
    assert_same(a, b);
}

/* ---- random networks ------------------------------------------------------------------------ */

/* Modules chosen at random, including nested blocks and the whole network. */
static dt_status choose(void *user, const char *path, dt_module *m)
{
    (void)path;
    if (m->type->forward != NULL) m->recomputed = chance(user, 0.5);
    return DT_OK;
}

static void prepare(side *s, const dt_qat_options *o)
{
    if (dt_prepare(s->m, o) != DT_OK) {
        ck_assert_int_eq(dt_error_status(s->ctx), DT_ERR_CONFIG);
        return;
    }
    step(s);
}

static void run_net(const random_net *d)
{
    dt__stream s = dt__stream_of(d->seed, DT__FOR_USER);
    side a, b;
    side *const both[] = { &a, &b };
    for (int i = 0; i < 2; i++) {
        open_side(both[i], d->seed);
        both[i]->m = random_net_create(both[i]->ctx, d);
        both[i]->x = random_net_input(both[i]->ctx, d);
        TEST_OK(both[i]->ctx, dt_set_requires_grad(both[i]->x, d->seed % 2 == 0));
    }
    dt_module_visit_modules(b.m, choose, &s);
    const bool trains = d->batch > 1;
    for (int i = 0; i < 2; i++) dt_train(both[i]->m, trains);
    train_both(&a, &b, 1);
    for (int i = 0; i < 2; i++) prepare(both[i], &d->qat);
    train_both(&a, &b, 2);
    if (d->freeze) {
        for (int i = 0; i < 2; i++) dt_norms_freeze(both[i]->m, true);
    }
    train_both(&a, &b, 1);
    close_side(&a);
    close_side(&b);
}

START_TEST(random_networks_have_the_same_bits)
{
    const int64_t first = number_of("DETENT_SEED", 1), n = test_networks(draws);
    static const char *const families[] = { "mlp", "cnn", "resnet", "unet" };
    for (int64_t i = first; i < first + n; i++) {
        const random_net d = i % 3 == 0 ? random_net_of((uint64_t)i)
                                        : random_net_of_family((uint64_t)i, families[i % 4]);
        run_net(&d);
    }
}
END_TEST

/* ---- language models ------------------------------------------------------------------------ */

static void create_gpt(side *s, double dropout)
{
    const dt_gpt_options o = { .vocab = 17,
                               .context = 12,
                               .layers = 3,
                               .heads = 2,
                               .width = 16,
                               .bias = true,
                               .tied = true,
                               .dropout = dropout,
                               .eps = 1e-5 };
    TEST_OK(s->ctx, dt_gpt_create(s->ctx, &o, &s->m));
}

static void create_llama(side *s)
{
    const dt_llama_options o = { .vocab = 17,
                                 .context = 12,
                                 .layers = 3,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .width = 32,
                                 .hidden = 40,
                                 .qk_norm = true,
                                 .theta = 1e4,
                                 .eps = 1e-5 };
    TEST_OK(s->ctx, dt_llama_create(s->ctx, &o, &s->m));
}

static void create_ids(side *s, int64_t rows)
{
    TEST_OK(s->ctx, dt_tensor_create(s->ctx, DT_I32, 2, (const int64_t[]){ rows, 12 }, &s->x));
    int32_t *id = dt_data_mut(s->x);
    for (int64_t i = 0; i < dt_count(s->x); i++) id[i] = (int32_t)(i * 7 % 17);
}

static void run_language(int preset, bool llama, bool adapters)
{
    dt_qat_options qat = dt_qat_defaults();
    const dt_lora_options lora = { .rank = 2, .alpha = 4 };
    side a, b;
    side *const both[] = { &a, &b };
    qat.preset = preset;
    qat.weight.quant.group_size = 8;
    qat.weight.has_group_size = preset != DT_INT4_INT4 && preset != DT_INT8_DYNAMIC_INT8_WEIGHT &&
                                preset != DT_INT8_STATIC_INT8_WEIGHT && !TEST_OF_BLOCKS(preset);
    for (int i = 0; i < 2; i++) {
        open_side(both[i], 5);
        if (llama) create_llama(both[i]);
        else create_gpt(both[i], 0.2);
        create_ids(both[i], 3);
        if (adapters) TEST_OK(both[i]->ctx, dt_lora_add(both[i]->m, &lora));
    }
    ck_assert_int_eq(dt_recompute(b.m, true), 3);
    train_both(&a, &b, 1);
    for (int i = 0; i < 2; i++) TEST_OK(both[i]->ctx, dt_prepare(both[i]->m, &qat));
    train_both(&a, &b, 3);
    train_both(&a, &b, 1);
    close_side(&a);
    close_side(&b);
}

START_TEST(language_models_have_the_same_bits)
{
    for (int preset = DT_INT8_DYNAMIC_INT4_WEIGHT; preset < TEST_PRESETS; preset++) {
        for (int i = 0; i < 4; i++) run_language(preset, i % 2 == 1, i / 2 == 1);
    }
}
END_TEST

/* A block keeps only its input; in backward the activations of one block exist at a time. */
START_TEST(less_is_kept)
{
    size_t peak[2], kept[2];
    for (int i = 0; i < 2; i++) {
        side s;
        open_side(&s, 1);
        create_gpt(&s, 0.1);
        create_ids(&s, 64);
        dt_recompute(s.m, i == 1);
        train(&s, 1);
        step(&s);
        dt_tape_reset(s.t);
        dt_memory_reset_peak(s.ctx);
        const size_t before = dt_memory_of(s.ctx).used;
        dt_tensor *y = dt_forward(s.t, s.m, s.x);
        dt_tensor *loss = dt_mean(s.t, dt_mul(s.t, y, y), NULL);
        kept[i] = dt_memory_of(s.ctx).used - before;
        TEST_OK(s.ctx, dt_backward(s.t, loss, NULL));
        peak[i] = dt_memory_of(s.ctx).peak - before;
        close_side(&s);
    }
    printf("recompute: a step of a small gpt keeps %zu, %zu of %zu bytes; peak %zu of %zu\n",
           kept[1], (size_t)64 * 12 * 16 * 4 * 4, kept[0], peak[1], peak[0]);
    ck_assert_uint_lt(kept[1] * 3, kept[0]);
    ck_assert_uint_lt(peak[1] * 3, peak[0] * 2);
}
END_TEST

START_TEST(no_allocation_from_the_second_step)
{
    side s;
    open_side(&s, 1);
    create_gpt(&s, 0.1);
    create_ids(&s, 2);
    dt_recompute(s.m, true);
    TEST_OK(s.ctx, dt_prepare(s.m, NULL));
    train(&s, 2);
    step(&s);
    train(&s, 2);
    step(&s);
    const uint64_t before = dt_memory_of(s.ctx).allocations;
    for (int i = 0; i < 3; i++) {
        train(&s, 2);
        step(&s);
    }
    ck_assert_uint_eq(dt_memory_of(s.ctx).allocations, before);
    close_side(&s);
}
END_TEST

/* ---- a module of one's own ------------------------------------------------------------------ */

typedef struct own {
    dt_module *layer;
    int calls;
    bool keeps;   /* keeps what the layer gives for the caller */
    bool differs; /* does something else in its second run */
    bool wraps;   /* returns a wrapper */
    bool roots;   /* takes the root of its input */
    dt_tensor *kept;
} own;

static void own_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                        int n_out)
{
    own *s = dt_module_state(m);
    (void)n_in;
    s->calls++;
    dt_tensor *y = dt_forward(t, s->layer, s->roots ? dt_sqrt(t, in[0]) : in[0]);
    dt_tensor *z = dt_tanh(t, y);
    if (s->keeps) s->kept = dt_keep(t, dt_square(t, y));
    if (s->differs && s->calls > 1) dt_keep(t, y);
    out[0] = dt_add(t, in[0], s->wraps ? dt_fake_quant(t, z, NULL, true) : z);
    if (s->wraps) out[0] = dt_fake_quant(t, out[0], NULL, true);
    if (n_out > 1) out[1] = dt_mul(t, in[0], z);
}

static const dt_module_type own_type = { .name = "own", .forward = own_forward, .block = true };

static own *create_own(side *s)
{
    open_side(s, 3);
    TEST_OK(s->ctx, dt_module_create(s->ctx, &own_type, sizeof(own), &s->m));
    own *state = dt_module_state(s->m);
    TEST_OK(s->ctx, dt_linear_create(s->ctx, 6, 6, true, &state->layer));
    TEST_OK(s->ctx, dt_module_add(s->m, "layer", state->layer));
    TEST_OK(s->ctx, dt_tensor_create(s->ctx, DT_F32, 2, (const int64_t[]){ 4, 6 }, &s->x));
    TEST_OK(s->ctx, dt_fill_normal(s->x, 0, 1));
    TEST_OK(s->ctx, dt_set_requires_grad(s->x, true));
    return state;
}

/* x enters the module twice and also bypasses it; both results and the kept tensor enter the
 * loss. */
static void run_around(side *s)
{
    own *state = dt_module_state(s->m);
    dt_tensor *in[1] = { dt_mul(s->t, s->x, s->x) }, *out[2], *sum = NULL;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(dt_forward_n(s->t, s->m, in, 1, out, 2), DT_OK);
        dt_tensor *y = dt_add(s->t, dt_mul(s->t, out[0], in[0]), dt_exp(s->t, out[1]));
        y = dt_add(s->t, y, state->kept);
        sum = sum == NULL ? y : dt_mul(s->t, sum, y);
        in[0] = dt_tanh(s->t, out[0]);
    }
    TEST_OK(s->ctx, dt_backward(s->t, dt_sum(s->t, sum, NULL), NULL));
    ck_assert_ptr_nonnull(dt_data(state->kept)); /* the caller's until the tape is reset */
}

START_TEST(blocks_with_several_outputs_and_kept_tensors)
{
    side a, b;
    create_own(&a)->keeps = true;
    own *state = create_own(&b);
    state->keeps = true;
    ck_assert_int_eq(dt_recompute(b.m, true), 1);
    run_around(&a);
    run_around(&b);
    ck_assert_int_eq(state->calls, 4);
    assert_same(&a, &b);
    close_side(&a);
    close_side(&b);
}
END_TEST

/* An observed range changes between two calls of one module: each call is recomputed with its
 * own. */
START_TEST(shared_modules_observe_once)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT8_STATIC_INT8_WEIGHT;
    side a, b;
    side *const both[] = { &a, &b };
    for (int i = 0; i < 2; i++) {
        create_own(both[i])->keeps = true;
        TEST_OK(both[i]->ctx, dt_prepare(both[i]->m, &o));
    }
    dt_recompute(b.m, true);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            dt_tape_reset(both[k]->t);
            run_around(both[k]);
        }
        assert_same(&a, &b);
    }
    close_side(&a);
    close_side(&b);
}
END_TEST

static dt_tensor *forward(side *s)
{
    dt_tape_reset(s->t);
    return dt_sum(s->t, dt_forward(s->t, s->m, s->x), NULL);
}

START_TEST(changes_before_backward_are_refused)
{
    side s;
    own *state = create_own(&s);
    dt_recompute(s.m, true);
    dt_tensor *loss = forward(&s);
    TEST_OK(s.ctx, dt_fill(dt_param(s.m, "layer.weight"), 0.5));
    TEST_FAILS(s.ctx, DT_ERR_STATE, "was written", dt_backward(s.t, loss, NULL));
    loss = forward(&s);
    dt_train(s.m, false);
    TEST_FAILS(s.ctx, DT_ERR_STATE, "module changed", dt_backward(s.t, loss, NULL));
    loss = forward(&s);
    ck_assert_ptr_null(dt_add_(s.t, s.x, s.x, 1)); /* it is needed */
    TEST_FAILS(s.ctx, DT_ERR_STATE, "still needed", dt_backward(s.t, loss, NULL));
    state->differs = true;
    state->calls = 0;
    loss = forward(&s);
    TEST_FAILS(s.ctx, DT_ERR_STATE, "differs from the first", dt_backward(s.t, loss, NULL));
    state->differs = false;
    state->wraps = true;
    dt_forward(s.t, s.m, s.x);
    forward(&s);
    TEST_FAILS(s.ctx, DT_ERR_STATE, "returns a fake_quant", dt_tape_status(s.t));
    state->wraps = false;
    loss = forward(&s); /* nothing is left of all that */
    TEST_OK(s.ctx, dt_backward(s.t, loss, NULL));
    TEST_FAILS(s.ctx, DT_ERR_STATE, "already run", dt_backward(s.t, loss, NULL));
    close_side(&s);
}
END_TEST

START_TEST(without_gradients_nothing_runs_again)
{
    side s;
    own *state = create_own(&s);
    dt_recompute(s.m, true);
    dt_no_grad(s.t, true);
    forward(&s);
    ck_assert_int_eq(s.t->n_records, 0);
    dt_no_grad(s.t, false);
    TEST_OK(s.ctx, dt_set_requires_grad(s.x, false));
    TEST_OK(s.ctx, dt_set_requires_grad(dt_param(s.m, "layer.weight"), false));
    TEST_OK(s.ctx, dt_set_requires_grad(dt_param(s.m, "layer.bias"), false));
    forward(&s);
    ck_assert_int_eq(s.t->n_records, 0);
    TEST_OK(s.ctx, dt_set_requires_grad(dt_param(s.m, "layer.bias"), true));
    dt_tensor *loss = forward(&s);
    ck_assert_int_eq(s.t->n_records, 2);
    state->calls = 0;
    TEST_OK(s.ctx, dt_backward(s.t, loss, NULL));
    ck_assert_int_eq(state->calls, 1);
    ck_assert_ptr_nonnull(dt_grad(dt_param(s.m, "layer.bias")));
    ck_assert_ptr_null(dt_grad(s.x));
    ck_assert_int_eq(dt_recompute(s.m, false), 1);
    loss = forward(&s);
    ck_assert_int_gt(s.t->n_records, 2);
    close_side(&s);
}
END_TEST

/* The same messages in the forward pass and in backward's second run: the derivative of the root is
 * infinite at 0. */
START_TEST(errors_are_those_without_recomputing)
{
    char text[2][2][512];
    for (int i = 0; i < 2; i++) {
        side s;
        own *state = create_own(&s);
        dt_module *inner = s.m;
        state->roots = true;
        TEST_OK(s.ctx, dt_sequential_create(s.ctx, &s.m));
        TEST_OK(s.ctx, dt_module_add(s.m, "inner", inner));
        dt_recompute(s.m, i == 1);
        dt_tape_watch(s.t, true);
        float *x = dt_data_mut(s.x);
        for (int k = 0; k < 24; k++) x[k] = fabsf(x[k]);
        x[5] = -1;
        forward(&s);
        ck_assert_int_eq(dt_tape_status(s.t), DT_ERR_NUMERIC);
        snprintf(text[i][0], sizeof text[0][0], "%s", dt_error(s.ctx));
        x[5] = 0;
        ck_assert_int_eq(dt_backward(s.t, forward(&s), NULL), DT_ERR_NUMERIC);
        snprintf(text[i][1], sizeof text[0][1], "%s", dt_error(s.ctx));
        close_side(&s);
    }
    ck_assert_ptr_nonnull(strstr(text[0][0], "in inner"));
    ck_assert_ptr_nonnull(strstr(text[0][1], "in inner"));
    ck_assert_str_eq(text[0][0], text[1][0]);
    ck_assert_str_eq(text[0][1], text[1][1]);
}
END_TEST

static dt_status whole_step(dt_ctx *ctx, void *user)
{
    const dt_gpt_options o = {
        .vocab = 5, .context = 4, .layers = 1, .heads = 1, .width = 8, .dropout = 0.1, .eps = 1e-5
    };
    dt_module *m = NULL;
    dt_tensor *x = NULL;
    dt_tape *t = NULL;
    (void)user;
    dt_status s = dt_gpt_create(ctx, &o, &m);
    if (s == DT_OK) s = dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ 1, 4 }, &x);
    if (s == DT_OK) s = dt_tape_create(ctx, &t);
    if (s == DT_OK) {
        dt_recompute(m, true);
        s = dt_backward(t, dt_sum(t, dt_forward(t, m, x), NULL), NULL);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_module_free(m);
    return s;
}

START_TEST(memory_that_fails_leaves_nothing) { test_every_allocation(whole_step, NULL); }
END_TEST

Suite *test_recompute_suite(void)
{
    Suite *s = suite_create("recompute");
    TCase *c = tcase_create("recompute");
    tcase_set_timeout(c, 600);
    tcase_add_test(c, random_networks_have_the_same_bits);
    tcase_add_test(c, language_models_have_the_same_bits);
    tcase_add_test(c, less_is_kept);
    tcase_add_test(c, no_allocation_from_the_second_step);
    tcase_add_test(c, blocks_with_several_outputs_and_kept_tensors);
    tcase_add_test(c, shared_modules_observe_once);
    tcase_add_test(c, changes_before_backward_are_refused);
    tcase_add_test(c, without_gradients_nothing_runs_again);
    tcase_add_test(c, errors_are_those_without_recomputing);
    tcase_add_test(c, memory_that_fails_leaves_nothing);
    suite_add_tcase(s, c);
    return s;
}
