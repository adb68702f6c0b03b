/* Comparisons of elements for qsort and bsearch. */
#ifndef DT__CORE_COMPARISONS_H
#define DT__CORE_COMPARISONS_H

/* Of numbers, which are not NaN. */
int dt__by_double(const void *a, const void *b);
int dt__by_float(const void *a, const void *b);
int dt__by_int64(const void *a, const void *b);
/* By bytes: of texts, and of structs that begin with one, a char *. */
int dt__by_text(const void *a, const void *b);

#endif
