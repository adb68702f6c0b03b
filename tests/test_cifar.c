/* CIFAR's binary files: correct ones, read directly and through a recipe's options, and damaged
 * ones. */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define PIXELS 3072

/* The bytes of `count` images from number `first` on. Labels and pixels are functions of the
 * image's number. */
static uint8_t *records(int marks, int first, int count, size_t *size)
{
    *size = (size_t)(count * (marks + PIXELS));
    uint8_t *bytes = malloc(*size + 1), *to = bytes;
    for (int i = first; i < first + count; i++) {
        if (marks == 2) *to++ = (uint8_t)(i % 20);
        *to++ = (uint8_t)(marks == 2 ? i * 7 % 100 : i % 10);
        for (int k = 0; k < PIXELS; k++) *to++ = (uint8_t)(i * 31 + k * 7 + k / 256);
    }
    return bytes;
}

static void write_gzip(const char *path, const uint8_t *bytes, size_t size)
{
    gzFile file = gzopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)size), (int)size);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

static void write_records(const char *path, int marks, int first, int count)
{
    size_t size;
    uint8_t *bytes = records(marks, first, count, &size);
    const size_t n = strlen(path);
    if (strcmp(path + n - 3, ".gz") == 0) write_gzip(path, bytes, size);
    else test_write_file(path, bytes, size);
    free(bytes);
}

static int label_of(dt_cifar kind, int i)
{
    return kind == DT_CIFAR10 ? i % 10 : kind == DT_CIFAR100_FINE ? i * 7 % 100 : i % 20;
}

/* Whether the dataset holds images first, first + 1, ... */
static void assert_holds(const dt_dataset *d, dt_cifar kind, int first, int count)
{
    ck_assert_int_eq(dt_dataset_count(d), count);
    ck_assert_int_eq(dt_dataset_channels(d), 3);
    ck_assert_int_eq(dt_dataset_height(d), 32);
    ck_assert_int_eq(dt_dataset_width(d), 32);
    ck_assert_int_eq(dt_dataset_target(d), DT_TARGET_CLASS);
    size_t size;
    uint8_t *bytes = records(1, first, count, &size);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(dt_dataset_label(d, i), label_of(kind, first + i));
        ck_assert_mem_eq(dt_dataset_image(d, i), bytes + i * (1 + PIXELS) + 1, PIXELS);
    }
    free(bytes);
}

/* ---- good files ---------------------------------------------------------------------------- */

START_TEST(kinds)
{
    static const int classes[] = { 10, 100, 20 };
    const dt_cifar kind = (dt_cifar)(_i / 2);
    char folder[TEST_PATH], first[TEST_PATH], second[TEST_PATH];
    test_folder(folder);
    test_join(first, folder, _i % 2 == 0 ? "a.bin" : "a.bin.gz");
    test_join(second, folder, "b.bin");
    write_records(first, kind == DT_CIFAR10 ? 1 : 2, 0, 47);
    write_records(second, kind == DT_CIFAR10 ? 1 : 2, 47, 3);
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_cifar_read(ctx, kind, &(dt_strings){ 2, { first, second } }, &d));
    assert_holds(d, kind, 0, 50);
    ck_assert_int_eq(dt_dataset_classes(d), classes[kind]);
    dt_dataset_free(d);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

typedef struct opened {
    dt_dataset *train, *validation, *test;
} opened;

static void opened_free(opened *d)
{
    dt_dataset_free(d->train);
    dt_dataset_free(d->validation);
    dt_dataset_free(d->test);
}

static const char *in(char path[TEST_PATH], const char *folder, const char *name)
{
    test_join(path, folder, name);
    return path;
}

/* The usual names, one of them gzip; other names; missing files. */
START_TEST(recipe_cifar10)
{
    char folder[TEST_PATH], path[TEST_PATH], name[32];
    test_folder(folder);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin%s", i + 1, i == 3 ? ".gz" : "");
        write_records(in(path, folder, name), 1, 4 * i, 4);
    }
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_CIFAR10;
    o.dir = folder;
    o.validation = 0.25;
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    assert_holds(d.train, DT_CIFAR10, 0, 15);
    assert_holds(d.validation, DT_CIFAR10, 15, 5);
    ck_assert_ptr_null(d.test);
    opened_free(&d);
    write_records(in(path, folder, "test_batch.bin"), 1, 20, 6);
    o.train = (dt_strings){ 2, { "data_batch_2.bin", "data_batch_4.bin.gz" } };
    o.validation = 0;
    o.train_count = 5;
    o.test_count = 2;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_count(d.train), 5);
    ck_assert_int_eq(dt_dataset_label(d.train, 4), 12 % 10);
    assert_holds(d.test, DT_CIFAR10, 20, 2);
    opened_free(&d);
    o.train_count = 9;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.train_count is 9",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    o.train_count = 0;
    o.test = (dt_strings){ 1, { "nothing.bin" } };
    TEST_FAILS(ctx, DT_ERR_IO, "nothing.bin",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    o.dir = "/nowhere";
    o.train.n = 0;
    TEST_FAILS(ctx, DT_ERR_IO, "/nowhere/data_batch_1.bin: cannot open",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(recipe_cifar100)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    write_records(in(path, folder, "train.bin"), 2, 0, 12);
    write_records(in(path, folder, "test.bin.gz"), 2, 12, 4);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_CIFAR100;
    o.dir = folder;
    o.mean = (dt_reals){ 3, { 0.5, 0.4, 0.3 } };
    opened d;
    for (int labels = 0; labels < 2; labels++) {
        const dt_cifar kind = labels == 0 ? DT_CIFAR100_FINE : DT_CIFAR100_COARSE;
        o.labels = labels;
        TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
        assert_holds(d.train, kind, 0, 12);
        assert_holds(d.test, kind, 12, 4);
        opened_free(&d);
    }
    o.mean.n = 2;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.mean: 2 numbers for images of 3 channels",
               dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- bad files ----------------------------------------------------------------------------- */

typedef struct bench {
    dt_ctx *ctx;
    char path[TEST_PATH];
    uint8_t *good;
    size_t size;
    int tried;
} bench;

static void bench_open(bench *b, int marks)
{
    char folder[TEST_PATH];
    *b = (bench){ .ctx = sample_context(1) };
    test_folder(folder);
    test_join(b->path, folder, "batch.bin");
    b->good = records(marks, 0, 2, &b->size);
}

static void bench_close(bench *b, const char *what)
{
    free(b->good);
    dt_ctx_free(b->ctx);
    printf("cifar: %d bad files: %s\n", b->tried, what);
}

/* Reads the file, which must fail with a message that contains its name and `text`. */
static void expect(bench *b, dt_cifar kind, dt_status code, const char *text)
{
    dt_dataset *d = (dt_dataset *)b;
    const dt_status status = dt_cifar_read(b->ctx, kind, &(dt_strings){ 1, { b->path } }, &d);
    const char *said = dt_error(b->ctx);
    TEST_EACH(status == code && d == NULL, "gave %s", dt_status_name(status));
    TEST_EACH(strstr(said, b->path) != NULL && strstr(said, text) != NULL, "says %s", said);
    TEST_EACH(dt_memory_of(b->ctx).used == 0, "leaks after %s", said);
    b->tried++;
}

START_TEST(truncated)
{
    bench b;
    bench_open(&b, 1);
    for (size_t n = 0; n < b.size; n += n < 4 || n > b.size - 4 ? 1 : 61) {
        if (n == 3073) continue;
        test_write_file(b.path, b.good, n);
        expect(&b, DT_CIFAR10, DT_ERR_FORMAT, "images of 3073 bytes each");
        write_gzip(b.path, b.good, n);
        expect(&b, DT_CIFAR10, DT_ERR_FORMAT, n == 0 ? "holds no images" : "breaks off: image ");
    }
    bench_close(&b, "cut in images, plain and gzip");
}
END_TEST

START_TEST(damaged_gzip)
{
    bench b;
    bench_open(&b, 1);
    memset(b.good + 1, 0, 3072);
    memset(b.good + 3074, 1, 3072);
    write_gzip(b.path, b.good, b.size);
    size_t size;
    uint8_t *packed = (uint8_t *)test_read_file(b.path, &size);
    for (size_t n = 2; n < size; n++) {
        test_write_file(b.path, packed, n);
        expect(&b, DT_CIFAR10, DT_ERR_FORMAT, "breaks off");
    }
    for (size_t n = size - 8; n < size; n++) { /* checksum and length */
        packed[n] ^= 16;
        test_write_file(b.path, packed, size);
        expect(&b, DT_CIFAR10, DT_ERR_FORMAT, "the gzip stream is damaged");
        packed[n] ^= 16;
    }
    free(packed);
    bench_close(&b, "gzip cut at every byte, wrong checksums");
}
END_TEST

/* A small file shall not fill the memory: 5500 black images are 16.9 MB, in 17 KB. */
START_TEST(gzip_is_no_bomb)
{
    const size_t size = (size_t)5500 * 3073;
    uint8_t *black = calloc(size, 1);
    ck_assert_ptr_nonnull(black);
    bench b;
    bench_open(&b, 1);
    write_gzip(b.path, black, size);
    expect(&b, DT_CIFAR10, DT_ERR_FORMAT, "unpack it first");
    free(black);
    bench_close(&b, "gzip of many zeros");
}
END_TEST

START_TEST(other_files)
{
    bench b;
    bench_open(&b, 2);
    test_write_file(b.path, b.good, b.size);
    expect(&b, DT_CIFAR10, DT_ERR_FORMAT, "3073 bytes each (is it CIFAR-100?)");
    test_write_file(b.path, b.good, 3073);
    expect(&b, DT_CIFAR100_FINE, DT_ERR_FORMAT, "3074 bytes each (is it CIFAR-10?)");
    b.good[0] = 20;
    test_write_file(b.path, b.good, b.size);
    expect(&b, DT_CIFAR100_FINE, DT_ERR_FORMAT, "coarse label 20 of image 0; 0 to 19");
    expect(&b, DT_CIFAR100_COARSE, DT_ERR_FORMAT, "coarse label 20 of image 0; 0 to 19");
    b.good[0] = 19;
    b.good[3074 + 1] = 100;
    test_write_file(b.path, b.good, b.size);
    expect(&b, DT_CIFAR100_COARSE, DT_ERR_FORMAT, "fine label 100 of image 1; 0 to 99");
    b.good[0] = 10;
    test_write_file(b.path, b.good, 3073);
    expect(&b, DT_CIFAR10, DT_ERR_FORMAT, "label 10 of image 0; 0 to 9 are labels of CIFAR-10");
    remove(b.path);
    expect(&b, DT_CIFAR10, DT_ERR_IO, "cannot open");
    strcpy(strrchr(b.path, '/'), "");
    expect(&b, DT_CIFAR10, DT_ERR_IO, "cannot read");
    dt_dataset *d = NULL;
    TEST_FAILS(b.ctx, DT_ERR_ARG, "a file",
               dt_cifar_read(b.ctx, DT_CIFAR10, &(dt_strings){ 0, { b.path } }, &d));
    TEST_FAILS(b.ctx, DT_ERR_ARG, "one of the kinds",
               dt_cifar_read(b.ctx, (dt_cifar)3, &(dt_strings){ 1, { b.path } }, &d));
    bench_close(&b, "the other kind, labels, no files");
}
END_TEST

static dt_status scenario(dt_ctx *ctx, void *user)
{
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_CIFAR100;
    o.dir = user;
    opened d;
    const dt_status status = dt_data_open(ctx, &o, &d.train, &d.validation, &d.test);
    opened_free(&d);
    return status;
}

START_TEST(memory_fails)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    write_records(in(path, folder, "train.bin.gz"), 2, 0, 12);
    write_records(in(path, folder, "test.bin"), 2, 12, 4);
    ck_assert_int_gt(test_every_allocation(scenario, folder), 10);
}
END_TEST

Suite *test_cifar_suite(void)
{
    Suite *s = suite_create("cifar");
    TCase *good = tcase_create("good");
    tcase_add_loop_test(good, kinds, 0, 6);
    tcase_add_test(good, recipe_cifar10);
    tcase_add_test(good, recipe_cifar100);
    suite_add_tcase(s, good);
    TCase *bad = tcase_create("bad");
    tcase_add_test(bad, truncated);
    tcase_add_test(bad, damaged_gzip);
    tcase_add_test(bad, gzip_is_no_bomb);
    tcase_add_test(bad, other_files);
    tcase_add_test(bad, memory_fails);
    suite_add_tcase(s, bad);
    return s;
}
