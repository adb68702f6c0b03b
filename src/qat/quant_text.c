/* Settings of a scheme: comparing them, and saying them. */
#include "qat/quantized.h"
#include "qat/scheme.h"

#include <stdio.h>

bool dt__same_quant(const dt_quant *a, const dt_quant *b)
{
    return a->rule == b->rule && a->bits == b->bits && a->granularity == b->granularity &&
           (a->granularity != DT_PER_GROUP || a->group_size == b->group_size) &&
           a->scale_dtype == b->scale_dtype && a->ste == b->ste &&
           a->is_unsigned == b->is_unsigned && a->activation == b->activation;
}

char *dt__quant_text(const dt_quant *quant, char *text, size_t size)
{
    static const char *const granularity[] = { "per tensor", "per channel", "group", "per token",
                                               "per sample" };
    static const char *const scale[] = { "", ", f16 scales", ", bf16 scales" };
    const int used =
        snprintf(text, size, "%sint%d %s %s", quant->is_unsigned ? "u" : "", (int)quant->bits,
                 dt__scheme_of(quant->rule)->name, granularity[quant->granularity]);
    if (used < 0 || (size_t)used >= size) return text;
    if (quant->granularity == DT_PER_GROUP) {
        snprintf(text + used, size - (size_t)used, " %lld%s", (long long)quant->group_size,
                 scale[quant->scale_dtype]);
    } else {
        snprintf(text + used, size - (size_t)used, "%s", scale[quant->scale_dtype]);
    }
    return text;
}
