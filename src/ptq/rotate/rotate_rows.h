/* The rows from which rotations are learned: of the residual stream in front of norms, and of each
 * block's values in front of its output layer. */
#ifndef DT__PTQ_ROTATE_ROWS_H
#define DT__PTQ_ROTATE_ROWS_H

#include "nn/module.h"

#include <detent/experimental/ptq.h>

/* Rows of n elements whose mean square is 1. */
typedef struct dt__rows {
    /* seen: rows that modules read; every: each every-th of them is kept; used: rows kept */
    int64_t n, used, seen, every;
    double *x;
} dt__rows;

/* Collects rows from all batches, at most some thousand for each rotation: rows[0] of the stream,
 * of `width` elements; rows[1 + i] of block i, of a head's width. `rows` has 1 + blocks elements,
 * zeroed; the caller releases each x. Errors: those of the model and of `batch`, NUMERIC (an input
 * that is not finite), NOMEM. */
dt_status dt__rotate_collect(dt_module *m, const dt_calibration *data, int64_t blocks,
                             int64_t width, int64_t head_width, dt__rows *rows);

#endif
