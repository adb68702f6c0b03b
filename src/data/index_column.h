/* Columns that number the rows of a table. */
#ifndef DT__DATA_INDEX_COLUMN_H
#define DT__DATA_INDEX_COLUMN_H

#include "core/core.h"

/* Values of a column: n rows, `step` numbers apart. */
typedef struct dt__column {
    const float *v;
    int64_t n, step;
} dt__column;

/* Whether a column, by its name and values, only numbers the rows of a file:
 *     no name, or Unnamed: 0 (pandas)          different integers from 0 on, in any order
 *     id, index, row and the like              the numbers k, k+1, ... in any order
 * `name` NULL: the first column of a table without a header, which must be 0, 1, ... or 1, 2, ...
 * NOMEM. */
dt_status dt__is_index_column(dt_ctx *ctx, const char *name, const dt__column *c, bool *out);

#endif
