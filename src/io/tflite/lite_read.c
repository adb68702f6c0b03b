/* Reads a TFLite model: the tables of schema.fbs. Field numbers are those of the schema. */
#include "io/tflite/lite_graph.h"

#include "core/text/byte_order.h"

#include <math.h>
#include <string.h>

#define MOST_COUNT ((int64_t)1 << 40)

/* ---- tensors --------------------------------------------------------------------------------- */

enum { T_SHAPE, T_TYPE, T_BUFFER, T_NAME, T_QUANTIZATION, T_SPARSITY = 6, T_SIGNATURE };
enum { Q_SCALE = 2, Q_ZERO, Q_DETAILS_TYPE, Q_DETAILS, Q_AXIS };

/* Bits of an element in the file; 0: unsupported type. */
static int bits_of(const dt__vlite *v, int64_t type)
{
    switch (type) {
    case DT__VLITE_F32:
    case DT__VLITE_I32: return 32;
    case DT__VLITE_F16: return 16;
    case DT__VLITE_I8:
    case DT__VLITE_BOOL: return 8;
    case DT__VLITE_I4: return 4;
    case DT__VLITE_U8: return v->most.unknown ? 8 : 0;
    case DT__VLITE_I64: return v->most.unknown ? 64 : 0;
    default: return 0;
    }
}

const char *dt__vlite_type_text(int64_t type)
{
    static const char *const names[] = { "float", "float16", "int32",   "uint8", "int64", "text",
                                         "bool",  "int16",   "complex", "int8",  "double" };
    if (type == DT__VLITE_I4) return "int4";
    return type >= 0 && type < DT__COUNT_OF(names) ? names[type] : "unknown";
}

static float half(uint32_t h)
{
    const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    const float magnitude = e == 0    ? ldexpf((float)m, -24)
                            : e == 31 ? INFINITY
                                      : ldexpf((float)(1024 + m), e - 25);
    return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

/* A 64-bit index or extent, clamped to 32 bits: ends of slices may be very large. */
static int32_t saturated(const uint8_t *from)
{
    int64_t value;
    dt__copy_little(&value, from, 8);
    return (int32_t)dt__max_i64(INT32_MIN, dt__min_i64(INT32_MAX, value));
}

#define PIECE 1048576 /* numbers between reports of progress */

static void decode(const dt__vlite *v, dt__vlite_tensor *t, const uint8_t *from)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (i % PIECE == PIECE - 1) dt__did_part(v->ctx, DT__CONVERT, PIECE);
        const int nibble = from[t->type == DT__VLITE_I4 ? i / 2 : 0] >> (i % 2 * 4) & 15;
        if (t->type == DT__VLITE_F32) dt__copy_little(&t->f[i], from + 4 * i, 4);
        if (t->type == DT__VLITE_I32) dt__copy_little(&t->q[i], from + 4 * i, 4);
        if (t->type == DT__VLITE_F16) t->f[i] = half(from[2 * i] | (uint32_t)from[2 * i + 1] << 8);
        if (t->type == DT__VLITE_I8) t->q[i] = (int8_t)from[i];
        if (t->type == DT__VLITE_U8 || t->type == DT__VLITE_BOOL) t->q[i] = from[i];
        if (t->type == DT__VLITE_I64) t->q[i] = saturated(from + 8 * i);
        if (t->type == DT__VLITE_I4) t->q[i] = nibble > 7 ? nibble - 16 : nibble;
    }
}

static dt_status read_constant(dt__vlite *v, dt__vlite_tensor *t, const dt__vvector *data,
                               int64_t i)
{
    const int64_t bytes = (t->count * bits_of(v, t->type) + 7) / 8;
    if (data->count != bytes)
        return dt__vlite_broken(v, "the buffer has another size than its tensor", i);
    DT__TRY(dt__vlite_allocate(v, t));
    t->constant = true;
    decode(v, t, v->f.bytes + data->at);
    if (t->count > 0) dt__did_work(v->ctx, DT__CONVERT, (double)t->count);
    return DT_OK;
}

static dt_status read_scales(dt__vlite *v, dt__vlite_tensor *t, const dt__vtable *from, int64_t i)
{
    dt__vflat *f = &v->f;
    const dt__vtable q = dt__vflat_child(f, from, T_QUANTIZATION);
    if (dt__vflat_int(f, &q, Q_DETAILS_TYPE, 1, 0) != 0) {
        const dt__vtable b = dt__vflat_child(f, &q, Q_DETAILS);
        t->block = dt__vflat_int(f, &b, 2, 4, 0);
        t->block_scales = (int)dt__vflat_int(f, &b, 0, 4, -1);
        return t->block > 0 ? DT_OK : dt__vlite_broken(v, "blocks of no columns, tensor", i);
    }
    const dt__vvector scale = dt__vflat_vector(f, &q, Q_SCALE, 4);
    const dt__vvector zero = dt__vflat_vector(f, &q, Q_ZERO, 8);
    t->scales = scale.count;
    t->axis = (int)dt__vflat_int(f, &q, Q_AXIS, 4, 0);
    if (t->scales == 0) return DT_OK;
    const bool spread = t->scales > 1;
    if (zero.count != 0 && zero.count != t->scales)
        return dt__vlite_broken(v, "zero points of tensor", i);
    if (spread && (t->axis < 0 || t->axis >= t->rank || t->dims[t->axis] != t->scales)) {
        return dt__vlite_broken(v, "another number of scales than channels, tensor", i);
    }
    t->scale = dt__vlite_memory(v, t->scales, sizeof *t->scale);
    t->zero = dt__vlite_memory(v, t->scales, sizeof *t->zero);
    if (t->scale == NULL || t->zero == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < t->scales; k++) {
        t->scale[k] = dt__vflat_float(f, &scale, k);
        const int64_t z = zero.count == 0 ? 0 : dt__vflat_number(f, &zero, k, 8);
        if (!(t->scale[k] > 0) || isinf(t->scale[k]))
            return dt__vlite_broken(v, "a scale of tensor", i);
        const int64_t least = t->type == DT__VLITE_U8 ? 0 : -128;
        if (z < least || z > least + 255) return dt__vlite_broken(v, "a zero point of tensor", i);
        t->zero[k] = (int32_t)z;
    }
    return DT_OK;
}

/* Names are read for import only, as unknown types are. */
static dt_status read_name(dt__vlite *v, const dt__vtable *from, dt__vlite_tensor *t)
{
    const dt__vvector name = dt__vflat_vector(&v->f, from, T_NAME, 1);
    if (v->f.fault != NULL || !v->most.unknown || name.count == 0) return DT_OK;
    char *to = dt__vlite_memory(v, name.count + 1, 1);
    if (to == NULL) return DT_ERR_NOMEM;
    memcpy(to, v->f.bytes + name.at, (size_t)name.count);
    t->name = to;
    return DT_OK;
}

static dt_status read_tensor(dt__vlite *v, const dt__vtable *from, const dt__vvector *buffers,
                             int64_t i)
{
    dt__vflat *f = &v->f;
    dt__vlite_tensor *t = &v->tensor[i];
    const dt__vvector dims = dt__vflat_vector(f, from, T_SHAPE, 4);
    t->type = (int)dt__vflat_int(f, from, T_TYPE, 1, 0);
    if (bits_of(v, t->type) == 0 || dims.count > DT__VLITE_RANK) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED,
                       "%s: tensor %lld has type %d (%s) and %lld dimensions, which are not read",
                       v->path, (long long)i, t->type, dt__vlite_type_text(t->type),
                       (long long)dims.count);
    }
    t->rank = (int)dims.count;
    t->count = 1;
    for (int d = 0; d < t->rank; d++) {
        t->dims[d] = dt__vflat_number(f, &dims, d, 4);
        if (t->dims[d] < 0 || (t->dims[d] > 0 && t->count > MOST_COUNT / t->dims[d])) {
            return dt__vlite_broken(v, "extents of tensor", i);
        }
        t->count *= t->dims[d];
    }
    const dt__vvector signature = dt__vflat_vector(f, from, T_SIGNATURE, 4);
    for (int d = 0; signature.count == t->rank && d < t->rank; d++) {
        if (dt__vflat_number(f, &signature, d, 4) == -1) *(d == 0 ? &t->open : &t->vague) = true;
    }
    DT__TRY(read_scales(v, t, from, i));
    DT__TRY(read_name(v, from, t));
    if (dt__vflat_has(f, from, T_SPARSITY)) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED,
                       "%s: tensor %lld is sparse, which is not read; convert the model without "
                       "sparsity",
                       v->path, (long long)i);
    }
    const int64_t buffer = dt__vflat_int(f, from, T_BUFFER, 4, 0);
    if (buffer < 0 || buffer >= buffers->count)
        return dt__vlite_broken(v, "no buffer for tensor", i);
    const dt__vtable b = dt__vflat_element(f, buffers, buffer);
    if (!dt__vflat_has(f, &b, 0)) return DT_OK;
    const dt__vvector data = dt__vflat_vector(f, &b, 0, 1);
    return f->fault != NULL ? DT_OK : read_constant(v, t, &data, i);
}

/* ---- operators ------------------------------------------------------------------------------- */

enum { O_CODE, O_IN, O_OUT, O_OPTIONS = 4 };

/* Reads a list of tensor indices; -1: left out. */
static dt_status read_ends(dt__vlite *v, const dt__vvector *from, int most, int *n, int *to)
{
    if (from->count > most) return dt__vlite_broken(v, "a list of tensors with", from->count);
    *n = (int)from->count;
    for (int i = 0; i < *n; i++) {
        const int64_t tensor = dt__vflat_number(&v->f, from, i, 4);
        if (tensor < -1 || tensor >= v->tensors)
            return dt__vlite_broken(v, "there is no tensor", tensor);
        to[i] = (int)tensor;
    }
    return DT_OK;
}

/* Checks that an operator is supported, in a version that LiteRT has. */
static dt_status check_kind(dt__vlite *v, const dt__vtable *kind, const dt__vlite_operator *known,
                            int64_t code, int64_t i)
{
    const bool runs = known != NULL && known->run != NULL;
    if (!runs && v->most.unknown) return DT_OK;
    if (!runs) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED, "%s: operator %lld, which is not known", v->path,
                       (long long)code);
    }
    const int64_t version = dt__vflat_int(&v->f, kind, 2, 4, 1);
    if (version >= 1 && version <= known->newest) return DT_OK;
    return dt_fail(v->ctx, DT_ERR_UNSUPPORTED,
                   "%s: operator %lld (%s) has version %lld; LiteRT has 1 to %d", v->path,
                   (long long)i, known->name, (long long)version, known->newest);
}

static dt_status read_op(dt__vlite *v, const dt__vtable *from, const dt__vvector *codes, int64_t i)
{
    dt__vflat *f = &v->f;
    dt__vlite_op *o = &v->op[i];
    const dt__vtable kind = dt__vflat_element(f, codes, dt__vflat_int(f, from, O_CODE, 4, 0));
    const dt__vvector in = dt__vflat_vector(f, from, O_IN, 4);
    const dt__vvector out = dt__vflat_vector(f, from, O_OUT, 4);
    if (f->fault != NULL) return DT_OK;
    int64_t code = dt__vflat_int(f, &kind, 3, 4, 0); /* old files have only the byte field */
    if (code == 0) code = dt__vflat_int(f, &kind, 0, 1, 0);
    const dt__vlite_operator *known = dt__vlite_operator_of(code);
    if (kind.at == 0) return dt__vlite_broken(v, "no kind for operator", i);
    DT__TRY(check_kind(v, &kind, known, code, i));
    o->place = i;
    o->code = (int)code;
    o->in = dt__vlite_memory(v, in.count, sizeof *o->in);
    o->out = dt__vlite_memory(v, out.count, sizeof *o->out);
    if (o->in == NULL || o->out == NULL) return DT_ERR_NOMEM;
    DT__TRY(read_ends(v, &in, DT__VLITE_IN, &o->n_in, o->in));
    DT__TRY(read_ends(v, &out, DT__VLITE_IN, &o->n_out, o->out));
    if (known == NULL) return DT_OK;
    if (o->n_in < known->least_in || o->n_in > known->most_in || o->n_out < 1) {
        return dt__vlite_broken(v, "another number of inputs than its kind has, operator", i);
    }
    const dt__vtable options = dt__vflat_child(f, from, O_OPTIONS);
    for (int k = 0; k < DT__VLITE_OPTIONS; k++) {
        if (known->bytes[k] > 0) o->option[k] = dt__vflat_int(f, &options, k, known->bytes[k], 0);
    }
    o->real = known->bytes[0] == 4 ? dt__vflat_real(f, &options, 0, 0) : 0;
    return DT_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static dt_status read_graph(dt__vlite *v, const dt__vtable *model, const dt__vtable *graph)
{
    dt__vflat *f = &v->f;
    const dt__vvector codes = dt__vflat_vector(f, model, 1, 4);
    const dt__vvector buffers = dt__vflat_vector(f, model, 4, 4);
    const dt__vvector tensors = dt__vflat_vector(f, graph, 0, 4);
    const dt__vvector in = dt__vflat_vector(f, graph, 1, 4), out = dt__vflat_vector(f, graph, 2, 4);
    const dt__vvector ops = dt__vflat_vector(f, graph, 3, 4);
    v->tensor = dt__vlite_memory(v, tensors.count, sizeof *v->tensor);
    v->op = dt__vlite_memory(v, ops.count, sizeof *v->op);
    if (v->tensor == NULL || v->op == NULL) return DT_ERR_NOMEM;
    v->tensors = tensors.count;
    v->ops = ops.count;
    for (int64_t i = 0; i < v->tensors && f->fault == NULL; i++) {
        const dt__vtable t = dt__vflat_element(f, &tensors, i);
        if (f->fault == NULL) DT__TRY(read_tensor(v, &t, &buffers, i));
    }
    /* including those of metadata */
    for (int64_t i = 0; i < buffers.count && f->fault == NULL; i++) {
        const dt__vtable b = dt__vflat_element(f, &buffers, i);
        dt__vflat_vector(f, &b, 0, 1);
    }
    for (int64_t i = 0; i < v->ops && f->fault == NULL; i++) {
        const dt__vtable o = dt__vflat_element(f, &ops, i);
        if (f->fault == NULL) DT__TRY(read_op(v, &o, &codes, i));
    }
    if (f->fault != NULL) return DT_OK;
    for (int64_t i = 0; i < v->tensors; i++) {
        const dt__vlite_tensor *t = &v->tensor[i];
        if (t->block > 0 && (t->block_scales < 0 || t->block_scales >= v->tensors)) {
            return dt__vlite_broken(v, "no scales for the blocks of tensor", i);
        }
    }
    DT__TRY(read_ends(v, &in, DT_MAX_IN, &v->ins, v->in));
    DT__TRY(read_ends(v, &out, DT_MAX_OUT, &v->outs, v->out));
    for (int i = 0; i < v->ins + v->outs; i++) {
        const int tensor = i < v->ins ? v->in[i] : v->out[i - v->ins];
        if (tensor < 0) return dt__vlite_broken(v, "an end of the graph without a tensor,", i);
        if (i < v->ins && v->tensor[tensor].constant)
            return dt__vlite_broken(v, "a constant as input", i);
    }
    return DT_OK;
}

dt_status dt__vlite_read(dt__vlite *v)
{
    dt__vflat *f = &v->f;
    const dt__vtable model = dt__vflat_root(f, "TFL3");
    const dt__vvector graphs = dt__vflat_vector(f, &model, 2, 4);
    const int64_t version = dt__vflat_int(f, &model, 0, 4, 0);
    if (f->fault == NULL && (version != 3 || graphs.count != 1)) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED,
                       "%s: version %lld of the schema with %lld graphs; 3 and 1 are read", v->path,
                       (long long)version, (long long)graphs.count);
    }
    const dt__vtable graph = dt__vflat_element(f, &graphs, 0);
    if (f->fault == NULL) DT__TRY(read_graph(v, &model, &graph));
    if (f->fault == NULL) return DT_OK;
    return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: damaged, or not a TFLite model: %s, at byte %zu",
                   v->path, f->fault, f->at);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool is_text(const dt__vflat *f, const dt__vvector *at, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)at->count == n && memcmp(f->bytes + at->at, text, n) == 0;
}

/* The tables of all buffers were checked before. */
dt_status dt__vlite_property(const dt__vlite *v, const char *name, char **out)
{
    dt__vflat f = v->f;
    const dt__vtable model = dt__vflat_root(&f, "TFL3");
    const dt__vvector buffers = dt__vflat_vector(&f, &model, 4, 4);
    const dt__vvector all = dt__vflat_vector(&f, &model, 6, 4);
    *out = NULL;
    for (int64_t i = 0; i < all.count && f.fault == NULL && *out == NULL; i++) {
        const dt__vtable m = dt__vflat_element(&f, &all, i);
        const dt__vvector own = dt__vflat_vector(&f, &m, 0, 1);
        const int64_t buffer = dt__vflat_int(&f, &m, 1, 4, 0);
        if (f.fault != NULL || !is_text(&f, &own, name)) continue;
        if (buffer < 0 || buffer >= buffers.count) continue;
        const dt__vtable b = dt__vflat_element(&f, &buffers, buffer);
        const dt__vvector text = dt__vflat_vector(&f, &b, 0, 1);
        if (f.fault != NULL) break;
        *out = dt__alloc_zero(v->ctx, (uint64_t)text.count + 1);
        if (*out == NULL) return DT_ERR_NOMEM;
        memcpy(*out, f.bytes + text.at, (size_t)text.count);
    }
    return DT_OK;
}
