/* Convert: every FakeQuantTensor becomes packed integers, on the same handle. First all codes are
 * made, by the caller's rounder or by rounding to nearest, which gives the codes that the prepared
 * model computes with. Then the handles change, which cannot fail. Converting one layer works the
 * same way. */
#include "qat/convert.h"

#include "autograd/codes.h"
#include "autograd/tape.h"
#include "nn/module.h"
#include "qat/device/device_plan.h"
#include "qat/prepare.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>

typedef struct dt__conversion {
    dt_ctx *ctx;
    dt_module *m;
    const dt_rounder *rounder;
    const dt_code_rows *rows; /* codes chosen by the caller; NULL: none */
    dt_convert_report report;
    struct {
        dt_tensor *weight;
        dt__packed *packed;
        dt__derived derived; /* used where the layer's norm or adapter is merged */
    } * item;
    int64_t n, room;
} conversion;

static bool seen(const conversion *c, const dt_tensor *w)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (c->item[i].weight == w) return true; /* tied */
    }
    return false;
}

/* Copies a static or learned range for the rounder. */
void dt__give_range(const dt__fq *fq, int64_t blocks, float *scale, int8_t *zero_point)
{
    const float *s = fq->scale == NULL ? NULL : dt__values(fq->scale);
    const int8_t *z = fq->zero_point == NULL ? NULL : dt__values(fq->zero_point);
    const int64_t share = s == NULL ? 1 : dt__max_i64(1, blocks / dt__max_i64(1, fq->scale->count));
    for (int64_t i = 0; s != NULL && i < blocks; i++) {
        const int64_t at = i / share;
        scale[i] = s[at];
        if (zero_point != NULL) zero_point[i] = z == NULL ? 0 : z[at];
    }
}

/* A weight that is being rounded. */
typedef struct rounding {
    const char *path;
    dt_tensor *weight;
    const dt__fq *fq;
    const dt_tensor *master; /* the values to round */
    int64_t op_groups;
} rounding;

static dt_status layout_of(conversion *c, const rounding *r, dt__panel_layout *out)
{
    const dt__weight_shape shape = dt__weight_shape_of(r->master, &r->fq->map);
    return dt__weight_layout(c->ctx, &r->fq->quant, &shape, out);
}

static void free_rows(conversion *c, const dt_code_rows *rows)
{
    DT__RELEASE(c->ctx, rows->codes, rows->scale, rows->zero_point, rows->group_of);
}

/* Allocates the rounder's buffers and fills in a given range and consecutive groups. */
static dt_status make_rows(conversion *c, const rounding *r, const dt__panel_layout *l,
                           dt_code_rows *rows)
{
    const int64_t blocks = l->rows * l->groups, columns = r->op_groups * l->columns;
    const bool has_zero = dt__scheme_of(r->fq->quant.scheme)->has_zero;
    const bool groups_may_move = l->groups > 1 && r->fq->scale == NULL;
    *rows = (dt_code_rows){ .op_groups = r->op_groups };
    rows->codes = dt__alloc_array(c->ctx, l->rows, (size_t)l->columns);
    rows->scale = dt__alloc_array(c->ctx, blocks, sizeof(float));
    if (has_zero) rows->zero_point = dt__alloc_array(c->ctx, blocks, 1);
    if (groups_may_move) rows->group_of = dt__alloc_array(c->ctx, columns, sizeof(int32_t));
    if (rows->codes == NULL || rows->scale == NULL || (has_zero && rows->zero_point == NULL) ||
        (groups_may_move && rows->group_of == NULL)) {
        return DT_ERR_NOMEM;
    }
    dt__give_range(r->fq, blocks, rows->scale, rows->zero_point);
    for (int64_t i = 0; i < columns && groups_may_move; i++) {
        rows->group_of[i] = (int32_t)(i % l->columns / l->group);
    }
    return DT_OK;
}

/* Packs rows; fails with the weight's path if the rounder's groups are wrong. */
static dt_status take_rows(conversion *c, const rounding *r, const dt__panel_layout *l,
                           const dt_code_rows *rows, dt__codes **out)
{
    const dt_status s = dt__codes_from_rows(c->ctx, l, r->fq->simulated, rows, out);
    if (s != DT_ERR_ARG) return s;
    char text[DT__MESSAGE_SIZE / 2];
    snprintf(text, sizeof text, "%s", dt_error(c->ctx));
    return dt_fail(c->ctx, s, "convert: %s: %s", r->path, text);
}

/* Calls the rounder for `master`, the weight as a matrix of rows. */
static dt_status round_rows(conversion *c, const rounding *r, const dt_tensor *master,
                            dt__codes **out)
{
    dt__panel_layout layout;
    dt_code_rows rows;
    const dt_quant_spec *quant = &r->fq->quant;
    DT__TRY(layout_of(c, r, &layout));
    dt_status s = make_rows(c, r, &layout, &rows);
    if (s == DT_OK) s = c->rounder->round(c->rounder->user, r->path, master, quant, &rows);
    if (s == DT_OK) s = take_rows(c, r, &layout, &rows, out);
    free_rows(c, &rows);
    return s;
}

/* Packs the codes that the rounder chooses. It gets the weight with output rows first. */
static dt_status round_with(conversion *c, const rounding *r, dt__codes **out)
{
    dt_tensor *rows = NULL;
    if (dt__is_mapped(&r->fq->map)) DT__TRY(dt__matrix_of(r->master, &r->fq->map, &rows));
    const dt_status s = round_rows(c, r, rows != NULL ? rows : r->master, out);
    dt_tensor_free(rows);
    return s;
}

static dt_status pack_rows(conversion *c, const rounding *r, dt__codes **out)
{
    dt__panel_layout layout;
    DT__TRY(layout_of(c, r, &layout));
    return take_rows(c, r, &layout, c->rows, out);
}

static dt_status choose(conversion *c, const rounding *r, dt__codes **out)
{
    if (c->rows == NULL && c->rounder == NULL) {
        return dt_is_fake_quant(r->weight) ? dt__fq_codes(r->weight, out)
                                           : dt__codes_make(r->master, r->fq, r->path, out);
    }
    DT__TRY(c->rows != NULL ? pack_rows(c, r, out) : round_with(c, r, out));
    (*out)->map = r->fq->map;
    return DT_OK;
}

/* Adds an item for the parameter w. */
static dt_status add_item(conversion *c, const char *path, dt_tensor *w, const dt__fq *fq,
                          dt__packed **out)
{
    if (atomic_load(&w->storage->needed) > 0) {
        return dt_fail(c->ctx, DT_ERR_STATE,
                       "convert: %s is still needed by a tape; run backward or reset it", path);
    }
    DT__TRY(DT__RESERVE(c->ctx, c->item, c->n, c->room));
    dt__packed *packed = *out = dt__alloc(c->ctx, sizeof *packed);
    if (packed == NULL) return DT_ERR_NOMEM;
    *packed = (dt__packed){ .quant = fq->quant, .simulated = fq->simulated };
    c->item[c->n].derived = (dt__derived){ .layer = NULL };
    c->item[c->n].weight = w;
    c->item[c->n++].packed = packed;
    return DT_OK;
}

static void count(conversion *c, const dt_tensor *w, const dt__fq *fq, const dt__codes *codes)
{
    c->report.converted++;
    c->report.enabled += !fq->enabled;
    c->report.elements += w->count;
    c->report.clipped += codes->clipped;
}

/* Makes the codes of entry e of a layer if it is a prepared weight. */
static dt_status make_codes(conversion *c, const dt_module *layer, const dt__entry *e)
{
    dt_tensor *w = e->x;
    const char *path = dt__path_within(c->m, e->path);
    dt__packed *packed = NULL;
    if (e->kind != DT_PARAM || !dt_is_fake_quant(w) || seen(c, w)) return DT_OK;
    const dt__fq *fq = w->ext;
    DT__TRY(add_item(c, path, w, fq, &packed));
    const rounding r = { path, w, fq, fq->inner, dt__op_groups(layer) };
    DT__TRY(choose(c, &r, &packed->codes));
    count(c, w, fq, packed->codes);
    return DT_OK;
}

/* Makes the codes of the weight that a layer derives, if it derives one. */
static dt_status make_derived(conversion *c, dt_module *m)
{
    dt__packed *packed = NULL;
    const dt__fq *fq = dt__derived_quant(m);
    if (fq == NULL) return DT_OK;
    const dt__entry *weight = dt__entry_find(m, "weight");
    DT__TRY(add_item(c, weight->path, weight->x, fq, &packed));
    dt__derived *derived = &c->item[c->n - 1].derived;
    DT__TRY(dt__derived_begin(m, derived));
    const rounding r = { weight->path, weight->x, &derived->quant, derived->weight,
                         dt__op_groups(m) };
    DT__TRY(choose(c, &r, &packed->codes));
    count(c, weight->x, fq, packed->codes);
    c->report.folded += m->folding != DT__APART;
    return DT_OK;
}

static void finish(conversion *c, bool done)
{
    for (int64_t i = 0; i < c->n; i++) {
        dt__derived *derived = &c->item[i].derived;
        if (derived->layer != NULL) dt__derived_end(derived, done);
        if (done) {
            dt__packed_take(c->item[i].weight, c->item[i].packed);
        } else {
            dt__codes_release(c->item[i].packed->codes);
            dt__release(c->ctx, c->item[i].packed);
        }
    }
    dt__release(c->ctx, c->item);
}

static dt_status check_range(const dt_module *root, dt_module *m)
{
    const dt__input_hook *hook = dt__input_hook_of(m);
    if (dt__device_of(m) != NULL) return dt__device_check_ranges(dt__device_of(m), "convert");
    if (hook == NULL || hook->range == NULL || dt__quantizer_has_seen(hook->range)) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_STATE,
                   "convert: %s: the range of its input has seen no batch; train, or run batches "
                   "under dt_observe",
                   dt__path_within(root, m->path));
}

dt_status dt__check_ranges(dt_module *m)
{
    DT__EACH_MODULE(layer, m) DT__TRY(check_range(m, layer));
    return DT_OK;
}

static void settle_input(dt_module *m)
{
    dt__input_hook *hook = dt__input_hook_of(m);
    dt__device *device = dt__device_of(m);
    dt_module_free(dt__quantizer_at(m, "weight")); /* the codes have its scales now */
    if (device != NULL) {
        device->enabled = true;
        device->observing = false;
        dt__device_fix(device);
    }
    if (hook == NULL) return;
    hook->enabled = true;
    hook->observing = false;
    if (hook->range != NULL) dt__quantizer_fix(dt__quantizer_at(m, "input"));
}

static dt_status make_all(conversion *c)
{
    DT__EACH_MODULE(layer, c->m) {
        dt__device *device = dt__device_of(layer);
        if (device != NULL) DT__TRY(dt__device_probe(device, true));
    }
    DT__EACH_ENTRY(layer, e, c->m) DT__TRY(make_codes(c, layer, e));
    DT__EACH_MODULE(layer, c->m) DT__TRY(make_derived(c, layer));
    return DT_OK;
}

dt_status dt_convert(dt_module *m, const dt_rounder *rounder, dt_convert_report *report)
{
    DT__NEED(dt_module_ctx(m), m);
    conversion c = { .ctx = dt_module_ctx(m), .m = m, .rounder = rounder };
    if (!dt_is_prepared(m)) {
        return dt_fail(c.ctx, DT_ERR_STATE, "convert: the model is %s",
                       dt_is_converted(m) ? "converted already" : "not prepared");
    }
    c.report.unfolded = dt_unfolded_channels(m);
    dt_status s = dt__check_ranges(m);
    if (s == DT_OK) s = make_all(&c);
    if (s == DT_OK) s = dt__merge(m, false);
    finish(&c, s == DT_OK);
    if (s != DT_OK) return s;
    DT__EACH_MODULE(layer, m) settle_input(layer);
    if (report != NULL) *report = c.report;
    return DT_OK;
}

/* ---- one layer ------------------------------------------------------------------------------ */

static bool has_weight(const dt_module *m, const dt_tensor *weight)
{
    const dt__entry *own = dt__entry_find(m, "weight");
    return own != NULL && own->x == weight;
}

dt_status dt__convert_layer(dt_module *m, dt_module *layer, const dt_code_rows *rows)
{
    conversion c = { .ctx = m->ctx, .m = m, .rows = rows };
    if (dt__layer_quant(layer) == NULL) {
        return dt_fail(c.ctx, DT_ERR_STATE, "convert: %s has no weight that is prepared",
                       layer->path);
    }
    const dt__entry *weight = dt__entry_find(layer, "weight");
    dt_tensor *const x = weight->x;
    DT__EACH_MODULE(each, m) {
        if (has_weight(each, x)) DT__TRY(check_range(m, each));
    }
    const dt_status s =
        dt__derived_quant(layer) != NULL ? make_derived(&c, layer) : make_codes(&c, layer, weight);
    finish(&c, s == DT_OK);
    if (s != DT_OK) return s;
    const bool last = !dt_is_prepared(m);
    DT__EACH_MODULE(each, m) {
        if (last || has_weight(each, x)) settle_input(each);
    }
    if (!last) return DT_OK;
    return dt__merge(m, false);
}

void dt_freeze(dt_module *m)
{
    DT__EACH_ENTRY(layer, e, m) {
        if (e->x->storage != NULL) e->x->storage->frozen = true;
    }
}
