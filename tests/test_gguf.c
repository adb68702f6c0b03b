/* Format gguf: every family and type, read by code of the tests and by detent; tokenizers; what is
 * refused, when written and when read; damaged files and failing allocations. */
#include "gguf_parse.h"
#include "models.h"
#include "testing.h"

#include "core/text/byte_order.h"
#include "io/gguf/gguf_keys.h"

#include <detent/experimental/export.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/text.h>
#include <detent/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- models --------------------------------------------------------------------------------- */

#define BYTES_TOKENIZER "{\"model\":{\"type\":\"bytes\"}}"
#define CHARS_TOKENIZER                                                                            \
    "{\"model\":{\"type\":\"chars\",\"characters\":\"\\n !\\\\ab\\u00e4\\u20ac\"}}"

#define SIZES                                                                                      \
    .vocab = 40, .context = 12, .layers = 2, .heads = 4, .width = 64, .hidden = 96, .theta = 1e4,  \
    .eps = 1e-5, .rope = { 0, 1, 1, 4, 8192 }
#define LONG                                                                                       \
    .vocab = 40, .context = 12, .layers = 2, .heads = 4, .width = 256, .hidden = 512,              \
    .theta = 1e4, .eps = 1e-5, .rope = { 0, 1, 1, 4, 8192 }
#define EXPERTS                                                                                    \
    .moe = { .given = true, .experts = 3, .top_k = 2, .normalize = true, .balance = 0.01 }

/* The models: `scheme` -1 is float. */
static const struct variant {
    const char *name, *arch;
    dt_llama_options llama; /* vocab 0: a gpt */
    dt_gpt_options gpt;
    int scheme, bits;
    const char *type; /* of a quantized weight */
} variants[] = {
    { "llama", "llama", { SIZES, .kv_heads = 2, .tied = true }, { 0 }, DT_SCHEME_Q4_0, 4, "2" },
    { "llama float", "llama", { SIZES, .kv_heads = 2 }, { 0 }, -1, 0, "0" },
    { "llama int8", "llama", { SIZES, .head_width = 8 }, { 0 }, DT_SCHEME_SYMMETRIC, 8, "8" },
    { "llama int3", "llama", { SIZES, .head_width = 8 }, { 0 }, DT_SCHEME_SYMMETRIC, 3, "2" },
    { "biases",
      "llama",
      { SIZES, .qkv_bias = true, .out_bias = true, .mlp_bias = true },
      { 0 },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "qwen2", "qwen2", { SIZES, .kv_heads = 2, .qkv_bias = true }, { 0 }, DT_SCHEME_Q4_0, 4, "2" },
    { "qwen3",
      "qwen3",
      { SIZES, .kv_heads = 1, .head_width = 32, .qk_norm = true },
      { 0 },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "mixtral", "llama", { SIZES, .kv_heads = 2, EXPERTS }, { 0 }, DT_SCHEME_Q4_0, 4, "2" },
    { "gpt",
      "gpt2",
      { 0 },
      { .vocab = 40,
        .context = 12,
        .layers = 2,
        .heads = 4,
        .width = 64,
        .tied = true,
        .eps = 1e-5,
        .bias = true },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "gpt without biases",
      "gpt2",
      { 0 },
      { .vocab = 40, .context = 12, .layers = 1, .heads = 2, .width = 32, .eps = 1e-5 },
      -1,
      0,
      "0" },
    { "llama int2 in long blocks",
      "llama",
      { LONG, .tied = true },
      { 0 },
      DT_SCHEME_SYMMETRIC,
      2,
      "10" },
    { "llama half levels", "llama", { LONG, .tied = true }, { 0 }, DT_SCHEME_HALF_LEVELS, 2, "10" },
    { "llama ternary", "llama", { LONG, .tied = true }, { 0 }, DT_SCHEME_TERNARY, 2, "35" },
    { "llama binary", "llama", { LONG, .tied = true }, { 0 }, DT_SCHEME_BINARY, 1, "10" },
    { "olmo2",
      "olmo2",
      { SIZES, .kv_heads = 2, .qk_norm = true, .tied = true,
        .block = { .given = true, .norms = DT_BLOCK_NORMS_AFTER, .qk_norm_all = true } },
      { 0 },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "smollm3",
      "smollm3",
      { .vocab = 40,
        .context = 12,
        .layers = 5,
        .heads = 4,
        .width = 64,
        .hidden = 96,
        .theta = 1e4,
        .eps = 1e-5,
        .rope = { 0, 1, 1, 4, 8192 },
        .kv_heads = 2,
        .tied = true,
        .qkv_bias = true,
        .block = { .given = true, .unrotated = 4 } },
      { 0 },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "gemma3",
      "gemma3",
      { SIZES, .kv_heads = 1, .head_width = 8, .qk_norm = true, .tied = true,
        .block = { .given = true,
                   .norms = DT_BLOCK_NORMS_BOTH,
                   .norm_plus_one = true,
                   .activation = DT_GATE_GELU_TANH,
                   .scaled_tokens = true,
                   .query_width = 8,
                   .window = 5,
                   .full_every = 2,
                   .local_theta = 500 } },
      { 0 },
      -1,
      0,
      "0" },
    { "pythia",
      "gptneox",
      { 0 },
      { .vocab = 40,
        .context = 12,
        .layers = 2,
        .heads = 4,
        .width = 64,
        .tied = true,
        .eps = 1e-5,
        .bias = true,
        .rotated = 0.25,
        .theta = 500,
        .parallel = true,
        .gelu_erf = true },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "longrope",
      "llama",
      { SIZES, .kv_heads = 2,
        .longrope = { .given = true,
                      .original_context = 4,
                      .short_factor = { 8, { 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4 } },
                      .long_factor = { 8, { 1, 2, 4, 6, 9, 12, 25, 64 } } } },
      { 0 },
      DT_SCHEME_Q4_0,
      4,
      "2" },
    { "llama int3 in long blocks", "llama", { LONG }, { 0 }, DT_SCHEME_SYMMETRIC, 3, "11" },
};

#define VARIANTS ((int)(sizeof variants / sizeof variants[0]))

typedef struct made {
    dt_ctx *ctx;
    dt_module *m;
    dt_model_info info;
    dt_llama_options llama;
    dt_gpt_options gpt;
    dt_export_summary summary; /* of the last export */
    char folder[TEST_PATH], path[TEST_PATH];
} made;

/* Sets values of norms and biases, which begin as 1 and 0 and would hide mix-ups. */
static dt_status stir(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    uint32_t *state = user;
    (void)path;
    (void)kind;
    if (dt_rank(x) != 1) return DT_OK;
    float *v = dt_data_mut(x);
    for (int64_t i = 0; i < dt_count(x); i++) {
        *state = *state * 1664525U + 1013904223U;
        v[i] += (float)(*state >> 8) * 0x1p-26F;
    }
    return DT_OK;
}

static dt_qat_options qat_of(int scheme, int bits)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_WEIGHT;
    o.weight.quant.scheme = scheme;
    o.weight.quant.bits = bits;
    o.weight.quant.scale_dtype = DT_SCALE_F16;
    o.weight.quant.granularity = bits == 3 ? DT_PER_CHANNEL : DT_PER_GROUP;
    o.weight.quant.group_size = bits == 8 ? 64 : bits <= 2 ? 256 : 32;
    o.weight.has_scheme = o.weight.has_bits = o.weight.has_scale_dtype = true;
    o.weight.has_granularity = o.weight.has_group_size = true;
    return o;
}

static void make_float(made *t, const struct variant *v)
{
    uint32_t state = 7;
    *t = (made){ .llama = v->llama, .gpt = v->gpt };
    test_folder(t->folder);
    test_join(t->path, t->folder, "m.gguf");
    TEST_OK(NULL, dt_ctx_create(&t->ctx, NULL));
    dt_seed(t->ctx, 3);
    const bool is_gpt = v->llama.vocab == 0;
    t->info.family = dt_family_named(t->ctx, is_gpt ? "gpt" : "llama");
    t->info.options = is_gpt ? (const void *)&t->gpt : (const void *)&t->llama;
    TEST_OK(t->ctx, t->info.family->create(t->ctx, t->info.options, &t->m));
    TEST_OK(t->ctx, dt_module_visit(t->m, stir, &state));
}

static void make(made *t, const struct variant *v)
{
    make_float(t, v);
    if (v->scheme < 0) return;
    const dt_qat_options o = qat_of(v->scheme, v->bits);
    TEST_OK(t->ctx, dt_prepare(t->m, &o));
    TEST_OK(t->ctx, dt_convert(t->m, NULL, NULL));
}

static void drop(made *t)
{
    dt_module_free(t->m);
    ck_assert_uint_eq(dt_memory_of(t->ctx).used, 0);
    dt_ctx_free(t->ctx);
}

static dt_status export_as(made *t, int type)
{
    dt_export_options o = dt_export_defaults();
    o.gguf_type = type;
    return dt_export(t->m, &t->info, "gguf", &o, t->path, &t->summary);
}

/* ---- what is written ------------------------------------------------------------------------ */

/* The values of a parameter, malloc'ed. */
static float *values_of(made *t, const char *path, int64_t *n)
{
    dt_tensor *x = dt_param(t->m, path), *dense = NULL;
    ck_assert_msg(x != NULL, "no %s", path);
    if (dt_is_packed(x)) TEST_OK(t->ctx, dt_dequantize(x, &dense));
    *n = dt_count(x);
    float *y = malloc((size_t)*n * sizeof *y);
    ck_assert(y != NULL);
    memcpy(y, dt_data(dense != NULL ? dense : x), (size_t)*n * sizeof *y);
    dt_tensor_free(dense);
    return y;
}

/* GGUF's rows of a llama's queries and keys: value 2j of a head is value j of its first half, 2j +
 * 1 value j of its second. */
static float *paired(float *v, int64_t n, int64_t row, int64_t head)
{
    float *y = malloc((size_t)n * sizeof *y);
    const int64_t block = row * head;
    ck_assert(y != NULL && n % block == 0);
    for (int64_t b = 0; b < n; b += block) {
        for (int64_t j = 0; j < head / 2; j++) {
            memcpy(y + b + 2 * j * row, v + b + j * row, (size_t)row * sizeof *y);
            memcpy(y + b + (2 * j + 1) * row, v + b + (j + head / 2) * row,
                   (size_t)row * sizeof *y);
        }
    }
    free(v);
    return y;
}

static void same_values(const gguf_parsed *g, const char *name, const float *want, int64_t n,
                        double tolerance)
{
    const gguf_tensor *x = gguf_tensor_of(g, name);
    ck_assert_msg(x != NULL && x->count == n, "%s", name);
    float *got = gguf_values(g, x);
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(fabs((double)got[i] - (double)want[i]) <=
                      tolerance * fabs((double)want[i]) + tolerance * 1e-4,
                  "%s: element %lld is %.9g, not %.9g", name, (long long)i, (double)got[i],
                  (double)want[i]);
    }
    free(got);
}

static int64_t head_of(const dt_llama_options *o)
{
    return o->head_width == 0 ? o->width / o->heads : o->head_width;
}

/* A tensor against a parameter; `pairs`: its rows are in the order of pairs. */
static void check_tensor(made *t, const gguf_parsed *g, const char *theirs, const char *ours,
                         bool pairs, double tolerance)
{
    int64_t n;
    float *v = values_of(t, ours, &n);
    const dt_tensor *x = dt_param(t->m, ours);
    const int64_t row = dt_rank(x) == 1 ? 1 : dt_dim(x, -1);
    if (pairs) v = paired(v, n, row, head_of(&t->llama));
    const bool plus = t->llama.block.norm_plus_one && strstr(theirs, "norm.weight") != NULL;
    for (int64_t i = 0; i < n && plus; i++) v[i] += 1;
    same_values(g, theirs, v, n, tolerance);
    const gguf_tensor *y = gguf_tensor_of(g, theirs);
    ck_assert_int_eq((int)y->rank, dt_rank(x));
    for (int d = 0; d < dt_rank(x); d++) {
        ck_assert_int_eq((int64_t)y->extent[d], dt_dim(x, dt_rank(x) - 1 - d));
    }
    free(v);
}

static void check_llama(made *t, const gguf_parsed *g, const char *arch, double tolerance)
{
    const int norms = t->llama.block.norms;
    static const char *const norm[][4] = {
        { "attn_norm", "", "ffn_norm", "" },
        { "", "post_attention_norm", "", "post_ffw_norm" },
        { "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm" },
    };
    static const char *const own_norm[][4] = {
        { "input_layernorm", "", "post_attention_layernorm", "" },
        { "", "post_attention_layernorm", "", "post_feedforward_layernorm" },
        { "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
          "post_feedforward_layernorm" },
    };
    static const char *const names[][2] = {
        { "attn_q.weight", "self_attn.q_proj.weight" },
        { "attn_k.weight", "self_attn.k_proj.weight" },
        { "attn_v.weight", "self_attn.v_proj.weight" },
        { "attn_q.bias", "self_attn.q_proj.bias" },
        { "attn_k.bias", "self_attn.k_proj.bias" },
        { "attn_v.bias", "self_attn.v_proj.bias" },
        { "attn_output.weight", "self_attn.o_proj.weight" },
        { "attn_output.bias", "self_attn.o_proj.bias" },
        { "attn_q_norm.weight", "self_attn.q_norm.weight" },
        { "attn_k_norm.weight", "self_attn.k_norm.weight" },
        { "ffn_gate.weight", "mlp.gate_proj.weight" },
        { "ffn_up.weight", "mlp.up_proj.weight" },
        { "ffn_down.weight", "mlp.down_proj.weight" },
        { "ffn_gate.bias", "mlp.gate_proj.bias" },
        { "ffn_up.bias", "mlp.up_proj.bias" },
        { "ffn_down.bias", "mlp.down_proj.bias" },
        { "ffn_gate_inp.weight", "moe.router.weight" },
        { "ffn_gate_exps.weight", "moe.w_gate.weight" },
        { "ffn_up_exps.weight", "moe.w_up.weight" },
        { "ffn_down_exps.weight", "moe.w_down.weight" },
    };
    const bool is_olmo = strcmp(arch, "olmo2") == 0; /* which has a head in any case */
    int tensors = 2 + (is_olmo || !t->llama.tied) + 2 * t->llama.longrope.given;
    check_tensor(t, g, "token_embd.weight", "model.embed_tokens.weight", false, tolerance);
    check_tensor(t, g, "output_norm.weight", "model.norm.weight", false, tolerance);
    if (is_olmo || !t->llama.tied)
        check_tensor(t, g, "output.weight", "lm_head.weight", false, tolerance);
    const int layers = (int)t->llama.layers;
    for (int i = 0; i < layers * (int)(sizeof names / sizeof names[0]); i++) {
        char theirs[96], ours[96];
        const char *const *n = names[i / layers];
        snprintf(theirs, sizeof theirs, "blk.%d.%s", i % layers, n[0]);
        snprintf(ours, sizeof ours, "model.layers.%d.%s", i % layers, n[1]);
        const bool rotated = strstr(ours, "q_proj") != NULL || strstr(ours, "k_proj") != NULL;
        const bool pairs = strcmp(arch, "llama") == 0 || strcmp(arch, "smollm3") == 0;
        if (dt_param(t->m, ours) == NULL) continue;
        check_tensor(t, g, theirs, ours, rotated && pairs, tolerance);
        tensors++;
    }
    for (int i = 0; i < 4 * (int)t->llama.layers; i++) {
        char theirs[96], ours[96];
        if (norm[norms][i % 4][0] == 0) continue;
        snprintf(theirs, sizeof theirs, "blk.%d.%s.weight", i / 4, norm[norms][i % 4]);
        snprintf(ours, sizeof ours, "model.layers.%d.%s.weight", i / 4, own_norm[norms][i % 4]);
        check_tensor(t, g, theirs, ours, false, tolerance);
        tensors++;
    }
    ck_assert_int_eq(g->n_tensors, tensors);
}

static void check_gpt(made *t, const gguf_parsed *g, double tolerance)
{
    static const char *const parts[] = { "q", "k", "v" };
    int64_t n, all = 0;
    const int64_t width = t->gpt.width;
    check_tensor(t, g, "token_embd.weight", "tokens.weight", false, tolerance);
    if (t->gpt.rotated == 0) {
        check_tensor(t, g, "position_embd.weight", "positions.weight", false, tolerance);
    } else {
        ck_assert(gguf_tensor_of(g, "position_embd.weight") == NULL);
        check_tensor(t, g, "output.weight", "head.weight", false, tolerance);
    }
    check_tensor(t, g, "output_norm.bias", "norm.bias", false, tolerance);
    check_tensor(t, g, "blk.0.attn_norm.bias", "blocks.0.norm1.bias", false, tolerance);
    check_tensor(t, g, "blk.0.ffn_norm.weight", "blocks.0.norm2.weight", false, tolerance);
    check_tensor(t, g, "blk.0.attn_output.weight", "blocks.0.attn.out.weight", false, tolerance);
    check_tensor(t, g, "blk.0.ffn_up.weight", "blocks.0.mlp.up.weight", false, tolerance);
    check_tensor(t, g, "blk.0.ffn_down.weight", "blocks.0.mlp.down.weight", false, tolerance);
    float *joined = malloc((size_t)(3 * width * width) * sizeof *joined);
    ck_assert(joined != NULL);
    for (int i = 0; i < 3; i++, all += n) {
        char path[64];
        snprintf(path, sizeof path, "blocks.0.attn.%s.weight", parts[i]);
        float *v = values_of(t, path, &n);
        memcpy(joined + all, v, (size_t)n * sizeof *v);
        free(v);
    }
    same_values(g, "blk.0.attn_qkv.weight", joined, all, tolerance);
    free(joined);
    const gguf_tensor *bias = gguf_tensor_of(g, "blk.0.attn_qkv.bias");
    ck_assert(bias != NULL && bias->count == 3 * width && bias->rank == 1);
    if (t->gpt.bias) return;
    float *zero = gguf_values(g, bias); /* llama.cpp wants one */
    for (int64_t i = 0; i < bias->count; i++) ck_assert(zero[i] == 0);
    free(zero);
}

/* Keys of single architectures. */
static void check_own_keys(const gguf_parsed *g, const struct variant *v)
{
    if (strcmp(v->arch, "gemma3") == 0) {
        ck_assert_int_eq(gguf_u32(g, "gemma3.attention.sliding_window"), 5);
        ck_assert_int_eq(gguf_u32(g, "gemma3.attention.sliding_window_pattern"), 2);
        TEST_NEAR(gguf_f32(g, "gemma3.rope.freq_base_swa"), 500, 0, 0);
    }
    if (strcmp(v->arch, "gptneox") == 0) {
        ck_assert_int_eq(gguf_u32(g, "gptneox.rope.dimension_count"), 4);
        ck_assert(gguf_pair_of(g, "gptneox.use_parallel_residual") != NULL);
        TEST_NEAR(gguf_f32(g, "gptneox.rope.freq_base"), 500, 0, 0);
    }
    if (!v->llama.longrope.given) return;
    ck_assert(gguf_says(g, "llama.rope.scaling.type", "longrope"));
    ck_assert_int_eq(gguf_u32(g, "llama.rope.scaling.original_context_length"), 4);
    TEST_NEAR(gguf_f32(g, "llama.rope.scaling.attn_factor"), sqrt(1 + log(3) / log(4)), 0, 1e-7);
    for (int far = 0; far < 2; far++) {
        const char *const name = far ? "rope_factors_long.weight" : "rope_factors_short.weight";
        const dt_reals *want =
            far ? &v->llama.longrope.long_factor : &v->llama.longrope.short_factor;
        float *f = gguf_values(g, gguf_tensor_of(g, name));
        for (int i = 0; i < want->n; i++) TEST_NEAR(f[i], want->v[i], 0, 0);
        free(f);
    }
}

static void check_keys(const gguf_parsed *g, const struct variant *v)
{
    char key[96];
    const bool gpt = v->llama.vocab == 0;
    const struct {
        const char *key;
        int64_t value;
    } keys[] = {
        { "context_length", 12 },
        { "block_count", gpt ? v->gpt.layers : v->llama.layers },
        { "embedding_length", gpt ? v->gpt.width : v->llama.width },
        { "feed_forward_length", gpt ? 4 * v->gpt.width : v->llama.hidden },
        { "attention.head_count", gpt ? v->gpt.heads : v->llama.heads },
        { "attention.head_count_kv", gpt                      ? v->gpt.heads
                                     : v->llama.kv_heads == 0 ? v->llama.heads
                                                              : v->llama.kv_heads },
    };
    ck_assert(gguf_says(g, "general.architecture", v->arch));
    check_own_keys(g, v);
    for (int i = 0; i < (int)(sizeof keys / sizeof keys[0]); i++) {
        snprintf(key, sizeof key, "%s.%s", v->arch, keys[i].key);
        ck_assert_int_eq(gguf_u32(g, key), keys[i].value);
    }
    if (!v->llama.moe.given) return;
    ck_assert_int_eq(gguf_u32(g, "llama.expert_count"), 3);
    ck_assert_int_eq(gguf_u32(g, "llama.expert_used_count"), 2);
}

/* Matrices in blocks are products of integers, others of floats; tables are looked up. */
static void check_summary(const made *t, const gguf_parsed *g)
{
    const bool tied = gguf_tensor_of(g, "output.weight") == NULL;
    int64_t integers = 0, floats = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *x = &g->tensor[i];
        const bool table = strcmp(x->name, "position_embd.weight") == 0 ||
                           (!tied && strcmp(x->name, "token_embd.weight") == 0);
        if (x->rank < 2 || table) continue;
        if (x->type > 1) integers++;
        else floats++;
    }
    ck_assert_int_eq(t->summary.integer_products, integers);
    ck_assert_int_eq(t->summary.float_products, floats);
}

static void check_file(made *t, const struct variant *v, int type, double tolerance)
{
    TEST_OK(t->ctx, export_as(t, type));
    gguf_parsed *g = gguf_parse(t->path);
    check_keys(g, v);
    check_summary(t, g);
    if (v->llama.vocab == 0) check_gpt(t, g, tolerance);
    else check_llama(t, g, v->arch, tolerance);
    const gguf_tensor *w = gguf_tensor_of(g, "blk.0.attn_output.weight");
    const uint32_t blocks = (uint32_t)atoi(v->type);
    ck_assert_uint_eq(w->type, type == DT_GGUF_F32 ? 0 : type == DT_GGUF_F16 ? 1 : blocks);
    ck_assert_uint_eq(gguf_tensor_of(g, "output_norm.weight")->type, 0);
    gguf_free(g);
}

START_TEST(files_hold_the_model)
{
    made t;
    const struct variant *v = &variants[_i];
    make(&t, v);
    check_file(&t, v, DT_GGUF_TRAINED, 0);
    check_file(&t, v, DT_GGUF_F32, 0);
    check_file(&t, v, DT_GGUF_F16, 0x1p-11);
    drop(&t);
}
END_TEST

/* ---- what is read --------------------------------------------------------------------------- */

static dt_status same_parameter(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    made *t = user;
    int64_t n;
    (void)kind;
    if (t->gpt.vocab > 0 && !t->gpt.bias && dt_param(t->m, path) == NULL) return DT_OK;
    float *want = values_of(t, path, &n);
    ck_assert_int_eq(n, dt_count(x));
    const bool plus = t->llama.block.norm_plus_one && strstr(path, "norm.weight") != NULL;
    for (int64_t i = 0; i < n && plus; i++) want[i] = (want[i] + 1) - 1; /* as the file has it */
    TEST_EACH(memcmp(want, dt_data(x), (size_t)n * sizeof *want) == 0, "%s differs", path);
    free(want);
    return DT_OK;
}

/* Logits of 9 tokens, [9][40]. */
static void logits_of(made *t, dt_module *m, float *to)
{
    static const int32_t ids[9] = { 3, 1, 4, 1, 5, 9, 2, 6, 39 };
    dt_tape *tape;
    dt_tensor *x;
    TEST_OK(t->ctx, dt_tensor_from(t->ctx, DT_I32, 2, (const int64_t[]){ 1, 9 }, ids, &x));
    TEST_OK(t->ctx, dt_tape_create(t->ctx, &tape));
    dt_train(m, false);
    dt_no_grad(tape, true);
    dt_tensor *y = dt_forward(tape, m, x);
    TEST_OK(t->ctx, dt_tape_status(tape));
    ck_assert_int_eq(dt_count(y), 9 * 40);
    memcpy(to, dt_data(y), 9 * 40 * sizeof *to);
    dt_tape_free(tape);
    dt_tensor_free(x);
}

/* The model that was read computes the same, except for products of codes, rounding by the file
 * (norms plus one, factors in f32), and the context of an int8 scale. */
static void same_logits(made *t, dt_module *m)
{
    static float a[9 * 40], b[9 * 40];
    logits_of(t, t->m, a);
    logits_of(t, m, b);
    for (int i = 0; i < 9 * 40; i++) {
        TEST_EACH(fabs((double)a[i] - (double)b[i]) < 2e-5 * (1 + fabs((double)a[i])),
                  "logit %d is %g, not %g", i, (double)b[i], (double)a[i]);
    }
}

static bool holds(int type, int scheme, int bits)
{
    if (scheme == DT_SCHEME_TERNARY) return type != DT_GGUF_Q1_0;
    if (scheme == DT_SCHEME_BINARY) return type == DT_GGUF_Q2_0 || type == DT_GGUF_Q1_0;
    return scheme == DT_SCHEME_SYMMETRIC && bits == 2 && type == DT_GGUF_Q2_0;
}

/* The blocks of a weight, decoded by the test, have the weight's values. */
static void same_blocks(made *t)
{
    gguf_parsed *g = gguf_parse(t->path);
    dt_tensor *x = dt_param(t->m, "model.layers.1.mlp.down_proj.weight"), *plain;
    TEST_OK(t->ctx, dt_dequantize(x, &plain));
    float *y = gguf_values(g, gguf_tensor_of(g, "blk.1.ffn_down.weight"));
    const float *want = dt_data(plain);
    for (int64_t i = 0; i < dt_count(x); i++) TEST_EACH(y[i] == want[i], "value %d", (int)i);
    free(y);
    dt_tensor_free(plain);
    gguf_free(g);
}

/* A file that was written gives the model's values again, in blocks and in F32. */
START_TEST(files_are_read)
{
    made t;
    static const int types[] = { DT_GGUF_TRAINED, DT_GGUF_F32,  DT_GGUF_TQ1_0,
                                 DT_GGUF_TQ2_0,   DT_GGUF_Q2_0, DT_GGUF_Q1_0 };
    make(&t, &variants[_i]);
    for (int i = 0; i < DT__COUNT_OF(types); i++) {
        dt_module *m;
        dt_model_info info;
        if (i > 1 && !holds(types[i], variants[_i].scheme, variants[_i].bits)) {
            if (variants[_i].bits > 0 && variants[_i].bits <= 2) {
                TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "holds", export_as(&t, types[i]));
            }
            continue;
        }
        TEST_OK(t.ctx, export_as(&t, types[i]));
        if (i > 1) same_blocks(&t);
        TEST_OK(t.ctx, dt_model_load(t.ctx, t.path, &m, &info));
        ck_assert_str_eq(info.family->name, t.info.family->name);
        TEST_OK(t.ctx, dt_module_visit(m, same_parameter, &t));
        same_logits(&t, m);
        dt_model_info_free(t.ctx, &info);
        dt_module_free(m);
    }
    drop(&t);
}
END_TEST

/* llama3's scaling is stored as divisors of frequencies, and is recognized again; linear scaling
 * has keys. */
START_TEST(scaled_rotations)
{
    made t;
    dt_model_info info;
    dt_module *m;
    struct variant v = variants[1];
    v.llama.rope = _i == 0 ? (dt_rope_options){ DT_ROPE_LLAMA3, 8, 1, 4, 64 }
                           : (dt_rope_options){ DT_ROPE_LINEAR, 2, 1, 4, 8192 };
    make(&t, &v);
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_TRAINED));
    gguf_parsed *g = gguf_parse(t.path);
    const gguf_tensor *x = gguf_tensor_of(g, "rope_freqs.weight");
    ck_assert((x != NULL) == (_i == 0));
    for (int64_t i = 0; x != NULL && i < 8; i++) { /* heads of 16 */
        float *f = gguf_values(g, x);
        const double turns = 64 / (2 * 3.14159265358979323846 * pow(1e4, (double)i / 8));
        const double share = (turns - 1) / 3;
        const double want = turns > 4 ? 1 : turns < 1 ? 8 : 1 / ((1 - share) / 8 + share);
        TEST_NEAR(f[i], want, 0, 1e-6);
        free(f);
    }
    if (_i == 1) ck_assert(gguf_says(g, "llama.rope.scaling.type", "linear"));
    gguf_free(g);
    TEST_OK(t.ctx, dt_model_load(t.ctx, t.path, &m, &info));
    const dt_rope_options *r = &((const dt_llama_options *)info.options)->rope;
    ck_assert(r->scaling == v.llama.rope.scaling && r->factor == v.llama.rope.factor);
    ck_assert(_i == 1 || r->original_context == 64);
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    drop(&t);
}
END_TEST

/* The divisor of frequency i of a head of `width`. */
static double llama3_divisor(const dt_llama_options *o, int64_t i, int64_t width)
{
    const dt_rope_options *r = &o->rope;
    const double length = 2 * acos(-1) * pow(o->theta, 2.0 * (double)i / (double)width);
    const double turns = (double)r->original_context / length;
    if (turns > r->high_freq_factor) return 1;
    if (turns < r->low_freq_factor) return r->factor;
    const double s = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return 1 / ((1 - s) / r->factor + s);
}

static double drawn_between(double least, double most)
{
    return least * pow(most / least, (double)rand() / (double)RAND_MAX);
}

/* Any factor, bounds and context: the model that is read rotates as the one that was written. */
START_TEST(drawn_llama3_scalings_are_read_again)
{
    for (int64_t k = 0; k < test_count(((test_draws){ 60, 3, 20 })); k++) {
        made t;
        dt_model_info info;
        dt_module *m;
        struct variant v = variants[1];
        const double low = drawn_between(0.1, 8);
        const double factor = k % 5 == 0 ? (double)k + 1 : drawn_between(1.01, 200);
        v.llama.theta = drawn_between(50, 1e6);
        v.llama.rope =
            (dt_rope_options){ DT_ROPE_LLAMA3, factor, low, low * drawn_between(1.02, 30),
                               (int64_t)drawn_between(2, 1e5) };
        make_float(&t, &v);
        TEST_OK(t.ctx, export_as(&t, DT_GGUF_F32));
        TEST_OK(t.ctx, dt_model_load(t.ctx, t.path, &m, &info));
        const dt_llama_options *back = info.options;
        for (int64_t i = 0; i < 8; i++) { /* heads of 16 */
            const double want = llama3_divisor(&v.llama, i, 16);
            TEST_NEAR(llama3_divisor(back, i, 16) / want, 1, 0, 2e-5);
        }
        dt_model_info_free(t.ctx, &info);
        dt_module_free(m);
        drop(&t);
    }
}
END_TEST

static bool is_file_error(dt_status s)
{
    return s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_IO;
}

/* ---- tokenizers ----------------------------------------------------------------------------- */

/* The ids of a text by the tokenizer of a model's file. */
static void same_ids(dt_ctx *ctx, const char *a, const char *b, const char *text)
{
    const char *const json[] = { a, b };
    dt_ids ids[2] = { { 0 } };
    for (int i = 0; i < 2; i++) {
        dt_tokenizer *k;
        TEST_OK(ctx, dt_tokenizer_parse(ctx, json[i], strlen(json[i]), "t", &k));
        TEST_OK(ctx, dt_tokenizer_encode(k, text, strlen(text),
                                         &(dt_encoding){ .special = true, .wrap = true }, &ids[i]));
        dt_tokenizer_free(k);
    }
    ck_assert_int_eq(ids[0].n, ids[1].n);
    ck_assert(memcmp(ids[0].id, ids[1].id, (size_t)ids[0].n * sizeof *ids[0].id) == 0);
    dt_ids_free(&ids[0]);
    dt_ids_free(&ids[1]);
}

/* Writes a model with a tokenizer and reads it back; the caller closes. */
static gguf_parsed *with_tokenizer(made *t, const char *tokenizer, int64_t vocab, dt_file **back)
{
    struct variant v = variants[1];
    v.llama.vocab = vocab;
    make(t, &v);
    t->info.tokenizer = tokenizer;
    TEST_OK(t->ctx, export_as(t, DT_GGUF_TRAINED));
    TEST_OK(t->ctx, dt_file_open(t->ctx, t->path, back));
    return gguf_parse(t->path);
}

START_TEST(bytes_and_characters)
{
    made t;
    dt_file *back;
    char text[64];
    const bool chars = _i == 1;
    const char *const json = chars ? CHARS_TOKENIZER : BYTES_TOKENIZER;
    gguf_parsed *g = with_tokenizer(&t, json, chars ? 11 : 256, &back);
    ck_assert(gguf_says(g, "tokenizer.ggml.model", "rwkv"));
    ck_assert(gguf_pair_of(g, "tokenizer.ggml.eos_token_id") == NULL);
    gguf_string(g, "tokenizer.ggml.tokens", chars ? 0 : 10, text, sizeof text);
    ck_assert_str_eq(text, "\\x0a");
    gguf_string(g, "tokenizer.ggml.tokens", chars ? 3 : '\\', text, sizeof text);
    ck_assert_str_eq(text, "\\\\");
    gguf_string(g, "tokenizer.ggml.tokens", chars ? 7 : 255, text, sizeof text);
    ck_assert_str_eq(text, chars ? "\xe2\x82\xac" : "\\xff");
    if (chars) { /* rows to spare */
        gguf_string(g, "tokenizer.ggml.tokens", 10, text, sizeof text);
        ck_assert(strstr(text, "unused10") != NULL);
    }
    const char *read = dt_file_meta(back, "detent.tokenizer");
    ck_assert(read != NULL);
    same_ids(t.ctx, json, read, chars ? "a\\b!\n \xc3\xa4\xe2\x82\xac" : "a\\b!\n\xff\x80");
    dt_file_close(back);
    gguf_free(g);
    drop(&t);
}
END_TEST

/* Removes the first `what` from a text. */
static void take_out(char *text, const char *what)
{
    char *at = strstr(text, what);
    ck_assert_msg(at != NULL, "%s is not there", what);
    memmove(at, at + strlen(what), strlen(at + strlen(what)) + 1);
}

/* Byte-level BPE: tokens, merges and the split's name, and the same ids from the file. Qwen2's
 * split is Llama 3's with a piece for each digit. */
START_TEST(byte_pairs)
{
    static const char *const folders[] = { "tokenizer/gpt2-512", "tokenizer/llama3-512",
                                           "tokenizer/llama3-512" };
    static const char *const pres[] = { "gpt-2", "llama-bpe", "qwen2" };
    char folder[TEST_PATH], path[TEST_PATH];
    made t;
    dt_file *back;
    dt_tokenizer *k;
    dt_ctx *ctx;
    if (!test_golden(folder, folders[_i])) return;
    test_join(path, folder, "tokenizer.json");
    char *json = test_read_file(path, NULL);
    if (_i == 2) take_out(json, "{1,3}");
    if (_i == 2) take_out(json, "\"ignore_merges\":true,");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tokenizer_parse(ctx, json, strlen(json), "json", &k));
    const int64_t vocab = dt_tokenizer_vocab(k);
    dt_tokenizer_free(k);
    dt_ctx_free(ctx);
    gguf_parsed *g = with_tokenizer(&t, json, vocab, &back);
    ck_assert(gguf_says(g, "tokenizer.ggml.model", "gpt2"));
    const char *const other = _i == 1 ? "dbrx" : "gpt-2"; /* without ignore_merges */
    ck_assert(gguf_says(g, "tokenizer.ggml.pre", pres[_i]) ||
              gguf_says(g, "tokenizer.ggml.pre", other));
    ck_assert_uint_eq(gguf_pair_of(g, "tokenizer.ggml.tokens")->n, (uint64_t)vocab);
    ck_assert_uint_gt(gguf_pair_of(g, "tokenizer.ggml.merges")->n, 100);
    ck_assert(gguf_pair_of(g, "tokenizer.ggml.eos_token_id") != NULL);
    const char *read = dt_file_meta(back, "detent.tokenizer");
    ck_assert(read != NULL);
    same_ids(t.ctx, json, read, "Hello, the 12345 world's  end!\n\n\xc3\xa4 <|endoftext|> again");
    dt_file_close(back);
    gguf_free(g);
    drop(&t);
    free(json);
}
END_TEST

/* A vocabulary of sentencepiece: three special tokens, a, b, the sign of a space, what merges make
 * of these, and the bytes. The caller frees. */
static char *pieces_json(const char *merges, const char *prepend)
{
    char *text = malloc(16384);
    size_t n = 0;
    ck_assert(text != NULL);
    n += (size_t)snprintf(
        text + n, 16384 - n,
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
        "{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
        "{\"id\":1,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":2,\"content\":\"</s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\","
        "\"normalizers\":[%s{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
        "\"\u2581\"}]},\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":{\"type\":"
        "\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},"
        "\"content\":\" "
        "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},\"model\":{\"type\":"
        "\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"<s>\":1,"
        "\"</s>\":2,\"a\":3,\"b\":4,\"\u2581\":5,\"ab\":6,\"\u2581a\":7,\"\u2581ab\":8",
        prepend,
        prepend[0] == 0 ? "" : ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    for (int i = 0; i < 256; i++) {
        n += (size_t)snprintf(text + n, 16384 - n, ",\"<0x%02X>\":%d", i, 9 + i);
    }
    snprintf(text + n, 16384 - n, "},\"merges\":[%s]}}", merges);
    return text;
}

#define SIGN "\\u2581"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"" SIGN "\"},"

static void check_scores(const gguf_parsed *g, bool prefix)
{
    static const float scores[] = { 0, 0, 0, 0, 0, 0, -1, -2, -3, 0 };
    static const int32_t types[] = { 2, 3, 3, 1, 1, 1, 1, 1, 1, 6 };
    char text[64];
    ck_assert(gguf_says(g, "tokenizer.ggml.model", "llama"));
    const gguf_pair *score = gguf_pair_of(g, "tokenizer.ggml.scores");
    const gguf_pair *type = gguf_pair_of(g, "tokenizer.ggml.token_type");
    const gguf_pair *before = gguf_pair_of(g, "tokenizer.ggml.add_space_prefix");
    ck_assert(score != NULL && score->n == 9 + 256 && type != NULL && before != NULL);
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        float of;
        int32_t what;
        dt__copy_little(&of, g->bytes + score->at + 4 * i, sizeof of);
        dt__copy_little(&what, g->bytes + type->at + 4 * i, sizeof what);
        ck_assert(of == scores[i] && what == types[i]);
    }
    ck_assert_int_eq(g->bytes[before->at], prefix);
    ck_assert_int_eq(gguf_u32(g, "tokenizer.ggml.unknown_token_id"), 0);
    gguf_string(g, "tokenizer.ggml.tokens", 8, text, sizeof text);
    ck_assert_str_eq(text, "\xe2\x96\x81"
                           "ab");
    gguf_string(g, "tokenizer.ggml.tokens", 9 + 10, text, sizeof text);
    ck_assert_str_eq(text, "<0x0A>");
}

/* Merges by which llama.cpp's scores give the same tokens, and others, which are left out. */
START_TEST(pieces)
{
    static const struct {
        const char *merges, *prepend;
        bool there;
    } cases[] = {
        { "\"a b\",\"" SIGN " a\",\"" SIGN "a b\",\"" SIGN " ab\"", "", true },
        { "\"a b\",\"" SIGN " a\",\"" SIGN "a b\",\"" SIGN " ab\"", PREPEND, true },
        { "\"a b\",\"" SIGN " a\",\"" SIGN "a b\"", "", false }, /* a way that is no merge */
        { "\"" SIGN "a b\",\"a b\",\"" SIGN " ab\",\"" SIGN " a\"", "", false }, /* interleaved */
    };
    made t;
    dt_file *back;
    char *json = pieces_json(cases[_i].merges, cases[_i].prepend);
    gguf_parsed *g = with_tokenizer(&t, json, 9 + 256, &back);
    if (cases[_i].there) {
        check_scores(g, cases[_i].prepend[0] != 0);
        const char *read = dt_file_meta(back, "detent.tokenizer");
        ck_assert(read != NULL);
        same_ids(t.ctx, json, read, "ab  a b\n\xc3\xa4 abab </s> aab bab ");
        same_ids(t.ctx, json, read, " ab");
    } else ck_assert(gguf_says(g, "tokenizer.ggml.model", "no_vocab"));
    dt_file_close(back);
    gguf_free(g);
    drop(&t);
    free(json);
}
END_TEST

/* A token of 4 MB has as many possible cuts, nearly all into lengths that no token has. */
START_TEST(a_long_piece_is_cut_fast)
{
    enum { LENGTH = 4000000 };
    char *json = pieces_json("\"a b\",\"" SIGN " a\",\"" SIGN "a b\",\"" SIGN " ab\"", "");
    const char *end = strstr(json, "},\"merges\"");
    char *longer = malloc(strlen(json) + LENGTH + 16);
    ck_assert(end != NULL && longer != NULL);
    const size_t before = (size_t)(end - json);
    memcpy(longer, json, before);
    size_t n = before + (size_t)sprintf(longer + before, ",\"");
    memset(longer + n, 'x', LENGTH);
    sprintf(longer + n + LENGTH, "\":%d%s", 9 + 256, end);
    made t;
    dt_file *back;
    gguf_parsed *g = with_tokenizer(&t, longer, 9 + 257, &back);
    ck_assert(gguf_says(g, "tokenizer.ggml.model", "llama"));
    dt_file_close(back);
    gguf_free(g);
    drop(&t);
    free(longer);
    free(json);
}
END_TEST

/* Without scores, or with fewer of them. */
START_TEST(pieces_without_scores)
{
    static const char merges[] = "\"a b\",\"" SIGN " a\",\"" SIGN "a b\",\"" SIGN " ab\"";
    made t;
    dt_file *back;
    size_t size;
    char *json = pieces_json(merges, PREPEND);
    gguf_parsed *g = with_tokenizer(&t, json, 9 + 256, &back);
    dt_file_close(back);
    const size_t at = gguf_pair_of(g, "tokenizer.ggml.scores")->at;
    char *bytes = test_read_file(t.path, &size);
    char *key =
        bytes + at - 8 - 4 - 4; /* behind the name: types of the array and of its elements */
    if (_i == 0) key[-1] = 'x';
    else bytes[at - 8]--;
    test_write_file(t.path, bytes, size);
    if (_i == 0) {
        TEST_OK(t.ctx, dt_file_open(t.ctx, t.path, &back));
        ck_assert_ptr_null(dt_file_meta(back, "detent.tokenizer"));
        dt_file_close(back);
    } else {
        ck_assert(is_file_error(dt_file_open(t.ctx, t.path, &back)));
    }
    gguf_free(g);
    drop(&t);
    free(bytes);
    free(json);
}
END_TEST

/* Tokens with any number of a before any number of b, up to `most` together: each way to cut one
 * is a merge, so their text grows faster than the file. Then the tokenizer is left out. */
static char *put_strings(char *to, int most, int64_t *n)
{
    for (int a = 0; a <= most; a++) {
        for (int b = a == 0; a + b <= most; b++, ++*n) {
            const uint64_t length = (uint64_t)(a + b);
            dt__copy_little(to, &length, sizeof length);
            memset(to + sizeof length, 'a', (size_t)a);
            memset(to + sizeof length + a, 'b', (size_t)b);
            to += sizeof length + length;
        }
    }
    return to;
}

START_TEST(ways_to_cut_tokens_are_bounded)
{
    const int most[] = { 10, 70 };
    static char strings[1 << 20], scores[1 << 16];
    dt__gguf_key tokens = { .is_array = true, .data = (unsigned char *)strings };
    dt__gguf_key score = { .is_array = true, .data = (unsigned char *)scores };
    dt_ctx *ctx;
    bool fits;
    int64_t n = 0;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt__chars text = { .ctx = ctx };
    const char *end = put_strings(strings, most[_i], &n);
    tokens.n = score.n = (uint64_t)n;
    ck_assert(end <= strings + sizeof strings && (size_t)n * sizeof(float) <= sizeof scores);
    const dt__gguf_pieces all = { &tokens, NULL, &score };
    TEST_OK(ctx, dt__gguf_put_pieces(ctx, &all, &text, &fits));
    ck_assert_int_eq(fits, _i == 0);
    ck_assert_int_eq(text.used > 0, _i == 0);
    dt__release(ctx, text.bytes);
    dt_ctx_free(ctx);
}
END_TEST

/* A tokenizer with NFC is written, with a line that llama.cpp does not normalize. */
static void keep_note(void *user, const char *line) { snprintf(user, 256, "%s", line); }

START_TEST(normalized_text)
{
    char folder[TEST_PATH], path[TEST_PATH], note[256] = "";
    made t;
    if (!test_golden(folder, "tokenizer/models/qwen2")) return;
    test_join(path, folder, "tokenizer.json");
    char *json = test_read_file(path, NULL);
    struct variant v = variants[1];
    v.llama.vocab = 1024;
    make(&t, &v);
    t.info.tokenizer = json;
    dt_export_options o = dt_export_defaults();
    o.note = keep_note;
    o.user = note;
    TEST_OK(t.ctx, dt_export(t.m, &t.info, "gguf", &o, t.path, NULL));
    gguf_parsed *g = gguf_parse(t.path);
    ck_assert(gguf_says(g, "tokenizer.ggml.pre", "qwen2"));
    ck_assert_msg(strstr(note, "NFC") != NULL, "%s", note);
    gguf_free(g);
    drop(&t);
    free(json);
}
END_TEST

/* Types of blocks are of quantized weights: of a float model a line says that all are F32. */
START_TEST(types_that_change_nothing)
{
    for (int type = DT_GGUF_TRAINED; type <= DT_GGUF_Q1_0; type++) {
        made t;
        char note[256] = "";
        struct variant v = variants[0];
        v.scheme = -1;
        make(&t, &v);
        dt_export_options o = dt_export_defaults();
        o.gguf_type = type;
        o.note = keep_note;
        o.user = note;
        TEST_OK(t.ctx, dt_export(t.m, &t.info, "gguf", &o, t.path, NULL));
        const bool blocks = type != DT_GGUF_TRAINED && type != DT_GGUF_F32 && type != DT_GGUF_F16;
        ck_assert_int_eq(strstr(note, "all are F32") != NULL, blocks);
        drop(&t);
    }
}
END_TEST

/* ---- what is refused when written ----------------------------------------------------------- */

static const struct {
    int64_t width, hidden, group;
    int scheme, bits, dtype, type;
    const char *says;
} refusals[] = {
    { 80, 96, 16, DT_SCHEME_SYMMETRIC, 4, DT_SCALE_F16, DT_GGUF_TRAINED,
      "rows of 80 values; blocks of llama.cpp have 32" },
    { 64, 96, 16, DT_SCHEME_SYMMETRIC, 4, DT_SCALE_F16, DT_GGUF_TRAINED, "group_size 16" },
    { 64, 96, 48, DT_SCHEME_SYMMETRIC, 4, DT_SCALE_F16, DT_GGUF_TRAINED, "group_size 48" },
    { 64, 96, 32, DT_SCHEME_ASYMMETRIC, 4, DT_SCALE_F16, DT_GGUF_TRAINED, "has zero points" },
    { 64, 96, 32, DT_SCHEME_SYMMETRIC, 4, DT_SCALE_F32, DT_GGUF_TRAINED, "scale_dtype: f16" },
    { 64, 96, 32, DT_SCHEME_SYMMETRIC, 8, DT_SCALE_F16, DT_GGUF_Q4_0, "8 bits; Q4_0 has 4" },
    { 64, 96, 32, DT_SCHEME_SYMMETRIC, 4, DT_SCALE_BF16, DT_GGUF_Q8_0, "scale_dtype: f16" },
    { 64, 96, 32, DT_SCHEME_TERNARY, 2, DT_SCALE_F16, DT_GGUF_TQ1_0, "blocks of 256" },
    { 64, 96, 32, DT_SCHEME_SYMMETRIC, 2, DT_SCALE_F16, DT_GGUF_TQ2_0,
      "TQ2_0 holds scheme ternary" },
    { 64, 96, 32, DT_SCHEME_TERNARY, 2, DT_SCALE_F16, DT_GGUF_Q2_0, "no blocks of 64" },
    { 64, 96, 32, DT_SCHEME_SYMMETRIC, 3, DT_SCALE_F16, DT_GGUF_Q2_0, "of 3 bits; Q2_0 holds" },
};

START_TEST(what_blocks_cannot_hold)
{
    made t;
    struct variant v = variants[1];
    v.llama.width = refusals[_i].width;
    v.llama.hidden = refusals[_i].hidden;
    make_float(&t, &v);
    dt_qat_options o = qat_of(refusals[_i].scheme, refusals[_i].bits);
    o.weight.quant.group_size = refusals[_i].group;
    o.weight.quant.scale_dtype = refusals[_i].dtype;
    TEST_OK(t.ctx, dt_prepare(t.m, &o));
    if (refusals[_i].type == DT_GGUF_TRAINED) {
        TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, refusals[_i].says,
                   dt_export_check(t.m, &t.info, "gguf"));
    }
    TEST_OK(t.ctx, dt_export_check(t.m, &t.info, "gguf-f32"));
    TEST_FAILS(t.ctx, DT_ERR_STATE, "convert the model first", export_as(&t, DT_GGUF_F32));
    TEST_OK(t.ctx, dt_convert(t.m, NULL, NULL));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, refusals[_i].says, export_as(&t, refusals[_i].type));
    ck_assert(!test_file_exists(t.path));
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_F32));
    drop(&t);
}
END_TEST

static const struct variant *variant_named(const char *name)
{
    int i = 0;
    while (strcmp(variants[i].name, name) != 0) i++;
    return &variants[i];
}

/* Blocks that are nearly those of an architecture. */
static const struct {
    const char *variant;
    dt_block_options block;
    const char *says;
} lacking[] = {
    { "llama float", { .given = true, .window = 4 }, "windows of Gemma 3 alone" },
    { "llama float", { .given = true, .unrotated = 2 }, "block.unrotated 2" },
    { "llama float", { .given = true, .norm_plus_one = true }, "without block.norms both" },
    { "qwen3", { .given = true, .qk_norm_all = true }, "without block.norms after (OLMo 2)" },
    { "biases", { .given = true, .unrotated = 2 }, "a bias of the output layer or the mlp" },
    { "qwen3", { .given = true, .unrotated = 2 }, "block.unrotated (SmolLM3) beside" },
    { "llama float", { .given = true, .norms = DT_BLOCK_NORMS_AFTER }, "the rest of OLMo 2" },
    { "llama float", { .given = true, .norms = DT_BLOCK_NORMS_BOTH }, "the rest of Gemma 3" },
    { "gemma3",
      { .given = true,
        .norms = DT_BLOCK_NORMS_BOTH,
        .norm_plus_one = true,
        .activation = DT_GATE_GELU_TANH,
        .scaled_tokens = true,
        .query_width = 12 },
      "block.query_width 12: in llama.cpp's Gemma 3 it is 8" },
};

START_TEST(nearly_an_architecture)
{
    made t;
    struct variant v = *variant_named(lacking[_i].variant);
    v.llama.block = lacking[_i].block;
    make_float(&t, &v);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, lacking[_i].says, export_as(&t, DT_GGUF_F32));
    drop(&t);
}
END_TEST

START_TEST(rotations_that_llama_cpp_lacks)
{
    made t;
    struct variant v = *variant_named("olmo2");
    v.llama.rope = (dt_rope_options){ DT_ROPE_LLAMA3, 8, 1, 4, 64 };
    make_float(&t, &v);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "only arch llama", export_as(&t, DT_GGUF_F32));
    drop(&t);
    v = *variant_named("gemma3");
    v.llama.rope = (dt_rope_options){ DT_ROPE_LINEAR, 2, 1, 4, 8192 };
    v.llama.block.local_theta = 0;
    make_float(&t, &v);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "layers with a window are not scaled",
               export_as(&t, DT_GGUF_F32));
    drop(&t);
    v = *variant_named("gpt without biases");
    v.gpt.gelu_erf = true;
    make_float(&t, &v);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "with `rotated` Pythia's", export_as(&t, DT_GGUF_F32));
    drop(&t);
}
END_TEST

START_TEST(what_llama_cpp_lacks)
{
    made t;
    struct variant v = *variant_named("qwen3");
    v.llama.mlp_bias = true;
    make(&t, &v);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "Qwen3", export_as(&t, DT_GGUF_TRAINED));
    drop(&t);
    v = *variant_named("mixtral");
    v.llama.moe.normalize = false;
    make(&t, &v);
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "moe.normalize", export_as(&t, DT_GGUF_TRAINED));
    drop(&t);
    make(&t, &variants[1]);
    const dt_lora_options lora = dt_lora_defaults();
    TEST_OK(t.ctx, dt_lora_add(t.m, &lora));
    TEST_FAILS(t.ctx, DT_ERR_STATE, "detent merge", export_as(&t, DT_GGUF_TRAINED));
    t.info.family = dt_family_named(t.ctx, "mlp");
    TEST_FAILS(t.ctx, DT_ERR_STATE, "detent merge", export_as(&t, DT_GGUF_TRAINED));
    TEST_OK(t.ctx, dt_lora_merge(t.m));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "this one is of family mlp",
               export_as(&t, DT_GGUF_TRAINED));
    TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "not known how",
               dt_export(t.m, NULL, "gguf", NULL, t.path, NULL));
    drop(&t);
}
END_TEST

/* ---- damaged and foreign files -------------------------------------------------------------- */

static dt_status load(dt_ctx *ctx, const char *path)
{
    dt_module *m;
    dt_model_info info;
    const dt_status s = dt_model_load(ctx, path, &m, &info);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s;
}

/* A small file: a model of one layer with a tokenizer. */
static void make_small(made *t)
{
    struct variant v = variants[1];
    v.llama.vocab = 8;
    v.llama.layers = 1;
    v.llama.heads = 2;
    v.llama.kv_heads = 1;
    v.llama.width = 8;
    v.llama.hidden = 4;
    make(t, &v);
    t->info.tokenizer = CHARS_TOKENIZER;
    TEST_OK(t->ctx, export_as(t, DT_GGUF_TRAINED));
}

/* The template is that of the source, unless the model was trained on chats in another form. */
static const struct {
    const char *data, *hf, *template;
} chats[] = {
    { "{\"target\": \"tokens\"}", NULL, NULL },
    { "{\"target\": \"tokens\", \"chat\": \"plain\"}", NULL, "{% for message in messages %}" },
    { "{\"target\": \"tokens\"}", "{{ '<|im_start|>' + a + '<|im_end|>' }}",
      "{{ '<|im_start|>' + a + '<|im_end|>' }}" },
    { "{\"target\": \"tokens\", \"chat\": \"chatml\"}",
      "{% for a in messages %}<|im_start|>{{ a.role }}\\n{{ a.content }}<|im_end|>\\n{% endfor %}",
      "{% for a in messages %}<|im_start|>{{ a.role }}\n{{ a.content }}<|im_end|>\n{% endfor %}" },
    { "{\"target\": \"tokens\", \"chat\": \"plain\"}", "{{ '<|im_start|>' + a + '<|im_end|>' }}",
      "{% for message in messages %}" },
    { "{\"target\": \"tokens\", \"chat\": \"chatml\", \"system\": \"You help.\"}",
      "{% for a in messages %}<|im_start|>{{ a.role }}\\n{{ a.content }}<|im_end|>\\n{% endfor %}",
      "{% if messages[0]['role'] != 'system' %}" },
    { "{\"target\": \"tokens\", \"chat\": \"chatml\"}", "{{ something.else }}",
      "{% for message in messages %}" },
    { NULL, "{{ something.else }}", "{{ something.else }}" },
};

/* Reads both files of a folder that may have the template; *jinja NULL: there is none. */
static char *template_of_folder(made *t)
{
    char folder[TEST_PATH], path[TEST_PATH];
    size_t n;
    test_join(folder, t->folder, "hf");
    TEST_OK(t->ctx, dt_export(t->m, &t->info, "hf", NULL, folder, NULL));
    test_join(path, folder, "chat_template.jinja");
    return access(path, F_OK) == 0 ? test_read_file(path, &n) : NULL;
}

START_TEST(chats_bring_their_template)
{
    made t;
    char hf[512] = "";
    const char *want = chats[_i].template;
    make_small(&t);
    t.info.data = chats[_i].data;
    if (chats[_i].hf != NULL) {
        snprintf(hf, sizeof hf,
                 "{\"config.json\": \"{}\", \"tied_head\": false, \"dtype\": \"F32\", \"dtypes\": "
                 "{}, \"files\": {\"chat_template.jinja\": \"%s\"}}",
                 chats[_i].hf);
        t.info.hf = hf;
    }
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_TRAINED));
    gguf_parsed *g = gguf_parse(t.path);
    const gguf_pair *p = gguf_pair_of(g, "tokenizer.chat_template");
    ck_assert_int_eq(p != NULL, want != NULL);
    if (want != NULL) {
        ck_assert_uint_ge(p->n, strlen(want));
        ck_assert_mem_eq(g->bytes + p->at, want, strlen(want));
    }
    t.info.hf = NULL; /* its config.json is none */
    char *written = template_of_folder(&t);
    const bool trained = chats[_i].data != NULL && strstr(chats[_i].data, "chat") != NULL;
    ck_assert_int_eq(written != NULL, trained);
    free(written);
    gguf_free(g);
    drop(&t);
}
END_TEST

START_TEST(every_truncation)
{
    made t;
    size_t size;
    make_small(&t);
    TEST_OK(t.ctx, load(t.ctx, t.path));
    char *bytes = test_read_file(t.path, &size);
    const int64_t step = test_count((test_draws){ .usual = 1, .sanitized = 7, .quick = 3 });
    for (size_t n = 0; n + DT_MAX_RANK < size - 32; n += (size_t)step) {
        test_write_file(t.path, bytes, n);
        const dt_status s = load(t.ctx, t.path);
        TEST_EACH(is_file_error(s), "%zu bytes: %s", n, dt_status_name(s));
    }
    free(bytes);
    drop(&t);
}
END_TEST

/* After a change of any byte before the data the model loads, or there is an error. */
START_TEST(every_byte)
{
    made t;
    size_t size;
    static const unsigned char with[] = { 0, 0xff, 0x80, 1, 9, 'a', 0x7f, 32 };
    make_small(&t);
    gguf_parsed *g = gguf_parse(t.path);
    const size_t end = g->data;
    gguf_free(g);
    char *bytes = test_read_file(t.path, &size);
    const int64_t step = test_count((test_draws){ .usual = 1, .sanitized = 5, .quick = 3 });
    for (size_t at = 0; at < end; at += (size_t)step) {
        const char before = bytes[at];
        for (size_t k = 0; k < 2; k++) {
            bytes[at] = (char)with[(at + 4 * k) % sizeof with];
            test_write_file(t.path, bytes, size);
            const dt_status s = load(t.ctx, t.path);
            TEST_EACH(s == DT_OK || is_file_error(s), "byte %zu: %s: %s", at, dt_status_name(s),
                      dt_error(t.ctx));
        }
        bytes[at] = before;
    }
    free(bytes);
    drop(&t);
}
END_TEST

static dt_status load_again(dt_ctx *ctx, void *user) { return load(ctx, user); }

static dt_status load_and_export(dt_ctx *ctx, void *user)
{
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    char to[TEST_PATH];
    snprintf(to, sizeof to, "%s.again", (const char *)user);
    dt_status s = dt_model_load(ctx, user, &m, &info);
    if (s == DT_OK) s = dt_export(m, &info, "gguf", NULL, to, NULL);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s;
}

START_TEST(memory_fails)
{
    made t;
    make_small(&t);
    ck_assert_int_gt(test_every_allocation(load_again, t.path), 50);
    ck_assert_int_gt(test_every_allocation(load_and_export, t.path), 100);
    drop(&t);
}
END_TEST

/* Files of other programs: text replaces a part of a file that was written. */
static const struct {
    const char *from, *to; /* of equal length */
    const char *says;
    dt_status status;
} changes[] = {
    { "llama", "lxama", "architecture 'lxama' is not supported", DT_ERR_UNSUPPORTED },
    { "llama.vocab_size", "llama.vocab_sise", "not known here", DT_ERR_UNSUPPORTED },
    { "llama.block_count", "block_count.llama", "'llama.block_count' is missing", DT_ERR_FORMAT },
    { "blk.0.attn_norm.weight", "blk.0.attn_norn.weight", "attn_norn", DT_ERR_UNSUPPORTED },
    { "blk.0.attn_v.weight", "blk.0.attn_k.weight", "occurs twice", DT_ERR_FORMAT },
    { "output.weight", "outpux.weight", "'outpux.weight' is none", DT_ERR_UNSUPPORTED },
    { "token_embd.weight", "tokem_embd.weight", "'token_embd.weight' is missing", DT_ERR_FORMAT },
    { "general.alignment", "llama.block_count", "occurs twice", DT_ERR_FORMAT },
    { "GGUF\3", "GGUF\1", "version 1", DT_ERR_UNSUPPORTED },
    { "output_norm.weight", "output\xff_orm.weight", "is not text", DT_ERR_FORMAT },
};

START_TEST(foreign_files)
{
    made t;
    size_t size, at = 0;
    make_small(&t);
    char *bytes = test_read_file(t.path, &size);
    const size_t n = strlen(changes[_i].from);
    const char *const from = changes[_i].from;
    while (at + n < size && memcmp(bytes + at, from, n) != 0) at++;
    ck_assert(at + n < size);
    memcpy(bytes + at, changes[_i].to, n);
    test_write_file(t.path, bytes, size);
    TEST_FAILS(t.ctx, changes[_i].status, changes[_i].says, load(t.ctx, t.path));
    free(bytes);
    drop(&t);
}
END_TEST

/* The header alone, whose keys and tensors are none. */
START_TEST(a_file_may_have_no_tensors)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    static const unsigned char header[24] = "GGUF\3";
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "none.gguf");
    test_write_file(path, header, sizeof header);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "general.architecture", load(ctx, path));
    dt_ctx_free(ctx);
}
END_TEST

/* Keys and tensors of single architectures. */
static const struct {
    const char *variant, *from, *to, *says;
    dt_status status;
} own_changes[] = {
    { "longrope", "rope_factors_long.weight", "rope_factors_lonx.weight",
      "rope_factors_long.weight", DT_ERR_FORMAT },
    { "longrope", "longrope", "longrops", "attn_factor", DT_ERR_UNSUPPORTED },
    { "longrope", "rope.scaling.type", "rope.scaling.typo", "typo", DT_ERR_UNSUPPORTED },
    { "gemma3", "blk.0.post_ffw_norm", "blk.0.post_ffw_nork", "post_ffw_nork", DT_ERR_UNSUPPORTED },
    { "olmo2", "blk.1.post_ffw_norm", "blk.1.attn_normal_x", "attn_normal_x", DT_ERR_UNSUPPORTED },
    { "pythia", "gptneox.rope.dimension_count\4\0\0\0\4", "gptneox.rope.dimension_count\4\0\0\0\3",
      "dimension_count' is 3 of 16", DT_ERR_FORMAT },
    { "pythia", "gptneox.use_parallel_residual\7", "gptneox.use_parallel_residual\0",
      "use_parallel_residual", DT_ERR_FORMAT },
};

START_TEST(foreign_architectures)
{
    made t;
    size_t size, at = 0;
    make_float(&t, variant_named(own_changes[_i].variant));
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_F32));
    char *bytes = test_read_file(t.path, &size);
    const char *const from = own_changes[_i].from;
    size_t n = strlen(from);
    if (strstr(from, "dimension_count") != NULL) n += 4; /* a number, with zeros */
    while (at + n < size && memcmp(bytes + at, from, n) != 0) at++;
    ck_assert_msg(at + n < size, "%s is not there", from);
    memcpy(bytes + at, own_changes[_i].to, n);
    test_write_file(t.path, bytes, size);
    TEST_FAILS(t.ctx, own_changes[_i].status, own_changes[_i].says, load(t.ctx, t.path));
    free(bytes);
    drop(&t);
}
END_TEST

/* Appends a key of an integer of `bytes` bytes, little-endian. */
static size_t put_key(char *to, const char *name, uint32_t type, uint64_t value, int bytes)
{
    const uint64_t n = strlen(name);
    for (int i = 0; i < 8; i++) to[i] = (char)(n >> 8 * i);
    memcpy(to + 8, name, n);
    for (int i = 0; i < 4; i++) to[8 + n + (unsigned)i] = (char)(type >> 8 * i);
    for (int i = 0; i < bytes; i++) to[12 + n + (unsigned)i] = (char)(value >> 8 * i);
    return 12 + n + (unsigned)bytes;
}

/* A folder with several files is refused, even if a tied head could be meant. */
START_TEST(parts_of_a_split_model)
{
    static const struct {
        uint32_t type;
        int bytes;
    } forms[] = { { 2, 2 }, { 3, 2 }, { 4, 4 }, { 5, 4 }, { 10, 8 }, { 11, 8 } };
    made t;
    size_t size;
    make_small(&t);
    char *bytes = test_read_file(t.path, &size), *whole = malloc(size + 128);
    for (int i = 0; i < 36; i++) {
        char other[40] = "general.";
        const uint64_t parts = i % 3 == 0 ? (uint64_t)(i % 2) : 2 + (uint64_t)(rand() % 900);
        const int form = i % 6;
        size_t used = 24;
        memcpy(whole, bytes, used);
        whole[16] = (char)(bytes[16] + 2); /* the number of keys */
        used += put_key(whole + used, "split.count", forms[form].type, parts, forms[form].bytes);
        const size_t rest = 64 - (used - 24) - 13; /* what follows stays aligned */
        memset(other + 8, 'x', rest - 8);
        used += put_key(whole + used, other, 0, 1, 1);
        ck_assert_uint_eq(used, 24 + 64);
        memcpy(whole + used, bytes + 24, size - 24);
        test_write_file(t.path, whole, size + 64);
        if (parts < 2) TEST_OK(t.ctx, load(t.ctx, t.path));
        else TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "of a split model", load(t.ctx, t.path));
    }
    free(whole);
    free(bytes);
    drop(&t);
}
END_TEST

/* Where the type of a scaling is missing, llama.cpp assumes linear. */
START_TEST(a_factor_without_its_type)
{
    static const char *const names[] = { "llama float", "llama3", "longrope", "pythia" };
    static const float factors[] = { 0, 1, 2, 4.5F };
    enum { ADDED = 96 }; /* bytes; what follows stays aligned */
    made t;
    size_t size;
    dt_model_info info;
    dt_module *m;
    const char *name = names[_i];
    struct variant v = *variant_named(_i == 1 ? "llama float" : name);
    if (_i == 1) v.llama.rope = (dt_rope_options){ DT_ROPE_LLAMA3, 8, 1, 4, 64 };
    make_float(&t, &v);
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_F32));
    char *bytes = test_read_file(t.path, &size), *whole = malloc(size + ADDED);
    for (int k = 0; k < DT__COUNT_OF(factors); k++) {
        char other[ADDED] = "general.";
        uint32_t bits;
        size_t used = 24;
        const bool scales = factors[k] > 1;
        memcpy(&bits, &factors[k], sizeof bits);
        memcpy(whole, bytes, used);
        whole[16] = (char)(bytes[16] + 2); /* the number of keys */
        used += put_key(whole + used,
                        _i == 3 ? "gptneox.rope.scaling.factor" : "llama.rope.scaling.factor", 6,
                        bits, 4);
        memset(other + 8, 'x', ADDED - (used - 24) - 13 - 8);
        used += put_key(whole + used, other, 0, 1, 1);
        ck_assert_uint_eq(used, 24 + ADDED);
        memcpy(whole + used, bytes + 24, size - 24);
        test_write_file(t.path, whole, size + ADDED);
        if (scales && _i > 0) {
            TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "rope.scaling", load(t.ctx, t.path));
            continue;
        }
        TEST_OK(t.ctx, dt_model_load(t.ctx, t.path, &m, &info));
        if (_i == 0) {
            const dt_rope_options *r = &((const dt_llama_options *)info.options)->rope;
            ck_assert_int_eq(r->scaling, scales ? DT_ROPE_LINEAR : DT_ROPE_PLAIN);
            ck_assert(!scales || r->factor == (double)factors[k]);
        }
        dt_model_info_free(t.ctx, &info);
        dt_module_free(m);
    }
    free(whole);
    free(bytes);
    drop(&t);
}
END_TEST

enum { NUMBER, REAL, TEXT, ELEMENT };
static const struct {
    const char *variant, *name;
    int what;
    double number;
    const char *text, *says; /* says NULL: it is read */
    dt_status status;
} other_values[] = {
    { "llama float", "llama.context_length", NUMBER, 4e9, NULL, "is the most", DT_ERR_FORMAT },
    { "llama float", "llama.attention.head_count", NUMBER, 0, NULL, "0 heads with", DT_ERR_FORMAT },
    { "llama float", "llama.attention.head_count_kv", NUMBER, 0, NULL, "with 0 of keys",
      DT_ERR_FORMAT },
    { "llama float", "llama.attention.head_count_kv", NUMBER, 3, NULL, "with 3 of keys",
      DT_ERR_FORMAT },
    { "llama float", "llama.embedding_length", NUMBER, 0, NULL, "of width 0", DT_ERR_FORMAT },
    { "llama float", "llama.attention.key_length", NUMBER, 7, NULL, "heads of width 7",
      DT_ERR_FORMAT },
    { "llama float", "llama.attention.key_length", NUMBER, 0, NULL, "heads of width 0",
      DT_ERR_FORMAT },
    { "llama float", "llama.attention.value_length", NUMBER, 6, NULL,
      "heads of values are as wide as those of keys", DT_ERR_UNSUPPORTED },
    { "llama float", "llama.rope.dimension_count", NUMBER, 8, NULL, "8 of a head's 16 values",
      DT_ERR_UNSUPPORTED },
    { "llama float", "llama.rope.freq_base", REAL, -1, NULL, "is missing, or negative",
      DT_ERR_FORMAT },
    { "longrope", "llama.rope.scaling.original_context_length", NUMBER, 0, NULL,
      "original_context_length is 0", DT_ERR_FORMAT },
    { "longrope", "rope_factors_short.weight", ELEMENT, -1, NULL, "element 0 is -1",
      DT_ERR_FORMAT },
    { "longrope", "rope_factors_long.weight", ELEMENT, 1e9, NULL, "element 0 is 1e+09",
      DT_ERR_FORMAT },
    { "linear", "llama.rope.scaling.type", TEXT, 0, "lineax", "linear, longrope and none",
      DT_ERR_UNSUPPORTED },
    { "linear", "llama.rope.scaling.factor", REAL, -2, NULL, "is missing, or negative",
      DT_ERR_FORMAT },
    { "llama3", "rope_freqs.weight", ELEMENT, 0.5, NULL, "element 0 is 0.5", DT_ERR_FORMAT },
    { "llama3", "rope_freqs.weight", ELEMENT, 77, NULL, "do not follow the formula",
      DT_ERR_UNSUPPORTED },
    { "gemma3", "gemma3.attention.sliding_window", NUMBER, 0, NULL, NULL, DT_OK },
    { "pythia", "gptneox.rope.dimension_count", NUMBER, 0, NULL, "is 0 of 16", DT_ERR_FORMAT },
    { "pythia", "gptneox.rope.dimension_count", NUMBER, 18, NULL, "is 18 of 16", DT_ERR_FORMAT },
};

static void put_other_value(const gguf_parsed *g, char *bytes, int i)
{
    const bool element = other_values[i].what == ELEMENT, is_text = other_values[i].what == TEXT;
    const gguf_pair *pair = element ? NULL : gguf_pair_of(g, other_values[i].name);
    const gguf_tensor *x = element ? gguf_tensor_of(g, other_values[i].name) : NULL;
    ck_assert_msg(pair != NULL || x != NULL, "no %s", other_values[i].name);
    const uint32_t whole = other_values[i].number < 0 ? 0 : (uint32_t)other_values[i].number;
    const float real = (float)other_values[i].number;
    char *to = bytes + (element ? x->at : pair->at);
    if (is_text) memcpy(to, other_values[i].text, strlen(other_values[i].text));
    else if (other_values[i].what == NUMBER) dt__copy_little(to, &whole, sizeof whole);
    else dt__copy_little(to, &real, sizeof real);
}

START_TEST(foreign_values)
{
    made t;
    size_t size;
    const char *const name = other_values[_i].variant;
    const bool plain = strcmp(name, "linear") == 0 || strcmp(name, "llama3") == 0;
    struct variant v = *variant_named(plain ? "llama float" : name);
    if (strcmp(name, "linear") == 0) v.llama.rope = (dt_rope_options){ DT_ROPE_LINEAR, 2, 1, 4, 8 };
    if (strcmp(name, "llama3") == 0)
        v.llama.rope = (dt_rope_options){ DT_ROPE_LLAMA3, 8, 1, 4, 64 };
    make_float(&t, &v);
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_F32));
    TEST_OK(t.ctx, load(t.ctx, t.path));
    gguf_parsed *g = gguf_parse(t.path);
    char *bytes = test_read_file(t.path, &size);
    put_other_value(g, bytes, _i);
    test_write_file(t.path, bytes, size);
    if (other_values[_i].says == NULL) TEST_OK(t.ctx, load(t.ctx, t.path));
    else TEST_FAILS(t.ctx, other_values[_i].status, other_values[_i].says, load(t.ctx, t.path));
    gguf_free(g);
    free(bytes);
    drop(&t);
}
END_TEST

/* An amplitude of 0 is not the one that family llama computes. */
START_TEST(foreign_amplitudes)
{
    static const float factor[] = { 0, 2e6F };
    made t;
    size_t size;
    make_float(&t, variant_named("longrope"));
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_F32));
    gguf_parsed *g = gguf_parse(t.path);
    char *bytes = test_read_file(t.path, &size);
    dt__copy_little(bytes + gguf_pair_of(g, "llama.rope.scaling.attn_factor")->at, &factor[_i],
                    sizeof factor[_i]);
    test_write_file(t.path, bytes, size);
    TEST_FAILS(t.ctx, DT_ERR_FORMAT, "attn_factor", load(t.ctx, t.path));
    gguf_free(g);
    free(bytes);
    drop(&t);
}
END_TEST

/* Types of tensors that are not read, and offsets outside. */
START_TEST(foreign_tensors)
{
    made t;
    make_small(&t);
    size_t size;
    gguf_parsed *g = gguf_parse(t.path);
    char *bytes = test_read_file(t.path, &size);
    const size_t name = strlen(g->tensor[0].name);
    const size_t rank = g->infos + 8 + name, type = rank + 4 + 8 * g->tensor[0].rank;
    const struct {
        size_t at;
        unsigned char byte;
        const char *says;
    } cases[] = { { type, 12, "ggml type 12" },
                  { rank, 9, "9 dimensions" },
                  { type + 4, 1, "no multiple of" },
                  { type + 8, 1, "cut short" },
                  { rank + 4, 7, "not" },
                  { rank + 11, 0x7f, "too large" },
                  { type, 2, "make a block" } };
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        const char before = bytes[cases[i].at];
        bytes[cases[i].at] = (char)cases[i].byte;
        test_write_file(t.path, bytes, size);
        const dt_status s = load(t.ctx, t.path);
        ck_assert_msg(is_file_error(s) && strstr(dt_error(t.ctx), cases[i].says) != NULL,
                      "case %d: %s", i, dt_error(t.ctx));
        bytes[cases[i].at] = before;
    }
    free(bytes);
    gguf_free(g);
    drop(&t);
}
END_TEST

/* ---- recipes and the program ---------------------------------------------------------------- */

static const char recipe[] =
    "run: {dir: %s/run, seed: 1}\n"
    "model: {family: gpt, vocab: 256, context: 8, layers: 1, heads: 2, width: 32}\n"
    "data: {format: text, train: [%s/t.txt], tokenizer: bytes, context: 8}\n"
    "train: {steps: 2, batch_size: 2}\n"
    "qat: {preset: int4-weight, weight: {%s}}\n"
    "convert:\n"
    "  formats: [c, %s]\n";

START_TEST(recipes_name_the_format)
{
    static const char *const weights[] = { "scheme: q4_0", "group_size: 16", "group_size: 16" };
    static const char *const formats[] = { "gguf", "gguf", "gguf-f16" };
    char text[4 * TEST_PATH], folder[TEST_PATH], path[TEST_PATH], words[TEST_PATH] = "";
    dt_recipe *r = NULL;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "t.txt");
    for (int i = 0; i < 20; i++) strcat(words, "some text to be read. ");
    test_write_text(path, words);
    snprintf(text, sizeof text, recipe, folder, folder, weights[_i], formats[_i]);
    test_join(path, folder, "r.yaml");
    test_write_text(path, text);
    dt_status s = dt_recipe_read(ctx, &(dt_recipe_source){ .path = path }, &r);
    if (s == DT_OK) s = dt_run(ctx, r, &(dt_run_control){ .dry_run = true }, NULL);
    if (_i == 1) {
        ck_assert_int_eq(s, DT_ERR_CONFIG);
        ck_assert(strstr(dt_recipe_error_at(r, 0), ":7:16: error: format gguf cannot") != NULL);
        ck_assert(strstr(dt_recipe_error_at(r, 0), "group_size 16") != NULL);
    } else {
        TEST_OK(ctx, s);
    }
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

#define DETENT DETENT_BINARY_DIR "/detent"

/* From a file of llama.cpp to a model that is trained further, and back to the same blocks. */
START_TEST(the_program)
{
    made t;
    char *out, again[TEST_PATH];
    make(&t, &variants[0]);
    TEST_OK(t.ctx, export_as(&t, DT_GGUF_TRAINED));
    ck_assert_int_eq(test_shell(&out, DETENT " inspect %s 2>&1", t.path), 0);
    ck_assert(strstr(out, "Q4_0") != NULL && strstr(out, "\"llama\"") != NULL);
    free(out);
    test_join(again, t.folder, "own.safetensors");
    TEST_OK(t.ctx, dt_model_save(t.m, &t.info, again));
    ck_assert_int_eq(test_shell(&out, DETENT " export %s --format gguf -o %s.2 2>&1 && cmp %s %s.2",
                                again, t.path, t.path, t.path),
                     0);
    ck_assert(strstr(out, "products of integers") != NULL);
    free(out);
    const char *const config = DETENT_SOURCE_DIR "/configs/finetune-llama-int4.yaml";
    char text[TEST_PATH], words[600] = "";
    for (int i = 0; i < 40; i++) strcat(words, "to be or not: ");
    test_join(text, t.folder, "t.txt");
    test_write_text(text, words);
    const char *const settings = "data.tokenizer=chars data.context=4 train.steps=2 "
                                 "qat.start_step=0 train.schedule.warmup_steps=0 '~train.distill'";
    ck_assert_msg(test_shell(&out,
                             "cd %s && " DETENT " train %s model.init=%s data.train=[%s] %s "
                             "--dry-run 2>&1",
                             t.folder, config, t.path, text, settings) == 0,
                  "%s", out);
    free(out);
    test_write_text(text, "GGUF and no more");
    ck_assert_int_ne(test_shell(&out,
                                "cd %s && " DETENT " train %s model.init=t.txt "
                                "data.train=[t.txt] %s --dry-run 2>&1",
                                t.folder, config, settings),
                     0);
    ck_assert_msg(strstr(out, "t.txt: GGUF of version") != NULL, "%s", out);
    free(out);
    ck_assert_int_eq(
        test_shell(&out, DETENT " export %s --format gguf --type q2_k -o %s.3 2>&1", again, t.path),
        2);
    free(out);
    drop(&t);
}
END_TEST

Suite *test_gguf_suite(void)
{
    Suite *s = suite_create("gguf");
    TCase *c = tcase_create("gguf");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, files_hold_the_model, 0, VARIANTS);
    tcase_add_loop_test(c, files_are_read, 0, VARIANTS);
    tcase_add_loop_test(c, scaled_rotations, 0, 2);
    tcase_add_test(c, drawn_llama3_scalings_are_read_again);
    tcase_add_loop_test(c, bytes_and_characters, 0, 2);
    tcase_add_loop_test(c, byte_pairs, 0, 3);
    tcase_add_loop_test(c, chats_bring_their_template, 0, (int)(sizeof chats / sizeof chats[0]));
    tcase_add_loop_test(c, pieces, 0, 4);
    tcase_add_loop_test(c, pieces_without_scores, 0, 2);
    tcase_add_test(c, a_long_piece_is_cut_fast);
    tcase_add_loop_test(c, ways_to_cut_tokens_are_bounded, 0, 2);
    tcase_add_test(c, normalized_text);
    tcase_add_test(c, types_that_change_nothing);
    tcase_add_loop_test(c, what_blocks_cannot_hold, 0, (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_loop_test(c, nearly_an_architecture, 0, (int)(sizeof lacking / sizeof lacking[0]));
    tcase_add_test(c, rotations_that_llama_cpp_lacks);
    tcase_add_test(c, what_llama_cpp_lacks);
    tcase_add_test(c, every_truncation);
    tcase_add_test(c, every_byte);
    tcase_add_test(c, memory_fails);
    tcase_add_test(c, a_file_may_have_no_tensors);
    tcase_add_loop_test(c, foreign_files, 0, (int)(sizeof changes / sizeof changes[0]));
    tcase_add_test(c, parts_of_a_split_model);
    tcase_add_loop_test(c, a_factor_without_its_type, 0, 4);
    tcase_add_loop_test(c, foreign_values, 0, (int)(sizeof other_values / sizeof other_values[0]));
    tcase_add_loop_test(c, foreign_amplitudes, 0, 2);
    tcase_add_loop_test(c, foreign_architectures, 0,
                        (int)(sizeof own_changes / sizeof own_changes[0]));
    tcase_add_test(c, foreign_tensors);
    tcase_add_loop_test(c, recipes_name_the_format, 0, 3);
    tcase_add_test(c, the_program);
    suite_add_tcase(s, c);
    return s;
}
