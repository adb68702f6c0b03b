/* IDX files: round trips of correct ones; damaged ones, each with its status and the file's name in
 * the message. */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

/* ---- good files ---------------------------------------------------------------------------- */

static const struct {
    int64_t count, height, width;
    int classes;
} shapes[] = {
    { 3, 4, 5, 3 }, { 0, 28, 28, 1 }, { 1, 1, 1, 1 }, { 300, 7, 3, 256 }, { 2000, 28, 28, 10 }
};

static const char *const endings[] = { "", ".gz" };

START_TEST(round_trip)
{
    char folder[TEST_PATH], images[TEST_PATH], labels[TEST_PATH], name[32];
    test_folder(folder);
    const char *ending = endings[_i % 2];
    snprintf(name, sizeof name, "images%s", ending);
    test_join(images, folder, name);
    snprintf(name, sizeof name, "labels%s", ending);
    test_join(labels, folder, name);
    dt_ctx *ctx = sample_context(1);
    for (int s = 0; s < DT__COUNT_OF(shapes); s++) {
        dt_dataset *d = sample_counted(ctx, shapes[s].count, shapes[s].height, shapes[s].width,
                                       shapes[s].classes);
        TEST_OK(ctx, dt_idx_write(d, images, labels));
        dt_dataset *back = NULL;
        TEST_OK(ctx, dt_idx_read(ctx, images, labels, 0, &back));
        sample_assert_same(d, back);
        ck_assert_int_eq(dt_dataset_classes(back), shapes[s].count == 0 ? 0 : shapes[s].classes);
        dt_dataset_free(back);
        TEST_OK(ctx, dt_idx_read(ctx, images, labels, 256, &back));
        ck_assert_int_eq(dt_dataset_classes(back), 256);
        dt_dataset_free(back);
        size_t size, again;
        char *first = test_read_file(images, &size);
        TEST_OK(ctx, dt_idx_write(d, images, labels));
        char *second = test_read_file(images, &again);
        ck_assert_uint_eq(size, again);
        ck_assert_mem_eq(first, second, size);
        if (ending[0] != '\0') ck_assert_mem_eq(first, "\x1f\x8b\x08\0\0\0\0\0", 8); /* no time */
        free(first);
        free(second);
        dt_dataset_free(d);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* gzip is known by content: both kinds under each other's names, and two members in a row. */
START_TEST(file_names_do_not_decide_about_gzip)
{
    char folder[TEST_PATH], plain[TEST_PATH], packed[TEST_PATH], labels[TEST_PATH];
    test_folder(folder);
    test_join(plain, folder, "plain");
    test_join(packed, folder, "packed.gz");
    test_join(labels, folder, "labels");
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_counted(ctx, 3, 4, 5, 3), *back = NULL;
    TEST_OK(ctx, dt_idx_write(d, plain, labels));
    TEST_OK(ctx, dt_idx_write(d, packed, labels));
    ck_assert_int_eq(
        test_shell(NULL, "cd '%s' && mv plain x && mv packed.gz plain && mv x packed.gz", folder),
        0);
    TEST_OK(ctx, dt_idx_read(ctx, plain, labels, 0, &back));
    sample_assert_same(d, back);
    dt_dataset_free(back);
    TEST_OK(ctx, dt_idx_read(ctx, packed, labels, 0, &back));
    sample_assert_same(d, back);
    dt_dataset_free(back);
    ck_assert_int_eq(test_shell(NULL,
                                "cd '%s' && (head -c 30 packed.gz | gzip; tail -c +31 packed.gz "
                                "| gzip) > plain",
                                folder),
                     0);
    TEST_OK(ctx, dt_idx_read(ctx, plain, labels, 0, &back));
    sample_assert_same(d, back);
    dt_dataset_free(back);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(mnist)
{
    static const struct {
        const char *images, *labels;
        int first[5];
    } sets[] = {
        { "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", { 5, 0, 4, 1, 9 } },
        { "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", { 7, 2, 1, 0, 4 } },
    };
    char folder[TEST_PATH], images[TEST_PATH], labels[TEST_PATH];
    if (!test_shared(folder, "data/mnist10k")) return;
    test_join(images, folder, sets[_i].images);
    test_join(labels, folder, sets[_i].labels);
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_idx_read(ctx, images, labels, 0, &d));
    ck_assert_int_eq(dt_dataset_count(d), 10000);
    ck_assert_int_eq(dt_dataset_classes(d), 10);
    ck_assert_int_eq(dt_dataset_height(d), 28);
    ck_assert_int_eq(dt_dataset_width(d), 28);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(dt_dataset_label(d, i), sets[_i].first[i]);
    double sum = 0;
    for (int64_t i = 0; i < 10000; i++) {
        const uint8_t *image = dt_dataset_image(d, i);
        for (int p = 0; p < 784; p++) sum += image[p];
    }
    TEST_NEAR(sum / (10000.0 * 784 * 255), 0.131, 0.002, 0); /* MNIST's mean is 0.1307 */
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- bad files ----------------------------------------------------------------------------- */

#define HEAD 16
#define IMAGES_SIZE (HEAD + 60) /* 3 images of 4 x 5 */
#define LABELS_SIZE (8 + 3)

static const uint8_t good_head[HEAD] = { 0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5 };
static const uint8_t good_labels[LABELS_SIZE] = { 0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2 };

typedef struct bench {
    dt_ctx *ctx;
    char images[TEST_PATH], labels[TEST_PATH];
    uint8_t good[IMAGES_SIZE];
    uint8_t packed[512]; /* the images, gzip */
    size_t packed_size;
    int tried;
} bench;

static size_t pack(const void *from, size_t size, uint8_t *to, size_t room)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)from,
                   .avail_in = (uInt)size,
                   .next_out = to,
                   .avail_out = (uInt)room };
    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void bench_open(bench *b)
{
    char folder[TEST_PATH];
    *b = (bench){ .ctx = sample_context(1) };
    test_folder(folder);
    test_join(b->images, folder, "images");
    test_join(b->labels, folder, "labels");
    memcpy(b->good, good_head, HEAD);
    for (int i = HEAD; i < IMAGES_SIZE; i++) b->good[i] = (uint8_t)(i * 37);
    b->packed_size = pack(b->good, IMAGES_SIZE, b->packed, sizeof b->packed);
    test_write_file(b->images, b->good, IMAGES_SIZE);
    test_write_file(b->labels, good_labels, LABELS_SIZE);
}

/* Reads the files, which must fail with a message that contains `path` and `text`. */
static void expect(bench *b, dt_status code, const char *path, const char *text)
{
    dt_dataset *d = (dt_dataset *)b;
    TEST_FAILS(b->ctx, code, text, dt_idx_read(b->ctx, b->images, b->labels, 3, &d));
    ck_assert_ptr_null(d);
    ck_assert_msg(strstr(dt_error(b->ctx), path) != NULL, "no file in \"%s\"", dt_error(b->ctx));
    ck_assert_uint_eq(dt_memory_of(b->ctx).used, 0);
    b->tried++;
}

static void expect_images(bench *b, const void *bytes, size_t size, const char *text)
{
    test_write_file(b->images, bytes, size);
    expect(b, DT_ERR_FORMAT, b->images, text);
}

static void bench_close(bench *b, const char *what)
{
    test_write_file(b->images, b->good, IMAGES_SIZE);
    test_write_file(b->labels, good_labels, LABELS_SIZE);
    dt_dataset *d = NULL;
    TEST_OK(b->ctx, dt_idx_read(b->ctx, b->images, b->labels, 3, &d));
    dt_dataset_free(d);
    dt_ctx_free(b->ctx);
    printf("idx: %d bad files: %s\n", b->tried, what);
}

START_TEST(truncated)
{
    bench b;
    bench_open(&b);
    for (size_t n = 0; n < IMAGES_SIZE; n++) {
        expect_images(&b, b.good, n, n < HEAD ? "header" : "only");
    }
    test_write_file(b.images, b.good, IMAGES_SIZE);
    for (size_t n = 0; n < LABELS_SIZE; n++) {
        test_write_file(b.labels, good_labels, n);
        expect(&b, DT_ERR_FORMAT, b.labels, n < 8 ? "header" : "only");
    }
    bench_close(&b, "IDX cut at every byte");
}
END_TEST

/* Truncations within valid gzip streams. */
START_TEST(truncated_inside_gzip)
{
    bench b;
    bench_open(&b);
    for (size_t n = 0; n < IMAGES_SIZE; n++) {
        uint8_t packed[512];
        const size_t size = pack(b.good, n, packed, sizeof packed);
        expect_images(&b, packed, size, n < HEAD ? "header" : "only");
    }
    bench_close(&b, "gzip of IDX cut at every byte");
}
END_TEST

START_TEST(damaged_gzip)
{
    bench b;
    int harmless = 0;
    bench_open(&b);
    for (size_t n = 0; n < b.packed_size; n++) {
        expect_images(&b, b.packed, n, n < 2 ? "header" : "breaks off");
    }
    for (size_t n = 0; n < b.packed_size; n++) {
        if (n > 2 && n < 10) continue; /* flags, time, system: some values are all right */
        for (int bit = 0; bit < 8; bit++) {
            uint8_t bad[sizeof b.packed];
            memcpy(bad, b.packed, b.packed_size);
            bad[n] ^= (uint8_t)(1 << bit);
            test_write_file(b.images, bad, b.packed_size);
            dt_dataset *d = NULL;
            if (dt_idx_read(b.ctx, b.images, b.labels, 3, &d) != DT_OK) {
                expect(&b, DT_ERR_FORMAT, b.images, "'");
                continue;
            }
            ck_assert_mem_eq(dt_dataset_image(d, 0), b.good + HEAD, IMAGES_SIZE - HEAD);
            dt_dataset_free(d);
            harmless++;
        }
    }
    ck_assert_int_lt(harmless, 8); /* the bits that fill deflate's last byte */
    bench_close(&b, "gzip cut at every byte, every bit flipped");
}
END_TEST

/* A small file shall not fill the memory, whatever its header declares: 4100 images of 64 x 64
 * zeros are 16.8 MB, in 16 KB. */
START_TEST(gzip_is_no_bomb)
{
    const uint8_t head[HEAD] = { 0, 0, 8, 3, 0, 0, 0x10, 4, 0, 0, 0, 64, 0, 0, 0, 64 };
    const size_t size = HEAD + (size_t)4100 * 64 * 64, room = 1 << 17;
    uint8_t *bytes = calloc(size, 1), *packed = malloc(room);
    ck_assert(bytes != NULL && packed != NULL);
    memcpy(bytes, head, HEAD);
    bench b;
    bench_open(&b);
    expect_images(&b, packed, pack(bytes, size, packed, room), "unpack it first");
    bench_close(&b, "gzip of many zeros");
    free(bytes);
    free(packed);
}
END_TEST

START_TEST(wrong_headers)
{
    static const struct {
        int at;
        uint8_t value;
        const char *text;
    } cases[] = {
        { 0, 1, "not an IDX file" }, { 1, 1, "not an IDX file" }, { 0, 0x89, "not an IDX file" },
        { 2, 0, "type byte 00" },    { 2, 9, "type byte 09" },    { 2, 0x0b, "type byte 0b" },
        { 2, 0x0c, "type byte 0c" }, { 2, 0x0d, "type byte 0d" }, { 2, 0x0e, "type byte 0e" },
        { 2, 0xff, "type byte ff" }, { 3, 0, "rank 0" },          { 3, 1, "swapped" },
        { 3, 2, "rank 2" },          { 3, 4, "rank 4" },          { 3, 255, "rank 255" },
        { 7, 2, "more than 40" },    { 7, 4, "only 60" },         { 4, 1, "only 60" },
        { 7, 0, "more than 0" },     { 11, 0, "without pixels" }, { 15, 0, "without pixels" },
        { 11, 3, "more than 45" },   { 15, 6, "only 60" },        { 8, 0x80, "only 60" },
        { 12, 0xff, "only 60" },     { 4, 0xff, "only 60" },
    };
    bench b;
    bench_open(&b);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        uint8_t bad[IMAGES_SIZE], packed[512];
        memcpy(bad, b.good, IMAGES_SIZE);
        bad[cases[i].at] = cases[i].value;
        expect_images(&b, bad, IMAGES_SIZE, cases[i].text);
        const size_t size = pack(bad, IMAGES_SIZE, packed, sizeof packed);
        expect_images(&b, packed, size, cases[i].text);
    }
    expect_images(&b, "\x89PNG\r\n\x1a\n", 8, "not an IDX file");
    expect_images(&b, "label,1x1\n", 10, "not an IDX file");
    expect_images(&b, good_labels, LABELS_SIZE, "swapped");
    test_write_file(b.images, b.good, IMAGES_SIZE);
    test_write_file(b.labels, b.good, IMAGES_SIZE);
    expect(&b, DT_ERR_FORMAT, b.labels, "swapped");
    bench_close(&b, "wrong headers");
}
END_TEST

START_TEST(huge_claims)
{
    static const uint8_t claims[][12] = {
        { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 },
        { 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 1 },
        { 255, 255, 255, 255, 0, 0, 0, 1, 0, 0, 0, 1 },
        { 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255 },
        { 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 2 },
        { 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0 },
        { 64, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1 },
    };
    bench b;
    bench_open(&b);
    for (int i = 0; i < DT__COUNT_OF(claims); i++) {
        uint8_t bad[IMAGES_SIZE], packed[512];
        memcpy(bad, b.good, IMAGES_SIZE);
        memcpy(bad + 4, claims[i], 12);
        expect_images(&b, bad, IMAGES_SIZE, "");
        const size_t size = pack(bad, IMAGES_SIZE, packed, sizeof packed);
        expect_images(&b, packed, size, "");
    }
    ck_assert_uint_lt(dt_memory_of(b.ctx).held, (size_t)3 << 20);
    bench_close(&b, "huge claims");
}
END_TEST

START_TEST(trailing_bytes)
{
    static const uint8_t garbage[] = { 0, 0x1f, 0x8b, 'x', 255 };
    bench b;
    bench_open(&b);
    for (int i = 0; i < DT__COUNT_OF(garbage); i++) {
        uint8_t bad[IMAGES_SIZE + 1], packed[600];
        memcpy(bad, b.good, IMAGES_SIZE);
        bad[IMAGES_SIZE] = garbage[i];
        expect_images(&b, bad, IMAGES_SIZE + 1, "more than 60");
        const size_t size = pack(bad, IMAGES_SIZE + 1, packed, sizeof packed);
        expect_images(&b, packed, size, "more than 60");
        memcpy(packed, b.packed, b.packed_size); /* after the stream */
        packed[b.packed_size] = garbage[i];
        expect_images(&b, packed, b.packed_size + 1, "gzip stream");
    }
    uint8_t labels[LABELS_SIZE + 1] = { 0 };
    memcpy(labels, good_labels, LABELS_SIZE);
    test_write_file(b.images, b.good, IMAGES_SIZE);
    test_write_file(b.labels, labels, sizeof labels);
    expect(&b, DT_ERR_FORMAT, b.labels, "more than 3");
    bench_close(&b, "trailing bytes");
}
END_TEST

START_TEST(wrong_labels)
{
    bench b;
    bench_open(&b);
    for (int i = 0; i < 3; i++) {
        for (int value = 3; value < 256; value += 84) {
            uint8_t bad[LABELS_SIZE];
            memcpy(bad, good_labels, LABELS_SIZE);
            bad[8 + i] = (uint8_t)value;
            test_write_file(b.labels, bad, LABELS_SIZE);
            char text[64];
            snprintf(text, sizeof text, "label %d of image %d; with 3 classes, 0 to 2", value, i);
            expect(&b, DT_ERR_FORMAT, b.labels, text);
        }
    }
    const uint8_t two[] = { 0, 0, 8, 1, 0, 0, 0, 2, 0, 1 };
    test_write_file(b.labels, two, sizeof two);
    expect(&b, DT_ERR_FORMAT, b.labels, "holds 3 images");
    const uint8_t none[] = { 0, 0, 8, 1, 0, 0, 0, 0 };
    test_write_file(b.labels, none, sizeof none);
    expect(&b, DT_ERR_FORMAT, b.images, "0 labels");
    bench_close(&b, "labels out of range, counts that differ");
}
END_TEST

START_TEST(unreadable)
{
    bench b;
    bench_open(&b);
    dt_dataset *d = NULL;
    TEST_FAILS(b.ctx, DT_ERR_ARG, "257 classes", dt_idx_read(b.ctx, b.images, b.labels, 257, &d));
    TEST_FAILS(b.ctx, DT_ERR_ARG, "-1 classes", dt_idx_read(b.ctx, b.images, b.labels, -1, &d));
    ck_assert_int_eq(unlink(b.images), 0);
    expect(&b, DT_ERR_IO, b.images, "No such file");
    ck_assert_int_eq(test_shell(NULL, "mkdir '%s'", b.images), 0);
    expect(&b, DT_ERR_IO, b.images, "directory");
    ck_assert_int_eq(rmdir(b.images), 0);
    test_write_file(b.images, b.good, IMAGES_SIZE);
    ck_assert_int_eq(test_shell(NULL, "chmod 0 '%s'", b.images), 0);
    if (geteuid() != 0) expect(&b, DT_ERR_IO, b.images, "denied");
    ck_assert_int_eq(test_shell(NULL, "chmod 600 '%s'", b.images), 0);
    ck_assert_int_eq(unlink(b.labels), 0);
    expect(&b, DT_ERR_IO, b.labels, "No such file");
    bench_close(&b, "unreadable");
}
END_TEST

/* ---- writing ------------------------------------------------------------------------------- */

/* A write that fails leaves the old files, and no others. */
START_TEST(failed_write)
{
    char folder[TEST_PATH], images[TEST_PATH], labels[TEST_PATH], other[TEST_PATH];
    test_folder(folder);
    test_join(images, folder, "images");
    test_join(labels, folder, "labels");
    test_join(other, folder, "none/labels");
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_counted(ctx, 200, 28, 28, 3);
    test_write_text(images, "old images");
    test_write_text(labels, "old labels");
    TEST_FAILS(ctx, DT_ERR_IO, other, dt_idx_write(d, images, other));
    TEST_FAILS(ctx, DT_ERR_IO, other, dt_idx_write(d, other, labels));
    TEST_FAILS(ctx, DT_ERR_IO, folder, dt_idx_write(d, images, folder));
    TEST_FAILS(ctx, DT_ERR_IO, "/dev/null", dt_idx_write(d, images, "/dev/null"));
    TEST_FAILS(ctx, DT_ERR_ARG, "two files", dt_idx_write(d, images, images));
    const bool limited = test_limit_files(1000);
    const dt_status status = dt_idx_write(d, images, labels);
    ck_assert(test_limit_files(-1) && limited);
    ck_assert_int_eq(status, DT_ERR_IO);
    ck_assert_msg(strstr(dt_error(ctx), images) != NULL, "%s", dt_error(ctx));
    char *old = test_read_file(images, NULL);
    ck_assert_str_eq(old, "old images");
    free(old);
    old = test_read_file(labels, NULL);
    ck_assert_str_eq(old, "old labels");
    free(old);
    ck_assert_int_eq(sample_entries(folder), 2);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Files are read and written without malloc, zlib's part included. */
START_TEST(no_malloc)
{
    char folder[TEST_PATH], images[TEST_PATH], labels[TEST_PATH];
    test_folder(folder);
    test_join(images, folder, "images.gz");
    test_join(labels, folder, "labels.gz");
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_counted(ctx, 2000, 28, 28, 10), *back = NULL;
    test_malloc_fail_at(1);
    const dt_status wrote = dt_idx_write(d, images, labels);
    const dt_status read = dt_idx_read(ctx, images, labels, 0, &back);
    const int64_t calls = test_malloc_calls();
    test_malloc_fail_at(0);
    TEST_OK(ctx, wrote);
    TEST_OK(ctx, read);
    ck_assert_int_eq(calls, 0);
    dt_dataset_free(back);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_idx_suite(void)
{
    Suite *s = suite_create("idx");
    TCase *c = tcase_create("files");
    tcase_add_loop_test(c, round_trip, 0, 2);
    tcase_add_test(c, file_names_do_not_decide_about_gzip);
    tcase_add_loop_test(c, mnist, 0, 2);
    tcase_add_test(c, truncated);
    tcase_add_test(c, truncated_inside_gzip);
    tcase_add_test(c, damaged_gzip);
    tcase_add_test(c, gzip_is_no_bomb);
    tcase_add_test(c, wrong_headers);
    tcase_add_test(c, huge_claims);
    tcase_add_test(c, trailing_bytes);
    tcase_add_test(c, wrong_labels);
    tcase_add_test(c, unreadable);
    tcase_add_test(c, failed_write);
    tcase_add_test(c, no_malloc);
    suite_add_tcase(s, c);
    return s;
}
