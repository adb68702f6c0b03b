/* Format c: files of integer-only models, where they differ from those with floats. */
#include "export/c/c_device.h"
#include "export/c/c_write.h"

const char dt__c_device_prototypes[] =
    "#define $_ARENA_ALIGN 8 /* an address is a multiple of it */\n\n"
    "/* What @_run returns. */\n"
    "enum {\n"
    "    $_OK = 0,\n"
    "    $_REFUSED = 1, /* CMSIS-NN does not take a layer; y means nothing */\n"
    "    /* the arena is not aligned; nothing was computed */\n"
    "    $_MISALIGNED = 2\n"
    "};\n\n"
    "/* Computes one example. The arena has $_ARENA_BYTES bytes,\n"
    " * aligned to $_ARENA_ALIGN, and holds nothing between two calls. */\n"
    "/* Inputs and outputs are codes, images as [rows][columns][channels], lines as they are said "
    "to\n * be above. The code of a real "
    "number\n"
    " * v is round(v / SCALE) + ZERO, halves away from zero, at least -128 and at most 127; the\n"
    " * value of a code is (code - ZERO) * SCALE. */\n";

const char dt__c_device_end[] = "#if defined(DEVICE_CMSIS_NN)\n"
                                "    if (bad) return $_REFUSED;\n#endif\n"
                                "    return $_OK;\n}\n";

/* Writes scale and zero point of an input or output. */
static void put_range(const dt__c_about *a, bool output, int i, dt__chars *to)
{
    const int64_t *v;
    const int n = (output ? dt_trace_outputs : dt_trace_inputs)(a->p->trace, &v);
    const dt__c_name named = dt__c_given(output ? "OUTPUT" : "INPUT", i, n);
    const char *word = named.text, *name = dt__c_end_name(a->p, output, i);
    const int64_t value = v[i];
    char comment[DT__C_COMMENT];
    const dt_trace_value *codes = dt__c_device_codes(a->p->trace, value);
    dt__c_printf(to, "#define %s_%s_SCALE %s", a->upper, word, dt__c_float(codes->scale).text);
    if (name != NULL) dt__c_printf(to, " /* of %.40s */", dt__c_comment(name, comment));
    dt__c_printf(to, "\n#define %s_%s_ZERO %d\n", a->upper, word, codes->zero_point);
}

void dt__c_put_device_sizes(const dt__c_about *a, dt__chars *to)
{
    const size_t bytes = dt__c_arena_bytes(a->p);
    dt__c_printf(to, "#ifdef %s_USE_CMSIS_NN /* layers are computed by CMSIS-NN */\n", a->upper);
    dt__c_printf(to, "#define %s_ARENA_BYTES %zu\n#else\n", a->upper, bytes + a->p->cmsis);
    dt__c_printf(to, "#define %s_ARENA_BYTES %zu\n#endif\n", a->upper, bytes);
    for (int side = 0; side < 2; side++) {
        const int64_t *v;
        const int n = (side == 0 ? dt_trace_inputs : dt_trace_outputs)(a->p->trace, &v);
        for (int i = 0; i < n; i++) {
            put_range(a, side == 1, i, to);
        }
    }
}

void dt__c_put_device_room(const dt__c_about *a, dt__chars *to)
{
    dt__c_printf(to,
                 "#if defined(DEVICE_CMSIS_NN)\n"
                 "    void *const room = (uint8_t *)arena + %zu;\n"
                 "    int bad = 0;\n"
                 "#endif\n",
                 dt__c_arena_bytes(a->p));
}

bool dt__c_channels_last(const dt__c_about *a, const dt_model_data *d)
{
    const int64_t *in;
    const int n = dt_trace_inputs(a->p->trace, &in);
    const int64_t i = d == a->data ? 0 : d - a->data->inputs;
    return a->p->device && d->axis == 0 && i < n && dt__c_is_image(a->p->trace, in[i]);
}

/* Writes the prototype of NAME_quantize or NAME_dequantize for input or output i. */
static void put_prototype(const dt__c_about *a, bool output, int i, dt__chars *to)
{
    const int64_t *v;
    const int n = (output ? dt_trace_outputs : dt_trace_inputs)(a->p->trace, &v);
    dt__c_printf(to,
                 output ? "void %s_%s(const int8_t *codes, float *y)"
                        : "void %s_%s(const float *x, int8_t *codes)",
                 a->name, dt__c_given(output ? "dequantize" : "quantize", i, n).text);
}

void dt__c_put_codes_header(const dt__c_about *a, dt__chars *to)
{
    dt__put_text(to, "/* Codes of the numbers of an input, standardized ones of a model that was "
                     "trained so, and the\n * numbers of an output's codes; in the order of the "
                     "codes. */\n");
    for (int side = 0; side < 2; side++) {
        const int64_t *v;
        const int n = (side == 0 ? dt_trace_inputs : dt_trace_outputs)(a->p->trace, &v);
        for (int i = 0; i < n; i++) {
            put_prototype(a, side == 1, i, to);
            dt__put_text(to, i + 1 < n || side == 0 ? ";\n" : ";\n\n");
        }
    }
}

void dt__c_put_codes_source(const dt__c_about *a, dt__chars *to)
{
    for (int side = 0; side < 2; side++) {
        const int64_t *v;
        const int n = (side == 0 ? dt_trace_inputs : dt_trace_outputs)(a->p->trace, &v);
        for (int i = 0; i < n; i++) {
            const dt__c_name word = dt__c_given(side == 0 ? "INPUT" : "OUTPUT", i, n);
            dt__put_text(to, "\n");
            put_prototype(a, side == 1, i, to);
            dt__c_printf(to, "\n{\n    int32_t i;\n    for (i = 0; i < %lld; i++) {\n",
                         (long long)dt__c_count(a->p, v[i]));
            if (side == 0) {
                dt__c_printf(to,
                             "        codes[i] = device_quantize(x[i], %s_%s_SCALE, %s_%s_ZERO);\n",
                             a->upper, word.text, a->upper, word.text);
            } else {
                dt__c_printf(to, "        y[i] = (float)(codes[i] - %s_%s_ZERO) * %s_%s_SCALE;\n",
                             a->upper, word.text, a->upper, word.text);
            }
            dt__put_text(to, "    }\n}\n");
        }
    }
}
