/* Folders of JPEG files: pixels as libjpeg gives them to a program of its own, resizing by its
 * formula, and hostile files. */
#include "png_make.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <jpeglib.h>

typedef struct form {
    int components, height, width, quality, restart;
    boolean progressive;
    int sampling; /* of the first component */
    bool adobe;   /* RGB, not YCbCr */
} form;

static const form forms[] = {
    { 1, 16, 16, 90, 0, FALSE, 1, false }, { 3, 16, 24, 90, 0, FALSE, 2, false },
    { 3, 17, 9, 75, 0, FALSE, 1, false },  { 3, 21, 19, 60, 3, FALSE, 2, false },
    { 3, 33, 31, 90, 0, TRUE, 2, false },  { 1, 7, 5, 100, 0, TRUE, 1, false },
    { 3, 8, 8, 95, 0, FALSE, 1, true },
};

enum { FORMS = sizeof forms / sizeof forms[0] };

static uint8_t pixel(int x, int y, int c)
{
    return (uint8_t)(128 + 90 * sin(0.3 * x * (c + 1) + 0.2 * y));
}

/* A file in memory, which the caller frees. */
static unsigned char *make(const form *f, unsigned long *bytes)
{
    struct jpeg_compress_struct e;
    struct jpeg_error_mgr errors;
    unsigned char *file = NULL;
    uint8_t row[256 * 3];
    *bytes = 0;
    e.err = jpeg_std_error(&errors);
    jpeg_create_compress(&e);
    jpeg_mem_dest(&e, &file, bytes);
    e.image_width = (JDIMENSION)f->width;
    e.image_height = (JDIMENSION)f->height;
    e.input_components = f->components;
    e.in_color_space = f->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&e);
    if (f->adobe) jpeg_set_colorspace(&e, JCS_RGB);
    jpeg_set_quality(&e, f->quality, TRUE);
    e.comp_info[0].h_samp_factor = e.comp_info[0].v_samp_factor = f->sampling;
    e.restart_interval = (unsigned)f->restart;
    if (f->progressive) jpeg_simple_progression(&e);
    jpeg_start_compress(&e, TRUE);
    for (int y = 0; y < f->height; y++) {
        for (int i = 0; i < f->width * f->components; i++) {
            row[i] = pixel(i / f->components, y, i % f->components);
        }
        JSAMPROW one = row;
        jpeg_write_scanlines(&e, &one, 1);
    }
    jpeg_finish_compress(&e);
    jpeg_destroy_compress(&e);
    return file;
}

/* The pixels [height][width][components], by libjpeg as its manual has it. */
static void decode(const unsigned char *file, unsigned long bytes, uint8_t *to)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, file, bytes);
    jpeg_read_header(&d, TRUE);
    jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = to + d.output_scanline * d.output_width * (unsigned)d.output_components;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

typedef struct bench {
    dt_ctx *ctx;
    char folder[TEST_PATH], path[TEST_PATH];
    int refused, read;
} bench;

static void open_bench(bench *b, const char *name)
{
    char folder[TEST_PATH];
    b->ctx = sample_context(1);
    b->refused = b->read = 0;
    test_folder(b->folder);
    test_join(folder, b->folder, "a");
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    test_join(b->path, folder, name);
}

static dt_status read_folder(const bench *b, int64_t channels, int64_t height, int64_t width,
                             dt_dataset **out)
{
    dt_png_options o = dt_png_defaults();
    o.channels = channels;
    o.height = height;
    o.width = width;
    return dt_folder_read(b->ctx, b->folder, &o, out);
}

/* ---- pixels --------------------------------------------------------------------------------- */

START_TEST(pixels)
{
    static uint8_t want[64 * 64 * 3];
    const form *f = &forms[_i];
    bench b;
    unsigned long n;
    open_bench(&b, _i % 2 == 0 ? "one.jpg" : "one.JPEG");
    unsigned char *file = make(f, &n);
    test_write_file(b.path, file, n);
    decode(file, n, want);
    for (int channels = 1; channels <= 3; channels += 2) {
        dt_dataset *d = NULL;
        TEST_OK(b.ctx, read_folder(&b, channels, 0, 0, &d));
        ck_assert(dt_dataset_height(d) == f->height && dt_dataset_width(d) == f->width);
        const uint8_t *got = dt_dataset_image(d, 0);
        const int size = f->height * f->width;
        for (int k = 0; k < size; k++) {
            const uint8_t *p = want + k * f->components;
            const double grey =
                f->components == 1 ? (double)p[0] : 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
            for (int c = 0; c < channels; c++) {
                const uint8_t own = f->components == 1 ? p[0] : p[c];
                if (channels == 3) ck_assert_int_eq(got[c * size + k], own);
                else ck_assert(fabs(got[k] - grey) <= 0.51);
            }
        }
        dt_dataset_free(d);
    }
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

/* ---- resizing ------------------------------------------------------------------------------- */

/* The weight of pixel k of n in pixel i of m, by the formula, in double. */
static double weight(int n, int m, int i, int k)
{
    const double scale = (double)n / m;
    if (m < n) {
        return fmax(0, fmin((i + 1) * scale, k + 1) - fmax(i * scale, k)) / scale;
    }
    const double s = fmin(fmax((i + 0.5) * scale - 0.5, 0), n - 1);
    return fmax(0, 1 - fabs(s - k));
}

static const int sizes[][2] = { { 16, 16 }, { 8, 12 }, { 5, 7 }, { 1, 1 },
                                { 31, 40 }, { 7, 40 }, { 40, 5 } };

START_TEST(resized)
{
    const form f = { 3, 16, 24, 90, 0, FALSE, 1, false };
    const int height = sizes[_i][0], width = sizes[_i][1];
    bench b;
    unsigned long n;
    dt_dataset *whole = NULL, *d = NULL;
    open_bench(&b, "one.jpg");
    unsigned char *file = make(&f, &n);
    test_write_file(b.path, file, n);
    TEST_OK(b.ctx, read_folder(&b, 3, 0, 0, &whole));
    TEST_OK(b.ctx, read_folder(&b, 3, height, width, &d));
    const uint8_t *from = dt_dataset_image(whole, 0), *got = dt_dataset_image(d, 0);
    for (int at = 0; at < 3 * height * width; at++) {
        const int c = at / (height * width), y = at / width % height, x = at % width;
        double sum = 0;
        for (int k = 0; k < f.height; k++) {
            for (int l = 0; l < f.width; l++) {
                sum += weight(f.height, height, y, k) * weight(f.width, width, x, l) *
                       from[(c * f.height + k) * f.width + l];
            }
        }
        TEST_EACH(fabs(got[at] - sum) <= 0.5 + 1e-6, "%d: %d, not %g", at, got[at], sum);
    }
    dt_dataset_free(whole);
    dt_dataset_free(d);
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

/* Images of several sizes and kinds, by recipe. */
START_TEST(of_a_recipe)
{
    bench b;
    char path[TEST_PATH];
    dt_dataset *train = NULL, *validation, *test;
    open_bench(&b, "1.jpg");
    for (int i = 0; i < 4; i++) {
        unsigned long n;
        unsigned char *file = make(&forms[i], &n);
        snprintf(path, sizeof path, "%.*s%d.jpg", (int)(strlen(b.path) - 5), b.path, i);
        test_write_file(path, file, n);
        free(file);
    }
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_FOLDER;
    o.train = (dt_strings){ 1, { b.folder } };
    TEST_FAILS(b.ctx, DT_ERR_FORMAT, "or data.size",
               dt_data_open(b.ctx, &o, &train, &validation, &test));
    o.size[0] = o.size[1] = 12;
    TEST_OK(b.ctx, dt_data_open(b.ctx, &o, &train, &validation, &test));
    ck_assert(dt_dataset_count(train) == 4 && dt_dataset_height(train) == 12);
    dt_dataset_free(train);
    o.size[1] = 0;
    TEST_FAILS(b.ctx, DT_ERR_CONFIG, "data.size",
               dt_data_open(b.ctx, &o, &train, &validation, &test));
    o.format = DT_DATA_PNG;
    o.size[0] = 0;
    TEST_FAILS(b.ctx, DT_ERR_FORMAT, "no PNG files",
               dt_data_open(b.ctx, &o, &train, &validation, &test));
    dt_ctx_free(b.ctx);
}
END_TEST

/* As an example for a model. */
START_TEST(for_a_model)
{
    bench b;
    unsigned long n;
    dt_model_data data;
    dt_dataset *d = NULL;
    open_bench(&b, "one.jpg");
    unsigned char *file = make(&forms[1], &n);
    test_write_file(b.path, file, n);
    free(file);
    const char *text = "{\"target\": \"classes\", \"input\": [3, 16, 24], \"pixels\": true}";
    TEST_OK(b.ctx, dt_model_data_parse(b.ctx, text, "model", &data));
    TEST_OK(b.ctx, dt_model_data_open(b.ctx, &data, b.path, NULL, &d));
    ck_assert(dt_dataset_count(d) == 1 && dt_dataset_width(d) == 24);
    dt_dataset_free(d);
    data.input.v[1] = 17;
    TEST_FAILS(b.ctx, DT_ERR_FORMAT, "24 x 16 pixels; the model reads images of 24 x 17",
               dt_model_data_open(b.ctx, &data, b.path, NULL, &d));
    for (int k = 1; k <= 2; k++) { /* sides of which there are no images */
        data.input = (dt_ints){ 3, { 3, 1, 1 } };
        data.input.v[k] = 65535;
        data.resized = true;
        TEST_OK(b.ctx, dt_model_data_open(b.ctx, &data, b.path, NULL, &d));
        dt_dataset_free(d);
        data.input.v[k]++;
        TEST_FAILS(b.ctx, DT_ERR_FORMAT, "': the model reads images of",
                   dt_model_data_open(b.ctx, &data, b.path, NULL, &d));
    }
    dt_model_data_free(b.ctx, &data);
    dt_ctx_free(b.ctx);
}
END_TEST

static dt_status collect(void *user, const char *bytes, size_t n)
{
    char *text = user;
    ck_assert_uint_lt(strlen(text) + n, 4096);
    strncat(text, bytes, n);
    return DT_OK;
}

/* A model that was trained on resized images gets the bytes that training would give it. */
START_TEST(resized_for_a_model)
{
    bench b;
    unsigned long n;
    dt_model_data data;
    dt_dataset *one = NULL, *trained = NULL;
    open_bench(&b, "large.jpg");
    unsigned char *file = make(&forms[1], &n);
    test_write_file(b.path, file, n);
    free(file);
    TEST_OK(b.ctx, read_folder(&b, 3, 9, 31, &trained));
    char text[4096] = "";
    TEST_OK(b.ctx, dt_model_data_text(trained, collect, text));
    TEST_OK(b.ctx, dt_model_data_parse(b.ctx, text, "model", &data));
    TEST_OK(b.ctx, dt_model_data_open(b.ctx, &data, b.path, NULL, &one));
    ck_assert(dt_dataset_height(one) == 9 && dt_dataset_width(one) == 31);
    ck_assert_mem_eq(dt_dataset_image(one, 0), dt_dataset_image(trained, 0), 3 * 9 * 31);
    dt_dataset_free(one);
    data.input.v[1] = 65536;
    TEST_FAILS(b.ctx, DT_ERR_FORMAT, "images of 31 x 65536",
               dt_model_data_open(b.ctx, &data, b.path, NULL, &one));
    dt_model_data_free(b.ctx, &data);
    dt_dataset_free(trained);
    dt_ctx_free(b.ctx);
}
END_TEST

/* ---- orientation ---------------------------------------------------------------------------- */

enum { MOST_EXIF = 400 };

typedef struct drawing {
    uint32_t word[4];
    uint64_t at;
} drawing;

static uint32_t below(drawing *d, uint32_t n)
{
    if (d->at % 4 == 0) dt__philox(29, d->at / 4, d->word);
    return d->word[d->at++ % 4] % n;
}

static size_t put(uint8_t *to, size_t at, bool big_endian, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[at + (size_t)(big_endian ? bytes - 1 - i : i)] = (uint8_t)(value >> 8 * i);
    }
    return at + (size_t)bytes;
}

/* EXIF data with the tag among others; their size. */
static size_t make_exif(drawing *d, uint32_t orientation, uint8_t to[MOST_EXIF])
{
    const bool big = below(d, 2) == 0;
    const uint32_t directory = 8 + below(d, 40), entries = 1 + below(d, 6), own = below(d, entries);
    memset(to, 0xA5, MOST_EXIF);
    memcpy(to, big ? "MM\0*" : "II*\0", 4);
    put(to, 4, big, directory, 4);
    size_t at = put(to, directory, big, entries, 2);
    for (uint32_t i = 0; i < entries; i++) {
        at = put(to, at, big, i == own ? 0x112 : 0x100 + i, 2);
        at = put(to, at, big, i == own ? 3 : 1 + below(d, 5), 2);
        at = put(to, at, big, i == own ? 1 : below(d, 9), 4);
        put(to, at, big, i == own ? orientation : below(d, 65536), 2);
        at = put(to, at + 2, big, below(d, 65536), 2);
    }
    return at;
}

/* The file with EXIF data behind its first marker. */
static void write_photo(const bench *b, const unsigned char *file, unsigned long n,
                        const uint8_t *exif, size_t bytes)
{
    unsigned char *all = malloc(n + bytes + 10);
    const size_t length = bytes + 8;
    memcpy(all, file, 2);
    memcpy(all + 2, "\xFF\xE1", 2);
    all[4] = (unsigned char)(length >> 8);
    all[5] = (unsigned char)length;
    memcpy(all + 6, "Exif\0", 6);
    memcpy(all + 12, exif, bytes);
    memcpy(all + 12 + bytes, file + 2, n - 2);
    test_write_file(b->path, all, n + bytes + 10);
    free(all);
}

typedef struct picture {
    int height, width;
    uint8_t v[64 * 64];
} picture;

static picture mirrored(const picture *p)
{
    picture q = { p->height, p->width, { 0 } };
    for (int i = 0; i < p->height * p->width; i++) {
        q.v[i] = p->v[i / p->width * p->width + p->width - 1 - i % p->width];
    }
    return q;
}

/* By 90 degrees, clockwise. */
static picture turned(const picture *p)
{
    picture q = { p->width, p->height, { 0 } };
    for (int i = 0; i < p->height * p->width; i++) {
        q.v[i % p->width * q.width + q.width - 1 - i / p->width] = p->v[i];
    }
    return q;
}

/* What a viewer does by the tag: mirrors some first, then turns. */
static picture upright(const picture *p, int orientation)
{
    static const int turns[] = { 0, 0, 0, 2, 2, 3, 1, 1, 3 };
    const bool mirrors =
        orientation == 2 || orientation == 4 || orientation == 5 || orientation == 7;
    picture q = mirrors ? mirrored(p) : *p;
    for (int i = 0; i < turns[orientation]; i++) q = turned(&q);
    return q;
}

static int said_turned, said_unclear;

static void hear(void *user, const char *line)
{
    (void)user;
    said_turned += strstr(line, "1 of 1 images are turned upright") != NULL;
    said_unclear += strstr(line, "EXIF data of 1 of 1 images are damaged") != NULL;
}

static bench photo_bench(const char *name)
{
    bench b;
    open_bench(&b, name);
    dt_ctx_free(b.ctx);
    dt_ctx_options o = dt_ctx_defaults();
    o.log = hear;
    ck_assert_int_eq(dt_ctx_create(&b.ctx, &o), DT_OK);
    said_turned = said_unclear = 0;
    return b;
}

static void assert_picture(const bench *b, const picture *want, const char *what)
{
    dt_dataset *d = NULL;
    TEST_OK(b->ctx, read_folder(b, 1, 0, 0, &d));
    TEST_EACH(dt_dataset_height(d) == want->height && dt_dataset_width(d) == want->width &&
                  memcmp(dt_dataset_image(d, 0), want->v, (size_t)(want->height * want->width)) ==
                      0,
              "%s", what);
    dt_dataset_free(d);
}

START_TEST(orientations)
{
    static const form kinds[] = { { 1, 17, 9, 80, 0, FALSE, 1, false },
                                  { 1, 12, 31, 80, 0, TRUE, 1, false },
                                  { 1, 1, 20, 80, 0, FALSE, 1, false } };
    const form *f = &kinds[_i];
    drawing d = { .at = 1000 * (uint64_t)_i };
    bench b = photo_bench("photo.jpg");
    picture p = { f->height, f->width, { 0 } };
    unsigned long n;
    uint8_t exif[MOST_EXIF];
    char what[40];
    unsigned char *file = make(f, &n);
    decode(file, n, p.v);
    for (int orientation = 1; orientation <= 8; orientation++) {
        const picture want = upright(&p, orientation);
        for (int k = 0; k < 4; k++) {
            const size_t bytes = make_exif(&d, (uint32_t)orientation, exif);
            write_photo(&b, file, n, exif, bytes);
            snprintf(what, sizeof what, "orientation %d", orientation);
            assert_picture(&b, &want, what);
        }
    }
    ck_assert_int_eq(said_turned, 7 * 4);
    ck_assert_int_eq(said_unclear, 0);
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

/* Damaged EXIF data do not make a photo invalid; without the tag its pixels are read unrotated. */
START_TEST(damaged_exif)
{
    drawing d = { .at = 99 };
    bench b = photo_bench("photo.jpg");
    picture p = { forms[0].height, forms[0].width, { 0 } };
    unsigned long n;
    uint8_t exif[MOST_EXIF];
    unsigned char *file = make(&forms[0], &n);
    decode(file, n, p.v);
    static const uint32_t bad[] = { 0, 9, 255, 65535 };
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        write_photo(&b, file, n, exif, make_exif(&d, bad[i], exif));
        assert_picture(&b, &p, "a number that is not an orientation");
    }
    size_t bytes = make_exif(&d, 6, exif);
    for (size_t cut = 0; cut < bytes; cut++) {
        write_photo(&b, file, n, exif, cut);
        assert_picture(&b, &p, "cut short");
    }
    ck_assert_int_eq(said_unclear, DT__COUNT_OF(bad) + (int)bytes);
    const int64_t draws = test_count((test_draws){ .usual = 500, .sanitized = 200 });
    for (int64_t i = 0; i < draws; i++) {
        bytes = make_exif(&d, 1 + below(&d, 8), exif);
        for (int k = 0; k < 3; k++)
            exif[below(&d, (uint32_t)bytes)] ^= (uint8_t)(1 + below(&d, 255));
        write_photo(&b, file, n, exif, bytes);
        dt_dataset *one = NULL;
        TEST_OK(b.ctx, read_folder(&b, 3, 0, 0, &one));
        dt_dataset_free(one);
    }
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

/* The chunk eXIf of a PNG file has the same data. */
START_TEST(orientations_of_png)
{
    static uint8_t file[PNG_MAKE_MOST], with[PNG_MAKE_MOST];
    drawing d = { .at = 7 };
    bench b = photo_bench("photo.png");
    uint8_t exif[MOST_EXIF];
    for (int i = 0; i < 16; i++) {
        const png_make_options o = {
            .type = PNG_GREY, .depth = 8, .width = 3 + i, .height = 11, .interlaced = i / 8
        };
        const int orientation = 1 + i % 8;
        const size_t n = png_make(&o, file), head = 8 + 25;
        memcpy(with, file, head);
        const size_t used =
            png_make_chunk(with, head, "eXIf", exif, make_exif(&d, (uint32_t)orientation, exif));
        memcpy(with + used, file + head, n - head);
        test_write_file(b.path, with, used + n - head);
        picture p = { o.height, o.width, { 0 } };
        for (int k = 0; k < o.height * o.width; k++) {
            p.v[k] = (uint8_t)png_make_sample(&o, k % o.width, k / o.width, 0);
        }
        const picture want = upright(&p, orientation);
        assert_picture(&b, &want, "PNG");
    }
    ck_assert_int_eq(said_turned, 14);
    dt_ctx_free(b.ctx);
}
END_TEST

/* ---- hostile files -------------------------------------------------------------------------- */

/* Any bytes give an error that names the file, or an image. */
static bool try_any(bench *b, const unsigned char *bytes, size_t n)
{
    dt_dataset *d = NULL;
    test_write_file(b->path, bytes, n);
    const dt_status s = read_folder(b, 3, 0, 0, &d);
    dt_dataset_free(d);
    TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT, "%s: %s", dt_status_name(s), dt_error(b->ctx));
    TEST_EACH(s == DT_OK || strstr(dt_error(b->ctx), b->path) != NULL, "%s", dt_error(b->ctx));
    TEST_EACH(dt_memory_of(b->ctx).used == 0, "leaks");
    *(s == DT_OK ? &b->read : &b->refused) += 1;
    return s == DT_OK;
}

START_TEST(truncated)
{
    bench b;
    unsigned long n;
    open_bench(&b, "one.jpg");
    unsigned char *file = make(&forms[_i], &n);
    for (unsigned long k = 0; k < n; k++)
        TEST_EACH(!try_any(&b, file, k), "%lu of %lu bytes", k, n);
    ck_assert(try_any(&b, file, n));
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

START_TEST(changed)
{
    bench b;
    unsigned long n;
    open_bench(&b, "one.jpg");
    unsigned char *file = make(&forms[_i], &n);
    for (unsigned long k = 2; k < n; k++) {
        for (int bit = (int)k % 4; bit < 8; bit += 4) {
            file[k] ^= (unsigned char)(1 << bit);
            try_any(&b, file, n);
            file[k] ^= (unsigned char)(1 << bit);
        }
    }
    printf("jpeg: %d bad files, %d that can be read\n", b.refused, b.read);
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

/* A header of 65,535 x 65,535 pixels, before anything is allocated for them. */
START_TEST(bombs)
{
    bench b;
    unsigned long n, at = 2;
    open_bench(&b, "one.jpg");
    unsigned char *file = make(&forms[_i], &n);
    while (file[at + 1] != 0xC0 && file[at + 1] != 0xC2)
        at += 2U + 256U * file[at + 2] + file[at + 3];
    memset(file + at + 5, 0xFF, 4);
    ck_assert(!try_any(&b, file, n));
    ck_assert_msg(strstr(dt_error(b.ctx), "more than its") != NULL ||
                      strstr(dt_error(b.ctx), "damaged") != NULL,
                  "%s", dt_error(b.ctx));
    ck_assert_uint_lt(dt_memory_of(b.ctx).peak, 1 << 20);
    free(file);
    dt_ctx_free(b.ctx);
}
END_TEST

/* Every allocation fails once: those of the context, and those of libjpeg. */
static dt_status read_one(dt_ctx *ctx, void *user)
{
    const bench *b = user;
    const dt_png_options o = { .channels = 3, .height = 5, .width = 9 };
    dt_dataset *d = NULL;
    const dt_status s = dt_folder_read(ctx, b->folder, &o, &d);
    dt_dataset_free(d);
    return s;
}

START_TEST(every_allocation)
{
    bench b;
    unsigned long n;
    open_bench(&b, "one.jpg");
    unsigned char *file = make(&forms[4], &n);
    test_write_file(b.path, file, n);
    free(file);
    ck_assert_int_gt(test_every_allocation(read_one, &b), 10);
    int64_t runs = 0;
    for (dt_status s = DT_ERR_NOMEM; s != DT_OK && test_malloc_can_fail(); runs++) {
        ck_assert_int_lt(runs, 200);
        test_malloc_fail_at(runs + 1);
        s = read_one(b.ctx, &b);
        const int64_t calls = test_malloc_calls();
        test_malloc_fail_at(0);
        if (calls <= runs) break;
        ck_assert_msg(s == DT_OK || s == DT_ERR_NOMEM || s == DT_ERR_IO, "%s: %s",
                      dt_status_name(s), dt_error(b.ctx));
        if (s == DT_OK) s = DT_ERR_NOMEM; /* a call whose failure does not matter */
    }
    printf("jpeg: %lld calls of malloc failed\n", (long long)runs);
    ck_assert_uint_eq(dt_memory_of(b.ctx).used, 0);
    dt_ctx_free(b.ctx);
}
END_TEST

Suite *test_jpeg_suite(void)
{
    Suite *s = suite_create("jpeg");
    TCase *c = tcase_create("files");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, pixels, 0, FORMS);
    tcase_add_loop_test(c, resized, 0, (int)(sizeof sizes / sizeof sizes[0]));
    tcase_add_test(c, of_a_recipe);
    tcase_add_test(c, for_a_model);
    tcase_add_test(c, resized_for_a_model);
    tcase_add_loop_test(c, orientations, 0, 3);
    tcase_add_test(c, damaged_exif);
    tcase_add_test(c, orientations_of_png);
    tcase_add_test(c, every_allocation);
    tcase_add_loop_test(c, truncated, 0, FORMS);
    tcase_add_loop_test(c, changed, 0, FORMS);
    tcase_add_loop_test(c, bombs, 0, FORMS);
    suite_add_tcase(s, c);
    return s;
}
