/* Convolutions of floats whose sums have a defined order (numerics §2): from 0, over k = channel *
 * taps + tap ascending, each term by a fused multiply-add; then the bias is added. Padding, and the
 * gaps between pixels in a transposed convolution, are terms with x = 0.
 *
 * A unit of work is COLUMNS positions of the result of one group of a sample: their terms are
 * gathered, DEPTH at a time, as a matrix that the kernel `gemm` multiplies by the group's
 * weights. */
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/convolution/float_convs.h"

#include <string.h>

#define DEPTH 256
#define COLUMNS 64

/* A convolution as products: a group has `in` channels of the operand x and `out` of the result. */
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

static int64_t product_room(const ordered_work *o)
{
    const dt__gemm g = { .m = o->out, .n = COLUMNS, .k = dt__min_i64(o->depth, DEPTH) };
    const dt__gemm_room room = dt__gemm_room_of(&g);
    return dt__gemm_elements(&room);
}

static int64_t turned_room(const ordered_work *o)
{
    return dt__round_up(o->c->groups * o->out * o->depth, 16);
}

int64_t dt__ordered_conv_room(const dt__conv_work *w, int threads)
{
    const ordered_work o = work_of(w);
    return (o.transposed ? turned_room(&o) : 0) + product_room(&o) * threads;
}

/* Reorders w[group][in][out][tap] to [group][out][in][tap]. */
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

/* Where a tap of an axis reads x: for position t of the result at (t * scale + start) / step, if
 * step divides the numerator. */
typedef struct tap_line {
    int64_t scale, start, step;
    int64_t end; /* extent of x */
} tap_line;

static tap_line tap_line_of(const ordered_work *o, int axis, int64_t tap)
{
    const dt__conv *c = o->c;
    const int64_t reach = tap * c->dilation[axis], pad = c->padding[axis], stride = c->stride[axis];
    return o->transposed ? (tap_line){ 1, pad - reach, stride, o->x_size[axis] }
                         : (tap_line){ stride, reach - pad, 1, o->x_size[axis] };
}

/* The index in x; -1: outside, or in a gap between pixels. */
static int64_t place_of(const tap_line *l, int64_t t)
{
    const int64_t at = t * l->scale + l->start;
    return at >= 0 && at % l->step == 0 && at / l->step < l->end ? at / l->step : -1;
}

/* to[j] = what a tap reads in one row of x for columns first ... first+n-1 of the result, if x has
 * no gaps (step 1). */
static void read_line(const tap_line *l, const float *row, int64_t first, int64_t n, float *to)
{
    const int64_t scale = l->scale, start = first * scale + l->start;
    int64_t j = 0;
    for (; j < n && start + j * scale < 0; j++) to[j] = 0;
    if (scale == 1) {
        const int64_t past = dt__max_i64(j, dt__min_i64(n, l->end - start));
        for (; j < past; j++) to[j] = row[start + j];
    } else {
        for (; j < n && start + j * scale < l->end; j++) to[j] = row[start + j * scale];
    }
    for (; j < n; j++) to[j] = 0;
}

/* The same with gaps. */
static void read_apart(const tap_line *l, const float *row, int64_t first, int64_t n, float *to)
{
    int64_t j = 0;
    memset(to, 0, (size_t)n * sizeof *to);
    while (j < n && place_of(l, first + j) < 0) j++;
    if (j == n) return;
    for (int64_t at = place_of(l, first + j); j < n && at < l->end; j += l->step) to[j] = row[at++];
}

/* The first of a unit's positions. */
typedef struct corner {
    int64_t row, column;
} corner;

/* What a tap reads in one plane of x for n positions from c on. */
static void gather_term(const ordered_work *o, const tap_line line[2], const float *plane, corner c,
                        int64_t n, float *to)
{
    for (int64_t i = 0; i < n; c = (corner){ c.row + 1, 0 }) {
        const int64_t count = dt__min_i64(o->y_size[1] - c.column, n - i);
        const int64_t from = place_of(&line[0], c.row);
        if (from < 0) {
            memset(to + i, 0, (size_t)count * sizeof *to);
        } else {
            const float *row = plane + from * o->x_size[1];
            (line[1].step == 1 ? read_line : read_apart)(&line[1], row, c.column, count, to + i);
        }
        i += count;
    }
}

/* Gathers terms p ... p+depth-1, rows of COLUMNS floats. */
static void gather(const ordered_work *o, const float *x, int64_t p, int64_t depth, corner c,
                   int64_t n, float *to)
{
    int64_t channel = p / o->taps, tap = p % o->taps;
    for (int64_t k = 0; k < depth; k++, to += COLUMNS) {
        const tap_line line[2] = { tap_line_of(o, 0, tap / o->c->kernel[1]),
                                   tap_line_of(o, 1, tap % o->c->kernel[1]) };
        gather_term(o, line, x + channel * o->x_size[0] * o->x_size[1], c, n, to);
        if (++tap < o->taps) continue;
        tap = 0;
        channel++;
    }
}

/* Computes positions t ... t+n-1 of group g of a sample. */
static void multiply(const ordered_work *o, const dt__kernels *kernels, const float *x, int64_t g,
                     int64_t t, int64_t n, float *y, float *room)
{
    float terms[DEPTH * COLUMNS];
    const int64_t plane = o->y_size[0] * o->y_size[1];
    const corner first = { t / o->y_size[1], t % o->y_size[1] };
    for (int64_t p = 0; p < o->depth; p += DEPTH) {
        const int64_t depth = dt__min_i64(DEPTH, o->depth - p);
        gather(o, x, p, depth, first, n, terms);
        kernels->gemm(&(dt__gemm){ .m = o->out,
                                   .n = n,
                                   .k = depth,
                                   .a = o->w + g * o->out * o->depth + p,
                                   .lda = o->depth,
                                   .b = terms,
                                   .ldb = COLUMNS,
                                   .accumulate = p > 0,
                                   .c = y + t,
                                   .ldc = plane,
                                   .alone = true,
                                   .scratch = room });
    }
    for (int64_t r = 0; r < o->out && o->bias != NULL; r++) {
        for (int64_t i = 0; i < n; i++) y[r * plane + t + i] += o->bias[g * o->out + r];
    }
}

/* Units of work, which threads share: a block of positions of a group of a sample. */
typedef struct units {
    const ordered_work *o;
    const dt__kernels *kernels;
    const float *x;
    float *room;
    int64_t product; /* elements of a thread's part of room */
} units;

static int64_t blocks_of(const ordered_work *o)
{
    return dt__ceil_div(o->y_size[0] * o->y_size[1], COLUMNS);
}

static void share(const void *args, const dt__share *s)
{
    const units *w = args;
    const ordered_work *o = w->o;
    const int64_t plane = o->y_size[0] * o->y_size[1], blocks = blocks_of(o);
    const int64_t from = o->in * o->x_size[0] * o->x_size[1];
    for (int64_t u = s->first; u < s->past; u++) {
        const int64_t at = u / blocks, t = u % blocks * COLUMNS;
        multiply(o, w->kernels, w->x + at * from, at % o->c->groups, t,
                 dt__min_i64(COLUMNS, plane - t), o->y + at * o->out * plane,
                 w->room + w->product * s->thread);
    }
}

void dt__ordered_conv(const dt__kernels *kernels, const dt__conv_work *w, const float *x,
                      float *room)
{
    ordered_work o = work_of(w);
    if (o.transposed) {
        o.w = turn_weight(&o, room);
        room += turned_room(&o);
    }
    const units all = { &o, kernels, x, room, product_room(&o) };
    const int64_t work = COLUMNS * o.depth * (2 + o.out / 16);
    dt__parallel(o.c->batch * o.c->groups * blocks_of(&o), work, share, &all);
}
