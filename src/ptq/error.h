/* How far the dequantized values of codes are from the weights, row by row, on the
 * calibration data. */
#ifndef DT__PTQ_ERROR_H
#define DT__PTQ_ERROR_H

#include "ptq/matrix.h"

/* Room of a thread, and what it knows of the rows of a strip. */
typedef struct dt__error_metric {
    double *target;           /* [columns][rows]: G W^T; NULL: X is Xq */
    double *room;             /* DT__ERROR_ROWS rows */
    double square[DT__STRIP]; /* |W X|^2 */
} dt__error_metric;

/* Of a row: squares of ||W X - W^ Xq||, and of what the rounder makes small. */
typedef struct dt__distance {
    double error[DT__STRIP], own[DT__STRIP];
} dt__distance;

/* For strips of `rows` rows; `target`: also the error against the float model's inputs, where G is
 * known. Errors: NOMEM; dt__error_metric_free frees it then, too. */
dt_status dt__error_metric_create(const dt__matrix *m, int64_t rows, bool target,
                                  dt__error_metric *y);
void dt__error_metric_free(dt_ctx *ctx, dt__error_metric *y);
/* Begins with the strip's rows; measures codes [columns][rows] with the present scales. Both
 * overwrite s->work. `sees_float_inputs`: the error against the float model's inputs. */
void dt__error_metric_begin(const dt__strip *s, dt__error_metric *y);
void dt__error_metric_measure(dt__strip *s, const int8_t *codes, bool sees_float_inputs,
                              dt__error_metric *y, dt__distance *out);
/* Measures codes of which every error was diffused, by s->square; false where little but damping is
 * in them, so that rounding would show. */
bool dt__error_metric_sum(dt__strip *s, const int8_t *codes, dt__distance *out);

#endif
