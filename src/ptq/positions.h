/* Counts how many samples of its work matrices (unfold.h) each layer of a model has in a batch:
 * positions of a convolution's output, rows of a linear layer's input. The time of a layer is
 * proportional to it. */
#ifndef DT__PTQ_POSITIONS_H
#define DT__PTQ_POSITIONS_H

#include "nn/module.h"

typedef struct dt__position {
    dt_module *layer;
    uint64_t hook;
    double samples; /* of all calls */
    double batch;   /* examples in these calls */
} dt__position;

typedef struct dt__positions {
    dt_ctx *ctx;
    dt__position *at; /* in the order of the module tree */
    int64_t n, room;
} dt__positions;

/* Counts the inputs of every layer with a weight of a known op, in all passes that the model runs
 * until dt__positions_end. After an error nothing is counted. Errors: NOMEM. */
dt_status dt__positions_begin(dt_module *m, dt__positions *out);
/* Stops counting. The counts, and the model, must live until dt__positions_free. */
void dt__positions_end(dt__positions *p);
void dt__positions_free(dt__positions *p);

/* Samples per example of the layer at `path`; 0: no pass reached it. */
double dt__positions_of(const dt__positions *p, const char *path);
/* Multiply-adds of all layers that were counted. */
double dt__positions_products(const dt__positions *p);

#endif
