/* Convolutions of floats whose operands are rounded to bf16, as training computes them where
 * train.float is bf16 (numerics, "Products of bf16").
 *
 *     y, and dX    per sample: a canvas of the padded operand, in which a word holds a pair of
 *                  channels; then all positions of some rows of the result are one line, for
 *                  which each tap of a pair of channels is one term (kernel bf16_lines)
 *     dW           per sample: a canvas of x and panels of dy, in which a word holds two
 *                  neighbouring positions (kernel bf16_sums); the samples of a part of the batch
 *                  are summed one after the other, then the parts
 *
 * With DT_PRODUCTS_BF16_TILES the kernels tile_lines and tile_sums are used in place of these two.
 *
 * A stride divides the canvas into phases, so that neighbouring positions read neighbouring words;
 * the stride of a transposed convolution divides the result instead. */
#include "kernels/convolution/float_convs.h"

#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/products/bf16.h"

#include <string.h>

#define MOST_CANVAS ((int64_t)1 << 28) /* words */
#define LINE_FLOATS 16384              /* results of a line, about */
#define MOST_PARTS 32
#define PARTS_FLOATS ((int64_t)1 << 22) /* floats of the sums of all parts, about */

static int64_t reach_of(const dt__conv *c, int i) { return (c->kernel[i] - 1) * c->dilation[i]; }

/* ---- lines ----------------------------------------------------------------------------------- */

/* One axis: the operand has `from` elements and the result `to`. A canvas has `step` phases of
 * `cells` each, of which the first `low` are padding; the result has `apart` phases of up to
 * `count` positions. */
typedef struct axis {
    int64_t from, to, step, apart, low, cells, count;
} axis;

typedef struct lines {
    const dt__conv *c;
    bool transposed, tiles;
    int64_t in, out, words_in, taps; /* operand and result channels; pairs of operand channels */
    axis axis[2];
    int64_t width, plane, canvas_words; /* words of a canvas row, of a phase, of all */
    int64_t rows;                       /* rows of a line, at most */
    const float *x, *w, *bias;
    float *y;
    uint16_t *halves; /* result: all of x, rounded, or NULL */
    uint32_t *weight; /* for each phase of the result, one after the other */
    int32_t *offset;  /* likewise */
    uint32_t *canvas; /* one per thread */
    float *line;
} lines;

static axis axis_of(const dt__conv *c, bool transposed, int i)
{
    const int64_t pad = c->padding[i], stride = c->stride[i], reach = reach_of(c, i);
    axis a = { .step = 1, .apart = 1, .low = pad };
    a.from = transposed ? c->y_size[i] : c->x_size[i];
    a.to = transposed ? c->x_size[i] : c->y_size[i];
    if (!transposed) {
        a.step = stride;
        a.count = a.to;
        a.cells = a.count + reach / stride;
    } else {
        a.apart = stride;
        a.count = dt__ceil_div(a.to, stride);
        a.low = reach > pad ? dt__ceil_div(reach - pad, stride) : 0;
        a.cells = a.low + a.count + (stride - 1 + pad) / stride;
    }
    return a;
}

/* The padding after a row is also the padding before the next row; a row has at least `count`
 * cells. */
static int64_t width_of(const axis *a)
{
    const int64_t behind = dt__max_i64(0, a->cells - a->low - a->from);
    const int64_t shared = a->step == 1 ? dt__min_i64(behind, a->low) : 0;
    return dt__max_i64(a->count, a->cells - shared);
}

/* Allocated rows of weights and words of a row: rounded up to whole tiles where tiles are used. */
static int64_t rows_held(const lines *l)
{
    return l->tiles ? dt__round_up(l->out, DT__BF16_TILE_SIDE) : l->out;
}

static int64_t words_held(const lines *l, int64_t words)
{
    return l->tiles ? dt__round_up(words, DT__BF16_TILE_SIDE) : words;
}

/* Words of all phases of the result, at most. */
static int64_t most_words(const lines *l)
{
    const int64_t phases = l->axis[0].apart * l->axis[1].apart;
    const int64_t behind = l->tiles ? DT__BF16_TILE_SIDE - 1 : 0;
    return l->words_in * l->taps + phases * behind;
}

/* How many phases are computed before any is written. With a column stride of 2 the columns of two
 * phases alternate in a row, so both are computed first and written together. */
static int together(const lines *l) { return l->axis[1].apart == 2 ? 2 : 1; }

static int64_t line_floats(const lines *l) { return l->out * l->rows * l->width; }

static size_t open_lines(const dt__conv_work *w, void *base, int threads, lines *l)
{
    size_t bytes = 0;
    const dt__conv *c = w->conv;
    const bool transposed = w->to_x != NULL;
    *l = (lines){ .c = c, .transposed = transposed, .w = w->w, .bias = w->bias };
    l->tiles = w->products == DT_PRODUCTS_BF16_TILES;
    l->in = transposed ? c->out : c->in;
    l->out = transposed ? c->in : c->out;
    l->words_in = dt__ceil_div(l->in, 2);
    l->taps = dt__conv_taps(c);
    for (int i = 0; i < 2; i++) l->axis[i] = axis_of(c, transposed, i);
    const axis *rows = &l->axis[0], *columns = &l->axis[1];
    l->width = width_of(columns);
    l->plane = rows->cells * l->width;
    l->canvas_words = l->words_in * rows->step * columns->step * l->plane + 2 * columns->cells +
                      DT__BF16_BEHIND / 4;
    const int64_t most = LINE_FLOATS / dt__max_i64(1, l->out * l->width);
    l->rows = dt__max_i64(1, dt__min_i64(rows->count, most));
    l->weight = dt__scratch_take(base, &bytes, most_words(l) * rows_held(l), sizeof *l->weight);
    l->offset = dt__scratch_take(base, &bytes, most_words(l), sizeof *l->offset);
    l->canvas = dt__scratch_take(base, &bytes, threads * l->canvas_words, sizeof *l->canvas);
    l->line =
        dt__scratch_take(base, &bytes, threads * together(l) * line_floats(l), sizeof *l->line);
    return bytes;
}

/* The cell that tap k of axis i reads for position 0 of phase b of the result, in canvas phase
 * *phase; false: the tap reads no cell. */
static bool tap_of(const lines *l, int i, int64_t b, int64_t k, int64_t *phase, int64_t *cell)
{
    const axis *a = &l->axis[i];
    const int64_t at = k * l->c->dilation[i];
    const int64_t from = l->transposed ? b + l->c->padding[i] - at + a->low * a->apart : at;
    const int64_t by = l->transposed ? a->apart : a->step;
    *phase = l->transposed ? 0 : from % by;
    *cell = from / by;
    return !l->transposed || from % by == 0;
}

/* A phase of the result: rows b[0] + i apart, columns b[1] + j apart. For each pair of channels it
 * has `taps` words, which are numbered from `first` on among the words of all phases. */
typedef struct phase {
    int64_t b[2], taps, first;
} phase;

/* The offset of a tap within the canvas planes of a pair of channels; negative: the phase does not
 * have this tap. */
static int64_t place_of(const lines *l, const phase *p, int64_t tap)
{
    const int64_t k[] = { tap / l->c->kernel[1], tap % l->c->kernel[1] };
    int64_t of[2], cell[2];
    for (int i = 0; i < 2; i++) {
        if (!tap_of(l, i, p->b[i], k[i], &of[i], &cell[i])) return -1;
    }
    return (of[0] * l->axis[1].step + of[1]) * l->plane + cell[0] * l->width + cell[1];
}

/* Advances to the next phase; begins with { .taps = -1 }. False: there is no further phase. */
static bool next_phase(const lines *l, phase *p)
{
    const int64_t apart = l->axis[1].apart;
    const int64_t at = p->taps < 0 ? 0 : p->b[0] * apart + p->b[1] + 1;
    if (p->taps > 0) p->first += words_held(l, l->words_in * p->taps);
    if (at == l->axis[0].apart * apart) return false;
    p->b[0] = at / apart;
    p->b[1] = at % apart;
    p->taps = 0;
    for (int64_t k = 0; k < l->taps; k++) p->taps += place_of(l, p, k) >= 0;
    return true;
}

static uint32_t half_of(float x) { return dt__f32_to_bf16(dt__bf16_flushed(x)); }

static uint32_t weight_at(const lines *l, int64_t o, int64_t i, int64_t tap)
{
    if (i >= l->in) return 0;
    const int64_t row = l->transposed ? i * l->out + o : o * l->in + i;
    return half_of(l->w[row * l->taps + tap]);
}

/* Writes the words of channels 2 i and 2 i + 1 of a phase, and their offsets. */
static void put_words(const lines *l, const phase *p, int64_t i)
{
    const int64_t words = l->words_in * p->taps, strips = l->tiles ? 1 : dt__bf16_strips(l->out);
    uint32_t *weight = l->weight + p->first * rows_held(l);
    const int64_t planes = l->axis[0].step * l->axis[1].step * l->plane;
    int64_t at = i * p->taps;
    for (int64_t k = 0; k < l->taps; k++) {
        const int64_t place = place_of(l, p, k);
        if (place < 0) continue;
        l->offset[p->first + at] = (int32_t)(i * planes + place);
        for (int64_t s = 0; s < strips; s++) {
            const int64_t row = s * l->out / strips, rows = (s + 1) * l->out / strips - row;
            uint32_t *to = weight + row * words + at * rows;
            if (l->tiles) to = weight + dt__bf16_tile_word(l->out, 0, at);
            const int64_t step = l->tiles ? DT__BF16_TILE_SIDE : 1;
            for (int64_t o = row; o < row + rows; o++, to += step) {
                *to = weight_at(l, o, 2 * i, k) << 16 | weight_at(l, o, 2 * i + 1, k);
            }
        }
        at++;
    }
}

static void put_share(const void *args, const dt__share *s)
{
    const lines *l = args;
    for (phase p = { .taps = -1 }; next_phase(l, &p);) {
        for (int64_t i = s->first; i < s->past; i++) put_words(l, &p, i);
    }
}

/* ---- the canvas of a sample ------------------------------------------------------------------ */

/* Which elements of an axis lie in a phase of the canvas: n elements from `first` on, a.step apart,
 * go to the cells from `cell` on. */
typedef struct run {
    int64_t first, n, cell;
} run;

static run run_of(const axis *a, int64_t at)
{
    const int64_t low = a->low % a->step;
    run r = { .first = at >= low ? at - low : at - low + a->step };
    r.cell = (r.first + a->low) / a->step;
    const int64_t last = dt__min_i64(a->from, (a->cells - 1) * a->step + at - a->low + 1);
    r.n = last > r.first ? dt__ceil_div(last - r.first, a->step) : 0;
    return r;
}

typedef struct job {
    const lines *l;
    const dt__kernels *kernels;
} job;

static void draw_rows(const job *j, const run rows, const run columns, const float *first,
                      const float *second, uint32_t *to)
{
    const axis *of = j->l->axis;
    const int64_t at = rows.first * of[1].from + columns.first, width = j->l->width;
    j->kernels->bf16_pairs(&(dt__bf16_rows){ .rows = rows.n,
                                             .n = columns.n,
                                             .step = of[1].step,
                                             .x = first + at,
                                             .ldx = of[0].step * of[1].from,
                                             .ldy = width },
                           second != NULL ? second + at : NULL,
                           to + rows.cell * width + columns.cell);
}

static void draw(const job *j, const float *x, uint32_t *canvas)
{
    const lines *l = j->l;
    const axis *a = l->axis;
    const int64_t image = a[0].from * a[1].from;
    uint32_t *to = canvas;
    for (int64_t i = 0; i < l->words_in; i++, x += 2 * image) {
        const float *second = 2 * i + 1 < l->in ? x + image : NULL;
        for (int64_t k = 0; k < a[0].step * a[1].step; k++, to += l->plane) {
            const run columns = run_of(&a[1], k % a[1].step);
            if (columns.n > 0) draw_rows(j, run_of(&a[0], k / a[1].step), columns, x, second, to);
        }
    }
}

/* ---- lines of a sample ----------------------------------------------------------------------- */

/* The number of columns of a phase of the result. */
static int64_t columns_of(const lines *l, const phase *p)
{
    return dt__ceil_div(l->axis[1].to - p->b[1], l->axis[1].apart);
}

/* How rows of lines become rows of images: the columns of each of up to two phases. */
typedef struct putting {
    int64_t columns[2], next, apart; /* next: from one phase's line to the other's */
} putting;

static void put_row(const putting *p, float bias, const float *restrict from, float *restrict to)
{
    const int64_t columns = p->columns[0], pairs = p->columns[1];
    const float *restrict second = from + p->next;
    if (p->apart == 1) {
        for (int64_t k = 0; k < columns; k++) to[k] = from[k] + bias;
        return;
    }
    for (int64_t k = 0; k < pairs; k++) {
        to[2 * k] = from[k] + bias;
        to[2 * k + 1] = second[k] + bias;
    }
    for (int64_t k = pairs; k < columns; k++) to[k * p->apart] = from[k] + bias;
}

/* Writes n rows of the phases' result, from row r on, with the bias. The default bias is -0, since
 * x + -0 = x for every x, +0 and -0 included. */
static void put_rows(const lines *l, const phase *p, int64_t r, int64_t n, const float *line,
                     float *y)
{
    const axis *a = l->axis;
    const bool both = together(l) == 2;
    const putting put = { { columns_of(l, p), both ? columns_of(l, p + 1) : 0 },
                          both ? line_floats(l) : 0,
                          a[1].apart };
    for (int64_t o = 0; o < l->out; o++) {
        const float bias = l->bias != NULL ? l->bias[o] : -0.0F;
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = o * a[0].to + p->b[0] + (r + i) * a[0].apart;
            put_row(&put, bias, line + (o * l->rows + i) * l->width, y + row * a[1].to + p->b[1]);
        }
    }
}

static void run_phases(const job *j, const phase *p, const uint32_t *canvas, float *line, float *y)
{
    const lines *l = j->l;
    const int64_t rows = dt__ceil_div(l->axis[0].to - p->b[0], l->axis[0].apart);
    for (int64_t r = 0; r < rows && columns_of(l, p) > 0; r += l->rows) {
        const int64_t n = dt__min_i64(l->rows, rows - r);
        for (int i = 0; i < together(l) && columns_of(l, p + i) > 0; i++) {
            const dt__bf16_lines lines_of = { .outputs = l->out,
                                              .words = l->words_in * p[i].taps,
                                              .n = (n - 1) * l->width + columns_of(l, p + i),
                                              .w = l->weight + p[i].first * rows_held(l),
                                              .offset = l->offset + p[i].first,
                                              .x = canvas + r * l->width,
                                              .y = line + i * line_floats(l),
                                              .ldy = l->rows * l->width };
            (l->tiles ? j->kernels->tile_lines : j->kernels->bf16_lines)(&lines_of);
        }
        put_rows(l, p, r, n, line, y);
    }
}

/* Zeroes the padding once: every sample fills the same cells. */
static void line_share(const void *args, const dt__share *s)
{
    const job *j = args;
    const lines *l = j->l;
    uint32_t *canvas = l->canvas + s->thread * l->canvas_words;
    float *line = l->line + s->thread * together(l) * line_floats(l);
    const int64_t from = l->in * l->axis[0].from * l->axis[1].from;
    const int64_t to = l->out * l->axis[0].to * l->axis[1].to;
    memset(canvas, 0, (size_t)l->canvas_words * sizeof *canvas);
    for (int64_t n = s->first; n < s->past; n++) {
        draw(j, l->x + n * from, canvas);
        if (l->halves != NULL) {
            const dt__bf16_rows all = { .rows = 1, .n = from, .step = 1, .x = l->x + n * from };
            j->kernels->bf16_row(&all, l->halves + n * from);
        }
        for (phase p[2] = { { .taps = -1 } }; next_phase(l, &p[0]);) {
            p[1] = p[0];
            if (together(l) == 2) next_phase(l, &p[1]);
            run_phases(j, p, canvas, line, l->y + n * to);
            p[0] = p[together(l) - 1];
        }
    }
}

static void run_lines(const dt__kernels *kernels, const lines *l)
{
    const job j = { l, kernels };
    if (l->tiles) memset(l->weight, 0, (size_t)(most_words(l) * rows_held(l)) * sizeof *l->weight);
    dt__parallel(l->words_in, 8 * l->taps * l->out, put_share, l);
    const int64_t sample = l->axis[0].to * l->axis[1].to * l->out * l->taps;
    dt__parallel(l->c->batch, dt__max_i64(1, sample / 16) * l->words_in, line_share, &j);
}

/* ---- dW -------------------------------------------------------------------------------------- */

/* Canvas of x: [channel][phase][row][cell], where an axis of stride s has s phases; panels of dy:
 * [panel][row][word][lanes]. With tiles, rows of dy lie as far apart as rows of the canvas, with
 * zeros between them, so that all of them are a single row. */
typedef struct sums {
    const dt__conv *c;
    bool tiles;
    axis axis[2];
    int64_t columns; /* columns of a row of dW */
    int64_t words, pitch, width, plane, canvas_halves,
        panel_words;     /* pitch: words of a panel's row */
    int64_t parts, part; /* parts of the batch; floats of a part's sums */
    const float *x, *dy;
    const uint16_t *halves; /* in place of x */
    float *dw;
    int32_t *offset;
    uint16_t *canvas; /* one per thread */
    uint32_t *panel;
    float *sum;
} sums;

static int64_t lanes_of(const sums *s, int64_t panel)
{
    return s->c->out - 32 * panel > 16 ? 32 : 16;
}

static size_t open_sums(const dt__conv_work *w, void *base, int threads, sums *s)
{
    size_t bytes = 0;
    const dt__conv *c = w->conv;
    const int64_t lanes = dt__round_up(c->out, 16);
    *s = (sums){ .c = c, .columns = c->in * dt__conv_taps(c), .dw = w->to_w };
    s->tiles = w->products == DT_PRODUCTS_BF16_TILES;
    for (int i = 0; i < 2; i++) s->axis[i] = axis_of(c, false, i);
    s->words = dt__ceil_div(c->y_size[1], 2);
    s->width = dt__round_up(2 * s->words + reach_of(c, 1) / c->stride[1], 2);
    s->plane = s->axis[0].cells * s->width;
    s->pitch = s->tiles ? s->width / 2 : s->words;
    const int64_t planes = c->in * c->stride[0] * c->stride[1];
    s->canvas_halves = dt__round_up(planes * s->plane + s->width + DT__BF16_BEHIND / 2, 32);
    s->panel_words = c->y_size[0] * s->pitch * lanes;
    s->part = s->columns * lanes;
    s->parts = dt__min_i64(MOST_PARTS, dt__max_i64(4, PARTS_FLOATS / dt__max_i64(1, s->part)));
    s->parts = dt__min_i64(s->parts, c->batch);
    s->offset = dt__scratch_take(base, &bytes, s->columns, sizeof *s->offset);
    s->canvas = dt__scratch_take(base, &bytes, threads * s->canvas_halves, sizeof *s->canvas);
    s->panel = dt__scratch_take(base, &bytes, threads * s->panel_words, sizeof *s->panel);
    s->sum = dt__scratch_take(base, &bytes, s->parts * s->part, sizeof *s->sum);
    return bytes;
}

static void set_offsets(const sums *s)
{
    const dt__conv *c = s->c;
    const int64_t taps = dt__conv_taps(c), apart[] = { c->stride[0], c->stride[1] };
    for (int64_t k = 0; k < s->columns; k++) {
        const int64_t row = k % taps / c->kernel[1] * c->dilation[0];
        const int64_t column = k % taps % c->kernel[1] * c->dilation[1];
        const int64_t at = (k / taps * apart[0] + row % apart[0]) * apart[1] + column % apart[1];
        s->offset[k] = (int32_t)(at * s->plane + row / apart[0] * s->width + column / apart[1]);
    }
}

typedef struct sum_job {
    const sums *s;
    const dt__kernels *kernels;
} sum_job;

/* Draws sample n. */
static void draw_halves(const sum_job *j, int64_t n, uint16_t *canvas)
{
    const sums *s = j->s;
    const axis *a = s->axis;
    int64_t image = n * s->c->in * a[0].from * a[1].from;
    uint16_t *to = canvas;
    for (int64_t i = 0; i < s->c->in; i++, image += a[0].from * a[1].from) {
        for (int64_t k = 0; k < a[0].step * a[1].step; k++, to += s->plane) {
            const run rows = run_of(&a[0], k / a[1].step), columns = run_of(&a[1], k % a[1].step);
            if (columns.n == 0) continue;
            const int64_t at = image + rows.first * a[1].from + columns.first;
            const bool rounded = s->halves != NULL;
            const dt__bf16_rows all = { .rows = rows.n,
                                        .n = columns.n,
                                        .step = a[1].step,
                                        .x = rounded ? NULL : s->x + at,
                                        .halves = rounded ? s->halves + at : NULL,
                                        .ldx = a[0].step * a[1].from,
                                        .ldy = s->width };
            j->kernels->bf16_row(&all, to + rows.cell * s->width + columns.cell);
        }
    }
}

/* Adds a sample to the sums of a part. */
static void add_sample(const sum_job *j, const float *dy, const uint16_t *canvas, uint32_t *panel,
                       float *sum)
{
    const sums *s = j->s;
    const dt__conv *c = s->c;
    const int64_t plane = dt__conv_y_plane(c);
    for (int64_t o = 0; o < c->out; o += 32) {
        const int64_t lanes = lanes_of(s, o / 32), rows = dt__min_i64(lanes, c->out - o);
        uint32_t *to = panel + o * c->y_size[0] * s->pitch;
        for (int64_t r = 0; r < c->y_size[0]; r++) {
            j->kernels->bf16_panel(&(dt__bf16_panel){ .rows = rows,
                                                      .lanes = lanes,
                                                      .n = c->y_size[1],
                                                      .x = dy + o * plane + r * c->y_size[1],
                                                      .ldx = plane,
                                                      .to = to + r * s->pitch * lanes });
        }
        const dt__bf16_sums sums_of = { .columns = s->columns,
                                        .lanes = lanes,
                                        .rows = s->tiles ? 1 : c->y_size[0],
                                        .words = s->tiles ? c->y_size[0] * s->pitch : s->words,
                                        .dy = to,
                                        .x = canvas,
                                        .x_row = s->width,
                                        .offset = s->offset,
                                        .dw = sum + o * s->columns };
        (s->tiles ? j->kernels->tile_sums : j->kernels->bf16_sums)(&sums_of);
    }
}

static void sum_share(const void *args, const dt__share *share)
{
    const sum_job *j = args;
    const sums *s = j->s;
    const dt__conv *c = s->c;
    uint16_t *canvas = s->canvas + share->thread * s->canvas_halves;
    uint32_t *panel = s->panel + share->thread * s->panel_words;
    memset(canvas, 0, (size_t)s->canvas_halves * sizeof *canvas);
    if (s->tiles) memset(panel, 0, (size_t)s->panel_words * sizeof *panel);
    for (int64_t p = share->first; p < share->past; p++) {
        float *sum = s->sum + p * s->part;
        memset(sum, 0, (size_t)s->part * sizeof *sum);
        for (int64_t n = p * c->batch / s->parts; n < (p + 1) * c->batch / s->parts; n++) {
            draw_halves(j, n, canvas);
            add_sample(j, s->dy + n * c->out * dt__conv_y_plane(c), canvas, panel, sum);
        }
    }
}

/* Adds the parts' sums of a column, in order, to dW. */
DT__LOOP(join_share, sums, s, k)
{
    for (int64_t o = 0; o < s->c->out; o += 32) {
        const int64_t lanes = lanes_of(s, o / 32), some = dt__min_i64(lanes, s->c->out - o);
        const float *from = s->sum + o * s->columns + k * lanes;
        float sum[32];
        memcpy(sum, from, (size_t)lanes * sizeof *sum);
        for (int64_t p = 1; p < s->parts; p++) {
            from += s->part;
            for (int64_t l = 0; l < lanes; l++) sum[l] += from[l];
        }
        for (int64_t l = 0; l < some; l++) s->dw[(o + l) * s->columns + k] = sum[l];
    }
}

static void run_sums(const dt__kernels *kernels, const sums *s)
{
    const sum_job j = { s, kernels };
    const int64_t sample = dt__max_i64(1, s->columns / 16) * s->panel_words;
    set_offsets(s);
    dt__parallel(s->parts, sample * dt__ceil_div(s->c->batch, s->parts), sum_share, &j);
    dt__parallel(s->columns, s->c->out * s->parts, join_share, s);
}

/* ---- the work -------------------------------------------------------------------------------- */

bool dt__bf16_conv_takes(const dt__conv_work *w)
{
    const dt__conv *c = w->conv;
    lines l;
    sums s;
    if (c->groups != 1 || c->batch == 0 || c->in == 0 || c->out == 0) return false;
    if (dt__conv_x_plane(c) == 0 || dt__conv_y_plane(c) == 0) return false;
    open_lines(w, NULL, 1, &l);
    open_sums(w, NULL, 1, &s);
    return l.canvas_words < MOST_CANVAS && s.canvas_halves < MOST_CANVAS;
}

size_t dt__bf16_conv_scratch(const dt__conv_work *w, int threads)
{
    lines l;
    sums s;
    const size_t of_lines =
        w->to_x != NULL || w->to_y != NULL ? open_lines(w, NULL, threads, &l) : 0;
    const size_t of_sums = w->to_w != NULL ? open_sums(w, NULL, threads, &s) : 0;
    return of_lines > of_sums ? of_lines : of_sums;
}

void dt__bf16_conv(const dt__kernels *kernels, const dt__conv_work *w, const float *x,
                   const float *y, void *scratch, int threads)
{
    if (w->to_x != NULL || w->to_y != NULL) {
        lines l;
        open_lines(w, scratch, threads, &l);
        l.x = l.transposed ? y : x;
        l.y = l.transposed ? w->to_x : w->to_y;
        l.halves = l.transposed ? NULL : w->to_halves;
        run_lines(kernels, &l);
    }
    if (w->to_w != NULL) {
        sums s;
        open_sums(w, scratch, threads, &s);
        s.x = x;
        s.halves = w->x_halves;
        s.dy = y;
        run_sums(kernels, &s);
    }
}
