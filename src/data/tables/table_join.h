/* Tables with several sensors: FILE.csv+FILE.csv is one table with the rows of both files, as CSV
 * text, so that all settings of columns apply. A column that a file lacks is empty in its rows;
 * data.series sorts rows by time. */
#ifndef DT__DATA_TABLE_JOIN_H
#define DT__DATA_TABLE_JOIN_H

#include "core/core.h"

#define DT__MOST_SENSORS 16 /* files per table */

/* The length of the first file's name, if a "+" and another name follow; 0: a single file. */
size_t dt__join_length(const char *name);

struct dt__csv;
typedef struct dt__table_join dt__table_join;

/* Opens the files for a reading. Columns with the same name are one column if they are keys or
 * targets; others get the number of their file, "x.2". The caller closes *out, also after an error.
 * Errors: IO; FORMAT, naming the file; CONFIG (data.series); NOMEM. */
dt_status dt__table_join_open(struct dt__csv *c, const char *name, dt__table_join **out);
void dt__table_join_close(dt__table_join *j); /* NULL is allowed */

/* Writes the next bytes of the text: a line of names, then a line per row, with all nonempty fields
 * in quotes. *got is less than `wanted` only at the end. FORMAT, naming file and line; IO,
 * NOMEM. */
dt_status dt__table_join_read(dt__table_join *j, uint8_t *to, size_t wanted, size_t *got);
/* The file of row *row of the text, from 1; *row becomes the row in that file. */
const char *dt__table_join_file(const dt__table_join *j, int64_t *row);
/* The decimal sign of all files, and *thousands, the thousands separator; 0: none. */
char dt__table_join_decimal(const dt__table_join *j, char *thousands);

#endif
