/* Family llama: a decoder-only transformer [Touvron et al. 2023]: pre-norm with rms norm, rotary
 * position embedding, grouped-query attention, gated mlps; optionally biases of q, k and v (Qwen2),
 * norms of q and k (Qwen3), and what `block` says (OLMo 2, SmolLM3, Gemma 3, sliding windows).
 *     x = embed_tokens[ids]      x += self_attn(input_layernorm(x))
 *     x += mlp(post_attention_layernorm(x))      logits = lm_head(norm(x))
 * Paths are Hugging Face's: model.embed_tokens, model.layers.i.input_layernorm, .self_attn.q_proj,
 * .k_proj, .v_proj, .o_proj, .q_norm, .k_norm, .post_attention_layernorm, .mlp.gate_proj, .up_proj,
 * .down_proj, model.norm, lm_head; with a mixture of experts .moe.router, .w_gate, .w_up, .w_down
 * in place of .mlp. Weights are initialized normal(0, 0.02). */
#include "nn/families/family.h"
#include "nn/blocks/transformer.h"

#include <math.h>

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
    if (!o->longrope.given) return r;
    r.scaling = DT_ROPE_LONGROPE;
    r.original_context = o->longrope.original_context;
    r.divisors = o->longrope.short_factor;
    r.amplitude = dt__longrope_amplitude(o);
    return r;
}

double dt__longrope_amplitude(const dt_llama_options *o)
{
    const dt_longrope_options *l = &o->longrope;
    const double original = (double)l->original_context, context = (double)o->context;
    if (l->attention_factor > 0) return l->attention_factor;
    return context <= original ? 1 : sqrt(1 + log(context / original) / log(original));
}

/* The rotation in texts longer than the original context. */
static dt_rotary_options far_rotary_of(const dt_llama_options *o)
{
    dt_rotary_options r = rotary_of(o);
    if (o->longrope.given) r.divisors = o->longrope.long_factor;
    return r;
}

/* The block's settings, or the defaults, which are Llama's. */
dt_block_options dt__llama_block(const dt_llama_options *o)
{
    return o->block.given ? o->block : (dt_block_options){ .given = false };
}

/* The rotation in blocks with a window, or without one. */
static dt_rotary_options rotary_of_block(const dt_llama_options *o, bool windowed)
{
    const dt_block_options b = dt__llama_block(o);
    dt_rotary_options r = rotary_of(o);
    if (!windowed || b.local_theta == 0) return r;
    r.theta = b.local_theta;
    r.scaling = DT_ROPE_PLAIN;
    return r;
}

static void name_norms(const dt_block_options *b, const char *norm[DT__NORMS])
{
    static const char *const names[][DT__NORMS] = {
        [DT_BLOCK_NORMS_BEFORE] = { "input_layernorm", NULL, "post_attention_layernorm", NULL },
        [DT_BLOCK_NORMS_AFTER] = { NULL, "post_attention_layernorm", NULL,
                                   "post_feedforward_layernorm" },
        [DT_BLOCK_NORMS_BOTH] = { "input_layernorm", "post_attention_layernorm",
                                  "pre_feedforward_layernorm", "post_feedforward_layernorm" },
    };
    for (int i = 0; i < DT__NORMS; i++) norm[i] = names[b->norms][i];
}

static dt__block_plan block_of(const dt_llama_options *o)
{
    const dt_block_options b = dt__llama_block(o);
    const bool mixed = o->moe.given;
    dt__norm_create *norm = b.norm_plus_one ? dt__rms_norm_create_plus_one : dt_rms_norm_create;
    dt__block_plan p = {
        .attention = "self_attn",
        .mlp = mixed ? "moe" : "mlp",
        .create_norm = norm,
        .create_mlp = mixed ? dt__moe_create : dt__gated_mlp_create,
        .attend = { .name = { "q_proj", "k_proj", "v_proj", "o_proj" },
                    .norm = { o->qk_norm ? "q_norm" : NULL, o->qk_norm ? "k_norm" : NULL },
                    .create_norm = norm,
                    .norm_all = b.qk_norm_all,
                    .width = o->width,
                    .heads = o->heads,
                    .kv_heads = o->kv_heads == 0 ? o->heads : o->kv_heads,
                    .head_width = o->head_width == 0 ? o->width / o->heads : o->head_width,
                    .qkv_bias = o->qkv_bias,
                    .out_bias = o->out_bias,
                    .rotates = true,
                    .rotary = rotary_of_block(o, b.window > 0),
                    .near_tokens = o->longrope.given ? o->longrope.original_context : 0,
                    .far_rotary = far_rotary_of(o),
                    .scale = b.query_width > 0 ? 1 / sqrt(b.query_width) : 0,
                    .window = b.window,
                    .eps = o->eps,
                    .deviation = { DEVIATION, DEVIATION } },
        .feed = { .name = { "up_proj", "down_proj", "gate_proj" },
                  .width = o->width,
                  .hidden = o->hidden,
                  .bias = o->mlp_bias,
                  .hadamard = b.hadamard,
                  .activation = b.activation == DT_GATE_SILU ? "silu" : "gelu_tanh",
                  .deviation = { DEVIATION, DEVIATION },
                  .moe = mixed ? &o->moe : NULL },
        .eps = o->eps,
    };
    name_norms(&b, p.norm);
    return p;
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

static dt_status check_factors(dt_ctx *ctx, const char *name, const dt_reals *f, int64_t pairs)
{
    if (f->n != pairs) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "llama: longrope.%s has %d factors; expected half of the head width, %lld",
                       name, f->n, (long long)pairs);
    }
    for (int i = 0; i < f->n; i++) {
        if (f->v[i] > 0 && isfinite(f->v[i])) continue;
        return dt_fail(ctx, DT_ERR_ARG, "llama: longrope.%s: factor %d is %g, not above 0", name, i,
                       f->v[i]);
    }
    return DT_OK;
}

static dt_status check_longrope(dt_ctx *ctx, const dt_llama_options *o)
{
    const dt_longrope_options *l = &o->longrope;
    const int64_t width = o->head_width == 0 ? o->width / o->heads : o->head_width;
    if (!l->given) return DT_OK;
    if (o->rope.scaling != DT_ROPE_PLAIN || (o->block.given && o->block.local_theta > 0)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "llama: longrope excludes rope.scaling and block.local_theta");
    }
    if (width / 2 > DT_MAX_REALS) {
        return dt_fail(ctx, DT_ERR_ARG, "llama: longrope of heads of width %lld; %d is the most",
                       (long long)width, 2 * DT_MAX_REALS);
    }
    if (l->original_context < 1 || !(l->attention_factor >= 0) || isinf(l->attention_factor) ||
        (l->original_context == 1 && l->attention_factor == 0 && o->context > 1)) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "llama: longrope: original_context %lld, attention_factor %g: original_context must be "
            "at least 1, attention_factor at least 0, and one of them above that",
            (long long)l->original_context, l->attention_factor);
    }
    DT__TRY(check_factors(ctx, "short_factor", &l->short_factor, width / 2));
    return check_factors(ctx, "long_factor", &l->long_factor, width / 2);
}

static dt_status check_block(dt_ctx *ctx, const dt_llama_options *o)
{
    const dt_block_options *b = &o->block;
    if (b->norms < DT_BLOCK_NORMS_BEFORE || b->norms > DT_BLOCK_NORMS_BOTH || b->unrotated < 0 ||
        b->activation < DT_GATE_SILU || b->activation > DT_GATE_GELU_TANH || b->window < 0 ||
        b->full_every < 0 || !(b->query_width == 0 || b->query_width >= DT__LEAST_QUERY_WIDTH) ||
        !(b->local_theta >= 0)) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "llama: block: norms %d, activation %d, query_width %g, unrotated %lld, "
            "window %lld, full_every %lld, local_theta %g: one of these is out of its range",
            b->norms, b->activation, b->query_width, (long long)b->unrotated, (long long)b->window,
            (long long)b->full_every, b->local_theta);
    }
    if (o->moe.given && (b->norms != DT_BLOCK_NORMS_BEFORE || b->activation != DT_GATE_SILU)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "llama: moe excludes block.norms other than before, and block.activation "
                       "other than silu");
    }
    if (b->hadamard < 0 || (b->hadamard & (b->hadamard - 1)) != 0 ||
        (b->hadamard > 0 && o->hidden % b->hadamard != 0) || (b->hadamard > 0 && o->moe.given)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "llama: block.hadamard %lld: expected a power of two that divides hidden, "
                       "%lld, and no moe",
                       (long long)b->hadamard, (long long)o->hidden);
    }
    if (b->window == 0 && (b->full_every > 0 || b->local_theta > 0)) {
        return dt_fail(ctx, DT_ERR_ARG, "llama: block.%s requires block.window",
                       b->full_every > 0 ? "full_every" : "local_theta");
    }
    return DT_OK;
}

static dt_status check(dt_ctx *ctx, const dt_llama_options *o)
{
    if (o == NULL || o->heads < 1 || (o->head_width == 0 && o->width % o->heads != 0)) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "llama: expected heads that divide the width, or a head width, not %lld of %lld",
            o == NULL ? 0LL : (long long)o->heads, o == NULL ? 0LL : (long long)o->width);
    }
    if (o->block.given) DT__TRY(check_block(ctx, o));
    DT__TRY(check_longrope(ctx, o));
    return check_rope(ctx, &o->rope);
}

dt_status dt_llama_create(dt_ctx *ctx, const dt_llama_options *o, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
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
        .unrotated = dt__llama_block(o).unrotated,
        .full_every = dt__llama_block(o).full_every,
        .full_rotary = rotary_of_block(o, false),
        .scale_tokens =
            dt__llama_block(o).scaled_tokens ? (double)(float)sqrt((double)o->width) : 0,
        .deviation = DEVIATION,
        .block = block_of(o),
    };
    return dt__transformer_create(ctx, &llama_type, &plan, out);
}

DT__FAMILY_END(llama,
               "a language model: a transformer with rotary positions, rms norm and gated mlps",
               ((dt_example){ "vocab", -1, 0, { o->vocab, o->context }, false }), *in)
