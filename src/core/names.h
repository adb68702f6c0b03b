/* Finds places in a list by the names of the elements: open addressing over hashes. The list holds
 * the names; the caller compares them. Places of names that were removed may be returned. */
#ifndef DT__CORE_NAMES_H
#define DT__CORE_NAMES_H

#include <detent/experimental/detent.h>

#include <stddef.h>
#include <stdint.h>

typedef struct dt__names {
    struct dt__name_place *place;
    int64_t used, room; /* room: a power of 2, or 0 */
} dt__names;

/* FNV-1a of n bytes. */
uint64_t dt__hash_name(const char *name, size_t n);
/* Adds place `at` of a name with this hash. NOMEM. */
dt_status dt__names_add(dt_ctx *ctx, dt__names *t, uint64_t hash, int64_t at);
/* The next place of a name with this hash; -1: there is no other. *probe begins at 0. */
int64_t dt__names_next(const dt__names *t, uint64_t hash, int64_t *probe);
void dt__names_free(dt_ctx *ctx, dt__names *t);

#endif
