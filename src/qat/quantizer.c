/* The module "quantizer": scale and zero point of a static or learned range, and the state of its
 * observer.
 *
 *     <layer>.input.scale  .zero_point  .shift         in every model
 *     <layer>.input.lo  .hi  .count  .values           while batches may still be observed */
#include "qat/quantizer.h"
#include "qat/schemes/learned.h"
#include "qat/schemes/least_error.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <string.h>

static const dt_module_type type = { .name = "quantizer" };

static dt_status add(dt_module *m, const char *name, dt_dtype dtype, int64_t n, dt_tensor **x)
{
    const dt__quantizer *q = dt_module_state(m);
    const bool learned = q->quant.range == DT_RANGE_LEARNED && dtype == DT_F32 &&
                         (q->quant.scheme != DT_SCHEME_DEVICE || n == 2); /* both ends */
    DT__TRY(dt_tensor_create(m->ctx, dtype, 1, &n, x));
    const dt_status s = dt__module_add_tensor(
        m, name, *x,
        learned ? DT_PARAM : DT_BUFFER); /* the module owns the tensor, also after an error */
    if (s != DT_OK) *x = NULL;
    else (*x)->no_decay = true;
    return s;
}

static dt_status add_observed(dt_module *m, dt__quantizer *q)
{
    DT__TRY(add(m, "lo", DT_F32, 1, &q->lo));
    DT__TRY(add(m, "hi", DT_F32, 1, &q->hi));
    if (q->quant.observer != DT_OBSERVER_PERCENTILE) return DT_OK;
    return add(m, "values", DT_F32, q->quant.samples, &q->values);
}

/* Computes scale and zero point of a fixed range. */
static dt_status give_ends(const dt__quantizer *q)
{
    const float lo = (float)q->quant.low, hi = (float)q->quant.high;
    int8_t *zero = dt__values_mut(q->zero_point);
    if (dt__range_scale(&q->quant, lo, hi, dt__values_mut(q->scale), zero)) return DT_OK;
    return dt_fail(q->scale->ctx, DT_ERR_NUMERIC, "a range of %g ... %g has no finite scale",
                   (double)lo, (double)hi);
}

static dt_status build(dt_module *m, const dt__quantizer_size *size)
{
    dt__quantizer *q = dt_module_state(m);
    const int64_t scales = size->scales;
    DT__TRY(add(m, "scale", DT_F32, scales, &q->scale));
    DT__TRY(dt_fill(q->scale, 1.0));
    const bool ends = q->quant.scheme == DT_SCHEME_DEVICE && q->quant.range == DT_RANGE_LEARNED;
    if (ends && !size->fixed) DT__TRY(add(m, "ends", DT_F32, 2, &q->ends));
    if (q->quant.range == DT_RANGE_LEARNED && !ends) dt__learned_keep_positive(q->scale, &q->quant);
    if (q->quant.shift) DT__TRY(add(m, "shift", DT_F32, size->channels, &q->shift));
    if (dt__scheme_of(q->quant.scheme)->has_zero) {
        DT__TRY(add(m, "zero_point", DT_I8, scales, &q->zero_point));
    }
    if (q->quant.range == DT_RANGE_FIXED) return give_ends(q);
    if (size->fixed) return DT_OK;
    if (q->quant.range == DT_RANGE_STATIC && q->quant.activation) DT__TRY(add_observed(m, q));
    return add(m, "count", DT_I64, 1, &q->count);
}

dt_status dt__quantizer_create(dt_ctx *ctx, const dt_quant_spec *quant,
                               const dt__quantizer_size *size, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &type, sizeof(dt__quantizer), &m));
    *(dt__quantizer *)dt_module_state(m) = (dt__quantizer){ .quant = *quant };
    return dt__layer_done(build(m, size), m, out);
}

dt_status dt__quantizer_scales(const dt_tensor *weight, const dt__row_map *map,
                               const dt_quant_spec *quant, int64_t *scales)
{
    dt__cut cut;
    const dt__weight_shape shape = dt__weight_shape_of(weight, map);
    DT__TRY(dt__weight_cut(weight->ctx, quant, &shape, &cut));
    *scales = dt__cut_blocks(&cut);
    return DT_OK;
}

dt__quantizer *dt__quantizer_of(dt_module *m)
{
    return m != NULL && m->type == &type ? dt_module_state(m) : NULL;
}

dt_module *dt__quantizer_at(const dt_module *layer, const char *name)
{
    for (int64_t i = 0; i < layer->n_children; i++) {
        dt_module *child = layer->children[i];
        if (child->type == &type && strcmp(child->name, name) == 0) return child;
    }
    return NULL;
}

static int64_t count_of(const dt__quantizer *q) { return *(const int64_t *)dt__values(q->count); }

bool dt__quantizer_has_seen(const dt__quantizer *q) { return q->count == NULL || count_of(q) > 0; }

dt_status dt__quantizer_begin(const dt_tensor *x, const dt__row_map *map,
                              const dt__quantizer *range)
{
    return range->quant.range == DT_RANGE_LEARNED ? dt__learned_observe(x, map, range)
                                                  : dt__least_error_observe(x, map, range);
}

void dt__quantizer_fix(dt_module *m)
{
    static const char *const observed[] = { "lo", "hi", "values", "count", "ends" };
    dt__quantizer *q = dt_module_state(m);
    for (int i = 0; i < DT__COUNT_OF(observed); i++) dt__module_remove(m, observed[i]);
    q->lo = q->hi = q->values = q->count = q->ends = NULL;
}

static const float *floats(const dt_tensor *x) { return dt__values(x); }

static bool scales_are_sound(const dt__quantizer *q)
{
    const float most = 0x1p127f / (float)(1 << (q->quant.bits - 1));
    for (int64_t i = 0; i < q->scale->count; i++) {
        const float s = floats(q->scale)[i];
        if (!(s >= 0x1p-126f && s <= most)) return false;
    }
    return true;
}

static bool zeros_are_sound(const dt__quantizer *q)
{
    const int8_t *zero = q->zero_point == NULL ? NULL : dt__values(q->zero_point);
    for (int64_t i = 0; zero != NULL && i < q->zero_point->count; i++) {
        if (zero[i] < dt__qmin(&q->quant) || zero[i] > dt__qmax(&q->quant)) return false;
    }
    return true;
}

static bool shifts_are_sound(const dt__quantizer *q)
{
    for (int64_t i = 0; q->shift != NULL && i < q->shift->count; i++) {
        if (!isfinite(floats(q->shift)[i])) return false;
    }
    return true;
}

static bool values_are_sound(const dt__quantizer *q)
{
    for (int64_t i = 0; q->values != NULL && i < q->values->count; i++) {
        if (!isfinite(floats(q->values)[i])) return false;
    }
    for (int i = 0; q->ends != NULL && i < 2; i++) {
        if (!isfinite(floats(q->ends)[i])) return false;
    }
    if (q->lo == NULL) return true;
    const float lo = *floats(q->lo), hi = *floats(q->hi);
    return isfinite(lo) && isfinite(hi) && lo <= 0 && hi >= 0;
}

bool dt__quantizer_is_sound(const dt__quantizer *q, const char **why)
{
    *why = !scales_are_sound(q)                       ? "a scale is not a positive normal number"
           : !shifts_are_sound(q)                     ? "a shift is not finite"
           : !zeros_are_sound(q)                      ? "a zero point is outside the codes' range"
           : q->count != NULL && count_of(q) < 0      ? "a negative number of values was seen"
           : q->count != NULL && !values_are_sound(q) ? "the observed range is not finite"
                                                      : NULL;
    return *why == NULL;
}
