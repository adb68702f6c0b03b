/* Batch norm over all dimensions of [N, C, H, W] but the channels': batch_norm_layers.c. */
#include "nn/convolution/batch_norm_layers.h"

DT__BATCH_NORM_LAYER(batch_norm2d, "batch norm of each channel, dimension 1",
                     dt__want_example_rank(ctx, "batch_norm2d", x, 3))

DT__BATCH_NORM_CASES(batch_norm2d, DT__GIVEN(DT__LIST(1, 2, 2, 2), 1, 3, 1, 3, 5, 5, 7, 7),
                     DT__LIST(-1, 3, -1, 3, -4, -4, 2, 2), DT__LIST(1, 3, 1, 3, -1, -1, 5, 5),
                     DT__LIST(2, 2, 3, 4), DT__LIST(4, 3, 2, 2))
DT__LAYER_CASES(batch_norm2d, cases)
