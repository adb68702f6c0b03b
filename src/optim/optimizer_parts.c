/* Which part of a parameter a rank has, and the gradient's norm over all parts. */
#include "optim/slots.h"

#include "autograd/tape.h"
#include "kernels/kernels.h"

_Static_assert(DT__CUT == DT__CHUNK, "a range has whole partial sums of squares");

bool dt__optimizer_is_shared(const dt_optimizer *o) { return o != NULL && o->shared; }

int dt__optimizer_states(const dt_ctx *ctx, const dt_optimizer_options *o)
{
    dt__update_formula formula;
    dt__update_formula_of(ctx, o, &formula);
    return (formula.name == NULL ? 0 : formula.states(o)) + o->average;
}

dt_status dt__optimizer_tensor(dt_optimizer *o, const dt_tensor *p, dt__bucket_tensor *out)
{
    DT__TRY(dt__optimizer_follow(o));
    int64_t i = 0;
    while (i < o->n && o->slots[i].p != p) i++;
    if (i == o->n) return dt_fail(o->ctx, DT_ERR_STATE, "a parameter has no optimizer");
    *out = (dt__bucket_tensor){ p->count, o->slots[i].turn };
    return DT_OK;
}

void dt__slot_range(const dt_optimizer *o, const dt__slot *s, int rank, int64_t range[2])
{
    const int ranks = dt__cluster_ranks(o->cluster);
    if (s->experts == 0) {
        dt__range_of_rank(&(dt__bucket_tensor){ s->p->count, s->turn }, rank, ranks, range);
        return;
    }
    const int64_t each = dt__whole_count(s->p) / s->experts;
    dt__experts_of_rank(s->experts, rank, ranks, range);
    range[0] *= each;
    range[1] *= each;
}

static dt_status view_of(const dt__slot *s, dt_tensor *x, dt_tensor **out)
{
    const int64_t n = s->range[1] - s->range[0];
    if (!dt_is_contiguous(x)) {
        return dt_fail(x->ctx, DT_ERR_STATE,
                       "%s is not contiguous: ranks cannot share it (cluster.shard_optimizer)",
                       s->path);
    }
    DT__TRY(dt__handle_create(x->ctx, x->dtype, 1, &n, out));
    dt__storage_retain(x->storage);
    (*out)->storage = x->storage;
    (*out)->offset = x->offset + s->range[0];
    return DT_OK;
}

dt_status dt__slot_views(const dt__slot *s, dt_tensor **p, dt_tensor **g)
{
    *p = NULL;
    if (g != NULL) *g = NULL;
    DT__TRY(view_of(s, dt__kind_of(s->p)->inner(s->p), p));
    const dt_status status = g == NULL ? DT_OK : view_of(s, s->p->grad, g);
    if (status == DT_OK) return DT_OK;
    dt_tensor_free(*p);
    *p = NULL;
    return status;
}

dt_status dt__optimizer_clip(dt_optimizer *o, dt_tape *t, double limit, double *norm,
                             double *factor)
{
    if (!dt__optimizer_has_parts(o)) return dt_clip_factor(o->m, t, limit, norm, factor);
    *factor = 1;
    if (t->status != DT_OK) return t->status;
    dt_status s = dt__optimizer_follow(o);
    if (s == DT_OK) s = o->hooks->norm(o, norm);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    *factor = dt__factor_of_norm(limit, *norm);
    return DT_OK;
}

dt_status dt__optimizer_fetch(dt_optimizer *o, int64_t number, const int64_t part[2], float *to)
{
    return o->hooks->fetch(o, number, part, to);
}
