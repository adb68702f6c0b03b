/* Memory that is freed all at once: a list of blocks. */
#include "io/kept.h"

struct dt__kept {
    dt__kept *next;
    max_align_t bytes[];
};

void *dt__keep(dt_ctx *ctx, dt__kept **list, size_t bytes)
{
    size_t all;
    dt__kept *k = dt__add_size(sizeof *k, bytes, &all) ? dt__alloc(ctx, all) : NULL;
    if (k == NULL) return NULL;
    k->next = *list;
    *list = k;
    return k->bytes;
}

void dt__kept_free(dt_ctx *ctx, dt__kept **list)
{
    while (*list != NULL) {
        dt__kept *k = *list;
        *list = k->next;
        dt__release(ctx, k);
    }
}
