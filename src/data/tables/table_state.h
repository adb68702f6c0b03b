/* What readings know of a table, as bytes: names of columns, words with their numbers, and the
 * numbers that f32 may merge. Two readings with the same bytes read a file alike. */
#ifndef DT__DATA_TABLE_STATE_H
#define DT__DATA_TABLE_STATE_H

#include "core/text/json.h"
#include "data/tables/csv.h"

/* Writes what is known of n readings; a failure to allocate is noted in `to`. */
void dt__table_state_put(dt__chars *to, dt__csv *const *c, int n);

/* Bytes that are read again. */
typedef struct dt__state_bytes {
    dt_ctx *ctx;
    const uint8_t *at, *end;
} dt__state_bytes;

/* The next bytes, lent; NULL: there are no more so many. */
const void *dt__state_take(dt__state_bytes *from, int64_t bytes);
/* Adds what the bytes know to n readings, which knew the beginning of it. STATE: they are damaged,
 * or of other readings; NOMEM. */
dt_status dt__table_state_take(dt__state_bytes *from, dt__csv *const *c, int n);

#endif
