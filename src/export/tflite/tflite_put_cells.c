/* Cells of recurrent networks in TFLite (kernels/cells.h), step by step as in the trace. An initial
 * state is a constant of one example, which operators broadcast to the batch. */
#include "export/tflite/tflite_put_model.h"

enum { GI, GH, STATE };

/* Splits x into n parts along an axis. */
static void cut(dt__lite_model *m, int x, int axis, int n, int *part)
{
    dt__lite_shape s = dt__lite_shape_of(&m->p, x);
    s.dims[axis] /= n;
    const int32_t scalar = axis;
    const int where = dt__lite_constant(
        &m->p,
        &(dt__lite_array){ .type = DT__LITE_INT32, .data = &scalar, .bytes = sizeof scalar });
    DT__LITE(&m->p, SPLIT, &s, where, x);
    dt__lite_option(&m->p, 0, DT__FLAT_INT, n);
    dt__lite_results(&m->p, n, part);
}

#define ADD(a, b) dt__lite_with(m, DT__LITE_ADD, a, b)
#define SUB(a, b) dt__lite_with(m, DT__LITE_SUB, a, b)
#define MUL(a, b) dt__lite_with(m, DT__LITE_MUL, a, b)
#define SIGMOID(a) dt__lite_map(m, DT__LITE_LOGISTIC, a)
#define TANH(a) dt__lite_map(m, DT__LITE_TANH, a)

/* r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      y = n + z (h - n) */
static void put_gru(dt__lite_model *m, const dt_trace_call *c)
{
    int gi[3], gh[3];
    cut(m, dt__lite_plain(m, c, GI), 1, 3, gi);
    cut(m, dt__lite_rows(m, c, GH), 1, 3, gh);
    const int r = SIGMOID(ADD(gi[0], gh[0])), z = SIGMOID(ADD(gi[1], gh[1]));
    const int n = TANH(ADD(gi[2], MUL(r, gh[2])));
    const int h = dt__lite_rows(m, c, STATE);
    dt__lite_out(m, c, 0, ADD(n, MUL(z, SUB(h, n))), DT__LITE_PLAIN);
}

/* i, f, o = sigmoid(gi + gh)   g = tanh(gi_g + gh_g)   c' = f c + i g      h' = o tanh(c') */
static void put_lstm(dt__lite_model *m, const dt_trace_call *c)
{
    int gate[4], state[2], y[2];
    const int gi = dt__lite_plain(m, c, GI), gh = dt__lite_rows(m, c, GH);
    cut(m, ADD(gi, gh), 1, 4, gate);
    cut(m, dt__lite_rows(m, c, STATE), 0, 2, state);
    const int forget = MUL(SIGMOID(gate[1]), state[1]);
    y[1] = ADD(forget, MUL(SIGMOID(gate[0]), TANH(gate[2])));
    y[0] = MUL(SIGMOID(gate[3]), TANH(y[1]));
    dt__lite_out(m, c, 0, dt__lite_joined(m, y, 2, 0), DT__LITE_PLAIN);
}

const dt__lite_emitter dt__lite_cells[] = {
    { "gru_cell", "SPLIT, LOGISTIC, TANH, MUL, ADD, SUB", false, NULL, put_gru },
    { "lstm_cell", "SPLIT, LOGISTIC, TANH, MUL, ADD, CONCATENATION", false, NULL, put_lstm },
    { NULL, NULL, false, NULL, NULL },
};
