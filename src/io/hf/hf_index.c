/* The files that hold a folder's tensors: model.safetensors, or the shards of
 *
 *     model.safetensors.index.json = { "metadata": {...}, "weight_map": { tensor: shard, ... } }
 *
 * Index and shards must agree: every tensor is in the shard that the index names, and in no other.
 * */
#include "io/hf/hf.h"

#include <string.h>

#define INDEX_MOST ((size_t)64 << 20)

/* A shard, and the number of its tensors that the index names. */
typedef struct shard {
    const char *name; /* lent by the scanner's strings */
    dt_file *file;
    bool *mapped;
} shard;

typedef struct index {
    dt_ctx *ctx;
    const char *folder;
    shard *shard;
    int64_t n, room;
    bool has_map;
} index;

static dt_status check_name(dt__json *j, const char *name)
{
    char shown[DT__SHOWN];
    const bool plain = *name != 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                       strpbrk(name, "/\\") == NULL;
    if (plain) return DT_OK;
    return dt__json_fail(j, "the shard '%s' is not the name of a file: it must be in the folder",
                         dt__shown(name, shown));
}

static dt_status open_shard(index *x, dt__json *j, const char *name)
{
    char *path, shown[DT__SHOWN];
    DT__TRY(check_name(j, name));
    DT__TRY(DT__RESERVE(x->ctx, x->shard, x->n, x->room));
    DT__TRY(dt__hf_path(x->ctx, x->folder, name, &path));
    if (path == NULL) {
        return dt__json_fail(j, "there is no shard '%s' in the folder", dt__shown(name, shown));
    }
    shard s = { .name = name };
    const dt_status status = dt__file_open(x->ctx, path, &s.file);
    dt__release(x->ctx, path);
    if (status != DT_OK) return status;
    s.mapped = dt__alloc_zero(x->ctx, (size_t)s.file->count);
    x->shard[x->n++] = s;
    return s.mapped == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status find_shard(index *x, dt__json *j, const char *name, shard **out)
{
    int64_t i = x->n - 1; /* most tensors are in the same shard as the one before */
    while (i >= 0 && strcmp(x->shard[i].name, name) != 0) i--;
    if (i < 0) {
        DT__TRY(open_shard(x, j, name));
        i = x->n - 1;
    }
    *out = &x->shard[i];
    return DT_OK;
}

static dt_status read_place(index *x, dt__json *j)
{
    const char *tensor, *name;
    char shown[DT__SHOWN], in[DT__SHOWN];
    shard *s;
    DT__TRY(dt__json_key(j, &tensor));
    DT__TRY(dt__json_string(j, &name));
    DT__TRY(find_shard(x, j, name, &s));
    const dt_file_entry *e = dt_file_find(s->file, tensor);
    if (e == NULL) {
        return dt__json_fail(j, "tensor '%s' is not in its shard '%s'", dt__shown(tensor, shown),
                             dt__shown(name, in));
    }
    bool *mapped = &s->mapped[e - s->file->entry];
    if (*mapped) return dt__json_fail(j, "tensor '%s' occurs twice", dt__shown(tensor, shown));
    *mapped = true;
    return DT_OK;
}

static dt_status read_map(index *x, dt__json *j)
{
    if (x->has_map) return dt__json_fail(j, "'weight_map' occurs twice");
    x->has_map = true;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(read_place(x, j));
    }
    return j->status;
}

static dt_status check_mapped(const index *x)
{
    char shown[DT__SHOWN];
    for (int64_t i = 0; i < x->n; i++) {
        const shard *s = &x->shard[i];
        for (int64_t k = 0; k < s->file->count; k++) {
            const char *name = s->file->entry[k].name;
            if (s->mapped[k] || dt__hf_is_skipped(name)) continue;
            return dt_fail(x->ctx, DT_ERR_FORMAT,
                           "%s: tensor '%s' is not in " DT__HF_INDEX ", or in another shard there",
                           s->file->path, dt__shown(name, shown));
        }
    }
    return DT_OK;
}

static dt_status read_index(index *x, dt__json *j)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *key;
        DT__TRY(dt__json_key(j, &key));
        DT__TRY(strcmp(key, "weight_map") == 0 ? read_map(x, j) : dt__json_skip(j));
    }
    DT__TRY(j->status);
    DT__TRY(dt__json_end(j));
    if (!x->has_map) return dt__json_fail(j, "'weight_map' is missing");
    return check_mapped(x);
}

/* Opens the shards as parts of `file`. */
static dt_status take_shards(index *x, dt_file *file)
{
    file->part = dt__alloc_array(x->ctx, x->n, sizeof(dt_file *));
    if (file->part == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < x->n; i++) {
        file->part[file->n_parts++] = x->shard[i].file;
        x->shard[i].file = NULL;
    }
    return DT_OK;
}

static dt_status open_indexed(dt_file *file, const char *folder, const dt__hf_text *text)
{
    dt__json j;
    char *strings;
    index x = { .ctx = file->ctx, .folder = folder };
    DT__TRY(dt__hf_scan(file->ctx, text, &j, &strings));
    dt_status s = read_index(&x, &j);
    if (s == DT_OK) s = take_shards(&x, file);
    for (int64_t i = 0; i < x.n; i++) {
        dt_file_close(x.shard[i].file);
        dt__release(x.ctx, x.shard[i].mapped);
    }
    DT__RELEASE(x.ctx, x.shard, strings);
    return s;
}

static dt_status open_single(dt_file *file, const char *path)
{
    file->part = dt__alloc_array(file->ctx, 1, sizeof(dt_file *));
    if (file->part == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__file_open(file->ctx, path, &file->part[0]));
    file->n_parts = 1;
    return DT_OK;
}

static dt_status open_parts(dt_file *file, const char *folder, const char *single)
{
    dt__hf_text text;
    if (single != NULL) return open_single(file, single);
    DT__TRY(dt__hf_text_read(file->ctx, folder, DT__HF_INDEX, INDEX_MOST, &text));
    dt_status s = DT_OK;
    if (text.text != NULL) {
        s = open_indexed(file, folder, &text);
    } else {
        s = dt_fail(file->ctx, DT_ERR_IO,
                    "%s: neither " DT__HF_SINGLE " nor " DT__HF_INDEX " is there", file->path);
    }
    dt__hf_text_free(file->ctx, &text);
    return s;
}

/* If both exist, the single file is used, as in transformers. */
dt_status dt__hf_open_parts(dt_file *file, const char *folder)
{
    char *single, *indexed;
    DT__TRY(dt__hf_path(file->ctx, folder, DT__HF_SINGLE, &single));
    dt_status s = dt__hf_path(file->ctx, folder, DT__HF_INDEX, &indexed);
    if (s == DT_OK && single != NULL && indexed != NULL) {
        dt__say(file->ctx, "%s: " DT__HF_SINGLE " is read, " DT__HF_INDEX " is not", file->path);
    }
    if (s == DT_OK) s = open_parts(file, folder, single);
    DT__RELEASE(file->ctx, single, indexed);
    return s;
}
