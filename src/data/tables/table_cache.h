/* Numbers of large tables in files (data.cache): what the reading of a file gave is kept, and
 * mapped in place of reading it again. NAME-PLACE-HASH.table has what became known of columns, the
 * targets and the keys, NAME-PLACE-HASH.x0 the inputs of the first reading, and so on. PLACE is a
 * hash of where the table is and of options, so that files of another HASH are old. HASH is of the
 * bytes of the table, of data.columns, and of what was known before it was read, so that it stands
 * for all that decides the numbers. Both files have the hash of their content. */
#ifndef DT__DATA_TABLE_CACHE_H
#define DT__DATA_TABLE_CACHE_H

#include "core/system/atomic_file.h"
#include "data/tables/csv.h"
#include "data/data_options.h"

#define DT__MOST_CACHED (DT_MAX_SHAPES + DT_MAX_JOINED) /* readings of a file */

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
    int lock;           /* of the folder; -1: none */
    dt__new_file *file; /* [n]: of x; folder < 0: not begun */
} dt__table_cache;

/* Whether the numbers of a file are kept. */
bool dt__is_cached(const dt__cache_folder *f, const char *table);
/* Finds the numbers of a file. dt__table_cache_end must be called, also after an error. IO,
 * NOMEM. */
dt_status dt__table_cache_begin(dt__table_cache *t, const dt__cache_folder *f, const char *table);
/* *found: `out` and the readings became what reading the file would make of them. NOMEM. */
dt_status dt__table_cache_load(dt__table_cache *t, dt__csv_table *out, bool *found);
/* Waits until no other process reads a table into the folder; until the end. */
void dt__table_cache_lock(dt__table_cache *t);
void dt__table_cache_unlock(dt__table_cache *t);
#define DT__CACHE_HASH 16 /* digits */
/* Removes the files of the same PLACE and another HASH, and says so. */
void dt__table_cache_remove_old(const dt__table_cache *t);
/* The inputs of reading k get room in a file. IO, naming the key; NOMEM. */
dt_status dt__table_cache_grow(dt__table_cache *t, int k, uint64_t bytes, dt__storage **s);
/* After the file was read, but for rows that were left out. IO, NOMEM. */
dt_status dt__table_cache_keep(dt__table_cache *t, int64_t rows, int64_t left_out,
                               dt__csv_table *out);
void dt__table_cache_end(dt__table_cache *t);

/* Memory for numbers that follow from others (NULL: none): where those are mapped a file without a
 * name in the folder. IO, NOMEM. */
dt_status dt__storage_as(dt_ctx *ctx, const dt__storage *others, const dt__cache_folder *f,
                         uint64_t bytes, dt__storage **out);

#endif
