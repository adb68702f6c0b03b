/* Blocks of memory, linked in the order in which they are freed. */
#include "core/block_list.h"

#include "core/core.h"

typedef struct header {
    _Alignas(16) void *next;
} header;

void *dt__block_list_add(dt_ctx *ctx, void **blocks, size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(header)) {
        dt_fail(ctx, DT_ERR_NOMEM, "out of memory: %zu bytes requested", bytes);
        return NULL;
    }
    header *h = dt__alloc_zero(ctx, sizeof *h + bytes);
    if (h == NULL) return NULL;
    h->next = *blocks;
    *blocks = h;
    return h + 1;
}

void dt__block_list_free(dt_ctx *ctx, void **blocks)
{
    while (*blocks != NULL) {
        header *h = *blocks;
        *blocks = h->next;
        dt__release(ctx, h);
    }
}
