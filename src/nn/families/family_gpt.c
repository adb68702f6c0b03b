/* Family gpt: a decoder-only transformer as in the common small recipe [Radford et al. 2019]:
 * learned positions, pre-norm with layer norm, gelu_tanh, a head tied to the token embedding; or,
 * as in Pythia [Biderman et al. 2023], rotary positions, attention and mlp in parallel, gelu.
 *     x = tokens[ids] + positions[0...T-1]      x += attn(norm1(x))      x += mlp(norm2(x))
 *     logits = head(norm(x))
 * Paths: tokens, positions, blocks.i.norm1, .attn.q, .k, .v, .out, .norm2, .mlp.up, .down, norm,
 * head. Weights are initialized normal(0, 0.02); those of out and down, which add to the residual
 * stream, normal(0, 0.02 / sqrt(2 layers)). */
#include "nn/families/family.h"
#include "nn/blocks/transformer.h"

#include <math.h>

#define AT(field) .offset = offsetof(dt_gpt_options, field)

const dt_key dt_gpt_keys[] = {
    { "vocab", DT_KEY_INT, AT(vocab), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "size of the vocabulary" },
    { "context", DT_KEY_INT, AT(context), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "most tokens of a sequence: learned positions" },
    { "layers", DT_KEY_INT, AT(layers), .least = 1, .most = 1 << 12, .fallback = "!",
      .text = "blocks of attention and mlp" },
    { "heads", DT_KEY_INT, AT(heads), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "attention heads; they divide the width" },
    { "width", DT_KEY_INT, AT(width), .least = 1, .most = 1 << 20, .fallback = "!",
      .text = "embedding width" },
    { "hidden", DT_KEY_INT, AT(hidden), .most = 1 << 22, .fallback = "0",
      .text = "width of an mlp's hidden layer; 0: four times the width" },
    { "bias", DT_KEY_BOOL, AT(bias), .fallback = "true", .text = "biases of attention and mlps" },
    { "tied", DT_KEY_BOOL, AT(tied), .fallback = "true",
      .text = "the head uses the weight of the token embedding" },
    { "dropout", DT_KEY_REAL, AT(dropout), .most = 0.9999, .fallback = "0",
      .text = "share of embeddings and outputs of attention and mlps that training drops" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5",
      .text = "norms: added to the variance" },
    { "rotated", DT_KEY_REAL, AT(rotated), .most = 1, .fallback = "0",
      .text = "share of a head's elements that rotary positions turn; 0: positions are learned" },
    { "theta", DT_KEY_REAL, AT(theta), .most = 1e12, .fallback = "10000",
      .text = "base of the rotary frequencies" },
    { "parallel", DT_KEY_BOOL, AT(parallel), .fallback = "false",
      .text = "attention and mlp read the same input (Pythia)" },
    { "gelu_erf", DT_KEY_BOOL, AT(gelu_erf), .fallback = "false",
      .text = "gelu in place of gelu_tanh" },
    { 0 },
};

#define DEVIATION 0.02 /* standard deviation of initial weights */

/* The number of elements per head that are rotated. */
static int64_t turning(const dt_gpt_options *o)
{
    return (int64_t)((double)(o->width / o->heads) * o->rotated);
}

static dt_rotary_options rotary_of(const dt_gpt_options *o)
{
    dt_rotary_options r = dt_rotary_defaults();
    r.rotary_dim = turning(o);
    r.theta = o->theta;
    return r;
}

static dt__block_plan block_of(const dt_gpt_options *o)
{
    const double added = DEVIATION / sqrt(2.0 * (double)o->layers);
    return (dt__block_plan){
        .norm = { [DT__BEFORE_ATTENTION] = "norm1", [DT__BEFORE_MLP] = "norm2" },
        .attention = "attn",
        .mlp = "mlp",
        .create_norm = dt_layer_norm_create,
        .create_mlp = dt__gelu_mlp_create,
        .attend = { .name = { "q", "k", "v", "out" },
                    .width = o->width,
                    .heads = o->heads,
                    .kv_heads = o->heads,
                    .head_width = o->width / o->heads,
                    .qkv_bias = o->bias,
                    .out_bias = o->bias,
                    .rotates = o->rotated > 0,
                    .rotary = rotary_of(o),
                    .deviation = { DEVIATION, added } },
        .feed = { .name = { [DT__UP] = "up", [DT__DOWN] = "down" },
                  .width = o->width,
                  .hidden = o->hidden == 0 ? 4 * o->width : o->hidden,
                  .bias = o->bias,
                  .activation = o->gelu_erf ? "gelu" : "gelu_tanh",
                  .deviation = { DEVIATION, added } },
        .eps = o->eps,
        .dropout = o->dropout,
        .parallel = o->parallel,
    };
}

static dt_status check_rotation(dt_ctx *ctx, const dt_gpt_options *o)
{
    if (!(o->rotated >= 0 && o->rotated <= 1)) {
        return dt_fail(ctx, DT_ERR_ARG, "gpt: rotated is %g, not within 0...1", o->rotated);
    }
    if (o->rotated == 0) return DT_OK;
    if (turning(o) < 2 || turning(o) % 2 != 0 || !(o->theta > 0)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "gpt: rotated %g of heads of width %lld is %lld elements, and theta %g: "
                       "expected an even number and a theta above 0",
                       o->rotated, (long long)(o->width / o->heads), (long long)turning(o),
                       o->theta);
    }
    return DT_OK;
}

static const dt_module_type gpt_type = { .name = "gpt",
                                         .forward = dt__transformer_forward,
                                         .language = &dt__transformer_language };

dt_status dt_gpt_create(dt_ctx *ctx, const dt_gpt_options *o, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (o == NULL || o->heads < 1 || o->width % o->heads != 0) {
        return dt_fail(
            ctx, DT_ERR_ARG, "gpt: expected heads that divide the width, not %lld of %lld",
            o == NULL ? 0LL : (long long)o->heads, o == NULL ? 0LL : (long long)o->width);
    }
    DT__TRY(check_rotation(ctx, o));
    const dt__transformer_plan plan = {
        .family = "gpt",
        .tokens = "tokens",
        .positions = o->rotated > 0 ? NULL : "positions",
        .blocks = "blocks",
        .norm = "norm",
        .head = "head",
        .vocab = o->vocab,
        .context = o->context,
        .layers = o->layers,
        .tied = o->tied,
        .deviation = DEVIATION,
        .block = block_of(o),
    };
    return dt__transformer_create(ctx, &gpt_type, &plan, out);
}

DT__FAMILY_END(
    gpt,
    "a language model: a transformer with learned positions, layer norm and gelu_tanh; or "
    "with rotary ones, attention and mlp in parallel, gelu",
    ((dt_example){ "vocab", -1, 0, { o->vocab, o->context }, false }), *in)
