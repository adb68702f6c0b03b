/* Comparisons of elements for qsort and bsearch. */
#include "core/comparisons.h"

#include <stdint.h>
#include <string.h>

#define BY_NUMBER(name, type)                                                                      \
    int name(const void *a, const void *b)                                                         \
    {                                                                                              \
        const type x = *(const type *)a, y = *(const type *)b;                                     \
        return (x > y) - (x < y);                                                                  \
    }

BY_NUMBER(dt__by_double, double)
BY_NUMBER(dt__by_float, float)
BY_NUMBER(dt__by_int64, int64_t)

int dt__by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
