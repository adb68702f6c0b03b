/* What the rows of batch and group norm take; for plain_norm_rows.inc and its kin. */
#ifndef DT__KERNELS_NORM_ROWS_H
#define DT__KERNELS_NORM_ROWS_H

#include "kernels/loops.h"

#define NORM_LANES 16

/* Two sums:      forward   x - shift  and  (x - shift)^2
 *                backward  g          and  g (x - mean)  */
typedef struct norm_lanes {
    double first[NORM_LANES], second[NORM_LANES];
} norm_lanes;

/* y = x slope + offset      dx = g up + x slope + offset */
typedef struct norm_line {
    double up, slope, offset;
} norm_line;

#endif
