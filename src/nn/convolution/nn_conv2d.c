/* 2d convolution: src/nn/convolution/conv_layers.c. */
#include "nn/convolution/conv_layers.h"

DT__CONV_LAYER(conv2d, 2, false,
               "convolution of signals [channels, length] or images [channels, "
               "height, width]",
               DT__CONV_KEYS("conv2d", DT_KEY_PAIR))

DT__CONV_CASES(conv2d, DT__LIST(0, 0), 0.250000000, 6, 5)
DT__LAYER_CASES(conv2d, cases)
