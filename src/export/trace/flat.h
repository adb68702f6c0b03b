/* Writes a flatbuffer (https://flatbuffers.dev/internals) from front to end: a table is written
 * with its numbers, its children follow, and dt__flat_point stores in the table where a child
 * begins. As flatbuffer offsets point forward, nothing is moved. Tables with the same fields share
 * a vtable. Numbers are little-endian.
 *
 * The first call that fails, and all later ones, write nothing and return 0; dt__flat_status
 * returns the error. */
#ifndef DT__EXPORT_FLAT_H
#define DT__EXPORT_FLAT_H

#include "core/core.h"

typedef struct dt__flat {
    dt_ctx *ctx;
    uint8_t *bytes;
    size_t used, room;
    size_t *vtable; /* offsets of the vtables written so far */
    int64_t vtables, room_vtables;
    dt_status status;
} dt__flat;

/* Type of a table's field. */
typedef enum dt__flat_kind {
    DT__FLAT_CHILD, /* offset of a table, vector or string, stored later or never */
    DT__FLAT_INT,   /* 32 bits: an integer, or the bits of a float */
    DT__FLAT_BYTE   /* 8 bits: an integer, an enum or a bool */
} dt__flat_kind;

typedef struct dt__flat_field {
    int id; /* index of the field in its schema */
    dt__flat_kind kind;
    uint32_t value; /* of INT and BYTE */
} dt__flat_field;

#define DT__FLAT_FIELDS 16 /* the largest id, plus 1 */

/* Begins a file with a four-letter identifier. The root table must be written first. */
void dt__flat_begin(dt_ctx *ctx, const char *name, dt__flat *f);
void dt__flat_free(dt__flat *f);
/* OK, NOMEM, or UNSUPPORTED: more than 2 GiB, the limit of offsets. */
dt_status dt__flat_status(const dt__flat *f);

/* Writes a table of n fields, ids ascending; returns its offset. The first one is the root. */
size_t dt__flat_table(dt__flat *f, const dt__flat_field *field, int n);
/* The offset of a CHILD field in a table. */
size_t dt__flat_child(const dt__flat *f, size_t table, int id);
/* Stores in `place` (from dt__flat_child or dt__flat_element) that its child begins at `target`. */
void dt__flat_point(dt__flat *f, size_t place, size_t target);

/* Writes a vector of `count` numbers of `size` bytes, with the first one aligned to `align`. */
size_t dt__flat_vector(dt__flat *f, int64_t count, size_t size, size_t align, const void *data);
size_t dt__flat_text(dt__flat *f, const char *text);
/* Writes a vector of children; dt__flat_element is the offset of its i-th. */
size_t dt__flat_children(dt__flat *f, int64_t count);
size_t dt__flat_element(size_t vector, int64_t i);

#endif
