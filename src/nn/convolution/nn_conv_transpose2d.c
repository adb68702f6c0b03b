/* 2d transposed convolution: src/nn/convolution/conv_layers.c. */
#include "nn/convolution/conv_layers.h"

DT__CONV_LAYER(conv_transpose2d, 2, true, "transposed convolution of signals or images",
               DT__CONV_KEYS("conv_transpose2d", DT_KEY_PAIR),
               { "output_padding", DT_KEY_PAIR,
                 DT__CONV_EXTENT(output_padding, 0, "0", "zeros added at the end of y") })

DT__CONV_CASES(conv_transpose2d, DT__LIST(1, 2), 0.204124145, 6, 5)
DT__LAYER_CASES(conv_transpose2d, cases)
