/* An image file: PNG or JPEG. */
#include "data/images/image_file.h"

#include "data/images/resize.h"

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
    f->orientation = f->is_jpeg ? f->jpeg.orientation : f->png.orientation;
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

dt_status dt__image_read_sized(dt_ctx *ctx, dt__image_file *f, int64_t channels, int64_t height,
                               int64_t width, uint8_t *to)
{
    if (f->height == height && f->width == width) return dt__image_read(f, channels, to);
    const int64_t dims[] = { channels, f->height, f->width };
    int64_t bytes;
    if (!dt__product(3, dims, &bytes)) {
        return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for '%s': %lld x %lld pixels", f->path,
                       (long long)f->height, (long long)f->width);
    }
    uint8_t *pixels = dt__alloc(ctx, (uint64_t)bytes);
    if (pixels == NULL) return DT_ERR_NOMEM;
    const dt__size from = { f->height, f->width }, size = { height, width };
    dt_status s = dt__image_read(f, channels, pixels);
    if (s == DT_OK) s = dt__resize(ctx, channels, from, pixels, size, to);
    dt__release(ctx, pixels);
    return s;
}
