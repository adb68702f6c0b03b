/* Which rows go to which member of a grouped parameter. */
#ifndef DT__OPS_ROUTING_H
#define DT__OPS_ROUTING_H

#include "autograd/op.h"

/* Rows of a result ("choices") sorted by member: those of member e stand at the places start[e] ...
 * start[e + 1] - 1, in their own order. Choices without a member have no place. Choice c reads row
 * c / reads of x. */
typedef struct dt__routing {
    int64_t members, choices, reads;
    bool split;      /* choices are [rows of x, reads]; else they are x's rows */
    int64_t *start;  /* [members + 1] */
    int64_t *choice; /* of each place; NULL: the place itself */
} dt__routing;

/* The numbers of a routing of so many rows of x; index may be NULL. */
dt__routing dt__routing_of(int64_t members, int64_t rows, const dt_tensor *index);
/* Checks two operands, one of which is NULL: offsets [members + 1], or the index of a member or -1 for
 * each choice. */
dt_status dt__want_routes(const dt_call *c, int offsets, int index, const dt__routing *r);

/* Bytes that the lists of a routing take. */
size_t dt__routing_bytes(const dt__routing *r, bool indexed);
/* Makes them of what was checked, one of which is NULL; `room` is aligned to 8. */
void dt__routing_make(const dt_tensor *offsets, const dt_tensor *index, void *room, dt__routing *r);

static inline int64_t dt__choice_at(const dt__routing *r, int64_t place)
{
    return r->choice == NULL ? place : r->choice[place];
}

#endif
