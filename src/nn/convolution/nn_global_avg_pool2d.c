/* Global average pooling of images: [N, C, H, W] to [N, C, 1, 1]. */
#include "nn/convolution/pool_layers.h"

DT__GLOBAL_POOL_LAYER(global_avg_pool2d, "mean of each channel, with extents 1",
                      DT__LIST(1, 2, 2, 2), DT__LIST(2, 3, 4, 5))
DT__LAYER_CASES(global_avg_pool2d, cases)
