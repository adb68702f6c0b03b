/* Prepares the model of a quantized file with the file's scales: weights have the file's codes, and
 * inputs of layers its ranges. */
#include "io/onnx/onnx.h"
#include "qat/given.h"

#include <stdio.h>
#include <string.h>

static bool has_zeros(const dt__onnx_codes *q)
{
    bool any = false;
    for (int64_t i = 0; i < q->scales; i++) any |= q->zero[i] != 0;
    return any;
}

/* One scale per output channel; groups of a transposed convolution repeat them. */
static dt_status give_channels(dt__onnx *g, const dt__onnx_codes *q, int64_t rows, dt__given *out)
{
    float *scale = dt__onnx_memory(g, rows, sizeof *scale);
    int8_t *zero = dt__onnx_memory(g, rows, 1);
    if (scale == NULL || zero == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < rows; i++) {
        scale[i] = q->scale[i % q->scales];
        zero[i] = q->zero[i % q->scales];
    }
    out->scale = scale;
    out->zero = zero;
    out->scales = rows;
    return DT_OK;
}

/* Scales of a weight [rows, columns / taps, taps] with blocks along axis 1. */
static void give_blocks(const dt__onnx_codes *q, int64_t taps, dt__given *out)
{
    out->quant.granularity = DT_PER_GROUP;
    out->quant.group_size = q->block * taps;
}

static dt_status give_weight(dt__onnx *g, const dt__onnx_layer *l, dt_module *own)
{
    const dt__onnx_codes *q = l->codes;
    const dt_tensor *w = dt_param(own, "weight");
    if (w == NULL) return dt_error_status(g->ctx);
    const bool transposed = strncmp(l->type->item.name, "conv_transpose", 14) == 0;
    dt__given given = { .quant = dt__given_weight_spec(q->bits, has_zeros(q)),
                        .scales = q->scales,
                        .scale = q->scale,
                        .zero = q->zero };
    int64_t taps = 1;
    for (int i = 2; i < dt_rank(w); i++) taps *= dt_dim(w, i);
    if (q->axis < 0) {
        given.quant.granularity = DT_PER_TENSOR;
    } else if (q->axis == 1 && q->block > 0 && !transposed && taps == 1) {
        give_blocks(q, taps, &given);
    } else if (q->axis == (transposed ? 1 : 0) && q->block == 0) {
        const int64_t rows = transposed ? ((const dt_conv_item *)l->options)->out : dt_dim(w, 0);
        DT__TRY(give_channels(g, q, rows, &given));
    } else {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "its scales along dimension %d have no counterpart here", q->axis);
    }
    return dt__give_weight(own, &given);
}

static dt_status give_input(const dt__onnx_codes *q, dt_module *own)
{
    const dt__given given = { .quant = dt__given_input_spec(q->bits, q->scale == NULL),
                              .scales = 1,
                              .scale = q->scale,
                              .zero = q->zero };
    return dt__give_input(own, &given);
}

static dt_status give_layer(dt__onnx *g, const dt__onnx_layer *l, dt_module *m)
{
    char text[DT__MESSAGE_SIZE];
    if (l->codes == NULL && l->input == NULL) return DT_OK;
    dt_module *own = dt_module_at(m, l->name);
    if (own == NULL) return dt_error_status(g->ctx);
    dt_status s = l->codes == NULL ? DT_OK : give_weight(g, l, own);
    if (s == DT_OK && l->input != NULL) s = give_input(l->input, own);
    if (s == DT_OK || s == DT_ERR_NOMEM) return s;
    snprintf(text, sizeof text, "%s", dt_error(g->ctx));
    return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                   "%s: %s: %s. --float imports the values of its integers", g->file->path, l->name,
                   text);
}

dt_status dt__onnx_prepare(dt__onnx *g, dt_module *m)
{
    int64_t weights = 0, inputs = 0;
    for (int64_t i = 0; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        if (!l->live || l->type == NULL) continue;
        weights += l->codes != NULL;
        inputs += l->input != NULL;
        if (!g->options->floats) DT__TRY(give_layer(g, l, m));
    }
    if (weights + inputs == 0) return DT_OK;
    dt__say(g->ctx,
            g->options->floats
                ? "%s: integers of %lld weights became floats; %lld ranges of inputs are left out"
                : "%s: %lld weights have the file's integers and %lld inputs its ranges",
            g->file->path, (long long)weights, (long long)inputs);
    return DT_OK;
}
