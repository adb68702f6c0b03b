/* Writing a flatbuffer (https://flatbuffers.dev/internals). The bytes grow at their end: a table is
 * written with its numbers, its children follow it, and dt__flat_point writes into the table where
 * a child begins. Offsets of flatbuffers point forward, so nothing is moved. Tables with the same
 * fields share a vtable. Numbers are little-endian.
 *
 * The first call that fails marks the writer; it and all later ones write nothing and return 0, and
 * dt__flat_status reports it. */
#ifndef DT__EXPORT_FLAT_H
#define DT__EXPORT_FLAT_H

#include "core/core.h"

typedef struct dt__flat {
    dt_ctx *ctx;
    uint8_t *bytes;
    size_t used, room;
    size_t *vtable; /* where those begin that are written */
    int64_t vtables, room_vtables;
    dt_status status;
} dt__flat;

/* What a field of a table is. */
typedef enum dt__flat_kind {
    DT__FLAT_CHILD, /* a table, vector or text: its place is written later, or never */
    DT__FLAT_INT,   /* 32 bits: an integer, or the bits of a float */
    DT__FLAT_BYTE   /* 8 bits: an integer, a choice or a bool */
} dt__flat_kind;

typedef struct dt__flat_field {
    int id; /* the number of the field in its schema */
    dt__flat_kind kind;
    uint32_t value; /* of INT and BYTE */
} dt__flat_field;

#define DT__FLAT_FIELDS 16 /* the largest id, plus 1 */

/* Begins a file whose kind is `name`, four letters. The root table comes first. */
void dt__flat_begin(dt_ctx *ctx, const char *name, dt__flat *f);
void dt__flat_free(dt__flat *f);
/* OK, NOMEM, or UNSUPPORTED: more than 2 GiB, the most that offsets reach. */
dt_status dt__flat_status(const dt__flat *f);

/* A table of n fields, ids ascending; returns where it begins. The first is the root. */
size_t dt__flat_table(dt__flat *f, const dt__flat_field *field, int n);
/* The place of a CHILD in a table. */
size_t dt__flat_child(const dt__flat *f, size_t table, int id);
/* Writes into `place`, of dt__flat_child or dt__flat_element, that its child begins at `target`. */
void dt__flat_point(dt__flat *f, size_t place, size_t target);

/* `count` numbers of `size` bytes, each aligned to its size; the first one to `align`. */
size_t dt__flat_vector(dt__flat *f, int64_t count, size_t size, size_t align, const void *data);
size_t dt__flat_text(dt__flat *f, const char *text);
/* A vector of children, and the place of its i-th. */
size_t dt__flat_children(dt__flat *f, int64_t count);
size_t dt__flat_element(size_t vector, int64_t i);

#endif
