/* 1d convolution: src/nn/convolution/conv_layers.c. */
#include "nn/convolution/conv_layers.h"

DT__CONV_LAYER(conv1d, 1, false,
               "convolution of signals [channels, length] or images [channels, "
               "height, width]",
               DT__CONV_KEYS("conv1d", DT_KEY_INT))

DT__CONV_CASES(conv1d, DT__LIST(0, 0), 0.353553391, 6)
DT__LAYER_CASES(conv1d, cases)
