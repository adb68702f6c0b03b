/* Building blocks of decoder-only transformers: attention, mlps, a block of the two, and the model
 * around the blocks. A family of models fills in a plan: sizes, settings, and names of children. */
#ifndef DT__NN_TRANSFORMER_H
#define DT__NN_TRANSFORMER_H

#include "nn/module.h"

/* ---- attention ------------------------------------------------------------------------------ */

enum { DT__Q, DT__K, DT__V, DT__OUT };

typedef struct dt__attention_plan {
    const char *name[4]; /* of the linear layers: DT__Q ... DT__OUT */
    const char *norm[2]; /* of the norms of q and k; NULL: none */
    bool norm_all;       /* they are over all heads together; else over the head width */
    int64_t width, heads, kv_heads, head_width; /* kv_heads divides heads */
    bool qkv_bias, out_bias;
    bool rotates; /* rotary position embedding; then positions, i32 [T], are a second input */
    dt_rotary_options rotary;
    double eps;          /* of the norms */
    double deviation[2]; /* standard deviation of initial weights: of q, k and v; of out */
} dt__attention_plan;

/* y = out(attention(q(x), k(x), v(x))), causal, of x [B, T, width]. */
dt_status dt__attention_create(dt_ctx *ctx, const dt__attention_plan *plan, dt_module **out);

/* ---- mlps: of x [B, T, width] --------------------------------------------------------------- */

enum { DT__UP, DT__DOWN, DT__GATE };

typedef struct dt__mlp_plan {
    const char *name[3]; /* of the linear layers: DT__UP ... DT__GATE */
    int64_t width, hidden;
    bool bias;
    double deviation[2];       /* standard deviation of initial weights: of up and gate; of down */
    const dt_moe_options *moe; /* of a mixture of experts; lent */
} dt__mlp_plan;

/* y = down(gelu_tanh(up(x))) */
dt_status dt__gelu_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
/* y = down(swiglu(gate(x), up(x))) */
dt_status dt__gated_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
/* dt_moe_create with the plan's settings; plan->name is not used. */
dt_status dt__moe_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);

/* ---- a block -------------------------------------------------------------------------------- */

typedef struct dt__block_plan {
    const char *norm1, *attention, *norm2, *mlp; /* the names of its children */
    dt_status (*create_norm)(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
    dt_status (*create_mlp)(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
    dt__attention_plan attend;
    dt__mlp_plan feed;
    double eps, dropout;
    bool after; /* the norms are behind attention and mlp */
} dt__block_plan;

/* x += dropout(attention(norm1(x))); x += dropout(mlp(norm2(x))); with `after` x +=
 * dropout(norm1(attention(x))); x += dropout(norm2(mlp(x))). The inputs of a block are x and,
 * if attention rotates, the positions. Its outputs are x and, optionally, the second output of its
 * mlp: the router's logits of a mixture of experts. */
dt_status dt__transformer_block_create(dt_ctx *ctx, const dt__block_plan *plan, dt_module **out);

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct dt__transformer_plan {
    const char *family;
    const char *body; /* the child that contains all but the head; NULL: the root itself */
    const char *tokens, *positions, *blocks, *norm, *head; /* positions NULL: none are learned */
    int64_t vocab, context, layers;
    bool tied;
    int64_t unrotated; /* every n-th block has no rotation; 0: none */
    double deviation;  /* standard deviation of initial weights of embeddings and head */
    dt__block_plan block;
} dt__transformer_plan;

/* logits = head(norm(blocks(dropout(tokens[ids] + positions[0...T-1])))), ids i32 [B, T]. The model
 * has type `type`, whose forward and language must be those below. */
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
