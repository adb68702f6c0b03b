/* The rows of a convolution of codes: axes, canvases and gathering.
 *
 * Along an axis position t of phase p is output p + t * phases, and its tap k reads input
 *
 *                     phases    step      input of tap k
 *     convolution     1         stride    t * stride - padding + k * dilation
 *     transposed      stride    1         t + (p + padding - k * dilation) / stride, if it divides
 *
 * so that a transposed convolution is one convolution for each phase, with the taps that read
 * pixels there. A canvas is a group's images with the code of zero around them; it begins with
 * input `low` of position 0 and contains all inputs that taps read. */
#ifndef DT__KERNELS_QCONV_GATHER_H
#define DT__KERNELS_QCONV_GATHER_H

#include "kernels/convolution/qconv.h"

typedef struct dt__axis {
    int64_t in, out, taps;
    int64_t phases, step, stride, padding, dilation;
    bool transposed;
    /* the first and last input that position 0 reads, over all phases and taps */
    int64_t low, high;
} dt__axis;

/* Axis 0 (rows) or 1 (columns) of a problem. */
dt__axis dt__axis_of(const dt__qconv *q, int axis);
/* Whether tap k of a phase reads inputs; then *input is the input that it reads at position 0. */
bool dt__axis_tap(const dt__axis *x, int64_t phase, int64_t k, int64_t *input);
/* Number of positions of a phase; phase 0 has the most. */
int64_t dt__axis_positions(const dt__axis *x, int64_t phase);

/* A part of a canvas: all columns, the input rows from `row0` on, of each channel of a group. */
typedef struct dt__canvas {
    uint8_t *bytes;
    int64_t row0, rows, width; /* rows of a channel; bytes of a row */
    /* s > 1, a divisor of width: column j of a row is at j % s * (width / s) + j / s. */
    int64_t phases;
} dt__canvas;

/* Fills the part from the images of `channels` channels, the first at u. `axes` are rows and
 * columns. */
void dt__canvas_draw(const dt__axis *axes, int64_t channels, const uint8_t *u, int zero,
                     const dt__canvas *to);

/* How words are gathered for one phase and, if columns have an order, one group. Columns that read
 * no input at this phase are left out. */
typedef struct dt__conv_words {
    int64_t words;
    int32_t *length; /* words of each piece */
    int32_t *place;  /* [words][4]: places of their columns in the panels; -1: none */
    int32_t *first;  /* as dt__gathering */
    dt__taps *part;
} dt__conv_words;

/* What the lists of words depend on. */
typedef struct dt__conv_words_of {
    const dt__axis *axis;
    const dt__panel_layout *layout;
    int64_t row; /* an output channel, which determines the order of its columns */
    int64_t phase[2];
    int64_t width, plane; /* of the canvas */
    bool all;             /* keeps all columns, and finds no parts */
} dt__conv_words_of;

/* The most words of a phase; *columns: the most columns. */
int64_t dt__conv_words_most(const dt__conv_words_of *of, int64_t *columns);
/* Fills the lists of w, whose sizes are those of dt__conv_words_most: words + 1, and columns. */
void dt__conv_words_find(const dt__conv_words_of *of, dt__conv_words *w);

#endif
