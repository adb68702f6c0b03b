/* Trails: passes that end at a layer, and what is kept between them. */
#include "nn/trail.h"

#include <limits.h>
#include <string.h>

#define NOWHERE INT_MAX

/* A call that has returned. A result whose storage is gone stands for a tensor that its caller had
 * dropped: nothing but the calls that took it will see it again, and those stand further on. */
struct dt__trail_step {
    const dt_module *m;
    int depth; /* of the scope that it was called in */
    int read;  /* the outermost open scope in which an op read a result; NOWHERE */
    int n_out;
    struct {
        dt_tensor *kept; /* its values; no tape's */
        dt_tensor *lent; /* what the present pass works with */
        uint64_t version;
    } out[DT_MAX_OUT];
};

/* A pass on its way. */
typedef struct dt__trail_pass {
    const dt__trail_goal *goal;
    const dt_tensor *x;
    int64_t at; /* steps that it has met; those behind are of the pass before */
    bool took;  /* some step's result */
    dt__trail_stop stop;
} pass;

typedef dt__trail_step step;

/* ---- letting go -------------------------------------------------------------------------------- */

static void free_step(step *s)
{
    for (int i = 0; i < s->n_out; i++) {
        dt_tensor_free(s->out[i].kept);
        dt_tensor_free(s->out[i].lent);
    }
    s->n_out = 0;
}

static void cut(dt__trail *trail, int64_t n)
{
    while (trail->n > n) free_step(&trail->step[--trail->n]);
}

void dt__trail_clear(dt__trail *trail)
{
    cut(trail, 0);
    dt__release(trail->m->ctx, trail->step);
    trail->step = NULL;
    trail->room_steps = 0;
    trail->room->used -= trail->bytes;
    trail->bytes = 0;
}

/* Nothing that runs from now on can read a tensor that its owner dropped, but ops that the next pass
 * runs once more: those of scopes that are still open. */
static void let_go(dt__trail *trail)
{
    for (int64_t i = 0; i < trail->pass->at; i++) {
        const step *s = &trail->step[i];
        for (int k = 0; k < s->n_out && s->read == NOWHERE; k++) {
            if (s->out[k].lent->dropped && s->out[k].kept->kind == NULL) {
                dt__drop_storage(s->out[k].kept);
            }
        }
    }
}

/* ---- during a pass ------------------------------------------------------------------------------ */

/* Told of every operand of every op. */
static void met(dt_tape *t, const dt_tensor *x)
{
    dt__trail *trail = t->trail;
    for (int64_t i = 0; i < trail->pass->at; i++) {
        step *s = &trail->step[i];
        for (int k = 0; k < s->n_out; k++) {
            if (s->out[k].lent == x && t->depth < s->read) s->read = t->depth;
        }
    }
}

int64_t dt__trail_mark(const dt_tape *t) { return t->trail == NULL ? 0 : t->trail->pass->at; }

/* A handle for this pass on what was kept. */
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

bool dt__trail_returns(dt_tape *t, const dt_module *m, dt_tensor **out, int n_out)
{
    dt__trail *trail = t->trail;
    if (trail == NULL || trail->pass->at == trail->n) return false;
    step *s = &trail->step[trail->pass->at];
    if (s->m != m || s->depth != t->depth || s->n_out != n_out) return false;
    trail->pass->at++;
    trail->pass->took = true;
    s->read = NOWHERE;
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

/* What a module computes with. */
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

bool dt__trail_ends(dt_tape *t, dt_module *m, dt_tensor *const *x, int n)
{
    if (t->trail == NULL || t->status != DT_OK) return false;
    pass *p = t->trail->pass;
    if (!p->goal->is(p->goal->user, m)) return false;
    dt_status s = DT_OK;
    for (int i = 0; i < n && i < DT__COUNT_OF(p->stop.input) && s == DT_OK; i++) {
        s = take_input(t, x[i], &p->stop.input[i]);
    }
    if (s == DT_OK) {
        p->stop.at = m;
        cut(t->trail, p->at);
        let_go(t->trail); /* now: on the way out of the scopes that are open, all is dropped */
    }
    dt__tape_adopt(t, s == DT_OK ? DT_ERR_INTERRUPTED : s); /* nothing runs on this tape any more */
    return true;
}

/* The batch is the caller's, who may fill it anew. */
static dt_status keep(const dt__trail *trail, dt_tensor *x, dt_tensor **out)
{
    if (x->kind != NULL) return dt_alias(x, out);
    if (x->storage == NULL) return dt__handle_create(x->ctx, x->dtype, x->rank, x->dims, out);
    return x->storage == trail->pass->x->storage ? copy_of(x, out) : dt_alias(x, out);
}

static dt_status add(dt__trail *trail, const step *like, dt_tensor *const *out)
{
    DT__TRY(DT__RESERVE(trail->m->ctx, trail->step, trail->n, trail->room_steps));
    step *s = &trail->step[trail->n];
    *s = *like;
    for (int i = 0; i < like->n_out; i++) {
        dt_tensor *kept;
        const dt_status status = keep(trail, out[i], &kept);
        if (status != DT_OK) {
            s->n_out = i;
            free_step(s);
            return status;
        }
        s->out[i].kept = kept;
        s->out[i].lent = out[i];
        s->out[i].version = kept->storage == NULL ? 0 : kept->storage->version;
        dt__retain(out[i]);
    }
    trail->pass->at = ++trail->n;
    return DT_OK;
}

void dt__trail_returned(dt_tape *t, const dt_module *m, int64_t mark, dt_tensor *const *out,
                        int n_out)
{
    dt__trail *trail = t->trail;
    if (trail == NULL || t->status != DT_OK) return;
    cut(trail, mark); /* what m called is within what it returned */
    trail->pass->at = mark;
    for (int64_t i = 0; i < mark; i++) {
        if (trail->step[i].read > t->depth) trail->step[i].read = NOWHERE;
    }
    if (trail->from_begin || trail->room->most == 0) return;
    let_go(trail);
    const step like = { .m = m, .depth = t->depth, .read = NOWHERE, .n_out = n_out };
    dt__tape_adopt(t, add(trail, &like, out));
}

/* ---- a pass ------------------------------------------------------------------------------------- */

static dt_status run(dt__trail *trail, dt_tape *t, pass *p)
{
    trail->pass = p;
    dt_tape_reset(t);
    const bool grad = dt_no_grad(t, true);
    t->trail = trail;
    t->on_operand = met;
    dt_forward(t, trail->m, (dt_tensor *)(uintptr_t)p->x);
    t->trail = NULL;
    t->on_operand = NULL;
    dt_no_grad(t, grad);
    return p->stop.at != NULL ? DT_OK : t->status;
}

/* Whether the storage of result k of step i was counted with an earlier one. */
static bool is_counted(const dt__trail *trail, int64_t i, int k)
{
    const dt__storage *storage = trail->step[i].out[k].kept->storage;
    for (int64_t j = 0; j <= i; j++) {
        const step *s = &trail->step[j];
        for (int l = 0; l < (j < i ? s->n_out : k); l++) {
            if (s->out[l].kept->storage == storage) return true;
        }
    }
    return false;
}

/* Counts what is left, unless something was written since it was kept, or is the batch itself. */
static bool count(const dt__trail *trail, size_t *bytes)
{
    *bytes = 0;
    for (int64_t i = 0; i < trail->n; i++) {
        const step *s = &trail->step[i];
        for (int k = 0; k < s->n_out; k++) {
            const dt__storage *storage = s->out[k].kept->storage;
            if (storage == NULL) continue;
            if (storage->version != s->out[k].version) return false;
            if (storage == trail->pass->x->storage) return false;
            if (!is_counted(trail, i, k)) *bytes += storage->bytes;
        }
    }
    return true;
}

static void settle(dt__trail *trail)
{
    size_t bytes = 0;
    dt__trail_room *room = trail->room;
    for (int64_t i = 0; i < trail->n; i++) {
        for (int k = 0; k < trail->step[i].n_out; k++) {
            dt_tensor_free(trail->step[i].out[k].lent);
            trail->step[i].out[k].lent = NULL;
        }
    }
    room->used -= trail->bytes;
    trail->bytes = 0;
    if (!count(trail, &bytes) || bytes > room->most - room->used) {
        dt__trail_clear(trail);
        return;
    }
    trail->bytes = bytes;
    room->used += bytes;
}

void dt__trail_stop_free(dt__trail_stop *stop)
{
    for (int i = 0; i < DT__COUNT_OF(stop->input); i++) dt_tensor_free(stop->input[i]);
    *stop = (dt__trail_stop){ .at = NULL };
}

dt_status dt__trail_walk(dt__trail *trail, dt_tape *t, dt_tensor *x, const dt__trail_goal *goal,
                         dt__trail_stop *stop)
{
    pass p = { .goal = goal, .x = x };
    dt_status s = run(trail, t, &p);
    if (s != DT_OK && s != DT_ERR_NOMEM && p.took) { /* something was to be read after all */
        dt__trail_stop_free(&p.stop);
        dt__trail_clear(trail);
        trail->from_begin = true;
        p = (pass){ .goal = goal, .x = x };
        s = run(trail, t, &p);
    }
    if (s == DT_OK && p.stop.at != NULL) settle(trail);
    else dt__trail_clear(trail);
    trail->pass = NULL;
    dt_tape_reset(t);
    if (s != DT_OK) dt__trail_stop_free(&p.stop);
    *stop = p.stop;
    return s;
}
