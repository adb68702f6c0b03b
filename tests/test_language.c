/* Language models: inputs that are accepted and refused, which weights are quantized, ties, the
 * loss without logits, accumulation by the labels that count, and the same bits on any number of
 * threads. */
#include "models.h"
#include "random_nets.h"
#include "testing.h"

#include "autograd/tape.h"

#include "core/tensor.h"
#include "nn/module.h"

#include <detent/io.h>
#include <detent/optim.h>

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

/* ---- small models --------------------------------------------------------------------------- */

static const dt_gpt_options small_gpt = { .vocab = 11,
                                          .context = 8,
                                          .layers = 2,
                                          .heads = 2,
                                          .width = 12,
                                          .bias = true,
                                          .tied = true,
                                          .eps = 1e-5 };
static const dt_llama_options small_llama = { .vocab = 11,
                                              .context = 8,
                                              .layers = 2,
                                              .heads = 4,
                                              .kv_heads = 2,
                                              .width = 16,
                                              .hidden = 24,
                                              .qk_norm = true,
                                              .theta = 10000,
                                              .eps = 1e-5 };

enum { GPT, LLAMA, MODELS };

static dt_module *create(int which, bool tied)
{
    dt_gpt_options gpt = small_gpt;
    dt_llama_options llama = small_llama;
    dt_module *m = NULL;
    gpt.tied = llama.tied = tied;
    TEST_OK(ctx, which == GPT ? dt_gpt_create(ctx, &gpt, &m) : dt_llama_create(ctx, &llama, &m));
    return m;
}

/* Ids 0 ... vocab-1, and labels of which each third does not count; the caller's to free. */
static dt_tensor *ids_of(int64_t batch, int64_t tokens)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ batch, tokens }, &x));
    for (int64_t i = 0; i < x->count; i++) ((int32_t *)dt_data_mut(x))[i] = (int32_t)(i * 7 % 11);
    return x;
}

static dt_tensor *labels_of(int64_t batch, int64_t tokens)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ batch, tokens }, &x));
    int32_t *label = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) label[i] = i % 3 == 1 ? -100 : (int32_t)(i * 5 % 11);
    return x;
}

/* ---- inputs --------------------------------------------------------------------------------- */

START_TEST(inputs_that_do_not_fit_are_refused)
{
    dt_module *m = create(_i, true), *other;
    dt_tensor *ids = ids_of(2, 9), *flat, *labels = labels_of(2, 8);
    const int64_t n = 18;
    ck_assert_ptr_null(dt_forward(t, m, ids));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "9 tokens do not fit its context of 8"));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 1, &n, dt_data(ids), &flat));
    ck_assert_ptr_null(dt_forward(t, m, flat));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "token ids are [batch, tokens], not i32[18]"));
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_token_loss(t, m, ids, labels, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "ids are i32[2,9] and labels i32[2,8]"));
    dt_tape_reset(t);
    ((int32_t *)dt_data_mut(ids))[3] = 11;
    dt_tensor *some;
    TEST_OK(ctx, dt_tensor_narrow(ids, 1, 0, 8, &some));
    ck_assert_ptr_null(dt_forward(t, m, some));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "11, outside 0...10"));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_linear_create(ctx, 3, 3, true, &other));
    ck_assert_ptr_null(dt_token_loss(t, other, labels, labels, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "the model is a linear, not a language model"));
    dt_tape_reset(t);
    dt_tensor_free(some);
    dt_tensor_free(flat);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    dt_module_free(other);
    dt_module_free(m);
}
END_TEST

static void check_longrope_options(void)
{
    dt_module *m;
    const dt_longrope_options good = { .given = true,
                                       .original_context = 2,
                                       .short_factor = { 2, { 1, 2 } },
                                       .long_factor = { 2, { 3, 4 } } };
    dt_llama_options o = small_llama;
    o.longrope = good;
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    dt_module_free(m);
    o.rope.scaling = DT_ROPE_LINEAR;
    TEST_FAILS(ctx, DT_ERR_ARG, "longrope excludes rope.scaling", dt_llama_create(ctx, &o, &m));
    o.rope.scaling = DT_ROPE_PLAIN;
    o.longrope.long_factor.n = 1;
    TEST_FAILS(ctx, DT_ERR_ARG, "longrope.long_factor has 1 factors", dt_llama_create(ctx, &o, &m));
    o.longrope = good;
    o.longrope.short_factor.v[1] = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "longrope.short_factor: factor 1 is 0",
               dt_llama_create(ctx, &o, &m));
    o.longrope = good;
    o.longrope.original_context = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "original_context 0", dt_llama_create(ctx, &o, &m));
    o.longrope.original_context = 1; /* its logarithm is 0 */
    TEST_FAILS(ctx, DT_ERR_ARG, "original_context 1", dt_llama_create(ctx, &o, &m));
    o.longrope.attention_factor = 1.2;
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    dt_module_free(m);
}

START_TEST(options_are_checked)
{
    dt_module *m;
    dt_gpt_options gpt = small_gpt;
    gpt.heads = 5;
    TEST_FAILS(ctx, DT_ERR_ARG, "expected heads that divide the width, not 5 of 12",
               dt_gpt_create(ctx, &gpt, &m));
    gpt = small_gpt;
    gpt.context = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "gpt: the context is 0", dt_gpt_create(ctx, &gpt, &m));
    dt_llama_options llama = small_llama;
    llama.kv_heads = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "3 heads of keys and values do not divide 4 heads of queries",
               dt_llama_create(ctx, &llama, &m));
    llama = small_llama;
    llama.head_width = 5;
    TEST_FAILS(ctx, DT_ERR_ARG, "a head width of 5 is odd", dt_llama_create(ctx, &llama, &m));
    llama = small_llama;
    llama.rope.scaling = 7;
    TEST_FAILS(ctx, DT_ERR_ARG, "rope scaling 7", dt_llama_create(ctx, &llama, &m));
    llama.rope = (dt_rope_options){ DT_ROPE_LLAMA3, 8, 4, 4, 64 };
    TEST_FAILS(ctx, DT_ERR_ARG, "low_freq_factor 4 is not between 0 and high_freq_factor 4",
               dt_llama_create(ctx, &llama, &m));
    check_longrope_options();
    llama = small_llama;
    llama.block = (dt_block_options){ .given = true, .query_width = 1e-300 };
    TEST_FAILS(ctx, DT_ERR_ARG, "query_width 1e-300", dt_llama_create(ctx, &llama, &m));
}
END_TEST

static dt_status create_both(dt_ctx *c, void *user)
{
    dt_module *gpt = NULL, *llama = NULL;
    (void)user;
    dt_status s = dt_gpt_create(c, &small_gpt, &gpt);
    if (s == DT_OK) s = dt_llama_create(c, &small_llama, &llama);
    dt_module_free(gpt);
    dt_module_free(llama);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_gt(test_every_allocation(create_both, NULL), 200);
}
END_TEST

/* ---- initial weights ------------------------------------------------------------------------ */

static double deviation_of(dt_module *m, const char *path)
{
    const dt_tensor *x = dt_param(m, path);
    double square = 0;
    for (int64_t i = 0; i < x->count; i++) square += pow(((const float *)dt_data(x))[i], 2);
    return sqrt(square / (double)x->count);
}

START_TEST(weights_are_drawn_as_their_recipe_says)
{
    dt_module *m;
    dt_gpt_options gpt = { .vocab = 100,
                           .context = 80,
                           .layers = 8,
                           .heads = 2,
                           .width = 96,
                           .bias = true,
                           .tied = true,
                           .eps = 1e-5 };
    TEST_OK(ctx, dt_gpt_create(ctx, &gpt, &m));
    TEST_NEAR(deviation_of(m, "tokens.weight"), 0.02, 0, 0.05);
    TEST_NEAR(deviation_of(m, "positions.weight"), 0.02, 0, 0.05);
    TEST_NEAR(deviation_of(m, "blocks.7.attn.q.weight"), 0.02, 0, 0.05);
    TEST_NEAR(deviation_of(m, "blocks.7.mlp.up.weight"), 0.02, 0, 0.05);
    TEST_NEAR(deviation_of(m, "blocks.7.attn.out.weight"), 0.005, 0, 0.05);
    TEST_NEAR(deviation_of(m, "blocks.7.mlp.down.weight"), 0.005, 0, 0.05);
    ck_assert(deviation_of(m, "blocks.7.mlp.up.bias") == 0);
    ck_assert_ptr_eq(dt_param(m, "head.weight"), dt_param(m, "tokens.weight"));
    ck_assert_str_eq(dt_param_path(m, dt_param(m, "head.weight")), "tokens.weight");
    dt_module_free(m);
}
END_TEST

/* ---- the loss ------------------------------------------------------------------------------- */

/* Of logits, as other models have it. */
static double loss_of_logits(dt_module *m, dt_tensor *ids, dt_tensor *labels, int64_t *best)
{
    dt_tensor *flat = dt_reshape(t, labels, 1, &labels->count);
    dt_tensor *y = dt_flatten(t, dt_forward(t, m, ids), 0, 1), *index;
    dt_max(t, y, 1, false, &index);
    const double loss = dt_item(dt_cross_entropy(t, y, flat, NULL));
    for (int64_t i = 0; i < labels->count; i++) {
        const bool counts = ((const int32_t *)dt_data(labels))[i] != -100;
        best[i] = counts ? ((const int32_t *)dt_data(index))[i] : -1;
    }
    dt_tape_reset(t);
    return loss;
}

START_TEST(the_loss_is_that_of_the_logits)
{
    dt_module *m = create(_i / 2, _i % 2 == 0);
    dt_tensor *ids = ids_of(3, 7), *labels = labels_of(3, 7);
    int64_t best[21];
    const double wanted = loss_of_logits(m, ids, labels, best);
    dt_token_loss_options o = dt_token_loss_defaults();
    dt_token_rows rows;
    TEST_NEAR(dt_item(dt_token_loss(t, m, ids, labels, NULL, NULL)), wanted, 0, 1e-6);
    o.head.reduction = DT_REDUCE_SUM;
    const double sum = dt_item(dt_token_loss(t, m, ids, labels, &o, &rows));
    TEST_NEAR(sum, 14 * wanted, 0, 1e-6);
    double of_rows = 0;
    ck_assert(dt__same_dims(rows.loss, ids) && dt__same_dims(rows.best, ids));
    for (int i = 0; i < 21; i++) {
        of_rows += (double)((const float *)dt_data(rows.loss))[i];
        ck_assert_int_eq(((const int32_t *)dt_data(rows.best))[i], best[i]);
    }
    TEST_NEAR(of_rows, sum, 0, 1e-5);
    dt_tape_reset(t);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    dt_module_free(m);
}
END_TEST

/* If the teacher is the model itself, the teacher's part of the loss is 0. */
START_TEST(a_teacher_takes_no_gradient)
{
    dt_module *m = create(_i, true), *teacher = create(_i, true);
    dt_tensor *ids = ids_of(2, 8), *labels = labels_of(2, 8);
    TEST_OK(ctx, dt_module_copy_state(teacher, m));
    dt_token_loss_options o = { .head = dt_linear_cross_entropy_defaults(), .teacher = teacher };
    const double alone = dt_item(dt_token_loss(t, m, ids, labels, NULL, NULL));
    o.head.distill = 0.25;
    o.head.temperature = 2;
    dt_tensor *loss = dt_token_loss(t, m, ids, labels, &o, NULL);
    TEST_NEAR(dt_item(loss), 0.75 * alone, 1e-6, 1e-6);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    const dt__param *params;
    int64_t n;
    TEST_OK(ctx, dt__module_params(teacher, &params, &n));
    for (int64_t i = 0; i < n; i++) ck_assert_ptr_null(dt_grad(params[i].x));
    ck_assert(dt_is_training(m) && !dt_is_training(teacher));
    dt_tape_reset(t);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    dt_module_free(m);
    dt_module_free(teacher);
}
END_TEST

/* ---- quantization --------------------------------------------------------------------------- */

static dt_qat_rule rule_of(const char *match, int64_t bits)
{
    dt_qat_rule rule = { .match = match };
    rule.weight.quant.bits = bits;
    rule.weight.has_bits = bits > 0;
    return rule;
}

static dt_status count_quantized(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    int *n = user;
    (void)kind;
    if (!dt_is_fake_quant(x)) return DT_OK;
    ++*n;
    const bool product = strstr(path, "norm") == NULL && strstr(path, "bias") == NULL;
    ck_assert_msg(product && strstr(path, "positions") == NULL, "%s", path);
    return DT_OK;
}

START_TEST(presets_quantize_layers_that_multiply)
{
    static const char *const table[] = { "tokens", "model.embed_tokens" };
    const int layers = 2, a_layer[] = { 6, 7 };
    for (int rules = 0; rules < 2; rules++) {
        dt_qat_options o = dt_qat_defaults();
        dt_module *m = create(_i, false);
        o.rules[0] = rule_of(table[_i], 8);
        o.n_rules = rules;
        TEST_OK(ctx, dt_prepare(m, &o));
        int n = 0;
        TEST_OK(ctx, dt_module_visit(m, count_quantized, &n));
        ck_assert_int_eq(n, layers * a_layer[_i] + 1 + rules); /* the head; the table by its rule of
                                                                * the recipe */
        dt_module_free(m);
    }
}
END_TEST

static int64_t entries_of(const char *path, const char *prefix)
{
    dt_file *file;
    int64_t n = 0;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    for (int64_t i = 0; i < dt_file_count(file); i++) {
        n += strncmp(dt_file_at(file, i)->name, prefix, strlen(prefix)) == 0;
    }
    dt_file_close(file);
    return n;
}

static void save_gpt(dt_module *m, const char *path)
{
    const dt_family *family = dt_family_at(0);
    for (int i = 0; strcmp(family->name, "gpt") != 0; i++) family = dt_family_at(i);
    const dt_model_info info = { .family = family, .options = &small_gpt };
    TEST_OK(ctx, dt_model_save(m, &info, path));
}

START_TEST(tied_weights_are_one)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = create(GPT, true), *loaded;
    o.rules[0] = rule_of("tokens", 8);
    o.n_rules = 1;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "tokens and head share a weight, but are given two schemes",
               dt_prepare(m, &o));
    o.rules[0] = (dt_qat_rule){ .match = "head", .skip = true, .has_skip = true };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "tokens and head share a weight, but only head is skipped",
               dt_prepare(m, &o));
    ck_assert(!dt_is_prepared(m));
    o.rules[0] = rule_of("tokens", 8);
    o.rules[1] = rule_of("head", 8);
    o.n_rules = 2;
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_convert_report report;
    TEST_OK(ctx, dt_convert(m, NULL, &report));
    ck_assert_int_eq(report.converted, 2 * 6 + 1);
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    save_gpt(m, path);
    ck_assert_int_eq(entries_of(path, "tokens."), 2); /* codes and scales */
    ck_assert_int_eq(entries_of(path, "head."), 0);
    TEST_OK(ctx, dt_model_load(ctx, path, &loaded, NULL));
    ck_assert_ptr_eq(dt_param(loaded, "head.weight"), dt_param(loaded, "tokens.weight"));
    same_models(m, loaded);
    dt_module_free(loaded);
    dt_module_free(m);
}
END_TEST

/* Only the head is selected; the learned scale of its weight has the weight's path. */
START_TEST(tied_weights_with_learned_scales_come_back)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = create(GPT, true), *loaded;
    o.preset = DT_INT4_INT4;
    TEST_OK(ctx, dt_prepare(m, &o));
    ck_assert_ptr_nonnull(dt_param(m, "tokens.weight.scale"));
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    save_gpt(m, path);
    ck_assert_int_eq(entries_of(path, "tokens.weight.scale"), 1);
    TEST_OK(ctx, dt_model_load(ctx, path, &loaded, NULL));
    same_models(m, loaded);
    dt_module_free(loaded);
    dt_module_free(m);
}
END_TEST

/* ---- training ------------------------------------------------------------------------------- */

typedef struct trained {
    float *values; /* of all parameters */
    int64_t n;
    double loss;
    uint64_t allocations; /* of the last step */
} trained;

static double step(dt_tape *tape, dt_module *m, dt_optimizer *o, dt_tensor *const x[2])
{
    dt_tape_reset(tape);
    dt_zero_grad(m);
    dt_tensor *loss = dt_token_loss(tape, m, x[0], x[1], NULL, NULL);
    TEST_OK(m->ctx, dt_backward(tape, loss, NULL));
    TEST_OK(m->ctx, dt_optimizer_step(o, tape, 1e-2));
    return dt_item(loss);
}

static void collect(dt_module *m, trained *r)
{
    const dt__param *params;
    int64_t n;
    TEST_OK(m->ctx, dt__module_params(m, &params, &n));
    for (int64_t i = 0; i < n; i++) r->n += params[i].x->count;
    float *to = r->values = malloc((size_t)r->n * sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        const dt_tensor *x = dt_inner(params[i].x);
        memcpy(to, dt_data(x), (size_t)x->count * sizeof *to);
        to += x->count;
        ck_assert_ptr_nonnull(dt_grad(params[i].x)); /* wrappers' masters among them */
    }
}

/* Some steps in float, then with quantization, of a model whose tables of tokens and positions are
 * quantized, too. */
static trained train(int which, int threads)
{
    static const char *const tables[] = { "tokens", "model.embed_tokens" };
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *before = ctx;
    trained r = { .n = 0 };
    options.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_tape *tape;
    dt_optimizer *o;
    TEST_OK(ctx, dt_tape_create(ctx, &tape));
    dt_module *m = create(which, false);
    dt_tensor *x[2] = { ids_of(5, 8), labels_of(5, 8) };
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    for (int i = 0; i < 3; i++) r.loss = step(tape, m, o, x);
    dt_qat_options qat = dt_qat_defaults();
    qat.rules[qat.n_rules++] = rule_of(tables[which], 8);
    if (which == GPT) qat.rules[qat.n_rules++] = rule_of("positions", 6);
    TEST_OK(ctx, dt_prepare(m, &qat));
    for (int i = 0; i < 40; i++) {
        const uint64_t allocations = dt_memory_of(ctx).allocations;
        r.loss = step(tape, m, o, x);
        r.allocations = dt_memory_of(ctx).allocations - allocations;
    }
    collect(m, &r);
    dt_optimizer_free(o);
    dt_tape_free(tape);
    for (int i = 0; i < 2; i++) dt_tensor_free(x[i]);
    dt_module_free(m);
    dt_ctx_free(ctx);
    ctx = before;
    return r;
}

START_TEST(any_number_of_threads_trains_the_same_bits)
{
    const trained one = train(_i, 1);
    ck_assert_uint_eq(one.allocations, 0);
    ck_assert_double_lt(one.loss, 1.0); /* log(11) = 2.4 at first */
    for (int threads = 2; threads <= 3; threads++) {
        const trained more = train(_i, threads);
        ck_assert_int_eq(more.n, one.n);
        ck_assert(more.loss == one.loss);
        ck_assert(memcmp(more.values, one.values, (size_t)one.n * sizeof(float)) == 0);
        free(more.values);
    }
    free(one.values);
}
END_TEST

/* A converted model has the logits and losses of the prepared one. */
START_TEST(prepared_and_converted_have_the_same_loss)
{
    dt_module *m = create(_i, true);
    dt_tensor *ids = ids_of(3, 8), *labels = labels_of(3, 8);
    dt_qat_options qat = dt_qat_defaults();
    double loss[2];
    float rows[2][24];
    TEST_OK(ctx, dt_prepare(m, &qat));
    dt_train(m, false);
    dt_no_grad(t, true);
    for (int i = 0; i < 2; i++) {
        dt_token_rows r;
        loss[i] = dt_item(dt_token_loss(t, m, ids, labels, NULL, &r));
        memcpy(rows[i], dt_data(r.loss), sizeof rows[i]);
        dt_tape_reset(t);
        if (i == 0) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    }
    ck_assert(loss[0] == loss[1]);
    ck_assert(memcmp(rows[0], rows[1], sizeof rows[0]) == 0);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    dt_module_free(m);
}
END_TEST

static void ignore(void *user, const dt_call *c)
{
    (void)user;
    (void)c;
}

/* Layers that share an input run as one product where nothing is recorded, and one after the other
 * where each call is observed. */
START_TEST(layers_apart_have_the_same_bits)
{
    static const char *const families[] = { "gpt", "llama" };
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const random_net d = random_net_of_family(seed, families[_i]);
        dt_module *m = random_net_create(ctx, &d);
        dt_tensor *x = random_net_input(ctx, &d);
        dt_train(m, false);
        for (int i = 0; i < 3; i++) { /* in float, prepared, converted */
            if (i == 1) TEST_OK(ctx, dt_prepare(m, &d.qat));
            if (i == 1 && dt_is_observed(m)) {
                dt_train(m, true);
                ck_assert_ptr_nonnull(dt_forward(t, m, x)); /* ranges see a batch */
                dt_tape_reset(t);
                dt_train(m, false);
            }
            if (i == 2) TEST_OK(ctx, dt_convert(m, NULL, NULL));
            dt_no_grad(t, true);
            t->on_call = ignore;
            const dt_tensor *a = dt_forward(t, m, x);
            t->on_call = NULL;
            const dt_tensor *b = dt_forward(t, m, x);
            TEST_EACH(a != NULL && b != NULL, "%s %d: %s", families[_i], (int)seed, dt_error(ctx));
            TEST_EACH(memcmp(dt_data(a), dt_data(b), (size_t)a->count * sizeof(float)) == 0,
                      "%s %d differs", families[_i], (int)seed);
            dt_no_grad(t, false);
            dt_tape_reset(t);
        }
        dt_tensor_free(x);
        dt_module_free(m);
    }
}
END_TEST

Suite *test_language_suite(void)
{
    Suite *s = suite_create("language");
    TCase *c = tcase_create("models");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, inputs_that_do_not_fit_are_refused, 0, MODELS);
    tcase_add_test(c, options_are_checked);
    tcase_add_test(c, every_allocation_may_fail);
    tcase_add_test(c, weights_are_drawn_as_their_recipe_says);
    tcase_add_loop_test(c, the_loss_is_that_of_the_logits, 0, 2 * MODELS);
    tcase_add_loop_test(c, a_teacher_takes_no_gradient, 0, MODELS);
    tcase_add_loop_test(c, presets_quantize_layers_that_multiply, 0, MODELS);
    tcase_add_test(c, tied_weights_are_one);
    tcase_add_test(c, tied_weights_with_learned_scales_come_back);
    tcase_add_loop_test(c, any_number_of_threads_trains_the_same_bits, 0, MODELS);
    tcase_add_loop_test(c, prepared_and_converted_have_the_same_loss, 0, MODELS);
    tcase_add_loop_test(c, layers_apart_have_the_same_bits, 0, MODELS);
    suite_add_tcase(s, c);
    return s;
}
