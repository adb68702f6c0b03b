#include "core/block_list.h"
#include "io/numpy/numpy_file.h"

#include "core/text/byte_order.h"
#include "core/text/utf8.h"
#include "data/array_dtypes.h"
#include "data/files/array_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE "arr_0" /* name of an array that numpy.savez stores without one */
#define NPY "\x93NUMPY"
#define ZIP "PK\x03\x04"
#define ZIP_NAME 30 /* offset of the first entry's name in a zip archive */

bool dt__is_numpy(const dt_file *file)
{
    static const char ending[] = ".npy";
    const size_t m = sizeof ending - 1;
    if (file->size < 10) return false;
    if (memcmp(file->bytes, NPY, 6) == 0) return true;
    if (file->size < ZIP_NAME || memcmp(file->bytes, ZIP, 4) != 0) return false;
    const size_t n = dt__u16_at(file->bytes + 26);
    return n > m && n <= file->size - ZIP_NAME &&
           memcmp(file->bytes + ZIP_NAME + n - m, ending, m) == 0;
}

static dt_status check(const dt__array_file *a, const char *name, size_t n)
{
    char text[DT__SHOWN / 2];
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text), name);
    char shown[DT__SHOWN];
    if (memchr(name, 0, n) != NULL || !dt__is_utf8_of(name, n)) {
        return dt__array_fail(a, DT_ERR_FORMAT, "the name of an array is not UTF-8");
    }
    if (a->text == 0) return DT_OK;
    return dt__array_fail(a, DT_ERR_UNSUPPORTED, "'%s' is an array of words; expected numbers",
                          dt__shown(text, shown));
}

/* Copies the numbers, converted to this machine's byte order. */
static void copy_numbers(const dt__array_file *a, size_t bytes, void *to)
{
    const size_t width = (size_t)dt__array_dtype_of(a->dtype)->bytes;
    if (bytes == 0) return;
    if (DT__BIG_ENDIAN) dt__reverse_elements(to, a->data, bytes, width);
    else memcpy(to, a->data, bytes);
}

static dt_status add(void *user, const char *name, size_t n, const dt__array_file *a)
{
    dt_file *file = user;
    size_t bytes;
    DT__TRY(check(a, name, n));
    DT__TRY(DT__RESERVE(file->ctx, file->entry, file->count, file->capacity));
    dt_file_entry *e = &file->entry[file->count];
    if (!dt__array_bytes(a, &bytes)) return DT_ERR_NOMEM;
    char *text = dt__block_list_add(file->ctx, &file->arena, n + 1);
    int64_t *dims = dt__block_list_add(file->ctx, &file->arena, sizeof a->dims);
    void *data = dt__block_list_add(file->ctx, &file->arena, bytes);
    if (text == NULL || dims == NULL || data == NULL) return DT_ERR_NOMEM;
    memcpy(text, name, n);
    text[n] = 0;
    memcpy(dims, a->dims, sizeof a->dims);
    copy_numbers(a, bytes, data);
    *e = (dt_file_entry){ .name = text,
                          .dtype = dt__array_dtype_of(a->dtype)->in_file,
                          .rank = a->rank,
                          .dims = dims,
                          .bytes = bytes,
                          .data = data };
    dt__product(e->rank, e->dims, &e->count);
    file->count++;
    return DT_OK;
}

static dt_status add_alone(dt_file *file, dt__array_file *a)
{
    DT__TRY(dt__npy_open(a));
    const dt_status s = add(file, ALONE, strlen(ALONE), a);
    dt__storage_release(a->source.storage);
    return s;
}

static dt_status sort(dt_file *file)
{
    char shown[DT__SHOWN];
    file->by_name = dt__alloc_array(file->ctx, file->count, sizeof *file->by_name);
    if (file->by_name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->entry[i];
    if (file->count > 0) {
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, dt__by_entry_name);
    }
    for (int64_t i = 1; i < file->count; i++) {
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) != 0) continue;
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: two arrays have the name '%s'", file->path,
                       dt__shown(file->by_name[i]->name, shown));
    }
    return DT_OK;
}

dt_status dt__numpy_read(dt_file *file)
{
    dt__array_file a = { .ctx = file->ctx,
                         .name = file->path,
                         .bytes = (uint8_t *)(uintptr_t)file->bytes,
                         .size = file->size };
    if (memcmp(file->bytes, NPY, 6) == 0) DT__TRY(add_alone(file, &a));
    else DT__TRY(dt__npz_each(&a, add, file));
    return sort(file);
}
