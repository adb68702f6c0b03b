/* Depthwise convolutions of integer codes, a channel of a sample at a time.
 *
 * A canvas holds the channel's codes with the code of zero around them, and between them for a
 * transposed convolution. Along an axis
 *
 *     position o, tap k reads canvas[o step + at(k)];  input i is canvas[begin + i every]
 *
 *                     step      at(k)                      begin                           every
 *     convolution     stride    k dilation                 padding                         1
 *     transposed      1         (taps - 1 - k) dilation    (taps - 1) dilation - padding   stride
 *
 * Element a of an axis is kept as element a / step of phase a % step. So neighbouring positions
 * read neighbouring bytes at every stride, and rows of results are one line, with a few positions
 * between them that are computed and skipped. What surrounds the inputs is the same for all
 * channels of a sample, so it is written once for a block of channels. */
#include "kernels/convolution/qdepthwise.h"

#include "core/threads.h"
#include "kernels/products/copy_few.h"

#include <string.h>

#define MOST_OUTPUTS 8          /* per channel; for more, a product is faster */
#define CANVAS (32 << 10)       /* bytes of a canvas, unless one row of y needs more */
#define MOST_CANVAS (256 << 10) /* of one row of y */
#define LINE (8 << 10)          /* results of a line, unless one row of y has more */
#define BLOCK 16                /* channels of a unit */
#define PARTED 16               /* bytes of even places of a row, and of odd ones; behind a phase */
#define EXACT 512               /* taps whose sums, below 512 * 255 * 128, are exact as floats */
#define TOGETHER 8              /* multiply-adds in the time of an element of a loop */

typedef struct axis {
    int64_t in, out, taps, step, begin, every;
    int64_t apart;                /* at(k) = first + k apart */
    int64_t first, phases, extra; /* phases that are read; elements of a phase beyond the outputs */
} axis;

/* Inputs from `first` to below `past`, which are in a phase from element `at` on: every
 * `from`-th of them, n in all, at every `to`-th element. */
typedef struct run {
    int64_t first, past, from, n, to, at;
} run;

/* The division of a problem into units, and the offsets in scratch. */
typedef struct plan {
    const dt__kernels *kernels;
    const dt__qconv *q;
    axis axis[2];
    int64_t outputs;                  /* of a channel */
    int64_t band, bands, blocks;      /* rows of y of a unit; units of a sample */
    int64_t width, rows, phase, size; /* bytes of a row; rows and bytes of a phase; of a canvas */
    int64_t *offset;                  /* of each tap; for channel g + g * apart */
    int64_t apart;                    /* 0: the same for all channels */
    run *runs;                        /* of each phase of columns */
    int8_t *codes;                    /* of the weight, as rows */
    float *scale;
    uint8_t *own; /* the threads' parts: a canvas, places of its rows at rows_at, a line at y_at */
    size_t own_bytes, rows_at, y_at;
    size_t sum_at, code_at, residual_at; /* of results that are codes: a line of each */
} plan;

/* ---- the plan -------------------------------------------------------------------------------- */

static axis axis_of(const dt__qconv *q, int i)
{
    const dt__conv *c = q->conv;
    const int64_t taps = c->kernel[i], reach = (taps - 1) * c->dilation[i];
    axis x = { .taps = taps };
    if (q->transposed) {
        x.in = c->y_size[i];
        x.out = c->x_size[i];
        x.step = 1;
        x.begin = reach - c->padding[i];
        x.every = c->stride[i];
        x.first = reach;
        x.apart = -c->dilation[i];
    } else {
        x.in = c->x_size[i];
        x.out = c->y_size[i];
        x.step = c->stride[i];
        x.begin = c->padding[i];
        x.every = 1;
        x.apart = c->dilation[i];
    }
    x.phases = dt__min_i64(x.step, reach + 1);
    x.extra = reach / x.step;
    return x;
}

/* Bytes of a canvas for `rows` rows of y: a double, since extents are unbounded. */
static double canvas_bytes(const axis *a, int64_t rows)
{
    return (double)(a[0].phases * a[1].phases) * (double)(rows + a[0].extra) *
           (double)(a[1].out + a[1].extra);
}

static plan plan_of(const dt__kernels *kernels, const dt__qconv *q)
{
    plan p = { .kernels = kernels, .q = q };
    for (int i = 0; i < 2; i++) p.axis[i] = axis_of(q, i);
    const axis *a = p.axis;
    const int64_t all = a[0].out;
    p.outputs = q->layout->rows / q->conv->groups;
    p.width = a[1].out + a[1].extra;
    const double of_row = canvas_bytes(a, 2) - canvas_bytes(a, 1);
    const double fit = 1 + (CANVAS - canvas_bytes(a, 1)) / (of_row < 1 ? 1 : of_row);
    const int64_t lines = LINE / dt__max_i64(1, p.width);
    p.band = dt__max_i64(1, dt__min_i64(dt__min_i64(all, lines), fit > 1 ? (int64_t)fit : 1));
    p.bands = dt__ceil_div(all, p.band);
    p.blocks = dt__ceil_div(q->conv->groups, BLOCK);
    p.rows = p.band + a[0].extra;
    p.phase = p.rows * p.width + PARTED;
    p.size = a[0].phases * a[1].phases * p.phase;
    p.apart = q->layout->order == NULL ? 0 : q->layout->columns;
    return p;
}

bool dt__qdepthwise_takes(const dt__qconv *q)
{
    const dt__conv *c = q->conv;
    const int64_t in = (q->transposed ? c->out : c->in) / c->groups;
    const int64_t outputs = (q->transposed ? c->in : c->out) / c->groups;
    const int64_t most = q->codes != NULL ? EXACT : DT__PIECE;
    if (in != 1 || outputs > MOST_OUTPUTS || q->layout->columns > most) return false;
    const axis a[2] = { axis_of(q, 0), axis_of(q, 1) };
    return a[0].out > 0 && a[1].out > 0 && canvas_bytes(a, 1) <= MOST_CANVAS;
}

static size_t add_room(size_t *total, int64_t bytes)
{
    const size_t at = *total;
    *total += (size_t)dt__round_up(bytes, DT__ALIGNMENT);
    return at;
}

static size_t lay_out(plan *p)
{
    const dt__qconv *q = p->q;
    const dt__panel_layout *l = q->layout;
    const int64_t word = sizeof(int64_t), real = sizeof(float);
    uint8_t *scratch = q->scratch;
    size_t shared = 0;
    const int64_t lists = p->apart == 0 ? 1 : q->conv->groups;
    const size_t offset = add_room(&shared, lists * l->columns * word);
    const size_t runs = add_room(&shared, p->axis[1].phases * (int64_t)sizeof *p->runs);
    const size_t codes = add_room(&shared, l->rows * l->columns);
    const size_t scale = add_room(&shared, l->rows * l->groups * real);
    add_room(&p->own_bytes, p->size + DT__DEPTHWISE_ROUND);
    p->rows_at = add_room(&p->own_bytes, p->axis[0].in * word);
    const int64_t line = p->band * p->width + DT__DEPTHWISE_ROUND;
    p->y_at = add_room(&p->own_bytes, line * real);
    if (q->codes != NULL) {
        p->sum_at = add_room(&p->own_bytes, line * (int64_t)sizeof(int32_t));
        p->code_at = add_room(&p->own_bytes, line);
        p->residual_at = add_room(&p->own_bytes, line);
    }
    if (scratch != NULL) {
        p->offset = (int64_t *)(void *)(scratch + offset);
        p->runs = (run *)(void *)(scratch + runs);
        p->codes = (int8_t *)(scratch + codes);
        p->scale = (float *)(void *)(scratch + scale);
        p->own = scratch + shared;
    }
    return shared + p->own_bytes * (size_t)q->threads;
}

size_t dt__qdepthwise_scratch(const dt__qconv *q)
{
    dt__qconv without = *q;
    without.scratch = NULL;
    plan p = plan_of(NULL, &without);
    return lay_out(&p);
}

static int64_t offset_of(const plan *p, int64_t tap)
{
    const axis *rows = &p->axis[0], *columns = &p->axis[1];
    const int64_t y = rows->first + tap / columns->taps * rows->apart;
    const int64_t x = columns->first + tap % columns->taps * columns->apart;
    const int64_t phase = y % rows->step * columns->phases + x % columns->step;
    return phase * p->phase + y / rows->step * p->width + x / columns->step;
}

/* The inputs of a canvas's columns in the given phase, all of them on the canvas. */
static run run_of(const plan *p, int64_t phase)
{
    const axis *x = &p->axis[1];
    run r = { .from = x->step, .to = x->every };
    r.first = x->begin < 0 ? dt__ceil_div(-x->begin, x->every) : 0;
    r.first += ((phase - x->begin - r.first * x->every) % x->step + x->step) % x->step;
    r.at = (x->begin + r.first * x->every) / x->step;
    const int64_t room = r.at < p->width ? dt__ceil_div(p->width - r.at, x->every) : 0;
    r.past = dt__min_i64(x->in, r.first + room * x->step);
    r.n = dt__max_i64(0, dt__ceil_div(r.past - r.first, r.from));
    return r;
}

/* Finds the taps' offsets, in the column order of the weight, and unpacks its codes. */
static void prepare(const plan *p)
{
    const dt__panel_layout *l = p->q->layout;
    for (int64_t g = 0; g < (p->apart == 0 ? 1 : p->q->conv->groups); g++) {
        const int32_t *order = dt__panel_order(l, g * p->outputs);
        int64_t *to = p->offset + g * p->apart;
        for (int64_t i = 0; i < l->columns; i++) to[i] = offset_of(p, order == NULL ? i : order[i]);
    }
    for (int64_t i = 0; i < p->axis[1].phases; i++) p->runs[i] = run_of(p, i);
    dt__panel_layout places = *l; /* with the order that the offsets follow */
    places.order = NULL;
    const dt__code_matrix to = { p->codes, l->columns, p->scale, l->groups };
    dt__panel_unpack(&places, p->q->panels, &to);
    for (int64_t i = 0; p->q->codes != NULL && i < l->rows * l->groups; i++) p->scale[i] = 1;
}

/* ---- canvases -------------------------------------------------------------------------------- */

/* Bytes from `PARTED - n` on select the first n of PARTED bytes. */
static const uint8_t kept[2 * PARTED] = { 255, 255, 255, 255, 255, 255, 255, 255,
                                          255, 255, 255, 255, 255, 255, 255, 255 };

/* The first n bytes of `from`, then zeros' code. Compilers vectorize loops of this form. */
static inline void put(uint8_t *to, const uint8_t *from, int64_t n, uint8_t zero)
{
    const uint8_t *keep = kept + PARTED - dt__max_i64(0, dt__min_i64(PARTED, n));
    uint8_t y[PARTED];
#pragma omp simd
    for (int k = 0; k < PARTED; k++) y[k] = (uint8_t)(zero ^ ((from[k] ^ zero) & keep[k]));
    memcpy(to, y, PARTED);
}

/* Where bytes of a row go: runs of its even and odd places, and the code of zero, which is behind
 * both. */
typedef struct parting {
    const run *even, *odd;
    uint8_t *to_even, *to_odd;
    uint8_t zero;
} parting;

/* Writes a row by blocks of PARTED bytes. What lies behind a row is border, or a row that is drawn
 * later, or the room between phases. Reads nothing from `end` on. */
static void part_row(const uint8_t *row, const uint8_t *end, const parting *p)
{
    const int64_t n = p->even->n, m = p->odd->n;
    for (int64_t i = 0; i < n || i < m; i += PARTED) {
        uint8_t even[PARTED], odd[PARTED], last[2 * PARTED] = { 0 };
        const uint8_t *from = row + 2 * i;
        if (end - from < 2 * PARTED) from = memcpy(last, from, (size_t)(end - from));
#pragma omp simd
        for (int k = 0; k < PARTED; k++) {
            even[k] = from[2 * k];
            odd[k] = from[2 * k + 1];
        }
        put(p->to_even + p->even->at + i, even, n - i, p->zero);
        put(p->to_odd + p->odd->at + i, odd, m - i, p->zero);
    }
}

static void draw_run(const run *r, const uint8_t *from, uint8_t *to)
{
    const int64_t n = r->past - r->first;
    const uint8_t *x = from + r->first;
    uint8_t *y = to + r->at;
    if (r->from == 1 && r->to == 1) {
        dt__copy_few(y, x, n);
    } else {
        for (int64_t i = 0; i < n; i += r->from, y += r->to) *y = x[i];
    }
}

/* Where each input row is in the canvas of rows of y from `row` on; -1: nowhere. */
static void place_rows(const plan *p, int64_t row, int64_t *place)
{
    const axis *x = &p->axis[0];
    for (int64_t i = 0; i < x->in; i++) {
        const int64_t a = x->begin + i * x->every - row * x->step;
        const bool read = a >= 0 && a % x->step < x->phases && a / x->step < p->rows;
        const int64_t phase = a % x->step * p->axis[1].phases;
        place[i] = read ? phase * p->phase + a / x->step * p->width : -1;
    }
}

/* With a stride of two both phases of a row are written at once. */
static void draw_twos(const plan *p, const int64_t *place, const uint8_t *u, uint8_t zero,
                      uint8_t *canvas)
{
    const int64_t in = p->axis[1].in, even = p->runs[0].first % 2, odd = 1 - even;
    const uint8_t *end = u + p->axis[0].in * in + DT__STEP;
    parting to = { .even = &p->runs[even], .odd = &p->runs[odd], .zero = zero };
    for (int64_t i = 0; i < p->axis[0].in; i++) {
        if (place[i] < 0) continue;
        to.to_even = canvas + place[i] + even * p->phase;
        to.to_odd = canvas + place[i] + odd * p->phase;
        part_row(u + i * in, end, &to);
    }
}

static void draw(const plan *p, const int64_t *place, const uint8_t *u, uint8_t zero,
                 uint8_t *canvas)
{
    if (p->axis[1].step == 2 && p->axis[1].phases == 2) {
        draw_twos(p, place, u, zero, canvas);
        return;
    }
    for (int64_t phase = 0; phase < p->axis[1].phases; phase++) {
        const run *r = &p->runs[phase];
        uint8_t *to = canvas + phase * p->phase;
        if (r->past <= r->first) continue;
        for (int64_t i = 0; i < p->axis[0].in; i++) {
            if (place[i] >= 0) draw_run(r, u + i * p->axis[1].in, to + place[i]);
        }
    }
}

/* ---- units ----------------------------------------------------------------------------------- */

static float ksum_of(const dt__qconv *q, int64_t row)
{
    const uint8_t *panel =
        (const uint8_t *)q->panels + (size_t)(row / DT__LANES) * q->layout->panel_bytes;
    return ((const float *)(const void *)panel)[row % DT__LANES];
}

/* Where rows of results go: in y, or in the images of codes. */
typedef struct results {
    int64_t n, o, row; /* sample, output channel, first row */
    uint8_t *own;
} results;

/* Requantizes the line of sums in d->y and copies its rows to the images of codes. */
static void write_codes(const plan *p, const dt__qdepthwise *d, const results *at, int64_t rows)
{
    const dt__qconv_codes *c = p->q->codes;
    const int64_t columns = p->axis[1].out, plane = p->axis[0].out * columns;
    const int64_t first = at->o * plane + at->row * columns;
    int32_t *sum = (int32_t *)(void *)(at->own + p->sum_at);
    for (int64_t i = 0; i < d->n; i++) sum[i] = (int32_t)d->y[i];
    const dt__requantizing r = {
        .n = d->n,
        .sum = sum,
        .offset = c->offset[at->o],
        .by = c->by[at->o],
        .zero = c->zero,
        .least = c->least,
        .most = c->most,
        .u = at->own + p->code_at,
        .residual = c->residual == NULL ? NULL : (int8_t *)(at->own + p->residual_at),
    };
    p->kernels->requantize(&r);
    uint8_t *u = c->u + at->n * c->ldu + first;
    for (int64_t i = 0; i < rows; i++) dt__copy_few(u + i * columns, r.u + i * p->width, columns);
    if (r.residual == NULL) return;
    int8_t *to = c->residual + at->n * p->q->layout->rows * plane + first;
    for (int64_t i = 0; i < rows; i++) {
        dt__copy_few(to + i * columns, r.residual + i * p->width, columns);
    }
}

/* Rows `row` ... of output channel o, from a canvas. */
static void run_channel(const plan *p, dt__qdepthwise *d, const results *at)
{
    const int64_t o = at->o, row = at->row;
    const dt__qconv *q = p->q;
    const dt__panel_layout *l = q->layout;
    const int64_t rows = dt__min_i64(p->band, p->axis[0].out - row), n = p->axis[1].out;
    d->n = (rows - 1) * p->width + n;
    d->offset = p->offset + o / p->outputs * p->apart;
    d->codes = p->codes + o * l->columns;
    d->scale = p->scale + o * l->groups;
    d->ksum = q->codes != NULL ? 0 : ksum_of(q, o);
    d->bias = q->bias == NULL ? NULL : q->bias + o;
    p->kernels->qd8_depthwise(d);
    if (q->codes != NULL) {
        write_codes(p, d, at, rows);
        return;
    }
    float *image = q->y + (at->n * l->rows + o) * p->axis[0].out * n;
    for (int64_t i = 0; i < rows; i++) {
        dt__copy_few(image + (row + i) * n, d->y + i * p->width, n * (int64_t)sizeof *image);
    }
}

static void run_unit(const plan *p, int64_t unit, uint8_t *own)
{
    const dt__qconv *q = p->q;
    const int64_t block = unit % p->blocks, band = unit / p->blocks % p->bands;
    const int64_t n = unit / p->blocks / p->bands, row = band * p->band;
    const int64_t groups = q->conv->groups, past = dt__min_i64(groups, (block + 1) * BLOCK);
    const int64_t image = p->axis[0].in * p->axis[1].in;
    int64_t *place = (int64_t *)(void *)(own + p->rows_at);
    dt__qdepthwise d = { .u = own,
                         .taps = q->layout->columns,
                         .group = q->layout->group,
                         .zu = (float)q->zu[n],
                         .sx = q->codes != NULL ? 1 : q->sx[n],
                         .y = (float *)(void *)(own + p->y_at) };
    place_rows(p, row, place);
    memset(own, q->zu[n], (size_t)(p->size + DT__DEPTHWISE_ROUND));
    for (int64_t g = block * BLOCK; g < past; g++) {
        draw(p, place, q->u + n * q->ldu + g * image, (uint8_t)q->zu[n], own);
        for (int64_t o = g * p->outputs; o < (g + 1) * p->outputs; o++) {
            run_channel(p, &d, &(results){ n, o, row, own });
        }
    }
}

static void run_units(const void *args, const dt__share *s)
{
    const plan *p = args;
    uint8_t *own = p->own + p->own_bytes * (size_t)s->thread;
    for (int64_t i = s->first; i < s->past; i++) run_unit(p, i, own);
}

void dt__qdepthwise_run(const dt__kernels *kernels, const dt__qconv *q)
{
    plan p = plan_of(kernels, q);
    lay_out(&p);
    prepare(&p);
    const int64_t positions = p.band * p.axis[1].out; /* a canvas's, so products are small */
    const int64_t work = positions * BLOCK * p.outputs * q->layout->columns / TOGETHER;
    dt__parallel(q->conv->batch * p.bands * p.blocks, 1 + work, run_units, &p);
}
