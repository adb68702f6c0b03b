/* Memory in pages of the system. */
#ifndef DT__CORE_PAGES_H
#define DT__CORE_PAGES_H

#include <stddef.h>

/* Gives the whole pages within these bytes back to the system. They read as 0 from then on, or, of
 * a file that is mapped, as the file. */
void dt__pages_give_back(const void *at, size_t n);

#endif
