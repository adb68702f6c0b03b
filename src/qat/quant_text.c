/* Quantization specs: comparison, and a short text for messages. */
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>

static bool same_observer(const dt_quant_spec *a, const dt_quant_spec *b)
{
    const bool percentile = a->observer == DT_OBSERVER_PERCENTILE;
    const bool averages =
        a->observer == DT_OBSERVER_MOVING_AVERAGE || a->observer == DT_OBSERVER_MSE;
    const bool same_share = a->percentile >= b->percentile && a->percentile <= b->percentile;
    const bool same_average = a->averaging >= b->averaging && a->averaging <= b->averaging;
    return a->observer == b->observer &&
           (!percentile || (same_share && a->samples == b->samples)) && (!averages || same_average);
}

static bool same_ends(const dt_quant_spec *a, const dt_quant_spec *b)
{
    return a->low <= b->low && a->low >= b->low && a->high <= b->high && a->high >= b->high;
}

bool dt__same_quant(const dt_quant_spec *a, const dt_quant_spec *b)
{
    return a->scheme == b->scheme && (a->scheme != DT_SCHEME_OWN || a->of == b->of) &&
           a->bits == b->bits && a->granularity == b->granularity &&
           (a->granularity != DT_PER_GROUP || a->group_size == b->group_size) &&
           a->scale_dtype == b->scale_dtype && a->ste == b->ste &&
           a->is_unsigned == b->is_unsigned && a->activation == b->activation &&
           a->range == b->range &&
           (a->range != DT_RANGE_LEARNED || (a->save == b->save && a->shift == b->shift)) &&
           (a->range != DT_RANGE_STATIC || same_observer(a, b)) &&
           (a->range != DT_RANGE_FIXED || same_ends(a, b));
}

char *dt__quant_text(const dt_quant_spec *quant, char *text, size_t size)
{
    static const char *const granularity[] = { "per tensor", "per channel", "group", "per token",
                                               "per sample" };
    static const char *const scale[] = { "", ", f16 scales", ", bf16 scales" };
    static const char *const observer[] = { ", static minmax", ", static moving average",
                                            ", static percentile", ", static mse" };
    const int used =
        snprintf(text, size, "%sint%d %s %s", quant->is_unsigned ? "u" : "", (int)quant->bits,
                 quant->scheme == DT_SCHEME_OWN ? quant->own : dt__scheme_of(quant->scheme)->name,
                 granularity[quant->granularity]);
    if (used < 0 || (size_t)used >= size) return text;
    const char *const range = quant->range == DT_RANGE_STATIC    ? observer[quant->observer]
                              : quant->range == DT_RANGE_LEARNED ? ", learned"
                              : quant->range == DT_RANGE_FIXED   ? ", fixed"
                                                                 : "";
    char group[24] = "";
    if (quant->granularity == DT_PER_GROUP) {
        snprintf(group, sizeof group, " %lld", (long long)quant->group_size);
    }
    snprintf(text + used, size - (size_t)used, "%s%s%s", group, scale[quant->scale_dtype], range);
    return text;
}
