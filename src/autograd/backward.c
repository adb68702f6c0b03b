/* Backward: the tape's records in reverse order. Each op computes the gradients of its operands'
 * values, and the pullback of each operand's kind accumulates them. A record is freed as soon as it
 * has run. */
#include "autograd/halves.h"
#include "autograd/op.h"
#include "autograd/segment.h"

static dt_status check_versions(const dt_call *c, const dt__record *r)
{
    for (int i = 0; i < r->n_in + r->n_out; i++) {
        const dt__saved *k = &r->kept[i];
        if (k->storage == NULL || k->storage->version == k->version) continue;
        const char *name = i < r->n_in ? r->op->in_name[i] : "its result";
        return dt_refuse(c, DT_ERR_STATE,
                         "%s%s%s was written since it was recorded (version %llu, now %llu)",
                         name != NULL ? name : "an operand", k->x->name != NULL ? " " : "",
                         k->x->name != NULL ? k->x->name : "", (unsigned long long)k->version,
                         (unsigned long long)k->storage->version);
    }
    return DT_OK;
}

static void free_all(dt_tensor **dx, int n)
{
    for (int i = 0; i < n; i++) dt_tensor_free(dx[i]);
}

/* The operand's gradient so far, if the op can add to it in place, else zeros. */
static dt_status take_gradient(dt_tensor *x, dt_tensor **dx)
{
    if (x->kind == NULL && x->whole == NULL && x->grad != NULL && dt__is_own(x->grad)) {
        *dx = x->grad;
        x->grad = NULL; /* until pullback */
        (*dx)->storage->version++;
        return DT_OK;
    }
    return dt_tensor_create(x->ctx, x->dtype, x->rank, x->dims, dx);
}

/* Where the op allows it and dy is not needed elsewhere, the first gradient of dy's shape is
 * written over dy. */
static dt_status make_gradients(const dt_call *c, dt_tensor *dy, dt_tensor **dx)
{
    bool free_dy = c->owns_dy;
    for (int i = 0; i < c->n_in; i++) {
        if (!c->wants[i]) continue;
        const dt_tensor *x = c->arg[i];
        if (free_dy && c->op->over_dy[i] && dt__same_dims(x, dy)) {
            dt__retain(dy);
            dx[i] = dy;
            free_dy = false;
            continue;
        }
        if (c->op->adds[i]) DT__TRY(take_gradient(c->in[i], &dx[i]));
        else DT__TRY(dt__tensor_create_raw(c->ctx, x->dtype, x->rank, x->dims, &dx[i]));
    }
    return DT_OK;
}

static dt_status watch(const dt_call *c, dt_tensor *const *dx)
{
    for (int i = 0; i < c->n_in && c->tape->watching; i++) {
        if (dx[i] == NULL) continue;
        int64_t bad;
        c->kernels->first_nonfinite(dx[i]->count, dt__data(dx[i]), &bad);
        if (bad >= 0) {
            return dt_refuse(c, DT_ERR_NUMERIC, "the gradient of %s is not finite at element %lld",
                             c->op->in_name[i] != NULL ? c->op->in_name[i] : "an operand",
                             (long long)bad);
        }
    }
    return DT_OK;
}

static dt_status pull_back(const dt__record *r, dt_tape *t, dt_tensor **dx)
{
    for (int i = 0; i < r->n_in; i++) {
        if (dx[i] == NULL) continue;
        dt_tensor *d = dx[i], *x = r->kept[i].x;
        dx[i] = NULL;
        DT__TRY(dt__kind_of(x)->pullback(t, x, d, r->kept[i].pull));
    }
    return DT_OK;
}

static dt_status differentiate(dt_tape *t, dt__record *r, dt_tensor *dy)
{
    DT__TRY(dt__halves_widen(t->ctx, r));
    dt__replay replay;
    dt__record_replay(t, r, &replay);
    dt_call *c = &replay.call;
    dt_tensor *dx[DT_MAX_IN] = { NULL };
    c->owns_dy = dt__is_own(dy);
    dt_status s = check_versions(c, r);
    if (s == DT_OK) s = make_gradients(c, dy, dx);
    if (s == DT_OK && c->op->scratch != NULL) {
        c->scratch = dt__alloc(c->ctx, c->op->scratch(c));
        if (c->scratch == NULL) s = DT_ERR_NOMEM;
    }
    if (s == DT_OK) {
        dt__team *const threads = dt__threads_enter(c->ctx);
        dt__tape_computes(t, c->op, true);
        c->op->backward(c, dy, dx);
        dt__tape_computes(t, c->op, false);
        s = watch(c, dx);
        if (s == DT_OK) s = pull_back(r, t, dx);
        dt__threads_leave(threads);
    }
    dt__release(c->ctx, c->scratch);
    free_all(dx, c->n_in);
    return s;
}

static void drop_gradient(dt_tensor *x)
{
    dt_tensor_free(x->grad);
    x->grad = NULL;
}

static dt_status through(dt_tape *t, dt__record *r)
{
    if (dt__is_segment(r)) return dt__differentiate_segment(t, r);
    const dt_tensor *y = r->kept[r->n_in].x;
    return y->grad == NULL ? DT_OK : differentiate(t, r, y->grad);
}

dt_status dt__backward_to(dt_tape *t, int64_t base, dt_status s)
{
    while (t->n_records > base) {
        dt__record *r = t->records[--t->n_records];
        t->where = r->where;
        if (s == DT_OK) s = through(t, r);
        if (s == DT_OK && t->on_gradients != NULL) t->on_gradients(t->on_gradients_user);
        t->where = NULL;
        for (int i = 0; i < r->n_out; i++) drop_gradient(r->kept[r->n_in + i].x);
        dt__record_free(t->ctx, r);
    }
    return s;
}

static dt_status seed(dt_tape *t, dt_tensor *loss, const dt_tensor *dloss)
{
    if (dloss == NULL && loss->count != 1) {
        return dt_fail(t->ctx, DT_ERR_ARG,
                       "backward: the loss has %lld elements; give dloss, or reduce it to one",
                       (long long)loss->count);
    }
    if (dloss != NULL && (!dt__same_dims(loss, dloss) || dloss->dtype != loss->dtype ||
                          dloss->storage == NULL || dloss->kind != NULL)) {
        return dt_fail(t->ctx, DT_ERR_SHAPE,
                       "backward: dloss must be a plain tensor like the loss");
    }
    drop_gradient(loss);
    dt_tensor *d;
    DT__TRY(dt__tensor_create_raw(t->ctx, loss->dtype, loss->rank, loss->dims, &d));
    loss->grad = d;
    if (dloss == NULL) return dt_fill(d, 1.0);
    dt__copy_tensor(dloss, d);
    return DT_OK;
}

dt_status dt_backward(dt_tape *t, dt_tensor *loss, const dt_tensor *dloss)
{
    DT__NEED(dt_tape_ctx(t), t);
    if (t->status != DT_OK) return t->status;
    if (t->backward_done) {
        return dt_tape_fail(t, DT_ERR_STATE,
                            "backward: it has already run on this tape and freed what it kept; "
                            "dt_tape_reset and record a new forward pass");
    }
    if (loss == NULL || loss->tape != t) {
        return dt_tape_fail(t, DT_ERR_ARG, "backward: the loss is not a result of this tape");
    }
    if (!loss->requires_grad) {
        return dt_tape_fail(t, DT_ERR_ARG,
                            "backward: no leaf that requires a gradient leads to the loss");
    }
    dt_status s = seed(t, loss, dloss);
    if (s == DT_OK) {
        t->backward_done = true;
        s = dt__backward_to(t, 0, s);
    }
    return dt__tape_adopt(t, s);
}
