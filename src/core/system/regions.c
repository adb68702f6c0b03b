#define _DEFAULT_SOURCE /* madvise */
#include "core/system/regions.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL ((size_t)64 << 10) /* blocks of at least this size are in regions, */
#define LARGE HUGE_PAGE          /* and blocks of at least this size are allocated alone */
#define LEAST (2 * HUGE_PAGE) /* bytes of the first region; each further one has a quarter of all */
#define MOST (16 * HUGE_PAGE)

/* Sanitizers find errors at the ends of blocks that the C library gives. */
#if defined __SANITIZE_ADDRESS__
#define APART 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define APART 1
#endif
#endif
#ifndef APART
#define APART 0
#endif

/* The header of a region. */
typedef struct region {
    struct region *next;
    size_t size, used;
    size_t blocks; /* blocks in use */
} region;

/* Blocks are taken from the first region. */
struct dt__regions {
    region *first;
    size_t size; /* total size of all regions */
};

dt__regions *dt__regions_create(void) { return calloc(1, sizeof(dt__regions)); }

static void free_region(dt__regions *all, region **at)
{
    region *r = *at;
    *at = r->next;
    all->size -= r->size;
    free(r);
}

void dt__regions_free(dt__regions *r)
{
    if (r == NULL) return;
    while (r->first != NULL) free_region(r, &r->first);
    free(r);
}

/* Allocates bytes that begin at a huge page; NULL: no memory. Pages beside them are not touched. */
static void *allocate_pages(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, HUGE_PAGE, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return p;
}

static region *add_region(dt__regions *all)
{
    size_t size = all->size / 4 / HUGE_PAGE * HUGE_PAGE;
    size = size < LEAST ? LEAST : size > MOST ? MOST : size;
    region *r = allocate_pages(size);
    if (r == NULL) return NULL;
    *r = (region){ .next = all->first, .size = size, .used = sizeof *r };
    all->first = r;
    all->size += size;
    return r;
}

static void *take_block(dt__regions *all, size_t bytes, size_t alignment)
{
    region *r = all->first;
    if (r == NULL || r->size - r->used < bytes + alignment) r = add_region(all);
    if (r == NULL) return NULL;
    const size_t at = (r->used + alignment - 1) / alignment * alignment;
    r->used = at + bytes;
    r->blocks++;
    return (char *)r + at;
}

/* If memory is too scarce for a region, or for the space that alignment needs, the block is
 * allocated alone. */
void *dt__regions_allocate(void *user, size_t bytes, size_t alignment)
{
    void *p = NULL;
    if (bytes >= LARGE) p = allocate_pages(bytes);
    else if (bytes >= SMALL && !APART) p = take_block(user, bytes, alignment);
    if (p != NULL) return p;
    return posix_memalign(&p, alignment, bytes) == 0 ? p : NULL;
}

void dt__regions_release(void *user, void *pointer, size_t bytes)
{
    dt__regions *all = user;
    const uintptr_t place = (uintptr_t)pointer;
    const bool middle = bytes >= SMALL && bytes < LARGE;
    for (region **at = &all->first; middle && *at != NULL; at = &(*at)->next) {
        const uintptr_t from = (uintptr_t)*at;
        if (place < from || place >= from + (*at)->size) continue;
        if (--(*at)->blocks == 0) free_region(all, at);
        return;
    }
    free(pointer);
}
