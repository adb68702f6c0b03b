/* Canvases of codes, and rows of a tile from them (qconv_gather.h). */
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

/* One row of an image, between the code of zero. */
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

void dt__canvas_draw(const dt__axis axis[2], int64_t channels, const uint8_t *u, int zero,
                     const dt__canvas *to)
{
    const dt__axis *rows = &axis[0], *columns = &axis[1];
    uint8_t *row = to->bytes;
    for (int64_t c = 0; c < channels; c++, u += rows->in * columns->in) {
        for (int64_t a = to->row0; a < to->row0 + to->rows; a++, row += to->width) {
            const int64_t i = dt__axis_input(rows, a);
            if (i < 0) memset(row, zero, (size_t)to->width);
            else draw_row(columns, u + i * columns->in, zero, row);
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Four rows at a time, in words of `word` bytes; what a word has too much, the next one overwrites. */
static inline void gather_words(const dt__gathering *g, int64_t length, size_t word)
{
    int m = 0;
    for (; m + 4 <= g->rows; m += 4) {
        const uint8_t *const *from = g->from + m;
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++, to += length) {
            const int64_t at = g->offset[i];
            memcpy(to, from[0] + at, word);
            memcpy(to + g->ld, from[1] + at, word);
            memcpy(to + 2 * g->ld, from[2] + at, word);
            memcpy(to + 3 * g->ld, from[3] + at, word);
        }
    }
    for (; m < g->rows; m++) {
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++, to += length) {
            memcpy(to, g->from[m] + g->offset[i], word);
        }
    }
}

static void gather_long(const dt__gathering *g)
{
    for (int m = 0; m < g->rows; m++) {
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++, to += g->length) {
            memcpy(to, g->from[m] + g->offset[i], (size_t)g->length);
        }
    }
}

/* Eight words of eight bytes each, as the columns of what they were rows of: 1 x 1 blocks change
 * places, then 2 x 2, then 4 x 4. */
static inline void swap_blocks(uint64_t *a, uint64_t *b, int bits, uint64_t low)
{
    const uint64_t t = ((*a >> bits) ^ *b) & low;
    *b ^= t;
    *a ^= t << bits;
}

static inline void transpose_bytes(uint64_t w[8])
{
    for (int i = 0; i < 8; i += 2) swap_blocks(w + i, w + i + 1, 8, 0x00ff00ff00ff00ffu);
    for (int i = 0; i < 4; i++) {
        const int at = i / 2 * 4 + i % 2;
        swap_blocks(w + at, w + at + 2, 16, 0x0000ffff0000ffffu);
    }
    for (int i = 0; i < 4; i++) swap_blocks(w + i, w + i + 4, 32, 0x00000000ffffffffu);
}

/* Eight rows that begin at neighbouring bytes, pieces being single bytes. */
static void gather_block(const dt__gathering *g, int m)
{
    uint8_t *to = g->to + m * g->ld;
    for (int64_t i = 0; i < g->pieces; i += 8) {
        uint64_t w[8] = { 0 };
        const int n = (int)dt__min_i64(8, g->pieces - i);
        for (int k = 0; k < n; k++) memcpy(w + k, g->from[m] + g->offset[i + k], 8);
        transpose_bytes(w);
        for (int k = 0; k < 8; k++) memcpy(to + k * g->ld + i, w + k, 8);
    }
}

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IS_LITTLE_ENDIAN true
#else
#define IS_LITTLE_ENDIAN false
#endif

static void gather_bytes(const dt__gathering *g)
{
    for (int m = 0; m < g->rows;) {
        bool beside = IS_LITTLE_ENDIAN && m + 8 <= g->rows;
        for (int k = 1; k < 8 && beside; k++) beside = g->from[m + k] == g->from[m] + k;
        if (beside) {
            gather_block(g, m);
            m += 8;
            continue;
        }
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++) to[i] = g->from[m][g->offset[i]];
        m++;
    }
}

void dt__gather_rows(const dt__gathering *g)
{
    if (g->length == 1) gather_bytes(g);
    else if (g->length == 3) gather_words(g, 3, 4);
    else if (g->length <= 4) gather_words(g, g->length, 4);
    else if (g->length <= 8) gather_words(g, g->length, 8);
    else gather_long(g);
}
