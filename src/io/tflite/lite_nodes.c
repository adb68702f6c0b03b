/* Translates a TFLite model to an ONNX graph: tensors, constants, inputs and outputs. */
#include "io/tflite/lite_nodes.h"

#include "core/block_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPSET 20

/* ---- memory ---------------------------------------------------------------------------------- */

static void *memory(dt__lite_nodes *b, int64_t n, size_t size)
{
    if (b->status != DT_OK) return NULL;
    void *to = dt__block_list_array(b->ctx, &b->file->blocks, n, size);
    if (to == NULL) b->status = DT_ERR_NOMEM;
    return to;
}

static char *text(dt__lite_nodes *b, const char *format, ...) DT_PRINTF(2, 3);
static char *text(dt__lite_nodes *b, const char *format, ...)
{
    char made[64];
    DT__FORMAT(made, sizeof made, format);
    char *to = memory(b, (int64_t)strlen(made) + 1, 1);
    return to == NULL ? NULL : strcpy(to, made);
}

/* Appends to a list of pointers, whose capacity doubles. */
static void add(dt__lite_nodes *b, void ***list, size_t *n, size_t *room, void *item)
{
    if (item == NULL) return;
    if (*n == *room) {
        void **larger = memory(b, (int64_t)(2 * *room + 16), sizeof *larger);
        if (larger == NULL) return;
        if (*n > 0) memcpy(larger, *list, *n * sizeof *larger);
        *list = larger;
        *room = 2 * *room + 16;
    }
    (*list)[(*n)++] = item;
}

dt_status dt__form_refuse(dt__lite_nodes *b, const char *format, ...)
{
    char made[200];
    DT__FORMAT(made, sizeof made, format);
    if (b->status == DT_OK) b->status = dt_fail(b->ctx, DT_ERR_UNSUPPORTED, "%s", made);
    return b->status;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

const char *dt__form_node(dt__lite_nodes *b, const char *type, int n, const char *const *in)
{
    DtOnnx__Graph *g = b->graph;
    dt__onnx_node *node = memory(b, 1, sizeof *node);
    char **names = memory(b, n + 1, sizeof *names);
    char *output = text(b, "v%zu", g->n_node);
    if (b->status != DT_OK) return "";
    dt_onnx__node__init(node);
    for (int i = 0; i < n; i++) names[i] = text(b, "%s", in[i]);
    names[n] = output;
    node->op_type = text(b, "%s", type);
    node->input = names;
    node->n_input = (size_t)n;
    node->output = names + n;
    node->n_output = 1;
    add(b, (void ***)&g->node, &g->n_node, &b->room_nodes, node);
    return output;
}

static dt__onnx_node *newest(const dt__lite_nodes *b)
{
    return b->status == DT_OK ? b->graph->node[b->graph->n_node - 1] : NULL;
}

const char *dt__form_more(dt__lite_nodes *b)
{
    dt__onnx_node *node = newest(b);
    if (node == NULL) return "";
    char **names = memory(b, (int64_t)node->n_output + 1, sizeof *names);
    char *name = text(b, "%s.%zu", node->output[0], node->n_output);
    if (b->status != DT_OK) return "";
    memcpy(names, node->output, node->n_output * sizeof *names);
    names[node->n_output++] = name;
    node->output = names;
    return name;
}

static DtOnnx__Attribute *attribute(dt__lite_nodes *b, const char *name, int type)
{
    dt__onnx_node *node = newest(b);
    DtOnnx__Attribute *a = memory(b, 1, sizeof *a);
    size_t room = node == NULL ? 0 : node->n_attribute;
    if (a == NULL) return NULL;
    dt_onnx__attribute__init(a);
    a->name = text(b, "%s", name);
    a->type = type;
    add(b, (void ***)&node->attribute, &node->n_attribute, &room, a);
    return a;
}

void dt__form_int(dt__lite_nodes *b, const char *name, int64_t value)
{
    DtOnnx__Attribute *a = attribute(b, name, 2);
    if (a != NULL) a->i = value;
}

void dt__form_float(dt__lite_nodes *b, const char *name, double value)
{
    DtOnnx__Attribute *a = attribute(b, name, 1);
    if (a != NULL) a->f = (float)value;
}

void dt__form_ints(dt__lite_nodes *b, const char *name, int n, const int64_t *value)
{
    DtOnnx__Attribute *a = attribute(b, name, 7);
    int64_t *to = memory(b, n, sizeof *to);
    if (to == NULL) return;
    memcpy(to, value, (size_t)n * sizeof *to);
    a->ints = to;
    a->n_ints = (size_t)n;
}

void dt__form_word(dt__lite_nodes *b, const char *name, const char *value)
{
    DtOnnx__Attribute *a = attribute(b, name, 3);
    char *to = text(b, "%s", value);
    if (b->status != DT_OK) return;
    a->s.data = (uint8_t *)to;
    a->s.len = strlen(to);
}

const char *dt__form_turned(dt__lite_nodes *b, const char *x, int rank, const int64_t *order)
{
    const char *y = DT__LITE_NODE(b, "Transpose", x);
    dt__form_ints(b, "perm", rank, order);
    return y;
}

const char *dt__form_channels_first(dt__lite_nodes *b, const char *x)
{
    return dt__form_turned(b, x, 4, (const int64_t[]){ 0, 3, 1, 2 });
}

const char *dt__form_channels_last(dt__lite_nodes *b, const char *x)
{
    return dt__form_turned(b, x, 4, (const int64_t[]){ 0, 2, 3, 1 });
}

const char *dt__form_shaped(dt__lite_nodes *b, const char *x, const dt__vlite_tensor *like)
{
    return DT__LITE_NODE(b, "Reshape", x, dt__form_list(b, like->rank, like->dims));
}

/* ---- constants ------------------------------------------------------------------------------- */

static dt__onnx_tensor *constant(dt__lite_nodes *b, int type, int rank, const int64_t *dims)
{
    DtOnnx__Graph *g = b->graph;
    dt__onnx_tensor *t = memory(b, 1, sizeof *t);
    int64_t *extents = memory(b, rank, sizeof *extents);
    char *name = text(b, "c%zu", g->n_initializer);
    if (b->status != DT_OK) return NULL;
    dt_onnx__tensor__init(t);
    t->name = name;
    t->data_type = type;
    t->dims = extents;
    t->n_dims = (size_t)rank;
    if (rank > 0) memcpy(extents, dims, (size_t)rank * sizeof *dims);
    add(b, (void ***)&g->initializer, &g->n_initializer, &b->room_constants, t);
    return t;
}

const char *dt__form_list(dt__lite_nodes *b, int n, const int64_t *value)
{
    dt__onnx_tensor *t = constant(b, DT__ONNX_I64, 1, (const int64_t[]){ n });
    int64_t *to = memory(b, n, sizeof *to);
    if (b->status != DT_OK) return "";
    if (n > 0) memcpy(to, value, (size_t)n * sizeof *to);
    t->int64_data = to;
    t->n_int64_data = (size_t)n;
    return t->name;
}

/* A constant of floats, which outlive the graph. */
static const char *floats(dt__lite_nodes *b, int rank, const int64_t *dims, float *value, int64_t n)
{
    dt__onnx_tensor *t = constant(b, DT__ONNX_FLOAT, rank, dims);
    if (t == NULL) return "";
    t->float_data = value;
    t->n_float_data = (size_t)n;
    return t->name;
}

static const char *integers(dt__lite_nodes *b, int type, int rank, const int64_t *dims,
                            int32_t *value)
{
    int64_t n;
    dt__onnx_tensor *t = constant(b, type, rank, dims);
    if (t == NULL || !dt__product(rank, dims, &n)) return "";
    t->int32_data = value;
    t->n_int32_data = (size_t)n;
    return t->name;
}

const char *dt__form_number(dt__lite_nodes *b, double value)
{
    float *to = memory(b, 1, sizeof *to);
    if (to == NULL) return "";
    *to = (float)value;
    return floats(b, 0, NULL, to, 1);
}

/* A constant of 4-bit codes, two per byte. */
static const char *nibbles(dt__lite_nodes *b, const dt__vlite_tensor *from)
{
    dt__onnx_tensor *t = constant(b, DT__ONNX_I4, from->rank, from->dims);
    uint8_t *to = memory(b, (from->count + 1) / 2, 1);
    if (b->status != DT_OK) return "";
    for (int64_t i = 0; i < from->count; i++) {
        to[i / 2] = (uint8_t)(to[i / 2] | (from->q[i] & 15) << (i % 2 * 4));
    }
    t->raw_data.data = to;
    t->raw_data.len = (size_t)((from->count + 1) / 2);
    return t->name;
}

/* ---- tensors --------------------------------------------------------------------------------- */

int dt__lite_onnx_type(const dt__vlite_tensor *t)
{
    switch (t->type) {
    case DT__VLITE_I8: return DT__ONNX_I8;
    case DT__VLITE_U8: return DT__ONNX_U8;
    case DT__VLITE_I4: return DT__ONNX_I4;
    case DT__VLITE_BOOL: return DT__ONNX_BOOL;
    case DT__VLITE_I32: return DT__ONNX_I32;
    case DT__VLITE_I64: return DT__ONNX_I64;
    default: return DT__ONNX_FLOAT;
    }
}

static bool is_coded(const dt__vlite_tensor *t)
{
    return t->type == DT__VLITE_I8 || t->type == DT__VLITE_U8 || t->type == DT__VLITE_I4;
}

static const char *initializer(dt__lite_nodes *b, const dt__vlite_tensor *t)
{
    if (t->f != NULL) return floats(b, t->rank, t->dims, t->f, t->count);
    if (t->type == DT__VLITE_I4) return nibbles(b, t);
    if (t->type != DT__VLITE_I64) return integers(b, dt__lite_onnx_type(t), t->rank, t->dims, t->q);
    const char *name = dt__form_list(b, 0, NULL); /* a scalar broadcasts to any rank */
    int64_t *to = memory(b, t->count, sizeof *to), *dims = memory(b, t->rank, sizeof *dims);
    if (b->status != DT_OK) return "";
    dt__onnx_tensor *made = b->graph->initializer[b->graph->n_initializer - 1];
    for (int64_t i = 0; i < t->count; i++) to[i] = t->q[i];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    made->dims = dims;
    made->n_dims = (size_t)t->rank;
    made->int64_data = to;
    made->n_int64_data = (size_t)t->count;
    return name;
}

/* QuantizeLinear or DequantizeLinear with the scales of t. */
static const char *scaled(dt__lite_nodes *b, const char *type, const char *x,
                          const dt__vlite_tensor *t)
{
    const int rank = t->scales > 1 ? 1 : 0;
    if (t->scales < 1 || t->block > 0) {
        dt__form_refuse(b, t->block > 0 ? "scales of blocks" : "codes without a scale");
        return "";
    }
    const char *scale = floats(b, rank, &t->scales, t->scale, t->scales), *y;
    if (t->type == DT__VLITE_I32) {
        y = DT__LITE_NODE(b, type, x, scale);
    } else if (t->type == DT__VLITE_I4) {
        const dt__vlite_tensor zeros = {
            .rank = rank, .dims = { t->scales }, .count = t->scales, .q = t->zero
        };
        y = DT__LITE_NODE(b, type, x, scale, nibbles(b, &zeros));
    } else {
        y = DT__LITE_NODE(b, type, x, scale,
                          integers(b, dt__lite_onnx_type(t), rank, &t->scales, t->zero));
    }
    if (t->scales > 1) dt__form_int(b, "axis", t->axis);
    return y;
}

const dt__vlite_tensor *dt__form_tensor(const dt__lite_nodes *b, int i)
{
    return i < b->op->n_in && b->op->in[i] >= 0 ? &b->v->tensor[b->op->in[i]] : NULL;
}

const dt__vlite_tensor *dt__form_out(const dt__lite_nodes *b, int k)
{
    return k < b->op->n_out && b->op->out[k] >= 0 ? &b->v->tensor[b->op->out[k]] : NULL;
}

const int64_t *dt__form_block(const dt__lite_nodes *b, int i)
{
    return dt__form_tensor(b, i) == NULL ? NULL : b->block[b->op->in[i]];
}

void dt__form_set_block(dt__lite_nodes *b, const int64_t *block)
{
    int64_t *to = memory(b, 2, sizeof *to);
    if (to == NULL || dt__form_out(b, 0) == NULL) return;
    memcpy(to, block, 2 * sizeof *to);
    b->block[b->op->out[0]] = to;
}

/* The value of a tensor: codes, or floats. */
static const char *value_of(dt__lite_nodes *b, int tensor, int i)
{
    const int code = b->op == NULL ? -1 : b->op->code;
    if (b->block[tensor] != NULL && code != DT__VLITE_CONV_2D &&
        code != DT__VLITE_DEPTHWISE_CONV_2D && code != DT__VLITE_BATCH_TO_SPACE_ND) {
        dt__form_refuse(b, "its input %d has parts of an image in its batch", i);
    }
    const dt__vlite_tensor *t = &b->v->tensor[tensor];
    if (b->value[tensor] == NULL && t->constant) b->value[tensor] = initializer(b, t);
    if (b->value[tensor] == NULL) dt__form_refuse(b, "its input %d is not computed", i);
    return b->status == DT_OK ? b->value[tensor] : "";
}

/* The dequantized value of a tensor. */
const char *dt__form_value(dt__lite_nodes *b, int tensor, int i)
{
    const dt__vlite_tensor *t = &b->v->tensor[tensor];
    const char *value = value_of(b, tensor, i);
    if (!is_coded(t) && (t->type != DT__VLITE_I32 || t->scales == 0 || !t->constant)) return value;
    if (b->real[tensor] == NULL) b->real[tensor] = scaled(b, "DequantizeLinear", value, t);
    return b->status == DT_OK ? b->real[tensor] : "";
}

const char *dt__form_in(dt__lite_nodes *b, int i)
{
    return dt__form_tensor(b, i) == NULL ? "" : dt__form_value(b, b->op->in[i], i);
}

bool dt__form_ints_of(dt__lite_nodes *b, int i, int most, int *n, int64_t *to)
{
    const dt__vlite_tensor *t = dt__form_tensor(b, i);
    const bool good = t != NULL && t->constant && t->count <= most &&
                      (t->type == DT__VLITE_I32 || t->type == DT__VLITE_I64);
    if (!good) dt__form_refuse(b, "its input %d must be a constant list of integers", i);
    for (*n = 0; good && *n < t->count; ++*n) to[*n] = t->q[*n];
    return b->status == DT_OK;
}

static bool same_codes(const dt__vlite_tensor *x, const dt__vlite_tensor *y)
{
    return x != NULL && y != NULL && is_coded(x) && x->type == y->type && x->scales == 1 &&
           y->scales == 1 && x->scale[0] == y->scale[0] && x->zero[0] == y->zero[0];
}

const char *dt__form_codes_or_in(dt__lite_nodes *b, int i)
{
    b->codes = same_codes(dt__form_tensor(b, i), dt__form_out(b, 0));
    return b->codes ? value_of(b, b->op->in[i], i) : dt__form_in(b, i);
}

dt_status dt__form_set(dt__lite_nodes *b, int k, const char *value)
{
    const dt__vlite_tensor *t = dt__form_out(b, k);
    if (t == NULL) return b->status;
    if (t->constant) return dt__form_refuse(b, "its result %d is constant in the file", k);
    const bool arranged = b->codes && same_codes(t, dt__form_out(b, 0));
    if (is_coded(t) && !arranged) value = scaled(b, "QuantizeLinear", value, t);
    if (b->status == DT_OK) b->value[b->op->out[k]] = value;
    return b->status;
}

const char *dt__form_away(dt__lite_nodes *b, const char *value, double part)
{
    const dt__vlite_tensor *y = dt__form_out(b, 0);
    if (!same_codes(dt__form_tensor(b, 0), y)) return value;
    const double scale = (double)y->scale[0];
    const char *code = DT__LITE_NODE(b, "Add", value, dt__form_number(b, y->zero[0] * scale));
    const char *sign = DT__LITE_NODE(b, "Sign", code);
    const char *move = DT__LITE_NODE(b, "Mul", sign, dt__form_number(b, part * scale));
    return DT__LITE_NODE(b, "Add", value, move);
}

dt_status dt__form_set_activated(dt__lite_nodes *b, int64_t activation, const char *value)
{
    if (activation == 1) value = DT__LITE_NODE(b, "Relu", value);
    else if (activation == 2 || activation == 3) {
        const double least = activation == 2 ? -1 : 0, most = activation == 2 ? 1 : 6;
        value =
            DT__LITE_NODE(b, "Clip", value, dt__form_number(b, least), dt__form_number(b, most));
    } else if (activation != 0) {
        dt__form_refuse(b, "the activation %lld in it is not known%s", (long long)activation,
                        activation == 4 ? ": it is tanh, which LiteRT leaves out" : "");
    }
    return dt__form_set(b, 0, value);
}

double dt__form_real(const dt__lite_nodes *b, int option)
{
    const uint32_t bits = (uint32_t)b->op->option[option];
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

int64_t dt__form_axis(dt__lite_nodes *b, int64_t axis, int rank)
{
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) return axis;
    dt__form_refuse(b, "there is no dimension %lld", (long long)axis);
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static DtOnnx__ValueInfo *end_of(dt__lite_nodes *b, const char *name, const dt__vlite_tensor *t)
{
    DtOnnx__ValueInfo *info = memory(b, 1, sizeof *info);
    DtOnnx__Type *type = memory(b, 1, sizeof *type);
    DtOnnx__TensorType *tensor = memory(b, 1, sizeof *tensor);
    DtOnnx__Shape *shape = memory(b, 1, sizeof *shape);
    DtOnnx__Dimension *dim = memory(b, t->rank + 1, sizeof *dim);
    DtOnnx__Dimension **dims = memory(b, t->rank + 1, sizeof *dims);
    if (b->status != DT_OK) return NULL;
    dt_onnx__value_info__init(info);
    dt_onnx__type__init(type);
    dt_onnx__tensor_type__init(tensor);
    dt_onnx__shape__init(shape);
    for (int i = 0; i < t->rank; i++) {
        dt_onnx__dimension__init(&dim[i]);
        dim[i].dim_value = t->dims[i];
        dims[i] = &dim[i];
    }
    shape->dim = dims;
    shape->n_dim = (size_t)t->rank;
    tensor->elem_type =
        t->type == DT__VLITE_F32 || is_coded(t) ? DT__ONNX_FLOAT : dt__lite_onnx_type(t);
    tensor->shape = shape;
    type->tensor_type = tensor;
    info->type = type;
    info->name = text(b, "%s", name);
    return info;
}

static void add_inputs(dt__lite_nodes *b)
{
    DtOnnx__Graph *g = b->graph;
    g->input = memory(b, b->v->ins + 1, sizeof *g->input);
    b->file->in_names = memory(b, b->v->ins + 1, sizeof *b->file->in_names);
    for (int i = 0; i < b->v->ins && b->status == DT_OK; i++) {
        const dt__vlite_tensor *t = &b->v->tensor[b->v->in[i]];
        const char *name = i == 0 ? "x" : text(b, "x%d", i + 1);
        b->file->in_names[i] = t->name;
        g->input[g->n_input++] = end_of(b, name, t);
        b->value[b->v->in[i]] = is_coded(t) ? scaled(b, "QuantizeLinear", name, t) : name;
    }
}

/* Outputs that are images have channels first in the model. */
static void add_outputs(dt__lite_nodes *b)
{
    DtOnnx__Graph *g = b->graph;
    b->op = NULL;
    g->output = memory(b, b->v->outs + 1, sizeof *g->output);
    b->file->out_names = memory(b, b->v->outs + 1, sizeof *b->file->out_names);
    for (int i = 0; i < b->v->outs && b->status == DT_OK; i++) {
        const int tensor = b->v->out[i];
        const dt__vlite_tensor *t = &b->v->tensor[tensor];
        if (b->value[tensor] == NULL) {
            dt__form_refuse(b, "%s: output %d is not computed from an input", b->file->path, i);
            return;
        }
        char *name = text(b, i == 0 ? "y" : "y%d", i + 1);
        const char *y = dt__form_value(b, tensor, i);
        if (t->rank == 4) y = dt__form_channels_first(b, y);
        else y = DT__LITE_NODE(b, "Identity", y);
        if (b->status != DT_OK) return;
        newest(b)->output[0] = name;
        b->file->out_names[i] = t->name;
        g->output[g->n_output++] = end_of(b, name, t);
    }
}

/* An operator that reads results of a refused one is not reported. */
static bool reads_refused(const dt__lite_nodes *b, const bool *refused)
{
    for (int i = 0; i < b->op->n_in; i++) {
        if (b->op->in[i] >= 0 && refused[b->op->in[i]]) return true;
    }
    return false;
}

static dt_status read_op(dt__lite_nodes *b, bool *refused)
{
    char kind[64];
    const dt__vlite_op *o = b->op;
    const dt__vlite_operator *known = dt__vlite_operator_of(o->code);
    const dt__lite_form *form = dt__lite_form_of(o->code);
    const bool follows = reads_refused(b, refused);
    b->codes = false;
    if (follows) b->status = DT_ERR_UNSUPPORTED;
    else if (form == NULL) dt__form_refuse(b, "the operator is not read");
    else form->read(b);
    if (b->status == DT_OK || b->status == DT_ERR_NOMEM) return b->status;
    b->status = DT_OK;
    if (known == NULL) snprintf(kind, sizeof kind, "operator_%d", o->code);
    else snprintf(kind, sizeof kind, "%.60s", known->name);
    if (!follows) {
        dt__refusals_add(&b->refusals, "operator %lld, %s: %.200s", (long long)o->place, kind,
                         dt_error(b->ctx));
    }
    for (int k = 0; k < o->n_out; k++) {
        if (o->out[k] >= 0) refused[o->out[k]] = true;
    }
    return DT_OK;
}

static dt_status read_ops(dt__lite_nodes *b)
{
    bool *refused = memory(b, b->v->tensors, sizeof *refused);
    if (refused == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < b->v->ops; i++) {
        b->op = &b->v->op[i];
        if (!dt__lite_is_idle(b)) DT__TRY(read_op(b, refused));
    }
    return DT_OK;
}

static void begin(dt__lite_nodes *b)
{
    DtOnnx__Model *m = memory(b, 1, sizeof *m);
    b->graph = memory(b, 1, sizeof *b->graph);
    b->value = memory(b, b->v->tensors, sizeof *b->value);
    b->real = memory(b, b->v->tensors, sizeof *b->real);
    b->block = memory(b, b->v->tensors, sizeof *b->block);
    if (b->status != DT_OK) return;
    dt_onnx__model__init(m);
    dt_onnx__graph__init(b->graph);
    m->graph = b->graph;
    b->file->model = m;
    b->file->opset = OPSET;
    b->file->channels_last = true;
}

dt_status dt__lite_translate(dt__vlite *v, dt__onnx_file *file, dt__refusals *refusals)
{
    dt__lite_nodes b = { .ctx = v->ctx, .v = v, .file = file };
    begin(&b);
    b.wanted = memory(&b, v->tensors, sizeof *b.wanted);
    if (b.status == DT_OK) {
        dt__lite_want_shapes(&b);
        add_inputs(&b);
    }
    if (b.status == DT_OK) b.status = read_ops(&b);
    if (b.status == DT_OK && b.refusals.n == 0) add_outputs(&b);
    if (refusals != NULL) *refusals = b.refusals;
    if (b.status != DT_OK) return b.status;
    return dt__refusals_end(v->ctx, &b.refusals, DT_ERR_UNSUPPORTED, "%s: cannot be read",
                            file->path);
}

/* ---- one operator ---------------------------------------------------------------------------- */

/* A graph input or output of any type and extents. */
static DtOnnx__ValueInfo *open_end(dt__lite_nodes *b, const char *name)
{
    DtOnnx__ValueInfo *info = memory(b, 1, sizeof *info);
    if (info == NULL) return NULL;
    dt_onnx__value_info__init(info);
    info->name = (char *)(uintptr_t)name;
    return info;
}

dt_status dt__lite_translate_op(const dt__vlite *v, const dt__vlite_op *o, dt__onnx_file *file)
{
    dt__lite_nodes b = { .ctx = v->ctx, .v = v, .file = file, .op = o };
    begin(&b);
    if (b.status != DT_OK) return b.status;
    DtOnnx__Graph *g = b.graph;
    g->input = memory(&b, o->n_in, sizeof *g->input);
    g->output = memory(&b, o->n_out, sizeof *g->output);
    for (int i = 0; i < o->n_in && b.status == DT_OK; i++) {
        if (o->in[i] < 0) continue;
        const char **name = &b.value[o->in[i]];
        if (*name != NULL || v->tensor[o->in[i]].constant) continue;
        *name = text(&b, DT__LITE_INPUT, o->in[i]);
        g->input[g->n_input++] = open_end(&b, *name);
    }
    if (b.status == DT_OK) dt__lite_form_of(o->code)->read(&b);
    for (int k = 0; k < o->n_out && b.status == DT_OK; k++) {
        const char *name = b.value[o->out[k]];
        if (name == NULL) return dt__form_refuse(&b, "it makes no result %d", k);
        g->output[g->n_output++] = open_end(&b, name);
    }
    return b.status;
}
