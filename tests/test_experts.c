/* Experts in layers and models: rounders that see only the rows of each expert, and mistakes that
 * other implementations of grouped weights are known for, one test each. */
#include "testing.h"

#include "core/tensor.h"
#include "nn/module.h"
#include "ptq/matrix.h"

#include <detent/io.h>
#include <detent/experimental/optim.h>
#include <detent/experimental/ptq.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.seed = 5;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* ---- models --------------------------------------------------------------------------------- */

#define VOCAB 23
#define BATCH 4
#define TOKENS 12
#define BATCHES 4
#define EXPERTS 4

static const dt_llama_options sizes = {
    .vocab = VOCAB,
    .context = TOKENS,
    .layers = 2,
    .heads = 2,
    .width = 16,
    .hidden = 24,
    .theta = 10000,
    .eps = 1e-5,
    .rope = { DT_ROPE_PLAIN, 1, 1, 4, 8192 },
    .moe = { .given = true, .experts = EXPERTS, .top_k = 2, .balance = 0.01, .z = 0.001 },
};

static dt_module *create(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_llama_create(ctx, &sizes, &m));
    return m;
}

static dt_status enlarge(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)kind;
    (void)path;
    return x->rank >= 2 ? dt_fill_normal(x, 0, *(const double *)user) : DT_OK;
}

/* A model with larger weights: with the usual ones of 0.02 all tokens are nearly equal. */
static dt_module *create_lively(void)
{
    double deviation = 0.3;
    dt_module *m = create();
    dt_module_visit(m, enlarge, &deviation);
    return m;
}

static void prepare(dt_module *m, int preset)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    if (preset != DT_INT4_INT4 && !TEST_OF_BLOCKS(preset)) {
        o.weight.quant.group_size = 8;
        o.weight.has_group_size = true;
    }
    TEST_OK(ctx, dt_prepare(m, &o));
}

static dt_tensor *ids_of(uint64_t seed)
{
    const int64_t dims[] = { BATCH, TOKENS };
    dt__stream s = dt__stream_of(seed, DT__FOR_SHUFFLE);
    int32_t ids[BATCH * TOKENS];
    dt_tensor *x;
    for (int i = 0; i < BATCH * TOKENS; i++) ids[i] = (int32_t)dt__random_below(&s, VOCAB);
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, dims, ids, &x));
    return x;
}

static void backward(dt_module *m, uint64_t seed, dt_module *teacher)
{
    dt_tensor *ids = ids_of(seed);
    dt_token_loss_options o = dt_token_loss_defaults();
    o.teacher = teacher;
    if (teacher != NULL) o.head.distill = 0.5;
    dt_tensor *loss = dt_token_loss(t, m, ids, ids, &o, NULL);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    dt_tape_reset(t);
    dt_tensor_free(ids);
}

static float *logits_of(dt_module *m, uint64_t seed)
{
    float *copy = malloc(BATCH * TOKENS * VOCAB * sizeof *copy);
    dt_tensor *ids = ids_of(seed);
    const bool training = dt_is_training(m), grad = dt_no_grad(t, true);
    dt_train(m, false);
    const dt_tensor *y = dt_forward(t, m, ids);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    memcpy(copy, dt_data(y), BATCH * TOKENS * VOCAB * sizeof *copy);
    dt_tape_reset(t);
    dt_no_grad(t, grad);
    dt_train(m, training);
    dt_tensor_free(ids);
    return copy;
}

/* The values that ops read, of a wrapper the dequantized ones, as a new tensor. */
static dt_tensor *values_of(dt_tape *tape, dt_tensor *x)
{
    dt_tensor *dense = NULL, *copy;
    dt__codes *codes = NULL;
    TEST_OK(ctx, dt__kind_of(x)->value(tape, x, &dense, &codes));
    TEST_OK(ctx, dt__tensor_create_raw(ctx, dense->dtype, dense->rank, dense->dims, &copy));
    dt__copy_tensor(dense, copy);
    dt_tensor_free(dense);
    dt__codes_release(codes);
    return copy;
}

/* ---- rounders ------------------------------------------------------------------------------- */

/* The inputs of one grouped layer, batch by batch. */
typedef struct record {
    const char *path;
    dt_tensor *x[BATCHES], *index[BATCHES];
    int n;
} record;

static dt_tensor *take(void *user, dt_tape *tape, dt_module *m, dt_tensor *x)
{
    record *r = user;
    (void)m;
    if (dt__is_float(x->dtype)) r->x[r->n] = values_of(tape, x);
    else r->index[r->n++] = values_of(tape, x);
    return x;
}

static dt_status fetch(void *user, int64_t i, dt_tensor **x)
{
    dt_tensor **batch = user;
    dt_tensor_free(*batch);
    *x = *batch = ids_of(100 + (uint64_t)i);
    return DT_OK;
}

static void record_inputs(dt_module *m, record *r)
{
    uint64_t id;
    dt_module *layer = dt_module_at(m, r->path);
    TEST_OK(ctx, dt_hook_add(layer, DT_SITE_INPUT, take, r, NULL, &id));
    for (int i = 0; i < BATCHES; i++) free(logits_of(m, 100 + (uint64_t)i));
    TEST_OK(ctx, dt_unhook(layer, id));
    ck_assert_int_eq(r->n, BATCHES);
}

static void free_record(record *r)
{
    for (int i = 0; i < r->n; i++) {
        dt_tensor_free(r->x[i]);
        dt_tensor_free(r->index[i]);
    }
}

/* The float model's row for slot k of row i. After the experts it is the output of the same expert
 * for the same token, if there is one, otherwise the quantized model's. */
static const float *float_row(const record *q, const record *f, int batch, int64_t i, int k,
                              bool behind)
{
    const dt_tensor *x = f->x[batch];
    const int64_t width = x->dims[x->rank - 1];
    const int32_t *from = dt_data(q->index[batch]), *to = dt_data(f->index[batch]);
    if (!behind) return (const float *)dt_data(x) + i * width;
    for (int other = 0; other < 2; other++) {
        if (to[2 * i + other] != from[2 * i + k]) continue;
        return (const float *)dt_data(x) + (2 * i + other) * width;
    }
    return (const float *)dt_data(q->x[batch]) + (2 * i + k) * width;
}

/* The rows of expert e of one batch, [n][width]; NULL where there are none. */
static dt_tensor *rows_of(const record *q, const record *f, int batch, int e, bool plain)
{
    const dt_tensor *x = q->x[batch];
    const int64_t width = x->dims[x->rank - 1], tokens = q->index[batch]->dims[0];
    const bool behind = x->count == tokens * 2 * width;
    const int32_t *index = dt_data(q->index[batch]);
    int64_t n = 0;
    for (int64_t i = 0; i < 2 * tokens; i++) n += index[i] == e;
    if (n == 0) return NULL;
    dt_tensor *rows;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ n, width }, &rows));
    float *to = dt_data_mut(rows);
    for (int64_t i = 0; i < 2 * tokens; i++) {
        if (index[i] != e) continue;
        const int64_t row = behind ? i : i / 2;
        const float *from = plain ? float_row(q, f, batch, i / 2, (int)(i % 2), behind)
                                  : (const float *)dt_data(x) + row * width;
        memcpy(to, from, (size_t)width * sizeof *to);
        to += width;
    }
    return rows;
}

/* Dequantized values of expert e's codes, as rounding a separate linear layer gives them. */
static float *round_apart(const record *q, const record *f, int e, const dt_tensor *weight,
                          const dt_rounding_options *options, const dt_quant_spec *quant)
{
    const int64_t *dims = weight->dims + 1, count = dims[0] * dims[1];
    const dt_weight_op op = { .kind = DT_WEIGHT_LINEAR };
    dt_statistics *s;
    dt_tensor *w;
    dt_rounded *r;
    TEST_OK(ctx, dt_statistics_create(ctx, &op, 2, dims, f != NULL, &s));
    for (int b = 0; b < BATCHES; b++) {
        dt_tensor *xq = rows_of(q, f, b, e, false);
        if (xq == NULL) continue;
        dt_tensor *x = f == NULL ? NULL : rows_of(q, f, b, e, true);
        TEST_OK(ctx, dt_statistics_add(s, xq, x));
        dt_tensor_free(xq);
        dt_tensor_free(x);
    }
    TEST_OK(ctx,
            dt_tensor_from(ctx, DT_F32, 2, dims, (const float *)dt_data(weight) + e * count, &w));
    const dt_round_work work = { .weight = w, .quant = quant, .options = options, .statistics = s };
    TEST_OK(ctx, dt_round(ctx, &work, &r, NULL));
    float *image = malloc((size_t)count * sizeof *image);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i / dims[1], column = i % dims[1];
        const int64_t group =
            r->group_of == NULL ? column * r->groups / dims[1] : r->group_of[column];
        image[i] = (float)r->codes[i] * r->scale[row * r->groups + group];
    }
    dt_rounded_free(ctx, r);
    dt_statistics_free(s);
    dt_tensor_free(w);
    return image;
}

static void compare_layer(dt_module *m, dt_module *reference, const char *path,
                          const dt_rounding_options *options)
{
    record q = { .path = path }, f = { .path = path };
    char name[128];
    snprintf(name, sizeof name, "%s.weight", path);
    const dt_tensor *weight = dt_param(reference, name);
    const bool differs = dt__method_of(options->rounder)->rounder->needs_float;
    dt_quant_spec quant = dt_weight_quant_defaults();
    quant.group_size = 8;
    record_inputs(m, &q);
    if (differs) record_inputs(reference, &f);
    dt_tensor *image = values_of(t, dt_param(m, name));
    const int64_t each = weight->count / EXPERTS;
    for (int e = 0; e < EXPERTS; e++) {
        float *own = round_apart(&q, differs ? &f : NULL, e, weight, options, &quant);
        ck_assert_msg(
            memcmp((const float *)dt_data(image) + e * each, own, (size_t)each * sizeof *own) == 0,
            "expert %d of %s", e, path);
        free(own);
    }
    dt_tensor_free(image);
    free_record(&q);
    free_record(&f);
}

/* A grouped layer in a model is rounded as separate linear layers are, each with the rows that the
 * quantized model routes to it and with the float model's inputs for the same tokens. */
START_TEST(a_rounder_sees_the_rows_of_each_expert)
{
    static const char *const layers[] = { "model.layers.0.moe.w_gate", "model.layers.0.moe.w_down",
                                          "model.layers.1.moe.w_up", "model.layers.1.moe.w_down" };
    dt_module *reference = create_lively(), *m = create();
    dt_tensor *batch = NULL;
    dt_ptq_report report;
    dt_ptq_options o = dt_ptq_defaults();
    const dt_calibration data = { BATCHES, fetch, &batch };
    TEST_OK(ctx, dt_module_copy_state(m, reference));
    prepare(m, DT_INT8_DYNAMIC_INT4_WEIGHT);
    o.rounding.rounder = _i;
    o.rounding.rounding.least_rows = 1;
    o.rounding.rounding.order = _i % 2 == 0 ? DT_ORDER_WEIGHT : DT_ORDER_GROUP;
    if (dt__method_of(_i)->bounded) o.rounding.accumulator.bits = 14;
    TEST_OK(ctx, dt_ptq(m, reference, &data, &o, &report));
    ck_assert(report.unseen == 0 && report.unreached == 0 && report.layers == 2 * 7 + 1);
    o.rounding.accumulator.input = (dt_ints){ 2, { -128, 127 } };
    for (int i = 0; i < DT__COUNT_OF(layers); i++)
        compare_layer(m, reference, layers[i], &o.rounding);
    dt_tensor_free(batch);
    dt_module_free(m);
    dt_module_free(reference);
}
END_TEST

static dt_status note(void *user, const char *path, const dt_round_report *r)
{
    if (strcmp(path, "model.layers.0.moe.w_gate.weight") == 0) *(dt_round_report *)user = *r;
    return DT_OK;
}

/* An expert that the router never chooses is rounded to nearest and named in the report. */
START_TEST(an_expert_without_rows_is_rounded_to_nearest)
{
    dt_module *m = create_lively(), *nearest = create();
    dt_round_report report = { .rows = 0 };
    dt_tensor *batch = NULL;
    const dt_calibration data = { BATCHES, fetch, &batch };
    dt_ptq_options o = dt_ptq_defaults();
    float *norm = dt_data_mut(dt_param(m, "model.layers.0.post_attention_layernorm.weight"));
    dt_tensor *table = dt_param(m, "model.layers.0.moe.router.weight");
    for (int i = 0; i < 16; i++) norm[i] = i == 0 ? 1 : 0.01f; /* what comes in is x_0 */
    for (int i = 0; i < EXPERTS * 16; i++) {
        ((float *)dt_data_mut(table))[i] = i % 16 > 0 ? 0 : i == 0 ? 10 : i == 16 ? -10 : 1e-3f;
    }
    TEST_OK(ctx, dt_module_copy_state(nearest, m));
    prepare(m, DT_INT8_DYNAMIC_INT4_WEIGHT);
    prepare(nearest, DT_INT8_DYNAMIC_INT4_WEIGHT);
    o.rounding.rounder = DT_ROUND_GPTQ;
    o.done = note;
    o.user = &report;
    o.rounding.rounding.least_rows = 1 << 20;
    TEST_OK(ctx, dt_ptq(m, NULL, &data, &o, NULL));
    ck_assert(report.unseen == EXPERTS && report.unseen_experts.n == EXPERTS);
    ck_assert_str_eq(report.method, "nearest");
    TEST_OK(ctx, dt_convert(nearest, NULL, NULL));
    const char *name = "model.layers.0.moe.w_gate.weight";
    dt_tensor *a = values_of(t, dt_param(m, name)), *b = values_of(t, dt_param(nearest, name));
    ck_assert_mem_eq(dt_data(a), dt_data(b), (size_t)a->count * sizeof(float));
    dt_tensor_free(a);
    dt_tensor_free(b);
    dt_tensor_free(batch);
    dt_module_free(m);
    dt_module_free(nearest);
}
END_TEST

/* ---- gradients ------------------------------------------------------------------------------ */

static bool any(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (x[i] != 0) return true;
    }
    return false;
}

static bool all_finite(const dt_tensor *x)
{
    const float *v = dt_data(x);
    for (int64_t i = 0; i < dt_count(x); i++) {
        if (!isfinite(v[i])) return false;
    }
    return true;
}

static dt_status check_experts(void *user, const char *path, dt_module *m)
{
    (void)user;
    if (m->type != &dt__nn_grouped_linear) return DT_OK;
    const dt_tensor *w = dt_param(m, "weight"), *g = dt_grad(w);
    ck_assert_msg(g != NULL, "%s has no gradient", path);
    for (int64_t e = 0; e < EXPERTS; e++) {
        const int64_t each = g->count / EXPERTS;
        TEST_EACH(any((const float *)dt_data(g) + e * each, each), "expert %d of %s", (int)e, path);
    }
    ++*(int *)user;
    return DT_OK;
}

/* Mistake: weights of experts got no gradients where modules, not tensors, were set to train. */
START_TEST(no_weight_gradient_on_the_module_path)
{
    dt_module *m = create_lively();
    int layers = 0;
    prepare(m, _i);
    backward(m, 1, NULL);
    dt_module_visit_modules(m, check_experts, &layers);
    ck_assert_int_eq(layers, 6);
    dt_module_free(m);
}
END_TEST

#define ROWS 30
#define OUT 10
#define IN 24

static dt_module *layer_of(int64_t count, bool bias)
{
    dt_module *m;
    TEST_OK(ctx, dt_grouped_linear_create(ctx, count, IN, OUT, bias, &m));
    return m;
}

static dt_tensor *random_rows(void)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, IN }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

/* Expert of row i: none, or any but the last one, which stays idle. */
static int expert_of(int i) { return i % 7 == 0 ? -1 : i * i % (EXPERTS - 1); }

static dt_tensor *index_of(void)
{
    int32_t index[ROWS];
    dt_tensor *x;
    for (int i = 0; i < ROWS; i++) index[i] = expert_of(i);
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 1, (const int64_t[]){ ROWS }, index, &x));
    return x;
}

static dt_tensor *forward(dt_module *m, dt_tensor *x, dt_tensor *index)
{
    dt_tensor *in[] = { x, index }, *y;
    TEST_OK(ctx, dt_forward_n(t, m, in, 2, &y, 1));
    return y;
}

static double coefficient(int64_t i) { return sin((double)(3 * i + 1)); }

/* The straight-through gradient: with y = x^ W^^T + b and loss = sum c y, dW = c^T x^ and db = sum
 * c over the rows of each expert, for any W^. */
START_TEST(gradients_are_the_straight_through_form)
{
    dt_module *m = layer_of(EXPERTS, true);
    dt_tensor *x = random_rows(), *index = index_of(), *image, *c;
    record r = { .path = "" };
    uint64_t id;
    dt_qat_options o = dt_qat_defaults();
    o.weight =
        (dt_quant_patch){ .quant = { .scheme = DT_SCHEME_SYMMETRIC_NO_CLIP, .group_size = 8 },
                          .has_scheme = true,
                          .has_group_size = true };
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_hook_add(m, DT_SITE_INPUT, take, &r, NULL, &id));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, OUT }, &c));
    for (int i = 0; i < ROWS * OUT; i++) ((float *)dt_data_mut(c))[i] = (float)coefficient(i);
    dt_tensor *y = forward(m, x, index);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_mul(t, y, c), NULL), NULL));
    image = r.x[0];
    const float *dw = dt_data(dt_grad(dt_param(m, "weight")));
    const float *db = dt_data(dt_grad(dt_param(m, "bias"))), *v = dt_data(image);
    for (int i = 0; i < EXPERTS * OUT * IN; i++) {
        const int e = i / (OUT * IN), row = i / IN % OUT, column = i % IN;
        double sum = 0, bias = 0;
        for (int k = 0; k < ROWS; k++) {
            if (expert_of(k) != e) continue;
            sum += coefficient(k * OUT + row) * (double)v[k * IN + column];
            bias += coefficient(k * OUT + row);
        }
        TEST_EACH(test_near((double)dw[i], sum, 1e-4, 1e-5), "weight %d: %g, not %g", i,
                  (double)dw[i], sum);
        TEST_EACH(test_near((double)db[i / IN], bias, 1e-4, 1e-5), "bias %d", i / IN);
    }
    free_record(&r);
    dt_tensor_free(c);
    dt_tensor_free(x);
    dt_tensor_free(index);
    dt_module_free(m);
}
END_TEST

/* Mistake: one expert without tokens, or the garbage of padding, made every gradient NaN. */
START_TEST(nan_from_a_padded_expert)
{
    dt_module *m = layer_of(EXPERTS, true);
    dt_tensor *x = random_rows(), *index = index_of();
    dt_optimizer *optimizer;
    dt_qat_options o = dt_qat_defaults();
    o.preset = _i;
    if (_i == DT_INT8_DYNAMIC_INT4_WEIGHT || _i == DT_INT4_WEIGHT) {
        o.weight.quant.group_size = 8;
        o.weight.has_group_size = true;
    }
    const bool floats = _i == DT_INT4_WEIGHT; /* quantized inputs must be finite: an error */
    for (int i = 0; i < ROWS * IN; i++) {
        if (expert_of(i / IN) < 0) ((float *)dt_data_mut(x))[i] = floats ? NAN : 0;
    }
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &optimizer));
    dt_tensor *y = forward(m, x, index);
    ck_assert(all_finite(y));
    for (int i = 0; i < ROWS; i++) {
        const bool pads = !any((const float *)dt_data(y) + i * OUT, OUT);
        TEST_EACH(pads == (expert_of(i) < 0), "row %d", i);
    }
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_square(t, y), NULL), NULL));
    const dt_tensor *dw = dt_grad(dt_param(m, "weight")), *db = dt_grad(dt_param(m, "bias"));
    ck_assert(all_finite(dw) && all_finite(db) && all_finite(dt_grad(x)));
    ck_assert(!any((const float *)dt_data(dw) + (EXPERTS - 1) * OUT * IN, OUT * IN));
    ck_assert(!any((const float *)dt_data(db) + (EXPERTS - 1) * OUT, OUT));
    for (int i = 0; i < ROWS; i++) {
        const bool none = !any((const float *)dt_data(dt_grad(x)) + i * IN, IN);
        TEST_EACH(none == (expert_of(i) < 0), "the gradient of row %d", i);
    }
    dt_tape_reset(t);
    TEST_OK(ctx, dt_optimizer_step(optimizer, t, 0.01));
    ck_assert(all_finite(dt_inner(dt_param(m, "weight"))) && all_finite(dt_param(m, "bias")));
    dt_optimizer_free(optimizer);
    dt_tensor_free(x);
    dt_tensor_free(index);
    dt_module_free(m);
}
END_TEST

/* ---- wrapping and files --------------------------------------------------------------------- */

static void save_and_load(dt_module **m)
{
    char folder[TEST_PATH], path[TEST_PATH];
    int i = 0;
    while (strcmp(dt_family_at(i)->name, "llama") != 0) i++;
    const dt_model_info info = { .family = dt_family_at(i), .options = &sizes };
    test_folder(folder);
    test_join(path, folder, "m.safetensors");
    TEST_OK(ctx, dt_model_save(*m, &info, path));
    dt_module_free(*m);
    TEST_OK(ctx, dt_model_load(ctx, path, m, NULL));
}

static const char *const experts[] = { "model.layers.0.moe.w_gate.weight",
                                       "model.layers.0.moe.w_up.weight",
                                       "model.layers.1.moe.w_down.weight" };

static void check_experts_train(dt_module *m, bool trains)
{
    for (int i = 0; i < DT__COUNT_OF(experts); i++) {
        dt_tensor *w = dt_param(m, experts[i]), *one = dt_grouped_expert(w, 1);
        ck_assert(dt_is_grouped(w) && dt_requires_grad(w) == trains);
        ck_assert(dt_requires_grad(one) == trains);
        dt_tensor_free(one);
    }
}

/* Mistake: wrapping made new parameters that did not require gradients. */
START_TEST(experts_losing_requires_grad)
{
    dt_module *m = create();
    check_experts_train(m, true);
    prepare(m, _i);
    check_experts_train(m, true);
    TEST_OK(ctx, dt_enable(m, false));
    check_experts_train(m, true);
    TEST_OK(ctx, dt_enable(m, true));
    if (_i != DT_INT4_INT4) { /* whose learned ranges are initialized by a batch */
        save_and_load(&m);
        check_experts_train(m, true);
    }
    TEST_OK(ctx, dt_set_requires_grad(dt_param(m, experts[0]), false));
    ck_assert(!dt_requires_grad(dt_param(m, experts[0])));
    TEST_OK(ctx, dt_set_requires_grad(dt_param(m, experts[0]), true));
    backward(m, 1, NULL);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    check_experts_train(m, false);
    dt_module_free(m);
}
END_TEST

/* Mistake: dequantized weights were kept in place of the masters. */
START_TEST(masters_rebuilt_from_dequantized_values)
{
    dt_module *given = create_lively(), *m = create();
    TEST_OK(ctx, dt_module_copy_state(m, given));
    prepare(m, DT_INT8_DYNAMIC_INT4_WEIGHT);
    free(logits_of(m, 1)); /* dequantized values were read */
    save_and_load(&m);
    float *quantized = logits_of(m, 1);
    TEST_OK(ctx, dt_enable(m, false));
    for (int i = 0; i < DT__COUNT_OF(experts); i++) {
        const dt_tensor *w = dt_param(given, experts[i]);
        ck_assert_mem_eq(dt_data(dt_inner(dt_param(m, experts[i]))), dt_data(w),
                         (size_t)w->count * sizeof(float));
    }
    float *plain = logits_of(given, 1), *disabled = logits_of(m, 1);
    ck_assert_mem_eq(plain, disabled, BATCH * TOKENS * VOCAB * sizeof *plain);
    ck_assert(memcmp(plain, quantized, BATCH * TOKENS * VOCAB * sizeof *plain) != 0);
    free(plain);
    free(disabled);
    free(quantized);
    dt_module_free(m);
    dt_module_free(given);
}
END_TEST

/* The largest value that shares a scale with element i of a weight [EXPERTS, OUT, IN]. */
static float largest_beside(const float *w, int64_t i, int granularity)
{
    const int64_t block = granularity == DT_PER_TENSOR    ? OUT * IN
                          : granularity == DT_PER_CHANNEL ? IN
                                                          : 8;
    float most = 0;
    for (int64_t k = i / block * block; k < (i / block + 1) * block; k++) {
        most = fmaxf(most, fabsf(w[k]));
    }
    return most;
}

/* Mistake: scales along the wrong axis of [experts, out, in]. Here experts, rows and groups of
 * columns have ranges thousands apart: the scale of any other block would be wrong by orders of
 * magnitude. */
START_TEST(wrong_partition_axis_of_the_3d_weight)
{
    dt_module *m = layer_of(EXPERTS, false);
    dt_tensor *w = dt_param(m, "weight");
    float *v = dt_data_mut(w), *before = malloc((size_t)w->count * sizeof *before);
    for (int64_t i = 0; i < w->count; i++) {
        const double range = pow(8, (double)(i / (OUT * IN))) * pow(2, (double)(i / IN % OUT)) *
                             pow(4, -(double)(i % IN / 8));
        v[i] = (float)(coefficient(i) * range);
    }
    memcpy(before, v, (size_t)w->count * sizeof *before);
    dt_qat_options o = dt_qat_defaults();
    o.weight = (dt_quant_patch){ .quant = { .granularity = _i, .group_size = 8, .bits = 8 },
                                 .has_granularity = true,
                                 .has_group_size = _i == DT_PER_GROUP,
                                 .has_bits = true };
    TEST_OK(ctx, dt_prepare(m, &o));
    for (int form = 0; form < 2; form++) {
        dt_tensor *image = values_of(t, dt_param(m, "weight"));
        const float *x = dt_data(image);
        for (int64_t i = 0; i < image->count; i++) {
            const float most = largest_beside(before, i, _i);
            TEST_EACH(fabsf(x[i] - before[i]) <= most / 120, "element %lld: %g, not %g",
                      (long long)i, (double)x[i], (double)before[i]);
        }
        dt_tensor_free(image);
        if (form == 0) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    }
    free(before);
    dt_module_free(m);
}
END_TEST

/* Mistake: dispatch of a wrapper's view called itself forever, for example in a checkpointed block.
 * Steps must have the bits of steps without checkpointing. */
START_TEST(infinite_dispatch_recursion)
{
    dt_module *m[2];
    for (int k = 0; k < 2; k++) {
        m[k] = create();
        if (k > 0) TEST_OK(ctx, dt_module_copy_state(m[1], m[0]));
    }
    for (int k = 0; k < 2; k++) {
        dt_optimizer *o;
        prepare(m[k], _i);
        dt_recompute(m[k], k == 1);
        TEST_OK(ctx, dt_optimizer_create(m[k], NULL, &o));
        for (uint64_t i = 0; i < 3; i++) {
            dt_zero_grad(m[k]);
            backward(m[k], i, NULL);
            dt_tensor *one = dt_grouped_expert(dt_param(m[k], experts[0]), 1);
            ck_assert_ptr_nonnull(dt_tanh(t, one));
            dt_tensor_free(one);
            dt_tape_reset(t);
            TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
        }
        dt_optimizer_free(o);
    }
    float *a = logits_of(m[0], 9), *b = logits_of(m[1], 9);
    ck_assert_mem_eq(a, b, BATCH * TOKENS * VOCAB * sizeof *a);
    free(a);
    free(b);
    dt_module_free(m[0]);
    dt_module_free(m[1]);
}
END_TEST

/* ---- parameters by name --------------------------------------------------------------------- */

static const dt_module_type list_type = { .name = "list" };

/* Three layers of experts of one shape, in this order. */
static dt_module *list_of(const char *const names[3])
{
    dt_module *m;
    TEST_OK(ctx, dt_module_create(ctx, &list_type, 0, &m));
    for (int i = 0; i < 3; i++) TEST_OK(ctx, dt_module_add(m, names[i], layer_of(2, true)));
    return m;
}

static void set_gradients(dt_module *m, const char *const names[3])
{
    for (int i = 0; i < 3; i++) {
        dt_tensor *w = dt_param(dt_module_at(m, names[i]), "weight");
        dt_tensor *scaled = dt_mul(t, w, w);
        for (int k = 0; k <= names[i][0] - 'a'; k++) scaled = dt_add(t, scaled, w);
        TEST_OK(ctx, dt_backward(t, dt_sum(t, scaled, NULL), NULL));
        dt_tape_reset(t);
    }
}

/* Mistake: gradients, moments or loaded values were assigned by position in another list of
 * parameters. */
START_TEST(write_back_by_position)
{
    static const char *const order[] = { "a", "b", "c" }, *const other[] = { "c", "a", "b" };
    dt_module *one = list_of(order), *two = list_of(other);
    dt_optimizer *o[2];
    TEST_OK(ctx, dt_module_tie(one, "b.bias", "a.bias"));
    TEST_OK(ctx, dt_module_tie(two, "b.bias", "a.bias"));
    TEST_OK(ctx, dt_module_copy_state(two, one));
    for (int k = 0; k < 2; k++) {
        dt_module *m = k == 0 ? one : two;
        TEST_OK(ctx, dt_optimizer_create(m, NULL, &o[k]));
        set_gradients(m, k == 0 ? order : other);
        TEST_OK(ctx, dt_optimizer_step(o[k], t, 0.01));
    }
    for (int i = 0; i < 3; i++) {
        const dt_tensor *a = dt_param(dt_module_at(one, order[i]), "weight");
        const dt_tensor *b = dt_param(dt_module_at(two, order[i]), "weight");
        ck_assert_mem_eq(dt_data(a), dt_data(b), (size_t)a->count * sizeof(float));
    }
    ck_assert_ptr_eq(dt_param(two, "a.bias"), dt_param(two, "b.bias"));
    for (int k = 0; k < 2; k++) dt_optimizer_free(o[k]);
    dt_module_free(one);
    dt_module_free(two);
}
END_TEST

/* ---- with other settings -------------------------------------------------------------------- */

/* A bias of experts [N, out] has rank 2, but is a bias, so it does not decay. */
START_TEST(biases_of_experts_do_not_decay)
{
    dt_module *m = layer_of(EXPERTS, true);
    dt_tensor *w = dt_param(m, "weight"), *b = dt_param(m, "bias");
    const float first[] = { *(const float *)dt_data(w), *(const float *)dt_data(b) };
    dt_optimizer_options options = dt_optimizer_defaults();
    dt_optimizer *o;
    options.weight_decay = 0.5;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    dt_tensor *none = dt_mul(t, dt_sum(t, w, NULL), dt_sum(t, b, NULL));
    TEST_OK(ctx, dt_backward(t, dt_sub(t, none, none), NULL)); /* gradients of 0 */
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.1));
    ck_assert_float_eq_tol(*(const float *)dt_data(w), first[0] * 0.95f, 1e-6f);
    ck_assert_float_eq(*(const float *)dt_data(b), first[1]);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* Factors of the learning rate by path apply to grouped weights. */
START_TEST(rates_by_glob_reach_experts)
{
    dt_module *m = create_lively();
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    TEST_OK(ctx, dt_optimizer_group(o, "*.w_up.*", 0, 0));
    const dt_tensor *still = dt_param(m, experts[1]), *moves = dt_param(m, experts[0]);
    const size_t bytes = (size_t)still->count * sizeof(float);
    float *before[] = { malloc(bytes), malloc(bytes) };
    memcpy(before[0], dt_data(still), bytes);
    memcpy(before[1], dt_data(moves), bytes);
    backward(m, 1, NULL);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.1));
    ck_assert_mem_eq(dt_data(still), before[0], bytes);
    ck_assert(memcmp(dt_data(moves), before[1], bytes) != 0);
    free(before[0]);
    free(before[1]);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* For any routing of tokens, steps only use memory that earlier steps freed. (Observers of static
 * ranges sometimes take another block, with or without experts.) */
START_TEST(steps_allocate_nothing)
{
    test_memory memory = { 0 };
    dt_ctx *before = ctx;
    dt_ctx_options options = dt_ctx_defaults();
    dt_optimizer *o;
    if (_i == DT_INT8_STATIC_INT8_WEIGHT) return;
    dt_tape_free(t);
    options.allocator = test_allocator(&memory);
    options.threads = 2;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_module *m = create_lively();
    prepare(m, _i);
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    for (uint64_t i = 0; i < 12; i++) {
        dt_tensor *ids = ids_of(i);
        const int64_t calls = memory.calls;
        dt_zero_grad(m);
        TEST_OK(ctx, dt_backward(t, dt_token_loss(t, m, ids, ids, NULL, NULL), NULL));
        TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
        dt_tape_reset(t);
        TEST_EACH(i < 2 || memory.calls == calls, "step %d: %d allocations", (int)i,
                  (int)(memory.calls - calls));
        dt_tensor_free(ids);
    }
    dt_optimizer_free(o);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    ctx = before;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}
END_TEST

/* A teacher with experts and a student with experts: the teacher's router adds nothing to the
 * loss. */
START_TEST(a_teacher_with_experts)
{
    dt_module *m = create_lively(), *teacher = create_lively();
    int layers = 0;
    prepare(m, DT_INT8_DYNAMIC_INT4_WEIGHT);
    backward(m, 1, teacher);
    dt_module_visit_modules(m, check_experts, &layers);
    ck_assert_int_eq(layers, 6);
    ck_assert_ptr_null(dt_grad(dt_param(teacher, experts[0])));
    ck_assert_ptr_null(dt_grad(dt_param(teacher, "model.layers.0.moe.router.weight")));
    dt_module_free(m);
    dt_module_free(teacher);
}
END_TEST

START_TEST(frozen_experts_answer_as_before)
{
    dt_module *m = create_lively();
    prepare(m, DT_INT8_DYNAMIC_INT4_WEIGHT);
    float *before = logits_of(m, 3);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_freeze(m);
    float *after = logits_of(m, 3);
    ck_assert_mem_eq(before, after, BATCH * TOKENS * VOCAB * sizeof *before);
    free(before);
    free(after);
    dt_module_free(m);
}
END_TEST

START_TEST(adapters_are_of_linear_layers)
{
    dt_module *m = create();
    dt_lora_options o = dt_lora_defaults();
    o.rank = 2;
    o.match = (dt_strings){ 1, { "*w_gate" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "experts", dt_lora_add(m, &o));
    o.match = (dt_strings){ 0 };
    TEST_OK(ctx, dt_lora_add(m, &o));
    ck_assert(!dt_requires_grad(dt_param(m, experts[0])));
    ck_assert(dt_requires_grad(dt_param(m, "model.layers.0.self_attn.q_proj.lora_a")));
    prepare(m, DT_INT8_DYNAMIC_INT4_WEIGHT);
    backward(m, 1, NULL);
    ck_assert_ptr_null(dt_grad(dt_param(m, experts[0])));
    TEST_OK(ctx, dt_lora_merge(m));
    check_experts_train(m, true);
    dt_module_free(m);
}
END_TEST

Suite *test_experts_suite(void)
{
    Suite *s = suite_create("experts");
    TCase *c = tcase_create("experts");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_rounder_sees_the_rows_of_each_expert, 1, DT__METHODS);
    tcase_add_test(c, an_expert_without_rows_is_rounded_to_nearest);
    tcase_add_loop_test(c, no_weight_gradient_on_the_module_path, 0, TEST_PRESETS);
    tcase_add_test(c, gradients_are_the_straight_through_form);
    tcase_add_loop_test(c, nan_from_a_padded_expert, 0, TEST_PRESETS);
    tcase_add_loop_test(c, experts_losing_requires_grad, 0, TEST_PRESETS);
    tcase_add_test(c, masters_rebuilt_from_dequantized_values);
    tcase_add_loop_test(c, wrong_partition_axis_of_the_3d_weight, 0, DT_PER_GROUP + 1);
    tcase_add_loop_test(c, infinite_dispatch_recursion, 0, TEST_PRESETS);
    tcase_add_test(c, write_back_by_position);
    tcase_add_test(c, biases_of_experts_do_not_decay);
    tcase_add_test(c, rates_by_glob_reach_experts);
    tcase_add_loop_test(c, steps_allocate_nothing, 0, TEST_PRESETS);
    tcase_add_test(c, a_teacher_with_experts);
    tcase_add_test(c, frozen_experts_answer_as_before);
    tcase_add_test(c, adapters_are_of_linear_layers);
    suite_add_tcase(s, c);
    return s;
}
