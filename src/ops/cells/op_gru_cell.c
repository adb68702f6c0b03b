/* One time step of a gated recurrent unit [Cho et al. 2014], in PyTorch's form, whose reset gate
 * multiplies the product with the hidden state. The products themselves are ops of their own.
 *     r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      y = n + z (h - n)
 *     dn = dy (1 - z) (1 - n^2)    dz = dy (h - n) z (1 - z)    dr = dn gh_n r (1 - r)
 *     dgi = dr, dz, dn             dgh = dr, dz, r dn           dh = dy z
 * r, z, n and gh_n are kept for backward as result 1. */
#include "ops/ops_list.h"

enum { GI, GH, H };

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 3, 3));
    for (int i = 0; i < 3; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, GI, 2, 2));
    const int64_t rows = c->in[GI]->dims[0], hidden = c->in[GI]->dims[1] / 3;
    if (c->in[GI]->dims[1] % 3 != 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "gi has %lld columns, which 3 gates do not divide",
                         (long long)c->in[GI]->dims[1]);
    }
    DT__TRY(dt__want_dims(c, GH, 2, c->in[GI]->dims));
    DT__TRY(dt__want_dims(c, H, 2, (const int64_t[]){ rows, hidden }));
    DT__TRY(dt_result(c, 0, c->in[GI]->dtype, 2, c->in[H]->dims));
    if (!c->recording) return DT_OK;
    return dt_result(c, 1, c->in[GI]->dtype, 3, (const int64_t[]){ rows, 4, hidden });
}

static void forward(const dt_call *c)
{
    const dt__cell cell = { .rows = c->y->dims[0],
                            .hidden = c->y->dims[1],
                            .gi = dt__data(c->arg[GI]),
                            .gh = dt__data(c->arg[GH]),
                            .state = dt__data(c->arg[H]),
                            .y = dt__data_mut(c->y),
                            .gates = c->recording ? dt__data_mut(c->out[1]) : NULL };
    c->kernels->gru_cell(&cell);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__cell cell = { .rows = dy->dims[0],
                            .hidden = dy->dims[1],
                            .state = dt__data(c->arg[H]),
                            .gates = dt__data_mut(c->out[1]) };
    void *d[3];
    for (int i = 0; i < 3; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->gru_cell_backward(&cell, dt__data(dy), d);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *gi[3], *gh[3], *one = dt_number(t, in[H], 1);
    const int64_t n = in[H]->dims[1];
    for (int k = 0; k < 3; k++) {
        const dt_slice_options gate = {
            { 1, { 1 } }, { 1, { k * n } }, { 1, { (k + 1) * n } }, { 0, { 0 } }
        };
        gi[k] = dt_slice(t, in[GI], &gate);
        gh[k] = dt_slice(t, in[GH], &gate);
    }
    dt_tensor *r = dt_sigmoid(t, dt_add(t, gi[0], gh[0]));
    dt_tensor *z = dt_sigmoid(t, dt_add(t, gi[1], gh[1]));
    dt_tensor *y = dt_tanh(t, dt_add(t, gi[2], dt_mul(t, r, gh[2])));
    out[0] = dt_add(t, dt_mul(t, dt_sub(t, one, z), y), dt_mul(t, z, in[H]));
}

const dt_op dt__op_gru_cell = {
    .name = "gru_cell",
    .text = "y = (1 - z) n + z h, r and z = sigmoid(gi + gh), n = tanh(gi_n + r gh_n)",
    .in_name = { "gi", "gh", "h" },
    .out_name = { "y", "gates" },
    .ungrouped = true,
    .saves = { .arg = { DT_NOTHING, DT_NOTHING, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { false, false, true },
    .lower = lower,
};

dt_tensor *dt_gru_cell(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *h)
{
    return dt_apply(t, &dt__op_gru_cell, DT__CALL(gi, gh, h));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 6 }, .given = true, .values = { 1, -1, 0.5, 2, -0.5, 0.25 } },
              { { 1, 6 }, .given = true, .values = { 0.5, 0, -1, 1, 2, -1 } },
              { { 1, 2 }, .given = true, .values = { 1, -2 } } },
      .n_y = 2, .y = { 0.8834595137975627, -1.9060464596764441 } },
    { "far out",
      .in = { { { 1, 3 }, .given = true, .values = { 800, -800, 40 } },
              { { 1, 3 }, .given = true, .values = { 0, 0, 800 } },
              { { 1, 1 }, .given = true, .values = { 7 } } },
      .n_y = 1, .y = { 1 } },
    { "random", .in = { { { 3, 15 }, .low = -3, .high = 3 }, { { 3, 15 } }, { { 3, 5 } } } },
    { "wide", .in = { { { 2, 420 } }, { { 2, 420 } }, { { 2, 140 } } } },
    { "long", .in = { { { 300, 210 } }, { { 300, 210 } }, { { 300, 70 } } }, .rough = true },
    { "no rows", .in = { { { 0, 9 } }, { { 0, 9 } }, { { 0, 3 } } } },
    { "columns", .in = { { { 2, 7 } }, { { 2, 7 } }, { { 2, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "gi has 7 columns" },
    { "state", .in = { { { 2, 6 } }, { { 2, 6 } }, { { 2, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "h must be [2,2]" },
    { "products", .in = { { { 2, 6 } }, { { 1, 6 } }, { { 2, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "gh must be [2,6]" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 2, 3 } }, { { 2, 1 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(gru_cell, cases)
