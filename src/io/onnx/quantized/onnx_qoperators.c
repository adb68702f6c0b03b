/* Replaces operators of codes by their definition: a DequantizeLinear for each operand, the float
 * operator, and a QuantizeLinear of its result. The bias of a product is int32 with the scale s_x
 * s_w. (docs/Operators.md of ONNX; docs/ContribOperators.md of onnxruntime for those of
 * com.microsoft) */
#include "io/onnx/onnx.h"
#include "io/onnx/onnx_steps.h"

#include <stdio.h>
#include <string.h>

enum { NO_AXIS = -1, BY_TRANS_B = -2 };

/* A node of the replacement. In `in`, digits are inputs of the operator, letters are results of
 * earlier steps. A step whose first input is absent is left out; its result is then absent, too. */
typedef struct step {
    const char *op, *in, *out; /* "=": the operator's result */
    int axis;
    bool whole; /* takes the operator's attributes */
} step;

#define MOST_STEPS 7
/* clang-format off */
#define NODE(op, in, whole) { op, in, "y", NO_AXIS, whole }
#define DEQUANTIZE(in, out, axis) { "DequantizeLinear", in, out, axis, false }
#define QUANTIZE(in) { "QuantizeLinear", in, "=", NO_AXIS, false }
#define OF_ONE DEQUANTIZE("012", "x", NO_AXIS)
#define OF_TWO(axis) OF_ONE, DEQUANTIZE("345", "w", axis)
#define BIAS(input) { "Mul", "14", "s", NO_AXIS, false }, DEQUANTIZE(input "s", "b", 0)

typedef struct expansion {
    const char *op;
    bool microsoft;
    int needs; /* index of a required input */
    step steps[MOST_STEPS];
} expansion;

static const expansion expansions[] = {
    { "QLinearConv", false, 7,
      { OF_TWO(0), BIAS("8"), NODE("Conv", "xwb", true), QUANTIZE("y67") } },
    { "QLinearMatMul", false, 7, { OF_TWO(1), NODE("MatMul", "xw", false), QUANTIZE("y67") } },
    { "QGemm", true, 7,
      { OF_TWO(BY_TRANS_B), BIAS("6"), NODE("Gemm", "xwb", true), QUANTIZE("y78") } },
    { "QGemm", true, 4, { OF_TWO(BY_TRANS_B), BIAS("6"), { "Gemm", "xwb", "=", NO_AXIS, true } } },
    { "QLinearAdd", true, 6, { OF_TWO(NO_AXIS), NODE("Add", "xw", false), QUANTIZE("y67") } },
    { "QLinearMul", true, 6, { OF_TWO(NO_AXIS), NODE("Mul", "xw", false), QUANTIZE("y67") } },
    { "QLinearGlobalAveragePool", true, 3,
      { OF_ONE, NODE("GlobalAveragePool", "x", true), QUANTIZE("y34") } },
    { "QLinearAveragePool", true, 3,
      { OF_ONE, NODE("AveragePool", "x", true), QUANTIZE("y34") } },
    { "QLinearSigmoid", true, 3, { OF_ONE, NODE("Sigmoid", "x", false), QUANTIZE("y34") } },
    { "QLinearLeakyRelu", true, 3, { OF_ONE, NODE("LeakyRelu", "x", true), QUANTIZE("y34") } },
    { "QLinearSoftmax", true, 3, { OF_ONE, NODE("Softmax", "x", true), QUANTIZE("y34") } },
    /* in onnxruntime's domain, for types that the file's operator set lacks */
    { "QuantizeLinear", true, 1, { { "QuantizeLinear", "012", "=", NO_AXIS, true } } },
    { "DequantizeLinear", true, 1, { { "DequantizeLinear", "012", "=", NO_AXIS, true } } },
};
/* clang-format on */

static bool has_input(const dt__onnx_node *n, int i)
{
    return (size_t)i < n->n_input && *n->input[i] != 0;
}

static const expansion *expansion_of(const dt__onnx_node *n)
{
    for (int i = 0; i < DT__COUNT_OF(expansions); i++) {
        const expansion *e = &expansions[i];
        const char *domain = e->microsoft ? "com.microsoft" : "";
        if (strcmp(e->op, n->op_type) == 0 && strcmp(domain, n->domain) == 0 &&
            has_input(n, e->needs) && n->n_output == 1) {
            return e;
        }
    }
    return NULL;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

char *dt__onnx_value_name(dt__onnx *g, const char *of, char letter)
{
    const size_t room = strlen(of) + 3;
    char *name = dt__onnx_memory(g, (int64_t)room, 1);
    if (name != NULL) snprintf(name, room, "%s:%c", of, letter);
    return name;
}

dt_status dt__onnx_step_node(dt__onnx *g, const dt__onnx_node *like, const dt__onnx_step *as,
                             DtOnnx__Node **out)
{
    DtOnnx__Node *to = *out = dt__onnx_memory(g, 1, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    dt_onnx__node__init(to);
    to->name = like->name;
    to->op_type = dt__onnx_text(as->op);
    to->n_input = as->n_in;
    to->n_output = 1;
    to->input = dt__onnx_memory(g, (int64_t)to->n_input, sizeof *to->input);
    to->output = dt__onnx_memory(g, 1, sizeof *to->output);
    if (to->input == NULL || to->output == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < to->n_input; i++) to->input[i] = dt__onnx_text(as->in[i]);
    while (to->n_input > 0 && *to->input[to->n_input - 1] == 0) to->n_input--;
    to->output[0] = dt__onnx_text(as->out);
    return DT_OK;
}

dt_status dt__onnx_step_axis(dt__onnx *g, DtOnnx__Node *n, int axis)
{
    enum { INT_TYPE = 2 };
    if (g->file->opset < 13) return DT_OK;
    DtOnnx__Attribute *own = dt__onnx_memory(g, 1, sizeof *own);
    if (n->attribute == NULL) n->attribute = dt__onnx_memory(g, 1, sizeof *n->attribute);
    if (own == NULL || n->attribute == NULL) return DT_ERR_NOMEM;
    dt_onnx__attribute__init(own);
    own->name = dt__onnx_text("axis");
    own->type = INT_TYPE;
    own->i = axis;
    n->attribute[n->n_attribute++] = own;
    return DT_OK;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The replacement of an operator. */
typedef struct expanding {
    dt__onnx *g;
    const dt__onnx_node *n;
    const char *value[128]; /* name of a letter's value; NULL: absent */
    DtOnnx__Node **to;
    size_t used;
} expanding;

static const char *name_of(const expanding *e, char c)
{
    if (c >= '0' && c <= '9') return has_input(e->n, c - '0') ? e->n->input[c - '0'] : "";
    return e->value[(int)c] == NULL ? "" : e->value[(int)c];
}

static dt_status name_result(expanding *e, const step *s, const char **out)
{
    *out = e->n->output[0];
    if (*s->out == '=') return DT_OK;
    *out = dt__onnx_value_name(e->g, e->n->output[0], *s->out);
    e->value[(int)*s->out] = *out;
    return *out == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* The bias of QGemm has the scale alpha s_x s_w; the new operator's beta is alpha. */
static dt_status scale_bias(expanding *e, DtOnnx__Node *to)
{
    const DtOnnx__Attribute *alpha = dt__onnx_attribute_of(e->n, "alpha");
    if (alpha == NULL) return DT_OK;
    DtOnnx__Attribute *beta = dt__onnx_memory(e->g, 1, sizeof *beta);
    if (beta == NULL) return DT_ERR_NOMEM;
    *beta = *alpha;
    beta->name = dt__onnx_text("beta");
    to->attribute[to->n_attribute++] = beta;
    return DT_OK;
}

/* onnxruntime divides by the whole window, AveragePool by the elements inside of x, so padding is
 * refused. */
static dt_status check_pool(dt__onnx *g, const dt__onnx_node *n)
{
    const bool both =
        dt__onnx_int_of(n, "ceil_mode", 0) != 0 && dt__onnx_int_of(n, "count_include_pad", 0) != 0;
    if (!both || strcmp(n->op_type, "QLinearAveragePool") != 0) return DT_OK;
    g->node = n;
    return dt__onnx_refuse(g, "QLinearAveragePool with ceil_mode and count_include_pad, which "
                              "onnxruntime computes otherwise than AveragePool");
}

/* Sets the operator's attributes, and the axis of a weight's scales. */
static dt_status give_attributes(expanding *e, const step *s, DtOnnx__Node *to)
{
    int axis = s->axis;
    to->attribute = dt__onnx_memory(e->g, (int64_t)e->n->n_attribute + 1, sizeof *to->attribute);
    if (to->attribute == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < e->n->n_attribute && s->whole; i++) {
        DtOnnx__Attribute *a = e->n->attribute[i];
        if (strcmp(a->name, "channels_last") == 0 && a->i == 0) continue;
        if (strcmp(a->name, "opset") == 0 && a->i == e->g->file->opset) continue;
        to->attribute[to->n_attribute++] = a;
    }
    if (strcmp(s->op, "Gemm") == 0) DT__TRY(scale_bias(e, to));
    if (axis == NO_AXIS) return DT_OK;
    const DtOnnx__Attribute *turned = dt__onnx_attribute_of(e->n, "transB");
    if (axis == BY_TRANS_B) axis = turned != NULL && turned->i != 0 ? 0 : 1;
    return dt__onnx_step_axis(e->g, to, axis);
}

static dt_status add_step(expanding *e, const step *s)
{
    const char *in[MOST_STEPS], *out;
    const size_t n = strlen(s->in);
    if (*name_of(e, s->in[0]) == 0) return DT_OK;
    for (size_t i = 0; i < n; i++) in[i] = name_of(e, s->in[i]);
    DT__TRY(name_result(e, s, &out));
    DtOnnx__Node **to = &e->to[e->used++];
    DT__TRY(dt__onnx_step_node(e->g, e->n, &(dt__onnx_step){ s->op, in, n, out }, to));
    return give_attributes(e, s, *to);
}

/* QLinearConcat has the result's scale and zero point, then each value with its own. */
static bool is_concat(const dt__onnx_node *n)
{
    return strcmp(n->op_type, "QLinearConcat") == 0 && strcmp(n->domain, "com.microsoft") == 0 &&
           n->n_input >= 5 && n->n_input % 3 == 2 && n->n_input < 3 * 26 && n->n_output == 1;
}

static dt_status expand_concat(expanding *e)
{
    const dt__onnx_node *n = e->n;
    const char *value[26], *y = dt__onnx_value_name(e->g, n->output[0], 'y');
    const size_t values = n->n_input / 3;
    for (size_t i = 0; i < values; i++) {
        const char *const in[] = { n->input[2 + 3 * i], n->input[3 + 3 * i], n->input[4 + 3 * i] };
        value[i] = dt__onnx_value_name(e->g, n->output[0], (char)('A' + i));
        if (value[i] == NULL) return DT_ERR_NOMEM;
        const dt__onnx_step s = { "DequantizeLinear", in, 3, value[i] };
        DT__TRY(dt__onnx_step_node(e->g, n, &s, &e->to[e->used++]));
    }
    if (y == NULL) return DT_ERR_NOMEM;
    DtOnnx__Node **to = &e->to[e->used++];
    DT__TRY(dt__onnx_step_node(e->g, n, &(dt__onnx_step){ "Concat", value, values, y }, to));
    (*to)->n_attribute = n->n_attribute;
    (*to)->attribute = n->attribute;
    const char *const in[] = { y, n->input[0], n->input[1] };
    const dt__onnx_step s = { "QuantizeLinear", in, 3, n->output[0] };
    return dt__onnx_step_node(e->g, n, &s, &e->to[e->used++]);
}

/* ---- the graph ------------------------------------------------------------------------------- */

bool dt__onnx_is_expanded(const dt__onnx_node *n)
{
    const bool product =
        strcmp(n->op_type, "MatMulInteger") == 0 || strcmp(n->op_type, "ConvInteger") == 0;
    return (product && *n->domain == 0) || is_concat(n) || expansion_of(n) != NULL;
}

dt_status dt__onnx_expand_codes(dt__onnx *g)
{
    const DtOnnx__Graph *from = g->graph;
    size_t found = 0;
    for (size_t i = 0; i < from->n_node; i++) {
        const DtOnnx__Node *n = from->node[i];
        found += is_concat(n) ? n->n_input : expansion_of(n) != NULL ? MOST_STEPS : 0;
    }
    if (found == 0) return dt__onnx_expand_dynamic(g);
    DtOnnx__Graph *to = dt__onnx_memory(g, 1, sizeof *to);
    DtOnnx__Node **node = dt__onnx_memory(g, (int64_t)(from->n_node + found), sizeof *node);
    if (to == NULL || node == NULL) return DT_ERR_NOMEM;
    *to = *from;
    to->node = node;
    to->n_node = 0;
    for (size_t i = 0; i < from->n_node; i++) {
        expanding e = { .g = g, .n = from->node[i], .to = node + to->n_node };
        const expansion *x = expansion_of(e.n);
        if (x != NULL) DT__TRY(check_pool(g, e.n));
        if (is_concat(e.n)) DT__TRY(expand_concat(&e));
        else if (x == NULL) e.to[e.used++] = from->node[i];
        for (int k = 0; x != NULL && k < MOST_STEPS && x->steps[k].op != NULL; k++) {
            DT__TRY(add_step(&e, &x->steps[k]));
        }
        to->n_node += e.used;
    }
    g->graph = to;
    return dt__onnx_expand_dynamic(g);
}
