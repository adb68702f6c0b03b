/* One time step of a gated recurrent unit [Cho et al. 2014], in PyTorch's form, whose reset gate
 * multiplies the product with the hidden state. The products themselves are ops of their own.
 *     r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      y = n + z (h - n)
 *     dn = dy (1 - z) (1 - n^2)    dz = dy (h - n) z (1 - z)    dr = dn gh_n r (1 - r)
 *     dgi = dr, dz, dn             dgh = dr, dz, r dn           dh = dy z
 * r, z, n and gh_n are kept for backward as result 1. */
#include "ops/cells/cell.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__cell_shape(c, 3, 4, 1); }

static void forward(const dt_call *c) { dt__cell_forward(c, 1, c->kernels->gru_cell); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__cell_backward(c, 1, dy, dx, c->kernels->gru_cell_backward);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *gi[3], *gh[3], *one = dt_number(t, in[DT__CELL_STATE], 1);
    const int64_t n = in[DT__CELL_STATE]->dims[1];
    for (int k = 0; k < 3; k++) {
        const dt_slice_options gate = {
            { 1, { 1 } }, { 1, { k * n } }, { 1, { (k + 1) * n } }, { 0, { 0 } }
        };
        gi[k] = dt_slice(t, in[DT__CELL_GI], &gate);
        gh[k] = dt_slice(t, in[DT__CELL_GH], &gate);
    }
    dt_tensor *r = dt_sigmoid(t, dt_add(t, gi[0], gh[0]));
    dt_tensor *z = dt_sigmoid(t, dt_add(t, gi[1], gh[1]));
    dt_tensor *y = dt_tanh(t, dt_add(t, gi[2], dt_mul(t, r, gh[2])));
    out[0] = dt_add(t, dt_mul(t, dt_sub(t, one, z), y), dt_mul(t, z, in[DT__CELL_STATE]));
}

const dt_op dt__op_gru_cell = {
    .name = "gru_cell",
    .text = "y = (1 - z) n + z h, r and z = sigmoid(gi + gh), n = tanh(gi_n + r gh_n)",
    .in_name = { "gi", "gh", "h" },
    DT__CELL_OPERANDS,
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
