/* SwiGLU, the gated activation of Llama's mlps, element by element (Shazeer 2020).
 *     y = silu(gate) up      s = 1 / (1 + e^-gate)
 *     dgate = dy up s (1 + gate (1 - s))      dup = dy gate s */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    DT__TRY(dt__want_float(c, 1));
    DT__TRY(dt__want_dims(c, 1, c->in[0]->rank, c->in[0]->dims));
    return dt__shape_like(c, 0);
}

static void forward(const dt_call *c)
{
    c->kernels->swiglu(dt__count(c->y), dt__data(c->arg[0]), dt__data(c->arg[1]),
                       dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__swiglu_backward s = { .n = dt__count(dy),
                                    .gate = dt__data(c->arg[0]),
                                    .up = dt__data(c->arg[1]),
                                    .dy = dt__data(dy),
                                    .dgate = dx[0] != NULL ? dt__data_mut(dx[0]) : NULL,
                                    .dup = dx[1] != NULL ? dt__data_mut(dx[1]) : NULL };
    c->kernels->swiglu_backward(&s);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_mul(t, dt_silu(t, in[0]), in[1]);
}

const dt_op dt__op_swiglu = {
    .name = "swiglu",
    .text = "y = gate / (1 + e^-gate) * up",
    .in_name = { "gate", "up" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_swiglu(dt_tape *t, dt_tensor *gate, dt_tensor *up)
{
    return dt_apply(t, &dt__op_swiglu, DT__CALL(gate, up));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 4 }, .given = true, .values = { -2, 0, 1, 3 } },
              { { 4 }, .given = true, .values = { 2, 5, -1, 1 } } },
      .n_y = 4, .y = { -0.4768116880884703, 0, -0.7310585786300049, 2.8577223804672998 } },
    { "far out",
      .in = { { { 4 }, .given = true, .values = { -800, -40, 40, 800 } },
              { { 4 }, .given = true, .values = { 1, 1, 1, 1 } } },
      .n_y = 4, .y = { 0, -1.6993417021166355e-16, 40, 800 } },
    { "random", .in = { { { 2, 3, 4 }, .low = -4, .high = 4 }, { { 2, 3, 4 } } } },
    { "long", .in = { { { 40003 } }, { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } } },
    { "shape", .in = { { { 2, 3 } }, { { 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "up must be [2,3]" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(swiglu, cases)
