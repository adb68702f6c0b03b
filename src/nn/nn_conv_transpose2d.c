/* Transposed convolution of images: src/nn/conv_layers.c. */
#include "nn/conv_layers.h"

const dt_module_type dt__nn_conv_transpose2d = {
    .name = "conv_transpose2d",
    .forward = dt__conv_run,
    .quantizable = DT_QUANTIZED_BY_PRESET,
    .samples = true,
    .transposed_groups = dt__conv_groups,
};

static const dt__conv_kind kind = { &dt__nn_conv_transpose2d, dt_conv_transpose2d, 2, true };

dt_status dt_conv_transpose2d_create(dt_ctx *ctx, const dt_conv_layer *layer, dt_module **out)
{
    return dt__conv_create(ctx, &kind, layer, out);
}
