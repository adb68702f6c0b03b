/* Elementwise functions in ONNX, with detent's order of operations. */
#include "export/onnx/onnx_put_model.h"
#include "export/trace/trace.h"

#include <math.h>

#define X dt__put_in(m, c, 0)

static dt__value number(dt__put_model *m, double v) { return dt__put_f32(&m->p, (float)v); }

static void done(dt__put_model *m, const dt_trace_call *c, dt__value y) { dt__put_out(m, c, 0, y); }

/* An equivalent ONNX operator, of one or two operands. */
#define SAME(name, op)                                                                             \
    static void name(dt__put_model *m, const dt_trace_call *c)                                     \
    {                                                                                              \
        done(m, c, DT__PUT(&m->p, op, X));                                                         \
    }
#define SAME2(name, op)                                                                            \
    static void name(dt__put_model *m, const dt_trace_call *c)                                     \
    {                                                                                              \
        dt__value x = X;                                                                           \
        done(m, c, DT__PUT(&m->p, op, x, dt__put_in(m, c, 1)));                                    \
    }
/* Functions of onnx_put_exp.c. */
#define BY(name, function)                                                                         \
    static void name(dt__put_model *m, const dt_trace_call *c) { done(m, c, function(m, X)); }
/* An ONNX operator whose results may differ in the last bits. */
#define NEAR(name, op)                                                                             \
    static void name(dt__put_model *m, const dt_trace_call *c)                                     \
    {                                                                                              \
        m->near = true;                                                                            \
        done(m, c, DT__PUT(&m->p, op, X));                                                         \
    }

SAME2(put_add, "Add")
SAME2(put_sub, "Sub")
SAME2(put_mul, "Mul")
SAME2(put_div, "Div")
SAME2(put_maximum, "Max")
SAME(put_neg, "Neg")
SAME(put_abs, "Abs")
NEAR(put_erf, "Erf")
SAME(put_sqrt, "Sqrt")
SAME(put_relu, "Relu")
BY(put_exp, dt__put_exp)
NEAR(put_log, "Log")
BY(put_tanh, dt__put_tanh)
BY(put_sigmoid, dt__put_sigmoid)

static dt__value clip(dt__put_model *m, dt__value x, double least, double most)
{
    return DT__PUT(&m->p, "Clip", x, isinf(least) ? "" : number(m, least),
                   isinf(most) ? "" : number(m, most));
}

dt__value dt__put_relu6(dt__put_model *m, dt__value x) { return clip(m, x, 0, 6); }

static void put_relu6(dt__put_model *m, const dt_trace_call *c) { done(m, c, dt__put_relu6(m, X)); }

static void put_clamp(dt__put_model *m, const dt_trace_call *c)
{
    const double least = dt__trace_number(c, "min"), most = dt__trace_number(c, "max");
    dt__value x = X;
    const bool none = isinf(least) && isinf(most);
    done(m, c, none ? DT__PUT(&m->p, "Identity", x) : clip(m, x, least, most));
}

static void put_leaky_relu(dt__put_model *m, const dt_trace_call *c)
{
    dt__value y = DT__PUT(&m->p, "LeakyRelu", X);
    if (y != NULL) dt__put_attr_real(&m->p, "alpha", (float)dt__trace_number(c, "slope"));
    done(m, c, y);
}

/* x where x > 0, else alpha (e^x - 1) */
static void put_elu(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    dt__value x = X;
    dt__value below = dt__put_expm1(m, DT__PUT(p, "Min", x, number(m, 0)));
    below = DT__PUT(p, "Mul", below, number(m, dt__trace_number(c, "alpha")));
    done(m, c, DT__PUT(p, "Where", DT__PUT(p, "Less", number(m, 0), x), x, below));
}

static void put_greater(dt__put_model *m, const dt_trace_call *c)
{
    const bool equal = dt__trace_integer(c, "equal") != 0;
    dt__value a = X;
    dt__value above = DT__PUT(&m->p, equal ? "GreaterOrEqual" : "Greater", a, dt__put_in(m, c, 1));
    done(m, c, dt__put_cast(&m->p, above, DT__PUT_FLOAT));
}

static void put_where(dt__put_model *m, const dt_trace_call *c)
{
    dt__value above = DT__PUT(&m->p, "Less", number(m, 0), X), a = dt__put_in(m, c, 1);
    done(m, c, DT__PUT(&m->p, "Where", above, a, dt__put_in(m, c, 2)));
}

/* The slopes of channels broadcast along dimension 1. */
static void put_prelu(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__put_operand(m, c, 0), *slope = dt__put_operand(m, c, 1);
    dt_extent extent[DT_MAX_RANK] = { slope->extent[0] };
    int rank = 1;
    for (int i = 2; i < x->rank && slope->extent[0].size > 1; i++) extent[rank++].size = 1;
    dt__value s = dt__put_reshaped(m, dt__put_in(m, c, 1), rank, extent);
    done(m, c, DT__PUT(&m->p, "PRelu", X, s));
}

static void put_gelu(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    dt__value x = X;
    if (dt__trace_integer(c, "approximate") == DT_GELU_ERF) {
        m->near = true;
        dt__value erf = DT__PUT(p, "Erf", DT__PUT(p, "Mul", x, number(m, 0.70710678118654752)));
        dt__value two = DT__PUT(p, "Mul", x, DT__PUT(p, "Add", erf, number(m, 1)));
        done(m, c, DT__PUT(p, "Mul", two, number(m, 0.5)));
        return;
    }
    dt__value cube = DT__PUT(p, "Mul", x, number(m, 0.044715));
    cube = DT__PUT(p, "Mul", DT__PUT(p, "Mul", cube, x), x);
    dt__value u = DT__PUT(p, "Add", x, cube);
    u = DT__PUT(p, "Mul", u, number(m, 1.59576912160573071176));
    done(m, c, DT__PUT(p, "Mul", x, dt__put_sigmoid(m, u)));
}

const dt__put_emitter dt__put_maps[] = {
    { "add", "Add", NULL, put_add },
    { "sub", "Sub", NULL, put_sub },
    { "mul", "Mul", NULL, put_mul },
    { "div", "Div", NULL, put_div },
    { "maximum", "Max", NULL, put_maximum },
    { "greater", "Greater, GreaterOrEqual, Cast", NULL, put_greater },
    { "neg", "Neg", NULL, put_neg },
    { "abs", "Abs", NULL, put_abs },
    { "erf", "Erf", NULL, put_erf },
    { "where", "Less, Where", dt__trace_takes_floats, put_where },
    { "exp", "as exp.h, or Exp", NULL, put_exp },
    { "log", "Log", NULL, put_log },
    { "sqrt", "Sqrt", NULL, put_sqrt },
    { "tanh", "as exp.h, or Tanh", NULL, put_tanh },
    { "sigmoid", "as exp.h, or Sigmoid", NULL, put_sigmoid },
    { "relu", "Relu", NULL, put_relu },
    { "leaky_relu", "LeakyRelu", NULL, put_leaky_relu },
    { "relu6", "Clip", NULL, put_relu6 },
    { "elu", "as exp.h; Where", NULL, put_elu },
    { "prelu", "PRelu", NULL, put_prelu },
    { "gelu", "Erf, or sigmoid; Mul, Add", NULL, put_gelu },
    { "clamp", "Clip", NULL, put_clamp },
    { NULL, NULL, NULL, NULL },
};
