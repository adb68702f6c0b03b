/* Plans of convolutions: made once per problem and cached in the context.
 *
 * A primitive may choose its layouts (format any), since row-major ones are two to five times as
 * slow; slices are converted to them and back. It is made for one thread, with a scratchpad of the
 * caller, so that any thread may run it. The first one of a process takes about 11 ms, each new
 * shape 0.1 to 1 ms; so small problems are left to plain C. */

#if defined DETENT_ONEDNN
#include "kernels/convolution/onednn_plan.h"

#include <string.h>

#define MOST_PLANS 256
#define LEAST_PRODUCTS 65536 /* fewest multiplications for a primitive */
#define SLICE_BYTES 262144   /* bytes of a slice's images, so that they stay in cache */
#define LEAST_SLICES 8       /* fewest slices, for threads to share */
#define MOST_PARTS 8         /* most parts: each has a gradient of the weight */

/* ---- one primitive -------------------------------------------------------------------------- */

static bool done(dnnl_status_t status) { return status == dnnl_success; }

static bool describe(dnnl_memory_desc_t *d, int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return done(dt__dnnl.memory_desc_init_by_tag(d, rank, dims, dnnl_f32, tag));
}

/* Descriptors of x, y and w: row-major, or format any. */
static bool describe_all(const dt__conv *c, int64_t images, bool any, dnnl_memory_desc_t *d)
{
    const dnnl_dims_t x = { images, c->in, c->x_size[0], c->x_size[1] };
    const dnnl_dims_t y = { images, c->out, c->y_size[0], c->y_size[1] };
    const dnnl_dims_t alone = { c->out, c->in, c->kernel[0], c->kernel[1] };
    const dnnl_dims_t grouped = { c->groups, c->out / c->groups, c->in / c->groups, c->kernel[0],
                                  c->kernel[1] };
    const dnnl_format_tag_t four = any ? dnnl_format_tag_any : dnnl_abcd;
    const dnnl_format_tag_t five = any ? dnnl_format_tag_any : dnnl_abcde;
    return describe(&d[DT__DNNL_X], 4, x, four) && describe(&d[DT__DNNL_Y], 4, y, four) &&
           (c->groups == 1 ? describe(&d[DT__DNNL_W], 4, alone, four)
                           : describe(&d[DT__DNNL_W], 5, grouped, five));
}

static bool describe_task(const dt__conv *c, dt__dnnl_task task, const dnnl_memory_desc_t *d,
                          const dnnl_memory_desc_t *bias, dnnl_convolution_desc_t *out)
{
    dnnl_dims_t stride, dilation, before, after;
    for (int i = 0; i < 2; i++) {
        const int64_t reach = c->dilation[i] * (c->kernel[i] - 1) + 1;
        stride[i] = c->stride[i];
        dilation[i] = c->dilation[i] - 1;
        before[i] = c->padding[i];
        after[i] = (c->y_size[i] - 1) * c->stride[i] + reach - c->x_size[i] - c->padding[i];
    }
    const dnnl_memory_desc_t *x = &d[DT__DNNL_X], *y = &d[DT__DNNL_Y], *w = &d[DT__DNNL_W];
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    switch (task) {
    case DT__DNNL_MAKE_Y:
        return done(dt__dnnl.dilated_convolution_forward_desc_init(
            out, dnnl_forward_training, how, x, w, bias, y, stride, dilation, before, after));
    case DT__DNNL_MAKE_X:
        return done(dt__dnnl.dilated_convolution_backward_data_desc_init(out, how, x, w, y, stride,
                                                                         dilation, before, after));
    default:
        return done(dt__dnnl.dilated_convolution_backward_weights_desc_init(
            out, how, x, w, NULL, y, stride, dilation, before, after));
    }
}

static bool make(dnnl_primitive_desc_t how, dnnl_primitive_t *out)
{
    const bool made = done(dt__dnnl.primitive_create(out, how));
    dt__dnnl.primitive_desc_destroy(how);
    return made;
}

/* Whether the implementation is oneDNN's reference, which is slower than plain C here. */
static bool is_slow(const_dnnl_primitive_desc_t how)
{
    const char *name = "ref";
    dt__dnnl.primitive_desc_query(how, dnnl_query_impl_info_str, 0, (void *)&name);
    return strncmp(name, "ref", 3) == 0;
}

static bool make_primitive(const dt__dnnl_cache *cache, dnnl_primitive_attr_t attributes,
                           const dnnl_convolution_desc_t *what, dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t how;
    if (!done(dt__dnnl.primitive_desc_create(&how, what, attributes, cache->engine, NULL)))
        return false;
    if (!is_slow(how)) return make(how, out);
    dt__dnnl.primitive_desc_destroy(how);
    return false;
}

/* The conversion from row-major to the primitive's layout, or back for its result. */
static bool make_reorder(const dt__dnnl_cache *cache, dnnl_primitive_attr_t attributes,
                         const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                         dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t how;
    if (dt__dnnl.memory_desc_equal(from, to)) return true;
    return done(dt__dnnl.reorder_primitive_desc_create(&how, from, cache->engine, to, cache->engine,
                                                       attributes)) &&
           make(how, out);
}

static const dnnl_query_t layout_query[][DT__DNNL_OPERANDS] = {
    [DT__DNNL_MAKE_Y] = { dnnl_query_src_md, dnnl_query_dst_md, dnnl_query_weights_md },
    [DT__DNNL_MAKE_X] = { dnnl_query_diff_src_md, dnnl_query_diff_dst_md, dnnl_query_weights_md },
    [DT__DNNL_MAKE_W] = { dnnl_query_src_md, dnnl_query_diff_dst_md, dnnl_query_diff_weights_md },
};

static const int made_by[] = {
    [DT__DNNL_MAKE_Y] = DT__DNNL_Y, [DT__DNNL_MAKE_X] = DT__DNNL_X, [DT__DNNL_MAKE_W] = DT__DNNL_W
};

static bool make_reorders(const dt__dnnl_cache *cache, dnnl_primitive_attr_t attributes,
                          const dnnl_memory_desc_t *ours, dt__dnnl_step *s)
{
    const_dnnl_primitive_desc_t how;
    if (!done(dt__dnnl.primitive_get_primitive_desc(s->primitive, &how))) return false;
    for (int i = 0; i < DT__DNNL_OPERANDS; i++) {
        const dnnl_memory_desc_t *best =
            dt__dnnl.primitive_desc_query_md(how, layout_query[s->task][i], 0);
        const bool back = i == made_by[s->task];
        s->layout[i] = best;
        if (!make_reorder(cache, attributes, back ? best : &ours[i], back ? &ours[i] : best,
                          &s->reorder[i])) {
            return false;
        }
    }
    return true;
}

/* ---- a slice -------------------------------------------------------------------------------- */

/* Creates the primitive of a task. If `like` is not NULL, the weight has the same layout as
 * there. */
static bool make_step(const dt__dnnl_cache *cache, const dt__dnnl_key *key, dt__dnnl_slice *slice,
                      const dt__dnnl_step *like, dt__dnnl_step *out)
{
    dnnl_memory_desc_t any[DT__DNNL_OPERANDS], bias;
    dnnl_convolution_desc_t what;
    dnnl_primitive_attr_t attributes;
    const bool biased = key->bias && out->task == DT__DNNL_MAKE_Y;
    if (!describe_all(&key->conv, slice->images, true, any)) return false;
    const dnnl_dims_t channels = { key->conv.out };
    if (biased && !describe(&bias, 1, channels, dnnl_a)) return false;
    if (like != NULL) any[DT__DNNL_W] = *like->layout[DT__DNNL_W];
    if (!describe_task(&key->conv, out->task, any, biased ? &bias : NULL, &what)) return false;
    if (!done(dt__dnnl.primitive_attr_create(&attributes))) return false;
    const bool made =
        done(dt__dnnl.primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user)) &&
        make_primitive(cache, attributes, &what, &out->primitive) &&
        make_reorders(cache, attributes, slice->ours, out);
    dt__dnnl.primitive_attr_destroy(attributes);
    return made;
}

static bool make_slice(const dt__dnnl_cache *cache, const dt__dnnl_key *key,
                       const dt__dnnl_slice *like, dt__dnnl_slice *out)
{
    dt__dnnl_step *image = &out->image, *weight = &out->weight;
    image->task = (dt__dnnl_task)key->image;
    weight->task = (dt__dnnl_task)key->weight;
    if (!describe_all(&key->conv, out->images, false, out->ours)) return false;
    if (image->task != DT__DNNL_NONE &&
        !make_step(cache, key, out, like != NULL ? &like->image : NULL, image)) {
        return false;
    }
    if (weight->task != DT__DNNL_NONE &&
        !make_step(cache, key, out, like != NULL ? &like->weight : NULL, weight)) {
        return false;
    }
    if (image->task == DT__DNNL_NONE || weight->task == DT__DNNL_NONE) return true;
    const int read = image->task == DT__DNNL_MAKE_Y ? DT__DNNL_X : DT__DNNL_Y;
    out->shares = dt__dnnl.memory_desc_equal(image->layout[read], weight->layout[read]);
    return true;
}

static void free_step(dt__dnnl_step *s)
{
    for (int i = 0; i < DT__DNNL_OPERANDS; i++) {
        if (s->reorder[i] != NULL) dt__dnnl.primitive_destroy(s->reorder[i]);
    }
    if (s->primitive != NULL) dt__dnnl.primitive_destroy(s->primitive);
}

static void free_plan(dt_ctx *ctx, dt__dnnl_plan *p)
{
    free_step(&p->whole.image);
    free_step(&p->whole.weight);
    free_step(&p->rest.image);
    free_step(&p->rest.weight);
    dt__release(ctx, p);
}

/* ---- a plan --------------------------------------------------------------------------------- */

static bool is_worth_it(const dt__conv *c)
{
    const double products = (double)c->batch * (double)c->out * (double)dt__conv_y_plane(c) *
                            (double)(c->in / c->groups) * (double)dt__conv_taps(c);
    return products >= LEAST_PRODUCTS && dt__conv_x_plane(c) > 0;
}

static void cut(dt__dnnl_plan *p)
{
    const dt__conv *c = &p->key.conv;
    const double image = 4 * ((double)c->in * (double)dt__conv_x_plane(c) +
                              (double)c->out * (double)dt__conv_y_plane(c));
    const int64_t fit = image < SLICE_BYTES ? (int64_t)(SLICE_BYTES / image) : 1;
    p->whole.images = dt__min_i64(fit, dt__ceil_div(c->batch, LEAST_SLICES));
    p->rest.images = c->batch % p->whole.images;
    p->slices = dt__ceil_div(c->batch, p->whole.images);
    p->parts = dt__min_i64(p->slices, MOST_PARTS);
}

static void fill_plan(const dt__dnnl_cache *cache, dt__dnnl_plan *p)
{
    cut(p);
    const int threads = dt__dnnl_threads(1);
    p->refused = !make_slice(cache, &p->key, NULL, &p->whole) ||
                 (p->rest.images > 0 && !make_slice(cache, &p->key, &p->whole, &p->rest));
    dt__dnnl_threads(threads);
}

/* ---- the cache ------------------------------------------------------------------------------ */

static void free_cache(dt_ctx *ctx)
{
    dt__dnnl_cache *cache = ctx->convs;
    for (int64_t i = 0; i < cache->count; i++) free_plan(ctx, cache->plans[i]);
    if (cache->stream != NULL) dt__dnnl.stream_destroy(cache->stream);
    if (cache->engine != NULL) dt__dnnl.engine_destroy(cache->engine);
    dt__release(ctx, cache);
}

static dt_status open_cache(dt_ctx *ctx)
{
    if (ctx->convs != NULL) return DT_OK;
    DT__TRY(dt__dnnl_load(ctx));
    dt__dnnl_cache *cache =
        dt__alloc_zero(ctx, sizeof *cache + MOST_PLANS * sizeof cache->plans[0]);
    if (cache == NULL) return DT_ERR_NOMEM;
    ctx->convs = cache;
    ctx->free_convs = free_cache;
    if (done(dt__dnnl.engine_create(&cache->engine, dnnl_cpu, 0)) &&
        done(dt__dnnl.stream_create(&cache->stream, cache->engine, dnnl_stream_default_flags))) {
        return DT_OK;
    }
    free_cache(ctx);
    ctx->convs = NULL;
    return dt_fail(ctx, DT_ERR_NOMEM, "out of memory: oneDNN cannot create an engine");
}

/* The index for a new plan: behind the last, or that of the least recently used plan. */
static int64_t slot_for_new(dt_ctx *ctx, dt__dnnl_cache *cache)
{
    if (cache->count < MOST_PLANS) return cache->count++;
    int64_t oldest = 0;
    for (int64_t i = 1; i < cache->count; i++) {
        if (cache->plans[i]->used < cache->plans[oldest]->used) oldest = i;
    }
    free_plan(ctx, cache->plans[oldest]);
    return oldest;
}

static dt__dnnl_key key_of(const dt__conv_work *w)
{
    return (dt__dnnl_key){ .conv = *w->conv,
                           .image = w->to_y != NULL   ? DT__DNNL_MAKE_Y
                                    : w->to_x != NULL ? DT__DNNL_MAKE_X
                                                      : DT__DNNL_NONE,
                           .weight = w->to_w != NULL ? DT__DNNL_MAKE_W : DT__DNNL_NONE,
                           .bias = w->bias != NULL };
}

dt_status dt__dnnl_plan_of(dt_ctx *ctx, const dt__conv_work *work, dt__dnnl_plan **plan)
{
    *plan = NULL;
    if (!is_worth_it(work->conv)) return DT_OK;
    DT__TRY(open_cache(ctx));
    dt__dnnl_cache *cache = ctx->convs;
    const dt__dnnl_key key = key_of(work);
    for (int64_t i = 0; i < cache->count; i++) {
        dt__dnnl_plan *p = cache->plans[i];
        if (memcmp(&p->key, &key, sizeof key) != 0) continue;
        p->used = ++cache->uses;
        if (!p->refused) *plan = p;
        return DT_OK;
    }
    dt__dnnl_plan *p = dt__alloc_zero(ctx, sizeof *p);
    if (p == NULL) return DT_ERR_NOMEM;
    p->key = key;
    p->used = ++cache->uses;
    fill_plan(cache, p);
    cache->plans[slot_for_new(ctx, cache)] = p;
    if (!p->refused) *plan = p;
    return DT_OK;
}

#endif
