/* Writers of array files, by their formats' descriptions. */
#include "array_files.h"

#include "core/text/byte_order.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

void file_put(file_bytes *f, const void *bytes, size_t n)
{
    f->v = realloc(f->v, f->n + n + 1);
    if (n > 0) memcpy(f->v + f->n, bytes, n);
    f->n += n;
}

void file_text(file_bytes *f, const char *text) { file_put(f, text, strlen(text)); }

void file_number(file_bytes *f, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)(value >> (8 * i));
        file_put(f, &byte, 1);
    }
}

void file_numbers(file_bytes *f, const void *numbers, size_t n, int width)
{
    const size_t each = DT__BIG_ENDIAN && n % (size_t)width == 0 ? (size_t)width : 1;
    const size_t at = f->n;
    file_put(f, numbers, n);
    dt__reverse_elements(f->v + at, numbers, n, each);
}

void file_free(file_bytes *f)
{
    free(f->v);
    *f = (file_bytes){ NULL, 0 };
}

/* The bytes of an element of a dtype such as '<f4' in a header; 1 where there is none. */
static int width_in(const char *header)
{
    const char *at = strpbrk(header, "<=|");
    return at != NULL && at[1] != 0 && at[2] >= '1' && at[2] <= '8' ? at[2] - '0' : 1;
}

file_bytes npy_file(int version, const char *header, const void *data, size_t n)
{
    file_bytes f = { NULL, 0 };
    file_text(&f, "\x93NUMPY");
    file_number(&f, (uint64_t)version, 2);
    const size_t head = version == 1 ? 10 : 12, length = strlen(header);
    const size_t padded = (head + length + 1 + 63) / 64 * 64 - head;
    file_number(&f, padded, version == 1 ? 2 : 4);
    file_text(&f, header);
    for (size_t i = length; i + 1 < padded; i++) file_text(&f, " ");
    file_text(&f, "\n");
    file_numbers(&f, data, n, width_in(header));
    return f;
}

static file_bytes deflated(const file_bytes *from)
{
    file_bytes to = { malloc(from->n + 1000), 0 };
    z_stream z = { 0 };
    deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    z.next_in = from->v;
    z.avail_in = (uInt)from->n;
    z.next_out = to.v;
    z.avail_out = (uInt)from->n + 1000;
    deflate(&z, Z_FINISH);
    to.n = z.total_out;
    deflateEnd(&z);
    return to;
}

/* The fields that the local header and the directory share, from "version needed" on. */
static void put_common(file_bytes *f, const zip_member *m, size_t packed, int large)
{
    file_number(f, 45, 2);
    file_number(f, 0, 2);
    file_number(f, (uint64_t)m->method, 2);
    file_number(f, 0, 4);
    file_number(f, crc32(0, m->bytes.v, (uInt)m->bytes.n), 4);
    file_number(f, large ? 0xffffffff : packed, 4);
    file_number(f, large ? 0xffffffff : m->bytes.n, 4);
    file_number(f, strlen(m->name), 2);
}

file_bytes zip_file(const zip_member *m, int count, int large)
{
    file_bytes f = { NULL, 0 }, directory = { NULL, 0 };
    for (int i = 0; i < count; i++) {
        file_bytes packed = { NULL, 0 };
        if (m[i].method == 8) packed = deflated(&m[i].bytes);
        else file_put(&packed, m[i].bytes.v, m[i].bytes.n);
        const size_t at = f.n;
        file_text(&f, "PK\3\4");
        put_common(&f, &m[i], packed.n, large);
        file_number(&f, large ? 20 : 0, 2);
        file_text(&f, m[i].name);
        if (large) {
            file_number(&f, 1, 2);
            file_number(&f, 16, 2);
            file_number(&f, m[i].bytes.n, 8);
            file_number(&f, packed.n, 8);
        }
        file_put(&f, packed.v, packed.n);
        file_text(&directory, "PK\1\2");
        file_number(&directory, 45, 2);
        put_common(&directory, &m[i], packed.n, large);
        file_number(&directory, large ? 34 : 0, 2);
        file_number(&directory, 0, 2); /* comment */
        file_number(&directory, 0, 8); /* disk, attributes */
        file_number(&directory, large ? 0xffffffff : at, 4);
        file_text(&directory, m[i].name);
        if (large) {
            file_number(&directory, 0x7777, 2); /* an unknown extra field */
            file_number(&directory, 2, 2);
            file_number(&directory, 0, 2);
            file_number(&directory, 1, 2);
            file_number(&directory, 24, 2);
            file_number(&directory, m[i].bytes.n, 8);
            file_number(&directory, packed.n, 8);
            file_number(&directory, at, 8);
        }
        file_free(&packed);
    }
    const size_t at = f.n;
    file_put(&f, directory.v, directory.n);
    if (large) {
        const size_t end = f.n;
        file_text(&f, "PK\6\6");
        file_number(&f, 44, 8);
        file_number(&f, 45, 2);
        file_number(&f, 45, 2);
        file_number(&f, 0, 8);
        file_number(&f, (uint64_t)count, 8);
        file_number(&f, (uint64_t)count, 8);
        file_number(&f, directory.n, 8);
        file_number(&f, at, 8);
        file_text(&f, "PK\6\7");
        file_number(&f, 0, 4);
        file_number(&f, end, 8);
        file_number(&f, 1, 4);
    }
    file_text(&f, "PK\5\6");
    file_number(&f, 0, 4);
    file_number(&f, (uint64_t)count, 2);
    file_number(&f, large ? 0xffff : (uint64_t)count, 2);
    file_number(&f, directory.n, 4);
    file_number(&f, large ? 0xffffffff : at, 4);
    file_number(&f, 2, 2);
    file_text(&f, "hi");
    file_free(&directory);
    return f;
}

file_bytes safetensors_file(const char *header, const void *data, size_t n, int width)
{
    file_bytes f = { NULL, 0 };
    file_number(&f, strlen(header), 8);
    file_text(&f, header);
    file_numbers(&f, data, n, width);
    return f;
}

static void put_format(file_bytes *f, const wav_parts *p)
{
    static const unsigned char guid[14] = { 0, 0, 0,    0, 0x10, 0,    0x80,
                                            0, 0, 0xaa, 0, 0x38, 0x9b, 0x71 };
    const int each = p->bytes * p->channels;
    file_text(f, "fmt ");
    file_number(f, p->extensible ? 40 : 16, 4);
    file_number(f, p->extensible ? 0xfffe : p->real ? 3 : 1, 2);
    file_number(f, (uint64_t)p->channels, 2);
    file_number(f, (uint64_t)p->rate, 4);
    file_number(f, (uint64_t)(p->rate * each), 4);
    file_number(f, (uint64_t)each, 2);
    file_number(f, (uint64_t)(8 * p->bytes), 2);
    if (!p->extensible) return;
    file_number(f, 22, 2);
    file_number(f, (uint64_t)(8 * p->bytes), 2);
    file_number(f, 0, 4);
    file_number(f, p->real ? 3 : 1, 2);
    file_put(f, guid, sizeof guid);
}

file_bytes wav_of(const wav_parts *p)
{
    file_bytes f = { NULL, 0 };
    file_text(&f, p->rf64 ? "RF64" : "RIFF");
    file_number(&f, p->rf64 ? 0xffffffff : p->said + 36, 4);
    file_text(&f, "WAVE");
    if (p->rf64) {
        file_text(&f, "ds64");
        file_number(&f, 28, 4);
        file_number(&f, p->said64 + 72, 8);
        file_number(&f, p->said64, 8);
        file_number(&f, 0, 8);
        file_number(&f, 0, 4);
    }
    put_format(&f, p);
    if (p->before != NULL) {
        file_text(&f, p->before);
        file_number(&f, p->odd ? 5 : 4, 4);
        file_put(&f, "datadata", p->odd ? 5 : 4);
        if (p->odd && !p->unfilled) file_number(&f, 0, 1);
    }
    file_text(&f, "data");
    file_number(&f, p->said, 4);
    file_put(&f, p->samples, p->size);
    return f;
}

file_bytes wav_file(int channels, int rate, const int16_t *samples, int count)
{
    file_bytes f = { NULL, 0 };
    const size_t bytes = 2 * (size_t)channels * (size_t)count;
    file_text(&f, "RIFF");
    file_number(&f, 4 + 24 + 12 + 8 + bytes, 4);
    file_text(&f, "WAVEfmt ");
    file_number(&f, 16, 4);
    file_number(&f, 1, 2);
    file_number(&f, (uint64_t)channels, 2);
    file_number(&f, (uint64_t)rate, 4);
    file_number(&f, (uint64_t)(rate * 2 * channels), 4);
    file_number(&f, (uint64_t)(2 * channels), 2);
    file_number(&f, 16, 2);
    file_text(&f, "LIST");
    file_number(&f, 3, 4);
    file_put(&f, "abc", 4); /* padded to an even size */
    file_text(&f, "data");
    file_number(&f, bytes, 4);
    file_numbers(&f, samples, bytes, 2);
    return f;
}
