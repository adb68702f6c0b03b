/* Constants of an ONNX graph: initializers, whose bytes are little-endian. */
#include "export/onnx/onnx_put.h"

#include <stdio.h>
#include <string.h>

#define SMALL 64 /* bytes up to which equal constants are shared */

static size_t size_of(int type)
{
    return type == DT__PUT_DOUBLE || type == DT__PUT_INT64       ? 8
           : type == DT__PUT_FLOAT || type == DT__PUT_INT32      ? 4
           : type == DT__PUT_FLOAT16 || type == DT__PUT_BFLOAT16 ? 2
                                                                 : 1;
}

static bool is_little(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static void copy_little(uint8_t *to, const uint8_t *from, size_t bytes, size_t size)
{
    if (size == 1 || is_little()) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i++) to[i] = from[i / size * size + size - 1 - i % size];
}

static uint32_t bucket_of(const dt__put_array *a)
{
    uint32_t h = (uint32_t)a->type * 31 + (uint32_t)a->rank;
    for (size_t i = 0; i < a->bytes; i++) h = h * 16777619u ^ ((const uint8_t *)a->data)[i];
    return (h ^ h >> 16) % DT__PUT_BUCKETS;
}

static bool is_same(const DtOnnx__Tensor *t, const dt__put_array *a)
{
    uint8_t bytes[SMALL];
    copy_little(bytes, a->data, a->bytes, size_of(a->type));
    return t->data_type == a->type && t->n_dims == (size_t)a->rank && t->raw_data.len == a->bytes &&
           memcmp(t->raw_data.data, bytes, a->bytes) == 0;
}

static dt__value find(const dt__put *p, const dt__put_array *a)
{
    for (const dt__put_constant *c = p->constant[bucket_of(a)]; c != NULL; c = c->next) {
        if (is_same(c->tensor, a)) return c->tensor->name;
    }
    return NULL;
}

/* A scalar or vector; dimensions follow from the size. */
static dt__value put_once(dt__put *p, const dt__put_array *a)
{
    dt__value name = p->failed ? NULL : find(p, a);
    if (name != NULL || p->failed) return name;
    name = dt__put_tensor(p, a);
    dt__put_constant *c = dt__put_memory(p, 1, sizeof *c);
    if (p->failed) return NULL;
    const uint32_t bucket = bucket_of(a);
    *c = (dt__put_constant){ p->tensor[p->tensors - 1], p->constant[bucket] };
    p->constant[bucket] = c;
    return name;
}

dt__value dt__put_tensor(dt__put *p, const dt__put_array *a)
{
    const char *label = a->name == NULL ? "constant" : a->name;
    const size_t room = strlen(label) + 24;
    DtOnnx__Tensor *t = dt__put_memory(p, 1, sizeof *t);
    int64_t *dims = dt__put_memory(p, a->rank, sizeof *dims);
    char *name = dt__put_memory(p, (int64_t)room, 1);
    const bool lent = a->lent && (is_little() || size_of(a->type) == 1);
    uint8_t *data = lent ? (uint8_t *)(uintptr_t)a->data : dt__put_memory(p, (int64_t)a->bytes, 1);
    if (p->failed) return NULL;
    p->failed = DT__RESERVE(p->ctx, p->tensor, p->tensors, p->room_tensors) != DT_OK;
    if (p->failed) return NULL;
    snprintf(name, room, "%s:%lld", label, (long long)p->names++);
    if (!lent) copy_little(data, a->data, a->bytes, size_of(a->type));
    if (a->rank > 0) memcpy(dims, a->dims, (size_t)a->rank * sizeof *dims);
    dt_onnx__tensor__init(t);
    t->name = name;
    t->data_type = a->type;
    t->dims = dims;
    t->n_dims = (size_t)a->rank;
    t->raw_data = (ProtobufCBinaryData){ a->bytes, data };
    p->tensor[p->tensors++] = t;
    return name;
}

dt__value dt__put_f32(dt__put *p, float value)
{
    return put_once(
        p, &(dt__put_array){ .type = DT__PUT_FLOAT, .data = &value, .bytes = sizeof value });
}

dt__value dt__put_f64(dt__put *p, double value)
{
    return put_once(
        p, &(dt__put_array){ .type = DT__PUT_DOUBLE, .data = &value, .bytes = sizeof value });
}

dt__value dt__put_u8(dt__put *p, int value)
{
    const uint8_t byte = (uint8_t)value;
    return put_once(p, &(dt__put_array){ .type = DT__PUT_UINT8, .data = &byte, .bytes = 1 });
}

dt__value dt__put_i64s(dt__put *p, int64_t n, const int64_t *value)
{
    const dt__put_array a = { .type = DT__PUT_INT64,
                              .rank = 1,
                              .dims = &n,
                              .data = value,
                              .bytes = (size_t)n * sizeof *value };
    return a.bytes <= SMALL ? put_once(p, &a) : dt__put_tensor(p, &a);
}

dt__value dt__put_cast(dt__put *p, dt__value x, int type)
{
    dt__value y = DT__PUT(p, "Cast", x);
    if (y != NULL) dt__put_attr_int(p, "to", type);
    return y;
}

static int64_t count_of(const dt__put_codes *c)
{
    int64_t n = 1;
    for (int i = 0; i < c->rank; i++) n *= c->dims[i];
    return n;
}

/* The type that can store the codes, or (code - 1) / 2 of odd codes. */
static int type_of(const dt__put *p, const dt__put_codes *c, bool *odd)
{
    const int64_t n = count_of(c);
    *odd = c->bits == 3 && n > 0;
    for (int64_t i = 0; i < n && *odd; i++) *odd = (c->codes[i] & 1) != 0;
    *odd = *odd && p->opset >= DT__PUT_INT2_OPSET;
    if (p->opset >= DT__PUT_INT2_OPSET && (c->bits <= 2 || *odd)) return DT__PUT_INT2;
    return c->bits <= 4 ? DT__PUT_INT4 : DT__PUT_INT8;
}

static dt__value put_codes(dt__put *p, const dt__put_codes *c, int type, bool odd)
{
    const int64_t n = count_of(c);
    const int bits = type == DT__PUT_INT2 ? 2 : 4, each = 8 / bits;
    dt__put_array a = { .name = c->name,
                        .type = DT__PUT_INT8,
                        .rank = c->rank,
                        .dims = c->dims,
                        .data = c->codes,
                        .bytes = (size_t)n };
    if (type == DT__PUT_INT8) return dt__put_tensor(p, &a);
    uint8_t *packed = dt__put_memory(p, n / each + 1, 1);
    if (packed == NULL) return NULL;
    for (int64_t i = 0; i < n; i++) {
        const int code = odd ? (c->codes[i] - 1) / 2 : c->codes[i];
        packed[i / each] =
            (uint8_t)(packed[i / each] | (code & ((1 << bits) - 1)) << i % each * bits);
    }
    a.type = type;
    a.data = packed;
    a.bytes = (size_t)dt__ceil_div(n, each);
    a.lent = true;
    return dt__put_tensor(p, &a);
}

dt__value dt__put_codes_as(dt__put *p, const dt__put_codes *c, int type)
{
    bool odd;
    const int held = type_of(p, c, &odd);
    dt__value codes = put_codes(p, c, held, odd);
    if (odd) {
        codes = dt__put_cast(p, codes, DT__PUT_FLOAT);
        codes = DT__PUT(p, "Mul", codes, dt__put_f32(p, 2));
        codes = DT__PUT(p, "Add", codes, dt__put_f32(p, 1));
        if (type == DT__PUT_FLOAT) return codes;
    }
    return held == type ? codes : dt__put_cast(p, codes, type);
}

dt__value dt__put_codes_u8(dt__put *p, const dt__put_codes *c)
{
    const int64_t n = count_of(c);
    uint8_t *u = dt__put_memory(p, n, 1);
    if (u == NULL) return NULL;
    for (int64_t i = 0; i < n; i++) u[i] = (uint8_t)(c->codes[i] + 128);
    return dt__put_tensor(p, &(dt__put_array){ .name = c->name,
                                               .type = DT__PUT_UINT8,
                                               .rank = c->rank,
                                               .dims = c->dims,
                                               .data = u,
                                               .bytes = (size_t)n,
                                               .lent = true });
}
