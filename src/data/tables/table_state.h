/* The state of readings as bytes: names of columns, words with their indices, and numbers that may
 * be merged in f32. Readings with equal bytes read a file in the same way. */
#ifndef DT__DATA_TABLE_STATE_H
#define DT__DATA_TABLE_STATE_H

#include "core/text/json.h"
#include "data/tables/csv.h"

/* Writes the state of n readings; a failed allocation is recorded in `to`. */
void dt__table_state_put(dt__chars *to, dt__csv *const *c, int n);

/* Bytes to be parsed. */
typedef struct dt__state_bytes {
    dt_ctx *ctx;
    const uint8_t *at, *end;
} dt__state_bytes;

/* The next `bytes` bytes, lent; NULL: fewer are left. */
const void *dt__state_take(dt__state_bytes *from, int64_t bytes);
/* Extends the state of n readings, which must be the beginning of the serialized one. STATE:
 * damaged bytes, or of other readings; NOMEM. */
dt_status dt__table_state_take(dt__state_bytes *from, dt__csv *const *c, int n);

#endif
