/* Batch norm over all dimensions of [N, C] or [N, C, L] but the channels':
 * src/nn/convolution/batch_norm_layers.c. */
#include "nn/convolution/batch_norm_layers.h"

DT__BATCH_NORM_LAYER(batch_norm1d, "batch norm of each channel, dimension 1",
                     x->rank < 1 ? dt__want_example_rank(ctx, "batch_norm1d", x, 1) : DT_OK)

DT__BATCH_NORM_CASES(batch_norm1d, DT__GIVEN(DT__LIST(4, 2), 1, 5, 3, 5, 1, 7, 3, 7),
                     DT__LIST(-1, -4, 3, -4, -1, 2, 3, 2), DT__LIST(1, -1, 3, -1, 1, 5, 3, 5),
                     DT__LIST(3, 2, 5), DT__LIST(4, 3))
DT__LAYER_CASES(batch_norm1d, cases)
