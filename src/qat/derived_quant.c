/* Derived weights in QAT: a weight hook quantizes what the layer derives, while the parameters stay
 * plain; convert computes weight and bias once and stores them, merging keeps the weight. */
#include "qat/derived_quant.h"

#include "autograd/tape.h"
#include "autograd/write.h"
#include "qat/folded_range.h"

/* Initializes a static or learned range behind a folded norm in the first training pass. */
static dt_status begin(dt_tape *t, const dt_module *m, const dt_tensor *x, const dt__fq *fq)
{
    if (!dt__range_is_own(m, fq) || fq->count == NULL || t->no_grad) return DT_OK;
    const bool begun = *(const int64_t *)dt__values(fq->count) > 0;
    return begun || !dt_requires_grad(x) ? DT_OK : dt__range_begin(m, x, fq);
}

static dt_tensor *quantize_weight(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    if (dt_tape_status(t) != DT_OK) return NULL;
    const dt_status s = begin(t, m, x, user);
    if (s != DT_OK) {
        dt__tape_adopt(t, s);
        return NULL;
    }
    const dt__fq fq = dt__range_folded(t, m, user);
    return dt__fake_quant_as(t, x, &fq);
}

/* Whether the gradient passes unchanged: no learned or static scale, no mask, no estimator. */
static bool is_straight(const void *user)
{
    const dt__fq *fq = user;
    const bool plain = fq->quant.range == DT_RANGE_DYNAMIC && !dt__ste_clipped(&fq->quant);
    return !fq->enabled || (plain && fq->estimator == DT_ESTIMATOR_STE);
}

static void drop_hook(dt_ctx *ctx, void *user) { dt__release(ctx, user); }

static dt__hook *find_hook(const dt_module *layer)
{
    dt__hook *h = layer->hooks;
    while (h != NULL && h->call != quantize_weight) h = h->next;
    return h;
}

dt__fq *dt__derived_quant(const dt_module *layer)
{
    const dt__hook *h = find_hook(layer);
    return h == NULL ? NULL : h->user;
}

dt__fq *dt__layer_quant(const dt_module *layer)
{
    dt__fq *derived = dt__derived_quant(layer);
    if (derived != NULL) return derived;
    const dt__entry *w = dt__entry_find(layer, "weight");
    return w != NULL && dt_is_fake_quant(w->x) ? w->x->ext : NULL;
}

dt_status dt__derive(dt_module *layer, const dt__fq *like)
{
    uint64_t id;
    dt__fq *fq = dt__alloc(layer->ctx, sizeof *fq);
    if (fq == NULL) return DT_ERR_NOMEM;
    *fq = *like;
    fq->enabled = true;
    const dt_status s = dt_hook_add(layer, DT_SITE_WEIGHT, quantize_weight, fq, drop_hook, &id);
    if (s != DT_OK) {
        dt__release(layer->ctx, fq);
        return s;
    }
    find_hook(layer)->is_straight = is_straight;
    if (!dt__has_lora(layer)) layer->folding = DT__FOLDED;
    return DT_OK;
}

void dt__underive(dt_module *layer)
{
    const dt__hook *h = find_hook(layer);
    if (h != NULL) dt_unhook(layer, h->id);
    layer->folding = DT__APART;
}

static dt_status copy_of(const dt_tensor *x, dt_tensor **out)
{
    *out = NULL;
    if (x == NULL) return DT_OK;
    return dt_tensor_from(x->ctx, x->dtype, x->rank, x->dims, dt_data(x), out);
}

static dt_status compute(dt__derived *d, dt_tape *t)
{
    dt_module *layer = d->layer;
    const dt__entry *bias = dt__entry_find(layer, "bias");
    dt_no_grad(t, true);
    dt_tensor *w = dt__derived_weight(t, layer, dt__entry_find(layer, "weight")->x);
    dt_tensor *b = dt__derived_bias(t, layer, bias == NULL ? NULL : bias->x);
    const dt__fq *fq = dt__derived_quant(layer);
    if (fq != NULL) d->quant = dt__range_folded(t, layer, fq);
    DT__TRY(dt_tape_status(t));
    DT__TRY(copy_of(d->quant.scale, &d->scale));
    DT__TRY(copy_of(d->quant.zero_point, &d->zero_point));
    d->quant.scale = d->scale;
    d->quant.zero_point = d->zero_point;
    DT__TRY(copy_of(w, &d->weight));
    if (dt__has_lora(layer)) return DT_OK;
    DT__TRY(copy_of(b, &d->bias));
    if (bias != NULL) return DT_OK;
    dt_tensor *x;
    DT__TRY(dt__new_param(layer, "bias", 1, b->dims, &x));
    d->added = true;
    return DT_OK;
}

dt_status dt__derived_begin(dt_module *layer, dt__derived *out)
{
    dt_tape *t;
    *out = (dt__derived){ .layer = layer };
    DT__TRY(dt_tape_create(layer->ctx, &t));
    const dt__folding before = layer->folding;
    if (!dt__has_lora(layer)) layer->folding = DT__FOLDED_FROZEN; /* as in evaluation */
    const dt_status s = compute(out, t);
    layer->folding = before;
    dt_tape_free(t);
    return s;
}

static void take_norm(dt_module *layer, const dt_tensor *bias)
{
    dt__removed_norm norm;
    dt__write_value(dt__entry_find(layer, "bias")->x, bias);
    dt__norm_remove(layer->norm, &norm);
    dt__norm_forget(&norm);
}

void dt__derived_end(dt__derived *derived, bool done)
{
    dt_module *layer = derived->layer;
    if (done) {
        if (dt__has_lora(layer)) dt__lora_remove(layer);
        else take_norm(layer, derived->bias);
        dt__underive(layer);
    } else if (derived->added) {
        dt__module_remove(layer, "bias");
    }
    DT__TENSORS_FREE(derived->weight, derived->bias, derived->scale, derived->zero_point);
}

/* Quantizes the weight alone where it was quantized together with its adapter. */
static dt_status wrap_weight(dt_module *layer, dt_tensor *weight)
{
    const dt__fq *fq = dt__derived_quant(layer);
    if (fq == NULL) return DT_OK;
    DT__TRY(dt__fq_wrap(weight, fq));
    return dt_fake_quant_enable(weight, fq->enabled);
}

static dt_status merge_layer(dt_module *layer)
{
    dt__derived derived;
    dt_tensor *weight = dt__entry_find(layer, "weight")->x;
    dt_status s = dt__derived_begin(layer, &derived);
    if (s == DT_OK) s = wrap_weight(layer, weight);
    if (s == DT_OK) dt__write_value(weight, derived.weight);
    dt__derived_end(&derived, s == DT_OK);
    return s;
}

/* W' = W^ + (alpha / rank) B A, where W^ are the dequantized values of W. W' is rounded to nearest
 * by the settings of W, with new scales. */
static dt_status merge_packed(dt_module *layer)
{
    dt_tape *t = NULL;
    dt__codes *codes = NULL;
    dt_tensor *w = dt__entry_find(layer, "weight")->x, *merged = NULL;
    const dt__packed *packed = w->ext;
    const dt__fq like = { .quant = packed->quant,
                          .simulated = packed->simulated,
                          .map = packed->codes->map };
    DT__TRY(dt_tape_create(layer->ctx, &t));
    dt_no_grad(t, true);
    merged = dt_lora(t, w, dt__entry_find(layer, "lora_a")->x, dt__entry_find(layer, "lora_b")->x,
                     layer->lora.alpha);
    dt_status s = dt_tape_status(t);
    if (s == DT_OK) s = dt__codes_make(merged, &like, layer->path, &codes);
    dt_tape_free(t);
    dt__packed *next = s == DT_OK ? dt__alloc(layer->ctx, sizeof *next) : NULL;
    if (next == NULL) {
        dt__codes_release(codes);
        return s != DT_OK ? s : DT_ERR_NOMEM;
    }
    *next = (dt__packed){ .quant = like.quant, .simulated = like.simulated, .codes = codes };
    dt__packed_take(w, next);
    dt__lora_remove(layer);
    return DT_OK;
}

static dt_status merge_one(dt_module *m, bool quantized)
{
    if (m->lora.beside) return quantized ? merge_packed(m) : DT_OK;
    if (!dt__has_lora(m) || (dt__derived_quant(m) != NULL && !quantized)) return DT_OK;
    return merge_layer(m);
}

dt_status dt__merge(dt_module *m, bool quantized)
{
    DT__EACH_MODULE(layer, m) DT__TRY(merge_one(layer, quantized));
    return DT_OK;
}

/* Whether the layer belongs to a model that runs as an integer network. */
static bool is_planned(const dt_module *m)
{
    while (m != NULL && m->form.run == NULL) m = m->parent;
    return m != NULL;
}

void dt_norms_freeze(dt_module *m, bool on)
{
    DT__EACH_MODULE(layer, m) {
        if (layer->folding == DT__APART) continue;
        layer->folding = on                  ? DT__FOLDED_FROZEN
                         : is_planned(layer) ? DT__FOLDED_PLANNED
                                             : DT__FOLDED;
    }
}

int64_t dt_unfolded_channels(dt_module *m)
{
    int64_t n = 0;
    DT__EACH_MODULE(layer, m) {
        if (layer->folding != DT__APART) n += dt__unfolded_channels(layer);
    }
    return n;
}
