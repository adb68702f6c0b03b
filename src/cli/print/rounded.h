/* The report of rounded weights for people: a row for each, then totals; and what moves while they
 * are rounded. */
#ifndef CLI_ROUNDED_H
#define CLI_ROUNDED_H

#include "cli/cli.h"

/* The form of the report: rows and totals, totals only, or JSON. */
typedef struct rounded_view {
    const char *output; /* the file that was written */
    bool json, quiet;
} rounded_view;

/* After each weight: tells the moving line. `user` is ignored. */
void rounded_row(void *user, const dt_quantize_summary *s);
/* Prints the end of the report. Returns the exit status. */
int rounded_end(const rounded_view *v, const dt_quantize_summary *s);

#endif
