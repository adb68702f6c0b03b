/* Reads config.json of GPT-NeoX (also Pythia's models) as options of family gpt, and writes it.
 * Defaults are GPTNeoXConfig's. Its dropouts are ignored, as those of GPT-2. The rotation is
 * rotary_pct and rotary_emb_base in transformers 4, rope_parameters in 5. */
#include "io/hf/hf_config.h"

#include <string.h>

typedef struct config {
    dt_gpt_options gpt;
    bool has_share, has_theta;
    int64_t head; /* head_dim, which transformers reads for the rotation only; 0: absent */
    const char *activation;
    bool biased;
    dt__hf_rope parameters;
    bool has_code, has_quantization, has_scaling;
} config;

#define MOST DT__HF_MOST
#define AT(field) .offset = offsetof(config, field)
#define GIVEN(field) .given = offsetof(config, field)

static const dt_key keys[] = {
    { "vocab_size", DT_KEY_INT, AT(gpt.vocab), .least = 1, .most = MOST },
    { "max_position_embeddings", DT_KEY_INT, AT(gpt.context), .least = 1, .most = MOST },
    { "hidden_size", DT_KEY_INT, AT(gpt.width), .least = 1, .most = MOST },
    { "num_hidden_layers", DT_KEY_INT, AT(gpt.layers), .least = 1, .most = MOST },
    { "num_attention_heads", DT_KEY_INT, AT(gpt.heads), .least = 1, .most = MOST },
    { "intermediate_size", DT_KEY_INT, AT(gpt.hidden), .least = 1, .most = MOST },
    { "head_dim", DT_KEY_INT, AT(head), .least = 1, .most = MOST },
    { "layer_norm_eps", DT_KEY_REAL, AT(gpt.eps), .most = 1 },
    { "rotary_pct", DT_KEY_REAL, AT(gpt.rotated), .most = 1, GIVEN(has_share) },
    { "rotary_emb_base", DT_KEY_REAL, AT(gpt.theta), .most = DT_NO_LIMIT, GIVEN(has_theta) },
    { "hidden_act", DT_KEY_STRING, AT(activation) },
    { "tie_word_embeddings", DT_KEY_BOOL, AT(gpt.tied) },
    { "use_parallel_residual", DT_KEY_BOOL, AT(gpt.parallel) },
    { "attention_bias", DT_KEY_BOOL, AT(biased) },
    { 0 },
};

static dt_status read_other(dt__json *j, const char *name, void *options)
{
    config *c = options;
    if (strcmp(name, "rope_parameters") == 0) return dt__hf_read_rope(j, &c->parameters);
    c->has_code |= strcmp(name, "auto_map") == 0;
    c->has_quantization |= strcmp(name, "quantization_config") == 0;
    c->has_scaling |= strcmp(name, "rope_scaling") == 0;
    return dt__json_skip(j);
}

static bool is_scaled(const char *type) { return type != NULL && strcmp(type, "default") != 0; }

/* rope_parameters, which must agree with the keys of transformers 4. */
static dt_status check_rotation(const dt__json *j, config *c)
{
    const dt__hf_rope *r = &c->parameters;
    if (c->has_scaling || r->has_factor || r->other[0] != 0 || is_scaled(r->rope_type) ||
        is_scaled(r->type)) {
        return dt__hf_refuse_gpt(j,
                                 "rope_scaling and rope_parameters with scaling are not supported");
    }
    if (r->has_theta && c->has_theta && r->theta != c->gpt.theta) {
        return dt__hf_refuse_gpt(j, "rotary_emb_base, and rope_theta of rope_parameters differ");
    }
    if (r->has_partial && c->has_share && r->partial != c->gpt.rotated) {
        return dt__hf_refuse_gpt(j,
                                 "rotary_pct, and partial_rotary_factor of rope_parameters differ");
    }
    if (r->has_theta) c->gpt.theta = r->theta;
    if (r->has_partial) c->gpt.rotated = r->partial;
    const int64_t turned = (int64_t)((double)(c->gpt.width / c->gpt.heads) * c->gpt.rotated);
    if (turned >= 2 && turned % 2 == 0 && c->gpt.theta > 0) return DT_OK;
    return dt_fail(
        j->ctx, DT_ERR_UNSUPPORTED,
        "%s: rotary_pct %g of heads of width %lld, rotary_emb_base %g: an even number of "
        "rotated elements, and a base above 0, are supported",
        j->path, c->gpt.rotated, (long long)(c->gpt.width / c->gpt.heads), c->gpt.theta);
}

static dt_status check(const dt__json *j, config *c)
{
    const char *act = c->activation;
    char shown[DT__SHOWN];
    if (act != NULL && dt__hf_gelu_of(act) < 0) {
        return dt_fail(j->ctx, DT_ERR_UNSUPPORTED,
                       "%s: hidden_act '%s' is not supported; gelu and gelu_new are", j->path,
                       dt__shown(act, shown));
    }
    if (c->head != 0 && c->head * c->gpt.heads != c->gpt.width) {
        return dt__hf_refuse_gpt(j, "head_dim is not hidden_size / num_attention_heads, which "
                                    "transformers rotates another part of each head by");
    }
    if (!c->biased) return dt__hf_refuse_gpt(j, "attention_bias false is not supported; true is");
    if (c->has_code) return dt__hf_refuse_gpt(j, "auto_map: the model brings code of its own");
    if (c->has_quantization) {
        return dt__hf_refuse_gpt(j, "quantization_config: of a GPT-NeoX the float model is read");
    }
    if (c->gpt.width % c->gpt.heads == 0) return check_rotation(j, c);
    return dt_fail(j->ctx, DT_ERR_FORMAT,
                   "%s: hidden_size %lld is not a multiple of num_attention_heads %lld", j->path,
                   (long long)c->gpt.width, (long long)c->gpt.heads);
}

dt_status dt__hf_config_read_neox(dt__json *j, dt_gpt_options *out)
{
    config c = { .gpt = { .vocab = 50432,
                          .context = 2048,
                          .layers = 44,
                          .heads = 64,
                          .width = 6144,
                          .hidden = 24576,
                          .bias = true,
                          .eps = 1e-5,
                          .rotated = 0.25,
                          .theta = 1e4,
                          .parallel = true },
                 .biased = true };
    DT__TRY(dt__hf_read_object(j, keys, &c, read_other));
    DT__TRY(check(j, &c));
    *out = c.gpt;
    out->gelu_erf = c.activation == NULL || dt__hf_gelu_of(c.activation) > 0;
    return DT_OK;
}

dt_status dt__hf_config_put_neox(dt__chars *t, const dt_gpt_options *o, const char *dtype)
{
    if (!o->bias) {
        return dt_fail(
            t->ctx, DT_ERR_UNSUPPORTED,
            "a model of family gpt with rotary positions is written as a GPT-NeoX, whose "
            "attention and mlps have biases: bias 0");
    }
    dt__put_text(t, "{\n  \"architectures\": [\"GPTNeoXForCausalLM\"]");
    dt__hf_put_text(t, "model_type", "gpt_neox");
    dt__hf_put_bool(t, "attention_bias", true);
    dt__hf_put_real(t, "attention_dropout", 0);
    dt__hf_put_text(t, "hidden_act", o->gelu_erf ? "gelu" : "gelu_new");
    dt__hf_put_real(t, "hidden_dropout", o->dropout);
    dt__hf_put_int(t, "hidden_size", o->width);
    dt__hf_put_int(t, "intermediate_size", o->hidden == 0 ? 4 * o->width : o->hidden);
    dt__hf_put_real(t, "layer_norm_eps", o->eps);
    dt__hf_put_int(t, "max_position_embeddings", o->context);
    dt__hf_put_int(t, "num_attention_heads", o->heads);
    dt__hf_put_int(t, "num_hidden_layers", o->layers);
    dt__hf_put_real(t, "rotary_emb_base", o->theta);
    dt__hf_put_real(t, "rotary_pct", o->rotated);
    dt__hf_put_bool(t, "tie_word_embeddings", o->tied);
    dt__hf_put_text(t, "torch_dtype", dtype);
    dt__hf_put_bool(t, "use_parallel_residual", o->parallel);
    dt__hf_put_int(t, "vocab_size", o->vocab);
    dt__put_text(t, "\n}\n");
    return DT_OK;
}
