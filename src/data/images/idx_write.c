/* Writes IDX files, gzip if the name ends in .gz. The gzip header contains no name and no time, so
 * equal datasets make equal bytes. Both files are written before either is renamed. */
#include "core/system/atomic_file.h"
#include "core/text/ending.h"
#include "data/dataset.h"
#include "data/zlib_stream.h"

#include <string.h>

#define CHUNK ((size_t)1 << 16)
#define LEVEL 6

static bool wants_gzip(const char *path) { return dt__ends_in(path, ".gz"); }

/* Deflates `bytes` bytes into the file through `buffer`; `flush` is zlib's. */
static dt_status deflate_part(dt__new_file *file, z_stream *z, uint8_t *buffer, int flush)
{
    int code;
    do {
        z->next_out = buffer;
        z->avail_out = (uInt)CHUNK;
        code = deflate(z, flush);
        DT__TRY(dt__file_write(file, buffer, CHUNK - z->avail_out));
    } while (z->avail_out == 0 || (flush == Z_FINISH && code != Z_STREAM_END));
    return DT_OK;
}

typedef struct content {
    uint8_t head[16];
    size_t head_bytes;
    const uint8_t *elements;
    size_t bytes;
} content;

static dt_status deflate_content(dt__new_file *file, const content *c, z_stream *z, uint8_t *buffer)
{
    const size_t most = (size_t)1 << 30; /* zlib counts in 32 bits */
    uint8_t head[sizeof c->head];
    memcpy(head, c->head, sizeof head);
    z->next_in = head;
    z->avail_in = (uInt)c->head_bytes;
    DT__TRY(deflate_part(file, z, buffer, Z_NO_FLUSH));
    for (size_t at = 0; at < c->bytes; at += most) {
        z->next_in = (Bytef *)(uintptr_t)(c->elements + at);
        z->avail_in = (uInt)(c->bytes - at < most ? c->bytes - at : most);
        DT__TRY(deflate_part(file, z, buffer, Z_NO_FLUSH));
    }
    return deflate_part(file, z, buffer, Z_FINISH);
}

static dt_status write_gzip(dt__new_file *file, const content *c)
{
    dt_ctx *ctx = file->ctx;
    z_stream z = dt__zlib_stream(ctx);
    uint8_t *buffer = dt__alloc(ctx, CHUNK);
    if (buffer == NULL) return DT_ERR_NOMEM;
    dt_status status = DT_ERR_NOMEM;
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
        status = deflate_content(file, c, &z, buffer);
        deflateEnd(&z);
    } else {
        dt_fail(ctx, DT_ERR_NOMEM, "out of memory for deflating '%s'", file->path);
    }
    dt__release(ctx, buffer);
    return status;
}

static dt_status write_content(dt__new_file *file, const content *c)
{
    if (wants_gzip(file->path)) return write_gzip(file, c);
    DT__TRY(dt__file_write(file, c->head, c->head_bytes));
    return dt__file_write(file, c->elements, c->bytes);
}

static dt_status fill_header(dt_ctx *ctx, content *c, int rank, const int64_t *dims)
{
    const uint8_t magic[4] = { 0, 0, 8, (uint8_t)rank };
    memcpy(c->head, magic, sizeof magic);
    for (int i = 0; i < rank; i++) {
        if (dims[i] > UINT32_MAX) {
            return dt_fail(ctx, DT_ERR_ARG, "IDX files hold extents below 2^32, not %lld",
                           (long long)dims[i]);
        }
        for (int b = 0; b < 4; b++) c->head[4 + 4 * i + b] = (uint8_t)(dims[i] >> (24 - 8 * b));
    }
    c->head_bytes = 4 + 4 * (size_t)rank;
    return DT_OK;
}

dt_status dt_idx_write(const dt_dataset *d, const char *images, const char *labels)
{
    DT__NEED3(NULL, d, images, labels);
    const int64_t dims[] = { d->count, d->height, d->width };
    content pixels = { .elements = dt__dataset_image(d, 0),
                       .bytes = (size_t)(d->count * d->height * d->width) };
    content marks = { .elements = dt__dataset_target(d, 0), .bytes = (size_t)d->count };
    if (d->channels != 1 || d->target != DT_TARGET_CLASS) {
        return dt_fail(d->ctx, DT_ERR_ARG, "IDX files hold grey images and their labels alone");
    }
    DT__TRY(fill_header(d->ctx, &pixels, 3, dims));
    DT__TRY(fill_header(d->ctx, &marks, 1, dims));
    dt__new_file first, second;
    DT__TRY(dt__file_begin(d->ctx, images, &first));
    dt_status status = dt__file_begin(d->ctx, labels, &second);
    if (status == DT_OK && dt__file_is_same(&first, &second)) {
        status = dt_fail(d->ctx, DT_ERR_ARG, "images and labels must be two files, not both '%s'",
                         images);
    }
    if (status == DT_OK) status = write_content(&first, &pixels);
    if (status == DT_OK) status = write_content(&second, &marks);
    if (status == DT_OK) status = dt__file_commit(&first);
    if (status == DT_OK) status = dt__file_commit(&second);
    dt__file_abandon(&first);
    dt__file_abandon(&second);
    return status;
}
