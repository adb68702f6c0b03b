/* config.json of a GPT-2 as options of family gpt, and back. Defaults are GPT2Config's. Its
 * dropouts are ignored, as they are settings of training: a recipe sets `model.dropout`. */
#include "io/hf/hf_config.h"

#include <string.h>

typedef struct config {
    dt_gpt_options gpt;
    const char *activation;
    bool scaled, by_layer, crossed;
    bool has_code, has_quantization;
    /* n_ctx and others: other names of n_positions, n_embd, n_layer, n_head; 0: absent */
    int64_t context, width, layers, heads;
    bool has_context, has_width, has_layers, has_heads;
} config;

#define MOST 1073741824.0
#define AT(field) .offset = offsetof(config, field)
#define GIVEN(field) .given = offsetof(config, field)

static const dt_key keys[] = {
    { "vocab_size", DT_KEY_INT, AT(gpt.vocab), .least = 1, .most = MOST },
    { "n_positions", DT_KEY_INT, AT(gpt.context), .least = 1, .most = MOST, GIVEN(has_context) },
    { "n_embd", DT_KEY_INT, AT(gpt.width), .least = 1, .most = MOST, GIVEN(has_width) },
    { "n_layer", DT_KEY_INT, AT(gpt.layers), .least = 1, .most = MOST, GIVEN(has_layers) },
    { "n_head", DT_KEY_INT, AT(gpt.heads), .least = 1, .most = MOST, GIVEN(has_heads) },
    { "max_position_embeddings", DT_KEY_INT, AT(context), .least = 1, .most = MOST },
    { "hidden_size", DT_KEY_INT, AT(width), .least = 1, .most = MOST },
    { "num_hidden_layers", DT_KEY_INT, AT(layers), .least = 1, .most = MOST },
    { "num_attention_heads", DT_KEY_INT, AT(heads), .least = 1, .most = MOST },
    { "n_inner", DT_KEY_INT, AT(gpt.hidden), .least = 1, .most = MOST },
    { "layer_norm_epsilon", DT_KEY_REAL, AT(gpt.eps), .most = 1 },
    { "activation_function", DT_KEY_STRING, AT(activation) },
    { "tie_word_embeddings", DT_KEY_BOOL, AT(gpt.tied) },
    { "scale_attn_weights", DT_KEY_BOOL, AT(scaled) },
    { "scale_attn_by_inverse_layer_idx", DT_KEY_BOOL, AT(by_layer) },
    { "add_cross_attention", DT_KEY_BOOL, AT(crossed) },
    { 0 },
};

static dt_status read_other(dt__json *j, const char *name, void *options)
{
    config *c = options;
    c->has_code |= strcmp(name, "auto_map") == 0;
    c->has_quantization |= strcmp(name, "quantization_config") == 0;
    return dt__json_skip(j);
}

int dt__hf_gelu_of(const char *name)
{
    if (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0) return 0;
    return strcmp(name, "gelu") == 0 ? 1 : -1;
}

/* transformers has two names for some keys; if both are present, they must agree. */
static dt_status take_other_names(const dt__json *j, config *c)
{
    const struct {
        const char *name, *other;
        bool has;
        int64_t other_value, *value;
    } key[] = {
        { "n_positions", "max_position_embeddings", c->has_context, c->context, &c->gpt.context },
        { "n_embd", "hidden_size", c->has_width, c->width, &c->gpt.width },
        { "n_layer", "num_hidden_layers", c->has_layers, c->layers, &c->gpt.layers },
        { "n_head", "num_attention_heads", c->has_heads, c->heads, &c->gpt.heads },
    };
    for (int i = 0; i < DT__COUNT_OF(key); i++) {
        if (key[i].other_value == 0) continue;
        if (key[i].has && *key[i].value != key[i].other_value) {
            return dt_fail(j->ctx, DT_ERR_UNSUPPORTED, "%s: %s is %lld, and %s %lld", j->path,
                           key[i].name, (long long)*key[i].value, key[i].other,
                           (long long)key[i].other_value);
        }
        *key[i].value = key[i].other_value;
    }
    return DT_OK;
}

dt_status dt__hf_refuse_gpt(const dt__json *j, const char *what)
{
    return dt_fail(j->ctx, DT_ERR_UNSUPPORTED, "%s: %s", j->path, what);
}

static dt_status check(const dt__json *j, const config *c)
{
    const char *act = c->activation;
    char shown[DT__SHOWN];
    if (act != NULL && dt__hf_gelu_of(act) < 0) {
        return dt_fail(j->ctx, DT_ERR_UNSUPPORTED,
                       "%s: activation_function '%s' is not supported; gelu_new and gelu are",
                       j->path, dt__shown(act, shown));
    }
    if (!c->scaled)
        return dt__hf_refuse_gpt(j, "scale_attn_weights false is not supported; true is");
    if (c->by_layer) {
        return dt__hf_refuse_gpt(j,
                                 "scale_attn_by_inverse_layer_idx true is not supported; false is");
    }
    if (c->crossed)
        return dt__hf_refuse_gpt(j, "add_cross_attention true is not supported; false is");
    if (c->has_code) return dt__hf_refuse_gpt(j, "auto_map: the model brings code of its own");
    if (c->has_quantization) {
        return dt__hf_refuse_gpt(j, "quantization_config: of a GPT-2 the float model is read");
    }
    if (c->gpt.width % c->gpt.heads == 0) return DT_OK;
    return dt_fail(j->ctx, DT_ERR_FORMAT, "%s: n_embd %lld is not a multiple of n_head %lld",
                   j->path, (long long)c->gpt.width, (long long)c->gpt.heads);
}

dt_status dt__hf_config_read_gpt2(dt__json *j, dt_gpt_options *out)
{
    config c = { .gpt = { .vocab = 50257,
                          .context = 1024,
                          .width = 768,
                          .layers = 12,
                          .heads = 12,
                          .bias = true,
                          .tied = true,
                          .eps = 1e-5,
                          .theta = 1e4 },
                 .scaled = true };
    DT__TRY(dt__hf_read_object(j, keys, &c, read_other));
    DT__TRY(take_other_names(j, &c));
    DT__TRY(check(j, &c));
    *out = c.gpt;
    out->gelu_erf = c.activation != NULL && dt__hf_gelu_of(c.activation) > 0;
    return DT_OK;
}

dt_status dt__hf_config_put_gpt2(dt__chars *t, const dt_gpt_options *o, const char *dtype)
{
    if (!o->bias) {
        return dt_fail(t->ctx, DT_ERR_UNSUPPORTED,
                       "a model of family gpt is written as a GPT-2, whose attention and mlps have "
                       "biases: bias 0");
    }
    if (o->parallel) {
        return dt_fail(t->ctx, DT_ERR_UNSUPPORTED,
                       "no class of models has learned positions (rotated 0) and parallel 1");
    }
    dt__put_text(t, "{\n  \"architectures\": [\"GPT2LMHeadModel\"]");
    dt__hf_put_text(t, "model_type", "gpt2");
    dt__hf_put_text(t, "activation_function", o->gelu_erf ? "gelu" : "gelu_new");
    dt__hf_put_real(t, "attn_pdrop", 0);
    dt__hf_put_real(t, "embd_pdrop", o->dropout);
    dt__hf_put_real(t, "layer_norm_epsilon", o->eps);
    dt__hf_put_int(t, "n_embd", o->width);
    dt__hf_put_int(t, "n_head", o->heads);
    dt__hf_put_int(t, "n_inner", o->hidden == 0 ? 4 * o->width : o->hidden);
    dt__hf_put_int(t, "n_layer", o->layers);
    dt__hf_put_int(t, "n_positions", o->context);
    dt__hf_put_real(t, "resid_pdrop", o->dropout);
    dt__hf_put_bool(t, "tie_word_embeddings", o->tied);
    dt__hf_put_text(t, "torch_dtype", dtype);
    dt__hf_put_int(t, "vocab_size", o->vocab);
    dt__put_text(t, "\n}\n");
    return DT_OK;
}
