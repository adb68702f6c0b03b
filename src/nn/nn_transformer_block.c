/* A pre-norm transformer block [Xiong et al. 2020], or with norms behind attention and mlp [OLMo 2
 * 2024].
 *     x += dropout(attention(norm1(x)))      x += dropout(mlp(norm2(x)))
 *     x += dropout(norm1(attention(x)))      x += dropout(norm2(mlp(x))) */
#include "nn/layer_cases.h"
#include "nn/transformer.h"

typedef struct block {
    dt_module *norm1, *attention, *norm2, *mlp; /* children */
    double dropout;
    bool after;
} block;

/* x + dropout(y), in place of y. */
static dt_tensor *join(dt_tape *t, dt_module *m, dt_tensor *x, dt_tensor *y)
{
    const block *s = dt_module_state(m);
    if (dt_is_training(m) && s->dropout > 0.0) y = dt__then(t, y, dt_dropout(t, y, s->dropout));
    return dt__then(t, y, dt_add(t, x, y));
}

/* With norms behind attention and mlp. */
static void forward_after(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out)
{
    const block *s = dt_module_state(m);
    dt_tensor *y, *z;
    dt_forward_n(t, s->attention, in, n_in, &y, 1);
    z = dt__then(t, y, dt_forward(t, s->norm1, y));
    dt_tensor *x = join(t, m, in[0], z);
    y = dt_forward(t, s->mlp, x);
    z = dt__then(t, y, dt_forward(t, s->norm2, y));
    out[0] = dt__then(t, x, join(t, m, x, z));
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const block *s = dt_module_state(m);
    if (s->after) {
        forward_after(t, m, in, n_in, out);
        return;
    }
    dt_tensor *normal[2] = { dt_forward(t, s->norm1, in[0]), n_in > 1 ? in[1] : NULL }, *y;
    dt_forward_n(t, s->attention, normal, n_in, &y, 1);
    dt_tensor *x = join(t, m, in[0], dt__then(t, normal[0], y));
    y = dt_forward(t, s->norm2, x);
    dt_forward_n(t, s->mlp, &y, 1, out, n_out);
    y = join(t, m, x, dt__then(t, y, out[0]));
    out[0] = dt__then(t, x, y);
}

const dt_module_type dt__nn_transformer_block = { .name = "block",
                                                  .forward = forward,
                                                  .block = true };

static dt_status add_norm(dt_module *m, const dt__block_plan *p, const char *name, dt_module **lent)
{
    dt_module *norm = NULL;
    const dt_status made = p->create_norm(dt_module_ctx(m), p->attend.width, p->eps, &norm);
    return dt__add_made(m, name, made, norm, lent);
}

static dt_status build(dt_module *m, const dt__block_plan *p)
{
    block *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    s->dropout = p->dropout;
    s->after = p->after;
    DT__TRY(add_norm(m, p, p->norm1, &s->norm1));
    dt_status made = dt__attention_create(ctx, &p->attend, &part);
    DT__TRY(dt__add_made(m, p->attention, made, part, &s->attention));
    DT__TRY(add_norm(m, p, p->norm2, &s->norm2));
    made = p->create_mlp(ctx, &p->feed, &part);
    return dt__add_made(m, p->mlp, made, part, &s->mlp);
}

dt_status dt__transformer_block_create(dt_ctx *ctx, const dt__block_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &dt__nn_transformer_block, sizeof(block), &m));
    return dt__layer_done(build(m, plan), m, out);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static dt__block_plan plan_of(void)
{
    return (dt__block_plan){
        .norm1 = "norm1",
        .attention = "attn",
        .norm2 = "norm2",
        .mlp = "mlp",
        .create_norm = dt_layer_norm_create,
        .create_mlp = dt__gelu_mlp_create,
        .attend = { .name = { "q", "k", "v", "out" },
                    .width = 8,
                    .heads = 2,
                    .kv_heads = 2,
                    .head_width = 4,
                    .deviation = { 0.5, 0.3 } },
        .feed = { .name = { "up", "down", "gate" },
                  .width = 8,
                  .hidden = 9,
                  .deviation = { 0.5, 0.3 } },
        .eps = 1e-5,
    };
}

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    const dt__block_plan plan = plan_of();
    return dt__transformer_block_create(ctx, &plan, out);
}

static dt_status make_dropping(dt_ctx *ctx, dt_module **out)
{
    dt__block_plan plan = plan_of();
    plan.dropout = 0.2;
    plan.create_mlp = dt__gated_mlp_create;
    return dt__transformer_block_create(ctx, &plan, out);
}

/* As an OLMo 2 block. */
static dt_status make_after(dt_ctx *ctx, dt_module **out)
{
    dt__block_plan plan = plan_of();
    plan.create_norm = dt_rms_norm_create;
    plan.after = true;
    return dt__transformer_block_create(ctx, &plan, out);
}

/* With rms_norm, which has no bias, as a Mixtral block. */
static dt_status make_mixture(dt_ctx *ctx, dt_module **out)
{
    static const dt_moe_options moe = { .given = true, .experts = 3, .top_k = 2 };
    dt__block_plan plan = plan_of();
    plan.create_norm = dt_rms_norm_create;
    plan.create_mlp = dt__moe_create;
    plan.feed.moe = &moe;
    plan.attend.rotates = true;
    plan.attend.rotary = dt_rotary_defaults();
    return dt__transformer_block_create(ctx, &plan, out);
}

/* Two modules, one behind the other. */
static dt_tensor *branch(dt_tape *t, dt_module *m, const char *const *names, dt_tensor *x)
{
    return dt_forward(t, dt_module_at(m, names[1]), dt_forward(t, dt_module_at(m, names[0]), x));
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    static const char *const first[] = { "norm1", "attn" }, *const second[] = { "norm2", "mlp" };
    dt_tensor *x = dt_add(t, in[0], branch(t, m, first, in[0]));
    return dt_add(t, x, branch(t, m, second, x));
}

static dt_tensor *plain_after(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    static const char *const first[] = { "attn", "norm1" }, *const second[] = { "mlp", "norm2" };
    dt_tensor *x = dt_add(t, in[0], branch(t, m, first, in[0]));
    return dt_add(t, x, branch(t, m, second, x));
}

#define PLACES                                                                                     \
    {                                                                                              \
        { 5 }, .dtype = DT_I32, .given = true, .values = { 0, 1, 2, 3, 4 }                         \
    }
#define ATTENTION "attn.q.weight attn.k.weight attn.v.weight attn.out.weight "
#define LAYER_NORMS "norm1.weight norm1.bias " ATTENTION "norm2.weight norm2.bias "
#define STATE LAYER_NORMS "mlp.up.weight mlp.down.weight"

static const dt__layer_case cases[] = {
    { "of a gpt", make, .in = { { { 2, 5, 8 } } }, .state = STATE, .plain = plain },
    { "norms behind", make_after, .in = { { { 2, 5, 8 } } }, .plain = plain_after,
      .state = "norm1.weight " ATTENTION "norm2.weight mlp.up.weight mlp.down.weight" },
    { "dropout, a gated mlp", make_dropping, .in = { { { 2, 5, 8 } } }, .random = true,
      .state = LAYER_NORMS "mlp.gate.weight mlp.up.weight mlp.down.weight" },
    { "experts, and their logits", make_mixture, .in = { { { 2, 5, 8 } }, PLACES }, .n_out = 2,
      .state = "norm1.weight " ATTENTION "norm2.weight mlp.router.weight mlp.w_gate.weight "
               "mlp.w_up.weight mlp.w_down.weight" },
    { "another width", make, .in = { { { 2, 5, 9 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "layer_norm" },
};
DT__LAYER_CASES(transformer_block, cases)
