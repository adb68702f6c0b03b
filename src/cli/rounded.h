/* What became of weights that were rounded, for people: a row for each as it is done, totals at the
 * end. */
#ifndef CLI_ROUNDED_H
#define CLI_ROUNDED_H

#include "cli.h"

/* Which report is wanted: rows and totals, totals alone, or JSON. */
typedef struct rounded_view {
    const char *output; /* the file that was written */
    bool json, quiet;
} rounded_view;

/* The row of the latest weight; before the first one the head, and the rows of an earlier call.
 * `user` is not looked at. */
void rounded_row(void *user, const dt_quantize_summary *s);
/* The end of the report. The exit status. */
int rounded_end(const rounded_view *v, const dt_quantize_summary *s);

#endif
