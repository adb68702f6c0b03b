/* Comparisons of elements for qsort and bsearch. */
#ifndef DT__CORE_COMPARISONS_H
#define DT__CORE_COMPARISONS_H

/* Compare numbers, which are not NaN. */
int dt__by_double(const void *a, const void *b);
int dt__by_float(const void *a, const void *b);
int dt__by_int64(const void *a, const void *b);
/* Compares strings, or structs that begin with a char *, bytewise. */
int dt__by_text(const void *a, const void *b);

#endif
