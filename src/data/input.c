/* Reads files, plain, gzip [RFC 1952] or zstd. gzip is detected by its first two bytes, 1f 8b, and
 * zstd by its first four, which no other supported format has; consecutive members or frames are
 * one stream. */
#include "data/input.h"

#include "core/system/atomic_file.h"
#include "core/text/byte_mark.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"

#include <detent/experimental/text.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 16) /* bytes read from the file at a time */
/* minimum of the first allocation for the content of a compressed file */
#define FIRST_STEP ((size_t)1 << 20)
#define USUAL_RATIO ((size_t)16)   /* assumed ratio of content to compressed size */
#define MOST_RATIO ((size_t)100)   /* larger ratios of content to compressed size are refused, */
#define HARMLESS ((size_t)1 << 24) /* if the content has more bytes than this */

/* Fills the buffer, short only at the end of the file. */
static dt_status refill(dt__input *in)
{
    in->at = in->have = 0;
    while (in->have < CHUNK) {
        const ssize_t n = dt__sys_read(in->descriptor, in->buffer + in->have, CHUNK - in->have);
        if (n < 0) return dt__file_fail(in->ctx, "read", in->path, errno);
        if (n == 0) break;
        in->have += (size_t)n;
    }
    in->taken += in->have;
    return DT_OK;
}

dt_status dt__input_open(dt_ctx *ctx, const char *path, dt__input *in)
{
    *in = (dt__input){ .ctx = ctx, .path = path };
    DT__TRY(dt__open_file(ctx, path, &in->descriptor, &in->file_size));
    in->buffer = dt__alloc(ctx, CHUNK);
    if (in->buffer == NULL) return DT_ERR_NOMEM;
    DT__TRY(refill(in));
    DT__TRY(dt__check_fetched(ctx, path, in->buffer, in->have));
    if (dt__is_zstd(in->buffer, in->have)) {
        in->packed = true;
        return dt__unzstd_open(ctx, path, &in->zstd);
    }
    if (in->have < 2 || in->buffer[0] != 0x1f || in->buffer[1] != 0x8b) return DT_OK;
    in->z = dt__zlib_stream(ctx);
    if (inflateInit2(&in->z, 15 + 16) != Z_OK) {
        return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for inflating '%s'", path);
    }
    in->packed = true;
    return DT_OK;
}

void dt__input_close(dt__input *in)
{
    dt__unzstd_close(in->zstd);
    if (in->packed) inflateEnd(&in->z); /* does nothing if z is zeros */
    dt__release(in->ctx, in->buffer);
    if (in->descriptor >= 0) dt__sys_close(in->descriptor);
}

/* After the end of a gzip member: another member, or the end of the file. */
static dt_status next_member(dt__input *in)
{
    if (in->at == in->have) DT__TRY(refill(in));
    in->ended = in->have == 0;
    if (in->ended) return DT_OK;
    if (in->buffer[in->at] != 0x1f) {
        return dt_fail(in->ctx, DT_ERR_FORMAT,
                       "'%s': bytes that do not belong there follow the end of the gzip stream",
                       in->path);
    }
    inflateReset(&in->z);
    return DT_OK;
}

static dt_status inflate_fail(const dt__input *in, int code)
{
    if (code == Z_MEM_ERROR) {
        return dt_fail(in->ctx, DT_ERR_NOMEM, "out of memory for inflating '%s'", in->path);
    }
    return dt_fail(in->ctx, DT_ERR_FORMAT,
                   "'%s': the gzip stream is damaged (%s); expected a file that `gzip -t` accepts",
                   in->path, in->z.msg == NULL ? "unknown reason" : in->z.msg);
}

/* 0: a pipe. A file larger than the address space returns SIZE_MAX, which is too large for any
 * limit. */
static size_t bytes_of(const dt__input *in)
{
    return in->file_size < 0 ? 0 : DT__AT_MOST((uint64_t)in->file_size);
}

/* The limit of a compressed file's content: the ratio of text is seldom a tenth of this, and a
 * small untrusted file must not fill the memory. */
static size_t most_unpacked(const dt__input *in)
{
    const size_t size = in->file_size < 0 ? in->taken : bytes_of(in);
    if (size > SIZE_MAX / MOST_RATIO) return SIZE_MAX;
    return size * MOST_RATIO > HARMLESS ? size * MOST_RATIO : HARMLESS;
}

/* Counts bytes of content. */
static dt_status count_unpacked(dt__input *in, size_t bytes)
{
    const size_t most = most_unpacked(in);
    in->unpacked += bytes;
    if (in->unpacked <= most) return DT_OK;
    return dt_fail(in->ctx, DT_ERR_FORMAT,
                   "'%s': more than %zu bytes, %zu times the file or more; if that is right, "
                   "unpack it first",
                   in->path, most, MOST_RATIO);
}

static dt_status read_gzip(dt__input *in, uint8_t *to, size_t wanted, size_t *got)
{
    in->z.next_out = to;
    in->z.avail_out = (uInt)wanted;
    while (in->z.avail_out > 0 && !in->ended) {
        if (in->at == in->have) DT__TRY(refill(in));
        if (in->have == 0) {
            return dt_fail(in->ctx, DT_ERR_FORMAT,
                           "'%s': the gzip stream breaks off before its end", in->path);
        }
        in->z.next_in = in->buffer + in->at;
        in->z.avail_in = (uInt)(in->have - in->at);
        const int code = inflate(&in->z, Z_NO_FLUSH);
        in->at = in->have - in->z.avail_in;
        if (code == Z_STREAM_END) DT__TRY(next_member(in));
        else if (code != Z_OK && code != Z_BUF_ERROR) return inflate_fail(in, code);
    }
    *got = wanted - in->z.avail_out;
    return count_unpacked(in, *got);
}

static dt_status read_zstd(dt__input *in, uint8_t *to, size_t wanted, size_t *got)
{
    dt__unzstd_step s = { .made = 0 };
    *got = 0;
    while (*got < wanted) {
        /* the decoder has no output left */
        if (in->at == in->have && s.made < s.room) DT__TRY(refill(in));
        if (in->have == 0 && !dt__unzstd_is_within(in->zstd)) break;
        s = (dt__unzstd_step){ .from = in->buffer + in->at,
                               .have = in->have - in->at,
                               .to = to + *got,
                               .room = wanted - *got };
        DT__TRY(dt__unzstd_run(in->zstd, &s));
        in->at += s.used;
        *got += s.made;
        if (in->have == 0 && s.made == 0 && dt__unzstd_is_within(in->zstd)) {
            return dt_fail(in->ctx, DT_ERR_FORMAT,
                           "'%s': the zstd stream breaks off before its end", in->path);
        }
    }
    return count_unpacked(in, *got);
}

static dt_status read_plain(dt__input *in, uint8_t *to, size_t wanted, size_t *got)
{
    *got = 0;
    while (*got < wanted) {
        if (in->at == in->have) DT__TRY(refill(in));
        if (in->have == 0) break;
        const size_t left = in->have - in->at, n = left < wanted - *got ? left : wanted - *got;
        memcpy(to + *got, in->buffer + in->at, n);
        in->at += n;
        *got += n;
    }
    return DT_OK;
}

dt_status dt__input_read(dt__input *in, uint8_t *to, size_t wanted, size_t *got)
{
    const size_t most = (size_t)1 << 30; /* zlib counts in 32 bits */
    *got = 0;
    while (*got < wanted) {
        const size_t part = wanted - *got < most ? wanted - *got : most;
        size_t n;
        DT__TRY((in->zstd != NULL ? read_zstd
                 : in->packed     ? read_gzip
                                  : read_plain)(in, to + *got, part, &n));
        *got += n;
        if (n < part) break;
    }
    return DT_OK;
}

size_t dt__input_first_step(const dt__input *in, size_t wanted)
{
    if (!in->packed && in->file_size >= 0) return wanted;
    const size_t bytes = bytes_of(in);
    const size_t usual = bytes < wanted / USUAL_RATIO ? bytes * USUAL_RATIO : wanted;
    const size_t first = usual > FIRST_STEP ? usual : FIRST_STEP;
    return wanted < first ? wanted : first;
}

/* Reads one byte more than `most`, to detect longer files. */
static dt_status read_all(dt__input *in, size_t most, uint8_t **out, size_t *bytes)
{
    size_t room = in->file_size < 0 ? FIRST_STEP : bytes_of(in) + 1, got;
    for (;;) {
        if (room > most + 1) room = most + 1;
        uint8_t *grown = dt__grow(in->ctx, *out, *bytes, room);
        if (grown == NULL) return DT_ERR_NOMEM;
        *out = grown;
        DT__TRY(dt__input_read(in, *out + *bytes, room - *bytes, &got));
        *bytes += got;
        if (*bytes < room) return DT_OK;
        if (room == most + 1) break;
        room *= 2;
    }
    return dt_fail(in->ctx, DT_ERR_FORMAT, "'%s': more than %zu bytes", in->path, most);
}

dt_status dt__input_all(dt_ctx *ctx, const char *path, size_t most, uint8_t **out, size_t *bytes)
{
    dt__input in;
    *out = NULL;
    *bytes = 0;
    dt_status status = dt__input_open(ctx, path, &in);
    if (status == DT_OK) status = read_all(&in, most, out, bytes);
    dt__input_close(&in);
    if (status == DT_OK) return DT_OK;
    dt__release(ctx, *out);
    *out = NULL;
    return status;
}

/* ---- the public form ------------------------------------------------------------------------ */

#define MOST_TEXT DT__AT_MOST(UINT64_C(1) << 40)

dt_status dt_text_read(dt_ctx *ctx, const char *path, char **text, size_t *bytes)
{
    DT__NEED4(ctx, ctx, path, text, bytes);
    uint8_t *all;
    *text = NULL;
    DT__TRY(dt__input_all(ctx, path, MOST_TEXT, &all, bytes));
    size_t mark;
    const dt_status status = dt__skip_mark(ctx, path, all, *bytes, &mark);
    if (status != DT_OK) {
        dt__release(ctx, all);
        return status;
    }
    *bytes -= mark;
    if (mark > 0) memmove(all, all + mark, *bytes);
    all[*bytes] = 0; /* there is room: reading detects the end of a file only with room for more */
    *text = (char *)all;
    return DT_OK;
}

void dt_text_free(dt_ctx *ctx, char *text)
{
    if (ctx == NULL) return;
    dt__release(ctx, text);
}
