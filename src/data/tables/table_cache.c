/* A .table file is a head, the state of the readings (table_state.h), and for each reading its
 * targets and keys. Numbers are in native byte order; on another machine the hash does not
 * match. */
#define _DEFAULT_SOURCE /* realpath */
#include "data/tables/table_cache.h"

#include "core/system/open_file.h"
#include "core/system/system_calls.h"
#include "data/data_options.h"
#include "data/file_map.h"
#include "data/input.h"
#include "data/tables/csv_types.h"
#include "data/tables/table_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#define LARGE ((int64_t)512 << 20) /* bytes of a file from which on it is cached by default */
#define BLOCK ((size_t)1 << 20)
#define MOST_TABLE DT__AT_MOST(UINT64_C(1) << 40)

typedef struct head {
    char magic[16];
    uint64_t hash; /* of everything behind it */
    int64_t counts[4];
} head;

enum { ROWS, READINGS, STATE, LEFT_OUT }; /* indices of counts; STATE: bytes of the state */

/* Sizes of the parts that follow the head, for each reading. */
typedef struct part {
    uint64_t x_hash;
    int64_t x, y, key; /* in bytes; x is in a file of its own */
} part;

static const char magic[16] = "detent table 2\n";

/* ---- names ---------------------------------------------------------------------------------- */

dt__cache_folder dt__cache_folder_of(const dt_data_options *o)
{
    const bool given = o->cache != NULL && strcmp(o->cache, "auto") != 0;
    if (given && strcmp(o->cache, "no") == 0) return (dt__cache_folder){ .path = NULL };
    if (given) return (dt__cache_folder){ .path = o->cache };
    return (dt__cache_folder){ .path = o->cache_beside, .least_file = LARGE };
}

bool dt__is_cached(const dt__cache_folder *f, const char *table)
{
    struct stat about;
    return f->path != NULL && stat(table, &about) == 0 && S_ISREG(about.st_mode) &&
           about.st_size >= f->least_file;
}

static dt_status hash_file(dt_ctx *ctx, const char *path, XXH3_state_t *state)
{
    int file;
    int64_t size;
    ssize_t n = 1;
    uint8_t *block = dt__alloc(ctx, BLOCK);
    if (block == NULL) return DT_ERR_NOMEM;
    dt_status s = dt__open_file(ctx, path, &file, &size);
    while (s == DT_OK && n > 0) {
        n = dt__sys_read(file, block, BLOCK);
        if (n < 0) s = dt__file_fail(ctx, "read", path, errno);
        else XXH3_64bits_update(state, block, (size_t)n);
    }
    if (file >= 0) dt__sys_close(file);
    dt__release(ctx, block);
    return s;
}

static void put_columns(dt__chars *text, const dt_csv_options *o)
{
    dt_csv_options others = *o;
    others.types = (dt_item_list){ 0 };
    dt__put_options(text, dt__columns_keys, &others);
    for (int64_t i = 0; i < o->types.n; i++) {
        dt__put_options(text, dt__rule_keys, o->types.v[i].options);
    }
    for (int i = 0; i < o->keep.n; i++) dt__put_quoted(text, o->keep.v[i]);
    if (o->fitted != NULL) dt__columns_put(text, o->fitted);
}

/* Hashes all that determines the numbers, besides the file; `state` NULL: only options, into
 * *place. */
static dt_status hash_readings(const dt__table_cache *t, XXH3_state_t *state, uint64_t *place)
{
    dt__chars text = { .ctx = t->ctx };
    for (int k = 0; k < t->n; k++) {
        const dt__csv *c = t->c[k];
        int64_t own[9] = { c->target,
                           c->names_given,
                           c->finds_header,
                           c->labels.is_closed,
                           c->labels.classes,
                           -1,
                           -1,
                           c->options->keep.n,
                           dt__csv_may_lack(c) };
        for (int i = 0; i < t->n; i++) {
            if (c->x_of == t->c[i]) own[5] = i;
            if (c->y_of == t->c[i]) own[6] = i;
        }
        dt__put(&text, (const char *)own, sizeof own);
        put_columns(&text, c->options);
    }
    char *whole = realpath(t->table, NULL);
    if (state != NULL) dt__table_state_put(&text, t->c, t->n);
    else dt__put_text(&text, whole == NULL ? t->table : whole);
    free(whole);
    if (!text.failed && state != NULL) XXH3_64bits_update(state, text.bytes, text.used);
    else if (!text.failed) *place = XXH3_64bits(text.bytes, text.used);
    dt__release(t->ctx, text.bytes);
    return text.failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status name_files(dt__table_cache *t, const char *folder)
{
    uint64_t place;
    DT__TRY(hash_readings(t, NULL, &place));
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL) return dt_fail(t->ctx, DT_ERR_NOMEM, "out of memory");
    XXH3_64bits_reset(state);
    dt_status s = hash_file(t->ctx, t->table, state);
    if (s == DT_OK) s = hash_readings(t, state, NULL);
    const uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    DT__TRY(s);
    const char *slash = strrchr(t->table, '/');
    t->stem = dt__format_string(t->ctx, "%s/%.100s-%08lx-%016llx", folder,
                                slash == NULL ? t->table : slash + 1,
                                (unsigned long)(place & 0xFFFFFFFF), (unsigned long long)hash);
    return t->stem == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* The name of the file of reading k's x; -1: of the table. NULL: NOMEM. */
static char *name_of(const dt__table_cache *t, int k)
{
    if (k < 0) return dt__format_string(t->ctx, "%s.table", t->stem);
    return dt__format_string(t->ctx, "%s.x%d", t->stem, k);
}

/* Creates a folder and its parents. */
static dt_status make_folder(dt_ctx *ctx, const char *path)
{
    struct stat about;
    int error = 0;
    char *prefix = dt__copy_string(ctx, path);
    if (prefix == NULL) return DT_ERR_NOMEM;
    for (char *c = prefix + 1; error == 0 || error == EEXIST; c++) {
        if (*c != '/' && *c != 0) continue;
        const char separator = *c;
        *c = 0;
        error = dt__make_folder(prefix);
        *c = separator;
        if (separator == 0) break;
    }
    dt__release(ctx, prefix);
    if (error == 0 || (stat(path, &about) == 0 && S_ISDIR(about.st_mode))) return DT_OK;
    return dt__file_fail(ctx, "make the folder of data.cache", path, error);
}

dt_status dt__table_cache_begin(dt__table_cache *t, const dt__cache_folder *f, const char *table)
{
    t->table = table;
    t->folder = f->path;
    t->lock = -1;
    t->file = dt__alloc_array(t->ctx, t->n, sizeof *t->file);
    if (t->file == NULL) return DT_ERR_NOMEM;
    for (int k = 0; k < t->n; k++) t->file[k] = (dt__new_file){ .folder = -1 };
    DT__TRY(make_folder(t->ctx, f->path));
    return name_files(t, f->path);
}

void dt__table_cache_end(dt__table_cache *t)
{
    for (int k = 0; t->file != NULL && k < t->n; k++) {
        if (t->file[k].folder < 0) continue;
        dt__release(t->ctx, (char *)t->file[k].path);
        dt__file_abandon(&t->file[k]);
    }
    dt__table_cache_unlock(t);
    DT__RELEASE(t->ctx, t->file, t->stem);
}

/* ---- reading -------------------------------------------------------------------------------- */

static dt_status load_x(const dt__table_cache *t, int k, const part *p, dt__storage **x)
{
    void *map;
    size_t bytes;
    char *path = name_of(t, k);
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status s = dt__map_file(t->ctx, path, &map, &bytes);
    if (s == DT_OK && map != NULL) {
        *x = dt__storage_of_map(t->ctx, map, bytes);
        if (*x == NULL) s = DT_ERR_NOMEM;
    }
    if (s == DT_OK && ((int64_t)bytes != p->x || XXH3_64bits(map, bytes) != p->x_hash)) {
        s = dt_fail(t->ctx, DT_ERR_STATE, "'%s' is damaged", path);
    }
    dt__release(t->ctx, path);
    return s;
}

static dt_status copy(dt__state_bytes *from, int64_t bytes, dt__storage **out)
{
    const void *at = dt__state_take(from, bytes);
    if (at == NULL) return dt_fail(from->ctx, DT_ERR_STATE, "a table that was kept is damaged");
    if (bytes == 0) return DT_OK;
    *out = dt__storage_create(from->ctx, (uint64_t)bytes);
    if (*out == NULL) return DT_ERR_NOMEM;
    memcpy((*out)->data, at, (size_t)bytes);
    return DT_OK;
}

static dt_status load_bytes(dt__table_cache *t, dt__state_bytes *from, dt__csv_table *out)
{
    const head *h = dt__state_take(from, sizeof *h);
    const bool good =
        h != NULL && memcmp(h->magic, magic, sizeof magic) == 0 &&
        XXH3_64bits(h->counts, (size_t)(from->end - (const uint8_t *)h->counts)) == h->hash &&
        h->counts[READINGS] == t->n;
    const part *parts = good ? dt__state_take(from, t->n * (int64_t)sizeof *parts) : NULL;
    const uint8_t *state = parts == NULL ? NULL : dt__state_take(from, h->counts[STATE]);
    if (state == NULL) {
        return dt_fail(t->ctx, DT_ERR_STATE, "'%s.table' is damaged, or of another version",
                       t->stem);
    }
    for (int k = 0; k < t->n; k++) {
        out[k].rows = h->counts[ROWS];
        if (parts[k].x > 0) DT__TRY(load_x(t, k, &parts[k], &out[k].x));
    }
    for (int k = 0; k < t->n; k++) {
        DT__TRY(copy(from, parts[k].y, &out[k].y));
        DT__TRY(copy(from, parts[k].key, &out[k].key));
    }
    dt__state_bytes known = { t->ctx, state, state + h->counts[STATE] };
    DT__TRY(dt__table_state_take(&known, t->c, t->n));
    dt__say(t->ctx, "'%s': its numbers are read from '%s.table'", t->table, t->stem);
    if (h->counts[LEFT_OUT] > 0) {
        dt__say(t->ctx, "'%s': %lld row%s left out (data.columns.rows)", t->table,
                (long long)h->counts[LEFT_OUT], h->counts[LEFT_OUT] == 1 ? " was" : "s were");
    }
    return DT_OK;
}

dt_status dt__table_cache_load(dt__table_cache *t, dt__csv_table *out, bool *found)
{
    struct stat about;
    uint8_t *bytes = NULL;
    size_t n;
    char *path = name_of(t, -1);
    *found = false;
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status s = DT_OK;
    if (stat(path, &about) == 0) {
        s = dt__input_all(t->ctx, path, MOST_TABLE, &bytes, &n);
        dt__state_bytes from = { t->ctx, bytes, bytes + n };
        if (s == DT_OK) s = load_bytes(t, &from, out);
        *found = s == DT_OK;
    }
    if (s != DT_OK && s != DT_ERR_NOMEM) {
        dt__say(t->ctx, "%s; '%s' is read again", dt_error(t->ctx), t->table);
        for (int k = 0; k < t->n; k++) {
            dt__csv_table_free(&out[k]);
            out[k] = (dt__csv_table){ .rows = 0 };
        }
        s = DT_OK;
    }
    DT__RELEASE(t->ctx, bytes, path);
    return s;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Creates a file of this size, with disk space reserved, and maps it. */
static dt_status map_new(const dt__new_file *file, uint64_t bytes, dt__storage **out)
{
    size_t size;
    *out = NULL;
    DT__TRY(dt__whole_size(file->ctx, file->path, (int64_t)bytes, &size));
    const int error = posix_fallocate(file->descriptor, 0, (off_t)bytes);
    if (error != 0) {
        return dt__file_fail(file->ctx, "keep the numbers of a table (data.cache)", file->path,
                             error);
    }
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
    if (map == MAP_FAILED) return dt__file_fail(file->ctx, "map", file->path, errno);
    *out = dt__storage_of_map(file->ctx, map, size);
    return *out == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__table_cache_grow(dt__table_cache *t, int k, uint64_t bytes, dt__storage **s)
{
    dt__new_file *file = &t->file[k];
    dt__storage *larger;
    if (file->folder < 0) {
        char *path = name_of(t, k);
        if (path == NULL) return DT_ERR_NOMEM;
        const dt_status status = dt__file_begin(t->ctx, path, file);
        if (status != DT_OK) {
            dt__release(t->ctx, path);
            return status;
        }
        file->unsynced = true;
    }
    DT__TRY(map_new(file, bytes, &larger));
    dt__storage_release(*s);
    *s = larger;
    return DT_OK;
}

/* Finishes the file of x, which stays mapped. */
static dt_status end_x(dt__table_cache *t, int k, dt__storage *x)
{
    if (dt__sys_truncate(t->file[k].descriptor, (off_t)x->bytes) != 0) {
        return dt__file_fail(t->ctx, "write", t->file[k].path, errno);
    }
    char *path = (char *)t->file[k].path;
    const dt_status s = dt__file_commit(&t->file[k]);
    dt__release(t->ctx, path);
    return s;
}

static dt_status write_table(const dt__table_cache *t, head *h, const part *parts,
                             const dt__chars *state, const dt__csv_table *out)
{
    XXH3_state_t *hash = XXH3_createState();
    dt__new_file file;
    char *path = name_of(t, -1);
    dt_status s = hash == NULL || path == NULL ? dt_fail(t->ctx, DT_ERR_NOMEM, "out of memory")
                                               : dt__file_begin(t->ctx, path, &file);
    if (s == DT_OK) {
        dt__span span[3 + 2 * DT__MOST_CACHED] = { { h->counts, sizeof h->counts },
                                                   { parts, (size_t)t->n * sizeof *parts },
                                                   { state->bytes, state->used } };
        int n = 3;
        for (int k = 0; k < t->n; k++) {
            if (parts[k].y > 0) span[n++] = (dt__span){ out[k].y->data, (size_t)parts[k].y };
            if (parts[k].key > 0) span[n++] = (dt__span){ out[k].key->data, (size_t)parts[k].key };
        }
        XXH3_64bits_reset(hash);
        for (int i = 0; i < n; i++) XXH3_64bits_update(hash, span[i].data, span[i].bytes);
        h->hash = XXH3_64bits_digest(hash);
        file.unsynced = true;
        s = dt__file_write(&file, h, offsetof(head, counts));
        for (int i = 0; i < n && s == DT_OK; i++) {
            s = dt__file_write(&file, span[i].data, span[i].bytes);
        }
        if (s == DT_OK) s = dt__file_commit(&file);
        else dt__file_abandon(&file);
    }
    XXH3_freeState(hash);
    dt__release(t->ctx, path);
    return s;
}

/* Sizes in bytes of the rows, as storages have spare capacity. */
static part part_of(const dt__csv *c, dt__csv_table *t, int64_t rows)
{
    part p = { 0 };
    const int64_t number = c->types == NULL ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
    if (c->x_of == NULL) p.x = rows * c->inputs.n * number;
    if (c->y_of == NULL) p.y = rows * c->targets.n * (int64_t)sizeof(float);
    if (c->keys.n > 0) p.key = rows * c->keys.n * (int64_t)sizeof(int32_t);
    if (p.x > 0) t->x->bytes = (size_t)p.x;
    if (p.x > 0) p.x_hash = XXH3_64bits(t->x->data, t->x->bytes);
    return p;
}

dt_status dt__table_cache_keep(dt__table_cache *t, int64_t rows, int64_t left_out,
                               dt__csv_table *out)
{
    head h = { .counts = { rows, t->n, 0, left_out } };
    part parts[DT__MOST_CACHED];
    dt__chars state = { .ctx = t->ctx };
    dt_status s = DT_OK;
    memcpy(h.magic, magic, sizeof magic);
    dt__table_state_put(&state, t->c, t->n);
    h.counts[STATE] = (int64_t)state.used;
    if (state.failed) s = DT_ERR_NOMEM;
    for (int k = 0; k < t->n && s == DT_OK; k++) {
        parts[k] = part_of(t->c[k], &out[k], rows);
        if (parts[k].x > 0) s = end_x(t, k, out[k].x);
    }
    if (s == DT_OK) s = write_table(t, &h, parts, &state, out);
    if (s == DT_OK) {
        dt__say(t->ctx, "'%s': its numbers are kept in '%s.table' and beside it (data.cache)",
                t->table, t->stem);
        dt__table_cache_remove_old(t);
    }
    dt__release(t->ctx, state.bytes);
    return s;
}

/* ---- memory without a name ------------------------------------------------------------------ */

static dt_status make_scratch(dt_ctx *ctx, const dt__cache_folder *f, uint64_t bytes,
                              dt__storage **out)
{
    dt__new_file file;
    char *path = dt__format_string(ctx, "%s/numbers", f->path);
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status s = make_folder(ctx, f->path);
    if (s == DT_OK) s = dt__file_begin(ctx, path, &file);
    if (s == DT_OK) {
        s = map_new(&file, bytes, out);
        dt__file_abandon(&file);
    }
    dt__release(ctx, path);
    return s;
}

dt_status dt__storage_as(dt_ctx *ctx, const dt__storage *others, const dt__cache_folder *f,
                         uint64_t bytes, dt__storage **out)
{
    const bool mapped = others != NULL && others->mapped > 0 && bytes > 0;
    if (mapped) return make_scratch(ctx, f, bytes, out);
    *out = dt__storage_create(ctx, bytes);
    return *out == NULL ? DT_ERR_NOMEM : DT_OK;
}
