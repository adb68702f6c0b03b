#include "data/packed/unzstd.h"

#include <string.h>

bool dt__is_zstd(const uint8_t *bytes, size_t n)
{
    static const uint8_t magic[4] = { 0x28, 0xb5, 0x2f, 0xfd };
    return n >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

#if defined DETENT_ZSTD
#include "data/packed/zstd_library.h"

struct dt__unzstd {
    dt_ctx *ctx;
    const char *path;
    ZSTD_DStream *stream;
    bool within;
};

dt_status dt__unzstd_open(dt_ctx *ctx, const char *path, dt__unzstd **out)
{
    const char *why = dt__zstd_load();
    *out = NULL;
    if (why != NULL) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "'%s': it needs libzstd (Debian: libzstd1), which cannot be loaded: %s",
                       path, why);
    }
    dt__unzstd *u = dt__alloc_zero(ctx, sizeof *u);
    if (u == NULL) return DT_ERR_NOMEM;
    *u = (dt__unzstd){ ctx, path, dt__zstd.createDStream(), false };
    *out = u;
    if (u->stream != NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for unpacking '%s'", path);
}

void dt__unzstd_close(dt__unzstd *u)
{
    if (u == NULL) return;
    dt__zstd.freeDStream(u->stream);
    dt__release(u->ctx, u);
}

dt_status dt__unzstd_run(dt__unzstd *u, dt__unzstd_step *s)
{
    ZSTD_inBuffer from = { s->from, s->have, 0 };
    ZSTD_outBuffer to = { s->to, s->room, 0 };
    const size_t hint = dt__zstd.decompressStream(u->stream, &to, &from);
    if (dt__zstd.isError(hint)) {
        return dt_fail(u->ctx, DT_ERR_FORMAT,
                       "'%s': the zstd stream is damaged (%s); expected a file that `zstd -t` "
                       "accepts",
                       u->path, dt__zstd.getErrorName(hint));
    }
    if (from.pos > 0 || to.pos > 0) u->within = hint != 0; /* else a new frame is next */
    s->used = from.pos;
    s->made = to.pos;
    return DT_OK;
}

bool dt__unzstd_is_within(const dt__unzstd *u) { return u->within; }

#else

dt_status dt__unzstd_open(dt_ctx *ctx, const char *path, dt__unzstd **out)
{
    *out = NULL;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "'%s': this detent was built without libzstd: build it where Debian's "
                   "libzstd-dev is installed, or unpack the file by `zstd -d`",
                   path);
}

void dt__unzstd_close(dt__unzstd *u) { (void)u; }

dt_status dt__unzstd_run(dt__unzstd *u, dt__unzstd_step *s)
{
    (void)u, (void)s;
    return DT_OK;
}

bool dt__unzstd_is_within(const dt__unzstd *u)
{
    (void)u;
    return false;
}
#endif
