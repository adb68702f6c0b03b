/* Constants: tensors of the file, and questions about them. */
#include "core/block_list.h"
#include "core/half.h"
#include "core/json.h"
#include "io/onnx.h"

#include <math.h>
#include <string.h>

/* TensorProto.DataType */
enum { FLOAT = 1, U8, I8, U16, I16, I32, I64, BOOL = 9, F16, DOUBLE, U32, U64, BF16 = 16 };

typedef struct data_type {
    size_t bytes; /* in raw_data; 0: not read */
    bool floats;
} data_type;

static const data_type types[] = {
    [FLOAT] = { 4, true }, [U8] = { 1, false },    [I8] = { 1, false },  [U16] = { 2, false },
    [I16] = { 2, false },  [I32] = { 4, false },   [I64] = { 8, false }, [BOOL] = { 1, false },
    [F16] = { 2, true },   [DOUBLE] = { 8, true }, [U32] = { 4, false }, [U64] = { 8, false },
    [BF16] = { 2, true },
};

void *dt__onnx_memory(dt__onnx *g, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || !dt__mul_size((uint64_t)count, size, &bytes)) bytes = SIZE_MAX;
    return dt__block_list_add(g->ctx, &g->blocks, bytes);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Little-endian bytes as an unsigned number. */
static uint64_t bits_of(const uint8_t *raw, size_t n)
{
    uint64_t bits = 0;
    for (size_t i = n; i-- > 0;) bits = bits << 8 | raw[i];
    return bits;
}

static double of_bits(int type, uint64_t bits)
{
    float f;
    double d;
    const uint32_t low = (uint32_t)bits;
    switch (type) {
    case FLOAT: memcpy(&f, &low, sizeof f); return (double)f;
    case DOUBLE: memcpy(&d, &bits, sizeof d); return d;
    case F16: return (double)dt__f16_to_f32((uint16_t)bits);
    case BF16: return (double)dt__bf16_to_f32((uint16_t)bits);
    case I8: return (int8_t)bits;
    case I16: return (int16_t)bits;
    case I32: return (int32_t)low;
    case I64: return (double)(int64_t)bits;
    default: return (double)bits;
    }
}

/* How many elements the typed fields hold for a type, if raw_data is absent. */
static size_t typed_count(const dt__onnx_tensor *t)
{
    switch (t->data_type) {
    case FLOAT: return t->n_float_data;
    case DOUBLE: return t->n_double_data;
    case I64: return t->n_int64_data;
    case U32:
    case U64: return t->n_uint64_data;
    default: return t->n_int32_data;
    }
}

static double typed_at(const dt__onnx_tensor *t, int64_t i)
{
    switch (t->data_type) {
    case FLOAT: return (double)t->float_data[i];
    case DOUBLE: return t->double_data[i];
    case I64: return (double)t->int64_data[i];
    case U32:
    case U64: return (double)t->uint64_data[i];
    default: return of_bits(t->data_type, (uint64_t)(int64_t)t->int32_data[i]);
    }
}

/* Checks a tensor; data of another file become its raw_data. */
static dt_status check(dt__onnx *g, dt__onnx_tensor *t, const data_type **type)
{
    char shown[DT__SHOWN];
    int64_t count;
    dt__shown(t->name, shown);
    const bool known = t->data_type > 0 && t->data_type < DT__COUNT_OF(types);
    *type = known ? &types[t->data_type] : NULL;
    if (!known || (*type)->bytes == 0) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: the tensor '%s' has the data type %d; floats and integers are read",
                       g->file->path, shown, t->data_type);
    }
    if (t->n_dims > DT_MAX_RANK || !dt__product((int)t->n_dims, t->dims, &count)) {
        return dt_fail(g->ctx, DT_ERR_FORMAT,
                       "%s: the tensor '%s' has %zu dimensions, or is too large; %d dimensions are "
                       "the most",
                       g->file->path, shown, t->n_dims, DT_MAX_RANK);
    }
    if (t->data_location != 0) {
        size_t bytes;
        if (!dt__mul_size((uint64_t)count, (*type)->bytes, &bytes)) bytes = SIZE_MAX;
        DT__TRY(dt__onnx_external(g->file, t, bytes, &g->blocks, &t->raw_data));
    }
    const size_t held = t->raw_data.len > 0 ? t->raw_data.len / (*type)->bytes : typed_count(t);
    const bool whole = t->raw_data.len % (*type)->bytes == 0;
    if (whole && (uint64_t)count == held) return DT_OK;
    return dt_fail(g->ctx, DT_ERR_FORMAT,
                   "%s: the tensor '%s' has %lld elements by its shape, but data of %zu",
                   g->file->path, shown, (long long)count, held);
}

dt_status dt__onnx_decode(dt__onnx *g, const dt__onnx_tensor *from, dt__onnx_value *out)
{
    dt__onnx_tensor own = *from, *t = &own;
    const data_type *type;
    float *f = NULL;
    dt__onnx_number *n = NULL;
    DT__TRY(check(g, t, &type));
    DT__TRY(dt__onnx_constant(g, out, (int)t->n_dims, t->dims, type->floats ? &f : NULL, &n));
    out->integer = !type->floats;
    out->initializer = *t->name == 0 ? NULL : t->name;
    for (int64_t i = 0; i < out->count; i++) {
        const double x =
            t->raw_data.len == 0
                ? typed_at(t, i)
                : of_bits(t->data_type,
                          bits_of(t->raw_data.data + (size_t)i * type->bytes, type->bytes));
        if (f != NULL) f[i] = (float)x;
        else n[i] = (dt__onnx_number){ x, false };
    }
    return DT_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

dt_status dt__onnx_constant(dt__onnx *g, dt__onnx_value *v, int rank, const int64_t *dims,
                            float **f, dt__onnx_number **n)
{
    if (!dt__product(rank, dims, &v->count)) return dt__onnx_refuse(g, "a constant is too large");
    v->kind = DT__ONNX_CONSTANT;
    v->rank = rank;
    v->integer = f == NULL;
    v->initializer = NULL;
    v->f = NULL;
    v->n = NULL;
    for (int i = 0; i < rank; i++) v->dims[i] = dims[i];
    void *data = dt__onnx_memory(g, v->count, f != NULL ? sizeof **f : sizeof **n);
    if (data == NULL) return DT_ERR_NOMEM;
    if (f != NULL) v->f = *f = data;
    else v->n = *n = data;
    return DT_OK;
}

dt__onnx_number dt__onnx_number_at(const dt__onnx_value *v, int64_t i)
{
    if (v->n != NULL) return v->n[i];
    return (dt__onnx_number){ (double)v->f[i], false };
}

/* ---- questions ------------------------------------------------------------------------------- */

dt_status dt__onnx_ints_of(dt__onnx *g, const dt__onnx_value *v, const char *what, dt_ints *out)
{
    out->n = 0;
    if (v->kind != DT__ONNX_CONSTANT) return dt__onnx_refuse(g, "%s must be constant", what);
    if (v->count > DT_MAX_LIST) {
        return dt__onnx_refuse(g, "%s has %lld elements; %d are the most", what,
                               (long long)v->count, DT_MAX_LIST);
    }
    for (int64_t i = 0; i < v->count; i++) {
        const dt__onnx_number x = dt__onnx_number_at(v, i);
        if (x.batch || floor(x.value) != x.value) {
            return dt__onnx_refuse(g, "%s must have whole numbers that do not depend on the batch",
                                   what);
        }
        const bool most = x.value >= 0x1p62, least = x.value <= -0x1p62;
        out->v[out->n++] = most ? INT64_MAX : least ? -INT64_MAX : (int64_t)x.value;
    }
    return DT_OK;
}

dt_status dt__onnx_real_of(dt__onnx *g, const dt__onnx_value *v, const char *what, double *out)
{
    if (v->kind != DT__ONNX_CONSTANT || v->count != 1 || dt__onnx_number_at(v, 0).batch) {
        return dt__onnx_refuse(g, "%s must be one constant number", what);
    }
    *out = dt__onnx_number_at(v, 0).value;
    return DT_OK;
}

dt_status dt__onnx_floats_of(dt__onnx *g, const dt__onnx_value *v, const char *what,
                             const float **out)
{
    *out = v->f;
    if (v->kind != DT__ONNX_CONSTANT) return dt__onnx_refuse(g, "%s must be constant", what);
    if (v->f != NULL) return DT_OK;
    float *f = dt__onnx_memory(g, v->count, sizeof *f);
    if (f == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < v->count; i++) {
        if (v->n[i].batch) return dt__onnx_refuse(g, "%s depends on the batch", what);
        f[i] = (float)v->n[i].value;
    }
    *out = f;
    return DT_OK;
}

dt_status dt__onnx_transposed(dt__onnx *g, const dt__onnx_value *v, const int *order,
                              dt__onnx_value *out)
{
    int64_t dims[DT_MAX_RANK], stride[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 }, step = 1, from = 0;
    int64_t own[DT_MAX_RANK];
    float *f = NULL;
    dt__onnx_number *n = NULL;
    const char *initializer = v->initializer;
    for (int i = v->rank - 1; i >= 0; step *= v->dims[i--]) own[i] = step;
    for (int i = 0; i < v->rank; i++) {
        dims[i] = v->dims[order[i]];
        stride[i] = own[order[i]];
    }
    const dt__onnx_value x = *v;
    DT__TRY(dt__onnx_constant(g, out, x.rank, dims, x.f != NULL ? &f : NULL, &n));
    out->integer = x.integer;
    out->initializer = initializer;
    for (int64_t i = 0; i < x.count; i++) {
        if (f != NULL) f[i] = x.f[from];
        else n[i] = x.n[from];
        for (int d = x.rank - 1; d >= 0; d--) {
            from += stride[d];
            if (++at[d] < dims[d]) break;
            from -= dims[d] * stride[d];
            at[d] = 0;
        }
    }
    return DT_OK;
}
