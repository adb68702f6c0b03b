/* Chooses the architecture of llama.cpp for a model, and finds what llama.cpp computes differently
 * or does not support. */
#include "export/gguf/gguf_put.h"
#include "nn/families/family.h"

#include <string.h>

static const dt__gguf_arch *arch_of(const char *name)
{
    return dt__gguf_arch_named(name, strlen(name));
}

static void want(dt__gguf_put *p, bool holds, const char *otherwise)
{
    if (!holds) dt__refusals_add(&p->refused, "%s", otherwise);
}

/* llama.cpp approximates Pythia's gelu by tanh, which a note says (export_gguf.c). */
static void describe_gpt(dt__gguf_put *p, const dt_gpt_options *o)
{
    const bool rotated = o->rotated > 0;
    dt__gguf_model *g = &p->g;
    *g = (dt__gguf_model){ .arch = arch_of(rotated ? "gptneox" : "gpt2"),
                           .o = { .vocab = o->vocab,
                                  .context = o->context,
                                  .width = o->width,
                                  .layers = o->layers,
                                  .hidden = o->hidden == 0 ? 4 * o->width : o->hidden,
                                  .heads = o->heads,
                                  .kv_heads = o->heads,
                                  .head_width = o->width / o->heads,
                                  .theta = o->theta,
                                  .eps = o->eps,
                                  .tied = o->tied && !rotated },
                           .parallel = o->parallel,
                           .gelu_erf = o->gelu_erf };
    if (rotated) g->rotated = (int64_t)((double)g->o.head_width * o->rotated);
    want(p, rotated || (!o->parallel && !o->gelu_erf),
         "`parallel` or `gelu_erf` with learned positions: llama.cpp has GPT-2's blocks, and with "
         "`rotated` Pythia's");
}

static void describe_llama(dt__gguf_model *g, const dt_llama_options *o)
{
    *g = (dt__gguf_model){ .o = *o };
    if (o->kv_heads == 0) g->o.kv_heads = o->heads;
    if (o->head_width == 0) g->o.head_width = o->width / o->heads;
    if (!o->moe.given) g->o.moe.experts = 0;
    if (!o->block.given) g->o.block = (dt_block_options){ .given = false };
    if (g->o.block.unrotated > o->layers) g->o.block.unrotated = 0;
    if (o->longrope.given) g->o.longrope.attention_factor = dt__longrope_amplitude(o);
}

static bool is_square(const dt__gguf_model *g)
{
    return g->o.heads * g->o.head_width == g->o.width;
}

/* Whether the block has no option that only Gemma 3 has; query_width and norms are checked
 * elsewhere. */
static bool is_plain(const dt_block_options *b)
{
    return !b->norm_plus_one && b->activation == DT_GATE_SILU && !b->scaled_tokens &&
           b->query_width == 0 && b->window == 0;
}

/* Llama, Qwen2, Qwen3 and Mixtral. */
static void choose_llama(dt__gguf_put *p, const dt_llama_options *o)
{
    dt__gguf_model *g = &p->g;
    const bool is_dense =
        g->o.moe.experts == 0 && g->o.rope.scaling != DT_ROPE_LLAMA3 && !g->o.longrope.given;
    g->arch = arch_of("llama");
    if (g->o.qk_norm) g->arch = arch_of("qwen3");
    else if (is_dense && g->o.qkv_bias && !g->o.out_bias && !g->o.mlp_bias && is_square(g)) {
        g->arch = arch_of("qwen2");
    }
    want(p, is_plain(&g->o.block),
         "`block` with settings of Gemma 3 (norm_plus_one, activation, scaled_tokens, query_width, "
         "window) but without block.norms both: llama.cpp has no such architecture, and windows "
         "of Gemma 3 alone");
    want(
        p, !g->o.qk_norm || !g->o.block.qk_norm_all,
        "block.qk_norm_all without block.norms after (OLMo 2): llama.cpp has no such architecture");
    want(p, !g->o.qk_norm || (!g->o.out_bias && !g->o.mlp_bias && g->o.moe.experts == 0),
         "norms of queries and keys (Qwen3) beside experts or a bias of the output layer or the "
         "mlp: llama.cpp has no such architecture");
    want(p, !g->o.qk_norm || (g->o.rope.scaling != DT_ROPE_LLAMA3 && !g->o.longrope.given),
         "rope.scaling llama3, or longrope: only arch llama of llama.cpp reads it");
    want(p, g->o.moe.experts == 0 || (!g->o.mlp_bias && o->moe.normalize),
         "experts with biases, or without moe.normalize: llama.cpp's have neither");
}

/* Checks that the following three architectures share. */
static void want_simple(dt__gguf_put *p)
{
    const dt__gguf_model *g = &p->g;
    want(p, g->o.rope.scaling != DT_ROPE_LLAMA3 && !g->o.longrope.given,
         "rope.scaling llama3, or longrope: only arch llama of llama.cpp reads it");
    want(p, !g->o.out_bias && !g->o.mlp_bias && g->o.moe.experts == 0,
         "experts, or a bias of the output layer or the mlp, in blocks of OLMo 2, SmolLM3 or Gemma "
         "3: llama.cpp has no such architecture");
}

static void choose_smollm3(dt__gguf_put *p)
{
    p->g.arch = arch_of("smollm3");
    want_simple(p);
    want(p, is_plain(&p->g.o.block) && !p->g.o.qk_norm,
         "block.unrotated (SmolLM3) beside other settings of `block`, or qk_norm: llama.cpp has no "
         "such architecture");
    if (p->g.o.block.unrotated == DT__GGUF_UNROTATED) return;
    dt__refusals_add(&p->refused, "block.unrotated %lld: in llama.cpp's SmolLM3 it is %d",
                     (long long)p->g.o.block.unrotated, DT__GGUF_UNROTATED);
}

static void choose_olmo2(dt__gguf_put *p)
{
    dt__gguf_model *g = &p->g;
    g->arch = arch_of("olmo2");
    g->o.tied = false;
    want_simple(p);
    want(p,
         is_plain(&g->o.block) && g->o.qk_norm && g->o.block.qk_norm_all &&
             g->o.block.unrotated == 0 && !g->o.qkv_bias && is_square(g),
         "block.norms after without the rest of OLMo 2 (qk_norm, block.qk_norm_all, no biases, no "
         "windows, heads that make up the width): llama.cpp has no such architecture");
}

static void choose_gemma3(dt__gguf_put *p)
{
    dt__gguf_model *g = &p->g;
    const dt_block_options *b = &g->o.block;
    const double query = b->query_width == 0 ? (double)g->o.head_width : b->query_width;
    g->arch = arch_of("gemma3");
    want_simple(p);
    want(p,
         b->norm_plus_one && b->activation == DT_GATE_GELU_TANH && b->scaled_tokens &&
             g->o.qk_norm && !b->qk_norm_all && b->unrotated == 0 && !g->o.qkv_bias,
         "block.norms both without the rest of Gemma 3 (norm_plus_one, activation gelu_tanh, "
         "scaled_tokens, qk_norm of each head, no biases): llama.cpp has no such architecture");
    want(p, b->window == 0 || b->local_theta > 0 || g->o.rope.scaling == DT_ROPE_PLAIN,
         "block.window without block.local_theta beside rope.scaling: in llama.cpp layers with a "
         "window are not scaled");
    if (query == dt__gguf_query_width(g)) return;
    dt__refusals_add(&p->refused, "block.query_width %g: in llama.cpp's Gemma 3 it is %g", query,
                     dt__gguf_query_width(g));
}

static void choose(dt__gguf_put *p, const dt_llama_options *o)
{
    describe_llama(&p->g, o);
    want(p, p->g.o.block.hadamard == 0,
         "block.hadamard: llama.cpp has no matrices in front of an mlp's output layer");
    if (p->g.o.block.norms == DT_BLOCK_NORMS_AFTER) choose_olmo2(p);
    else if (p->g.o.block.norms == DT_BLOCK_NORMS_BOTH) choose_gemma3(p);
    else if (p->g.o.block.unrotated > 0) choose_smollm3(p);
    else choose_llama(p, o);
}

dt_status dt__gguf_describe(dt__gguf_put *p)
{
    const dt_model_info *info = p->call->info;
    const char *family = info == NULL || info->family == NULL ? NULL : info->family->name;
    if (dt_has_lora(p->call->m)) {
        return dt_fail(p->ctx, DT_ERR_STATE,
                       "gguf: the model has adapters: detent merge comes "
                       "first");
    }
    if (family != NULL && strcmp(family, "gpt") == 0) {
        describe_gpt(p, info->options);
        return DT_OK;
    }
    if (family != NULL && strcmp(family, "llama") == 0) {
        choose(p, info->options);
        return DT_OK;
    }
    return dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                   "format gguf holds language models of families llama and gpt, which llama.cpp "
                   "runs; %s%s",
                   family == NULL ? "it is not known how this one is built"
                                  : "this one is of family ",
                   family == NULL ? "" : family);
}
