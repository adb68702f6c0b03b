/* Reads a TFLite model and runs it: the tables of schema.fbs, tensors and constants, operators in
 * their order. The numbers of fields are those of the schema. */
#include "export/verify_lite.h"

#include "core/block_list.h"
#include "export/verify_flat.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES ((size_t)8 << 30)
#define MOST_WORK 1e13
#define MOST_COUNT ((int64_t)1 << 40)

struct dt__vlite {
    dt_ctx *ctx;
    const char *path;
    dt__vflat f;
    void *blocks;
    size_t used;
    dt__vlite_tensor *tensor;
    int64_t tensors;
    dt__vlite_op *op;
    int64_t ops;
    int in[DT_MAX_IN], out[DT_MAX_OUT], ins, outs;
    double work;
};

static const dt__vlite_operator *const lists[] = { dt__vlite_maps, dt__vlite_products,
                                                   dt__vlite_pools, dt__vlite_moves,
                                                   dt__vlite_sums };

static const dt__vlite_operator *operator_of(int64_t code)
{
    for (int k = 0; k < DT__COUNT_OF(lists); k++) {
        for (const dt__vlite_operator *o = lists[k]; o->name != NULL; o++) {
            if (o->code == code) return o;
        }
    }
    return NULL;
}

static dt_status broken(dt__vlite *v, const char *what, int64_t i)
{
    return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: damaged, or no TFLite model: %s %lld", v->path, what,
                   (long long)i);
}

void *dt__vlite_memory(dt__vlite *v, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || !dt__mul_size((size_t)count, size, &bytes) || bytes > MOST_BYTES - v->used) {
        dt_fail(v->ctx, DT_ERR_NOMEM, "%s: its values take more than %zu bytes", v->path,
                MOST_BYTES);
        return NULL;
    }
    v->used += bytes;
    return dt__block_list_add(v->ctx, &v->blocks, bytes);
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum { T_SHAPE, T_TYPE, T_BUFFER, T_QUANTIZATION = 4 };
enum { Q_SCALE = 2, Q_ZERO, Q_DETAILS_TYPE, Q_DETAILS, Q_AXIS };

/* Bits of an element in the file; 0: a type that is not known. */
static int bits_of(int64_t type)
{
    switch (type) {
        case DT__VLITE_F32:
        case DT__VLITE_I32: return 32;
        case DT__VLITE_F16: return 16;
        case DT__VLITE_I8: return 8;
        case DT__VLITE_I4: return 4;
        default: return 0;
    }
}

static bool is_real(int type) { return type == DT__VLITE_F32 || type == DT__VLITE_F16; }

static dt_status allocate(dt__vlite *v, dt__vlite_tensor *t)
{
    if (is_real(t->type)) t->f = dt__vlite_memory(v, t->count, sizeof *t->f);
    else t->q = dt__vlite_memory(v, t->count, sizeof *t->q);
    return t->f == NULL && t->q == NULL ? DT_ERR_NOMEM : DT_OK;
}

static float half(uint32_t h)
{
    const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    const float magnitude = e == 0    ? ldexpf((float)m, -24)
                            : e == 31 ? INFINITY
                                      : ldexpf((float)(1024 + m), e - 25);
    return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

static void decode(dt__vlite_tensor *t, const uint8_t *from)
{
    for (int64_t i = 0; i < t->count; i++) {
        const int nibble = from[t->type == DT__VLITE_I4 ? i / 2 : 0] >> (i % 2 * 4) & 15;
        if (t->type == DT__VLITE_F32) memcpy(&t->f[i], from + 4 * i, 4);
        if (t->type == DT__VLITE_I32) memcpy(&t->q[i], from + 4 * i, 4);
        if (t->type == DT__VLITE_F16) t->f[i] = half(from[2 * i] | (uint32_t)from[2 * i + 1] << 8);
        if (t->type == DT__VLITE_I8) t->q[i] = (int8_t)from[i];
        if (t->type == DT__VLITE_I4) t->q[i] = nibble > 7 ? nibble - 16 : nibble;
    }
}

static dt_status read_constant(dt__vlite *v, dt__vlite_tensor *t, const dt__vvector *data, int64_t i)
{
    const int64_t bytes = (t->count * bits_of(t->type) + 7) / 8;
    if (data->count != bytes) return broken(v, "the buffer has another size than its tensor", i);
    DT__TRY(allocate(v, t));
    t->constant = true;
    decode(t, v->f.bytes + data->at);
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
        return t->block > 0 ? DT_OK : broken(v, "blocks of no columns, tensor", i);
    }
    const dt__vvector scale = dt__vflat_vector(f, &q, Q_SCALE, 4);
    const dt__vvector zero = dt__vflat_vector(f, &q, Q_ZERO, 8);
    t->scales = scale.count;
    t->axis = (int)dt__vflat_int(f, &q, Q_AXIS, 4, 0);
    if (t->scales == 0) return DT_OK;
    const bool spread = t->scales > 1;
    if (zero.count != 0 && zero.count != t->scales) return broken(v, "zero points of tensor", i);
    if (spread && (t->axis < 0 || t->axis >= t->rank || t->dims[t->axis] != t->scales)) {
        return broken(v, "another number of scales than channels, tensor", i);
    }
    t->scale = dt__vlite_memory(v, t->scales, sizeof *t->scale);
    t->zero = dt__vlite_memory(v, t->scales, sizeof *t->zero);
    if (t->scale == NULL || t->zero == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < t->scales; k++) {
        t->scale[k] = dt__vflat_float(f, &scale, k);
        const int64_t z = zero.count == 0 ? 0 : dt__vflat_number(f, &zero, k, 8);
        if (!(t->scale[k] > 0) || isinf(t->scale[k])) return broken(v, "a scale of tensor", i);
        if (z < -128 || z > 127) return broken(v, "a zero point of tensor", i);
        t->zero[k] = (int32_t)z;
    }
    return DT_OK;
}

static dt_status read_tensor(dt__vlite *v, const dt__vtable *from, const dt__vvector *buffers,
                             int64_t i)
{
    dt__vflat *f = &v->f;
    dt__vlite_tensor *t = &v->tensor[i];
    const dt__vvector dims = dt__vflat_vector(f, from, T_SHAPE, 4);
    t->type = (int)dt__vflat_int(f, from, T_TYPE, 1, 0);
    if (bits_of(t->type) == 0 || dims.count > DT__VLITE_RANK) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED,
                       "%s: tensor %lld has type %d and %lld dimensions, which are not read",
                       v->path, (long long)i, t->type, (long long)dims.count);
    }
    t->rank = (int)dims.count;
    t->count = 1;
    for (int d = 0; d < t->rank; d++) {
        t->dims[d] = dt__vflat_number(f, &dims, d, 4);
        if (t->dims[d] < 0 || (t->dims[d] > 0 && t->count > MOST_COUNT / t->dims[d])) {
            return broken(v, "extents of tensor", i);
        }
        t->count *= t->dims[d];
    }
    DT__TRY(read_scales(v, t, from, i));
    const int64_t buffer = dt__vflat_int(f, from, T_BUFFER, 4, 0);
    if (buffer < 0 || buffer >= buffers->count) return broken(v, "no buffer for tensor", i);
    const dt__vtable b = dt__vflat_element(f, buffers, buffer);
    if (!dt__vflat_has(f, &b, 0)) return DT_OK;
    const dt__vvector data = dt__vflat_vector(f, &b, 0, 1);
    return f->fault != NULL ? DT_OK : read_constant(v, t, &data, i);
}

/* ---- operators ------------------------------------------------------------------------------- */

enum { O_CODE, O_IN, O_OUT, O_OPTIONS = 4 };

/* The tensors of a list; -1 stands for one that is left out. */
static dt_status read_ends(dt__vlite *v, const dt__vvector *from, int most, int *n, int *to)
{
    if (from->count > most) return broken(v, "a list of tensors with", from->count);
    *n = (int)from->count;
    for (int i = 0; i < *n; i++) {
        const int64_t tensor = dt__vflat_number(&v->f, from, i, 4);
        if (tensor < -1 || tensor >= v->tensors) return broken(v, "there is no tensor", tensor);
        to[i] = (int)tensor;
    }
    return DT_OK;
}

static dt_status read_op(dt__vlite *v, const dt__vtable *from, const dt__vvector *codes, int64_t i)
{
    dt__vflat *f = &v->f;
    dt__vlite_op *o = &v->op[i];
    const dt__vtable kind = dt__vflat_element(f, codes, dt__vflat_int(f, from, O_CODE, 4, 0));
    const dt__vvector in = dt__vflat_vector(f, from, O_IN, 4);
    const dt__vvector out = dt__vflat_vector(f, from, O_OUT, 4);
    if (f->fault != NULL) return DT_OK;
    const int64_t code = dt__vflat_int(f, &kind, 3, 4, 0);
    const dt__vlite_operator *known = operator_of(code);
    if (kind.at == 0) return broken(v, "no kind for operator", i);
    if (known == NULL) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED, "%s: operator %lld, which is not known", v->path,
                       (long long)code);
    }
    o->place = i;
    o->code = (int)code;
    o->in = dt__vlite_memory(v, in.count, sizeof *o->in);
    o->out = dt__vlite_memory(v, out.count, sizeof *o->out);
    if (o->in == NULL || o->out == NULL) return DT_ERR_NOMEM;
    DT__TRY(read_ends(v, &in, DT__VLITE_IN, &o->n_in, o->in));
    DT__TRY(read_ends(v, &out, DT__VLITE_IN, &o->n_out, o->out));
    if (o->n_in < known->least_in || o->n_in > known->most_in || o->n_out < 1) {
        return broken(v, "another number of inputs than its kind has, operator", i);
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
    for (int64_t i = 0; i < v->ops && f->fault == NULL; i++) {
        const dt__vtable o = dt__vflat_element(f, &ops, i);
        if (f->fault == NULL) DT__TRY(read_op(v, &o, &codes, i));
    }
    if (f->fault != NULL) return DT_OK;
    for (int64_t i = 0; i < v->tensors; i++) {
        const dt__vlite_tensor *t = &v->tensor[i];
        if (t->block > 0 && (t->block_scales < 0 || t->block_scales >= v->tensors)) {
            return broken(v, "no scales for the blocks of tensor", i);
        }
    }
    DT__TRY(read_ends(v, &in, DT_MAX_IN, &v->ins, v->in));
    DT__TRY(read_ends(v, &out, DT_MAX_OUT, &v->outs, v->out));
    for (int i = 0; i < v->ins + v->outs; i++) {
        const int tensor = i < v->ins ? v->in[i] : v->out[i - v->ins];
        if (tensor < 0) return broken(v, "an end of the graph without a tensor,", i);
        if (i < v->ins && v->tensor[tensor].constant) return broken(v, "a constant as input", i);
    }
    return DT_OK;
}

static dt_status read_model(dt__vlite *v)
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
    return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: damaged, or no TFLite model: %s, at byte %zu",
                   v->path, f->fault, f->at);
}

dt_status dt__vlite_open(dt_ctx *ctx, const char *path, const void *bytes, size_t n,
                         dt__vlite **out)
{
    dt__vlite *v = dt__alloc_zero(ctx, sizeof *v);
    *out = v;
    if (v == NULL) return DT_ERR_NOMEM;
    v->ctx = ctx;
    v->path = path;
    v->f = (dt__vflat){ .bytes = bytes, .n = n };
    return read_model(v);
}

void dt__vlite_close(dt__vlite *v)
{
    if (v == NULL) return;
    dt_ctx *ctx = v->ctx;
    dt__block_list_free(ctx, &v->blocks);
    dt__release(ctx, v);
}

/* ---- running --------------------------------------------------------------------------------- */

int dt__vlite_inputs(const dt__vlite *v) { return v->ins; }
int dt__vlite_outputs(const dt__vlite *v) { return v->outs; }
const dt__vlite_tensor *dt__vlite_input(const dt__vlite *v, int i) { return &v->tensor[v->in[i]]; }
const dt__vlite_tensor *dt__vlite_output(const dt__vlite *v, int i)
{
    return &v->tensor[v->out[i]];
}

dt_status dt__vlite_give(dt__vlite *v, int i, const void *data)
{
    dt__vlite_tensor *t = &v->tensor[v->in[i]];
    if (t->f == NULL && t->q == NULL) DT__TRY(allocate(v, t));
    if (t->count > 0) memcpy(t->f != NULL ? (void *)t->f : (void *)t->q, data, (size_t)t->count * 4);
    return DT_OK;
}

static dt_status run_op(dt__vlite *v, const dt__vlite_op *o)
{
    const dt__vlite_operator *kind = operator_of(o->code);
    dt__vlite_call c = { .v = v, .op = o, .n_in = o->n_in };
    for (int i = 0; i < o->n_in; i++) {
        const dt__vlite_tensor *t = o->in[i] < 0 ? NULL : &v->tensor[o->in[i]];
        if (t != NULL && t->f == NULL && t->q == NULL) {
            return dt__vlite_refuse(&c, "input %d has no value yet", i);
        }
        if (t == NULL && i < kind->least_in) return dt__vlite_refuse(&c, "input %d is missing", i);
        c.in[i] = t;
    }
    for (int i = 0; i < o->n_out; i++) {
        dt__vlite_tensor *t = o->out[i] < 0 ? NULL : &v->tensor[o->out[i]];
        if (t == NULL || t->constant) return dt__vlite_refuse(&c, "result %d has no place", i);
        if (t->f == NULL && t->q == NULL) DT__TRY(allocate(v, t));
        DT__TRY(dt__vlite_work(&c, (double)t->count));
        if (i == 0) c.y = t;
        for (int k = 0; k < o->n_in; k++) {
            if (c.in[k] == t) return dt__vlite_refuse(&c, "result %d is an input", i);
        }
    }
    return kind->run(&c);
}

dt_status dt__vlite_run(dt__vlite *v)
{
    for (int64_t i = 0; i < v->ops; i++) DT__TRY(run_op(v, &v->op[i]));
    for (int i = 0; i < v->outs; i++) {
        const dt__vlite_tensor *y = &v->tensor[v->out[i]];
        if (y->f == NULL && y->q == NULL) return broken(v, "nothing computes output", i);
    }
    return DT_OK;
}

/* ---- for operators --------------------------------------------------------------------------- */

dt_ctx *dt__vlite_ctx(const dt__vlite_call *c) { return c->v->ctx; }

const dt__vlite_tensor *dt__vlite_tensor_at(const dt__vlite_call *c, int i)
{
    return &c->v->tensor[i];
}

dt__vlite_tensor *dt__vlite_result(const dt__vlite_call *c, int i)
{
    return &c->v->tensor[c->op->out[i]];
}

dt_status dt__vlite_refuse(const dt__vlite_call *c, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return dt_fail(c->v->ctx, DT_ERR_FORMAT, "%s: operator %lld (%s): %s", c->v->path,
                   (long long)c->op->place, operator_of(c->op->code)->name, text);
}

dt_status dt__vlite_wants(const dt__vlite_call *c, int rank, const int64_t *dims)
{
    bool same = c->y->rank == rank;
    for (int i = 0; i < rank && same; i++) same = c->y->dims[i] == dims[i];
    return same ? DT_OK : dt__vlite_refuse(c, "its result is declared with other extents");
}

dt_status dt__vlite_floats(const dt__vlite_call *c)
{
    bool all = c->y->f != NULL;
    for (int i = 0; i < c->n_in; i++) all = all && (c->in[i] == NULL || c->in[i]->f != NULL);
    return all ? DT_OK : dt__vlite_refuse(c, "its values are no floats");
}

dt_status dt__vlite_work(const dt__vlite_call *c, double steps)
{
    c->v->work += steps;
    return c->v->work <= MOST_WORK ? DT_OK : dt__vlite_refuse(c, "more than 1e13 steps of work");
}

dt_status dt__vlite_list(const dt__vlite_call *c, int i, int *n, int64_t *to)
{
    const dt__vlite_tensor *t = c->in[i];
    if (t == NULL || t->type != DT__VLITE_I32 || t->count > 2 * DT__VLITE_RANK) {
        return dt__vlite_refuse(c, "input %d is no list of integers", i);
    }
    *n = (int)t->count;
    for (int k = 0; k < *n; k++) to[k] = t->q[k];
    return DT_OK;
}

dt_status dt__vlite_axis(const dt__vlite_call *c, int64_t axis, int rank, int *out)
{
    if (axis < 0) axis += rank;
    *out = (int)axis;
    if (axis >= 0 && axis < rank) return DT_OK;
    return dt__vlite_refuse(c, "there is no axis %lld", (long long)axis);
}

double dt__vlite_activated(int activation, double x)
{
    if (activation == 1) return x < 0 ? 0 : x;
    if (activation == 3) return x < 0 ? 0 : x > 6 ? 6 : x;
    return x;
}
