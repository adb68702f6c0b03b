/* What became of weights that were rounded, for people: a row for each as it is done, totals at the end. */
#ifndef CLI_ROUNDED_H
#define CLI_ROUNDED_H

#include "cli.h"

/* The row of the latest weight; before the first one the head, and the rows of an earlier call. `user`
 * is not looked at. */
void rounded_row(void *user, const dt_quantize_summary *s);
/* What the file at `output` is; rows that no call showed come first. */
void rounded_total(const char *output, const dt_quantize_summary *s);

#endif
