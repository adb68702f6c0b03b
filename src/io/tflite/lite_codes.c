/* Gives the scales of a TFLite file to the model made from it: device presets compute what TFLite's
 * int8 kernels compute, so with the file's scales the model has its codes. */
#include "io/tflite/lite_import.h"

#include "qat/device/device_becomes.h"
#include "qat/device/device_plan.h"
#include "qat/given.h"

#include <math.h>
#include <string.h>

static dt_status give_weight(dt__lite_import *m, const dt__onnx_layer *l, dt_module *model)
{
    dt_module *own = dt_module_at(model, l->name);
    const dt__onnx_codes *q = l->codes;
    if (own == NULL) return dt_error_status(m->g->ctx);
    dt__given given = { .quant = dt__given_weight_spec(q->bits, false),
                        .scales = q->scales,
                        .scale = q->scale };
    given.quant.scheme = DT_SCHEME_NARROW;
    given.quant.granularity = q->scales == 1 ? DT_PER_TENSOR : DT_PER_CHANNEL;
    return dt__give_weight(own, &given);
}

/* The layer before a relu or relu6 that may be a clamp; any other layer itself. */
static const dt__onnx_layer *clamped(const dt__lite_import *m, const dt__onnx_layer *l)
{
    const char *kind = l->type == NULL ? "" : l->type->item.name;
    const bool clamps = strcmp(kind, "relu") == 0 || strcmp(kind, "relu6") == 0;
    return clamps ? m->g->layer[l->from[0]] : l;
}

/* The node that computes the result of a layer, or of the layer that it clamps; NULL: none. A
 * reshape that is not live was merged into a later reshape, which has the same input. */
static const dt__plan_node *node_of(const dt__lite_import *m, const dt__device *d,
                                    const dt__onnx_layer *l)
{
    const dt__plan_node *found = NULL;
    if (l->node == NULL) return &d->node[l->index]; /* inputs come first in both lists */
    if (!l->live) return node_of(m, d, m->g->layer[l->from[0]]);
    const dt_module *own = dt_module_at(d->m, l->name);
    for (int64_t i = 0; i < d->n; i++) {
        if (d->node[i].m == own) found = &d->node[i];
    }
    const dt__onnx_layer *before = clamped(m, l);
    return found == NULL && before != l ? node_of(m, d, before) : found;
}

static dt_status refuse(const dt__lite_import *m, int64_t tensor, double scale, int zero)
{
    const dt__vlite_tensor *t = &m->v->tensor[tensor];
    const char *name = m->place[tensor].layer->name;
    return dt_fail(m->g->ctx, DT_ERR_UNSUPPORTED,
                   "%s: tensor %lld (%s) has the scale %g and the zero point %d, but its codes are "
                   "those of %g and %d: an operator that changes scales is not read",
                   m->g->file->path, (long long)tensor, name, (double)t->scale[0], t->zero[0],
                   scale, zero);
}

/* Results that share a range in the model must have the same scale in the file. */
static dt_status give_range(dt__lite_import *m, const dt__device *d, int64_t tensor)
{
    const dt__vlite_tensor *t = &m->v->tensor[tensor];
    const dt__plan_node *node = node_of(m, d, m->place[tensor].source);
    if (node == NULL) return refuse(m, tensor, 0, 0);
    const dt__plan_node *holder = dt__device_holder(d, DT__PLAN_FIRST + (node - d->node));
    const dt__coding_range fixed = dt__fixed_range(holder->op);
    float scale = fixed.scale;
    int zero = fixed.zero;
    if (holder->range != NULL) { /* otherwise the range is fixed */
        const dt__quantizer *q = dt__quantizer_of(holder->range);
        const dt__given given = { .quant = q->quant,
                                  .scales = 1,
                                  .scale = t->scale,
                                  .zero = &(int8_t){ (int8_t)t->zero[0] } };
        if (!dt__quantizer_has_seen(q)) return dt__give_scales(holder->range, &given);
        scale = *(const float *)dt_data(q->scale);
        zero = *(const int8_t *)dt_data(q->zero_point);
    }
    return scale == t->scale[0] && zero == t->zero[0] ? DT_OK
                                                      : refuse(m, tensor, (double)scale, zero);
}

/* Gives a layer's constant operand its range, and checks that all of its codes are those of the
 * file. */
static dt_status give_constant(dt__lite_import *m, const dt__device *d, const dt__onnx_layer *l,
                               float scale, int zero)
{
    const dt_module *own = dt_module_at(d->m, l->name);
    for (int64_t i = 0; i < d->n; i++) {
        const dt__plan_node *node = &d->node[i];
        if (node->m != own || node->constant == NULL) continue;
        const dt__given given = { .quant = dt__quantizer_of(node->range)->quant,
                                  .scales = 1,
                                  .scale = &scale,
                                  .zero = &(int8_t){ (int8_t)zero } };
        return dt__give_scales(node->range, &given);
    }
    return dt_fail(m->g->ctx, DT_ERR_UNSUPPORTED, "%s: %s has no constant that codes stand for",
                   m->g->file->path, l->name);
}

/* For x - c the layer adds -c: with the zero point -1 - z, its codes are -1 - q. */
static dt_status give_operand(dt__lite_import *m, const dt__device *d, const dt__vlite_op *o,
                              const dt__onnx_layer *l)
{
    for (int k = 0; k < 2 && k < o->n_in; k++) {
        const dt__vlite_tensor *t = o->in[k] < 0 ? NULL : &m->v->tensor[o->in[k]];
        if (t == NULL || !t->constant) continue;
        const int zero = o->code == DT__VLITE_SUB ? -1 - t->zero[0] : t->zero[0];
        DT__TRY(give_constant(m, d, l, t->scale[0], zero));
    }
    return DT_OK;
}

static dt_status give_constants(dt__lite_import *m, const dt__device *d)
{
    for (int64_t i = 0; i < m->v->ops; i++) {
        const dt__vlite_op *o = &m->v->op[i];
        const bool pair = o->code == DT__VLITE_ADD || o->code == DT__VLITE_SUB ||
                          o->code == DT__VLITE_MUL || o->code == DT__VLITE_PRELU;
        if (!pair && o->code != DT__VLITE_LEAKY_RELU) continue;
        const dt__lite_place *p = &m->place[o->out[0]];
        if (p->layer == NULL || !p->layer->live) continue;
        if (pair) DT__TRY(give_operand(m, d, o, clamped(m, p->source)));
        else DT__TRY(give_constant(m, d, p->source, o->real != 0 ? fabsf(o->real) : 1, 0));
    }
    return DT_OK;
}

dt_status dt__lite_prepare(dt__lite_import *m, dt_module *model)
{
    const dt__onnx *g = m->g;
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = DT_DEVICE_INT8;
    DT__TRY(dt_prepare(model, &qat));
    dt__device *d = dt__device_of(model);
    for (int64_t i = 0; i < g->n_layers; i++) {
        if (g->layer[i]->live && g->layer[i]->codes != NULL) {
            DT__TRY(give_weight(m, g->layer[i], model));
        }
    }
    for (int64_t i = 0; i < m->v->tensors; i++) {
        const dt__lite_place *p = &m->place[i];
        if (p->layer == NULL || !p->layer->live || m->v->tensor[i].type != DT__VLITE_I8) continue;
        if (!dt__vlite_is_coded(&m->v->tensor[i])) {
            return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: tensor %lld is int8 without a scale",
                           g->file->path, (long long)i);
        }
        DT__TRY(give_range(m, d, i));
    }
    DT__TRY(give_constants(m, d));
    DT__TRY(dt__device_check_ranges(d, "import"));
    d->frozen = true;
    if (m->moved > 0) {
        dt__say(g->ctx, "%s: %lld biases have more than 24 bits; they are the nearest floats",
                g->file->path, (long long)m->moved);
    }
    /* if a scale were coarsened, codes would differ from the file's */
    DT__TRY(dt__device_probe(d, false));
    return dt__device_probe(d, true);
}
