/* Bounds on codes that keep dot products within accumulators of P bits.
 *
 * Inputs are integers in [a, b], a <= 0 <= b. A tile is the set of columns that one accumulator
 * sums. pos and neg are the sums of the tile's positive and negative codes so far, each minus its
 * zero point. The largest and smallest possible dot products are b pos + a neg and a pos + b neg.
 * With A = 2^(P-1) - 1, the headroom above and below them is
 *
 *     r1 = A - (b pos + a neg),   r2 = A + (a pos + b neg)
 *
 * The next code, minus its zero point, must lie in
 *
 *     [ -min(r2 / b, r1 / -a),  min(r1 / b, r2 / -a) ]       quotients rounded down
 *
 * A term whose divisor is 0 is left out. The interval always contains 0. No input and no order of
 * summation makes a sum leave -A ... A: every partial sum of a tile lies between the smallest and
 * the largest dot product.
 *
 * int64 does not overflow: codes minus zero points have 9 bits, inputs 17, and a row has fewer than
 * 2^31 columns. */
#ifndef DT__PTQ_BOUNDS_H
#define DT__PTQ_BOUNDS_H

#include "ptq/matrix.h"

/* The columns of each accumulator: the columns of a scale group in their original order, cut into
 * tiles of `width`. The tiles do not depend on the processing order, so a file describes them. */
typedef struct dt__tiles {
    int64_t count;
    int64_t width; /* columns of a full tile */
    /* [count + 1] and more: tile t is column[start[t]] ... column[start[t + 1] - 1] */
    int64_t *start;
    int32_t *column;  /* [columns] */
    int32_t *tile_of; /* [columns] */
} dt__tiles;

typedef struct dt__bounds {
    dt__tiles tiles;
    int64_t limit;        /* A */
    int64_t below, above; /* -a, b */
    double *theta;        /* [tiles][rows]: soft thresholds in units of the scale; NULL: none */
    bool all;             /* the error is measured from the argument before clamping */
} dt__bounds;

/* The extreme dot products of a matrix's codes. */
typedef struct dt__extremes {
    int64_t high, low; /* the largest and smallest dot product of any tile with any inputs */
} dt__extremes;

/* Makes the tiles of a matrix whose groups and order are known. With `binding` it also sets the
 * limit of each tile's sums and the soft thresholds, which need the scales. The caller calls
 * dt__bounds_free, also after an error. Errors: NOMEM. */
dt_status dt__bounds_create(const dt__matrix *m, bool binding, dt__bounds *out);
void dt__bounds_free(dt_ctx *ctx, dt__bounds *b);

/* The interval of a tile's next code, minus its zero point. */
typedef struct dt__interval {
    int64_t least, most;
} dt__interval;

static inline dt__interval dt__interval_of(const dt__bounds *b, int64_t positive, int64_t negative)
{
    const int64_t over = b->limit - (b->above * positive - b->below * negative);
    const int64_t under = b->limit + (b->above * negative - b->below * positive);
    dt__interval next = { INT64_MIN, INT64_MAX };
    if (b->above > 0) next = (dt__interval){ -(under / b->above), over / b->above };
    if (b->below > 0) {
        next.least = dt__max_i64(next.least, -(over / b->below));
        next.most = dt__min_i64(next.most, under / b->below);
    }
    return next;
}

/* Before the codes of a column (original order) are chosen: shrinks and clamps its arguments v and
 * narrows low ... high, the range of codes minus zero points, to what the tile's sums allow. */
void dt__bounds_narrow(const dt__row_block *s, int64_t column, double *v, float *low, float *high);
/* Afterwards: adds q, the codes minus their zero points, to the sums of their tile. */
void dt__bounds_add(const dt__row_block *s, int64_t column, const float *q);

/* The extreme dot products of codes [rows][columns] of a matrix. */
dt__extremes dt__extremes_of(const dt__matrix *m, const dt__bounds *b, const int8_t *codes);
/* The bits of an accumulator that holds both; the bits that the sum of `tiles` such accumulators
 * needs. */
int64_t dt__extremes_bits(dt__extremes w);
int64_t dt__sum_bits(int64_t bits, int64_t tiles);

#endif
