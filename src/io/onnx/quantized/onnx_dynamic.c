/* Products with a dynamically quantized input, as onnxruntime's quantize_dynamic writes them:
 *
 *     codes, s, z = DynamicQuantizeLinear(x)
 *     y = Cast(MatMulInteger(codes, W, z, zero)) * (s * scale)          or ConvInteger
 *
 * These nodes are replaced by DequantizeLinear(W, scale, zero) and a float product of x, whose
 * input is marked as dynamically quantized per tensor. The layer then quantizes weight and input in
 * the same way. */
#include "io/onnx/onnx.h"
#include "io/onnx/onnx_steps.h"

#include <string.h>

enum { FLOAT_TYPE = 1 };

/* Which nodes make and read the values of the file. */
typedef struct nodes {
    DtOnnx__Node **node;
    size_t n;
    const DtOnnx__Graph *graph;
} nodes;

static bool is_op(const DtOnnx__Node *n, const char *op)
{
    return n != NULL && strcmp(n->op_type, op) == 0 && *n->domain == 0;
}

/* The node whose first output is the value; NULL: none. */
static DtOnnx__Node *maker_of(const nodes *a, const char *name)
{
    for (size_t k = 0; k < a->n && *name != 0; k++) {
        DtOnnx__Node *n = a->node[k];
        if (n != NULL && n->n_output > 0 && strcmp(n->output[0], name) == 0) return n;
    }
    return NULL;
}

/* The only node that reads a value, as input *place; NULL: none, several, or the value is a graph
 * output. */
static DtOnnx__Node *reader_of(const nodes *a, const char *name, size_t *place)
{
    DtOnnx__Node *found = NULL;
    for (size_t k = 0; k < a->graph->n_output; k++) {
        if (strcmp(a->graph->output[k]->name, name) == 0) return NULL;
    }
    for (size_t k = 0; k < a->n; k++) {
        for (size_t i = 0; a->node[k] != NULL && i < a->node[k]->n_input; i++) {
            if (strcmp(a->node[k]->input[i], name) != 0) continue;
            if (found != NULL) return NULL;
            found = a->node[k];
            *place = i;
        }
    }
    return found;
}

/* The number of elements of an initializer; 0: not an initializer. */
static int64_t count_of(const nodes *a, const char *name)
{
    for (size_t k = 0; k < a->graph->n_initializer; k++) {
        const dt__onnx_tensor *t = a->graph->initializer[k];
        int64_t count = 1;
        if (strcmp(t->name, name) != 0) continue;
        for (size_t i = 0; i < t->n_dims; i++) {
            if (__builtin_mul_overflow(count, t->dims[i], &count)) return 0;
        }
        return count;
    }
    return 0;
}

/* A product of codes and the nodes behind it. */
typedef struct product {
    DtOnnx__Node *own, *cast, *scaled, *scales;
    const char *scale; /* of the weight */
    bool conv;
} product;

static bool is_float_cast(const DtOnnx__Node *n)
{
    return is_op(n, "Cast") && n->n_attribute == 1 && strcmp(n->attribute[0]->name, "to") == 0 &&
           n->attribute[0]->i == FLOAT_TYPE && n->n_output == 1;
}

static bool is_binary(const DtOnnx__Node *n)
{
    return is_op(n, "Mul") && n->n_input == 2 && n->n_output == 1;
}

/* Whether n is such a product; finds the nodes around it. */
static bool find(const nodes *a, DtOnnx__Node *n, product *p)
{
    size_t at = 0;
    *p = (product){ .own = n, .conv = is_op(n, "ConvInteger") };
    if ((!p->conv && !is_op(n, "MatMulInteger")) || n->n_input < 3 || n->n_output != 1)
        return false;
    const DtOnnx__Node *codes = maker_of(a, n->input[0]);
    if (!is_op(codes, "DynamicQuantizeLinear") || codes->n_output != 3) return false;
    if (strcmp(codes->output[2], n->input[2]) != 0) return false;
    p->cast = reader_of(a, n->output[0], &at);
    if (!is_float_cast(p->cast)) return false;
    p->scaled = reader_of(a, p->cast->output[0], &at);
    if (!is_binary(p->scaled)) return false;
    p->scales = maker_of(a, p->scaled->input[1 - at]);
    if (!is_binary(p->scales)) return false;
    const size_t own = strcmp(p->scales->input[0], codes->output[1]) == 0 ? 0 : 1;
    p->scale = p->scales->input[1 - own];
    if (strcmp(p->scales->input[own], codes->output[1]) != 0) return false;
    const int64_t count = count_of(a, p->scale);
    return p->conv ? count == 1 : count > 0;
}

/* Clears a node's entry in the list. */
static void take_out(const nodes *a, const DtOnnx__Node *n)
{
    for (size_t k = 0; k < a->n; k++) {
        if (a->node[k] == n) a->node[k] = NULL;
    }
}

/* Makes DequantizeLinear and the float product that replace these nodes. */
static dt_status replace(dt__onnx *g, const product *p, DtOnnx__Node **to)
{
    DtOnnx__Node *n = p->own;
    const char *zero = n->n_input > 3 ? n->input[3] : "";
    const char *weight = dt__onnx_value_name(g, p->scaled->output[0], 'w');
    if (weight == NULL) return DT_ERR_NOMEM;
    const char *const codes[] = { n->input[1], p->scale, zero };
    const char *const operands[] = { n->input[0], weight };
    const dt__onnx_step value = { "DequantizeLinear", codes, *zero == 0 ? 2 : 3, weight };
    const dt__onnx_step of = { p->conv ? "Conv" : "MatMul", operands, 2, p->scaled->output[0] };
    DT__TRY(dt__onnx_step_node(g, n, &value, &to[0]));
    if (!p->conv) DT__TRY(dt__onnx_step_axis(g, to[0], -1));
    DT__TRY(dt__onnx_step_node(g, n, &of, &to[1]));
    to[1]->n_attribute = n->n_attribute;
    to[1]->attribute = n->attribute;
    return DT_OK;
}

dt_status dt__onnx_expand_dynamic(dt__onnx *g)
{
    const DtOnnx__Graph *from = g->graph;
    size_t found = 0;
    product p;
    for (size_t i = 0; i < from->n_node; i++)
        found += is_op(from->node[i], "DynamicQuantizeLinear");
    if (found == 0) return DT_OK;
    DtOnnx__Graph *to = dt__onnx_memory(g, 1, sizeof *to);
    DtOnnx__Node **node = dt__onnx_memory(g, 2 * (int64_t)from->n_node, sizeof *node);
    DtOnnx__Node **left = dt__onnx_memory(g, (int64_t)from->n_node, sizeof *left);
    if (to == NULL || node == NULL || left == NULL) return DT_ERR_NOMEM;
    memcpy(left, from->node, from->n_node * sizeof *left);
    const nodes all = { from->node, from->n_node, from }, kept = { left, from->n_node, from };
    *to = *from;
    to->node = node;
    to->n_node = 0;
    for (size_t i = 0; i < from->n_node; i++) {
        if (!find(&all, from->node[i], &p)) continue;
        take_out(&kept, p.cast);
        take_out(&kept, p.scaled);
        take_out(&kept, p.scales);
    }
    for (size_t i = 0; i < from->n_node; i++) {
        if (left[i] == NULL) continue;
        if (!find(&all, left[i], &p)) {
            node[to->n_node++] = left[i];
            continue;
        }
        DT__TRY(replace(g, &p, node + to->n_node));
        to->n_node += 2;
    }
    g->graph = to;
    return DT_OK;
}
