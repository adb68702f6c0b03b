/* Memory blocks that are freed together. */
#ifndef DT__CORE_BLOCK_LIST_H
#define DT__CORE_BLOCK_LIST_H

#include <detent/experimental/detent.h>

#include <stdarg.h>

/* A zeroed block, inserted at the front of the list *blocks (NULL: an empty list). NULL: NOMEM. */
void *dt__block_list_add(dt_ctx *ctx, void **blocks, size_t bytes);
/* The same for count elements of `size` bytes. */
void *dt__block_list_array(dt_ctx *ctx, void **blocks, int64_t count, size_t size);
/* A text in such a block. */
char *dt__block_list_text(dt_ctx *ctx, void **blocks, const char *format, ...) DT_PRINTF(3, 4);
char *dt__block_list_text_v(dt_ctx *ctx, void **blocks, const char *format, va_list arguments);
/* Frees all blocks; *blocks becomes NULL. */
void dt__block_list_free(dt_ctx *ctx, void **blocks);

#endif
