/* Rows of keys and values as codes of a decoder's cache (docs/numerics.md §2). int8:
 *     scale = max(max |x| / 127, 2^-23)       code = rne(x (1 / scale)), in -127 ... 127
 * 4 bits, where x is the row times the Hadamard matrix, and m the element of x with the largest
 * magnitude (of equal magnitudes the negative one), as in ggml's q4_0:
 *     scale = m / -8, of magnitude 2^-23 at least     code = rne(x (1 / scale)), in -8 ... 7
 * Scales and codes are computed in f32, also for rows of f64. */
#ifndef DT__OPS_CACHE_ROWS_H
#define DT__OPS_CACHE_ROWS_H

#include "kernels/kernels.h"

typedef struct dt__cache_rows {
    int64_t batch, time, heads, width;
    dt_dtype dtype;          /* of x and scale */
    bool packed;             /* 4 bits, two codes in a byte as in dt__attention */
    dt__heads x;             /* rows */
    int8_t *codes;           /* i8; or u8, for rows half as wide */
    int64_t code_strides[4]; /* like those of x */
    void *scale;
    int64_t scale_strides[3]; /* batch, time, head */
    float *room;              /* dt__cache_rows_room floats */
} dt__cache_rows;

/* Floats of scratch memory for this number of threads. */
int64_t dt__cache_rows_room(int64_t width, int threads);
/* Writes codes and scales; kernels are those of f32. Returns -1 if all rows are finite; else the
 * token of a row that is not: the first one of the first head that has one. Such a row has codes 0,
 * and its scale is NaN. */
int64_t dt__cache_rows_encode(const dt__kernels *k, const dt__cache_rows *r);
/* y [batch][time][heads][width] = the dequantized rows; kernels and y are those of r->dtype. */
void dt__cache_rows_decode(const dt__kernels *k, const dt__cache_rows *r, void *y);

#endif
