/* Data of tensors in other files (docs/ExternalData.md of ONNX): external_data says "location", a
 * path inside the model's folder, and may say "offset", "length" in bytes and "checksum", which is
 * not compared: a line says so. Other keys, "basepath" among them, are refused. Files are those of
 * the folder, as in a Hugging Face folder: no link out of it is followed. */
#include "core/system/atomic_file.h"
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
#include <sys/stat.h>
#include <unistd.h>

/* Where the data lie. */
typedef struct place {
    const dt__onnx_file *file;
    const char *tensor, *location; /* the first for messages */
    uint64_t offset, length;       /* length 0: as many as are wanted */
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

/* A stranger's model names no files outside of its folder. */
static bool is_inside(const char *location)
{
    if (*location == '/') return false;
    for (const char *part = location; part != NULL; part = strchr(part, '/')) {
        if (*part == '/') part++;
        if (strncmp(part, "..", 2) == 0 && (part[2] == 0 || part[2] == '/')) return false;
    }
    return true;
}

static dt_status read_bytes(const place *p, int descriptor, const char *path, void *to, size_t n)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(p->file->ctx, "read", path, errno);
    const uint64_t size = S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0;
    if (p->offset > size || n > size - p->offset) {
        return dt_fail(p->file->ctx, DT_ERR_FORMAT,
                       "%s: the tensor '%s' expects %zu bytes from %" PRIu64
                       " on, but '%s' has %" PRIu64,
                       p->file->path, p->tensor, n, p->offset, path, size);
    }
    for (size_t done = 0; done < n;) {
        const ssize_t got =
            dt__sys_read_at(descriptor, (char *)to + done, n - done, (off_t)(p->offset + done));
        if (got <= 0) return dt__file_fail(p->file->ctx, "read", path, got < 0 ? errno : EIO);
        done += (size_t)got;
    }
    return DT_OK;
}

/* The path of the file; links lead to files of the folder. */
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

static dt_status read_file(const place *p, size_t n, void **blocks, ProtobufCBinaryData *out)
{
    dt_ctx *ctx = p->file->ctx;
    char *path;
    DT__TRY(find_file(p, &path));
    struct stat about;
    dt_status s = DT_OK;
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        s = dt__file_fail(ctx, "open", path, errno);
    } else if (fstat(descriptor, &about) == 0 && n <= (uint64_t)about.st_size) {
        out->data = dt__block_list_add(ctx, blocks, n);
        if (out->data == NULL) s = DT_ERR_NOMEM;
    }
    out->len = n;
    if (s == DT_OK) s = read_bytes(p, descriptor, path, out->data, n);
    if (descriptor >= 0) dt__sys_close(descriptor);
    dt__release(ctx, path);
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
