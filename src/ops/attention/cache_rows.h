/* Rows of keys and values as codes of a decoder's cache (docs/numerics.md §2). Of int8
 *     scale = max(max |x| / 127, 2^-23)       code = rne(x (1 / scale)), in -127 ... 127
 * and of 4 bits, where x is the row times the Hadamard matrix and m its element of the largest
 * magnitude (of equals the negative one), as ggml's q4_0 does:
 *     scale = m / -8, of magnitude 2^-23 at least     code = rne(x (1 / scale)), in -8 ... 7
 * Both are found in f32, of f64 rows, too. */
#ifndef DT__OPS_CACHE_ROWS_H
#define DT__OPS_CACHE_ROWS_H

#include "kernels/kernels.h"

typedef struct dt__cache_rows {
    int64_t batch, time, heads, width;
    dt_dtype dtype;          /* of x and scale */
    bool packed;             /* 4 bits, two codes in a byte as dt__attention has them */
    dt__heads x;             /* rows */
    int8_t *codes;           /* i8, or u8 of rows half as wide */
    int64_t code_strides[4]; /* as those of x */
    void *scale;
    int64_t scale_strides[3]; /* batch, time, head */
    float *room;              /* dt__cache_rows_room floats */
} dt__cache_rows;

/* Floats of scratch memory for loops of so many threads. */
int64_t dt__cache_rows_room(int64_t width, int threads);
/* Writes codes and scales; kernels are those of f32. Returns the token of a row that is not finite,
 * the first of the first head that has one; -1: all are. Such a row has codes 0, its scale is
 * NaN. */
int64_t dt__cache_rows_encode(const dt__kernels *k, const dt__cache_rows *r);
/* y [batch][time][heads][width] = the rows that the codes stand for; kernels and y are those of
 * r->dtype. */
void dt__cache_rows_decode(const dt__kernels *k, const dt__cache_rows *r, void *y);

#endif
