/* Pictures as PNG [W3C, PNG, third edition]: a signature, then chunks of length, type, data, crc32.
 * Every row of pixels begins with a byte for its filter, 0. */
#include "report/page_picture.h"

#include "core/text/base64.h"

#include <string.h>
#include <zlib.h>

#define MOST_SIDE 65536

static void put_u32(dt__chars *t, uint32_t value)
{
    const char bytes[] = { (char)(value >> 24), (char)(value >> 16), (char)(value >> 8),
                           (char)value };
    dt__put(t, bytes, 4);
}

static void put_chunk(dt__chars *t, const char type[4], const uint8_t *data, size_t n)
{
    uLong crc = crc32(0, (const Bytef *)type, 4);
    if (n > 0) crc = crc32(crc, data, (uInt)n); /* crc32 with NULL would start a new sum */
    put_u32(t, (uint32_t)n);
    dt__put(t, type, 4);
    dt__put(t, (const char *)data, n);
    put_u32(t, (uint32_t)crc);
}

typedef struct picture {
    int64_t width, height, channels;
    const uint8_t *bytes;
} picture;

static void put_head(dt__chars *t, const picture *p)
{
    uint8_t head[13] = { 0 };
    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(p->width >> (24 - 8 * i));
        head[4 + i] = (uint8_t)(p->height >> (24 - 8 * i));
    }
    head[8] = 8;                        /* bits per channel */
    head[9] = p->channels == 3 ? 2 : 0; /* colour, or grey */
    put_chunk(t, "IHDR", head, sizeof head);
}

/* Compresses the pixels with a filter byte in front of each row. */
static bool put_pixels(dt__chars *t, const picture *p)
{
    const size_t row = (size_t)(p->width * p->channels), n = (row + 1) * (size_t)p->height;
    uLongf packed = compressBound((uLong)n);
    uint8_t *raw = dt__alloc(t->ctx, n), *out = dt__alloc(t->ctx, packed);
    bool done = raw != NULL && out != NULL;
    for (int64_t y = 0; y < p->height && done; y++) {
        uint8_t *to = raw + (size_t)y * (row + 1);
        *to = 0;
        memcpy(to + 1, p->bytes + (size_t)y * row, row);
    }
    done = done && compress2(out, &packed, raw, (uLong)n, 9) == Z_OK;
    if (done) put_chunk(t, "IDAT", out, packed);
    DT__RELEASE(t->ctx, raw, out);
    return done;
}

static void put_png(dt__chars *t, const picture *p)
{
    static const char signature[] = "\x89PNG\r\n\x1a\n";
    dt__chars png = { .ctx = t->ctx };
    dt__put(&png, signature, 8);
    put_head(&png, p);
    if (!put_pixels(&png, p)) t->failed = true;
    put_chunk(&png, "IEND", NULL, 0);
    if (png.failed) t->failed = true;
    else dt__put_base64(t, (const uint8_t *)png.bytes, png.used);
    dt__release(t->ctx, png.bytes);
}

static void put_img(dt__chars *t, const picture *p, const char *text)
{
    dt__page(t, "<img width=\"%d\" height=\"%d\" alt=\"%s\" src=\"data:image/png;base64,", p->width,
             p->height, text);
    put_png(t, p);
    dt__put_text(t, "\">");
}

/* Height or width from a file; 0 if it is not a number of pixels. */
static int64_t side(const dt__branch *v, const char *name)
{
    const double n = dt__field_number(v, name);
    return n >= 1 && n <= MOST_SIDE ? (int64_t)n : 0;
}

void dt__put_image(dt__chars *t, const dt__branch *v, const char *text)
{
    picture p = { side(v, "width"), side(v, "height"), side(v, "channels"), NULL };
    const char *digits = dt__field_text(v, "bytes");
    const int64_t wanted = p.width * p.height * p.channels;
    const bool fits = wanted > 0 && (p.channels == 1 || p.channels == 3) &&
                      (int64_t)strlen(digits) == (wanted + 2) / 3 * 4;
    uint8_t *bytes = fits ? dt__alloc(t->ctx, strlen(digits)) : NULL;
    if (fits && bytes == NULL) t->failed = true;
    if (bytes != NULL && dt__base64_read(digits, bytes) == wanted) {
        p.bytes = bytes;
        put_img(t, &p, text);
    } else {
        dt__put_text(t, "<span class=\"none\">–</span>");
    }
    dt__release(t->ctx, bytes);
}
