/* Windows of convolutions and pools. */
#ifndef DT__IO_ONNX_WINDOW_H
#define DT__IO_ONNX_WINDOW_H

#include "io/onnx/onnx.h"

#define DT__ONNX_AXES 3

/* A window along each of the spatial dimensions. */
typedef struct dt__onnx_window {
    int axes;
    int64_t kernel[DT__ONNX_AXES], stride[DT__ONNX_AXES], dilation[DT__ONNX_AXES];
    int64_t before[DT__ONNX_AXES], after[DT__ONNX_AXES], output_padding[DT__ONNX_AXES];
} dt__onnx_window;

/* A list attribute with a number for each axis; `fallback` if it is absent. */
dt_status dt__onnx_window_list(dt__onnx *g, const char *name, int axes, int64_t fallback,
                               int64_t *out);
/* Reads the attributes of a node whose axes and kernel are known, for an input [channels, ...]. */
dt_status dt__onnx_read_window(dt__onnx *g, const dt_shape *x, dt__onnx_window *w);
/* Padding SAME: ceil(n / stride) windows; an odd element is behind x if `upper`. */
void dt__onnx_pad_same(dt__onnx_window *w, const dt_shape *x, bool upper);
/* Number of windows along axis i of an input; below 1: none. */
int64_t dt__onnx_windows(const dt__onnx *g, const dt_shape *x, const dt__onnx_window *w, int i);
/* Refuses a result whose extents are not these. */
dt_status dt__onnx_check_extents(dt__onnx *g, const dt_shape *x, const dt__onnx_window *w,
                                 const dt_shape *y);
/* Pads x with `value` for a layer that supports only equal padding on both sides; sets the window's
 * padding to 0. */
dt_status dt__onnx_pad_before(dt__onnx *g, dt__onnx_window *w, double value, dt__onnx_layer **x);
bool dt__onnx_is_even(const dt__onnx_window *w);
/* Sets a layer's window. Padding of a convolution must be equal on both sides; of a pool, that
 * before is used. */
void dt__onnx_conv_window(dt_conv_item *o, const dt__onnx_window *w);
void dt__onnx_pool_window(dt_pool_options *o, const dt__onnx_window *w);

#endif
