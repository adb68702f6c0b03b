/* Batch norm folding in QAT: a weight hook quantizes the folded weight, while the parameters stay
 * plain; convert computes weight and bias once and stores them. */
#include "qat/fold.h"

#include "autograd/tape.h"

/* ---- the hook ---------------------------------------------------------------------------------- */

static dt_tensor *quantize_weight(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    (void)m;
    return dt__fake_quant_as(t, x, user);
}

static void drop_hook(dt_ctx *ctx, void *user) { dt__release(ctx, user); }

static const dt__hook *find_hook(const dt_module *layer)
{
    const dt__hook *h = layer->hooks;
    while (h != NULL && h->call != quantize_weight) h = h->next;
    return h;
}

dt__fq *dt__folded_quant(const dt_module *layer)
{
    const dt__hook *h = find_hook(layer);
    return h == NULL ? NULL : h->user;
}

dt_status dt__fold(dt_module *layer, const dt__fq *like)
{
    uint64_t id;
    dt__fq *fq = dt__alloc(layer->ctx, sizeof *fq);
    if (fq == NULL) return DT_ERR_NOMEM;
    *fq = *like;
    fq->enabled = true;
    const dt_status s = dt_hook_add(layer, DT_SITE_WEIGHT, quantize_weight, fq, drop_hook, &id);
    if (s != DT_OK) dt__release(layer->ctx, fq);
    else layer->folding = DT__FOLDED;
    return s;
}

void dt__unfold(dt_module *layer)
{
    const dt__hook *h = find_hook(layer);
    if (h != NULL) dt_unhook(layer, h->id);
    layer->folding = DT__APART;
}

/* ---- converting -------------------------------------------------------------------------------- */

static dt_status compute(dt__folded *f, dt_tape *t)
{
    dt_module *layer = f->layer;
    const dt__member *bias = dt__member_find(layer, "bias");
    dt_no_grad(t, true);
    dt_tensor *w = dt__folded_weight(t, layer, dt__member_find(layer, "weight")->x);
    dt_tensor *b = dt__folded_bias(t, layer, bias == NULL ? NULL : bias->x);
    if (b == NULL) return dt_tape_status(t);
    DT__TRY(dt_tensor_from(t->ctx, w->dtype, w->rank, w->dims, dt_data(w), &f->weight));
    DT__TRY(dt_tensor_from(t->ctx, b->dtype, b->rank, b->dims, dt_data(b), &f->bias));
    if (bias != NULL) return DT_OK;
    dt_tensor *x;
    DT__TRY(dt__new_param(layer, "bias", 1, b->dims, &x));
    f->added = true;
    return DT_OK;
}

dt_status dt__folded_begin(dt_module *layer, dt__folded *out)
{
    dt_tape *t;
    *out = (dt__folded){ .layer = layer };
    DT__TRY(dt_tape_create(layer->ctx, &t));
    const dt__folding before = layer->folding;
    layer->folding = DT__FOLDED_FROZEN; /* as in evaluation */
    const dt_status s = compute(out, t);
    layer->folding = before;
    dt_tape_free(t);
    return s;
}

void dt__folded_end(dt__folded *folded, bool done)
{
    dt_module *layer = folded->layer;
    if (done) {
        dt__removed_norm norm;
        dt_tensor *bias = dt__member_find(layer, "bias")->x;
        bias->storage->version++;
        dt__copy_tensor(folded->bias, bias);
        dt__unfold(layer);
        dt__norm_remove(layer->norm, &norm);
        dt__norm_forget(&norm);
    } else if (folded->added) {
        dt__module_remove(layer, "bias");
    }
    dt_tensor_free(folded->weight);
    dt_tensor_free(folded->bias);
}

/* ---- the model's state ------------------------------------------------------------------------- */

static dt_status freeze_one(void *user, const char *path, dt_module *m)
{
    (void)path;
    if (m->folding == DT__APART) return DT_OK;
    m->folding = *(const bool *)user ? DT__FOLDED_FROZEN : DT__FOLDED;
    return DT_OK;
}

void dt_norms_freeze(dt_module *m, bool on) { dt_module_visit_modules(m, freeze_one, &on); }

static dt_status count_unfolded(void *user, const char *path, dt_module *m)
{
    (void)path;
    if (m->folding != DT__APART) *(int64_t *)user += dt__unfolded_channels(m);
    return DT_OK;
}

int64_t dt_unfolded_channels(dt_module *m)
{
    int64_t n = 0;
    dt_module_visit_modules(m, count_unfolded, &n);
    return n;
}
