/* The state of a prepared model: fake quantization on or off, observers, and queries. */
#include "nn/module.h"
#include "qat/derived_quant.h"
#include "qat/device/device_plan.h"
#include "qat/prepare.h"

void dt__layer_enable(dt_module *m, bool weight, bool input)
{
    dt__input_hook *hook = dt__input_hook_of(m);
    dt__fq *derived = dt__derived_quant(m);
    const dt__entry *w = dt__entry_find(m, "weight");
    if (hook != NULL) hook->enabled = input;
    if (derived != NULL) derived->enabled = weight;
    if (dt_module_type_of(m)->quantizable == DT_NOT_QUANTIZED || w == NULL) return;
    if (dt_is_fake_quant(w->x)) dt_fake_quant_enable(w->x, weight);
}

dt_status dt_enable(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    if (!dt_is_prepared(m)) {
        return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "enable: the model is not prepared");
    }
    DT__EACH_MODULE(layer, m) {
        if (dt__device_of(layer) != NULL) dt__device_of(layer)->enabled = on;
        dt__layer_enable(layer, on, on);
    }
    return DT_OK;
}

/* Whether the layer has a quantized weight or input. */
static bool is_quantized(const dt_module *m)
{
    const dt__entry *w = dt__entry_find(m, "weight");
    const bool own = w != NULL && dt_is_fake_quant(w->x);
    return dt__input_hook_of(m) != NULL || dt__derived_quant(m) != NULL ||
           (own && dt_module_type_of(m)->quantizable != DT_NOT_QUANTIZED);
}

dt_status dt_enable_layers(dt_module *m, int64_t n, int64_t *layers)
{
    int64_t count = 0;
    DT__NEED(dt_module_ctx(m), m);
    DT__EACH_MODULE(layer, m) {
        if (dt__device_of(layer) == NULL) continue;
        return dt_fail(m->ctx, DT_ERR_UNSUPPORTED,
                       "enable_layers: a network of integers alone is quantized as a whole");
    }
    DT__TRY(dt_enable(m, false));
    DT__EACH_MODULE(layer, m) {
        if (is_quantized(layer) && count++ < n) dt__layer_enable(layer, true, true);
    }
    if (layers != NULL) *layers = count;
    return DT_OK;
}

dt_status dt_refresh(dt_module *m)
{
    DT__NEED(dt_module_ctx(m), m);
    bool found = false;
    DT__EACH_MODULE(layer, m) {
        dt__quantizer *range = dt__quantizer_of(dt__quantizer_at(layer, "weight"));
        if (range == NULL || range->quant.range != DT_RANGE_STATIC) continue;
        found = true;
        DT__TRY(dt_fill(range->count, 0));
    }
    if (found) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "refresh: no weight has a static range");
}

bool dt_is_observed(dt_module *m)
{
    DT__EACH_MODULE(layer, m) {
        const dt__input_hook *hook = dt__input_hook_of(layer);
        const dt__device *device = dt__device_of(layer);
        if (hook != NULL && hook->range != NULL && hook->range->count != NULL) return true;
        if (device != NULL && dt__device_observes(device)) return true;
    }
    return false;
}

/* Sets whether ranges observe every pass or, with `freezes`, none. */
static dt_status watch(dt_module *m, bool on, bool freezes)
{
    DT__EACH_MODULE(layer, m) {
        dt__device *device = dt__device_of(layer);
        dt__input_hook *hook = dt__input_hook_of(layer);
        if (device != NULL) *(freezes ? &device->frozen : &device->observing) = on;
        if (hook == NULL || hook->range == NULL || hook->range->count == NULL) continue;
        *(freezes ? &hook->frozen : &hook->observing) = on;
    }
    if (dt_is_observed(m)) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "observe: the model has no range to observe");
}

dt_status dt_observe(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    return watch(m, on, false);
}

dt_status dt_observers_freeze(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    return watch(m, on, true);
}

bool dt_is_prepared(dt_module *m)
{
    DT__EACH_ENTRY(layer, e, m) {
        if (e->kind == DT_PARAM && dt_is_fake_quant(e->x)) return true;
    }
    DT__EACH_MODULE(layer, m) {
        if (dt__derived_quant(layer) != NULL) return true;
    }
    return false;
}

bool dt_is_converted(dt_module *m)
{
    DT__EACH_ENTRY(layer, e, m) {
        if (e->kind == DT_PARAM && dt_is_packed(e->x)) return true;
    }
    return false;
}
