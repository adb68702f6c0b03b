/* A model whose experts are spread: selects the tensors to cut, cuts them, and joins them again. In
 * each layer with grouped weights these are the weight, the bias, and the static or learned scales
 * of the weight; each rank has the rows of its experts. Rank k of P has experts N k/P ... N (k+1)/P
 * - 1 of N. Handles stay the same, so optimizers, wrappers and tapes follow. */
#include "cluster/experts/spreading.h"

#include "kernels/convolution/row_map.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

#include <string.h>

int dt__spread_tensors(const dt_module *m, dt_tensor *to[4])
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

int64_t dt__spread_experts(void *user, dt_module *m, const dt_tensor *p)
{
    dt_tensor *x[4];
    (void)user;
    DT__EACH_MODULE(layer, m) {
        const int n = dt__spread_tensors(layer, x);
        for (int i = 0; i < n; i++) {
            if (x[i] == p) return dt__whole_extent(x[0]);
        }
    }
    return 0;
}

static size_t bytes_of(const dt_tensor *x, int64_t rows)
{
    return (size_t)(x->count / x->dims[0] * rows) * dt_dtype_size(x->dtype);
}

/* Sets the handle to `rows` rows of `storage`, with a reference on it. */
static void give(dt_tensor *x, dt__storage *storage, int64_t rows, int32_t spread)
{
    dt_grad_clear(x);
    dt__detach_all(x); /* drops cached codes */
    x->count = x->count / x->dims[0] * rows;
    x->dims[0] = rows;
    x->offset = 0;
    x->spread = spread;
    dt__storage_retain(storage);
    dt__storage_release(x->storage);
    x->storage = storage;
}

/* Cuts a tensor; a FakeQuantTensor together with its master, whose storage it shares. */
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

bool dt__spread_is_cut(void *user, dt_module *m)
{
    dt_tensor *x[4];
    (void)user;
    DT__EACH_MODULE(layer, m) {
        const int n = dt__spread_tensors(layer, x);
        for (int i = 0; i < n; i++) {
            if (dt__is_spread(x[i])) return true;
        }
    }
    return false;
}

static dt_status cut(const dt__spreading *s, dt_tensor *x, int64_t all, bool was_cut)
{
    int64_t range[2];
    dt__experts_of_rank(all, s->rank, s->ranks, range);
    if (dt__is_spread(x)) return DT_OK;
    if (was_cut) {
        x->spread = (int32_t)all;
        return DT_OK;
    }
    const int64_t each = x->dims[0] / all, n = range[1] - range[0];
    const size_t bytes = bytes_of(x, each * n), before = bytes_of(x, each * range[0]);
    dt__storage *storage = dt__storage_create(s->ctx, bytes);
    if (storage == NULL) return DT_ERR_NOMEM;
    memcpy(storage->data, (const char *)dt__values(x) + before, bytes);
    give_all(x, storage, each * n, (int32_t)all);
    return DT_OK;
}

dt_status dt__spread_cut_model(void *user, dt_module *m)
{
    const dt__spreading *s = user;
    const bool was_cut = dt__spread_is_cut(user, m);
    dt_status status = DT_OK;
    dt_tensor *x[4];
    DT__EACH_MODULE(layer, m) {
        const int n = dt__spread_tensors(layer, x);
        const int64_t all = n > 0 ? dt__whole_extent(x[0]) : 0;
        for (int i = 0; i < n && status == DT_OK; i++) status = cut(s, x[i], all, was_cut);
    }
    dt__module_changed(m);
    return status;
}

/* part: [ranks] */
static dt_status join(const dt__spreading *s, dt_tensor *x, dt__segment *part)
{
    if (!dt__is_spread(x)) return DT_OK;
    const int64_t all = x->spread, each = x->dims[0] / dt__own_count(x);
    dt__storage *storage = dt__storage_create(s->ctx, bytes_of(x, each * all));
    const dt_status made = storage == NULL ? DT_ERR_NOMEM : DT_OK;
    dt_status status = dt__cluster_meet(s->cluster, DT__MEETING, made);
    for (int k = 0; k < s->ranks && status == DT_OK; k++) {
        int64_t range[2];
        dt__experts_of_rank(all, k, s->ranks, range);
        char *at = (char *)storage->data + bytes_of(x, each * range[0]);
        part[k] = (dt__segment){ at, bytes_of(x, each * (range[1] - range[0])) };
    }
    if (status == DT_OK) {
        memcpy(part[s->rank].data, dt__values(x), part[s->rank].bytes);
        status = dt__cluster_gather_parts(s->cluster, "experts", part, -1);
    }
    if (status == DT_OK) give_all(x, storage, each * all, 0);
    else dt__storage_release(storage);
    return status;
}

dt_status dt__spread_join_model(void *user, dt_module *m)
{
    const dt__spreading *s = user;
    dt_tensor *x[4];
    dt__segment *part = dt__alloc_array(s->ctx, s->ranks, sizeof *part);
    dt_status status = part == NULL ? DT_ERR_NOMEM : DT_OK;
    status = dt__cluster_meet(s->cluster, DT__MEETING, status);
    DT__EACH_MODULE(layer, m) {
        const int n = dt__spread_tensors(layer, x);
        for (int i = 0; i < n && status == DT_OK; i++) status = join(s, x[i], part);
    }
    dt__module_changed(m);
    dt__release(s->ctx, part);
    return status;
}
