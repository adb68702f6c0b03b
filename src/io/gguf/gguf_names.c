/* Names and types in GGUF files, and the order of rows of queries and keys: architecture llama
 * rotates pairs (2j, 2j + 1) of a head where detent rotates halves (j, j + h/2). */
#include "io/gguf/gguf.h"

#include <math.h>
#include <string.h>

static const dt__gguf_type types[] = {
    { DT__GGUF_F32, "F32", 1, 4 },
    { DT__GGUF_F16, "F16", 1, 2 },
    { DT__GGUF_Q4_0, "Q4_0", DT__GGUF_BLOCK, 18 },
    { DT__GGUF_Q8_0, "Q8_0", DT__GGUF_BLOCK, 34 },
    { DT__GGUF_Q2_K, "Q2_K", DT__GGUF_LONG_BLOCK, 84 },
    { DT__GGUF_Q3_K, "Q3_K", DT__GGUF_LONG_BLOCK, 110 },
    { DT__GGUF_TQ1_0, "TQ1_0", DT__GGUF_LONG_BLOCK, 54 },
    { DT__GGUF_TQ2_0, "TQ2_0", DT__GGUF_LONG_BLOCK, 66 },
    { DT__GGUF_MXFP4, "MXFP4", DT__GGUF_BLOCK, 17 },
    { DT__GGUF_Q1_0, "Q1_0", DT__GGUF_Q1_BLOCK, 18 },
    { DT__GGUF_Q2_0, "Q2_0", DT__GGUF_Q2_BLOCK, 18 },
};

const dt__gguf_type *dt__gguf_type_of(uint32_t id)
{
    for (int i = 0; i < DT__COUNT_OF(types); i++) {
        if (types[i].id == id) return &types[i];
    }
    return NULL;
}

static const dt__gguf_arch archs[] = {
    { .name = "llama", .pairs = true },
    { .name = "qwen2" },
    { .name = "qwen3" },
    { .name = "olmo2" },
    { .name = "gemma3" },
    { .name = "smollm3", .pairs = true },
    { .name = "gpt2", .is_gpt = true },
    { .name = "gptneox", .is_gpt = true },
};

const dt__gguf_arch *dt__gguf_arch_named(const char *name, size_t n)
{
    for (int i = 0; i < DT__COUNT_OF(archs); i++) {
        if (strlen(archs[i].name) == n && memcmp(archs[i].name, name, n) == 0) return &archs[i];
    }
    return NULL;
}

/* Conditions: a model has a tensor if it meets one of the tensor's conditions. */
enum {
    ALWAYS = 1,
    UNTIED = 2,
    QKV_BIAS = 4,
    OUT_BIAS = 8,
    MLP_BIAS = 16,
    QK_NORM = 32,
    DENSE = 64, /* no experts */
    MIXED = 128,
    LEARNED = 256, /* learned positions */
    BEFORE = 512,  /* norms before sublayers, behind them (AFTER), or both (BOTH) */
    AFTER = 1024,
    BOTH = 2048
};

static const dt__gguf_name llama_whole[] = {
    { "token_embd.weight", { "model.embed_tokens.weight" }, ALWAYS, 0 },
    { "output_norm.weight", { "model.norm.weight" }, ALWAYS, 0 },
    { "output.weight", { "lm_head.weight" }, UNTIED, 0 },
    { .theirs = NULL },
};

#define Q DT__GGUF_Q_HEADS
#define K DT__GGUF_K_HEADS

static const dt__gguf_name llama_block[] = {
    { "attn_norm.weight", { "input_layernorm.weight" }, BEFORE | BOTH, 0 },
    { "post_attention_norm.weight", { "post_attention_layernorm.weight" }, AFTER | BOTH, 0 },
    { "attn_q.weight", { "self_attn.q_proj.weight" }, ALWAYS, Q },
    { "attn_q.bias", { "self_attn.q_proj.bias" }, QKV_BIAS, Q },
    { "attn_k.weight", { "self_attn.k_proj.weight" }, ALWAYS, K },
    { "attn_k.bias", { "self_attn.k_proj.bias" }, QKV_BIAS, K },
    { "attn_v.weight", { "self_attn.v_proj.weight" }, ALWAYS, 0 },
    { "attn_v.bias", { "self_attn.v_proj.bias" }, QKV_BIAS, 0 },
    { "attn_q_norm.weight", { "self_attn.q_norm.weight" }, QK_NORM, 0 },
    { "attn_k_norm.weight", { "self_attn.k_norm.weight" }, QK_NORM, 0 },
    { "attn_output.weight", { "self_attn.o_proj.weight" }, ALWAYS, 0 },
    { "attn_output.bias", { "self_attn.o_proj.bias" }, OUT_BIAS, 0 },
    { "ffn_norm.weight", { "post_attention_layernorm.weight" }, BEFORE, 0 },
    { "ffn_norm.weight", { "pre_feedforward_layernorm.weight" }, BOTH, 0 },
    { "post_ffw_norm.weight", { "post_feedforward_layernorm.weight" }, AFTER | BOTH, 0 },
    { "ffn_gate.weight", { "mlp.gate_proj.weight" }, DENSE, 0 },
    { "ffn_gate.bias", { "mlp.gate_proj.bias" }, MLP_BIAS, 0 },
    { "ffn_up.weight", { "mlp.up_proj.weight" }, DENSE, 0 },
    { "ffn_up.bias", { "mlp.up_proj.bias" }, MLP_BIAS, 0 },
    { "ffn_down.weight", { "mlp.down_proj.weight" }, DENSE, 0 },
    { "ffn_down.bias", { "mlp.down_proj.bias" }, MLP_BIAS, 0 },
    { "ffn_gate_inp.weight", { "moe.router.weight" }, MIXED, 0 },
    { "ffn_gate_exps.weight", { "moe.w_gate.weight" }, MIXED, 0 },
    { "ffn_up_exps.weight", { "moe.w_up.weight" }, MIXED, 0 },
    { "ffn_down_exps.weight", { "moe.w_down.weight" }, MIXED, 0 },
    { .theirs = NULL },
};

static const dt__gguf_name gpt_whole[] = {
    { "token_embd.weight", { "tokens.weight" }, ALWAYS, 0 },
    { "position_embd.weight", { "positions.weight" }, LEARNED, 0 },
    { "output_norm.weight", { "norm.weight" }, ALWAYS, 0 },
    { "output_norm.bias", { "norm.bias" }, ALWAYS, 0 },
    { "output.weight", { "head.weight" }, UNTIED, 0 },
    { .theirs = NULL },
};

/* llama.cpp requires biases for gpt2 and gptneox; the writer stores zeros where a model has
 * none. */
static const dt__gguf_name gpt_block[] = {
    { "attn_norm.weight", { "norm1.weight" }, ALWAYS, 0 },
    { "attn_norm.bias", { "norm1.bias" }, ALWAYS, 0 },
    { "attn_qkv.weight", { "attn.q.weight", "attn.k.weight", "attn.v.weight" }, ALWAYS, 0 },
    { "attn_qkv.bias", { "attn.q.bias", "attn.k.bias", "attn.v.bias" }, ALWAYS, 0 },
    { "attn_output.weight", { "attn.out.weight" }, ALWAYS, 0 },
    { "attn_output.bias", { "attn.out.bias" }, ALWAYS, 0 },
    { "ffn_norm.weight", { "norm2.weight" }, ALWAYS, 0 },
    { "ffn_norm.bias", { "norm2.bias" }, ALWAYS, 0 },
    { "ffn_up.weight", { "mlp.up.weight" }, ALWAYS, 0 },
    { "ffn_up.bias", { "mlp.up.bias" }, ALWAYS, 0 },
    { "ffn_down.weight", { "mlp.down.weight" }, ALWAYS, 0 },
    { "ffn_down.bias", { "mlp.down.bias" }, ALWAYS, 0 },
    { .theirs = NULL },
};

const dt__gguf_names *dt__gguf_names_of(const dt__gguf_model *g)
{
    static const dt__gguf_names llama = { llama_whole, llama_block, "model.layers." };
    static const dt__gguf_names gpt = { gpt_whole, gpt_block, "blocks." };
    return g->arch->is_gpt ? &gpt : &llama;
}

bool dt__gguf_has(const dt__gguf_model *g, const dt__gguf_name *n)
{
    const int norms = g->o.block.norms == DT_BLOCK_NORMS_BEFORE  ? BEFORE
                      : g->o.block.norms == DT_BLOCK_NORMS_AFTER ? AFTER
                                                                 : BOTH;
    const int has = ALWAYS | (g->o.tied ? 0 : UNTIED) | (g->o.qkv_bias ? QKV_BIAS : 0) |
                    (g->o.out_bias ? OUT_BIAS : 0) | (g->o.mlp_bias ? MLP_BIAS : 0) |
                    (g->o.qk_norm ? QK_NORM : 0) | (g->o.moe.experts == 0 ? DENSE : MIXED) |
                    (g->rotated == 0 ? LEARNED : 0) | norms;
    return (n->when & (unsigned)has) != 0;
}

float dt__gguf_offset(const dt__gguf_model *g, const dt__gguf_name *n)
{
    static const char norm[] = "norm.weight";
    const size_t length = strlen(n->theirs), end = sizeof norm - 1;
    if (!g->o.block.norm_plus_one || length < end) return 0;
    return strcmp(n->theirs + length - end, norm) == 0 ? 1 : 0;
}

double dt__gguf_query_width(const dt__gguf_model *g)
{
    const bool large = g->o.layers == DT__GGUF_GEMMA_27B;
    return (double)(large ? g->o.width / g->o.heads : g->o.head_width);
}

int64_t dt__gguf_row(const dt__gguf_model *g, const dt__gguf_name *n, int64_t row)
{
    const int64_t width = g->o.head_width, at = row % width;
    if (!g->arch->pairs || n->heads == DT__GGUF_NO_HEADS) return row;
    return row - at + at % 2 * (width / 2) + at / 2;
}

double dt__gguf_rope_factor(const dt__gguf_model *g, int64_t i)
{
    const dt_rope_options *r = &g->o.rope;
    const double turn = 6.283185307179586476925;
    const double length = turn * pow(g->o.theta, 2.0 * (double)i / (double)g->o.head_width);
    const double turns = (double)r->original_context / length;
    if (turns > r->high_freq_factor) return 1;
    if (turns < r->low_freq_factor) return r->factor;
    const double smooth = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return 1 / ((1 - smooth) / r->factor + smooth);
}
