/* Products of gradients as integers: numerics, "Integer backward". One operand has codes of 7 bits,
 * -63...63, in rows; the other has u8 codes in columns, 32 of which are the lanes of a panel:
 *
 *     for each 4 consecutive terms d of the sum: 128 bytes; byte 4 * lane + i is term d + i
 *
 * Pairs of their products fit int16 (2 * 63 * 255 < 2^15). Bytes of missing columns and terms may
 * hold anything: the other operand's codes are 0 there, or the result is not written. */
#ifndef DT__KERNELS_Q7_H
#define DT__KERNELS_Q7_H

#include "core/text/byte_order.h"
#include "kernels/products/panels.h"

#include <string.h>

#define DT__Q7_CODE 63         /* largest code of 7 bits */
#define DT__Q7_BLOCK 128       /* rows of dy that share the scale of an output */
#define DT__Q7_DEPTH (1 << 17) /* most terms of an int32 sum: 63 * 255 * 2^17 < 2^31 */
#define DT__Q7_WORD 4          /* terms that are multiplied at once */
#define DT__Q7_LEAST 0x1p-126f /* least scale */

/* Bytes of a panel of `depth` terms. */
static inline size_t dt__q7_panel(int64_t depth)
{
    return (size_t)dt__ceil_div(depth, DT__Q7_WORD) * DT__Q7_WORD * DT__LANES;
}

/* c = fmaf((float)(sum - minus[r]) * lane[j], row[r], c), for rows r and columns j, where sum is
 * that of a[r][d] * panels[j][d] over d < depth, a multiple of 4. On the calling thread. */
typedef struct dt__q7_product {
    int64_t rows, columns, depth;
    const int8_t *a; /* word w of row r is a + r * row_step + w * word_step */
    int64_t row_step, word_step;
    const uint8_t *panels; /* of columns 0...31, 32...63 and so on */
    size_t panel_step;     /* bytes from a panel to the next */
    const int32_t *minus;  /* [rows] */
    const float *row;      /* [rows] */
    const float *lane;     /* [columns]; NULL: 1 */
    bool add;              /* false: c is 0 before */
    float *c;              /* [rows][ldc] */
    int64_t ldc;
} dt__q7_product;

/* Rows of x [rows][ldx] to codes [rows][ld], ld a multiple of 4 not below n; scale and the sum of
 * codes times 128 of each row. */
typedef struct dt__q7_rows {
    int64_t rows, n;
    const float *x;
    int64_t ldx;
    int8_t *codes;
    int64_t ld;
    int bias; /* added to every code in memory: 0, or 128 for operands stored as u8 */
    float *scale;
    int32_t *sum128;
} dt__q7_rows;

/* A block of at most DT__Q7_BLOCK rows and 64 columns of x, times a factor per row, becomes codes:
 * byte i of word w of column j, at codes[w * step + 4 * j], is row 4 w + i; missing rows are 0.
 * Also computes each column's scale, and the sum of its codes times zero[row]. */
typedef struct dt__q7_columns {
    int64_t rows, n;
    const float *x;
    int64_t ldx;
    const float *factor; /* [rows] */
    const int32_t *zero; /* [rows] */
    int8_t *codes;
    int64_t step; /* bytes from a word to the next */
    float *scale;
    int32_t *sum;
} dt__q7_columns;

#define DT__Q7_COLUMNS 64

/* Four rows of bytes as words of columns 0...n-1: word j, at to[4 * j], holds row i in byte i. */
typedef struct dt__q7_words {
    int64_t n;
    const uint8_t *row[DT__Q7_WORD];
    uint8_t *to;       /* of column 0 */
    size_t panel_step; /* from the words of 32 columns to those of the next 32 */
} dt__q7_words;

/* A run of neighbouring positions: `n` of them, `from` in memory, `to` in the words of a block. */
typedef struct dt__q7_span {
    int64_t from, to, n;
} dt__q7_span;

/* Outputs whose positions lie side by side become codes: the positions of a block, in words of
 * four, times factor[position]. Byte i of word w of output j, at codes[w * step + 4 * j], is
 * position 4 w + i; positions in no run are 0. Also computes each output's scale, and the sum of
 * its codes times zero[position]. */
typedef struct dt__q7_lines {
    int64_t n, words, runs; /* words: at most DT__Q7_BLOCK */
    const dt__q7_span *run; /* ascending */
    const float *x;         /* of output 0 */
    int64_t ldx;            /* to the next output */
    const float *factor;    /* [4 * words] */
    const int32_t *zero;    /* [4 * words] */
    int8_t *codes;
    int64_t step; /* bytes from a word to the next */
    float *scale;
    int32_t *sum;
} dt__q7_lines;

/* c[k][j] = fmaf((float)(sum - minus[j]), scale[j], c[k][j]), where sum is that of the codes of
 * output j times the bytes at at[word] + offset[k], over the words of a block. Lanes are outputs: n
 * is a multiple of DT__Q7_OUTPUTS, and codes and c are aligned for them. On the calling thread. */
typedef struct dt__q7_taps {
    int64_t words, outputs, columns;
    const uint8_t *const *at; /* [words]: 4 bytes are read */
    const int32_t *offset;    /* [columns] */
    const int8_t *codes;      /* as of dt__q7_lines */
    int64_t step;
    const int32_t *minus; /* [outputs] */
    const float *scale;   /* [outputs] */
    float *c;             /* [columns][ldc] */
    int64_t ldc;
} dt__q7_taps;

#define DT__Q7_OUTPUTS 16

/* Floats w [n][32] become a panel of bytes code + 128, in two passes over all terms: the first
 * finds the largest magnitudes, as bits; the second writes the codes by 1 / scale. Each call gets a
 * multiple of four terms, but for the last. */
typedef struct dt__q7_lanes {
    int64_t n;
    const float *w;
    uint32_t *most;       /* [32], bits of the largest magnitude so far */
    const float *inverse; /* [32] */
    uint8_t *panel;       /* the panel, at the first of these terms */
} dt__q7_lanes;

/* scale = max(most / codes, 2^-126), NaN where most is not finite; *inverse = 1 / scale, or 0. */
static inline float dt__q7_scale(uint32_t most, float codes, float *inverse)
{
    float x;
    memcpy(&x, &most, sizeof x);
    if (most >= 0x7f800000u) {
        *inverse = 0;
        return __builtin_nanf("");
    }
    x /= codes;
    x = x > DT__Q7_LEAST ? x : DT__Q7_LEAST;
    *inverse = 1 / x;
    return x;
}

/* ---- the gradients of a layer ---------------------------------------------------------------- */

/* dx [m][k] (+)= dy W^ and dw [n][k] (+)= dy^T x^, on threads. Results that are NULL are not
 * computed, and operands that only they need may be NULL. */
typedef struct dt__q7_layer {
    int64_t m, n, k;
    const float *dy; /* [m][ldy] */
    int64_t ldy;
    const struct dt__source *weight; /* W^ [n][k] */
    float *dx;
    bool add_x;
    /* The codes of x: row r is at u + r * ldu; or `read` writes rows r ... r + rows - 1 of k bytes
     * each, with room for DT__Q7_BEHIND more bytes behind each. */
    const uint8_t *u;
    int64_t ldu;
    void (*read)(const void *from, int64_t r, int64_t rows, uint8_t *to, int64_t stride);
    const void *from;
    const float *sx;
    const int32_t *zu;
    float *dw;
    bool add_w;
    int threads;
    void *scratch;
} dt__q7_layer;

#define DT__Q7_BEHIND 8

struct dt__kernels;
/* Bytes of scratch; tests only which results are not NULL. */
size_t dt__q7_scratch(const dt__q7_layer *l);
/* n is at most DT__Q7_DEPTH if dx is not NULL. */
void dt__q7_run(const struct dt__kernels *kernels, const dt__q7_layer *l);

#endif
