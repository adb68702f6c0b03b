/* Freezing of weights that oscillate between two codes.   [Nagel et al. 2022, Overcoming
 * Oscillations in Quantization-Aware Training, section 4.2, algorithm 1]
 *
 * After each update, for each weight with code q:
 *     o     1 where q changed against the direction of its last change, else 0
 *     f     m o + (1 - m) f           frequency of oscillation, from 0
 *     mean  m q + (1 - m) mean        from the first q
 *     f > threshold: it is frozen to the level nearest to the mean, from now on
 *
 * Where a frozen weight has another code after an update, it is set to the value of its frozen code
 * by the present scale: the integer is frozen, not the value. Where it has the frozen code, it is
 * left as it is.
 *
 * Ranges must be static or learned, or scales the mean of magnitudes. A scale that follows the
 * largest weight changes the codes of all others with it: they would be frozen at once.
 *
 * Weights of more than 4 bits are not frozen: their levels are so close together that their codes
 * change direction at most updates.
 *
 * Codes of a folded weight W' = W f (nn/fold.h) do not change with f, so the value, divided by f,
 * is written to W. */
#include "qat/training/freeze.h"

#include "autograd/tape.h"
#include "autograd/write.h"
#include "nn/fold.h"
#include "nn/layers/lora.h"
#include "qat/derived_quant.h"
#include "qat/folded_range.h"
#include "qat/schemes/scheme.h"
#include "qat/training/gap.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST_BITS = 4 };
enum { FREQUENCY, MEAN, CODE, TURN, SLOTS };
/* Values of slot TURN: the direction of the last change. UNSEEN: before the first update. */
enum { UNSEEN, STILL, ROSE, FELL, FROZEN, TURNS };

static const char *const slot_names[SLOTS] = { "frequency", "mean", "code", "turn" };

/* The state of a weight: tensors [rows, columns] like its codes. */
typedef struct item {
    const dt_tensor *w;
    dt_tensor *slot[SLOTS];
} item;

struct dt_freezer {
    dt_ctx *ctx;
    dt_module *m;
    item *item;
    int64_t n, room;
};

/* ---- life ------------------------------------------------------------------------------------ */

dt_status dt_freezer_create(dt_module *m, dt_freezer **out)
{
    DT__NEED2(dt_module_ctx(m), m, out);
    *out = NULL;
    dt_freezer *f = dt__alloc(m->ctx, sizeof *f);
    if (f == NULL) return DT_ERR_NOMEM;
    *f = (dt_freezer){ .ctx = m->ctx, .m = m };
    dt__ctx_retain(f->ctx);
    *out = f;
    return DT_OK;
}

void dt_freezer_free(dt_freezer *f)
{
    if (f == NULL) return;
    dt_ctx *ctx = f->ctx;
    for (int64_t i = 0; i < f->n; i++) {
        for (int k = 0; k < SLOTS; k++) dt_tensor_free(f->item[i].slot[k]);
    }
    dt__release(ctx, f->item);
    dt__release(ctx, f);
    dt__ctx_release(ctx);
}

/* The settings of a layer's weight that can be frozen; NULL: it has none. */
static const dt__fq *quant_of(const dt_module *root, const dt_module *layer)
{
    const dt__fq *found = dt__layer_quant(layer);
    if (found == NULL || found->quant.bits > MOST_BITS) return NULL;
    if (dt__derived_quant(layer) != NULL) return found;
    return dt__entry_is_first(root, dt__entry_find(layer, "weight")) ? found : NULL;
}

static dt_status make_item(item *out, const dt_tensor *w, const dt__fq *fq)
{
    static const dt_dtype dtypes[SLOTS] = { DT_F32, DT_F32, DT_I8, DT_I8 };
    int64_t dims[DT_MAX_RANK] = { 0 };
    const dt__weight_shape shape = dt__weight_shape_of(w, &fq->map);
    dt__matrix_dims(&shape, dims);
    dims[1] = dims[0] > 0 ? w->count / dims[0] : 0;
    for (int k = 0; k < SLOTS; k++) {
        DT__TRY(dt_tensor_create(w->ctx, dtypes[k], 2, dims, &out->slot[k]));
    }
    return DT_OK;
}

static dt_status check_layer(const dt_module *layer, const dt__fq *fq)
{
    const dt__scheme *scheme = dt__scheme_of(fq->quant.scheme);
    if (dt__has_lora(layer)) {
        return dt_fail(layer->ctx, DT_ERR_UNSUPPORTED,
                       "freeze: %s has an adapter, so the sum of both is quantized, and the "
                       "weight cannot be frozen alone",
                       layer->path);
    }
    if (scheme->mean || fq->quant.range != DT_RANGE_DYNAMIC) return DT_OK;
    return dt_fail(layer->ctx, DT_ERR_UNSUPPORTED,
                   "freeze: %s has scheme %s with a dynamic range: its scale "
                   "follows the largest weight and changes the codes of all others; the range must "
                   "be static or learned",
                   layer->path, scheme->name);
}

/* Finds or creates (as zeros) the state of a layer's weight; *out NULL: it is not to be frozen. */
static dt_status item_of(dt_freezer *f, const dt_module *layer, item **out)
{
    *out = NULL;
    const dt__fq *fq = quant_of(f->m, layer);
    if (fq == NULL) return DT_OK;
    dt_tensor *w = dt__entry_find(layer, "weight")->x;
    DT__TRY(check_layer(layer, fq));
    for (int64_t i = 0; i < f->n; i++) {
        if (f->item[i].w == w) *out = &f->item[i];
    }
    if (*out != NULL) return DT_OK;
    DT__TRY(DT__RESERVE(f->ctx, f->item, f->n, f->room));
    item *made = &f->item[f->n++];
    *made = (item){ .w = w };
    DT__TRY(make_item(made, w, fq));
    *out = made;
    return DT_OK;
}

dt_status dt_freezer_visit(dt_freezer *f, dt_visit_slot visit, void *user)
{
    DT__NEED2(NULL, f, visit);
    DT__EACH_MODULE(layer, f->m) {
        item *of;
        DT__TRY(item_of(f, layer, &of));
        if (of == NULL) continue;
        for (int k = 0; k < SLOTS; k++) {
            DT__TRY(visit(user, slot_names[k], dt__entry_find(layer, "weight")->path, of->slot[k]));
        }
    }
    return DT_OK;
}

bool dt__frozen_is_sound(const char *slot, int64_t n, const void *data)
{
    const float *f = data;
    const int8_t *c = data;
    const bool share = strcmp(slot, slot_names[FREQUENCY]) == 0;
    const bool mean = strcmp(slot, slot_names[MEAN]) == 0;
    const bool turn = strcmp(slot, slot_names[TURN]) == 0;
    bool sound = true;
    for (int64_t i = 0; i < n && sound; i++) {
        if (share) sound = f[i] >= 0 && f[i] <= 1;
        else if (mean) sound = f[i] >= INT8_MIN && f[i] <= INT8_MAX;
        else if (turn) sound = c[i] >= UNSEEN && c[i] < TURNS;
    }
    return sound;
}

/* ---- one weight ------------------------------------------------------------------------------ */

typedef struct watching {
    const dt__gap *g;
    float momentum, threshold;
    float *frequency, *mean;
    int8_t *code, *turn;
    _Atomic int64_t frozen, wrong; /* frozen weights; those with another code than the frozen one */
} watching;

/* The level nearest to a mean of codes. */
static int8_t level_at(const dt__gap *g, float mean)
{
    if (g->levels == NULL) return (int8_t)fminf(fmaxf(rintf(mean), (float)g->qmin), (float)g->qmax);
    int best = 0;
    for (int i = 1; i < g->levels->n; i++) {
        const float further = fabsf(mean - g->levels->code[best]);
        if (fabsf(mean - g->levels->code[i]) < further) best = i;
    }
    return g->levels->code[best];
}

/* Updates the state of a weight that is not frozen. */
static void watch_one(const watching *of, int64_t i)
{
    const int q = of->g->code[i], before = of->code[i];
    of->code[i] = (int8_t)q;
    if (of->turn[i] == UNSEEN) {
        of->turn[i] = STILL;
        of->mean[i] = (float)q;
        return;
    }
    const int now = q > before ? ROSE : q < before ? FELL : STILL;
    const bool back = now != STILL && of->turn[i] != STILL && now != of->turn[i];
    of->frequency[i] += of->momentum * ((back ? 1.0F : 0.0F) - of->frequency[i]);
    of->mean[i] += of->momentum * ((float)q - of->mean[i]);
    if (now != STILL) of->turn[i] = (int8_t)now;
    if (of->frequency[i] <= of->threshold) return;
    of->turn[i] = FROZEN;
    of->code[i] = level_at(of->g, of->mean[i]);
}

static void watch_share(const void *args, const dt__share *share)
{
    watching *of = *(watching *const *)args;
    int64_t frozen = 0, wrong = 0;
    for (int64_t i = share->first * of->g->columns; i < share->past * of->g->columns; i++) {
        if (of->turn[i] != FROZEN) watch_one(of, i);
        if (of->turn[i] != FROZEN) continue;
        frozen++;
        wrong += of->code[i] != of->g->code[i];
    }
    atomic_fetch_add(&of->frozen, frozen);
    atomic_fetch_add(&of->wrong, wrong);
}

/* The value of an element with a given code, by the scale of its group. */
static float value_of(const dt__gap *g, int64_t row, int64_t column, int code)
{
    const int64_t block = row * g->groups + column / g->group;
    const int zero = g->zero == NULL ? 0 : g->zero[block];
    return (float)(code - zero) * g->scale[block];
}

/* Sets each frozen weight whose code changed to the value of its frozen code, divided by the fold
 * factor of `fold` (NULL: none). A row whose factor is 0 has no such value. */
static void put_back(const watching *of, const dt_module *fold, float *rows)
{
    const dt__gap *g = of->g;
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        if (of->turn[i] != FROZEN || of->code[i] == g->code[i]) continue;
        const int64_t row = i / g->columns;
        const double factor = fold == NULL ? 1 : dt__fold_factor_at(fold, row);
        const double w = (double)value_of(g, row, i % g->columns, of->code[i]) / factor;
        if (isfinite(w)) rows[i] = (float)w;
    }
}

static dt_status write_rows(const watching *of, const dt_module *fold, dt_tensor *w)
{
    const dt__gap *g = of->g;
    float *rows = NULL, *values = dt__values_mut(dt__write_open(w));
    dt_status s = DT_OK;
    if (dt__is_mapped(&g->map)) {
        rows = dt__alloc_array(w->ctx, w->count, sizeof *rows);
        if (rows == NULL) s = DT_ERR_NOMEM;
        else dt__rows_gather(&g->map, values, rows);
    }
    if (s == DT_OK) put_back(of, fold, rows != NULL ? rows : values);
    if (rows != NULL) dt__rows_scatter(&g->map, rows, values);
    dt__write_close(w);
    dt__release(w->ctx, rows);
    return s;
}

static dt_status freeze_weight(const item *of, dt_module *layer, dt__gap *g, watching *w)
{
    char why[DT__WHY_SIZE];
    dt_tensor *x = dt__entry_find(layer, "weight")->x;
    w->g = g;
    w->frequency = dt__values_mut(of->slot[FREQUENCY]);
    w->mean = dt__values_mut(of->slot[MEAN]);
    w->code = dt__values_mut(of->slot[CODE]);
    w->turn = dt__values_mut(of->slot[TURN]);
    if (dt__may_write(x, NULL, why) != DT__WRITABLE) {
        return dt_fail(x->ctx, DT_ERR_STATE, "freeze: %s %s", layer->path, why);
    }
    watching *const args = w;
    dt__team *const threads = dt__threads_enter(x->ctx);
    dt__parallel(g->rows, 2 * g->columns, watch_share, &args);
    dt__threads_leave(threads);
    if (atomic_load(&w->wrong) == 0) return DT_OK;
    return write_rows(w, dt__derived_quant(layer) != NULL ? layer : NULL, x);
}

/* ---- after an update ------------------------------------------------------------------------- */

/* The layer's weight as a FakeQuantTensor. */
static dt_tensor *quantized(dt_tape *t, const dt_module *layer)
{
    dt_tensor *x = dt__entry_find(layer, "weight")->x;
    const dt__fq *derived = dt__derived_quant(layer);
    if (derived == NULL) return x;
    dt_tensor *w = dt__derived_weight(t, layer, x);
    const dt__fq fq = dt__range_folded(t, layer, derived);
    return dt__fake_quant_as(t, w, &fq);
}

static dt_status freeze_layer(dt_freezer *f, dt_tape *t, dt_module *layer, watching *of)
{
    item *it;
    dt__gap g;
    DT__TRY(item_of(f, layer, &it));
    if (it == NULL || !dt_requires_grad(it->w)) return DT_OK;
    dt_tape_reset(t);
    dt_tensor *x = quantized(t, layer);
    DT__TRY(dt_tape_status(t));
    DT__TRY(dt__gap_open(t, x, NULL, &g));
    const dt_status s = g.rows == 0 ? DT_OK : freeze_weight(it, layer, &g, of);
    dt__gap_close(&g);
    return s;
}

dt_status dt_freezer_step(dt_freezer *f, dt_tape *t, double momentum, double threshold,
                          dt_frozen *out)
{
    DT__NEED2(NULL, f, t);
    if (!(momentum > 0 && momentum <= 1) || !(threshold > 0)) {
        return dt_fail(f->ctx, DT_ERR_ARG,
                       "freeze: momentum is %g and threshold %g; the first is above 0, at most 1, "
                       "the second above 0",
                       momentum, threshold);
    }
    dt_status s = DT_OK;
    dt_frozen sum = { 0 };
    const bool before = t->no_grad;
    dt_no_grad(t, true);
    for (dt_module *layer = f->m; layer != NULL && s == DT_OK;
         layer = dt__module_next(f->m, layer)) {
        watching of = { .momentum = (float)momentum, .threshold = (float)threshold };
        s = freeze_layer(f, t, layer, &of);
        sum.frozen += atomic_load(&of.frozen);
        if (of.g != NULL) sum.weights += dt__entry_find(layer, "weight")->x->count;
    }
    dt_tape_reset(t);
    dt_no_grad(t, before);
    if (out != NULL) *out = sum;
    return s;
}
