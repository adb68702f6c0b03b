/* Gradients on their way while backward goes on. Where a rank has one shard, a bucket is posted as
 * soon as its last parameter has its gradient: the order of parameters in the flat gradient is the
 * reverse of their registration, which is nearly that of backward.
 *
 * When a parameter has its gradient is learned, since a record may add to a gradient in ways that
 * only kinds know (learned scales, experts): the first update after a change of the model notes the
 * number of the record after which each gradient changed last. Later updates with as many records
 * rely on it, and check at the end that nothing was added to a gradient that had been sent. */
#include "autograd/kind.h"
#include "autograd/tape.h"
#include "core/tensor.h"
#include "train/shards.h"

#include <string.h>

/* A handle on the place of a parameter's gradient in a flat one. */
dt_status dt__shards_view(const dt__shard_param *p, dt__storage *flat, dt_tensor **out)
{
    DT__TRY(dt__handle_create(p->x->ctx, DT_F32, p->x->rank, p->x->dims, out));
    dt__storage_retain(flat);
    (*out)->storage = flat;
    (*out)->offset = p->at;
    return DT_OK;
}

dt_status dt__shards_take(dt__shards *s, int64_t i, dt__storage *flat)
{
    const dt__shard_param *p = &s->param[i];
    float *to = (float *)flat->data + p->at;
    const size_t bytes = (size_t)p->x->count * sizeof *to;
    const dt_tensor *grad = p->x->grad;
    dt_tensor *place;
    if (grad == NULL) {
        memset(to, 0, bytes);
        return DT_OK;
    }
    dt__shards_given(s, s->mine)[i] = 1;
    if (dt_is_contiguous(grad)) {
        memcpy(to, dt__data(grad), bytes);
        return DT_OK;
    }
    DT__TRY(dt__shards_view(p, flat, &place));
    dt__copy_tensor(grad, place);
    dt_tensor_free(place);
    return DT_OK;
}

/* ---- learning -------------------------------------------------------------------------------- */

static void learn(void *shards)
{
    dt__shards *s = shards;
    s->records++;
    for (int64_t i = 0; i < s->n_params; i++) {
        const dt_tensor *grad = s->param[i].x->grad;
        dt__param_state *p = &s->param_state[i];
        const uint64_t version = grad == NULL ? 0 : grad->storage->version;
        if (grad == p->grad && version == p->version) continue;
        *p = (dt__param_state){ grad, version, s->records };
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_full(dt__shards *s)
{
    const int64_t ready = s->sent == s->n_params ? s->elements : s->param[s->sent].at;
    for (; s->posted < s->n_buckets; s->posted++) {
        dt__bucket *b = &s->bucket[s->posted];
        if (b->first + b->n > ready) return;
        dt__bucket_post(s->cluster, b);
    }
}

static void send(void *shards)
{
    dt__shards *s = shards;
    const int64_t before = s->sent;
    s->records++;
    for (; s->sent < s->n_params && s->param_state[s->sent].last <= s->records; s->sent++) {
        dt_tensor *x = s->param[s->sent].x;
        if (dt__shards_take(s, s->sent, s->part[0]) != DT_OK) return;
        dt_grad_clear(x); /* its memory is free for the rest of backward */
    }
    if (s->sent > before) send_full(s);
}

dt_status dt__shards_check_sent(const dt__shards *s)
{
    for (int64_t i = 0; i < s->sent; i++) {
        if (s->param[i].x->grad == NULL) continue;
        return dt_fail(s->ctx, DT_ERR_STATE,
                       "the gradient of %s changed after it was sent to other ranks",
                       s->param[i].x->name == NULL ? "a parameter" : s->param[i].x->name);
    }
    return DT_OK;
}

/* ---- the tape's function --------------------------------------------------------------------- */

/* Before backward; the number of records is known then. */
static void begin(void *shards)
{
    dt__shards *s = shards;
    dt_tape *t = s->tape;
    const int64_t all = t->n_records + 1; /* the first is through */
    s->records = 0;
    t->on_gradients = s->learned == all ? send : learn;
    if (t->on_gradients == learn) {
        s->learned = all;
        for (int64_t i = 0; i < s->n_params; i++) s->param_state[i] = (dt__param_state){ 0 };
    }
    t->on_gradients(s);
}

void dt__shards_watch(dt__run *r, bool on)
{
    dt__shards *s = r->shards;
    on = on && s->cluster != NULL && s->own == 1 && !r->tape->watching;
    s->tape = r->tape;
    r->tape->on_gradients = on ? begin : NULL;
    r->tape->on_gradients_user = s;
}
