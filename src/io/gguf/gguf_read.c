/* Reads a GGUF file of llama.cpp as an open file: its tensors under the model's names, in their own
 * types, and detent.model from its keys (gguf_model.c). */
#include "core/block_list.h"
#include "core/system/system_calls.h"
#include "io/gguf/gguf_keys.h"
#include "io/hf/hf.h"
#include "io/model/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct reading {
    dt__gguf_file raw;
    dt__gguf_model g;
    int64_t room; /* allocated entries of file->entry */
} reading;

static dt_status add_entry(reading *r, const char *name, const dt_file_entry *e)
{
    dt_file *file = r->raw.file;
    DT__TRY(DT__RESERVE(file->ctx, file->entry, file->count, r->room));
    char *copy = dt__block_list_text(file->ctx, &file->arena, "%s", name);
    if (copy == NULL) return DT_ERR_NOMEM;
    file->entry[file->count] = *e;
    file->entry[file->count++].name = copy;
    return DT_OK;
}

static dt_file_entry entry_of(const dt__gguf_raw *t)
{
    return (dt_file_entry){ .dtype = t->type->name,
                            .rank = t->rank,
                            .dims = t->dims,
                            .count = t->count,
                            .bytes = t->bytes,
                            .data = t->data };
}

/* Copies rows in the model's order to new memory. */
static dt_status order_rows(reading *r, const dt__gguf_name *n, const dt__gguf_raw *t,
                            dt_file_entry *e)
{
    const int64_t rows = t->dims[0];
    if (!r->g.arch->pairs || n->heads == DT__GGUF_NO_HEADS || t->bytes == 0) return DT_OK;
    if (rows % r->g.o.head_width != 0) {
        char shown[DT__SHOWN];
        return dt__gguf_fail(&r->raw, "tensor '%s' has %lld rows, which heads of %lld do not make",
                             dt__shown(t->name, shown), (long long)rows,
                             (long long)r->g.o.head_width);
    }
    const size_t bytes = t->bytes / (size_t)rows;
    unsigned char *to = dt__block_list_add(r->raw.ctx, &r->raw.file->arena, t->bytes);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = dt__gguf_row(&r->g, n, i);
        memcpy(to + (size_t)row * bytes, t->data + (size_t)i * bytes, bytes);
    }
    e->data = to;
    return DT_OK;
}

/* Copies a norm's values to new memory, less the file's offset (dt__gguf_offset). */
static dt_status subtract(reading *r, const dt__gguf_name *n, const dt__gguf_raw *t,
                          dt_file_entry *e)
{
    const float offset = dt__gguf_offset(&r->g, n);
    char shown[DT__SHOWN];
    if (offset == 0 || t->bytes == 0) return DT_OK;
    if (t->type->id != DT__GGUF_F32) {
        return dt__gguf_fail(&r->raw, "tensor '%s' of type %s: a norm is F32",
                             dt__shown(t->name, shown), t->type->name);
    }
    unsigned char *to = dt__block_list_add(r->raw.ctx, &r->raw.file->arena, t->bytes);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < t->count; i++) {
        float x;
        memcpy(&x, t->data + (size_t)i * sizeof x, sizeof x);
        x -= offset;
        memcpy(to + (size_t)i * sizeof x, &x, sizeof x);
    }
    e->data = to;
    return DT_OK;
}

/* Adds part i of a tensor that has several of equal size: queries, keys, values. */
static dt_status add_share(reading *r, const dt__gguf_raw *t, int i, int parts, const char *path)
{
    char shown[DT__SHOWN];
    dt_file_entry e = entry_of(t);
    if (t->dims[0] % parts != 0) {
        return dt__gguf_fail(&r->raw, "tensor '%s' is not queries, keys and values",
                             dt__shown(t->name, shown));
    }
    int64_t *dims = dt__block_list_add(r->raw.ctx, &r->raw.file->arena, sizeof t->dims);
    if (dims == NULL) return DT_ERR_NOMEM;
    memcpy(dims, t->dims, sizeof t->dims);
    dims[0] /= parts;
    e.dims = dims;
    e.count /= parts;
    e.bytes /= (size_t)parts;
    if (e.bytes > 0) e.data = t->data + (size_t)i * e.bytes;
    return add_entry(r, path, &e);
}

static dt_status take(reading *r, const dt__gguf_name *n, int64_t layer)
{
    char label[64], path[128], prefix[40] = "";
    int parts = 0;
    snprintf(label, sizeof label, "%s", n->theirs);
    if (layer >= 0) {
        snprintf(label, sizeof label, "blk.%lld.%s", (long long)layer, n->theirs);
        snprintf(prefix, sizeof prefix, "%s%lld.", dt__gguf_names_of(&r->g)->blocks,
                 (long long)layer);
    }
    dt__gguf_raw *t = dt__gguf_has(&r->g, n) ? dt__gguf_tensor_of(&r->raw, label) : NULL;
    if (t == NULL) return DT_OK; /* reported when the model is built */
    t->used = true;
    while (parts < 3 && n->ours[parts] != NULL) parts++;
    for (int i = 0; i < parts; i++) {
        dt_file_entry e = entry_of(t);
        snprintf(path, sizeof path, "%s%s", prefix, n->ours[i]);
        if (parts > 1) {
            DT__TRY(add_share(r, t, i, parts, path));
            continue;
        }
        DT__TRY(order_rows(r, n, t, &e));
        DT__TRY(subtract(r, n, t, &e));
        DT__TRY(add_entry(r, path, &e));
    }
    return DT_OK;
}

static dt_status take_all(reading *r)
{
    dt_file *file = r->raw.file;
    char shown[DT__SHOWN];
    const dt__gguf_names *n = dt__gguf_names_of(&r->g);
    for (const dt__gguf_name *w = n->whole; w->theirs != NULL; w++) DT__TRY(take(r, w, -1));
    for (int64_t i = 0; i < dt__min_i64(r->g.o.layers, r->raw.n_raw); i++) {
        for (const dt__gguf_name *b = n->block; b->theirs != NULL; b++) DT__TRY(take(r, b, i));
    }
    for (int64_t i = 0; i < r->raw.n_raw; i++) {
        const dt__gguf_raw *t = &r->raw.raw[i];
        if (t->used) continue;
        return dt__gguf_refuse(&r->raw, "tensor '%s' is none of architecture %s that is known here",
                               dt__shown(t->name, shown), r->g.arch->name);
    }
    file->by_name = dt__alloc_array(file->ctx, file->count, sizeof *file->by_name);
    if (file->by_name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->entry[i];
    if (file->count > 0) {
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, dt__by_entry_name);
    }
    return DT_OK;
}

/* Copies extents, as entries outlive the list of raw tensors. */
static dt_status keep_dims(reading *r)
{
    dt_file *file = r->raw.file;
    for (int64_t i = 0; i < file->count; i++) {
        dt_file_entry *e = &file->entry[i];
        int64_t *dims = dt__block_list_add(file->ctx, &file->arena, (size_t)e->rank * sizeof *dims);
        if (dims == NULL) return DT_ERR_NOMEM;
        memcpy(dims, e->dims, (size_t)e->rank * sizeof *dims);
        e->dims = dims;
    }
    return DT_OK;
}

/* detent.model, detent.tokenizer and detent.tokens, one after the other in one string. */
static dt_status make_metas(reading *r, dt__chars *t)
{
    dt_file *file = r->raw.file;
    bool tokenizer;
    dt_text_tokens tokens;
    DT__TRY(dt__gguf_find_tokens(&r->raw, r->g.o.vocab, &tokens));
    dt__gguf_put_options(&r->g, t);
    dt__put(t, "", 1);
    const size_t second = t->used;
    DT__TRY(dt__gguf_put_tokenizer(&r->raw, t, &tokenizer));
    dt__put(t, "", 1);
    const size_t third = t->used;
    dt__text_tokens_put(t, &tokens);
    dt__put(t, "", 1);
    file->meta = dt__alloc_array(file->ctx, 3, sizeof *file->meta);
    if (file->meta == NULL || t->failed) return DT_ERR_NOMEM;
    file->strings = t->bytes;
    t->bytes = NULL;
    file->meta[file->meta_count++] = (dt__meta){ DT__KEY_MODEL, file->strings };
    if (tokenizer) {
        file->meta[file->meta_count++] = (dt__meta){ DT__KEY_TOKENIZER, file->strings + second };
    }
    if (!dt__text_tokens_none(&tokens)) {
        file->meta[file->meta_count++] = (dt__meta){ DT__KEY_TOKENS, file->strings + third };
    }
    return DT_OK;
}

static dt_status read_all(reading *r)
{
    dt__chars t = { .ctx = r->raw.ctx };
    DT__TRY(dt__gguf_scan(&r->raw));
    DT__TRY(dt__gguf_read_model(&r->raw, &r->g));
    DT__TRY(take_all(r));
    DT__TRY(keep_dims(r));
    const dt_status s = make_metas(r, &t);
    dt__release(t.ctx, t.bytes);
    return s;
}

bool dt__is_gguf(const char *path)
{
    char begin[sizeof DT__GGUF_MAGIC] = "";
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    size_t n = 0;
    ssize_t more = 1;
    for (; more > 0 && n < sizeof begin - 1; n += (size_t)(more > 0 ? more : 0)) {
        more = dt__sys_read(descriptor, begin + n, sizeof begin - 1 - n);
    }
    dt__sys_close(descriptor);
    return strcmp(begin, DT__GGUF_MAGIC) == 0;
}

dt_status dt__gguf_read(dt_file *file)
{
    reading r = { .raw = { .ctx = file->ctx, .file = file } };
    const dt_status s = read_all(&r);
    DT__RELEASE(file->ctx, r.raw.key, r.raw.raw);
    return s;
}
