/* Folders of PNG files: every pixel format, the order of images, and hostile files. */
#include "png_make.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- folders ------------------------------------------------------------------------------- */

static void make_folder(const char *folder, const char *name)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    ck_assert_int_eq(mkdir(path, 0777), 0);
}

static void put_png(const char *folder, const char *name, const png_make_options *o)
{
    static uint8_t file[PNG_MAKE_MOST];
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_file(path, file, png_make(o, file));
}

static dt_dataset *read_png(dt_ctx *ctx, const char *folder, int64_t channels)
{
    dt_png_options o = dt_png_defaults();
    dt_dataset *d = NULL;
    o.channels = channels;
    TEST_OK(ctx, dt_png_read(ctx, folder, &o, &d));
    return d;
}

/* ---- forms of pixels ----------------------------------------------------------------------- */

static const png_make_options forms[] = {
    { .type = PNG_GREY, .depth = 1 },        { .type = PNG_GREY, .depth = 2 },
    { .type = PNG_GREY, .depth = 4 },        { .type = PNG_GREY, .depth = 8 },
    { .type = PNG_GREY, .depth = 16 },       { .type = PNG_RGB, .depth = 8 },
    { .type = PNG_RGB, .depth = 16 },        { .type = PNG_PALETTE, .depth = 1 },
    { .type = PNG_PALETTE, .depth = 2 },     { .type = PNG_PALETTE, .depth = 4 },
    { .type = PNG_PALETTE, .depth = 8 },     { .type = PNG_GREY_ALPHA, .depth = 8 },
    { .type = PNG_GREY_ALPHA, .depth = 16 }, { .type = PNG_RGBA, .depth = 8 },
    { .type = PNG_RGBA, .depth = 16 },
};

/* What a pixel must become: red, green and blue. */
static void wanted_pixel(const png_make_options *o, int x, int y, uint8_t rgb[3])
{
    if (o->type == PNG_PALETTE) {
        png_make_entry(png_make_sample(o, x, y, 0), rgb);
        return;
    }
    const bool grey = o->type == PNG_GREY || o->type == PNG_GREY_ALPHA;
    const double white = (1 << o->depth) - 1;
    for (int c = 0; c < 3; c++) {
        rgb[c] = (uint8_t)(255 * png_make_sample(o, x, y, grey ? 0 : c) / white + 0.5);
    }
}

static int wrong_bytes(const png_make_options *o, const uint8_t *image, int channels)
{
    int wrong = 0;
    const int size = o->height * o->width;
    for (int k = 0; k < size; k++) {
        uint8_t rgb[3];
        wanted_pixel(o, k % o->width, k / o->width, rgb);
        const bool grey = rgb[0] == rgb[1] && rgb[1] == rgb[2];
        const double luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
        for (int c = 0; c < channels; c++) {
            const uint8_t got = image[c * size + k];
            if (channels == 3 || grey) wrong += got != rgb[c];
            else wrong += (double)got < luma - 0.51 || (double)got > luma + 0.51;
        }
    }
    return wrong;
}

/* Every colour type and depth, plain and interlaced, to grey and to colour. */
START_TEST(every_form)
{
    static const int sizes[][2] = { { 1, 1 }, { 3, 5 }, { 9, 17 }, { 32, 32 } };
    char folder[TEST_PATH];
    png_make_options o = forms[_i];
    dt_ctx *ctx = sample_context(1);
    test_folder(folder);
    make_folder(folder, "a");
    for (int s = 0; s < 8; s++) {
        o.height = sizes[s / 2][0];
        o.width = sizes[s / 2][1];
        o.interlaced = s % 2;
        o.seed = s;
        put_png(folder, "a/1.png", &o);
        for (int channels = 1; channels <= 3; channels += 2) {
            dt_dataset *d = read_png(ctx, folder, channels);
            ck_assert_int_eq(dt_dataset_count(d), 1);
            ck_assert_int_eq(dt_dataset_channels(d), channels);
            ck_assert_int_eq(dt_dataset_height(d), o.height);
            ck_assert_int_eq(dt_dataset_width(d), o.width);
            ck_assert_int_eq(wrong_bytes(&o, dt_dataset_image(d, 0), channels), 0);
            dt_dataset_free(d);
        }
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- folders and their order --------------------------------------------------------------- */

/* Image n of a class is grey; its value encodes class and n. */
static void put_numbered(const char *folder, const char *name, int class, int n)
{
    put_png(folder, name,
            &(png_make_options){ PNG_GREY, 8, .width = 2, .height = 2, .seed = 50 * class + n });
}

static int first_byte(int class, int n)
{
    const png_make_options o = { PNG_GREY, 8, .width = 2, .height = 2, .seed = 50 * class + n };
    return png_make_sample(&o, 0, 0, 0);
}

/* Train: class B with 2 images, a with 6, \xC3\xA4 with 1; test: some of them. */
static void make_classes(const char *folder)
{
    char name[64];
    make_folder(folder, "train");
    make_folder(folder, "train/a");
    make_folder(folder, "train/B");
    make_folder(folder, "train/\xC3\xA4");
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "train/a/%c.png", "fabedc"[i]); /* made in any order */
        put_numbered(folder, name, 1, "fabedc"[i] - 'a');
    }
    put_numbered(folder, "train/B/x.PNG", 0, 0);
    put_numbered(folder, "train/B/y.png", 0, 1);
    put_numbered(folder, "train/\xC3\xA4/.hidden.png", 2, 9);
    put_numbered(folder, "train/\xC3\xA4/1.png", 2, 0);
    make_folder(folder, "train/a/folder.png");
    make_folder(folder, "train/.git");
    put_numbered(folder, "train/stray.png", 3, 0);
    put_numbered(folder, "train/a/notes.txt", 3, 0);
    make_folder(folder, "test");
    make_folder(folder, "test/\xC3\xA4");
    put_numbered(folder, "test/\xC3\xA4/1.png", 2, 5);
}

/* A folder whose name is not UTF-8 is a class without a name, and so are the others. */
START_TEST(names_without_utf8)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    make_folder(folder, "cat");
    make_folder(folder, "o\xff");
    put_numbered(folder, "cat/1.png", 0, 0);
    put_numbered(folder, "o\xff/1.png", 1, 0);
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = NULL;
    test_join(path, folder, "");
    TEST_OK(ctx, dt_png_read(ctx, path, NULL, &d));
    ck_assert_int_eq(dt_dataset_classes(d), 2);
    ck_assert_ptr_null(dt_dataset_class_name(d, 0));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(order)
{
    /* places: a 1/12, 3/12 (B's 1/4 comes before), 5/12, the third class's 1/2, ... */
    static const int wanted[9][2] = { { 1, 0 }, { 0, 0 }, { 1, 1 }, { 1, 2 }, { 2, 0 },
                                      { 1, 3 }, { 0, 1 }, { 1, 4 }, { 1, 5 } };
    char folder[TEST_PATH], train[TEST_PATH], test[TEST_PATH];
    test_folder(folder);
    make_classes(folder);
    test_join(train, folder, "train");
    test_join(test, folder, "test");
    dt_ctx *ctx = sample_context(1);
    dt_png_options o = dt_png_defaults();
    for (int64_t count = 0; count < 20; count += 4) {
        dt_dataset *d = NULL;
        o.count = count;
        TEST_OK(ctx, dt_png_read(ctx, train, &o, &d));
        ck_assert_int_eq(dt_dataset_count(d), count == 0 || count > 9 ? 9 : count);
        ck_assert_int_eq(dt_dataset_classes(d), 3);
        for (int64_t i = 0; i < dt_dataset_count(d); i++) {
            ck_assert_int_eq(dt_dataset_label(d, i), wanted[i][0]);
            ck_assert_int_eq(*dt_dataset_image(d, i), first_byte(wanted[i][0], wanted[i][1]));
        }
        dt_dataset_free(d);
    }
    dt_dataset *d = NULL;
    o.count = 0;
    o.classes = train;
    TEST_OK(ctx, dt_png_read(ctx, test, &o, &d));
    ck_assert_int_eq(dt_dataset_label(d, 0), 2);
    ck_assert_int_eq(dt_dataset_classes(d), 3);
    dt_dataset_free(d);
    o.classes = test;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'B' is a class of '", dt_png_read(ctx, train, &o, &d));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what is left out ----------------------------------------------------------------------- */

static void note(void *user, const char *line)
{
    char *said = user;
    const size_t used = strlen(said);
    snprintf(said + used, 1024 - used, "%s\n", line);
}

/* Drawn files of a class: how many are images, and which are not read. */
typedef struct drawn_files {
    int png, jpeg, folders, other[4];
} drawn_files;

static const char *const other_endings[] = { ".bmp", ".webp", ".tif", "" };

static int draw(int n) { return rand() % 3 == 0 ? 0 : rand() % n; }

/* Endings may be in capitals; the first bytes of a file decide whether it is JPEG, so these are PNG
 * files. */
static void put_files(const char *folder, const char *class, int n, const char *ending)
{
    char name[64], capitals[8] = "";
    for (int i = 0; ending[i] != 0; i++) {
        capitals[i] = (char)(ending[i] >= 'a' ? ending[i] - 32 : ending[i]);
    }
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s/x%d%s", class, i, rand() % 2 ? ending : capitals);
        put_numbered(folder, name, 0, i);
    }
}

static void draw_class(const char *folder, const char *class, drawn_files *all)
{
    static const char *const silent[] = { ".DS_Store", "Thumbs.db", "desktop.ini", ".cache.png" };
    char name[64];
    const drawn_files f = { 1 + draw(4), draw(4), draw(3), { draw(4), draw(3), draw(2), draw(2) } };
    make_folder(folder, class);
    put_files(folder, class, f.png, ".png");
    put_files(folder, class, f.jpeg, rand() % 2 ? ".jpg" : ".jpeg");
    for (int k = 0; k < 4; k++) put_files(folder, class, f.other[k], other_endings[k]);
    for (int i = 0; i < f.folders; i++) {
        snprintf(name, sizeof name, "%s/sub%d.png", class, i);
        make_folder(folder, name);
        put_files(folder, name, 2, ".png");
    }
    snprintf(name, sizeof name, "%s/%s", class, silent[rand() % 4]);
    put_numbered(folder, name, 0, 0);
    all->png += f.png;
    all->jpeg += f.jpeg;
    all->folders += f.folders;
    for (int k = 0; k < 4; k++) all->other[k] += f.other[k];
}

/* One line for the files of classes that a format does not read, with counts by ending. */
static void check_said(const char *said, const drawn_files *f, bool png)
{
    char words[64];
    const int others = f->other[0] + f->other[1] + f->other[2] + f->other[3];
    const int files = others + (png ? f->jpeg : 0);
    if (files + f->folders == 0) {
        ck_assert_str_eq(said, "");
        return;
    }
    ck_assert_ptr_nonnull(strstr(said, "not read in the folders of classes: "));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    for (int k = 0; k < 4; k++) {
        const char *name = k < 3 ? other_endings[k] : "without ending";
        snprintf(words, sizeof words, "%d %s", f->other[k], name);
        ck_assert_msg((strstr(said, words) != NULL) == (f->other[k] > 0), "%s in %s", words, said);
    }
    snprintf(words, sizeof words, ": %d file%s (", files, files == 1 ? "" : "s");
    ck_assert_msg((strstr(said, words) != NULL) == (files > 0), "%s in %s", words, said);
    snprintf(words, sizeof words, " %d folder%s", f->folders, f->folders == 1 ? "" : "s");
    ck_assert_msg((strstr(said, words) != NULL) == (f->folders > 0), "%s in %s", words, said);
}

/* A chunk tRNS behind IHDR, the first 33 bytes. */
static size_t with_colour(uint8_t *file, size_t n, const uint8_t *colour, size_t size)
{
    static uint8_t rest[PNG_MAKE_MOST];
    memcpy(rest, file + 33, n - 33);
    const size_t used = png_make_chunk(file, 33, "tRNS", colour, size);
    memcpy(file + used, rest, n - 33);
    return used + n - 33;
}

START_TEST(files_that_are_not_read_are_said)
{
    char folder[TEST_PATH], said[1024];
    for (int64_t k = 0; k < test_count(((test_draws){ 20, 3, 8 })); k++) {
        drawn_files f = { .png = 0 };
        test_folder(folder);
        draw_class(folder, "a", &f);
        draw_class(folder, "b", &f);
        for (int png = 0; png < 2; png++) {
            dt_ctx *ctx;
            dt_dataset *d;
            said[0] = 0;
            const dt_ctx_options options = { .log = note, .log_user = said };
            ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
            TEST_OK(ctx, (png ? dt_png_read : dt_folder_read)(ctx, folder, NULL, &d));
            ck_assert_int_eq(dt_dataset_count(d), f.png + (png ? 0 : f.jpeg));
            check_said(said, &f, png);
            dt_dataset_free(d);
            dt_ctx_free(ctx);
        }
    }
}
END_TEST

/* Images with an alpha channel, or with a transparent colour, are reported. */
START_TEST(transparency_is_said)
{
    static const struct {
        int type;
        bool colour, transparent;
    } kinds[] = {
        { PNG_GREY, 0, 0 }, { PNG_RGB, 0, 0 },        { PNG_GREY, 1, 1 },
        { PNG_RGB, 1, 1 },  { PNG_GREY_ALPHA, 0, 1 }, { PNG_RGBA, 0, 1 },
    };
    static uint8_t file[PNG_MAKE_MOST];
    char folder[TEST_PATH], class[TEST_PATH], path[TEST_PATH], said[1024], words[80];
    for (int64_t k = 0; k < test_count(((test_draws){ 20, 3, 8 })); k++) {
        int transparent = 0;
        test_folder(folder);
        test_join(class, folder, "a");
        ck_assert_int_eq(mkdir(class, 0777), 0);
        for (int i = 0; i < 5; i++) {
            const int kind = rand() % DT__COUNT_OF(kinds);
            const png_make_options o = { kinds[kind].type, 8, .width = 3, .height = 2 };
            static const uint8_t none[6] = { 0, 1, 0, 2, 0, 3 };
            size_t n = png_make(&o, file);
            if (kinds[kind].colour) n = with_colour(file, n, none, o.type == PNG_GREY ? 2 : 6);
            snprintf(words, sizeof words, "%d.png", i);
            test_join(path, class, words);
            test_write_file(path, file, n);
            transparent += kinds[kind].transparent;
        }
        dt_ctx *ctx;
        dt_dataset *d;
        said[0] = 0;
        const dt_ctx_options options = { .log = note, .log_user = said };
        ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
        TEST_OK(ctx, dt_folder_read(ctx, folder, NULL, &d));
        snprintf(words, sizeof words, "%d of 5 images have transparency", transparent);
        if (transparent == 0) ck_assert_str_eq(said, "");
        else ck_assert_msg(strstr(said, words) != NULL, "%s: %s", words, said);
        dt_dataset_free(d);
        dt_ctx_free(ctx);
    }
}
END_TEST

typedef struct opened {
    dt_dataset *train, *validation, *test;
} opened;

static dt_status open_data(dt_ctx *ctx, const dt_data_options *o, opened *d)
{
    return dt_data_open(ctx, o, &d->train, &d->validation, &d->test);
}

static void opened_free(opened *d)
{
    dt_dataset_free(d->train);
    dt_dataset_free(d->validation);
    dt_dataset_free(d->test);
}

START_TEST(recipe)
{
    char folder[TEST_PATH], test[TEST_PATH];
    test_folder(folder);
    make_classes(folder);
    test_join(test, folder, "test");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_PNG;
    o.dir = folder;
    o.channels = 1;
    o.validation = 0.4;
    opened d;
    TEST_OK(ctx, open_data(ctx, &o, &d));
    ck_assert_int_eq(dt_dataset_count(d.train), 6);
    ck_assert_int_eq(dt_dataset_count(d.validation), 3);
    ck_assert_int_eq(dt_dataset_label(d.validation, 0), 0);
    ck_assert_int_eq(dt_dataset_count(d.test), 1);
    ck_assert_int_eq(dt_dataset_channels(d.test), 1);
    static const char *const names[] = { "B", "a", "\xC3\xA4" }; /* in byte order */
    const dt_dataset *const parts[] = { d.train, d.validation, d.test };
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            ck_assert_str_eq(dt_dataset_class_name(parts[i], k), names[k]);
        }
        ck_assert_ptr_null(dt_dataset_class_name(parts[i], 3));
        ck_assert_ptr_null(dt_dataset_class_name(parts[i], -1));
    }
    opened_free(&d);
    o.train = (dt_strings){ 1, { test } };
    o.test = (dt_strings){ 1, { test } };
    o.task = DT_DATA_DENOISING;
    o.validation = 0;
    TEST_OK(ctx, open_data(ctx, &o, &d));
    ck_assert_int_eq(dt_dataset_target(d.train), DT_TARGET_IMAGE);
    ck_assert_ptr_null(dt_dataset_class_name(d.train, 0));
    ck_assert_int_eq(dt_dataset_target(d.test), DT_TARGET_IMAGE);
    opened_free(&d);
    o.train_count = 2;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.train_count is 2", open_data(ctx, &o, &d));
    o.train_count = 0;
    o.test = (dt_strings){ 1, { "nothing" } };
    TEST_FAILS(ctx, DT_ERR_IO, "/nothing: cannot open", open_data(ctx, &o, &d));
    o.test = (dt_strings){ 2, { "test", "test" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.test names 2 folders", open_data(ctx, &o, &d));
    o.test.n = 0;
    o.channels = 2;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.channels", open_data(ctx, &o, &d));
    o.channels = 3;
    o.task = DT_DATA_SEGMENTATION;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.task is none of the tasks", open_data(ctx, &o, &d));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- bad folders and files ------------------------------------------------------------------ */

/* Reads the folder, which must fail, leak nothing, and give a message with both texts. */
static void expect(dt_ctx *ctx, const char *folder, dt_status code, const char *text,
                   const char *other)
{
    dt_dataset *d = (dt_dataset *)ctx;
    const dt_status status = dt_png_read(ctx, folder, NULL, &d);
    TEST_EACH(status == code && d == NULL, "gave %s: %s", dt_status_name(status), dt_error(ctx));
    TEST_EACH(strstr(dt_error(ctx), text) != NULL && strstr(dt_error(ctx), other) != NULL,
              "says %s", dt_error(ctx));
    TEST_EACH(dt_memory_of(ctx).used == 0, "leaks after %s", dt_error(ctx));
}

START_TEST(bad_folders)
{
    char folder[TEST_PATH], name[64], path[TEST_PATH];
    dt_dataset *d = NULL;
    dt_ctx *ctx = sample_context(1);
    test_folder(folder);
    expect(ctx, folder, DT_ERR_FORMAT, folder, "holds 0 folders; expected one for each class");
    test_join(path, folder, "none");
    expect(ctx, path, DT_ERR_IO, path, "cannot open");
    make_folder(folder, "cat");
    put_numbered(folder, "cat/1.png", 0, 0);
    make_folder(folder, "dog");
    expect(ctx, folder, DT_ERR_FORMAT, "/dog'", "holds no PNG files");
    put_png(folder, "dog/1.png", &(png_make_options){ PNG_RGB, 8, .width = 3, .height = 2 });
    expect(ctx, folder, DT_ERR_FORMAT, "/dog/1.png' has 2 x 3 pixels",
           "/cat/1.png' 2 x 2; expected one size");
    for (int i = 0; i < 255; i++) {
        snprintf(name, sizeof name, "%d", i);
        make_folder(folder, name);
    }
    expect(ctx, folder, DT_ERR_FORMAT, "holds 257 folders", "1 to 256");
    static const dt_png_options bad[] = { { .channels = 2 },
                                          { .channels = 0 },
                                          { .channels = 3, .count = -1 },
                                          { .channels = 3, .height = 8 },
                                          { .channels = 3, .height = 8, .width = 65536 } };
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        TEST_FAILS(ctx, DT_ERR_ARG, i < 3 ? "1 or 3 channels" : "a size of 8 x",
                   dt_png_read(ctx, folder, &bad[i], &d));
    }
    dt_ctx_free(ctx);
}
END_TEST

typedef struct bench {
    dt_ctx *ctx;
    char folder[TEST_PATH], path[TEST_PATH];
    uint8_t good[PNG_MAKE_MOST];
    size_t size;
    int refused, read;
} bench;

static void bench_open(bench *b, const png_make_options *o)
{
    b->ctx = sample_context(1);
    b->refused = b->read = 0;
    test_folder(b->folder);
    make_folder(b->folder, "a");
    test_join(b->path, b->folder, "a/1.png");
    b->size = png_make(o, b->good);
}

static void bench_close(bench *b, const char *what)
{
    printf("png: %d bad files, %d that can be read: %s\n", b->refused, b->read, what);
    dt_ctx_free(b->ctx);
}

static void expect_bad(bench *b, const uint8_t *bytes, size_t size, const char *text)
{
    test_write_file(b->path, bytes, size);
    expect(b->ctx, b->folder, DT_ERR_FORMAT, b->path, text);
    b->refused++;
}

/* Any bytes give an error that names the file, or an image of a size within limits. */
static void try_any(bench *b, const uint8_t *bytes, size_t size)
{
    dt_dataset *d = NULL;
    test_write_file(b->path, bytes, size);
    if (dt_png_read(b->ctx, b->folder, NULL, &d) == DT_OK) b->read++;
    else expect_bad(b, bytes, size, "'");
    dt_dataset_free(d);
    TEST_EACH(dt_memory_of(b->ctx).used == 0, "leaks");
}

START_TEST(truncated)
{
    static bench b;
    bench_open(&b,
               &(png_make_options){ PNG_PALETTE, 4, .width = 9, .height = 7, .interlaced = _i });
    for (size_t n = 0; n < b.size; n++) {
        expect_bad(&b, b.good, n, n < 8 ? "is not a PNG file" : "is damaged: it breaks off");
    }
    bench_close(&b, "cut at every byte");
}
END_TEST

/* With the old checksums nearly every change is found; with recomputed ones changes reach the code
 * behind them. */
START_TEST(flipped_bits)
{
    static bench b;
    png_make_options o = forms[_i % DT__COUNT_OF(forms)];
    o.width = 6;
    o.height = 3 + _i % 5;
    o.interlaced = _i / DT__COUNT_OF(forms);
    bench_open(&b, &o);
    for (size_t n = 8; n < b.size; n++) {
        for (int bit = (int)n % 3; bit < 8; bit += 3) {
            uint8_t bad[2048];
            ck_assert_uint_lt(b.size, sizeof bad);
            memcpy(bad, b.good, b.size);
            bad[n] ^= (uint8_t)(1 << bit);
            try_any(&b, bad, b.size);
            png_make_sums(bad, b.size);
            try_any(&b, bad, b.size);
        }
    }
    bench_close(&b, "flipped bits");
}
END_TEST

static void set_u32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

START_TEST(hostile)
{
    static const struct {
        uint32_t width, height;
        const char *text;
    } sizes[] = {
        { 0, 4, "damaged: Invalid IHDR" },
        { 4, 0, "damaged: Invalid IHDR" },
        { 65535, 65535, "declares 65535 x 65535 pixels, more than" },
        { 4, 65535, "declares 65535 x 4 pixels, more than" },
        { 65536, 1, "damaged: Invalid IHDR" },
        { 0x7fffffff, 0x7fffffff, "damaged: Invalid IHDR" },
        { 0x80000000, 1, "damaged: " },
        { 0xffffffff, 0xffffffff, "damaged: " },
        { 4, 5, "damaged: " },
        { 4, 3, "damaged: " },
    };
    static bench b;
    bench_open(&b, &(png_make_options){ PNG_RGBA, 8, .width = 4, .height = 4 });
    for (int i = 0; i < DT__COUNT_OF(sizes); i++) {
        static uint8_t bad[PNG_MAKE_MOST];
        memcpy(bad, b.good, b.size);
        set_u32(bad + 16, sizes[i].width);
        set_u32(bad + 20, sizes[i].height);
        png_make_sums(bad, b.size);
        expect_bad(&b, bad, b.size, sizes[i].text);
    }
    expect_bad(&b, (const uint8_t *)"\x1f\x8b\x08\0\0\0\0\0\0\0\0", 10, "is not a PNG file");
    expect_bad(&b, (const uint8_t *)"GIF89a..............", 20, "it is a GIF image");
    expect_bad(&b, (const uint8_t *)"RIFF....WEBPVP8 ....", 20, "it is a WebP image");
    expect_bad(&b, (const uint8_t *)"....ftypheic........", 20, "it is a HEIC");
    expect_bad(&b, (const uint8_t *)"<html>404 not found.", 20, "it is a text");
    expect_bad(&b, (const uint8_t *)"", 0, "it is empty");
    const png_make_options short_palette = { PNG_PALETTE, 8, .width = 9, .height = 9,
                                             .palette = 3 };
    static uint8_t bad[PNG_MAKE_MOST];
    test_write_file(b.path, bad, png_make(&short_palette, bad));
    dt_dataset *d = read_png(b.ctx, b.folder, 1);
    for (int k = 0; k < 81; k++) { /* indices beyond the palette are black */
        const bool beyond = png_make_sample(&short_palette, k % 9, k / 9, 0) > 2;
        ck_assert_int_eq(dt_dataset_image(d, 0)[k] == 0, beyond);
    }
    dt_dataset_free(d);
    b.ctx->pool.limit = 1 << 20;
    memcpy(bad, b.good, b.size);
    set_u32(bad + 33, 0x7fffffff); /* the length of the first IDAT */
    png_make_sums(bad, b.size);
    try_any(&b, bad, b.size);
    bench_close(&b, "hostile sizes");
}
END_TEST

/* Chunks that do not affect pixels are not decompressed, so a decompression bomb in them is
 * harmless. */
START_TEST(bombs)
{
    static bench b;
    static uint8_t bomb[PNG_MAKE_MOST], file[PNG_MAKE_MOST];
    enum { ZEROS = 1 << 24 };
    uint8_t *zeros = calloc(ZEROS, 1);
    bench_open(&b, &(png_make_options){ PNG_GREY, 8, .width = 2, .height = 2 });
    memcpy(bomb, "name\0", 6); /* of the profile or the text; method 0 */
    uLongf size = sizeof bomb - 6;
    ck_assert_int_eq(compress2(bomb + 6, &size, zeros, ZEROS, 9), Z_OK);
    free(zeros);
    b.ctx->pool.limit = 1 << 20;
    static const char *const names[] = { "iCCP", "zTXt", "prIv" };
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        memcpy(file, b.good, 33);
        size_t used = png_make_chunk(file, 33, names[i], bomb, size + 6);
        memcpy(file + used, b.good + 33, b.size - 33);
        used += b.size - 33;
        test_write_file(b.path, file, used);
        dt_dataset *d = read_png(b.ctx, b.folder, 1);
        ck_assert_int_eq(*dt_dataset_image(d, 0),
                         png_make_sample(&(png_make_options){ PNG_GREY, 8, .width = 2 }, 0, 0, 0));
        dt_dataset_free(d);
    }
    bench_close(&b, "bombs in other chunks");
}
END_TEST

static dt_status scenario(dt_ctx *ctx, void *user)
{
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_PNG;
    o.dir = user;
    opened d;
    const dt_status status = open_data(ctx, &o, &d);
    opened_free(&d);
    return status;
}

START_TEST(memory_fails)
{
    char folder[TEST_PATH];
    test_folder(folder);
    make_classes(folder);
    put_png(folder, "train/a/a.png",
            &(png_make_options){ PNG_PALETTE, 4, .width = 2, .height = 2, .interlaced = 1 });
    ck_assert_int_gt(test_every_allocation(scenario, folder), 30);
}
END_TEST

Suite *test_png_suite(void)
{
    Suite *s = suite_create("png");
    TCase *good = tcase_create("good");
    tcase_add_loop_test(good, every_form, 0, DT__COUNT_OF(forms));
    tcase_add_test(good, order);
    tcase_add_test(good, names_without_utf8);
    tcase_add_test(good, files_that_are_not_read_are_said);
    tcase_add_test(good, transparency_is_said);
    tcase_add_test(good, recipe);
    suite_add_tcase(s, good);
    TCase *bad = tcase_create("bad");
    tcase_set_timeout(bad, 120);
    tcase_add_test(bad, bad_folders);
    tcase_add_loop_test(bad, truncated, 0, 2);
    tcase_add_loop_test(bad, flipped_bits, 0, 2 * DT__COUNT_OF(forms));
    tcase_add_test(bad, hostile);
    tcase_add_test(bad, bombs);
    tcase_add_test(bad, memory_fails);
    suite_add_tcase(s, bad);
    return s;
}
