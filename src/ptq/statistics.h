/* What is known of a layer's inputs: sums of their products, for each group of the layer. */
#ifndef DT__PTQ_STATISTICS_H
#define DT__PTQ_STATISTICS_H

#include <detent/ptq.h>

#include "ptq/unfold.h"

/* Sums over n samples, row-major. */
typedef struct dt__moments {
    int64_t size, n;
    double *h; /* [size][size]: sum xq xq^T, symmetric, both triangles there */
    double *g; /* [size][size]: sum xq x^T (row: quantized input); NULL: x is xq */
    double *c; /* lower triangle of sum x x^T, packed by rows [size (size+1) / 2]; NULL like g */
} dt__moments;

struct dt_statistics {
    dt_ctx *ctx;
    dt__unfolding layer;
    bool differ;
    int64_t samples;
    dt__moments *moments;      /* [groups]; complete after dt__statistics_moments */
    double *h, *g, *c;         /* of all groups */
    bool lower;                /* the upper triangles of H lag behind */
    int64_t capacity, waiting; /* samples that a slice takes, and that are in it */
    int64_t stride, side;      /* from one line of a slice to the next; of a tile of the sums */
    double *slice[2];          /* [columns of all groups][stride]: of xq and of x */
    double *tiles;             /* [threads][side][side] */
    dt_statistics *
        *expert; /* of a grouped weight, [groups], NULL where no row has come; it has nothing
                             * else but `samples` */
};

/* The moments of all groups, with every sample in them. Not of a grouped weight: its experts have
 * them. */
dt__moments *dt__statistics_moments(dt_statistics *s);

#endif
