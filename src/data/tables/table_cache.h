/* Cache files for numbers of large tables (data.cache): results of reading a file are stored, and
 * mapped instead of reading it again. NAME-PLACE-HASH.table has the state of columns, the targets
 * and the keys, NAME-PLACE-HASH.x0 the inputs of the first reading, and so on. PLACE is a hash of
 * the table's path and of options; files with the same PLACE and another HASH are outdated. HASH
 * covers the bytes of the table, data.columns, and the state before it was read, that is, all that
 * determines the numbers. Both files contain a hash of their content. */
#ifndef DT__DATA_TABLE_CACHE_H
#define DT__DATA_TABLE_CACHE_H

#include "core/system/atomic_file.h"
#include "data/tables/csv.h"
#include "data/data_options.h"

#define DT__MOST_CACHED (DT_MAX_SHAPES + DT_MAX_JOINED) /* readings of one file */

/* The folder that options name. */
dt__cache_folder dt__cache_folder_of(const dt_data_options *o);

/* One file of a table, while it is read for n readings. */
typedef struct dt__table_cache {
    dt_ctx *ctx;
    dt__csv *const *c;
    int n;
    const char *table;
    char *stem;         /* DIR/NAME-PLACE-HASH */
    const char *folder; /* lent */
    int lock;           /* descriptor that locks the folder; -1: none */
    dt__new_file *file; /* [n]: new file of x; folder < 0: not begun */
} dt__table_cache;

/* Whether the numbers of a file are cached. */
bool dt__is_cached(const dt__cache_folder *f, const char *table);
/* Looks up the numbers of a file. dt__table_cache_end must be called, also after an error. IO,
 * NOMEM. */
dt_status dt__table_cache_begin(dt__table_cache *t, const dt__cache_folder *f, const char *table);
/* *found: `out` and the readings were loaded as if the file had been read. NOMEM. */
dt_status dt__table_cache_load(dt__table_cache *t, dt__csv_table *out, bool *found);
/* Waits until no other process reads a table into the folder, and locks it until the end. */
void dt__table_cache_lock(dt__table_cache *t);
void dt__table_cache_unlock(dt__table_cache *t);
#define DT__CACHE_HASH 16 /* digits */
/* Removes the files with the same PLACE and another HASH, and logs that. */
void dt__table_cache_remove_old(const dt__table_cache *t);
/* Allocates memory in a file for the inputs of reading k. IO, naming the key; NOMEM. */
dt_status dt__table_cache_grow(dt__table_cache *t, int k, uint64_t bytes, dt__storage **s);
/* Stores the results after the file was read. IO, NOMEM. */
dt_status dt__table_cache_keep(dt__table_cache *t, int64_t rows, int64_t left_out,
                               dt__csv_table *out);
void dt__table_cache_end(dt__table_cache *t);

/* Memory for numbers computed from `others` (NULL: none): if those are mapped, an unnamed file in
 * the folder. IO, NOMEM. */
dt_status dt__storage_as(dt_ctx *ctx, const dt__storage *others, const dt__cache_folder *f,
                         uint64_t bytes, dt__storage **out);

#endif
