/* Windows over one or two dimensions, of convolutions and pools. */
#ifndef DT__IO_ONNX_INTERPRET_WINDOW_H
#define DT__IO_ONNX_INTERPRET_WINDOW_H

#include "io/onnx/interpret/interpret.h"

#define DT__VERIFY_WINDOW                                                                          \
    "auto_pad dilations group kernel_shape pads strides ceil_mode count_include_pad "              \
    "storage_order output_padding output_shape "

/* For an operand [n, c, h, w]; with one dimension h is 1. Index 0: h, 1: w. */
typedef struct dt__verify_window {
    int rank; /* 1 or 2 */
    int64_t batch, channels;
    int64_t in[2], out[2];
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2];
} dt__verify_window;

/* Reads attributes for the operand and kernel extents `kernel` (NULL: from attribute kernel_shape).
 * The result's extents are those of a convolution or pool (with ceil_mode), or with `transposed` of
 * ConvTranspose. */
dt_status dt__verify_window_of(const dt__verify_call *c, const int64_t *kernel, bool transposed,
                               dt__verify_window *w);
/* Makes result 0 with `channels` planes. */
dt_status dt__verify_window_make(dt__verify_call *c, const dt__verify_window *w, int64_t channels,
                                 dt__verify_type type, dt__verify_value **out);

#endif
