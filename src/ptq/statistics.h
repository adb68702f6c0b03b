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
    /* its ranks sum some of the tiles each; NULL: this process sums all */
    struct dt__cluster *cluster;
    dt__unfolding layer;
    bool differ;
    int64_t samples;
    dt__moments *moments;      /* [groups]; complete after dt__statistics_moments */
    double *h, *g, *c;         /* of all groups */
    bool lower;                /* the upper triangles of H are out of date */
    int64_t capacity, waiting; /* samples that fit into a slice; samples in it */
    int64_t stride, side;      /* distance of the lines of a slice; side of a tile of the sums */
    double *slice[2];          /* [columns of all groups][stride]: of xq and of x */
    double *tiles;             /* [threads][side][side] */
    dt_statistics *
        *expert; /* grouped weights only, with `samples`: [groups]; NULL: no row so far */
};

/* Tiles of the sums, [side][side]; of H and C only those on or below the diagonal. */
enum { DT__OF_H, DT__OF_G, DT__OF_C };
/* The rank that sums tile (i, j); -1: none. */
int dt__tile_owner(const dt_statistics *s, int which, int64_t i, int64_t j);
/* Adds the samples in the slice to the sums. */
void dt__statistics_flush(dt_statistics *s);

/* Completes and returns the moments of all groups. A grouped weight has none: its experts have
 * their own statistics. */
dt__moments *dt__statistics_moments(dt_statistics *s);

#endif
