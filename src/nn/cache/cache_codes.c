/* The codes of a key-value cache, of each token and head: ops/attention/cache_rows.h. */
#include "nn/cache/cache.h"

#include "ops/attention/cache_rows.h"

/* Strides of batch entries (there is one), tokens, heads and elements in a layer's keys or values,
 * and of the first three in its scales. */
static dt__cache_rows rows_of(const dt_tensor *x, const dt__cache_codes *to)
{
    dt_tensor *codes = to->codes, *scale = to->scale;
    const int time = to->keys ? 2 : 1, element = to->keys ? 1 : 2;
    const int64_t *s = codes->strides;
    dt__cache_rows r = { .batch = 1,
                         .time = x->dims[1],
                         .heads = x->dims[2],
                         .width = x->dims[3],
                         .dtype = DT_F32,
                         .packed = codes->dtype == DT_U8,
                         .x = { .x = dt__data(x) },
                         .codes = (int8_t *)dt__data_mut(codes) + to->first * s[time],
                         .code_strides = { 0, s[time], s[0], s[element] },
                         .scale = (float *)dt__data_mut(scale) + to->first * scale->strides[1],
                         .scale_strides = { 0, scale->strides[1], scale->strides[0] } };
    memcpy(r.x.strides, x->strides, sizeof r.x.strides);
    return r;
}

dt_status dt__cache_encode(dt_ctx *ctx, const dt_module *m, const dt_tensor *x,
                           const dt__cache_codes *to)
{
    if (x->dtype != DT_F32) {
        return dt_fail(ctx, DT_ERR_DTYPE,
                       "module %s: keys and values are %s; caches of codes hold f32", m->path,
                       dt_dtype_name(x->dtype));
    }
    dt__cache_rows r = rows_of(x, to);
    const int64_t room = dt__cache_rows_room(r.width, dt_threads(ctx));
    r.room = dt__alloc(ctx, (size_t)room * sizeof *r.room);
    if (r.room == NULL) return DT_ERR_NOMEM;
    const int64_t bad = dt__cache_rows_encode(dt__kernels_of(ctx, DT_F32), &r);
    dt__release(ctx, r.room);
    if (bad < 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_NUMERIC, "module %s: a %s of token %lld is not finite", m->path,
                   to->keys ? "key" : "value", (long long)(to->first + bad));
}
