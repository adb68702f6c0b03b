/* Data of tensors in other files (docs/ExternalData.md of ONNX): external_data says "location", a
 * path inside the model's folder, and may have "offset" and "length" in bytes, and "checksum",
 * which is not verified, as a warning says. Other keys such as "basepath" are refused. As in a
 * Hugging Face folder, links to files outside of the folder are not followed. */
#include "core/system/atomic_file.h"
#include "core/system/open_file.h"
#include "core/block_list.h"
#include "core/text/json.h"
#include "core/system/system_calls.h"
#include "io/hf/hf.h"
#include "io/onnx/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Where a tensor's data are. */
typedef struct place {
    const dt__onnx_file *file;
    const char *tensor, *location; /* tensor: its name, for messages */
    uint64_t offset, length;       /* length 0: as many bytes as the tensor needs */
} place;

static dt_status number(const place *p, const char *key, const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    *out = n;
    if (*text >= '0' && *text <= '9' && *end == 0 && errno == 0 && n <= INT64_MAX) return DT_OK;
    return dt_fail(p->file->ctx, DT_ERR_FORMAT,
                   "%s: the tensor '%s': '%s' of its data is not a number", p->file->path,
                   p->tensor, key);
}

static dt_status read_key(place *p, const char *key, const char *value)
{
    char shown[DT__SHOWN];
    if (strcmp(key, "offset") == 0) return number(p, key, value, &p->offset);
    if (strcmp(key, "length") == 0) return number(p, key, value, &p->length);
    if (strcmp(key, "location") == 0) {
        p->location = value;
        return DT_OK;
    }
    if (strcmp(key, "checksum") == 0) {
        dt__say_once(p->file->ctx, "%s: the checksums of data in other files are not compared",
                     p->file->path);
        return DT_OK;
    }
    return dt_fail(p->file->ctx, DT_ERR_UNSUPPORTED,
                   "%s: the tensor '%s': '%s' of its data in another file is not supported; "
                   "location, offset and length are",
                   p->file->path, p->tensor, dt__shown(key, shown));
}

static dt_status read_place(const dt__onnx_tensor *t, place *p)
{
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(t->external_data[k]->key, key) != 0) continue;
            return dt_fail(p->file->ctx, DT_ERR_FORMAT,
                           "%s: the tensor '%s': its data in another file have a key twice",
                           p->file->path, p->tensor);
        }
        DT__TRY(read_key(p, key, value));
    }
    if (p->location != NULL && *p->location != 0) return DT_OK;
    return dt_fail(p->file->ctx, DT_ERR_FORMAT,
                   "%s: the tensor '%s' is in another file, which it does not name", p->file->path,
                   p->tensor);
}

/* Whether the path stays in the folder: an untrusted model must not read other files. */
static bool is_inside(const char *location)
{
    if (*location == '/') return false;
    for (const char *part = location; part != NULL; part = strchr(part, '/')) {
        if (*part == '/') part++;
        if (strncmp(part, "..", 2) == 0 && (part[2] == 0 || part[2] == '/')) return false;
    }
    return true;
}

/* The path of the file, after checking that links lead to files of the folder. */
static dt_status find_file(const place *p, char **out)
{
    dt_ctx *ctx = p->file->ctx;
    char shown[DT__SHOWN];
    const char *slash = strrchr(p->file->whole, '/');
    const int length = slash == NULL             ? 1
                       : slash == p->file->whole ? 1
                                                 : (int)(slash - p->file->whole);
    char *folder = dt__format_string(ctx, "%.*s", length, slash == NULL ? "." : p->file->whole);
    *out = NULL;
    if (folder == NULL) return DT_ERR_NOMEM;
    const dt_status s = dt__hf_path(ctx, folder, p->location, out);
    dt__release(ctx, folder);
    if (s != DT_OK || *out != NULL) return s;
    return dt_fail(ctx, DT_ERR_IO,
                   "%s: cannot open: the tensor '%s' has its data in it, and there "
                   "is no such file",
                   dt__shown(p->location, shown), p->tensor);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Maps a data file, and counts its bytes for the limit on the model's size (onnx_import.c). */
static dt_status map_file(const place *p, const char *path, dt__onnx_map *to)
{
    dt_ctx *ctx = p->file->ctx;
    struct stat about;
    dt_status s = DT_OK;
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return dt__file_fail(ctx, "open", path, errno);
    if (fstat(descriptor, &about) != 0) s = dt__file_fail(ctx, "read", path, errno);
    else if (S_ISREG(about.st_mode)) s = dt__whole_size(ctx, path, about.st_size, &to->bytes);
    if (s == DT_OK && to->bytes > 0) {
        to->at = mmap(NULL, to->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (to->at == MAP_FAILED) {
            s = dt__file_fail(ctx, "map", path, errno);
            to->at = NULL;
            to->bytes = 0;
        }
    }
    dt__sys_close(descriptor);
    if (s == DT_OK) dt__pool_widen(ctx, to->bytes, DT__ONNX_GROWTH);
    return s;
}

/* Finds the file's map; maps it at first use. */
static dt_status find_map(const place *p, const char *path, const dt__onnx_map **out)
{
    const dt__onnx_file *f = p->file;
    dt__onnx_map *m = *f->maps;
    while (m != NULL && strcmp(m->path, path) != 0) m = m->next;
    *out = m;
    if (m != NULL) return DT_OK;
    void *blocks = NULL;
    const size_t n = strlen(path) + 1;
    m = dt__block_list_add(f->ctx, &blocks, sizeof *m + n);
    if (m == NULL) return DT_ERR_NOMEM;
    *m = (dt__onnx_map){ .next = *f->maps, .block = blocks, .path = (char *)(m + 1) };
    memcpy(m + 1, path, n);
    *f->maps = m;
    *out = m;
    return map_file(p, path, m);
}

void dt__onnx_unmap(dt__onnx_file *f)
{
    dt__onnx_map *m = f->maps == NULL ? NULL : *f->maps;
    while (m != NULL) {
        dt__onnx_map *const next = m->next;
        void *block = m->block;
        if (m->at != NULL) munmap(m->at, m->bytes);
        dt__block_list_free(f->ctx, &block);
        m = next;
    }
}

/* The bytes in the map, or a copy if they are not aligned for floats. */
static dt_status take_bytes(const place *p, const dt__onnx_map *m, size_t n, void **blocks,
                            ProtobufCBinaryData *out)
{
    if (p->offset > m->bytes || n > m->bytes - p->offset) {
        return dt_fail(p->file->ctx, DT_ERR_FORMAT,
                       "%s: the tensor '%s' expects %zu bytes from %" PRIu64
                       " on, but '%s' has %zu",
                       p->file->path, p->tensor, n, p->offset, m->path, m->bytes);
    }
    uint8_t *at = n == 0 ? NULL : (uint8_t *)m->at + p->offset;
    *out = (ProtobufCBinaryData){ n, at };
    if (p->offset % sizeof(double) == 0 || n == 0) return DT_OK;
    out->data = dt__block_list_add(p->file->ctx, blocks, n);
    if (out->data == NULL) return DT_ERR_NOMEM;
    memcpy(out->data, at, n);
    return DT_OK;
}

static dt_status read_file(const place *p, size_t n, void **blocks, ProtobufCBinaryData *out)
{
    char *path;
    const dt__onnx_map *m;
    DT__TRY(find_file(p, &path));
    dt_status s = find_map(p, path, &m);
    if (s == DT_OK) s = take_bytes(p, m, n, blocks, out);
    dt__release(p->file->ctx, path);
    return s;
}

dt_status dt__onnx_external(const dt__onnx_file *file, const dt__onnx_tensor *t, size_t bytes,
                            void **blocks, ProtobufCBinaryData *out)
{
    char tensor[DT__SHOWN], location[DT__SHOWN];
    place p = { .file = file, .tensor = dt__shown(t->name, tensor) };
    DT__TRY(read_place(t, &p));
    if (!is_inside(p.location)) {
        return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                       "%s: the tensor '%s' is in '%s', outside of the model's folder", file->path,
                       tensor, dt__shown(p.location, location));
    }
    if (p.length != 0 && p.length != bytes) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: the tensor '%s' has %zu bytes by its shape, but data of %" PRIu64,
                       file->path, tensor, bytes, p.length);
    }
    return read_file(&p, bytes, blocks, out);
}
