/* A mixture of experts in place of an mlp [Shazeer et al. 2017; Jiang et al. 2024, Mixtral].
 *     logits = router(x)      weights, index = the top_k largest of softmax(logits)
 *     y = sum over the chosen e of weights[e] down_e(swiglu(gate_e(x), up_e(x))) */
#include "nn/blocks/blocks.h"
#include "nn/blocks/experts.h"
#include "nn/lists/layer_cases.h"
#include "nn/blocks/transformer.h"

typedef struct moe {
    dt_module *router, *gate, *up, *down;
    dt_moe_router_options choice;
} moe;

static dt_tensor *expert(dt_tape *t, dt_module *layer, dt_tensor *x, dt_tensor *index)
{
    dt_tensor *in[2] = { x, index }, *y;
    return dt_forward_n(t, layer, in, 2, &y, 1) == DT_OK ? y : NULL;
}

/* The outputs of each row's experts: [rows, top_k, width]. */
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

const dt_module_type dt__nn_moe = { .name = "moe", .forward = forward };

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
    DT__TRY(dt_module_create(ctx, &dt__nn_moe, sizeof(moe), &m));
    return dt__layer_done(build(m, layer, deviation), m, out);
}

dt_status dt_moe_create(dt_ctx *ctx, const dt_moe_layer *layer, dt_module **out)
{
    DT__NEED3(ctx, ctx, layer, out);
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

DT__MAKE_OF(make, dt_moe_create, dt_moe_layer, .width = 5, .hidden = 6, .experts = 3, .top_k = 3)
DT__MAKE_OF(make_usual, dt_moe_create, dt_moe_layer, .width = 5, .hidden = 6, .experts = 4,
            .top_k = 2, .normalize = true, .bias = true)
DT__MAKE(make_without,
         dt_moe_create(ctx, &(dt_moe_layer){ .width = 5, .hidden = 6, .top_k = 1 }, out))
DT__MAKE_OF(make_too_many, dt_moe_create, dt_moe_layer, .width = 5, .hidden = 6, .experts = 3,
            .top_k = 4)
DT__MAKE_OF(make_tight, dt_moe_create, dt_moe_layer, 5, 6, .experts = 3, .top_k = 1, .capacity = -1)

/* Expert e of a grouped parameter. */
static dt_tensor *of_expert(dt_tape *t, dt_module *m, const char *path, int64_t e)
{
    dt_tensor *x = dt_grouped_expert(dt_param(m, path), e);
    return x != NULL && dt__tape_adopt(t, dt__tape_lend(t, x)) == DT_OK ? x : NULL;
}

/* With top_k = experts: the weighted sum over all experts, one by one. */
static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *share = dt_softmax(t, dt_linear(t, in[0], dt_param(m, "router.weight"), NULL), -1);
    dt_tensor *sum = NULL;
    for (int64_t e = 0; e < 3; e++) {
        const dt_slice_options column = { .dims = { 1, { 1 } },
                                          .starts = { 1, { e } },
                                          .stops = { 1, { e + 1 } } };
        dt_tensor *gate = dt_linear(t, in[0], of_expert(t, m, "w_gate.weight", e), NULL);
        dt_tensor *up = dt_linear(t, in[0], of_expert(t, m, "w_up.weight", e), NULL);
        dt_tensor *y = dt_swiglu(t, gate, up);
        y = dt_linear(t, y, of_expert(t, m, "w_down.weight", e), NULL);
        y = dt_mul(t, y, dt_slice(t, share, &column));
        sum = sum == NULL ? y : dt_add(t, sum, y);
    }
    return sum;
}

#define STATE "router.weight w_gate.weight w_up.weight w_down.weight"
#define BIASED                                                                                     \
    "router.weight w_gate.weight w_gate.bias w_up.weight w_up.bias w_down.weight w_down.bias"

static const dt__layer_case cases[] = {
    { "all experts", make, .in = { { { 7, 5 } } }, .state = STATE, .plain = plain,
      .first = { { "router.weight", -0.4472136, 0.4472136 },
                 { "w_down.weight", -0.4082483, 0.4082483 } } },
    { "two of four, and logits", make_usual, .in = { { { 3, 4, 5 } } }, .n_out = 2,
      .state = BIASED },
    { "no experts", make_without, .fails = DT_ERR_ARG, .says = "moe: the number of experts" },
    { "more than there are", make_too_many, .fails = DT_ERR_ARG, .says = "moe: top_k is 4" },
    { "a capacity below 0", make_tight, .fails = DT_ERR_ARG,
      .says = "a capacity of -1 is below 0" },
    { "another width", make, .in = { { { 7, 6 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "linear" },
};
DT__LAYER_CASES(moe, cases)
