/* What the integer products of all instruction sets share: how the work is cut. */
#ifndef DT__KERNELS_QGEMM_H
#define DT__KERNELS_QGEMM_H

#include "kernels/sets.h"

/* How codes lie, and what they may be. */
enum {
    DT__NIBBLES,  /* packed two in a byte */
    DT__UNPACKED, /* as bytes lie, of 2 to 4 bits */
    DT__BYTES     /* of 5 to 8 bits */
};

/* A chunk of rows against one panel. */
typedef struct dt__qgemm_part {
    const dt__qgemm *g;
    const uint8_t *panel;
    int64_t m0, n0;  /* the first row and output */
    int rows, lanes; /* lanes: outputs, fewer than DT__LANES in the last panel */
} dt__qgemm_part;

/* Runs `part` over all of g, on threads: at most `most` rows at a time, panel by panel, so that a
 * panel stays in cache while all rows pass. How the rows are cut changes no bit. */
void dt__qgemm_share(const dt__qgemm *g, int most, void (*part)(const dt__qgemm_part *part));

#endif
