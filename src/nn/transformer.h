/* What families of decoder-only transformers are made of: attention, an mlp, a block of the two,
 * and the whole around the blocks. A family is a plan: sizes, settings, and the names of the
 * parts. */
#ifndef DT__NN_TRANSFORMER_H
#define DT__NN_TRANSFORMER_H

#include "nn/module.h"

/* ---- attention ------------------------------------------------------------------------------ */

enum { DT__Q, DT__K, DT__V, DT__OUT };

typedef struct dt__attention_plan {
    const char *name[4]; /* of the linear layers: DT__Q ... DT__OUT */
    const char *norm[2]; /* of the norms over the head width, of q and k; NULL: none */
    int64_t width, heads, kv_heads, head_width; /* kv_heads divides heads */
    bool qkv_bias, out_bias;
    bool rotates; /* by the position, which is then a second input, i32 [T] */
    dt_rotary_options rotary;
    double eps;          /* of the norms */
    double deviation[2]; /* of the weights at first: of q, k and v, and of out */
} dt__attention_plan;

/* y = out(attention(q(x), k(x), v(x))), causal, of x [B, T, width]. */
dt_status dt__attention_create(dt_ctx *ctx, const dt__attention_plan *plan, dt_module **out);

/* ---- mlps: of x [B, T, width] --------------------------------------------------------------- */

enum { DT__UP, DT__DOWN, DT__GATE };

typedef struct dt__mlp_plan {
    const char *name[3]; /* of the linear layers: DT__UP ... DT__GATE */
    int64_t width, hidden;
    bool bias;
    double deviation[2];       /* of the weights at first: of up and gate, and of down */
    const dt_moe_options *moe; /* of a mixture of experts; lent */
} dt__mlp_plan;

/* y = down(gelu_tanh(up(x))) */
dt_status dt__gelu_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
/* y = down(swiglu(gate(x), up(x))) */
dt_status dt__gated_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
/* dt_moe_create of the plan; its layers have names of their own. */
dt_status dt__moe_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);

/* ---- a block -------------------------------------------------------------------------------- */

typedef struct dt__block_plan {
    const char *norm1, *attention, *norm2, *mlp; /* the names of its children */
    dt_status (*create_norm)(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
    dt_status (*create_mlp)(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out);
    dt__attention_plan attend;
    dt__mlp_plan feed;
    double eps, dropout;
} dt__block_plan;

/* x += dropout(attention(norm1(x))); x += dropout(mlp(norm2(x))). A block's inputs are x and, where
 * attention rotates, the position. Its outputs are x and, where asked for, those that its mlp has
 * besides: a mixture's logits of the router. */
dt_status dt__transformer_block_create(dt_ctx *ctx, const dt__block_plan *plan, dt_module **out);

/* ---- the whole ------------------------------------------------------------------------------ */

typedef struct dt__transformer_plan {
    const char *family;
    const char *body; /* the child that holds all but the head; NULL: the root does */
    const char *tokens, *positions, *blocks, *norm, *head; /* positions NULL: none are learned */
    int64_t vocab, context, layers;
    bool tied;
    double deviation; /* of the weights of embeddings and head at first */
    dt__block_plan block;
} dt__transformer_plan;

/* logits = head(norm(blocks(dropout(tokens[ids] + positions[0...T-1])))), ids i32 [B, T]; a model
 * of type `type`, whose forward and language are those below. */
dt_status dt__transformer_create(dt_ctx *ctx, const dt_module_type *type,
                                 const dt__transformer_plan *plan, dt_module **out);
void dt__transformer_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                             dt_tensor **out, int n_out);
extern const dt_language dt__transformer_language;

/* ---- what the parts share ------------------------------------------------------------------- */

typedef struct dt__linear_plan {
    int64_t in, out;
    bool bias;
    double deviation;
} dt__linear_plan;

/* Adds a linear layer whose weight is drawn normal(0, deviation) and whose bias is 0. */
dt_status dt__add_linear(dt_module *m, const char *name, const dt__linear_plan *plan,
                         dt_module **lent);

#endif
