/* Prepare and convert: presets and rules over paths, all or nothing, on the same handles; how a
 * disabled model, a tied weight, an optimizer and an accumulated gradient are affected. */
#include "testing.h"

#include "autograd/codes.h"
#include "autograd/tape.h"
#include "core/tensor.h"
#include "qat/prepare.h"
#include "train/recipe/recipe.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>
#include <detent/train.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>

static dt_ctx *ctx;
static dt_tape *t;
static dt_module *m;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
    const dt_mlp_options mlp = { .sizes = { 4, { 40, 24, 16, 10 } }, .bias = true };
    ck_assert_int_eq(dt_mlp_create(ctx, &mlp, &m), DT_OK);
}

static void teardown(void)
{
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static void check_refused(const dt_qat_options *o, dt_status status, const char *says)
{
    ck_assert_int_eq(dt_prepare(m, o), status);
    ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "'%s' is not in '%s'", says, dt_error(ctx));
    ck_assert(!dt_is_prepared(m)); /* nothing was changed */
    ck_assert_ptr_null(dt__input_hook_of(dt_module_at(m, "head")));
}

static const dt_quant_spec *quant_of(const char *path) { return dt__quant_of(dt_param(m, path)); }

/* ---- rules ---------------------------------------------------------------------------------- */

START_TEST(presets_select_every_linear_layer)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    const char *const paths[] = { "layers.0.weight", "layers.1.weight", "head.weight" };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(quant_of(paths[i])->bits, 4);
        ck_assert_int_eq(quant_of(paths[i])->group_size, 32);
    }
    ck_assert_ptr_null(dt__quant_of(dt_param(m, "head.bias")));
    const dt__input_hook *hook = dt__input_hook_of(dt_module_at(m, "layers.0"));
    ck_assert_int_eq(hook->quant.bits, 8);
    ck_assert_int_eq(hook->quant.scheme, DT_SCHEME_ASYMMETRIC);
}
END_TEST

START_TEST(int4_weight_leaves_activations)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_WEIGHT;
    ck_assert_int_eq(dt_prepare(m, &o), DT_OK);
    ck_assert_ptr_null(dt__input_hook_of(dt_module_at(m, "head")));
}
END_TEST

START_TEST(the_last_rule_wins_key_by_key)
{
    dt_qat_options o = dt_qat_defaults();
    o.weight.quant.group_size = 8;
    o.weight.has_group_size = true;
    o.rules[0] =
        (dt_qat_rule){ .match = "layers", .weight = { .quant.bits = 8, .has_bits = true } };
    o.rules[1] = (dt_qat_rule){ .match = "layers.1",
                                .weight = { .quant.bits = 3, .has_bits = true },
                                .activation = { .quantize = false, .has_quantize = true } };
    o.rules[2] = (dt_qat_rule){ .match = "he*", .skip = true, .has_skip = true };
    o.n_rules = 3;
    ck_assert_msg(dt_prepare(m, &o) == DT_OK, "%s", dt_error(ctx));
    ck_assert_int_eq(quant_of("layers.0.weight")->bits, 8);
    ck_assert_int_eq(quant_of("layers.1.weight")->bits, 3);
    ck_assert_int_eq(quant_of("layers.1.weight")->group_size, 8);
    ck_assert_ptr_null(quant_of("head.weight"));
    ck_assert_ptr_nonnull(dt__input_hook_of(dt_module_at(m, "layers.0")));
    ck_assert_ptr_null(dt__input_hook_of(dt_module_at(m, "layers.1")));
}
END_TEST

/* The settings of one operand in a recipe, and the key at fault; NULL: they are right. */
static const struct spec_case {
    const char *map, *key;
} spec_cases[] = {
    { "weight: {granularity: tensor}", NULL },
    { "weight: {granularity: channel}", NULL },
    { "weight: {granularity: group}", NULL },
    { "weight: {granularity: token}", "granularity" },
    { "weight: {granularity: sample}", "granularity" },
    { "activation: {granularity: tensor}", NULL },
    { "activation: {granularity: channel}", "granularity" },
    { "activation: {granularity: group}", "granularity" },
    { "activation: {granularity: group, scheme: q8_0}", NULL },
    { "activation: {scheme: q8_0}", "scheme" },
    { "activation: {granularity: group, scheme: q8_0, group_size: 12}", "group_size" },
    { "activation: {scheme: mxfp8, bits: 8, granularity: group, group_size: 32}", NULL },
    { "activation: {scheme: mxfp8, bits: 4, granularity: group, group_size: 32}", "bits" },
    { "activation: {scheme: mxfp8, granularity: token}", "scheme" },
    { "activation: {scheme: mxfp8, granularity: group, group_size: 16}", "granularity" },
    { "activation: {scheme: mxfp4, bits: 4, granularity: group, range: static}", "range" },
    { "weight: {scheme: nvfp4}, activation: {scheme: nvfp4}", NULL },
    { "weight: {scheme: nvfp4}, activation: {scheme: nvfp4, range: static}", NULL },
    { "activation: {scheme: nvfp4, bits: 4, granularity: group, group_size: 16, range: static, "
      "observer: mse}",
      "observer" },
    { "activation: {scheme: nvfp4, bits: 4, granularity: group, group_size: 16, range: learned}",
      "scheme" },
    { "activation: {scheme: nvfp4, bits: 4, granularity: group, group_size: 16, scale_dtype: f16}",
      "scale_dtype" },
    { "activation: {scheme: ternary, bits: 2}", "scheme" },
    { "activation: {granularity: token}", NULL },
    { "activation: {granularity: sample}", NULL },
    { "weight: {group_size: 12}", "group_size" },
    { "weight: {bits: 9}", "bits" },
    { "weight: {unsigned: true}", "unsigned" },
    { "weight: {unsigned: true, scheme: asymmetric}", NULL },
    { "weight: {unsigned: true, range: learned}", "unsigned" },
    { "activation: {unsigned: true, scheme: symmetric}", "unsigned" },
    { "activation: {unsigned: true, range: learned}", NULL },
    { "weight: {scheme: q4_0}", NULL },
    { "weight: {scheme: q4_0, bits: 3}", "bits" },
    { "weight: {scheme: q4_0, granularity: channel}", "granularity" },
    { "weight: {scheme: q4_0, group_size: 64}", "group_size" },
    { "weight: {scheme: q4_0, scale_dtype: bf16}", "scale_dtype" },
    { "weight: {scheme: q4_0, range: static}", "range" },
    { "activation: {scheme: q4_0}", "scheme" },
    { "weight: {range: learned}", NULL },
    { "weight: {range: learned, granularity: group}", NULL },
    { "weight: {range: learned, scheme: asymmetric}", "scheme" },
    { "weight: {range: learned, scale_dtype: f16}", "scale_dtype" },
    { "activation: {range: learned, granularity: token}", "granularity" },
    { "activation: {range: static, granularity: token}", "granularity" },
    { "activation: {range: static, shift: true}", "shift" },
    { "activation: {shift: true}", "shift" },
    { "activation: {range: static, observer: percentile, percentile: 60}", NULL },
    /* what is at fault in one rule, another one can put right */
    { "rules: [{match: layers, activation: {shift: true}}, "
      "{match: layers, activation: {range: learned}}]",
      NULL },
    { "rules: [{match: layers, weight: {unsigned: true}}, "
      "{match: layers, weight: {scheme: asymmetric}}]",
      NULL },
};

static dt_recipe *recipe_of(const char *qat)
{
    char text[512];
    snprintf(text, sizeof text,
             "run: {dir: r}\nmodel: {family: mlp, sizes: [4, 2]}\n"
             "data: {format: digits, train: 9}\nqat: {%s}\n",
             qat);
    const dt_recipe_source source = { .path = "r", .text = text, .bytes = strlen(text) };
    dt_recipe *recipe = NULL;
    dt_recipe_read(ctx, &source, &recipe);
    ck_assert_ptr_nonnull(recipe);
    return recipe;
}

/* The recipe's error about its qat block, "'qat.weight.bits' ..."; NULL: none. */
static const char *qat_error(const dt_recipe *recipe)
{
    for (int i = 0; i < dt_recipe_error_count(recipe); i++) {
        const char *at = strstr(dt_recipe_error_at(recipe, i), "'qat.");
        if (at != NULL) return at;
    }
    return NULL;
}

/* A spec that the recipe refuses, naming a key, is refused by the library with the same words. */
START_TEST(recipe_and_library_refuse_the_same_specs)
{
    if (!test_parsers()) return;
    const struct spec_case *c = &spec_cases[_i];
    dt_recipe *recipe = recipe_of(c->map);
    const char *error = qat_error(recipe);
    ck_assert_msg((error != NULL) == (c->key != NULL), "%s: %s", c->map, error);
    const dt_qat_options o = recipe->options.qat;
    if (error == NULL) {
        TEST_OK(ctx, dt_prepare(m, &o));
    } else {
        const char *words = strchr(error + 1, '\'') + 1; /* behind the key */
        const size_t key = strlen(c->key);
        ck_assert_msg(strncmp(words - 1 - key, c->key, key) == 0, "%s: %s", c->map, error);
        check_refused(&o, DT_ERR_CONFIG, words + strspn(words, ": "));
    }
    dt_recipe_free(recipe);
}
END_TEST

START_TEST(mistakes_are_named_and_change_nothing)
{
    dt_qat_options o = dt_qat_defaults();
    o.rules[0].match = "layer.0";
    o.n_rules = 1;
    check_refused(&o, DT_ERR_CONFIG, "'layer.0' matches no quantizable module");
    int64_t rule;
    ck_assert_int_eq(dt_qat_unmatched_rule(m, &o, &rule), DT_OK);
    ck_assert_int_eq(rule, 0);

    const int64_t sizes[] = { 0, -8, 12, 7 };
    for (int i = 0; i < 4; i++) {
        o = dt_qat_defaults();
        o.rules[0] =
            (dt_qat_rule){ .match = "head",
                           .weight = { .quant.group_size = sizes[i], .has_group_size = true } };
        o.n_rules = 1;
        check_refused(&o, DT_ERR_CONFIG, "head: group_size must be a positive multiple of 8");
    }
    o = dt_qat_defaults();
    o.weight.quant.bits = 9;
    o.weight.has_bits = true;
    check_refused(&o, DT_ERR_CONFIG, "layers.0");
    o = dt_qat_defaults();
    o.rules[0] = (dt_qat_rule){ .match = "*", .skip = true, .has_skip = true };
    o.n_rules = 1;
    check_refused(&o, DT_ERR_CONFIG, "no weight is left");
    o.n_rules = DT_MAX_RULES + 1;
    check_refused(&o, DT_ERR_ARG, "rules");
    o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT4 + 1;
    check_refused(&o, DT_ERR_ARG, "13 is not a preset");
    o = dt_qat_defaults();
    o.preset = DT_INT8_BLOCK_INT4_WEIGHT;
    o.rules[0] =
        (dt_qat_rule){ .match = "head",
                       .weight = { .quant.granularity = DT_PER_CHANNEL, .has_granularity = true } };
    o.n_rules = 1;
    check_refused(&o, DT_ERR_CONFIG,
                  "head: activations in groups of 32 require a weight in groups");
    o = dt_qat_defaults();
    o.forward = -1;
    check_refused(&o, DT_ERR_ARG, "forward is -1");

    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_int_eq(dt_prepare(m, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "prepared already"));
}
END_TEST

START_TEST(a_later_rule_quantizes_again)
{
    dt_qat_options o = dt_qat_defaults();
    o.rules[0] = (dt_qat_rule){ .match = "layers", .activation = { .has_quantize = true } };
    o.rules[1] = (dt_qat_rule){ .match = "layers.1",
                                .activation = { .quantize = true, .has_quantize = true } };
    o.n_rules = 2;
    ck_assert_int_eq(dt_prepare(m, &o), DT_OK);
    ck_assert_ptr_null(dt__input_hook_of(dt_module_at(m, "layers.0")));
    ck_assert_ptr_nonnull(dt__input_hook_of(dt_module_at(m, "layers.1")));
}
END_TEST

static dt_tensor *ones_of(int64_t rows, int64_t columns)
{
    dt_tensor *x;
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ rows, columns }, &x),
                     DT_OK);
    ck_assert_int_eq(dt_fill(x, 1), DT_OK);
    return x;
}

/* If a tape has saved the master, conversion is refused; if it has saved only codes, backward is
 * refused. */
START_TEST(converting_before_backward_is_refused)
{
    dt_tensor *x = ones_of(2, 40);
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_int_eq(dt_enable(m, false), DT_OK);
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "still needed by a tape"));
    ck_assert(dt_is_prepared(m));
    dt_tape_reset(t);
    ck_assert_int_eq(dt_enable(m, true), DT_OK);
    dt_tensor *loss = dt_sum(t, dt_forward(t, m, x), NULL);
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    ck_assert_int_eq(dt_backward(t, loss, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "takes no gradient"));
    dt_tensor_free(x);
}
END_TEST

START_TEST(loading_drops_codes_at_once)
{
    const dt_mlp_options mlp = { .sizes = { 4, { 40, 24, 16, 10 } }, .bias = true };
    dt_module *other;
    dt_tensor *x = ones_of(2, 40), *w = dt_param(m, "head.weight");
    ck_assert_int_eq(dt_mlp_create(ctx, &mlp, &other), DT_OK);
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    dt_no_grad(t, true);
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    ck_assert_ptr_nonnull(dt_inner(w)->attached);
    ck_assert_int_eq(dt_module_copy_state(m, other), DT_OK);
    ck_assert_ptr_null(dt_inner(w)->attached);
    dt_module_free(other);
    dt_tensor_free(x);
}
END_TEST

START_TEST(a_spec_that_quantizes_no_weight_is_refused)
{
    dt_qat_options o = dt_qat_defaults();
    o.weight.has_quantize = true; /* and quantize is false: nothing would be converted */
    check_refused(&o, DT_ERR_CONFIG, "no weight is left");
}
END_TEST

/* ---- ties ----------------------------------------------------------------------------------- */

static void make_tied(void)
{
    dt_module *first, *second;
    dt_module_free(m);
    ck_assert_int_eq(dt_sequential_create(ctx, &m), DT_OK);
    ck_assert_int_eq(dt_linear_create(ctx, 24, 24, false, &first), DT_OK);
    ck_assert_int_eq(dt_linear_create(ctx, 24, 24, false, &second), DT_OK);
    ck_assert_int_eq(dt_module_add(m, "a", first), DT_OK);
    ck_assert_int_eq(dt_module_add(m, "head", second), DT_OK);
    ck_assert_int_eq(dt_module_tie(m, "head.weight", "a.weight"), DT_OK);
}

START_TEST(tied_weights_have_one_scheme)
{
    make_tied();
    dt_qat_options o = dt_qat_defaults();
    o.rules[0] = (dt_qat_rule){ .match = "a", .weight = { .quant.bits = 8, .has_bits = true } };
    o.n_rules = 1;
    check_refused(&o, DT_ERR_CONFIG, "a and head share a weight, but are given two schemes");
    o.rules[0] = (dt_qat_rule){ .match = "a", .skip = true, .has_skip = true };
    check_refused(&o, DT_ERR_CONFIG, "only a is skipped");
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_ptr_eq(dt_param(m, "a.weight"), dt_param(m, "head.weight"));
    dt_convert_report report;
    ck_assert_int_eq(dt_convert(m, NULL, &report), DT_OK);
    ck_assert_int_eq(report.converted, 1);
    ck_assert_int_eq(report.elements, 24 * 24);
}
END_TEST

/* ---- training ------------------------------------------------------------------------------- */

typedef struct trainer {
    dt_tensor *x, *labels;
    dt_optimizer *o;
    double lr;
} trainer;

static trainer new_trainer(int64_t batch, int optimizer)
{
    trainer r = { .lr = optimizer == DT_SGD ? 0.1 : 0.01 };
    const int64_t dims[2] = { batch, 40 };
    int32_t label[512];
    for (int i = 0; i < 512; i++) label[i] = i * 7 % 10;
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, dims, &r.x), DT_OK);
    ck_assert_int_eq(dt_fill_normal(r.x, 0, 1), DT_OK);
    ck_assert_int_eq(dt_tensor_from(ctx, DT_I32, 1, dims, label, &r.labels), DT_OK);
    dt_optimizer_options o = dt_optimizer_defaults();
    o.name = optimizer;
    o.momentum = 0.9;
    ck_assert_int_eq(dt_optimizer_create(m, &o, &r.o), DT_OK);
    dt_train(m, true);
    return r;
}

static void free_trainer(trainer *r)
{
    dt_optimizer_free(r->o);
    dt_tensor_free(r->x);
    dt_tensor_free(r->labels);
}

static double step(trainer *r)
{
    dt_tape_reset(t);
    dt_zero_grad(m);
    dt_tensor *loss = dt_cross_entropy(t, dt_forward(t, m, r->x), r->labels, NULL);
    const double value = loss == NULL ? NAN : dt_item(loss);
    ck_assert_msg(dt_backward(t, loss, NULL) == DT_OK, "%s", dt_error(ctx));
    ck_assert_msg(dt_optimizer_step(r->o, t, r->lr) == DT_OK, "%s", dt_error(ctx));
    return value;
}

static dt_status copy_weight(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    float **to = user;
    (void)path;
    (void)kind;
    const dt_tensor *inner = dt_inner(x);
    memcpy(*to, dt_data(inner), (size_t)dt_count(inner) * sizeof(float));
    *to += dt_count(inner);
    return DT_OK;
}

enum { PARAMETERS = 40 * 24 + 24 + 24 * 16 + 16 + 16 * 10 + 10 };

static void twenty_steps(bool prepared, int optimizer, float *weights)
{
    teardown();
    setup();
    trainer r = new_trainer(32, optimizer);
    for (int i = 0; i < 20; i++) {
        if (prepared && i == 5) { /* in the middle of a run */
            ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
            ck_assert_int_eq(dt_enable(m, false), DT_OK);
        }
        step(&r);
    }
    ck_assert_int_eq(dt_module_visit(m, copy_weight, &weights), DT_OK);
    free_trainer(&r);
}

START_TEST(disabled_training_is_float_training)
{
    static float plain[PARAMETERS], prepared[PARAMETERS];
    const int optimizers[] = { DT_SGD, DT_ADAM, DT_ADAMW };
    for (int i = 0; i < 3; i++) {
        twenty_steps(false, optimizers[i], plain);
        twenty_steps(true, optimizers[i], prepared);
        ck_assert_mem_eq(plain, prepared, sizeof plain);
    }
}
END_TEST

START_TEST(every_optimizer_trains_the_master)
{
    const int optimizers[] = { DT_SGD, DT_ADAM, DT_ADAMW };
    for (int i = 0; i < 3; i++) {
        teardown();
        setup();
        ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
        trainer r = new_trainer(32, optimizers[i]);
        const double first = step(&r);
        double last = 0;
        for (int k = 0; k < 60; k++) last = step(&r);
        ck_assert_double_lt(last, 0.7 * first);
        ck_assert_ptr_nonnull(dt_grad(dt_param(m, "layers.0.weight")));
        free_trainer(&r);
    }
}
END_TEST

START_TEST(a_prepared_step_allocates_nothing)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    trainer r = new_trainer(48, DT_ADAMW);
    step(&r);
    const uint64_t after_first = dt_memory_of(ctx).allocations;
    for (int i = 0; i < 5; i++) step(&r);
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, after_first);
    free_trainer(&r);
}
END_TEST

START_TEST(accumulation_quantizes_once)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    trainer r = new_trainer(16, DT_SGD);
    dt__codes *first = NULL;
    for (int i = 0; i < 3; i++) {
        dt_tape_reset(t);
        dt_tensor *loss = dt_cross_entropy(t, dt_forward(t, m, r.x), r.labels, NULL);
        ck_assert_int_eq(dt_backward(t, loss, NULL), DT_OK);
        dt__codes *codes;
        ck_assert_int_eq(dt__fq_codes(dt_param(m, "head.weight"), &codes), DT_OK);
        if (i == 0) first = codes;
        ck_assert_ptr_eq(codes, first);
        dt__codes_release(codes);
    }
    free_trainer(&r);
}
END_TEST

/* Modules on one input, as q, k and v of attention, or gate and up of an mlp. */
static void three_on_one(dt_tape *tape, dt_module *net, dt_tensor *const *in, int n_in,
                         dt_tensor **out, int n_out)
{
    static const char *const names[] = { "q", "k", "v" };
    dt_tensor *x = dt_tanh(tape, in[0]), *y[3];
    (void)n_in;
    (void)n_out;
    for (int i = 0; i < 3; i++) y[i] = dt_forward(tape, dt_module_at(net, names[i]), x);
    out[0] = dt_mul(tape, dt_add(tape, y[0], y[1]), y[2]);
}

START_TEST(layers_on_one_input_quantize_it_once)
{
    static const dt_module_type type = { .name = "three", .forward = three_on_one };
    static const char *const names[] = { "q", "k", "v" };
    dt_module *net, *part;
    dt_tensor *x;
    ck_assert_int_eq(dt_module_create(ctx, &type, 0, &net), DT_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(dt_linear_create(ctx, 40, 16, true, &part), DT_OK);
        ck_assert_int_eq(dt_module_add(net, names[i], part), DT_OK);
    }
    ck_assert_int_eq(dt_prepare(net, NULL), DT_OK);
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 9, 40 }, &x), DT_OK);
    ck_assert_int_eq(dt_fill_normal(x, 0, 1), DT_OK);
    dt_tensor *y = dt_forward(t, net, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    const dt__codes *codes = NULL;
    int linears = 0;
    for (int64_t i = 0; i < t->n_records; i++) {
        const dt__record *r = t->records[i];
        if (strcmp(r->op->name, "linear") != 0) continue;
        ck_assert_ptr_nonnull(r->kept[0].codes);
        if (linears++ > 0) ck_assert_ptr_eq(r->kept[0].codes, codes);
        codes = r->kept[0].codes;
    }
    ck_assert_int_eq(linears, 3);
    dt_tensor_free(x);
    dt_module_free(net);
}
END_TEST

/* Wide enough for products of several tiles, in steps along the sum too. */
enum { WIDE = 40 * 400 + 400 + 400 * 600 + 600 + 600 * 10 + 10 };

static void train_wide(int threads, const dt_qat_options *o, float *weights)
{
    teardown();
    setup();
    dt_module_free(m);
    TEST_OK(ctx, dt__threads_set(ctx, threads));
    const dt_mlp_options mlp = { .sizes = { 4, { 40, 400, 600, 10 } }, .bias = true };
    ck_assert_int_eq(dt_mlp_create(ctx, &mlp, &m), DT_OK);
    ck_assert_int_eq(dt_prepare(m, o), DT_OK);
    trainer r = new_trainer(300, DT_ADAMW);
    const int64_t steps = test_count((test_draws){ .usual = 3, .sanitized = 1 });
    for (int64_t k = 0; k < steps; k++) step(&r);
    ck_assert_int_eq(dt_module_visit(m, copy_weight, &weights), DT_OK);
    free_trainer(&r);
}

START_TEST(same_bits_on_any_number_of_threads)
{
    static float one[WIDE], more[WIDE];
    static const int threads[] = { 3, 2, 4, 8 };
    const int64_t numbers = test_count((test_draws){ .usual = 4, .sanitized = 1 });
    dt_qat_options o = dt_qat_defaults();
    if (_i == 1) o.forward = DT_FORWARD_SIMULATED;
    if (_i == 2) o.preset = DT_INT4_WEIGHT;
    train_wide(1, &o, one);
    for (int64_t i = 0; i < numbers; i++) {
        train_wide(threads[i], &o, more);
        ck_assert_msg(memcmp(one, more, sizeof one) == 0, "%d threads", threads[i]);
    }
}
END_TEST

/* ---- convert -------------------------------------------------------------------------------- */

START_TEST(convert_enables_and_says_so)
{
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "not prepared"));
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_int_eq(dt_enable(m, false), DT_OK);
    dt_convert_report report;
    ck_assert_int_eq(dt_convert(m, NULL, &report), DT_OK);
    ck_assert_int_eq(report.converted, 3);
    ck_assert_int_eq(report.enabled, 3);
    ck_assert(dt_is_converted(m) && !dt_is_prepared(m));
    ck_assert(dt__input_hook_of(dt_module_at(m, "head"))->enabled);
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_ERR_STATE);
    ck_assert_int_eq(dt_prepare(m, NULL), DT_ERR_STATE);
    ck_assert_int_eq(dt_enable(m, true), DT_ERR_STATE);
    ck_assert_ptr_null(dt_inner(dt_param(m, "head.weight")));
    ck_assert_int_eq(dt_set_requires_grad(dt_param(m, "head.weight"), true), DT_ERR_STATE);
}
END_TEST

START_TEST(convert_frees_the_master)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    const size_t before = dt_memory_of(ctx).used;
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    ck_assert_uint_lt(dt_memory_of(ctx).used, before);
}
END_TEST

START_TEST(an_optimizer_refuses_a_converted_model)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    trainer r = new_trainer(8, DT_SGD);
    step(&r);
    dt_tensor *loss = NULL;
    dt_tape_reset(t);
    loss = dt_cross_entropy(t, dt_forward(t, m, r.x), r.labels, NULL);
    ck_assert_int_eq(dt_backward(t, loss, NULL), DT_OK);
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    ck_assert_int_eq(dt_optimizer_step(r.o, t, 0.1), DT_ERR_STATE);
    free_trainer(&r);
}
END_TEST

static dt_status zeros(void *user, const char *path, const dt_tensor *master,
                       const dt_quant_spec *quant, const dt_code_rows *to)
{
    (void)quant;
    ++*(int *)user;
    ck_assert_ptr_nonnull(strstr(path, "weight"));
    memset(to->codes, 0, (size_t)dt_count(master));
    const int64_t groups = dt__ceil_div(dt_dim(master, 1), 32);
    for (int64_t i = 0; i < dt_dim(master, 0) * groups; i++) to->scale[i] = 1;
    return DT_OK;
}

START_TEST(a_rounder_chooses_the_codes)
{
    int calls = 0;
    const dt_rounder rounder = { "zeros", zeros, &calls };
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_int_eq(dt_convert(m, &rounder, NULL), DT_OK);
    ck_assert_int_eq(calls, 3);
    dt_tensor *image;
    ck_assert_int_eq(dt_dequantize(dt_param(m, "head.weight"), &image), DT_OK);
    for (int64_t i = 0; i < dt_count(image); i++) {
        ck_assert(((const float *)dt_data(image))[i] == 0);
    }
    dt_tensor_free(image);
}
END_TEST

START_TEST(a_frozen_model_refuses_writes)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    dt_freeze(m);
    ck_assert_ptr_null(dt_data_mut(dt_param(m, "head.bias")));
    ck_assert_int_eq(dt_error_status(ctx), DT_ERR_STATE);
    ck_assert_ptr_null(dt_zero_(t, dt_param(m, "head.bias")));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
}
END_TEST

typedef struct reader {
    dt_ctx *ctx;
    float y[7 * 10];
    dt_status status;
} reader;

/* Ten passes of the frozen model in a context of one's own. */
static void *read_frozen(void *user)
{
    reader *r = user;
    dt_tape *tape = NULL;
    dt_tensor *x = NULL;
    r->status = dt_tape_create(r->ctx, &tape);
    if (r->status == DT_OK) {
        r->status = dt_tensor_create(r->ctx, DT_F32, 2, (const int64_t[]){ 7, 40 }, &x);
    }
    if (r->status == DT_OK) r->status = dt_fill_normal(x, 0, 1);
    for (int i = 0; i < 10 && r->status == DT_OK; i++) {
        dt_tape_reset(tape);
        dt_tensor *y = dt_forward(tape, m, x);
        r->status = dt_tape_status(tape);
        if (y != NULL) memcpy(r->y, dt_data(y), sizeof r->y);
    }
    dt_tensor_free(x);
    dt_tape_free(tape);
    return NULL;
}

START_TEST(a_frozen_model_serves_many_contexts)
{
    ck_assert_int_eq(dt_prepare(m, NULL), DT_OK);
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    dt_train(m, false);
    dt_freeze(m);
    reader readers[3] = { 0 };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        dt_ctx_options o = dt_ctx_defaults();
        o.threads = 1;
        ck_assert_int_eq(dt_ctx_create(&readers[i].ctx, &o), DT_OK);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_frozen, &readers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_msg(readers[i].status == DT_OK, "%s", dt_error(readers[i].ctx));
        ck_assert_mem_eq(readers[i].y, readers[0].y, sizeof readers[0].y);
    }
    for (int i = 0; i < 3; i++) dt_ctx_free(readers[i].ctx);
}
END_TEST

/* ---- failing allocations -------------------------------------------------------------------- */

static dt_status prepare_and_convert(dt_ctx *c, void *user)
{
    (void)user;
    const dt_mlp_options mlp = { .sizes = { 3, { 20, 12, 4 } }, .bias = true };
    dt_module *model = NULL;
    dt_status s = dt_mlp_create(c, &mlp, &model);
    if (s == DT_OK) s = dt_prepare(model, NULL);
    if (s != DT_OK && model != NULL) ck_assert(!dt_is_prepared(model));
    if (s == DT_OK) {
        s = dt_convert(model, NULL, NULL);
        ck_assert(dt_is_converted(model) == (s == DT_OK)); /* all or nothing */
        ck_assert(dt_is_prepared(model) == (s != DT_OK));
    }
    dt_module_free(model);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_gt(test_every_allocation(prepare_and_convert, NULL), 20);
}
END_TEST

Suite *test_prepare_suite(void)
{
    Suite *s = suite_create("prepare");
    TCase *c = tcase_create("prepare");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, presets_select_every_linear_layer);
    tcase_add_test(c, int4_weight_leaves_activations);
    tcase_add_test(c, the_last_rule_wins_key_by_key);
    tcase_add_test(c, mistakes_are_named_and_change_nothing);
    tcase_add_loop_test(c, recipe_and_library_refuse_the_same_specs, 0, DT__COUNT_OF(spec_cases));
    tcase_add_test(c, a_spec_that_quantizes_no_weight_is_refused);
    tcase_add_test(c, a_later_rule_quantizes_again);
    tcase_add_test(c, converting_before_backward_is_refused);
    tcase_add_test(c, loading_drops_codes_at_once);
    tcase_add_test(c, tied_weights_have_one_scheme);
    tcase_add_test(c, disabled_training_is_float_training);
    tcase_add_test(c, every_optimizer_trains_the_master);
    tcase_add_test(c, a_prepared_step_allocates_nothing);
    tcase_add_test(c, accumulation_quantizes_once);
    tcase_add_test(c, layers_on_one_input_quantize_it_once);
    tcase_add_loop_test(c, same_bits_on_any_number_of_threads, 0, 3);
    tcase_add_test(c, convert_enables_and_says_so);
    tcase_add_test(c, convert_frees_the_master);
    tcase_add_test(c, an_optimizer_refuses_a_converted_model);
    tcase_add_test(c, a_rounder_chooses_the_codes);
    tcase_add_test(c, a_frozen_model_refuses_writes);
    tcase_add_test(c, a_frozen_model_serves_many_contexts);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
