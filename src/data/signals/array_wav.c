/* Reads .wav files [Microsoft, "Multimedia Programming Interface and Data Specifications 1.0";
 * "Multiple channel audio data and WAVE files"; EBU Tech 3306 (RF64)]: "RIFF" size "WAVE", then
 * chunks: name, size, bytes, filled up to an even number. "fmt " comes before "data". The array is
 * [time, channels] in the units of dt__sound_form.
 *
 * The size of "data" is not trusted: programs that record to a pipe, or end before they can correct
 * it, leave 0, 2^32 - 1 or another number in its place. If the file cannot have that size, the
 * samples extend to its end, and `cut` is set. */
#include "data/signals/sound.h"

#include <string.h>

#define PCM 1
#define FLOAT 3
#define EXTENSIBLE 0xfffe /* the format is in the first two bytes of a GUID */
#define UNKNOWN32 0xffffffffu

/* Contents of the chunks before the samples. */
typedef struct header {
    uint32_t format, bits;
    int bytes;                /* bytes per sample; 0: no format chunk */
    uint64_t size64;          /* of the samples, in RF64 */
    bool is_64, given, known; /* given: a format chunk exists; known: this reader supports it */
} header;

/* Bytes 2 to 15 of the GUIDs of those subformats that are formats. */
static const uint8_t guid[14] = { 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71 };

static dt_status read_format(dt__array_file *a, const uint8_t *p, size_t size, header *h)
{
    if (size < 16) return dt__array_fail(a, DT_ERR_FORMAT, "a format chunk of %zu bytes", size);
    if (h->given) {
        return dt__array_fail(a, DT_ERR_FORMAT, "it has several format chunks; one is expected");
    }
    h->given = true;
    const uint32_t channels = dt__u16_at(p + 2), align = dt__u16_at(p + 12);
    h->format = dt__u16_at(p);
    h->bits = dt__u16_at(p + 14);
    if (h->format == EXTENSIBLE && size >= 40 && memcmp(p + 26, guid, sizeof guid) == 0) {
        h->format = dt__u16_at(p + 24);
    }
    a->rate = dt__u32_at(p + 4);
    a->rank = 2;
    a->dims[1] = channels;
    h->known = h->format == PCM || h->format == FLOAT;
    if (!h->known) return DT_OK;
    h->bytes = (int)((h->bits + 7) / 8);
    if (channels == 0 || a->rate == 0 || h->bits == 0 || align != (uint32_t)h->bytes * channels) {
        return dt__array_fail(a, DT_ERR_FORMAT,
                              "%u channels, %lld samples a second, %u bits, %u bytes for all "
                              "channels",
                              channels, (long long)a->rate, h->bits, align);
    }
    h->known = dt__sound_form_of(h->format == FLOAT, h->bytes) != NULL;
    return DT_OK;
}

/* Whether n bytes consist of chunks with ASCII names. */
static bool are_chunks(const uint8_t *p, size_t n)
{
    while (n >= 8) {
        for (int i = 0; i < 4; i++) {
            if (p[i] < ' ' || p[i] > '~') return false;
        }
        size_t size = dt__u32_at(p + 4);
        if (size > n - 8) return false;
        size += size % 2 == 1 && size < n - 8;
        p += 8 + size;
        n -= 8 + size;
    }
    return n == 0;
}

/* Whether the n bytes of chunks at p contain more samples; the last chunk may be truncated. */
static bool has_samples(const uint8_t *p, size_t n)
{
    while (n >= 8) {
        size_t size = dt__u32_at(p + 4);
        if (memcmp(p, "data", 4) == 0 && size > 0 && n > 8) return true;
        if (size >= n - 8) return false;
        size += size % 2 == 1;
        p += 8 + size;
        n -= 8 + size;
    }
    return false;
}

/* Sets the samples; the header declares `declared` bytes, `left` bytes exist. */
static dt_status read_data(dt__array_file *a, const header *h, const uint8_t *p, uint64_t declared,
                           size_t left)
{
    const size_t each = (size_t)h->bytes * (size_t)a->dims[1];
    a->cut = declared > left || (declared == 0 && !are_chunks(p, left));
    const size_t size = a->cut ? left / each * each : (size_t)declared;
    if (size % each != 0) {
        return dt__array_fail(
            a, DT_ERR_FORMAT,
            "%zu bytes of samples are not a multiple of %zu, those of all channels", size, each);
    }
    if (size == 0) return dt__array_fail(a, DT_ERR_FORMAT, "a recording without samples");
    const size_t filled = size < left ? size + size % 2 : left;
    if (has_samples(p + size, left - size) || has_samples(p + filled, left - filled)) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "it has several chunks of samples (data); one is read");
    }
    a->dims[0] = (int64_t)(size / each);
    return dt__sound_take(a, dt__sound_form_of(h->format == FLOAT, h->bytes), p);
}

/* The next chunk after one of `size` bytes that ends at `at`: odd sizes are padded by a byte. If a
 * program forgot it, the next chunk's name shows that. */
static size_t next_chunk(const dt__array_file *a, size_t at, size_t size)
{
    static const char *const names[] = { "fmt ", "data", "LIST", "fact", "bext" };
    bool unfilled = size % 2 == 0 || at == a->size;
    for (int i = 0; i < DT__COUNT_OF(names) && a->size - at >= 8; i++) {
        unfilled = unfilled || memcmp(a->bytes + at, names[i], 4) == 0;
    }
    return unfilled ? at : at + 1;
}

static dt_status other_format(dt__array_file *a, const header *h)
{
    if (DT__HAS_SNDFILE) return dt__sound_open(a);
    return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                          "format %u of %u bits; PCM (format 1) of 8, 16, 24 or 32 bits or floats "
                          "(format 3) of 32 or 64, or a build with libsndfile, which reads others",
                          h->format, h->bits);
}

/* Reads the chunk at `at` of `size` bytes, before the samples. */
static dt_status read_chunk(dt__array_file *a, size_t at, size_t size, header *h)
{
    const uint8_t *p = a->bytes + at, *chunk = p + 8;
    if (size > a->size - at - 8) {
        return dt__array_fail(
            a, DT_ERR_FORMAT, "chunk '%.4s' has %zu bytes, but %zu follow: it is cut short",
            memchr(p, 0, 4) == NULL ? (const char *)p : "?", size, a->size - at - 8);
    }
    if (memcmp(p, "fmt ", 4) == 0) return read_format(a, chunk, size, h);
    if (memcmp(p, "ds64", 4) == 0 && size >= 24 && h->is_64) h->size64 = dt__u64_at(chunk + 8);
    return DT_OK;
}

dt_status dt__wav_open(dt__array_file *a)
{
    const uint8_t *p = a->bytes;
    header h = { .is_64 = a->size >= 4 && memcmp(p, "RF64", 4) == 0 };
    if (a->size < 12 || (!h.is_64 && memcmp(p, "RIFF", 4) != 0) || memcmp(p + 8, "WAVE", 4) != 0) {
        return dt__array_fail(a, DT_ERR_FORMAT,
                              a->size >= 4 && memcmp(p, "RIFX", 4) == 0
                                  ? "samples with the highest byte first (RIFX); expected RIFF"
                                  : "not a .wav file: it does not begin with RIFF....WAVE");
    }
    for (size_t at = 12, size;; at = next_chunk(a, at + 8 + size, size)) {
        if (a->size - at < 8) return dt__array_fail(a, DT_ERR_FORMAT, "it ends before its samples");
        size = dt__u32_at(p + at + 4);
        if (memcmp(p + at, "data", 4) == 0) {
            if (a->rank == 0) {
                return dt__array_fail(a, DT_ERR_FORMAT, "samples come before their format");
            }
            if (!h.known) return other_format(a, &h);
            const bool large = h.is_64 && size == UNKNOWN32;
            return read_data(a, &h, p + at + 8, large ? h.size64 : size, a->size - at - 8);
        }
        DT__TRY(read_chunk(a, at, size, &h));
    }
}
