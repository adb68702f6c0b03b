/* Tables of SQLite files: returns the rows of a query as CSV text, so that all settings of columns
 * apply. */
#ifndef DT__DATA_DATABASE_H
#define DT__DATA_DATABASE_H

#include "core/core.h"

/* The length of a database file's name: FILE.db, .sqlite or .sqlite3, alone or followed by a colon
 * and the name of a table or a query. 0: not a database. */
size_t dt__database_length(const char *name);

typedef struct dt__database dt__database;

/* Opens FILE, FILE:TABLE or FILE:QUERY, read-only; without a table, the only one. Errors: IO;
 * FORMAT: not a database; CONFIG: no such table, several tables, a query that is not a SELECT;
 * UNSUPPORTED: a build without SQLite; NOMEM. */
dt_status dt__database_open(dt_ctx *ctx, const char *name, dt__database **out);
void dt__database_close(dt__database *d); /* NULL is allowed */

/* Writes the next bytes of the text: a line of names in quotes, then a line per row. Numbers are
 * exact, NULL is an empty field, text is quoted. *got is less than `wanted` only at the end.
 * Errors: FORMAT, naming row and column of a value that is neither number nor text; IO. */
dt_status dt__database_read(dt__database *d, uint8_t *to, size_t wanted, size_t *got);

#endif
