/* What rounding a weight takes, from its shape: for each group of its work matrices, of rows r and
 * columns c, with n samples of its inputs
 *
 *     passes       n r c       through the layer; also through the float model's, for rounders that
 *                              read its inputs
 *     sums         n c (c / 2 + FILL)  of products of inputs that are brought into a slice; with
 *                              the float model's, of three kinds, n c (2 c + 2 FILL)
 *     a factor     c^2 (c + FACTOR)  for rounders that have one
 *     codes        c (r (c + CODE) + COLUMN)
 *
 * and without data only codes, r c CODE. dt_round and its statistics tell the context what of it
 * they did (core/estimate.h). */
#ifndef DT__PTQ_ROUNDING_COST_H
#define DT__PTQ_ROUNDING_COST_H

#include "ptq/matrix.h"

typedef struct dt__round_cost {
    double forward, sums, factor, codes;
} dt__round_cost;

double dt__sums_cost(int64_t groups, int64_t columns, bool differ, double samples);
double dt__factor_cost(int64_t columns);
double dt__codes_cost(const dt__method *method, int64_t rows, int64_t columns);

/* Adds that of a weight; `differ`: inputs of the float model are known. A shape that the op does
 * not have costs nothing. */
typedef struct dt__round_case {
    const dt__method *method;
    const dt_weight_op *op;
    int rank;
    const int64_t *dims;
    double samples;
    bool differ;
} dt__round_case;
void dt__round_cost_add(dt_ctx *ctx, const dt__round_case *of, dt__round_cost *cost);

void dt__plan_rounding(dt_ctx *ctx, const dt__round_cost *cost);
/* Where that takes long: rounds a small drawn weight, so that its times tell those of what is
 * planned. Errors: NOMEM. */
dt_status dt__try_rounding(dt_ctx *ctx, int rounder, const dt__round_cost *planned);

#endif
