/* A transformer block: attention and an mlp, each with a norm in front of it [Xiong et al. 2020],
 * behind it [OLMo 2 2024] or both [Gemma 2 2024]; one after the other, or parallel [GPT-J 2021].
 *     f(x) = dropout(after(f(before(x))))
 *     x += attention(x)      x += mlp(x)          parallel: x += attention(x) + mlp(x) */
#include "nn/lists/layer_cases.h"
#include "nn/blocks/transformer.h"

enum { ATTENTION, MLP, PARTS };

typedef struct block {
    dt_module *norm[DT__NORMS], *part[PARTS]; /* children; norm NULL: none */
    double dropout;
    bool parallel;
} block;

/* out[0] = f(in[0]); further inputs and outputs belong to attention or mlp. */
static void run_part(dt_tape *t, dt_module *m, int which, const dt__module_call *c)
{
    const block *s = dt_module_state(m);
    dt_module *before = s->norm[2 * which], *after = s->norm[2 * which + 1];
    dt_tensor *in[2] = { c->in[0], c->n_in > 1 ? c->in[1] : NULL };
    if (before != NULL) in[0] = dt_forward(t, before, in[0]);
    dt_forward_n(t, s->part[which], in, c->n_in, c->out, c->n_out);
    dt_tensor *y = before == NULL ? c->out[0] : dt__then(t, in[0], c->out[0]);
    if (after != NULL) y = dt__then(t, y, dt_forward(t, after, y));
    if (dt_is_training(m) && s->dropout > 0.0) y = dt__then(t, y, dt_dropout(t, y, s->dropout));
    c->out[0] = y;
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const block *s = dt_module_state(m);
    dt_tensor *x = in[0], *y;
    run_part(t, m, ATTENTION, &(dt__module_call){ .in = in, n_in, &y, 1 });
    if (s->parallel) {
        run_part(t, m, MLP, &(dt__module_call){ .in = in, 1, out, n_out });
        y = dt__then(t, y, dt_add(t, out[0], y));
        y = dt__then(t, out[0], y);
        out[0] = dt__then(t, y, dt_add(t, y, x));
        return;
    }
    x = dt__then(t, y, dt_add(t, x, y));
    run_part(t, m, MLP, &(dt__module_call){ .in = &x, 1, out, n_out });
    y = dt__then(t, out[0], dt_add(t, x, out[0]));
    out[0] = dt__then(t, x, y);
}

const dt_module_type dt__nn_transformer_block = { .name = "block",
                                                  .forward = forward,
                                                  .block = true };

static dt_status add_norm(dt_module *m, const dt__block_plan *p, int which)
{
    block *s = dt_module_state(m);
    dt_module *norm = NULL;
    if (p->norm[which] == NULL) return DT_OK;
    const dt_status made = p->create_norm(dt_module_ctx(m), p->attend.width, p->eps, &norm);
    return dt__add_made(m, p->norm[which], made, norm, &s->norm[which]);
}

static dt_status build(dt_module *m, const dt__block_plan *p)
{
    block *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    s->dropout = p->dropout;
    s->parallel = p->parallel;
    for (int i = DT__BEFORE_ATTENTION; i <= DT__AFTER_ATTENTION; i++) DT__TRY(add_norm(m, p, i));
    dt_status made = dt__attention_create(ctx, &p->attend, &part);
    DT__TRY(dt__add_made(m, p->attention, made, part, &s->part[ATTENTION]));
    for (int i = DT__BEFORE_MLP; i <= DT__AFTER_MLP; i++) DT__TRY(add_norm(m, p, i));
    made = p->create_mlp(ctx, &p->feed, &part);
    return dt__add_made(m, p->mlp, made, part, &s->part[MLP]);
}

dt_status dt__transformer_block_create(dt_ctx *ctx, const dt__block_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &dt__nn_transformer_block, sizeof(block), &m));
    return dt__layer_done(build(m, plan), m, out);
}

static dt__block_plan plan_of(void)
{
    return (dt__block_plan){
        .norm = { [DT__BEFORE_ATTENTION] = "norm1", [DT__BEFORE_MLP] = "norm2" },
        .attention = "attn",
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
                  .activation = "gelu_tanh",
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
    plan.feed.activation = "silu";
    return dt__transformer_block_create(ctx, &plan, out);
}

/* An OLMo 2 block. */
static dt_status make_after(dt_ctx *ctx, dt_module **out)
{
    dt__block_plan plan = plan_of();
    plan.create_norm = dt_rms_norm_create;
    plan.norm[DT__AFTER_ATTENTION] = "norm1";
    plan.norm[DT__AFTER_MLP] = "norm2";
    plan.norm[DT__BEFORE_ATTENTION] = plan.norm[DT__BEFORE_MLP] = NULL;
    return dt__transformer_block_create(ctx, &plan, out);
}

/* A Gemma 3 block. */
static dt_status make_both(dt_ctx *ctx, dt_module **out)
{
    dt__block_plan plan = plan_of();
    plan.create_norm = dt__rms_norm_create_plus_one;
    plan.norm[DT__AFTER_ATTENTION] = "norm3";
    plan.norm[DT__AFTER_MLP] = "norm4";
    plan.create_mlp = dt__gated_mlp_create;
    return dt__transformer_block_create(ctx, &plan, out);
}

/* A Pythia block. */
static dt_status make_parallel(dt_ctx *ctx, dt_module **out)
{
    dt__block_plan plan = plan_of();
    plan.parallel = true;
    plan.feed.activation = "gelu";
    return dt__transformer_block_create(ctx, &plan, out);
}

/* A Mixtral block: rms_norm has no bias. */
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

/* Modules, one after the other. */
static dt_tensor *branch(dt_tape *t, dt_module *m, const char *const *names, dt_tensor *x)
{
    for (int i = 0; names[i] != NULL; i++) x = dt_forward(t, dt_module_at(m, names[i]), x);
    return x;
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    static const char *const first[] = { "norm1", "attn", NULL };
    static const char *const second[] = { "norm2", "mlp", NULL };
    dt_tensor *x = dt_add(t, in[0], branch(t, m, first, in[0]));
    return dt_add(t, x, branch(t, m, second, x));
}

static dt_tensor *plain_after(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    static const char *const first[] = { "attn", "norm1", NULL };
    static const char *const second[] = { "mlp", "norm2", NULL };
    dt_tensor *x = dt_add(t, in[0], branch(t, m, first, in[0]));
    return dt_add(t, x, branch(t, m, second, x));
}

static dt_tensor *plain_both(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    static const char *const first[] = { "norm1", "attn", "norm3", NULL };
    static const char *const second[] = { "norm2", "mlp", "norm4", NULL };
    dt_tensor *x = dt_add(t, in[0], branch(t, m, first, in[0]));
    return dt_add(t, x, branch(t, m, second, x));
}

static dt_tensor *plain_parallel(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    static const char *const first[] = { "norm1", "attn", NULL };
    static const char *const second[] = { "norm2", "mlp", NULL };
    dt_tensor *x = branch(t, m, first, in[0]);
    return dt_add(t, dt_add(t, branch(t, m, second, in[0]), x), in[0]);
}

#define PLACES                                                                                     \
    {                                                                                              \
        { 5 }, .dtype = DT_I32, .given = true, .values = { 0, 1, 2, 3, 4 }                         \
    }
#define ATTENTION_STATE "attn.q.weight attn.k.weight attn.v.weight attn.out.weight "
#define LAYER_NORMS "norm1.weight norm1.bias " ATTENTION_STATE "norm2.weight norm2.bias "
#define STATE LAYER_NORMS "mlp.up.weight mlp.down.weight"

static const dt__layer_case cases[] = {
    { "of a gpt", make, .in = { { { 2, 5, 8 } } }, .state = STATE, .plain = plain },
    { "norms behind", make_after, .in = { { { 2, 5, 8 } } }, .plain = plain_after,
      .state = "norm1.weight " ATTENTION_STATE "norm2.weight mlp.up.weight mlp.down.weight" },
    { "norms on both sides", make_both, .in = { { { 2, 5, 8 } } }, .plain = plain_both,
      .state = "norm1.weight norm3.weight " ATTENTION_STATE
               "norm2.weight norm4.weight mlp.gate.weight mlp.up.weight mlp.down.weight" },
    { "parallel", make_parallel, .in = { { { 2, 5, 8 } } }, .state = STATE,
      .plain = plain_parallel },
    { "dropout, a gated mlp", make_dropping, .in = { { { 2, 5, 8 } } }, .random = true,
      .state = LAYER_NORMS "mlp.gate.weight mlp.up.weight mlp.down.weight" },
    { "experts, and their logits", make_mixture, .in = { { { 2, 5, 8 } }, PLACES }, .n_out = 2,
      .state = "norm1.weight " ATTENTION_STATE "norm2.weight mlp.router.weight mlp.w_gate.weight "
               "mlp.w_up.weight mlp.w_down.weight" },
    { "another width", make, .in = { { { 2, 5, 9 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "layer_norm" },
};
DT__LAYER_CASES(transformer_block, cases)
