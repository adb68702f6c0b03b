/* Reads one PNG file: first its size, then its pixels. */
#ifndef DT__DATA_PNG_H
#define DT__DATA_PNG_H

#include "data/input.h"
#include "data/images/orientation.h"

#include <png.h>
#include <setjmp.h>

typedef struct dt__png {
    dt_ctx *ctx;
    int64_t height, width; /* after rotation by orientation */
    int orientation;       /* of dt__orientation_read */
    bool transparent;      /* has an alpha channel, or a transparent colour */
    dt__input in;
    png_structp png;
    png_infop info;
    dt_status status; /* of the failed step */
    jmp_buf jump;
    uint8_t *bytes; /* [height][width][depth] */
} dt__png;

/* Reads the header. dt__png_close must be called also after an error. Errors, naming the file: IO,
 * FORMAT, NOMEM. */
dt_status dt__png_open(dt_ctx *ctx, const char *path, dt__png *p);
void dt__png_close(dt__png *p);

/* Reads the pixels, once, as [channels][height][width] with 1 or 3 channels. */
dt_status dt__png_read(dt__png *p, int64_t channels, uint8_t *to);

#endif
