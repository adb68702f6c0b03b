/* Modules: the tree and its paths, hooks, scopes, state; and the promises about a training step of
 * a small network: no allocation, the same bits on any number of threads, gradients that add up. */
#include "testing.h"

#include "nn/module.h"

#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/experimental/optim.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* ---- helpers --------------------------------------------------------------------------------- */

#define DIMS(...)                                                                                  \
    ((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))), (const int64_t[]) { __VA_ARGS__ }

static dt_tensor *normal(int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0.0, 1.0));
    return x;
}

static dt_module *linear(int64_t in, int64_t out)
{
    dt_module *m;
    TEST_OK(ctx, dt_linear_create(ctx, in, out, true, &m));
    return m;
}

static dt_module *sequential(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    return m;
}

static dt_module *activation(const char *name)
{
    dt_module *m;
    TEST_OK(ctx, dt_activation_create(ctx, name, &m));
    return m;
}

/* 0: linear, 1: tanh, 2: linear; of width 8. */
static dt_module *small_net(void)
{
    dt_module *m = sequential();
    TEST_OK(ctx, dt_module_add(m, "0", linear(8, 8)));
    TEST_OK(ctx, dt_module_add(m, "1", activation("tanh")));
    TEST_OK(ctx, dt_module_add(m, "2", linear(8, 8)));
    return m;
}

static bool same_bits(const dt_tensor *a, const dt_tensor *b)
{
    return a->count == b->count && a->dtype == b->dtype &&
           memcmp(dt_data(a), dt_data(b), (size_t)a->count * dt_dtype_size(a->dtype)) == 0;
}

static dt_tensor *copy_of(const dt_tensor *x)
{
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_from(ctx, x->dtype, x->rank, x->dims, dt_data(x), &y));
    return y;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static dt_status join_paths(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    char *text = user;
    (void)x;
    strcat(text, kind == DT_BUFFER ? "!" : "");
    strcat(strcat(text, path), " ");
    return DT_OK;
}

static dt_status join_modules(void *user, const char *path, dt_module *m)
{
    char *text = user;
    strcat(strcat(text, path), ":");
    strcat(strcat(text, dt_module_type_of(m)->name), " ");
    return DT_OK;
}

static dt_status stop_at_bias(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)x;
    (void)kind;
    ++*(int *)user;
    return strcmp(path, "0.bias") == 0 ? DT_ERR_INTERRUPTED : DT_OK;
}

START_TEST(paths_are_visited_in_order)
{
    dt_module *m = small_net(), *norm, *outer = sequential();
    TEST_OK(ctx, dt_batch_norm1d_create(ctx, 8, 0.1, 1e-5, &norm));
    TEST_OK(ctx, dt_module_add(m, "norm", norm));
    char text[512] = "";
    TEST_OK(ctx, dt_module_visit(m, join_paths, text));
    const char *all = "0.weight 0.bias 2.weight 2.bias norm.weight norm.bias !norm.running_mean "
                      "!norm.running_var ";
    ck_assert_str_eq(text, all);
    TEST_OK(ctx, dt_module_add(outer, "inner", m));
    text[0] = '\0';
    TEST_OK(ctx, dt_module_visit(m, join_paths, text)); /* relative to the module that is visited */
    ck_assert_str_eq(text, all);
    ck_assert_str_eq(dt_param(outer, "inner.2.bias")->name, "inner.2.bias");
    text[0] = '\0';
    TEST_OK(ctx, dt_module_visit_modules(outer, join_modules, text));
    ck_assert_str_eq(text, ":sequential inner:sequential inner.0:linear inner.1:activation "
                           "inner.2:linear inner.norm:batch_norm1d ");
    int seen = 0;
    ck_assert_int_eq(dt_module_visit(m, stop_at_bias, &seen), DT_ERR_INTERRUPTED);
    ck_assert_int_eq(seen, 2);
    ck_assert_int_eq(dt_param_count(outer), 2 * (64 + 8) + 16);
    dt_module_free(outer);
}
END_TEST

START_TEST(paths_lead_to_modules_and_tensors)
{
    dt_module *m = small_net();
    ck_assert_ptr_eq(dt_module_at(m, ""), m);
    ck_assert_str_eq(dt_module_type_of(dt_module_at(m, "1"))->name, "activation");
    ck_assert_ptr_eq(dt_param(m, "2.weight"), dt_param(dt_module_at(m, "2"), "weight"));
    static const char *const wrong[] = { "3", "0.", ".0", ".", "0.0", "00", "0.weight", NULL };
    for (int i = 0; i < 8; i++) {
        ck_assert_ptr_null(dt_module_at(m, wrong[i]));
        ck_assert_int_eq(dt_error_status(ctx), DT_ERR_ARG);
    }
    static const char *const none[] = {
        "", "0", "weight", "0.weigh", "0.weights", "1.weight", NULL
    };
    for (int i = 0; i < 7; i++) {
        ck_assert_ptr_null(dt_param(m, none[i]));
        ck_assert_int_eq(dt_error_status(ctx), DT_ERR_ARG);
    }
    dt_module_free(m);
}
END_TEST

START_TEST(names_are_checked)
{
    dt_module *m = small_net();
    TEST_FAILS(ctx, DT_ERR_ARG, "not a name", dt_module_add(m, "", linear(1, 1)));
    TEST_FAILS(ctx, DT_ERR_ARG, "not a name", dt_module_add(m, NULL, linear(1, 1)));
    TEST_FAILS(ctx, DT_ERR_ARG, "a.b", dt_module_add(m, "a.b", linear(1, 1)));
    TEST_FAILS(ctx, DT_ERR_ARG, "taken", dt_module_add(m, "0", linear(1, 1)));
    dt_module *first = dt_module_at(m, "0");
    TEST_FAILS(ctx, DT_ERR_ARG, "taken", dt_module_add(first, "bias", linear(1, 1)));
    TEST_FAILS(ctx, DT_ERR_ARG, "taken", dt_module_add_param(first, "bias", normal(DIMS(2))));
    TEST_FAILS(ctx, DT_ERR_STATE, "already", dt_module_add(m, "x", first));
    TEST_FAILS(ctx, DT_ERR_STATE, "already", dt_module_add(first, "x", m));
    TEST_FAILS(ctx, DT_ERR_STATE, "already", dt_module_add(m, "x", m));
    dt_tensor *index;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, DIMS(2), &index));
    TEST_FAILS(ctx, DT_ERR_DTYPE, "f32", dt_module_add_param(m, "index", index));
    dt_tensor *x = normal(DIMS(2));
    dt_tensor *y = dt_tanh(t, x);
    dt__retain(y);
    TEST_FAILS(ctx, DT_ERR_STATE, "lent", dt_module_add_buffer(m, "y", y));
    dt_module *none = NULL;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "none of", dt_activation_create(ctx, "swish", &none));
    ck_assert_int_eq(dt_module_add(m, "swish", none), DT_ERR_CONFIG); /* passed on */
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

START_TEST(a_child_that_is_freed_leaves)
{
    dt_module *m = small_net();
    dt_module_free(dt_module_at(m, "1"));
    ck_assert_ptr_null(dt_module_at(m, "1"));
    char text[512] = "";
    dt_module_visit_modules(m, join_modules, text);
    ck_assert_str_eq(text, ":sequential 0:linear 2:linear ");
    dt_module_free(m);
    dt_module_free(NULL);
}
END_TEST

START_TEST(freeing_gives_all_memory_back)
{
    const size_t before = dt_memory_of(ctx).used;
    dt_module *m = small_net(), *outer = sequential();
    TEST_OK(ctx, dt_module_add(outer, "net", m));
    ck_assert_uint_gt(dt_memory_of(ctx).used, before);
    dt_module_free(outer);
    ck_assert_uint_eq(dt_memory_of(ctx).used, before);
}
END_TEST

START_TEST(the_context_may_go_first)
{
    dt_module *m = small_net();
    dt_tape_free(t);
    dt_ctx_free(ctx);
    dt_module_free(m);
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}
END_TEST

START_TEST(a_parameter_outlives_its_module)
{
    dt_module *m = small_net();
    dt_tensor *w = dt_param(m, "2.weight");
    dt__retain(w);
    dt_module_free(m);
    ck_assert_str_eq(w->name, "2.weight");
    ck_assert_int_eq(dt_count(w), 64);
    dt_tensor_free(w);
}
END_TEST

START_TEST(ties)
{
    dt_module *m = small_net();
    TEST_OK(ctx, dt_module_tie(m, "2.weight", "0.weight"));
    TEST_OK(ctx, dt_module_tie(m, "2.weight", "0.weight")); /* once more is nothing */
    dt_tensor *w = dt_param(m, "2.weight");
    ck_assert_ptr_eq(w, dt_param(m, "0.weight"));
    ck_assert_str_eq(dt_param_path(m, w), "0.weight");
    ck_assert_str_eq(w->name, "0.weight");
    ck_assert_str_eq(dt_param_path(dt_module_at(m, "2"), w), "weight");
    ck_assert_ptr_null(dt_param_path(dt_module_at(m, "1"), w));
    ck_assert_int_eq(dt_param_count(m), 64 + 16);
    char text[512] = "";
    dt_module_visit(m, join_paths, text);
    ck_assert_str_eq(text, "0.weight 0.bias 2.weight 2.bias ");
    TEST_FAILS(ctx, DT_ERR_SHAPE, "0.bias", dt_module_tie(m, "0.bias", "0.weight"));
    TEST_FAILS(ctx, DT_ERR_ARG, "3.bias", dt_module_tie(m, "0.bias", "3.bias"));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_module_tie(m, NULL, "0.bias"));
    TEST_OK(ctx, dt_module_tie(m, "0.bias", "2.bias"));
    ck_assert_str_eq(dt_param(m, "2.bias")->name, "0.bias");
    dt_module_free(m);
}
END_TEST

START_TEST(buffers_cannot_be_tied)
{
    dt_module *m;
    TEST_OK(ctx, dt_batch_norm1d_create(ctx, 3, 0.1, 1e-5, &m));
    TEST_FAILS(ctx, DT_ERR_ARG, "buffer", dt_module_tie(m, "running_mean", "bias"));
    TEST_FAILS(ctx, DT_ERR_ARG, "buffer", dt_module_tie(m, "bias", "running_mean"));
    dt_module_free(m);
}
END_TEST

/* ---- running --------------------------------------------------------------------------------- */

START_TEST(a_scope_drops_what_is_not_returned)
{
    dt_module *m = sequential();
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%d", i);
        TEST_OK(ctx, dt_module_add(m, name, activation("tanh")));
    }
    dt_tensor *x = normal(DIMS(64, 1024));
    dt_no_grad(t, true);
    dt_memory_reset_peak(ctx);
    const size_t before = dt_memory_of(ctx).used, one = 64 * 1024 * sizeof(float);
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    const dt_memory after = dt_memory_of(ctx);
    ck_assert_uint_lt(after.used - before, 2 * one); /* the result */
    ck_assert_uint_lt(after.peak - before, 3 * one); /* and one step's operand */
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

static dt_tensor *seen;

static void keeping_forward(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in,
                            dt_tensor **out, int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    seen = dt_tanh(tape, in[0]);
    if (dt_module_state(m) != NULL && *(bool *)dt_module_state(m)) dt_keep(tape, seen);
    out[0] = dt_tanh(tape, seen);
}

static const dt_module_type keeping = { .name = "keeping", .forward = keeping_forward };

START_TEST(keep_moves_a_tensor_out)
{
    dt_module *m;
    TEST_OK(ctx, dt_module_create(ctx, &keeping, sizeof(bool), &m));
    dt_tensor *x = normal(DIMS(4));
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    ck_assert_ptr_null(dt_data(seen));
    ck_assert_ptr_null(dt_tanh(t, seen));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    dt_tape_reset(t);
    *(bool *)dt_module_state(m) = true;
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    ck_assert_ptr_nonnull(dt_data(seen));
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

static void two_forward(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in,
                        dt_tensor **out, int n_out)
{
    (void)m;
    for (int i = 0; i < n_out && i < n_in; i++) out[i] = dt_tanh(tape, in[i]);
}

static const dt_module_type two = { .name = "two", .forward = two_forward };
static const dt_module_type none = { .name = "none" };

START_TEST(several_inputs_and_outputs)
{
    dt_module *m;
    TEST_OK(ctx, dt_module_create(ctx, &two, 0, &m));
    dt_tensor *x = normal(DIMS(4)), *in[2] = { x, x }, *out[5];
    TEST_OK(ctx, dt_forward_n(t, m, in, 2, out, 2));
    ck_assert(same_bits(out[0], out[1]));
    TEST_FAILS(ctx, DT_ERR_STATE, "no output 2", dt_forward_n(t, m, in, 2, out, 3));
    for (int i = 0; i < 3; i++) ck_assert_ptr_null(out[i]);
    dt_tape_reset(t);
    TEST_FAILS(ctx, DT_ERR_ARG, "outputs", dt_forward_n(t, m, in, 2, out, 5));
    dt_tape_reset(t);
    TEST_FAILS(ctx, DT_ERR_ARG, "inputs", dt_forward_n(t, m, in, 0, out, 1));
    dt_tape_reset(t);
    in[1] = NULL;
    TEST_FAILS(ctx, DT_ERR_ARG, "input 1 is NULL", dt_forward_n(t, m, in, 2, out, 1));
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_forward(t, NULL, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_ARG);
    ck_assert_ptr_null(dt_forward(t, m, x)); /* the tape's error stays */
    dt_tape_reset(t);
    dt_module *empty;
    TEST_OK(ctx, dt_module_create(ctx, &none, 0, &empty));
    ck_assert_ptr_null(dt_forward(t, empty, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    dt_module_free(empty);
    TEST_FAILS(ctx, DT_ERR_ARG, "type", dt_module_create(ctx, NULL, 0, &empty));
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

START_TEST(messages_name_the_module)
{
    dt_module *m = small_net(), *outer = sequential();
    TEST_OK(ctx, dt_module_add(outer, "body", m));
    dt_tensor *x = normal(DIMS(2, 7));
    ck_assert_ptr_null(dt_forward(t, outer, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_SHAPE);
    ck_assert_msg(strstr(dt_error(ctx), "in body.0") != NULL, "%s", dt_error(ctx));
    ck_assert_msg(strstr(dt_error(ctx), "linear") != NULL, "%s", dt_error(ctx));
    dt_tensor_free(x);
    dt_module_free(outer);
}
END_TEST

START_TEST(messages_of_backward_name_the_module)
{
    dt_module *m = small_net();
    dt_tensor *x = normal(DIMS(2, 8)), *up = normal(DIMS(2, 8));
    dt_tensor *y = dt_forward(t, m, x);
    dt_data_mut(dt_param(m, "2.weight"));
    TEST_FAILS(ctx, DT_ERR_STATE, "2.weight was written", dt_backward(t, y, up));
    const char *end = dt_error(ctx) + strlen(dt_error(ctx)) - 4;
    ck_assert_msg(strcmp(end, "in 2") == 0, "%s", dt_error(ctx));
    dt_module_free(m); /* freed before the tape, whose records still refer to it */
    dt_tensor_free(x);
    dt_tensor_free(up);
}
END_TEST

START_TEST(training_reaches_all_below)
{
    dt_module *m = small_net(), *drop;
    TEST_OK(ctx, dt_dropout_create(ctx, 0.5, &drop));
    TEST_OK(ctx, dt_module_add(m, "drop", drop));
    ck_assert(dt_is_training(m) && dt_is_training(drop));
    dt_train(m, false);
    ck_assert(!dt_is_training(m) && !dt_is_training(drop));
    dt_tensor *x = normal(DIMS(16, 8));
    ck_assert_ptr_eq(dt_forward(t, drop, x), x);
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, drop, x);
    int zeros = 0;
    for (int64_t i = 0; i < 128; i++) {
        const float a = ((const float *)dt_data(x))[i], b = ((const float *)dt_data(y))[i];
        zeros += b == 0.0f;
        ck_assert(b == 0.0f || b == 2.0f * a);
    }
    ck_assert_int_gt(zeros, 30);
    ck_assert_int_lt(zeros, 98);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- hooks ----------------------------------------------------------------------------------- */

typedef struct noting {
    int calls, drops;
    dt_tensor *last;
    double factor;
} noting;

static dt_tensor *scale(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    noting *n = user;
    (void)m;
    n->calls++;
    n->last = x;
    if (n->factor == 1.0) return x;
    for (int i = 0; i < (int)n->factor - 1; i++) x = dt_add(tape, x, x);
    return x;
}

static dt_tensor *nothing(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    (void)user;
    (void)tape;
    (void)m;
    (void)x;
    return NULL;
}

static void count_drop(dt_ctx *c, void *user)
{
    (void)c;
    ((noting *)user)->drops++;
}

START_TEST(hooks_act_and_go)
{
    dt_module *m = small_net(), *first = dt_module_at(m, "0");
    dt_tensor *x = normal(DIMS(3, 8));
    dt_tensor *plain = copy_of(dt_forward(t, m, x));
    noting twice = { .factor = 2 }, watch = { .factor = 1 }, weight = { .factor = 2 };
    uint64_t a, b, c;
    TEST_OK(ctx, dt_hook_add(first, DT_SITE_INPUT, scale, &twice, count_drop, &a));
    TEST_OK(ctx, dt_hook_add(first, DT_SITE_INPUT, scale, &watch, NULL, &b));
    TEST_OK(ctx, dt_hook_add(first, DT_SITE_WEIGHT, scale, &weight, count_drop, &c));
    ck_assert(!same_bits(dt_forward(t, m, x), plain));
    ck_assert_int_eq(twice.calls + watch.calls + weight.calls, 3);
    ck_assert_ptr_eq(twice.last, x);
    ck_assert_ptr_ne(watch.last, x); /* in the order of adding: it sees what the first made */
    ck_assert_ptr_eq(weight.last, dt_param(first, "weight"));
    TEST_OK(ctx, dt_unhook(first, a));
    ck_assert_int_eq(twice.drops, 1);
    TEST_FAILS(ctx, DT_ERR_ARG, "no hook", dt_unhook(first, a));
    TEST_OK(ctx, dt_unhook(first, c));
    ck_assert(same_bits(dt_forward(t, m, x), plain));
    ck_assert_ptr_eq(watch.last, x);
    TEST_FAILS(ctx, DT_ERR_ARG, "site", dt_hook_add(first, (dt_site)7, scale, NULL, NULL, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "function",
               dt_hook_add(first, DT_SITE_INPUT, NULL, NULL, NULL, NULL));
    dt_tensor_free(plain);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

START_TEST(a_module_drops_its_hooks)
{
    noting n = { .factor = 1 };
    dt_module *m = small_net();
    for (int i = 0; i < 3; i++) {
        TEST_OK(ctx, dt_hook_add(m, DT_SITE_INPUT, scale, &n, count_drop, NULL));
    }
    dt_module_free(m);
    ck_assert_int_eq(n.drops, 3);
}
END_TEST

START_TEST(a_hook_that_returns_nothing_is_an_error)
{
    dt_module *m = small_net();
    dt_tensor *x = normal(DIMS(3, 8));
    TEST_OK(ctx, dt_hook_add(dt_module_at(m, "2"), DT_SITE_WEIGHT, nothing, NULL, NULL, NULL));
    ck_assert_ptr_null(dt_forward(t, m, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_msg(strstr(dt_error(ctx), "module 2 ") != NULL, "%s", dt_error(ctx));
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

static dt_tensor *unhook_self(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    (void)tape;
    *(dt_status *)user = dt_unhook(m, 1);
    return x;
}

START_TEST(hooks_stay_while_they_run)
{
    dt_module *m = small_net();
    dt_tensor *x = normal(DIMS(3, 8));
    dt_status status = DT_OK;
    TEST_OK(ctx, dt_hook_add(m, DT_SITE_INPUT, unhook_self, &status, NULL, NULL));
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    ck_assert_int_eq(status, DT_ERR_STATE);
    TEST_OK(ctx, dt_unhook(m, 1));
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

static dt_tensor *run_again(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    (void)user;
    return dt_forward(tape, m, x);
}

static dt_tensor *free_module(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    (void)tape;
    (void)m;
    dt_module_free(user);
    return x;
}

/* A hook that runs its module, or frees it, or the tree above, is an error, not a crash. */
START_TEST(hooks_neither_recurse_nor_free)
{
    dt_module *m = sequential(), *layer = linear(4, 4);
    TEST_OK(ctx, dt_module_add(m, "0", layer));
    dt_tensor *x = normal(2, (const int64_t[]){ 2, 4 });
    uint64_t hook;
    TEST_OK(ctx, dt_hook_add(layer, DT_SITE_INPUT, run_again, NULL, NULL, &hook));
    ck_assert_ptr_null(dt_forward(t, m, x));
    TEST_FAILS(ctx, DT_ERR_STATE, "does a hook run its own", dt_tape_status(t));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_unhook(layer, hook));
    dt_module *const freed[] = { m, layer };
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_hook_add(layer, DT_SITE_INPUT, free_module, freed[i], NULL, &hook));
        ck_assert_ptr_nonnull(dt_forward(t, m, x));
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "it runs, so it is not freed"));
        dt_tape_reset(t);
        TEST_OK(ctx, dt_unhook(layer, hook));
    }
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* A handle has one owner for each of its references. */
START_TEST(a_tensor_is_added_once)
{
    dt_module *m = sequential(), *layer = linear(4, 4);
    TEST_OK(ctx, dt_module_add(m, "0", layer));
    dt_tensor *x = normal(1, (const int64_t[]){ 4 });
    TEST_OK(ctx, dt_module_add_param(layer, "shift", x));
    TEST_FAILS(ctx, DT_ERR_STATE, "the tensor is '0.shift' already",
               dt_module_add_param(m, "again", x));
    TEST_FAILS(ctx, DT_ERR_STATE, "the tensor is '0.shift' already",
               dt_module_add_buffer(layer, "again", x));
    dt_module_free(m);
}
END_TEST

START_TEST(tensors_of_other_contexts_are_refused)
{
    dt_ctx *other;
    dt_tensor *x = normal(1, (const int64_t[]){ 4 }), *y;
    ck_assert_int_eq(dt_ctx_create(&other, NULL), DT_OK);
    TEST_OK(other, dt_tensor_create(other, DT_F32, 1, (const int64_t[]){ 4 }, &y));
    ck_assert_ptr_null(dt_add(t, x, y));
    TEST_FAILS(ctx, DT_ERR_ARG, "of another context", dt_tape_status(t));
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_tensor_free(y);
    dt_ctx_free(other);
}
END_TEST

START_TEST(modules_that_read_one_activation_see_one_handle)
{
    dt_module *a = linear(8, 4), *b = linear(8, 2);
    dt_tensor *x = normal(DIMS(3, 8)), *y = dt_tanh(t, x);
    noting one = { .factor = 1 }, other = { .factor = 1 };
    TEST_OK(ctx, dt_hook_add(a, DT_SITE_INPUT, scale, &one, NULL, NULL));
    TEST_OK(ctx, dt_hook_add(b, DT_SITE_INPUT, scale, &other, NULL, NULL));
    ck_assert_ptr_nonnull(dt_forward(t, a, y));
    ck_assert_ptr_nonnull(dt_forward(t, b, y));
    ck_assert_ptr_eq(one.last, y);
    ck_assert_ptr_eq(other.last, y);
    dt_tensor_free(x);
    dt_module_free(a);
    dt_module_free(b);
}
END_TEST

/* ---- state ----------------------------------------------------------------------------------- */

START_TEST(state_is_copied_whole_or_not_at_all)
{
    dt_module *a = small_net(), *b = small_net();
    ck_assert(!same_bits(dt_param(a, "0.weight"), dt_param(b, "0.weight")));
    TEST_OK(ctx, dt_module_copy_state(b, a));
    ck_assert(same_bits(dt_param(a, "0.weight"), dt_param(b, "0.weight")));
    ck_assert(same_bits(dt_param(a, "2.bias"), dt_param(b, "2.bias")));
    TEST_OK(ctx, dt_module_copy_state(b, b));
    dt_module_free(b);
    b = small_net();
    TEST_OK(ctx, dt_module_add(b, "3", linear(2, 2)));
    dt_tensor *before = copy_of(dt_param(b, "0.weight"));
    TEST_FAILS(ctx, DT_ERR_ARG, "2 missing (3.weight, 3.bias); 0 not", dt_module_copy_state(b, a));
    TEST_FAILS(ctx, DT_ERR_ARG, "0 missing; 2 not of this model (3.weight, 3.bias)",
               dt_module_copy_state(a, b));
    ck_assert(same_bits(before, dt_param(b, "0.weight")));
    dt_tensor_free(before);
    dt_module_free(a);
    dt_module_free(b);
}
END_TEST

START_TEST(loading_checks_first)
{
    dt_module *m = linear(3, 2);
    dt_tensor *w = normal(DIMS(2, 3)), *b = normal(DIMS(2)), *wide = normal(DIMS(3, 2)), *whole;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, DIMS(2), &whole));
    dt_tensor *before = copy_of(dt_param(m, "weight"));
    dt_named from[3] = { { "weight", w }, { "bias", whole }, { "bias.x", b } };
    TEST_FAILS(ctx, DT_ERR_DTYPE, "'bias' is f64[2]", dt_module_load(m, from, 2));
    from[0].x = wide;
    from[1].x = b;
    TEST_FAILS(ctx, DT_ERR_SHAPE, "f32[3,2]", dt_module_load(m, from, 2));
    from[0].x = w;
    TEST_FAILS(ctx, DT_ERR_ARG, "bias.x", dt_module_load(m, from, 3));
    TEST_FAILS(ctx, DT_ERR_ARG, "missing (bias)", dt_module_load(m, from, 1));
    from[1].x = NULL;
    TEST_FAILS(ctx, DT_ERR_ARG, "no tensor", dt_module_load(m, from, 2));
    from[1] = (dt_named){ NULL, b };
    TEST_FAILS(ctx, DT_ERR_ARG, "has no name", dt_module_load(m, from, 2));
    from[1] = (dt_named){ "bias", b };
    dt_tensor *y = dt_forward(t, m, dt_param(m, "weight"));
    ck_assert_ptr_nonnull(y);
    TEST_FAILS(ctx, DT_ERR_STATE, "needed", dt_module_load(m, from, 2));
    dt_tape_reset(t);
    ck_assert(same_bits(before, dt_param(m, "weight")));
    const uint64_t version = dt_tensor_version(dt_param(m, "weight"));
    TEST_OK(ctx, dt_module_load(m, from, 2));
    ck_assert_uint_gt(dt_tensor_version(dt_param(m, "weight")), version);
    ck_assert(same_bits(w, dt_param(m, "weight")));
    dt_tensor *all[] = { w, b, wide, whole, before };
    for (int i = 0; i < 5; i++) dt_tensor_free(all[i]);
    dt_module_free(m);
}
END_TEST

START_TEST(a_tied_parameter_loads_under_its_first_path)
{
    dt_module *m = small_net();
    TEST_OK(ctx, dt_module_tie(m, "2.weight", "0.weight"));
    dt_tensor *w = normal(DIMS(8, 8)), *b = normal(DIMS(8));
    const dt_named from[] = { { "0.weight", w }, { "0.bias", b }, { "2.bias", b } };
    TEST_OK(ctx, dt_module_load(m, from, 3));
    ck_assert(same_bits(w, dt_param(m, "2.weight")));
    const dt_named second[] = { { "2.weight", w }, { "0.bias", b }, { "2.bias", b } };
    TEST_FAILS(ctx, DT_ERR_ARG, "missing (0.weight)", dt_module_load(m, second, 3));
    dt_tensor_free(w);
    dt_tensor_free(b);
    dt_module_free(m);
}
END_TEST

/* ---- layers ---------------------------------------------------------------------------------- */

START_TEST(a_seed_decides_the_weights)
{
    dt_seed(ctx, 7);
    dt_module *a = small_net();
    dt_seed(ctx, 7);
    dt_tensor *x = normal(DIMS(100)); /* the user's stream is another one */
    dt_module *b = small_net(), *c = small_net();
    ck_assert(same_bits(dt_param(a, "2.weight"), dt_param(b, "2.weight")));
    ck_assert(!same_bits(dt_param(a, "2.weight"), dt_param(c, "2.weight")));
    dt_tensor_free(x);
    dt_module_free(a);
    dt_module_free(b);
    dt_module_free(c);
}
END_TEST

static const dt_conv_layer doubling = {
    .in = 4,
    .out = 6,
    .kernel = { 4, 2 },
    .bias = true,
    .conv = { .stride = { 2, 3 },
              .padding = { 1, 0 },
              .dilation = { 1, 1 },
              .output_padding = { 0, 2 },
              .groups = 2 },
};

START_TEST(convolutions_refuse_bad_options)
{
    dt_module *m = (void *)&ctx;
    dt_conv_layer l = doubling;
    TEST_FAILS(ctx, DT_ERR_ARG, "conv2d: output_padding is 2, expected 0...0",
               dt_conv2d_create(ctx, &l, &m));
    ck_assert_ptr_null(m);
    l.conv.output_padding[1] = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "output_padding is 3, expected 0...2",
               dt_conv_transpose2d_create(ctx, &l, &m));
    l = doubling;
    l.conv.groups = 4;
    TEST_FAILS(ctx, DT_ERR_ARG, "4 groups do not divide 4 and 6",
               dt_conv_transpose2d_create(ctx, &l, &m));
    l.conv.groups = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "groups is 0", dt_conv_transpose2d_create(ctx, &l, &m));
    l = doubling;
    l.kernel[1] = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "kernel's extent is 0", dt_conv_transpose2d_create(ctx, &l, &m));
    l.kernel[0] = -1;
    TEST_FAILS(ctx, DT_ERR_ARG, "conv1d: the kernel's extent", dt_conv1d_create(ctx, &l, &m));
    l = doubling;
    l.conv.padding[0] = -1;
    TEST_FAILS(ctx, DT_ERR_ARG, "padding is -1", dt_conv_transpose1d_create(ctx, &l, &m));
    l.conv.dilation[0] = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "dilation is 0", dt_conv_transpose1d_create(ctx, &l, &m));
    l.conv.stride[0] = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "stride is 0", dt_conv_transpose1d_create(ctx, &l, &m));
    l.in = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "input channels is 0", dt_conv1d_create(ctx, &l, &m));
    l.in = 2;
    l.out = INT64_MAX / 2 * 2;
    l.conv = dt_conv_defaults();
    l.kernel[0] = l.kernel[1] = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "large", dt_conv2d_create(ctx, &l, &m));
}
END_TEST

/* ---- families -------------------------------------------------------------------------------- */

static const dt_mlp_options full_mlp = {
    .sizes = { 4, { 12, 16, 9, 5 } }, .norm = 2, .bias = true, .dropout = 0.25, .eps = 1e-5
};

START_TEST(an_mlp_has_the_names_it_promises)
{
    dt_module *m;
    TEST_OK(ctx, dt_mlp_create(ctx, &full_mlp, &m));
    char text[512] = "";
    dt_module_visit(m, join_paths, text);
    ck_assert_str_eq(text, "layers.0.weight layers.0.bias layers.1.weight layers.1.bias "
                           "norms.0.weight norms.0.bias norms.1.weight norms.1.bias "
                           "head.weight head.bias ");
    dt_tensor *images = normal(DIMS(7, 3, 4));
    dt_tensor *y = dt_forward(t, m, images);
    ck_assert_msg(y != NULL && dt_dim(y, 0) == 7 && dt_dim(y, 1) == 5, "%s", dt_error(ctx));
    dt_tensor *odd = normal(DIMS(7, 3, 5));
    ck_assert_ptr_null(dt_forward(t, m, odd));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_SHAPE);
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_forward(t, dt_module_at(m, "layers"), images));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    dt_tensor_free(images);
    dt_tensor_free(odd);
    dt_module_free(m);
}
END_TEST

START_TEST(an_mlp_checks_its_options)
{
    dt_module *m;
    dt_mlp_options o = full_mlp;
    o.sizes.n = 1;
    TEST_FAILS(ctx, DT_ERR_ARG, "sizes", dt_mlp_create(ctx, &o, &m));
    o = full_mlp;
    o.sizes.v[1] = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "size", dt_mlp_create(ctx, &o, &m));
    o = full_mlp;
    o.activation = 99;
    TEST_FAILS(ctx, DT_ERR_ARG, "activation 99", dt_mlp_create(ctx, &o, &m));
    o = full_mlp;
    o.norm = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "norm 3", dt_mlp_create(ctx, &o, &m));
    o = full_mlp;
    o.dropout = 1.5;
    TEST_FAILS(ctx, DT_ERR_ARG, "dropout", dt_mlp_create(ctx, &o, &m));
    o = full_mlp;
    o.eps = -1;
    TEST_FAILS(ctx, DT_ERR_ARG, "eps", dt_mlp_create(ctx, &o, &m));
    TEST_FAILS(ctx, DT_ERR_ARG, "sizes", dt_mlp_create(ctx, NULL, &m));
    ck_assert_ptr_null(m);
    const dt_family *f = dt_family_at(0);
    ck_assert_str_eq(f->name, "mlp");
    TEST_OK(ctx, f->create(ctx, &full_mlp, &m));
    dt_module_free(m);
    ck_assert_ptr_null(dt_family_at(-1));
    ck_assert_ptr_null(dt_family_at(1000));
}
END_TEST

/* ---- training steps -------------------------------------------------------------------------- */

typedef struct task {
    dt_module *m;
    dt_optimizer *o;
    dt_tape *tape;
} task;

static dt_status task_create(dt_ctx *c, const dt_mlp_options *options, task *k)
{
    *k = (task){ NULL, NULL, NULL };
    DT__TRY(dt_tape_create(c, &k->tape));
    DT__TRY(dt_mlp_create(c, options, &k->m));
    return dt_optimizer_create(k->m, NULL, &k->o);
}

static void task_free(task *k)
{
    dt_optimizer_free(k->o);
    dt_module_free(k->m);
    dt_tape_free(k->tape);
}

static dt_status task_step(task *k, dt_tensor *x, dt_tensor *labels)
{
    dt_tape_reset(k->tape);
    dt_zero_grad(k->m);
    dt_tensor *loss = dt_cross_entropy(k->tape, dt_forward(k->tape, k->m, x), labels, NULL);
    DT__TRY(dt_backward(k->tape, loss, NULL));
    DT__TRY(dt_clip_grad_norm(k->m, k->tape, 0.5, NULL));
    return dt_optimizer_step(k->o, k->tape, 1e-2);
}

static dt_status make_batch(dt_ctx *c, int64_t rows, int64_t width, dt_tensor **x,
                            dt_tensor **labels)
{
    *labels = NULL;
    DT__TRY(dt_tensor_create(c, DT_F32, DIMS(rows, width), x));
    DT__TRY(dt_fill_normal(*x, 0.0, 1.0));
    DT__TRY(dt_tensor_create(c, DT_I32, 1, &rows, labels));
    for (int64_t i = 0; i < rows; i++) ((int32_t *)dt_data_mut(*labels))[i] = (int32_t)(i % 5);
    return DT_OK;
}

START_TEST(a_step_allocates_nothing)
{
    dt_mlp_options options = full_mlp;
    options.norm = 1;
    options.momentum = 0.1;
    task k;
    TEST_OK(ctx, task_create(ctx, &options, &k));
    dt_tensor *x[2], *labels[2];
    TEST_OK(ctx, make_batch(ctx, 32, 12, &x[0], &labels[0]));
    TEST_OK(ctx, make_batch(ctx, 7, 12, &x[1], &labels[1]));
    TEST_OK(ctx, task_step(&k, x[0], labels[0]));
    uint64_t count = dt_memory_of(ctx).allocations;
    for (int i = 0; i < 5; i++) TEST_OK(ctx, task_step(&k, x[0], labels[0]));
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, count);
    TEST_OK(ctx, task_step(&k, x[1], labels[1]));
    count = dt_memory_of(ctx).allocations;
    for (int i = 0; i < 10; i++) TEST_OK(ctx, task_step(&k, x[i % 2], labels[i % 2]));
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, count);
    for (int i = 0; i < 2; i++) {
        dt_tensor_free(x[i]);
        dt_tensor_free(labels[i]);
    }
    task_free(&k);
}
END_TEST

static dt_status hash_entry(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    uint64_t *hash = user;
    (void)path;
    (void)kind;
    const unsigned char *p = dt_data(x);
    for (int64_t i = 0; i < x->count * (int64_t)sizeof(float); i++) {
        *hash = (*hash ^ p[i]) * UINT64_C(1099511628211);
    }
    return DT_OK;
}

static uint64_t after_steps(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    o.seed = 5;
    dt_ctx *c;
    ck_assert_int_eq(dt_ctx_create(&c, &o), DT_OK);
    const dt_mlp_options options = { .sizes = { 4, { 200, 300, 150, 5 } },
                                     .norm = 1,
                                     .eps = 1e-5,
                                     .momentum = 0.1,
                                     .dropout = 0.1,
                                     .activation = 1 };
    task k;
    TEST_OK(c, task_create(c, &options, &k));
    dt_tensor *x, *labels;
    TEST_OK(c, make_batch(c, 160, 200, &x, &labels));
    const int64_t steps = test_count((test_draws){ .usual = 20, .sanitized = 2 });
    for (int64_t i = 0; i < steps; i++) TEST_OK(c, task_step(&k, x, labels));
    uint64_t hash = UINT64_C(14695981039346656037);
    dt_module_visit(k.m, hash_entry, &hash);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    task_free(&k);
    dt_ctx_free(c);
    return hash;
}

START_TEST(threads_change_no_bit)
{
    const uint64_t one = after_steps(1);
    static const int threads[] = { 2, 3, 4, 8 };
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(after_steps(threads[i]) == one, "%d threads", threads[i]);
    }
}
END_TEST

static dt_status build_and_step(dt_ctx *c, void *user)
{
    const dt_mlp_options *options = user;
    task k;
    dt_tensor *x = NULL, *labels = NULL;
    dt_status s = task_create(c, options, &k);
    if (s == DT_OK) s = dt_optimizer_group(k.o, "*.bias", 2.0, 0.0);
    if (s == DT_OK) s = make_batch(c, 6, 12, &x, &labels);
    if (s == DT_OK) s = task_step(&k, x, labels);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    task_free(&k);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    dt_mlp_options options = full_mlp;
    options.norm = _i;
    options.momentum = 0.1;
    ck_assert_int_gt(test_every_allocation(build_and_step, &options), 50);
}
END_TEST

static dt_status build_tree(dt_ctx *c, void *user)
{
    dt_module *m = NULL, *other = NULL, *part = NULL;
    noting note = { .factor = 1 };
    (void)user;
    dt_status s = dt_sequential_create(c, &m);
    if (s == DT_OK) s = dt_linear_create(c, 3, 3, true, &part);
    if (s == DT_OK) s = dt_module_add(m, "a", part);
    if (s == DT_OK) s = dt_linear_create(c, 3, 3, true, &part);
    if (s == DT_OK) s = dt_module_add(m, "b", part);
    if (s == DT_OK) s = dt_module_tie(m, "b.weight", "a.weight");
    if (s == DT_OK) s = dt_hook_add(m, DT_SITE_INPUT, scale, &note, count_drop, NULL);
    if (s == DT_OK) s = dt_embedding_create(c, 3, 3, &part);
    if (s == DT_OK) s = dt_module_add(m, "c", part);
    if (s == DT_OK) s = dt_sequential_create(c, &other);
    if (s == DT_OK) {
        s = dt_module_add(other, "inner", m);
        m = NULL; /* freed by now where it failed */
    }
    if (s == DT_OK) s = dt_module_copy_state(other, other);
    dt_module_free(m);
    dt_module_free(other);
    return s;
}

START_TEST(every_allocation_of_a_tree_may_fail)
{
    ck_assert_int_gt(test_every_allocation(build_tree, NULL), 30);
}
END_TEST

/* Rows first ... first+n-1 of a batch, forward and backward, weighed by the labels that count. */
static void part_of_batch(task *k, const dt_tensor *x, const dt_tensor *labels, int64_t from,
                          int64_t n, double all)
{
    dt_tensor *some, *targets, *weight;
    const int64_t width = x->dims[1];
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, DIMS(n, width),
                                (const float *)dt_data(x) + from * width, &some));
    TEST_OK(ctx,
            dt_tensor_from(ctx, DT_I32, 1, &n, (const int32_t *)dt_data(labels) + from, &targets));
    int counted = 0;
    for (int64_t i = 0; i < n; i++) counted += ((const int32_t *)dt_data(targets))[i] >= 0;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 0, NULL, &weight));
    TEST_OK(ctx, dt_fill(weight, counted / all));
    dt_tape_reset(k->tape);
    dt_tensor *loss = dt_cross_entropy(k->tape, dt_forward(k->tape, k->m, some), targets, NULL);
    TEST_OK(ctx, dt_backward(k->tape, loss, weight));
    dt_tensor_free(some);
    dt_tensor_free(targets);
    dt_tensor_free(weight);
}

START_TEST(micro_batches_add_up)
{
    dt_mlp_options options = full_mlp;
    options.dropout = 0.0;
    task k;
    TEST_OK(ctx, task_create(ctx, &options, &k));
    dt_tensor *x, *labels;
    TEST_OK(ctx, make_batch(ctx, 20, 12, &x, &labels));
    for (int i = 3; i < 9; i++) ((int32_t *)dt_data_mut(labels))[i] = -100;
    dt_zero_grad(k.m);
    part_of_batch(&k, x, labels, 0, 20, 14.0);
    dt_tensor *whole = copy_of(dt_grad(dt_param(k.m, "layers.0.weight")));
    dt_zero_grad(k.m);
    part_of_batch(&k, x, labels, 0, 10, 14.0); /* 4 labels count */
    part_of_batch(&k, x, labels, 10, 10, 14.0);
    const dt_tensor *sum = dt_grad(dt_param(k.m, "layers.0.weight"));
    double largest = 0.0;
    for (int64_t i = 0; i < whole->count; i++) {
        largest = fmax(largest, fabs((double)((const float *)dt_data(whole))[i]));
    }
    ck_assert_int_eq(
        test_first_far_f32(dt_data(sum), dt_data(whole), whole->count, 1e-5 * largest, 0.0), -1);
    dt_tensor_free(whole);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    task_free(&k);
}
END_TEST

START_TEST(a_tied_weight_gets_one_gradient)
{
    dt_module *a = small_net(), *b = small_net();
    TEST_OK(ctx, dt_module_copy_state(b, a));
    dt_tensor *x = normal(DIMS(3, 8)), *w = dt_param(a, "0.weight");
    const dt_named same[] = { { "0.weight", w },
                              { "0.bias", dt_param(a, "0.bias") },
                              { "2.weight", w },
                              { "2.bias", dt_param(a, "2.bias") } };
    TEST_OK(ctx, dt_module_load(b, same, 4)); /* untied, with equal values */
    TEST_OK(ctx, dt_module_tie(a, "2.weight", "0.weight"));
    dt_tensor *up = normal(DIMS(3, 8));
    TEST_OK(ctx, dt_backward(t, dt_forward(t, a, x), up));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_backward(t, dt_forward(t, b, x), up));
    const float *tied = dt_data(dt_grad(w));
    const float *first = dt_data(dt_grad(dt_param(b, "0.weight")));
    const float *second = dt_data(dt_grad(dt_param(b, "2.weight")));
    for (int i = 0; i < 64; i++)
        TEST_NEAR((double)tied[i], (double)(first[i] + second[i]), 1e-6, 1e-6);
    dt_tensor_free(x);
    dt_tensor_free(up);
    dt_module_free(a);
    dt_module_free(b);
}
END_TEST

/* ---- suite ----------------------------------------------------------------------------------- */

static void add_case(Suite *s, const char *name, const TTest *const *tests, int n)
{
    TCase *c = tcase_create(name);
    tcase_add_checked_fixture(c, setup, teardown);
    for (int i = 0; i < n; i++) tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
}

#define ADD(name, ...)                                                                             \
    do {                                                                                           \
        const TTest *const tests_[] = { __VA_ARGS__ };                                             \
        add_case(s, name, tests_, (int)(sizeof tests_ / sizeof tests_[0]));                        \
    } while (0)

Suite *test_nn_suite(void)
{
    Suite *s = suite_create("nn");
    ADD("tree", paths_are_visited_in_order, paths_lead_to_modules_and_tensors, names_are_checked,
        a_child_that_is_freed_leaves, freeing_gives_all_memory_back, the_context_may_go_first,
        a_parameter_outlives_its_module, ties, buffers_cannot_be_tied);
    ADD("running", a_scope_drops_what_is_not_returned, keep_moves_a_tensor_out,
        several_inputs_and_outputs, messages_name_the_module, messages_of_backward_name_the_module,
        training_reaches_all_below);
    ADD("hooks", hooks_act_and_go, a_module_drops_its_hooks,
        a_hook_that_returns_nothing_is_an_error, hooks_stay_while_they_run,
        hooks_neither_recurse_nor_free, a_tensor_is_added_once,
        tensors_of_other_contexts_are_refused, modules_that_read_one_activation_see_one_handle);
    ADD("state", state_is_copied_whole_or_not_at_all, loading_checks_first,
        a_tied_parameter_loads_under_its_first_path);
    ADD("layers", a_seed_decides_the_weights, convolutions_refuse_bad_options);
    ADD("families", an_mlp_has_the_names_it_promises, an_mlp_checks_its_options);
    ADD("steps", a_step_allocates_nothing, threads_change_no_bit, micro_batches_add_up,
        a_tied_weight_gets_one_gradient, every_allocation_of_a_tree_may_fail);
    TCase *c = tcase_create("failing");
    tcase_add_loop_test(c, every_allocation_may_fail, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
