/* Checks of a quantization spec: which settings exclude each other. Functions of the library, files
 * and recipes share them, so that all refuse the same specs with the same messages. */
#include "qat/schemes/scheme.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KEYS(...) ((const char *const[DT__FAULT_KEYS]){ __VA_ARGS__ })

static bool fail(dt__quant_fault *f, const char *const keys[DT__FAULT_KEYS], const char *format,
                 ...) DT_PRINTF(3, 4);

/* Fills in the fault; returns false, which the check returns in turn. */
static bool fail(dt__quant_fault *f, const char *const keys[DT__FAULT_KEYS], const char *format,
                 ...)
{
    va_list list;
    va_start(list, format);
    memcpy(f->keys, keys, sizeof f->keys);
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    return false;
}

static bool check_choices(const dt_quant_spec *q, dt__quant_fault *f)
{
    if (dt__scheme_of(q->scheme) == NULL) {
        return fail(f, KEYS("scheme"), "%d is not a quantization scheme", q->scheme);
    }
    if (q->scheme == DT_SCHEME_OWN && q->of == NULL) {
        if (q->own == NULL) {
            return fail(f, KEYS("own", "scheme"),
                        "scheme own requires 'own', the name of a scheme");
        }
        return fail(
            f, KEYS("own", "scheme"),
            "there is no scheme '%.32s': a plugin has it that is not loaded (--plugin FILE)",
            q->own);
    }
    if (q->scheme == DT_SCHEME_OWN && q->activation && q->range != DT_RANGE_STATIC) {
        return fail(f, KEYS("range", "scheme"),
                    "scheme own is of weights, and of activations with range static");
    }
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    if (scheme->bits != 0 && q->bits != scheme->bits) {
        return fail(f, KEYS("bits", "scheme"),
                    "scheme %s has codes of %d bit%s, not of %lld: name a scheme beside bits",
                    scheme->name, scheme->bits, scheme->bits == 1 ? "" : "s", (long long)q->bits);
    }
    if (scheme->bits == 0 && (q->bits < 2 || q->bits > 8)) {
        if (q->bits != 1) {
            return fail(f, KEYS("bits"), "bits must be from 1 to 8, not %lld", (long long)q->bits);
        }
        return fail(f, KEYS("bits"), "bits must be from 2 to 8, not 1, which scheme binary has");
    }
    if (scheme->levels != NULL && q->activation && !dt__has_blocks(q->scheme)) {
        return fail(f, KEYS("scheme"), "scheme %s is for weights", scheme->name);
    }
    if (q->granularity < DT_PER_TENSOR || q->granularity > DT_PER_SAMPLE) {
        return fail(f, KEYS("granularity"), "%d is not a granularity", q->granularity);
    }
    if (q->scale_dtype < DT_SCALE_F32 || q->scale_dtype > DT_SCALE_BF16) {
        return fail(f, KEYS("scale_dtype"), "%d is not a scale dtype", q->scale_dtype);
    }
    if (q->ste < DT_STE_DEFAULT || q->ste > DT_STE_CLIPPED) {
        return fail(f, KEYS("ste"), "%d is not one of the straight-through gradients", q->ste);
    }
    if (q->range < DT_RANGE_DYNAMIC || q->range > DT_RANGE_FIXED) {
        return fail(f, KEYS("range"), "%d is not a range", q->range);
    }
    return true;
}

static bool check_granularity(const dt_quant_spec *q, unsigned use, dt__quant_fault *f)
{
    const int g = q->granularity;
    const bool in_model = (use & DT__QUANT_MODEL) != 0;
    if (q->activation && g == DT_PER_CHANNEL) {
        return fail(f, KEYS("granularity"),
                    "activations are quantized by tensor, token, sample or group");
    }
    const bool blocks = dt__has_blocks(q->scheme);
    if (q->activation && in_model && blocks && g != DT_PER_GROUP) {
        return fail(f, KEYS("scheme", "granularity"),
                    "activations of scheme %s require granularity group",
                    dt__scheme_of(q->scheme)->name);
    }
    if (q->activation && in_model && !blocks && g == DT_PER_GROUP) {
        return fail(f, KEYS("scheme", "granularity"),
                    "activations in groups require scheme q8_0, nvfp4 or one of mxfp...");
    }
    if (!q->activation && (g == DT_PER_TOKEN || g == DT_PER_SAMPLE)) {
        return fail(f, KEYS("granularity"), "weights are quantized by tensor, channel or group");
    }
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    if (scheme->group != 0 && (g != DT_PER_GROUP || q->group_size != scheme->group)) {
        return fail(f, KEYS("granularity", "group_size", "scheme"), "scheme %s is for groups of %d",
                    scheme->name, scheme->group);
    }
    if (g != DT_PER_GROUP) return true;
    const long long size = q->group_size;
    if (in_model && (size < 8 || size % 8 != 0)) {
        return fail(f, KEYS("group_size", "granularity"),
                    "group_size must be a positive multiple of 8, not %lld", size);
    }
    if (size >= 1) return true;
    return fail(f, KEYS("group_size", "granularity"), "group_size must be positive, not %lld",
                size);
}

static bool check_unsigned(const dt_quant_spec *q, dt__quant_fault *f)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    if (!q->is_unsigned) return true;
    if (q->range == DT_RANGE_LEARNED) {
        if (q->activation) return true;
        return fail(f, KEYS("unsigned", "range"),
                    "codes of weights with a learned range are signed");
    }
    if (scheme->has_zero) return true;
    return fail(f, KEYS("unsigned", "scheme", "range"),
                "unsigned codes need a zero point: scheme %s has none, asymmetric has",
                scheme->name);
}

static bool check_observer(const dt_quant_spec *q, dt__quant_fault *f)
{
    if (q->observer < DT_OBSERVER_MINMAX || q->observer > DT_OBSERVER_MSE) {
        return fail(f, KEYS("observer"), "%d is not an observer", q->observer);
    }
    if (q->observer == DT_OBSERVER_PERCENTILE &&
        !(q->percentile >= 50 && q->percentile <= 100 && q->samples >= 1)) {
        return fail(f, KEYS("percentile", "samples", "observer"),
                    "observer percentile: %g %% of %lld samples; must be 50 to 100 of at least 1",
                    q->percentile, (long long)q->samples);
    }
    const bool averages =
        q->observer == DT_OBSERVER_MOVING_AVERAGE || q->observer == DT_OBSERVER_MSE;
    if (!q->activation || !averages || (q->averaging > 0 && q->averaging <= 1)) return true;
    return fail(f, KEYS("averaging", "observer"),
                "averaging is %g; it must be above 0 and at most 1", q->averaging);
}

static bool check_learned(const dt_quant_spec *q, dt__quant_fault *f)
{
    if (!dt__is_learnable(q->scheme) && (q->scheme != DT_SCHEME_DEVICE || !q->activation)) {
        return fail(f, KEYS("scheme", "range"),
                    "a learned range requires scheme symmetric, half_levels, ternary, binary or "
                    "power_of_two, not %s",
                    dt__scheme_of(q->scheme)->name);
    }
    if (q->scale_dtype != DT_SCALE_F32) {
        return fail(f, KEYS("scale_dtype", "range"), "a learned scale is f32; it is not rounded");
    }
    if (q->save == DT_SAVED_COMPACT || q->save == DT_SAVED_EXACT) return true;
    return fail(f, KEYS("save"), "%d is not a way to save an activation", q->save);
}

static bool check_fixed(const dt_quant_spec *q, dt__quant_fault *f)
{
    if (q->scheme != DT_SCHEME_DEVICE || !q->activation) {
        return fail(f, KEYS("range", "scheme"),
                    "a fixed range is for activations of presets device-int8 and device-int4");
    }
    if (q->low <= 0 && q->high >= 0 && q->low < q->high && q->high - q->low <= FLT_MAX) return true;
    return fail(f, KEYS("low", "high", "range"),
                "a fixed range requires low <= 0 <= high, and low below high; they are %g and %g",
                q->low, q->high);
}

static bool check_range(const dt_quant_spec *q, dt__quant_fault *f)
{
    if (q->range == DT_RANGE_STATIC && !q->activation &&
        (q->observer != DT_OBSERVER_MSE || dt__scheme_of(q->scheme)->fp16_blocks)) {
        return fail(f, KEYS("range", "scheme"),
                    "a static range of weights is that of observer mse, and not of scheme q4_0");
    }
    if (q->shift && (q->range != DT_RANGE_LEARNED || !q->activation)) {
        return fail(f, KEYS("shift", "range"), DT__SHIFT_IS_LEARNED);
    }
    if (q->range != DT_RANGE_DYNAMIC && q->activation && q->granularity != DT_PER_TENSOR &&
        !dt__has_blocks(q->scheme)) {
        return fail(f, KEYS("granularity", "range"),
                    "a %s range of activations requires granularity tensor",
                    q->range == DT_RANGE_STATIC    ? "static"
                    : q->range == DT_RANGE_LEARNED ? "learned"
                                                   : "fixed");
    }
    if (q->range == DT_RANGE_LEARNED) return check_learned(q, f);
    if (q->range == DT_RANGE_FIXED) return check_fixed(q, f);
    return q->range == DT_RANGE_DYNAMIC || check_observer(q, f);
}

static bool check_q4_0(const dt_quant_spec *q, dt__quant_fault *f)
{
    static const char words[] = "scheme q4_0 is for weights of 4 bits in groups of 32";
    if (!dt__scheme_of(q->scheme)->fp16_blocks) return true;
    if (q->activation) return fail(f, KEYS("scheme"), words);
    if (q->bits != 4) return fail(f, KEYS("bits", "scheme"), words);
    if (q->granularity != DT_PER_GROUP) return fail(f, KEYS("granularity", "scheme"), words);
    if (q->group_size != 32) return fail(f, KEYS("group_size", "scheme"), words);
    if (q->scale_dtype != DT_SCALE_BF16) return true;
    return fail(f, KEYS("scale_dtype", "scheme"), "scheme q4_0 holds its scales as f16, not bf16");
}

/* Schemes that compute scales from the values of a block or the tensor: no other setting may. */
static bool check_settled(const dt_quant_spec *q, dt__quant_fault *f)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    if (scheme->settle != NULL && q->scale_dtype != DT_SCALE_F32) {
        return fail(f, KEYS("scale_dtype", "scheme"),
                    "scheme %s has scales of f32, which are E4M3 times a scale of the tensor",
                    scheme->name);
    }
    const bool settles = scheme->settle != NULL;
    const bool own = settles || scheme->in_groups || dt__real_of(q) != NULL ||
                     (q->activation && dt__has_blocks(q->scheme));
    if (!own || q->range == DT_RANGE_DYNAMIC) return true;
    if (settles && q->activation && q->range == DT_RANGE_STATIC) {
        if (q->observer != DT_OBSERVER_MSE) return true;
        return fail(f, KEYS("observer", "scheme"),
                    "scheme %s observes the largest magnitude: observer minmax, moving_average or "
                    "percentile",
                    scheme->name);
    }
    return fail(f, KEYS("range", "scheme"), "scheme %s requires range dynamic", scheme->name);
}

static bool check_q8_0(const dt_quant_spec *q, unsigned use, dt__quant_fault *f)
{
    if (!dt__scheme_of(q->scheme)->in_groups) return true;
    if (!q->activation && use != DT__QUANT_TENSOR) {
        return fail(f, KEYS("scheme"), "scheme q8_0 is for activations");
    }
    if (q->granularity == DT_PER_GROUP) return true;
    return fail(f, KEYS("granularity", "scheme"), "scheme q8_0 requires granularity group");
}

bool dt__quant_is_valid(const dt_quant_spec *q, unsigned use, dt__quant_fault *fault)
{
    if (!check_choices(q, fault) || !check_granularity(q, use, fault) ||
        !check_unsigned(q, fault) || !check_range(q, fault) || !check_q4_0(q, fault) ||
        !check_q8_0(q, use, fault) || !check_settled(q, fault)) {
        return false;
    }
    if (!(use & DT__QUANT_FILE) || q->granularity == DT_PER_GROUP || q->group_size == 0)
        return true;
    return fail(fault, KEYS("group_size", "granularity"),
                "group_size is %lld; it must be 0 unless granularity is group",
                (long long)q->group_size);
}

dt_status dt__quant_check(dt_ctx *ctx, const dt_quant_spec *q, unsigned use)
{
    dt__quant_fault fault;
    if (dt__quant_is_valid(q, use, &fault)) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "%s", fault.text);
}
