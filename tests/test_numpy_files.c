/* Files .npz and .npy as files of tensors: the arrays that were written, by name, or what is
 * wrong. */
#include "array_files.h"
#include "core/core.h"
#include "testing.h"

#include <detent/experimental/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_draws draws = { .usual = 40, .sanitized = 10 };

#define MOST 6

static const struct {
    const char *descr, *dtype;
    int width;
} kinds[] = {
    { "<f4", "F32", 4 }, { "<f8", "F64", 8 }, { "<f2", "F16", 2 }, { "|u1", "U8", 1 },
    { "|i1", "I8", 1 },  { "<i4", "I32", 4 }, { "<i8", "I64", 8 },
};

typedef struct array {
    char name[40];
    int kind, rank;
    int64_t dims[3];
    uint8_t data[512];
    size_t bytes;
} array;

static file_bytes draw(array *a, dt__stream *s, int i)
{
    char header[160], shape[80] = "";
    a->kind = (int)dt__random_below(s, DT__COUNT_OF(kinds));
    a->rank = (int)dt__random_below(s, 4);
    a->bytes = (size_t)kinds[a->kind].width;
    snprintf(a->name, sizeof a->name, i % 2 == 0 ? "layer/%d/kernel:0" : "b.%d", i);
    for (int k = 0; k < a->rank; k++) {
        a->dims[k] = (int64_t)dt__random_below(s, 5);
        a->bytes *= (size_t)a->dims[k];
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%d, ", (int)a->dims[k]);
    }
    for (size_t k = 0; k < a->bytes; k++) a->data[k] = (uint8_t)dt__random_below(s, 256);
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
             kinds[a->kind].descr, shape);
    return npy_file(1, header, a->data, a->bytes);
}

static void check(const dt_file *file, const array *a)
{
    const dt_file_entry *e = dt_file_find(file, a->name);
    TEST_EACH(e != NULL, "%s is not there", a->name);
    ck_assert_str_eq(e->dtype, kinds[a->kind].dtype);
    ck_assert_int_eq(e->rank, a->rank);
    for (int i = 0; i < a->rank; i++) ck_assert_int_eq(e->dims[i], a->dims[i]);
    ck_assert_uint_eq(e->bytes, a->bytes);
    ck_assert(a->bytes == 0 || memcmp(e->data, a->data, a->bytes) == 0);
}

START_TEST(arrays_come_back)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "a.file");
    for (int i = 0; i < test_count(draws); i++) {
        dt__stream s = dt__stream_of((uint64_t)i, DT__FOR_USER);
        array a[MOST];
        char names[MOST][48];
        zip_member m[MOST];
        dt_file *file;
        const int n = 1 + (int)dt__random_below(&s, MOST);
        for (int k = 0; k < n; k++) {
            m[k] = (zip_member){ names[k], draw(&a[k], &s, k), dt__random_below(&s, 2) ? 8 : 0 };
            snprintf(names[k], sizeof names[k], "%.39s.npy", a[k].name);
        }
        file_bytes zip = zip_file(m, n, i % 3 == 0);
        test_write_file(path, zip.v, zip.n);
        TEST_OK(ctx, dt_file_open(ctx, path, &file));
        ck_assert_int_eq(dt_file_count(file), n);
        for (int k = 0; k < n; k++) check(file, &a[k]);
        dt_file_close(file);
        test_write_file(path, m[0].bytes.v, m[0].bytes.n);
        TEST_OK(ctx, dt_file_open(ctx, path, &file));
        snprintf(a[0].name, sizeof a[0].name, "arr_0");
        check(file, &a[0]);
        dt_file_close(file);
        for (int k = 0; k < n; k++) file_free(&m[k].bytes);
        file_free(&zip);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(dt_ctx *ctx, const zip_member *m, int n, const char *says)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_file *file = NULL;
    test_folder(folder);
    test_join(path, folder, "a.npz");
    file_bytes zip = zip_file(m, n, 0);
    test_write_file(path, zip.v, zip.n);
    file_free(&zip);
    ck_assert_int_ne(dt_file_open(ctx, path, &file), DT_OK);
    ck_assert_ptr_null(file);
    TEST_EACH(strstr(dt_error(ctx), says) != NULL, "%s: %s", says, dt_error(ctx));
}

START_TEST(wrong_archives_are_refused)
{
    static const char floats[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, ), }";
    static const float v[2] = { 1, 2 };
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    file_bytes good = npy_file(1, floats, v, sizeof v);
    file_bytes words =
        npy_file(1, "{'descr': '<U2', 'fortran_order': False, 'shape': (1, ), }", v, sizeof v);
    file_bytes turned =
        npy_file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, ), }", v, sizeof v);
    file_bytes none = { 0 };
    file_text(&none, "no array");
    refused(ctx, (const zip_member[]){ { "a.npy", good, 0 }, { "a.npy", good, 8 } }, 2,
            "two arrays have the name 'a'");
    refused(ctx, (const zip_member[]){ { "a.npy", words, 0 } }, 1, "an array of words");
    refused(ctx, (const zip_member[]){ { "a.npy", turned, 0 } }, 1, "the order of Fortran");
    refused(ctx, (const zip_member[]){ { "a.npy", none, 0 } }, 1, "not a .npy file");
    refused(ctx, (const zip_member[]){ { "\xff.npy", good, 0 } }, 1, "not UTF-8");
    refused(ctx, (const zip_member[]){ { "net/data.pkl", none, 0 } }, 1, ".pt file of PyTorch");
    file_free(&good);
    file_free(&words);
    file_free(&turned);
    file_free(&none);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_numpy_files_suite(void)
{
    Suite *s = suite_create("numpy_files");
    TCase *c = tcase_create("files");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, arrays_come_back);
    tcase_add_test(c, wrong_archives_are_refused);
    suite_add_tcase(s, c);
    return s;
}
