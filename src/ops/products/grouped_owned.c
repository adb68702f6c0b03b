/* Runs grouped_linear for rows of another rank's pass, without a record: does what dispatch and
 * backward do with a record. The weight has not been written since that pass, so nothing is kept
 * from forward to backward. */
#include "ops/products/grouped_owned.h"

#include "autograd/op.h"
#include "ops/products/grouped_gemm.h"
#include "ops/ops_list.h"

enum { X, WEIGHT, BIAS, OFFSETS, INDEX, OPERANDS };

static dt_status open(const dt__owned *o, dt_call *c, dt__codes **pull)
{
    *c = (dt_call){ .ctx = o->tape->ctx,
                    .tape = o->tape,
                    .op = &dt__op_grouped_linear,
                    .n_in = OPERANDS,
                    .in = {
                        [X] = o->x, [WEIGHT] = o->weight, [BIAS] = o->bias, [INDEX] = o->index } };
    if (o->codes != NULL) {
        dt__codes_retain(o->codes);
        c->codes[X] = o->codes;
    }
    return dt__call_open(c, pull);
}

static dt__grouped grouped_of(const dt_call *c)
{
    const dt__routing r = dt__routing_of(c->in[WEIGHT]->dims[0], dt__rows(c->in[X]), c->in[INDEX]);
    return (dt__grouped){ c, X, WEIGHT, BIAS, OFFSETS, INDEX, r };
}

static dt_status make_scratch(dt_call *c, size_t bytes)
{
    c->scratch = dt__alloc(c->ctx, bytes);
    return c->scratch == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__owned_forward(const dt__owned *o, float *y)
{
    dt_call c;
    dt__codes *pull[DT_MAX_IN] = { NULL };
    dt_status s = open(o, &c, pull);
    const dt__grouped g = grouped_of(&c);
    if (s == DT_OK) s = make_scratch(&c, dt__grouped_forward_scratch(&g));
    if (s == DT_OK) dt__grouped_forward(&g, y);
    dt__release(c.ctx, c.scratch);
    dt__call_close(&c, pull);
    return s;
}

/* Adds the gradients of weight and bias to those of what they depend on. */
static dt_status pull_back(const dt_call *c, dt__owned_gradients *g, dt__codes *const *pull)
{
    const dt__kind *kind = dt__kind_of(c->in[WEIGHT]);
    const bool kept = kind->keeps_codes != NULL && pull[WEIGHT] != NULL &&
                      kind->keeps_codes(c->in[WEIGHT], pull[WEIGHT]);
    dt_tensor *weight = g->weight, *bias = g->bias;
    g->weight = g->bias = NULL;
    dt_status s = DT_OK;
    if (weight != NULL) {
        s = kind->pullback(c->tape, c->in[WEIGHT], weight, kept ? pull[WEIGHT] : NULL);
    }
    if (bias == NULL) return s;
    if (s == DT_OK) return dt__kind_of(c->in[BIAS])->pullback(c->tape, c->in[BIAS], bias, NULL);
    dt_tensor_free(bias);
    return s;
}

dt_status dt__owned_backward(const dt__owned *o, const dt_tensor *dy, dt__owned_gradients *to)
{
    dt_call c;
    dt__codes *pull[DT_MAX_IN] = { NULL };
    dt_status s = open(o, &c, pull);
    c.wants[X] = to->x != NULL;
    c.wants[WEIGHT] = to->weight != NULL;
    c.wants[BIAS] = to->bias != NULL;
    const dt__grouped g = grouped_of(&c);
    if (s == DT_OK) s = make_scratch(&c, dt__grouped_backward_scratch(&g));
    if (s == DT_OK) {
        dt_tensor *const dx[DT_MAX_IN] = { [X] = to->x, [WEIGHT] = to->weight, [BIAS] = to->bias };
        dt__grouped_backward(&g, dt__data(dy), dx);
    }
    if (s == DT_OK && to->pulls) s = pull_back(&c, to, pull);
    dt__release(c.ctx, c.scratch);
    dt__call_close(&c, pull);
    return s;
}
