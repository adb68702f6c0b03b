/* The bytes of a file, inflated where it is gzip, in the order in which they stand. */
#ifndef DT__DATA_INPUT_H
#define DT__DATA_INPUT_H

#include "data/zlib_stream.h"

typedef struct dt__input {
    dt_ctx *ctx;
    const char *path;
    int descriptor;
    int64_t file_size; /* -1 where it is not a regular file */
    uint8_t *buffer;   /* a piece of the file; at ... have not yet used */
    size_t at, have;
    bool gzip;
    bool ended; /* gzip: after the last member */
    z_stream z;
} dt__input;

/* Whatever the result, close it. Errors, naming the file: IO, NOMEM. */
dt_status dt__input_open(dt_ctx *ctx, const char *path, dt__input *in);
void dt__input_close(dt__input *in);

/* `wanted` bytes to `to`; *got is less only where the data end. The read that meets the end of a
 * gzip file has checked its checksum. Errors: IO, FORMAT (damaged gzip), NOMEM. */
dt_status dt__input_read(dt__input *in, uint8_t *to, size_t wanted, size_t *got);

/* How many bytes to allocate at first for `wanted` bytes of content, which somebody claims: all of
 * them where the file has a size of its own, else what gzip usually holds. */
size_t dt__input_first_step(const dt__input *in, size_t wanted);

/* The whole content, inflated where it is gzip, to be released. Errors: FORMAT where it has more
 * than `most` bytes; those of dt__input_open and dt__input_read. */
dt_status dt__input_all(dt_ctx *ctx, const char *path, size_t most, uint8_t **out, size_t *bytes);

#endif
