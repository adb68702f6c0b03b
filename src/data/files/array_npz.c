/* Reads an array of an .npz file: a zip archive with a file NAME.npy for each array [PKWARE,
 * "APPNOTE.TXT - .ZIP File Format Specification" 6.3.10]. From the end of the archive:
 *     end record, with its comment at the end of the file: entries, offset of the directory
 *     before it, of large archives, a locator of an end record with 64 bits
 *     directory: of each file its method, CRC-32, sizes, name, and the offset of its local header
 * Sizes of local headers are not read, as writers of streams leave them out. A stored array is
 * mapped; a deflated one is inflated, after its head has shown that it has the size that the
 * directory says. */
#include "data/files/array_file.h"
#include "data/zlib_stream.h"

#include <string.h>

#define END_SIZE 22
#define LOCATOR_SIZE 20
#define END64_SIZE 56
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30
#define MOST_COMMENT 65535
#define MOST_RATIO 1032 /* deflate expands at most this much */
#define NONE32 0xffffffffu
/* larger ratios of an array to its compressed bytes are refused, */
#define USUAL_RATIO 100
#define HARMLESS ((uint64_t)1 << 24) /* if the array has more bytes than this */

enum { STORED = 0, DEFLATED = 8 };

typedef struct member {
    uint32_t flags, method, crc;
    uint64_t packed, size, local;
    const uint8_t *data; /* the compressed bytes */
} member;

typedef struct directory {
    uint64_t entries, at, size;
} directory;

static dt_status damaged(const dt__array_file *a, const char *what)
{
    return dt__array_fail(a, DT_ERR_FORMAT, "damaged .npz, or cut short: %s", what);
}

/* ---- the directory ------------------------------------------------------------------------ */

/* The offset of the end record; SIZE_MAX: none. */
static size_t find_end(const dt__array_file *a)
{
    const size_t most = a->size < END_SIZE + MOST_COMMENT ? a->size : END_SIZE + MOST_COMMENT;
    for (size_t back = END_SIZE; back <= most; back++) {
        const uint8_t *p = a->bytes + a->size - back;
        if (memcmp(p, "PK\5\6", 4) == 0 && dt__u16_at(p + 20) == back - END_SIZE) {
            return a->size - back;
        }
    }
    return SIZE_MAX;
}

/* Reads the 64-bit end record if numbers of the end record overflow. */
static dt_status read_end64(const dt__array_file *a, size_t end, directory *d)
{
    const uint8_t *locator = end < LOCATOR_SIZE ? NULL : a->bytes + end - LOCATOR_SIZE;
    if (locator == NULL || memcmp(locator, "PK\6\7", 4) != 0) return DT_OK;
    const uint64_t at = dt__u64_at(locator + 8);
    if (at > end || end - at < END64_SIZE + LOCATOR_SIZE ||
        memcmp(a->bytes + at, "PK\6\6", 4) != 0) {
        return damaged(a, "no end record where its locator says");
    }
    *d = (directory){ dt__u64_at(a->bytes + at + 32), dt__u64_at(a->bytes + at + 48),
                      dt__u64_at(a->bytes + at + 40) };
    return DT_OK;
}

static dt_status read_directory(const dt__array_file *a, directory *d)
{
    const size_t end = find_end(a);
    if (end == SIZE_MAX) return damaged(a, "it has no end record of a zip archive");
    const uint8_t *p = a->bytes + end;
    *d = (directory){ dt__u16_at(p + 10), dt__u32_at(p + 16), dt__u32_at(p + 12) };
    DT__TRY(read_end64(a, end, d));
    if (d->at > end || d->size > end - d->at) return damaged(a, "its directory is outside of it");
    return DT_OK;
}

/* ---- one entry ---------------------------------------------------------------------------- */

/* The extra field 1 has, in this order, the 64-bit values of those numbers that are 0xffffffff. */
static dt_status read_extra64(const dt__array_file *a, const uint8_t *extra, size_t n, member *m)
{
    uint64_t *const large[] = { &m->size, &m->packed, &m->local };
    for (size_t at = 0; n - at >= 4;) {
        const size_t size = dt__u16_at(extra + at + 2);
        if (size > n - at - 4) break;
        if (dt__u16_at(extra + at) != 1) {
            at += 4 + size;
            continue;
        }
        const uint8_t *p = extra + at + 4, *end = p + size;
        for (int i = 0; i < DT__COUNT_OF(large); i++) {
            if (*large[i] != NONE32) continue;
            if (end - p < 8) return damaged(a, "an entry lacks its sizes of 64 bits");
            *large[i] = dt__u64_at(p);
            p += 8;
        }
        return DT_OK;
    }
    return DT_OK;
}

static dt_status read_entry(const dt__array_file *a, const uint8_t *p, member *m)
{
    *m = (member){ .flags = dt__u16_at(p + 8),
                   .method = dt__u16_at(p + 10),
                   .crc = dt__u32_at(p + 16),
                   .packed = dt__u32_at(p + 20),
                   .size = dt__u32_at(p + 24),
                   .local = dt__u32_at(p + 42) };
    return read_extra64(a, p + ENTRY_SIZE + dt__u16_at(p + 28), dt__u16_at(p + 30), m);
}

/* Whether an entry's name is that of the requested array. */
static bool is_wanted(const dt__array_file *a, const uint8_t *name, size_t n)
{
    static const char ending[] = ".npy";
    const size_t m = sizeof ending - 1;
    if (a->part == NULL) return n > m && memcmp(name + n - m, ending, m) == 0;
    const size_t wanted = strlen(a->part);
    return (n == wanted || (n == wanted + m && memcmp(name + wanted, ending, m) == 0)) &&
           memcmp(name, a->part, wanted) == 0;
}

/* Called for each entry of the directory that is requested. */
typedef dt_status visit_entry(void *user, const uint8_t *name, size_t n, const member *m);

static dt_status walk(const dt__array_file *a, visit_entry *visit, void *user)
{
    directory d = { 0, 0, 0 };
    member m;
    DT__TRY(read_directory(a, &d));
    uint64_t at = d.at;
    const uint64_t end = d.at + d.size;
    for (uint64_t i = 0; i < d.entries; i++) {
        const uint8_t *p = a->bytes + at;
        if (end - at < ENTRY_SIZE || memcmp(p, "PK\1\2", 4) != 0) {
            return damaged(a, "its directory has fewer entries than it says");
        }
        const uint64_t name = dt__u16_at(p + 28), extra = dt__u16_at(p + 30);
        const uint64_t whole = ENTRY_SIZE + name + extra + dt__u16_at(p + 32);
        if (whole > end - at) return damaged(a, "an entry of its directory is cut short");
        if (is_wanted(a, p + ENTRY_SIZE, (size_t)name)) {
            DT__TRY(read_entry(a, p, &m));
            DT__TRY(visit(user, p + ENTRY_SIZE, (size_t)name, &m));
        }
        at += whole;
    }
    return DT_OK;
}

typedef struct search {
    member *m;
    int found;
} search;

static dt_status note(void *user, const uint8_t *name, size_t n, const member *m)
{
    search *s = user;
    (void)name;
    (void)n;
    *s->m = *m;
    s->found++;
    return DT_OK;
}

/* Collects the names of all arrays, without ".npy". */
static dt_status note_name(void *user, const uint8_t *name, size_t n, const member *m)
{
    (void)m;
    dt__name_list_add(user, (const char *)name, n - strlen(".npy"));
    return DT_OK;
}

static dt_status find_member(const dt__array_file *a, member *m)
{
    search s = { .m = m };
    char names[DT__NAME_LIST] = "";
    DT__TRY(walk(a, note, &s));
    if (s.found == 1) return DT_OK;
    dt__array_file all = *a;
    all.part = NULL;
    DT__TRY(walk(&all, note_name, names));
    return dt__array_refuse_name(a, s.found, names);
}

/* Finds the compressed bytes after the local header. */
static dt_status locate(const dt__array_file *a, member *m)
{
    if ((m->flags & 1) != 0) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED, "the array is encrypted");
    }
    if (m->method != STORED && m->method != DEFLATED) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "compression method %u; numpy.savez stores, numpy.savez_compressed "
                              "deflates",
                              m->method);
    }
    if (m->local > a->size || a->size - m->local < LOCAL_SIZE ||
        memcmp(a->bytes + m->local, "PK\3\4", 4) != 0) {
        return damaged(a, "no local header where the directory says");
    }
    const uint8_t *p = a->bytes + m->local;
    const uint64_t at = m->local + LOCAL_SIZE + dt__u16_at(p + 26) + dt__u16_at(p + 28);
    if (at > a->size || m->packed > a->size - at) return damaged(a, "the array ends outside of it");
    m->data = a->bytes + at;
    const bool good =
        m->method == STORED ? m->size == m->packed : m->size / MOST_RATIO <= m->packed;
    if (!good) return damaged(a, "the sizes of an array do not fit its compression");
    if (m->size <= HARMLESS || m->size / USUAL_RATIO <= m->packed) return DT_OK;
    return dt__array_fail(a, DT_ERR_FORMAT,
                          "an array of %llu bytes in %llu packed ones, more than %d times as many; "
                          "if that is right, save it by numpy.savez, which does not pack",
                          (unsigned long long)m->size, (unsigned long long)m->packed, USUAL_RATIO);
}

/* ---- its bytes ---------------------------------------------------------------------------- */

/* Checks that the .npy header, of which `n` bytes are available, declares the size in the
 * directory. */
static dt_status check_head(dt__array_file *a, const member *m, const uint8_t *bytes, size_t n,
                            size_t *head)
{
    size_t body = 0;
    DT__TRY(dt__npy_head(a, bytes, n, head, &body));
    if (*head <= m->size && body == m->size - *head) return DT_OK;
    return dt__array_fail(a, DT_ERR_FORMAT,
                          "the header of .npy declares %zu bytes of numbers, but %lld follow it",
                          body, (long long)(m->size - *head));
}

static dt_status check_crc(const dt__array_file *a, const member *m, const uint8_t *bytes)
{
    uLong crc = crc32(0, NULL, 0);
    const uint64_t most = (uint64_t)1 << 30; /* zlib counts in 32 bits */
    for (uint64_t at = 0; at < m->size; at += most) {
        crc = crc32(crc, bytes + at, (uInt)(m->size - at < most ? m->size - at : most));
    }
    return crc == m->crc ? DT_OK : damaged(a, "the CRC-32 of an array is another");
}

/* Inflates until there are `n` bytes, or the stream ends. */
static dt_status inflate_to(const dt__array_file *a, z_stream *z, const member *m, uint8_t *to,
                            size_t n)
{
    const size_t most = (size_t)1 << 30;
    z->next_out = to;
    for (size_t got = 0; got < n;) {
        const size_t used = (size_t)(z->next_in - m->data), left = (size_t)m->packed - used;
        z->avail_in = (uInt)(left < most ? left : most);
        const size_t step = n - got < most ? n - got : most;
        z->avail_out = (uInt)step;
        const int code = inflate(z, Z_NO_FLUSH);
        if (code == Z_MEM_ERROR)
            return dt_fail(a->ctx, DT_ERR_NOMEM, "out of memory for inflating '%s'", a->name);
        const size_t made = step - z->avail_out;
        got += made;
        if (got < n && (code != Z_OK || made == 0)) {
            return damaged(a, "a deflated array is damaged or too short");
        }
    }
    return DT_OK;
}

static dt_status inflate_array(dt__array_file *a, const member *m, z_stream *z, uint8_t *first)
{
    const size_t n = m->size < DT__NPY_HEAD_MOST ? (size_t)m->size : DT__NPY_HEAD_MOST;
    size_t head = 0;
    DT__TRY(inflate_to(a, z, m, first, n));
    DT__TRY(check_head(a, m, first, n, &head));
    a->source.storage = dt__storage_create(a->ctx, (uint64_t)m->size);
    if (a->source.storage == NULL) return DT_ERR_NOMEM;
    uint8_t *bytes = a->source.storage->data;
    memcpy(bytes, first, n);
    DT__TRY(inflate_to(a, z, m, bytes + n, (size_t)m->size - n));
    a->data = bytes + head;
    return check_crc(a, m, bytes);
}

static dt_status open_deflated(dt__array_file *a, const member *m)
{
    z_stream z = dt__zlib_stream(a->ctx);
    uint8_t *first = dt__alloc(a->ctx, DT__NPY_HEAD_MOST);
    if (first == NULL) return DT_ERR_NOMEM;
    dt_status status = DT_OK;
    if (inflateInit2(&z, -15) != Z_OK) {
        status = dt_fail(a->ctx, DT_ERR_NOMEM, "out of memory for inflating '%s'", a->name);
    } else {
        z.next_in = (Bytef *)(uintptr_t)m->data;
        status = inflate_array(a, m, &z, first);
        inflateEnd(&z);
    }
    dt__release(a->ctx, first);
    return status;
}

static dt_status open_member(dt__array_file *a, member *m)
{
    DT__TRY(locate(a, m));
    if (m->method == DEFLATED) return open_deflated(a, m);
    size_t head = 0;
    DT__TRY(check_head(a, m, m->data, (size_t)m->size, &head));
    a->data = m->data + head;
    return check_crc(a, m, m->data);
}

dt_status dt__npz_open(dt__array_file *a)
{
    member m;
    DT__TRY(find_member(a, &m));
    return open_member(a, &m);
}

/* ---- all arrays --------------------------------------------------------------------------- */

typedef struct tour {
    const dt__array_file *archive;
    dt__npz_visit *visit;
    void *user;
    uint64_t bytes; /* of all arrays so far */
} tour;

/* Entries may share compressed bytes, so the sum of their sizes is also limited. */
static dt_status tour_entry(void *user, const uint8_t *name, size_t n, const member *m)
{
    tour *t = user;
    dt__array_file a = *t->archive;
    member own = *m;
    const uint64_t most = HARMLESS + (uint64_t)USUAL_RATIO * a.size;
    if (m->size > most || t->bytes > most - m->size) {
        return dt__array_fail(&a, DT_ERR_FORMAT,
                              "its arrays are more than %d times as large as the file",
                              USUAL_RATIO);
    }
    t->bytes += m->size;
    dt_status s = open_member(&a, &own);
    if (s == DT_OK) s = t->visit(t->user, (const char *)name, n - strlen(".npy"), &a);
    dt__storage_release(a.source.storage);
    return s;
}

dt_status dt__npz_each(const dt__array_file *archive, dt__npz_visit *visit, void *user)
{
    tour t = { .archive = archive, .visit = visit, .user = user };
    return walk(archive, tour_entry, &t);
}
