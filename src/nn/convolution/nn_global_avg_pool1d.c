/* Global average pooling of signals: [N, C, L] to [N, C, 1]. */
#include "nn/convolution/pool_layers.h"

DT__GLOBAL_POOL_LAYER(global_avg_pool1d, "mean of each channel, with extents 1", DT__LIST(1, 2, 4),
                      DT__LIST(2, 3, 7))
DT__LAYER_CASES(global_avg_pool1d, cases)
