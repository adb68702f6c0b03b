/* Calibration passes and the results that they keep: calib_cache.h. */
#include "nn/cache/calib_cache.h"

#include "autograd/coded.h"

#include <limits.h>

#define UNREAD INT_MAX

/* A call of a module that has returned. A freed result is replaced by a handle without storage,
 * which only calls get as an input whose own results are cached: they do not compute. */
struct dt__calib_call {
    const dt_module *m;
    int depth; /* of the scope that made the call */
    int read;  /* depth of the outermost open scope with an op that read a result; or UNREAD */
    int n_out;
    struct {
        dt_tensor *kept; /* owned by the cache */
        dt_tensor *lent; /* the running pass's handle to it */
        uint64_t version;
    } out[DT_MAX_OUT];
};

/* The running pass. */
typedef struct dt__calib_pass {
    const dt__calib_target *target;
    const dt_tensor *x;
    int64_t at;      /* calls so far; cached calls from here on belong to the previous pass */
    bool used_cache; /* the pass has used a kept result */
    dt__calib_stop stop;
    const dt_module *until; /* after stop.at was reached: the module at whose end the pass stops */
} pass;

typedef dt__calib_call call;

/* ---- freeing -------------------------------------------------------------------------------- */

static void free_call(call *s)
{
    for (int i = 0; i < s->n_out; i++) {
        DT__TENSORS_FREE(s->out[i].kept, s->out[i].lent);
    }
    s->n_out = 0;
}

static void drop_calls(dt__calib_cache *cache, int64_t n)
{
    while (cache->n > n) free_call(&cache->call[--cache->n]);
}

void dt__calib_clear(dt__calib_cache *cache)
{
    drop_calls(cache, 0);
    dt__release(cache->m->ctx, cache->call);
    cache->call = NULL;
    cache->room_calls = 0;
    cache->budget->used -= cache->bytes;
    cache->bytes = 0;
}

/* Frees results that no later pass can read. If a tensor's owner dropped it, no later op reads it.
 * But the next pass runs the ops of scopes that are still open again, so results that one of these
 * ops read are kept. */
static void free_unreachable(dt__calib_cache *cache)
{
    for (int64_t i = 0; i < cache->pass->at; i++) {
        const call *s = &cache->call[i];
        for (int k = 0; k < s->n_out && s->read == UNREAD; k++) {
            if (s->out[k].lent->dropped && s->out[k].kept->kind == NULL) {
                dt__drop_storage(s->out[k].kept);
            }
        }
    }
}

/* ---- during a pass -------------------------------------------------------------------------- */

/* dt_tape.on_read: records the scope in which an op read a cached result. */
static void note_read(dt_tape *t, const dt_tensor *x)
{
    dt__calib_cache *cache = t->calib;
    for (int64_t i = 0; i < cache->pass->at; i++) {
        call *s = &cache->call[i];
        for (int k = 0; k < s->n_out; k++) {
            if (s->out[k].lent == x && t->depth < s->read) s->read = t->depth;
        }
    }
}

int64_t dt__calib_position(const dt_tape *t) { return t->calib == NULL ? 0 : t->calib->pass->at; }

/* Makes a handle to a kept result, which the tape lends. */
static dt_status lend(dt_tape *t, dt_tensor *kept, dt_tensor **out)
{
    dt_tensor *y;
    if (kept->storage == NULL && kept->kind == NULL) {
        DT__TRY(dt__handle_create(t->ctx, kept->dtype, kept->rank, kept->dims, &y));
        y->dropped = true;
    } else {
        DT__TRY(dt_alias(kept, &y));
    }
    DT__TRY(dt__tape_lend(t, y));
    *out = y;
    return DT_OK;
}

bool dt__calib_returns(dt_tape *t, const dt_module *m, dt_tensor **out, int n_out)
{
    dt__calib_cache *cache = t->calib;
    if (cache == NULL || cache->pass->at == cache->n) return false;
    call *s = &cache->call[cache->pass->at];
    if (s->m != m || s->depth != t->depth || s->n_out != n_out) return false;
    cache->pass->at++;
    cache->pass->used_cache = true;
    s->read = UNREAD;
    for (int i = 0; i < n_out && t->status == DT_OK; i++) {
        dt__tape_adopt(t, lend(t, s->out[i].kept, &out[i]));
        if (t->status != DT_OK) break;
        s->out[i].lent = out[i];
        dt__retain(out[i]);
    }
    for (int i = 0; i < n_out && t->status != DT_OK; i++) out[i] = NULL;
    return true;
}

static dt_status copy_of(const dt_tensor *x, dt_tensor **out)
{
    DT__TRY(dt__tensor_create_raw(x->ctx, x->dtype, x->rank, x->dims, out));
    dt__copy_tensor(x, *out);
    return DT_OK;
}

/* *out = x, dequantized and contiguous. */
static dt_status take_input(dt_tape *t, dt_tensor *x, dt_tensor **out)
{
    dt_tensor *dense = NULL;
    dt__codes *codes = NULL;
    dt_status s = dt__kind_of(x)->value(t, x, &dense, &codes);
    if (s == DT_OK) {
        s = dt_is_contiguous(dense) ? dt__view(t->ctx, dense, out) : copy_of(dense, out);
    }
    dt_tensor_free(dense);
    dt__codes_release(codes);
    return s;
}

static dt_status take_inputs(dt_tape *t, dt_tensor *const *x, int n, dt__calib_stop *stop)
{
    DT__TRY(DT__RESERVE(t->ctx, stop->call, stop->n_calls, stop->room_calls));
    dt__calib_inputs *to = &stop->call[stop->n_calls++];
    *to = (dt__calib_inputs){ { NULL } };
    for (int i = 0; i < n && i < DT__COUNT_OF(to->input); i++) {
        DT__TRY(take_input(t, x[i], &to->input[i]));
    }
    return DT_OK;
}

/* The outermost module that contains the innermost open one and runs it repeatedly; NULL: none. */
static const dt_module *repeating(const dt_tape *t)
{
    const dt_module *found = NULL;
    for (const dt__open_module *o = t->open->caller; o != NULL; o = o->caller) {
        if (o->m->type->repeats) found = o->m;
    }
    return found;
}

bool dt__calib_stops(dt_tape *t, dt_module *m, dt_tensor *const *x, int n)
{
    if (t->calib == NULL || t->status != DT_OK) return false;
    pass *p = t->calib->pass;
    const bool again = p->stop.at == m;
    if (!again && (p->stop.at != NULL || !p->target->is(p->target->user, m))) return false;
    dt_status s = take_inputs(t, x, n, &p->stop);
    if (s == DT_OK && !again) {
        p->stop.at = m;
        p->until = repeating(t);
        drop_calls(t->calib, p->at);
        free_unreachable(t->calib); /* before leaving the open scopes drops all tensors */
        if (p->until == NULL) s = DT_ERR_INTERRUPTED; /* no further op runs on this tape */
    }
    return dt__tape_adopt(t, s) != DT_OK;
}

/* The caller owns the batch and may overwrite it, so a result that is the batch itself is
 * copied. */
static dt_status keep(const dt__calib_cache *cache, dt_tensor *x, dt_tensor **out)
{
    if (x->kind != NULL) return dt_alias(x, out);
    if (x->storage == NULL) return dt__handle_create(x->ctx, x->dtype, x->rank, x->dims, out);
    return x->storage == cache->pass->x->storage ? copy_of(x, out) : dt_alias(x, out);
}

static dt_status add(dt__calib_cache *cache, const call *like, dt_tensor *const *out)
{
    DT__TRY(DT__RESERVE(cache->m->ctx, cache->call, cache->n, cache->room_calls));
    call *s = &cache->call[cache->n];
    *s = *like;
    for (int i = 0; i < like->n_out; i++) {
        dt_tensor *kept;
        const dt_status status = keep(cache, out[i], &kept);
        if (status != DT_OK) {
            s->n_out = i;
            free_call(s);
            return status;
        }
        s->out[i].kept = kept;
        s->out[i].lent = out[i];
        s->out[i].version = kept->storage == NULL ? 0 : kept->storage->version;
        dt__retain(out[i]);
    }
    cache->pass->at = ++cache->n;
    return DT_OK;
}

void dt__calib_keep(dt_tape *t, const dt_module *m, int64_t position, dt_tensor *const *out,
                    int n_out)
{
    dt__calib_cache *cache = t->calib;
    if (cache == NULL || t->status != DT_OK) return;
    if (cache->pass->stop.at != NULL) { /* computed with weights that are not final */
        if (m == cache->pass->until) dt__tape_adopt(t, DT_ERR_INTERRUPTED);
        return;
    }
    drop_calls(cache, position); /* the results of m replace those of the calls inside of m */
    cache->pass->at = position;
    for (int64_t i = 0; i < position; i++) {
        if (cache->call[i].read > t->depth) cache->call[i].read = UNREAD;
    }
    if (cache->disabled || cache->budget->limit == 0) return;
    free_unreachable(cache);
    const call like = { .m = m, .depth = t->depth, .read = UNREAD, .n_out = n_out };
    dt__tape_adopt(t, add(cache, &like, out));
}

/* ---- a pass --------------------------------------------------------------------------------- */

static dt_status run(dt__calib_cache *cache, dt_tape *t, pass *p)
{
    cache->pass = p;
    dt_tape_reset(t);
    const bool grad = dt_no_grad(t, true);
    t->calib = cache;
    t->on_read = note_read;
    dt_forward(t, cache->m, (dt_tensor *)(uintptr_t)p->x);
    t->calib = NULL;
    t->on_read = NULL;
    dt_no_grad(t, grad);
    const bool stopped = p->stop.at != NULL && t->status == DT_ERR_INTERRUPTED;
    return stopped ? DT_OK : t->status;
}

/* The memory of a result, its storage or its codes, and its bytes; NULL: none. */
static const void *memory_of(const dt_tensor *x, size_t *bytes)
{
    *bytes = x->storage == NULL ? 0 : x->storage->bytes;
    if (!dt__is_coded(x)) return x->storage;
    const dt__codes *codes = dt__coded_codes(x);
    *bytes = codes == NULL ? 0 : (size_t)(codes->rows * codes->stride);
    return codes;
}

/* Whether the memory of result k of call i was counted with an earlier one. */
static bool is_counted(const dt__calib_cache *cache, int64_t i, int k)
{
    size_t bytes;
    const void *memory = memory_of(cache->call[i].out[k].kept, &bytes);
    for (int64_t j = 0; j <= i; j++) {
        const call *s = &cache->call[j];
        for (int l = 0; l < (j < i ? s->n_out : k); l++) {
            if (memory_of(s->out[l].kept, &bytes) == memory) return true;
        }
    }
    return false;
}

/* The bytes of all results. False if a result was written since it was kept, or shares the batch's
 * storage. */
static bool count(const dt__calib_cache *cache, size_t *bytes)
{
    *bytes = 0;
    for (int64_t i = 0; i < cache->n; i++) {
        const call *s = &cache->call[i];
        for (int k = 0; k < s->n_out; k++) {
            const dt__storage *storage = s->out[k].kept->storage;
            size_t own;
            if (storage != NULL && storage->version != s->out[k].version) return false;
            if (storage != NULL && storage == cache->pass->x->storage) return false;
            if (memory_of(s->out[k].kept, &own) == NULL || is_counted(cache, i, k)) continue;
            *bytes += own;
        }
    }
    return true;
}

/* Ends a pass: releases its handles, and adds the results to the budget or frees them. */
static void charge_budget(dt__calib_cache *cache)
{
    size_t bytes = 0;
    dt__calib_budget *budget = cache->budget;
    for (int64_t i = 0; i < cache->n; i++) {
        for (int k = 0; k < cache->call[i].n_out; k++) {
            dt_tensor_free(cache->call[i].out[k].lent);
            cache->call[i].out[k].lent = NULL;
        }
    }
    budget->used -= cache->bytes;
    cache->bytes = 0;
    if (!count(cache, &bytes) || bytes > budget->limit - budget->used) {
        dt__calib_clear(cache);
        return;
    }
    cache->bytes = bytes;
    budget->used += bytes;
}

void dt__calib_stop_free(dt_ctx *ctx, dt__calib_stop *stop)
{
    for (int64_t k = 0; k < stop->n_calls; k++) {
        dt__calib_inputs *of = &stop->call[k];
        for (int i = 0; i < DT__COUNT_OF(of->input); i++) dt_tensor_free(of->input[i]);
    }
    dt__release(ctx, stop->call);
    *stop = (dt__calib_stop){ .at = NULL };
}

dt_status dt__calib_run(dt__calib_cache *cache, dt_tape *t, dt_tensor *x,
                        const dt__calib_target *target, dt__calib_stop *stop)
{
    pass p = { .target = target, .x = x };
    dt_status s = run(cache, t, &p);
    if (s != DT_OK && s != DT_ERR_NOMEM && p.used_cache) { /* a freed result was read */
        dt__calib_stop_free(t->ctx, &p.stop);
        dt__calib_clear(cache);
        cache->disabled = true;
        p = (pass){ .target = target, .x = x };
        s = run(cache, t, &p);
    }
    if (s == DT_OK && p.stop.at != NULL) charge_budget(cache);
    else dt__calib_clear(cache);
    cache->pass = NULL;
    dt_tape_reset(t);
    if (s != DT_OK) dt__calib_stop_free(t->ctx, &p.stop);
    *stop = p.stop;
    return s;
}
