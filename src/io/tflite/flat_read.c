/* Reads a flatbuffer, and checks every offset. */
#include "io/tflite/flat_read.h"

#include <string.h>

static bool fails(dt__vflat *f, const char *fault, size_t at)
{
    if (f->fault == NULL) {
        f->fault = fault;
        f->at = at;
    }
    return false;
}

/* Whether `bytes` bytes at `at` are inside of the file, and `at` is a multiple of `align`. */
static bool is_inside(dt__vflat *f, uint64_t at, uint64_t bytes, uint64_t align)
{
    if (f->fault != NULL) return false;
    if (at > f->n || bytes > f->n - at) {
        return fails(f, "a place behind the end of the file", (size_t)at);
    }
    return at % align == 0 || fails(f, "a place that is not aligned", (size_t)at);
}

static uint32_t word(const dt__vflat *f, size_t at, int bytes)
{
    uint32_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | f->bytes[at + (size_t)i];
    return v;
}

/* The target of the offset at `at`, which must point forward; 0: a fault. */
static size_t follow(dt__vflat *f, size_t at)
{
    if (!is_inside(f, at, 4, 4)) return 0;
    const size_t step = word(f, at, 4);
    if (step == 0 || step > f->n - at) {
        fails(f, "an offset that leads outside of the file", at);
        return 0;
    }
    return at + step;
}

static dt__vtable table_at(dt__vflat *f, size_t at)
{
    const dt__vtable none = { 0 };
    if (at == 0 || !is_inside(f, at, 4, 4)) return none;
    const int64_t fields = (int64_t)at - (int32_t)word(f, at, 4);
    if (fields < 0 || !is_inside(f, (uint64_t)fields, 4, 2)) {
        fails(f, "a table whose list of fields is outside of the file", at);
        return none;
    }
    dt__vtable t = { at, (size_t)fields, word(f, (size_t)fields, 2),
                     word(f, (size_t)fields + 2, 2) };
    if (t.field_bytes < 4 || t.field_bytes % 2 != 0 || t.bytes < 4 ||
        !is_inside(f, t.fields, t.field_bytes, 2) || !is_inside(f, at, t.bytes, 4)) {
        fails(f, "a table with a wrong list of fields", at);
        return none;
    }
    return t;
}

dt__vtable dt__vflat_root(dt__vflat *f, const char *kind)
{
    if (f->n < 8 || memcmp(f->bytes + 4, kind, 4) != 0) {
        fails(f, "not a file of this kind (TFL3)", 4);
        return (dt__vtable){ 0 };
    }
    return table_at(f, follow(f, 0));
}

/* The position of a field of `bytes` bytes; 0: absent. */
static size_t field(dt__vflat *f, const dt__vtable *t, int id, size_t bytes)
{
    const size_t entry = 4 + 2 * (size_t)id;
    if (f->fault != NULL || t->at == 0 || entry + 2 > t->field_bytes) return 0;
    const size_t step = word(f, t->fields + entry, 2);
    if (step == 0) return 0;
    if (step < 4 || step > t->bytes || bytes > t->bytes - step) {
        fails(f, "a field outside of its table", t->at);
        return 0;
    }
    return is_inside(f, t->at + step, bytes, bytes) ? t->at + step : 0;
}

bool dt__vflat_has(dt__vflat *f, const dt__vtable *t, int id) { return field(f, t, id, 1) != 0; }

static int64_t number_at(const dt__vflat *f, size_t at, int bytes)
{
    if (bytes == 1) return (int8_t)f->bytes[at];
    if (bytes == 4) return (int32_t)word(f, at, 4);
    return (int64_t)((uint64_t)word(f, at, 4) | (uint64_t)word(f, at + 4, 4) << 32);
}

int64_t dt__vflat_int(dt__vflat *f, const dt__vtable *t, int id, int bytes, int64_t absent)
{
    const size_t at = field(f, t, id, (size_t)bytes);
    return at == 0 ? absent : number_at(f, at, bytes);
}

float dt__vflat_real(dt__vflat *f, const dt__vtable *t, int id, float absent)
{
    const size_t at = field(f, t, id, 4);
    if (at == 0) return absent;
    const uint32_t bits = word(f, at, 4);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

dt__vtable dt__vflat_child(dt__vflat *f, const dt__vtable *t, int id)
{
    const size_t at = field(f, t, id, 4);
    return at == 0 ? (dt__vtable){ 0 } : table_at(f, follow(f, at));
}

dt__vvector dt__vflat_vector(dt__vflat *f, const dt__vtable *t, int id, int bytes)
{
    const dt__vvector none = { 0 };
    const size_t place = field(f, t, id, 4), at = place == 0 ? 0 : follow(f, place);
    if (at == 0 || !is_inside(f, at, 4, 4)) return none;
    const uint64_t count = word(f, at, 4);
    if (!is_inside(f, at + 4, count * (uint64_t)bytes, (uint64_t)bytes)) {
        fails(f, "a vector behind the end of the file", at);
        return none;
    }
    return (dt__vvector){ at + 4, (int64_t)count };
}

dt__vtable dt__vflat_element(dt__vflat *f, const dt__vvector *v, int64_t i)
{
    if (f->fault != NULL || i < 0 || i >= v->count) return (dt__vtable){ 0 };
    return table_at(f, follow(f, v->at + 4 * (size_t)i));
}

int64_t dt__vflat_number(const dt__vflat *f, const dt__vvector *v, int64_t i, int bytes)
{
    return number_at(f, v->at + (size_t)i * (size_t)bytes, bytes);
}

float dt__vflat_float(const dt__vflat *f, const dt__vvector *v, int64_t i)
{
    const uint32_t bits = word(f, v->at + 4 * (size_t)i, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
