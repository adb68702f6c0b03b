/* Cells of recurrent networks in ONNX (kernels/cells.h), step by step as the trace has them. */
#include "export/onnx_put_model.h"

enum { GI, GH, STATE };

/* n parts of x along an axis. */
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

static dt__value gate(dt__put_model *m, dt__value a, dt__value b)
{
    return dt__put_sigmoid(m, DT__PUT(&m->p, "Add", a, b));
}

/* r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      y = n + z (h - n) */
static void put_gru(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    dt__value gi[3], gh[3], h = dt__put_in(m, c, STATE);
    cut(p, dt__put_in(m, c, GI), 1, 3, gi);
    cut(p, dt__put_in(m, c, GH), 1, 3, gh);
    dt__value r = gate(m, gi[0], gh[0]), z = gate(m, gi[1], gh[1]);
    dt__value n = DT__PUT(p, "Add", gi[2], DT__PUT(p, "Mul", r, gh[2]));
    n = dt__put_tanh(m, n);
    dt__value step = DT__PUT(p, "Mul", z, DT__PUT(p, "Sub", h, n));
    dt__put_out(m, c, 0, DT__PUT(p, "Add", n, step));
}

/* i, f, o = sigmoid(gi + gh)   g = tanh(gi_g + gh_g)   c' = f c + i g      h' = o tanh(c') */
static void put_lstm(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    dt__value gi[4], gh[4], state[2];
    cut(p, dt__put_in(m, c, GI), 1, 4, gi);
    cut(p, dt__put_in(m, c, GH), 1, 4, gh);
    cut(p, dt__put_in(m, c, STATE), 0, 2, state);
    dt__value i = gate(m, gi[0], gh[0]), f = gate(m, gi[1], gh[1]), o = gate(m, gi[3], gh[3]);
    dt__value g = dt__put_tanh(m, DT__PUT(p, "Add", gi[2], gh[2]));
    dt__value cell = DT__PUT(p, "Mul", f, state[1]);
    cell = DT__PUT(p, "Add", cell, DT__PUT(p, "Mul", i, g));
    dt__value h = DT__PUT(p, "Mul", o, dt__put_tanh(m, cell));
    dt__value y = DT__PUT(p, "Concat", h, cell);
    if (y != NULL) dt__put_attr_int(p, "axis", 0);
    dt__put_out(m, c, 0, y);
}

const dt__put_emitter dt__put_cells[] = {
    { "gru_cell", "Split, sigmoid, tanh, Mul, Add", NULL, put_gru },
    { "lstm_cell", "Split, sigmoid, tanh, Mul, Add, Concat", NULL, put_lstm },
    { NULL, NULL, NULL, NULL },
};
