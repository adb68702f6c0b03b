/* Synthetic datasets of arrays: sounds.c, sensors.c, table.c. */
#ifndef DT__DATA_DRAWN_H
#define DT__DATA_DRAWN_H

#include "data/arrays.h"
#include "data/drawn/dice.h"

typedef struct dt__drawing {
    const char *name; /* for messages */
    dt__purpose purpose;
    int rank; /* shape of an example */
    int64_t dims[DT_MAX_RANK - 1];
    int64_t rate; /* samples per second; 0: not a signal */
    int64_t outputs;
    const char *const *names; /* [outputs], or NULL */
    /* Writes an example and its target: an i32, or f32 [outputs]. */
    void (*draw)(const dt_drawn *o, dt__dice *d, float *x, void *target);
} dt__drawing;

/* Creates the dataset. Errors: ARG (count below 0 or too large), NOMEM. */
dt_status dt__draw(dt_ctx *ctx, const dt__drawing *p, const dt_drawn *o, dt_dataset **out);

#endif
