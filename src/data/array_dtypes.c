/* Converts numbers of arrays to f32: exactly if f32 has the value, else rounded to nearest. */
#include "data/array_dtypes.h"

#include "core/threads.h"
#include "core/text/half.h"

#include <string.h>

#define CONVERSIONS(name, type)                                                                    \
    static void name##_to_f32(const uint8_t *from, int64_t n, float *to)                           \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type value;                                                                            \
            memcpy(&value, from + (size_t)i * sizeof value, sizeof value);                         \
            to[i] = (float)value;                                                                  \
        }                                                                                          \
    }                                                                                              \
    static double name##_at(const uint8_t *from)                                                   \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        return (double)value;                                                                      \
    }

CONVERSIONS(f32, float)
CONVERSIONS(f64, double)
CONVERSIONS(u8, uint8_t)
CONVERSIONS(i8, int8_t)
CONVERSIONS(u16, uint16_t)
CONVERSIONS(i16, int16_t)
CONVERSIONS(i32, int32_t)
CONVERSIONS(i64, int64_t)

static void f16_to_f32(const uint8_t *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, from + (size_t)i * sizeof half, sizeof half);
        to[i] = dt__f16_to_f32(half);
    }
}

static double f16_at(const uint8_t *from)
{
    float value;
    f16_to_f32(from, 1, &value);
    return (double)value;
}

#define ROW(name, in_file, bytes, integer)                                                         \
    {                                                                                              \
#name, in_file, bytes, integer, name##_to_f32, name##_at                                   \
    }

static const dt__array_dtype dtypes[DT__ARRAY_DTYPES] = {
    [DT_ARRAY_F32] = ROW(f32, "F32", 4, false), [DT_ARRAY_F64] = ROW(f64, "F64", 8, false),
    [DT_ARRAY_F16] = ROW(f16, "F16", 2, false), [DT_ARRAY_U8] = ROW(u8, "U8", 1, true),
    [DT_ARRAY_I8] = ROW(i8, "I8", 1, true),     [DT_ARRAY_U16] = ROW(u16, "U16", 2, true),
    [DT_ARRAY_I16] = ROW(i16, "I16", 2, true),  [DT_ARRAY_I32] = ROW(i32, "I32", 4, true),
    [DT_ARRAY_I64] = ROW(i64, "I64", 8, true),
};

const dt__array_dtype *dt__array_dtype_of(int dtype)
{
    return dtype >= 0 && dtype < DT__ARRAY_DTYPES ? &dtypes[dtype] : NULL;
}

#define BLOCK 4096 /* numbers that are checked at a time */

static bool is_finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

/* dt__first_not_finite for at most BLOCK numbers. */
static int64_t first_of_block(const dt__array_dtype *dtype, const uint8_t *from, int64_t n)
{
    float value[BLOCK];
    int bad = 0;
    dtype->to_f32(from, n, value);
    for (int64_t i = 0; i < n; i++) bad |= !is_finite(value[i]);
    for (int64_t i = 0; bad && i < n; i++) {
        if (!is_finite(value[i])) return i;
    }
    return -1;
}

typedef struct finite_args {
    const dt__array_dtype *t;
    const uint8_t *from;
    int64_t n;
    _Atomic int64_t *first;
} finite_args;

static void finite_share(const void *args, const dt__share *share)
{
    const finite_args *of = args;
    for (int64_t b = share->first; b < share->past && b * BLOCK < atomic_load(of->first); b++) {
        const int64_t at = b * BLOCK, n = dt__min_i64(BLOCK, of->n - at);
        const int64_t bad = first_of_block(of->t, of->from + at * of->t->bytes, n);
        if (bad >= 0) dt__lower(of->first, at + bad);
    }
}

int64_t dt__first_not_finite(const dt_ctx *ctx, int dtype, const uint8_t *from, int64_t n)
{
    const dt__array_dtype *t = &dtypes[dtype];
    _Atomic int64_t first = n;
    const finite_args args = { t, from, n, &first };
    if (t->is_integer) return -1;
    dt__team *const before = dt__threads_enter(ctx);
    dt__parallel(dt__ceil_div(n, BLOCK), BLOCK, finite_share, &args);
    dt__threads_leave(before);
    return first == n ? -1 : first;
}
