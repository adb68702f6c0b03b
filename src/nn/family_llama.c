/* Family llama: a decoder-only transformer [Touvron et al. 2023]: pre-norm with rms norm, rotary
 * position embedding, grouped-query attention, gated mlps; optionally biases of q, k and v (Qwen2),
 * norms of q and k (Qwen3), and what `block` says (OLMo 2, SmolLM3).
 *     x = embed_tokens[ids]      x += self_attn(input_layernorm(x))
 *     x += mlp(post_attention_layernorm(x))      logits = lm_head(norm(x))
 * Paths are Hugging Face's: model.embed_tokens, model.layers.i.input_layernorm, .self_attn.q_proj,
 * .k_proj, .v_proj, .o_proj, .q_norm, .k_norm, .post_attention_layernorm, .mlp.gate_proj, .up_proj,
 * .down_proj, model.norm, lm_head; with a mixture of experts .moe.router, .w_gate, .w_up, .w_down
 * in place of .mlp. Weights are initialized normal(0, 0.02). */
#include "nn/family.h"
#include "nn/transformer.h"

static const char *const scaling_names[] = { "none", "linear", "llama3", NULL };

#define ROPE(field) .offset = offsetof(dt_rope_options, field)

static const dt_key rope_keys[] = {
    { "scaling", DT_KEY_CHOICE, ROPE(scaling), .choices = scaling_names, .fallback = "none",
      .text = "scaling of the rotary frequencies for a longer context" },
    { "factor", DT_KEY_REAL, ROPE(factor), .least = 1, .most = 1e6, .fallback = "1",
      .text = "divisor of the frequencies; llama3: of low frequencies" },
    { "low_freq_factor", DT_KEY_REAL, ROPE(low_freq_factor), .least = 1e-6, .most = 1e6,
      .fallback = "1",
      .text = "llama3: frequencies with fewer turns in the original context are divided" },
    { "high_freq_factor", DT_KEY_REAL, ROPE(high_freq_factor), .least = 1e-6, .most = 1e6,
      .fallback = "4",
      .text = "llama3: frequencies with more turns in the original context are not divided" },
    { "original_context", DT_KEY_INT, ROPE(original_context), .least = 1, .most = 1 << 30,
      .fallback = "8192", .text = "llama3: context of the model before scaling, in tokens" },
    { 0 },
};

#define MOE(field) .offset = offsetof(dt_moe_options, field)

static const dt_key moe_keys[] = {
    { "experts", DT_KEY_INT, MOE(experts), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "experts of each block, each with a hidden layer of width `hidden`" },
    { "top_k", DT_KEY_INT, MOE(top_k), .least = 1, .most = 1 << 16, .fallback = "2",
      .text = "experts per token" },
    { "normalize", DT_KEY_BOOL, MOE(normalize), .fallback = "true",
      .text = "whether the weights of a token's experts add up to 1" },
    { "balance", DT_KEY_REAL, MOE(balance), .most = 1e6, .fallback = "0.01",
      .text = "factor of the load-balance loss in training" },
    { "z", DT_KEY_REAL, MOE(z), .most = 1e6, .fallback = "0",
      .text = "factor of the router z-loss in training" },
    { 0 },
};

static const char *const norms_names[] = { "before", "after", NULL };

#define BLOCK(field) .offset = offsetof(dt_block_options, field)

/* The properties in which blocks of other models differ from Llama's. */
static const dt_key block_keys[] = {
    { "norms", DT_KEY_CHOICE, BLOCK(norms), .choices = norms_names, .fallback = "before",
      .text = "norms of the inputs of attention and mlp, or (OLMo 2) of their outputs" },
    { "qk_norm_all", DT_KEY_BOOL, BLOCK(qk_norm_all), .fallback = "false",
      .text = "whether the norms of `qk_norm` are over all heads together (OLMo 2), not each" },
    { "unrotated", DT_KEY_INT, BLOCK(unrotated), .most = 1 << 12, .fallback = "0",
      .text = "every n-th block has no rotation (SmolLM3); 0: each has one" },
    { 0 },
};

#define AT(field) .offset = offsetof(dt_llama_options, field)

const dt_key dt_llama_keys[] = {
    { "vocab", DT_KEY_INT, AT(vocab), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "size of the vocabulary: ids are 0 ... vocab-1" },
    { "context", DT_KEY_INT, AT(context), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "the most tokens of a sequence" },
    { "layers", DT_KEY_INT, AT(layers), .least = 1, .most = 1 << 12, .fallback = "!",
      .text = "blocks of attention and mlp" },
    { "heads", DT_KEY_INT, AT(heads), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "attention heads" },
    { "width", DT_KEY_INT, AT(width), .least = 1, .most = 1 << 20, .fallback = "!",
      .text = "embedding width: values of a token between the blocks" },
    { "hidden", DT_KEY_INT, AT(hidden), .least = 1, .most = 1 << 22, .fallback = "!",
      .text = "width of an mlp's hidden layer" },
    { "kv_heads", DT_KEY_INT, AT(kv_heads), .most = 1 << 16, .fallback = "0",
      .text = "heads of keys and values; they divide `heads`; 0: equal to `heads`" },
    { "head_width", DT_KEY_INT, AT(head_width), .most = 1 << 20, .fallback = "0",
      .text = "width of a head; 0: width / heads" },
    { "tied", DT_KEY_BOOL, AT(tied), .fallback = "false",
      .text = "whether the head uses the weight of the token embedding" },
    { "qkv_bias", DT_KEY_BOOL, AT(qkv_bias), .fallback = "false",
      .text = "whether queries, keys and values have biases" },
    { "out_bias", DT_KEY_BOOL, AT(out_bias), .fallback = "false",
      .text = "whether attention's output layer has a bias" },
    { "mlp_bias", DT_KEY_BOOL, AT(mlp_bias), .fallback = "false",
      .text = "whether the layers of an mlp have biases" },
    { "qk_norm", DT_KEY_BOOL, AT(qk_norm), .fallback = "false",
      .text = "whether queries and keys have an rms norm before the rotation" },
    { "theta", DT_KEY_REAL, AT(theta), .least = 1, .most = 1e12, .fallback = "10000",
      .text = "base of the rotary frequencies" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5",
      .text = "norms: added to the mean square" },
    { "rope", DT_KEY_MAP, AT(rope), .keys = rope_keys,
      .text = "scaling of the rotary position embedding" },
    { "moe", DT_KEY_MAP, AT(moe), .keys = moe_keys, .given = offsetof(dt_llama_options, moe.given),
      .text = "a mixture of experts in place of each mlp" },
    { "block", DT_KEY_MAP, AT(block), .keys = block_keys,
      .given = offsetof(dt_llama_options, block.given), .text = "how blocks differ from Llama's" },
    { 0 },
};

#define DEVIATION 0.02 /* standard deviation of initial weights */

static dt_rotary_options rotary_of(const dt_llama_options *o)
{
    dt_rotary_options r = dt_rotary_defaults();
    r.pairing = DT_ROTARY_HALF;
    r.theta = o->theta;
    r.scaling = o->rope.scaling;
    r.factor = o->rope.factor;
    r.low_freq_factor = o->rope.low_freq_factor;
    r.high_freq_factor = o->rope.high_freq_factor;
    r.original_context = o->rope.original_context;
    return r;
}

static dt__block_plan block_of(const dt_llama_options *o)
{
    const bool mixed = o->moe.given;
    const bool after = o->block.given && o->block.norms == DT_BLOCK_NORMS_AFTER;
    return (dt__block_plan){
        .norm1 = after ? "post_attention_layernorm" : "input_layernorm",
        .attention = "self_attn",
        .norm2 = after ? "post_feedforward_layernorm" : "post_attention_layernorm",
        .after = after,
        .mlp = mixed ? "moe" : "mlp",
        .create_norm = dt_rms_norm_create,
        .create_mlp = mixed ? dt__moe_create : dt__gated_mlp_create,
        .attend = { .name = { "q_proj", "k_proj", "v_proj", "o_proj" },
                    .norm = { o->qk_norm ? "q_norm" : NULL, o->qk_norm ? "k_norm" : NULL },
                    .norm_all = o->block.given && o->block.qk_norm_all,
                    .width = o->width,
                    .heads = o->heads,
                    .kv_heads = o->kv_heads == 0 ? o->heads : o->kv_heads,
                    .head_width = o->head_width == 0 ? o->width / o->heads : o->head_width,
                    .qkv_bias = o->qkv_bias,
                    .out_bias = o->out_bias,
                    .rotates = true,
                    .rotary = rotary_of(o),
                    .eps = o->eps,
                    .deviation = { DEVIATION, DEVIATION } },
        .feed = { .name = { "up_proj", "down_proj", "gate_proj" },
                  .width = o->width,
                  .hidden = o->hidden,
                  .bias = o->mlp_bias,
                  .deviation = { DEVIATION, DEVIATION },
                  .moe = mixed ? &o->moe : NULL },
        .eps = o->eps,
    };
}

static const dt_module_type llama_type = { .name = "llama",
                                           .forward = dt__transformer_forward,
                                           .language = &dt__transformer_language };

static dt_status check_rope(dt_ctx *ctx, const dt_rope_options *o)
{
    if (o->scaling < DT_ROPE_PLAIN || o->scaling > DT_ROPE_LLAMA3) {
        return dt_fail(ctx, DT_ERR_ARG, "llama: rope scaling %d is outside 0...%d", o->scaling,
                       (int)DT_ROPE_LLAMA3);
    }
    if (o->scaling != DT_ROPE_LLAMA3 ||
        (o->low_freq_factor > 0 && o->low_freq_factor < o->high_freq_factor)) {
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_ARG,
                   "llama: rope: low_freq_factor %g is not between 0 and high_freq_factor %g",
                   o->low_freq_factor, o->high_freq_factor);
}

static dt_status check(dt_ctx *ctx, const dt_llama_options *o)
{
    if (o == NULL || o->heads < 1 || (o->head_width == 0 && o->width % o->heads != 0)) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "llama: heads that divide the width, or a head width, are wanted, not %lld of "
            "%lld",
            o == NULL ? 0LL : (long long)o->heads, o == NULL ? 0LL : (long long)o->width);
    }
    if (o->block.given && (o->block.norms < DT_BLOCK_NORMS_BEFORE ||
                           o->block.norms > DT_BLOCK_NORMS_AFTER || o->block.unrotated < 0)) {
        return dt_fail(ctx, DT_ERR_ARG, "llama: block: norms %d, unrotated %lld: no such blocks",
                       o->block.norms, (long long)o->block.unrotated);
    }
    if (o->block.given && o->block.norms == DT_BLOCK_NORMS_AFTER && o->moe.given) {
        return dt_fail(ctx, DT_ERR_ARG, "llama: block.norms after and moe exclude each other");
    }
    return check_rope(ctx, &o->rope);
}

dt_status dt_llama_create(dt_ctx *ctx, const dt_llama_options *o, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    *out = NULL;
    DT__TRY(check(ctx, o));
    const dt__transformer_plan plan = {
        .family = "llama",
        .body = "model",
        .tokens = "embed_tokens",
        .blocks = "layers",
        .norm = "norm",
        .head = "lm_head",
        .vocab = o->vocab,
        .context = o->context,
        .layers = o->layers,
        .tied = o->tied,
        .unrotated = o->block.given ? o->block.unrotated : 0,
        .deviation = DEVIATION,
        .block = block_of(o),
    };
    return dt__transformer_create(ctx, &llama_type, &plan, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static dt_status create(dt_ctx *ctx, const void *options, dt_module **out)
{
    return dt_llama_create(ctx, options, out);
}

static dt_status shapes(dt_ctx *ctx, const void *options, dt_example *in, dt_example *out)
{
    const dt_llama_options *o = options;
    *in = *out = (dt_example){ "vocab", -1, 0, { o->vocab, o->context }, false };
    (void)ctx;
    return DT_OK;
}

const dt_family dt__family_llama = {
    .name = "llama",
    .text = "a language model: a transformer with rotary positions, rms norm and gated mlps",
    .keys = dt_llama_keys,
    .options_size = sizeof(dt_llama_options),
    .create = create,
    .shapes = shapes,
};
