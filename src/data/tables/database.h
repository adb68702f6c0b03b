/* Tables of SQLite files: the rows of a query as the text of a CSV file, so that all that is done
 * with columns of tables is done with them. */
#ifndef DT__DATA_DATABASE_H
#define DT__DATA_DATABASE_H

#include "core/core.h"

/* The bytes of a file's name, if that is a data base: FILE.db, .sqlite or .sqlite3, alone or with
 * the name of a table or a query behind a colon. 0: it is none. */
size_t dt__database_length(const char *name);

typedef struct dt__database dt__database;

/* Opens FILE, FILE:TABLE or FILE:QUERY, only to read; without a table the only one there is.
 * Errors: IO; FORMAT: no data base; CONFIG: no such table, several tables, a query that is no
 * SELECT; UNSUPPORTED: a build without SQLite; NOMEM. */
dt_status dt__database_open(dt_ctx *ctx, const char *name, dt__database **out);
void dt__database_close(dt__database *d); /* NULL is allowed */

/* Writes the next bytes of the text: a line of names in quotes, then a line for each row. Numbers
 * have their exact values, NULL is an empty field, text is in quotes. *got is less than `wanted`
 * only at the end. Errors: FORMAT, naming row and column of what is not a number or text; IO. */
dt_status dt__database_read(dt__database *d, uint8_t *to, size_t wanted, size_t *got);

#endif
