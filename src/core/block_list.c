/* Blocks of memory, linked in the order in which they are freed. */
#include "core/block_list.h"

#include "core/core.h"

#include <stdio.h>

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

void *dt__block_list_array(dt_ctx *ctx, void **blocks, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || !dt__mul_size((uint64_t)count, size, &bytes)) bytes = SIZE_MAX;
    return dt__block_list_add(ctx, blocks, bytes);
}

char *dt__block_list_text_v(dt_ctx *ctx, void **blocks, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : dt__block_list_add(ctx, blocks, (size_t)length + 1);
    if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *dt__block_list_text(dt_ctx *ctx, void **blocks, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = dt__block_list_text_v(ctx, blocks, format, arguments);
    va_end(arguments);
    return text;
}

void dt__block_list_free(dt_ctx *ctx, void **blocks)
{
    while (*blocks != NULL) {
        header *h = *blocks;
        *blocks = h->next;
        dt__release(ctx, h);
    }
}
