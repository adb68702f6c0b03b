/* Mixtures of experts: the layer against reference values, and llamas made of it: the routers'
 * auxiliary loss, activation checkpointing, decoding, counting, errors. */
#include "module_to.h"
#include "testing.h"

#include "nn/module.h"

#include <detent/io.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>

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
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

static double at(const dt_tensor *x, int64_t i)
{
    return dt_dtype_of(x) == DT_F32 ? (double)((const float *)dt_data(x))[i]
                                    : ((const double *)dt_data(x))[i];
}

/* ---- reference values ----------------------------------------------------------------------- */

typedef struct golden {
    dt_file *file;
    dt_dtype dtype;
    int number; /* of the case */
} golden;

static const char *setting(const golden *g, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "c%d.%s", g->number, key);
    return dt_file_meta(g->file, name);
}

static dt_tensor *load(const golden *g, const char *what, dt_dtype dtype)
{
    char name[64];
    dt_tensor *x;
    snprintf(name, sizeof name, "c%d.%s", g->number, what);
    TEST_OK(ctx, dt_file_load(g->file, name, dtype, &x));
    return x;
}

static void compare(const golden *g, const dt_tensor *got, const char *what, double relative)
{
    dt_tensor *want = load(g, what, DT_F64);
    double most = 0;
    ck_assert_msg(got != NULL && got->count == want->count, "c%d.%s", g->number, what);
    for (int64_t i = 0; i < want->count; i++) most = fmax(most, fabs(at(want, i)));
    for (int64_t i = 0; i < want->count; i++) {
        TEST_EACH(fabs(at(got, i) - at(want, i)) <= relative * most + 1e-13, "c%d.%s[%lld]: %.17g",
                  g->number, what, (long long)i, at(got, i));
    }
    dt_tensor_free(want);
}

static const char *const parts[] = { "router", "w_gate", "w_up", "w_down" };

/* The layer of a case, with its weights. */
static dt_module *layer_of(const golden *g)
{
    dt_tensor *w = load(g, "in.w_gate", g->dtype);
    const char *capacity = setting(g, "capacity");
    const dt_moe_layer layer = { .width = dt_dim(w, 2),
                                 .hidden = dt_dim(w, 1),
                                 .experts = dt_dim(w, 0),
                                 .top_k = strtoll(setting(g, "top_k"), NULL, 10),
                                 .normalize = strcmp(setting(g, "normalize"), "true") == 0,
                                 .capacity = capacity == NULL ? 0 : strtoll(capacity, NULL, 10) };
    dt_module *m;
    dt_named from[4];
    char path[4][24];
    TEST_OK(ctx, dt_moe_create(ctx, &layer, &m));
    TEST_OK(ctx, module_to(m, g->dtype));
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "in.%s", parts[i]);
        snprintf(path[i], sizeof path[i], "%s.weight", parts[i]);
        from[i] = (dt_named){ path[i], load(g, name, g->dtype) };
    }
    TEST_OK(ctx, dt_module_load(m, from, 4));
    for (int i = 0; i < 4; i++) dt_tensor_free(from[i].x);
    dt_tensor_free(w);
    return m;
}

static void run_case(const golden *g)
{
    const double relative = g->dtype == DT_F64 ? 1e-10 : 1e-5;
    dt_module *m = layer_of(g);
    dt_tensor *x = load(g, "in.x", g->dtype), *up = load(g, "up.y", g->dtype);
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    dt_tape_reset(t);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_backward(t, y, up));
    compare(g, y, "out.y", relative);
    compare(g, dt_grad(x), "grad.x", 10 * relative);
    for (int i = 0; i < 4; i++) {
        char name[32], path[24];
        snprintf(name, sizeof name, "grad.%s", parts[i]);
        snprintf(path, sizeof path, "%s.weight", parts[i]);
        compare(g, dt_grad(dt_param(m, path)), name, 10 * relative);
    }
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_tensor_free(up);
    dt_module_free(m);
}

/* One of the cases has a capacity. */
START_TEST(the_layer_equals_reference_values)
{
    char path[TEST_PATH];
    golden g = { .dtype = _i == 0 ? DT_F64 : DT_F32 };
    if (!test_golden(path, "ops/moe.safetensors")) return;
    TEST_OK(ctx, dt_file_open(ctx, path, &g.file));
    test_names cases;
    test_list(dt_file_meta(g.file, "cases"), &cases);
    ck_assert_int_gt(cases.n, 0);
    for (int i = 0; i < cases.n; i++) {
        g.number = atoi(cases.name[i] + 1);
        run_case(&g);
    }
    dt_file_close(g.file);
}
END_TEST

/* ---- models --------------------------------------------------------------------------------- */

static const dt_moe_options usual = { true, 4, 2, true, 0.02, 0.001 };

static dt_llama_options small(const dt_moe_options *moe, int64_t layers)
{
    return (dt_llama_options){ .vocab = 17,
                               .context = 16,
                               .layers = layers,
                               .heads = 2,
                               .kv_heads = 1,
                               .width = 12,
                               .hidden = 10,
                               .theta = 10000,
                               .eps = 1e-5,
                               .moe = *moe };
}

static dt_module *model(const dt_moe_options *moe, int64_t layers)
{
    const dt_llama_options o = small(moe, layers);
    dt_module *m;
    dt_seed(ctx, 3);
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    return m;
}

/* [3, 8] ids, or labels of which some do not count. */
static dt_tensor *tokens(bool labels)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ 3, 8 }, &x));
    int32_t *to = dt_data_mut(x);
    for (int i = 0; i < 24; i++) to[i] = labels && i % 5 == 0 ? -100 : (i * 7 + labels) % 17;
    return x;
}

/* The logits of the routers, one layer after the other: [layers * 3, 8, experts]. */
static dt_tensor *router_logits(dt_module *m, dt_tensor *ids)
{
    dt_module *layers = dt_module_at(m, "model.layers");
    dt_tensor *x = dt_forward(t, dt_module_at(m, "model.embed_tokens"), ids), *all = NULL, *places;
    const int64_t n = dt_dim(ids, 1);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 1, &n, &places));
    for (int64_t i = 0; i < n; i++) ((int32_t *)dt_data_mut(places))[i] = (int32_t)i;
    for (int64_t i = 0; i < layers->n_children; i++) {
        dt_tensor *in[2] = { x, places }, *out[2];
        TEST_OK(ctx, dt_forward_n(t, layers->children[i], in, 2, out, 2));
        all = all == NULL ? out[1] : dt_concat(t, (dt_tensor *[]){ all, out[1] }, 2, 0);
        x = out[0];
    }
    dt_tensor_free(places);
    return all;
}

static double loss_of(dt_module *m, const dt_token_loss_options *o)
{
    dt_tensor *ids = tokens(false), *labels = tokens(true);
    dt_tape_reset(t);
    const double loss = dt_item(dt_token_loss(t, m, ids, labels, o, NULL));
    TEST_OK(ctx, dt_tape_status(t));
    dt_tape_reset(t);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    return loss;
}

/* ---- the routers' auxiliary loss ------------------------------------------------------------ */

/* More layers than an op has operands, too. */
static void check_auxiliary_loss(int64_t layers, int64_t top_k)
{
    dt_moe_options moe = usual;
    moe.top_k = top_k;
    dt_module *m = model(&moe, layers);
    dt_tensor *ids = tokens(false);
    dt_tensor *logits = router_logits(m, ids);
    const dt_load_balance_options of = { .top_k = top_k };
    const double balance = dt_item(dt_load_balance_loss(t, logits, &of));
    const double z = dt_item(dt_router_z_loss(t, logits));
    ck_assert(balance >= 0.95 * (double)top_k && balance < 2 * (double)top_k);
    const double extra = 0.02 * balance + 0.001 * z, trained = loss_of(m, NULL);
    dt_token_loss_options sum = dt_token_loss_defaults();
    sum.head.reduction = DT_REDUCE_SUM;
    const double trained_sum = loss_of(m, &sum);
    dt_train(m, false);
    TEST_NEAR(trained - loss_of(m, NULL), extra, 1e-6, 0);
    TEST_NEAR(trained_sum - loss_of(m, &sum), 19 * extra, 1e-5, 0); /* labels that count */
    dt_tensor_free(ids);
    dt_module_free(m);
}

START_TEST(routers_add_to_the_loss_in_training) { check_auxiliary_loss(_i, 2); }
END_TEST

START_TEST(the_loss_counts_the_chosen_experts) { check_auxiliary_loss(2, _i); }
END_TEST

START_TEST(factors_of_zero_add_nothing)
{
    const dt_moe_options none = { true, 4, 2, true, 0, 0 }, dense = { .given = false };
    const dt_moe_options *const both[] = { &none, &dense };
    for (int i = 0; i < 2; i++) {
        dt_module *m = model(both[i], 2);
        const double trained = loss_of(m, NULL);
        dt_train(m, false);
        ck_assert_double_eq(trained, loss_of(m, NULL));
        dt_module_free(m);
    }
}
END_TEST

/* The parts of the loss, and the logits of the routers, of the reference network. */
START_TEST(parts_of_the_loss_are_those_of_the_reference)
{
    char path[TEST_PATH];
    dt_file *f;
    if (!test_golden(path, "nets/llama_moe.safetensors")) return;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    static const char *const names[] = { "out.load_balance", "out.z" };
    dt_tensor *logits, *want;
    TEST_OK(ctx, dt_file_load(f, "out.router_logits", DT_F64, &logits));
    for (int i = 0; i < 2; i++) {
        dt_tensor *got =
            i == 0 ? dt_load_balance_loss(t, logits, NULL) : dt_router_z_loss(t, logits);
        TEST_OK(ctx, dt_file_load(f, names[i], DT_F64, &want));
        TEST_NEAR(dt_item(got), dt_item(want), 0, 1e-10);
        dt_tensor_free(want);
    }
    dt_tensor_free(logits);
    dt_file_close(f);
}
END_TEST

/* ---- training ------------------------------------------------------------------------------- */

typedef struct outcome {
    double loss;
    uint64_t bits; /* of all gradients */
} outcome;

static dt_status mix(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    uint64_t *bits = user;
    const dt_tensor *g = dt_grad(x);
    (void)kind;
    TEST_EACH(g != NULL, "%s has no gradient", path);
    const uint8_t *p = dt_data(g);
    for (int64_t i = 0; i < 4 * g->count; i++) *bits = *bits * 31 + p[i];
    return DT_OK;
}

static outcome train_once(bool recompute, int threads)
{
    dt_ctx *outer = ctx;
    dt_tape *tape = t;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_module *m = model(&usual, 3);
    dt_tensor *ids = tokens(false), *labels = tokens(true);
    if (recompute) ck_assert_int_eq(dt_recompute(m, true), 3);
    dt_tensor *loss = dt_token_loss(t, m, ids, labels, NULL, NULL);
    outcome o = { dt_item(loss), 0 };
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    dt_module_visit(m, mix, &o.bits);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
    ctx = outer;
    t = tape;
    return o;
}

START_TEST(recomputing_and_threads_change_no_bit)
{
    const outcome want = train_once(false, 1);
    for (int i = 0; i < 4; i++) {
        const outcome got = train_once(i % 2 == 1, 1 + i);
        TEST_EACH(got.loss == want.loss && got.bits == want.bits, "run %d: %.9g, not %.9g", i,
                  got.loss, want.loss);
    }
}
END_TEST

/* From the second step on nothing is allocated, for any routing. */
START_TEST(steps_allocate_nothing)
{
    dt_module *m = model(&usual, 2);
    dt_tensor *ids = tokens(false), *labels = tokens(true);
    dt_optimizer *o;
    double loss[12];
    uint64_t before = 0;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    for (int i = 0; i < 12; i++) {
        dt_tape_reset(t);
        dt_zero_grad(m);
        dt_tensor *y = dt_token_loss(t, m, ids, labels, NULL, NULL);
        loss[i] = dt_item(y);
        TEST_OK(ctx, dt_backward(t, y, NULL));
        TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
        if (i == 1) before = dt_memory_of(ctx).allocations;
    }
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, before);
    ck_assert_double_lt(loss[11], loss[0] - 0.5);
    dt_tape_reset(t);
    dt_optimizer_free(o);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    dt_module_free(m);
}
END_TEST

/* ---- decoding ------------------------------------------------------------------------------- */

START_TEST(a_decoder_gives_the_logits_of_one_pass)
{
    dt_module *m = model(&usual, 3);
    const int32_t ids[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 };
    dt_tensor *x, *logits = NULL;
    dt_decoder *d;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, (const int64_t[]){ 1, 10 }, ids, &x));
    dt_train(m, false);
    const float *want = (const float *)dt_data(dt_forward(t, m, x)) + 9 * (int64_t)17;
    TEST_OK(ctx, dt_decoder_create(m, NULL, &d));
    for (int part = 1; part <= 10; part += 3) {
        TEST_OK(ctx, dt_decoder_rewind(d, 0));
        for (int i = 0; i < 10; i += part) {
            TEST_OK(ctx, dt_decoder_feed(d, ids + i, i + part > 10 ? 10 - i : part, &logits));
        }
        ck_assert_int_eq(test_first_far_f32(dt_data(logits), want, 17, 1e-6, 1e-5), -1);
    }
    dt_decoder_free(d);
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- integers ------------------------------------------------------------------------------- */

#define VOCAB 17
#define ANSWERS (24 + 2 * VOCAB)

/* The loss of each token, and a decoder's logits after seven tokens at once and after three
 * more. */
static void answers(dt_module *m, float *to)
{
    const int32_t text[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 };
    dt_tensor *ids = tokens(false), *labels = tokens(true), *logits;
    dt_token_rows rows;
    dt_decoder *d;
    const bool before = dt_no_grad(t, true);
    dt_train(m, false);
    dt_tape_reset(t);
    TEST_EACH(dt_token_loss(t, m, ids, labels, NULL, &rows) != NULL, "%s", dt_error(ctx));
    memcpy(to, dt_data(rows.loss), 24 * sizeof *to);
    TEST_OK(ctx, dt_decoder_create(m, NULL, &d));
    TEST_OK(ctx, dt_decoder_feed(d, text, 7, &logits));
    memcpy(to + 24, dt_data(logits), VOCAB * sizeof *to);
    for (int i = 7; i < 10; i++) TEST_OK(ctx, dt_decoder_feed(d, text + i, 1, &logits));
    memcpy(to + 24 + VOCAB, dt_data(logits), VOCAB * sizeof *to);
    dt_decoder_free(d);
    dt_tape_reset(t);
    dt_no_grad(t, before);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
}

/* A step, which initializes static and learned ranges with a batch. */
static void train_prepared(dt_module *m)
{
    dt_tensor *ids = tokens(false), *labels = tokens(true);
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    TEST_OK(ctx, dt_backward(t, dt_token_loss(t, m, ids, labels, NULL, NULL), NULL));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_tape_reset(t);
    dt_optimizer_free(o);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
}

static dt_tensor *part(dt_module *m, const char *layer)
{
    char path[64];
    snprintf(path, sizeof path, "model.layers.1.moe.%s.weight", layer);
    return dt_param(m, path);
}

/* Every preset; then the default one with a rule of the recipe that quantizes routers. */
START_TEST(prepared_and_converted_answer_the_same)
{
    const bool ruled = _i >= TEST_PRESETS;
    dt_module *m = model(&usual, 2);
    dt_qat_options qat = dt_qat_defaults();
    float want[ANSWERS], got[ANSWERS];
    if (!ruled) qat.preset = _i;
    if (ruled) {
        qat.rules[0] = (dt_qat_rule){ .match = "*.router" };
        qat.rules[0].weight = (dt_quant_patch){ .quant = { .bits = 8 }, .has_bits = true };
        qat.n_rules = 1;
    }
    TEST_OK(ctx, dt_prepare(m, &qat));
    ck_assert(dt_is_fake_quant(part(m, "router")) == ruled);
    for (int i = 1; i < 4; i++) ck_assert(dt_is_fake_quant(part(m, parts[i])));
    train_prepared(m);
    answers(m, want);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert(dt_is_packed(part(m, "router")) == ruled);
    for (int i = 1; i < 4; i++) ck_assert(dt_is_packed(part(m, parts[i])));
    answers(m, got);
    ck_assert_int_eq(memcmp(want, got, sizeof want), 0);
    dt_module_free(m);
}
END_TEST

/* ---- counting, errors ----------------------------------------------------------------------- */

static dt_tensor *count(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    (void)tape;
    *(int64_t *)user += dt__module_products(m, x);
    return x;
}

static dt_status watch(void *user, const char *path, dt_module *m)
{
    (void)path;
    return dt_hook_add(m, DT_SITE_INPUT, count, user, NULL, NULL);
}

START_TEST(products_are_those_of_the_chosen_experts)
{
    const dt_moe_layer layer = { .width = 6, .hidden = 10, .experts = 4, .top_k = 2 };
    dt_module *m;
    dt_tensor *x;
    int64_t products = 0;
    TEST_OK(ctx, dt_moe_create(ctx, &layer, &m));
    TEST_OK(ctx, dt_module_visit_modules(m, watch, &products));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, (const int64_t[]){ 2, 5, 6 }, &x));
    dt_no_grad(t, true);
    TEST_EACH(dt_forward(t, m, x) != NULL, "%s", dt_error(ctx));
    ck_assert_int_eq(products, 10 * (4 * 6) + 10 * 2 * 3 * (6 * 10));
    ck_assert_int_eq(dt_param_count(m), 4 * 6 + 4 * 3 * 6 * 10);
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

START_TEST(mistakes_are_refused)
{
    dt_module *m = NULL;
    dt_moe_options moe = { true, 4, 5, true, 0, 0 };
    dt_llama_options o = small(&moe, 1);
    TEST_FAILS(ctx, DT_ERR_ARG, "moe: top_k is 5; of 4 experts 1...4 can be chosen",
               dt_llama_create(ctx, &o, &m));
    o.moe.top_k = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "top_k is 0", dt_llama_create(ctx, &o, &m));
    o.moe.experts = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "the number of experts", dt_llama_create(ctx, &o, &m));
    ck_assert_ptr_null(m);
}
END_TEST

/* The message of NaN or infinity names the router. */
START_TEST(logits_that_are_no_numbers_are_an_error)
{
    dt_module *m = model(&usual, 2);
    dt_tensor *ids = tokens(false);
    dt_tensor *w = dt_param(m, "model.layers.1.moe.router.weight");
    ((float *)dt_data_mut(w))[12] = NAN;
    ck_assert_ptr_null(dt_forward(t, m, ids));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_NUMERIC);
    const char *says = "moe_router: the logit of expert 1 in row 0 is not finite";
    ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "%s", dt_error(ctx));
    ck_assert_msg(strstr(dt_error(ctx), "in model.layers.1.moe") != NULL, "%s", dt_error(ctx));
    dt_tape_reset(t);
    dt_tensor_free(ids);
    dt_module_free(m);
}
END_TEST

static dt_status one_step(dt_ctx *c, void *user)
{
    const dt_llama_options o = small(&usual, 2);
    const int32_t id[6] = { 1, 2, 3, 4, 5, 6 };
    const int64_t dims[] = { 2, 3 };
    dt_module *m = NULL;
    dt_tape *tape = NULL;
    dt_tensor *ids = NULL;
    (void)user;
    dt_status s = dt_llama_create(c, &o, &m);
    if (s == DT_OK) s = dt_tape_create(c, &tape);
    if (s == DT_OK) s = dt_tensor_from(c, DT_I32, 2, dims, id, &ids);
    if (s == DT_OK) {
        dt_tensor *loss = dt_token_loss(tape, m, ids, ids, NULL, NULL);
        s = dt_backward(tape, loss, NULL);
    }
    dt_tape_free(tape);
    dt_tensor_free(ids);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_gt(test_every_allocation(one_step, NULL), 100);
}
END_TEST

Suite *test_moe_suite(void)
{
    Suite *s = suite_create("moe");
    TCase *c = tcase_create("mixtures");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, the_layer_equals_reference_values, 0, 2);
    tcase_add_loop_test(c, routers_add_to_the_loss_in_training, 1, 3);
    tcase_add_loop_test(c, routers_add_to_the_loss_in_training, 34, 35);
    tcase_add_loop_test(c, the_loss_counts_the_chosen_experts, 1, 4);
    tcase_add_test(c, factors_of_zero_add_nothing);
    tcase_add_test(c, parts_of_the_loss_are_those_of_the_reference);
    tcase_add_test(c, recomputing_and_threads_change_no_bit);
    tcase_add_test(c, steps_allocate_nothing);
    tcase_add_test(c, a_decoder_gives_the_logits_of_one_pass);
    tcase_add_loop_test(c, prepared_and_converted_answer_the_same, 0, TEST_PRESETS + 1);
    tcase_add_test(c, products_are_those_of_the_chosen_experts);
    tcase_add_test(c, mistakes_are_refused);
    tcase_add_test(c, logits_that_are_no_numbers_are_an_error);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
