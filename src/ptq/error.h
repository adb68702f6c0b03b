/* The error of each rounded row on the calibration data. */
#ifndef DT__PTQ_ERROR_H
#define DT__PTQ_ERROR_H

#include "ptq/matrix.h"

/* A thread's scratch memory and its values for the rows of a block. */
typedef struct dt__error_metric {
    double *target;                /* [columns][rows]: G W^T; NULL: not needed */
    double *room;                  /* scratch: a block of sums and a block of rows of C */
    double square[DT__BLOCK_ROWS]; /* |W X|^2 */
} dt__error_metric;

/* For each row: ||W X - W^ Xq||^2, and the squared error that the rounder minimizes. */
typedef struct dt__distance {
    double error[DT__BLOCK_ROWS], own[DT__BLOCK_ROWS];
} dt__distance;

/* For blocks of `rows` rows; `target`: make y->target also where X is Xq. The caller calls
 * dt__error_metric_free, also after an error. Errors: NOMEM. */
dt_status dt__error_metric_create(const dt__matrix *m, int64_t rows, bool target,
                                  dt__error_metric *y);
void dt__error_metric_free(dt_ctx *ctx, dt__error_metric *y);
/* _begin computes y's values for the rows of the block; _measure computes the error of codes
 * [columns][rows] with the current scales. Both overwrite s->work. `sees_float_inputs`: the rounder
 * minimizes ||W X - W^ Xq||, not ||(W - W^) Xq||. */
void dt__error_metric_begin(const dt__row_block *s, dt__error_metric *y);
void dt__error_metric_measure(dt__row_block *s, const int8_t *codes, bool sees_float_inputs,
                              dt__error_metric *y, dt__distance *out);
/* Computes the error from s->square where every column's error was diffused. False where s->square
 * is mostly damping: subtracting it would leave few correct digits. */
bool dt__error_metric_sum(dt__row_block *s, const int8_t *codes, dt__distance *out);

#endif
