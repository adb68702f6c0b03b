/* Axes, canvases and words of convolutions of codes (qconv_gather.h). */
#include "kernels/convolution/qconv_gather.h"

#include "kernels/products/copy_few.h"

bool dt__axis_tap(const dt__axis *x, int64_t phase, int64_t k, int64_t *input)
{
    if (!x->transposed) {
        *input = k * x->dilation - x->padding;
        return true;
    }
    const int64_t a = phase + x->padding - k * x->dilation;
    *input = a / x->stride;
    return a % x->stride == 0;
}

int64_t dt__axis_positions(const dt__axis *x, int64_t phase)
{
    return phase < x->out ? (x->out - phase - 1) / x->phases + 1 : 0;
}

dt__axis dt__axis_of(const dt__qconv *q, int axis)
{
    const dt__conv *c = q->conv;
    dt__axis x = { .taps = c->kernel[axis],
                   .stride = c->stride[axis],
                   .padding = c->padding[axis],
                   .dilation = c->dilation[axis],
                   .transposed = q->transposed };
    const int64_t reach = (x.taps - 1) * x.dilation;
    x.in = q->transposed ? c->y_size[axis] : c->x_size[axis];
    x.out = q->transposed ? c->x_size[axis] : c->y_size[axis];
    x.phases = q->transposed ? x.stride : 1;
    x.step = q->transposed ? 1 : x.stride;
    if (q->transposed) { /* rounded outward */
        x.low = x.padding >= reach ? 0 : -((reach - x.padding) / x.stride);
        x.high = (x.stride - 1 + x.padding) / x.stride;
    } else {
        x.low = -x.padding;
        x.high = reach - x.padding;
    }
    return x;
}

#define PAIRS 8 /* pairs of bytes per vector */

/* Columns 0, 2, 4 and so on of n, and 1, 3, 5 and so on. */
static void draw_pairs(int64_t n, const uint8_t *restrict from, uint8_t *restrict even,
                       uint8_t *restrict odd)
{
    int64_t j = 0;
    for (; j + PAIRS <= n / 2; j += PAIRS) {
#pragma omp simd
        for (int i = 0; i < PAIRS; i++) {
            even[j + i] = from[2 * (j + i)];
            odd[j + i] = from[2 * (j + i) + 1];
        }
    }
    for (; j < n / 2; j++) {
        even[j] = from[2 * j];
        odd[j] = from[2 * j + 1];
    }
    if (n % 2 != 0) even[j] = from[2 * j];
}

/* Writes a row's n columns; column 0 is number `before` of the canvas row. */
static void draw_row(const dt__canvas *to, uint8_t *row, int64_t before, const uint8_t *from,
                     int64_t n)
{
    const int64_t phases = to->phases, each = phases > 1 ? to->width / phases : 0;
    if (phases <= 1) {
        dt__copy_few(row + before, from, n);
    } else if (phases == 2) {
        draw_pairs(n, from, row + before % 2 * each + before / 2,
                   row + (before + 1) % 2 * each + (before + 1) / 2);
    } else {
        for (int64_t j = before; j < before + n; j++) row[j % phases * each + j / phases] = *from++;
    }
}

void dt__canvas_draw(const dt__axis *axes, int64_t channels, const uint8_t *u, int zero,
                     const dt__canvas *to)
{
    const dt__axis *rows = &axes[0], *columns = &axes[1];
    const int64_t before = dt__max_i64(0, -columns->low), skipped = dt__max_i64(0, columns->low);
    const int64_t n = dt__min_i64(columns->in - skipped, to->width - before);
    const int64_t first = dt__max_i64(0, -to->row0);
    const int64_t past = dt__min_i64(to->rows, rows->in - to->row0);
    if (before > 0 || n < to->width || first > 0 || past < to->rows) {
        memset(to->bytes, zero, (size_t)(channels * to->rows * to->width));
    }
    for (int64_t c = 0; c < channels && n > 0; c++, u += rows->in * columns->in) {
        uint8_t *row = to->bytes + (c * to->rows + first) * to->width;
        const uint8_t *from = u + (to->row0 + first) * columns->in + skipped;
        for (int64_t a = first; a < past; a++, row += to->width, from += columns->in) {
            draw_row(to, row, before, from, n);
        }
    }
}

static int64_t taps_of(const dt__axis *x, int64_t phase)
{
    int64_t n = 0, input;
    for (int64_t k = 0; k < x->taps; k++) n += dt__axis_tap(x, phase, k, &input);
    return n;
}

int64_t dt__conv_words_most(const dt__conv_words_of *of, int64_t *columns)
{
    const int64_t taps = of->axis[0].taps * of->axis[1].taps, all = of->layout->columns;
    const int64_t rows = of->all ? of->axis[0].taps : taps_of(&of->axis[0], of->phase[0]);
    const int64_t across = of->all ? of->axis[1].taps : taps_of(&of->axis[1], of->phase[1]);
    *columns = all / dt__max_i64(1, taps) * rows * across;
    return *columns / 4 + of->layout->pieces;
}

/* The canvas offset of a column; false if the column reads no input. */
static bool offset_of(const dt__conv_words_of *of, int64_t column, int64_t *offset)
{
    const dt__axis *rows = &of->axis[0], *columns = &of->axis[1];
    const int64_t taps = rows->taps * columns->taps, tap = column % taps;
    int64_t i, j;
    if (!dt__axis_tap(rows, of->phase[0], tap / columns->taps, &i)) return false;
    if (!dt__axis_tap(columns, of->phase[1], tap % columns->taps, &j)) return false;
    *offset = column / taps * of->plane + (i - rows->low) * of->width + j - columns->low;
    return true;
}

/* Finds the parts of a word whose columns 0 ... n - 1 lie at `offset`. */
static dt__taps *parts_of(int64_t step, int n, const int64_t *offset, dt__taps *part)
{
    const int64_t most = DT__TAPS_NEAR(step <= DT__TAPS_STEP ? step : 0);
    unsigned left = (1u << n) - 1;
    for (; left != 0; part++) {
        int64_t low = INT64_MAX;
        for (int i = 0; i < n; i++) { /* the first column, or those just before it */
            const bool near = low == INT64_MAX || (offset[i] < low && low - offset[i] < 4);
            if (left >> i & 1 && near) low = offset[i];
        }
        *part = (dt__taps){ .offset = (int32_t)low };
        memset(part->at, DT__GATHER_NONE, sizeof part->at);
        for (int i = 0; i < n; i++) {
            const int64_t at = offset[i] - low;
            if (!(left >> i & 1) || at < 0 || at > most) continue;
            part->at[i] = (uint8_t)at;
            left &= ~(1u << i);
        }
    }
    return part;
}

void dt__conv_words_find(const dt__conv_words_of *of, dt__conv_words *w)
{
    const dt__panel_layout *l = of->layout;
    const int32_t *order = dt__panel_order(l, of->row);
    dt__taps *part = w->part;
    w->words = 0;
    for (int64_t i = 0; i < l->pieces; i++) {
        const dt__piece piece = dt__piece_of(l, i);
        const int64_t before = w->words, end = piece.start + piece.length;
        for (int64_t place = piece.start; place < end;) {
            int64_t offset[4];
            int32_t *places = w->place + 4 * w->words;
            int n = 0;
            for (; place < end && n < 4; place++) {
                const bool takes =
                    of->all || offset_of(of, order == NULL ? place : order[place], &offset[n]);
                if (takes) places[n++] = (int32_t)place;
            }
            if (n == 0) break;
            for (int k = n; k < 4; k++) places[k] = -1;
            w->first[w->words++] = (int32_t)(part - w->part);
            if (!of->all) part = parts_of(of->axis[1].step, n, offset, part);
        }
        w->length[i] = (int32_t)(w->words - before);
    }
    w->first[w->words] = (int32_t)(part - w->part);
}
