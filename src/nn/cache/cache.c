/* The key-value cache of a decoder: cache.h. */
#include "nn/cache/cache.h"

#include "kernels/attention_args.h"

#define LINE 64 /* bytes of a cache line */

static void free_layer(const dt__cache_layer *l)
{
    DT__TENSORS_FREE(l->k, l->v, l->k_scale, l->v_scale);
}

void dt__cache_free(dt_ctx *ctx, dt__cache *cache)
{
    for (int64_t i = 0; i < cache->n; i++) {
        free_layer(&cache->layer[i]);
    }
    dt__release(ctx, cache->layer);
    *cache = (dt__cache){ .capacity = 0 };
}

dt_status dt__cache_check(dt_ctx *ctx, const char *what, int kind)
{
    if (kind >= 0 && kind < DT_CACHES) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: cache is %d; it must be 0...%d", what, kind,
                   DT_CACHES - 1);
}

int64_t dt__cache_start(const dt_tape *t) { return t->cache == NULL ? 0 : t->cache->length; }

int64_t dt__cache_text(const dt_tape *t, int64_t n)
{
    return t->cache == NULL ? n : t->cache->text;
}

dt_tensor *dt__cache_positions(dt_tape *t, int64_t n)
{
    dt_tensor *positions;
    if (t->status != DT_OK) return NULL;
    dt_status s = dt__tensor_create_raw(t->ctx, DT_I32, 1, &n, &positions);
    if (s == DT_OK) {
        int32_t *to = dt__values_mut(positions);
        for (int64_t i = 0; i < n; i++) to[i] = (int32_t)(dt__cache_start(t) + i);
        s = dt__tape_lend(t, positions);
    }
    if (s == DT_OK) return positions;
    dt__tape_adopt(t, s);
    return NULL;
}

/* The distance between rows of `capacity` keys: an odd number of cache lines, so that the rows of a
 * tile use different cache sets. */
static int64_t pitch_of(int64_t capacity, dt_dtype dtype)
{
    const int64_t line = LINE / (int64_t)dt_dtype_size(dtype);
    return line * (dt__ceil_div(capacity, line) | 1);
}

static const dt_dtype code_dtypes[] = { [DT_CACHE_INT8] = DT_I8, [DT_CACHE_INT4] = DT_U8 };

static bool is_coded(const dt__cache *cache) { return cache->kind != DT_CACHE_F32; }

static dt_status add_layer(dt_tape *t, const dt_module *m, const dt_tensor *k)
{
    dt__cache *cache = t->cache;
    const dt_dtype dtype = is_coded(cache) ? code_dtypes[cache->kind] : k->dtype;
    const int64_t heads = k->dims[2], scales[] = { heads, cache->capacity };
    const int64_t width = dtype == DT_U8 ? dt__half_row(k->dims[3]) : k->dims[3];
    const int64_t keys[] = { heads, width, pitch_of(cache->capacity, dtype) };
    const int64_t values[] = { heads, cache->capacity, width };
    DT__TRY(DT__RESERVE(t->ctx, cache->layer, cache->n, cache->room));
    dt__cache_layer l = { .m = m, .width = k->dims[3] };
    dt_status s = dt__tensor_create_raw(t->ctx, dtype, 3, keys, &l.k);
    if (s == DT_OK) s = dt__tensor_create_raw(t->ctx, dtype, 3, values, &l.v);
    for (int i = 0; i < 2 && s == DT_OK && is_coded(cache); i++) {
        s = dt__tensor_create_raw(t->ctx, DT_F32, 2, scales, i == 0 ? &l.k_scale : &l.v_scale);
    }
    if (s == DT_OK) cache->layer[cache->n++] = l;
    else free_layer(&l);
    return s;
}

static bool fits(const dt__cache_layer *l, const dt_module *m, const dt_tensor *x)
{
    return l->m == m && (l->k_scale != NULL || l->v->dtype == x->dtype) &&
           l->v->dims[0] == x->dims[2] && l->width == x->dims[3];
}

static dt_status check(dt_tape *t, const dt_module *m, const dt_tensor *k, const dt_tensor *v)
{
    const dt__cache *cache = t->cache;
    if (!t->no_grad) {
        return dt_fail(t->ctx, DT_ERR_STATE,
                       "module %s: a pass with a key-value cache cannot record (dt_no_grad)",
                       m->path);
    }
    if (k->rank != 4 || k->dims[0] != 1 || !dt__same_dims(k, v)) {
        return dt_fail(t->ctx, DT_ERR_STATE, "module %s: a cache holds one text, not a batch",
                       m->path);
    }
    if (cache->length + k->dims[1] > cache->capacity) {
        return dt_fail(t->ctx, DT_ERR_STATE, "module %s: the cache holds %lld tokens", m->path,
                       (long long)cache->capacity);
    }
    return DT_OK;
}

/* A view of tokens first ... first + n - 1 of a layer's keys, values or scales: [1, n, heads,
 * width], or [1, n, heads] for scales. */
static dt_status rows_of(dt_tape *t, dt_tensor *kept, bool keys, const int64_t token[2],
                         dt_tensor **out)
{
    const int time = keys ? 2 : 1, element = keys ? 1 : 2;
    const int64_t dims[] = { 1, token[1], kept->dims[0], kept->dims[element] };
    DT__TRY(dt__handle_create(t->ctx, kept->dtype, kept->rank + 1, dims, out));
    (*out)->strides[1] = kept->strides[time];
    (*out)->strides[2] = kept->strides[0];
    if (kept->rank == 3) (*out)->strides[3] = kept->strides[element];
    (*out)->offset = kept->offset + token[0] * kept->strides[time];
    (*out)->storage = kept->storage;
    dt__storage_retain(kept->storage);
    return DT_OK;
}

/* Sets *x to a view of all tokens, including those of this pass; the view is lent. */
static dt_status lend_all(dt_tape *t, dt_tensor *kept, bool keys, int64_t n, dt_tensor **x)
{
    dt_tensor *all;
    kept->storage->version++;
    DT__TRY(rows_of(t, kept, keys, (const int64_t[]){ 0, t->cache->length + n }, &all));
    DT__TRY(dt__tape_lend(t, all));
    *x = all;
    return DT_OK;
}

/* Appends *x to a layer's keys or values and sets *x to the keys or values of all tokens. */
static dt_status join(dt_tape *t, dt_tensor *kept, bool keys, dt_tensor **x)
{
    dt_tensor *to;
    const int64_t n = (*x)->dims[1];
    DT__TRY(rows_of(t, kept, keys, (const int64_t[]){ t->cache->length, n }, &to));
    dt__copy_tensor(*x, to);
    dt_tensor_free(to);
    return lend_all(t, kept, keys, n, x);
}

/* The same for codes, with their scales. */
static dt_status join_codes(dt_tape *t, const dt__cache_layer *l, bool keys, dt_tensor **x,
                            dt_tensor **scale)
{
    dt_tensor *codes = keys ? l->k : l->v, *scales = keys ? l->k_scale : l->v_scale;
    const int64_t n = (*x)->dims[1];
    const dt__cache_codes to = { codes, scales, keys, t->cache->length };
    DT__TRY(dt__cache_encode(t->ctx, l->m, *x, &to));
    DT__TRY(lend_all(t, codes, keys, n, x));
    return lend_all(t, scales, false, n, scale);
}

dt_status dt__cache_join(dt_tape *t, const dt_module *m, dt_attention_operands *kv)
{
    dt__cache *cache = t->cache;
    if (cache == NULL || t->status != DT_OK) return t->status;
    dt_status s = check(t, m, kv->k, kv->v);
    if (s == DT_OK && cache->at == cache->n) s = add_layer(t, m, kv->k);
    if (s == DT_OK && !fits(&cache->layer[cache->at], m, kv->k)) {
        s = dt_fail(t->ctx, DT_ERR_STATE,
                    "module %s: layers run in another order than in the previous pass", m->path);
    }
    if (s != DT_OK) return dt__tape_adopt(t, s);
    const dt__cache_layer *l = &cache->layer[cache->at++];
    if (is_coded(cache)) {
        s = join_codes(t, l, true, &kv->k, &kv->k_scale);
        if (s == DT_OK) s = join_codes(t, l, false, &kv->v, &kv->v_scale);
    } else {
        s = join(t, l->k, true, &kv->k);
        if (s == DT_OK) s = join(t, l->v, false, &kv->v);
    }
    return dt__tape_adopt(t, s);
}
