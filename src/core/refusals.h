/* A list of what is refused, as one error. */
#ifndef DT__CORE_REFUSALS_H
#define DT__CORE_REFUSALS_H

#include "core/core.h"

#define DT__REFUSED_REASONS 8

typedef struct dt__refusals {
    char text[DT__MESSAGE_SIZE];
    size_t used;
    int64_t n, hidden; /* lines; how many more there was no room for */
    struct {
        char where[96], why[160];
        int64_t more; /* number of further places with this reason */
    } reason[DT__REFUSED_REASONS];
    int n_reasons;
} dt__refusals;

/* Adds "\n  " and a line, cut if it is long, unless the line is already there. */
void dt__refusals_add(dt__refusals *r, const char *format, ...) DT_PRINTF(2, 3);
/* Adds a place and a reason. Places with the same reason share a line, which names the first. */
void dt__refusals_add_place(dt__refusals *r, const char *where, const char *why);
/* The error `status` with a heading, such as "format c cannot express this model", and all lines;
 * DT_OK if there are none. */
dt_status dt__refusals_end(dt_ctx *ctx, dt__refusals *r, dt_status status, const char *head, ...)
    DT_PRINTF(4, 5);

#endif
