/* The fake_quant kind: a handle whose value is the dequantized value of an fp32 master.
 *
 *     value    x^ = (q - z) * s while enabled, the master while disabled
 *     pullback straight-through: dx = dy, with ste `clipped` only where no code was clipped. dx is
 *              the gradient of the handle itself if it is a leaf, else of the tensor that it wraps.
 *              A learned scale gets a gradient too: learned.c. Other estimators of a weight's
 *              gradient: estimate.c.
 *
 * [the wrapper that keeps a master: torchao's AffineFakeQuantizedTensor] */
#include "autograd/codes.h"
#include "autograd/tape.h"
#include "qat/training/gap.h"
#include "qat/schemes/learned.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>

static dt__fq *fq_of(const dt_tensor *x) { return x->ext; }

/* ---- the four questions --------------------------------------------------------------------- */

/* Appends the module that reads an activation to the message, since an activation has no name. */
static dt_status blame(const dt_tape *t, const dt_tensor *x, dt_status s)
{
    if (s != DT_ERR_NUMERIC || x->name != NULL || t == NULL || t->where == NULL) return s;
    char text[DT__MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", dt_error(t->ctx));
    return dt_fail(t->ctx, s, "%s in %s", text, t->where);
}

static dt_tensor *whole_of(dt_tensor *x) { return x == NULL || x->whole == NULL ? x : x->whole; }

/* Initializes the static or learned range of a weight when its codes are first needed in training;
 * of a grouped weight those of all experts at once. */
static dt_status begin(dt_tape *t, dt_tensor *x)
{
    const dt__fq *fq = fq_of(x);
    if (fq->count == NULL || t == NULL || t->no_grad || !dt_requires_grad(x)) return DT_OK;
    const dt__quantizer range = { .quant = fq->quant,
                                  .scale = whole_of(fq->scale),
                                  .zero_point = whole_of(fq->zero_point),
                                  .count = fq->count };
    if (dt__quantizer_has_seen(&range)) return DT_OK;
    const dt_tensor *all = whole_of(fq->inner);
    dt__row_map map = fq->map;
    if (all->grouped) map.experts = all->dims[0];
    return dt__quantizer_begin(all, &map, &range);
}

dt_status dt__fq_made(dt_tape *t, dt_tensor *x, dt__codes **out)
{
    *out = NULL;
    if (!fq_of(x)->enabled) return DT_OK;
    DT__TRY(begin(t, x));
    return blame(t, x, dt__fq_codes(x, out));
}

/* Codes that are floats are not multiplied: ops get their dequantized values instead. */
static dt_status codes(dt_tape *t, dt_tensor *x, dt__codes **out)
{
    *out = NULL;
    return dt__real_of(&fq_of(x)->quant) != NULL ? DT_OK : dt__fq_made(t, x, out);
}

static dt_status value(dt_tape *t, dt_tensor *x, dt_tensor **dense, dt__codes **used)
{
    DT__TRY(dt__fq_made(t, x, used));
    if (*used == NULL) return dt__view(t->ctx, x, dense);
    return dt__dequantized(t->ctx, x, *used, dense);
}

static dt_tensor *inner(dt_tensor *x) { return fq_of(x)->inner; }

static bool is_clipped(const dt_tensor *x) { return dt__ste_clipped(&fq_of(x)->quant); }

static bool is_learned(const dt_tensor *x) { return fq_of(x)->quant.range == DT_RANGE_LEARNED; }

static bool keeps_codes(const dt_tensor *x, const dt__codes *used)
{
    if (is_learned(x) || fq_of(x)->estimator != DT_ESTIMATOR_STE) return true;
    return is_clipped(x) && used->mask != NULL;
}

/* dx = dy where the code was not clipped, else 0, in place. The mask has the rows of the codes. */
static dt_status clip(dt_tape *t, dt_tensor *x, dt_tensor *d, const dt__codes *used)
{
    const dt__row_map *map = &used->map;
    const dt__weight_shape shape = dt__weight_shape_of(x, map);
    dt__cut cut;
    DT__TRY(dt__weight_cut(t->ctx, &fq_of(x)->quant, &shape, &cut));
    if (!dt__is_mapped(map)) {
        dt__pass_gradient(t->ctx, &cut, used->mask, dt__values(d), dt__values_mut(d));
        return DT_OK;
    }
    float *rows = dt__alloc_array(t->ctx, x->count, sizeof *rows);
    if (rows == NULL) return DT_ERR_NOMEM;
    dt__rows_gather(map, dt__values(d), rows);
    dt__pass_gradient(t->ctx, &cut, used->mask, rows, rows);
    dt__rows_scatter(map, rows, dt__values_mut(d));
    dt__release(t->ctx, rows);
    return DT_OK;
}

static dt_status pullback(dt_tape *t, dt_tensor *x, dt_tensor *dvalue, dt__codes *used)
{
    const bool masks = used != NULL && (is_learned(x) || (is_clipped(x) && used->mask != NULL));
    dt_status s = !masks          ? DT_OK
                  : is_learned(x) ? dt__learned_pullback(t, x, dvalue, used)
                                  : clip(t, x, dvalue, used);
    if (s == DT_OK && used != NULL && fq_of(x)->estimator != DT_ESTIMATOR_STE) {
        s = dt__estimate(t, x, dvalue, used);
    }
    dt_tensor *to = fq_of(x)->inner;
    const bool stops = x->tape != NULL &&
                       (to == NULL || !dt_requires_grad(to)); /* only the scale needs a gradient */
    if (s != DT_OK || stops) {
        dt_tensor_free(dvalue);
        return s;
    }
    if (x->tape == NULL) return dt__accumulate(t, x, dvalue);
    return dt__kind_of(to)->pullback(t, to, dvalue, NULL);
}

/* The tape dropped an activation of this pass: the wrapped tensor, with its codes, is freed unless
 * backward still needs it. */
static void dropped(dt_tensor *x)
{
    dt__fq *fq = fq_of(x);
    const bool rereads =
        x->requires_grad && !fq->quant.activation; /* for the gradient of a learned scale */
    if (fq->inner == NULL || dt_requires_grad(fq->inner) || rereads) return;
    dt_tensor_free(fq->inner);
    fq->inner = NULL;
}

static size_t print(const dt_tensor *x, char *text, size_t size)
{
    const dt__fq *fq = fq_of(x);
    char shape[192], scheme[96];
    return (size_t)snprintf(
        text, size, "fake_quant(%s, %s) %s", dt__quant_text(&fq->quant, scheme, sizeof scheme),
        fq->enabled ? "enabled" : "disabled", dt__shape_text(x, true, shape, sizeof shape));
}

/* ---- life ------------------------------------------------------------------------------------ */

static void drop(dt_tensor *x)
{
    dt__fq *fq = fq_of(x);
    x->ext = NULL;
    DT__TENSORS_FREE(fq->inner, fq->scale, fq->zero_point, fq->count);
    dt__release(x->ctx, fq);
}

/* Makes the dense handle x a wrapper of `to`, with a reference on it. */
static dt_status wrap(dt_tensor *x, dt_tensor *to, const dt__fq *like)
{
    dt__fq *fq = dt__alloc(x->ctx, sizeof *fq);
    if (fq == NULL) return DT_ERR_NOMEM;
    *fq = *like;
    if (!fq->quant.activation && x->grouped) fq->map = dt__row_map_of_experts(x->dims[0]);
    fq->inner = to;
    dt__retain(to);
    if (fq->scale != NULL) dt__retain(fq->scale);
    if (fq->zero_point != NULL) dt__retain(fq->zero_point);
    if (fq->count != NULL) dt__retain(fq->count);
    x->kind = &dt__fake_quant_kind;
    x->ext = fq;
    x->drop_ext = drop;
    return DT_OK;
}

static dt_status clone(dt_tensor *x, dt_tensor *copy)
{
    return wrap(copy, fq_of(x)->inner, fq_of(x));
}

/* Part i of n of a static or learned range; *out = NULL if `range` is NULL. */
static dt_status part_of(dt_tensor *range, int64_t i, int64_t n, dt_tensor **out)
{
    *out = NULL;
    return range == NULL ? DT_OK : dt__portion(range, i, n, out);
}

/* Wraps one expert's part of the master. The cache of codes is attached to that part; its scales
 * are views of the scales of all experts. */
static dt_status make_expert(dt_tensor *x, int64_t i, dt_tensor *expert)
{
    const dt__fq *of = fq_of(x);
    const int64_t n = x->dims[0];
    if (of->inner == NULL) return dt_fail(x->ctx, DT_ERR_STATE, "grouped_expert: w was dropped");
    dt__fq fq = *of;
    fq.map.experts = 0;
    fq.renewal = NULL;
    dt_tensor *master = dt_grouped_expert(of->inner, i);
    dt_status s = master == NULL ? x->ctx->status : part_of(of->scale, i, n, &fq.scale);
    if (s == DT_OK) s = part_of(of->zero_point, i, n, &fq.zero_point);
    else fq.scale = fq.zero_point = NULL;
    if (s == DT_OK) s = wrap(expert, master, &fq);
    dt_tensor_free(master); /* the wrapper holds them */
    DT__TENSORS_FREE(fq.scale, fq.zero_point);
    return s;
}

const dt__kind dt__fake_quant_kind = {
    .name = "fake_quant",
    .value = value,
    .codes = codes,
    .inner = inner,
    .pullback = pullback,
    .keeps_codes = keeps_codes,
    .write_begin = dt__fq_write_begin,
    .written = dt__fq_written,
    .write_end = dt__fq_write_end,
    .dropped = dropped,
    .clone = clone,
    .expert = make_expert,
    .print = print,
};

dt_status dt__fq_wrap(dt_tensor *w, const dt__fq *like)
{
    dt_tensor *master;
    DT__TRY(dt__view(w->ctx, w, &master));
    dt__fq fq = *like;
    fq.enabled = true;
    const dt_status s = wrap(w, master, &fq);
    dt_tensor_free(master); /* the wrapper holds it */
    return s;
}

void dt__fq_unwrap(dt_tensor *w)
{
    drop(w);
    w->kind = NULL;
    w->drop_ext = NULL;
}

/* ---- for a pass ------------------------------------------------------------------------------ */

/* Whether codes must keep values for backward. Codes of a module's weight need not: backward reads
 * the weight itself. */
static bool keeps(const dt_tensor *wrapper, const dt_tensor *x, const dt__fq *like)
{
    const bool read = like->quant.range == DT_RANGE_LEARNED || like->estimator != DT_ESTIMATOR_STE;
    return read && wrapper->requires_grad && (like->quant.activation || x->tape != NULL);
}

static dt_status make_wrapper(dt_tape *t, dt_tensor *x, const dt__fq *like, dt_tensor **out)
{
    if (x->dropped) return dt_fail(t->ctx, DT_ERR_STATE, "fake_quant: the tensor was dropped");
    if (x->kind != NULL) {
        return dt_fail(t->ctx, DT_ERR_STATE, "fake_quant: x is a %s tensor already", x->kind->name);
    }
    if (x->dtype != DT_F32) {
        return dt_fail(t->ctx, DT_ERR_DTYPE, "fake_quant: schemes take f32, not %s",
                       dt_dtype_name(x->dtype));
    }
    DT__TRY(dt__quant_check(t->ctx, &like->quant, DT__QUANT_TENSOR));
    if (like->quant.range != DT_RANGE_DYNAMIC && like->scale == NULL) {
        return dt_fail(t->ctx, DT_ERR_ARG, "fake_quant: a %s",
                       like->quant.range == DT_RANGE_LEARNED
                           ? "learned range requires a scale; dt_fake_quant_learned takes one"
                           : "static range belongs to a module; dt_prepare makes it");
    }
    DT__TRY(dt__view(t->ctx, x, out));
    const dt_status s = wrap(*out, x, like);
    if (s != DT_OK) {
        dt_tensor_free(*out);
        return s;
    }
    const bool wanted =
        dt_requires_grad(x) || (like->scale != NULL && dt_requires_grad(like->scale));
    (*out)->requires_grad = wanted && !t->no_grad;
    fq_of(*out)->keeps = keeps(*out, x, like);
    return dt__tape_lend(t, *out);
}

dt_tensor *dt__fake_quant_as(dt_tape *t, dt_tensor *x, const dt__fq *like)
{
    if (t->status != DT_OK || x == NULL) return NULL;
    dt_tensor *y = NULL;
    const dt_status s = make_wrapper(t, x, like, &y);
    if (s == DT_OK) return y;
    dt__tape_adopt(t, s);
    return NULL;
}

dt_tensor *dt_fake_quant(dt_tape *t, dt_tensor *x, const dt_quant_spec *quant, bool enabled)
{
    if (t == NULL) return NULL;
    const dt__fq fq = { .quant = quant != NULL ? *quant : dt_activation_quant_defaults(),
                        .enabled = enabled };
    return dt__fake_quant_as(t, x, &fq);
}

/* ---- learned ranges -------------------------------------------------------------------------- */

static dt_status check_scale(dt_ctx *ctx, const dt_quant_spec *quant, const dt_tensor *scale)
{
    if (quant == NULL || quant->range != DT_RANGE_LEARNED) {
        return dt_fail(ctx, DT_ERR_CONFIG, "fake_quant: the settings must have a learned range");
    }
    if (scale == NULL || scale->kind != NULL || scale->dtype != DT_F32 || scale->storage == NULL ||
        !dt_is_contiguous(scale)) {
        return dt_fail(ctx, DT_ERR_ARG, "fake_quant: the scale must be a plain f32 tensor");
    }
    return DT_OK;
}

dt_tensor *dt_fake_quant_learned(dt_tape *t, dt_tensor *x, const dt_quant_spec *quant,
                                 dt_tensor *scale)
{
    if (t == NULL) return NULL;
    if (t->status != DT_OK) return NULL;
    const dt_status s = check_scale(t->ctx, quant, scale);
    if (s != DT_OK) {
        dt__tape_adopt(t, s);
        return NULL;
    }
    return dt__fake_quant_as(t, x, &(dt__fq){ .quant = *quant, .enabled = true, .scale = scale });
}

/* ---- questions of users ---------------------------------------------------------------------- */

dt_tensor *dt_inner(dt_tensor *x)
{
    if (x == NULL) return NULL;
    const dt__kind *kind = dt__kind_of(x);
    if (kind->inner != NULL) return kind->inner(x);
    dt_fail(x->ctx, DT_ERR_STATE, "dt_inner: a %s tensor has no master", kind->name);
    return NULL;
}

bool dt_is_fake_quant(const dt_tensor *x)
{
    if (x == NULL) return false;
    return x->kind == &dt__fake_quant_kind;
}

dt_status dt_fake_quant_enable(dt_tensor *x, bool on)
{
    DT__NEED(dt_ctx_of(x), x);
    if (!dt_is_fake_quant(x)) {
        return dt_fail(x->ctx, DT_ERR_STATE,
                       "fake_quant_enable: a %s tensor is not a FakeQuantTensor",
                       dt__kind_of(x)->name);
    }
    fq_of(x)->enabled = on;
    return DT_OK;
}
