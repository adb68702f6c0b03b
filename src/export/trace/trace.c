/* Records a forward pass of a module as a list of calls. The tape calls `on_call` after each op;
 * its operands are identified among the known values by their handles, which are kept until the
 * end, so that no handle's address is reused. */
#include "export/trace/trace.h"

#include "autograd/coded.h"
#include "autograd/op.h"
#include "nn/module.h"
#include "qat/quantized.h"

#include <detent/experimental/device.h>
#include <string.h>

typedef struct recorder {
    dt_trace *t;
    dt_tensor **handle; /* for each value; holds a reference */
    int64_t room_handles;
    dt__trace_size size;
    bool shapes_only;
    dt_status status;
} recorder;

/* ---- values ---------------------------------------------------------------------------------- */

static dt_status add_value(recorder *r, const dt_trace_value *v, dt_tensor *handle, int64_t *id)
{
    dt_trace *t = r->t;
    DT__TRY(DT__RESERVE(t->ctx, t->value, t->n_values, t->room_values));
    DT__TRY(DT__RESERVE(t->ctx, r->handle, t->n_values, r->room_handles));
    dt__retain(handle);
    r->handle[t->n_values] = handle;
    dt_trace_value *to = &t->value[t->n_values];
    *to = *v;
    to->dtype = handle->dtype;
    to->rank = handle->rank;
    for (int i = 0; i < handle->rank; i++) to->extent[i] = (dt_extent){ handle->dims[i], 0, 0 };
    to->first = to->last = -1;
    to->coded = dt_is_coded(handle);
    if (to->coded) DT__TRY(dt_coded_range(handle, &to->scale, &to->zero_point));
    *id = t->n_values++;
    return DT_OK;
}

/* An owned dense copy of x; if ops compute nothing, only its shape. */
static dt_status copy_of(const recorder *r, dt_tensor *x, dt_tensor **out)
{
    if (r->shapes_only) return dt__handle_create(x->ctx, x->dtype, x->rank, x->dims, out);
    DT__TRY(dt__tensor_create_raw(x->ctx, x->dtype, x->rank, x->dims, out));
    if (dt_is_coded(x)) dt__codes_expand_all(dt__coded_codes(x), dt__values_mut(*out));
    else dt__copy_tensor(x, *out);
    return DT_OK;
}

static dt_status add_constant(recorder *r, dt_tensor *x, int64_t *id)
{
    dt_trace_value v = { .kind = DT_VALUE_CONSTANT, .name = "", .call = -1 };
    DT__TRY(copy_of(r, x, &v.tensor));
    const dt_status s = add_value(r, &v, x, id);
    if (s != DT_OK) dt_tensor_free(v.tensor);
    return s;
}

/* The path of the parameter or buffer x in m; NULL: none. */
static const char *path_of(const dt_module *m, const dt_tensor *x)
{
    for (int64_t i = 0; i < m->n_entries; i++) {
        if (m->entries[i].x == x) return m->entries[i].path;
    }
    const char *path = NULL;
    for (int64_t i = 0; i < m->n_children && path == NULL; i++) path = path_of(m->children[i], x);
    return path;
}

/* Whether x is 0, 1, ... for each token. */
static bool is_positions(const recorder *r, const dt_tensor *x)
{
    if (!r->t->tokens || x->dtype != DT_I32 || x->rank != 1 || x->dims[0] != r->size.length ||
        x->storage == NULL || !dt_is_contiguous(x)) {
        return false;
    }
    const int32_t *v = dt__values(x);
    for (int64_t i = 0; i < x->count; i++) {
        if (v[i] != i) return false;
    }
    return true;
}

/* Whether x is a view that was made without an op, which cannot be identified. */
static bool is_hidden_view(const recorder *r, const dt_tensor *x)
{
    for (int64_t i = 0; i < r->t->n_values && x->storage != NULL; i++) {
        if (r->handle[i]->storage == x->storage && r->t->value[i].kind != DT_VALUE_CONSTANT) {
            return true;
        }
    }
    return false;
}

/* The scalar constant that has x's bits; -1: none. */
static int64_t equal_number(const recorder *r, const dt_tensor *x)
{
    const bool number = x->kind == NULL && x->rank == 0 && x->storage != NULL && !r->shapes_only;
    for (int64_t i = 0; i < r->t->n_values && number; i++) {
        const dt_trace_value *v = &r->t->value[i];
        if (v->kind != DT_VALUE_CONSTANT || v->rank != 0 || v->dtype != x->dtype) continue;
        if (memcmp(dt__values(v->tensor), dt__values(x), dt_dtype_size(x->dtype)) == 0) return i;
    }
    return -1;
}

static dt_status find(recorder *r, const dt_call *c, dt_tensor *x, int64_t *id)
{
    for (*id = r->t->n_values - 1; *id >= 0; --*id) {
        if (r->handle[*id] == x) return DT_OK;
    }
    dt_trace_value v = { .kind = DT_VALUE_PARAMETER, .name = path_of(r->t->m, x), .call = -1 };
    if (v.name != NULL) {
        v.tensor = x;
        return add_value(r, &v, x, id);
    }
    *id = equal_number(r, x);
    if (*id >= 0) return DT_OK;
    if (is_positions(r, x)) {
        v = (dt_trace_value){ .kind = DT_VALUE_POSITIONS, .name = "", .call = -1 };
        return add_value(r, &v, x, id);
    }
    if (x->kind == NULL && !is_hidden_view(r, x)) return add_constant(r, x, id);
    return dt_refuse(c, DT_ERR_UNSUPPORTED, "an operand is a part of a tensor that no op has made");
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const dt__fq *wrapper_of(const dt_tensor *x)
{
    return dt_is_fake_quant(x) && x->tape != NULL ? x->ext : NULL;
}

static dt_status add_operand(recorder *r, const dt_call *c, int i, dt_trace_operand *o)
{
    const dt__fq *fq = wrapper_of(c->in[i]);
    *o = (dt_trace_operand){ .quant = fq == NULL ? dt__quant_of(c->in[i]) : &fq->quant };
    const bool simulated = fq == NULL ? dt__is_simulated(c->in[i]) : fq->simulated;
    o->weight = o->quant != NULL && !o->quant->activation;
    if (fq != NULL && !fq->enabled) o->quant = NULL;
    o->coded = c->codes[i] != NULL;
    const bool plain = o->quant == NULL || simulated || dt__real_of(o->quant) != NULL;
    if (r->shapes_only && !plain) o->coded = c->op->role[i] == DT_CODES;
    if (fq == NULL) return find(r, c, c->in[i], &o->value);
    o->sample = fq->samples;
    o->scale = fq->scale;
    o->zero_point = fq->zero_point;
    return find(r, c, fq->inner, &o->value);
}

static bool is_variable(const dt_trace *t, int64_t value)
{
    const dt_value_kind kind = t->value[value].kind;
    return kind == DT_VALUE_INPUT || kind == DT_VALUE_RESULT || kind == DT_VALUE_POSITIONS;
}

/* If a call reads only constants, its results are constants. */
static dt_status add_folded(recorder *r, const dt_call *c)
{
    int64_t id;
    for (int i = 0; i < c->n_out; i++) DT__TRY(add_constant(r, c->out[i], &id));
    return DT_OK;
}

static dt_status add_results(recorder *r, const dt_call *c, dt_trace_call *k)
{
    for (int i = 0; i < c->n_out; i++) {
        const dt_trace_value v = {
            .kind = DT_VALUE_RESULT, .name = "", .call = r->t->n_calls, .result = i
        };
        DT__TRY(add_value(r, &v, c->out[i], &k->out[i]));
    }
    return DT_OK;
}

static dt_status check_call(const dt_call *c)
{
    if (c->op->random) {
        return dt_refuse(c, DT_ERR_UNSUPPORTED, "it draws random numbers, which no trace holds");
    }
    for (int i = 0; i < c->n_in; i++) {
        const bool writes = c->op->role[i] == DT_WRITE && c->in[i] != NULL &&
                            (c->op->writes == NULL || c->op->writes(c->options));
        if (!writes) continue;
        return dt_refuse(c, DT_ERR_UNSUPPORTED, "it writes a tensor; a traced model must not");
    }
    return DT_OK;
}

static dt_status add_call(recorder *r, const dt_call *c)
{
    dt_trace *t = r->t;
    const dt_module *m = c->tape->open != NULL ? c->tape->open->m : t->m;
    dt_trace_call k = { .op = c->op,
                        .module = m->path,
                        .type = m->type->name,
                        .n_in = c->n_in,
                        .n_out = c->n_out,
                        .length = r->size.length };
    bool variable = false;
    DT__TRY(check_call(c));
    for (int i = 0; i < c->n_in; i++) {
        k.in[i].value = -1;
        if (c->in[i] == NULL) continue;
        DT__TRY(add_operand(r, c, i, &k.in[i]));
        variable = variable || is_variable(t, k.in[i].value);
    }
    if (!variable) return add_folded(r, c);
    DT__TRY(DT__RESERVE(t->ctx, t->call, t->n_calls, t->room_calls));
    DT__TRY(add_results(r, c, &k));
    DT__TRY(dt__copy_call_options(t->ctx, c, &k.options));
    for (int i = 0; i < c->n_in; i++) { /* a wrapper's settings are valid only during the pass */
        if (k.in[i].quant == NULL) continue;
        dt_quant_spec *own = dt__alloc(t->ctx, sizeof *own);
        if (own != NULL) *own = *k.in[i].quant;
        k.in[i].quant = own;
        if (own == NULL) r->status = DT_ERR_NOMEM;
    }
    t->call[t->n_calls++] = k;
    return r->status;
}

static void on_call(void *user, const dt_call *c)
{
    recorder *r = user;
    if (r->status == DT_OK) r->status = add_call(r, c);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Fills x with numbers in [-1, 1), or indices below `below`, without a random stream. */
static void fill(dt_tensor *x, int64_t below)
{
    uint32_t state = 12345;
    for (int64_t i = 0; i < x->count; i++) {
        state = state * 1664525u + 1013904223u;
        if (x->dtype == DT_I32) ((int32_t *)dt__values_mut(x))[i] = (int32_t)((state >> 8) % below);
        else if (below > 0) ((float *)dt__values_mut(x))[i] = (float)((state >> 8) % below);
        else ((float *)dt__values_mut(x))[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
}

static dt_status make_input(recorder *r, const dt_trace_input *in, int i, dt_tensor **x)
{
    int64_t dims[DT_MAX_RANK], id;
    memcpy(dims, in->dims, sizeof dims);
    dims[0] *= r->size.batch;
    if (in->tokens) dims[1] = r->size.length;
    if (r->shapes_only && in->dtype != DT_I32) {
        DT__TRY(dt__tensor_create_shape(r->t->ctx, in->dtype, in->rank, dims, x));
    } else {
        DT__TRY(dt__tensor_create_raw(r->t->ctx, in->dtype, in->rank, dims, x));
        fill(*x, in->below);
    }
    const dt_trace_value v = { .kind = DT_VALUE_INPUT, .name = r->t->names[i].text, .call = -1 };
    DT__TRY(add_value(r, &v, *x, &id));
    r->t->in[r->t->n_in++] = id;
    return DT_OK;
}

static dt_status find_outputs(recorder *r, dt_tensor *const *y, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t id = r->t->n_values - 1;
        while (id >= 0 && r->handle[id] != y[i]) id--;
        if (id < 0) {
            return dt_fail(r->t->ctx, DT_ERR_UNSUPPORTED,
                           "trace: no op has made output %d of the model", i);
        }
        r->t->out[r->t->n_out++] = id;
    }
    return DT_OK;
}

static bool lowers(void *user, const dt_op *op)
{
    const dt_trace_options *o = user;
    return o->becomes != NULL && o->becomes(op->name) == NULL;
}

static dt_status run(recorder *r, const dt_trace_options *o, dt_tape *tape, dt_tensor **x)
{
    dt_tensor *y[DT_MAX_OUT];
    const int n_out = o->n_outputs > 0 ? o->n_outputs : 1;
    for (int i = 0; i < o->n_inputs; i++) DT__TRY(make_input(r, &o->input[i], i, &x[i]));
    tape->no_grad = true;
    tape->shapes_only = o->shapes_only;
    tape->on_call = on_call;
    tape->on_call_user = r;
    tape->lowers = lowers;
    tape->lowers_user = (void *)(uintptr_t)o;
    dt_train(r->t->m, false);
    const dt_status s = dt_forward_n(tape, r->t->m, x, o->n_inputs, y, n_out);
    if (r->status != DT_OK) return r->status;
    return s == DT_OK ? find_outputs(r, y, n_out) : s;
}

static dt_status begin(dt_module *m, const dt_trace_options *o, dt_trace *t)
{
    t->ctx = m->ctx;
    t->m = m;
    dt__ctx_retain(m->ctx);
    for (int i = 0; i < o->n_inputs; i++) {
        if (!o->input[i].tokens) continue;
        t->tokens = true;
        t->context = o->input[i].context;
    }
    t->names = dt__alloc_zero(t->ctx, (DT_MAX_IN + DT_MAX_OUT) * sizeof *t->names);
    if (t->names == NULL) return DT_ERR_NOMEM;
    dt__trace_names(m, o, t->names);
    for (int i = 0; i < DT_MAX_OUT; i++) t->out_name[i] = t->names[o->n_inputs + i].text;
    return DT_OK;
}

dt_status dt__trace_record(dt_module *m, const dt_trace_options *o, const dt__trace_size *size,
                           dt_trace **out)
{
    dt_tape *tape = NULL;
    dt_tensor *x[DT_MAX_IN] = { NULL };
    *out = NULL;
    dt_trace *t = dt__alloc_zero(m->ctx, sizeof *t);
    if (t == NULL) return DT_ERR_NOMEM;
    recorder r = { .t = t, .size = *size, .shapes_only = o->shapes_only };
    dt_status s = begin(m, o, t);
    if (s == DT_OK) s = dt_tape_create(m->ctx, &tape);
    if (s == DT_OK) s = run(&r, o, tape, x);
    for (int64_t i = 0; i < t->n_values && r.handle != NULL; i++) dt_tensor_free(r.handle[i]);
    for (int i = 0; i < o->n_inputs; i++) dt_tensor_free(x[i]);
    dt_tape_free(tape);
    dt__release(m->ctx, r.handle);
    if (s == DT_OK) *out = t;
    else dt_trace_free(t);
    return s;
}

void dt__trace_call_free(dt_ctx *ctx, const dt_trace_call *c)
{
    dt__release(ctx, (void *)(uintptr_t)c->options);
    for (int i = 0; i < 2; i++) dt__release(ctx, (void *)(uintptr_t)c->other[i]);
    for (int i = 0; i < c->n_in; i++) {
        dt__release(ctx, (void *)(uintptr_t)c->in[i].quant);
    }
}

void dt_trace_free(dt_trace *t)
{
    if (t == NULL) return;
    dt_ctx *ctx = t->ctx;
    for (int64_t i = 0; i < t->n_calls; i++) dt__trace_call_free(ctx, &t->call[i]);
    for (int64_t i = 0; i < t->n_values; i++) {
        if (t->value[i].kind == DT_VALUE_CONSTANT) dt_tensor_free(t->value[i].tensor);
    }
    DT__RELEASE(ctx, t->call, t->value, t->names, t);
    dt__ctx_release(ctx);
}
