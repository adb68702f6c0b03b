/* How integer products of all instruction sets are divided into parts for threads. */
#ifndef DT__KERNELS_QGEMM_H
#define DT__KERNELS_QGEMM_H

#include "kernels/sets.h"

/* Forms of codes in panels. */
enum {
    DT__NIBBLES,  /* two in a byte, 2 to 4 bits */
    DT__UNPACKED, /* one in a byte, 2 to 4 bits */
    DT__BYTES     /* one in a byte, 5 to 8 bits */
};

/* A chunk of rows against one panel. */
typedef struct dt__qgemm_part {
    const dt__qgemm *g;
    const uint8_t *panel;
    int64_t m0, n0;  /* the first row and output */
    int rows, lanes; /* lanes: outputs, fewer than DT__LANES in the last panel */
} dt__qgemm_part;

/* Calls `part` on threads for all rows and panels of g: at most `most` rows at a time, panel by
 * panel, so that a panel stays in cache for all rows. The division changes no bit. */
void dt__qgemm_share(const dt__qgemm *g, int most, void (*part)(const dt__qgemm_part *part));

/* acc = fmaf((float)sum, scale, acc) for DT__LANES lanes, without calling fmaf where it is not an
 * instruction. */
void dt__add_scaled(const int32_t *sum, const float *scale, float *acc);

#endif
