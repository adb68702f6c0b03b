/* Recordings that libsndfile decodes: FLAC, Ogg, AIFF, and .wav files with other encodings than
 * array_wav.c reads. The array is [time, channels] on the scale of dt__sound_form: i16 where
 * samples have at most 16 bits, else f32.
 *
 * The number of samples is known only at the end, so memory grows while reading. The content may be
 * MOST_RATIO times as large as the file, as for deflate. libsndfile allocates a few buffers by
 * malloc. */
#include "data/signals/sound.h"

#if defined DETENT_SNDFILE
#include "data/signals/sound_library.h"

#include <string.h>

#define AT_ONCE 16384 /* samples of all channels per call */
#define MOST_CHANNELS 1024
#define MOST_RATIO 1032
#define HARMLESS ((size_t)1 << 24) /* bytes that are allowed at any ratio */

typedef struct bytes {
    const uint8_t *v;
    sf_count_t n, at;
} bytes;

static sf_count_t length_of(void *user) { return ((bytes *)user)->n; }
static sf_count_t tell(void *user) { return ((bytes *)user)->at; }

static sf_count_t seek(sf_count_t offset, int whence, void *user)
{
    bytes *b = user;
    const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? b->at : b->n;
    if (offset < -from || offset > b->n - from) return -1;
    return b->at = from + offset;
}

static sf_count_t take(void *to, sf_count_t n, void *user)
{
    bytes *b = user;
    if (n < 0) return 0;
    if (n > b->n - b->at) n = b->n - b->at;
    memcpy(to, b->v + b->at, (size_t)n);
    b->at += n;
    return n;
}

typedef struct sound {
    dt__array_file *a;
    SNDFILE *file;
    SF_INFO info;
    int code; /* SF_FORMAT_PCM_16 and so on */
    size_t room, used;
} sound;

static bool is_short(int code)
{
    return code == SF_FORMAT_PCM_S8 || code == SF_FORMAT_PCM_U8 || code == SF_FORMAT_PCM_16 ||
           code == SF_FORMAT_ULAW || code == SF_FORMAT_ALAW || code == SF_FORMAT_IMA_ADPCM ||
           code == SF_FORMAT_MS_ADPCM;
}

static bool is_long(int code) { return code == SF_FORMAT_PCM_24 || code == SF_FORMAT_PCM_32; }

/* Reads up to `frames` samples of all channels; returns their number. */
static sf_count_t read_block(const sound *s, sf_count_t frames, void *to)
{
    if (is_short(s->code)) return dt__sndfile.readf_short(s->file, to, frames);
    if (!is_long(s->code)) {
        float *y = to;
        const sf_count_t n = dt__sndfile.readf_float(s->file, y, frames);
        for (sf_count_t i = 0; i < n * s->info.channels; i++) y[i] *= 32768;
        return n;
    }
    int block[AT_ONCE];
    const sf_count_t n = dt__sndfile.readf_int(s->file, block, frames);
    float *y = to;
    for (sf_count_t i = 0; i < n * s->info.channels; i++) y[i] = (float)block[i] / 65536;
    return n;
}

/* Makes room for another block. */
static dt_status make_room(sound *s, size_t block)
{
    const dt__array_file *a = s->a;
    const size_t least = s->used + block;
    const size_t most = a->size > SIZE_MAX / MOST_RATIO / 2 ? SIZE_MAX / 2 : a->size * MOST_RATIO;
    if (least <= s->room) return DT_OK;
    if (s->used > HARMLESS && s->used > most) {
        return dt__array_fail(
            a, DT_ERR_FORMAT,
            "more than %zu bytes of samples, %d times the file; if that is right, "
            "write it as .wav",
            most, MOST_RATIO);
    }
    s->room = s->room == 0 ? least : 2 * s->room;
    dt__storage *larger = dt__storage_create(a->ctx, (uint64_t)s->room);
    if (larger == NULL) return DT_ERR_NOMEM;
    if (s->used > 0) memcpy(larger->data, a->source.storage->data, s->used);
    dt__storage_release(a->source.storage);
    s->a->source.storage = larger;
    return DT_OK;
}

static dt_status read_samples(sound *s)
{
    dt__array_file *a = s->a;
    const size_t each = (is_short(s->code) ? sizeof(int16_t) : sizeof(float)) * (size_t)a->dims[1];
    const sf_count_t frames = AT_ONCE / s->info.channels;
    sf_count_t n = frames, all = 0;
    for (; n == frames; all += n) {
        DT__TRY(make_room(s, (size_t)frames * each));
        n = read_block(s, frames, (uint8_t *)a->source.storage->data + s->used);
        if (n < 0 || dt__sndfile.error(s->file) != SF_ERR_NO_ERROR) {
            return dt__array_fail(a, DT_ERR_FORMAT, "it is damaged: %s",
                                  dt__sndfile.strerror(s->file));
        }
        s->used += (size_t)n * each;
    }
    if (all == 0) return dt__array_fail(a, DT_ERR_FORMAT, "a recording without samples");
    a->cut = s->info.frames != SF_COUNT_MAX && all < s->info.frames;
    a->dims[0] = (int64_t)all;
    a->data = a->source.storage->data;
    return DT_OK;
}

static dt_status read_sound(sound *s)
{
    dt__array_file *a = s->a;
    if (s->info.channels < 1 || s->info.channels > MOST_CHANNELS || s->info.samplerate < 1) {
        return dt__array_fail(a, DT_ERR_FORMAT, "%d channels, %d samples a second",
                              s->info.channels, s->info.samplerate);
    }
    s->code = s->info.format & SF_FORMAT_SUBMASK;
    a->dtype = is_short(s->code) ? DT_ARRAY_I16 : DT_ARRAY_F32;
    a->rank = 2;
    a->dims[1] = s->info.channels;
    a->rate = s->info.samplerate;
    a->native = true;
    return read_samples(s);
}

dt_status dt__sound_open(dt__array_file *a)
{
    const char *why = dt__sndfile_load();
    if (why != NULL) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "it needs libsndfile (Debian: libsndfile1), which cannot be loaded: "
                              "%s",
                              why);
    }
    static const SF_VIRTUAL_IO calls = {
        .get_filelen = length_of, .seek = seek, .read = take, .tell = tell
    };
    SF_VIRTUAL_IO own = calls;
    bytes b = { a->bytes, (sf_count_t)a->size, 0 };
    sound s = { .a = a };
    s.file = dt__sndfile.open_virtual(&own, SFM_READ, &s.info, &b);
    if (s.file == NULL) {
        return dt__array_fail(a, DT_ERR_FORMAT, "libsndfile cannot read it: %s",
                              dt__sndfile.strerror(NULL));
    }
    const dt_status status = read_sound(&s);
    dt__sndfile.close(s.file);
    return status;
}
#else
dt_status dt__sound_open(dt__array_file *a)
{
    return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                          "this detent was built without libsndfile, which reads FLAC, Ogg and "
                          "AIFF: build it where Debian's libsndfile1-dev is installed, or write "
                          "the recording as .wav");
}
#endif
