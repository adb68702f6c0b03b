/* 1d transposed convolution: src/nn/convolution/conv_layers.c. */
#include "nn/convolution/conv_layers.h"

DT__CONV_LAYER(conv_transpose1d, 1, true, "transposed convolution of signals or images",
               DT__CONV_KEYS("conv_transpose1d", DT_KEY_INT),
               { "output_padding", DT_KEY_INT,
                 DT__CONV_EXTENT(output_padding, 0, "0", "zeros added at the end of y") })

DT__CONV_CASES(conv_transpose1d, DT__LIST(1, 0), 0.288675135, 6)
DT__LAYER_CASES(conv_transpose1d, cases)
