/* zlib with the context's memory: its allocations are counted, pooled, and can fail in tests as all
 * others. */
#ifndef DT__DATA_ZLIB_STREAM_H
#define DT__DATA_ZLIB_STREAM_H

#include "core/core.h"

#include <zlib.h>

static inline void *dt__zlib_allocate(void *ctx, unsigned items, unsigned size)
{
    return dt__alloc_array(ctx, (int64_t)items, size);
}

static inline void dt__zlib_release(void *ctx, void *pointer) { dt__release(ctx, pointer); }

/* A stream for inflateInit2 or deflateInit2. */
static inline z_stream dt__zlib_stream(dt_ctx *ctx)
{
    return (z_stream){ .zalloc = dt__zlib_allocate, .zfree = dt__zlib_release, .opaque = ctx };
}

#endif
