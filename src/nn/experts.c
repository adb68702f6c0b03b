/* A mixture of experts in place of an mlp [Shazeer et al. 2017; Jiang et al. 2024, Mixtral].
 *     logits = router(x)      weights, index = the top_k largest of softmax(logits)
 *     y = sum over the chosen e of weights[e] down_e(swiglu(gate_e(x), up_e(x)))
 * and the losses that keep the rows spread over the experts. */
#include "nn/blocks.h"
#include "nn/experts.h"
#include "nn/transformer.h"

typedef struct moe {
    dt_module *router, *gate, *up, *down;
    dt_moe_router_options choice;
} moe;

/* ---- forward ----------------------------------------------------------------------------------- */

static dt_tensor *expert(dt_tape *t, dt_module *layer, dt_tensor *x, dt_tensor *index)
{
    dt_tensor *in[2] = { x, index }, *y;
    return dt_forward_n(t, layer, in, 2, &y, 1) == DT_OK ? y : NULL;
}

/* What the chosen experts give for each row: [rows, top_k, width]. */
static dt_tensor *experts(dt_tape *t, const moe *s, dt_tensor *x, dt_tensor *index)
{
    dt_tensor *gate = expert(t, s->gate, x, index), *up = expert(t, s->up, x, index);
    dt_tensor *y = dt_swiglu(t, gate, up);
    dt__drop_step(t, gate, y);
    dt__drop_step(t, up, y);
    return dt__then(t, y, expert(t, s->down, y, index));
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const moe *s = dt_module_state(m);
    dt_tensor *logits = dt_forward(t, s->router, in[0]), *index;
    (void)n_in;
    dt_tensor *weights = dt_moe_router(t, logits, &s->choice, &index);
    dt_tensor *y = weights == NULL ? NULL : experts(t, s, in[0], index);
    dt_tensor *joined = dt__then(t, y, dt_moe_combine(t, y, weights));
    if (joined == NULL) return;
    dt__drop_step(t, weights, joined);
    dt__drop_step(t, index, joined);
    out[0] = dt__then(t, joined, dt_reshape(t, joined, in[0]->rank, in[0]->dims));
    if (n_out > 1) out[1] = logits;
    else dt__drop_step(t, logits, out[0]);
}

static const dt_module_type moe_type = { .name = "moe", .forward = forward };

/* ---- building ---------------------------------------------------------------------------------- */

static dt_status add(dt_module *m, const char *name, const dt_module_type *type,
                     const dt__experts_plan *p, dt_module **lent)
{
    DT__TRY(dt__add_child(m, name, type, 0, lent));
    return type == &dt__nn_router ? dt__router_build(*lent, p) : dt__grouped_linear_build(*lent, p);
}

static dt_status build(dt_module *m, const dt_moe_layer *l, const double *deviation)
{
    moe *s = dt_module_state(m);
    const dt__experts_plan first = { l->experts, l->width, l->hidden, l->bias, deviation[0] };
    const dt__experts_plan down = { l->experts, l->hidden, l->width, l->bias, deviation[1] };
    s->choice = (dt_moe_router_options){ l->top_k, l->normalize, l->capacity };
    DT__TRY(add(m, "router", &dt__nn_router, &first, &s->router));
    DT__TRY(add(m, "w_gate", &dt__nn_grouped_linear, &first, &s->gate));
    DT__TRY(add(m, "w_up", &dt__nn_grouped_linear, &first, &s->up));
    return add(m, "w_down", &dt__nn_grouped_linear, &down, &s->down);
}

static dt_status check(dt_ctx *ctx, const dt_moe_layer *l)
{
    DT__TRY(dt__want_extent(ctx, "moe", "the width", l->width));
    DT__TRY(dt__want_extent(ctx, "moe", "the hidden width", l->hidden));
    DT__TRY(dt__want_extent(ctx, "moe", "the number of experts", l->experts));
    if (l->top_k < 1 || l->top_k > l->experts) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "moe: top_k is %lld; of %lld experts 1...%lld can be chosen",
                       (long long)l->top_k, (long long)l->experts, (long long)l->experts);
    }
    if (l->capacity >= 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "moe: a capacity of %lld is below 0", (long long)l->capacity);
}

static dt_status create(dt_ctx *ctx, const dt_moe_layer *layer, const double *deviation,
                        dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(check(ctx, layer));
    DT__TRY(dt_module_create(ctx, &moe_type, sizeof(moe), &m));
    return dt__layer_done(build(m, layer, deviation), m, out);
}

dt_status dt_moe_create(dt_ctx *ctx, const dt_moe_layer *layer, dt_module **out)
{
    return create(ctx, layer, (const double[]){ 0, 0 }, out);
}

dt_status dt__moe_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out)
{
    const dt_moe_layer layer = { .width = plan->width,
                                 .hidden = plan->hidden,
                                 .experts = plan->moe->experts,
                                 .top_k = plan->moe->top_k,
                                 .normalize = plan->moe->normalize,
                                 .bias = plan->bias };
    return create(ctx, &layer, plan->deviation, out);
}

/* ---- losses ------------------------------------------------------------------------------------ */

dt_tensor *dt__times(dt_tape *t, dt_tensor *x, double factor)
{
    dt_tensor *by;
    if (t->status != DT_OK || x == NULL) return NULL;
    dt_status s = dt__tensor_create_raw(t->ctx, x->dtype, 0, NULL, &by);
    if (s == DT_OK) {
        dt_fill(by, factor);
        s = dt__tape_lend(t, by);
    }
    if (dt__tape_adopt(t, s) != DT_OK) return NULL;
    return dt_mul(t, x, by);
}

/* All of them as one, in place of them. */
static void join(dt_tape *t, dt__routed *r)
{
    if (r->n < 2) return;
    dt_tensor *all = dt_concat(t, r->part, r->n, 0);
    for (int i = 0; i < r->n; i++) dt__drop_step(t, r->part[i], all);
    r->part[0] = all;
    r->n = 1;
}

void dt__routed_add(dt_tape *t, dt__routed *r, dt_tensor *logits)
{
    if (r->n == DT_MAX_IN) join(t, r);
    r->part[r->n++] = logits;
}

dt_tensor *dt__routed_loss(dt_tape *t, dt__routed *r, const dt_moe_options *o)
{
    join(t, r);
    dt_tensor *balance = NULL, *z = NULL;
    if (o->balance > 0) {
        balance =
            dt_load_balance_loss(t, r->part[0], &(dt_load_balance_options){ .top_k = o->top_k });
        balance = dt__then(t, balance, dt__times(t, balance, o->balance));
    }
    if (o->z > 0) {
        z = dt_router_z_loss(t, r->part[0]);
        z = dt__then(t, z, dt__times(t, z, o->z));
    }
    dt_tensor *loss = balance == NULL ? z : z == NULL ? balance : dt_add(t, balance, z);
    dt__drop_step(t, r->part[0], loss);
    return t->status == DT_OK ? loss : NULL;
}
