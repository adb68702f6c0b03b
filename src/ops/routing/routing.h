/* Routing: which rows each expert of a grouped parameter computes. */
#ifndef DT__OPS_ROUTING_H
#define DT__OPS_ROUTING_H

#include "autograd/op.h"

/* Assignments (a row of x and one of its experts: the rows of the result) sorted by expert. Those
 * of expert e are at places start[e] ... start[e + 1] - 1 of the sorted list, in their original
 * order. Assignments without an expert have no place. Assignment c reads row c / per_row of x. */
typedef struct dt__routing {
    int64_t experts, assignments, per_row;
    bool split;          /* assignments are [rows of x, per_row]; else one per row of x */
    int64_t *start;      /* [experts + 1] */
    int64_t *assignment; /* the assignment at each place; NULL: place i has assignment i */
} dt__routing;

/* The sizes of a routing of `rows` rows of x, without its lists; index may be NULL. */
dt__routing dt__routing_of(int64_t experts, int64_t rows, const dt_tensor *index);
/* Checks two operands, one of which is NULL: offsets [experts + 1]; index, for each assignment the
 * number of its expert or -1. */
dt_status dt__want_routes(const dt_call *c, int offsets, int index, const dt__routing *r);

/* Bytes of the lists of a routing. */
size_t dt__routing_bytes(const dt__routing *r, bool indexed);
/* Makes the lists in `room`, aligned to 8, from the checked operands, one of which is NULL. */
void dt__routing_make(const dt_tensor *offsets, const dt_tensor *index, void *room, dt__routing *r);

static inline int64_t dt__assignment_at(const dt__routing *r, int64_t place)
{
    return r->assignment == NULL ? place : r->assignment[place];
}

#endif
