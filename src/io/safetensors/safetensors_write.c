/* Writes a safetensors file. Equal tensors and metadata give equal bytes, in whatever order they
 * were added: keys are sorted, tensors are sorted by element size, large first, then by name. The
 * header is padded with spaces to a multiple of 8, so every tensor is aligned to its element size.
 *
 * detent.xxh3 is XXH3-64 (xxhash.com) of the whole file with its own 16 digits as zeros. */
#include "core/tensor.h"
#include "core/comparisons.h"
#include "core/text/utf8.h"
#include "core/system/atomic_file.h"
#include "core/text/byte_order.h"
#include "io/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct item {
    dt_file_entry entry;           /* the writer owns name and dims */
    int bits;                      /* of one element */
    dt_tensor *view;               /* holds the storage; NULL: the bytes are borrowed */
    const dt__byte_source *source; /* provides the bytes; NULL: they are at entry.data */
} item;

struct dt_writer {
    dt_ctx *ctx;
    item *item;
    dt__meta *meta; /* the writer owns keys and values */
    int64_t count, capacity, meta_count, meta_capacity;
    const dt__byte_source *source; /* of entries that are added next; NULL: none */
    /* for the bytes of one item, twice as large on a big-endian machine */
    char *room;
};

dt_status dt_writer_create(dt_ctx *ctx, dt_writer **out)
{
    DT__NEED2(ctx, ctx, out);
    dt_writer *w = dt__alloc_zero(ctx, sizeof *w);
    *out = w;
    if (w == NULL) return DT_ERR_NOMEM;
    w->ctx = ctx;
    dt__ctx_retain(ctx);
    return DT_OK;
}

static void free_item(dt_ctx *ctx, item *i)
{
    DT__RELEASE(ctx, (void *)(uintptr_t)i->entry.name, (void *)(uintptr_t)i->entry.dims);
    dt_tensor_free(i->view);
}

static void free_meta(dt_ctx *ctx, dt__meta *m)
{
    DT__RELEASE(ctx, (void *)(uintptr_t)m->key, (void *)(uintptr_t)m->value);
}

void dt_writer_free(dt_writer *w)
{
    if (w == NULL) return;
    dt_ctx *ctx = w->ctx;
    for (int64_t i = 0; i < w->count; i++) free_item(ctx, &w->item[i]);
    for (int64_t i = 0; i < w->meta_count; i++) free_meta(ctx, &w->meta[i]);
    DT__RELEASE(ctx, w->item, w->meta, w->room, w);
    dt__ctx_release(ctx);
}

/* ---- collecting --------------------------------------------------------------------------- */

static dt_status check_text(const dt_writer *w, const char *what, const char *text)
{
    char shown[DT__SHOWN];
    if (text == NULL) return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer: a %s is NULL", what);
    if (dt__is_utf8(text)) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer: the %s '%s' is not UTF-8", what,
                   dt__shown(text, shown));
}

dt_status dt_writer_meta(dt_writer *w, const char *key, const char *value)
{
    DT__NEED(NULL, w);
    DT__TRY(check_text(w, "metadata key", key));
    DT__TRY(check_text(w, "metadata value", value));
    if (strcmp(key, DT__KEY_VERSION) == 0 || strcmp(key, DT__KEY_HASH) == 0) {
        return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_meta: %s is written by the writer", key);
    }
    for (int64_t i = 0; i < w->meta_count; i++) {
        if (strcmp(w->meta[i].key, key) != 0) continue;
        char text[DT__SHOWN];
        return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_meta: the key '%s' was given before",
                       dt__shown(key, text));
    }
    DT__TRY(DT__RESERVE(w->ctx, w->meta, w->meta_count, w->meta_capacity));
    dt__meta m = { .key = dt__copy_string(w->ctx, key) };
    if (m.key != NULL) m.value = dt__copy_string(w->ctx, value);
    if (m.value == NULL) {
        free_meta(w->ctx, &m);
        return DT_ERR_NOMEM;
    }
    w->meta[w->meta_count++] = m;
    return DT_OK;
}

static dt_status measure(const dt_writer *w, item *i)
{
    dt_file_entry *e = &i->entry;
    char text[DT__SHOWN];
    const dt__file_dtype *dtype = e->dtype == NULL ? NULL : dt__file_dtype_of(e->dtype);
    if (dtype == NULL) {
        return dt_fail(w->ctx, DT_ERR_DTYPE,
                       "dt_writer_add: '%s': '%s' is not a dtype of the format",
                       dt__shown(e->name, text), e->dtype == NULL ? "" : e->dtype);
    }
    if (e->rank < 0 || (e->rank > 0 && e->dims == NULL) ||
        !dt__product(e->rank, e->dims, &e->count) || !dt__file_bytes(dtype, e->count, &e->bytes)) {
        return dt_fail(w->ctx, DT_ERR_ARG,
                       "dt_writer_add: '%s': its shape is negative, too large or no whole bytes",
                       dt__shown(e->name, text));
    }
    if (e->bytes > 0 && e->data == NULL) {
        return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_add: '%s' has no data",
                       dt__shown(e->name, text));
    }
    e->dtype = dtype->name;
    i->bits = dtype->bits;
    return DT_OK;
}

void dt__writer_from(dt_writer *w, const dt__byte_source *source) { w->source = source; }

dt_status dt_writer_add_bytes(dt_writer *w, const dt_file_entry *entry)
{
    DT__NEED2(NULL, w, entry);
    DT__TRY(check_text(w, "tensor's name", entry->name));
    if (strcmp(entry->name, "__metadata__") == 0) {
        return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_add: no tensor may be named __metadata__");
    }
    item i = { .entry = *entry, .source = w->source };
    DT__TRY(measure(w, &i));
    DT__TRY(DT__RESERVE(w->ctx, w->item, w->count, w->capacity));
    const size_t bytes = (size_t)entry->rank * sizeof entry->dims[0];
    int64_t *dims = dt__alloc(w->ctx, bytes);
    i.entry.dims = dims;
    i.entry.name = dims == NULL ? NULL : dt__copy_string(w->ctx, entry->name);
    if (i.entry.name == NULL) {
        free_item(w->ctx, &i);
        return DT_ERR_NOMEM;
    }
    if (bytes > 0) memcpy(dims, entry->dims, bytes);
    w->item[w->count++] = i;
    return DT_OK;
}

dt_status dt_writer_add(dt_writer *w, const char *name, const dt_tensor *x)
{
    DT__NEED(dt_ctx_of(x), w);
    DT__NEED(dt_ctx_of(x), x);
    DT__TRY(check_text(w, "tensor's name", name));
    char text[DT__SHOWN];
    if (x->kind != NULL || x->storage == NULL || x->dtype == DT_I4) {
        return dt_fail(w->ctx, DT_ERR_STATE, "dt_writer_add: '%s' must be dense and not dropped",
                       dt__shown(name, text));
    }
    dt_tensor *view;
    DT__TRY(dt__contiguous(w->ctx, x, &view));
    const dt_file_entry entry = {
        .name = name,
        .dtype = dt__file_dtype_name(x->dtype),
        .rank = x->rank,
        .dims = x->dims,
        .data = dt_data(view),
    };
    const dt_status status = dt_writer_add_bytes(w, &entry);
    if (status != DT_OK) {
        dt_tensor_free(view);
        return status;
    }
    w->item[w->count - 1].view = view;
    return DT_OK;
}

/* ---- order -------------------------------------------------------------------------------- */

static int compare_places(const void *left, const void *right)
{
    const item *a = left, *b = right;
    if (a->bits != b->bits) return a->bits > b->bits ? -1 : 1;
    return dt__by_text(left, right);
}

static dt_status put_in_order(dt_writer *w)
{
    if (w->count == 0) return DT_OK;
    qsort(w->item, (size_t)w->count, sizeof *w->item, dt__by_text);
    for (int64_t i = 1; i < w->count; i++) {
        const char *name = w->item[i].entry.name;
        char text[DT__SHOWN];
        if (strcmp(w->item[i - 1].entry.name, name) != 0) continue;
        return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_write: two tensors are named '%s'",
                       dt__shown(name, text));
    }
    qsort(w->item, (size_t)w->count, sizeof *w->item, compare_places);
    return DT_OK;
}

/* ---- header ------------------------------------------------------------------------------- */

static void put_tensor(dt__chars *t, const dt_file_entry *e, size_t begin)
{
    DT__PUT_ALL(t, ",", DT__QUOTED(e->name));
    dt__put_text(t, ":{\"dtype\":");
    dt__put_quoted(t, e->dtype);
    dt__put_text(t, ",\"shape\":[");
    for (int i = 0; dt__put_each(t, i, e->rank); i++) dt__put_integer(t, e->dims[i]);
    dt__put_text(t, "],\"data_offsets\":[");
    DT__PUT_ALL(t, (int64_t)begin, ",", (int64_t)(begin + e->bytes));
    dt__put_text(t, "]}");
}

static dt_status put_meta(dt__chars *t, const dt_writer *w, size_t *hash_at)
{
    const int64_t count = w->meta_count + 2;
    dt__meta *meta = dt__alloc_array(w->ctx, count, sizeof *meta);
    if (meta == NULL) return DT_ERR_NOMEM;
    if (w->meta_count > 0) memcpy(meta, w->meta, (size_t)w->meta_count * sizeof *meta);
    meta[count - 2] = (dt__meta){ DT__KEY_VERSION, dt_version() };
    meta[count - 1] = (dt__meta){ DT__KEY_HASH, DT__NO_HASH };
    qsort(meta, (size_t)count, sizeof *meta, dt__by_text);
    dt__put_text(t, "\"__metadata__\":{");
    for (int64_t i = 0; dt__put_each(t, i, count); i++) {
        DT__PUT_ALL(t, DT__QUOTED(meta[i].key), ":");
        if (strcmp(meta[i].key, DT__KEY_HASH) == 0) *hash_at = t->used + 1;
        dt__put_quoted(t, meta[i].value);
    }
    dt__put_text(t, "}");
    dt__release(w->ctx, meta);
    return DT_OK;
}

/* Writes length and header; the hash's digits are zeros for now. */
static dt_status put_header(dt__chars *t, const dt_writer *w, size_t *hash_at)
{
    dt__put(t, "\0\0\0\0\0\0\0", sizeof(uint64_t));
    dt__put_text(t, "{");
    DT__TRY(put_meta(t, w, hash_at));
    size_t at = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const dt_file_entry *e = &w->item[i].entry;
        put_tensor(t, e, at);
        if (!dt__add_size(at, e->bytes, &at) || at > PTRDIFF_MAX) {
            return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_write: the tensors are too large");
        }
    }
    dt__put_text(t, "}");
    while (t->used % 8 != 0 && !t->failed) dt__put_text(t, " ");
    if (t->failed) return DT_ERR_NOMEM;
    const uint64_t length = t->used - sizeof length;
    if (length > DT__HEADER_MOST) {
        return dt_fail(w->ctx, DT_ERR_ARG,
                       "dt_writer_write: a header of %" PRIu64 " bytes; a reader takes at most %d",
                       length, DT__HEADER_MOST);
    }
    for (int i = 0; i < 8; i++) t->bytes[i] = (char)(length >> (8 * i));
    return DT_OK;
}

/* ---- hash --------------------------------------------------------------------------------- */

static void put_digits(const XXH3_state_t *state, char digits[DT__HASH_DIGITS + 1])
{
    snprintf(digits, DT__HASH_DIGITS + 1, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
}

dt_status dt__hash_spans(dt_ctx *ctx, const dt__span *span, int64_t count,
                         char digits[DT__HASH_DIGITS + 1])
{
    XXH3_state_t *state = XXH3_createState();
    bool good = state != NULL && XXH3_64bits_reset(state) == XXH_OK;
    for (int64_t i = 0; good && i < count; i++) {
        if (span[i].bytes == 0) continue;
        good = XXH3_64bits_update(state, span[i].data, span[i].bytes) == XXH_OK;
    }
    if (good) put_digits(state, digits);
    XXH3_freeState(state);
    return good ? DT_OK : dt_fail(ctx, DT_ERR_NOMEM, "out of memory: the state of a hash");
}

/* ---- the bytes of the file ------------------------------------------------------------------ */

/* Whether the item's bytes must be produced or byte-swapped before writing. */
static bool is_made(const item *it)
{
    return it->source != NULL || (DT__BIG_ENDIAN && it->bits > 8);
}

static dt_status make_room(dt_writer *w)
{
    size_t most = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const size_t bytes = w->item[i].entry.bytes;
        if (is_made(&w->item[i]) && bytes > most) most = bytes;
    }
    dt__release(w->ctx, w->room);
    w->room = dt__alloc_array(w->ctx, DT__BIG_ENDIAN ? 2 : 1, most);
    return w->room == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status bytes_of(dt_writer *w, const item *it, const void **out)
{
    const dt_file_entry *e = &it->entry;
    *out = e->data;
    if (!is_made(it)) return DT_OK;
    if (it->source != NULL && e->bytes > 0) {
        const size_t at = (size_t)((uintptr_t)e->data - (uintptr_t)it->source);
        DT__TRY(it->source->fill(it->source->user, at, w->room, e->bytes));
        *out = w->room;
    }
    if (!DT__BIG_ENDIAN || it->bits <= 8) return DT_OK;
    char *turned = w->room + e->bytes;
    dt__reverse_elements(turned, *out, e->bytes, (size_t)it->bits / 8);
    *out = turned;
    return DT_OK;
}

typedef dt_status take_bytes(void *user, const void *data, size_t bytes);

static dt_status hash_bytes(void *user, const void *data, size_t bytes)
{
    if (bytes == 0) return DT_OK;
    return XXH3_64bits_update(user, data, bytes) == XXH_OK ? DT_OK : DT_ERR_NOMEM;
}

static dt_status each(dt_writer *w, const dt__chars *header, take_bytes *take, void *user)
{
    const void *data;
    DT__TRY(take(user, header->bytes, header->used));
    for (int64_t i = 0; i < w->count; i++) {
        DT__TRY(bytes_of(w, &w->item[i], &data));
        DT__TRY(take(user, data, w->item[i].entry.bytes));
        if (take == hash_bytes) dt__did_work(w->ctx, DT__HASH, (double)w->item[i].entry.bytes);
    }
    return DT_OK;
}

static dt_status hash(dt_writer *w, const dt__chars *header, char digits[DT__HASH_DIGITS + 1])
{
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL || XXH3_64bits_reset(state) != XXH_OK) {
        XXH3_freeState(state);
        return dt_fail(w->ctx, DT_ERR_NOMEM, "out of memory: the state of a hash");
    }
    const dt_status s = each(w, header, hash_bytes, state);
    put_digits(state, digits);
    XXH3_freeState(state);
    return s;
}

static dt_status write_bytes(void *user, const void *data, size_t bytes)
{
    return dt__file_write(user, data, bytes);
}

/* Plans progress: each byte is hashed and written. */
static void plan(dt_writer *w)
{
    double bytes = 0;
    for (int64_t i = 0; i < w->count; i++) bytes += (double)w->item[i].entry.bytes;
    dt__plan_work(w->ctx, DT__HASH, bytes);
    dt__plan_work(w->ctx, DT__WRITE, bytes);
    dt__pass_work(w->ctx);
}

static dt_status write_whole(dt_writer *w, dt__chars *t, const char *path)
{
    size_t hash_at = 0;
    char digits[DT__HASH_DIGITS + 1];
    dt__new_file file;
    DT__TRY(put_header(t, w, &hash_at));
    DT__TRY(make_room(w));
    plan(w);
    DT__TRY(hash(w, t, digits));
    memcpy(t->bytes + hash_at, digits, DT__HASH_DIGITS);
    DT__TRY(dt__file_begin(w->ctx, path, &file));
    file.counted = true;
    const dt_status s = each(w, t, write_bytes, &file);
    if (s == DT_OK) return dt__file_commit(&file);
    dt__file_abandon(&file);
    return s;
}

dt_status dt_writer_write(dt_writer *w, const char *path)
{
    DT__NEED(NULL, w);
    if (path == NULL) return dt_fail(w->ctx, DT_ERR_ARG, "dt_writer_write: path is NULL");
    DT__TRY(put_in_order(w));
    dt__chars t = { .ctx = w->ctx };
    const dt_status status = write_whole(w, &t, path);
    dt__release(w->ctx, t.bytes);
    return status;
}
