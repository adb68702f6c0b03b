/* The hook that prepare adds to a module: it adds learned shifts to the input, and quantizes it by
 * a static or learned range, or by the range of its values. */
#include "autograd/segment.h"
#include "nn/module.h"
#include "qat/schemes/learned.h"
#include "qat/observe.h"
#include "qat/prepare.h"

static dt_status observe(const dt__input_hook *hook, dt_tape *t, dt_tensor *x)
{
    if (hook->range->lo != NULL) return dt__observe(t, x, hook->range);
    if (dt__quantizer_has_seen(hook->range)) return DT_OK;
    return dt__tape_adopt(t, dt__learned_observe(x, NULL, hook->range));
}

/* Initializes or updates a learned or static range from x, if this pass observes. */
static dt_status update_range(const dt__input_hook *hook, dt_tape *t, const dt_module *m,
                              dt_tensor *x)
{
    const bool trains = dt_is_training(m) && hook->enabled;
    const bool observes = !hook->frozen && !t->shapes_only && (trains || hook->observing);
    if (observes && !dt__runs_again(t)) DT__TRY(observe(hook, t, x));
    if (!hook->enabled || t->shapes_only || dt__quantizer_has_seen(hook->range)) return DT_OK;
    return dt_tape_fail(
        t, DT_ERR_STATE,
        "module %s: the range of its input has seen no batch; train, or run batches "
        "under dt_observe",
        m->path);
}

/* A saved read, since a later batch may change an observed range before a checkpointed segment runs
 * again. */
static dt_status take_range(const dt__input_hook *hook, dt_tape *t, dt__fq *fq)
{
    const bool observed = hook->quant.range == DT_RANGE_STATIC;
    fq->scale = hook->range->scale;
    fq->zero_point = hook->range->zero_point;
    if (!observed) return DT_OK;
    fq->scale = dt__tape_save_read(t, fq->scale);
    fq->zero_point = dt__tape_save_read(t, fq->zero_point);
    return dt_tape_status(t);
}

/* x + shift: one shift for each channel, which is dimension 1 of images, else the last. */
static dt_tensor *shifted(dt_tape *t, const dt_module *m, dt_tensor *x, dt_tensor *shift)
{
    if (m->type->samples && x->rank > 2) {
        int64_t dims[DT_MAX_RANK] = { shift->count, 1, 1, 1, 1, 1, 1, 1 };
        shift = dt_reshape(t, shift, x->rank - 1, dims);
    }
    return dt_add(t, x, shift);
}

/* Integers are indices and are not quantized. */
static dt_tensor *quantize_input(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    const dt__input_hook *hook = user;
    if (!dt__is_float(x->dtype)) return x;
    dt__fq fq = { .quant = hook->quant,
                  .enabled = hook->enabled,
                  .simulated = hook->simulated,
                  .samples = m->type->samples };
    if (hook->range != NULL) {
        dt_tensor *shift = hook->enabled ? hook->range->shift : NULL;
        if (shift != NULL) x = shifted(t, m, x, shift);
        if (x == NULL || update_range(hook, t, m, x) != DT_OK) return NULL;
        if (take_range(hook, t, &fq) != DT_OK) return NULL;
    }
    return dt__fake_quant_as(t, x, &fq);
}

static void drop_hook(dt_ctx *ctx, void *user) { dt__release(ctx, user); }

dt_status dt__hook_input(dt_module *m, dt__input_hook *hook)
{
    uint64_t id;
    return dt_hook_add(m, DT_SITE_INPUT, quantize_input, hook, drop_hook, &id);
}

static const dt__hook *find_hook(const dt_module *m)
{
    const dt__hook *h = m->hooks;
    while (h != NULL && h->call != quantize_input) h = h->next;
    return h;
}

dt__input_hook *dt__input_hook_of(const dt_module *m)
{
    const dt__hook *h = find_hook(m);
    return h == NULL ? NULL : h->user;
}

void dt__unhook_input(dt_module *m)
{
    const dt__hook *h = find_hook(m);
    if (h != NULL) dt_unhook(m, h->id);
}
