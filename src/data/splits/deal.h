/* Assigns groups of units to parts of the data. */
#ifndef DT__DATA_DEAL_H
#define DT__DATA_DEAL_H

#include "core/core.h"

#define DT__MOST_PARTS 100

typedef struct dt__dealing {
    dt_ctx *ctx;
    uint64_t seed;
    int64_t n;            /* units */
    const int64_t *group; /* [n]: group indices */
    const int64_t *label; /* [n]: class indices */
    int64_t groups, classes;
    int parts; /* at most DT__MOST_PARTS */
    double share[DT__MOST_PARTS];
} dt__dealing;

/* Sets part[i], the part of unit i, [n]. All units of a group are in one part, no part is empty,
 * and sizes and classes of the parts approximate the shares. Errors: CONFIG (fewer groups than
 * parts), NOMEM. */
dt_status dt__deal(const dt__dealing *w, uint8_t *part);

#endif
