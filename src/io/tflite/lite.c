/* Runs a TFLite model: the operators in order, and their shared functions. */
#include "io/tflite/lite_graph.h"

#include "core/block_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES DT__AT_MOST(UINT64_C(8) << 30)
#define MOST_WORK 1e13
#define MOST_COUNT ((int64_t)1 << 40)

static const dt__vlite_operator operators[] = {
#define DT__VLITE(name, code, newest, least, most, run, coded, onnx, form, layer, device, ...)     \
    { code, #name, newest, least, most, run, coded, { __VA_ARGS__ } },
#include "io/tflite/lite_operators.inc"
#undef DT__VLITE
};

const dt__vlite_operator *dt__vlite_operator_of(int64_t code)
{
    for (int i = 0; i < DT__COUNT_OF(operators); i++) {
        if (operators[i].code == code) return &operators[i];
    }
    return NULL;
}

dt_status dt__vlite_broken(const dt__vlite *v, const char *what, int64_t i)
{
    return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: damaged, or not a TFLite model: %s %lld", v->path,
                   what, (long long)i);
}

void *dt__vlite_memory(dt__vlite *v, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || !dt__mul_size((uint64_t)count, size, &bytes) ||
        bytes > v->most.bytes - v->used) {
        dt_fail(v->ctx, DT_ERR_NOMEM, "%s: out of memory: its values take more than %zu bytes",
                v->path, v->most.bytes);
        return NULL;
    }
    v->used += bytes;
    return dt__block_list_add(v->ctx, &v->blocks, bytes);
}

static bool is_real(int type) { return type == DT__VLITE_F32 || type == DT__VLITE_F16; }

dt_status dt__vlite_allocate(dt__vlite *v, dt__vlite_tensor *t)
{
    if (is_real(t->type)) t->f = dt__vlite_memory(v, t->count, sizeof *t->f);
    else t->q = dt__vlite_memory(v, t->count, sizeof *t->q);
    return t->f == NULL && t->q == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__vlite_open(dt_ctx *ctx, const char *path, const dt__span *file,
                         const dt__vlite_limits *limits, dt__vlite **out)
{
    dt__vlite *v = dt__alloc_zero(ctx, sizeof *v);
    *out = v;
    if (v == NULL) return DT_ERR_NOMEM;
    v->ctx = ctx;
    v->path = path;
    v->most = (dt__vlite_limits){ .bytes = MOST_BYTES, .work = MOST_WORK };
    if (limits != NULL && limits->bytes > 0) v->most.bytes = limits->bytes;
    if (limits != NULL && limits->work > 0) v->most.work = limits->work;
    v->most.unknown = limits != NULL && limits->unknown;
    v->f = (dt__vflat){ .bytes = file->data, .n = file->bytes };
    return dt__vlite_read(v);
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
    if (t->f == NULL && t->q == NULL) DT__TRY(dt__vlite_allocate(v, t));
    if (t->count > 0)
        memcpy(t->f != NULL ? (void *)t->f : (void *)t->q, data, (size_t)t->count * 4);
    return DT_OK;
}

dt_status dt__vlite_give_floats(dt__vlite *v, int i, const float *x)
{
    dt__vlite_tensor *t = &v->tensor[v->in[i]];
    if (!dt__vlite_is_coded(t)) return dt__vlite_give(v, i, x);
    if (t->q == NULL) DT__TRY(dt__vlite_allocate(v, t));
    dt__vlite_codes_of(t, x);
    return DT_OK;
}

float dt__vlite_float(const dt__vlite_tensor *t, int64_t k)
{
    return t->f != NULL ? t->f[k] : (float)(t->q[k] - t->zero[0]) * t->scale[0];
}

bool dt__vlite_is_open(const dt__vlite *v)
{
    bool open = v->ins > 0;
    for (int i = 0; i < v->ins; i++) open = open && v->tensor[v->in[i]].open;
    return open;
}

void dt__vlite_resize(dt__vlite *v, int64_t batch)
{
    v->resized = true;
    for (int i = 0; i < v->ins; i++) {
        dt__vlite_tensor *t = &v->tensor[v->in[i]];
        t->count = t->dims[0] == 0 ? 0 : t->count / t->dims[0] * batch;
        t->dims[0] = batch;
    }
}

static dt_status run_op(dt__vlite *v, const dt__vlite_op *o)
{
    const dt__vlite_operator *kind = dt__vlite_operator_of(o->code);
    dt__vlite_call c = { .v = v, .op = o, .n_in = o->n_in };
    v->sized = NULL;
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
        if (t->f == NULL && t->q == NULL) DT__TRY(dt__vlite_allocate(v, t));
        DT__TRY(dt__vlite_work(&c, (double)t->count));
        if (i == 0) c.y = t;
        for (int k = 0; k < o->n_in; k++) {
            if (c.in[k] == t) return dt__vlite_refuse(&c, "result %d is an input", i);
        }
    }
    const bool integers = kind->coded != NULL && c.in[0]->q != NULL;
    return integers ? kind->coded(&c) : kind->run(&c);
}

dt_status dt__vlite_run(dt__vlite *v)
{
    for (int64_t i = 0; i < v->ops; i++) {
        const double before = v->work;
        DT__TRY(run_op(v, &v->op[i]));
        dt__did_work(v->ctx, DT__INTERPRET_LITE, v->work - before);
    }
    for (int i = 0; i < v->outs; i++) {
        const dt__vlite_tensor *y = &v->tensor[v->out[i]];
        if (y->f == NULL && y->q == NULL) return dt__vlite_broken(v, "nothing computes output", i);
    }
    return DT_OK;
}

/* ---- for operators --------------------------------------------------------------------------- */

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
    DT__FORMAT(text, sizeof text, format);
    return dt_fail(c->v->ctx, DT_ERR_FORMAT, "%s: operator %lld (%s): %s", c->v->path,
                   (long long)c->op->place, dt__vlite_operator_of(c->op->code)->name, text);
}

/* Sets the extents of a result, which follow from the operator's inputs. */
static dt_status size_result(const dt__vlite_call *c, const int64_t *dims)
{
    dt__vlite_tensor *y = c->y;
    c->v->sized = y;
    if (memcmp(y->dims, dims, (size_t)y->rank * sizeof *dims) == 0) return DT_OK;
    y->count = 1;
    for (int i = 0; i < y->rank; i++) {
        if (dims[i] > 0 && y->count > MOST_COUNT / dims[i])
            return dt__vlite_refuse(c, "its result is too large");
        y->dims[i] = dims[i];
        y->count *= dims[i];
    }
    y->f = NULL;
    y->q = NULL;
    return dt__vlite_allocate(c->v, y);
}

dt_status dt__vlite_wants(const dt__vlite_call *c, int rank, const int64_t *dims)
{
    if (c->v->resized && c->v->sized != c->y && c->y->rank == rank) return size_result(c, dims);
    bool same = c->y->rank == rank;
    for (int i = 0; i < rank && same; i++) same = c->y->dims[i] == dims[i];
    return same ? DT_OK : dt__vlite_refuse(c, "its result is declared with other extents");
}

dt_status dt__vlite_work(const dt__vlite_call *c, double steps)
{
    c->v->work += steps;
    return c->v->work <= c->v->most.work
               ? DT_OK
               : dt__vlite_refuse(c, "more than %g steps of work", c->v->most.work);
}

void dt__vlite_did(const dt__vlite_call *c, double steps)
{
    dt__did_part(c->v->ctx, DT__INTERPRET_LITE, steps);
}

dt_status dt__vlite_list(const dt__vlite_call *c, int i, int *n, int64_t *to)
{
    const dt__vlite_tensor *t = c->in[i];
    if (t == NULL || t->type != DT__VLITE_I32 || t->count > 2 * DT__VLITE_RANK) {
        return dt__vlite_refuse(c, "input %d is not a list of integers", i);
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
    if (activation == 2) return x < -1 ? -1 : x > 1 ? 1 : x;
    if (activation == 3) return x < 0 ? 0 : x > 6 ? 6 : x;
    return x;
}
