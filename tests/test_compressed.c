/* Folders of integers for transformers: format compressed-tensors and torchao, decoded by code of
 * the tests, and compressed-tensors read again: the same bits, values for training, its scales
 * after prepare; settings that are refused, damaged folders. */
#include "models.h"
#include "testing.h"

#include "io/model/model.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

#include <detent/experimental/export.h>
#include <detent/experimental/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define VOCAB 40
#define CONTEXT 12

static const dt_llama_options sizes = { .vocab = VOCAB,
                                        .context = CONTEXT,
                                        .layers = 1,
                                        .heads = 4,
                                        .width = 64,
                                        .hidden = 96,
                                        .kv_heads = 2,
                                        .tied = true,
                                        .theta = 1e4,
                                        .eps = 1e-5,
                                        .rope = { 0, 1, 1, 4, 8192 } };

/* How the weights are quantized. */
static const struct scheme {
    const char *name;
    int preset, scheme;
    int64_t bits, group; /* group 0: a channel; -1: a tensor */
    bool head_apart;     /* the head has 8 bits of its own */
} schemes[] = {
    { "8da4w", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_SCHEME_SYMMETRIC, 4, 32, false },
    { "8da4w, 8-bit head", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_SCHEME_SYMMETRIC, 4, 32, true },
    { "8da8w", DT_INT8_DYNAMIC_INT8_WEIGHT, DT_SCHEME_SYMMETRIC, 8, 0, false },
    { "8da8w, groups", DT_INT8_DYNAMIC_INT8_WEIGHT, DT_SCHEME_SYMMETRIC_NO_CLIP, 8, 16, false },
    { "int3", DT_INT4_WEIGHT, DT_SCHEME_SYMMETRIC, 3, 32, false },
    { "zero points", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_SCHEME_ASYMMETRIC, 4, 32, false },
    { "q4_0", DT_INT4_WEIGHT, DT_SCHEME_Q4_0, 4, 32, false },
    { "a tensor", DT_INT4_WEIGHT, DT_SCHEME_SYMMETRIC, 8, -1, false },
    { "mxfp4", DT_INT4_WEIGHT, DT_SCHEME_MXFP4, 4, 32, false },
    { "mxfp4_up, 8-bit head", DT_INT4_WEIGHT, DT_SCHEME_MXFP4_UP, 4, 32, true },
    { "nvfp4", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_SCHEME_NVFP4, 4, 16, false },
    { "mxfp8", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_SCHEME_MXFP8, 8, 32, false },
    { "mxfp8_up", DT_INT4_WEIGHT, DT_SCHEME_MXFP8_UP, 8, 32, false },
    { "nvfp4 both", DT_NVFP4_NVFP4, DT_SCHEME_NVFP4, 4, 16, false },
    { "mxfp4 both", DT_MXFP4_MXFP4, DT_SCHEME_MXFP4_NEAR, 4, 32, false },
    { "mxfp8 both", DT_MXFP8_MXFP8, DT_SCHEME_MXFP8_NEAR, 8, 32, false },
    { "mxfp8 by mxfp4", DT_MXFP8_MXFP4, DT_SCHEME_MXFP4_NEAR, 4, 32, false },
    { "mxfp6", DT_INT4_WEIGHT, DT_SCHEME_MXFP6, 6, 32, false },
    { "mxfp8 by mxfp6", DT_MXFP8_MXFP4, DT_SCHEME_MXFP6, 6, 32, false },
};

enum {
    ZEROS = 5,
    MXFP4 = 8,
    MXFP4_UP,
    NVFP4,
    MXFP8,
    MXFP8_UP,
    NVFP4_BOTH,
    MXFP4_BOTH
}; /* of schemes */

#define SCHEMES ((int)(sizeof schemes / sizeof schemes[0]))

typedef struct made {
    dt_ctx *ctx;
    dt_module *m;
    dt_llama_options o;
    dt_model_info info;
    char folder[TEST_PATH], path[TEST_PATH];
} made;

static dt_qat_options qat_of(const struct scheme *s)
{
    dt_qat_options q = dt_qat_defaults();
    q.preset = s->preset;
    q.weight.quant.scheme = s->scheme;
    q.weight.quant.bits = s->bits;
    q.weight.quant.granularity = s->group > 0    ? DT_PER_GROUP
                                 : s->group == 0 ? DT_PER_CHANNEL
                                                 : DT_PER_TENSOR;
    q.weight.quant.group_size = s->group;
    q.weight.has_scheme = q.weight.has_bits = q.weight.has_granularity = true;
    q.weight.has_group_size = s->group > 0;
    if (!s->head_apart) return q;
    q.rules[0] = (dt_qat_rule){ .match = "lm_head" };
    q.rules[0].weight.quant.bits = 8;
    q.rules[0].weight.has_bits = true;
    q.rules[0].weight.quant.scheme = DT_SCHEME_SYMMETRIC;
    q.rules[0].weight.has_scheme = true;
    q.n_rules = 1;
    return q;
}

static void make_float(made *t)
{
    *t = (made){ .o = sizes };
    test_folder(t->folder);
    test_join(t->path, t->folder, "out");
    TEST_OK(NULL, dt_ctx_create(&t->ctx, NULL));
    dt_seed(t->ctx, 5);
    t->info = (dt_model_info){ .family = dt_family_named(t->ctx, "llama"), .options = &t->o };
    TEST_OK(t->ctx, dt_llama_create(t->ctx, &t->o, &t->m));
}

static dt_tensor *ids_of(dt_ctx *ctx)
{
    dt_tensor *ids;
    int32_t id[2 * CONTEXT];
    for (int i = 0; i < 2 * CONTEXT; i++) id[i] = i * 7 % VOCAB;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, (const int64_t[]){ 2, CONTEXT }, id, &ids));
    return ids;
}

/* Static ranges of inputs, where there are any, see a batch. */
static void observe(dt_module *m)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *tape;
    if (!dt_is_observed(m)) return;
    dt_tensor *ids = ids_of(ctx);
    TEST_OK(ctx, dt_tape_create(ctx, &tape));
    TEST_OK(ctx, dt_observe(m, true));
    dt_train(m, false);
    dt_forward(tape, m, ids);
    TEST_OK(ctx, dt_tape_status(tape));
    TEST_OK(ctx, dt_observe(m, false));
    dt_tape_free(tape);
    dt_tensor_free(ids);
}

static void make(made *t, const struct scheme *s)
{
    make_float(t);
    const dt_qat_options q = qat_of(s);
    TEST_OK(t->ctx, dt_prepare(t->m, &q));
    observe(t->m);
    TEST_OK(t->ctx, dt_convert(t->m, NULL, NULL));
}

static void drop(made *t)
{
    dt_module_free(t->m);
    ck_assert_uint_eq(dt_memory_of(t->ctx).used, 0);
    dt_ctx_free(t->ctx);
}

static dt_status export_as(made *t, const char *format)
{
    return dt_export(t->m, &t->info, format, NULL, t->path, NULL);
}

/* Logits in evaluation, malloc'ed. */
static float *logits_of(dt_module *m, int64_t *n)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *tape;
    dt_tensor *ids = ids_of(ctx), *y;
    TEST_OK(ctx, dt_tape_create(ctx, &tape));
    dt_train(m, false);
    y = dt_forward(tape, m, ids);
    TEST_OK(ctx, dt_tape_status(tape));
    *n = dt_count(y);
    float *out = malloc((size_t)*n * sizeof *out);
    ck_assert(out != NULL);
    memcpy(out, dt_data(y), (size_t)*n * sizeof *out);
    dt_tape_free(tape);
    dt_tensor_free(ids);
    return out;
}

static void same_logits(dt_module *a, dt_module *b)
{
    int64_t n, m;
    float *x = logits_of(a, &n), *y = logits_of(b, &m);
    ck_assert_int_eq(n, m);
    ck_assert(memcmp(x, y, (size_t)n * sizeof *x) == 0);
    free(x);
    free(y);
}

/* ---- what is written ------------------------------------------------------------------------ */

static const char *const layers[] = {
    "lm_head",
    "model.layers.0.self_attn.q_proj",
    "model.layers.0.self_attn.k_proj",
    "model.layers.0.self_attn.v_proj",
    "model.layers.0.self_attn.o_proj",
    "model.layers.0.mlp.gate_proj",
    "model.layers.0.mlp.up_proj",
    "model.layers.0.mlp.down_proj",
};

#define LAYERS ((int)(sizeof layers / sizeof layers[0]))

static const dt_file_entry *entry(const dt_file *f, const char *layer, const char *part,
                                  const char *dtype)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", layer, part);
    const dt_file_entry *e = dt_file_find(f, name);
    ck_assert_msg(e != NULL && strcmp(e->dtype, dtype) == 0, "%s is not of %s", name, dtype);
    return e;
}

static float scale_of(const dt_file_entry *e, int64_t i)
{
    float x;
    memcpy(&x, (const char *)e->data + 4 * i, sizeof x);
    return x;
}

/* Code k of row r: bits of a row from the lowest of the first word on. */
static int packed_code(const dt_file_entry *e, int bits, int64_t r, int64_t k)
{
    int code = 0;
    const unsigned char *row = (const unsigned char *)e->data + r * e->dims[1] * 4;
    for (int b = 0; b < bits; b++) {
        const int64_t at = k * bits + b;
        uint32_t word;
        memcpy(&word, row + at / 32 * 4, sizeof word);
        code |= (int)(word >> (at % 32) & 1) << b;
    }
    return code - (1 << (bits - 1));
}

typedef struct decoded {
    const dt_file_entry *codes, *scale, *zero, *global;
    int bits;
    bool packed, real; /* real: FP4 in blocks */
} decoded;

/* A value of E2M1 with the scale of its block: 2^(E - 127), or E4M3 over that of the tensor. */
static float real_value(const decoded *d, int64_t i, int64_t g)
{
    static const float size[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    const bool bytes = strcmp(d->codes->dtype, "F8_E4M3") == 0;
    if (d->bits == 6) { /* four codes in three bytes */
        const uint8_t *at = (const uint8_t *)d->codes->data + i / 4 * 3;
        const int x = (at[0] | at[1] << 8 | at[2] << 16) >> (int)(i % 4) * 6 & 63;
        const int of = (x >> 3 & 3) == 0 ? x & 7 : 8 + (x & 7),
                  up = (x >> 3 & 3) == 0 ? 1 : x >> 3 & 3;
        const int exponent_of = ((const uint8_t *)d->scale->data)[g] - 127;
        return (float)ldexp(x < 32 ? of : -of, up - 4 + exponent_of);
    }
    const uint8_t byte = ((const uint8_t *)d->codes->data)[bytes ? i : i / 2];
    const int code = byte >> (i % 2 * 4) & 15;
    const int e = ((const uint8_t *)d->scale->data)[g], exponent = e >> 3, m = e & 7;
    float scale = ldexpf(1, e - 127);
    if (bytes) {
        const int x = byte >> 3 & 15, of = x == 0 ? byte & 7 : 8 + (byte & 7);
        return (float)ldexp(byte < 128 ? of : -of, (x == 0 ? -9 : x - 10) + e - 127);
    }
    if (d->global != NULL) {
        const double of = exponent == 0 ? ldexp(m, -9) : ldexp(8 + m, exponent - 10);
        scale = (float)of / scale_of(d->global, 0);
    }
    return (code < 8 ? size[code] : -size[code - 8]) * scale;
}

static void check_weight(made *t, const char *layer, const decoded *d)
{
    char path[128];
    dt_tensor *dense;
    snprintf(path, sizeof path, "%s.weight", layer);
    dt_tensor *x = dt_param(t->m, path);
    TEST_OK(t->ctx, dt_dequantize(x, &dense));
    const float *want = dt_data(dense);
    const int64_t rows = dt_dim(x, 0), columns = dt_dim(x, 1);
    const bool whole = d->scale->rank == 1; /* one scale for all */
    const int64_t groups = whole ? 1 : d->scale->dims[1];
    ck_assert_int_eq(d->scale->dims[0], whole ? 1 : rows);
    for (int64_t i = 0; i < rows * columns; i++) {
        const int64_t r = i / columns, k = i % columns;
        const int64_t g = whole ? 0 : r * groups + k / (columns / groups);
        if (d->real) {
            const float value = real_value(d, i, g);
            TEST_EACH(value == want[i], "%s: element %lld is %g, not %g", path, (long long)i,
                      (double)value, (double)want[i]);
            continue;
        }
        const int code =
            d->packed ? packed_code(d->codes, d->bits, r, k) : ((const int8_t *)d->codes->data)[i];
        const int zero = d->zero == NULL ? 0 : ((const int8_t *)d->zero->data)[g];
        const float value = (float)(code - zero) * scale_of(d->scale, g);
        TEST_EACH(value == want[i], "%s: element %lld is %g, not %g", path, (long long)i,
                  (double)value, (double)want[i]);
    }
    dt_tensor_free(dense);
}

static bool is_real(const struct scheme *s, int layer)
{
    return s >= &schemes[MXFP4] && !(s->head_apart && layer == 0);
}

static int bits_of(const struct scheme *s, int layer)
{
    return s->head_apart && layer == 0 ? 8 : (int)s->bits;
}

/* The embedding has its values in the folder, untied, since the head is integers. */
static void check_embedding(made *t, const dt_file *f)
{
    dt_tensor *dense;
    const dt_file_entry *e = entry(f, "model.embed_tokens", ".weight", "F32");
    TEST_OK(t->ctx, dt_dequantize(dt_param(t->m, "model.embed_tokens.weight"), &dense));
    ck_assert_uint_eq(e->bytes, (size_t)dt_count(dense) * 4);
    ck_assert(memcmp(e->data, dt_data(dense), e->bytes) == 0);
    dt_tensor_free(dense);
}

static dt_file *open_tensors(made *t)
{
    char path[TEST_PATH];
    dt_file *f;
    test_join(path, t->path, "model.safetensors");
    TEST_OK(t->ctx, dt_file_open(t->ctx, path, &f));
    check_embedding(t, f);
    return f;
}

static void config_says(made *t, const char *text, bool wanted)
{
    char path[TEST_PATH];
    test_join(path, t->path, "config.json");
    char *config = test_read_file(path, NULL);
    ck_assert_msg((strstr(config, text) != NULL) == wanted, "%s: %s", text, config);
    free(config);
}

/* The scale of the tensor of inputs in NVFP4 is that of the layer. */
static void check_input(made *t, const dt_file *f, const char *layer, int preset)
{
    char name[128];
    float global;
    snprintf(name, sizeof name, "%s.input_global_scale", layer);
    const dt_file_entry *e = dt_file_find(f, name);
    ck_assert((e != NULL) == (preset == DT_NVFP4_NVFP4));
    if (e == NULL) return;
    ck_assert(e->count == 1 && strcmp(e->dtype, "F32") == 0);
    memcpy(&global, e->data, sizeof global);
    const dt__quantizer *q = dt__quantizer_of(dt__quantizer_at(dt_module_at(t->m, layer), "input"));
    ck_assert(global == *(const float *)dt_data(q->scale));
}

START_TEST(compressed_tensors_hold_the_weights)
{
    made t;
    const struct scheme *s = &schemes[_i];
    const bool packed = s->scheme != DT_SCHEME_ASYMMETRIC;
    make(&t, s);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    dt_file *f = open_tensors(&t);
    for (int i = 0; i < LAYERS; i++) {
        decoded d = { .bits = bits_of(s, i), .packed = packed, .real = is_real(s, i) };
        if (d.real) {
            const bool tensor = s->scheme == DT_SCHEME_NVFP4, bytes = s->bits == 8;
            if (s->bits == 6) d.bits = 6;
            d.codes = bytes ? entry(f, layers[i], ".weight", "F8_E4M3")
                            : entry(f, layers[i], ".weight_packed", "U8");
            d.scale = entry(f, layers[i], ".weight_scale", tensor ? "F8_E4M3" : "U8");
            if (tensor) d.global = entry(f, layers[i], ".weight_global_scale", "F32");
            check_weight(&t, layers[i], &d);
            check_input(&t, f, layers[i], s->preset);
            continue;
        }
        d.codes = packed ? entry(f, layers[i], ".weight_packed", "I32")
                         : entry(f, layers[i], ".weight", "I8");
        d.scale = entry(f, layers[i], ".weight_scale", "F32");
        if (!packed) d.zero = entry(f, layers[i], ".weight_zero_point", "I8");
        if (packed) {
            const int64_t *shape = entry(f, layers[i], ".weight_shape", "I64")->data;
            int64_t extents[2];
            memcpy(extents, shape, sizeof extents);
            ck_assert_int_eq(d.codes->dims[1], (extents[1] * d.bits + 31) / 32);
        }
        check_weight(&t, layers[i], &d);
    }
    config_says(&t,
                s->scheme == DT_SCHEME_NVFP4    ? "\"nvfp4-pack-quantized\""
                : s->bits == 6                  ? "\"mxfp6-pack-quantized\""
                : is_real(s, 1) && s->bits == 8 ? "\"mxfp8-quantized\""
                : is_real(s, 1)                 ? "\"mxfp4-pack-quantized\""
                : packed                        ? "\"pack-quantized\""
                                                : "\"int-quantized\"",
                true);
    config_says(&t, "\"tie_word_embeddings\": false", true);
    config_says(&t, "\"group_1\"", s->head_apart);
    config_says(&t, "\"Linear\"", !s->head_apart);
    config_says(&t, "\"input_activations\": null", s->preset == DT_INT4_WEIGHT);
    dt_file_close(f);
    drop(&t);
}
END_TEST

START_TEST(torchao_holds_the_weights)
{
    made t;
    const struct scheme *s = &schemes[_i];
    make(&t, s);
    TEST_OK(t.ctx, export_as(&t, "torchao"));
    dt_file *f = open_tensors(&t);
    const char *names = dt_file_meta(f, "tensor_names");
    ck_assert(names != NULL && strstr(names, "\"model.norm.weight\"") != NULL);
    for (int i = 0; i < LAYERS; i++) {
        char path[128], type[32];
        decoded d = { .codes = entry(f, layers[i], "._weight_qdata", "I8"),
                      .scale = entry(f, layers[i], "._weight_scale", "F32"),
                      .zero = entry(f, layers[i], "._weight_zero_point", "I8") };
        check_weight(&t, layers[i], &d);
        snprintf(path, sizeof path, "%s.weight", layers[i]);
        snprintf(type, sizeof type, "\"int%d\"", is_real(s, i) ? 5 : bits_of(s, i));
        const char *about = dt_file_meta(f, path);
        ck_assert(about != NULL && strstr(about, type) != NULL && strstr(names, path) != NULL);
        const bool weight_only = strstr(about, "\"activation_quantization\": null") != NULL;
        ck_assert(weight_only == (s->preset == DT_INT4_WEIGHT));
    }
    config_says(&t, "\"quant_method\": \"torchao\"", true);
    dt_file_close(f);
    drop(&t);
}
END_TEST

/* ---- what is read --------------------------------------------------------------------------- */

START_TEST(folders_have_the_model_s_bits)
{
    made t;
    dt_module *m;
    dt_model_info info;
    make(&t, &schemes[_i]);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    TEST_OK(t.ctx, dt_hf_load(t.ctx, t.path, &m, &info));
    ck_assert(dt_is_converted(m) && !((const dt_llama_options *)info.options)->tied);
    same_logits(t.m, m);
    char again[TEST_PATH];
    test_join(again, t.folder, "floats"); /* values of the integers, in a config without them */
    TEST_OK(t.ctx, dt_hf_save(m, &info, NULL, again));
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    snprintf(t.path, sizeof t.path, "%s", again);
    config_says(&t, "quantization_config", false);
    TEST_OK(t.ctx, dt_hf_load(t.ctx, again, &m, &info));
    ck_assert(!dt_is_converted(m));
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    drop(&t);
}
END_TEST

/* Blocks of scheme q4_0 whose largest value is negative have a positive scale, and blocks of zeros
 * have scale -0: a layer with only such blocks is still q4_0 after its folder is read. */
START_TEST(blocks_of_zeros_are_q4_0)
{
    made t;
    dt_module *m;
    dt_model_info info;
    const dt_qat_options q = qat_of(&schemes[6]);
    make_float(&t);
    dt_tensor *w = dt_param(t.m, "model.layers.0.mlp.up_proj.weight");
    float *x = dt_data_mut(w);
    for (int64_t i = 0; i < dt_count(w); i++) x[i] = i < 32 ? 0 : -fabsf(x[i]);
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_OK(t.ctx, dt_convert(t.m, NULL, NULL));
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    TEST_OK(t.ctx, dt_hf_load(t.ctx, t.path, &m, &info));
    for (int i = 0; i < LAYERS; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s.weight", layers[i]);
        const dt_quant_spec *spec = dt__quant_of(dt_param(m, path));
        ck_assert_msg(spec->scheme == DT_SCHEME_Q4_0, "%s has scheme %d", path, (int)spec->scheme);
    }
    same_logits(t.m, m);
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    drop(&t);
}
END_TEST

/* An expert's codes of `a` dequantize to the floats of `b`. */
static void same_values(dt_module *a, dt_module *b, const char *path)
{
    dt_tensor *x;
    const dt_tensor *y = dt_param(b, path);
    ck_assert(dt_is_packed(dt_param(a, path)) && !dt_is_packed(y));
    TEST_OK(dt_module_ctx(a), dt_dequantize(dt_param(a, path), &x));
    ck_assert_int_eq(dt_count(x), dt_count(y));
    ck_assert_msg(memcmp(dt_data(x), dt_data(y), (size_t)dt_count(x) * sizeof(float)) == 0, "%s",
                  path);
    dt_tensor_free(x);
}

/* Experts are integers in the folder, and values when it is read; other layers stay integers. */
START_TEST(experts_are_integers)
{
    static const char *const names[] = { "moe.w_gate.weight", "moe.w_up.weight",
                                         "moe.w_down.weight" };
    made t;
    dt_file *f;
    dt_module *m;
    dt_model_info info;
    const struct scheme *s = &schemes[_i < ZEROS ? _i : _i + 1]; /* those without zero points */
    const dt_qat_options q = qat_of(s);
    make_float(&t);
    dt_module_free(t.m);
    t.o.moe = (dt_moe_options){ true, 3, 2, true, 0.01, 0 };
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &t.m));
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_OK(t.ctx, dt_export_check(t.m, &t.info, "compressed-tensors"));
    observe(t.m);
    TEST_OK(t.ctx, dt_convert(t.m, NULL, NULL));
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    char path[TEST_PATH];
    test_join(path, t.path, "model.safetensors");
    TEST_OK(t.ctx, dt_file_open(t.ctx, path, &f));
    const bool bytes = is_real(s, 1) && s->bits == 8;
    snprintf(path, sizeof path, "model.layers.0.block_sparse_moe.experts.2.w1.weight%s",
             bytes ? "" : "_packed");
    const dt_file_entry *e = dt_file_find(f, path);
    const char *dtype = bytes ? "F8_E4M3" : is_real(s, 1) ? "U8" : "I32";
    ck_assert(e != NULL && strcmp(e->dtype, dtype) == 0);
    ck_assert_uint_eq(e->bytes, (size_t)(t.o.hidden * t.o.width * s->bits / 8));
    dt_file_close(f);
    TEST_OK(t.ctx, dt_hf_load(t.ctx, t.path, &m, &info));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "model.layers.0.%s", names[i]);
        same_values(t.m, m, path);
    }
    ck_assert(dt_is_packed(dt_param(m, "model.layers.0.self_attn.q_proj.weight")));
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    drop(&t);
}
END_TEST

/* A float model gets the dequantized values; prepared with static ranges it has the folder's
 * codes. */
START_TEST(training_begins_with_the_folder)
{
    made t;
    dt_module *m;
    int64_t taken, all, n;
    const struct scheme *s = &schemes[_i];
    dt_qat_options q = qat_of(s);
    make(&t, s);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    t.o.tied = false;
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &m));
    TEST_OK(t.ctx, dt_model_load_weights(m, t.path));
    ck_assert(!dt_is_converted(m) && !dt_is_prepared(m));
    dt_tensor *dense;
    TEST_OK(t.ctx, dt_dequantize(dt_param(t.m, "lm_head.weight"), &dense));
    n = dt_count(dense);
    ck_assert(memcmp(dt_data(dense), dt_data(dt_param(m, "lm_head.weight")), (size_t)n * 4) == 0);
    dt_tensor_free(dense);
    q.weight.quant.range = DT_RANGE_STATIC;
    q.weight.has_range = true;
    /* its range cannot be static; of q4_0 it need not be */
    const bool q4_0 = s->scheme == DT_SCHEME_Q4_0 || s->scheme >= DT_SCHEME_NVFP4;
    if (q4_0) q.weight.has_range = false;
    TEST_OK(t.ctx, dt_prepare(m, &q));
    TEST_OK(t.ctx, dt__ranges_take(m, t.path, &taken, &all));
    observe(m);
    ck_assert_int_eq(all, LAYERS);
    ck_assert_int_eq(taken, q4_0 ? 0 : LAYERS);
    if (s->scheme != DT_SCHEME_NVFP4) same_logits(t.m, m); /* its scale of the tensor is new */
    TEST_OK(t.ctx, dt_convert(m, NULL, NULL));
    if (s->scheme != DT_SCHEME_NVFP4) same_logits(t.m, m);
    dt_module_free(m);
    drop(&t);
}
END_TEST

/* ---- settings ------------------------------------------------------------------------------- */

static void replace_text(char *text, size_t room, const char *from, const char *to)
{
    char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "no %s in %s", from, text);
    const size_t tail = strlen(at + strlen(from)) + 1;
    ck_assert_uint_lt((size_t)(at - text) + strlen(to) + tail, room);
    memmove(at + strlen(to), at + strlen(from), tail);
    memcpy(at, to, strlen(to));
}

static dt_status load(made *t)
{
    dt_module *m;
    dt_model_info info;
    const dt_status s = dt_hf_load(t->ctx, t->path, &m, &info);
    dt_model_info_free(t->ctx, &info);
    dt_module_free(m);
    return s;
}

static const struct {
    const char *from, *to, *says; /* says NULL: it is read */
    dt_status status;
    int of; /* of schemes */
} settings[] = {
    { "[\"Linear\"]", "[\"re:.*proj\", \"lm_head\"]", NULL, DT_OK, 0 },
    { "[\"Linear\"]", "[\"re:model\\\\.layers\\\\.\\\\d+\\\\..*\", \"re:^lm_head$\"]", NULL, DT_OK,
      0 },
    { "[\"Linear\"]", "[\"re:.*proj\"]", "no group", DT_ERR_FORMAT, 0 },
    { "[\"Linear\"]", "[\"re:(?=x)\"]", "is not known here", DT_ERR_UNSUPPORTED, 0 },
    { "[\"Linear\"]", "[\"re:(a{9999}){9999}\"]", "is not known here", DT_ERR_UNSUPPORTED, 0 },
    { "[\"Linear\"]", "[\"re:(.*)(.*)\\\\2x\"]", "is not known here", DT_ERR_UNSUPPORTED, 0 },
    { "\"actorder\": null", "\"actorder\": \"group\"", "actorder", DT_ERR_UNSUPPORTED, 0 },
    { "\"kv_cache_scheme\": null", "\"kv_cache_scheme\": {\"num_bits\": 8}", "kv_cache_scheme",
      DT_ERR_UNSUPPORTED, 0 },
    { "\"kv_cache_scheme\": null", "\"transform_config\": {\"config_groups\": {}}",
      "transform_config", DT_ERR_UNSUPPORTED, 0 },
    { "\"kv_cache_scheme\": null", "\"sparsity_config\": {\"format\": \"dense\"}",
      "sparsity_config", DT_ERR_UNSUPPORTED, 0 },
    { "\"output_activations\": null", "\"output_activations\": {\"num_bits\": 8}",
      "output_activations", DT_ERR_UNSUPPORTED, 0 },
    { "\"num_bits\": 4", "\"num_bits\": 16", "2 to 8 bits", DT_ERR_UNSUPPORTED, 0 },
    { "\"num_bits\": 4", "\"num_bits\": 5", "does not hold", DT_ERR_FORMAT, 0 },
    { "\"group_size\": 32", "\"group_size\": 64", "weight_scale has", DT_ERR_FORMAT, 0 },
    { "\"group_size\": 32", "\"group_size\": 7", "does not divide", DT_ERR_FORMAT, 0 },
    { "\"strategy\": \"group\"", "\"strategy\": \"block\"", "strategy group", DT_ERR_UNSUPPORTED,
      0 },
    { "\"strategy\": \"token\"", "\"strategy\": \"tensor\"", "strategy token", DT_ERR_UNSUPPORTED,
      0 },
    { "\"type\": \"int\"", "\"type\": \"float\"", "weight_packed in U8", DT_ERR_FORMAT, 0 },
    { "\"type\": \"int\"", "\"type\": \"float\"", "NVFP4, MXFP4, MXFP6 and MXFP8",
      DT_ERR_UNSUPPORTED, 3 },
    { "\"group_size\": 16", "\"group_size\": 8", "NVFP4, MXFP4, MXFP6 and MXFP8",
      DT_ERR_UNSUPPORTED, NVFP4 },
    { "tensor_group", "group", "NVFP4, MXFP4, MXFP6 and MXFP8", DT_ERR_UNSUPPORTED, NVFP4 },
    { "torch.float8_e4m3fn", "torch.uint8", "NVFP4, MXFP4, MXFP6 and MXFP8", DT_ERR_UNSUPPORTED,
      NVFP4 },
    { "\"scale_dtype\": \"torch.uint8\"", "\"scale_dtype\": null", NULL, DT_OK, MXFP4 },
    { "\"scale_dtype\": \"torch.uint8\"", "\"scale_dtype\": null", "NVFP4, MXFP4, MXFP6 and MXFP8",
      DT_ERR_UNSUPPORTED, MXFP8 },
    { "\"num_bits\": 8", "\"num_bits\": 4", "its format is not", DT_ERR_UNSUPPORTED, MXFP8 },
    { "\"symmetric\": true", "\"symmetric\": false", "must be symmetric", DT_ERR_UNSUPPORTED,
      MXFP4 },
    { "\"type\": \"float\"", "\"type\": \"int\"", "strategy group", DT_ERR_UNSUPPORTED, NVFP4 },
    { "\"type\": \"float\"", "\"type\": \"int\"", "its format is not", DT_ERR_UNSUPPORTED, MXFP4 },
    { "\"local\"", "\"global\"", "its dynamic", DT_ERR_UNSUPPORTED, NVFP4_BOTH },
    { "\"local\"", "true", "that are local", DT_ERR_UNSUPPORTED, NVFP4_BOTH },
    { "\"format\": \"mxfp8-quantized\"}", "\"format\": \"mxfp6-pack-quantized\"}",
      "its format is not that of its weights", DT_ERR_UNSUPPORTED, MXFP8 },
    { "\"dynamic\": false", "\"dynamic\": \"local\"", "weights that are local", DT_ERR_UNSUPPORTED,
      NVFP4_BOTH },
    { "\"dynamic\": true", "\"dynamic\": \"local\"", "of NVFP4 only", DT_ERR_UNSUPPORTED,
      MXFP4_BOTH },
    { "\"dynamic\": true", "\"dynamic\": false", "in blocks must be dynamic", DT_ERR_UNSUPPORTED,
      MXFP4_BOTH },
    { "\"compressed-tensors\"", "\"gptq\"", "another method", DT_ERR_UNSUPPORTED, 0 },
    { "\"config_groups\": {", "\"other\": {", "it has none", DT_ERR_UNSUPPORTED, 0 },
    { "\"symmetric\": true", "\"symmetric\": false", "weight_zero_point is missing", DT_ERR_FORMAT,
      0 },
};

START_TEST(settings_of_folders)
{
    made t;
    char path[TEST_PATH];
    make(&t, &schemes[settings[_i].of]);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    test_join(path, t.path, "config.json");
    char *text = test_read_file(path, NULL);
    text = realloc(text, strlen(text) + 512);
    ck_assert(text != NULL);
    replace_text(text, strlen(text) + 512, settings[_i].from, settings[_i].to);
    test_write_text(path, text);
    if (settings[_i].says == NULL) TEST_OK(t.ctx, load(&t));
    else TEST_FAILS(t.ctx, settings[_i].status, settings[_i].says, load(&t));
    free(text);
    drop(&t);
}
END_TEST

/* Forms that other programs write and detent does not: zero points packed down the rows, bf16
 * scales, int8 codes. */
START_TEST(packed_zero_points)
{
    made t;
    dt_file *f;
    dt_writer *w;
    char path[TEST_PATH];
    make(&t, &schemes[5]);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    test_join(path, t.path, "model.safetensors");
    TEST_OK(t.ctx, dt_file_open(t.ctx, path, &f));
    TEST_OK(t.ctx, dt_writer_create(t.ctx, &w));
    uint32_t *made_for[LAYERS];
    int n = 0;
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        dt_file_entry e = *dt_file_at(f, i);
        if (strstr(e.name, "_zero_point") == NULL) {
            TEST_OK(t.ctx, dt_writer_add_bytes(w, &e));
            continue;
        }
        const int64_t rows = e.dims[0], groups = e.dims[1], words = (rows * 4 + 31) / 32;
        const int64_t dims[] = { words, groups };
        uint32_t *to = made_for[n++] = calloc((size_t)(words * groups), sizeof *to);
        ck_assert(to != NULL);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t g = 0; g < groups; g++) { /* eight rows in a word */
                const int code = ((const int8_t *)e.data)[r * groups + g] + 8;
                to[r / 8 * groups + g] |= (uint32_t)code << (r % 8 * 4);
            }
        }
        e.dtype = "I32";
        e.dims = dims;
        e.data = to;
        TEST_OK(t.ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(t.ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
    dt_module *m;
    dt_model_info info;
    TEST_OK(t.ctx, dt_hf_load(t.ctx, t.path, &m, &info));
    same_logits(t.m, m);
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    while (n > 0) free(made_for[--n]);
    drop(&t);
}
END_TEST

/* ---- what is refused when written ----------------------------------------------------------- */

START_TEST(what_folders_cannot_hold)
{
    static const char *const formats[] = { "compressed-tensors", "torchao" };
    const char *const format = formats[_i];
    made t;
    make_float(&t);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "no linear layer is quantized", export_as(&t, format));
    dt_qat_options q = qat_of(&schemes[0]);
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_OK(t.ctx, dt_export_check(t.m, &t.info, format));
    TEST_FAILS(t.ctx, DT_ERR_STATE, "convert the model first", export_as(&t, format));
    dt_module_free(t.m);
    q.preset = DT_INT8_STATIC_INT8_WEIGHT;
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &t.m));
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "self_attn.q_proj and 7 more: its input has a static",
               dt_export_check(t.m, &t.info, format));
    dt_module_free(t.m);
    q = qat_of(&schemes[0]);
    q.weight.quant.group_size = 40;
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &t.m));
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "does not divide", dt_export_check(t.m, &t.info, format));
    dt_module_free(t.m);
    t.o.moe = (dt_moe_options){ true, 2, 1, true, 0.01, 0 };
    q = qat_of(&schemes[0]);
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &t.m));
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    if (_i == 0) TEST_OK(t.ctx, dt_export_check(t.m, &t.info, format));
    else TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "experts", dt_export_check(t.m, &t.info, format));
    dt_module_free(t.m);
    q = qat_of(&schemes[5]); /* zero points */
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &t.m));
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "experts", dt_export_check(t.m, &t.info, format));
    dt_module_free(t.m);
    q = qat_of(&schemes[0]);
    q.rules[0] = (dt_qat_rule){ .match = "*.w_up" };
    q.rules[0].weight.quant.bits = 3;
    q.rules[0].weight.has_bits = true;
    q.n_rules = 1;
    TEST_OK(t.ctx, dt_llama_create(t.ctx, &t.o, &t.m));
    TEST_OK(t.ctx, dt_prepare(t.m, &q));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, _i == 0 ? "in several ways" : "torchao",
               dt_export_check(t.m, &t.info, format));
    t.info.family = dt_family_named(t.ctx, "gpt");
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "family llama", dt_export_check(t.m, &t.info, format));
    drop(&t);
}
END_TEST

/* ---- damage --------------------------------------------------------------------------------- */

/* After a change of a byte of config.json, or of the header of the tensors, the model loads, or
 * there is an error; likewise after any truncation. */
START_TEST(every_byte)
{
    static const char *const files[] = { "config.json", "model.safetensors" };
    static const char with[] = { 0, '"', '}', '9', ',', (char)0xff, '-', ' ' };
    made t;
    size_t size;
    char path[TEST_PATH];
    make(&t, &schemes[_i / 2 == 0 ? 1 : NVFP4]);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    test_join(path, t.path, files[_i % 2]);
    char *text = test_read_file(path, &size);
    const size_t end = _i % 2 == 0 ? size : 3000 < size ? 3000 : size;
    const size_t step = (size_t)test_count(
        (test_draws){ .usual = _i % 2 == 0 ? 1 : 3, .sanitized = 17, .quick = 7 });
    for (size_t at = 0; at < end; at += step) {
        const char before = text[at];
        text[at] = with[at % sizeof with];
        test_write_file(path, text, size);
        const dt_status s = load(&t);
        TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_IO,
                  "byte %zu: %s: %s", at, dt_status_name(s), dt_error(t.ctx));
        text[at] = before;
        test_write_file(path, text, at);
        const dt_status cut = load(&t);
        TEST_EACH(cut != DT_OK || at + 3 > size, "%zu bytes are enough", at);
    }
    free(text);
    drop(&t);
}
END_TEST

/* What is read can be written. */
static void write_again(made *t)
{
    dt_module *m;
    dt_model_info info;
    char path[TEST_PATH];
    test_join(path, t->folder, "again");
    TEST_OK(t->ctx, dt_hf_load(t->ctx, t->path, &m, &info));
    TEST_OK(t->ctx, dt_export(m, &info, "compressed-tensors", NULL, path, NULL));
    dt_model_info_free(t->ctx, &info);
    dt_module_free(m);
}

/* Scales of blocks that are no numbers, or that a model cannot hold, are named. */
START_TEST(scales_of_blocks)
{
    static const struct {
        int of;
        const char *part;
        uint8_t byte[4];
        size_t n;
        bool zeros; /* the codes of the block are zeros */
        const char *says;
    } damages[] = {
        { NVFP4, ".weight_scale", { 0x7f }, 1, false, "row 0, group 0: scale nan" },
        { NVFP4, ".weight_scale", { 0x90 }, 1, false, "row 0, group 0: scale -" },
        { NVFP4, ".weight_scale", { 0 }, 1, false, "row 0, group 0: scale 0" },
        { NVFP4, ".weight_scale", { 0 }, 1, true, NULL },
        { NVFP4, ".weight_global_scale", { 0, 0, 0, 0 }, 4, false, "row 0, group 0: scale inf" },
        { NVFP4, ".weight_global_scale", { 0, 0, 0xc0, 0x7f }, 4, false, "group 0: scale nan" },
        { NVFP4_BOTH, ".input_global_scale", { 0, 0, 0, 0 }, 4, false, "from 2^-126 to 2^116" },
        { NVFP4_BOTH,
          ".input_global_scale",
          { 0, 0, 0x80, 0xff },
          4,
          false,
          "input_global_scale must be F32" },
        { MXFP4, ".weight_scale", { 255 }, 1, false, "row 0, group 0: scale nan" },
        { MXFP4, ".weight_scale", { 254 }, 1, false, "row 0, group 0: scale 1.7" },
        { MXFP4, ".weight_scale", { 1 }, 1, false, "row 0, group 0: scale 1.1" },
        { MXFP4, ".weight_scale", { 0 }, 1, true, NULL },
        { MXFP8, ".weight_scale", { 247 }, 1, false, "row 0, group 0: scale 1.3" },
        { MXFP8, ".weight_scale", { 0 }, 1, false, "row 0, group 0: scale 5.8" },
        { MXFP8, ".weight", { 1, 2, 3, 0xff }, 4, false, "row 0, column 3: NaN" },
    };
    for (int i = 0; i < (int)(sizeof damages / sizeof damages[0]); i++) {
        made t;
        dt_file *f;
        size_t size;
        char path[TEST_PATH];
        make(&t, &schemes[damages[i].of]);
        TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
        test_join(path, t.path, "model.safetensors");
        char *bytes = test_read_file(path, &size);
        TEST_OK(t.ctx, dt_file_open(t.ctx, path, &f));
        char name[64];
        snprintf(name, sizeof name, "%s%s", layers[6], damages[i].part);
        const char *begin = dt_file_at(f, 0)->data; /* the first of the file */
        for (int64_t k = 0; k < dt_file_count(f); k++) {
            const char *at = dt_file_at(f, k)->data;
            begin = at < begin ? at : begin;
        }
        size_t data = 0;
        for (int b = 7; b >= 0; b--) data = data << 8 | (unsigned char)bytes[b];
        char *to = bytes + 8 + data;
        strstr(bytes + 8, "detent.xxh3")[0] = 'x'; /* others write no checksum */
        strstr(bytes + 8, "detent.version")[0] = 'x';
        memcpy(to + ((const char *)dt_file_find(f, name)->data - begin), damages[i].byte,
               damages[i].n);
        snprintf(name, sizeof name, "%s.weight_packed", layers[6]);
        if (damages[i].zeros) {
            memset(to + ((const char *)dt_file_find(f, name)->data - begin), 0x80, 16);
        }
        dt_file_close(f);
        test_write_file(path, bytes, size);
        if (damages[i].says == NULL) write_again(&t);
        else TEST_FAILS(t.ctx, DT_ERR_FORMAT, damages[i].says, load(&t));
        free(bytes);
        drop(&t);
    }
}
END_TEST

static dt_status load_folder(dt_ctx *ctx, void *user)
{
    dt_module *m;
    dt_model_info info;
    const dt_status s = dt_hf_load(ctx, user, &m, &info);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s;
}

START_TEST(memory_fails)
{
    made t;
    make(&t, &schemes[_i == 0 ? 1 : _i == 1 ? 5 : NVFP4]);
    TEST_OK(t.ctx, export_as(&t, "compressed-tensors"));
    ck_assert_int_gt(test_every_allocation(load_folder, t.path), 50);
    drop(&t);
}
END_TEST

Suite *test_compressed_suite(void)
{
    Suite *s = suite_create("compressed");
    TCase *c = tcase_create("compressed");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, compressed_tensors_hold_the_weights, 0, SCHEMES);
    tcase_add_loop_test(c, torchao_holds_the_weights, 0, MXFP8);
    tcase_add_loop_test(c, folders_have_the_model_s_bits, 0, SCHEMES);
    tcase_add_test(c, blocks_of_zeros_are_q4_0);
    tcase_add_loop_test(c, experts_are_integers, 0, SCHEMES - 1);
    tcase_add_loop_test(c, training_begins_with_the_folder, 0, SCHEMES);
    tcase_add_loop_test(c, settings_of_folders, 0, (int)(sizeof settings / sizeof settings[0]));
    tcase_add_test(c, packed_zero_points);
    tcase_add_loop_test(c, what_folders_cannot_hold, 0, 2);
    tcase_add_loop_test(c, every_byte, 0, 4);
    tcase_add_test(c, scales_of_blocks);
    tcase_add_loop_test(c, memory_fails, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
