/* PNG files by hand [ISO/IEC 15948]: signature, IHDR, PLTE, tRNS, IDAT in two pieces, IEND. Row r
 * is filtered by r % 5. */
#include "png_make.h"

#include <check.h>
#include <string.h>
#include <zlib.h>

static const uint8_t signature[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };

static void put_u32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

size_t png_make_chunk(uint8_t *file, size_t used, const char *name, const void *data, size_t size)
{
    ck_assert_uint_lt(used + size + 12, PNG_MAKE_MOST);
    put_u32(file + used, (uint32_t)size);
    memcpy(file + used + 4, name, 4);
    if (size > 0) memcpy(file + used + 8, data, size);
    put_u32(file + used + 8 + size, (uint32_t)crc32(0, file + used + 4, (uInt)size + 4));
    return used + size + 12;
}

void png_make_sums(uint8_t *file, size_t size)
{
    for (size_t at = sizeof signature; at + 12 <= size;) {
        const size_t n = get_u32(file + at);
        if (n > size - at - 12) return;
        put_u32(file + at + 8 + n, (uint32_t)crc32(0, file + at + 4, (uInt)n + 4));
        at += n + 12;
    }
}

static int channels_of(int type)
{
    return type == PNG_RGB ? 3 : type == PNG_GREY_ALPHA ? 2 : type == PNG_RGBA ? 4 : 1;
}

int png_make_sample(const png_make_options *o, int x, int y, int c)
{
    const uint32_t h = (uint32_t)(o->seed * 7919 + y * 131 + x * 31 + c * 17 + 1) * 2654435761U;
    return (int)(h >> 8) & ((1 << o->depth) - 1);
}

void png_make_entry(int i, uint8_t rgb[3])
{
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(i * (37 + 20 * c) + 11 * c + 5);
}

/* The row of the pixels x0, x0 + dx, ... of line y, unfiltered; returns its bytes. */
static size_t fill_row(const png_make_options *o, int y, int x0, int dx, uint8_t *row)
{
    size_t bits = 0;
    memset(row, 0, 4096);
    for (int x = x0; x < o->width; x += dx) {
        for (int c = 0; c < channels_of(o->type); c++, bits += (size_t)o->depth) {
            const int v = png_make_sample(o, x, y, c);
            if (o->depth == 16) {
                row[bits / 8] = (uint8_t)(v >> 8);
                row[bits / 8 + 1] = (uint8_t)v;
            } else {
                row[bits / 8] |= (uint8_t)(v << (8 - o->depth - (int)(bits % 8)));
            }
        }
    }
    return (bits + 7) / 8;
}

static int paeth(int a, int b, int c)
{
    const int p = a + b - c;
    const int pa = p < a ? a - p : p - a, pb = p < b ? b - p : p - b, pc = p < c ? c - p : p - c;
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* Filters a row by its predecessor; `step`: bytes of a pixel. */
static void filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t n, size_t step,
                       uint8_t *to)
{
    *to++ = (uint8_t)filter;
    for (size_t i = 0; i < n; i++) {
        const int a = i < step ? 0 : row[i - step], b = above[i],
                  c = i < step ? 0 : above[i - step];
        const int guess[5] = { 0, a, b, (a + b) / 2, paeth(a, b, c) };
        to[i] = (uint8_t)(row[i] - guess[filter]);
    }
}

/* Writes all rows of a pass; returns the number of bytes written. */
static size_t put_pass(const png_make_options *o, const int pass[4], uint8_t *to)
{
    const int step = channels_of(o->type) * o->depth / 8;
    uint8_t rows[2][4096] = { { 0 } };
    size_t put = 0;
    for (int y = pass[1], r = 0; y < o->height; y += pass[3], r++) {
        const size_t n = fill_row(o, y, pass[0], pass[2], rows[r % 2]);
        if (n == 0) return 0;
        filter_row(r % 5, rows[r % 2], rows[(r + 1) % 2], n, step < 1 ? 1 : (size_t)step, to + put);
        put += n + 1;
    }
    return put;
}

static size_t put_rows(const png_make_options *o, uint8_t *to)
{
    static const int whole[4] = { 0, 0, 1, 1 };
    static const int adam7[7][4] = { /* first x, first y, step of x, of y */
                                     { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 },
                                     { 0, 2, 2, 4 }, { 1, 0, 2, 2 }, { 0, 1, 1, 2 }
    };
    if (!o->interlaced) return put_pass(o, whole, to);
    size_t n = 0;
    for (int p = 0; p < 7; p++) n += put_pass(o, adam7[p], to + n);
    return n;
}

size_t png_make(const png_make_options *o, uint8_t to[PNG_MAKE_MOST])
{
    static uint8_t rows[PNG_MAKE_MOST], packed[PNG_MAKE_MOST];
    uint8_t head[13] = { [8] = (uint8_t)o->depth, [9] = (uint8_t)o->type };
    uint8_t palette[256][3];
    size_t used = sizeof signature;
    memcpy(to, signature, used);
    put_u32(head, (uint32_t)o->width);
    put_u32(head + 4, (uint32_t)(o->claimed_height == 0 ? o->height : o->claimed_height));
    head[12] = (uint8_t)o->interlaced;
    used = png_make_chunk(to, used, "IHDR", head, sizeof head);
    if (o->type == PNG_PALETTE) {
        const int n = o->palette == 0 ? 1 << o->depth : o->palette;
        for (int i = 0; i < n; i++) png_make_entry(i, palette[i]);
        used = png_make_chunk(to, used, "PLTE", palette, 3 * (size_t)n);
        used = png_make_chunk(to, used, "tRNS", "\x80", 1); /* which is left out */
    }
    uLongf size = sizeof packed;
    ck_assert_int_eq(compress(packed, &size, rows, put_rows(o, rows)), Z_OK);
    used = png_make_chunk(to, used, "IDAT", packed, size / 2);
    used = png_make_chunk(to, used, "IDAT", packed + size / 2, size - size / 2);
    return png_make_chunk(to, used, "IEND", NULL, 0);
}
