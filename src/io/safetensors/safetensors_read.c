/* Opens a safetensors file (https://github.com/huggingface/safetensors, "Format"): maps it and
 * parses the header. A file is 8 bytes (header length, little-endian), header, data. A GGUF file
 * (gguf_read.c) is known by its first bytes. */
#include "core/block_list.h"
#include "core/comparisons.h"
#include "core/text/byte_order.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"
#include "io/gguf/gguf.h"
#include "io/numpy/numpy_file.h"
#include "io/hf/hf.h"
#include "io/file_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static dt_status map_descriptor(dt_file *file, int descriptor)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(file->ctx, "read", file->path, errno);
    if (!S_ISREG(about.st_mode)) {
        return dt_fail(file->ctx, DT_ERR_IO, "%s: cannot read: not a regular file", file->path);
    }
    if (about.st_size == 0) {
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: not a safetensors file: it is empty, 0 bytes",
                       file->path);
    }
    if (about.st_size < (off_t)sizeof(uint64_t)) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: not a safetensors file: %lld bytes, and the header's length takes 8",
                       file->path, (long long)about.st_size);
    }
    size_t size;
    DT__TRY(dt__whole_size(file->ctx, file->path, about.st_size, &size));
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) return dt__file_fail(file->ctx, "map", file->path, errno);
    file->bytes = bytes;
    file->size = size;
    return DT_OK;
}

static dt_status map_file(dt_file *file, const char *path)
{
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return dt__file_fail(file->ctx, "open", file->path, errno);
    const dt_status status = map_descriptor(file, descriptor);
    dt__sys_close(descriptor);
    return status;
}

/* A hint for files that other commands read, which recognize them by their suffix. */
static const char *advice(const char *path, const char *looks)
{
    static const struct {
        const char *kind, *ending, *rename;
    } kinds[] = { { "TFLite", ".tflite", "its name must end in .tflite" },
                  { "ONNX", ".onnx", "its name must end in .onnx" } };
    const size_t n = strlen(path);
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        if (strstr(looks, kinds[i].kind) == NULL) continue;
        const size_t k = strlen(kinds[i].ending);
        const bool named = n > k && strcmp(path + n - k, kinds[i].ending) == 0;
        return named ? "detent import makes a model of it" : kinds[i].rename;
    }
    return "give a model's .safetensors file";
}

static dt_status find_data(dt_file *file)
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | file->bytes[i];
    const char *looks = length > DT__HEADER_MOST ? dt__file_kind_of(file->bytes, file->size) : NULL;
    if (looks != NULL) {
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: not a safetensors file: it looks like %s; %s",
                       file->path, looks, advice(file->path, looks));
    }
    if (length > DT__HEADER_MOST) {
        return dt_fail(
            file->ctx, DT_ERR_FORMAT,
            "%s: not a safetensors file, nor one of a kind that is known: its first 8 bytes "
            "would be a header of %llu bytes, %d are the most",
            file->path, (unsigned long long)length, DT__HEADER_MOST);
    }
    if (length > file->size - sizeof length) {
        return dt_fail(
            file->ctx, DT_ERR_FORMAT,
            "%s: the file is cut short: the header has %llu bytes, but the file ends after "
            "%zu of them",
            file->path, (unsigned long long)length, file->size - sizeof length);
    }
    file->data_at = sizeof length + (size_t)length;
    return DT_OK;
}

/* Makes copies in this machine's byte order, and points the entries to them. */
static dt_status turn_data(dt_file *file)
{
    file->turned = dt__alloc(file->ctx, file->size - file->data_at);
    if (file->turned == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->count; i++) {
        dt_file_entry *e = &file->entry[i];
        const unsigned char *from = e->data;
        unsigned char *to = file->turned + (from - (file->bytes + file->data_at));
        const int bits = dt__file_dtype_of(e->dtype)->bits;
        dt__reverse_elements(to, from, e->bytes, bits < 8 ? 1 : (size_t)bits / 8);
        e->data = to;
    }
    return DT_OK;
}

static dt_status read_file(dt_file *file, const char *path)
{
    file->path = dt__copy_string(file->ctx, dt__path_tail(path));
    if (file->path == NULL) return DT_ERR_NOMEM;
    DT__TRY(map_file(file, path));
    if (memcmp(file->bytes, DT__GGUF_MAGIC, strlen(DT__GGUF_MAGIC)) == 0)
        return dt__gguf_read(file);
    if (dt__is_numpy(file)) return dt__numpy_read(file);
    DT__TRY(find_data(file));
    DT__TRY(dt__header_read(file));
    return DT__BIG_ENDIAN ? turn_data(file) : DT_OK;
}

dt_status dt__file_open(dt_ctx *ctx, const char *path, dt_file **out)
{
    *out = NULL;
    dt_file *file = dt__alloc_zero(ctx, sizeof *file);
    if (file == NULL) return DT_ERR_NOMEM;
    file->ctx = ctx;
    dt__ctx_retain(ctx);
    const dt_status status = read_file(file, path);
    if (status != DT_OK) {
        dt_file_close(file);
        return status;
    }
    *out = file;
    return DT_OK;
}

dt_status dt_file_open(dt_ctx *ctx, const char *path, dt_file **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (path == NULL) return dt_fail(ctx, DT_ERR_ARG, "dt_file_open: path is NULL");
    struct stat about;
    if (stat(path, &about) != 0) return dt__file_fail(ctx, "open", path, errno);
    return S_ISDIR(about.st_mode) ? dt__hf_open(ctx, path, out) : dt__file_open(ctx, path, out);
}

void dt_file_close(dt_file *file)
{
    if (file == NULL) return;
    dt_ctx *ctx = file->ctx;
    for (int64_t i = 0; i < file->n_parts; i++) dt_file_close(file->part[i]);
    dt__release(ctx, file->part);
    if (file->bytes != NULL) munmap((void *)(uintptr_t)file->bytes, file->size);
    DT__RELEASE(ctx, file->turned, file->path, file->strings, file->dims, file->entry,
                file->by_name, file->meta);
    dt__block_list_free(ctx, &file->arena);
    dt__release(ctx, file);
    dt__ctx_release(ctx);
}

int64_t dt_file_count(const dt_file *file) { return file == NULL ? 0 : file->count; }

const dt_file_entry *dt_file_at(const dt_file *file, int64_t i)
{
    if (file == NULL) return NULL;
    return i >= 0 && i < file->count ? &file->entry[i] : NULL;
}

static int compare_name(const void *name, const void *element)
{
    const dt_file_entry *const *entry = element;
    return strcmp(name, (*entry)->name);
}

const dt_file_entry *dt_file_find(const dt_file *file, const char *name)
{
    if (file == NULL) return NULL;
    if (name == NULL) return NULL;
    const dt_file_entry **found =
        bsearch(name, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_name);
    return found == NULL ? NULL : *found;
}

int64_t dt_file_meta_count(const dt_file *file) { return file == NULL ? 0 : file->meta_count; }

bool dt_file_meta_at(const dt_file *file, int64_t i, const char **key, const char **value)
{
    if (file == NULL) return false;
    if (key == NULL) return false;
    if (value == NULL) return false;
    if (i < 0 || i >= file->meta_count) return false;
    *key = file->meta[i].key;
    *value = file->meta[i].value;
    return true;
}

const char *dt_file_meta(const dt_file *file, const char *key)
{
    if (file == NULL) return NULL;
    if (key == NULL) return NULL;
    if (file->meta_count == 0) return NULL;
    const dt__meta *found =
        bsearch(&key, file->meta, (size_t)file->meta_count, sizeof *file->meta, dt__by_text);
    return found == NULL ? NULL : found->value;
}
