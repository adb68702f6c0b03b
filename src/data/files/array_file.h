/* Arrays in files: .npy, .npz, .safetensors, and sound files. Uncompressed arrays are mapped;
 * compressed or encoded ones are read into memory. */
#ifndef DT__DATA_ARRAY_FILE_H
#define DT__DATA_ARRAY_FILE_H

#include "data/arrays.h"

typedef struct dt__array_file {
    dt_ctx *ctx;
    const char *name; /* as the user wrote it, with the folder: "data/a.npz:x"; lent */
    const char *path; /* the file's path, owned */
    const char *part; /* name of the array in the file, a part of `name`; NULL: not given */
    uint8_t *bytes;   /* the mapped file */
    size_t size;
    int dtype, rank; /* the array */
    int64_t text;    /* bytes per text, `unit` per character; 0: an array of numbers */
    int unit;        /* 4: UTF-32; 1: UTF-8 */
    int64_t dims[DT_MAX_RANK];
    const uint8_t *data;
    int64_t rate;            /* of sound files: samples per second; else 0 */
    bool cut;                /* a sound file that ends before its header says */
    bool native;             /* numbers are in native byte order */
    dt__array_source source; /* owns `data`; {0} after the ownership was taken */
} dt__array_file;

/* Whether a name has the ending of one of the formats. */
bool dt__is_array_file(const char *name);
/* The length of the file's name in FILE or FILE:PART. */
size_t dt__array_file_length(const char *name);

/* Opens the array `name`, FILE or FILE:PART. dt__array_file_close must be called also after an
 * error. Errors, naming the file and what is allowed: IO, FORMAT, UNSUPPORTED, NOMEM. */
dt_status dt__array_file_open(dt_ctx *ctx, const char *name, dt__array_file *a);
/* dt__array_file_open that also allows arrays of texts. */
dt_status dt__array_file_open_any(dt_ctx *ctx, const char *name, dt__array_file *a);
/* Writes text i of an array of texts as UTF-8, without NULs at its end, to memory of DT__TEXT_MOST
 * bytes. Returns its length; -1: not UTF-8, or too long. */
int64_t dt__array_text(const dt__array_file *a, int64_t i, char *text);
#define DT__TEXT_MOST 4096
void dt__array_file_close(dt__array_file *a);

/* Returns `status` (FORMAT) with a message that begins with the file's name. */
dt_status dt__array_fail(const dt__array_file *a, dt_status status, const char *format, ...)
    DT_PRINTF(3, 4);

/* Appends a name of `n` bytes to the list of names in a message, as long as there is room. */
#define DT__NAME_LIST 320
void dt__name_list_add(char list[DT__NAME_LIST], const char *name, size_t n);
/* FORMAT: the file has `found` arrays of the given name (or in all, if none was given); `list`
 * names its arrays. */
dt_status dt__array_refuse_name(const dt__array_file *a, int found, const char *list);

/* ---- formats: each sets dtype, rank, dims and data of a mapped file ------------------------- */

dt_status dt__npy_open(dt__array_file *a);
dt_status dt__npz_open(dt__array_file *a);
dt_status dt__safetensors_open(dt__array_file *a);
dt_status dt__wav_open(dt__array_file *a);
dt_status dt__sound_open(dt__array_file *a);

/* Called with each array of an .npz file and its name, n bytes without ".npy"; both are lent. */
typedef dt_status dt__npz_visit(void *user, const char *name, size_t n, const dt__array_file *a);
/* Opens all arrays, one after the other, of an archive of which ctx, name, bytes and size are set.
 * Errors: FORMAT, UNSUPPORTED, NOMEM, those of the visitor. */
dt_status dt__npz_each(const dt__array_file *archive, dt__npz_visit *visit, void *user);

/* Parses the header of an .npy file, of which `n` bytes are available, and sets dtype, rank and
 * dims. *head and *body: bytes of the header and of the numbers after it. */
dt_status dt__npy_head(dt__array_file *a, const uint8_t *bytes, size_t n, size_t *head,
                       size_t *body);
#define DT__NPY_HEAD_MOST 65547 /* bytes of a head: 12 and a header of 16 bits */

/* Bytes of the array's numbers; false on overflow. */
bool dt__array_bytes(const dt__array_file *a, size_t *bytes);

/* Little-endian numbers. */
static inline uint32_t dt__u16_at(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t dt__u32_at(const uint8_t *p)
{
    return dt__u16_at(p) | dt__u16_at(p + 2) << 16;
}
static inline uint64_t dt__u64_at(const uint8_t *p)
{
    return (uint64_t)dt__u32_at(p) | (uint64_t)dt__u32_at(p + 4) << 32;
}

#endif
