/* The weights that an integer network can have (numerics §8): int8 by channel everywhere; int4
 * where CMSIS-NN supports it. */
#include "qat/device/device_plan.h"

#include "nn/convolution/conv_layers.h"

#include <stdio.h>

/* Why a layer cannot have int4 weights by channel; NULL: it can. */
static const char *bars_int4(const dt_module *m)
{
    const dt__conv_state *s = dt__conv_state_of(m);
    if (s == NULL) return NULL;
    const dt_conv_options *o = &s->layer.conv;
    if (s->kind->transposed) return "a transposed convolution has no int4 weights on a device";
    if (o->groups == 1) return NULL;
    if (o->groups != s->layer.in) return "a grouped convolution has no int4 weights on a device";
    const bool odd = s->layer.in % 2 != 0, dilated = o->dilation[0] > 1 || o->dilation[1] > 1;
    return odd && (dilated || s->layer.out > s->layer.in)
               ? "a depthwise convolution of an odd number of channels with dilation or a "
                 "multiplier has no int4 weights on a device"
               : NULL;
}

void dt__device_weight_spec(const dt_module *m, dt_quant_spec *spec)
{
    if (spec->bits != 4) return;
    if (m->type == &dt__nn_linear) spec->granularity = DT_PER_TENSOR;
    else if (bars_int4(m) != NULL) spec->bits = 8;
}

bool dt__device_takes(const dt_module *m, const dt_quant_spec *spec, char why[DT__DEVICE_BAR])
{
    const bool linear = m->type == &dt__nn_linear;
    const char *bar = spec->bits == 4 ? bars_int4(m) : NULL;
    if (spec->scheme != DT_SCHEME_NARROW || spec->range != DT_RANGE_DYNAMIC) {
        bar = "weights on a device have scheme narrow and range dynamic";
    } else if (spec->bits != 4 && spec->bits != 8) {
        bar = "weights on a device have 4 or 8 bits";
    } else if (spec->granularity != DT_PER_CHANNEL && spec->granularity != DT_PER_TENSOR) {
        bar = "weights on a device have a scale for each channel, or one";
    } else if (linear && spec->bits == 4 && spec->granularity == DT_PER_CHANNEL) {
        bar = "int4 weights of a linear layer have one scale on a device (granularity tensor)";
    } else if (spec->scale_dtype != DT_SCALE_F32) {
        bar = "scales on a device are f32";
    }
    if (bar != NULL) snprintf(why, DT__DEVICE_BAR, "%s", bar);
    return bar == NULL;
}

bool dt__device_holds(const dt__device *d, const dt_module *m)
{
    for (int64_t i = 0; i < d->n; i++) {
        if (d->node[i].m == m) return true;
    }
    return false;
}

bool dt__device_observes(const dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        const dt__quantizer *q = dt__quantizer_of(d->node[i].range);
        if (q != NULL && q->count != NULL) return true;
    }
    return false;
}

void dt__device_fix(const dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        if (d->node[i].range != NULL) dt__quantizer_fix(d->node[i].range);
    }
}
