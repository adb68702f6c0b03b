/* Elements of values: access by type, tensors of a file, iteration. */
#include "core/text/json.h"
#include "io/onnx/interpret/interpret.h"

#include <string.h>

#define MOST_ELEMENTS ((int64_t)1 << 40)

static const struct {
    const char *name;
    size_t bytes; /* of an element in memory */
} types[DT__VERIFY_TYPES] = {
    [DT__VERIFY_F32] = { "float", 4 },     [DT__VERIFY_U8] = { "uint8", 1 },
    [DT__VERIFY_I8] = { "int8", 1 },       [DT__VERIFY_I32] = { "int32", 4 },
    [DT__VERIFY_I64] = { "int64", 8 },     [DT__VERIFY_BOOL] = { "bool", 1 },
    [DT__VERIFY_F64] = { "double", 8 },    [DT__VERIFY_U4] = { "uint4", 1 },
    [DT__VERIFY_I4] = { "int4", 1 },       [DT__VERIFY_F16] = { "float16", 4 },
    [DT__VERIFY_BF16] = { "bfloat16", 4 }, [DT__VERIFY_U2] = { "uint2", 1 },
    [DT__VERIFY_I2] = { "int2", 1 },
};

size_t dt__verify_size(dt__verify_type type)
{
    return (int)type > 0 && type < DT__VERIFY_TYPES ? types[type].bytes : 0;
}

const char *dt__verify_type_name(dt__verify_type type)
{
    return dt__verify_size(type) == 0 ? "a type that is not read" : types[type].name;
}

#define LOAD(type, element)                                                                        \
    for (int64_t i = 0; i < n; i++) to[i] = (element)((const type *)x->data)[from + i * step];     \
    break

void dt__verify_load_real(const dt__verify_value *x, int64_t from, int64_t step, int64_t n,
                          double *to)
{
    switch (x->type) {
    case DT__VERIFY_F16:
    case DT__VERIFY_BF16:
    case DT__VERIFY_F32: LOAD(float, double);
    case DT__VERIFY_F64: LOAD(double, double);
    case DT__VERIFY_I8:
    case DT__VERIFY_I4:
    case DT__VERIFY_I2: LOAD(int8_t, double);
    case DT__VERIFY_I32: LOAD(int32_t, double);
    case DT__VERIFY_I64: LOAD(int64_t, double);
    default: LOAD(uint8_t, double);
    }
}

void dt__verify_load_whole(const dt__verify_value *x, int64_t from, int64_t step, int64_t n,
                           int64_t *to)
{
    switch (x->type) {
    case DT__VERIFY_I8:
    case DT__VERIFY_I4:
    case DT__VERIFY_I2: LOAD(int8_t, int64_t);
    case DT__VERIFY_I32: LOAD(int32_t, int64_t);
    case DT__VERIFY_I64: LOAD(int64_t, int64_t);
    default: LOAD(uint8_t, int64_t);
    }
}

#define STORE(type, value)                                                                         \
    for (int64_t i = 0; i < n; i++) ((type *)y->data)[to + i] = (type)(value);                     \
    break

void dt__verify_store_real(dt__verify_value *y, int64_t to, int64_t n, const double *from)
{
    switch (y->type) {
    case DT__VERIFY_F16:
    case DT__VERIFY_BF16:
    case DT__VERIFY_F32: STORE(float, from[i]);
    case DT__VERIFY_F64: STORE(double, from[i]);
    case DT__VERIFY_I8:
    case DT__VERIFY_I4:
    case DT__VERIFY_I2: STORE(int8_t, from[i]);
    case DT__VERIFY_I32: STORE(int32_t, from[i]);
    case DT__VERIFY_I64: STORE(int64_t, from[i]);
    default: STORE(uint8_t, from[i]);
    }
}

/* The low bits of x, up to the bit `sign`, as a signed number. */
static int64_t low_of(int64_t x, int64_t sign) { return ((x & (2 * sign - 1)) ^ sign) - sign; }

void dt__verify_store_whole(dt__verify_value *y, int64_t to, int64_t n, const int64_t *from)
{
    switch (y->type) {
    case DT__VERIFY_F32: STORE(float, from[i]);
    case DT__VERIFY_F64: STORE(double, from[i]);
    case DT__VERIFY_U8: STORE(uint8_t, from[i] & 255);
    case DT__VERIFY_I8: STORE(int8_t, (uint8_t)from[i]);
    case DT__VERIFY_I32: STORE(int32_t, (uint32_t)from[i]);
    case DT__VERIFY_I64: STORE(int64_t, from[i]);
    case DT__VERIFY_U4: STORE(uint8_t, from[i] & 15);
    case DT__VERIFY_I4: STORE(int8_t, low_of(from[i], 8));
    case DT__VERIFY_U2: STORE(uint8_t, from[i] & 3);
    case DT__VERIFY_I2: STORE(int8_t, low_of(from[i], 2));
    default: STORE(uint8_t, from[i] != 0);
    }
}

static void put_bits(dt__verify_value *y, int64_t i, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    const int64_t whole = (int64_t)bits;
    if (y->type == DT__VERIFY_F32) memcpy((float *)y->data + i, &low, sizeof low);
    else if (y->type == DT__VERIFY_F64) memcpy((double *)y->data + i, &bits, sizeof bits);
    else dt__verify_store_whole(y, i, 1, &whole);
}

static dt_status check(dt_ctx *ctx, const dt__onnx_tensor *t, const char *shown,
                       dt__verify_value *out)
{
    const dt__verify_type type = (dt__verify_type)t->data_type;
    if (t->data_location != 0) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED, "the tensor '%s' is in another file", shown);
    }
    if (dt__verify_size(type) == 0 || dt__verify_is_half(type)) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED, "the tensor '%s' has the data type %d", shown,
                       t->data_type);
    }
    char why[DT__SHOWN] = "is too large";
    if (!dt__onnx_tensor_shape(t, &out->count, why, sizeof why) ||
        !dt__verify_fits((int)t->n_dims, t->dims, &out->count) ||
        !dt__onnx_tensor_holds(t, out->count, why, sizeof why)) {
        return dt_fail(ctx, DT_ERR_FORMAT, "the tensor '%s' %s", shown, why);
    }
    out->type = type;
    out->rank = (int)t->n_dims;
    if (t->n_dims > 0) memcpy(out->dims, t->dims, t->n_dims * sizeof t->dims[0]);
    return DT_OK;
}

dt_status dt__verify_decode(dt_ctx *ctx, const dt__onnx_tensor *t, size_t most_bytes,
                            dt__verify_value *out)
{
    char shown[DT__SHOWN];
    dt__shown(t->name, shown);
    *out = (dt__verify_value){ .count = 0 };
    DT__TRY(check(ctx, t, shown, out));
    const size_t bytes = types[out->type].bytes; /* the file has at least half as many bytes */
    if ((size_t)out->count > most_bytes / bytes) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "the tensor '%s' has %lld elements: too many for %zu "
                       "bytes",
                       shown, (long long)out->count, most_bytes);
    }
    out->data = dt__alloc_array(ctx, out->count, bytes);
    if (out->data == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < out->count; i++) put_bits(out, i, dt__onnx_tensor_bits(t, i));
    return DT_OK;
}

bool dt__verify_fits(int rank, const int64_t *dims, int64_t *count)
{
    int64_t whole = 1;
    *count = 1;
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0 || __builtin_mul_overflow(whole, dt__max_i64(dims[d], 1), &whole) ||
            whole > MOST_ELEMENTS) {
            return false;
        }
        *count *= dims[d];
    }
    return true;
}

void dt__verify_strides(const dt__verify_value *x, int64_t stride[DT_MAX_RANK])
{
    int64_t step = 1;
    for (int d = x->rank; d-- > 0; step *= x->dims[d]) stride[d] = step;
}

void dt__verify_step(dt__verify_walk *w)
{
    for (int d = w->rank; d-- > 0;) {
        for (int k = 0; k < DT__VERIFY_OPERANDS; k++) w->offset[k] += w->stride[k][d];
        if (++w->at[d] < w->dims[d]) return;
        for (int k = 0; k < DT__VERIFY_OPERANDS; k++) {
            w->offset[k] -= w->dims[d] * w->stride[k][d];
        }
        w->at[d] = 0;
    }
}
