/* Metadata of a GGUF file that describe the model. */
#include "core/byte_order.h"
#include "export/gguf_put.h"
#include "qat/adapters.h"

#include <stdio.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------- */

static void put_number(dt__chars *t, const void *value, size_t bytes)
{
    char number[8];
    dt__copy_little(number, value, bytes);
    dt__put(t, number, bytes);
}

void dt__gguf_put_u32(dt__chars *t, uint32_t value) { put_number(t, &value, sizeof value); }
void dt__gguf_put_u64(dt__chars *t, uint64_t value) { put_number(t, &value, sizeof value); }

void dt__gguf_put_string(dt__chars *t, const char *bytes, size_t n)
{
    dt__gguf_put_u64(t, n);
    dt__put(t, bytes, n);
}

static void begin(dt__gguf_put *p, const char *key, uint32_t type)
{
    p->n_keys++;
    dt__gguf_put_string(&p->keys, key, strlen(key));
    dt__gguf_put_u32(&p->keys, type);
}

void dt__gguf_key_u32(dt__gguf_put *p, const char *key, uint32_t value)
{
    begin(p, key, DT__GGUF_KEY_U32);
    dt__gguf_put_u32(&p->keys, value);
}

void dt__gguf_key_bool(dt__gguf_put *p, const char *key, bool value)
{
    begin(p, key, DT__GGUF_KEY_BOOL);
    dt__put(&p->keys, value ? "\1" : "\0", 1);
}

void dt__gguf_key_text(dt__gguf_put *p, const char *key, const char *value)
{
    begin(p, key, DT__GGUF_KEY_STRING);
    dt__gguf_put_string(&p->keys, value, strlen(value));
}

void dt__gguf_key_array(dt__gguf_put *p, const char *key, uint32_t type, uint64_t n)
{
    begin(p, key, DT__GGUF_KEY_ARRAY);
    dt__gguf_put_u32(&p->keys, type);
    dt__gguf_put_u64(&p->keys, n);
}

static void key_real(dt__gguf_put *p, const char *key, double value)
{
    const float x = (float)value;
    begin(p, key, DT__GGUF_KEY_F32);
    put_number(&p->keys, &x, sizeof x);
}

/* ---- the model ------------------------------------------------------------------------------ */

static void describe_gpt(dt__gguf_model *g, const dt_gpt_options *o)
{
    *g = (dt__gguf_model){ .arch = "gpt2",
                           .is_gpt = true,
                           .vocab = o->vocab,
                           .context = o->context,
                           .width = o->width,
                           .layers = o->layers,
                           .hidden = o->hidden == 0 ? 4 * o->width : o->hidden,
                           .heads = o->heads,
                           .kv_heads = o->heads,
                           .head_width = o->width / o->heads,
                           .eps = o->eps,
                           .tied = o->tied };
}

static void describe_llama(dt__gguf_model *g, const dt_llama_options *o)
{
    *g = (dt__gguf_model){ .vocab = o->vocab,
                           .context = o->context,
                           .width = o->width,
                           .layers = o->layers,
                           .hidden = o->hidden,
                           .heads = o->heads,
                           .kv_heads = o->kv_heads == 0 ? o->heads : o->kv_heads,
                           .head_width = o->head_width == 0 ? o->width / o->heads : o->head_width,
                           .experts = o->moe.given ? o->moe.experts : 0,
                           .top_k = o->moe.top_k,
                           .eps = o->eps,
                           .theta = o->theta,
                           .rope = o->rope,
                           .tied = o->tied,
                           .qkv_bias = o->qkv_bias,
                           .out_bias = o->out_bias,
                           .mlp_bias = o->mlp_bias,
                           .qk_norm = o->qk_norm };
    const bool is_square = g->heads * g->head_width == g->width;
    const bool is_dense = g->experts == 0 && o->rope.scaling != DT_ROPE_LLAMA3;
    g->arch = "llama";
    if (o->qk_norm) g->arch = "qwen3";
    else if (is_dense && o->qkv_bias && !o->out_bias && !o->mlp_bias && is_square) {
        g->arch = "qwen2";
    }
    g->pairs = strcmp(g->arch, "llama") == 0;
}

/* What arch qwen3, and llama's experts, lack. */
static void refuse_llama(dt__gguf_put *p, const dt_llama_options *o)
{
    if (o->qk_norm && (o->out_bias || o->mlp_bias || o->moe.given)) {
        dt__refusals_add(&p->refused,
                         "norms of queries and keys (Qwen3) beside experts or a bias of the output "
                         "layer or the mlp: llama.cpp has no such architecture");
    }
    if (o->qk_norm && o->rope.scaling == DT_ROPE_LLAMA3) {
        dt__refusals_add(&p->refused, "rope.scaling llama3: only arch llama of llama.cpp reads it");
    }
    if (o->moe.given && (o->mlp_bias || !o->moe.normalize)) {
        dt__refusals_add(&p->refused, "experts with biases, or without moe.normalize: llama.cpp's "
                                      "have neither");
    }
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
        const dt_gpt_options *o = info->options;
        if (o->rotated > 0 || o->parallel || o->gelu_erf) {
            return dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                           "format gguf holds GPT-2's blocks, and none with `rotated`, `parallel` "
                           "or `gelu_erf` (Pythia)");
        }
        describe_gpt(&p->g, o);
        return DT_OK;
    }
    if (family != NULL && strcmp(family, "llama") == 0) {
        const dt_llama_options *o = info->options;
        if (o->block.given) {
            return dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                           "format gguf holds Llama's blocks, and none with `block` (OLMo 2, "
                           "SmolLM3, Gemma 3, a sliding window)");
        }
        if (o->longrope.given) {
            return dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                           "format gguf holds no rotation by longrope (Phi-3)");
        }
        describe_llama(&p->g, info->options);
        refuse_llama(p, info->options);
        return DT_OK;
    }
    return dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                   "format gguf holds language models of families llama and gpt, which llama.cpp "
                   "runs; %s%s",
                   family == NULL ? "it is not known how this one is built" : "this is a ",
                   family == NULL ? "" : family);
}

static void key_of_arch(dt__gguf_put *p, const char *key, int64_t value)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", p->g.arch, key);
    dt__gguf_key_u32(p, name, (uint32_t)value);
}

static void real_of_arch(dt__gguf_put *p, const char *key, double value)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", p->g.arch, key);
    key_real(p, name, value);
}

static void put_rotation(dt__gguf_put *p)
{
    char name[80];
    const dt__gguf_model *g = &p->g;
    key_of_arch(p, "attention.key_length", g->head_width);
    key_of_arch(p, "attention.value_length", g->head_width);
    key_of_arch(p, "rope.dimension_count", g->head_width);
    real_of_arch(p, "rope.freq_base", g->theta);
    if (g->rope.scaling != DT_ROPE_LINEAR) return;
    snprintf(name, sizeof name, "%s.rope.scaling.type", g->arch);
    dt__gguf_key_text(p, name, "linear");
    real_of_arch(p, "rope.scaling.factor", g->rope.factor);
}

void dt__gguf_put_keys(dt__gguf_put *p)
{
    const dt__gguf_model *g = &p->g;
    dt__gguf_key_text(p, "general.architecture", g->arch);
    dt__gguf_key_u32(p, "general.alignment", DT__GGUF_ALIGNMENT);
    dt__gguf_key_u32(p, "general.quantization_version", 2);
    key_of_arch(p, "vocab_size", g->vocab);
    key_of_arch(p, "context_length", g->context);
    key_of_arch(p, "embedding_length", g->width);
    key_of_arch(p, "block_count", g->layers);
    key_of_arch(p, "feed_forward_length", g->hidden);
    key_of_arch(p, "attention.head_count", g->heads);
    key_of_arch(p, "attention.head_count_kv", g->kv_heads);
    real_of_arch(p, g->is_gpt ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                 g->eps);
    if (!g->is_gpt) put_rotation(p);
    if (g->experts == 0) return;
    key_of_arch(p, "expert_count", g->experts);
    key_of_arch(p, "expert_used_count", g->top_k);
}
