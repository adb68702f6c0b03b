/* Random layers of all kinds, and an independent program that rounds them: slow, in double, each
 * step by its definition. It shares no code with src/ptq: it inverts a matrix for every column,
 * solves Qronos' least squares, sums over samples for GPFQ, and searches for bounds. */
#ifndef ROUNDING_REFERENCE_H
#define ROUNDING_REFERENCE_H

#include "testing.h"

#include "core/core.h"

#include <detent/experimental/ptq.h>

/* A layer, as the library takes it and as matrices. */
typedef struct layer {
    char name[200];
    dt_weight_op op;
    int64_t groups, rows, columns, samples; /* rows and columns of one group */
    dt_tensor *weight, *xq, *x;             /* x: NULL where it is xq */
    float *w;                               /* [groups][rows][columns] */
    float *xs, *xqs; /* [groups][columns][samples]; the same where x is NULL */
} layer;

/* The random choices of a layer. */
typedef struct layer_wish {
    int kind;     /* DT_WEIGHT_... */
    double noise; /* deviation of xq from x; 0: x is xq */
    double zeros; /* share of the weight that is 0 */
    double dead;  /* share of the input's channels that are 0 in xq, and half of them in x */
    double step;  /* inputs are multiples of it; 0: any number */
    int64_t rank; /* of the channels' covariance; 0: full */
} layer_wish;

void layer_create(dt_ctx *ctx, dt__stream *random, const layer_wish *wish, layer *out);
void layer_free(layer *l);
/* Computes the matrices of weight, x and xq again, after one of these tensors was written. */
void layer_unfold(layer *l);
/* The sums over the layer's inputs; only those of xq where `differ` is false. */
dt_statistics *layer_statistics(dt_ctx *ctx, const layer *l, bool differ);

/* One group of a layer as a separate layer. */
void layer_group(const layer *l, int64_t group, layer *out);
/* The equivalent linear layer: rows of one group, and its unfolded inputs. */
void layer_flat(const layer *l, int64_t group, layer *out);

/* The smallest (0) or largest (1) input of an accumulator. */
int64_t reference_input(const dt_accumulator *a, int end);

/* Codes of a layer, [groups * rows] rows. */
typedef struct reference {
    int64_t rows, columns, groups;       /* of scales */
    int8_t *codes, *zero;                /* [rows][columns], [rows][groups] */
    float *scale;                        /* [rows][groups] */
    int32_t *order, *group_of, *tile_of; /* [op groups][columns] */
    double *margin;       /* [rows][columns]: of an argument to the next boundary, in codes */
    double loss, damping; /* the largest of the groups' */
} reference;

reference reference_round(const layer *l, const dt_quant_spec *quant,
                          const dt_rounding_options *options);
/* The codes of every element rounded by itself, within the same bounds. */
reference reference_nearest(const layer *l, const dt_quant_spec *quant,
                            const dt_rounding_options *options);
void reference_free(reference *r);

#endif
