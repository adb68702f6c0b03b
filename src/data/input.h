/* Reads the bytes of a file sequentially, decompressed if it is gzip or zstd. */
#ifndef DT__DATA_INPUT_H
#define DT__DATA_INPUT_H

#include "data/packed/unzstd.h"
#include "data/zlib_stream.h"

typedef struct dt__input {
    dt_ctx *ctx;
    const char *path;
    int descriptor;
    int64_t file_size; /* -1 if it is not a regular file */
    uint8_t *buffer;   /* a block of the file, whose last `have` bytes are unused */
    size_t at, have;
    size_t taken; /* bytes of the file read so far */
    bool packed;
    bool ended;      /* compressed: the last member or frame has ended */
    size_t unpacked; /* compressed: bytes of content so far */
    z_stream z;
    dt__unzstd *zstd; /* NULL: gzip, if compressed */
} dt__input;

/* Opens a file; dt__input_close must be called also after an error. Errors, naming the file: IO,
 * NOMEM. */
dt_status dt__input_open(dt_ctx *ctx, const char *path, dt__input *in);
void dt__input_close(dt__input *in);

/* Reads `wanted` bytes into `to`; *got is less only at the end. Reaching the end of a compressed
 * file verifies its checksum. Errors: IO, FORMAT (damaged, or the content is far larger than the
 * file), NOMEM. */
dt_status dt__input_read(dt__input *in, uint8_t *to, size_t wanted, size_t *got);

/* The size of the first allocation for `wanted` bytes of content, an untrusted number: all of them
 * for a plain file, else the usual content of a compressed file of this size. */
size_t dt__input_first_step(const dt__input *in, size_t wanted);

/* Reads the whole content, decompressed; the caller frees it. Errors: FORMAT if it has more than
 * `most` bytes; those of dt__input_open and dt__input_read. */
dt_status dt__input_all(dt_ctx *ctx, const char *path, size_t most, uint8_t **out, size_t *bytes);

#endif
