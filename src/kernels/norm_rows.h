/* The operand of row loops of batch and group norm (plain_norm_rows.inc and its vector forms). */
#ifndef DT__KERNELS_NORM_ROWS_H
#define DT__KERNELS_NORM_ROWS_H

#include "kernels/loops.h"

#define NORM_LANES 16

/* y = (x - middle) slope + offset      dx = g up + (x - middle) slope + offset */
typedef struct norm_line {
    double up, middle, slope, offset;
} norm_line;

#endif
