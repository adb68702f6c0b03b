/* What the rows of batch and group norm take; for plain_norm_rows.inc and its kin. */
#ifndef DT__KERNELS_NORM_ROWS_H
#define DT__KERNELS_NORM_ROWS_H

#include "kernels/loops.h"

#define NORM_LANES 16

/* y = (x - middle) slope + offset      dx = g up + (x - middle) slope + offset */
typedef struct norm_line {
    double up, middle, slope, offset;
} norm_line;

#endif
