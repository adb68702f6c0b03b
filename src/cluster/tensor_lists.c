/* Sends lists of tensors from rank to rank: first their number, then their shapes, then their
 * values, which go from the sender's storage to the receiver's without an intermediate copy. */
#include "core/tensor.h"
#include "cluster/cluster.h"

#include <string.h>

/* The description of a tensor; rank -1: there is none. */
typedef struct head {
    int32_t dtype, rank;
    int64_t dims[DT_MAX_RANK];
} head;

typedef struct moving {
    dt__cluster *c;
    dt_ctx *ctx;
    const dt__tensor_post *post;
    dt__tensor_list *all; /* [ranks] */
    dt__segment *part;    /* [ranks] */
    head **heads;         /* [ranks] */
    int rank, ranks;
    bool receives;
} moving;

static dt_status tell_numbers(const moving *m)
{
    int64_t *number = dt__alloc_array(m->ctx, m->ranks, sizeof *number);
    if (number == NULL) return DT_ERR_NOMEM;
    const int64_t own = m->post->status == DT_OK ? m->post->given.n : 0;
    const dt_status s = dt__cluster_gather(m->c, m->post->what, &own, sizeof own, number);
    for (int k = 0; k < m->ranks && s == DT_OK; k++) {
        const bool here = m->receives || k == m->rank;
        m->all[k] = (dt__tensor_list){ NULL, here ? number[k] : 0 };
    }
    dt__release(m->ctx, number);
    return s;
}

static void describe(const moving *m)
{
    for (int64_t i = 0; i < m->all[m->rank].n; i++) {
        const dt_tensor *x = m->post->given.x[i];
        head *h = &m->heads[m->rank][i];
        *h = (head){ .rank = -1 };
        if (x == NULL) continue;
        *h = (head){ .dtype = (int32_t)x->dtype, .rank = x->rank };
        memcpy(h->dims, x->dims, sizeof h->dims);
    }
}

static dt_status tell_heads(const moving *m)
{
    for (int k = 0; k < m->ranks; k++) {
        m->heads[k] = dt__alloc_array(m->ctx, m->all[k].n, sizeof **m->heads);
        if (m->heads[k] == NULL) return DT_ERR_NOMEM;
        m->part[k] = (dt__segment){ m->heads[k], (size_t)m->all[k].n * sizeof **m->heads };
    }
    describe(m);
    return dt__cluster_gather_parts(m->c, m->post->what, m->part, m->post->to);
}

/* Allocates the received tensors. */
static dt_status make_tensors(const moving *m)
{
    for (int k = 0; k < m->ranks; k++) {
        dt__tensor_list *l = &m->all[k];
        if (k == m->rank || l->n == 0) continue;
        l->x = dt__alloc_zero(m->ctx, (size_t)l->n * sizeof *l->x);
        if (l->x == NULL) return DT_ERR_NOMEM;
        for (int64_t i = 0; i < l->n; i++) {
            const head *h = &m->heads[k][i];
            if (h->rank < 0) continue;
            DT__TRY(dt__tensor_create_raw(m->ctx, (dt_dtype)h->dtype, h->rank, h->dims, &l->x[i]));
        }
    }
    return DT_OK;
}

static dt__segment values_of(dt_tensor *x)
{
    if (x == NULL) return (dt__segment){ NULL, 0 };
    return (dt__segment){ (void *)(uintptr_t)dt__values(x), dt__bytes_of(x) };
}

static dt_status tell_values(const moving *m)
{
    int64_t most = 0;
    for (int k = 0; k < m->ranks; k++) most = dt__max_i64(most, m->all[k].n);
    for (int64_t i = 0; i < most; i++) {
        for (int k = 0; k < m->ranks; k++) {
            m->part[k] = values_of(i < m->all[k].n ? m->all[k].x[i] : NULL);
        }
        DT__TRY(dt__cluster_gather_parts(m->c, m->post->what, m->part, m->post->to));
    }
    return DT_OK;
}

static dt_status move(const moving *m)
{
    DT__TRY(tell_numbers(m));
    DT__TRY(tell_heads(m));
    const dt_status s = m->post->status == DT_OK ? make_tensors(m) : m->post->status;
    DT__TRY(dt__cluster_meet(m->c, DT__MEETING, s));
    m->all[m->rank] = m->post->given;
    return tell_values(m);
}

dt_status dt__ranks_tensors(dt__cluster *c, const dt__tensor_post *post, dt__tensor_list *all)
{
    moving m = { .c = c, .ctx = c->ctx, .post = post, .all = all };
    m.rank = c->rank;
    m.ranks = c->ranks;
    m.receives = post->to < 0 || post->to == m.rank;
    memset(all, 0, (size_t)m.ranks * sizeof *all);
    m.part = dt__alloc_array(m.ctx, m.ranks, sizeof *m.part);
    m.heads = dt__alloc_zero(m.ctx, (size_t)m.ranks * sizeof *m.heads);
    const dt_status s = m.part == NULL || m.heads == NULL ? DT_ERR_NOMEM : move(&m);
    for (int k = 0; m.heads != NULL && k < m.ranks; k++) dt__release(m.ctx, m.heads[k]);
    DT__RELEASE(m.ctx, m.heads, m.part);
    return s;
}

void dt__ranks_tensor_lists_free(dt__cluster *c, dt__tensor_list *all)
{
    for (int k = 0; k < c->ranks; k++) {
        if (k == c->rank || all[k].x == NULL) continue;
        for (int64_t i = 0; i < all[k].n; i++) dt_tensor_free(all[k].x[i]);
        dt__release(c->ctx, all[k].x);
    }
}
