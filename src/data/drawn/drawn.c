/* Makes a synthetic dataset of arrays on all threads. An example depends only on seed and index. */
#include "data/drawn/drawn.h"

#include "core/threads.h"

/* The key of the random numbers of example 0, 1, ... (dt__dice_of). */
static uint64_t drawing_key(const dt__drawing *p, const dt_drawn *o)
{
    return dt__stream_of(o->seed, p->purpose).key;
}

DT__EACH(draw_all, i, const dt__drawing *p; const dt_drawn *o; uint64_t key; int64_t each, target;
         float *x, *y;)
{
    dt__dice d = dt__dice_of(a.key, (uint64_t)i);
    a.p->draw(a.o, &d, a.x + i * a.each, a.y + i * a.target);
}

static void draw_all(dt_ctx *ctx, const dt__drawing *p, const dt_drawn *o, const dt__array_store *s)
{
    const uint64_t key = drawing_key(p, o);
    const int64_t each = dt__array_size(s);
    const bool labels = o->target == DT_TARGET_CLASS || o->target == DT_TARGET_ANOMALY;
    const int64_t target = labels ? 1 : p->outputs;
    float *x = s->source[0].storage->data, *y = s->targets->data;
    dt__team *const before = dt__threads_enter(ctx);
    dt__parallel(o->count, 16 * each, draw_all_share,
                 &(draw_all_args){ p, o, key, each, target, x, y });
    dt__threads_leave(before);
}

static dt_status allocate(const dt__drawing *p, const dt_drawn *o, int64_t bytes,
                          dt__array_store *s)
{
    s->dtype = DT_ARRAY_F32;
    s->rank = p->rank;
    s->axis = p->rank - 1;
    s->rate = p->rate;
    s->row = 1;
    for (int i = 0; i < p->rank; i++) s->row *= s->dims[i] = p->dims[i];
    dt__array_source source = { .storage = dt__storage_create(s->ctx, (uint64_t)bytes) };
    if (source.storage == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__array_store_keep(s, p->name, source));
    DT__TRY(dt__array_store_add(s, DT_ARRAY_F32, source.storage->data, o->count));
    s->outputs = p->outputs;
    s->targets =
        dt__storage_create(s->ctx, (uint64_t)(o->count * p->outputs * (int64_t)sizeof(float)));
    if (s->targets == NULL) return DT_ERR_NOMEM;
    return dt__array_store_names(s, p->names);
}

dt_status dt__draw(dt_ctx *ctx, const dt__drawing *p, const dt_drawn *o, dt_dataset **out)
{
    int64_t dims[DT_MAX_RANK + 1] = { o->count, (int64_t)sizeof(float) + p->outputs }, n;
    *out = NULL;
    for (int i = 0; i < p->rank; i++) dims[i + 2] = p->dims[i];
    if (o->count < 0 || !dt__product(p->rank + 2, dims, &n)) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: %lld examples: expected at least 0", p->name,
                       (long long)o->count);
    }
    dt__array_store *s = dt__array_store_create(ctx);
    if (s == NULL) return DT_ERR_NOMEM;
    const dt_status status = allocate(p, o, n / dims[1] * (int64_t)sizeof(float), s);
    if (status != DT_OK) {
        dt__array_store_release(s);
        return status;
    }
    draw_all(ctx, p, o, s);
    const dt_target target = o->target == DT_TARGET_ANOMALY ? DT_TARGET_CLASS : o->target;
    DT__TRY(dt__arrays_wrap(ctx, s, target, out));
    return o->target == DT_TARGET_ANOMALY ? dt_dataset_anomaly(*out) : DT_OK;
}
