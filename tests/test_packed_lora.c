/* Adapters beside packed weights: gradients, bits on any number of threads, weights that are packed
 * while they are read, files of adapters and their base, merging. */
#include "models.h"
#include "testing.h"

#include "core/core.h"
#include "qat/quantized.h"

#include <detent/export.h>
#include <detent/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, IN = 40, HIDDEN = 24, OUT = 7, RANK = 3 };

static dt_ctx *ctx;
static char folder[TEST_PATH], path[TEST_PATH], base_path[TEST_PATH];
static const int64_t sizes[] = { IN, HIDDEN, OUT, 0 };

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "adapters.safetensors");
    test_join(base_path, folder, "base.safetensors");
}

static void teardown(void) { dt_ctx_free(ctx); }

static dt_mlp_options options(void) { return small_options(sizes, 0, 0); }

static dt_qat_options settings(int preset)
{
    dt_qat_options q = dt_qat_defaults();
    q.preset = preset;
    q.weight.quant.group_size = 8;
    q.weight.has_group_size = true;
    return q;
}

/* Packed, with adapters whose B is not 0 on the hidden layer. */
static dt_module *adapted(dt_ctx *c, int preset)
{
    const dt_mlp_options o = options();
    const dt_qat_options q = settings(preset);
    dt_lora_options lora = dt_lora_defaults();
    lora.rank = RANK;
    lora.alpha = 6;
    dt_module *m = small_model(c, &o);
    TEST_OK(c, dt_prepare(m, &q));
    TEST_OK(c, dt_convert(m, NULL, NULL));
    TEST_OK(c, dt_lora_add(m, &lora));
    TEST_OK(c, dt_fill_normal(dt_param(m, "layers.0.lora_b"), 0, 0.1));
    return m;
}

/* ---- gradients ------------------------------------------------------------------------------ */

typedef struct reference {
    double x[ROWS * IN], w[HIDDEN * IN], b[HIDDEN], a[RANK * IN], low[HIDDEN * RANK];
    double head[OUT * HIDDEN], head_bias[OUT], up[ROWS * OUT];
} reference;

/* sum of up * y of the network in double, with the dequantized weights; inputs are floats. */
static double loss_of(const reference *r)
{
    double sum = 0;
    for (int i = 0; i < ROWS; i++) {
        double hidden[HIDDEN], inner[RANK] = { 0 };
        for (int k = 0; k < RANK; k++) {
            for (int c = 0; c < IN; c++) inner[k] += r->x[i * IN + c] * r->a[k * IN + c];
        }
        for (int h = 0; h < HIDDEN; h++) {
            hidden[h] = r->b[h];
            for (int c = 0; c < IN; c++) hidden[h] += r->x[i * IN + c] * r->w[h * IN + c];
            for (int k = 0; k < RANK; k++) hidden[h] += 2 * inner[k] * r->low[h * RANK + k];
            hidden[h] = fmax(hidden[h], 0);
        }
        for (int o = 0; o < OUT; o++) {
            double y = r->head_bias[o];
            for (int h = 0; h < HIDDEN; h++) y += hidden[h] * r->head[o * HIDDEN + h];
            sum += y * r->up[i * OUT + o];
        }
    }
    return sum;
}

static void take(double *to, dt_tensor *x)
{
    dt_tensor *dense = NULL;
    if (dt_is_packed(x)) TEST_OK(ctx, dt_dequantize(x, &dense));
    const float *from = dt_data(dense != NULL ? dense : x);
    for (int64_t i = 0; i < dt_count(x); i++) to[i] = (double)from[i];
    dt_tensor_free(dense);
}

/* The gradient against central differences of the reference. */
static void compare(const reference *r, double *at, dt_tensor *grad, const char *name)
{
    const float *got = dt_data(grad);
    for (int64_t i = 0; i < dt_count(grad); i++) {
        const double kept = at[i], step = 1e-6;
        at[i] = kept + step;
        const double above = loss_of(r);
        at[i] = kept - step;
        const double wanted = (above - loss_of(r)) / (2 * step);
        at[i] = kept;
        TEST_EACH(test_near((double)got[i], wanted, 2e-5, 2e-4), "%s[%d]: %.9g, %.9g", name, (int)i,
                  (double)got[i], wanted);
    }
}

/* Float inputs and int4 weights: every gradient is that of the network in double, with the
 * dequantized weights. Packed weights have none. */
START_TEST(gradients_are_those_in_double)
{
    dt_module *m = adapted(ctx, DT_INT4_WEIGHT);
    reference *r = calloc(1, sizeof *r);
    dt_tensor *x, *up;
    dt_tape *t;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, IN }, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, OUT }, &up));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_fill_normal(up, 0, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    const struct {
        double *to;
        dt_tensor *from;
    } all[] = { { r->x, x },
                { r->up, up },
                { r->w, dt_param(m, "layers.0.weight") },
                { r->b, dt_param(m, "layers.0.bias") },
                { r->a, dt_param(m, "layers.0.lora_a") },
                { r->low, dt_param(m, "layers.0.lora_b") },
                { r->head, dt_param(m, "head.weight") },
                { r->head_bias, dt_param(m, "head.bias") } };
    for (int i = 0; i < 8; i++) take(all[i].to, all[i].from);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_backward(t, dt_forward(t, m, x), up));
    compare(r, r->x, dt_grad(x), "x");
    compare(r, r->a, dt_grad(dt_param(m, "layers.0.lora_a")), "lora_a");
    compare(r, r->low, dt_grad(dt_param(m, "layers.0.lora_b")), "lora_b");
    ck_assert_ptr_null(dt_grad(dt_param(m, "layers.0.weight")));
    ck_assert_ptr_null(dt_grad(dt_param(m, "layers.0.bias")));
    ck_assert_int_eq(dt_trained_count(m), RANK * (IN + HIDDEN));
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(up);
    dt_module_free(m);
    free(r);
}
END_TEST

/* Int8 inputs: dA = s (dy B)^T x^ and dB = dy^T (s x^ A^T), x^ being the dequantized input, which
 * the packed weight multiplies too. */
START_TEST(adapters_see_the_quantized_input)
{
    dt_module *m = adapted(ctx, DT_INT8_DYNAMIC_INT4_WEIGHT), *layer = dt_module_at(m, "layers.0");
    dt_tensor *x, *up, *seen, *w;
    dt_tape *t;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, IN }, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, HIDDEN }, &up));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_fill_normal(up, 0, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *y = dt_forward(t, layer, x);
    TEST_OK(ctx, dt_backward(t, y, up));
    const dt_quant_spec spec = dt_activation_quant_defaults();
    TEST_OK(ctx, dt_dequantize(dt_fake_quant(t, x, &spec, true), &seen));
    TEST_OK(ctx, dt_dequantize(dt_param(m, "layers.0.weight"), &w));
    const float *in = dt_data(seen), *d = dt_data(up), *a = dt_data(dt_param(m, "layers.0.lora_a")),
                *b = dt_data(dt_param(m, "layers.0.lora_b")), *weight = dt_data(w),
                *bias = dt_data(dt_param(m, "layers.0.bias"));
    const float *da = dt_data(dt_grad(dt_param(m, "layers.0.lora_a"))), *out = dt_data(y),
                *db = dt_data(dt_grad(dt_param(m, "layers.0.lora_b"))), *dx = dt_data(dt_grad(x));
    for (int k = 0; k < RANK; k++) {
        for (int c = 0; c < IN; c++) {
            double wanted = 0;
            for (int i = 0; i < ROWS * HIDDEN; i++) {
                const double dh = (double)d[i] * (double)b[i % HIDDEN * RANK + k];
                wanted += 2 * dh * (double)in[i / HIDDEN * IN + c];
            }
            TEST_EACH(test_near((double)da[k * IN + c], wanted, 1e-5, 1e-4), "lora_a");
        }
        for (int h = 0; h < HIDDEN; h++) {
            double wanted = 0;
            for (int i = 0; i < ROWS * IN; i++) {
                wanted +=
                    2 * (double)d[i / IN * HIDDEN + h] * (double)in[i] * (double)a[k * IN + i % IN];
            }
            TEST_EACH(test_near((double)db[h * RANK + k], wanted, 1e-5, 1e-4), "lora_b");
        }
    }
    for (int i = 0; i < ROWS * IN; i++) {
        double wanted = 0;
        for (int h = 0; h < HIDDEN; h++) {
            double v = (double)weight[h * IN + i % IN];
            for (int k = 0; k < RANK; k++) {
                v += 2 * (double)b[h * RANK + k] * (double)a[k * IN + i % IN];
            }
            wanted += v * (double)d[i / IN * HIDDEN + h];
        }
        TEST_EACH(test_near((double)dx[i], wanted, 1e-5, 1e-4), "x");
    }
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        double wanted = (double)bias[i % HIDDEN];
        for (int c = 0; c < IN; c++) {
            double v = (double)weight[i % HIDDEN * IN + c];
            for (int k = 0; k < RANK; k++) {
                v += 2 * (double)b[i % HIDDEN * RANK + k] * (double)a[k * IN + c];
            }
            wanted += v * (double)in[i / HIDDEN * IN + c];
        }
        TEST_EACH(test_near((double)out[i], wanted, 1e-5, 1e-4), "y");
    }
    dt_tensor_free(seen);
    dt_tensor_free(w);
    dt_tensor_free(x);
    dt_tensor_free(up);
    dt_tape_free(t);
    dt_module_free(m);
}
END_TEST

/* ---- training ------------------------------------------------------------------------------- */

/* Updates of the adapters. */
static void train(dt_ctx *c, dt_module *m, dt_optimizer *o, int steps)
{
    dt_tape *t;
    dt_tensor *x, *labels;
    TEST_OK(c, dt_tensor_create(c, DT_F32, 2, (const int64_t[]){ 16, IN }, &x));
    TEST_OK(c, dt_tensor_create(c, DT_I32, 1, (const int64_t[]){ 16 }, &labels));
    int32_t *label = dt_data_mut(labels);
    for (int i = 0; i < 16; i++) label[i] = i % OUT;
    TEST_OK(c, dt_tape_create(c, &t));
    for (int i = 0; i < steps; i++) {
        dt_tape_reset(t);
        TEST_OK(c, dt_fill_normal(x, 0, 1));
        dt_zero_grad(m);
        dt_backward(t, dt_cross_entropy(t, dt_forward(t, m, x), labels, NULL), NULL);
        TEST_OK(c, dt_optimizer_step(o, t, 0.05));
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(labels);
}

static dt_optimizer *optimizer_of(dt_ctx *c, dt_module *m)
{
    dt_optimizer *o;
    const dt_optimizer_options adamw = dt_optimizer_defaults();
    TEST_OK(c, dt_optimizer_create(m, &adamw, &o));
    return o;
}

static bool are_equal(dt_module *a, dt_module *b)
{
    float *x = outputs_of(a, ROWS, IN), *y = outputs_of(b, ROWS, IN);
    const bool equal = memcmp(x, y, ROWS * OUT * sizeof *x) == 0;
    free(x);
    free(y);
    return equal;
}

/* Trained on any number of threads to the same bits; the packed weights do not change. */
START_TEST(threads_change_no_bit)
{
    dt_module *m[2], *untouched = adapted(ctx, DT_INT8_DYNAMIC_INT4_WEIGHT);
    dt_ctx *c[2];
    for (int i = 0; i < 2; i++) {
        dt_ctx_options o = dt_ctx_defaults();
        o.threads = i == 0 ? 1 : 3;
        TEST_OK(NULL, dt_ctx_create(&c[i], &o));
        m[i] = adapted(c[i], DT_INT8_DYNAMIC_INT4_WEIGHT);
        dt_optimizer *optimizer = optimizer_of(c[i], m[i]);
        train(c[i], m[i], optimizer, 4);
        dt_optimizer_free(optimizer);
    }
    same_models(m[0], m[1]);
    ck_assert(!are_equal(m[0], untouched));
    TEST_OK(c[0], dt_lora_merge(m[0]));
    ck_assert(!dt_has_lora(m[0]));
    for (int i = 0; i < 2; i++) {
        dt_module_free(m[i]);
        dt_ctx_free(c[i]);
    }
    dt_module_free(untouched);
}
END_TEST

/* ---- packed while they are read ------------------------------------------------------------- */

static dt_module *float_model(void)
{
    const dt_mlp_options o = options();
    const dt_model_info info = small_info(&o);
    dt_module *m = small_model(ctx, &o);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    return m;
}

/* The codes are those of preparing and converting the float model; a packed file stays as it is. */
START_TEST(reading_packs_as_converting_does)
{
    for (int preset = DT_INT8_DYNAMIC_INT4_WEIGHT; preset <= DT_INT8_DYNAMIC_INT8_WEIGHT;
         preset++) {
        const dt_mlp_options o = options();
        const dt_model_info info = small_info(&o);
        dt_qat_options q = settings(preset);
        q.rules[0] = (dt_qat_rule){ .match = "head", .weight = { .has_bits = true } };
        q.rules[0].weight.quant.bits = 8;
        q.n_rules = 1;
        dt_module *m = float_model(), *packed, *again;
        TEST_OK(ctx, dt_model_load_packed(ctx, path, &q, &packed, NULL));
        TEST_OK(ctx, dt_prepare(m, &q));
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
        same_models(m, packed);
        ck_assert(are_equal(m, packed));
        TEST_OK(ctx, dt_model_save(packed, &info, base_path));
        TEST_FAILS(ctx, DT_ERR_CONFIG, "are integers already",
                   dt_model_load_packed(ctx, base_path, &q, &again, NULL));
        TEST_OK(ctx, dt_model_load_packed(ctx, base_path, NULL, &again, NULL));
        same_models(m, again);
        dt_module_free(again);
        dt_module_free(packed);
        dt_module_free(m);
    }
}
END_TEST

START_TEST(other_settings_are_refused)
{
    dt_module *m = float_model(), *out;
    const dt_mlp_options o = options();
    const dt_model_info info = small_info(&o);
    dt_qat_options q = settings(DT_INT8_STATIC_INT8_WEIGHT);
    TEST_FAILS(ctx, DT_ERR_CONFIG, "follow from data",
               dt_model_load_packed(ctx, path, &q, &out, NULL));
    q = settings(DT_INT4_WEIGHT);
    q.weight.quant.range = DT_RANGE_LEARNED;
    q.weight.has_range = true;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "follow from data",
               dt_model_load_packed(ctx, path, &q, &out, NULL));
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "a prepared model",
               dt_model_load_packed(ctx, path, NULL, &out, NULL));
    dt_module_free(m);
}
END_TEST

/* Floats of one weight at a time: eight equal layers take less than half of their floats. */
START_TEST(reading_holds_one_weight_of_floats)
{
    const int64_t deep[] = { 256, 256, 256, 256, 256, 256, 256, 256, 256, 0 };
    const dt_mlp_options o = small_options(deep, 0, 0);
    const dt_model_info info = small_info(&o);
    dt_module *m = small_model(ctx, &o);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    dt_memory_trim(ctx);
    const size_t before = dt_memory_of(ctx).used, floats = 8 * 256 * 256 * sizeof(float);
    size_t file = memory_of_open_file(ctx, path);
    dt_memory_reset_peak(ctx);
    TEST_OK(ctx, dt_model_load_packed(ctx, path, NULL, &m, NULL));
    size_t peak = dt_memory_of(ctx).peak - before;
    ck_assert_msg(peak < floats / 2 + file, "%zu of %zu", peak, floats);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    dt_memory_trim(ctx);
    file = memory_of_open_file(ctx, path);
    dt_memory_reset_peak(ctx);
    TEST_OK(ctx, dt_model_load(ctx, path, &m, NULL));
    peak = dt_memory_of(ctx).peak - before;
    ck_assert_msg(peak < floats / 2 + file, "%zu of %zu", peak, floats);
    dt_module_free(m);
}
END_TEST

/* ---- language models ------------------------------------------------------------------------- */

static const dt_llama_options tied_llama = {
    .vocab = 48,
    .context = 12,
    .layers = 2,
    .heads = 4,
    .kv_heads = 2,
    .width = 32,
    .hidden = 48,
    .tied = true,
    .theta = 10000,
    .eps = 1e-5,
    .rope = { .factor = 1, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8 },
};

static dt_model_info llama_info(void)
{
    int i = 0;
    while (strcmp(dt_family_at(i)->name, "llama") != 0) i++;
    return (dt_model_info){ .family = dt_family_at(i), .options = &tied_llama };
}

/* Two updates of adapters; the last loss. */
static float train_language(dt_ctx *c, dt_module *m)
{
    dt_tape *t;
    dt_tensor *x, *labels;
    float last = 0;
    dt_optimizer *o = optimizer_of(c, m);
    TEST_OK(c, dt_tensor_create(c, DT_I32, 2, (const int64_t[]){ 3, 12 }, &x));
    TEST_OK(c, dt_tensor_create(c, DT_I32, 2, (const int64_t[]){ 3, 12 }, &labels));
    int32_t *in = dt_data_mut(x), *out = dt_data_mut(labels);
    for (int i = 0; i < 36; i++) {
        in[i] = i * 7 % 48;
        out[i] = (i + 1) * 7 % 48;
    }
    TEST_OK(c, dt_tape_create(c, &t));
    for (int i = 0; i < 3; i++) {
        dt_tape_reset(t);
        dt_zero_grad(m);
        dt_tensor *loss = dt_token_loss(t, m, x, labels, NULL, NULL);
        TEST_OK(c, dt_backward(t, loss, NULL));
        last = *(const float *)dt_data(loss);
        TEST_OK(c, dt_optimizer_step(o, t, 0.02));
    }
    dt_optimizer_free(o);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    return last;
}

/* The tied table is packed by its rule, once; attention and mlp run their joint products with
 * adapters. Neither threads nor activation checkpointing change a bit. */
START_TEST(language_models_have_adapters)
{
    const dt_model_info info = llama_info();
    dt_qat_options q = settings(DT_INT8_DYNAMIC_INT4_WEIGHT);
    q.rules[0] = (dt_qat_rule){ .match = "lm_head", .weight = { .has_bits = true } };
    q.rules[0].weight.quant.bits = 8;
    q.n_rules = 1;
    dt_module *m, *packed[3];
    dt_ctx *c[3];
    float loss[3];
    TEST_OK(ctx, dt_llama_create(ctx, &tied_llama, &m));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_prepare(m, &q));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    for (int i = 0; i < 3; i++) {
        dt_lora_options lora = dt_lora_defaults();
        dt_ctx_options o = dt_ctx_defaults();
        o.threads = i == 1 ? 3 : 1;
        lora.rank = RANK;
        lora.alpha = 5;
        TEST_OK(NULL, dt_ctx_create(&c[i], &o));
        TEST_OK(c[i], dt_model_load_packed(c[i], path, &q, &packed[i], NULL));
        if (i == 0) same_models(m, packed[0]);
        TEST_OK(c[i], dt_lora_add(packed[i], &lora));
        if (i == 2) ck_assert_int_gt(dt_recompute(packed[i], true), 0);
        loss[i] = train_language(c[i], packed[i]);
        ck_assert(loss[i] == loss[0]);
    }
    same_models(packed[0], packed[1]);
    same_models(packed[0], packed[2]);
    for (int i = 0; i < 3; i++) {
        dt_module_free(packed[i]);
        dt_ctx_free(c[i]);
    }
    dt_module_free(m);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static size_t size_of(const char *file)
{
    size_t n;
    free(test_read_file(file, &n));
    return n;
}

/* A model with adapters over the file base.safetensors, which is written, and how to save them. */
static dt_module *over_base(char text[256], dt_model_info *info, const dt_mlp_options *o)
{
    const dt_qat_options q = settings(DT_INT8_DYNAMIC_INT4_WEIGHT);
    dt_lora_options lora = dt_lora_defaults();
    dt_model_info loaded;
    dt_module *m = small_model(ctx, o);
    *info = small_info(o);
    TEST_OK(ctx, dt_prepare(m, &q));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, info, base_path));
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, base_path, &m, &loaded));
    snprintf(text, 256, "{\"path\": \"base.safetensors\", \"xxh3\": \"%s\"}", loaded.hash);
    info->base = text;
    dt_model_info_free(ctx, &loaded);
    lora.rank = RANK;
    TEST_OK(ctx, dt_lora_add(m, &lora));
    TEST_OK(ctx, dt_fill_normal(dt_param(m, "layers.0.lora_b"), 0, 0.1));
    return m;
}

START_TEST(files_hold_adapters_alone)
{
    char text[256], inner[TEST_PATH];
    dt_model_info info, loaded;
    const dt_mlp_options o = options();
    dt_module *m = over_base(text, &info, &o), *again;
    dt_file *f;
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    ck_assert_int_eq(dt_file_count(f), 2);
    TEST_OK(ctx, dt_model_check(f));
    dt_file_close(f);
    TEST_OK(ctx, dt_model_load(ctx, path, &again, &loaded));
    same_models(m, again);
    ck_assert(are_equal(m, again));
    ck_assert_str_eq(loaded.base, text);
    ck_assert_int_eq(dt_trained_count(again), RANK * (IN + HIDDEN));
    dt_module_free(again);
    dt_model_info_free(ctx, &loaded);
    test_join(inner, folder, "a");
    ck_assert_int_eq(test_shell(NULL, "mkdir -p '%s/b'", inner), 0);
    test_join(inner, inner, "b/step.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, inner));
    TEST_OK(ctx, dt_model_load(ctx, inner, &again, NULL)); /* found two folders above */
    same_models(m, again);
    dt_module_free(again);
    info.base = NULL; /* the whole model in one file */
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_model_load(ctx, path, &again, NULL));
    same_models(m, again);
    ck_assert(are_equal(m, again));
    dt_module_free(again);
    dt_module_free(m);
}
END_TEST

/* What is exported is used elsewhere, where no base is. */
START_TEST(exports_are_whole)
{
    static const char *const formats[] = { "experts", "stacked" };
    char text[256], away[TEST_PATH], to[TEST_PATH];
    dt_model_info info;
    const dt_mlp_options o = options();
    const dt_export_options how = dt_export_defaults();
    dt_module *m = over_base(text, &info, &o), *again;
    test_folder(away);
    test_join(to, away, formats[_i]);
    TEST_OK(ctx, dt_export(m, &info, formats[_i], &how, to, NULL));
    TEST_OK(ctx, dt_model_load(ctx, to, &again, NULL));
    same_models(m, again);
    ck_assert(are_equal(m, again));
    dt_module_free(again);
    dt_module_free(m);
}
END_TEST

/* A copy of the file with another detent.base, or without a tensor. */
static void rewrite(const char *text, const char *without)
{
    dt_file *f;
    dt_writer *w;
    const char *key, *value;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        TEST_OK(ctx, dt_writer_meta(w, key, strcmp(key, "detent.base") == 0 ? text : value));
    }
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        const dt_file_entry *e = dt_file_at(f, i);
        if (without == NULL || strcmp(e->name, without) != 0) {
            TEST_OK(ctx, dt_writer_add_bytes(w, e));
        }
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

START_TEST(another_base_is_refused)
{
    char text[256], other[256];
    dt_model_info info;
    const dt_mlp_options o = options();
    dt_module *m = over_base(text, &info, &o), *out;
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "merge it first", dt_model_load_weights(m, path));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "it holds adapters, not the weights",
               dt_model_load_packed(ctx, path, NULL, &out, NULL));
    rewrite(text, "layers.0.lora_b");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "its adapter is not in the file",
               dt_model_load(ctx, path, &out, NULL));
    static const char *const bad[][2] = {
        { "{\"path\": \"\", \"xxh3\": \"0\"}", "path and xxh3 must be there" },
        { "{\"path\": \"base.safetensors\"}", "xxh3" },
        { "[]", "detent.base" },
        { "{\"path\": \"base.safetensors\", \"xxh3\": \"0\"} 1", "detent.base" },
        { "{\"path\": \"base.safetensors\", \"xxh3\": \"0\"}", "over another base" },
        { "{\"path\": \"adapters.safetensors\", \"xxh3\": \"0\"}", "holds adapters itself" },
    };
    TEST_OK(ctx, dt_model_save(m, &info, path));
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        rewrite(bad[i][0], NULL);
        TEST_FAILS(ctx, DT_ERR_FORMAT, bad[i][1], dt_model_load(ctx, path, &out, NULL));
    }
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module *next = over_base(other, &info, &o); /* writes another base.safetensors */
    TEST_FAILS(ctx, DT_ERR_FORMAT, "trained over another base",
               dt_model_load(ctx, path, &out, NULL));
    ck_assert_int_eq(remove(base_path), 0);
    TEST_FAILS(ctx, DT_ERR_IO, "base.safetensors', which is not there, nor in a folder above",
               dt_model_load(ctx, path, &out, NULL));
    dt_module_free(next);
    dt_module_free(m);
}
END_TEST

/* Checkpoints hold adapters and their optimizer state; going on from one changes no bit. */
START_TEST(checkpoints_go_on)
{
    char text[256], other[256];
    dt_model_info info;
    const dt_mlp_options o = options();
    dt_module *m = over_base(text, &info, &o), *again;
    dt_optimizer *optimizer = optimizer_of(ctx, m);
    dt_training_state state = { .module = m, .info = info, .optimizer = optimizer };
    train(ctx, m, optimizer, 2);
    TEST_OK(ctx, dt_checkpoint_save(&state, path));
    train(ctx, m, optimizer, 3);
    ck_assert_uint_lt(size_of(path), 4 * 4 * RANK * (IN + HIDDEN) + 4096);
    TEST_OK(ctx, dt_model_load(ctx, path, &again, NULL));
    dt_optimizer *anew = optimizer_of(ctx, again);
    dt_training_state resumed = { .module = again, .info = info, .optimizer = anew };
    TEST_OK(ctx, dt_checkpoint_load(&resumed, path));
    train(ctx, again, anew, 3);
    same_models(m, again);
    snprintf(other, sizeof other, "{\"path\": \"base.safetensors\", \"xxh3\": \"%016d\"}", 0);
    resumed.info.base = other;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "over another base", dt_checkpoint_load(&resumed, path));
    resumed.info.base = NULL;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "over another base", dt_checkpoint_load(&resumed, path));
    dt_optimizer_free(optimizer);
    dt_optimizer_free(anew);
    dt_module_free(m);
    dt_module_free(again);
}
END_TEST

/* ---- merging -------------------------------------------------------------------------------- */

/* W^ + s B A rounded to nearest in groups of its own: an error of half a step of the group. */
START_TEST(merging_rounds_anew)
{
    dt_module *m = adapted(ctx, DT_INT8_DYNAMIC_INT4_WEIGHT);
    dt_tensor *w, *merged;
    TEST_OK(ctx, dt_dequantize(dt_param(m, "layers.0.weight"), &w));
    float *sum = dt_data_mut(w);
    const float *a = dt_data(dt_param(m, "layers.0.lora_a")),
                *b = dt_data(dt_param(m, "layers.0.lora_b"));
    for (int i = 0; i < HIDDEN * IN; i++) {
        for (int k = 0; k < RANK; k++) sum[i] += 2 * b[i / IN * RANK + k] * a[k * IN + i % IN];
    }
    TEST_OK(ctx, dt_lora_merge(m));
    ck_assert(!dt_has_lora(m) && dt_is_packed(dt_param(m, "layers.0.weight")));
    TEST_OK(ctx, dt_dequantize(dt_param(m, "layers.0.weight"), &merged));
    const float *got = dt_data(merged);
    for (int g = 0; g < HIDDEN * IN / 8; g++) {
        double most = 0;
        for (int i = 0; i < 8; i++) most = fmax(most, fabs((double)sum[8 * g + i]));
        for (int i = 0; i < 8; i++) {
            const double error = fabs((double)got[8 * g + i] - (double)sum[8 * g + i]);
            TEST_EACH(error <= most / 14 * 1.001, "%g of %g", error, most);
        }
    }
    TEST_FAILS(ctx, DT_ERR_STATE, "no adapter", dt_lora_merge(m));
    dt_tensor_free(w);
    dt_tensor_free(merged);
    dt_module_free(m);
}
END_TEST

START_TEST(heads_and_second_adapters_are_refused)
{
    dt_module *m = adapted(ctx, DT_INT4_WEIGHT);
    dt_lora_options o = dt_lora_defaults();
    o.rank = 2;
    TEST_FAILS(ctx, DT_ERR_STATE, "has an adapter already", dt_lora_add(m, &o));
    o.match = (dt_strings){ 1, { "head" } };
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "a packed head can have none", dt_lora_add(m, &o));
    dt_module_free(m);
}
END_TEST

static dt_status whole_life(dt_ctx *c, void *user)
{
    const dt_lora_options o = { .rank = 2 };
    const char *file = user;
    dt_module *m = NULL;
    dt_status s = dt_model_load_packed(c, file, NULL, &m, NULL);
    if (s == DT_OK) s = dt_lora_add(m, &o);
    if (s == DT_OK) s = dt_lora_merge(m);
    dt_module_free(m);
    return s;
}

START_TEST(memory_that_fails_leaves_nothing)
{
    dt_module_free(float_model());
    test_every_allocation(whole_life, path);
}
END_TEST

Suite *test_packed_lora_suite(void);
Suite *test_packed_lora_suite(void)
{
    Suite *s = suite_create("packed_lora");
    TCase *c = tcase_create("packed_lora");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, gradients_are_those_in_double);
    tcase_add_test(c, adapters_see_the_quantized_input);
    tcase_add_test(c, threads_change_no_bit);
    tcase_add_test(c, reading_packs_as_converting_does);
    tcase_add_test(c, other_settings_are_refused);
    tcase_add_test(c, reading_holds_one_weight_of_floats);
    tcase_add_test(c, language_models_have_adapters);
    tcase_add_test(c, files_hold_adapters_alone);
    tcase_add_loop_test(c, exports_are_whole, 0, 2);
    tcase_add_test(c, another_base_is_refused);
    tcase_add_test(c, checkpoints_go_on);
    tcase_add_test(c, merging_rounds_anew);
    tcase_add_test(c, heads_and_second_adapters_are_refused);
    tcase_add_test(c, memory_that_fails_leaves_nothing);
    suite_add_tcase(s, c);
    return s;
}
