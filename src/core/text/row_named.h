/* Rows of a table by their name. */
#ifndef DT__CORE_ROW_NAMED_H
#define DT__CORE_ROW_NAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first of n rows of `size` bytes whose name, a const char * at the beginning of the row, is
 * `name`; NULL: none. */
static inline void *dt__row_named(const void *rows, int64_t n, size_t size, const char *name)
{
    for (const char *row = rows; n > 0; row += size, n--) {
        if (strcmp(*(const char *const *)(const void *)row, name) == 0)
            return (void *)(uintptr_t)row;
    }
    return NULL;
}

/* The same for an array; and whether an array of words contains one. */
#define DT__ROW_NAMED(rows, name)                                                                  \
    dt__row_named(rows, sizeof(rows) / sizeof *(rows), sizeof *(rows), name)
#define DT__IS_ONE_OF(word, words) (DT__ROW_NAMED(words, word) != NULL)

#endif
