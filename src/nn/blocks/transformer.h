/* Building blocks of decoder-only transformers: attention, mlps, a block of the two, and the model
 * around the blocks. A family of models fills in a plan: sizes, settings, and names of children. */
#ifndef DT__NN_TRANSFORMER_H
#define DT__NN_TRANSFORMER_H

#include "nn/module.h"

/* ---- attention ------------------------------------------------------------------------------ */

enum { DT__Q, DT__K, DT__V, DT__OUT };

/* Makes a norm of this width; eps is added to the mean of squares, or to the variance. */
typedef dt_status dt__norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
/* dt_rms_norm_create with a norm that multiplies by 1 + weight, which begins with 0 (Gemma). */
dt_status dt__rms_norm_create_plus_one(dt_ctx *ctx, int64_t width, double eps, dt_module **out);

typedef struct dt__attention_plan {
    const char *name[4]; /* of the linear layers: DT__Q ... DT__OUT */
    const char *norm[2]; /* of the norms of q and k; NULL: none */
    dt__norm_create *create_norm;
    bool norm_all; /* norms are over all heads together, not over each head */
    int64_t width, heads, kv_heads, head_width; /* kv_heads divides heads */
    bool qkv_bias, out_bias;
    bool rotates; /* rotary position embedding: positions, i32 [T], are a second input */
    dt_rotary_options rotary;
    int64_t near_tokens; /* texts longer than this are rotated by `far_rotary`; 0: none are */
    dt_rotary_options far_rotary;
    double scale;        /* of the scores, as in dt_attention_options; 0: 1 / sqrt(head width) */
    int64_t window;      /* as in dt_attention_options; 0: none */
    double eps;          /* of the norms */
    double deviation[2]; /* standard deviation of initial weights: for q, k and v; for out */
} dt__attention_plan;

/* y = out(attention(q(x), k(x), v(x))), causal, of x [B, T, width]. */
dt_status dt__attention_create(dt_ctx *ctx, const dt__attention_plan *plan, dt_module **out);

/* ---- mlps: of x [B, T, width] --------------------------------------------------------------- */

enum { DT__UP, DT__DOWN, DT__GATE };

typedef struct dt__mlp_plan {
    const char *name[3]; /* of the linear layers: DT__UP ... DT__GATE */
    int64_t width, hidden;
    bool bias;
    int64_t hadamard; /* for a gated mlp: dt_block_options.hadamard */
    /* "gelu_tanh", "gelu" or "silu", if the functions below support it */
    const char *activation;
    /* standard deviation of initial weights: for up and gate; for down */
    double deviation[2];
    const dt_moe_options *moe; /* for a mixture of experts; lent */
} dt__mlp_plan;

/* y = down(f(up(x))), f = gelu_tanh or gelu */
dt_status dt__gelu_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
/* y = down(f(gate(x)) up(x)), f = silu or gelu_tanh */
dt_status dt__gated_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
/* dt_moe_create with the plan's settings; plan->name is not used. */
dt_status dt__moe_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);

/* ---- a block -------------------------------------------------------------------------------- */

enum { DT__BEFORE_ATTENTION, DT__AFTER_ATTENTION, DT__BEFORE_MLP, DT__AFTER_MLP, DT__NORMS };

typedef struct dt__block_plan {
    const char *norm[DT__NORMS], *attention, *mlp; /* names of its children; norm NULL: none */
    dt__norm_create *create_norm;
    dt_status (*create_mlp)(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
    dt__attention_plan attend;
    dt__mlp_plan feed;
    double eps, dropout;
    bool parallel; /* attention and mlp both read the block's input */
} dt__block_plan;

/* With f = attention or mlp between its norms, f(x) = dropout(after(f(before(x)))):
 *     x += attention(x); x += mlp(x)       or, parallel, x += attention(x) + mlp(x)
 * The inputs of a block are x and, if attention rotates, the positions. Its outputs are x and,
 * optionally, the second output of its mlp: the router's logits of a mixture of experts. */
dt_status dt__transformer_block_create(dt_ctx *ctx, const dt__block_plan *plan, dt_module **out);

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct dt__transformer_plan {
    const char *family;
    const char *body; /* the child with everything except the head; NULL: the root itself */
    const char *tokens, *positions, *blocks, *norm, *head; /* positions NULL: none are learned */
    int64_t vocab, context, layers;
    bool tied;
    int64_t unrotated;  /* every n-th block has no rotation; 0: none */
    int64_t full_every; /* every n-th block has no window, and rotates as `full_rotary`; 0: none */
    dt_rotary_options full_rotary;
    double scale_tokens; /* factor of the tokens' embeddings; 0: none */
    double deviation;    /* standard deviation of initial weights of embeddings and head */
    dt__block_plan block;
} dt__transformer_plan;

/* logits = head(norm(blocks(dropout(scale_tokens tokens[ids] + positions[0...T-1])))), ids i32 [B,
 * T]. The type of the model is `type`, whose forward and language must be those below. */
dt_status dt__transformer_create(dt_ctx *ctx, const dt_module_type *type,
                                 const dt__transformer_plan *plan, dt_module **out);
void dt__transformer_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                             dt_tensor **out, int n_out);
extern const dt_language dt__transformer_language;

/* ---- linear layers -------------------------------------------------------------------------- */

typedef struct dt__linear_plan {
    int64_t in, out;
    bool bias;
    double deviation;
} dt__linear_plan;

/* Adds a linear layer with weight initialized normal(0, deviation) and bias 0. */
dt_status dt__add_linear(dt_module *m, const char *name, const dt__linear_plan *plan,
                         dt_module **lent);

#endif
