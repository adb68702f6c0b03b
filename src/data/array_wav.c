/* Reads .wav files of PCM with 16 bits [Microsoft, "Multimedia Programming Interface and Data
 * Specifications 1.0"]: "RIFF" size "WAVE", then chunks: name, size, bytes, filled up to an even
 * number. "fmt " comes before "data". The array is i16 [time, channels]. */
#include "data/array_file.h"

#include <string.h>

#define PCM 1
#define EXTENSIBLE 0xfffe /* the format follows: PCM is 1 again, then a constant */

static dt_status read_format(dt__array_file *a, const uint8_t *p, size_t size)
{
    if (size < 16) return dt__array_fail(a, DT_ERR_FORMAT, "a format chunk of %zu bytes", size);
    uint32_t format = dt__u16_at(p);
    const uint32_t channels = dt__u16_at(p + 2), bits = dt__u16_at(p + 14);
    if (format == EXTENSIBLE && size >= 26) format = dt__u16_at(p + 24);
    if (format != PCM || bits != 16) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "format %u of %u bits; PCM, format 1, of 16 bits is wanted", format,
                              bits);
    }
    a->rate = dt__u32_at(p + 4);
    if (channels == 0 || a->rate == 0 || dt__u16_at(p + 12) != 2 * channels) {
        return dt__array_fail(a, DT_ERR_FORMAT,
                              "%u channels, %lld samples a second, %u bytes for all channels",
                              channels, (long long)a->rate, dt__u16_at(p + 12));
    }
    a->rank = 2;
    a->dims[1] = channels;
    return DT_OK;
}

static dt_status read_data(dt__array_file *a, const uint8_t *p, size_t size)
{
    if (a->rank == 0) return dt__array_fail(a, DT_ERR_FORMAT, "samples come before their format");
    const size_t each = 2 * (size_t)a->dims[1];
    if (size % each != 0) {
        return dt__array_fail(a, DT_ERR_FORMAT,
                              "%zu bytes of samples are no multiple of %zu, those of all channels",
                              size, each);
    }
    a->dtype = DT_ARRAY_I16;
    a->dims[0] = (int64_t)(size / each);
    a->data = p;
    return DT_OK;
}

dt_status dt__wav_open(dt__array_file *a)
{
    const uint8_t *p = a->bytes;
    if (a->size < 12 || memcmp(p, "RIFF", 4) != 0 || memcmp(p + 8, "WAVE", 4) != 0) {
        return dt__array_fail(a, DT_ERR_FORMAT, "no .wav file: it begins with no RIFF....WAVE");
    }
    for (size_t at = 12; a->data == NULL;) {
        if (a->size - at < 8) return dt__array_fail(a, DT_ERR_FORMAT, "it ends before its samples");
        const size_t size = dt__u32_at(p + at + 4), left = a->size - at - 8;
        if (size > left) {
            return dt__array_fail(
                a, DT_ERR_FORMAT, "chunk '%.4s' has %zu bytes, but %zu follow: it is cut short",
                memchr(p + at, 0, 4) == NULL ? (const char *)p + at : "?", size, left);
        }
        const uint8_t *chunk = p + at + 8;
        if (memcmp(p + at, "fmt ", 4) == 0) DT__TRY(read_format(a, chunk, size));
        if (memcmp(p + at, "data", 4) == 0) DT__TRY(read_data(a, chunk, size));
        at += 8 + size;
        if (size % 2 == 1 && at < a->size) at++;
    }
    return DT_OK;
}
