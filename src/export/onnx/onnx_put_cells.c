/* Cells of recurrent networks in ONNX (kernels/cells.h), step by step as in the trace. */
#include "export/onnx/onnx_put_model.h"

enum { GI, GH, STATE };

/* Splits x into n parts along an axis. */
static void cut(dt__put *p, dt__value x, int axis, int n, dt__value *part)
{
    if (DT__PUT(p, "Split", x) != NULL) {
        dt__put_attr_int(p, "axis", axis);
        dt__put_attr_int(p, "num_outputs", n);
        dt__put_results(p, n, part);
        return;
    }
    for (int i = 0; i < n; i++) part[i] = NULL;
}

/* Splits x into parts of given sizes along dimension 1. */
static void cut_at(dt__put *p, dt__value x, const int64_t size[2], dt__value part[2])
{
    if (DT__PUT(p, "Split", x, dt__put_i64s(p, 2, size)) != NULL) {
        dt__put_attr_int(p, "axis", 1);
        dt__put_results(p, 2, part);
        return;
    }
    part[0] = part[1] = NULL;
}

/* r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      y = n + z (h - n); r and z are computed
 * together, which halves the number of nodes. */
static void put_gru(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const int64_t hidden = dt__put_operand(m, c, STATE)->extent[1].size;
    const int64_t sizes[] = { 2 * hidden, hidden };
    dt__value gi[2], gh[2], rz[2], h = dt__put_in(m, c, STATE);
    cut_at(p, dt__put_in(m, c, GI), sizes, gi);
    cut_at(p, dt__put_in(m, c, GH), sizes, gh);
    cut(p, dt__put_sigmoid(m, DT__PUT(p, "Add", gi[0], gh[0])), 1, 2, rz);
    dt__value n = DT__PUT(p, "Add", gi[1], DT__PUT(p, "Mul", rz[0], gh[1]));
    n = dt__put_tanh(m, n);
    dt__value step = DT__PUT(p, "Mul", rz[1], DT__PUT(p, "Sub", h, n));
    dt__put_out(m, c, 0, DT__PUT(p, "Add", n, step));
}

/* i, f, o = sigmoid(gi + gh) g = tanh(gi_g + gh_g) c' = f c + i g h' = o tanh(c'); one node
 * computes the sigmoid of all four. */
static void put_lstm(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    dt__value sum[4], gate[4], state[2];
    dt__value gi = dt__put_in(m, c, GI);
    dt__value all = DT__PUT(p, "Add", gi, dt__put_in(m, c, GH));
    cut(p, all, 1, 4, sum);
    cut(p, dt__put_sigmoid(m, all), 1, 4, gate);
    cut(p, dt__put_in(m, c, STATE), 0, 2, state);
    dt__value g = dt__put_tanh(m, sum[2]);
    dt__value cell = DT__PUT(p, "Mul", gate[1], state[1]);
    cell = DT__PUT(p, "Add", cell, DT__PUT(p, "Mul", gate[0], g));
    dt__value h = DT__PUT(p, "Mul", gate[3], dt__put_tanh(m, cell));
    dt__value y = DT__PUT(p, "Concat", h, cell);
    if (y != NULL) dt__put_attr_int(p, "axis", 0);
    dt__put_out(m, c, 0, y);
}

const dt__put_emitter dt__put_cells[] = {
    { "gru_cell", "Split, sigmoid, tanh, Mul, Add", NULL, put_gru },
    { "lstm_cell", "Split, sigmoid, tanh, Mul, Add, Concat", NULL, put_lstm },
    { NULL, NULL, NULL, NULL },
};
