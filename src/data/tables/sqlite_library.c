/* The functions of SQLite, found by name. */
#if defined DETENT_SQLITE
#include "data/tables/sqlite_library.h"

#include "core/system/library.h"

dt__sqlite_library dt__sqlite;

static const dt__function functions[] = {
#define FUNCTION(name) { "sqlite3_" #name, offsetof(dt__sqlite_library, name) },
    DT__SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

DT__LIBRARY_LOADER(dt__sqlite_load, "libsqlite3.so.0", dt__sqlite)
#else
typedef int dt__no_sqlite_library; /* ISO C requires a declaration */
#endif
