/* Renewal: re-encodes the codes of a weight in place, panel by panel, while an in-place op (an
 * optimizer's step) writes its master and the rows are in the processor's cache. The contract is
 * that of write_begin, written and write_end in autograd/kind.h; a block is the rows of one panel.
 *
 * A weight that has no panels yet, or cannot be renewed, gets new codes at their next use. Every
 * failure (a value, scale or dequantized value that is not finite, a panel that was not written)
 * drops the codes; making new ones then reports the error with the tensor's name. */
#include "kernels/kernels.h"
#include "qat/codes_cache.h"
#include "qat/schemes/scheme.h"

#define RENEWING UINT64_MAX /* the version of codes between begin and end */

/* Whether one pass over rows in memory order makes the panels, and nothing else holds a reference
 * on the codes. */
static bool is_renewable(const dt__cached_codes *c)
{
    return c->codes->panels != NULL && !dt__is_mapped(&c->codes->map) && c->how.scale == NULL &&
           dt__one_pass(&c->how.quant) && atomic_load(&c->codes->refs) == 1;
}

bool dt__renew_begin(dt_tensor *x, dt__renewal *r)
{
    const dt__fq *fq = x->ext;
    dt_tensor *master = fq->inner;
    if (!fq->enabled || master->storage == NULL || !dt_is_contiguous(master)) return false;
    dt__cached_codes *c = dt__codes_find(master, fq);
    if (c == NULL || !is_renewable(c)) return false;
    dt__codes *codes = c->codes;
    const bool masked = dt__ste_clipped(&c->how.quant) && dt__can_clip(&c->how.quant);
    if (masked && codes->mask == NULL) {
        codes->mask = dt__alloc_array(x->ctx, codes->rows, (size_t)dt__ceil_div(codes->columns, 8));
        if (codes->mask == NULL) return false;
    }
    r->master = master;
    r->codes = codes;
    r->cached = c;
    r->coding = dt__coding_of(&c->how.quant);
    r->source = (dt__panel_source){ &codes->layout, dt__values(master), &r->coding, codes->panels,
                                    codes->mask };
    atomic_init(&r->clipped, 0);
    atomic_init(&r->renewed, 0);
    c->version = RENEWING;
    return true;
}

void dt__renew_panel(dt__renewal *r, int64_t panel)
{
    const dt__kernels *kernels = dt__kernels_of(r->master->ctx, DT_F32);
    const int64_t clipped = kernels->quantize_panel(&r->source, panel);
    if (clipped < 0) return;
    atomic_fetch_add(&r->clipped, clipped);
    atomic_fetch_add(&r->renewed, 1);
}

void dt__renew_end(dt__renewal *r)
{
    dt__cached_codes *c = r->cached;
    if (atomic_load(&r->renewed) == r->codes->layout.panels) {
        c->version = r->codes->version = r->master->storage->version;
        r->codes->clipped = atomic_load(&r->clipped);
        if (r->codes->clipped == 0) { /* the mask is full */
            dt__release(r->master->ctx, r->codes->mask);
            r->codes->mask = NULL;
        }
    }
    dt__codes_drop_stale(r->master);
}

/* Writing a weight must not fail here: if memory is short, nothing is renewed and the next pass
 * makes new codes. */
const dt__panel_layout *dt__fq_write_begin(dt_tensor *x)
{
    dt__fq *fq = x->ext;
    dt__renewal *r = fq->enabled ? dt__alloc(x->ctx, sizeof *r) : NULL;
    if (r == NULL) return NULL;
    if (dt__renew_begin(x, r)) {
        fq->renewal = r;
        return &r->codes->layout;
    }
    dt__release(x->ctx, r);
    return NULL;
}

void dt__fq_written(dt_tensor *x, int64_t first, int64_t end)
{
    const dt__fq *fq = x->ext;
    for (int64_t p = first; p < end; p++) dt__renew_panel(fq->renewal, p);
}

/* Frees outdated codes now, not when new ones are made, so that every step begins with the same
 * memory in use. */
void dt__fq_write_end(dt_tensor *x)
{
    dt__fq *fq = x->ext;
    if (fq->renewal != NULL) {
        dt__renew_end(fq->renewal);
        dt__release(x->ctx, fq->renewal);
        fq->renewal = NULL;
    }
    dt__codes_drop_stale(fq->inner);
}
