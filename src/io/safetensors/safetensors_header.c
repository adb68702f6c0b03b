/* The header of a safetensors file:
 *
 *     header   = { "__metadata__": { key: text, ... }, name: tensor, ... }  spaces
 *     tensor   = { "dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end] }
 *
 * Further rules: names and keys are unique; end - begin is the size that dtype and shape need; the
 * tensors cover the data from first to last byte without gaps or overlap. */
#include "core/text/row_named.h"
#include "core/comparisons.h"
#include "io/safetensors/safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int dt__by_entry_name(const void *left, const void *right)
{
    const dt_file_entry *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static const dt__file_dtype dtypes[] = {
    { "F32", 32 },    { "F16", 16 },        { "BF16", 16 },       { "F64", 64 },
    { "I64", 64 },    { "I32", 32 },        { "I16", 16 },        { "I8", 8 },
    { "U64", 64 },    { "U32", 32 },        { "U16", 16 },        { "U8", 8 },
    { "BOOL", 8 },    { "C64", 64 },        { "F8_E5M2", 8 },     { "F8_E4M3", 8 },
    { "F8_E8M0", 8 }, { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "F6_E2M3", 6 },
    { "F6_E3M2", 6 }, { "F4", 4 },
};

const dt__file_dtype *dt__file_dtype_of(const char *name) { return DT__ROW_NAMED(dtypes, name); }

bool dt__file_bytes(const dt__file_dtype *dtype, int64_t count, size_t *bytes)
{
    const uint64_t n = (uint64_t)count, bits = (uint64_t)dtype->bits;
    if (n > UINT64_MAX / bits || n * bits % 8 != 0) return false;
    return dt__mul_size(n * bits / 8, 1, bytes);
}

const char *dt__file_dtype_name(dt_dtype dtype)
{
    static const char *const names[] = {
        [DT_F32] = "F32", [DT_F64] = "F64", [DT_I32] = "I32",   [DT_I64] = "I64",
        [DT_U8] = "U8",   [DT_I8] = "I8",   [DT_BOOL] = "BOOL",
    };
    return (int)dtype >= 0 && (int)dtype < DT__COUNT_OF(names) ? names[dtype] : NULL;
}

/* ---- one tensor --------------------------------------------------------------------------- */

typedef struct tensor {
    const char *name;
    const dt__file_dtype *dtype; /* NULL: not read yet */
    int64_t rank;                /* -1: not read yet */
    int64_t begin, end;          /* -1: not read yet */
} tensor;

static dt_status read_dtype(dt_file *file, dt__json *j, tensor *t)
{
    (void)file;
    const char *name;
    char text[DT__SHOWN];
    DT__TRY(dt__json_string(j, &name));
    t->dtype = dt__file_dtype_of(name);
    if (t->dtype == NULL) return dt__json_fail(j, "unknown dtype '%s'", dt__shown(name, text));
    return DT_OK;
}

static dt_status read_shape(dt_file *file, dt__json *j, tensor *t)
{
    t->rank = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        DT__TRY(DT__RESERVE(file->ctx, file->dims, file->dims_count, file->dims_capacity));
        DT__TRY(dt__json_integer(j, &file->dims[file->dims_count]));
        file->dims_count++;
        t->rank++;
    }
    return j->status;
}

static dt_status read_offsets(dt_file *file, dt__json *j, tensor *t)
{
    (void)file;
    DT__TRY(dt__json_expect(j, '['));
    DT__TRY(dt__json_integer(j, &t->begin));
    DT__TRY(dt__json_expect(j, ','));
    DT__TRY(dt__json_integer(j, &t->end));
    return dt__json_expect(j, ']');
}

static const struct {
    const char *key;
    dt_status (*read)(dt_file *file, dt__json *j, tensor *t);
} parts[] = {
    { "dtype", read_dtype },
    { "shape", read_shape },
    { "data_offsets", read_offsets },
};

static dt_status read_part(dt_file *file, dt__json *j, tensor *t, unsigned *seen)
{
    const char *key;
    char text[DT__SHOWN];
    DT__TRY(dt__json_string(j, &key));
    for (int i = 0; i < DT__COUNT_OF(parts); i++) {
        if (strcmp(parts[i].key, key) != 0) continue;
        if ((*seen & 1u << i) != 0) return dt__json_fail(j, "'%s' occurs twice", key);
        *seen |= 1u << i;
        DT__TRY(dt__json_expect(j, ':'));
        return parts[i].read(file, j, t);
    }
    return dt__json_fail(j, "a tensor has dtype, shape and data_offsets, and no '%s'",
                         dt__shown(key, text));
}

/* Checks the rules for a single tensor, and appends it to the entries. */
static dt_status add_entry(dt_file *file, const dt__json *j, const tensor *t)
{
    const int64_t size = (int64_t)(file->size - file->data_at);
    const int64_t *dims = file->dims == NULL ? NULL : file->dims + (file->dims_count - t->rank);
    int64_t count;
    size_t bytes;
    if (t->rank > INT_MAX || !dt__product((int)t->rank, dims, &count) ||
        !dt__file_bytes(t->dtype, count, &bytes)) {
        return dt__json_fail(j, "shape and dtype give no size: too large, or no whole bytes");
    }
    if (t->end < t->begin) return dt__json_fail(j, "data_offsets end before they begin");
    if (t->end > size) {
        return dt__json_fail(j,
                             "data_offsets end at %lld, beyond the data's %lld bytes: the file is "
                             "cut short, it has %zu bytes of at least %llu",
                             (long long)t->end, (long long)size, file->size,
                             (unsigned long long)file->data_at + (unsigned long long)t->end);
    }
    if ((size_t)(t->end - t->begin) != bytes) {
        return dt__json_fail(j, "data_offsets span %lld bytes, but dtype and shape need %zu",
                             (long long)(t->end - t->begin), bytes);
    }
    DT__TRY(DT__RESERVE(file->ctx, file->entry, file->count, file->capacity));
    file->entry[file->count++] = (dt_file_entry){
        .name = t->name,
        .dtype = t->dtype->name,
        .rank = (int)t->rank,
        .count = count,
        .bytes = bytes,
        .data = file->bytes + file->data_at + t->begin,
    };
    return DT_OK;
}

static dt_status read_tensor(dt_file *file, dt__json *j, const char *name)
{
    tensor t = { .name = name, .rank = -1, .begin = -1, .end = -1 };
    unsigned seen = 0;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(read_part(file, j, &t, &seen));
    }
    DT__TRY(j->status);
    for (int i = 0; i < DT__COUNT_OF(parts); i++) {
        if ((seen & 1u << i) == 0) return dt__json_fail(j, "'%s' is missing", parts[i].key);
    }
    return add_entry(file, j, &t);
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* After the value of detent.xxh3: remembers the offset of its digits, if they are written
 * unescaped. */
static void note_hash(dt_file *file, const dt__json *j, const char *value)
{
    if (strlen(value) != DT__HASH_DIGITS) return;
    if (strspn(value, "0123456789abcdef") != DT__HASH_DIGITS) return;
    const unsigned char *raw = j->at - 1 - DT__HASH_DIGITS;
    const bool plain = raw[-1] == '"' && memcmp(raw, value, DT__HASH_DIGITS) == 0;
    if (plain) file->hash_at = (size_t)(raw - file->bytes);
}

static dt_status read_meta(dt_file *file, dt__json *j)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(DT__RESERVE(file->ctx, file->meta, file->meta_count, file->meta_capacity));
        dt__meta *m = &file->meta[file->meta_count];
        DT__TRY(dt__json_string(j, &m->key));
        DT__TRY(dt__json_expect(j, ':'));
        DT__TRY(dt__json_string(j, &m->value));
        if (strcmp(m->key, DT__KEY_HASH) == 0) note_hash(file, j, m->value);
        file->meta_count++;
    }
    return j->status;
}

static dt_status read_field(dt_file *file, dt__json *j, bool *has_meta)
{
    const char *name;
    DT__TRY(dt__json_string(j, &name));
    DT__TRY(dt__json_expect(j, ':'));
    if (strcmp(name, "__metadata__") != 0) {
        j->within = name;
        DT__TRY(read_tensor(file, j, name));
        j->within = NULL;
        return DT_OK;
    }
    if (*has_meta) return dt__json_fail(j, "__metadata__ occurs twice");
    *has_meta = true;
    return read_meta(file, j);
}

static dt_status read_json(dt_file *file, dt__json *j)
{
    bool has_meta = false;
    if (j->at == j->end || *j->at != '{') return dt__json_fail(j, "a header begins with '{'");
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(read_field(file, j, &has_meta));
    }
    DT__TRY(j->status);
    while (j->at < j->end && memchr(" \t\n\r", *j->at, 4) != NULL) j->at++;
    if (j->at < j->end) return dt__json_fail(j, "only white space may follow the header's object");
    return DT_OK;
}

static int compare_places(const void *left, const void *right)
{
    const dt_file_entry *a = left, *b = right;
    const uintptr_t begin_a = (uintptr_t)a->data, begin_b = (uintptr_t)b->data;
    if (begin_a != begin_b) return begin_a < begin_b ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static dt_status check_cover(dt_file *file)
{
    const size_t size = file->size - file->data_at;
    size_t at = 0;
    char text[DT__SHOWN];
    for (int64_t i = 0; i < file->count; i++) {
        const dt_file_entry *e = &file->entry[i];
        const size_t begin = (size_t)((const unsigned char *)e->data - file->bytes) - file->data_at;
        if (begin != at) {
            return dt_fail(file->ctx, DT_ERR_FORMAT,
                           "%s: tensor '%s' begins at byte %zu of the data, which must be %zu: %s",
                           file->path, dt__shown(e->name, text), begin, at,
                           begin < at ? "two tensors overlap" : "bytes belong to no tensor");
        }
        at += e->bytes;
    }
    if (at == size) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_FORMAT,
                   "%s: the tensors end at byte %zu of the data, which has %zu", file->path, at,
                   size);
}

static dt_status twice(const dt_file *file, const char *what, const char *name)
{
    char text[DT__SHOWN];
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: %s '%s' occurs twice in the header", file->path,
                   what, dt__shown(name, text));
}

/* Sorts names and keys: equal ones become neighbours, and lookups can bisect. */
static dt_status index_names(dt_file *file)
{
    file->by_name = dt__alloc_array(file->ctx, file->count, sizeof *file->by_name);
    if (file->by_name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->entry[i];
    if (file->count > 0) {
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, dt__by_entry_name);
    }
    for (int64_t i = 1; i < file->count; i++) {
        const char *name = file->by_name[i]->name;
        if (strcmp(file->by_name[i - 1]->name, name) == 0) return twice(file, "tensor", name);
    }
    if (file->meta_count > 0) {
        qsort(file->meta, (size_t)file->meta_count, sizeof *file->meta, dt__by_text);
    }
    for (int64_t i = 1; i < file->meta_count; i++) {
        const char *key = file->meta[i].key;
        if (strcmp(file->meta[i - 1].key, key) == 0) return twice(file, "metadata key", key);
    }
    return DT_OK;
}

dt_status dt__header_read(dt_file *file)
{
    const unsigned char *text = file->bytes + sizeof(uint64_t);
    const size_t length = file->data_at - sizeof(uint64_t);
    file->strings = dt__alloc(file->ctx, length);
    if (file->strings == NULL) return DT_ERR_NOMEM;
    dt__json j = { .ctx = file->ctx,
                   .what = "the header",
                   .path = file->path,
                   .begin = text,
                   .at = text,
                   .end = text + length,
                   .strings = file->strings };
    DT__TRY(read_json(file, &j));
    /* only now, as the array of dims may have moved before */
    const int64_t *dims = file->dims;
    for (int64_t i = 0; i < file->count; i++) {
        file->entry[i].dims = dims;
        if (dims != NULL) dims += file->entry[i].rank;
    }
    if (file->count > 0) {
        qsort(file->entry, (size_t)file->count, sizeof *file->entry, compare_places);
    }
    DT__TRY(index_names(file));
    return check_cover(file);
}
