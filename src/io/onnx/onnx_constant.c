/* Constants: tensors of the file, and access to their elements. */
#include "core/block_list.h"
#include "core/text/byte_order.h"
#include "core/text/half.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

void *dt__onnx_memory(dt__onnx *g, int64_t count, size_t size)
{
    return dt__block_list_array(g->ctx, &g->blocks, count, size);
}

/* ---- reading --------------------------------------------------------------------------------- */

static double of_bits(int type, uint64_t bits)
{
    float f;
    double d;
    const uint32_t low = (uint32_t)bits;
    switch (type) {
    case DT__ONNX_FLOAT: memcpy(&f, &low, sizeof f); return (double)f;
    case DT__ONNX_DOUBLE: memcpy(&d, &bits, sizeof d); return d;
    case DT__ONNX_F16: return (double)dt__f16_to_f32((uint16_t)bits);
    case DT__ONNX_BF16: return (double)dt__bf16_to_f32((uint16_t)bits);
    case DT__ONNX_I8: return (int8_t)bits;
    case DT__ONNX_I16: return (int16_t)bits;
    case DT__ONNX_I32: return (int32_t)low;
    case DT__ONNX_I64: return (double)(int64_t)bits;
    case DT__ONNX_BOOL: return bits != 0;
    case DT__ONNX_I4: return (double)((int)(bits ^ 8) - 8);
    case DT__ONNX_I2: return (double)((int)(bits ^ 2) - 2);
    default: return (double)bits;
    }
}

/* The limits of integer types. For 64 bits, the range in which doubles are exact. */
typedef struct limits {
    double least, most;
} limits;

static const limits integers[] = {
    [DT__ONNX_U8] = { 0, UINT8_MAX },
    [DT__ONNX_I8] = { INT8_MIN, INT8_MAX },
    [DT__ONNX_U16] = { 0, UINT16_MAX },
    [DT__ONNX_I16] = { INT16_MIN, INT16_MAX },
    [DT__ONNX_I32] = { INT32_MIN, INT32_MAX },
    [DT__ONNX_I64] = { -0x1p53 + 1, 0x1p53 - 1 },
    [DT__ONNX_BOOL] = { 0, 1 },
    [DT__ONNX_U32] = { 0, UINT32_MAX },
    [DT__ONNX_U64] = { 0, 0x1p53 - 1 },
    [DT__ONNX_U4] = { 0, 15 },
    [DT__ONNX_I4] = { -8, 7 },
    [DT__ONNX_U2] = { 0, 3 },
    [DT__ONNX_I2] = { -2, 1 },
};

bool dt__onnx_round(int type, double *value)
{
    switch (type) {
    case DT__ONNX_DOUBLE: return true;
    case DT__ONNX_FLOAT: *value = (double)(float)*value; return true;
    case DT__ONNX_F16: *value = (double)dt__f16_to_f32(dt__f32_to_f16((float)*value)); return true;
    case DT__ONNX_BF16:
        *value = (double)dt__bf16_to_f32(dt__f32_to_bf16((float)*value));
        return true;
    default: break;
    }
    if (type < 0 || type >= DT__COUNT_OF(integers)) return false;
    return *value >= integers[type].least && *value <= integers[type].most;
}

static dt_status broken(dt__onnx *g, const char *shown, const char *why)
{
    return dt_fail(g->ctx, DT_ERR_FORMAT, "%s: the tensor '%s' %s", g->file->path, shown, why);
}

/* Checks a tensor; data in another file become its raw_data. */
static dt_status check(dt__onnx *g, dt__onnx_tensor *t)
{
    char shown[DT__SHOWN], why[DT__SHOWN];
    int64_t count;
    dt__shown(t->name, shown);
    if (!dt__onnx_is_known(t->data_type)) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: the tensor '%s' has the data type %d; floats and integers are read",
                       g->file->path, shown, t->data_type);
    }
    if (!dt__onnx_tensor_shape(t, &count, why, sizeof why)) return broken(g, shown, why);
    const int forms =
        (t->raw_data.len > 0) + (dt__onnx_typed_count(t) > 0) + (t->data_location != 0);
    if (t->segment.len > 0 || forms > 1 || t->data_location < 0 || t->data_location > 1) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: the tensor '%s' is a segment, or has its data in two places",
                       g->file->path, shown);
    }
    if (t->data_location != 0) {
        const size_t bytes = dt__onnx_tensor_bytes(t, count);
        DT__TRY(dt__onnx_external(g->file, t, bytes, &g->blocks, &t->raw_data));
    }
    return dt__onnx_tensor_holds(t, count, why, sizeof why) ? DT_OK : broken(g, shown, why);
}

/* Whether a tensor's bytes can be used as floats without conversion. */
static bool are_floats(const dt__onnx_tensor *t)
{
    return !DT__BIG_ENDIAN && t->data_type == DT__ONNX_FLOAT && t->raw_data.len > 0 &&
           (uintptr_t)t->raw_data.data % sizeof(float) == 0;
}

dt_status dt__onnx_decode(dt__onnx *g, const dt__onnx_tensor *from, dt__onnx_value *out)
{
    dt__onnx_tensor own = *from, *t = &own;
    float *f = NULL;
    dt__onnx_number *n = NULL;
    DT__TRY(check(g, t));
    if (are_floats(t)) { /* no copy: the bytes live as long as g */
        dt__onnx_lend_floats(out, (int)t->n_dims, t->dims, (int64_t)(t->raw_data.len / sizeof *f),
                             (const float *)(const void *)t->raw_data.data);
        out->initializer = *t->name == 0 ? NULL : t->name;
        return DT_OK;
    }
    const bool floats = dt__onnx_is_real(t->data_type) && t->data_type != DT__ONNX_DOUBLE;
    DT__TRY(dt__onnx_constant(g, out, (int)t->n_dims, t->dims, floats ? &f : NULL, &n));
    out->type = t->data_type;
    out->initializer = *t->name == 0 ? NULL : t->name;
    for (int64_t i = 0; i < out->count; i++) {
        const double x = of_bits(t->data_type, dt__onnx_tensor_bits(t, i));
        if (f != NULL) f[i] = (float)x;
        else n[i] = (dt__onnx_number){ x, false };
    }
    return DT_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

void dt__onnx_lend_floats(dt__onnx_value *v, int rank, const int64_t *dims, int64_t count,
                          const float *f)
{
    v->kind = DT__ONNX_CONSTANT;
    v->rank = rank;
    v->count = count;
    v->type = DT__ONNX_FLOAT;
    v->initializer = NULL;
    v->f = f;
    v->n = NULL;
    v->codes = NULL;
    v->turned = NULL;
    v->spread = 0;
    for (int i = 0; i < rank; i++) v->dims[i] = dims[i];
}

dt_status dt__onnx_constant(dt__onnx *g, dt__onnx_value *v, int rank, const int64_t *dims,
                            float **f, dt__onnx_number **n)
{
    int64_t count;
    if (!dt__product(rank, dims, &count)) return dt__onnx_refuse(g, "a constant is too large");
    dt__onnx_lend_floats(v, rank, dims, count, NULL);
    void *data = dt__onnx_memory(g, count, f != NULL ? sizeof **f : sizeof **n);
    if (data == NULL) return DT_ERR_NOMEM;
    if (f != NULL) v->f = *f = data;
    else v->n = *n = data;
    if (f == NULL) v->type = DT__ONNX_I64;
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
        out->v[out->n++] = dt__onnx_whole(x.value);
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

#define TILE 32 /* rows and columns that stay in the first cache */
/* share of the work of reading a node: allocation, transposition, and making the layer take about a
 * third each */
#define SHARE 0.33

/* y = x^T, x [rows, columns] */
static void transpose_matrix(dt__onnx *g, const float *x, int64_t rows, int64_t columns, float *y)
{
    for (int64_t i = 0; i < columns; i += TILE) {
        const int64_t last = dt__min_i64(i + TILE, columns);
        for (int64_t j = 0; j < rows; j += TILE) {
            const int64_t end = dt__min_i64(j + TILE, rows);
            for (int64_t c = i; c < last; c++) {
                for (int64_t r = j; r < end; r++) y[c * rows + r] = x[r * columns + c];
            }
        }
        dt__did_part(g->ctx, DT__NODES, SHARE * (double)(last - i) * (double)rows);
    }
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
    out->type = x.type;
    out->initializer = initializer;
    if (x.codes != NULL) DT__TRY(dt__onnx_transpose_codes(g, x.codes, order, x.rank, &out->codes));
    dt__did_part(g->ctx, DT__NODES, SHARE * (double)x.count);
    if (f != NULL && x.rank == 2 && order[0] == 1) {
        transpose_matrix(g, x.f, x.dims[0], x.dims[1], f);
        return DT_OK;
    }
    for (int64_t i = 0; i < x.count; i++) {
        if (f != NULL) f[i] = x.f[from];
        else n[i] = x.n[from];
        for (int d = x.rank - 1; d >= 0; d--) {
            from += stride[d];
            if (++at[d] < dims[d]) break;
            from -= dims[d] * stride[d];
            at[d] = 0;
            if (d == x.rank - 1) dt__did_part(g->ctx, DT__NODES, SHARE * (double)dims[d]);
        }
    }
    return DT_OK;
}
