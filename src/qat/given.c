/* Prepares one layer with given scales (given.h). An observer of the range starts from the ends
 * that scale and zero point imply. */
#include "qat/given.h"

#include "qat/prepare.h"
#include "qat/schemes/scheme.h"

#include <string.h>

dt_quant_spec dt__given_weight_spec(int bits, bool has_zero)
{
    dt_quant_spec quant = dt_weight_quant_defaults();
    quant.bits = bits;
    quant.scheme = has_zero ? DT_SCHEME_ASYMMETRIC : DT_SCHEME_SYMMETRIC;
    quant.granularity = DT_PER_CHANNEL;
    quant.range = DT_RANGE_STATIC;
    quant.observer = DT_OBSERVER_MSE;
    return quant;
}

dt_quant_spec dt__given_input_spec(int bits, bool dynamic)
{
    dt_quant_spec weight, quant;
    dt_qat_preset(DT_INT8_STATIC_INT8_WEIGHT, &weight, &quant);
    quant.bits = bits;
    if (dynamic) quant.range = DT_RANGE_DYNAMIC;
    return quant;
}

static dt_status check(dt_ctx *ctx, const dt__given *given)
{
    dt__quant_fault fault;
    if (dt__quant_is_valid(&given->quant, DT__QUANT_MODEL, &fault)) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "%s", fault.text);
}

/* Sets the observed range to the dequantized values of the lowest and the highest code. */
static dt_status give_ends(const dt__quantizer *q, const dt__given *given)
{
    const int zero = given->zero == NULL ? 0 : given->zero[0];
    const double s = (double)given->scale[0];
    DT__TRY(dt_fill(q->lo, s * (double)(dt__qmin(&q->quant) - zero)));
    return dt_fill(q->hi, s * (double)(dt__qmax(&q->quant) - zero));
}

dt_status dt__give_scales(dt_module *range, const dt__given *given)
{
    dt__quantizer *q = dt__quantizer_of(range);
    const char *why;
    if (q->scale->count != given->scales) {
        return dt_fail(range->ctx, DT_ERR_FORMAT, "%lld scales for %lld blocks of a weight",
                       (long long)given->scales, (long long)q->scale->count);
    }
    float *scale = dt_data_mut(q->scale);
    memcpy(scale, given->scale, (size_t)given->scales * sizeof *scale);
    if (q->zero_point != NULL && given->zero != NULL) {
        memcpy(dt_data_mut(q->zero_point), given->zero, (size_t)given->scales);
    }
    if (q->lo != NULL) DT__TRY(give_ends(q, given));
    if (q->count != NULL) DT__TRY(dt_fill(q->count, 1));
    if (dt__quantizer_is_sound(q, &why)) return DT_OK;
    return dt_fail(range->ctx, DT_ERR_FORMAT, "%s", why);
}

/* Adds a quantizer with the given range as a child of the layer. */
static dt_status add_range(dt_module *m, const char *name, const dt__given *given, int64_t scales,
                           dt__quantizer **out)
{
    dt_module *range;
    const dt__quantizer_size size = { .scales = scales };
    DT__TRY(dt__quantizer_create(m->ctx, &given->quant, &size, &range));
    dt_status s = dt__give_scales(range, given);
    if (s == DT_OK) s = dt__module_attach(m, name, range);
    if (s != DT_OK) dt_module_free(range);
    *out = s == DT_OK ? dt__quantizer_of(range) : NULL;
    return s;
}

dt_status dt__give_weight(dt_module *m, const dt__given *given)
{
    dt__quantizer *q;
    dt__fq fq = { .quant = given->quant };
    int64_t scales;
    dt_tensor *w = dt_param(m, "weight");
    if (w == NULL) return dt_error_status(m->ctx);
    if (dt_is_fake_quant(w)) dt__fq_unwrap(w);
    DT__TRY(check(m->ctx, given));
    DT__TRY(dt__weight_map(m, w, &fq.map));
    DT__TRY(dt__quantizer_scales(w, &fq.map, &given->quant, &scales));
    DT__TRY(add_range(m, "weight", given, scales, &q));
    fq.scale = q->scale;
    fq.zero_point = q->zero_point;
    fq.count = q->count;
    return dt__fq_wrap(w, &fq);
}

dt_status dt__give_input(dt_module *m, const dt__given *given)
{
    dt__quantizer *q = NULL;
    const bool dynamic = given->quant.range == DT_RANGE_DYNAMIC;
    DT__TRY(check(m->ctx, given));
    DT__TRY(dt__check_input_quant(m, &given->quant));
    if (!dynamic) DT__TRY(add_range(m, "input", given, 1, &q));
    dt__input_hook *hook = dt__alloc(m->ctx, sizeof *hook);
    if (hook == NULL) return DT_ERR_NOMEM;
    *hook =
        (dt__input_hook){ .quant = given->quant, .enabled = true, .range = q, .frozen = !dynamic };
    const dt_status s = dt__hook_input(m, hook);
    if (s != DT_OK) dt__release(m->ctx, hook);
    return s;
}
