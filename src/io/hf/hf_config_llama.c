/* Reads config.json of Llama and similar classes as options of family llama. Defaults are those of
 * LlamaConfig, Qwen2Config, Qwen3Config, MixtralConfig, Phi3Config, Olmo2Config, SmolLM3Config and
 * Gemma3TextConfig (transformers 4.57 and 5.23). */
#include "io/hf/hf_config.h"
#include "nn/families/family.h"

#include <stdio.h>
#include <string.h>

#define MOST DT__HF_MOST
#define MOST_LAYERS (1 << 12) /* limit of family llama: settings by layer are lists */

#define AT(field) .offset = offsetof(dt__hf_config, field)
#define GIVEN(field) .given = offsetof(dt__hf_config, field)

static const dt_key config_keys[] = {
    { "vocab_size", DT_KEY_INT, AT(vocab), .least = 1, .most = MOST, GIVEN(has_vocab) },
    { "hidden_size", DT_KEY_INT, AT(width), .least = 1, .most = MOST, GIVEN(has_width) },
    { "intermediate_size", DT_KEY_INT, AT(hidden), .least = 1, .most = MOST, GIVEN(has_hidden) },
    { "num_hidden_layers", DT_KEY_INT, AT(layers), .least = 1, .most = MOST_LAYERS,
      GIVEN(has_layers) },
    { "num_attention_heads", DT_KEY_INT, AT(heads), .least = 1, .most = MOST, GIVEN(has_heads) },
    { "num_key_value_heads", DT_KEY_INT, AT(kv_heads), .least = 1, .most = MOST },
    { "head_dim", DT_KEY_INT, AT(head_width), .least = 1, .most = MOST },
    { "max_position_embeddings", DT_KEY_INT, AT(context), .least = 1, .most = MOST },
    { "hidden_act", DT_KEY_STRING, AT(hidden_act) },
    { "rms_norm_eps", DT_KEY_REAL, AT(eps), .most = 1 },
    { "rope_theta", DT_KEY_REAL, AT(theta), .most = DT_NO_LIMIT, GIVEN(has_theta) },
    { "partial_rotary_factor", DT_KEY_REAL, AT(partial), .most = 1 },
    { "tie_word_embeddings", DT_KEY_BOOL, AT(tied) },
    { "attention_bias", DT_KEY_BOOL, AT(attention_bias) },
    { "mlp_bias", DT_KEY_BOOL, AT(mlp_bias) },
    { "attention_dropout", DT_KEY_REAL, AT(attention_dropout), .most = 1 },
    { "pretraining_tp", DT_KEY_INT, AT(pretraining_tp), .least = 1, .most = MOST },
    { "sliding_window", DT_KEY_INT, AT(window), .most = MOST, GIVEN(has_window) },
    { "use_sliding_window", DT_KEY_BOOL, AT(use_window) },
    { "max_window_layers", DT_KEY_INT, AT(window_layers), .most = MOST },
    { "num_local_experts", DT_KEY_INT, AT(experts), .least = 1, .most = MOST, GIVEN(has_experts) },
    { "num_experts", DT_KEY_INT, AT(other_experts), .least = 1, .most = MOST },
    { "num_experts_per_tok", DT_KEY_INT, AT(top_k), .least = 1, .most = MOST },
    { "router_aux_loss_coef", DT_KEY_REAL, AT(balance), .most = 1e6 },
    { "resid_pdrop", DT_KEY_REAL, AT(resid_dropout), .most = 1 },
    { "embd_pdrop", DT_KEY_REAL, AT(embed_dropout), .most = 1 },
    { "no_rope_layer_interval", DT_KEY_INT, AT(unrotated_every), .most = MOST },
    { "router_jitter_noise", DT_KEY_REAL, AT(jitter), .most = DT_NO_LIMIT },
    { "hidden_activation", DT_KEY_STRING, AT(hidden_activation) },
    { "query_pre_attn_scalar", DT_KEY_REAL, AT(query_width), .most = 1e6 },
    { "rope_local_base_freq", DT_KEY_REAL, AT(local_theta), .most = DT_NO_LIMIT,
      GIVEN(has_local_theta) },
    { "sliding_window_pattern", DT_KEY_INT, AT(window_pattern), .least = 1, .most = MOST },
    { "attn_logit_softcapping", DT_KEY_REAL, AT(soft_scores), .most = DT_NO_LIMIT,
      GIVEN(has_soft_scores) },
    { "final_logit_softcapping", DT_KEY_REAL, AT(soft_logits), .most = DT_NO_LIMIT,
      GIVEN(has_soft_logits) },
    { "original_max_position_embeddings", DT_KEY_INT, AT(original), .least = 1, .most = MOST },
    { "use_bidirectional_attention", DT_KEY_BOOL, AT(bidirectional) },
    { 0 },
};

const dt__hf_class dt__hf_classes[] = {
    { "llama", "LlamaForCausalLM", .reads_attention_bias = true, .reads_mlp_bias = true,
      .context = 2048, .theta = 1e4, .eps = 1e-6, .tokens = { 1, 2, -1 } },
    { "qwen2", "Qwen2ForCausalLM", .biased = true, .window = DT__HF_USED_WINDOW, .kv_heads = 32,
      .context = 32768, .theta = 1e4, .eps = 1e-6, .tokens = { -1, -1, -1 } },
    { "qwen3", "Qwen3ForCausalLM", .reads_attention_bias = true, .normed = true,
      .window = DT__HF_USED_WINDOW, .kv_heads = 32, .head_width = 128, .context = 32768,
      .theta = 1e4, .eps = 1e-6, .tokens = { -1, -1, -1 } },
    { "mixtral", "MixtralForCausalLM", .mixed = true, .window = DT__HF_WINDOW, .kv_heads = 8,
      .context = 131072, .theta = 1e6, .eps = 1e-5, .tokens = { 1, 2, -1 } },
    { "olmo2", "Olmo2ForCausalLM", .reads_attention_bias = true, .normed = true, .context = 2048,
      .theta = 1e4, .eps = 1e-5, .tokens = { -1, 50279, 1 }, .after = true, .norm_all = true },
    { "phi3", "Phi3ForCausalLM", .window = DT__HF_WINDOW, .context = 4096, .original = 4096,
      .theta = 1e4, .eps = 1e-5, .tokens = { 1, 32000, 32000 }, .drops = true,
      .names = &dt__hf_phi3_names },
    { "mistral", "MistralForCausalLM", .window = DT__HF_USUAL_WINDOW, .kv_heads = 8,
      .context = 131072, .theta = 1e4, .eps = 1e-6, .tokens = { 1, 2, -1 } },
    { "smollm3", "SmolLM3ForCausalLM", .reads_attention_bias = true, .reads_mlp_bias = true,
      .window = DT__HF_TYPED_WINDOW, .kv_heads = 4, .context = 32768, .theta = 2e6, .eps = 1e-6,
      .tokens = { 128000, 128001, 128004 }, .tied = true, .unrotated = 4 },
    { "gemma3_text", "Gemma3ForCausalLM", .reads_attention_bias = true, .normed = true,
      .window = DT__HF_GEMMA_WINDOW, .kv_heads = 4, .head_width = 256, .context = 131072,
      .theta = 1e6, .eps = 1e-6, .tokens = { 2, 1, 0 }, .tied = true, .gemma = true },
    { .name = NULL },
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Keys whose values are neither numbers nor words. */
static dt_status read_other(dt__json *j, const char *name, void *options)
{
    dt__hf_config *c = options;
    if (strcmp(name, "rope_scaling") == 0) return dt__hf_read_rope(j, &c->scaling);
    if (strcmp(name, "rope_parameters") == 0) return dt__hf_read_rope_parameters(j, c);
    if (strcmp(name, "layer_types") == 0) return dt__hf_read_layer_types(j, c);
    if (strcmp(name, "no_rope_layers") == 0 && c->of->unrotated > 0) {
        return dt__hf_read_rope_layers(j, c);
    }
    const bool quantized = strcmp(name, "quantization_config") == 0;
    if (quantized || strcmp(name, "compression_config") == 0) {
        return dt__hf_read_method(j, &c->has_quantization);
    }
    c->has_code |= strcmp(name, "auto_map") == 0;
    return dt__json_skip(j);
}

/* ---- what it means --------------------------------------------------------------------------- */

static dt_status check_missing(const dt__hf_config *c)
{
    const struct {
        bool there;
        const char *name;
    } wanted[] = { { c->has_vocab, "vocab_size" },
                   { c->has_width, "hidden_size" },
                   { c->has_hidden, "intermediate_size" },
                   { c->has_layers, "num_hidden_layers" },
                   { c->has_heads, "num_attention_heads" } };
    char text[256] = "";
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) {
        const size_t used = strlen(text);
        if (wanted[i].there) continue;
        snprintf(text + used, sizeof text - used, "%s%s", used == 0 ? "" : ", ", wanted[i].name);
    }
    if (text[0] == 0) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: missing: %s", c->path, text);
}

/* The given number, or the class's default; null: the number of heads. */
static int64_t kv_heads_of(const dt__hf_config *c)
{
    const int64_t usual = c->no_kv_heads ? 0 : c->of->kv_heads;
    if (c->kv_heads != 0) return c->kv_heads;
    return usual != 0 ? usual : c->heads;
}

static dt_status check_heads(const dt__hf_config *c)
{
    const int64_t kv_heads = kv_heads_of(c);
    if (c->heads % kv_heads != 0) {
        return dt_fail(
            c->ctx, DT_ERR_FORMAT,
            "%s: num_attention_heads %lld is not a multiple of num_key_value_heads %lld%s", c->path,
            (long long)c->heads, (long long)kv_heads, c->kv_heads == 0 ? ", the default" : "");
    }
    if (c->head_width != 0 || c->width % c->heads == 0) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT,
                   "%s: hidden_size %lld is not a multiple of num_attention_heads %lld", c->path,
                   (long long)c->width, (long long)c->heads);
}

/* pretraining_tp splits products into slices whose results are added: the same result. */
static dt_status check_arithmetic(const dt__hf_config *c)
{
    char shown[DT__SHOWN];
    const bool gemma = c->of->gemma;
    const char *act = gemma ? c->hidden_activation : c->hidden_act;
    if (c->has_quantization) {
        return dt__hf_refuse(
            c, "quantization_config: the weights are quantized by another method than "
               "compressed-tensors; give the float model");
    }
    if (c->has_code) return dt__hf_refuse(c, "auto_map: the model brings code of its own");
    if (gemma && act != NULL && strcmp(act, "gelu_pytorch_tanh") != 0) {
        return dt__hf_refuse(c, "hidden_activation '%s' is not supported; gelu_pytorch_tanh is",
                             dt__shown(act, shown));
    }
    if (!gemma && act != NULL && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0) {
        return dt__hf_refuse(c, "hidden_act '%s' is not supported; silu is", dt__shown(act, shown));
    }
    if (c->partial != 1) {
        return dt__hf_refuse(c, "partial_rotary_factor %g is not supported; 1 is", c->partial);
    }
    const struct {
        const char *key;
        double share;
    } dropped[] = { { "attention_dropout", c->attention_dropout },
                    { "resid_pdrop", c->of->drops ? c->resid_dropout : 0 },
                    { "embd_pdrop", c->of->drops ? c->embed_dropout : 0 } };
    for (int i = 0; i < DT__COUNT_OF(dropped); i++) {
        if (dropped[i].share == 0) continue;
        return dt__hf_refuse(
            c,
            "%s %g is not supported; 0 is, which is the same model wherever it is not "
            "trained",
            dropped[i].key, dropped[i].share);
    }
    return DT_OK;
}

static dt_status check_gemma(const dt__hf_config *c)
{
    if (!c->of->gemma) return DT_OK;
    if (c->no_window) return dt__hf_refuse(c, "sliding_window null is not supported");
    if (c->has_soft_scores || c->has_soft_logits) {
        return dt__hf_refuse(c, "%s is not supported; null is",
                             c->has_soft_scores ? "attn_logit_softcapping"
                                                : "final_logit_softcapping");
    }
    if (c->bidirectional) {
        return dt__hf_refuse(c, "use_bidirectional_attention true is not supported; false is");
    }
    if (c->query_width >= DT__LEAST_QUERY_WIDTH) return DT_OK;
    return dt__hf_refuse(c, "query_pre_attn_scalar %g: %g is the least", c->query_width,
                         DT__LEAST_QUERY_WIDTH);
}

/* Refuses router noise during training: its random numbers cannot be reproduced. */
static dt_status check_experts(dt__hf_config *c)
{
    if (!c->of->mixed) return DT_OK;
    if (c->other_experts != 0 && c->has_experts && c->other_experts != c->experts) {
        return dt__hf_refuse(c, "num_local_experts is %lld, and num_experts %lld",
                             (long long)c->experts, (long long)c->other_experts);
    }
    if (c->other_experts != 0) c->experts = c->other_experts; /* another name of the key */
    if (c->jitter != 0) {
        return dt__hf_refuse(
            c,
            "router_jitter_noise %g is not supported; 0 is, which is the same model "
            "wherever it is not trained",
            c->jitter);
    }
    if (c->top_k <= c->experts) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT,
                   "%s: num_experts_per_tok %lld is more than num_local_experts %lld", c->path,
                   (long long)c->top_k, (long long)c->experts);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Family llama's rope options for a rotation without scaling. */
static const dt_rope_options unscaled = { .scaling = DT_ROPE_PLAIN,
                                          .factor = 1,
                                          .low_freq_factor = 1,
                                          .high_freq_factor = 4,
                                          .original_context = 8192 };

static void set_block(const dt__hf_config *c, dt_block_options *out)
{
    const dt__hf_class *k = c->of;
    *out = (dt_block_options){ .given = k->after || k->norm_all || k->gemma,
                               .norms = k->after ? DT_BLOCK_NORMS_AFTER : DT_BLOCK_NORMS_BEFORE,
                               .qk_norm_all = k->norm_all };
    if (!k->gemma) return;
    out->norms = DT_BLOCK_NORMS_BOTH;
    out->norm_plus_one = true;
    out->activation = DT_GATE_GELU_TANH;
    out->scaled_tokens = true;
    out->query_width = c->query_width;
}

/* *is_null: the next object has a key `name` that is null. */
static dt_status find_null(const dt__json *j, const char *name, bool *is_null)
{
    dt__json look = *j;
    for (bool more = dt__json_open(&look, '{'); more; more = dt__json_more(&look, '}')) {
        const char *key;
        DT__TRY(dt__json_key(&look, &key));
        const bool found = strcmp(key, name) == 0;
        if (dt__json_null(&look)) *is_null |= found;
        else DT__TRY(dt__json_skip(&look));
    }
    return look.status;
}

static dt_status translate(dt__hf_config *c, dt_llama_options *out)
{
    const dt__hf_class *k = c->of;
    const bool attention_bias = k->reads_attention_bias && c->attention_bias;
    DT__TRY(check_missing(c));
    DT__TRY(check_heads(c));
    DT__TRY(check_arithmetic(c));
    DT__TRY(check_gemma(c));
    DT__TRY(check_experts(c));
    *out = (dt_llama_options){
        .vocab = c->vocab,
        .context = c->context,
        .layers = c->layers,
        .heads = c->heads,
        .width = c->width,
        .hidden = c->hidden,
        .kv_heads = kv_heads_of(c),
        .head_width = c->head_width == 0 ? c->width / c->heads : c->head_width,
        .tied = c->tied,
        .qkv_bias = k->biased || attention_bias,
        .out_bias = attention_bias,
        .mlp_bias = k->reads_mlp_bias && c->mlp_bias,
        .qk_norm = k->normed,
        .theta = k->theta,
        .eps = c->eps,
        .rope = unscaled,
    };
    if (k->mixed) {
        out->moe = (dt_moe_options){ .given = true,
                                     .experts = c->experts,
                                     .top_k = c->top_k,
                                     .normalize = true,
                                     .balance = c->balance };
    }
    set_block(c, &out->block);
    DT__TRY(dt__hf_set_layers(c, out));
    return dt__hf_set_rotation(c, out);
}

static const dt__hf_class *class_of(const char *name)
{
    const dt__hf_class *k = dt__hf_classes;
    while (k->name != NULL && strcmp(k->name, name) != 0) k++;
    return k->name == NULL ? NULL : k;
}

dt_status dt__hf_config_read_llama(dt__json *j, dt__hf_config *c, dt_llama_options *out,
                                   bool *found)
{
    const dt__hf_class *k = class_of(c->model_type);
    *found = k != NULL;
    if (k == NULL) return DT_OK;
    *c = (dt__hf_config){ .ctx = c->ctx,
                          .path = c->path,
                          .of = k,
                          .model_type = c->model_type,
                          .context = k->context,
                          .original = k->original,
                          .eps = k->eps,
                          .head_width = k->head_width,
                          .tied = k->tied,
                          .unrotated_every = k->unrotated,
                          .partial = 1,
                          .window = 4096,
                          .window_layers = 28,
                          .experts = 8,
                          .top_k = 2,
                          .balance = 0.001,
                          .query_width = 256,
                          .local_theta = 1e4,
                          .scaling.partial = 1,
                          .parameters.partial = 1,
                          .local.partial = 1 };
    DT__TRY(find_null(j, "sliding_window", &c->no_window));
    DT__TRY(find_null(j, "num_key_value_heads", &c->no_kv_heads));
    DT__TRY(dt__hf_read_object(j, config_keys, c, read_other));
    return translate(c, out);
}
