/* What accumulators of P bits allow.
 *
 * Inputs are integers of [a, b], a <= 0 <= b. A tile is the columns of one accumulator; pos and neg
 * are the sums of its positive and of its negative codes so far, zero points taken off. Its worst
 * dot products are b pos + a neg and a pos + b neg, and with A = 2^(P-1) - 1
 *
 *     r1 = A - (b pos + a neg),   r2 = A + (a pos + b neg)
 *
 * are what is left above and below them. The next code, its zero point taken off, must lie in
 *
 *     [ -min(r2 / b, r1 / -a),  min(r1 / b, r2 / -a) ]       quotients rounded down
 *
 * where a term whose divisor is 0 drops. 0 always lies there, and no input and no order of
 * summation can make a sum leave -A ... A: every partial sum of a tile is itself between its worst
 * ones.
 *
 * Nothing overflows: codes less zero points have 9 bits, inputs 17, rows fewer than 2^31
 * columns. */
#ifndef DT__PTQ_BOUNDS_H
#define DT__PTQ_BOUNDS_H

#include "ptq/matrix.h"

/* The columns of each accumulator: those of a scale group in their own order, cut every so many
 * from the first on. So a file says them, whatever order the columns were processed in. */
typedef struct dt__tiles {
    int64_t count;
    int64_t width; /* of a full one */
    int64_t
        *start; /* [count + 1] and more: tile t is column[start[t]] ... column[start[t + 1] - 1] */
    int32_t *column;  /* [columns] */
    int32_t *tile_of; /* [columns] */
} dt__tiles;

typedef struct dt__bounds {
    dt__tiles tiles;
    int64_t limit;        /* A */
    int64_t below, above; /* -a, b */
    double *theta;        /* [tiles][rows]: codes by which arguments shrink; NULL: they do not */
    bool all;             /* an error counts from the argument as it came */
} dt__bounds;

/* What codes of a matrix need, in its tiles and in all. */
typedef struct dt__worst {
    int64_t high, low; /* the largest and smallest dot product of any tile with any inputs */
} dt__worst;

/* The tiles of a matrix whose groups and order are known. With `binding` also the sums allowed in
 * each tile, for which the scales must be known too. The caller frees it by dt__bounds_free, also
 * after an error. */
dt_status dt__bounds_create(const dt__matrix *m, bool binding, dt__bounds *out);
void dt__bounds_free(dt_ctx *ctx, dt__bounds *b);

/* The interval of the next code of a tile, its zero point taken off. */
typedef struct dt__room {
    int64_t least, most;
} dt__room;

static inline dt__room dt__room_of(const dt__bounds *b, int64_t positive, int64_t negative)
{
    const int64_t over = b->limit - (b->above * positive - b->below * negative);
    const int64_t under = b->limit + (b->above * negative - b->below * positive);
    dt__room room = { INT64_MIN, INT64_MAX };
    if (b->above > 0) room = (dt__room){ -(under / b->above), over / b->above };
    if (b->below > 0) {
        room.least = dt__max_i64(room.least, -(over / b->below));
        room.most = dt__min_i64(room.most, under / b->below);
    }
    return room;
}

/* Of a column of the original order, before its codes are chosen: its arguments shrunk and clamped,
 * and low ... high, which hold the ends of the codes less their zero points, narrowed to what
 * fits. */
void dt__bounds_narrow(const dt__strip *s, int64_t column, double *v, float *low, float *high);
/* After: the codes less their zero points join the sums of their tile. */
void dt__bounds_add(const dt__strip *s, int64_t column, const float *q);

/* The worst of codes [rows][columns] of a matrix. */
dt__worst dt__worst_of(const dt__matrix *m, const dt__bounds *b, const int8_t *codes);
/* Bits of an accumulator that holds both, and of one that holds the sum of so many such. */
int64_t dt__worst_bits(dt__worst w);
int64_t dt__sum_bits(int64_t bits, int64_t tiles);

#endif
