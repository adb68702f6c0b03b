/* Writes PNG files, by libpng's simplified interface: 8 bits, grey or colour. */
#include "core/system/atomic_file.h"

#include <detent/experimental/data.h>

#include <png.h>

#define MOST_SIDE 65535

/* [channels][height][width] as [height][width][channels]. */
static void interleave(const dt_png_image *p, uint8_t *to)
{
    const int64_t places = p->height * p->width;
    for (int64_t i = 0; i < places; i++) {
        for (int64_t c = 0; c < p->channels; c++) *to++ = p->pixels[c * places + i];
    }
}

dt_status dt_png_write(dt_ctx *ctx, const char *path, const dt_png_image *p)
{
    DT__NEED2(ctx, ctx, p);
    const bool known = p->channels == 1 || p->channels == 3;
    if (!known || p->height < 1 || p->width < 1 || p->height > MOST_SIDE || p->width > MOST_SIDE) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "%s: an image of %lld x %lld x %lld; expected 1 or 3 channels and sides of 1 to %d",
            path, (long long)p->channels, (long long)p->height, (long long)p->width, MOST_SIDE);
    }
    const int64_t bytes = p->channels * p->height * p->width;
    png_image head = { .version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = p->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB };
    png_alloc_size_t most = PNG_IMAGE_PNG_SIZE_MAX(head);
    uint8_t *rows = dt__alloc(ctx, (uint64_t)bytes), *file = dt__alloc(ctx, most);
    dt_status s = rows == NULL || file == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK) interleave(p, rows);
    if (s == DT_OK && !png_image_write_to_memory(&head, file, &most, 0, rows, 0, NULL)) {
        s = dt_fail(ctx, DT_ERR_NOMEM, "%s: libpng: %s", path, head.message);
    }
    if (s == DT_OK) s = dt__file_replace(ctx, path, &(dt__span){ file, most }, 1);
    png_image_free(&head);
    DT__RELEASE(ctx, rows, file);
    return s;
}
