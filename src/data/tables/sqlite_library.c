/* The functions of SQLite, found by name. */
#if defined DETENT_SQLITE
#include "data/tables/sqlite_library.h"

#include "core/system/library.h"

#include <pthread.h>
#include <stddef.h>

dt__sqlite_library dt__sqlite;

static char why[256]; /* it could not be loaded; "": it is */

static const dt__function functions[] = {
#define FUNCTION(name) { "sqlite3_" #name, offsetof(dt__sqlite_library, name) },
    DT__SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void load(void)
{
    dt__library_load("libsqlite3.so.0", functions, DT__COUNT_OF(functions), &dt__sqlite, why);
}

const char *dt__sqlite_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return why[0] == 0 ? NULL : why;
}
#else
typedef int dt__no_sqlite_library; /* ISO C wants a declaration */
#endif
