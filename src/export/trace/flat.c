/* Writes a flatbuffer. A table is
 *
 *     vtable   u16 bytes of the vtable, u16 bytes of the table, u16 place of each field in it or 0
 *     table    i32 distance back to the vtable, then its fields: those of 4 bytes, those of 1
 *
 * a vector u32 count and the elements; a text is a vector of bytes with a zero behind it. */
#include "export/trace/flat.h"

#include "core/text/byte_order.h"

#include <string.h>

#define HEAD 8 /* u32 offset of the root, then the file identifier */
#define MOST_BYTES ((size_t)INT32_MAX)

static void put16(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *to, uint32_t v)
{
    put16(to, v);
    put16(to + 2, v >> 16);
}

static uint32_t get16(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 8; }

static bool has_failed(const dt__flat *f) { return f->status != DT_OK; }

/* Appends `bytes` zero bytes so that the byte after `skip` of them is aligned to `align`; returns
 * the offset of the first. */
static size_t append(dt__flat *f, size_t bytes, size_t skip, size_t align)
{
    const size_t padding = (align - (f->used + skip) % align) % align;
    if (has_failed(f)) return 0;
    if (bytes > MOST_BYTES || f->used + padding + bytes > MOST_BYTES) {
        f->status = dt_fail(f->ctx, DT_ERR_UNSUPPORTED,
                            "the model has more than %zu bytes, the most that a flatbuffer holds",
                            MOST_BYTES);
        return 0;
    }
    const size_t wanted = f->used + padding + bytes;
    if (wanted > f->room) {
        const size_t room = wanted + wanted / 2 + 1024;
        uint8_t *grown = dt__grow(f->ctx, f->bytes, f->used, room);
        if (grown == NULL) {
            f->status = DT_ERR_NOMEM;
            return 0;
        }
        f->bytes = grown;
        f->room = room;
    }
    memset(f->bytes + f->used, 0, padding + bytes);
    f->used = wanted;
    return wanted - bytes;
}

void dt__flat_begin(dt_ctx *ctx, const char *name, dt__flat *f)
{
    *f = (dt__flat){ .ctx = ctx };
    append(f, HEAD, 0, 1);
    if (!has_failed(f)) memcpy(f->bytes + 4, name, 4);
}

void dt__flat_free(dt__flat *f)
{
    DT__RELEASE(f->ctx, f->bytes, f->vtable);
    *f = (dt__flat){ .ctx = f->ctx };
}

dt_status dt__flat_status(const dt__flat *f) { return f->status; }

static size_t size_of(dt__flat_kind kind) { return kind == DT__FLAT_BYTE ? 1 : 4; }

/* Writes the bytes of a vtable for these fields; returns their number. */
static size_t layout(const dt__flat_field *field, int n, uint8_t *to)
{
    size_t at = 4;
    const size_t bytes = n == 0 ? 4 : 4 + 2 * (size_t)(field[n - 1].id + 1);
    memset(to, 0, bytes);
    for (int bytes_of = 4; bytes_of >= 1; bytes_of -= 3) {
        for (int i = 0; i < n; i++) {
            if (size_of(field[i].kind) != (size_t)bytes_of) continue;
            put16(to + 4 + 2 * field[i].id, (uint32_t)at);
            at += size_of(field[i].kind);
        }
    }
    put16(to, (uint32_t)bytes);
    put16(to + 2, (uint32_t)at);
    return bytes;
}

/* The offset of a vtable with these bytes; appends it if there is none. */
static size_t vtable_of(dt__flat *f, const uint8_t *bytes, size_t n)
{
    for (int64_t i = 0; i < f->vtables; i++) {
        if (memcmp(f->bytes + f->vtable[i], bytes, n) == 0) return f->vtable[i];
    }
    if (DT__RESERVE(f->ctx, f->vtable, f->vtables, f->room_vtables) != DT_OK) {
        f->status = DT_ERR_NOMEM;
        return 0;
    }
    const size_t at = append(f, n, 0, 2);
    if (has_failed(f)) return 0;
    memcpy(f->bytes + at, bytes, n);
    f->vtable[f->vtables++] = at;
    return at;
}

/* The offset of a field in a table; 0: absent. */
static size_t field_at(const dt__flat *f, size_t table, int id)
{
    const uint8_t *t = f->bytes + table;
    const size_t back = t[0] | (size_t)t[1] << 8 | (size_t)t[2] << 16 | (size_t)t[3] << 24;
    const uint32_t at = get16(f->bytes + table - back + 4 + 2 * id);
    return at == 0 ? 0 : table + at;
}

size_t dt__flat_table(dt__flat *f, const dt__flat_field *field, int n)
{
    uint8_t vtable[4 + 2 * DT__FLAT_FIELDS];
    const size_t bytes = layout(field, n, vtable);
    if (has_failed(f)) return 0;
    const bool root = f->used == HEAD;
    const size_t from = vtable_of(f, vtable, bytes);
    const size_t table = append(f, get16(vtable + 2), 0, 4);
    if (has_failed(f)) return 0;
    put32(f->bytes + table, (uint32_t)(table - from));
    for (int i = 0; i < n; i++) {
        uint8_t *at = f->bytes + field_at(f, table, field[i].id);
        if (field[i].kind == DT__FLAT_INT) put32(at, field[i].value);
        if (field[i].kind == DT__FLAT_BYTE) *at = (uint8_t)field[i].value;
    }
    if (root) put32(f->bytes, (uint32_t)table);
    return table;
}

size_t dt__flat_child(const dt__flat *f, size_t table, int id)
{
    return has_failed(f) ? 0 : field_at(f, table, id);
}

void dt__flat_point(dt__flat *f, size_t place, size_t target)
{
    if (!has_failed(f)) put32(f->bytes + place, (uint32_t)(target - place));
}

size_t dt__flat_vector(dt__flat *f, int64_t count, size_t size, size_t align, const void *data)
{
    size_t bytes;
    if (!dt__mul_size((uint64_t)count, size, &bytes) || bytes > MOST_BYTES) bytes = MOST_BYTES;
    if (align < 4) align = 4;
    const size_t at = append(f, 4 + bytes, 4, align);
    if (has_failed(f)) return 0;
    put32(f->bytes + at, (uint32_t)count);
    if (bytes == 0 || data == NULL) return at;
    if (DT__BIG_ENDIAN) dt__reverse_elements(f->bytes + at + 4, data, bytes, size);
    else memcpy(f->bytes + at + 4, data, bytes);
    return at;
}

size_t dt__flat_text(dt__flat *f, const char *text)
{
    const size_t n = strlen(text), at = append(f, 4 + n + 1, 4, 4);
    if (has_failed(f)) return 0;
    put32(f->bytes + at, (uint32_t)n);
    memcpy(f->bytes + at + 4, text, n);
    return at;
}

size_t dt__flat_children(dt__flat *f, int64_t count)
{
    return dt__flat_vector(f, count, 4, 4, NULL);
}

size_t dt__flat_element(size_t vector, int64_t i) { return vector + 4 + 4 * (size_t)i; }
