/* The memory from which rows of a convolution's codes are gathered: axes and canvases.
 *
 * A canvas is a group's padded images: the code of zero is around them (for a transposed
 * convolution also between the pixels, and images are mirrored), so that all taps are inside:
 *
 *     position o, tap k of an axis    canvas[first + o * step + k * apart]
 *     input i                         canvas[begin + i * every]
 *
 *                     first      step      apart       begin             every
 *     convolution     0          stride    dilation    padding           1
 *     transposed      out - 1    -1        dilation    out - 1 + padding  -stride
 *
 * Neighbouring taps ascend in a canvas, so a row of the kernel is one piece if dilation is 1. */
#ifndef DT__KERNELS_QCONV_GATHER_H
#define DT__KERNELS_QCONV_GATHER_H

#include "kernels/qconv.h"

typedef struct dt__axis {
    int64_t in, out, taps;
    int64_t first, step, apart, begin, every;
    int64_t length; /* of a canvas that covers all positions */
} dt__axis;

/* Axis 0 (rows) or 1 (columns) of a problem. */
dt__axis dt__axis_of(const dt__qconv *q, int axis);
/* The index of the input at position a of a canvas; -1: none, the code of zero. */
int64_t dt__axis_input(const dt__axis *x, int64_t a);

/* A part of a canvas: all its columns, rows from `row0` on, of each channel of a group. */
typedef struct dt__canvas {
    uint8_t *bytes;
    int64_t row0, rows, width; /* rows of a channel; bytes of a row */
} dt__canvas;

/* Fills the part from the images of `channels` channels, the first at u. `axes` are rows and
 * columns. */
void dt__canvas_draw(const dt__axis *axes, int64_t channels, const uint8_t *u, int zero,
                     const dt__canvas *to);

#endif
