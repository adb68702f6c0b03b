/* The cost of rounding a weight, in multiply-adds: for each group of its work matrices, of r rows
 * and c columns, with n samples of its inputs
 *
 *     passes       n r c       through the layer; also through the float model's, for rounders that
 *                              read its inputs
 *     sums         n c (c / 2 + FILL)  products of inputs, which are copied into a slice first;
 *                              with the float model three kinds, n c (2 c + 2 FILL)
 *     a factor     c^2 (c + FACTOR)  for rounders that have one
 *     codes        c (r (c + CODE) + COLUMN)
 *
 * Without data the cost is that of codes alone, r c CODE. dt_round and its statistics report to the
 * context how much of it is done (core/estimate.h). */
#ifndef DT__PTQ_ROUNDING_COST_H
#define DT__PTQ_ROUNDING_COST_H

#include "ptq/matrix.h"

typedef struct dt__round_cost {
    double forward, sums, factor, codes;
} dt__round_cost;

double dt__sums_cost(int64_t groups, int64_t columns, bool differ, double samples);
double dt__factor_cost(int64_t columns);
double dt__codes_cost(const dt__method *method, int64_t rows, int64_t columns);

/* Adds the cost of a weight; `differ`: the float model's inputs are known. A shape that the op
 * cannot have costs nothing. */
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
/* Where the planned rounding takes long: rounds a small random weight first, so that the estimate
 * of the remaining time uses measured speeds. Errors: NOMEM. */
dt_status dt__try_rounding(dt_ctx *ctx, int rounder, const dt__round_cost *planned);

#endif
