/* The tape: lent handles, scopes, records, the first error. Its arrays grow and are kept, so a step
 * whose shapes repeat allocates nothing. */
#include "autograd/halves.h"
#include "kernels/kernels.h"

#include <string.h>

dt_status dt_tape_create(dt_ctx *ctx, dt_tape **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__kernels_open(ctx));
    dt_tape *t = dt__alloc_zero(ctx, sizeof *t);
    if (t == NULL) return DT_ERR_NOMEM;
    t->ctx = ctx;
    dt__ctx_retain(ctx);
    *out = t;
    return DT_OK;
}

void dt_tape_free(dt_tape *t)
{
    if (t == NULL) return;
    dt_tape_reset(t);
    dt_ctx *ctx = t->ctx;
    DT__RELEASE(ctx, t->lent, t->records, t->scope_start, t->saved_reads, t);
    dt__ctx_release(ctx);
}

void dt_tape_reset(dt_tape *t)
{
    if (t == NULL) return;
    while (t->n_records > 0) dt__record_free(t->ctx, t->records[--t->n_records]);
    while (t->n_lent > 0) {
        dt_tensor *x = t->lent[--t->n_lent];
        x->tape = NULL;
        x->dropped = true;
        dt_tensor_free(x);
    }
    t->status = DT_OK;
    t->backward_done = false;
    t->depth = 0;
    t->where = NULL;
}

dt_status dt_tape_status(const dt_tape *t)
{
    DT__NEED(dt_tape_ctx(t), t);
    return t->status;
}
dt_ctx *dt_tape_ctx(const dt_tape *t) { return t == NULL ? NULL : t->ctx; }

dt_status dt_tape_fail(dt_tape *t, dt_status status, const char *format, ...)
{
    if (t == NULL || format == NULL) return DT_ERR_ARG;
    if (t->status != DT_OK) return t->status;
    va_list arguments;
    va_start(arguments, format);
    dt__fail_v(t->ctx, status, format, arguments);
    va_end(arguments);
    return dt__tape_adopt(t, status);
}

dt_status dt__tape_adopt(dt_tape *t, dt_status status)
{
    if (t->status == DT_OK) t->status = status;
    return t->status;
}

bool dt_no_grad(dt_tape *t, bool on)
{
    if (t == NULL) return false;
    const bool before = t->no_grad;
    t->no_grad = on;
    return before;
}

bool dt_tape_watch(dt_tape *t, bool on)
{
    if (t == NULL) return false;
    const bool before = t->watching;
    t->watching = on;
    return before;
}

dt_status dt__tape_lend(dt_tape *t, dt_tensor *x)
{
    const dt_status s = DT__RESERVE(t->ctx, t->lent, t->n_lent, t->room_lent);
    if (s != DT_OK) {
        dt_tensor_free(x);
        return s;
    }
    x->tape = t;
    x->scope = t->depth;
    t->lent[t->n_lent++] = x;
    return DT_OK;
}

dt_status dt__tape_record(dt_tape *t, dt__record *r)
{
    DT__TRY(DT__RESERVE(t->ctx, t->records, t->n_records, t->room_records));
    t->records[t->n_records++] = r;
    return DT_OK;
}

/* Undoes the records' counts in the storages' `needed`, which allows in-place writes again. */
void dt__record_free(dt_ctx *ctx, dt__record *r)
{
    for (int i = 0; i < r->n_in + r->n_out; i++) {
        const dt__saved *k = &r->kept[i];
        if (k->storage != NULL) atomic_fetch_sub(&k->storage->needed, 1);
        dt__storage_release(k->storage);
        dt__halves_release(ctx, k->halves);
        dt__codes_release(k->codes);
        dt__codes_release(k->pull);
        dt_tensor_free(k->x);
    }
    if (r->op->options_size > 0 && r->options != r->op->defaults) {
        dt__release(ctx, (void *)(uintptr_t)r->options);
    }
    dt__text_release(r->where);
    dt__release(ctx, r);
}

static dt_tensor *restore(const dt__saved *k, dt_tensor *x)
{
    *x = (dt_tensor){ .ctx = k->x->ctx,
                      .dtype = k->x->dtype,
                      .rank = k->x->rank,
                      .count = k->x->count,
                      .offset = k->offset,
                      .storage = k->storage,
                      .name = k->x->name };
    atomic_init(&x->refs, 1);
    memcpy(x->dims, k->x->dims, sizeof x->dims);
    if (k->contiguous) dt__contiguous_strides(x->rank, x->dims, x->strides);
    else memcpy(x->strides, k->x->strides, sizeof x->strides);
    return x;
}

void dt__record_replay(dt_tape *t, const dt__record *r, dt__replay *out)
{
    dt_call *c = &out->call;
    *c = (dt_call){ .ctx = t->ctx,
                    .tape = t,
                    .op = r->op,
                    .kernels = r->kernels,
                    .options = r->options,
                    .n_in = r->n_in,
                    .n_out = r->n_out,
                    .recording = true,
                    .coded = r->coded,
                    .products = r->products };
    memcpy(c->state, r->state, sizeof c->state);
    for (int i = 0; i < r->n_in; i++) {
        const dt__saved *k = &r->kept[i];
        if (k->x == NULL) continue;
        if (k->halves != NULL && k->storage == NULL) c->halves[i] = k->halves->x + k->offset;
        c->in[i] = k->x;
        c->arg[i] = restore(k, &out->arg[i]);
        c->codes[i] = k->codes;
        c->wants[i] = k->wants;
    }
    for (int i = 0; i < r->n_out; i++) c->out[i] = restore(&r->kept[r->n_in + i], &out->out[i]);
}

static void drop(dt_tape *t, dt_tensor *x)
{
    dt__halves_hold(t, x);
    dt__drop_storage(x);
    if (x->kind != NULL && x->kind->dropped != NULL) x->kind->dropped(x);
    x->dropped = true;
}

dt_status dt__scope_enter(dt_tape *t)
{
    const dt_status s = DT__RESERVE(t->ctx, t->scope_start, t->depth, t->room_scopes);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    t->scope_start[t->depth++] = t->n_lent;
    return DT_OK;
}

void dt__scope_leave(dt_tape *t, dt_tensor *const *keep, int n)
{
    if (t->depth == 0) return;
    for (int i = 0; i < n; i++) dt_keep(t, keep[i]);
    for (int64_t i = t->scope_start[t->depth - 1]; i < t->n_lent; i++) {
        if (t->lent[i]->scope >= t->depth) drop(t, t->lent[i]);
    }
    t->depth--;
}

void dt_drop(dt_tape *t, dt_tensor *x)
{
    if (t != NULL && x != NULL && x->tape == t) drop(t, x);
}

dt_tensor *dt_keep(dt_tape *t, dt_tensor *x)
{
    if (t == NULL) return NULL;
    if (x != NULL && x->tape == t && x->scope == t->depth && t->depth > 0) x->scope--;
    return x;
}

static dt_status copy_handle(dt_ctx *ctx, dt_tensor *x, dt_tensor **out)
{
    if (x->dropped) {
        return dt_fail(x->ctx, DT_ERR_STATE, "alias: the tensor was dropped; dt_keep keeps it");
    }
    DT__TRY(dt__view(ctx, x, out));
    if (x->kind == NULL) return DT_OK;
    const dt_status s = x->kind->clone(x, *out);
    if (s != DT_OK) dt_tensor_free(*out);
    return s;
}

dt_tensor *dt_detach(dt_tape *t, dt_tensor *x)
{
    if (t == NULL) return NULL;
    if (t->status != DT_OK || x == NULL) return NULL;
    dt_tensor *y = NULL;
    dt_status s = copy_handle(t->ctx, x, &y);
    if (s == DT_OK) s = dt__tape_lend(t, y);
    if (s == DT_OK) return y;
    dt__tape_adopt(t, s);
    return NULL;
}

dt_status dt_alias(dt_tensor *x, dt_tensor **out)
{
    DT__NEED2(dt_ctx_of(x), x, out);
    *out = NULL;
    DT__TRY(copy_handle(x->ctx, x, out));
    (*out)->requires_grad = dt_requires_grad(x);
    return DT_OK;
}

uint64_t dt__tape_draw(dt_tape *t, dt__purpose purpose, uint64_t blocks, uint64_t *key)
{
    dt__stream *s = &t->ctx->stream[purpose];
    *key = s->key;
    return dt__stream_take(s, blocks);
}
