/* Reads one JPEG file: first its size, then its pixels. */
#ifndef DT__DATA_JPEG_H
#define DT__DATA_JPEG_H

#include "data/input.h"
#include "data/images/orientation.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct dt__jpeg {
    dt_ctx *ctx;
    const char *path;
    int64_t height, width; /* after rotation by orientation */
    int orientation;       /* of dt__orientation_read */
    uint8_t *file;         /* its bytes */
    size_t file_bytes;
    uint8_t *row; /* [width][depth] */
    int64_t channels;
    uint8_t *to;
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr errors;
    bool started;
    dt_status status; /* of the failed step */
    jmp_buf jump;
} dt__jpeg;

/* Reads the header. dt__jpeg_close must be called also after an error. Errors, naming the file: IO,
 * FORMAT, NOMEM. */
dt_status dt__jpeg_open(dt_ctx *ctx, const char *path, dt__jpeg *p);
void dt__jpeg_close(dt__jpeg *p);

/* Reads the pixels, once, as [channels][height][width] with 1 or 3 channels. */
dt_status dt__jpeg_read(dt__jpeg *p, int64_t channels, uint8_t *to);

#endif
