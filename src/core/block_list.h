/* Memory of several blocks that live and die together. */
#ifndef DT__CORE_BLOCK_LIST_H
#define DT__CORE_BLOCK_LIST_H

#include <detent/experimental/detent.h>

/* A zeroed block, put in front of the list *blocks (NULL: an empty one). NULL: NOMEM. */
void *dt__block_list_add(dt_ctx *ctx, void **blocks, size_t bytes);
/* Frees all blocks; *blocks becomes NULL. */
void dt__block_list_free(dt_ctx *ctx, void **blocks);

#endif
