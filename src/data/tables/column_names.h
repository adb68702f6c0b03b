/* The numbers that encode typed columns. */
#ifndef DT__DATA_COLUMN_NAMES_H
#define DT__DATA_COLUMN_NAMES_H

#include "data/columns/columns.h"

#include "core/core.h"

/* The name of number i of a column: "age", "age missing", "city=Paris", "when hour". In memory of
 * *blocks. NULL: NOMEM. */
const char *dt__column_number_name(dt_ctx *ctx, const dt_column *c, int64_t i, void **blocks);

/* Which numbers data.standardize scales; [dt_columns_width]. */
void dt__columns_measured(const dt_columns *c, bool *measured);

#endif
