/* io.h: files. Tensors are kept in safetensors files: eight bytes of header length, a JSON header
 * that says name, dtype, shape and place of every tensor, then the tensors' bytes. docs/format.md
 * lists the rules that are checked and what detent adds. */
#ifndef DETENT_IO_H
#define DETENT_IO_H

#include <detent/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ------------------------------------------------------------------------------ */

/* An open safetensors file. It is mapped, so the tensors' bytes are read when they are touched; a
 * file that somebody else cuts short while it is open may therefore end the program. */
typedef struct dt_file dt_file;

/* One tensor of a file, of any rank; all pointers are lent by the file. */
typedef struct dt_file_entry {
    const char *name;    /* UTF-8; may be empty, may hold control characters */
    const char *dtype;   /* as the format names it: "F32", "BF16", "U8", ... */
    int rank;            /* any: also above DT_MAX_RANK */
    const int64_t *dims; /* each >= 0 */
    int64_t count;       /* of elements */
    size_t bytes;        /* of the data */
    const void *data;    /* row-major, little-endian, aligned to nothing */
} dt_file_entry;

/* Opens a file and checks every rule of the format; the tensors' values are not looked at. Errors:
 * IO (missing, unreadable, no regular file), FORMAT (which rule, which tensor), NOMEM. */
DT_API dt_status dt_file_open(dt_ctx *ctx, const char *path, dt_file **out);

/* Closes the file; what it lent ends with it. NULL is allowed. */
DT_API void dt_file_close(dt_file *file);

/* Number of tensors. */
DT_API int64_t dt_file_count(const dt_file *file);

/* The i-th tensor in the order of their bytes in the file, lent; NULL outside 0...count-1. */
DT_API const dt_file_entry *dt_file_at(const dt_file *file, int64_t i);

/* The tensor of this name, lent; NULL where there is none. log2(count) comparisons. */
DT_API const dt_file_entry *dt_file_find(const dt_file *file, const char *name);

/* Number of metadata pairs; 0 without metadata. */
DT_API int64_t dt_file_meta_count(const dt_file *file);

/* The i-th pair in the order of the keys' bytes, lent. False outside 0...count-1. */
DT_API bool dt_file_meta_at(const dt_file *file, int64_t i, const char **key, const char **value);

/* The value of a metadata key, lent; NULL where there is none. */
DT_API const char *dt_file_meta(const dt_file *file, const char *key);

/* Reads a tensor into a new one of the context, converted to `dtype`:
 *     F32 from F32, F16, BF16 (exact) and F64 (nearest);  F64 from F64, F32, F16, BF16;
 *     U8, I8, I32, I64 from themselves and from integers whose every value they hold;
 *     BOOL from BOOL.
 * Errors: ARG (no such tensor), DTYPE (any other pair), UNSUPPORTED (rank above DT_MAX_RANK),
 * NUMERIC (an F64 beyond the range of f32), FORMAT (a BOOL that is neither 0 nor 1), NOMEM. */
DT_API dt_status dt_file_load(const dt_file *file, const char *name, dt_dtype dtype,
                              dt_tensor **out);

/* Verifies what detent adds to the files that it writes: the version (UNSUPPORTED where a newer
 * major one wrote the file) and the hash of the whole file (FORMAT where it differs: the file was
 * damaged or changed). A file without these metadata keys passes. */
DT_API dt_status dt_file_check(const dt_file *file);

/* ---- writing ------------------------------------------------------------------------------ */

/* Collects tensors and metadata, then writes them as one file. */
typedef struct dt_writer dt_writer;

/* An empty writer. Errors: NOMEM. */
DT_API dt_status dt_writer_create(dt_ctx *ctx, dt_writer **out);

/* Frees the writer; written files stay. NULL is allowed. */
DT_API void dt_writer_free(dt_writer *w);

/* Adds a metadata pair; both texts are copied. detent.version and detent.xxh3 are the writer's own.
 * Errors: ARG (no UTF-8, a key given before, one of those two), NOMEM. */
DT_API dt_status dt_writer_meta(dt_writer *w, const char *key, const char *value);

/* Adds a tensor of any dtype of the format and any rank. Name, dtype and dims are copied; `count`
 * and `bytes` are computed, whatever they say; `data` is borrowed until the writer is freed. An
 * entry that dt_file_at lent can be handed on as it is. Errors: ARG (name, shape, no data), DTYPE,
 * NOMEM. */
DT_API dt_status dt_writer_add_bytes(dt_writer *w, const dt_file_entry *entry);

/* Adds a tensor: its values are those at the time of the write. The writer keeps its storage; the
 * handle may be freed. Errors: ARG (name), STATE (a wrapper, dropped, not contiguous, opaque),
 * NOMEM. */
DT_API dt_status dt_writer_add(dt_writer *w, const char *name, const dt_tensor *x);

/* Writes the file, with detent.version and detent.xxh3 among its metadata. The same tensors and
 * metadata give the same bytes, in whatever order they were added. It is written beside `path`
 * under another name, synced, and then renamed: on any error the old file is there as it was, and
 * nothing else. May be called again. Errors: IO (the system's text), ARG (a name twice), NOMEM. */
DT_API dt_status dt_writer_write(dt_writer *w, const char *path);

#ifdef __cplusplus
}
#endif
#endif
