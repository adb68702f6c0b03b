/* SQLite, loaded when a table first needs it. */
#ifndef DT__DATA_SQLITE_LIBRARY_H
#define DT__DATA_SQLITE_LIBRARY_H

#include "core/core.h"

#include <sqlite3.h>

#define DT__SQLITE_CALLS(F)                                                                        \
    F(open_v2) F(close) F(errmsg) F(extended_errcode) F(exec) F(busy_timeout)
#define DT__SQLITE_QUERIES(F) F(prepare_v2) F(step) F(finalize) F(stmt_readonly)
#define DT__SQLITE_NAMES(F) F(column_count) F(column_name) F(column_type)
#define DT__SQLITE_VALUES(F) F(column_int64) F(column_double) F(column_text) F(column_bytes)
#define DT__SQLITE_FUNCTIONS(F)                                                                    \
    DT__SQLITE_CALLS(F) DT__SQLITE_QUERIES(F) DT__SQLITE_NAMES(F) DT__SQLITE_VALUES(F)

/* Its functions, by their names without "sqlite3_". */
typedef struct dt__sqlite_library {
#define DT__SQLITE_FUNCTION(name) __typeof__(sqlite3_##name) *name;
    DT__SQLITE_FUNCTIONS(DT__SQLITE_FUNCTION)
#undef DT__SQLITE_FUNCTION
} dt__sqlite_library;

extern dt__sqlite_library dt__sqlite; /* after dt__sqlite_load */

/* NULL, or why the library cannot be loaded. */
const char *dt__sqlite_load(void);

#endif
