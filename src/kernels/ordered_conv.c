/* Convolutions of floats whose sums have a stated order (numerics §2): from 0, over k = channel *
 * taps + tap ascending, each term by a fused multiply-add; then the bias is added. Padding, and in
 * a transposed convolution what lies between pixels, are terms with x = 0.
 *
 * A unit of work is COLUMNS positions of the result of one group of a sample: their terms are
 * gathered, DEPTH at a time, as a matrix that the kernel `ordered` multiplies by the group's
 * weights. */
#include "kernels/kernels.h"
#include "kernels/ordered_conv.h"

#include <string.h>

#define DEPTH 256
#define COLUMNS 64

/* A convolution as products: `in` channels of the operand x and `out` of the result, of a group. */
typedef struct ordered_work {
    const dt__conv *c;
    bool transposed;
    int64_t in, out, taps, depth; /* depth: in * taps */
    const int64_t *x_size, *y_size;
    const float *x, *w, *bias; /* w [groups out, depth] */
    float *y;
} ordered_work;

static ordered_work work_of(const dt__conv_work *w)
{
    const dt__conv *c = w->conv;
    const bool transposed = w->to_x != NULL;
    ordered_work o = { .c = c,
                       .transposed = transposed,
                       .in = (transposed ? c->out : c->in) / c->groups,
                       .out = (transposed ? c->in : c->out) / c->groups,
                       .taps = dt__conv_taps(c),
                       .x_size = transposed ? c->y_size : c->x_size,
                       .y_size = transposed ? c->x_size : c->y_size,
                       .w = w->w,
                       .bias = w->bias,
                       .y = transposed ? w->to_x : w->to_y };
    o.depth = o.in * o.taps;
    return o;
}

int64_t dt__ordered_conv_room(const dt__conv_work *w)
{
    const ordered_work o = work_of(w);
    return o.transposed ? w->conv->groups * o.out * o.depth : 0;
}

/* w[group][in][out][tap] as [group][out][in][tap]. */
static const float *turn_weight(const ordered_work *o, float *to)
{
    for (int64_t g = 0; g < o->c->groups; g++) {
        for (int64_t r = 0; r < o->out; r++) {
            for (int64_t i = 0; i < o->in; i++) {
                const float *from = o->w + ((g * o->in + i) * o->out + r) * o->taps;
                memcpy(to + ((g * o->out + r) * o->in + i) * o->taps, from,
                       (size_t)o->taps * sizeof *to);
            }
        }
    }
    return to;
}

/* Where tap k of an axis reads for position t of the result; -1: outside of x, or between its
 * pixels. */
static int64_t place_of(const ordered_work *o, int axis, int64_t t, int64_t k)
{
    const dt__conv *c = o->c;
    const int64_t reach = k * c->dilation[axis], pad = c->padding[axis], step = c->stride[axis];
    const int64_t at = o->transposed ? t + pad - reach : t * step - pad + reach;
    if (o->transposed && at % step != 0) return -1;
    const int64_t place = o->transposed ? at / step : at;
    return at >= 0 && place < o->x_size[axis] ? place : -1;
}

/* Term k of positions t ... t+n-1. */
static void gather_term(const ordered_work *o, const float *x, int64_t k, int64_t t, int64_t n,
                        float *to)
{
    const int64_t width = o->y_size[1], tap = k % o->taps;
    const float *plane = x + k / o->taps * (o->x_size[0] * o->x_size[1]);
    for (int64_t i = 0; i < n;) {
        const int64_t row = (t + i) / width, first = (t + i) % width;
        const int64_t count = dt__min_i64(width - first, n - i);
        const int64_t from = place_of(o, 0, row, tap / o->c->kernel[1]);
        for (int64_t j = 0; j < count; j++) {
            const int64_t at = from < 0 ? -1 : place_of(o, 1, first + j, tap % o->c->kernel[1]);
            to[i + j] = at < 0 ? 0 : plane[from * o->x_size[1] + at];
        }
        i += count;
    }
}

/* Positions t ... t+n-1 of group g of a sample. */
static void multiply(const ordered_work *o, const dt__kernels *kernels, const float *x, int64_t g,
                     int64_t t, int64_t n, float *y)
{
    float terms[DEPTH * COLUMNS];
    const int64_t plane = o->y_size[0] * o->y_size[1];
    for (int64_t r = 0; r < o->out; r++) memset(y + r * plane + t, 0, (size_t)n * sizeof *y);
    for (int64_t p = 0; p < o->depth; p += DEPTH) {
        const int64_t depth = dt__min_i64(DEPTH, o->depth - p);
        for (int64_t k = 0; k < depth; k++) gather_term(o, x, p + k, t, n, terms + k * COLUMNS);
        kernels->ordered(&(dt__ordered){ .m = o->out,
                                         .n = n,
                                         .k = depth,
                                         .a = o->w + g * o->out * o->depth + p,
                                         .lda = o->depth,
                                         .b = terms,
                                         .ldb = COLUMNS,
                                         .c = y + t,
                                         .ldc = plane });
    }
    for (int64_t r = 0; r < o->out && o->bias != NULL; r++) {
        for (int64_t i = 0; i < n; i++) y[r * plane + t + i] += o->bias[g * o->out + r];
    }
}

void dt__ordered_conv(const dt__kernels *kernels, const dt__conv_work *w, const float *x,
                      float *room)
{
    ordered_work o = work_of(w);
    if (o.transposed) o.w = turn_weight(&o, room);
    const int64_t plane = o.y_size[0] * o.y_size[1], groups = o.c->groups;
    const int64_t blocks = dt__ceil_div(plane, COLUMNS), units = o.c->batch * groups * blocks;
    const int64_t from = o.in * o.x_size[0] * o.x_size[1];
#pragma omp parallel for schedule(static) if (units > 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t at = u / blocks, t = u % blocks * COLUMNS;
        multiply(&o, kernels, x + at * from, at % groups, t, dt__min_i64(COLUMNS, plane - t),
                 o.y + at * o.out * plane);
    }
}
