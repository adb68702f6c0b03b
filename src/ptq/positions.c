/* Counts samples by hooks on the inputs of layers.
 *
 *     multiply-adds of a layer = samples * elements of its weight */
#include "ptq/positions.h"

#include "core/tensor.h"
#include "ptq/target.h"
#include "ptq/unfold.h"

#include <string.h>

static const dt_tensor *weight_of(const dt_module *layer)
{
    const dt__entry *e = dt__entry_find(layer, "weight");
    return e == NULL ? NULL : e->x;
}

/* The number of samples in x; 0 where the layer cannot take x, which its forward reports. */
static int64_t samples_of(const dt_module *layer, const dt_tensor *x)
{
    const dt_tensor *w = weight_of(layer);
    dt_weight_op op;
    dt__unfolding u;
    int64_t n = 0;
    if (!dt__weight_op_of(layer, &op) || op.kind == DT_WEIGHT_GROUPED_LINEAR) return 0;
    if (dt__unfolding_of(layer->ctx, &op, w->rank, w->dims, &u) != DT_OK) return 0;
    return dt__samples_of(layer->ctx, &u, x, &n) == DT_OK ? n : 0;
}

static dt_tensor *count(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    dt__positions *p = user;
    (void)t;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->at[i].layer != m) continue;
        p->at[i].samples += (double)samples_of(m, x);
        p->at[i].batch += x->rank > 0 ? (double)x->dims[0] : 1;
    }
    return x;
}

dt_status dt__positions_begin(dt_module *m, dt__positions *out)
{
    *out = (dt__positions){ .ctx = m->ctx };
    dt_status s = DT_OK;
    DT__EACH_MODULE(layer, m) {
        dt_weight_op op;
        if (s != DT_OK || weight_of(layer) == NULL || !dt__weight_op_of(layer, &op)) continue;
        s = DT__RESERVE(m->ctx, out->at, out->n, out->room);
        if (s != DT_OK) continue;
        dt__position *p = &out->at[out->n];
        *p = (dt__position){ .layer = layer };
        s = dt_hook_add(layer, DT_SITE_INPUT, count, out, NULL, &p->hook);
        out->n += s == DT_OK;
    }
    if (s == DT_OK) return DT_OK;
    dt__positions_end(out);
    dt__positions_free(out);
    return s;
}

void dt__positions_end(dt__positions *p)
{
    for (int64_t i = 0; i < p->n; i++) dt_unhook(p->at[i].layer, p->at[i].hook);
}

void dt__positions_free(dt__positions *p)
{
    dt__release(p->ctx, p->at);
    p->at = NULL;
    p->n = p->room = 0;
}

double dt__positions_of(const dt__positions *p, const char *path)
{
    for (int64_t i = 0; i < p->n; i++) {
        const dt__position *at = &p->at[i];
        if (strcmp(at->layer->path, path) == 0 && at->batch > 0) return at->samples / at->batch;
    }
    return 0;
}

double dt__positions_products(const dt__positions *p)
{
    double all = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const dt_tensor *w = weight_of(p->at[i].layer);
        double elements = 1;
        for (int k = 0; k < w->rank; k++) elements *= (double)w->dims[k];
        all += p->at[i].samples * elements;
    }
    return all;
}
