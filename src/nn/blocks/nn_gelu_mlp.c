/* The mlp of a gpt block.      y = down(f(up(x))), f = gelu_tanh or gelu (Pythia) */
#include "nn/lists/layer_type.h"
#include "nn/lists/layer_cases.h"
#include "nn/blocks/transformer.h"
#include "nn/blocks/unit.h"

typedef struct gelu_mlp {
    dt_module *up, *activation, *down;
} gelu_mlp;

DT__FORWARD(forward)
{
    const gelu_mlp *s = dt_module_state(m);
    x = dt__unit_forward(t, &(dt__unit){ s->up, .activation = s->activation }, x);
    return dt__then(t, x, dt_forward(t, s->down, x));
}

const dt_module_type dt__nn_gelu_mlp = { .name = "gelu_mlp", .forward = forward };

static dt_status build(dt_module *m, const dt__mlp_plan *p)
{
    gelu_mlp *s = dt_module_state(m);
    const dt__linear_plan up = { p->width, p->hidden, p->bias, p->deviation[0] };
    const dt__linear_plan down = { p->hidden, p->width, p->bias, p->deviation[1] };
    dt_module *part = NULL;
    DT__TRY(dt__add_linear(m, p->name[DT__UP], &up, &s->up));
    const dt_status made = dt_activation_create(dt_module_ctx(m), p->activation, &part);
    DT__TRY(dt__add_made(m, "activation", made, part, &s->activation));
    return dt__add_linear(m, p->name[DT__DOWN], &down, &s->down);
}

dt_status dt__gelu_mlp_create(dt_ctx *ctx, const dt__mlp_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &dt__nn_gelu_mlp, sizeof(gelu_mlp), &m));
    return dt__layer_done(build(m, plan), m, out);
}

static dt_status make_of(dt_ctx *ctx, const char *activation, dt_module **out)
{
    const dt__mlp_plan plan = { .name = { "up", "down" },
                                .width = 6,
                                .hidden = 10,
                                .bias = true,
                                .activation = activation,
                                .deviation = { 0.5, 0.3 } };
    return dt__gelu_mlp_create(ctx, &plan, out);
}

DT__MAKE(make, make_of(ctx, "gelu_tanh", out))
DT__MAKE(make_erf, make_of(ctx, "gelu", out))

static dt_tensor *plain_of(dt_tape *t, dt_module *m, int form, dt_tensor *const *in)
{
    dt_tensor *x = dt_linear(t, in[0], dt_param(m, "up.weight"), dt_param(m, "up.bias"));
    x = dt_gelu(t, x, form);
    return dt_linear(t, x, dt_param(m, "down.weight"), dt_param(m, "down.bias"));
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return plain_of(t, m, DT_GELU_TANH, in);
}

static dt_tensor *plain_erf(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return plain_of(t, m, DT_GELU_ERF, in);
}

#define STATE "up.weight up.bias down.weight down.bias"

static const dt__layer_case cases[] = {
    { "a batch", make, .in = { { { 2, 5, 6 } } }, .state = STATE, .plain = plain,
      .first = { { "up.weight", -2, 2 }, { "up.bias", 0, 0 }, { "down.weight", -1, 1 } } },
    { "by erf", make_erf, .in = { { { 2, 5, 6 } } }, .state = STATE, .plain = plain_erf },
    { "another width", make, .in = { { { 2, 5, 7 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "linear" },
};
DT__LAYER_CASES(gelu_mlp, cases)
