/* Elementwise functions in TFLite. A relu is fused into the operator before it, if nothing else
 * reads that operator's result. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"

#include <math.h>

static int number(dt__lite_model *m, double v) { return dt__lite_float(&m->p, (float)v); }

/* y = f(x), in x's layout. */
static void put_map(dt__lite_model *m, const dt_trace_call *c, int (*f)(dt__lite_model *, int))
{
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    v.tensor = f(m, v.tensor);
    dt__lite_out_as(m, c, v);
}

/* An equivalent operator. */
#define SAME(name, op)                                                                             \
    static int name##_of(dt__lite_model *m, int x) { return dt__lite_map(m, DT__LITE_##op, x); }   \
    static void put_##name(dt__lite_model *m, const dt_trace_call *c) { put_map(m, c, name##_of); }
SAME(neg, NEG)
SAME(abs, ABS)
SAME(exp, EXP)
SAME(log, LOG)
SAME(sqrt, SQRT)
SAME(square, SQUARE)
SAME(tanh, TANH)
SAME(sigmoid, LOGISTIC)
SAME(hardswish, HARD_SWISH)

/* Whether only this call reads the operand's tensor. */
static bool is_last_use(const dt__lite_model *m, const dt_trace_call *c)
{
    const dt__lite_value *v = &m->value[c->in[0].value];
    return m->uses[c->in[0].value] == 1 && v->plain < 0 && v->last < 0;
}

int dt__lite_activated(dt__lite_model *m, int x, int64_t activation)
{
    const int fused = dt__lite_activation((int)activation);
    if (fused == DT__LITE_NONE || dt__lite_fuse(&m->p, x, fused)) return x;
    return dt__lite_map(m, activation == DT_ACT_RELU6 ? DT__LITE_RELU6 : DT__LITE_RELU, x);
}

static void put_clamp_at_0(dt__lite_model *m, const dt_trace_call *c, dt__lite_operator op,
                           int fused)
{
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    if (!is_last_use(m, c) || !dt__lite_fuse(&m->p, v.tensor, fused)) {
        v.tensor = dt__lite_map(m, op, v.tensor);
    }
    dt__lite_out_as(m, c, v);
}

static void put_relu(dt__lite_model *m, const dt_trace_call *c)
{
    put_clamp_at_0(m, c, DT__LITE_RELU, DT__LITE_FUSED_RELU);
}

static void put_relu6(dt__lite_model *m, const dt_trace_call *c)
{
    put_clamp_at_0(m, c, DT__LITE_RELU6, DT__LITE_FUSED_RELU6);
}

static void put_clamp(dt__lite_model *m, const dt_trace_call *c)
{
    const double least = dt__trace_number(c, "min"), most = dt__trace_number(c, "max");
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    if (!isinf(least)) v.tensor = dt__lite_with(m, DT__LITE_MAXIMUM, v.tensor, number(m, least));
    if (!isinf(most)) v.tensor = dt__lite_with(m, DT__LITE_MINIMUM, v.tensor, number(m, most));
    dt__lite_out_as(m, c, v);
}

static void put_leaky_relu(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    v.tensor = dt__lite_map(m, DT__LITE_LEAKY_RELU, v.tensor);
    dt__lite_option_float(&m->p, 0, (float)dt__trace_number(c, "slope"));
    dt__lite_out_as(m, c, v);
}

/* max(x, 0) + alpha (e^min(x, 0) - 1); ELU where alpha is 1. */
static void put_elu(dt__lite_model *m, const dt_trace_call *c)
{
    const double alpha = dt__trace_number(c, "alpha");
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    const int x = v.tensor;
    if (alpha == 1) {
        v.tensor = dt__lite_map(m, DT__LITE_ELU, x);
    } else {
        int below = dt__lite_with(m, DT__LITE_MINIMUM, x, number(m, 0));
        below = dt__lite_map(m, DT__LITE_ELU, below);
        below = dt__lite_with(m, DT__LITE_MUL, below, number(m, alpha));
        v.tensor = dt__lite_with(m, DT__LITE_ADD, dt__lite_map(m, DT__LITE_RELU, x), below);
    }
    dt__lite_out_as(m, c, v);
}

static void put_gelu(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    v.tensor = dt__lite_map(m, DT__LITE_GELU, v.tensor);
    const bool tanh = dt__trace_integer(c, "approximate") != DT_GELU_ERF;
    dt__lite_option(&m->p, 0, DT__FLAT_BYTE, tanh);
    dt__lite_out_as(m, c, v);
}

/* The slopes of channels broadcast along dimension 1. */
static void put_prelu(dt__lite_model *m, const dt_trace_call *c)
{
    const int64_t n = dt__lite_operand(m, c, 1)->extent[0].size;
    const int rank = dt__lite_operand(m, c, 0)->rank;
    const bool last = rank > 2 && n > 1;
    const int x = last ? dt__lite_last(m, c, 0) : dt__lite_plain(m, c, 0);
    const dt__lite_shape s = dt__lite_shape_of(&m->p, x);
    dt__lite_shape own = { .rank = s.rank > 1 ? s.rank - 1 : 1 };
    for (int i = 0; i < own.rank; i++) own.dims[i] = 1;
    own.dims[own.rank - 1] = n;
    const int slope = dt__lite_reshaped(m, dt__lite_plain(m, c, 1), &own, -1);
    const int y = DT__LITE(&m->p, PRELU, &s, x, slope);
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

/* Whether both operands can be read with channels last: one is stored so, and each has y's rank or
 * is constant. */
static bool goes_last(const dt__lite_model *m, const dt_trace_call *c)
{
    const int rank = dt__lite_result_of(m, c)->rank;
    bool last = false;
    if (rank != 3 && rank != 4) return false;
    for (int i = 0; i < 2; i++) {
        const dt_trace_value *v = dt__lite_operand(m, c, i);
        const bool constant = v->tensor != NULL && c->in[i].quant == NULL;
        if (v->rank != rank && !constant) return false;
        last = last || dt__lite_is_last(m, c, i);
    }
    return last;
}

static int both(dt__lite_model *m, const dt_trace_call *c, dt__lite_operator op,
                dt__lite_layout *layout)
{
    const bool last = goes_last(m, c);
    *layout = last ? DT__LITE_LAST : DT__LITE_PLAIN;
    const int a = last ? dt__lite_last(m, c, 0) : dt__lite_plain(m, c, 0);
    const int b = last ? dt__lite_last(m, c, 1) : dt__lite_plain(m, c, 1);
    return dt__lite_with(m, op, a, b);
}

#define TWO(name, op)                                                                              \
    static void put_##name(dt__lite_model *m, const dt_trace_call *c)                              \
    {                                                                                              \
        dt__lite_layout layout;                                                                    \
        const int y = both(m, c, DT__LITE_##op, &layout);                                          \
        dt__lite_out(m, c, 0, y, layout);                                                          \
    }

TWO(add, ADD)
TWO(sub, SUB)
TWO(mul, MUL)
TWO(div, DIV)
TWO(maximum, MAXIMUM)

/* Makes the result of a comparison, BOOL in TFLite. */
static int as_bool(dt__lite_model *m, int y)
{
    if (y >= 0) m->p.tensor[y].type = DT__LITE_BOOL;
    return y;
}

static void put_greater(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_layout layout;
    const bool equal = dt__trace_integer(c, "equal") != 0;
    const int above = both(m, c, equal ? DT__LITE_GREATER_EQUAL : DT__LITE_GREATER, &layout);
    const int y = dt__lite_map(m, DT__LITE_CAST, as_bool(m, above));
    dt__lite_option(&m->p, 0, DT__FLAT_BYTE, DT__LITE_BOOL);
    dt__lite_option(&m->p, 1, DT__FLAT_BYTE, DT__LITE_FLOAT32);
    dt__lite_out(m, c, 0, y, layout);
}

static void put_where(dt__lite_model *m, const dt_trace_call *c)
{
    const int x = dt__lite_plain(m, c, 0);
    const int above = as_bool(m, dt__lite_with(m, DT__LITE_GREATER, x, number(m, 0)));
    const int a = dt__lite_plain(m, c, 1), b = dt__lite_plain(m, c, 2);
    const dt__lite_shape s = dt__lite_plain_shape(dt__lite_result_of(m, c));
    dt__lite_out(m, c, 0, DT__LITE(&m->p, SELECT_V2, &s, above, a, b), DT__LITE_PLAIN);
}

const dt__lite_emitter dt__lite_maps[] = {
    { "add", "ADD", false, NULL, put_add },
    { "sub", "SUB", false, NULL, put_sub },
    { "mul", "MUL", false, NULL, put_mul },
    { "div", "DIV", false, NULL, put_div },
    { "maximum", "MAXIMUM", false, NULL, put_maximum },
    { "greater", "GREATER, GREATER_EQUAL, CAST", false, NULL, put_greater },
    { "where", "GREATER, SELECT_V2", false, dt__trace_takes_floats, put_where },
    { "neg", "NEG", false, NULL, put_neg },
    { "abs", "ABS", false, NULL, put_abs },
    { "exp", "EXP", false, NULL, put_exp },
    { "log", "LOG", false, NULL, put_log },
    { "sqrt", "SQRT", false, NULL, put_sqrt },
    { "square", "SQUARE", false, NULL, put_square },
    { "tanh", "TANH", false, NULL, put_tanh },
    { "sigmoid", "LOGISTIC", false, NULL, put_sigmoid },
    { "relu", "fused, or RELU", false, NULL, put_relu },
    { "leaky_relu", "LEAKY_RELU", false, NULL, put_leaky_relu },
    { "relu6", "fused, or RELU6", false, NULL, put_relu6 },
    { "hardswish", "HARD_SWISH", false, NULL, put_hardswish },
    { "elu", "ELU", false, NULL, put_elu },
    { "prelu", "PRELU", false, NULL, put_prelu },
    { "gelu", "GELU", false, NULL, put_gelu },
    { "clamp", "MAXIMUM, MINIMUM", false, NULL, put_clamp },
    { NULL, NULL, false, NULL, NULL },
};
