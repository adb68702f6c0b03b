/* The last step of a restore: wrappers, hooks and requires_grad, undone if one fails; then values
 * and codes, which cannot fail. */
#include "autograd/write.h"
#include "io/model/model_restore.h"
#include "qat/adapters.h"
#include "qat/folded_range.h"

static dt_status derive(const dt__load *l, dt__load_derived *d)
{
    const dt__module_quant *q = d->quant;
    const dt__quantizer *range = dt__quantizer_of(dt__quantizer_at(d->m, "weight"));
    if (dt__entry_find(d->m, "weight")->x->kind != NULL) {
        return dt__load_refuse(l, q->path, "its weight is tied to one with other settings");
    }
    const dt__fq fq = { .quant = q->weight.scheme,
                        .simulated = q->simulated,
                        .map = dt__described_map(q),
                        .scale = range == NULL ? NULL : range->scale,
                        .zero_point = range == NULL ? NULL : range->zero_point,
                        .count = range == NULL ? NULL : range->count };
    DT__TRY(dt__derive(d->m, &fq));
    d->added = true;
    dt__derived_quant(d->m)->enabled = q->weight.state == DT__ENABLED;
    if (q->weight.has_norm && q->weight.norm == DT__NORM_FROZEN) d->m->folding = DT__FOLDED_FROZEN;
    return DT_OK;
}

static dt_status wrap(dt__load_plan *p)
{
    const dt__load *l = p->load;
    for (int64_t k = 0; k < p->n_items; k++) {
        const dt__load_item *i = &p->item[k];
        if (i->quant == NULL || i->packed != NULL) continue;
        const dt__fq fq = { .quant = i->quant->weight.scheme,
                            .simulated = i->quant->simulated,
                            .map = dt__described_map(i->quant),
                            .scale = i->range == NULL ? NULL : i->range->scale,
                            .zero_point = i->range == NULL ? NULL : i->range->zero_point,
                            .count = i->range == NULL ? NULL : i->range->count };
        DT__TRY(dt__fq_wrap(i->x, &fq));
        DT__TRY(dt_fake_quant_enable(i->x, i->quant->weight.state == DT__ENABLED));
    }
    for (int64_t k = 0; k < p->n_derived; k++) DT__TRY(derive(l, &p->derived[k]));
    for (int64_t k = 0; k < p->n_hooks; k++) {
        DT__TRY(dt__hook_input(p->hook[k].m, p->hook[k].hook));
        p->hook[k].added = true;
    }
    return l->r->then == NULL ? DT_OK : l->r->then(l->r->user, l->file);
}

/* Allocates the values of a new model's tensor that has no memory yet. */
static dt_status fill(const dt__load_item *i)
{
    const dt_tensor *inner = dt__kind_of(i->x)->inner(i->x);
    return i->packed == NULL ? dt__storage_fill(inner->storage) : DT_OK;
}

static dt_status fill_all(dt__load_plan *p)
{
    for (int64_t k = 0; k < p->n_items; k++) DT__TRY(fill(&p->item[k]));
    return DT_OK;
}

static void unwrap(dt__load_plan *p)
{
    for (int64_t k = 0; k < p->n_items; k++) {
        const dt__load_item *i = &p->item[k];
        if (i->quant != NULL && dt_is_fake_quant(i->x)) dt__fq_unwrap(i->x);
    }
    for (int64_t k = 0; k < p->n_derived; k++) {
        if (p->derived[k].added) dt__underive(p->derived[k].m);
    }
    for (int64_t k = 0; k < p->n_hooks; k++) {
        dt__load_hook *h = &p->hook[k];
        const dt__hook *of_m = h->added ? h->m->hooks : NULL;
        while (of_m != NULL && of_m->user != h->hook) of_m = of_m->next;
        if (of_m != NULL) dt_unhook(h->m, of_m->id);
    }
    for (int64_t k = 0; k < p->n_items && p->load->meta.n_loras > 0; k++) {
        dt__load_item *i = &p->item[k];
        if (!i->x->requires_grad) dt_set_requires_grad(i->x, i->trained);
    }
}

/* Does everything that may fail. */
static dt_status prepare(dt__load_plan *p)
{
    const dt__load *l = p->load;
    if (l->meta.n_loras > 0 && l->r->quantized) {
        DT__TRY(dt__lora_set_trainable(l->r->m, l->meta.trains_rest));
    }
    if (l->r->stored == NULL) DT__TRY(fill_all(p));
    return wrap(p);
}

static void store(const dt__load_plan *p, dt__load_item *i)
{
    if (i->entry != NULL) {
        dt_tensor *inner = dt__write_open(i->x);
        dt__entry_copy(p->load->file, i->entry, inner);
        dt__write_close(i->x);
    } else if (i->packed == NULL) {
        dt__write_value(i->x, i->value);
    } else {
        dt__packed_take(i->x, i->packed);
        i->packed = NULL; /* the handle owns it now */
    }
}

/* Stores the tensors, and calls the caller's function after each. */
static dt_status store_each(dt__load_plan *p)
{
    const dt__restoring *r = p->load->r;
    for (int64_t k = 0; k < p->n_items; k++) {
        dt__load_item *i = &p->item[k];
        DT__TRY(fill(i));
        store(p, i);
        DT__TRY(r->stored(r->user, i->path, i->x));
    }
    return DT_OK;
}

/* Turns scales of the folded weight, from a file of an older version, into those of the layer's own
 * weight. */
static void unfold(const dt__load_derived *d)
{
    const dt__fq *fq = dt__derived_quant(d->m);
    if (dt__range_is_own(d->m, fq) && d->quant->weight.range_of == DT__OF_FOLDED) {
        dt__range_unfold(d->m, fq);
    }
}

dt_status dt__load_commit(dt__load_plan *p)
{
    const dt_status s = prepare(p);
    if (s != DT_OK) {
        unwrap(p);
        return s;
    }
    if (p->load->r->stored != NULL) return store_each(p);
    for (int64_t k = 0; k < p->n_items; k++) store(p, &p->item[k]);
    for (int64_t k = 0; k < p->n_derived; k++) unfold(&p->derived[k]);
    return DT_OK;
}
