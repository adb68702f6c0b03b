/* Reads operators of a TFLite file as layers. */
#include "core/block_list.h"
#include "io/tflite/lite_layers.h"

#include <stdio.h>
#include <string.h>

const dt__vlite_tensor *dt__lite_tensor_of(const dt__lite_import *m, int tensor)
{
    return tensor < 0 ? NULL : &m->v->tensor[tensor];
}

/* Input i of an operator; an error if it has no layer. */
dt_status dt__lite_value_of(dt__lite_import *m, const dt__vlite_op *o, int i, dt__lite_place **out)
{
    *out = i < o->n_in && o->in[i] >= 0 ? &m->place[o->in[i]] : NULL;
    const bool blocks = *out != NULL && (*out)->block[0] > 0;
    if (blocks && o->code != DT__VLITE_CONV_2D && o->code != DT__VLITE_DEPTHWISE_CONV_2D &&
        o->code != DT__VLITE_BATCH_TO_SPACE_ND) {
        return dt__onnx_refuse(m->g, "it reads blocks of an image in place of a batch");
    }
    if (*out != NULL && (*out)->layer != NULL) return DT_OK;
    return dt__onnx_refuse(m->g, "its input %d is constant, or no operator before it makes it", i);
}

dt_status dt__lite_constant_of(dt__lite_import *m, const dt__vlite_op *o, int i,
                               const dt__vlite_tensor **out)
{
    *out = i < o->n_in ? dt__lite_tensor_of(m, o->in[i]) : NULL;
    if (*out != NULL && (*out)->constant) return DT_OK;
    return dt__onnx_refuse(m->g, "its input %d must be constant", i);
}

/* Input i, which must be an image with channels last in the file. */
dt_status dt__lite_image_of(dt__lite_import *m, const dt__vlite_op *o, int i, dt__onnx_layer **out)
{
    dt__lite_place *p;
    DT__TRY(dt__lite_value_of(m, o, i, &p));
    const bool last =
        dt__lite_tensor_of(m, o->in[i])->rank == 4 && p->axis[1] == 2 && p->axis[2] == 3;
    *out = p->layer;
    return last ? DT_OK : dt__onnx_refuse(m->g, "its input %d is not an image of 4 dimensions", i);
}

/* Sets the operator's result to a layer's, with the order of dimensions of `like`; its extents must
 * be those that the file declares. */
dt_status dt__lite_put(dt__lite_import *m, const dt__vlite_op *o, dt__onnx_layer *l,
                       dt__onnx_layer *source, const dt__lite_place *like)
{
    const dt__vlite_tensor *t = dt__lite_tensor_of(m, o->out[0]);
    if (t == NULL || t->constant || t->rank != l->shape.rank + 1 || t->rank > 4) {
        return dt__onnx_refuse(m->g, "its result has other dimensions than here");
    }
    dt__lite_place *p = &m->place[o->out[0]];
    memcpy(p->axis, like->axis, sizeof p->axis);
    memcpy(p->flat, like->flat, sizeof p->flat);
    memcpy(p->block, like->block, sizeof p->block);
    for (int d = 1; d < t->rank && p->block[0] == 0; d++) {
        if (t->dims[d] == l->shape.dims[p->axis[d] - 1] || (t->vague && t->dims[d] == 1)) continue;
        return dt__onnx_refuse(m->g, "dimension %d of its result is %lld in the file, %lld here", d,
                               (long long)t->dims[d], (long long)l->shape.dims[p->axis[d] - 1]);
    }
    p->layer = l;
    p->source = source;
    return DT_OK;
}

const dt__lite_place dt__lite_image = { .axis = { 0, 2, 3, 1 } };
const dt__lite_place dt__lite_row = { .axis = { 0, 1, 2, 3 } };

/* Adds an operator's fused activation. */
dt_status dt__lite_put_activated(dt__lite_import *m, const dt__vlite_op *o, dt__onnx_layer *l,
                                 int64_t activation, const dt__lite_place *like)
{
    dt__onnx_layer *y = l;
    const char *kind = activation == 1 ? "relu" : activation == 3 ? "relu6" : NULL;
    if (kind == NULL && activation != 0) {
        return dt__onnx_refuse(m->g, "the activation %lld in it is not known",
                               (long long)activation);
    }
    if (kind != NULL) DT__TRY(dt__onnx_simple(m->g, kind, l, &y));
    return dt__lite_put(m, o, y, y, like);
}

dt_status dt__lite_file_row(dt__lite_import *m, const dt__lite_place *p, dt__onnx_layer **out)
{
    const dt_shape *s = &p->layer->shape;
    dt_shape to = { .rank = 1, .dims = { 1 } };
    int order[4] = { 0 };
    *out = p->layer;
    for (int i = 0; i < s->rank; i++) to.dims[0] *= s->dims[i];
    for (int i = 0; i <= s->rank; i++) order[i] = p->axis[i];
    if (p->flat[0] > 0) { /* pixels with channels first */
        const int64_t pixels = p->flat[0] * p->flat[1];
        const dt_shape planes = { .rank = 2, .dims = { p->flat[2], pixels } };
        DT__TRY(dt__onnx_reshaped(m->g, *out, &planes, out));
        DT__TRY(dt__onnx_permuted(m->g, *out, (const int[]){ 0, 2, 1 }, out));
    } else if (s->rank == 3 && order[1] == 2 && order[2] == 3) {
        const dt_shape planes = { .rank = 2, .dims = { s->dims[0], s->dims[1] * s->dims[2] } };
        DT__TRY(dt__onnx_reshaped(m->g, *out, &planes, out));
        DT__TRY(dt__onnx_permuted(m->g, *out, (const int[]){ 0, 2, 1 }, out));
    } else {
        DT__TRY(dt__onnx_permuted(m->g, *out, order, out));
    }
    return dt__onnx_reshaped(m->g, *out, &to, out);
}

/* A flattened value; an image is flattened with channels first, and `flat` has its extents. */
dt_status dt__lite_row_of(dt__lite_import *m, const dt__lite_place *p, int64_t flat[3],
                          dt__onnx_layer **out)
{
    const dt_shape *s = &p->layer->shape;
    dt_shape to = { .rank = 1, .dims = { 1 } };
    memcpy(flat, p->flat, 3 * sizeof *flat);
    *out = p->layer;
    if (s->rank == 1) return DT_OK;
    for (int i = 0; i < s->rank; i++) to.dims[0] *= s->dims[i];
    const bool last = s->rank == 3 && p->axis[1] == 2 && p->axis[2] == 3;
    for (int i = 1; !last && i <= s->rank; i++) {
        if (p->axis[i] != i) return dt__lite_file_row(m, p, out);
    }
    if (last && s->dims[0] > 1 && s->dims[1] * s->dims[2] > 1) {
        flat[0] = s->dims[1];
        flat[1] = s->dims[2];
        flat[2] = s->dims[0];
    }
    return dt__onnx_reshaped(m->g, p->layer, &to, out);
}

const dt__vlite_op *dt__lite_maker_of(const dt__lite_import *m, int tensor)
{
    for (int64_t i = 0; i < m->v->ops; i++) {
        const dt__vlite_op *o = &m->v->op[i];
        if (o->n_out == 1 && o->out[0] == tensor) return o;
    }
    return NULL;
}

static const dt__vlite_tensor *codes_of(const dt__lite_import *m, const dt__vlite_op *o)
{
    if (o->code != DT__VLITE_ELU || o->n_in != 1) return NULL;
    const dt__vlite_op *before = dt__lite_maker_of(m, o->in[0]);
    if (before == NULL || before->code != DT__VLITE_DEQUANTIZE || before->n_in != 1) return NULL;
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, before->in[0]);
    return x != NULL && dt__vlite_is_coded(x) ? x : NULL;
}

const dt__vlite_tensor *dt__lite_codes_behind(const dt__lite_import *m, int tensor)
{
    const dt__vlite_op *o = dt__lite_maker_of(m, tensor);
    return o == NULL ? NULL : codes_of(m, o);
}

typedef struct reader {
    int code;
    const char *layer;
    dt__lite_device_reader *read; /* NULL: devices have no layer for this operator */
} reader;

static const reader *reader_of(const dt__vlite_op *o)
{
    static const reader readers[] = {
#define DT__VLITE(name, code, newest, least, most, run, coded, onnx, form, layer, device, ...)     \
    { code, layer, device },
#include "io/tflite/lite_operators.inc"
#undef DT__VLITE
    };
    for (int i = 0; i < DT__COUNT_OF(readers); i++) {
        if (readers[i].code == o->code && readers[i].read != NULL) return &readers[i];
    }
    return NULL;
}

const char *dt__lite_shared_layer(const dt__vlite_op *o) { return reader_of(o)->layer; }

/* Shape arithmetic is skipped: results whose extents it computes have declared extents, which are
 * checked. */
static bool is_of_shapes(const dt__lite_import *m, const dt__vlite_op *o)
{
    const dt__vlite_tensor *y = o->n_out == 1 ? dt__lite_tensor_of(m, o->out[0]) : NULL;
    return y != NULL && y->type == DT__VLITE_I32 &&
           (o->code == DT__VLITE_STRIDED_SLICE || o->code == DT__VLITE_SHAPE ||
            o->code == DT__VLITE_PACK || o->code == DT__VLITE_CONCATENATION);
}

static dt_status read_op(dt__lite_import *m, const dt__vlite_op *o)
{
    if (is_of_shapes(m, o)) return DT_OK;
    const reader *r = reader_of(o);
    if (r == NULL) return dt__onnx_refuse(m->g, "devices have no such operator here");
    const dt__vlite_tensor *y = o->n_out == 1 ? dt__lite_tensor_of(m, o->out[0]) : NULL;
    if (y == NULL) return dt__onnx_refuse(m->g, "it has several results; one is read");
    if (y->type == DT__VLITE_F32 && o->code != DT__VLITE_DEQUANTIZE && codes_of(m, o) == NULL) {
        return dt__onnx_refuse(m->g, "it computes floats");
    }
    return r->read(m, o);
}

dt_status dt__lite_read_ops(dt__lite_import *m)
{
    dt__onnx *g = m->g;
    dt__onnx_node *node = dt__onnx_memory(g, m->v->ops, sizeof *node);
    char why[DT__MESSAGE_SIZE / 2];
    if (node == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < m->v->ops; i++) {
        const dt__vlite_op *o = &m->v->op[i];
        const dt__vlite_operator *kind = dt__vlite_operator_of(o->code);
        const char *name = kind != NULL ? kind->name : "operator";
        dt_onnx__node__init(&node[i]);
        node[i].op_type = (char *)(uintptr_t)dt__block_list_text(g->ctx, g->arena, "%s", name);
        if (node[i].op_type == NULL) return DT_ERR_NOMEM;
        g->node = &node[i];
        const dt_status s = read_op(m, o);
        if (s == DT_OK) continue;
        if (s == DT_ERR_NOMEM) return s;
        snprintf(why, sizeof why, "%s", dt_error(g->ctx));
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "operator %lld, %s: %s", (long long)i, name,
                       why);
    }
    return DT_OK;
}
