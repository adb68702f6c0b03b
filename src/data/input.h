/* Reads the bytes of a file in order, unpacked if it is gzip or zstd. */
#ifndef DT__DATA_INPUT_H
#define DT__DATA_INPUT_H

#include "data/packed/unzstd.h"
#include "data/zlib_stream.h"

typedef struct dt__input {
    dt_ctx *ctx;
    const char *path;
    int descriptor;
    int64_t file_size; /* -1 if it is not a regular file */
    uint8_t *buffer;   /* a piece of the file, of which the last `have` bytes are unused */
    size_t at, have;
    size_t taken; /* bytes of the file so far */
    bool packed;
    bool ended;      /* packed: the last member or frame has ended */
    size_t unpacked; /* packed: bytes of content so far */
    z_stream z;
    dt__unzstd *zstd; /* NULL: it is gzip, if it is packed */
} dt__input;

/* Opens a file; dt__input_close must be called also after an error. Errors, naming the file: IO,
 * NOMEM. */
dt_status dt__input_open(dt_ctx *ctx, const char *path, dt__input *in);
void dt__input_close(dt__input *in);

/* Reads `wanted` bytes into `to`; *got is less only at the end. Reaching the end of a packed
 * file verifies its checksum. Errors: IO, FORMAT (a damaged one, or one whose content is far larger
 * than the file), NOMEM. */
dt_status dt__input_read(dt__input *in, uint8_t *to, size_t wanted, size_t *got);

/* How many bytes to allocate first for `wanted` bytes of content, a number that is not trusted: all
 * of them for a plain file, else what a packed file of this size usually holds. */
size_t dt__input_first_step(const dt__input *in, size_t wanted);

/* The whole content, unpacked; the caller frees it. Errors: FORMAT if it has more
 * than `most` bytes; those of dt__input_open and dt__input_read. */
dt_status dt__input_all(dt_ctx *ctx, const char *path, size_t most, uint8_t **out, size_t *bytes);

#endif
