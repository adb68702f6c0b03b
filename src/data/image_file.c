/* An image in a file: PNG or JPEG. */
#include "data/image_file.h"

#include <string.h>

static dt_status begins_as_jpeg(dt_ctx *ctx, const char *path, bool *answer)
{
    dt__input in;
    const dt_status s = dt__input_open(ctx, path, &in);
    *answer = s == DT_OK && in.have >= 2 && in.buffer[0] == 0xFF && in.buffer[1] == 0xD8;
    dt__input_close(&in);
    return s;
}

dt_status dt__image_open(dt_ctx *ctx, const char *path, dt__image_file *f)
{
    memset(f, 0, sizeof *f);
    f->path = path;
    DT__TRY(begins_as_jpeg(ctx, path, &f->is_jpeg));
    const dt_status s =
        f->is_jpeg ? dt__jpeg_open(ctx, path, &f->jpeg) : dt__png_open(ctx, path, &f->png);
    f->height = f->is_jpeg ? f->jpeg.height : f->png.height;
    f->width = f->is_jpeg ? f->jpeg.width : f->png.width;
    return s;
}

void dt__image_close(dt__image_file *f)
{
    if (f->jpeg.ctx != NULL) dt__jpeg_close(&f->jpeg);
    if (f->png.ctx != NULL) dt__png_close(&f->png);
}

dt_status dt__image_read(dt__image_file *f, int64_t channels, uint8_t *to)
{
    return f->is_jpeg ? dt__jpeg_read(&f->jpeg, channels, to) : dt__png_read(&f->png, channels, to);
}
