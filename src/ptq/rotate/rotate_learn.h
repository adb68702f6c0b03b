/* Learning an orthogonal matrix from the rows that it rotates. */
#ifndef DT__PTQ_ROTATE_LEARN_H
#define DT__PTQ_ROTATE_LEARN_H

#include "core/core.h"

/* Changes the orthogonal r [n][n] so that the mean of y^4 over the elements of y = x r, x
 * [rows][n], decreases: it is small where y has few outliers [Akhondzadeh et al. 2025, KurTail].
 * With
 *     B = r^T d/dr      A = B - B^T      step s > 0
 * each step replaces r by the orthogonal factor of r (I - s A). *before and *after are the means.
 * Errors: NOMEM. */
dt_status dt__rotation_learn(dt_ctx *ctx, int64_t rows, int64_t n, const double *x, double *r,
                             double *before, double *after);

#endif
