/* Shared by the parts of the safetensors reader: the open file, the table of dtypes. */
#ifndef DT__IO_SAFETENSORS_H
#define DT__IO_SAFETENSORS_H

#include "core/system/atomic_file.h"
#include "core/text/json.h"

#include <detent/experimental/io.h>

/* Metadata keys that the writer sets itself. */
#define DT__KEY_VERSION "detent.version"
#define DT__KEY_HASH "detent.xxh3"
#define DT__HASH_DIGITS 16
#define DT__NO_HASH "0000000000000000" /* placeholder while the hash is computed */

#define DT__HEADER_MOST 100000000 /* bytes; the limit of the safetensors library */

typedef struct dt__meta {
    const char *key, *value;
} dt__meta;

typedef struct dt__naming dt__naming; /* io/model/grouped_files.h */

/* A copy, in the folder's memory, of a tensor that was transposed or reordered when its folder was
 * opened. */
typedef struct dt__turned {
    struct dt__turned *next;
    const unsigned char *begin;
    size_t bytes;
    bool spent; /* pages were released after a model had read them */
} dt__turned;

struct dt_file {
    dt_ctx *ctx;
    char *path;                 /* for messages */
    const unsigned char *bytes; /* the whole file, mapped; NULL: not open */
    size_t size;
    size_t data_at;        /* offset of the tensors' bytes */
    size_t hash_at;        /* offset of the digits of detent.xxh3; 0: none, or not 16 digits */
    unsigned char *turned; /* on a big-endian machine: the tensors in native byte order */
    char *strings;         /* every name, key and value, decoded */
    int64_t *dims;         /* of all tensors, one after the other */
    dt_file_entry *entry;  /* sorted by offset */
    const dt_file_entry **by_name;
    dt__meta *meta; /* sorted by key */
    int64_t count, meta_count, dims_count;
    int64_t capacity, meta_capacity, dims_capacity;
    dt_file **part; /* of a folder: the files with its tensors; `bytes` is then NULL */
    int64_t n_parts;
    const dt__naming *naming; /* the program that named the tensors; NULL: names are the model's */
    void *arena;              /* names and shapes of tensors that are views into others */
    dt__turned *copies;       /* in the arena */
};

/* For qsort: of pointers to entries, by name. */
int dt__by_entry_name(const void *left, const void *right);
/* dt_file_open for a file, not a folder. */
dt_status dt__file_open(dt_ctx *ctx, const char *path, dt_file **out);

/* dt_file_load for an entry, or for a part of one with its own dims, count, bytes and data. */
dt_status dt__entry_load(const dt_file *file, const dt_file_entry *e, dt_dtype dtype,
                         dt_tensor **out);

/* Whether dt__entry_copy can write e to x, which has its shape: x is dense and contiguous, and no
 * value needs a check. */
bool dt__entry_fits(const dt_file_entry *e, const dt_tensor *x);
/* Copies e to x, for which dt__entry_fits, without a buffer. Releases the file's pages after
 * reading, so that a large tensor is not in memory twice. The caller raises x's version. */
void dt__entry_copy(const dt_file *file, const dt_file_entry *e, dt_tensor *x);
/* STATE if copies (dt__turned) have been released, as they cannot be read again. */
dt_status dt__file_check_unread(const dt_file *file);
/* Releases the pages of an entry that was read; a later access reads them again. */
void dt__entry_forget(const dt_file *file, const dt_file_entry *e);

/* Parses the header of a mapped file and checks every rule. */
dt_status dt__header_read(dt_file *file);

/* Provides bytes that are not in memory, such as those of other ranks. */
typedef struct dt__byte_source {
    /* Writes bytes at ... at+bytes-1 to `to`; called twice for each entry. */
    dt_status (*fill)(void *user, size_t at, void *to, size_t bytes);
    void *user;
} dt__byte_source;

/* Entries that are added from now on take their bytes from the source, which is lent until the
 * writer is freed. Their data pointers are not read: `source` + i stands for byte i of the source.
 * NULL: ends this. The writer holds the bytes of one entry at a time. */
void dt__writer_from(dt_writer *w, const dt__byte_source *source);

/* XXH3-64 of the spans, one after the other, as 16 digits. NOMEM. */
dt_status dt__hash_spans(dt_ctx *ctx, const dt__span *span, int64_t count,
                         char digits[DT__HASH_DIGITS + 1]);

/* The hash of a file; of a folder, of its parts and of its model metadata. NOMEM. */
dt_status dt__file_hash(const dt_file *file, char digits[DT__HASH_DIGITS + 1]);

/* ---- dtypes of the format ------------------------------------------------------------------- */

typedef struct dt__file_dtype {
    const char *name;
    int bits; /* of one element */
} dt__file_dtype;

/* The entry of a dtype; NULL if the format has none of this name. */
const dt__file_dtype *dt__file_dtype_of(const char *name);
/* Bytes of a tensor; false on overflow, or if its bits are not whole bytes. */
bool dt__file_bytes(const dt__file_dtype *dtype, int64_t count, size_t *bytes);
/* The format's name of a dense dtype; NULL for DT_I4. */
const char *dt__file_dtype_name(dt_dtype dtype);

#endif
