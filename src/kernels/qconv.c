/* Convolutions of integer codes, tile by tile (qconv.h, qconv_gather.h).
 *
 * A unit of work is a band of rows of y of one sample, or several samples where images are small.
 * For each group its thread fills a canvas with codes, gathers up to 96 rows from it, multiplies
 * them with the panels of the group's outputs, and writes the outputs to the images; lanes of other
 * groups are skipped. Groups of one channel (depthwise) have a loop of their own. */
#include "kernels/qconv.h"

#include "kernels/qconv_gather.h"
#include "kernels/qdepthwise.h"

#include <omp.h>
#include <string.h>

#define TILE 96               /* most rows of a tile, */
#define TILE_BYTES (64 << 10) /* and most bytes, if that leaves FEWEST rows */
#define FEWEST 16
#define PANELS 4                /* panels whose products a tile holds */
#define CANVAS (128 << 10)      /* bytes of a canvas, unless one row of y needs more */
#define MOST_CANVAS (16 << 20)  /* limit of a canvas; beyond it rows are gathered code by code */
#define WORTH_SHARING (1 << 18) /* multiply-adds */

/* The division of a problem into units and tiles, and the offsets in scratch. */
typedef struct plan {
    const dt__kernels *kernels;
    const dt__qconv *q;
    dt__axis axis[2];
    int64_t in, out;                     /* channels of a group */
    bool general;                        /* rows are gathered code by code */
    bool direct;                         /* images are used as canvases in place */
    int64_t width, plane;                /* bytes of a canvas's row, and of a channel */
    int64_t pieces, length;              /* of a row of a tile */
    int64_t samples, band, bands, units; /* of a unit: samples, rows of y; how many there are */
    int64_t tile, ld;                    /* rows of a tile, bytes from one to the next */
    int64_t *offset;                     /* of the pieces; for group g + g * apart */
    int64_t apart;                       /* 0: the same for all groups */
    uint8_t *own; /* the threads' parts, of own_bytes: a canvas, rows at u_at, products at y_at */
    size_t own_bytes, u_at, y_at;
} plan;

/* Samples `sample` ... and rows of y from `row` on. */
typedef struct unit {
    int64_t sample, samples, row, rows;
} unit;

/* A thread at work on one group of a unit. */
typedef struct worker {
    const plan *p;
    unit unit;
    int64_t group;
    uint8_t *canvas; /* with `general`: one row */
    uint8_t *u;
    float *y;
    const uint8_t *from[TILE]; /* of each row of the tile */
    float sx[TILE];
    int32_t zu[TILE];
    int64_t sample[TILE];
    float *to[TILE]; /* its address in the group's first image of y */
} worker;

/* ---- the plan -------------------------------------------------------------------------------- */

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Rows of a canvas that `rows` rows of y read. */
static int64_t canvas_rows(const plan *p, int64_t rows)
{
    const dt__axis *x = &p->axis[0];
    return (rows - 1) * magnitude(x->step) + (x->taps - 1) * x->apart + 1;
}

/* A double, since extents are unbounded. */
static double canvas_size(const plan *p, int64_t rows)
{
    return (double)canvas_rows(p, rows) * (double)p->axis[1].length * (double)p->in;
}

/* Chooses bands whose canvas is small, and enough units for all threads. */
static void choose_units(plan *p)
{
    const int64_t rows = p->axis[0].out, positions = rows * p->axis[1].out;
    const int64_t batch = p->q->conv->batch;
    const double size = p->direct || p->general ? 0 : canvas_size(p, rows);
    p->samples = 1;
    p->band = rows;
    if (size > CANVAS) {
        p->band = dt__max_i64(1, (int64_t)((double)rows * CANVAS / size));
    } else if (positions < TILE) {
        const double fit = size > 0 ? CANVAS / size : TILE;
        p->samples = dt__min_i64(dt__ceil_div(TILE, positions), (int64_t)fit);
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
    const dt__axis *rows = &p->axis[0], *columns = &p->axis[1];
    const dt__conv *c = p->q->conv;
    p->direct = !p->q->transposed && c->padding[0] == 0 && c->padding[1] == 0;
    if (!p->direct && canvas_size(p, 1) > MOST_CANVAS) p->general = true;
    choose_units(p);
    if (p->general) return;
    p->width = p->direct ? columns->in : columns->length;
    p->plane = p->width * (p->direct ? rows->in : canvas_rows(p, p->band));
    const bool ordered = p->q->layout->order != NULL; /* columns are then scattered */
    const bool together = !ordered && (columns->apart == 1 || columns->taps == 1);
    p->length = together ? columns->taps : 1;
    p->pieces = p->in * rows->taps * (together ? 1 : columns->taps);
    p->apart = ordered ? p->pieces : 0;
}

/* Reserves `bytes`; returns their offset. Nothing is larger than a canvas or a few times the
 * weight, so sums do not overflow. */
static size_t add_room(size_t *total, int64_t bytes)
{
    const size_t at = *total;
    *total += (size_t)dt__round_up(bytes, DT__ALIGNMENT);
    return at;
}

static size_t lay_out(plan *p)
{
    uint8_t *scratch = p->q->scratch;
    const bool draws = !p->direct && !p->general, one = p->apart == 0;
    const int64_t word = sizeof(int64_t), real = sizeof(float);
    size_t shared = 0;
    const size_t offset = add_room(&shared, p->pieces * word * (one ? 1 : p->q->conv->groups));
    add_room(&p->own_bytes, draws        ? p->samples * p->in * p->plane + DT__GATHER_READ
                            : p->general ? p->ld
                                         : 0);
    p->u_at = add_room(&p->own_bytes, p->tile * p->ld);
    p->y_at = add_room(&p->own_bytes, p->tile * PANELS * DT__LANES * real);
    if (scratch != NULL) {
        p->offset = (int64_t *)(void *)(scratch + offset);
        p->own = scratch + shared;
    }
    return shared + p->own_bytes * (size_t)p->q->threads;
}

static plan plan_of(const dt__kernels *kernels, const dt__qconv *q, bool general)
{
    const dt__conv *c = q->conv;
    const dt__panel_layout *l = q->layout;
    plan p = { .kernels = kernels, .q = q, .general = general };
    for (int i = 0; i < 2; i++) p.axis[i] = dt__axis_of(q, i);
    p.in = (q->transposed ? c->out : c->in) / c->groups;
    p.out = (q->transposed ? c->in : c->out) / c->groups;
    choose_canvas(&p);
    p.ld = l->depth + DT__GATHER_WRITTEN;
    p.tile = dt__max_i64(FEWEST, dt__min_i64(TILE, TILE_BYTES / p.ld / 8 * 8));
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

/* Offset of piece i of a row, by its first column. */
static int64_t offset_of(const plan *p, int64_t i)
{
    const dt__axis *rows = &p->axis[0], *columns = &p->axis[1];
    const int64_t across = columns->taps / p->length, channel = rows->taps * across;
    const int64_t row = i % channel / across, column = i % across;
    return i / channel * p->plane + row * rows->apart * p->width + column * columns->apart;
}

/* Finds the offsets of pieces in the column order of the weight. */
static void find_offsets(const plan *p)
{
    for (int64_t g = 0; g < (p->apart == 0 ? 1 : p->q->conv->groups); g++) {
        const int32_t *order = dt__panel_order(p->q->layout, g * p->out);
        int64_t *to = p->offset + g * p->apart;
        for (int64_t i = 0; i < p->pieces; i++) to[i] = offset_of(p, order == NULL ? i : order[i]);
    }
}

/* ---- positions ------------------------------------------------------------------------------- */

static int64_t unit_positions(const plan *p, const unit *u)
{
    return u->samples * u->rows * p->axis[1].out;
}

static unit unit_of(const plan *p, int64_t i)
{
    unit u = { i / p->bands * p->samples, p->samples, i % p->bands * p->band, p->band };
    u.samples = dt__min_i64(u.samples, p->q->conv->batch - u.sample);
    u.rows = dt__min_i64(u.rows, p->axis[0].out - u.row);
    return u;
}

/* The first row of a canvas that a unit's rows read. */
static int64_t canvas_row(const plan *p, const unit *u)
{
    const dt__axis *x = &p->axis[0];
    return x->first + (x->step < 0 ? u->row + u->rows - 1 : u->row) * x->step;
}

/* Address in the canvas of position (row, column) of a sample. */
static const uint8_t *begin_of(const worker *w, int64_t sample, int64_t row, int64_t column)
{
    const plan *p = w->p;
    const dt__axis *y = &p->axis[0], *x = &p->axis[1];
    const uint8_t *canvas = w->canvas + (sample - w->unit.sample) * p->in * p->plane;
    int64_t from = y->first + row * y->step - canvas_row(p, &w->unit);
    if (p->direct) {
        canvas = p->q->u + sample * p->q->ldu + w->group * p->in * p->plane;
        from = y->first + row * y->step;
    }
    return canvas + from * p->width + x->first + column * x->step;
}

static float *image_of(const plan *p, int64_t sample, int64_t channel)
{
    const int64_t plane = p->axis[0].out * p->axis[1].out;
    return p->q->y + (sample * p->out * p->q->conv->groups + channel) * plane;
}

/* ---- rows of a tile -------------------------------------------------------------------------- */

/* Gathers a row code by code. */
static void gather_row(const worker *w, int64_t sample, int64_t row, int64_t column, uint8_t *to)
{
    const plan *p = w->p;
    const dt__axis *y = &p->axis[0], *x = &p->axis[1];
    const uint8_t *image = p->q->u + sample * p->q->ldu + w->group * p->in * y->in * x->in;
    for (int64_t c = 0; c < p->in; c++, image += y->in * x->in) {
        for (int64_t k = 0; k < y->taps; k++) {
            const int64_t i = dt__axis_input(y, y->first + row * y->step + k * y->apart);
            for (int64_t l = 0; l < x->taps; l++) {
                const int64_t j = dt__axis_input(x, x->first + column * x->step + l * x->apart);
                *to++ = i < 0 || j < 0 ? (uint8_t)p->q->zu[sample] : image[i * x->in + j];
            }
        }
    }
}

/* The same for a weight with an order: gathers to a temporary row, then reorders. */
static void gather_places(const worker *w, int64_t sample, int64_t row, int64_t column, uint8_t *to)
{
    const plan *p = w->p;
    const int32_t *order = dt__panel_order(p->q->layout, w->group * p->out);
    gather_row(w, sample, row, column, order == NULL ? to : w->canvas);
    for (int64_t j = 0; order != NULL && j < p->q->layout->columns; j++)
        to[j] = w->canvas[order[j]];
}

/* Gathers `rows` rows from position `first` on; positions are ordered by sample, row, column. */
static void gather(worker *w, int64_t first, int rows)
{
    const plan *p = w->p;
    const int64_t across = p->axis[1].out, step = p->axis[1].step;
    int64_t column = first % across, row = first / across % w->unit.rows;
    int64_t sample = w->unit.sample + first / across / w->unit.rows;
    for (int m = 0; m < rows; column = 0) {
        const int64_t begin = column;
        const uint8_t *from = p->general ? w->u : begin_of(w, sample, w->unit.row + row, begin);
        float *to = image_of(p, sample, w->group * p->out) + (w->unit.row + row) * across + column;
        for (; m < rows && column < across; m++, column++) {
            w->sample[m] = sample;
            w->sx[m] = p->q->sx[sample];
            w->zu[m] = p->q->zu[sample];
            w->to[m] = to++;
            w->from[m] = from + (p->general ? 0 : (column - begin) * step);
            if (p->general) gather_places(w, sample, w->unit.row + row, column, w->u + m * p->ld);
        }
        if (++row == w->unit.rows) row = 0, sample++;
    }
    const int64_t *offset = p->offset + w->group * p->apart;
    const dt__gathering g = { p->pieces, p->length, offset, w->from, rows, w->u, p->ld };
    if (!p->general) p->kernels->gather_codes(&g);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Writes a tile's outputs from lane0 on, which are rows n0 ... of the weight, to the images. */
static void write_images(const worker *w, int rows, int64_t n0, int64_t lanes)
{
    const plan *p = w->p;
    const int64_t plane = p->axis[0].out * p->axis[1].out, row0 = w->group * p->out;
    const int64_t skipped = dt__max_i64(0, row0 - n0), first = n0 + skipped - row0;
    const int64_t end = dt__min_i64(lanes, row0 + p->out - n0);
    for (int m = 0; m < rows;) {
        int past = m + 1;
        while (past < rows && w->sample[past] == w->sample[m]) past++;
        const dt__transpose t = { .rows = past - m,
                                  .columns = end - skipped,
                                  .x = w->y + m * lanes + skipped,
                                  .ldx = lanes,
                                  .y = w->to[m] + first * plane,
                                  .ldy = plane };
        p->kernels->transpose(&t);
        m = past;
    }
}

static void multiply(const worker *w, int rows)
{
    const plan *p = w->p;
    const dt__qconv *q = p->q;
    const int64_t past = dt__ceil_div((w->group + 1) * p->out, DT__LANES);
    for (int64_t panel = w->group * p->out / DT__LANES; panel < past; panel += PANELS) {
        const int64_t panels = dt__min_i64(PANELS, past - panel);
        const int64_t rest = q->layout->rows - panel * DT__LANES;
        const dt__panel_layout some =
            dt__panel_part(q->layout, dt__min_i64(panels * DT__LANES, rest));
        const int64_t lanes = some.panels * DT__LANES;
        const dt__qgemm g = {
            .layout = &some,
            .panels = (const uint8_t *)q->panels + (size_t)panel * some.panel_bytes,
            .m = rows,
            .u = w->u,
            .ldu = p->ld,
            .sx = w->sx,
            .zu = w->zu,
            .bias = q->bias == NULL ? NULL : q->bias + panel * DT__LANES,
            .y = w->y,
            .ldy = lanes,
            .alone = true,
        };
        if (some.nibbles) p->kernels->qd8_qb4_gemm(&g);
        else p->kernels->qd8_qb8_gemm(&g);
        write_images(w, rows, panel * DT__LANES, lanes);
    }
}

static void run_tiles(worker *w)
{
    const int64_t positions = unit_positions(w->p, &w->unit);
    for (int64_t first = 0; first < positions; first += w->p->tile) {
        const int rows = (int)dt__min_i64(w->p->tile, positions - first);
        gather(w, first, rows);
        multiply(w, rows);
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void draw(const worker *w)
{
    const plan *p = w->p;
    const dt__qconv *q = p->q;
    const int64_t image = p->axis[0].in * p->axis[1].in;
    dt__canvas to = { w->canvas, canvas_row(p, &w->unit), canvas_rows(p, p->band), p->width };
    for (int64_t n = w->unit.sample; n < w->unit.sample + w->unit.samples; n++) {
        const uint8_t *u = q->u + n * q->ldu + w->group * p->in * image;
        dt__canvas_draw(p->axis, p->in, u, q->zu[n], &to);
        to.bytes += p->in * p->plane;
    }
}

static void run_unit(const plan *p, int64_t i)
{
    uint8_t *own = p->own + p->own_bytes * (size_t)omp_get_thread_num();
    worker w;
    w.p = p;
    w.unit = unit_of(p, i);
    w.canvas = own;
    w.u = own + p->u_at;
    w.y = (float *)(void *)(own + p->y_at);
    for (w.group = 0; w.group < p->q->conv->groups; w.group++) {
        if (!p->direct && !p->general) draw(&w);
        run_tiles(&w);
    }
}

static void run(const dt__kernels *kernels, const dt__qconv *q, bool general)
{
    plan p = plan_of(kernels, q, general);
    lay_out(&p);
    find_offsets(&p);
    const dt__panel_layout *l = q->layout;
    const int64_t positions = q->conv->batch * p.axis[0].out * p.axis[1].out;
    const int64_t work = positions * dt__ceil_div(p.out, DT__LANES) * l->depth * DT__LANES;
    const bool shared = q->threads > 1 && p.units > 1 && work > WORTH_SHARING;
#pragma omp parallel for schedule(dynamic) num_threads(q->threads) if (shared)
    for (int64_t i = 0; i < p.units; i++) run_unit(&p, i);
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
