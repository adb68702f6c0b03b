/* A weight while it is rounded: its work matrices, concatenated by rows in the order of groups. */
#ifndef DT__PTQ_LAYER_H
#define DT__PTQ_LAYER_H

#include "ptq/matrix.h"

typedef struct dt__layer {
    dt_ctx *ctx;
    const char *name;
    const dt_round_work *work;
    const dt_quant_spec *quant;
    const dt_rounding_options *options;
    const dt__method *method;
    dt__work_shape shape;
    int64_t rows;        /* of all groups */
    int64_t group;       /* columns that share a scale; the last group may be smaller */
    float *gathered;     /* the gathered weight of transposed convolutions, else NULL */
    const float *weight; /* [rows][columns] */
    int32_t *order;      /* [groups][columns], as in dt__matrix; so are the next two */
    int32_t *group_of;
    bool *dead;
    double *mean; /* [groups] */
    bool keep_zeros;
    bool unseen;       /* the method's inputs are missing: rounds to nearest, within its bounds */
    int64_t fallbacks; /* groups whose matrix had no factor */
    float *inverse;    /* [rows][scales of a row] */
    dt_rounded *out;   /* scales of the whole layer */
    dt_round_report *report;
} dt__layer;

/* Computes order, scale groups, dead columns and mean of the diagonal of each group. Errors:
 * NOMEM. */
dt_status dt__layer_order(dt__layer *l);

/* Computes scales, inverses and zero points of all rows: copies of a static or learned range, else
 * by the scheme from the columns that share a scale. Errors: NUMERIC (a weight or a scale that is
 * not finite), NOMEM. */
dt_status dt__layer_scales(dt__layer *l);

/* Computes scale, inverse and, unless NULL, zero point of one block of values; false where an
 * element, the scale or a dequantized value is not finite. */
typedef struct dt__block_scale {
    float *scale, *inverse;
    int8_t *zero;
} dt__block_scale;
bool dt__observe_block(dt_ctx *ctx, const dt_quant_spec *q, int64_t n, const float *x,
                       const dt__block_scale *to);

/* dt_round of a weight that is not grouped. `unseen`: statistics that the method needs are
 * missing; round to nearest. */
dt_status dt__round_one(dt_ctx *ctx, const dt_round_work *work, bool unseen, dt_rounded **out,
                        dt_round_report *report);
/* dt_round of a grouped weight: expert after expert. */
dt_status dt__round_experts(dt_ctx *ctx, const dt_round_work *work, dt_rounded **out,
                            dt_round_report *report);

/* Rounds a matrix whose rounder is prepared; sets its codes and adds to l->report. */
dt_status dt__round_matrix(dt__layer *l, dt__matrix *m, int8_t *codes);

#endif
