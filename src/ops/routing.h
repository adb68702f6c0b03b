/* Which rows go to which expert of a grouped parameter. */
#ifndef DT__OPS_ROUTING_H
#define DT__OPS_ROUTING_H

#include "autograd/op.h"

/* Rows of a result ("assignments") sorted by expert: those of expert e stand at the places start[e]
 * ... start[e + 1] - 1, in their own order. Assignments without an expert have no place. Assignment
 * c reads row c / per_row of x. */
typedef struct dt__routing {
    int64_t experts, assignments, per_row;
    bool split;          /* assignments are [rows of x, per_row]; else they are x's rows */
    int64_t *start;      /* [experts + 1] */
    int64_t *assignment; /* of each place; NULL: the place itself */
} dt__routing;

/* The numbers of a routing of so many rows of x; index may be NULL. */
dt__routing dt__routing_of(int64_t experts, int64_t rows, const dt_tensor *index);
/* Checks two operands, one of which is NULL: offsets [experts + 1], or the index of an expert or -1
 * for each assignment. */
dt_status dt__want_routes(const dt_call *c, int offsets, int index, const dt__routing *r);

/* Bytes that the lists of a routing take. */
size_t dt__routing_bytes(const dt__routing *r, bool indexed);
/* Makes them of what was checked, one of which is NULL; `room` is aligned to 8. */
void dt__routing_make(const dt_tensor *offsets, const dt_tensor *index, void *room, dt__routing *r);

static inline int64_t dt__assignment_at(const dt__routing *r, int64_t place)
{
    return r->assignment == NULL ? place : r->assignment[place];
}

#endif
