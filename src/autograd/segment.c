/* Activation checkpointing (segment.h). A segment is one record, whose op has no backward of its
 * own. Its operands are its inputs, followed by the saved reads. Its results are the live outputs,
 * in the order in which the tape lent them, which is the same in both runs. Gradients that the
 * inputs already have are moved into the second run and back, so contributions are added in the
 * order of a pass without checkpointing. */
#include "autograd/segment.h"

#include <string.h>

typedef struct options {
    dt__segment segment;
    dt__stream stream[DT__PURPOSES]; /* random streams before the first run */
    uint64_t fingerprint;            /* after the first run */
} options;

static const dt_op segment_op = { .name = "recompute", .options_size = sizeof(options) };

bool dt__is_segment(const dt__record *r) { return r->op == &segment_op; }

static const options *options_of(const dt__record *r) { return r->options; }

bool dt__may_recompute(const dt_tape *t, dt_tensor *const *in, int n_in)
{
    if (t->no_grad || t->in_first_run || t->backward_done) return false;
    for (int i = 0; i < n_in; i++) {
        if (in[i]->kind != NULL || in[i]->whole != NULL || in[i]->storage == NULL) return false;
    }
    return true;
}

/* ---- the first run -------------------------------------------------------------------------- */

static void free_saved_reads(dt_tape *t)
{
    while (t->n_saved_reads > 0) dt_tensor_free(t->saved_reads[--t->n_saved_reads]);
}

static dt_status save_read(dt_tape *t, const dt_tensor *x)
{
    dt_tensor *copy;
    DT__TRY(DT__RESERVE(t->ctx, t->saved_reads, t->n_saved_reads, t->room_saved_reads));
    DT__TRY(dt__tensor_create_raw(t->ctx, x->dtype, x->rank, x->dims, &copy));
    dt__copy_tensor(x, copy);
    t->saved_reads[t->n_saved_reads++] = copy;
    return DT_OK;
}

dt_tensor *dt__tape_save_read(dt_tape *t, dt_tensor *x)
{
    if (t->status != DT_OK || x == NULL) return NULL;
    if (dt__runs_again(t)) {
        if (t->again.at == t->again.record->n_in) {
            dt_tape_fail(t, DT_ERR_STATE, "recompute: the second run differs from the first");
            return NULL;
        }
        x = t->again.record->kept[t->again.at++].x;
    }
    if (t->in_first_run && dt__tape_adopt(t, save_read(t, x)) != DT_OK) return NULL;
    return x;
}

/* The next handle from index *at on that the tape has lent and has not dropped. */
static dt_tensor *next_live_output(const dt_tape *t, int64_t *at)
{
    while (*at < t->n_lent) {
        dt_tensor *x = t->lent[(*at)++];
        if (!x->dropped) return x;
    }
    return NULL;
}

static int count_live_outputs(const dt_tape *t, int64_t mark)
{
    int n = 0;
    while (next_live_output(t, &mark) != NULL) n++;
    return n;
}

/* Sets *any_gradient if a live output requires a gradient. A wrapper among them is refused: it
 * would pass its gradient on to a tensor of the first run. */
static dt_status check_live_outputs(const dt_tape *t, int64_t mark, bool *any_gradient)
{
    *any_gradient = false;
    for (const dt_tensor *y; (y = next_live_output(t, &mark)) != NULL;) {
        *any_gradient = *any_gradient || y->requires_grad;
        if (y->kind == NULL || !y->requires_grad) continue;
        return dt_fail(t->ctx, DT_ERR_STATE, "recompute: a module returns a %s tensor%s%s",
                       y->kind->name, t->where != NULL ? " in " : "",
                       t->where != NULL ? t->where : "");
    }
    return DT_OK;
}

static void keep_input(dt__saved *k, dt_tensor *x)
{
    dt__retain(x);
    dt__storage_retain(x->storage);
    atomic_fetch_add(&x->storage->needed, 1);
    k->x = x;
    k->storage = x->storage;
    k->version = x->storage->version;
    k->offset = x->offset;
    k->wants = x->requires_grad;
}

static dt_status record(dt_tape *t, const options *o, dt_tensor *const *in, int64_t mark)
{
    const int n_in = o->segment.n_in + (int)t->n_saved_reads, n_out = count_live_outputs(t, mark);
    const size_t slots = (size_t)(n_in + n_out) * sizeof(dt__saved);
    dt__record *r = dt__alloc_zero(t->ctx, sizeof *r + slots);
    options *copy = dt__alloc(t->ctx, sizeof *copy);
    if (r == NULL || copy == NULL) {
        DT__RELEASE(t->ctx, r, copy);
        return DT_ERR_NOMEM;
    }
    *copy = *o;
    r->op = &segment_op;
    r->options = copy;
    r->where = dt__text_retain(t->where);
    r->n_in = n_in;
    r->n_out = n_out;
    dt__saved *k = r->kept;
    for (int i = 0; i < o->segment.n_in; i++) keep_input(k++, in[i]);
    for (int64_t i = 0; i < t->n_saved_reads; i++) (k++)->x = t->saved_reads[i];
    t->n_saved_reads = 0;
    for (dt_tensor *y; (y = next_live_output(t, &mark)) != NULL; k++) {
        dt__retain(y);
        k->x = y;
    }
    const dt_status s = dt__tape_record(t, r);
    if (s != DT_OK) dt__record_free(t->ctx, r);
    return s;
}

void dt__run_segment(dt_tape *t, const dt__segment *s, dt_tensor *const *in, dt_tensor **out)
{
    const int64_t mark = t->n_lent;
    bool any_gradient;
    options o = { .segment = *s };
    memcpy(o.stream, t->ctx->stream, sizeof o.stream);
    t->in_first_run = true;
    s->run(s->user, t, in, s->n_in, out, s->n_out);
    t->in_first_run = false;
    if (t->status == DT_OK &&
        dt__tape_adopt(t, check_live_outputs(t, mark, &any_gradient)) == DT_OK) {
        o.fingerprint = s->fingerprint(s->user);
        if (any_gradient) dt__tape_adopt(t, record(t, &o, in, mark));
    }
    free_saved_reads(t);
}

/* ---- the second run ------------------------------------------------------------------------- */

static bool has_gradient(const dt__record *r)
{
    for (int i = 0; i < r->n_out; i++) {
        if (r->kept[r->n_in + i].x->grad != NULL) return true;
    }
    return false;
}

static dt_status check_unchanged(const dt_tape *t, const dt__record *r)
{
    const options *o = options_of(r);
    bool same = o->segment.fingerprint(o->segment.user) == o->fingerprint;
    for (int i = 0; i < o->segment.n_in; i++) {
        same = same && r->kept[i].storage->version == r->kept[i].version;
    }
    if (same) return DT_OK;
    return dt_fail(t->ctx, DT_ERR_STATE,
                   "recompute: an input or a parameter was written, or a module changed, since the "
                   "forward pass, which backward was to run again%s%s",
                   r->where != NULL ? " in " : "", r->where != NULL ? r->where : "");
}

/* A new handle on a saved input, which may have been dropped since. */
static dt_status restore_input(dt_tape *t, const dt__saved *k, dt_tensor **out)
{
    const dt_tensor *x = k->x;
    DT__TRY(dt__handle_create(t->ctx, x->dtype, x->rank, x->dims, out));
    dt_tensor *y = *out;
    memcpy(y->strides, x->strides, sizeof y->strides);
    y->offset = k->offset;
    y->requires_grad = k->wants;
    dt__storage_retain(k->storage);
    y->storage = k->storage;
    dt__set_name(y, dt__text_retain(x->name));
    return dt__tape_lend(t, y);
}

/* If an input is given twice, the second run gets one handle for both. */
static dt_status restore_inputs(dt_tape *t, const dt__record *r, dt_tensor **x)
{
    const int n = options_of(r)->segment.n_in;
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (r->kept[first].x != r->kept[i].x) first++;
        if (first < i) x[i] = x[first];
        else DT__TRY(restore_input(t, &r->kept[i], &x[i]));
    }
    return DT_OK;
}

static void move_gradient(dt_tensor *from, dt_tensor *to)
{
    if (from == to || from->grad == NULL) return;
    dt_tensor_free(to->grad);
    to->grad = from->grad;
    from->grad = NULL;
}

static dt_status run_again(dt_tape *t, const dt__record *r, dt_tensor *const *x, dt_tensor **out)
{
    const options *o = options_of(r);
    dt__stream stream[DT__PURPOSES];
    const dt__second_run before = t->again;
    memcpy(stream, t->ctx->stream, sizeof stream);
    memcpy(t->ctx->stream, o->stream, sizeof stream);
    t->again = (dt__second_run){ r, o->segment.n_in };
    t->backward_done = false;
    o->segment.run(o->segment.user, t, x, o->segment.n_in, out, o->segment.n_out);
    t->backward_done = true;
    t->again = before;
    memcpy(t->ctx->stream, stream, sizeof stream);
    return t->status;
}

/* Moves the gradients of the live outputs of the first run to those of the second. */
static dt_status move_output_gradients(dt_tape *t, const dt__record *r, int64_t mark)
{
    if (count_live_outputs(t, mark) != r->n_out) {
        return dt_fail(t->ctx, DT_ERR_STATE, "recompute: the second run differs from the first%s%s",
                       r->where != NULL ? " in " : "", r->where != NULL ? r->where : "");
    }
    for (int i = 0; i < r->n_out; i++) {
        dt_tensor *y = next_live_output(t, &mark);
        if (y->requires_grad) move_gradient(r->kept[r->n_in + i].x, y);
    }
    return DT_OK;
}

static dt_status differentiate_again(dt_tape *t, const dt__record *r, dt_tensor *const *x)
{
    const int n = options_of(r)->segment.n_in;
    const int64_t base = t->n_records, mark = t->n_lent;
    dt_tensor *out[DT_MAX_OUT];
    dt_status s = run_again(t, r, x, out);
    if (s == DT_OK) s = move_output_gradients(t, r, mark);
    for (int i = 0; i < n; i++) move_gradient(r->kept[i].x, x[i]);
    for (int i = 0; i < options_of(r)->segment.n_out && s == DT_OK; i++) {
        dt_drop(t, out[i]);
    }
    s = dt__backward_to(t, base, s);
    for (int i = 0; i < n; i++) move_gradient(x[i], r->kept[i].x);
    return s;
}

dt_status dt__differentiate_segment(dt_tape *t, const dt__record *r)
{
    dt_tensor *x[DT_MAX_IN];
    if (!has_gradient(r)) return DT_OK;
    DT__TRY(check_unchanged(t, r));
    DT__TRY(restore_inputs(t, r, x));
    const dt_status s = differentiate_again(t, r, x);
    for (int i = 0; i < options_of(r)->segment.n_in; i++) dt_drop(t, x[i]);
    return s;
}
