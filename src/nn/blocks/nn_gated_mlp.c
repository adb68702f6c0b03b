/* The gated mlp of a llama block [Shazeer 2020].      y = down(f(gate(x)) up(x))
 * f is silu, in one op with the product (swiglu), or gelu_tanh (Gemma). */
#include "nn/lists/layer_type.h"
#include "nn/lists/layer_cases.h"
#include "nn/blocks/transformer.h"

#include <math.h>
#include <string.h>

typedef struct gated_mlp {
    dt_module *first[2]; /* gate and up */
    dt_module *down;
    bool gelu;           /* f is gelu_tanh */
    dt_tensor *hadamard; /* H / sqrt(order), [order][order], a buffer; NULL: none */
} gated_mlp;

/* x H / sqrt(order), for each `order` adjacent values. */
static dt_tensor *rotated(dt_tape *t, dt_tensor *hadamard, dt_tensor *x)
{
    const int64_t order = hadamard->dims[0];
    if (x == NULL) return NULL;
    const int64_t dims[] = { x->dims[0], x->dims[1], x->dims[2] / order, order };
    dt_tensor *y = dt__then(t, x, dt_reshape(t, x, 4, dims));
    y = dt__then(t, y, dt_linear(t, y, hadamard, NULL));
    return dt__then(t, y,
                    dt_reshape(t, y, 3, (const int64_t[]){ dims[0], dims[1], dims[2] * order }));
}

static dt_tensor *gated(dt_tape *t, const gated_mlp *s, dt_tensor *gate, dt_tensor *up)
{
    if (!s->gelu) return dt_swiglu(t, gate, up);
    dt_tensor *f = dt_gelu(t, gate, DT_GELU_TANH);
    return dt__then(t, f, dt_mul(t, f, up));
}

DT__FORWARD(forward)
{
    const gated_mlp *s = dt_module_state(m);
    dt_tensor *part[2];
    dt_forward_each(t, s->first, 2, x, part);
    x = gated(t, s, part[0], part[1]);
    for (int i = 0; i < 2; i++) dt__drop_step(t, part[i], x);
    if (s->hadamard != NULL) x = rotated(t, s->hadamard, x);
    return dt__then(t, x, dt_forward(t, s->down, x));
}

const dt_module_type dt__nn_gated_mlp = { .name = "gated_mlp", .forward = forward };

/* Makes the buffer: the Hadamard matrix of an order that is a power of two, divided by the square
 * root of the order. */
static dt_status add_hadamard(dt_module *m, int64_t order, dt_tensor **lent)
{
    const int64_t dims[] = { order, order };
    const float scale = (float)(1 / sqrt((double)order));
    DT__TRY(dt__new_buffer(m, "hadamard", 2, dims, lent));
    if (m->ctx->hollow) return DT_OK; /* the values come from the file */
    float *x = dt_data_mut(*lent);
    if (x == NULL) return dt_error_status(m->ctx);
    for (int64_t i = 0; i < order * order; i++) {
        const bool odd = __builtin_parityll((uint64_t)(i / order & i % order)) != 0;
        x[i] = odd ? -scale : scale;
    }
    return DT_OK;
}

static dt_status build(dt_module *m, const dt__mlp_plan *p)
{
    gated_mlp *s = dt_module_state(m);
    const dt__linear_plan first = { p->width, p->hidden, p->bias, p->deviation[0] };
    const dt__linear_plan down = { p->hidden, p->width, p->bias, p->deviation[1] };
    s->gelu = strcmp(p->activation, "gelu_tanh") == 0;
    DT__TRY(dt__add_linear(m, p->name[DT__GATE], &first, &s->first[0]));
    DT__TRY(dt__add_linear(m, p->name[DT__UP], &first, &s->first[1]));
    DT__TRY(dt__add_linear(m, p->name[DT__DOWN], &down, &s->down));
    return p->hadamard == 0 ? DT_OK : add_hadamard(m, p->hadamard, &s->hadamard);
}

dt_status dt__gated_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &dt__nn_gated_mlp, sizeof(gated_mlp), &m));
    return dt__layer_done(build(m, plan), m, out);
}

static dt_status make_of(dt_ctx *ctx, const char *activation, dt_module **out)
{
    const dt__mlp_plan plan = { .name = { "up", "down", "gate" },
                                .width = 6,
                                .hidden = 10,
                                .bias = true,
                                .activation = activation,
                                .deviation = { 0.5, 0.3 } };
    return dt__gated_mlp_create(ctx, &plan, out);
}

DT__MAKE(make, make_of(ctx, "silu", out))
DT__MAKE(make_gelu, make_of(ctx, "gelu_tanh", out))

static dt_tensor *layer_of(dt_tape *t, dt_module *m, const char *weight, const char *bias,
                           dt_tensor *x)
{
    return dt_linear(t, x, dt_param(m, weight), dt_param(m, bias));
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *gate = layer_of(t, m, "gate.weight", "gate.bias", in[0]);
    dt_tensor *up = layer_of(t, m, "up.weight", "up.bias", in[0]);
    return layer_of(t, m, "down.weight", "down.bias", dt_swiglu(t, gate, up));
}

static dt_tensor *plain_gelu(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *gate = layer_of(t, m, "gate.weight", "gate.bias", in[0]);
    dt_tensor *up = layer_of(t, m, "up.weight", "up.bias", in[0]);
    dt_tensor *x = dt_mul(t, dt_gelu(t, gate, DT_GELU_TANH), up);
    return layer_of(t, m, "down.weight", "down.bias", x);
}

#define STATE "gate.weight gate.bias up.weight up.bias down.weight down.bias"

static const dt__layer_case cases[] = {
    { "a batch", make, .in = { { { 2, 5, 6 } } }, .state = STATE, .plain = plain,
      .first = { { "gate.weight", -2, 2 }, { "gate.bias", 0, 0 }, { "down.weight", -1, 1 } } },
    { "by gelu", make_gelu, .in = { { { 2, 5, 6 } } }, .state = STATE, .plain = plain_gelu },
    { "another width", make, .in = { { { 2, 5, 7 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "linear" },
};
DT__LAYER_CASES(gated_mlp, cases)
