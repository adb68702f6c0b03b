/* One time step of a long short-term memory [Hochreiter and Schmidhuber 1997; forget gate: Gers et
 * al. 2000]. The products are ops of their own. An op's gradients flow through one result, so h and
 * c are the halves of one: rows 0...N-1 and N...2N-1.
 *     i, f, o = sigmoid(gi + gh)   g = tanh(gi_g + gh_g)   c' = f c + i g   h' = o tanh(c')
 *     dc' += dh' o (1 - tanh(c')^2)
 *     dgi = dgh = dc' g i (1 - i), dc' c f (1 - f), dc' i (1 - g^2), dh' tanh(c') o (1 - o)
 *     dc = dc' f      dh = 0, since h acts through gh
 * i, f, g, o and tanh(c') are kept for backward as result 1. */
#include "ops/cells/cell.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__cell_shape(c, 4, 5, 2); }

static void forward(const dt_call *c) { dt__cell_forward(c, 2, c->kernels->lstm_cell); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__cell_backward(c, 2, dy, dx, c->kernels->lstm_cell_backward);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *gate[4];
    const int64_t rows = in[DT__CELL_GI]->dims[0], n = in[DT__CELL_STATE]->dims[1];
    for (int k = 0; k < 4; k++) {
        const dt_slice_options o = {
            { 1, { 1 } }, { 1, { k * n } }, { 1, { (k + 1) * n } }, { 0, { 0 } }
        };
        dt_tensor *sum =
            dt_add(t, dt_slice(t, in[DT__CELL_GI], &o), dt_slice(t, in[DT__CELL_GH], &o));
        gate[k] = k == 2 ? dt_tanh(t, sum) : dt_sigmoid(t, sum);
    }
    const dt_slice_options half = {
        { 1, { 0 } }, { 1, { rows } }, { 1, { 2 * rows } }, { 0, { 0 } }
    };
    dt_tensor *c = dt_mul(t, gate[1], dt_slice(t, in[DT__CELL_STATE], &half));
    c = dt_add(t, c, dt_mul(t, gate[0], gate[2]));
    out[0] = dt_concat(t, (dt_tensor *[]){ dt_mul(t, gate[3], dt_tanh(t, c)), c }, 2, 0);
}

const dt_op dt__op_lstm_cell = {
    .name = "lstm_cell",
    .text = "h' = o tanh(c'), c' = f c + i g, i, f and o = sigmoid(gi + gh), g = tanh(gi_g + gh_g)",
    .in_name = { "gi", "gh", "state" },
    DT__CELL_OPERANDS,
};

dt_tensor *dt_lstm_cell(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *state)
{
    return dt_apply(t, &dt__op_lstm_cell, DT__CALL(gi, gh, state));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 4 }, .given = true, .values = { 1, -1, 0.5, 2 } },
              { { 1, 4 }, .given = true, .values = { 0.5, 0, -1, 1 } },
              { { 2, 1 }, .given = true, .values = { 9, -2 } } },
      .n_y = 2, .y = { -0.6895264107141343, -0.9156980355269383 } },
    { "far out",
      .in = { { { 1, 4 }, .given = true, .values = { 800, -800, -40, 800 } },
              { { 1, 4 }, .given = true, .values = { 0, 0, -800, 0 } },
              { { 2, 1 }, .given = true, .values = { 7, 5 } } },
      .n_y = 2, .y = { -0.7615941559557649, -1 } },
    { "random", .in = { { { 3, 20 }, .low = -3, .high = 3 }, { { 3, 20 } }, { { 6, 5 } } } },
    { "wide", .in = { { { 2, 280 } }, { { 2, 280 } }, { { 4, 70 } } } },
    { "long", .in = { { { 300, 280 } }, { { 300, 280 } }, { { 600, 70 } } }, .rough = true },
    { "no rows", .in = { { { 0, 8 } }, { { 0, 8 } }, { { 0, 2 } } } },
    { "columns", .in = { { { 2, 7 } }, { { 2, 7 } }, { { 4, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "gi has 7 columns" },
    { "h alone", .in = { { { 2, 8 } }, { { 2, 8 } }, { { 2, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "state must be [4,2]" },
    { "products", .in = { { { 2, 8 } }, { { 2, 4 } }, { { 4, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "gh must be [2,8]" },
    { "integers", .in = { { { 2, 4 }, .dtype = DT_I32 }, { { 2, 4 } }, { { 4, 1 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(lstm_cell, cases)
