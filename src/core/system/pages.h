/* Memory in pages of the system. */
#ifndef DT__CORE_PAGES_H
#define DT__CORE_PAGES_H

#include <stddef.h>

/* Returns the whole pages within these bytes to the system. They then read as 0 or, if a file is
 * mapped there, as the file. */
void dt__pages_give_back(const void *at, size_t n);

#endif
