/* Names and types in GGUF files, and the order of rows of queries and keys: arch llama rotates
 * pairs (2j, 2j + 1) of a head where detent rotates halves (j, j + h/2). */
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

static const dt__gguf_name llama_whole[] = {
    { .theirs = "token_embd.weight", .ours = { "model.embed_tokens.weight" } },
    { .theirs = "output_norm.weight", .ours = { "model.norm.weight" } },
    { .theirs = "output.weight", .ours = { "lm_head.weight" }, .when = DT__GGUF_UNTIED },
    { .theirs = NULL },
};

#define Q DT__GGUF_Q_HEADS
#define K DT__GGUF_K_HEADS

static const dt__gguf_name llama_block[] = {
    { .theirs = "attn_norm.weight", .ours = { "input_layernorm.weight" }, .when = DT__GGUF_BEFORE },
    { .theirs = "attn_norm.weight", .ours = { "input_layernorm.weight" }, .when = DT__GGUF_BOTH },
    { .theirs = "post_attention_norm.weight",
      .ours = { "post_attention_layernorm.weight" },
      .when = DT__GGUF_AFTER },
    { .theirs = "post_attention_norm.weight",
      .ours = { "post_attention_layernorm.weight" },
      .when = DT__GGUF_BOTH },
    { .theirs = "attn_q.weight", .ours = { "self_attn.q_proj.weight" }, .heads = Q },
    { .theirs = "attn_q.bias",
      .ours = { "self_attn.q_proj.bias" },
      .heads = Q,
      .when = DT__GGUF_QKV_BIAS },
    { .theirs = "attn_k.weight", .ours = { "self_attn.k_proj.weight" }, .heads = K },
    { .theirs = "attn_k.bias",
      .ours = { "self_attn.k_proj.bias" },
      .heads = K,
      .when = DT__GGUF_QKV_BIAS },
    { .theirs = "attn_v.weight", .ours = { "self_attn.v_proj.weight" } },
    { .theirs = "attn_v.bias", .ours = { "self_attn.v_proj.bias" }, .when = DT__GGUF_QKV_BIAS },
    { .theirs = "attn_q_norm.weight",
      .ours = { "self_attn.q_norm.weight" },
      .when = DT__GGUF_QK_NORM },
    { .theirs = "attn_k_norm.weight",
      .ours = { "self_attn.k_norm.weight" },
      .when = DT__GGUF_QK_NORM },
    { .theirs = "attn_output.weight", .ours = { "self_attn.o_proj.weight" } },
    { .theirs = "attn_output.bias",
      .ours = { "self_attn.o_proj.bias" },
      .when = DT__GGUF_OUT_BIAS },
    { .theirs = "ffn_norm.weight",
      .ours = { "post_attention_layernorm.weight" },
      .when = DT__GGUF_BEFORE },
    { .theirs = "ffn_norm.weight",
      .ours = { "pre_feedforward_layernorm.weight" },
      .when = DT__GGUF_BOTH },
    { .theirs = "post_ffw_norm.weight",
      .ours = { "post_feedforward_layernorm.weight" },
      .when = DT__GGUF_AFTER },
    { .theirs = "post_ffw_norm.weight",
      .ours = { "post_feedforward_layernorm.weight" },
      .when = DT__GGUF_BOTH },
    { .theirs = "ffn_gate.weight", .ours = { "mlp.gate_proj.weight" }, .when = DT__GGUF_DENSE },
    { .theirs = "ffn_gate.bias", .ours = { "mlp.gate_proj.bias" }, .when = DT__GGUF_MLP_BIAS },
    { .theirs = "ffn_up.weight", .ours = { "mlp.up_proj.weight" }, .when = DT__GGUF_DENSE },
    { .theirs = "ffn_up.bias", .ours = { "mlp.up_proj.bias" }, .when = DT__GGUF_MLP_BIAS },
    { .theirs = "ffn_down.weight", .ours = { "mlp.down_proj.weight" }, .when = DT__GGUF_DENSE },
    { .theirs = "ffn_down.bias", .ours = { "mlp.down_proj.bias" }, .when = DT__GGUF_MLP_BIAS },
    { .theirs = "ffn_gate_inp.weight", .ours = { "moe.router.weight" }, .when = DT__GGUF_MIXED },
    { .theirs = "ffn_gate_exps.weight", .ours = { "moe.w_gate.weight" }, .when = DT__GGUF_MIXED },
    { .theirs = "ffn_up_exps.weight", .ours = { "moe.w_up.weight" }, .when = DT__GGUF_MIXED },
    { .theirs = "ffn_down_exps.weight", .ours = { "moe.w_down.weight" }, .when = DT__GGUF_MIXED },
    { .theirs = NULL },
};

static const dt__gguf_name gpt_whole[] = {
    { .theirs = "token_embd.weight", .ours = { "tokens.weight" } },
    { .theirs = "position_embd.weight", .ours = { "positions.weight" }, .when = DT__GGUF_LEARNED },
    { .theirs = "output_norm.weight", .ours = { "norm.weight" } },
    { .theirs = "output_norm.bias", .ours = { "norm.bias" } },
    { .theirs = "output.weight", .ours = { "head.weight" }, .when = DT__GGUF_UNTIED },
    { .theirs = NULL },
};

/* llama.cpp wants the biases of gpt2 and gptneox; the writer has zeros for those that a model
 * lacks. */
static const dt__gguf_name gpt_block[] = {
    { .theirs = "attn_norm.weight", .ours = { "norm1.weight" } },
    { .theirs = "attn_norm.bias", .ours = { "norm1.bias" } },
    { .theirs = "attn_qkv.weight", .ours = { "attn.q.weight", "attn.k.weight", "attn.v.weight" } },
    { .theirs = "attn_qkv.bias", .ours = { "attn.q.bias", "attn.k.bias", "attn.v.bias" } },
    { .theirs = "attn_output.weight", .ours = { "attn.out.weight" } },
    { .theirs = "attn_output.bias", .ours = { "attn.out.bias" } },
    { .theirs = "ffn_norm.weight", .ours = { "norm2.weight" } },
    { .theirs = "ffn_norm.bias", .ours = { "norm2.bias" } },
    { .theirs = "ffn_up.weight", .ours = { "mlp.up.weight" } },
    { .theirs = "ffn_up.bias", .ours = { "mlp.up.bias" } },
    { .theirs = "ffn_down.weight", .ours = { "mlp.down.weight" } },
    { .theirs = "ffn_down.bias", .ours = { "mlp.down.bias" } },
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
    const bool has[] = {
        [DT__GGUF_ALWAYS] = true,
        [DT__GGUF_UNTIED] = !g->tied,
        [DT__GGUF_QKV_BIAS] = g->qkv_bias,
        [DT__GGUF_OUT_BIAS] = g->out_bias,
        [DT__GGUF_MLP_BIAS] = g->mlp_bias,
        [DT__GGUF_QK_NORM] = g->qk_norm,
        [DT__GGUF_DENSE] = g->experts == 0,
        [DT__GGUF_MIXED] = g->experts > 0,
        [DT__GGUF_LEARNED] = g->rotated == 0,
        [DT__GGUF_BEFORE] = g->block.norms == DT_BLOCK_NORMS_BEFORE,
        [DT__GGUF_AFTER] = g->block.norms == DT_BLOCK_NORMS_AFTER,
        [DT__GGUF_BOTH] = g->block.norms == DT_BLOCK_NORMS_BOTH,
    };
    return has[n->when];
}

float dt__gguf_offset(const dt__gguf_model *g, const dt__gguf_name *n)
{
    static const char norm[] = "norm.weight";
    const size_t length = strlen(n->theirs), end = sizeof norm - 1;
    if (!g->block.norm_plus_one || length < end) return 0;
    return strcmp(n->theirs + length - end, norm) == 0 ? 1 : 0;
}

double dt__gguf_query_width(const dt__gguf_model *g)
{
    const bool large = g->layers == DT__GGUF_GEMMA_27B;
    return (double)(large ? g->width / g->heads : g->head_width);
}

int64_t dt__gguf_row(const dt__gguf_model *g, const dt__gguf_name *n, int64_t row)
{
    const int64_t width = g->head_width, at = row % width;
    if (!g->arch->pairs || n->heads == DT__GGUF_NO_HEADS) return row;
    return row - at + at % 2 * (width / 2) + at / 2;
}

double dt__gguf_rope_factor(const dt__gguf_model *g, int64_t i)
{
    const dt_rope_options *r = &g->rope;
    const double turn = 6.283185307179586476925;
    const double length = turn * pow(g->theta, 2.0 * (double)i / (double)g->head_width);
    const double turns = (double)r->original_context / length;
    if (turns > r->high_freq_factor) return 1;
    if (turns < r->low_freq_factor) return r->factor;
    const double smooth = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return 1 / ((1 - smooth) / r->factor + smooth);
}
