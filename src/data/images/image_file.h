/* An image file, PNG or JPEG by its first bytes. */
#ifndef DT__DATA_IMAGE_FILE_H
#define DT__DATA_IMAGE_FILE_H

#include "data/images/jpeg.h"
#include "data/images/png.h"

typedef struct dt__image_file {
    const char *path;
    int64_t height, width; /* after rotation by orientation */
    int orientation;       /* of dt__orientation_read */
    bool is_jpeg;
    dt__png png;
    dt__jpeg jpeg;
} dt__image_file;

/* Reads the header. dt__image_close must be called also after an error. Errors, naming the file:
 * IO, FORMAT, NOMEM. */
dt_status dt__image_open(dt_ctx *ctx, const char *path, dt__image_file *f);
void dt__image_close(dt__image_file *f);

/* Reads the pixels, which is possible once, as [channels][height][width] with 1 or 3 channels. */
dt_status dt__image_read(dt__image_file *f, int64_t channels, uint8_t *to);

/* Reads them likewise, resized to this height and width, which are 1 to 65535. Also NOMEM. */
dt_status dt__image_read_sized(dt_ctx *ctx, dt__image_file *f, int64_t channels, int64_t height,
                               int64_t width, uint8_t *to);

#endif
