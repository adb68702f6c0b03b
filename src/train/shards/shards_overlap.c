/* Sends gradients during backward. If a rank has one shard, a bucket is posted as soon as all its
 * parameters have their gradients: the order of parameters in the flat gradient is the reverse of
 * their registration, which is nearly that of backward.
 *
 * When a parameter has its gradient is learned, since a record may add to a gradient in ways that
 * only kinds know (learned scales, experts): the first update after a change of the model notes the
 * number of the record after which each gradient changed last. Later updates with as many records
 * rely on it, and check at the end that nothing was added to a gradient that had been sent. With
 * cluster.sync_norm, and with expert parallelism (even if all experts are frozen), buckets are sent
 * after backward: during it, ranks exchange sums of norms, or rows, and all ranks must send
 * messages in the same order. */
#include "autograd/kind.h"
#include "autograd/tape.h"
#include "core/tensor.h"
#include "train/shards/shards.h"

dt_status dt__shards_take(dt__shards *s, int64_t i, dt__gradients *to)
{
    dt_tensor *x = s->param[i], *grad = x->grad;
    if (grad != NULL) dt__shards_given(s, s->mine)[i] = 1;
    if (grad != NULL && dt__is_own(grad)) {
        to->x[i] = grad;
        x->grad = NULL;
    } else {
        DT__TRY(dt_tensor_create(s->ctx, DT_F32, x->rank, x->dims, &to->x[i]));
        if (grad != NULL) dt__copy_tensor(grad, to->x[i]);
        dt_grad_clear(x);
    }
    to->data[i] = dt__values_mut(to->x[i]);
    return DT_OK;
}

static void learn(void *shards)
{
    dt__shards *s = shards;
    s->records++;
    for (int64_t i = 0; i < s->n_params; i++) {
        const dt_tensor *grad = s->param[i]->grad;
        dt__param_state *p = &s->param_state[i];
        const uint64_t version = grad == NULL ? 0 : grad->storage->version;
        if (grad == p->grad && version == p->version) continue;
        *p = (dt__param_state){ grad, version, s->records };
    }
}

static void send_full(dt__shards *s)
{
    const dt__buckets *b = &s->buckets;
    while (s->posted < b->n && b->bucket[s->posted].past <= s->sent) dt__shards_post(s);
}

static void send(void *shards)
{
    dt__shards *s = shards;
    const int64_t before = s->sent;
    s->records++;
    for (; s->sent < s->n_params && s->param_state[s->sent].last <= s->records; s->sent++) {
        if (dt__shards_take(s, s->sent, &s->part[0]) != DT_OK) return;
    }
    if (s->sent > before) send_full(s);
}

dt_status dt__shards_check_sent(const dt__shards *s)
{
    for (int64_t i = 0; i < s->sent; i++) {
        const dt_tensor *x = s->param[i];
        if (x->grad == NULL) continue;
        return dt_fail(s->ctx, DT_ERR_STATE,
                       "the gradient of %s changed after it was sent to other ranks",
                       x->name == NULL ? "a parameter" : x->name);
    }
    return DT_OK;
}

/* Called before backward, when the number of records is known. */
static void begin(void *shards)
{
    dt__shards *s = shards;
    dt_tape *t = s->tape;
    const int64_t all = t->n_records + 1; /* counts records from 1 on, as 0 means none */
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
    dt__shards *s = r->ranks.shards;
    on = on && s->cluster != NULL && s->own == 1 && s->sync == NULL && r->ctx->spread == NULL &&
         !r->stage.tape->watching;
    s->tape = r->stage.tape;
    r->stage.tape->on_gradients = on ? begin : NULL;
    r->stage.tape->on_gradients_user = s;
}
