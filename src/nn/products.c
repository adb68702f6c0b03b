/* The number of multiply-adds of a layer. */
#include "nn/convolution/conv_layers.h"

/* The extent of a convolution's output along an axis. */
static int64_t output_extent(const dt_conv_layer *l, int axis, int64_t extent)
{
    const dt_conv_options *o = &l->conv;
    const int64_t covered = o->dilation[axis] * (l->kernel[axis] - 1) + 1;
    const int64_t room = extent + 2 * o->padding[axis] - covered;
    return room < 0 ? 0 : room / o->stride[axis] + 1;
}

/* For a grouped weight. The index of experts, also an input, is not multiplied. */
static int64_t grouped_products(const dt_tensor *weight, const dt_tensor *x)
{
    return dt__is_float(x->dtype) ? 0 : x->count * weight->dims[1] * weight->dims[2];
}

/* A convolution multiplies the whole weight for every output pixel. A transposed convolution, or a
 * linear layer, multiplies each input value by the part of the weight of its channel. */
int64_t dt__module_products(const dt_module *m, const dt_tensor *x)
{
    const dt__conv_state *s = dt__conv_state_of(m);
    const dt__entry *weight = dt__entry_find(m, "weight");
    if (m->type == &dt__nn_grouped_linear) return grouped_products(weight->x, x);
    if (s == NULL && m->type != &dt__nn_linear && m->type != &dt__nn_router) return 0;
    if (s == NULL) return x->count / weight->x->dims[1] * weight->x->count;
    if (s->kind->transposed) return x->count / s->layer.in * weight->x->count;
    int64_t n = x->dims[0] * weight->x->count;
    for (int i = 0; i < s->kind->axes; i++) n *= output_extent(&s->layer, i, x->dims[2 + i]);
    return n;
}
