/* A shared library that is loaded when its functions are first needed: linking to it would cost
 * every start of a program the library's start time. */
#ifndef DT__CORE_LIBRARY_H
#define DT__CORE_LIBRARY_H

#include "core/core.h"

#include <pthread.h>
#include <stddef.h>

typedef struct dt__function {
    const char *name;
    size_t offset; /* of its pointer in the library's table */
} dt__function;

/* Loads `file` and writes the addresses of its functions into `table`. Returns the library, which
 * stays for ever, or NULL, with the reason in `why`. */
void *dt__library_load(const char *file, const dt__function *functions, int n, void *table,
                       char why[256]);

/* Defines `const char *loader(void)`, which loads `file` once into `table` by the list `functions`
 * of the including file. Returns NULL, or why the library cannot be loaded. */
#define DT__LIBRARY_LOADER(loader, file, table)                                                    \
    static char why[256];                                                                          \
    static void load(void)                                                                         \
    {                                                                                              \
        dt__library_load(file, functions, DT__COUNT_OF(functions), &table, why);                   \
    }                                                                                              \
    const char *loader(void)                                                                       \
    {                                                                                              \
        static pthread_once_t once = PTHREAD_ONCE_INIT;                                            \
        pthread_once(&once, load);                                                                 \
        return why[0] == 0 ? NULL : why;                                                           \
    }

#endif
