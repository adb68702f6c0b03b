/* Finds the model class that supports the options of a model of family llama, and writes the keys
 * of config.json in which these classes differ. */
#include "io/hf/hf_config.h"
#include "nn/families/family.h"

#include <math.h>
#include <string.h>

/* Whether a block has either all settings of Gemma 3 or none, as the class requires. */
static bool fits_gemma(const dt__hf_class *k, const dt_block_options *b)
{
    if (!k->gemma) {
        return !b->norm_plus_one && b->activation == DT_GATE_SILU && !b->scaled_tokens &&
               b->query_width == 0 && b->local_theta == 0;
    }
    return b->norm_plus_one && b->activation == DT_GATE_GELU_TANH && b->scaled_tokens &&
           (b->window > 0) == (b->local_theta > 0);
}

static bool fits_bias(const dt__hf_class *k, const dt_llama_options *o)
{
    if (o->mlp_bias && !k->reads_mlp_bias) return false;
    if (k->biased) return o->qkv_bias && !o->out_bias;
    return k->reads_attention_bias ? o->qkv_bias == o->out_bias : !o->qkv_bias && !o->out_bias;
}

static bool lists_windows(const dt__hf_class *k) { return k->window >= DT__HF_USED_WINDOW; }

static bool fits_window(const dt__hf_class *k, const dt_block_options *b)
{
    if (k->window == DT__HF_NO_WINDOW) return b->window == 0;
    return lists_windows(k) || b->full_every == 0;
}

static bool fits(const dt__hf_class *k, const dt_llama_options *o)
{
    const dt_block_options b = dt__llama_block(o);
    const int norms = k->after   ? DT_BLOCK_NORMS_AFTER
                      : k->gemma ? DT_BLOCK_NORMS_BOTH
                                 : DT_BLOCK_NORMS_BEFORE;
    return norms == b.norms && k->mixed == o->moe.given && k->normed == o->qk_norm &&
           k->norm_all == (o->qk_norm && b.qk_norm_all) && (k->unrotated > 0 || b.unrotated == 0) &&
           (!k->mixed || o->moe.normalize) && fits_bias(k, o) && fits_window(k, &b) &&
           (k->original > 0 || !o->longrope.given) && b.hadamard == 0 && fits_gemma(k, &b);
}

/* The requested class if it fits, else the first that fits. */
static const dt__hf_class *class_of(const dt_llama_options *o, const dt__hf_new *how)
{
    const dt__hf_class *first = NULL;
    for (const dt__hf_class *k = dt__hf_classes; k->name != NULL; k++) {
        if (!fits(k, o) || (k->names != NULL && how->integers)) continue;
        if (how->type != NULL && strcmp(how->type, k->name) == 0) return k;
        if (first == NULL) first = k;
    }
    return first;
}

const dt__hf_names *dt__hf_class_names(const dt_llama_options *o, const dt__hf_new *how)
{
    const dt__hf_class *k = class_of(o, how);
    return k == NULL ? NULL : k->names;
}

static dt_status refuse(dt_ctx *ctx, const dt_llama_options *o)
{
    static const char *const norms[] = { "before", "after", "both" };
    const dt_block_options b = dt__llama_block(o);
    if (o->moe.given) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "a mixture of experts is written as a Mixtral, which has no biases, no "
                       "norms of queries and keys, and weights that add up to 1: qkv_bias %d, "
                       "out_bias %d, mlp_bias %d, qk_norm %d, moe.normalize %d",
                       o->qkv_bias, o->out_bias, o->mlp_bias, o->qk_norm, o->moe.normalize);
    }
    if (b.hadamard > 0) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "no class of models has matrices in front of its mlps' output layers: "
                       "block.hadamard %lld",
                       (long long)b.hadamard);
    }
    if (o->longrope.given) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "longrope is written as a Phi-3, whose queries, keys and values are one "
                       "tensor of floats, and which has no biases, no norms of queries and keys, "
                       "and Llama's blocks: qkv_bias %d, out_bias %d, mlp_bias %d, qk_norm %d",
                       o->qkv_bias, o->out_bias, o->mlp_bias, o->qk_norm);
    }
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "no class of models has these biases, norms and blocks: qkv_bias %d, out_bias "
                   "%d, mlp_bias %d, qk_norm %d, block.norms %s, block.norm_plus_one %d, "
                   "block.qk_norm_all %d, block.activation %s, block.scaled_tokens %d, "
                   "block.query_width %g, block.unrotated %lld, block.window %lld, "
                   "block.full_every %lld, block.local_theta %g",
                   o->qkv_bias, o->out_bias, o->mlp_bias, o->qk_norm, norms[b.norms],
                   b.norm_plus_one, b.qk_norm_all,
                   b.activation == DT_GATE_SILU ? "silu" : "gelu_tanh", b.scaled_tokens,
                   b.query_width, (long long)b.unrotated, (long long)b.window,
                   (long long)b.full_every, b.local_theta);
}

/* A list with one of two words per layer: every `every`-th layer has the first word. */
static void put_layers(dt__chars *t, const char *key, int64_t layers, int64_t every,
                       const char *const words[2])
{
    dt__hf_put_key(t, key);
    for (int64_t i = 1; i <= layers; i++) {
        dt__put_text(t, i == 1 ? "[" : ", ");
        dt__put_text(t, words[every == 0 || i % every != 0]);
    }
    dt__put_text(t, "]");
}

static void put_windows(dt__chars *t, const dt__hf_class *k, const dt_llama_options *o)
{
    static const char *const types[] = { "\"full_attention\"", "\"sliding_attention\"" };
    const dt_block_options b = dt__llama_block(o);
    if (!k->mixed && !k->gemma) dt__hf_put_bool(t, "use_sliding_window", b.window > 0);
    if (b.window > 0) dt__hf_put_int(t, "sliding_window", b.window);
    else if (!k->gemma) dt__hf_put_null(t, "sliding_window");
    if (lists_windows(k) && (b.window > 0 || k->gemma)) {
        put_layers(t, "layer_types", o->layers, b.window > 0 ? b.full_every : 1, types);
    }
}

static void put_gemma(dt__chars *t, const dt_llama_options *o, const dt_block_options *b)
{
    const int64_t head = o->head_width == 0 ? o->width / o->heads : o->head_width;
    const double query = b->query_width == 0 ? (double)head : b->query_width;
    dt__hf_put_text(t, "hidden_activation", "gelu_pytorch_tanh");
    if (query == floor(query)) { /* transformers 5 requires an integer */
        dt__hf_put_int(t, "query_pre_attn_scalar", (int64_t)query);
    } else {
        dt__hf_put_real(t, "query_pre_attn_scalar", query);
    }
    dt__hf_put_real(t, "rope_local_base_freq", b->window > 0 ? b->local_theta : 1e4);
    dt__hf_put_null(t, "attn_logit_softcapping");
    dt__hf_put_null(t, "final_logit_softcapping");
}

static void put_experts(dt__chars *t, const dt_moe_options *o)
{
    dt__hf_put_int(t, "num_experts_per_tok", o->top_k);
    dt__hf_put_int(t, "num_local_experts", o->experts);
    dt__hf_put_bool(t, "output_router_logits", false);
    dt__hf_put_real(t, "router_aux_loss_coef", o->balance);
    dt__hf_put_real(t, "router_jitter_noise", 0);
}

dt_status dt__hf_put_class(dt__chars *t, const dt_llama_options *o, const dt__hf_new *how)
{
    static const char *const rotates[] = { "0", "1" };
    const dt_block_options b = dt__llama_block(o);
    const dt__hf_class *k = class_of(o, how);
    if (k == NULL) return refuse(t->ctx, o);
    dt__put_text(t, "{\n  \"architectures\": [");
    dt__put_quoted(t, k->architecture);
    dt__put_text(t, "]");
    dt__hf_put_text(t, "model_type", k->name);
    if (k->mixed) put_experts(t, &o->moe);
    if (!k->mixed) dt__hf_put_bool(t, "attention_bias", o->qkv_bias);
    if (k->gemma) put_gemma(t, o, &b);
    else dt__hf_put_text(t, "hidden_act", "silu");
    if (!k->mixed && !k->gemma) dt__hf_put_bool(t, "mlp_bias", o->mlp_bias);
    put_windows(t, k, o);
    if (k->unrotated > 0) {
        put_layers(t, "no_rope_layers", o->layers, b.unrotated, rotates);
        if (b.unrotated > 0) dt__hf_put_int(t, "no_rope_layer_interval", b.unrotated);
    }
    return DT_OK;
}
