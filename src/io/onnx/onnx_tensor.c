/* Elements of a tensor of the file: in raw_data, little-endian, or in the field of its type. */
#include "io/onnx/onnx.h"

#include <stdio.h>
#include <string.h>

/* Bits of an element in raw_data; 0: unsupported. Elements of fewer than 8 bits share a byte, the
 * first in the lowest bits. */
static const size_t bits[] = {
    [DT__ONNX_FLOAT] = 32, [DT__ONNX_U8] = 8,   [DT__ONNX_I8] = 8,      [DT__ONNX_U16] = 16,
    [DT__ONNX_I16] = 16,   [DT__ONNX_I32] = 32, [DT__ONNX_I64] = 64,    [DT__ONNX_BOOL] = 8,
    [DT__ONNX_F16] = 16,   [DT__ONNX_U32] = 32, [DT__ONNX_DOUBLE] = 64, [DT__ONNX_U64] = 64,
    [DT__ONNX_BF16] = 16,  [DT__ONNX_U4] = 4,   [DT__ONNX_I4] = 4,      [DT__ONNX_U2] = 2,
    [DT__ONNX_I2] = 2,
};

bool dt__onnx_is_known(int type) { return type > 0 && type < DT__COUNT_OF(bits) && bits[type] > 0; }

/* Elements per byte, at least 1. */
static int64_t shared(int type)
{
    return bits[type] > 0 && bits[type] < 8 ? 8 / (int64_t)bits[type] : 1;
}

/* Bytes of one element, or of the elements that share a byte. */
static size_t unit_of(int type) { return shared(type) > 1 ? 1 : bits[type] / 8; }
static uint64_t units_of(int type, int64_t count)
{
    return (uint64_t)dt__ceil_div(count, shared(type));
}

size_t dt__onnx_tensor_bytes(const dt__onnx_tensor *t, int64_t count)
{
    size_t bytes;
    const int type = t->data_type;
    return dt__mul_size(units_of(type, count), unit_of(type), &bytes) ? bytes : SIZE_MAX;
}

size_t dt__onnx_typed_count(const dt__onnx_tensor *t)
{
    switch (t->data_type) {
    case DT__ONNX_FLOAT: return t->n_float_data;
    case DT__ONNX_DOUBLE: return t->n_double_data;
    case DT__ONNX_I64: return t->n_int64_data;
    case DT__ONNX_U32:
    case DT__ONNX_U64: return t->n_uint64_data;
    default: return t->n_int32_data;
    }
}

bool dt__onnx_tensor_shape(const dt__onnx_tensor *t, int64_t *count, char *why, size_t size)
{
    if (t->n_dims > DT_MAX_RANK) {
        snprintf(why, size, "has %zu dimensions; %d are the most", t->n_dims, DT_MAX_RANK);
        return false;
    }
    for (size_t d = 0; d < t->n_dims; d++) {
        if (t->dims[d] >= 0) continue;
        snprintf(why, size, "has %lld as dimension %zu", (long long)t->dims[d], d);
        return false;
    }
    if (dt__product((int)t->n_dims, t->dims, count)) return true;
    snprintf(why, size, "has more elements than can be counted");
    return false;
}

/* The index of the first number out of the type's range, or the count of numbers. int32_data has
 * int8 and int16 by value, other types by their bits; a byte shared by several elements may be
 * signed. */
static size_t beyond(const dt__onnx_tensor *t)
{
    const int type = t->data_type;
    const int width = (int)unit_of(type) * 8;
    const bool has_sign = type == DT__ONNX_I8 || type == DT__ONNX_I16;
    const int64_t least = has_sign || shared(type) > 1 ? -(INT64_C(1) << (width - 1)) : 0;
    const int64_t most = width < 32 ? (INT64_C(1) << (width - has_sign)) - 1 : UINT32_MAX;
    const size_t n = dt__onnx_typed_count(t);
    size_t i = 0;
    if (type == DT__ONNX_U32) {
        while (i < n && t->uint64_data[i] <= UINT32_MAX) i++;
        return i;
    }
    if (width > 16 || type == DT__ONNX_BOOL) return n; /* for bool, any nonzero number is true */
    while (i < n && t->int32_data[i] >= least && t->int32_data[i] <= most) i++;
    return i;
}

bool dt__onnx_tensor_holds(const dt__onnx_tensor *t, int64_t count, char *why, size_t size)
{
    const bool raw = t->raw_data.len > 0;
    const size_t unit = unit_of(t->data_type), bytes = t->raw_data.len;
    const size_t held = raw ? bytes / unit : dt__onnx_typed_count(t);
    if (bytes % unit != 0 || held != units_of(t->data_type, count)) {
        snprintf(why, size, "has %lld elements by its shape, but data of %zu", (long long)count,
                 held);
        return false;
    }
    const size_t at = raw ? held : beyond(t);
    if (at == held) return true;
    snprintf(why, size, "has a number, at %zu, that is beyond its data type %d", at, t->data_type);
    return false;
}

static uint64_t typed_bits(const dt__onnx_tensor *t, int64_t i)
{
    uint32_t low;
    uint64_t whole;
    switch (t->data_type) {
    case DT__ONNX_FLOAT: memcpy(&low, &t->float_data[i], sizeof low); return low;
    case DT__ONNX_DOUBLE: memcpy(&whole, &t->double_data[i], sizeof whole); return whole;
    case DT__ONNX_I64: return (uint64_t)t->int64_data[i];
    case DT__ONNX_U32:
    case DT__ONNX_U64: return t->uint64_data[i];
    default: return (uint64_t)(int64_t)t->int32_data[i];
    }
}

uint64_t dt__onnx_tensor_bits(const dt__onnx_tensor *t, int64_t i)
{
    const bool raw = t->raw_data.len > 0;
    const int64_t each = shared(t->data_type), at = i / each;
    const size_t size = unit_of(t->data_type);
    uint64_t x = raw ? 0 : typed_bits(t, at);
    for (size_t k = raw ? size : 0; k-- > 0;) x = x << 8 | t->raw_data.data[(size_t)at * size + k];
    if (each == 1) return x;
    return x >> i % each * 8 / each & ((1U << 8 / each) - 1);
}
