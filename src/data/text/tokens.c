/* Files of ids: little-endian u16 or u32, without a header, as other training programs write them.
 * Memory-mapped if possible, so a file may be larger than memory. */
#include "core/system/atomic_file.h"
#include "core/text/ending.h"
#include "data/file_map.h"

#include <detent/experimental/text.h>

#include <sys/mman.h>

#define AT_ONCE 4096 /* ids written at a time */

struct dt_tokens {
    dt_ctx *ctx;
    char *path;
    const unsigned char *map; /* NULL: an empty file */
    size_t bytes;
    int each;
    int64_t count;
};

static int size_by_name(const char *path) { return dt__ends_in(path, ".u32.bin") ? 4 : 2; }

static dt_status check_ids(dt_ctx *ctx, const char *path, const int32_t *ids, int64_t n, int each)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && (each == 4 || ids[i] <= UINT16_MAX)) continue;
        return dt_fail(ctx, DT_ERR_ARG, "'%s': id %lld is %d; %d bytes hold 0 to %d%s", path,
                       (long long)i, ids[i], each, each == 4 ? INT32_MAX : UINT16_MAX,
                       ids[i] < 0 ? "" : "; a file *.u32.bin has ids of 4 bytes");
    }
    return DT_OK;
}

static dt_status write_ids(dt__new_file *file, const int32_t *ids, int64_t n, int each)
{
    unsigned char bytes[4 * AT_ONCE];
    for (int64_t i = 0; i < n;) {
        size_t used = 0;
        for (int k = 0; k < AT_ONCE && i < n; k++, i++) {
            for (int b = 0; b < each; b++) {
                bytes[used++] = (unsigned char)((uint32_t)ids[i] >> (8 * b));
            }
        }
        DT__TRY(dt__file_write(file, bytes, used));
    }
    return DT_OK;
}

dt_status dt_tokens_write(dt_ctx *ctx, const char *path, const int32_t *ids, int64_t n,
                          int bytes_each)
{
    DT__NEED(NULL, ctx);
    const int each = bytes_each == 0 ? size_by_name(path) : bytes_each;
    if (n < 0 || (each != 2 && each != 4)) {
        return dt_fail(ctx, DT_ERR_ARG, "'%s': %lld ids of %d bytes; expected 2 or 4 bytes", path,
                       (long long)n, each);
    }
    DT__TRY(check_ids(ctx, path, ids, n, each));
    dt__new_file file;
    DT__TRY(dt__file_begin(ctx, path, &file));
    const dt_status status = write_ids(&file, ids, n, each);
    if (status == DT_OK) return dt__file_commit(&file);
    dt__file_abandon(&file);
    return status;
}

static dt_status open_file(dt_tokens *t)
{
    void *map;
    DT__TRY(dt__map_file(t->ctx, t->path, &map, &t->bytes));
    t->map = map;
    t->count = (int64_t)t->bytes / t->each;
    if (t->bytes % (size_t)t->each == 0) return DT_OK;
    return dt_fail(t->ctx, DT_ERR_FORMAT,
                   "'%s': %zu bytes are not a multiple of the %d of an id; the file is cut short, "
                   "or its ids have another size",
                   t->path, t->bytes, t->each);
}

dt_status dt_tokens_open(dt_ctx *ctx, const char *path, int bytes_each, dt_tokens **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    const int each = bytes_each == 0 ? size_by_name(path) : bytes_each;
    if (each != 2 && each != 4) {
        return dt_fail(ctx, DT_ERR_ARG, "'%s': ids of %d bytes; expected 2, 4, or 0 (by the name)",
                       path, bytes_each);
    }
    dt_tokens *t = dt__alloc_zero(ctx, sizeof *t);
    if (t == NULL) return DT_ERR_NOMEM;
    dt__ctx_retain(ctx);
    *t = (dt_tokens){ .ctx = ctx, .path = dt__copy_string(ctx, path), .each = each };
    const dt_status status = t->path == NULL ? DT_ERR_NOMEM : open_file(t);
    if (status == DT_OK) *out = t;
    else dt_tokens_free(t);
    return status;
}

void dt_tokens_free(dt_tokens *t)
{
    if (t == NULL) return;
    dt_ctx *ctx = t->ctx;
    if (t->map != NULL) munmap((void *)(uintptr_t)t->map, t->bytes);
    DT__RELEASE(ctx, t->path, t);
    dt__ctx_release(ctx);
}

int64_t dt_tokens_count(const dt_tokens *t) { return t == NULL ? 0 : t->count; }

dt_status dt_tokens_read(const dt_tokens *t, int64_t first, int64_t n, int32_t *ids)
{
    DT__NEED(NULL, t);
    if (n > 0) DT__NEED(NULL, ids);
    if (first < 0 || n < 0 || n > t->count || first > t->count - n) {
        return dt_fail(t->ctx, DT_ERR_ARG, "'%s': %lld ids from %lld on; there are %lld", t->path,
                       (long long)n, (long long)first, (long long)t->count);
    }
    if (n == 0) return DT_OK;
    const unsigned char *p = t->map + (size_t)first * (size_t)t->each;
    for (int64_t i = 0; i < n; i++, p += t->each) {
        uint32_t id = (uint32_t)p[0] | (uint32_t)p[1] << 8;
        if (t->each == 4) id |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        if (id > INT32_MAX) {
            return dt_fail(t->ctx, DT_ERR_FORMAT, "'%s': id %lld is %lu; ids are below 2^31",
                           t->path, (long long)(first + i), (unsigned long)id);
        }
        ids[i] = (int32_t)id;
    }
    return DT_OK;
}

int32_t dt_tokens_at(const dt_tokens *t, int64_t i)
{
    if (t == NULL) return 0;
    int32_t id;
    return dt_tokens_read(t, i, 1, &id) == DT_OK ? id : -1;
}
