/* Convolutions of integer codes, tile by tile (qconv.h, qconv_gather.h).
 *
 * A unit of work is a band of rows of y of one sample, or several samples where images are small.
 * For each group its thread fills a canvas with codes; for each phase it gathers the words of up to
 * 96 positions from it and multiplies them with the group's outputs, which go to the images at
 * once. Groups of one channel (depthwise) have a loop of their own. */
#include "kernels/convolution/qconv.h"

#include "core/threads.h"
#include "kernels/products/copy_few.h"
#include "kernels/convolution/qconv_weight.h"

#define TILE DT__CODE_TILE    /* positions of a tile, at most */
#define TILE_BYTES (64 << 10) /* bytes of a tile, at most, if that leaves FEWEST positions */
#define FEWEST 32
#define BEHIND 16              /* words behind a tile's words that may be read */
#define CANVAS (128 << 10)     /* bytes of a canvas, unless one row of y needs more */
#define MOST_CANVAS (16 << 20) /* limit of a canvas; beyond it rows are gathered code by code */
#define MOST_PHASES 64         /* phases, at most; beyond it rows are gathered code by code */
/* multiply-adds that take as long as an element of a loop (dt__parallel) */
#define TOGETHER 32

/* A phase of the result's rows and columns. */
typedef struct phase {
    int64_t at[2];
    int64_t words;         /* words of a group, at most */
    dt__conv_words *lists; /* one per group if columns have an order, else one */
    uint8_t *w;            /* group g begins at g * octets * words */
    /* likewise, with `row` bytes per output; used if the set multiplies rows */
    uint8_t *rows;
    int64_t row;
    int32_t *absent; /* group g begins at g * octets * pieces; NULL: no column is left out */
} phase;

/* The division of a problem into units and tiles, and the parts of scratch. */
typedef struct plan {
    const dt__kernels *kernels;
    const dt__qconv *q;
    dt__axis axis[2];
    /* input channels, output channels, and octets of outputs, per group */
    int64_t in, out, octets;
    bool general;                        /* rows are gathered code by code */
    int64_t width, plane;                /* bytes of a canvas row, and of a channel */
    int64_t samples, band, bands, units; /* samples, rows of y per unit; bands per sample; units */
    int64_t tile;                        /* positions per tile */
    int64_t phases, lists;
    phase *phase;
    float *scale, *ksum; /* for all groups */
    /* one area of own_bytes per thread: a canvas, words at u_at, results at y_at */
    uint8_t *own;
    size_t own_bytes, u_at, y_at;
} plan;

/* Samples from `sample` on, and rows of a phase from `row` on. */
typedef struct unit {
    int64_t sample, samples, row, rows;
} unit;

/* The state of a thread that computes one group and phase of a unit. */
typedef struct worker {
    const plan *p;
    unit unit;
    int64_t group;
    const phase *phase;
    const dt__conv_words *words;
    uint8_t *canvas; /* with `general`: a single row */
    uint8_t *u;
    float *y;
    int runs;
    dt__tile_run run[TILE]; /* where the tile's results go */
    int64_t filled;         /* the sample that all elements of sx and zu belong to; -1: none */
    _Alignas(64) float sx[TILE], zu_f[TILE];
    _Alignas(64) int32_t zu[TILE];
    int64_t near; /* distance of neighbouring positions of a row; 0: too large for a quad */
    dt__gather_quad quad[TILE / 4];
} worker;

/* ---- the plan -------------------------------------------------------------------------------- */

/* Rows of a canvas that the positions of `rows` rows of a phase read. */
static int64_t canvas_rows(const plan *p, int64_t rows)
{
    const dt__axis *x = &p->axis[0];
    return (rows - 1) * x->step + x->high - x->low + 1;
}

/* A double, since extents are unbounded and an integer could overflow. */
static double canvas_size(const plan *p, int64_t rows)
{
    return (double)canvas_rows(p, rows) * (double)p->width * (double)p->in;
}

/* Chooses bands whose canvas is small, and enough units for all threads. */
static void choose_units(plan *p)
{
    const int64_t rows = dt__axis_positions(&p->axis[0], 0), batch = p->q->conv->batch;
    const int64_t positions = rows * dt__axis_positions(&p->axis[1], 0);
    const double size = p->general ? 0 : canvas_size(p, rows);
    p->samples = 1;
    p->band = rows;
    if (size > CANVAS) {
        p->band = dt__max_i64(1, (int64_t)((double)rows * CANVAS / size));
    } else if (positions < TILE) {
        const double fit = size > 0 ? CANVAS / size : TILE;
        p->samples = dt__min_i64(dt__ceil_div(TILE, positions), dt__max_i64(1, (int64_t)fit));
    }
    const int64_t blocks = dt__max_i64(1, dt__ceil_div(batch, p->samples));
    const int64_t wanted = dt__ceil_div(4 * (int64_t)p->q->threads, blocks);
    if (p->q->threads > 1 && wanted > 1) {
        p->band = dt__min_i64(p->band, dt__ceil_div(rows, dt__min_i64(rows, wanted)));
    }
    p->bands = dt__ceil_div(rows, p->band);
    p->units = dt__ceil_div(batch, p->samples) * p->bands;
}

static void choose_canvas(plan *p)
{
    dt__axis *rows = &p->axis[0], *columns = &p->axis[1];
    p->width =
        (dt__axis_positions(columns, 0) - 1) * columns->step + columns->high - columns->low + 1;
    if (canvas_size(p, 1) > MOST_CANVAS || rows->phases * columns->phases > MOST_PHASES) {
        p->general = true;
    }
    if (p->general) rows->phases = columns->phases = 1;
    p->phases = rows->phases * columns->phases;
    choose_units(p);
    p->plane = p->width * canvas_rows(p, p->band);
}

static dt__conv_words_of words_of(const plan *p, const phase *f, int64_t list)
{
    return (dt__conv_words_of){ .axis = p->axis,
                                .layout = p->q->layout,
                                .row = list * p->out,
                                .phase = { f->at[0], f->at[1] },
                                .width = p->width,
                                .plane = p->plane,
                                .all = p->general };
}

/* Reserves `bytes` of scratch; returns NULL while sizes are only counted. */
static void *take(const plan *p, size_t *total, int64_t bytes)
{
    return dt__scratch_take(p->q->scratch, total, bytes, 1);
}

/* Reserves the lists of a phase. Returns the most words of a position. */
static void lay_out_phase(plan *p, phase *f, size_t *total)
{
    const dt__panel_layout *l = p->q->layout;
    const int64_t octets = p->q->conv->groups * p->octets, word = sizeof(int32_t);
    const dt__conv_words_of of = words_of(p, f, 0);
    int64_t columns;
    f->words = dt__conv_words_most(&of, &columns);
    if (p->general) columns = 0;
    f->lists = take(p, total, p->lists * (int64_t)sizeof *f->lists);
    for (int64_t i = 0; i < p->lists; i++) {
        const dt__conv_words w = { .length = take(p, total, l->pieces * word),
                                   .place = take(p, total, f->words * 4 * word),
                                   .first = take(p, total, (f->words + 1) * word),
                                   .part = take(p, total, columns * (int64_t)sizeof *w.part) };
        if (f->lists != NULL) f->lists[i] = w;
    }
    f->w = take(p, total, octets * f->words * 4 * DT__OCTET);
    f->row = dt__tile_row_bytes(l, f->words);
    f->rows = take(p, total, octets * f->row * DT__OCTET);
    f->absent = NULL;
    if (p->phases > 1) f->absent = take(p, total, octets * l->pieces * DT__OCTET * word);
}

static size_t lay_out(plan *p)
{
    const dt__panel_layout *l = p->q->layout;
    const int64_t octets = p->q->conv->groups * p->octets, real = sizeof(float);
    int64_t words = 0;
    size_t shared = 0;
    p->phase = take(p, &shared, p->phases * (int64_t)sizeof *p->phase);
    for (int64_t i = 0; i < p->phases; i++) {
        phase f = { .at = { i / p->axis[1].phases, i % p->axis[1].phases } };
        lay_out_phase(p, &f, &shared);
        words = dt__max_i64(words, f.words);
        if (p->phase != NULL) p->phase[i] = f;
    }
    p->scale = take(p, &shared, octets * l->pieces * DT__OCTET * real);
    p->ksum = take(p, &shared, octets * DT__OCTET * real);
    const int64_t fit = TILE_BYTES / (4 * dt__max_i64(1, words)) / FEWEST * FEWEST;
    p->tile = dt__max_i64(FEWEST, dt__min_i64(TILE, fit));
    const int64_t canvas = p->general ? l->columns : p->samples * p->in * p->plane;
    p->u_at = (size_t)dt__round_up(canvas + 2 * DT__GATHER_READ, DT__ALIGNMENT);
    p->y_at = p->u_at + (size_t)((p->tile * words + BEHIND * DT__BLOCK) * 4);
    p->own_bytes = p->y_at + (size_t)(p->octets * DT__OCTET * p->tile * real);
    p->own = p->q->scratch == NULL ? NULL : (uint8_t *)p->q->scratch + shared;
    return shared + p->own_bytes * (size_t)p->q->threads;
}

static plan plan_of(const dt__kernels *kernels, const dt__qconv *q, bool general)
{
    const dt__conv *c = q->conv;
    plan p = { .kernels = kernels, .q = q, .general = general };
    for (int i = 0; i < 2; i++) p.axis[i] = dt__axis_of(q, i);
    p.in = (q->transposed ? c->out : c->in) / c->groups;
    p.out = (q->transposed ? c->in : c->out) / c->groups;
    p.octets = dt__ceil_div(p.out, DT__OCTET);
    p.lists = q->layout->order == NULL ? 1 : c->groups;
    choose_canvas(&p);
    return p;
}

size_t dt__qconv_scratch(const dt__qconv *q)
{
    dt__qconv without = *q;
    without.scratch = NULL;
    plan fast = plan_of(NULL, &without, false), general = plan_of(NULL, &without, true);
    const size_t a = dt__qdepthwise_takes(q) ? dt__qdepthwise_scratch(q) : lay_out(&fast);
    const size_t b = lay_out(&general);
    return a > b ? a : b;
}

/* Replaces each phase's sums by the sums over all other phases: of the codes that its words leave
 * out. */

/* Turns each phase's sum of codes into the sum over the other phases. */
static void find_absent(const plan *p, int64_t octet)
{
    const int64_t n = p->q->layout->pieces * DT__OCTET;
    for (int64_t k = octet * n; k < (octet + 1) * n; k++) {
        int32_t all = 0;
        for (int64_t i = 0; i < p->phases; i++) all += p->phase[i].absent[k];
        for (int64_t i = 0; i < p->phases; i++) p->phase[i].absent[k] = all - p->phase[i].absent[k];
    }
}

/* Octet i of all groups. */
static void fill_octet(const plan *p, int64_t i)
{
    const int64_t group = i / p->octets, octet = i % p->octets, first = group * p->octets;
    const int64_t parts = first * p->q->layout->pieces * DT__OCTET;
    const dt__octets o = { p->q, group * p->out, p->out, p->scale + parts,
                           p->ksum + first * DT__OCTET };
    dt__octet_scales(&o, octet);
    for (int64_t k = 0; k < p->phases; k++) {
        const phase *f = &p->phase[k];
        const dt__conv_words *words = &f->lists[p->lists == 1 ? 0 : group];
        uint8_t *w = f->w + first * f->words * 4 * DT__OCTET;
        if (f->absent == NULL) dt__octet_codes(&o, octet, words, w);
        else dt__octet_some_codes(&o, octet, words, w, f->absent + parts);
        if (p->kernels->rows) {
            dt__octet_rows(p->q->layout, words, w + octet * words->words * 4 * DT__OCTET, f->row,
                           f->rows + i * DT__OCTET * f->row);
        }
    }
    if (p->phases > 1) find_absent(p, i);
}

static void fill_octets(const void *args, const dt__share *s)
{
    for (int64_t i = s->first; i < s->past; i++) fill_octet(args, i);
}

static void prepare(const plan *p)
{
    for (int64_t i = 0; i < p->phases * p->lists; i++) {
        const phase *f = &p->phase[i / p->lists];
        const dt__conv_words_of of = words_of(p, f, i % p->lists);
        dt__conv_words_find(&of, &f->lists[i % p->lists]);
    }
    dt__parallel(p->q->conv->groups * p->octets, p->q->layout->depth, fill_octets, p);
}

/* ---- positions ------------------------------------------------------------------------------- */

static unit unit_of(const plan *p, int64_t i)
{
    unit u = { i / p->bands * p->samples, p->samples, i % p->bands * p->band, p->band };
    u.samples = dt__min_i64(u.samples, p->q->conv->batch - u.sample);
    return u;
}

/* The input row at which a unit's canvas begins. */
static int64_t canvas_row(const plan *p, const unit *u)
{
    return p->axis[0].low + u->row * p->axis[0].step;
}

/* The element of y of a position of the worker's group and phase. */
static int64_t image_of(const worker *w, int64_t sample, int64_t row, int64_t column)
{
    const plan *p = w->p;
    const dt__axis *rows = &p->axis[0], *columns = &p->axis[1];
    const int64_t channel = sample * p->out * p->q->conv->groups + w->group * p->out;
    const int64_t y = w->phase->at[0] + row * rows->phases;
    const int64_t x = w->phase->at[1] + column * columns->phases;
    return (channel * rows->out + y) * columns->out + x;
}

/* Positions first ... past - 1 of the tile belong to `sample`. */
static void set_sample(worker *w, int first, int past, int rows, int64_t sample)
{
    const bool alone = first == 0 && past == rows;
    if (alone && w->filled == sample) return;
    const float sx = w->p->q->sx[sample];
    const int32_t zu = w->p->q->zu[sample];
    if (alone) past = TILE;
    w->filled = alone ? sample : -1;
    for (int k = first; k < past; k++) w->sx[k] = sx;
    for (int k = first; k < past; k++) w->zu[k] = zu;
    for (int k = first; k < past; k++) w->zu_f[k] = (float)zu;
}

/* Positions m ... m + n - 1, which lie in one row, read the canvas from `from` on. */
static void set_lanes(worker *w, int m, int n, const uint8_t *from)
{
    const int64_t step = w->p->axis[1].step;
    for (const int past = m + n; m < past;) {
        dt__gather_quad *q = &w->quad[m / 4];
        const int lane = m % 4, most = w->near > 0 ? 4 - lane : 1;
        const int lanes = (int)dt__min_i64(most, past - m);
        const uint8_t *first = from - lane * w->near;
        if (lane == 0) q->runs = 0;
        if (q->runs == 0 || w->near == 0 || first != q->from[q->runs - 1]) {
            q->from[q->runs++] = first;
        }
        q->past[q->runs - 1] = lane + lanes;
        m += lanes;
        from += lanes * step;
    }
}

/* The results of positions m ... m + n - 1 are neighbours, beginning at element `to`. */
static void set_results(worker *w, int m, int n, int64_t to)
{
    dt__tile_run *last = w->runs > 0 ? &w->run[w->runs - 1] : NULL;
    const int64_t every = w->p->axis[1].phases;
    if (last != NULL && to == last->to + (m - last->first) * every) last->past = m + n;
    else w->run[w->runs++] = (dt__tile_run){ m, m + n, to };
}

/* Sets up `rows` positions from `first` on, in the order sample, row, column. */
static void find_positions(worker *w, int64_t first, int rows)
{
    const plan *p = w->p;
    const int64_t across = dt__axis_positions(&p->axis[1], w->phase->at[1]);
    const int64_t of_sample = across * w->unit.rows, canvas = p->in * p->plane;
    int64_t i = first / of_sample, at = first % of_sample;
    w->runs = 0;
    for (int m = 0, past, n; m < rows; i++, at = 0) {
        const int64_t sample = w->unit.sample + i;
        int64_t row = at / across, column = at % across;
        past = (int)dt__min_i64(rows, m + of_sample - at);
        set_sample(w, m, past, rows, sample);
        for (; m < past; m += n, row++, column = 0) {
            n = (int)dt__min_i64(past - m, across - column);
            const int64_t from =
                i * canvas + row * p->axis[0].step * p->width + column * p->axis[1].step;
            if (!p->general) set_lanes(w, m, n, w->canvas + from);
            set_results(w, m, n, image_of(w, sample, w->unit.row + row, column));
        }
    }
}

/* ---- words of a tile ------------------------------------------------------------------------- */

/* The index of the input that tap k reads for output position o; -1: none. */
static int64_t input_of(const dt__axis *x, int64_t o, int64_t k)
{
    int64_t i;
    if (!dt__axis_tap(x, x->transposed ? o : 0, k, &i)) return -1;
    if (!x->transposed) i += o * x->step;
    return i >= 0 && i < x->in ? i : -1;
}

/* Gathers one row code by code (`general`). */
static void gather_row(const worker *w, int64_t sample, int64_t row, int64_t column, uint8_t *to)
{
    const plan *p = w->p;
    const dt__axis *y = &p->axis[0], *x = &p->axis[1];
    const uint8_t *image = p->q->u + sample * p->q->ldu + w->group * p->in * y->in * x->in;
    for (int64_t c = 0; c < p->in; c++, image += y->in * x->in) {
        for (int64_t k = 0; k < y->taps; k++) {
            const int64_t i = input_of(y, row, k);
            for (int64_t l = 0; l < x->taps; l++) {
                const int64_t j = input_of(x, column, l);
                *to++ = i < 0 || j < 0 ? (uint8_t)p->q->zu[sample] : image[i * x->in + j];
            }
        }
    }
}

/* Writes the words of position m of the tile from its gathered row; it is position `at` of the
 * unit. */
static void gather_general(const worker *w, int64_t at, int m)
{
    const plan *p = w->p;
    const int64_t across = p->axis[1].out, words = w->words->words;
    const int32_t *order = dt__panel_order(p->q->layout, w->group * p->out);
    const int64_t row = w->unit.row + at / across % w->unit.rows;
    gather_row(w, w->unit.sample + at / across / w->unit.rows, row, at % across, w->canvas);
    uint8_t *to = w->u + (m / DT__BLOCK * words * DT__BLOCK + m % DT__BLOCK) * 4;
    for (int64_t i = 0; i < 4 * words; i++) {
        const int32_t place = w->words->place[i];
        const int64_t column = place < 0 ? 0 : order == NULL ? place : order[place];
        to[i / 4 * 4 * DT__BLOCK + i % 4] = place < 0 ? 0 : w->canvas[column];
    }
}

static void gather(worker *w, int64_t first, int rows)
{
    const plan *p = w->p;
    find_positions(w, first, rows);
    if (p->general) {
        for (int m = 0; m < rows; m++) gather_general(w, first + m, m);
        return;
    }
    const int quads = (int)dt__ceil_div(rows, 4), blocks = (int)dt__ceil_div(rows, DT__BLOCK);
    dt__gather_quad *last = &w->quad[quads - 1];
    last->past[last->runs - 1] = 4;
    for (int i = quads; i < 4 * blocks; i++) w->quad[i] = w->quad[0];
    p->kernels->gather_codes(&(dt__gathering){ .words = w->words->words,
                                               .blocks = blocks,
                                               .first = w->words->first,
                                               .step = w->near,
                                               .part = w->words->part,
                                               .quad = w->quad,
                                               .to = w->u });
}

/* ---- products -------------------------------------------------------------------------------- */

/* Copies a tile's results [outputs][tile] to the images. */
static void write_images(const worker *w)
{
    const plan *p = w->p;
    const int64_t plane = p->axis[0].out * p->axis[1].out, every = p->axis[1].phases;
    for (const dt__tile_run *r = w->run; r < w->run + w->runs; r++) {
        const int64_t n = r->past - r->first;
        for (int64_t o = 0; o < p->out; o++) {
            const float *y = w->y + o * p->tile + r->first;
            float *to = p->q->y + r->to + o * plane;
            if (every == 1) dt__copy_few(to, y, n * (int64_t)sizeof *y);
            else
                for (int64_t i = 0; i < n; i++) to[i * every] = y[i];
        }
    }
}

static void write_codes(const worker *w, int rows)
{
    const plan *p = w->p;
    const dt__code_tile t = { .rows = rows,
                              .outputs = p->out,
                              .first = w->group * p->out,
                              .channels = p->out * p->q->conv->groups,
                              .sum = (const int32_t *)(const void *)w->y,
                              .ld = p->tile,
                              .run = w->run,
                              .runs = w->runs,
                              .plane = p->axis[0].out * p->axis[1].out,
                              .every = p->axis[1].phases };
    dt__qconv_write_codes(p->kernels, p->q, &t);
}

static void multiply(const worker *w, int rows)
{
    const plan *p = w->p;
    const dt__qconv *q = p->q;
    const int64_t first = w->group * p->octets, pieces = q->layout->pieces;
    const int64_t parts = first * pieces * DT__OCTET;
    const bool direct = q->codes == NULL && p->axis[1].phases == 1 && w->runs == 1;
    const dt__qtile t = {
        .nibbles = q->layout->nibbles,
        .positions = rows,
        .outputs = p->out,
        .words = w->words->words,
        .pieces = pieces,
        .length = w->words->length,
        .u = w->u,
        .w = w->phase->w + first * w->phase->words * 4 * DT__OCTET,
        .rows = p->kernels->rows ? w->phase->rows + first * w->phase->row * DT__OCTET : NULL,
        .row = w->phase->row,
        .fill = dt__tile_row_fill(q->layout),
        .scale = p->scale + parts,
        .absent = w->phase->absent == NULL ? NULL : w->phase->absent + parts,
        .ksum = p->ksum + first * DT__OCTET,
        .bias = q->bias == NULL ? NULL : q->bias + w->group * p->out,
        .sx = w->sx,
        .zu_f = w->zu_f,
        .zu = w->zu,
        .y = direct ? q->y + w->run[0].to : w->y,
        .sums = q->codes == NULL ? NULL : (int32_t *)(void *)w->y,
        .ldy = direct ? p->axis[0].out * p->axis[1].out : p->tile,
    };
    p->kernels->qd8_tile(&t);
    if (q->codes != NULL) write_codes(w, rows);
    else if (!direct) write_images(w);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void draw(const worker *w)
{
    const plan *p = w->p;
    const dt__qconv *q = p->q;
    const int64_t image = p->axis[0].in * p->axis[1].in;
    dt__canvas to = { .bytes = w->canvas,
                      .row0 = canvas_row(p, &w->unit),
                      .rows = canvas_rows(p, p->band),
                      .width = p->width };
    for (int64_t n = w->unit.sample; n < w->unit.sample + w->unit.samples; n++) {
        const uint8_t *u = q->u + n * q->ldu + w->group * p->in * image;
        dt__canvas_draw(p->axis, p->in, u, q->zu[n], &to);
        to.bytes += p->in * p->plane;
    }
}

static void run_phase(worker *w, const phase *f)
{
    const plan *p = w->p;
    const int64_t rows = dt__axis_positions(&p->axis[0], f->at[0]) - w->unit.row;
    w->unit.rows = dt__min_i64(p->band, rows);
    w->phase = f;
    w->words = &f->lists[p->lists == 1 ? 0 : w->group];
    const int64_t across = dt__axis_positions(&p->axis[1], f->at[1]);
    const int64_t positions = rows > 0 ? w->unit.samples * w->unit.rows * across : 0;
    for (int64_t first = 0; first < positions; first += p->tile) {
        const int n = (int)dt__min_i64(p->tile, positions - first);
        gather(w, first, n);
        multiply(w, n);
    }
}

static void run_unit(const plan *p, int64_t i, uint8_t *own)
{
    worker w;
    w.p = p;
    w.unit = unit_of(p, i);
    w.canvas = own + DT__GATHER_READ;
    w.u = own + p->u_at;
    w.y = (float *)(void *)(own + p->y_at);
    w.filled = -1;
    w.near = p->axis[1].step <= DT__TAPS_STEP ? p->axis[1].step : 0;
    memset(w.sx, 0, sizeof w.sx);
    memset(w.zu, 0, sizeof w.zu);
    memset(w.zu_f, 0, sizeof w.zu_f);
    for (w.group = 0; w.group < p->q->conv->groups; w.group++) {
        if (!p->general) draw(&w);
        for (int64_t k = 0; k < p->phases; k++) run_phase(&w, &p->phase[k]);
    }
}

static void run_units(const void *args, const dt__share *s)
{
    const plan *p = args;
    uint8_t *own = p->own + p->own_bytes * (size_t)s->thread;
    for (int64_t i = s->first; i < s->past; i++) run_unit(p, i, own);
}

static void run(const dt__kernels *kernels, const dt__qconv *q, bool general)
{
    plan p = plan_of(kernels, q, general);
    lay_out(&p);
    prepare(&p);
    const double positions = (double)p.axis[0].out * (double)p.axis[1].out;
    const double sums = (double)q->conv->batch * positions * (double)q->layout->rows;
    const double work = sums * (double)q->layout->depth / TOGETHER / (double)p.units;
    dt__parallel(p.units, work < 1e15 ? 1 + (int64_t)work : (int64_t)1e15, run_units, &p);
}

void dt__qconv_run(const dt__kernels *kernels, const dt__qconv *q)
{
    if (dt__qdepthwise_takes(q)) dt__qdepthwise_run(kernels, q);
    else run(kernels, q, false);
}

void dt__qconv_run_general(const dt__kernels *kernels, const dt__qconv *q)
{
    run(kernels, q, true);
}
