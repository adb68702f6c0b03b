/* Small models of ONNX from text. */
#include "testing.h"

#include "core/text/byte_order.h"
#include "onnx_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct block {
    struct block *next;
    double data[];
} block;

static block *blocks;

#define NODES 32

static void *memory(size_t bytes)
{
    block *b = calloc(1, sizeof *b + bytes + 1);
    ck_assert_ptr_nonnull(b);
    b->next = blocks;
    blocks = b;
    return b->data;
}

void onnx_forget(void)
{
    while (blocks != NULL) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static char *copy(const char *from, size_t n)
{
    char *to = memory(n);
    memcpy(to, from, n);
    return to;
}

static const struct {
    const char *name;
    int type;
    size_t bits;
} types[] = {
    { "f32", 1, 32 }, { "u8", 2, 8 },   { "i8", 3, 8 },    { "i32", 6, 32 },
    { "i64", 7, 64 }, { "bool", 9, 8 }, { "f64", 11, 64 }, { "u4", 21, 4 },
    { "i4", 22, 4 },  { "u2", 25, 2 },  { "i2", 26, 2 },
};

/* Number i as raw data of a type, those of fewer than 8 bits in a byte, the first lowest. */
static void put(unsigned char *raw, size_t k, size_t i, const char *text, char **end)
{
    const double real = strtod(text, end);
    const long long whole = types[k].type == 7  ? strtoll(text, end, 10)
                            : fabs(real) < 9e18 ? (long long)real
                                                : 0;
    const float narrow = (float)real;
    const size_t width = types[k].bits / 8;
    if (types[k].type == 1) dt__copy_little(raw + 4 * i, &narrow, 4);
    else if (types[k].type == 11) dt__copy_little(raw + 8 * i, &real, 8);
    else if (types[k].bits < 8) {
        const size_t each = 8 / types[k].bits, bit = i % each * types[k].bits;
        raw[i / each] |= (unsigned char)((whole & ((1 << types[k].bits) - 1)) << bit);
    } else {
        for (size_t b = 0; b < width; b++) raw[width * i + b] = (unsigned char)(whole >> (8 * b));
    }
}

DtOnnx__Tensor *onnx_tensor(const char *text, char *name)
{
    DtOnnx__Tensor *t = memory(sizeof *t);
    *t = (DtOnnx__Tensor)DT_ONNX__TENSOR__INIT;
    size_t k = 0, n = 1, used = 0;
    const size_t word = strcspn(text, " :");
    while (k < sizeof types / sizeof *types &&
           (strncmp(types[k].name, text, word) != 0 || types[k].name[word] != 0)) {
        k++;
    }
    ck_assert_msg(k < sizeof types / sizeof *types, "no type in '%s'", text);
    t->name = name;
    t->data_type = types[k].type;
    t->dims = memory(8 * sizeof *t->dims);
    char *at = (char *)(size_t)text + word;
    while (*at == ' ') {
        t->dims[t->n_dims] = strtoll(at, &at, 10);
        n *= (size_t)t->dims[t->n_dims++];
    }
    ck_assert_msg(*at == ':', "no colon in '%s'", text);
    const size_t bytes = (n * types[k].bits + 7) / 8;
    unsigned char *raw = memory(bytes);
    for (at++; *at != 0 && used < n; used++) put(raw, k, used, at, &at);
    ck_assert_msg(used == n && strspn(at, " ") == strlen(at), "%zu of %zu numbers in '%s'", used, n,
                  text);
    t->raw_data = (ProtobufCBinaryData){ bytes, raw };
    return t;
}

static size_t word(const char *text) { return strcspn(text, " |)>="); }

/* Reads names up to the next sign; *n of them. */
static const char *names(const char *text, char **to, size_t *n)
{
    for (text += strspn(text, " "); word(text) > 0; text += strspn(text, " ")) {
        to[(*n)++] = copy(text, word(text));
        text += word(text);
    }
    return text;
}

/* "in in > out | y=Op x x | z=Op y)": a graph's bytes. Returns what is behind it. */
static const char *body(const char *text, DtOnnx__Attribute *a)
{
    DtOnnx__Graph g = DT_ONNX__GRAPH__INIT;
    char *port[2][NODES];
    text = names(text, port[0], &g.n_input);
    text = names(text + 1, port[1], &g.n_output);
    g.input = memory(NODES * sizeof(void *));
    g.output = memory(NODES * sizeof(void *));
    g.node = memory(NODES * sizeof(void *));
    for (size_t i = 0; i < g.n_input + g.n_output; i++) {
        const bool in = i < g.n_input;
        DtOnnx__ValueInfo *info = memory(sizeof *info);
        *info = (DtOnnx__ValueInfo)DT_ONNX__VALUE_INFO__INIT;
        info->name = in ? port[0][i] : port[1][i - g.n_input];
        *(in ? &g.input[i] : &g.output[i - g.n_input]) = info;
    }
    while (*text == '|') {
        DtOnnx__Node *node = memory(sizeof *node);
        *node = (DtOnnx__Node)DT_ONNX__NODE__INIT;
        node->input = memory(ONNX_VALUES * sizeof(char *));
        node->output = memory(ONNX_VALUES * sizeof(char *));
        text = names(text + 1, node->output, &node->n_output);
        text += 1 + strspn(text + 1, " ");
        node->op_type = copy(text, word(text));
        text = names(text + word(text), node->input, &node->n_input);
        g.node[g.n_node++] = node;
    }
    a->type = 5;
    a->g.len = dt_onnx__graph__get_packed_size(&g);
    a->g.data = memory(a->g.len);
    dt_onnx__graph__pack(&g, a->g.data);
    return text + 1;
}

/* One attribute "name=value"; returns what is behind it. */
static const char *attribute(const char *text, DtOnnx__Attribute *a)
{
    const size_t name = strcspn(text, "=");
    a->name = copy(text, name);
    const char *value = text + name + 1;
    char *end;
    if (*value == '{') {
        const size_t n = strcspn(value + 1, "}");
        a->type = 4;
        a->t = onnx_tensor(copy(value + 1, n), "");
        return value + n + 2;
    }
    if (*value == '(') return body(value + 1, a);
    if (*value == '[') {
        a->type = 7;
        a->ints = memory(16 * sizeof *a->ints);
        for (end = (char *)(size_t)value; *end != ']';) {
            if (end[1] == ']') return end + 2;
            a->ints[a->n_ints++] = strtoll(end + 1, &end, 10);
        }
        return end + 1;
    }
    const size_t n = strcspn(value, " ");
    a->i = strtoll(value, &end, 10);
    a->type = 2;
    if (end == value + n) return end;
    a->f = strtof(value, &end);
    a->type = 1;
    if (end + 1 == value + n && *end == 'f') return end + 1;
    a->type = 3;
    a->s = (ProtobufCBinaryData){ n, (unsigned char *)copy(value, n) };
    return value + n;
}

static void attributes(const char *text, DtOnnx__Node *node)
{
    node->attribute = memory(16 * sizeof *node->attribute);
    while (text != NULL && *text != 0) {
        DtOnnx__Attribute *a = memory(sizeof *a);
        *a = (DtOnnx__Attribute)DT_ONNX__ATTRIBUTE__INIT;
        text = attribute(text, a);
        text += strspn(text, " ");
        node->attribute[node->n_attribute++] = a;
    }
}

/* What the graph says of a tensor. */
static DtOnnx__ValueInfo *declare(const DtOnnx__Tensor *t)
{
    DtOnnx__ValueInfo *info = memory(sizeof *info);
    DtOnnx__Type *type = memory(sizeof *type);
    DtOnnx__TensorType *tensor = memory(sizeof *tensor);
    DtOnnx__Shape *shape = memory(sizeof *shape);
    *info = (DtOnnx__ValueInfo)DT_ONNX__VALUE_INFO__INIT;
    *type = (DtOnnx__Type)DT_ONNX__TYPE__INIT;
    *tensor = (DtOnnx__TensorType)DT_ONNX__TENSOR_TYPE__INIT;
    *shape = (DtOnnx__Shape)DT_ONNX__SHAPE__INIT;
    shape->n_dim = t->n_dims;
    shape->dim = memory(8 * sizeof *shape->dim);
    for (size_t d = 0; d < t->n_dims; d++) {
        shape->dim[d] = memory(sizeof **shape->dim);
        *shape->dim[d] = (DtOnnx__Dimension)DT_ONNX__DIMENSION__INIT;
        shape->dim[d]->dim_value = t->dims[d];
    }
    tensor->elem_type = t->data_type;
    tensor->shape = shape;
    type->tensor_type = tensor;
    info->name = t->name;
    info->type = type;
    return info;
}

static void add_input(const char *text, char *name, DtOnnx__Graph *g)
{
    DtOnnx__Tensor *t = onnx_tensor(*text == '=' ? text + 1 : text, name);
    if (*text == '=') g->initializer[g->n_initializer++] = t;
    else g->input[g->n_input++] = declare(t);
}

DtOnnx__Model *onnx_model(const onnx_case *c)
{
    DtOnnx__Model *m = memory(sizeof *m);
    DtOnnx__Graph *g = memory(sizeof *g);
    DtOnnx__Node *node = memory(sizeof *node);
    *m = (DtOnnx__Model)DT_ONNX__MODEL__INIT;
    *g = (DtOnnx__Graph)DT_ONNX__GRAPH__INIT;
    *node = (DtOnnx__Node)DT_ONNX__NODE__INIT;
    const char *colon = strchr(c->op, ':');
    node->name = "the node";
    node->op_type =
        copy(colon == NULL ? c->op : colon + 1, strlen(colon == NULL ? c->op : colon + 1));
    if (colon != NULL) node->domain = copy(c->op, (size_t)(colon - c->op));
    attributes(c->attributes, node);
    node->input = memory(ONNX_VALUES * sizeof(char *));
    node->output = memory(ONNX_VALUES * sizeof(char *));
    g->input = memory(ONNX_VALUES * sizeof(void *));
    g->output = memory(ONNX_VALUES * sizeof(void *));
    g->initializer = memory(NODES * sizeof(void *));
    for (int i = 0; i < ONNX_VALUES && c->in[i] != NULL; i++) {
        char *name = memory(16);
        if (*c->in[i] != '-') snprintf(name, 16, "x%d", i);
        node->input[node->n_input++] = name;
        if (*name != 0) add_input(c->in[i], name, g);
    }
    for (int i = 0; i < ONNX_VALUES && (c->out[i] != NULL || i == 0); i++) {
        char *name = memory(16);
        snprintf(name, 16, "y%d", i);
        node->output[node->n_output++] = name;
        if (c->out[i] != NULL) g->output[g->n_output++] = declare(onnx_tensor(c->out[i], name));
    }
    g->node = memory(NODES * sizeof(void *));
    g->node[g->n_node++] = node;
    m->graph = g;
    m->opset_import = memory(2 * sizeof(void *));
    for (int i = 0; i < 2; i++) {
        m->opset_import[i] = memory(sizeof **m->opset_import);
        *m->opset_import[i] = (DtOnnx__OperatorSet)DT_ONNX__OPERATOR_SET__INIT;
        m->opset_import[i]->version = i == 0 ? 21 : 1;
        m->opset_import[i]->domain = i == 0 ? "" : "com.microsoft";
    }
    m->n_opset_import = 2;
    m->ir_version = 10;
    return m;
}

void onnx_node(DtOnnx__Model *m, const char *op, const char *with, const char *in, const char *out)
{
    DtOnnx__Graph *g = m->graph;
    DtOnnx__Node *node = memory(sizeof *node);
    ck_assert_uint_lt(g->n_node, NODES);
    *node = (DtOnnx__Node)DT_ONNX__NODE__INIT;
    node->op_type = copy(op, strlen(op));
    attributes(with, node);
    node->input = memory(ONNX_VALUES * sizeof(char *));
    node->output = memory(sizeof(char *));
    while (*in != 0) {
        const size_t n = strcspn(in, " ");
        ck_assert_uint_lt(node->n_input, ONNX_VALUES);
        node->input[node->n_input++] = copy(in, n);
        in += n + strspn(in + n, " ");
    }
    node->output[node->n_output++] = g->output[0]->name = copy(out, strlen(out));
    g->node[g->n_node++] = node;
}

DtOnnx__Model *onnx_start(const char *out)
{
    const onnx_case relu = { .op = "Relu", .in = { "f32 1 4: 0 0 0 0" }, .out = { out } };
    DtOnnx__Model *m = onnx_model(&relu);
    DtOnnx__ValueInfo *ends[] = { m->graph->input[0], m->graph->output[0] };
    m->graph->node[0]->output[0] = "h";
    for (int i = 0; i < 2; i++) {
        DtOnnx__Dimension *batch = ends[i]->type->tensor_type->shape->dim[0];
        batch->dim_value = 0;
        batch->dim_param = "batch";
    }
    return m;
}

void onnx_weight(DtOnnx__Model *m, const char *name, const char *tensor)
{
    DtOnnx__Graph *g = m->graph;
    ck_assert_uint_lt(g->n_initializer, NODES);
    g->initializer[g->n_initializer++] = onnx_tensor(tensor, copy(name, strlen(name)));
}

unsigned char *onnx_pack(const DtOnnx__Model *m, size_t *n)
{
    *n = dt_onnx__model__get_packed_size(m);
    unsigned char *bytes = memory(*n);
    dt_onnx__model__pack(m, bytes);
    return bytes;
}
