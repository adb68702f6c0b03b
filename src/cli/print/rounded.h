/* The printed report of rounded weights: a row for each, then totals; and the progress line. */
#ifndef CLI_ROUNDED_H
#define CLI_ROUNDED_H

#include "cli/cli.h"

/* The form of the report: rows and totals, totals only, or JSON. */
typedef struct rounded_view {
    const char *output; /* the file that was written */
    bool json, quiet;
} rounded_view;

/* Called after each weight: redraws the progress line. `user` is ignored. */
void rounded_row(void *user, const dt_quantize_summary *s);
/* Prints the totals. Returns the exit status. */
int rounded_end(const rounded_view *v, const dt_quantize_summary *s);

#endif
