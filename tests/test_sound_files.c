/* Recordings: random .wav files of every form, also with headers that lack their size; the same
 * numbers by libsndfile; messages of a dataset about them; other formats. */
#include "array_files.h"
#include "data/signals/sound.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#if defined DETENT_SNDFILE
#include <dlfcn.h>
#include <sndfile.h>
#endif

enum { MOST = 4096, RATE = 8000 };

static char folder[TEST_PATH];

static const char *path_of(const char *name)
{
    static char path[TEST_PATH];
    if (folder[0] == 0) test_folder(folder);
    test_join(path, folder, name);
    return path;
}

typedef struct drawing {
    uint32_t word[4];
    uint64_t at;
} drawing;

static uint32_t draw(drawing *d)
{
    if (d->at % 4 == 0) dt__philox(31, d->at / 4, d->word);
    return d->word[d->at++ % 4];
}

static uint32_t below(drawing *d, uint32_t n) { return draw(d) % n; }

/* A recording with what it should give. */
typedef struct recording {
    wav_parts w;
    uint8_t bytes[MOST];
    int frames; /* that its reader should find */
    bool cut;   /* it should say so */
    float want[MOST];
} recording;

static const struct {
    int real, bytes;
} kinds[] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 0, 4 }, { 1, 4 }, { 1, 8 } };

/* Stores a sample, and gives what it is on the scale of 16 bits. */
static float draw_sample(drawing *d, const wav_parts *w, uint8_t *to)
{
    const uint32_t word = draw(d);
    uint64_t bits = word;
    double value;
    if (w->real) {
        value = ((double)word / 4294967296 - 0.5) * 2.5;
        const float single = (float)value;
        uint32_t own;
        memcpy(&own, &single, sizeof own);
        memcpy(&bits, &value, sizeof bits);
        if (w->bytes == 4) bits = own;
        value = (double)(float)value * 32768;
    } else {
        const int unused = 32 - 8 * w->bytes;
        bits = w->bytes == 1 ? (word >> 24 ^ 0x80) : word >> unused;
        value = (double)(float)((int32_t)(word >> unused << unused)) / 65536;
    }
    for (int i = 0; i < w->bytes; i++) to[i] = (uint8_t)(bits >> 8 * i);
    return (float)value;
}

static void draw_samples(drawing *d, int kind, recording *r)
{
    static const char *const names[] = { NULL, "LIST", "bext", "fact", "junk" };
    wav_parts *w = &r->w;
    *w = (wav_parts){ .channels = 1 + (int)below(d, 3),
                      .rate = RATE,
                      .bytes = kinds[kind].bytes,
                      .real = kinds[kind].real,
                      .extensible = below(d, 3) == 0,
                      .before = names[below(d, 5)],
                      .odd = below(d, 2) == 0 };
    w->unfilled = w->odd && below(d, 2) == 0;
    r->frames = 1 + (int)below(d, 40);
    r->cut = false;
    for (int i = 0; i < r->frames * w->channels; i++) {
        r->want[i] = draw_sample(d, w, r->bytes + i * w->bytes);
    }
    w->samples = r->bytes;
    w->size = (size_t)(r->frames * w->channels * w->bytes);
    w->said = (uint32_t)w->size;
}

/* A header that gives another size, or that of ds64. */
static void draw_size(drawing *d, recording *r)
{
    static const uint32_t said[] = { 0, UINT32_MAX, 0x7fffffff, 0x7ffff000, 100000 };
    wav_parts *w = &r->w;
    const int frame = w->channels * w->bytes;
    w->rf64 = below(d, 3) == 0;
    r->cut = below(d, 3) != 0;
    w->said64 = r->cut ? said[below(d, 5)] : w->size;
    if (r->cut && below(d, 2) == 0) w->said64 = UINT64_MAX - below(d, 3);
    w->said = w->rf64 ? UINT32_MAX : r->cut ? said[below(d, 5)] : w->said;
    if (r->cut && below(d, 2) == 0) { /* it breaks off within a frame */
        w->size -= below(d, (uint32_t)frame);
        r->frames = (int)w->size / frame;
    }
}

static dt_status open_recording(dt_ctx *ctx, const recording *r, dt__array_file *a)
{
    file_bytes f = wav_of(&r->w);
    static char path[TEST_PATH];
    strcpy(path, path_of("one.WAV"));
    test_write_file(path, f.v, f.n);
    file_free(&f);
    return dt__array_file_open(ctx, path, a);
}

static void assert_samples(const dt__array_file *a, const recording *r)
{
    float got[MOST];
    const int n = r->frames * r->w.channels;
    ck_assert(a->rank == 2 && a->dims[0] == r->frames && a->dims[1] == r->w.channels);
    ck_assert_int_eq(a->rate, RATE);
    ck_assert_int_eq(a->dtype, r->w.bytes <= 2 ? DT_ARRAY_I16 : DT_ARRAY_F32);
    dt__array_dtype_of(a->dtype)->to_f32(a->data, n, got);
    for (int i = 0; i < n; i++) {
        TEST_EACH(got[i] == r->want[i], "sample %d: %.9g, not %.9g", i, (double)got[i],
                  (double)r->want[i]);
    }
}

START_TEST(drawn)
{
    const int64_t draws = test_count((test_draws){ .usual = 150, .sanitized = 60 });
    drawing d = { .at = 100000 * (uint64_t)_i };
    dt_ctx *ctx = sample_context(1);
    recording r;
    int cut = 0, empty = 0;
    for (int64_t i = 0; i < draws; i++) {
        dt__array_file a;
        draw_samples(&d, _i, &r);
        draw_size(&d, &r);
        const dt_status s = open_recording(ctx, &r, &a);
        if (r.frames == 0) {
            empty++;
            ck_assert_int_eq(s, DT_ERR_FORMAT);
            ck_assert_msg(strstr(dt_error(ctx), "one.WAV': a recording without samples") != NULL,
                          "%s", dt_error(ctx));
        } else {
            ck_assert_msg(s == DT_OK, "%s", dt_error(ctx));
            assert_samples(&a, &r);
            ck_assert_int_eq(a.cut, r.cut);
            cut += r.cut;
        }
        dt__array_file_close(&a);
    }
    ck_assert_int_gt(cut, 10);
    printf("sound_files: %d of %lld cut, %d empty\n", cut, (long long)draws, empty);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* No samples, whatever the header says: also a chunk of 0 bytes with others behind it. */
START_TEST(without_samples)
{
    static const uint32_t said[] = { 0, UINT32_MAX, 1000 };
    static const uint8_t list[] = { 'L', 'I', 'S', 'T', 4, 0, 0, 0, 'a', 'b', 'c', 'd' };
    dt_ctx *ctx = sample_context(1);
    dt__array_file a;
    recording r = { .w = { .channels = 1, .rate = RATE, .bytes = 2, .samples = list } };
    for (int i = 0; i < 4; i++) {
        r.w.said = i < 3 ? said[i] : 0;
        r.w.size = i < 3 ? 0 : sizeof list;
        TEST_FAILS(ctx, DT_ERR_FORMAT, "one.WAV': a recording without samples",
                   open_recording(ctx, &r, &a));
        dt__array_file_close(&a);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Files that are no readable recording are refused, and named. */
START_TEST(refused)
{
    static const struct {
        int at;
        const char *bytes;
        int n;
        const char *words;
    } all[] = {
        { 0, "RIFX", 4, "RIFX" },
        { 8, "WAVX", 4, "not a .wav file" },
        { 22, "\0\0", 2, "0 channels" },
        { 24, "\0\0\0\0", 4, "0 samples a second" },
        { 34, "\x28\0", 2, "40 bits" },
        { 32, "\7\0", 2, "7 bytes for all channels" },
        { 40, "\7\0", 2, "not a multiple" },
        { 36, "LIST\xff\xff\xff\xff", 8, "cut short" },
        { 16, "\4\0\0\0", 4, "a format chunk of 4 bytes" },
    };
    static const int16_t samples[8] = { 1, 2, 3 };
    dt_ctx *ctx = sample_context(1);
    dt__array_file a;
    const wav_parts w = {
        .channels = 2, .rate = RATE, .bytes = 2, .said = 16, .samples = samples, .size = 16
    };
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        file_bytes f = wav_of(&w);
        memcpy(f.v + all[i].at, all[i].bytes, (size_t)all[i].n);
        test_write_file(path_of("bad.wav"), f.v, f.n);
        file_free(&f);
        TEST_FAILS(ctx, DT_ERR_FORMAT, all[i].words,
                   dt__array_file_open(ctx, path_of("bad.wav"), &a));
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "bad.wav"));
        dt__array_file_close(&a);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Samples in several chunks: the others are not left out. */
START_TEST(several_chunks_of_samples)
{
    static const char *const between[] = { "", "LIST", "fact", "junk" };
    static const int16_t samples[8] = { 1, 2, 3 };
    dt_ctx *ctx = sample_context(1);
    dt__array_file a;
    for (int i = 0; i < 64; i++) {
        const int bytes = 1 + rand() % 2, size = bytes * (1 + rand() % 7), gap = rand() % 9;
        const int second = rand() % 3 * bytes;
        const bool is_cut = second > 0 && rand() % 4 == 0;
        const wav_parts w = { .channels = 1,
                              .rate = RATE,
                              .bytes = bytes,
                              .said = (uint32_t)size,
                              .samples = samples,
                              .size = (size_t)size };
        file_bytes f = wav_of(&w);
        if (size % 2 == 1 && rand() % 2) file_put(&f, "", 1);
        if (*between[i % 4] != 0) {
            file_text(&f, between[i % 4]);
            file_number(&f, (uint64_t)gap, 4);
            file_put(&f, "\0\0\0\0\0\0\0\0\0", (size_t)(gap + gap % 2));
        }
        file_text(&f, "data");
        file_number(&f, (uint64_t)second + (is_cut ? 100 : 0), 4);
        file_put(&f, samples, (size_t)second);
        test_write_file(path_of("two.wav"), f.v, f.n);
        file_free(&f);
        const dt_status s = dt__array_file_open(ctx, path_of("two.wav"), &a);
        ck_assert_msg(s == (second > 0 ? DT_ERR_UNSUPPORTED : DT_OK), "%d: %s", i, dt_error(ctx));
        if (s != DT_OK) ck_assert_ptr_nonnull(strstr(dt_error(ctx), "several chunks"));
        else ck_assert_int_eq(a.dims[0], size / bytes);
        dt__array_file_close(&a);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Two formats in front of the samples: the file is refused. */
START_TEST(several_formats)
{
    static const int16_t samples[8] = { 1, 2, 3 };
    dt_ctx *ctx = sample_context(1);
    dt__array_file a;
    for (int i = 0; i < 8; i++) {
        const int bytes = 1 + i % 2;
        const uint32_t size = (uint32_t)(bytes * (1 + i % 3));
        const wav_parts w = { .channels = 1,
                              .rate = RATE,
                              .bytes = bytes,
                              .said = size,
                              .samples = samples,
                              .size = size };
        file_bytes f = wav_of(&w), two = { 0 };
        const size_t head = 12, format = 8 + 16; /* "RIFF" size "WAVE", "fmt " size format */
        ck_assert_mem_eq(f.v + head, "fmt ", 4);
        file_put(&two, f.v, head + format);
        file_put(&two, f.v + head, f.n - head);
        two.v[head + format + 12] ^= (uint8_t)(i / 4); /* the same format, or another rate */
        test_write_file(path_of("formats.wav"), two.v, two.n);
        file_free(&two);
        file_free(&f);
        TEST_FAILS(ctx, DT_ERR_FORMAT, "several format chunks",
                   dt__array_file_open(ctx, path_of("formats.wav"), &a));
        dt__array_file_close(&a);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- data sets ---------------------------------------------------------------------------- */

static char said[4096];

static void hear(void *user, const char *line)
{
    (void)user;
    ck_assert_uint_lt(strlen(said) + strlen(line), sizeof said - 2);
    strcat(strcat(said, line), "\n");
}

static dt_ctx *listening(void)
{
    dt_ctx_options o = dt_ctx_defaults();
    dt_ctx *ctx;
    o.log = hear;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    said[0] = 0;
    return ctx;
}

static void write_as(const char *name, const recording *r)
{
    file_bytes f = wav_of(&r->w);
    test_write_file(path_of(name), f.v, f.n);
    file_free(&f);
}

/* One folder with recordings of all kinds, some cut: examples are the samples, and one line counts
 * the cut ones. Names in capitals match, too. */
START_TEST(data_set)
{
    drawing d = { .at = 5 };
    dt_ctx *ctx = listening();
    dt_dataset *part[3];
    recording r;
    static float want[6][10];
    mkdir(path_of("a"), 0777);
    for (int k = 0; k < 6; k++) {
        char name[20];
        do draw_samples(&d, k, &r);
        while (r.w.channels != 1 || r.frames < 10);
        r.w.size = (size_t)(10 * r.w.bytes);
        r.w.said = k % 2 == 0 ? (uint32_t)r.w.size : 0;
        memcpy(want[k], r.want, sizeof want[k]);
        snprintf(name, sizeof name, "a/%d.%s", k, k < 3 ? "wav" : "WaV");
        write_as(name, &r);
    }
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    o.train = (dt_strings){ 1, { "a/*.wav" } };
    TEST_OK(ctx, dt_data_open(ctx, &o, &part[0], &part[1], &part[2]));
    ck_assert_int_eq(dt_dataset_count(part[0]), 6);
    ck_assert_msg(strstr(said, "data.train: 3 of 6 recordings were not ended") != NULL &&
                      strchr(said, '\n') == strrchr(said, '\n') && strstr(said, "1.wav"),
                  "%s", said);
    dt_loader_options order = dt_loader_defaults();
    dt_loader *l;
    dt_tensor *x, *y;
    order.batch_size = 6;
    order.shuffle = false;
    TEST_OK(ctx, dt_loader_create(part[0], &order, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    ck_assert_mem_eq(dt_data(x), want, sizeof want);
    dt_loader_free(l);
    dt_dataset_free(part[0]);
    dt_ctx_free(ctx);
}
END_TEST

/* Features of a recording do not depend on how its samples are stored; a model that reads one cut
 * short says so. */
START_TEST(for_a_model)
{
    static const char text[] =
        "{\"target\": \"classes\", \"input\": [1, 5, 8], \"rate\": 8000, \"features\": "
        "{\"kind\": \"log_mel\", \"rate\": 8000, \"frame_ms\": 8, \"step_ms\": 4, "
        "\"bins\": 8, \"coefficients\": 8, \"low_hz\": 20, \"high_hz\": 0, \"floor\": 1e-6}}";
    drawing d = { .at = 77 };
    recording r = { .w = { .channels = 1, .rate = RATE, .real = 1, .bytes = 4 } };
    dt_ctx *ctx = listening();
    dt_model_data data;
    float first[40];
    uint8_t longer[4 * 200];
    for (int i = 0; i < 200; i++) { /* samples of 8 bits, which every form can hold */
        const int v = (int)below(&d, 256) - 128;
        const float real = (float)v / 128;
        r.bytes[i] = (uint8_t)(v + 128);
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        for (int k = 0; k < 4; k++) longer[4 * i + k] = (uint8_t)(bits >> 8 * k);
    }
    const dt_status parsed = dt_model_data_parse(ctx, text, "model", &data);
    ck_assert_msg(parsed == DT_OK, "%s", dt_error(ctx));
    for (int i = 0; i < 2; i++) {
        dt_dataset *set;
        dt_loader *l;
        dt_tensor *x, *y;
        r.w.real = i;
        r.w.bytes = i == 0 ? 1 : 4;
        r.w.samples = i == 0 ? r.bytes : longer;
        r.w.size = (size_t)(192 * r.w.bytes);
        r.w.said = i == 0 ? (uint32_t)r.w.size : 0;
        write_as("model.wav", &r);
        TEST_OK(ctx, dt_model_data_open(ctx, &data, path_of("model.wav"), NULL, &set));
        ck_assert_int_eq(strstr(said, "model.wav' was not ended") != NULL, i);
        TEST_OK(ctx, dt_loader_create(set, NULL, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        if (i == 0) memcpy(first, dt_data(x), sizeof first);
        else ck_assert_mem_eq(first, dt_data(x), sizeof first);
        dt_loader_free(l);
        dt_dataset_free(set);
    }
    dt_model_data_free(ctx, &data);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- libsndfile --------------------------------------------------------------------------- */

#if defined DETENT_SNDFILE
static dt_status by_sndfile(dt_ctx *ctx, const file_bytes *f, dt__array_file *a)
{
    *a = (dt__array_file){ .ctx = ctx, .name = "one", .bytes = f->v, .size = f->n };
    return dt__sound_open(a);
}

/* Both readers of .wav files give the same numbers. */
START_TEST(compared)
{
    const int64_t draws = test_count((test_draws){ .usual = 60, .sanitized = 20 });
    drawing d = { .at = 3000000 + 100000 * (uint64_t)_i };
    dt_ctx *ctx = sample_context(1);
    recording r;
    for (int64_t i = 0; i < draws; i++) {
        dt__array_file a;
        draw_samples(&d, _i, &r);
        r.w.unfilled = 0; /* which it reads otherwise */
        file_bytes f = wav_of(&r.w);
        TEST_OK(ctx, by_sndfile(ctx, &f, &a));
        assert_samples(&a, &r);
        dt__storage_release(a.source.storage);
        file_free(&f);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

typedef SNDFILE *opener(const char *, int, SF_INFO *);
typedef sf_count_t writer(SNDFILE *, const int *, sf_count_t);
typedef int closer(SNDFILE *);

static void *function(const char *name)
{
    void *library = dlopen("libsndfile.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(library);
    return dlsym(library, name);
}

static void write_sound(const char *path, int format, int channels, int frames, const int *v)
{
    void *const found[] = { function("sf_open"), function("sf_writef_int"), function("sf_close") };
    opener *open;
    writer *write;
    closer *close;
    memcpy(&open, &found[0], sizeof open);
    memcpy(&write, &found[1], sizeof write);
    memcpy(&close, &found[2], sizeof close);
    SF_INFO info = { .samplerate = RATE, .channels = channels, .format = format };
    SNDFILE *file = open(path, SFM_WRITE, &info);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(write(file, v, frames), frames);
    close(file);
}

/* Formats that keep every sample, by the endings of their names, and those that do not. */
START_TEST(other_formats)
{
    static const struct {
        const char *name;
        int format, bits, dtype;
    } all[] = {
        { "a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16, DT_ARRAY_I16 },
        { "b.FLAC", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 24, DT_ARRAY_F32 },
        { "c.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_S8, 8, DT_ARRAY_I16 },
        { "d.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 16, DT_ARRAY_I16 },
        { "e.AIF", SF_FORMAT_AIFF | SF_FORMAT_PCM_24, 24, DT_ARRAY_F32 },
        { "g.wav", SF_FORMAT_WAV | SF_FORMAT_ULAW, 5, DT_ARRAY_I16 },
        { "h.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 2, DT_ARRAY_F32 },
    };
    enum { FRAMES = 20000 };
    static int v[2 * FRAMES];
    static float got[2 * FRAMES];
    dt_ctx *ctx = sample_context(1);
    drawing d = { .at = 9 };
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        dt__array_file a;
        const int channels = 1 + i % 2, n = channels * FRAMES;
        const bool exact = all[i].bits >= 8;
        for (int k = 0; k < n; k++) {
            const double wave = 8e8 * sin(0.01 * k / channels);
            const uint32_t mask = UINT32_MAX << (32 - all[i].bits);
            v[k] = exact ? (int)(draw(&d) & mask) : (int)wave;
        }
        static char path[TEST_PATH];
        strcpy(path, path_of(all[i].name));
        write_sound(path, all[i].format, channels, FRAMES, v);
        TEST_OK(ctx, dt__array_file_open(ctx, path, &a));
        ck_assert(a.dims[0] == FRAMES && a.dims[1] == channels && a.rate == RATE && !a.cut);
        ck_assert_int_eq(a.dtype, all[i].dtype);
        dt__array_dtype_of(a.dtype)->to_f32(a.data, n, got);
        for (int k = 0; k < n; k++) {
            const double want = (double)v[k] / 65536, near = exact ? 0 : 1000;
            TEST_EACH(fabs((double)got[k] - want) <= near, "%s, %d: %g, not %g", all[i].name, k,
                      (double)got[k], want);
        }
        dt__array_file_close(&a);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Files of libsndfile that are truncated or changed give numbers, or an error that names them. */
START_TEST(damaged)
{
    static const int formats[] = { SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                   SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
                                   SF_FORMAT_OGG | SF_FORMAT_VORBIS };
    static const char *const names[] = { "x.flac", "x.aiff", "x.ogg" };
    const int64_t draws = test_count((test_draws){ .usual = 60, .sanitized = 30 });
    dt_ctx *ctx = sample_context(1);
    drawing d = { .at = 555 };
    static int v[3000];
    static char path[TEST_PATH];
    for (int i = 0; i < 3000; i++) v[i] = (int)(1e9 * sin(i * 0.05)) & -65536;
    strcpy(path, path_of(names[_i]));
    write_sound(path, formats[_i], 1, 3000, v);
    char *text;
    size_t n;
    TEST_OK(ctx, dt_text_read(ctx, path, &text, &n));
    for (int64_t i = 0; i < draws; i++) {
        dt__array_file a;
        char *copy = malloc(n);
        memcpy(copy, text, n);
        for (uint32_t k = 0; k < i % 4; k++) copy[below(&d, (uint32_t)n)] = (char)draw(&d);
        test_write_file(path, copy, i % 2 == 0 ? below(&d, (uint32_t)n) : n);
        free(copy);
        const dt_status s = dt__array_file_open(ctx, path, &a);
        ck_assert_msg(s == DT_OK || s == DT_ERR_FORMAT, "%s", dt_error(ctx));
        ck_assert(s == DT_OK || strstr(dt_error(ctx), names[_i]) != NULL);
        dt__array_file_close(&a);
    }
    dt_text_free(ctx, text);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Silence packs into almost nothing: what it may become is bounded. */
START_TEST(silence)
{
    enum { FRAMES = 1 << 23 };
    static char path[TEST_PATH];
    dt_ctx *ctx = sample_context(1);
    dt__array_file a;
    int *zeros = calloc(FRAMES, sizeof *zeros);
    strcpy(path, path_of("silence.flac"));
    for (int channels = 1; channels <= 8; channels *= 8) {
        write_sound(path, SF_FORMAT_FLAC | (channels == 1 ? SF_FORMAT_PCM_16 : SF_FORMAT_PCM_24),
                    channels, FRAMES / channels, zeros);
        if (channels == 1) {
            TEST_OK(ctx, dt__array_file_open(ctx, path, &a));
        } else {
            TEST_FAILS(ctx, DT_ERR_FORMAT, "1032 times the file",
                       dt__array_file_open(ctx, path, &a));
        }
        dt__array_file_close(&a);
    }
    free(zeros);
    dt_ctx_free(ctx);
}
END_TEST

#else
START_TEST(without_sndfile)
{
    dt_ctx *ctx = sample_context(1);
    dt__array_file a;
    test_write_text(path_of("x.flac"), "fLaC");
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "libsndfile1-dev",
               dt__array_file_open(ctx, path_of("x.flac"), &a));
    dt__array_file_close(&a);
    dt_ctx_free(ctx);
}
END_TEST
#endif

/* libsndfile 1.2 does not free what libvorbis took for a damaged Ogg file. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libvorbis"; }

Suite *test_sound_files_suite(void)
{
    Suite *suite = suite_create("sound_files");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, drawn, 0, DT__COUNT_OF(kinds));
    tcase_add_test(c, without_samples);
    tcase_add_test(c, refused);
    tcase_add_test(c, several_chunks_of_samples);
    tcase_add_test(c, several_formats);
    tcase_add_test(c, data_set);
    tcase_add_test(c, for_a_model);
#if defined DETENT_SNDFILE
    tcase_add_loop_test(c, compared, 0, DT__COUNT_OF(kinds));
    tcase_add_test(c, other_formats);
    tcase_add_loop_test(c, damaged, 0, 3);
    tcase_add_test(c, silence);
#else
    tcase_add_test(c, without_sndfile);
#endif
    suite_add_tcase(suite, c);
    return suite;
}
