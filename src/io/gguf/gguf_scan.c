/* Parses a GGUF file [ggml, docs/gguf.md]: "GGUF", version 2 or 3, numbers of tensors and pairs,
 *     pair    key, type, value; an array: type of its elements, their number, elements
 *     tensor  name, rank, extents (fastest first), type, offset in the data
 * then the data, from a multiple of general.alignment on. Strings have a length of 8 bytes. Every
 * length is checked before it is used; numbers are little-endian. */
#include "core/block_list.h"
#include "core/comparisons.h"
#include "core/text/byte_order.h"
#include "core/text/utf8.h"
#include "io/gguf/gguf_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_KEY 13    /* bytes of a pair: an empty name, a type, one byte */
#define LEAST_TENSOR 24 /* bytes of a tensor's description */
#define MOST_ALIGNMENT 65536

dt_status dt__gguf_fail(const dt__gguf_file *g, const char *format, ...)
{
    char text[512];
    DT__FORMAT(text, sizeof text, format);
    return dt_fail(g->ctx, DT_ERR_FORMAT, "%s: %s", g->file->path, text);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* The next n bytes; NULL with FORMAT where the file ends. */
static const unsigned char *take(dt__gguf_file *g, uint64_t n)
{
    const unsigned char *at = g->file->bytes + g->at;
    if (n > g->file->size - g->at) {
        dt__gguf_fail(g, "the file is cut short: expected %llu bytes at byte %zu of %zu",
                      (unsigned long long)n, g->at, g->file->size);
        return NULL;
    }
    g->at += (size_t)n;
    return at;
}

static dt_status take_u32(dt__gguf_file *g, uint32_t *out)
{
    const unsigned char *at = take(g, sizeof *out);
    if (at == NULL) return DT_ERR_FORMAT;
    dt__copy_little(out, at, sizeof *out);
    return DT_OK;
}

static dt_status take_u64(dt__gguf_file *g, uint64_t *out)
{
    const unsigned char *at = take(g, sizeof *out);
    if (at == NULL) return DT_ERR_FORMAT;
    dt__copy_little(out, at, sizeof *out);
    return DT_OK;
}

static dt_status take_string(dt__gguf_file *g, const char **out, size_t *n)
{
    uint64_t bytes;
    DT__TRY(take_u64(g, &bytes));
    *out = (const char *)take(g, bytes);
    *n = (size_t)bytes;
    return *out == NULL ? DT_ERR_FORMAT : DT_OK;
}

const unsigned char *dt__gguf_string(const unsigned char *at, const char **out, size_t *n)
{
    uint64_t bytes;
    dt__copy_little(&bytes, at, sizeof bytes);
    *n = (size_t)bytes;
    *out = (const char *)at + sizeof bytes;
    return at + sizeof bytes + *n;
}

/* Whether a name can be printed and compared as a C string: UTF-8 without NUL. */
static bool is_name(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    while (p < end) {
        const int length = *p == 0 ? 0 : dt__utf8_length(p, end);
        if (length == 0) return false;
        p += length;
    }
    return n > 0;
}

static dt_status keep_name(dt__gguf_file *g, const char *text, size_t n, const char **out)
{
    char *copy = dt__block_list_add(g->ctx, &g->file->arena, n + 1);
    if (copy == NULL) return DT_ERR_NOMEM;
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = copy;
    return DT_OK;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* Bytes of a value of fixed size; 0: a string, an array, or an unknown type. */
static size_t value_bytes(uint32_t type)
{
    static const size_t bytes[DT__GGUF_KEYS] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < DT__GGUF_KEYS ? bytes[type] : 0;
}

static dt_status take_values(dt__gguf_file *g, const dt__gguf_key *k, uint64_t n)
{
    const char *text;
    size_t bytes, all;
    const size_t each = value_bytes(k->type);
    if (k->type == DT__GGUF_KEY_STRING) {
        for (uint64_t i = 0; i < n; i++) DT__TRY(take_string(g, &text, &bytes));
        return DT_OK;
    }
    if (each == 0) {
        return dt__gguf_fail(g, "key '%.*s': type %u is none of a value here",
                             (int)dt__min_i64((int64_t)k->bytes, 80), k->name, k->type);
    }
    if (!dt__mul_size(n, each, &all)) all = SIZE_MAX;
    return take(g, all) == NULL ? DT_ERR_FORMAT : DT_OK;
}

static dt_status scan_key(dt__gguf_file *g)
{
    dt__gguf_key *k = &g->key[g->n_keys];
    *k = (dt__gguf_key){ .n = 1 };
    const size_t at = g->at;
    DT__TRY(take_string(g, &k->name, &k->bytes));
    if (!is_name(k->name, k->bytes)) return dt__gguf_fail(g, "the key at byte %zu is not text", at);
    DT__TRY(take_u32(g, &k->type));
    k->is_array = k->type == DT__GGUF_KEY_ARRAY;
    if (k->is_array) {
        DT__TRY(take_u32(g, &k->type));
        DT__TRY(take_u64(g, &k->n));
    }
    k->data = g->file->bytes + g->at;
    DT__TRY(take_values(g, k, k->n));
    g->n_keys++;
    return DT_OK;
}

static int compare_names(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int by_key(const void *left, const void *right)
{
    const dt__gguf_key *a = left, *b = right;
    return compare_names(a->name, a->bytes, b->name, b->bytes);
}

static dt_status scan_keys(dt__gguf_file *g, uint64_t n)
{
    if (n > (g->file->size - g->at) / LEAST_KEY) {
        return dt__gguf_fail(g, "%llu keys, for which the file is too short",
                             (unsigned long long)n);
    }
    g->key = dt__alloc_array(g->ctx, (int64_t)n, sizeof *g->key);
    if (g->key == NULL) return DT_ERR_NOMEM;
    for (uint64_t i = 0; i < n; i++) DT__TRY(scan_key(g));
    if (n > 0) qsort(g->key, (size_t)n, sizeof *g->key, by_key);
    for (uint64_t i = 1; i < n; i++) {
        if (by_key(&g->key[i - 1], &g->key[i]) != 0) continue;
        return dt__gguf_fail(g, "key '%.*s' occurs twice",
                             (int)dt__min_i64((int64_t)g->key[i].bytes, 80), g->key[i].name);
    }
    return DT_OK;
}

/* ---- values of keys ------------------------------------------------------------------------- */

const dt__gguf_key *dt__gguf_find(const dt__gguf_file *g, const char *name)
{
    const dt__gguf_key wanted = { .name = name, .bytes = strlen(name) };
    if (g->n_keys == 0) return NULL;
    return bsearch(&wanted, g->key, (size_t)g->n_keys, sizeof wanted, by_key);
}

static dt_status wrong_type(const dt__gguf_file *g, const char *name, const char *wanted)
{
    return dt__gguf_fail(g, "key '%s' must be %s", name, wanted);
}

dt_status dt__gguf_int(const dt__gguf_file *g, const char *name, int64_t missing, int64_t *out)
{
    static const bool is_signed[DT__GGUF_KEYS] = { [DT__GGUF_KEY_I8] = true,
                                                   [DT__GGUF_KEY_I16] = true,
                                                   [DT__GGUF_KEY_I32] = true,
                                                   [DT__GGUF_KEY_I64] = true };
    const dt__gguf_key *k = dt__gguf_find(g, name);
    uint64_t bits = 0;
    *out = missing;
    if (k == NULL) return DT_OK;
    const size_t bytes = value_bytes(k->type);
    const bool is_integer = bytes > 0 && k->type != DT__GGUF_KEY_F32 &&
                            k->type != DT__GGUF_KEY_F64 && k->type != DT__GGUF_KEY_BOOL;
    if (k->is_array || !is_integer) return wrong_type(g, name, "an integer");
    for (size_t i = 0; i < bytes; i++) bits |= (uint64_t)k->data[i] << (8 * i);
    const bool negative = is_signed[k->type] && bits >> (8 * bytes - 1) != 0;
    if (negative || bits > INT64_MAX) return wrong_type(g, name, "an integer of 0 to 2^63 - 1");
    *out = (int64_t)bits;
    return DT_OK;
}

dt_status dt__gguf_real(const dt__gguf_file *g, const char *name, double missing, double *out)
{
    const dt__gguf_key *k = dt__gguf_find(g, name);
    float x;
    *out = missing;
    if (k == NULL) return DT_OK;
    if (k->is_array || (k->type != DT__GGUF_KEY_F32 && k->type != DT__GGUF_KEY_F64)) {
        return wrong_type(g, name, "a float");
    }
    if (k->type == DT__GGUF_KEY_F64) {
        dt__copy_little(out, k->data, sizeof *out);
    } else {
        char text[32];
        dt__copy_little(&x, k->data, sizeof x);
        snprintf(text, sizeof text, "%.7g",
                 (double)x); /* 1e-5, not the decimal expansion of the float */
        const double shortest = strtod(text, NULL);
        *out = (float)shortest == x ? shortest : (double)x;
    }
    return isfinite(*out) ? DT_OK : wrong_type(g, name, "finite");
}

dt_status dt__gguf_bool(const dt__gguf_file *g, const char *name, bool missing, bool *out)
{
    const dt__gguf_key *k = dt__gguf_find(g, name);
    *out = missing;
    if (k == NULL) return DT_OK;
    if (k->is_array || k->type != DT__GGUF_KEY_BOOL) return wrong_type(g, name, "true or false");
    *out = *k->data != 0;
    return DT_OK;
}

dt_status dt__gguf_text(const dt__gguf_file *g, const char *name, const char **out, size_t *n)
{
    const dt__gguf_key *k = dt__gguf_find(g, name);
    *out = NULL;
    *n = 0;
    if (k == NULL) return DT_OK;
    if (k->is_array || k->type != DT__GGUF_KEY_STRING) return wrong_type(g, name, "a string");
    dt__gguf_string(k->data, out, n);
    return DT_OK;
}

bool dt__gguf_is(const char *text, size_t n, const char *word)
{
    return text != NULL && n == strlen(word) && memcmp(text, word, n) == 0;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static dt_status scan_shape(dt__gguf_file *g, dt__gguf_raw *t, const char *shown)
{
    uint32_t rank;
    DT__TRY(take_u32(g, &rank));
    if (rank < 1 || rank > 4) {
        return dt__gguf_fail(g, "tensor '%s' has %u dimensions; 1 to 4 can be", shown, rank);
    }
    t->rank = (int)rank;
    for (int d = t->rank - 1; d >= 0; d--) {
        uint64_t extent;
        DT__TRY(take_u64(g, &extent));
        if (extent > INT64_MAX) return dt__gguf_fail(g, "tensor '%s' is too large", shown);
        t->dims[d] = (int64_t)extent;
    }
    if (dt__product(t->rank, t->dims, &t->count)) return DT_OK;
    return dt__gguf_fail(g, "tensor '%s' is too large", shown);
}

static dt_status scan_type(dt__gguf_file *g, dt__gguf_raw *t, const char *shown)
{
    uint32_t type;
    DT__TRY(take_u32(g, &type));
    t->type = dt__gguf_type_of(type);
    if (t->type == NULL) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: tensor '%s' is of ggml type %u; F32, F16, Q4_0, Q8_0, Q2_K, Q3_K, "
                       "TQ1_0, TQ2_0, MXFP4, Q1_0 and Q2_0 are read",
                       g->file->path, shown, type);
    }
    const int64_t last = t->dims[t->rank - 1];
    if (last % t->type->elements != 0) {
        return dt__gguf_fail(g, "tensor '%s' is %s with rows of %lld elements; %d make a block",
                             shown, t->type->name, (long long)last, t->type->elements);
    }
    const uint64_t blocks = (uint64_t)(t->count / t->type->elements);
    if (dt__mul_size(blocks, (uint64_t)t->type->bytes, &t->bytes)) return DT_OK;
    return dt__gguf_fail(g, "tensor '%s' is too large", shown);
}

/* *offset: where the tensor's data begin, from the end of the header. */
static dt_status scan_tensor(dt__gguf_file *g, dt__gguf_raw *t, uint64_t *offset)
{
    const char *name;
    size_t n;
    char shown[DT__SHOWN];
    const size_t at = g->at;
    *t = (dt__gguf_raw){ .name = NULL };
    DT__TRY(take_string(g, &name, &n));
    if (!is_name(name, n)) return dt__gguf_fail(g, "the tensor's name at byte %zu is not text", at);
    DT__TRY(keep_name(g, name, n, &t->name));
    dt__shown(t->name, shown);
    DT__TRY(scan_shape(g, t, shown));
    DT__TRY(scan_type(g, t, shown));
    return take_u64(g, offset);
}

/* On a big-endian machine, swaps the bytes of floats. Blocks stay as in the file. */
static dt_status turn_floats(const dt__gguf_file *g, dt__gguf_raw *t)
{
    if (t->type->elements > 1 || t->bytes == 0) return DT_OK;
    unsigned char *turned = dt__block_list_add(g->ctx, &g->file->arena, t->bytes);
    if (turned == NULL) return DT_ERR_NOMEM;
    dt__reverse_elements(turned, t->data, t->bytes, (size_t)t->type->bytes);
    t->data = turned;
    return DT_OK;
}

static dt_status place(const dt__gguf_file *g, dt__gguf_raw *t, uint64_t offset, size_t alignment)
{
    char shown[DT__SHOWN];
    const size_t room = g->file->size - g->file->data_at;
    dt__shown(t->name, shown);
    if (offset % alignment != 0) {
        return dt__gguf_fail(g, "tensor '%s' lies at %llu, no multiple of %zu", shown,
                             (unsigned long long)offset, alignment);
    }
    if (offset > room || t->bytes > room - (size_t)offset) {
        return dt__gguf_fail(g, "the file is cut short: tensor '%s' ends behind it", shown);
    }
    t->data = g->file->bytes + g->file->data_at + (size_t)offset;
    return DT__BIG_ENDIAN ? turn_floats(g, t) : DT_OK;
}

dt__gguf_raw *dt__gguf_tensor_of(const dt__gguf_file *g, const char *name)
{
    const dt__gguf_raw wanted = { .name = name };
    if (g->n_raw == 0) return NULL;
    return bsearch(&wanted, g->raw, (size_t)g->n_raw, sizeof wanted, dt__by_text);
}

/* Where the data begin: a multiple of the alignment. */
static dt_status find_data(dt__gguf_file *g, size_t *alignment)
{
    int64_t a;
    DT__TRY(dt__gguf_int(g, "general.alignment", DT__GGUF_ALIGNMENT, &a));
    if (a < 1 || a > MOST_ALIGNMENT || (a & (a - 1)) != 0) {
        return dt__gguf_fail(g, "key 'general.alignment' is %lld, no power of two up to %d",
                             (long long)a, MOST_ALIGNMENT);
    }
    *alignment = (size_t)a;
    const size_t data = (g->at + *alignment - 1) / *alignment * *alignment;
    g->file->data_at = data < g->file->size ? data : g->file->size;
    return DT_OK;
}

static dt_status place_all(dt__gguf_file *g, const uint64_t *offset)
{
    size_t alignment = DT__GGUF_ALIGNMENT;
    char shown[DT__SHOWN];
    DT__TRY(find_data(g, &alignment));
    for (int64_t i = 0; i < g->n_raw; i++) DT__TRY(place(g, &g->raw[i], offset[i], alignment));
    if (g->n_raw > 0) qsort(g->raw, (size_t)g->n_raw, sizeof *g->raw, dt__by_text);
    for (int64_t i = 1; i < g->n_raw; i++) {
        if (strcmp(g->raw[i - 1].name, g->raw[i].name) != 0) continue;
        return dt__gguf_fail(g, "tensor '%s' occurs twice", dt__shown(g->raw[i].name, shown));
    }
    return DT_OK;
}

static dt_status scan_tensors(dt__gguf_file *g, uint64_t n)
{
    if (n > (g->file->size - g->at) / LEAST_TENSOR) {
        return dt__gguf_fail(g, "%llu tensors, for which the file is too short",
                             (unsigned long long)n);
    }
    uint64_t *offset = dt__alloc_array(g->ctx, (int64_t)n, sizeof *offset);
    g->raw = dt__alloc_array(g->ctx, (int64_t)n, sizeof *g->raw);
    dt_status s = offset == NULL || g->raw == NULL ? DT_ERR_NOMEM : DT_OK;
    for (; g->n_raw < (int64_t)n && s == DT_OK; g->n_raw += s == DT_OK) {
        s = scan_tensor(g, &g->raw[g->n_raw], &offset[g->n_raw]);
    }
    if (s == DT_OK) s = place_all(g, offset);
    dt__release(g->ctx, offset);
    return s;
}

dt_status dt__gguf_scan(dt__gguf_file *g)
{
    uint32_t version;
    uint64_t tensors, keys;
    g->at = strlen(DT__GGUF_MAGIC);
    DT__TRY(take_u32(g, &version));
    if (version != 2 && version != 3) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: GGUF of version %u; 2 and 3 are read, little-endian", g->file->path,
                       version);
    }
    DT__TRY(take_u64(g, &tensors));
    DT__TRY(take_u64(g, &keys));
    if (keys > INT64_MAX || tensors > INT64_MAX)
        return dt__gguf_fail(g, "too many keys or tensors");
    DT__TRY(scan_keys(g, keys));
    return scan_tensors(g, tensors);
}
