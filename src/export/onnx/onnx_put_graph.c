/* The graph of an ONNX model: nodes with their attributes, inputs, outputs, properties. */
#include "export/onnx/onnx_put.h"

#include "core/block_list.h"

#include <stdio.h>
#include <string.h>

/* AttributeProto.AttributeType */
enum { AS_FLOAT = 1, AS_INT = 2, AS_STRING = 3, AS_GRAPH = 5, AS_INTS = 7 };

#define HINT 200 /* bytes of a name, at most, before its number */

void dt__put_begin(dt_ctx *ctx, dt__put *p) { *p = (dt__put){ .ctx = ctx, .opset = 21 }; }

void dt__put_free(dt__put *p)
{
    dt_ctx *ctx = p->ctx;
    DT__RELEASE(ctx, p->node, p->tensor, p->input, p->output, p->property);
    dt__block_list_free(ctx, &p->blocks);
    dt__put_begin(ctx, p);
}

dt_status dt__put_status(const dt__put *p) { return p->failed ? DT_ERR_NOMEM : DT_OK; }

void *dt__put_memory(dt__put *p, int64_t count, size_t size)
{
    if (p->failed) return NULL;
    void *memory = dt__block_list_array(p->ctx, &p->blocks, count, size);
    p->failed = memory == NULL;
    return memory;
}

void *dt__put_scratch(dt__put *p, int64_t count, size_t size)
{
    size_t bytes;
    if (p->failed) return NULL;
    if (!dt__mul_size((uint64_t)count, size, &bytes)) bytes = SIZE_MAX / 2;
    void *memory = dt__alloc_zero(p->ctx, bytes);
    p->failed = memory == NULL;
    return memory;
}

static char *copy(dt__put *p, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *to = dt__put_memory(p, (int64_t)bytes, 1);
    if (to != NULL) memcpy(to, text, bytes);
    return to;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("_-./", c) != NULL);
}

const char *dt__put_clean(dt__put *p, const char *text)
{
    char *to = copy(p, *text == 0 ? "_" : text);
    for (char *c = to; c != NULL && *c != 0; c++) *c = is_plain(*c) ? *c : '_';
    return to;
}

/* "layers.0/MatMul:17"; the rest of a name has no colon. */
static char *new_name(dt__put *p, const char *op)
{
    char text[HINT + 64];
    const char *hint = p->hint == NULL ? "" : p->hint;
    snprintf(text, sizeof text, "%.*s%s%.40s:%lld", HINT, hint, *hint == 0 ? "" : "/", op,
             (long long)p->names++);
    return copy(p, text);
}

dt__value dt__put_name(dt__put *p, const char *what) { return new_name(p, what); }

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool reserve(dt__put *p, void *array, int64_t n, int64_t *room)
{
    if (p->failed) return false;
    p->failed = dt__reserve(p->ctx, array, n, room, sizeof(void *)) != DT_OK;
    return !p->failed;
}

dt__value dt__put_node(dt__put *p, const char *op, const char *const *in, int n)
{
    for (int i = 0; i < n; i++) {
        if (in[i] == NULL) return NULL; /* making this input failed */
    }
    DtOnnx__Node *node = dt__put_memory(p, 1, sizeof *node);
    char **names = dt__put_memory(p, n + 1, sizeof *names);
    char *result = new_name(p, op);
    if (p->failed || !reserve(p, &p->node, p->nodes, &p->room_nodes)) return NULL;
    dt_onnx__node__init(node);
    for (int i = 0; i < n; i++) names[i] = dt__put_text_of(in[i]);
    names[n] = result;
    node->op_type = dt__put_text_of(op);
    node->name = result;
    node->input = names;
    node->n_input = (size_t)n;
    node->output = names + n;
    node->n_output = 1;
    p->node[p->nodes++] = node;
    return result;
}

void dt__put_results(dt__put *p, int64_t n, dt__value *out)
{
    char **names = dt__put_memory(p, n, sizeof *names);
    DtOnnx__Node *node = p->failed ? NULL : p->node[p->nodes - 1];
    for (int64_t i = 0; i < n; i++) {
        if (node == NULL) out[i] = NULL;
        else out[i] = names[i] = i == 0 ? node->output[0] : new_name(p, node->op_type);
    }
    if (node == NULL) return;
    node->output = names;
    node->n_output = (size_t)n;
}

void dt__put_microsoft(dt__put *p)
{
    if (p->failed) return;
    p->node[p->nodes - 1]->domain = dt__put_text_of("com.microsoft");
    p->microsoft = true;
}

#define MOST_ATTRIBUTES 8

/* Adds an attribute to the newest node; NULL: NOMEM. */
static DtOnnx__Attribute *attribute(dt__put *p, const char *name, int type)
{
    DtOnnx__Attribute *a = dt__put_memory(p, 1, sizeof *a);
    if (a == NULL) return NULL;
    DtOnnx__Node *node = p->node[p->nodes - 1];
    if (node->attribute == NULL) {
        node->attribute = dt__put_memory(p, MOST_ATTRIBUTES, sizeof(void *));
        if (node->attribute == NULL) return NULL;
    }
    dt_onnx__attribute__init(a);
    a->name = dt__put_text_of(name);
    a->type = type;
    node->attribute[node->n_attribute++] = a;
    return a;
}

void dt__put_attr_int(dt__put *p, const char *name, int64_t value)
{
    DtOnnx__Attribute *a = attribute(p, name, AS_INT);
    if (a != NULL) a->i = value;
}

void dt__put_attr_real(dt__put *p, const char *name, float value)
{
    DtOnnx__Attribute *a = attribute(p, name, AS_FLOAT);
    if (a != NULL) a->f = value;
}

void dt__put_attr_ints(dt__put *p, const char *name, int64_t n, const int64_t *value)
{
    DtOnnx__Attribute *a = attribute(p, name, AS_INTS);
    if (a == NULL) return;
    a->ints = dt__put_memory(p, n, sizeof *value);
    if (a->ints == NULL) return;
    memcpy(a->ints, value, (size_t)n * sizeof *value);
    a->n_ints = (size_t)n;
}

void dt__put_attr_text(dt__put *p, const char *name, const char *value)
{
    DtOnnx__Attribute *a = attribute(p, name, AS_STRING);
    char *text = copy(p, value);
    if (a == NULL || text == NULL) return;
    a->s = (ProtobufCBinaryData){ strlen(text), (uint8_t *)text };
}

void dt__put_attr_body(dt__put *p, ProtobufCBinaryData body)
{
    DtOnnx__Attribute *a = body.data == NULL ? NULL : attribute(p, "body", AS_GRAPH);
    if (a != NULL) a->g = body;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static DtOnnx__Shape *shape_of(dt__put *p, const dt__put_port *port)
{
    DtOnnx__Shape *shape = dt__put_memory(p, 1, sizeof *shape);
    DtOnnx__Dimension *dim = dt__put_memory(p, port->rank, sizeof *dim);
    DtOnnx__Dimension **list = dt__put_memory(p, port->rank, sizeof *list);
    if (p->failed) return NULL;
    dt_onnx__shape__init(shape);
    for (int i = 0; i < port->rank; i++) {
        const dt__put_extent *e = &port->dim[i];
        dt_onnx__dimension__init(&dim[i]);
        if (e->symbol != NULL) dim[i].dim_param = copy(p, e->symbol);
        else dim[i].dim_value = e->value;
        list[i] = &dim[i];
    }
    shape->dim = list;
    shape->n_dim = (size_t)port->rank;
    return p->failed ? NULL : shape;
}

static DtOnnx__ValueInfo *info_of(dt__put *p, const dt__put_port *port)
{
    DtOnnx__ValueInfo *info = dt__put_memory(p, 1, sizeof *info);
    DtOnnx__Type *type = dt__put_memory(p, 1, sizeof *type);
    DtOnnx__TensorType *tensor = dt__put_memory(p, 1, sizeof *tensor);
    DtOnnx__Shape *shape = shape_of(p, port);
    char *name = copy(p, port->name);
    if (p->failed) return NULL;
    dt_onnx__value_info__init(info);
    dt_onnx__type__init(type);
    dt_onnx__tensor_type__init(tensor);
    tensor->elem_type = port->type;
    tensor->shape = shape;
    type->tensor_type = tensor;
    info->type = type;
    info->name = name;
    return info;
}

dt__value dt__put_input(dt__put *p, const dt__put_port *port)
{
    DtOnnx__ValueInfo *info = info_of(p, port);
    if (info == NULL || !reserve(p, &p->input, p->inputs, &p->room_inputs)) return NULL;
    p->input[p->inputs++] = info;
    return info->name;
}

void dt__put_output(dt__put *p, const dt__put_port *port, dt__value from)
{
    DtOnnx__ValueInfo *info = info_of(p, port);
    if (info == NULL || !reserve(p, &p->output, p->outputs, &p->room_outputs)) return;
    p->output[p->outputs++] = info;
    if (DT__PUT(p, "Identity", from) == NULL) return;
    p->node[p->nodes - 1]->output[0] = info->name;
}

void dt__put_property(dt__put *p, const char *key, const char *value)
{
    DtOnnx__Property *property = dt__put_memory(p, 1, sizeof *property);
    char *a = copy(p, key), *b = copy(p, value);
    if (p->failed || !reserve(p, &p->property, p->properties, &p->room_properties)) return;
    dt_onnx__property__init(property);
    property->key = a;
    property->value = b;
    p->property[p->properties++] = property;
}
