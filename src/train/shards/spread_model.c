/* A model whose experts are spread: which tensors are cut, and both directions. Of each layer of
 * grouped weights these are the weight, the bias, and the static or learned scales of the weight,
 * each with the rows of its experts. Rank k of P has experts N k/P ... N (k+1)/P - 1 of N. Handles
 * stay the same, so optimizers, wrappers and tapes follow. */
#include "train/shards/spreading.h"

#include "kernels/convolution/row_map.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

#include <string.h>

/* ---- which tensors --------------------------------------------------------------------------- */

/* The tensors of a layer of which a rank has rows; the weight is the first. Returns how many. */
static int tensors_of(const dt_module *m, dt_tensor *to[4])
{
    int n = 0;
    if (m->type != &dt__nn_grouped_linear) return 0;
    const dt__entry *bias = dt__entry_find(m, "bias");
    const dt__quantizer *q = dt__quantizer_of(dt__quantizer_at(m, "weight"));
    to[n++] = dt__entry_find(m, "weight")->x;
    if (bias != NULL) to[n++] = bias->x;
    if (q != NULL && q->scale != NULL) to[n++] = q->scale;
    if (q != NULL && q->zero_point != NULL) to[n++] = q->zero_point;
    return n;
}

dt_status dt__spread_visit(dt_module *m, dt__visit_spread *visit, void *user)
{
    dt_tensor *x[4];
    DT__EACH_MODULE(layer, m) {
        const int n = tensors_of(layer, x);
        for (int i = 0; i < n; i++) DT__TRY(visit(user, x[i], layer));
    }
    return DT_OK;
}

int64_t dt__spread_experts(void *user, dt_module *m, const dt_tensor *p)
{
    dt_tensor *x[4];
    (void)user;
    DT__EACH_MODULE(layer, m) {
        const int n = tensors_of(layer, x);
        for (int i = 0; i < n; i++) {
            if (x[i] == p) return dt__whole_extent(x[0]);
        }
    }
    return 0;
}

/* ---- other rows for a handle ----------------------------------------------------------------- */

static size_t bytes_of(const dt_tensor *x, int64_t rows)
{
    return (size_t)(x->count / x->dims[0] * rows) * dt_dtype_size(x->dtype);
}

/* Gives the handle `rows` rows in `storage`, of which it takes a reference. */
static void give(dt_tensor *x, dt__storage *storage, int64_t rows, int32_t spread)
{
    dt_grad_clear(x);
    dt__detach_all(x); /* codes */
    x->count = x->count / x->dims[0] * rows;
    x->dims[0] = rows;
    x->offset = 0;
    x->spread = spread;
    dt__storage_retain(storage);
    dt__storage_release(x->storage);
    x->storage = storage;
}

/* Also the master of a FakeQuantTensor, whose storage it shares. */
static void give_all(dt_tensor *x, dt__storage *storage, int64_t rows, int32_t spread)
{
    storage->version = x->storage->version + 1;
    if (dt_is_fake_quant(x)) {
        dt__fq *fq = x->ext;
        give(fq->inner, storage, rows, spread);
        fq->map = dt__row_map_of_experts(rows);
    }
    give(x, storage, rows, spread);
    dt__storage_release(storage);
}

/* ---- cutting --------------------------------------------------------------------------------- */

bool dt__is_cut(dt_module *m)
{
    dt_tensor *x[4];
    DT__EACH_MODULE(layer, m) {
        const int n = tensors_of(layer, x);
        for (int i = 0; i < n; i++) {
            if (dt__is_spread(x[i])) return true;
        }
    }
    return false;
}

typedef struct cutting {
    dt_ctx *ctx;
    const dt__spreading *s;
    bool was_cut;
} cutting;

static dt_status cut(void *user, dt_tensor *x, dt_module *layer)
{
    cutting *c = user;
    const int64_t all = dt__whole_extent(dt__entry_find(layer, "weight")->x);
    int64_t range[2];
    dt__experts_of_rank(all, c->s->rank, c->s->ranks, range);
    if (dt__is_spread(x)) return DT_OK;
    if (c->was_cut) {
        x->spread = (int32_t)all;
        return DT_OK;
    }
    const int64_t each = x->dims[0] / all, n = range[1] - range[0];
    const size_t bytes = bytes_of(x, each * n), before = bytes_of(x, each * range[0]);
    dt__storage *storage = dt__storage_create(c->ctx, bytes);
    if (storage == NULL) return DT_ERR_NOMEM;
    memcpy(storage->data, (const char *)dt__values(x) + before, bytes);
    give_all(x, storage, each * n, (int32_t)all);
    return DT_OK;
}

dt_status dt__spread_cut(dt_ctx *ctx, dt_module *m)
{
    cutting c = { .ctx = ctx, .s = dt__spreading_of(ctx), .was_cut = dt__is_cut(m) };
    if (c.s == NULL) return DT_OK;
    const dt_status status = dt__spread_visit(m, cut, &c);
    dt__module_changed(m);
    return status;
}

/* ---- joining --------------------------------------------------------------------------------- */

typedef struct joining {
    dt_ctx *ctx;
    const dt__spreading *s;
    dt__segment *part; /* [ranks] */
} joining;

static dt_status join(void *user, dt_tensor *x, dt_module *layer)
{
    const joining *j = user;
    const dt__spreading *s = j->s;
    (void)layer;
    if (!dt__is_spread(x)) return DT_OK;
    const int64_t all = x->spread, each = x->dims[0] / dt__own_count(x);
    dt__storage *storage = dt__storage_create(j->ctx, bytes_of(x, each * all));
    const dt_status made = storage == NULL ? DT_ERR_NOMEM : DT_OK;
    dt_status status = dt__cluster_meet(s->cluster, DT__MEETING, made);
    for (int k = 0; k < s->ranks && status == DT_OK; k++) {
        int64_t range[2];
        dt__experts_of_rank(all, k, s->ranks, range);
        char *at = (char *)storage->data + bytes_of(x, each * range[0]);
        j->part[k] = (dt__segment){ at, bytes_of(x, each * (range[1] - range[0])) };
    }
    if (status == DT_OK) {
        memcpy(j->part[s->rank].data, dt__values(x), j->part[s->rank].bytes);
        status = dt__cluster_gather_parts(s->cluster, "experts", j->part, -1);
    }
    if (status == DT_OK) give_all(x, storage, each * all, 0);
    else dt__storage_release(storage);
    return status;
}

dt_status dt__spread_join(dt_ctx *ctx, dt_module *m)
{
    joining j = { .ctx = ctx, .s = dt__spreading_of(ctx) };
    if (j.s == NULL) return DT_OK;
    j.part = dt__alloc_array(ctx, j.s->ranks, sizeof *j.part);
    dt_status status = j.part == NULL ? DT_ERR_NOMEM : DT_OK;
    status = dt__cluster_meet(j.s->cluster, DT__MEETING, status);
    if (status == DT_OK) status = dt__spread_visit(m, join, &j);
    dt__module_changed(m);
    dt__release(ctx, j.part);
    return status;
}
