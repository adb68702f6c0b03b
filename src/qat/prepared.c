/* The state of a prepared model: what it computes with, which observers run, and what it is. */
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

static dt_status enable_one(void *user, const char *path, dt_module *m)
{
    const bool on = *(const bool *)user;
    (void)path;
    if (dt__device_of(m) != NULL) dt__device_of(m)->enabled = on;
    dt__layer_enable(m, on, on);
    return DT_OK;
}

dt_status dt_enable(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    if (!dt_is_prepared(m)) {
        return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "enable: the model is not prepared");
    }
    return dt_module_visit_modules(m, enable_one, &on);
}

typedef struct watching {
    bool on, freezes;
} watching;

static dt_status watch_one(void *user, const char *path, dt_module *m)
{
    const watching *w = user;
    (void)path;
    dt__device *device = dt__device_of(m);
    if (device != NULL && w->freezes) device->frozen = w->on;
    if (device != NULL && !w->freezes) device->observing = w->on;
    dt__input_hook *hook = dt__input_hook_of(m);
    if (hook == NULL || hook->range == NULL || hook->range->count == NULL) return DT_OK;
    if (w->freezes) hook->frozen = w->on;
    else hook->observing = w->on;
    return DT_OK;
}

static dt_status refresh_one(void *user, const char *path, dt_module *m)
{
    (void)path;
    dt__quantizer *range = dt__quantizer_of(dt__quantizer_at(m, "weight"));
    if (range == NULL || range->quant.range != DT_RANGE_STATIC) return DT_OK;
    *(bool *)user = true;
    return dt_fill(range->count, 0);
}

dt_status dt_refresh(dt_module *m)
{
    DT__NEED(dt_module_ctx(m), m);
    bool found = false;
    DT__TRY(dt_module_visit_modules(m, refresh_one, &found));
    if (found) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "refresh: no weight has a static range");
}

static dt_status find_observed(void *user, const char *path, dt_module *m)
{
    (void)path;
    const dt__input_hook *hook = dt__input_hook_of(m);
    if (hook != NULL && hook->range != NULL && hook->range->count != NULL) *(bool *)user = true;
    if (dt__device_of(m) != NULL && dt__device_observes(dt__device_of(m))) *(bool *)user = true;
    return DT_OK;
}

bool dt_is_observed(dt_module *m)
{
    if (m == NULL) return false;
    bool found = false;
    dt_module_visit_modules(m, find_observed, &found);
    return found;
}

static dt_status watch(dt_module *m, watching w)
{
    dt_module_visit_modules(m, watch_one, &w);
    if (dt_is_observed(m)) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "observe: the model has no range to observe");
}

dt_status dt_observe(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    return watch(m, (watching){ .on = on });
}

dt_status dt_observers_freeze(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    return watch(m, (watching){ .on = on, .freezes = true });
}

static dt_status find_prepared(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)path;
    if (kind == DT_PARAM && dt_is_fake_quant(x)) *(bool *)user = true;
    return DT_OK;
}

static dt_status find_converted(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)path;
    if (kind == DT_PARAM && dt_is_packed(x)) *(bool *)user = true;
    return DT_OK;
}

static dt_status find_derived(void *user, const char *path, dt_module *m)
{
    (void)path;
    if (dt__derived_quant(m) != NULL) *(bool *)user = true;
    return DT_OK;
}

bool dt_is_prepared(dt_module *m)
{
    if (m == NULL) return false;
    bool found = false;
    dt_module_visit(m, find_prepared, &found);
    dt_module_visit_modules(m, find_derived, &found);
    return found;
}

bool dt_is_converted(dt_module *m)
{
    if (m == NULL) return false;
    bool found = false;
    dt_module_visit(m, find_converted, &found);
    return found;
}
