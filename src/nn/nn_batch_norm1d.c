/* Batch norm over all dimensions of [N, C] or [N, C, L] but the channels': src/nn/batch_norm_layers.c. */
#include "nn/batch_norm_layers.h"

const dt_module_type dt__nn_batch_norm1d = {
    .name = "batch_norm1d",
    .forward = dt__batch_norm_run,
    .fusion = &dt__batch_norm_fusion,
};

dt_status dt_batch_norm1d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                 dt_module **out)
{
    const dt__batch_norm_layer layer = { dt_batch_norm1d, momentum, eps };
    return dt__batch_norm_create(ctx, &dt__nn_batch_norm1d, channels, &layer, out);
}
