/* Block pool. Freed blocks are kept in free lists, one per size class (four classes per doubling).
 * A step that repeats the sizes of the step before finds every block in a list and never calls the
 * allocator. Invariant: a block's class never changes. Extents are often powers of two, so class
 * sizes are 2^i, 5/4 2^i, 6/4 2^i, 7/4 2^i, plus room for the headers of the block and of a
 * storage; from 16 MiB on, sixteenths in place of quarters. Under AddressSanitizer free blocks are
 * poisoned, as are the bytes of a block behind the requested size, so use after free and overflow
 * are detected. */
#include "core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define DT__ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DT__ASAN 1
#endif
#endif
#ifdef DT__ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define HEADER ((size_t)DT__ALIGNMENT) /* keeps the payload aligned */
#define LARGEST ((size_t)PTRDIFF_MAX)  /* no object is larger */
#define LARGE 24                       /* log2 of the size from which classes are finer */

_Static_assert(sizeof(dt__block) <= DT__ALIGNMENT, "a block's header fits before its payload");

#define CLASS_EXTRA (3 * HEADER)

/* Rounds the `bytes` of a block up to the size of its class and returns the class. */
static int class_of(size_t bytes, size_t *rounded)
{
    if (bytes <= 2 * HEADER) {
        *rounded = 2 * HEADER;
        return 0;
    }
    const size_t core = bytes > CLASS_EXTRA ? bytes - CLASS_EXTRA : 0;
    int high = 0, klass = 1;
    size_t step = HEADER;
    if (core > 4 * HEADER) {
        while ((core - 1) >> (high + 1) != 0) high++;
        const int bits = high < LARGE ? 2 : 4, large = high < LARGE ? 0 : high - LARGE;
        step = (size_t)1 << (high - bits);
        klass = (high - large) * 4 + large * 16 +
                (int)(((core - 1) >> (high - bits)) & ((1U << bits) - 1));
    } else {
        klass += (int)((core + HEADER - 1) / HEADER);
    }
    *rounded = CLASS_EXTRA + (core + step - 1) / step * step;
    return klass;
}

static void *payload(dt__block *b) { return (char *)b + HEADER; }
static dt__block *block_of(void *pointer)
{
    return (dt__block *)(void *)((char *)pointer - HEADER);
}

void *dt__alloc(dt_ctx *ctx, uint64_t wanted)
{
    dt__pool *pool = &ctx->pool;
    if (wanted > LARGEST) {
        dt_fail(ctx, DT_ERR_NOMEM, "out of memory: %" PRIu64 " bytes requested", wanted);
        return NULL;
    }
    size_t rounded;
    const size_t bytes = (size_t)wanted;
    const int klass = class_of(bytes + HEADER, &rounded);
    dt__block *b = pool->free_list[klass];
    if (b != NULL) {
        pool->free_list[klass] = b->next;
    } else {
        const bool refused = pool->limit != 0 && (pool->count.used > pool->limit ||
                                                  rounded > pool->limit - pool->count.used);
        pool->limited = pool->limited || refused;
        if (!refused) b = ctx->allocator.allocate(ctx->allocator.user, rounded, DT__ALIGNMENT);
        if (b == NULL) {
            dt_fail(ctx, DT_ERR_NOMEM, "out of memory: %zu bytes requested, %zu in use", bytes,
                    pool->count.used);
            return NULL;
        }
        b->bytes = rounded;
        b->klass = klass;
        pool->count.allocations++;
        pool->count.held += rounded;
    }
    POISON(payload(b), b->bytes - HEADER);
    UNPOISON(payload(b), bytes);
    b->next = NULL;
    pool->count.used += b->bytes;
    if (pool->count.used > pool->count.peak) pool->count.peak = pool->count.used;
    return payload(b);
}

void *dt__alloc_zero(dt_ctx *ctx, uint64_t bytes)
{
    void *p = dt__alloc(ctx, bytes);
    if (p != NULL) memset(p, 0, (size_t)bytes);
    return p;
}

void *dt__alloc_array(dt_ctx *ctx, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || !dt__mul_size((uint64_t)count, size, &bytes)) {
        dt_fail(ctx, DT_ERR_NOMEM, "out of memory: %lld elements of %zu bytes requested",
                (long long)count, size);
        return NULL;
    }
    return dt__alloc(ctx, bytes);
}

void dt__release(dt_ctx *ctx, void *pointer)
{
    if (pointer == NULL) return;
    dt__block *b = block_of(pointer);
    ctx->pool.count.used -= b->bytes;
    b->next = ctx->pool.free_list[b->klass];
    ctx->pool.free_list[b->klass] = b;
    POISON(payload(b), b->bytes - HEADER);
}

void dt__release_all(dt_ctx *ctx, int n, void *const *pointers)
{
    for (int i = 0; i < n; i++) dt__release(ctx, pointers[i]);
}

void *dt__grow(dt_ctx *ctx, void *old, size_t old_bytes, size_t new_bytes)
{
    void *p = dt__alloc(ctx, new_bytes);
    if (p == NULL) return NULL;
    if (old != NULL) memcpy(p, old, old_bytes < new_bytes ? old_bytes : new_bytes);
    dt__release(ctx, old);
    return p;
}

dt_status dt__reserve(dt_ctx *ctx, void *array, int64_t n, int64_t *room, size_t size)
{
    if (n < *room) return DT_OK;
    const int64_t more = *room == 0 ? 8 : 2 * *room;
    size_t bytes;
    void *block;
    memcpy(&block, array, sizeof block);
    if (!dt__mul_size((uint64_t)more, size, &bytes)) bytes = SIZE_MAX;
    block = dt__grow(ctx, block, (size_t)n * size, bytes);
    if (block == NULL) return DT_ERR_NOMEM;
    memcpy(array, &block, sizeof block);
    *room = more;
    return DT_OK;
}

char *dt__copy_string(dt_ctx *ctx, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = dt__alloc(ctx, size);
    if (copy != NULL) memcpy(copy, text, size);
    return copy;
}

char *dt__format_string(dt_ctx *ctx, const char *format, ...)
{
    va_list a, b;
    va_start(a, format);
    va_copy(b, a);
    const int length = vsnprintf(NULL, 0, format, a);
    char *text = length < 0 ? NULL : dt__alloc(ctx, (size_t)length + 1);
    if (text != NULL) vsnprintf(text, (size_t)length + 1, format, b);
    va_end(b);
    va_end(a);
    return text;
}

void dt__pool_trim(dt_ctx *ctx)
{
    for (int k = 0; k < DT__CLASSES; k++) {
        while (ctx->pool.free_list[k] != NULL) {
            dt__block *b = ctx->pool.free_list[k];
            ctx->pool.free_list[k] = b->next;
            UNPOISON(payload(b), b->bytes - HEADER);
            ctx->pool.count.held -= b->bytes;
            ctx->allocator.release(ctx->allocator.user, b, b->bytes);
        }
    }
}

void dt__pool_limit(dt_ctx *ctx, size_t size, uint64_t growth, size_t slack)
{
    size_t most;
    dt__pool *pool = &ctx->pool;
    const bool fits = dt__mul_size(size, growth, &most) && dt__add_size(most, slack, &most) &&
                      dt__add_size(most, pool->count.used, &most);
    pool->limit = fits ? most : SIZE_MAX;
    pool->limited = false;
    pool->promised = 0;
}

void dt__pool_widen(dt_ctx *ctx, size_t size, uint64_t growth)
{
    size_t more;
    dt__pool *pool = &ctx->pool;
    if (pool->limit == 0) return;
    const bool fits = dt__mul_size(size, growth, &more) && dt__add_size(pool->limit, more, &more);
    pool->limit = fits ? more : SIZE_MAX;
}

bool dt__mul_size(uint64_t a, uint64_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b) return false;
    *out = (size_t)(a * b);
    return true;
}

bool dt__add_size(uint64_t a, uint64_t b, size_t *out)
{
    if (b > SIZE_MAX || a > SIZE_MAX - b) return false;
    *out = (size_t)(a + b);
    return true;
}

bool dt__product(int rank, const int64_t *dims, int64_t *out)
{
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return false;
        if (dims[i] == 0) empty = true;
    }
    for (int i = 0; i < rank && !empty; i++) {
        if (product > INT64_MAX / dims[i]) return false;
        product *= dims[i];
    }
    *out = empty ? 0 : product;
    return true;
}
