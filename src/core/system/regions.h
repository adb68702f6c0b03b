/* The host's memory for a context: blocks of middle size lie side by side in regions of whole huge
 * pages, large ones begin at a huge page. So tables of pages are walked a few hundred times less
 * often: a model is read, and trained, a fifth to a third faster where the system gives huge pages
 * to those who ask (`madvise` in /sys/kernel/mm/transparent_hugepage/enabled).
 *
 * A region is freed when its last block is. Blocks that are given back are kept by the pool
 * (block_pool.c), so what lies between used ones is not looked for here. Not for several threads at
 * once. */
#ifndef DT__SYSTEM_REGIONS_H
#define DT__SYSTEM_REGIONS_H

#include <detent/detent.h>

typedef struct dt__regions dt__regions;

/* NULL without memory. */
dt__regions *dt__regions_create(void);
/* Their blocks go with them. NULL: nothing. */
void dt__regions_free(dt__regions *r);

/* As dt_allocator; `user` is the regions, and `alignment` at most 64 KiB. */
void *dt__regions_allocate(void *user, size_t bytes, size_t alignment);
void dt__regions_release(void *user, void *pointer, size_t bytes);

#endif
