/* dt_set_backward: which layers multiply gradients as integers. The choice is a flag of the layer's
 * quantized weight, which its codes carry to the ops. */
#include "nn/convolution/conv_layers.h"
#include "nn/lists/graph.h"
#include "qat/derived_quant.h"
#include "qat/prepare.h"

/* The settings of a layer's quantized weight; NULL: it has none. */
static dt__fq *weight_of(const dt_module *m)
{
    return m->type->quantizable == DT_NOT_QUANTIZED ? NULL : dt__layer_quant(m);
}

/* Depthwise: each group has one input channel, and its gradients stay in floats. */
static bool is_depthwise(const dt_module *m)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    return conv != NULL && conv->layer.conv.groups > 1 && conv->layer.in == conv->layer.conv.groups;
}

static bool is_transposed(const dt_module *m)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    return conv != NULL && conv->kind->transposed;
}

/* The first or the last layer that can be quantized. */
static const dt_module *end_of(dt_module *m, bool last)
{
    const dt_module *end = NULL;
    DT__EACH_MODULE(layer, m) {
        if (layer->type->quantizable == DT_NOT_QUANTIZED) continue;
        end = layer;
        if (!last) return end;
    }
    return end;
}

static bool has_layer(dt_module *m) { return end_of(m, true) != NULL; }

/* Leaves a layer's backward in floats. With a tied weight this holds for all layers that share
 * it. */
static void leave_float(const dt_module *layer)
{
    dt__fq *fq = layer == NULL ? NULL : weight_of(layer);
    if (fq != NULL) fq->int8_backward = false;
}

/* Leaves the last layer, and the last layer before each output of a graph, in floats. The gradient
 * of a softmax is near 1 for the label and near 1/n for the other classes: codes of 7 bits would
 * round these to little or nothing. */
static void leave_last(dt_module *m)
{
    leave_float(end_of(m, true));
    for (int i = 0; i < dt__module_outputs(m); i++) {
        dt_module *node = dt__graph_end(m, i, has_layer);
        if (node != NULL) leave_float(end_of(node, true));
    }
}

dt_status dt_set_backward(dt_module *m, int backward)
{
    DT__NEED(dt_module_ctx(m), m);
    if (backward < DT_BACKWARD_FLOAT || backward > DT_BACKWARD_INT8_ALL) {
        return dt_fail(m->ctx, DT_ERR_ARG, "set_backward: %d is not one of the backward passes",
                       backward);
    }
    if (!dt_is_prepared(m)) {
        return dt_fail(m->ctx, DT_ERR_STATE, "set_backward: the model is not prepared");
    }
    DT__EACH_MODULE(layer, m) {
        dt__fq *fq = weight_of(layer);
        const bool chosen = backward == DT_BACKWARD_INT8 && dt__conv_state_of(layer) == NULL;
        if (fq != NULL) fq->int8_backward = chosen || backward == DT_BACKWARD_INT8_ALL;
    }
    leave_last(m);
    if (backward == DT_BACKWARD_INT8) leave_float(end_of(m, false));
    return DT_OK;
}

int dt_gradients_of(const dt_module *layer)
{
    if (layer == NULL) return 0;
    const dt__fq *fq = weight_of(layer);
    if (fq == NULL || !fq->int8_backward || is_depthwise(layer)) return DT_GRADIENTS_FLOAT;
    if (dt__real_of(&fq->quant) != NULL) return DT_GRADIENTS_FLOAT;
    const dt__input_hook *input = dt__input_hook_of(layer);
    const bool both = input != NULL && !input->simulated && !is_transposed(layer);
    return both ? DT_GRADIENTS_INT8 : DT_GRADIENTS_INT8_DX;
}
