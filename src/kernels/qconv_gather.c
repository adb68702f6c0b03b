/* Axes and canvases of convolutions of codes (qconv_gather.h). */
#include "kernels/qconv_gather.h"

#include <string.h>

dt__axis dt__axis_of(const dt__qconv *q, int axis)
{
    const dt__conv *c = q->conv;
    dt__axis x = { .taps = c->kernel[axis], .apart = c->dilation[axis] };
    const int64_t reach = (x.taps - 1) * x.apart + 1;
    if (q->transposed) {
        x.in = c->y_size[axis];
        x.out = c->x_size[axis];
        x.first = x.out - 1;
        x.step = -1;
        x.begin = x.out - 1 + c->padding[axis];
        x.every = -c->stride[axis];
        x.length = x.out - 1 + reach;
    } else {
        x.in = c->x_size[axis];
        x.out = c->y_size[axis];
        x.step = c->stride[axis];
        x.begin = c->padding[axis];
        x.every = 1;
        x.length = (x.out - 1) * x.step + reach;
    }
    return x;
}

int64_t dt__axis_input(const dt__axis *x, int64_t a)
{
    const int64_t i = (a - x->begin) / x->every;
    return i >= 0 && i < x->in && x->begin + i * x->every == a ? i : -1;
}

/* ---- canvases -------------------------------------------------------------------------------- */

/* Fills one row of a canvas: an image's row, padded by the code of zero. */
static void draw_row(const dt__axis *x, const uint8_t *from, int zero, uint8_t *to)
{
    if (x->every != 1) {
        memset(to, zero, (size_t)x->length);
        for (int64_t i = 0, a = x->begin; i < x->in; i++, a += x->every) {
            if (a >= 0 && a < x->length) to[a] = from[i];
        }
        return;
    }
    const int64_t before = dt__min_i64(x->begin, x->length);
    const int64_t n = dt__min_i64(x->in, x->length - before);
    memset(to, zero, (size_t)before);
    memcpy(to + before, from, (size_t)n);
    memset(to + before + n, zero, (size_t)(x->length - before - n));
}

void dt__canvas_draw(const dt__axis *axes, int64_t channels, const uint8_t *u, int zero,
                     const dt__canvas *to)
{
    const dt__axis *rows = &axes[0], *columns = &axes[1];
    uint8_t *row = to->bytes;
    for (int64_t c = 0; c < channels; c++, u += rows->in * columns->in) {
        for (int64_t a = to->row0; a < to->row0 + to->rows; a++, row += to->width) {
            const int64_t i = dt__axis_input(rows, a);
            if (i < 0) memset(row, zero, (size_t)to->width);
            else draw_row(columns, u + i * columns->in, zero, row);
        }
    }
}
