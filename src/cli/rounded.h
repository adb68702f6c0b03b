/* The report of rounded weights for people: a row for each when it is done, then totals. */
#ifndef CLI_ROUNDED_H
#define CLI_ROUNDED_H

#include "cli.h"

/* The form of the report: rows and totals, totals only, or JSON. */
typedef struct rounded_view {
    const char *output; /* the file that was written */
    bool json, quiet;
} rounded_view;

/* Prints the row of the latest weight; before the first one also the head, and the rows of an
 * earlier call. `user` is ignored. */
void rounded_row(void *user, const dt_quantize_summary *s);
/* Prints the end of the report. Returns the exit status. */
int rounded_end(const rounded_view *v, const dt_quantize_summary *s);

#endif
