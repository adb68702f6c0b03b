/* Statistics of a layer's inputs: sums of their products, for each group of the layer. */
#ifndef DT__PTQ_STATISTICS_H
#define DT__PTQ_STATISTICS_H

#include <detent/experimental/ptq.h>

#include "ptq/unfold.h"

/* Sums over n samples, row-major. */
typedef struct dt__moments {
    int64_t size, n;
    double *h; /* [size][size]: sum xq xq^T, both triangles */
    double *g; /* [size][size]: sum xq x^T (row: quantized input); NULL: x is xq */
    double *c; /* lower triangle of sum x x^T, packed by rows [size (size+1) / 2]; NULL like g */
} dt__moments;

struct dt_statistics {
    dt_ctx *ctx;
    struct dt__cluster *cluster; /* whose ranks sum a part of the tiles each; NULL: this one all */
    dt__unfolding layer;
    bool differ;
    int64_t samples;
    dt__moments *moments;      /* [groups]; complete after dt__statistics_moments */
    double *h, *g, *c;         /* of all groups */
    bool lower;                /* the upper triangles of H are out of date */
    int64_t capacity, waiting; /* samples that fit into a slice; samples in it */
    int64_t stride, side;      /* from one line of a slice to the next; of a tile of the sums */
    double *slice[2];          /* [columns of all groups][stride]: of xq and of x */
    double *tiles;             /* [threads][side][side] */
    dt_statistics *
        *expert; /* grouped weights only, with `samples`: [groups]; NULL: no row so far */
};

/* Sums are made tile by tile, [side][side]; of H and C those below the diagonal and on it. */
enum { DT__OF_H, DT__OF_G, DT__OF_C };
/* The rank that sums tile (i, j); -1: none. */
int dt__tile_owner(const dt_statistics *s, int which, int64_t i, int64_t j);
/* Adds the samples that wait. */
void dt__statistics_flush(dt_statistics *s);

/* Completes and returns the moments of all groups. Not for a grouped weight, whose experts have
 * their own. */
dt__moments *dt__statistics_moments(dt_statistics *s);

#endif
