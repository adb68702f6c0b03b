/* Writing safetensors files: written files read back equal, the same content gives the same bytes,
 * and a write that fails leaves the old file and no other. */
#define _XOPEN_SOURCE 700 /* seteuid */
#include "core/text/byte_order.h"
#include "testing.h"

#include <detent/experimental/io.h>

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static dt_ctx *make_context(void)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    return ctx;
}

static void free_context(dt_ctx *ctx)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

static int count_files(const char *folder)
{
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    int n = -2; /* . and .. */
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

static const dt_file_entry entries[] = {
    { .name = "b", .dtype = "I8", .rank = 1, .dims = (const int64_t[]){ 3 }, .data = "\1\2\3" },
    { .name = "", .dtype = "U8", .rank = 1, .dims = (const int64_t[]){ 2 }, .data = "xy" },
    { .name = "scalar", .dtype = "BF16", .rank = 0, .data = "\x80\x3f" },
    { .name = "quote\"\\\n\x01 \xf0\x9f\x98\x80/",
      .dtype = "F32",
      .rank = 9,
      .dims = (const int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 },
      .data = "1234" },
    { .name = "wide",
      .dtype = "I64",
      .rank = 1,
      .dims = (const int64_t[]){ 1 },
      .data = "12345678" },
    { .name = "none", .dtype = "F64", .rank = 3, .dims = (const int64_t[]){ 3, 0, 7 } },
    { .name = "small", .dtype = "F4", .rank = 1, .dims = (const int64_t[]){ 6 }, .data = "abc" },
    { .name = "a", .dtype = "F16", .rank = 2, .dims = (const int64_t[]){ 1, 1 }, .data = "\0\x3c" },
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

/* All entries and two pairs of metadata, forwards or backwards. */
static dt_status fill(dt_writer *w, bool backwards)
{
    dt_status status = DT_OK;
    for (int i = 0; i < ENTRIES && status == DT_OK; i++) {
        status = dt_writer_add_bytes(w, &entries[backwards ? ENTRIES - 1 - i : i]);
    }
    if (status == DT_OK) status = dt_writer_meta(w, backwards ? "z" : "a\t", backwards ? "" : "\"");
    if (status == DT_OK) status = dt_writer_meta(w, backwards ? "a\t" : "z", backwards ? "\"" : "");
    return status;
}

static void write_all(dt_ctx *ctx, const char *path, bool backwards)
{
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, fill(w, backwards));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
}

/* ---- content -------------------------------------------------------------------------------- */

static void check_all(const dt_file *file)
{
    ck_assert_int_eq(dt_file_count(file), ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        const dt_file_entry *e = dt_file_find(file, entries[i].name);
        ck_assert_msg(e != NULL, "'%s' is lost", entries[i].name);
        ck_assert_str_eq(e->dtype, entries[i].dtype);
        ck_assert_int_eq(e->rank, entries[i].rank);
        for (int k = 0; k < e->rank; k++) ck_assert_int_eq(e->dims[k], entries[i].dims[k]);
        ck_assert(e->bytes == 0 || memcmp(e->data, entries[i].data, e->bytes) == 0);
    }
    ck_assert_int_eq(dt_file_meta_count(file), 4);
    ck_assert_str_eq(dt_file_meta(file, "a\t"), "\"");
    ck_assert_str_eq(dt_file_meta(file, "z"), "");
    ck_assert_str_eq(dt_file_meta(file, "detent.version"), dt_version());
    ck_assert_ptr_null(dt_file_meta(file, "y"));
    const char *key, *value;
    ck_assert(!dt_file_meta_at(file, -1, &key, &value) && !dt_file_meta_at(file, 4, &key, &value));
    ck_assert(dt_file_at(file, -1) == NULL && dt_file_at(file, ENTRIES) == NULL);
}

START_TEST(written_files_read_back)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    write_all(ctx, path, false);
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_check(file));
    check_all(file);
    for (int i = 0; i < ENTRIES; i++) { /* aligned to the element */
        const dt_file_entry *e = dt_file_at(file, i);
        const size_t size = e->count == 0 ? 8 : e->bytes / (size_t)e->count;
        if (size > 0) ck_assert_uint_eq((uintptr_t)e->data % size, 0);
    }
    dt_file_close(file);
    ck_assert_int_eq(count_files(folder), 1);
    free_context(ctx);
}
END_TEST

START_TEST(the_same_content_gives_the_same_bytes)
{
    char folder[TEST_PATH], path[2][TEST_PATH], *bytes[2];
    size_t size[2];
    test_folder(folder);
    dt_ctx *ctx = make_context();
    for (int i = 0; i < 2; i++) {
        test_join(path[i], folder, i == 0 ? "one" : "two");
        write_all(ctx, path[i], i == 1);
        bytes[i] = test_read_file(path[i], &size[i]);
    }
    ck_assert_uint_eq(size[0], size[1]);
    ck_assert_mem_eq(bytes[0], bytes[1], size[0]);
    /* The hash by its definition, over all bytes at once. */
    char *key = strstr(bytes[0] + 8, "\"detent.xxh3\":\"");
    ck_assert_ptr_nonnull(key);
    char *digits = key + strlen("\"detent.xxh3\":\""), want[17];
    memset(digits, '0', 16);
    snprintf(want, sizeof want, "%016llx", (unsigned long long)XXH3_64bits(bytes[0], size[0]));
    ck_assert_mem_eq(bytes[1] + (digits - bytes[0]), want, 16);
    free(bytes[0]);
    free(bytes[1]);
    free_context(ctx);
}
END_TEST

/* Properties that other readers rely on: header length a multiple of 8, JSON, spaces. */
START_TEST(the_bytes_of_a_file)
{
    static const char want[] =
        "\xb0\0\0\0\0\0\0\0{\"__metadata__\":{\"detent.version\":\"0.1.0\",\"detent.xxh3\":\"";
    static const char rest[] = "\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}";
    static const uint32_t words[] = { 0x34333231, 0x38373635 };
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx,
            dt_writer_add_bytes(w, &(dt_file_entry){ .name = "b", .dtype = "U8", .data = "!" }));
    TEST_OK(ctx, dt_writer_add_bytes(w, &(dt_file_entry){ .name = "w",
                                                          .dtype = "F32",
                                                          .rank = 1,
                                                          .dims = (const int64_t[]){ 2 },
                                                          .data = words }));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    size_t size;
    char *bytes = test_read_file(path, &size);
    const size_t header = 8 + (size_t)(unsigned char)bytes[0];
    ck_assert_uint_eq(header % 8, 0);
    ck_assert_mem_eq(bytes + 1, want + 1, sizeof want - 2);
    ck_assert_mem_eq(bytes + sizeof want - 1 + 16, rest, sizeof rest - 1);
    for (size_t i = sizeof want - 1 + 16 + sizeof rest - 1; i < header; i++) {
        ck_assert_int_eq(bytes[i], ' ');
    }
    ck_assert_uint_eq(size, header + 9);
    ck_assert_mem_eq(bytes + header, "12345678!", 9);
    free(bytes);
    free_context(ctx);
}
END_TEST

START_TEST(tensors_come_back)
{
    char folder[TEST_PATH], path[TEST_PATH], name[16];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    const int64_t dims[DT_MAX_RANK] = { 2, 1, 3, 2, 1, 2, 1, 2 };
    dt_tensor *x[DT_BOOL + 1];
    for (int d = 0; d <= DT_BOOL; d++) {
        const int rank = d + 2 > 8 ? 8 : d + 2;
        TEST_OK(ctx, dt_tensor_create(ctx, (dt_dtype)d, rank, dims, &x[d]));
        TEST_OK(ctx, dt_fill(x[d], 1 + (d != DT_BOOL) * d));
        snprintf(name, sizeof name, "t%d", d);
        TEST_OK(ctx, dt_writer_add(w, name, x[d]));
    }
    /* The values at the time of the write; a row of a tensor is contiguous. */
    dt_tensor *row;
    TEST_OK(ctx, dt_tensor_narrow(x[DT_F32], 0, 1, 1, &row));
    TEST_OK(ctx, dt_writer_add(w, "row", row));
    ((float *)dt_data_mut(row))[0] = 42;
    dt_tensor_free(row);
    dt_tensor *table, *column; /* a column is not: its values are copied now */
    const float numbers[] = { 1, 2, 3, 4, 5, 6 };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ 3, 2 }, numbers, &table));
    TEST_OK(ctx, dt_tensor_narrow(table, 1, 1, 1, &column));
    TEST_OK(ctx, dt_writer_add(w, "column", column));
    dt_tensor_free(column);
    dt_tensor_free(table);
    for (int d = 0; d <= DT_BOOL; d++) dt_tensor_free(x[d]);
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);

    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    for (int d = 0; d <= DT_BOOL; d++) {
        snprintf(name, sizeof name, "t%d", d);
        dt_tensor *y;
        TEST_OK(ctx, dt_file_load(file, name, (dt_dtype)d, &y));
        ck_assert_int_eq(dt_rank(y), d + 2 > 8 ? 8 : d + 2);
        const char *p = dt_data(y);
        const size_t n = dt_dtype_size((dt_dtype)d);
        if (d != DT_F32) ck_assert_mem_eq(p, p + n, n);
        dt_tensor_free(y);
    }
    dt_tensor *y;
    TEST_OK(ctx, dt_file_load(file, "row", DT_F32, &y));
    ck_assert(dt_item(y) == 42);
    dt_tensor_free(y);
    TEST_OK(ctx, dt_file_load(file, "column", DT_F32, &y));
    ck_assert_mem_eq(dt_data(y), ((const float[]){ 2, 4, 6 }), 3 * sizeof(float));
    dt_tensor_free(y);
    dt_file_close(file);
    free_context(ctx);
}
END_TEST

/* A file copied entry by entry, over itself: its mapping stays what it was. */
START_TEST(a_file_is_rewritten_from_itself)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    write_all(ctx, path, false);
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; i < dt_file_count(file); i++) {
        TEST_OK(ctx, dt_writer_add_bytes(w, dt_file_at(file, i)));
    }
    TEST_OK(ctx, dt_writer_meta(w, "a\t", "\""));
    TEST_OK(ctx, dt_writer_meta(w, "z", ""));
    for (int i = 0; i < 2; i++) TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    check_all(file);
    dt_file_close(file);
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_check(file));
    check_all(file);
    dt_file_close(file);
    free_context(ctx);
}
END_TEST

/* ---- what the caller gets wrong ----------------------------------------------------------------
 */

START_TEST(invalid_files_are_not_written)
{
    const int64_t negative[] = { -1 }, large[] = { INT64_MAX, 2 }, one[] = { 1 }, odd[] = { 3 };
    const struct {
        dt_file_entry entry;
        dt_status status;
        const char *says;
    } cases[] = {
        { { .name = NULL }, DT_ERR_ARG, "NULL" },
        { { .name = "\xff" }, DT_ERR_ARG, "not UTF-8" },
        { { .name = "__metadata__" }, DT_ERR_ARG, "__metadata__" },
        { { .name = "a" }, DT_ERR_DTYPE, "'a'" },
        { { .name = "a", .dtype = "f32" }, DT_ERR_DTYPE, "'f32'" },
        { { .name = "a", .dtype = "U8", .rank = -1 }, DT_ERR_ARG, "'a'" },
        { { .name = "a", .dtype = "U8", .rank = 1 }, DT_ERR_ARG, "'a'" },
        { { .name = "a", .dtype = "U8", .rank = 1, .dims = negative }, DT_ERR_ARG, "negative" },
        { { .name = "a", .dtype = "U8", .rank = 2, .dims = large }, DT_ERR_ARG, "too large" },
        { { .name = "a", .dtype = "F64", .rank = 1, .dims = large }, DT_ERR_ARG, "too large" },
        { { .name = "a", .dtype = "F4", .rank = 1, .dims = odd }, DT_ERR_ARG, "no whole bytes" },
        { { .name = "a", .dtype = "U8", .rank = 1, .dims = one }, DT_ERR_ARG, "no data" },
    };
    dt_ctx *ctx = make_context();
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TEST_FAILS(ctx, cases[i].status, cases[i].says, dt_writer_add_bytes(w, &cases[i].entry));
    }
    TEST_OK(ctx, dt_writer_meta(w, "k", "v"));
    TEST_FAILS(ctx, DT_ERR_ARG, "'k' was given", dt_writer_meta(w, "k", "v"));
    TEST_FAILS(ctx, DT_ERR_ARG, "the writer", dt_writer_meta(w, "detent.xxh3", "v"));
    TEST_FAILS(ctx, DT_ERR_ARG, "the writer", dt_writer_meta(w, "detent.version", "v"));
    TEST_FAILS(ctx, DT_ERR_ARG, "not UTF-8", dt_writer_meta(w, "l", "\xc3"));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_writer_meta(w, NULL, "v"));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_writer_meta(w, "l", NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_writer_write(w, NULL));
    dt_writer_free(w);
    dt_writer_free(NULL);
    free_context(ctx);
}
END_TEST

START_TEST(invalid_tensors_are_not_written)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    dt_writer *w;
    dt_tensor *x, *opaque;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 2, 2 }, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I4, 1, (const int64_t[]){ 2 }, &opaque));
    TEST_FAILS(ctx, DT_ERR_STATE, "'o' must be dense", dt_writer_add(w, "o", opaque));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_writer_add(w, NULL, x));
    TEST_OK(ctx, dt_writer_add(w, "x", x));
    TEST_OK(ctx, dt_writer_add(w, "x", x));
    TEST_FAILS(ctx, DT_ERR_ARG, "two tensors are named 'x'", dt_writer_write(w, path));
    ck_assert_int_eq(count_files(folder), 0);
    dt_writer_free(w);
    dt_tensor_free(opaque);
    dt_tensor_free(x);
    free_context(ctx);
}
END_TEST

/* ---- what the system refuses -------------------------------------------------------------------
 */

static dt_status try_write(dt_ctx *ctx, const char *path)
{
    dt_writer *w;
    dt_status status = dt_writer_create(ctx, &w);
    if (status == DT_OK) status = fill(w, false);
    if (status == DT_OK) status = dt_writer_write(w, path);
    dt_writer_free(w);
    return status;
}

START_TEST(unwritable_paths_are_refused)
{
    char folder[TEST_PATH], path[TEST_PATH], text[5000];
    test_folder(folder);
    dt_ctx *ctx = make_context();
    test_join(path, folder, "none/file");
    TEST_FAILS(ctx, DT_ERR_IO, "No such file", try_write(ctx, path));
    test_join(path, folder, "file");
    test_write_text(path, "old");
    test_join(path, folder, "file/file");
    TEST_FAILS(ctx, DT_ERR_IO, "Not a directory", try_write(ctx, path));
    test_join(path, folder, "new/");
    TEST_FAILS(ctx, DT_ERR_IO, "cannot write", try_write(ctx, path));
    TEST_FAILS(ctx, DT_ERR_IO, "it is not a regular file", try_write(ctx, folder));
    TEST_FAILS(ctx, DT_ERR_IO, "it is not a regular file", try_write(ctx, "/dev/null"));
    TEST_FAILS(ctx, DT_ERR_IO, "cannot write", try_write(ctx, ""));
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    TEST_FAILS(ctx, DT_ERR_IO, "too long", try_write(ctx, text));
    struct stat about;
    ck_assert(stat("/dev/null", &about) == 0 && S_ISCHR(about.st_mode));
    test_join(path, folder, "link");
    ck_assert_int_eq(symlink("nowhere", path), 0);
    TEST_FAILS(ctx, DT_ERR_IO, "follow the link", try_write(ctx, path));
    ck_assert_int_eq(count_files(folder), 2);
    free_context(ctx);
}
END_TEST

/* A disk that fills up: the old file stays, the new one leaves nothing behind. */
START_TEST(no_room)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file");
    test_write_text(path, "old");
    dt_ctx *ctx = make_context();
    for (int64_t n = 0; n < 500; n += 50) {
        const bool limited = test_limit_files(n);
        const dt_status status = try_write(ctx, path);
        ck_assert(test_limit_files(-1) && limited);
        ck_assert_msg(status == DT_ERR_IO && strstr(dt_error(ctx), "too large") != NULL, "%s",
                      dt_error(ctx));
        ck_assert_int_eq(count_files(folder), 1);
        char *text = test_read_file(path, NULL);
        ck_assert_str_eq(text, "old");
        free(text);
    }
    TEST_OK(ctx, try_write(ctx, path));
    free_context(ctx);
}
END_TEST

/* Root may write everywhere, so the test becomes another user for a while; the paths are short
 * because that user cannot search all parent folders. */
START_TEST(a_folder_without_write_permission)
{
    char folder[TEST_PATH], before[TEST_PATH];
    test_folder(folder);
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    test_write_text("file", "old");
    ck_assert_int_eq(chmod(".", 0555), 0);
    if (geteuid() == 0) ck_assert_int_eq(seteuid(65534), 0);
    dt_ctx *ctx = make_context();
    TEST_FAILS(ctx, DT_ERR_IO, "Permission denied", try_write(ctx, "file"));
    TEST_FAILS(ctx, DT_ERR_IO, "Permission denied", try_write(ctx, "new"));
    char *text = test_read_file("file", NULL);
    ck_assert_str_eq(text, "old");
    free(text);
    ck_assert_int_eq(count_files("."), 1);
    free_context(ctx);
    if (geteuid() == 65534) ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(chmod(".", 0755), 0);
    ck_assert_int_eq(chdir(before), 0);
}
END_TEST

START_TEST(links_and_permissions_stay)
{
    char folder[TEST_PATH], path[TEST_PATH], link[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file");
    test_join(link, folder, "link");
    test_write_text(path, "old");
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(symlink("file", link), 0);
    dt_ctx *ctx = make_context();
    TEST_OK(ctx, try_write(ctx, link));
    struct stat about;
    ck_assert(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
    ck_assert(lstat(path, &about) == 0 && S_ISREG(about.st_mode) &&
              (about.st_mode & 07777) == 0640);
    const mode_t mask = umask(027);
    test_join(path, folder, "new");
    TEST_OK(ctx, try_write(ctx, path));
    umask(mask);
    ck_assert(lstat(path, &about) == 0 && (about.st_mode & 07777) == 0640);
    ck_assert_int_eq(count_files(folder), 3);
    free_context(ctx);
}
END_TEST

/* ---- memory that fails -------------------------------------------------------------------------
 */

typedef struct place {
    char folder[TEST_PATH], path[TEST_PATH];
} place;

static void check_old_or_new(const place *at, dt_status status)
{
    ck_assert_int_eq(count_files(at->folder), 1);
    char *text = test_read_file(at->path, NULL);
    ck_assert_msg((strcmp(text, "old") == 0) == (status != DT_OK), "%s", dt_status_name(status));
    free(text);
    test_write_text(at->path, "old");
}

static dt_status write_with_tensor(dt_ctx *ctx, void *user)
{
    const place *at = user;
    dt_writer *w;
    dt_tensor *x = NULL;
    dt_status status = dt_writer_create(ctx, &w);
    if (status == DT_OK) status = fill(w, false);
    if (status == DT_OK) status = dt_tensor_create(ctx, DT_F32, 0, NULL, &x);
    if (status == DT_OK) status = dt_writer_add(w, "x", x);
    if (status == DT_OK) status = dt_writer_write(w, at->path);
    dt_tensor_free(x);
    dt_writer_free(w);
    check_old_or_new(at, status);
    return status;
}

START_TEST(every_allocation_fails)
{
    place at;
    test_folder(at.folder);
    test_join(at.path, at.folder, "file");
    test_write_text(at.path, "old");
    ck_assert_int_gt(test_every_allocation(write_with_tensor, &at), 20);
}
END_TEST

START_TEST(every_malloc_fails)
{
    if (!test_malloc_can_fail()) return;
    place at;
    test_folder(at.folder);
    test_join(at.path, at.folder, "file");
    test_write_text(at.path, "old");
    dt_ctx *ctx = make_context();
    int64_t n = 1, calls;
    do {
        test_malloc_fail_at(n);
        const dt_status status = try_write(ctx, at.path);
        calls = test_malloc_calls();
        test_malloc_fail_at(0);
        ck_assert_msg(status == DT_OK || status == DT_ERR_NOMEM || status == DT_ERR_IO, "%s",
                      dt_error(ctx));
        check_old_or_new(&at, status);
    } while (n++ <= calls);
    free_context(ctx);
}
END_TEST

/* What a big-endian machine does with each tensor; the preset s390x runs it. */
START_TEST(elements_in_reverse)
{
    const unsigned char from[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const unsigned char want[4][8] = { { 1, 2, 3, 4, 5, 6, 7, 8 },
                                              { 2, 1, 4, 3, 6, 5, 8, 7 },
                                              { 4, 3, 2, 1, 8, 7, 6, 5 },
                                              { 8, 7, 6, 5, 4, 3, 2, 1 } };
    unsigned char to[8];
    for (int i = 0; i < 4; i++) {
        dt__reverse_elements(to, from, sizeof from, (size_t)1 << i);
        ck_assert_mem_eq(to, want[i], sizeof to);
    }
}
END_TEST

Suite *test_safetensors_write_suite(void)
{
    Suite *s = suite_create("safetensors_write");
    TCase *c = tcase_create("write");
    tcase_add_test(c, written_files_read_back);
    tcase_add_test(c, the_same_content_gives_the_same_bytes);
    tcase_add_test(c, the_bytes_of_a_file);
    tcase_add_test(c, tensors_come_back);
    tcase_add_test(c, a_file_is_rewritten_from_itself);
    tcase_add_test(c, invalid_files_are_not_written);
    tcase_add_test(c, invalid_tensors_are_not_written);
    tcase_add_test(c, unwritable_paths_are_refused);
    tcase_add_test(c, no_room);
    tcase_add_test(c, a_folder_without_write_permission);
    tcase_add_test(c, links_and_permissions_stay);
    tcase_add_test(c, every_allocation_fails);
    tcase_add_test(c, every_malloc_fails);
    tcase_add_test(c, elements_in_reverse);
    suite_add_tcase(s, c);
    return s;
}
