/* Finds one tensor in a safetensors file: 8 bytes, the length of the header, then the header in
 * JSON, then the bytes of all tensors, which neither overlap nor leave gaps. Models are read by
 * src/io; here the other tensors are skipped. */
#include "core/text/json.h"
#include "data/files/array_file.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_MOST 100000000 /* the limit of the safetensors library */

typedef struct entry {
    const char *dtype;
    int64_t begin, end;
    int rank;
    int64_t dims[DT_MAX_RANK];
} entry;

static dt_status read_shape(dt__json *j, entry *e)
{
    e->rank = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), e->rank++) {
        if (e->rank == DT_MAX_RANK) return dt__json_fail(j, "more than %d dimensions", DT_MAX_RANK);
        DT__TRY(dt__json_integer(j, &e->dims[e->rank]));
    }
    return j->status;
}

static dt_status read_offsets(dt__json *j, entry *e)
{
    DT__TRY(dt__json_expect(j, '['));
    DT__TRY(dt__json_integer(j, &e->begin));
    DT__TRY(dt__json_expect(j, ','));
    DT__TRY(dt__json_integer(j, &e->end));
    return dt__json_expect(j, ']');
}

static dt_status read_entry(dt__json *j, entry *e)
{
    const char *key;
    *e = (entry){ .rank = -1, .begin = -1 };
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(dt__json_key(j, &key));
        if (strcmp(key, "dtype") == 0) DT__TRY(dt__json_string(j, &e->dtype));
        else if (strcmp(key, "shape") == 0) DT__TRY(read_shape(j, e));
        else if (strcmp(key, "data_offsets") == 0) DT__TRY(read_offsets(j, e));
        else return dt__json_fail(j, "a tensor has dtype, shape and data_offsets alone");
    }
    DT__TRY(j->status);
    if (e->dtype != NULL && e->rank >= 0 && e->begin >= 0) return DT_OK;
    return dt__json_fail(j, "a tensor has dtype, shape and data_offsets");
}

/* Reads the offsets of another tensor. */
static dt_status read_span(dt__json *j, entry *e)
{
    const char *key;
    *e = (entry){ .begin = -1 };
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(dt__json_key(j, &key));
        DT__TRY(strcmp(key, "data_offsets") == 0 ? read_offsets(j, e) : dt__json_skip(j));
    }
    DT__TRY(j->status);
    return e->begin >= 0 ? DT_OK : dt__json_fail(j, "a tensor has data_offsets");
}

typedef struct span {
    int64_t begin, end;
} span;

/* The offsets of all tensors, which must not overlap. */
typedef struct spans {
    dt_ctx *ctx;
    span *v;
    int64_t n, room;
} spans;

static dt_status add_span(spans *all, const entry *e)
{
    /* empty; or invalid, which is an error only if it is requested */
    if (e->begin >= e->end) return DT_OK;
    DT__TRY(DT__RESERVE(all->ctx, all->v, all->n, all->room));
    all->v[all->n++] = (span){ e->begin, e->end };
    return DT_OK;
}

static int by_begin(const void *left, const void *right)
{
    const span *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Whether tensors cover the data from the first to the last byte without overlap. */
static dt_status check_spans(const dt__array_file *a, const spans *all, size_t data_at)
{
    int64_t at = 0;
    if (all->n > 0) qsort(all->v, (size_t)all->n, sizeof *all->v, by_begin);
    for (int64_t i = 0; i < all->n; at = all->v[i++].end) {
        const span *s = &all->v[i];
        if (s->begin == at) continue;
        if (s->begin > at) {
            return dt__array_fail(a, DT_ERR_FORMAT, "bytes %lld to %lld belong to no tensor",
                                  (long long)at, (long long)s->begin);
        }
        return dt__array_fail(
            a, DT_ERR_FORMAT, "two tensors overlap: bytes %lld to %lld, and %lld to %lld",
            (long long)all->v[i - 1].begin, (long long)at, (long long)s->begin, (long long)s->end);
    }
    const int64_t size = (int64_t)(a->size - data_at);
    if (at == size) return DT_OK;
    return dt__array_fail(a, DT_ERR_FORMAT, "its tensors take %lld bytes, but %lld are there",
                          (long long)at, (long long)size);
}

/* The number of tensors that match, and the names of all. */
typedef struct names {
    int found;
    char list[DT__NAME_LIST];
} names;

/* Finds the requested tensor in the header; without a name, the only tensor. */
static dt_status find_entry(const dt__array_file *a, dt__json *j, entry *e, names *n, spans *all)
{
    const char *name;
    entry one;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(dt__json_key(j, &name));
        const bool is_tensor = strcmp(name, "__metadata__") != 0;
        if (is_tensor) dt__name_list_add(n->list, name, strlen(name));
        if (!is_tensor) {
            DT__TRY(dt__json_skip(j));
        } else if (a->part != NULL && strcmp(name, a->part) != 0) {
            DT__TRY(read_span(j, &one));
            DT__TRY(add_span(all, &one));
        } else {
            DT__TRY(read_entry(j, &one));
            DT__TRY(add_span(all, &one));
            *e = one;
            n->found++;
        }
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

static dt_status take_entry(dt__array_file *a, const entry *e, size_t data_at)
{
    const int64_t room = (int64_t)(a->size - data_at);
    const bool is_bool = strcmp(e->dtype, "BOOL") == 0;
    a->dtype = 0;
    while (a->dtype < DT__ARRAY_DTYPES && !is_bool &&
           strcmp(e->dtype, dt__array_dtype_of(a->dtype)->in_file) != 0) {
        a->dtype++;
    }
    if (is_bool) a->dtype = DT_ARRAY_U8;
    if (a->dtype == DT__ARRAY_DTYPES) {
        char shown[DT__SHOWN];
        return dt__array_fail(
            a, DT_ERR_UNSUPPORTED,
            "dtype %s; expected F16, F32, F64, BOOL, U8, I8, U16, I16, I32 or I64",
            dt__shown(e->dtype, shown));
    }
    a->rank = e->rank;
    memcpy(a->dims, e->dims, sizeof a->dims);
    size_t bytes;
    if (e->begin > e->end || e->end > room || !dt__array_bytes(a, &bytes) ||
        bytes != (size_t)(e->end - e->begin)) {
        return dt__array_fail(a, DT_ERR_FORMAT,
                              "the tensor's bytes %lld to %lld do not fit its shape, or the file's "
                              "%lld",
                              (long long)e->begin, (long long)e->end, (long long)room);
    }
    a->data = a->bytes + data_at + e->begin;
    return DT_OK;
}

dt_status dt__safetensors_open(dt__array_file *a)
{
    if (a->size < 8)
        return dt__array_fail(a, DT_ERR_FORMAT, "not a safetensors file: %zu bytes", a->size);
    const uint64_t length = dt__u64_at(a->bytes);
    if (length > HEADER_MOST || length > a->size - 8) {
        return dt__array_fail(a, DT_ERR_FORMAT,
                              "not a safetensors file, or cut short: a header of %llu bytes in %zu",
                              (unsigned long long)length, a->size);
    }
    char *strings = dt__alloc(a->ctx, (size_t)length + 1);
    if (strings == NULL) return DT_ERR_NOMEM;
    dt__json j = { .ctx = a->ctx,
                   .path = a->path,
                   .what = "the header",
                   .begin = a->bytes + 8,
                   .at = a->bytes + 8,
                   .end = a->bytes + 8 + length,
                   .strings = strings };
    names n = { .list = "" };
    entry e;
    spans all = { .ctx = a->ctx };
    dt_status status = find_entry(a, &j, &e, &n, &all);
    if (status == DT_OK && n.found != 1) status = dt__array_refuse_name(a, n.found, n.list);
    if (status == DT_OK) status = take_entry(a, &e, 8 + (size_t)length);
    if (status == DT_OK) status = check_spans(a, &all, 8 + (size_t)length);
    DT__RELEASE(a->ctx, all.v, strings);
    return status;
}
