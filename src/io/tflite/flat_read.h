/* Reads an untrusted flatbuffer (https://flatbuffers.dev/internals): each offset is checked before
 * use. Shares no code with the writer.
 *
 * After the first fault every read returns what an absent field has, so that a reader need check
 * `fault` only once, at the end. */
#ifndef DT__EXPORT_VERIFY_FLAT_H
#define DT__EXPORT_VERIFY_FLAT_H

#include "core/core.h"

typedef struct dt__vflat {
    const uint8_t *bytes; /* lent */
    size_t n;
    const char *fault; /* NULL: none */
    size_t at;         /* where the fault is */
} dt__vflat;

/* A table; all zeros: an absent one. */
typedef struct dt__vtable {
    size_t at, fields; /* where it and its vtable begin */
    uint32_t field_bytes, bytes;
} dt__vtable;

/* A vector; `count` elements from `at` on. */
typedef struct dt__vvector {
    size_t at;
    int64_t count;
} dt__vvector;

/* The root table of a file with this identifier. */
dt__vtable dt__vflat_root(dt__vflat *f, const char *kind);
bool dt__vflat_has(dt__vflat *f, const dt__vtable *t, int id);
/* A signed number of 1 or 4 bytes; `absent` if the field is absent. */
int64_t dt__vflat_int(dt__vflat *f, const dt__vtable *t, int id, int bytes, int64_t absent);
float dt__vflat_real(dt__vflat *f, const dt__vtable *t, int id, float absent);
dt__vtable dt__vflat_child(dt__vflat *f, const dt__vtable *t, int id);
/* A vector with elements of `bytes` bytes; bytes 1: also a string. */
dt__vvector dt__vflat_vector(dt__vflat *f, const dt__vtable *t, int id, int bytes);
/* Element i of a vector: a table, or a number of 1, 4 or 8 bytes. */
dt__vtable dt__vflat_element(dt__vflat *f, const dt__vvector *v, int64_t i);
int64_t dt__vflat_number(const dt__vflat *f, const dt__vvector *v, int64_t i, int bytes);
float dt__vflat_float(const dt__vflat *f, const dt__vvector *v, int64_t i);

#endif
