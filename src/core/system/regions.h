/* The host's memory for a context: blocks of middle size are placed side by side in regions of
 * whole huge pages, large blocks begin at a huge page. So page tables are walked a few hundred
 * times less often: a model is read, and trained, a fifth to a third faster if the system gives
 * huge pages on request (`madvise` in /sys/kernel/mm/transparent_hugepage/enabled).
 *
 * A region is freed when its last block is. The pool (block_pool.c) keeps freed blocks, so gaps
 * between used blocks are not reused here. Not thread-safe. */
#ifndef DT__SYSTEM_REGIONS_H
#define DT__SYSTEM_REGIONS_H

#include <detent/detent.h>

typedef struct dt__regions dt__regions;

/* NULL without memory. */
dt__regions *dt__regions_create(void);
/* Frees the regions and their blocks. NULL is allowed. */
void dt__regions_free(dt__regions *r);

/* As dt_allocator; `user` is the regions, and `alignment` at most 64 KiB. */
void *dt__regions_allocate(void *user, size_t bytes, size_t alignment);
void dt__regions_release(void *user, void *pointer, size_t bytes);

#endif
