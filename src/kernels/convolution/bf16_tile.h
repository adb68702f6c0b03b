/* Operands of the kernels of bf16 convolutions. A word is a pair of bf16; a term is the product of
 * two words, of which first the high halves are multiplied and added, then the low ones
 * (kernels/products/bf16.h). Kernels tile_lines and tile_sums take the same words in the same order
 * but 16 at a time, as matrix tiles do (dt__bf16_join); zeros complete the last 16. */
#ifndef DT__KERNELS_BF16_TILE_H
#define DT__KERNELS_BF16_TILE_H

#include "core/core.h"

#define DT__BF16_STRIP 14   /* rows of a tile, at most */
#define DT__BF16_BEHIND 128 /* bytes behind a canvas that may be read */

/* y[o][i] = the sum over words p ascending of w[o][p] x[offset[p] + i], from 0, for n positions i.
 * Rows of w lie in strips of equal heights, word by word: dt__bf16_strips of them, strip s from row
 * s * outputs / strips on. For tile_lines they lie tile by tile (dt__bf16_tile_word), with zeros
 * for words and rows that complete a tile. */
typedef struct dt__bf16_lines {
    int64_t outputs, words, n;
    const uint32_t *w;
    const int32_t *offset;
    const uint32_t *x;
    float *y;
    int64_t ldy;
} dt__bf16_lines;

static inline int64_t dt__bf16_strips(int64_t rows)
{
    return (rows + DT__BF16_STRIP - 1) / DT__BF16_STRIP;
}

#define DT__BF16_TILE_SIDE 16 /* rows of a tile, and words of a row of it */

/* The index of word p of row o in the w of tile_lines: [words / 16][rows, whole tiles][16]. */
static inline int64_t dt__bf16_tile_word(int64_t outputs, int64_t o, int64_t p)
{
    const int64_t side = DT__BF16_TILE_SIDE, rows = dt__round_up(outputs, side);
    return (p / side * rows + o) * side + p % side;
}

/* dw[k][o] += the sum over rows r and words p, ascending, of dy[r][p][o] and the word of x at
 * offset[k] + r * x_row + 2 p; k < columns, o < lanes, which are 16 or 32. There is at
 * least one word. */
typedef struct dt__bf16_sums {
    int64_t columns, lanes, rows, words;
    const uint32_t *dy;
    const uint16_t *x;
    int64_t x_row;
    const int32_t *offset;
    float *dw;
} dt__bf16_sums;

/* Rows of n elements, `step` apart, to be rounded; rows of x are ldx elements apart, those of the
 * result ldy. With second rows (or NULL: zeros) they become words whose high halves are of x. For
 * bf16_row the elements may be `halves`, which are rounded already, in place of x; the one behind
 * the last may be read. */
typedef struct dt__bf16_rows {
    int64_t rows, n, step;
    const float *x;
    const uint16_t *halves;
    int64_t ldx, ldy;
} dt__bf16_rows;

/* to[p][l] = the word of x[l][2 p], its low half, and x[l][2 p + 1], for l < rows; zeros where a
 * row of n elements ends, and for the other lanes. */
typedef struct dt__bf16_panel {
    int64_t rows, lanes, n;
    const float *x;
    int64_t ldx;
    uint32_t *to; /* [(n + 1) / 2][lanes] */
} dt__bf16_panel;

#endif
