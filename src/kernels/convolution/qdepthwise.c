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
 * Rows of a canvas are ordered by `row % step`, so that rows which neighbouring rows of y read by
 * one tap are neighbours, and their width is a multiple of the columns' step. So rows of results
 * are one line, with a few positions between them that are computed and skipped. What surrounds
 * the inputs is the same for all channels of a sample, so it is written once for a block of
 * channels. */
#include "kernels/convolution/qconv.h"

#include "core/threads.h"
#include "kernels/products/copy_few.h"

#include <string.h>

#define MOST_OUTPUTS 8          /* outputs per channel, at most; beyond it a product is faster */
#define CANVAS (32 << 10)       /* bytes of a canvas, unless one row of y needs more */
#define MOST_CANVAS (256 << 10) /* of one row of y */
#define LINE (8 << 10)          /* results of a line, unless one row of y has more */
#define BLOCK 16                /* channels of a unit */
/* taps, fewer than which sums are exact as floats: 512 * 255 * 128 < 2^24 */
#define EXACT 512
/* multiply-adds that take as long as an element of a loop (dt__parallel) */
#define TOGETHER 8

typedef struct axis {
    int64_t in, out, taps, step, begin, every;
    int64_t first, apart; /* at(k) = first + k apart */
    int64_t reach;        /* the largest at(k) */
} axis;

/* The division of a problem into units, and the offsets in scratch. */
typedef struct plan {
    const dt__kernels *kernels;
    const dt__qconv *q;
    axis axis[2];
    int64_t outputs;             /* per channel */
    int64_t band, bands, blocks; /* rows of y per unit; bands per sample; blocks of channels */
    int64_t rows, width, size;   /* canvas rows per phase; bytes of a row; bytes of a canvas */
    int64_t across;              /* positions from one row of a line to the next */
    /* inputs skipped at the start of a row; canvas column of the next input; inputs on the
     * canvas */
    int64_t skipped, before, inputs;
    int64_t lists;      /* lists of words: one, or one per channel */
    dt__taps *word;     /* list i begins at i * columns */
    int32_t *length;    /* words of each group of scales, per list */
    int8_t *unpacked;   /* the weight's codes in the order of its panels */
    int8_t (*codes)[4]; /* and in the order of words; output o begins at o * columns */
    float *scale;
    uint8_t *own; /* one area per thread: a canvas, its row offsets at rows_at, a line at y_at */
    size_t own_bytes, rows_at, y_at;
    size_t sum_at, code_at, residual_at; /* offsets of a line each, if results are codes */
} plan;

/* ---- the plan -------------------------------------------------------------------------------- */

static axis axis_of(const dt__qconv *q, int i)
{
    const dt__conv *c = q->conv;
    const int64_t taps = c->kernel[i], reach = (taps - 1) * c->dilation[i];
    axis x = { .taps = taps, .reach = reach };
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
    return x;
}

/* Phases of a canvas's rows that are read, and rows of each for `rows` rows of y. */
static int64_t phases_of(const axis *x) { return dt__min_i64(x->step, x->reach + 1); }
static int64_t rows_of(const axis *x, int64_t rows) { return rows + x->reach / x->step; }

/* Bytes of a canvas's row. */
static int64_t width_of(const axis *x)
{
    return dt__round_up((x->out - 1) * x->step + x->reach + 1, x->step);
}

/* Bytes of a canvas for `rows` rows of y; a double, since extents are unbounded. */
static double canvas_bytes(const axis *a, int64_t rows)
{
    return (double)phases_of(&a[0]) * (double)rows_of(&a[0], rows) * (double)width_of(&a[1]);
}

/* Computes which inputs of a row lie on a canvas. */
static void choose_inputs(plan *p)
{
    const axis *x = &p->axis[1];
    p->skipped = x->begin < 0 ? dt__ceil_div(-x->begin, x->every) : 0;
    p->before = x->begin + p->skipped * x->every;
    const int64_t room = dt__ceil_div(dt__max_i64(0, p->width - p->before), x->every);
    p->inputs = dt__max_i64(0, dt__min_i64(x->in - p->skipped, room));
}

static plan plan_of(const dt__kernels *kernels, const dt__qconv *q)
{
    plan p = { .kernels = kernels, .q = q };
    for (int i = 0; i < 2; i++) p.axis[i] = axis_of(q, i);
    const axis *a = p.axis;
    const int64_t all = a[0].out;
    p.outputs = q->layout->rows / q->conv->groups;
    p.width = width_of(&a[1]);
    p.across = p.width / a[1].step;
    const double of_row = canvas_bytes(a, 2) - canvas_bytes(a, 1);
    const double fit = 1 + (CANVAS - canvas_bytes(a, 1)) / (of_row < 1 ? 1 : of_row);
    const int64_t lines = LINE / dt__max_i64(1, p.across);
    p.band = dt__max_i64(1, dt__min_i64(dt__min_i64(all, lines), fit > 1 ? (int64_t)fit : 1));
    p.bands = dt__ceil_div(all, p.band);
    p.blocks = dt__ceil_div(q->conv->groups, BLOCK);
    p.rows = rows_of(&a[0], p.band);
    p.size = phases_of(&a[0]) * p.rows * p.width + DT__DEPTHWISE_ROUND * a[1].step + DT__TAPS_READ;
    p.lists = q->layout->order == NULL ? 1 : q->conv->groups;
    choose_inputs(&p);
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
    return a[0].out > 0 && a[1].out > 0 && a[1].step <= DT__TAPS_STEP &&
           canvas_bytes(a, 1) <= MOST_CANVAS;
}

static size_t add_room(size_t *total, int64_t bytes)
{
    const size_t at = *total;
    *total += dt__scratch_part((size_t)bytes);
    return at;
}

static size_t lay_out(plan *p)
{
    const dt__qconv *q = p->q;
    const dt__panel_layout *l = q->layout;
    const int64_t real = sizeof(float);
    uint8_t *scratch = q->scratch;
    size_t shared = 0;
    const int64_t lists = p->lists, word = sizeof *p->word, count = sizeof *p->length;
    const size_t words = add_room(&shared, lists * l->columns * word);
    const size_t length = add_room(&shared, lists * l->groups * count);
    const size_t unpacked = add_room(&shared, l->rows * l->columns);
    const size_t codes = add_room(&shared, l->rows * l->columns * (int64_t)sizeof *p->codes);
    const size_t scale = add_room(&shared, l->rows * l->groups * real);
    add_room(&p->own_bytes, p->size);
    p->rows_at = add_room(&p->own_bytes, p->axis[0].in * (int64_t)sizeof(int64_t));
    const int64_t line = p->band * p->across + DT__DEPTHWISE_ROUND;
    p->y_at = add_room(&p->own_bytes, line * real);
    if (q->codes != NULL) {
        p->sum_at = add_room(&p->own_bytes, line * (int64_t)sizeof(int32_t));
        p->code_at = add_room(&p->own_bytes, line);
        p->residual_at = add_room(&p->own_bytes, line);
    }
    if (scratch != NULL) {
        p->word = (dt__taps *)(void *)(scratch + words);
        p->length = (int32_t *)(void *)(scratch + length);
        p->unpacked = (int8_t *)(scratch + unpacked);
        p->codes = (int8_t(*)[4])(scratch + codes);
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

/* ---- words ----------------------------------------------------------------------------------- */

/* Where position 0 reads tap k on the canvas. */
static int64_t place_of(const plan *p, int64_t tap)
{
    const axis *rows = &p->axis[0], *columns = &p->axis[1];
    const int64_t y = rows->first + tap / columns->taps * rows->apart;
    const int64_t x = columns->first + tap % columns->taps * columns->apart;
    return (y % rows->step * p->rows + y / rows->step) * p->width + x;
}

/* Makes a word of the columns from `first` on that lie near enough to each other. Returns their
 * number. */
static int64_t make_word(const plan *p, const int32_t *order, int64_t first, int64_t past,
                         dt__taps *word)
{
    const int64_t near = DT__TAPS_NEAR(p->axis[1].step);
    int64_t place[4], low = INT64_MAX, high = 0, n;
    for (n = 0; n < 4 && first + n < past; n++) {
        place[n] = place_of(p, order == NULL ? first + n : order[first + n]);
        if (n > 0 && (place[n] > low + near || place[n] < high - near)) break;
        low = dt__min_i64(low, place[n]);
        high = dt__max_i64(high, place[n]);
    }
    *word = (dt__taps){ .offset = (int32_t)low };
    for (int k = 0; k < n; k++) word->at[k] = (uint8_t)(place[k] - low);
    return n;
}

/* Makes the words of a list's columns `first` ... `past - 1`, with the codes of all outputs that
 * use the list. Returns the number of words. */
static int32_t make_words(const plan *p, int64_t list, int64_t first, int64_t past, int64_t word)
{
    const dt__panel_layout *l = p->q->layout;
    const int32_t *order = dt__panel_order(l, list * p->outputs);
    const int64_t rows = l->rows / p->lists, before = word;
    for (int64_t i = first, n; i < past; i += n, word++) {
        n = make_word(p, order, i, past, &p->word[list * l->columns + word]);
        for (int64_t row = list * rows; row < (list + 1) * rows; row++) {
            int8_t *codes = p->codes[row * l->columns + word];
            memset(codes, 0, sizeof *p->codes);
            memcpy(codes, p->unpacked + row * l->columns + i, (size_t)n);
        }
    }
    return (int32_t)(word - before);
}

static void prepare(const plan *p)
{
    const dt__panel_layout *l = p->q->layout;
    dt__panel_layout places = *l; /* the order of columns that the words follow */
    places.order = NULL;
    const dt__code_matrix to = { p->unpacked, l->columns, p->scale, l->groups };
    dt__panel_unpack(&places, p->q->panels, &to);
    for (int64_t i = 0; p->q->codes != NULL && i < l->rows * l->groups; i++) p->scale[i] = 1;
    for (int64_t list = 0; list < p->lists; list++) {
        int32_t *length = p->length + list * l->groups;
        for (int64_t group = 0, word = 0; group < l->groups; word += length[group++]) {
            const int64_t first = group * l->group;
            const int64_t past = dt__min_i64(l->columns - first, l->group) + first;
            length[group] = make_words(p, list, first, past, word);
        }
    }
}

/* ---- canvases -------------------------------------------------------------------------------- */

/* The canvas offset of each input row that rows of y from `row` on read; -1: not on the canvas. */
static void place_rows(const plan *p, int64_t row, int64_t *place)
{
    const axis *x = &p->axis[0];
    for (int64_t i = 0; i < x->in; i++) {
        const int64_t a = x->begin + i * x->every - row * x->step;
        const bool read = a >= 0 && a % x->step < phases_of(x) && a / x->step < p->rows;
        place[i] = read ? (a % x->step * p->rows + a / x->step) * p->width : -1;
    }
}

static void draw(const plan *p, const int64_t *place, const uint8_t *u, uint8_t *canvas)
{
    const int64_t every = p->axis[1].every;
    u += p->skipped;
    for (int64_t i = 0; i < p->axis[0].in; i++, u += p->axis[1].in) {
        if (place[i] < 0) continue;
        uint8_t *to = canvas + place[i] + p->before;
        if (every == 1) dt__copy_few(to, u, p->inputs);
        else
            for (int64_t k = 0; k < p->inputs; k++) to[k * every] = u[k];
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
    for (int64_t i = 0; i < rows; i++) dt__copy_few(u + i * columns, r.u + i * p->across, columns);
    if (r.residual == NULL) return;
    int8_t *to = c->residual + at->n * p->q->layout->rows * plane + first;
    for (int64_t i = 0; i < rows; i++) {
        dt__copy_few(to + i * columns, r.residual + i * p->across, columns);
    }
}

/* Computes rows `row` ... of output channel o from a canvas. */
static void run_channel(const plan *p, dt__qdepthwise *d, const results *at)
{
    const int64_t o = at->o, row = at->row;
    const dt__qconv *q = p->q;
    const dt__panel_layout *l = q->layout;
    const int64_t rows = dt__min_i64(p->band, p->axis[0].out - row), n = p->axis[1].out;
    d->n = (rows - 1) * p->across + n;
    const int64_t list = p->lists == 1 ? 0 : o / p->outputs;
    d->length = p->length + list * l->groups;
    d->word = p->word + list * l->columns;
    d->codes = (const int8_t(*)[4])p->codes + o * l->columns;
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
        dt__copy_few(image + (row + i) * n, d->y + i * p->across, n * (int64_t)sizeof *image);
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
                         .step = p->axis[1].step,
                         .groups = q->layout->groups,
                         .zu = (float)q->zu[n],
                         .sx = q->codes != NULL ? 1 : q->sx[n],
                         .y = (float *)(void *)(own + p->y_at) };
    place_rows(p, row, place);
    memset(own, q->zu[n], (size_t)p->size);
    for (int64_t g = block * BLOCK; g < past; g++) {
        draw(p, place, q->u + n * q->ldu + g * image, own);
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
    /* positions of one canvas, so products are small */
    const int64_t positions = p.band * p.axis[1].out;
    const int64_t work = positions * BLOCK * p.outputs * q->layout->columns / TOGETHER;
    dt__parallel(q->conv->batch * p.bands * p.blocks, 1 + work, run_units, &p);
}
