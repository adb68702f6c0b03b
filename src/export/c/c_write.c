/* Format c: NAME.h and NAME.c. */
#include "export/c/c_write.h"
#include "export/c/c_device.h"
#include "export/trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

dt__c_name dt__c_given(const char *base, int i, int n)
{
    dt__c_name name;
    if (n == 1) snprintf(name.text, sizeof name.text, "%s", base);
    else snprintf(name.text, sizeof name.text, "%s%d", base, i);
    return name;
}

size_t dt__c_arena_bytes(const dt__c_program *p)
{
    return p->arena > 0 ? p->arena : sizeof(double);
}

void dt__c_put_extents(const dt__c_program *p, int64_t value, dt__chars *to)
{
    const int rank = dt__c_rank(p, value);
    const bool last = p->device && dt__c_is_image(p->trace, value); /* channels last in memory */
    dt__put_text(to, "[");
    for (int d = 1; d < rank; d++) {
        const int from = !last ? d : d + 1 < rank ? d + 1 : 1;
        dt__c_printf(to, "%s%lld", d > 1 ? ", " : "", (long long)dt__c_dim(p, value, from));
    }
    dt__put_text(to, last && rank == 3 ? "], channels last" : "]");
}

const char *dt__c_end_name(const dt__c_program *p, bool output, int i)
{
    const int64_t *v;
    const int n = (output ? dt_trace_outputs : dt_trace_inputs)(p->trace, &v);
    if (n == 1) return NULL;
    return output ? p->trace->out_name[i] : dt_trace_value_at(p->trace, v[i])->name;
}

const char *dt__c_element(const dt__c_program *p) { return p->device ? "int8_t" : "float"; }

/* Writes the parameters of NAME_run: "const float *x, float *y, void *arena". */
static void c_put_parameters(const dt__c_about *a, dt__chars *to)
{
    const int64_t *v;
    const int in = dt_trace_inputs(a->p->trace, &v);
    for (int i = 0; i < in; i++)
        dt__c_printf(to, "const %s *%s, ", dt__c_element(a->p), dt__c_given("x", i, in).text);
    const int out = dt_trace_outputs(a->p->trace, &v);
    for (int i = 0; i < out; i++) {
        dt__c_printf(to, "%s *%s, ", dt__c_element(a->p), dt__c_given("y", i, out).text);
    }
    dt__put_text(to, "void *arena");
}

/* ---- the header ------------------------------------------------------------------------------ */

/* Writes "left, ". */
static void put_end_name(const dt__c_program *p, bool output, int i, dt__chars *to)
{
    char text[DT__C_COMMENT];
    const char *name = dt__c_end_name(p, output, i);
    if (name != NULL) dt__c_printf(to, "%.40s, ", dt__c_comment(name, text));
}

static void put_sizes(const dt__c_about *a, dt__chars *to)
{
    const int64_t *v;
    const struct {
        const char *word, *base;
        int n;
    } sides[] = { { "INPUTS", "x", dt_trace_inputs(a->p->trace, &v) },
                  { "OUTPUTS", "y", dt_trace_outputs(a->p->trace, &v) } };
    for (int s = 0; s < 2; s++) {
        if (s == 0) dt_trace_inputs(a->p->trace, &v);
        else dt_trace_outputs(a->p->trace, &v);
        for (int i = 0; i < sides[s].n; i++) {
            dt__c_printf(to, "#define %s_%s %lld /* elements of %s, ", a->upper,
                         dt__c_given(sides[s].word, i, sides[s].n).text,
                         (long long)dt__c_count(a->p, v[i]),
                         dt__c_given(sides[s].base, i, sides[s].n).text);
            put_end_name(a->p, s == 1, i, to);
            dt__c_put_extents(a->p, v[i], to);
            dt__put_text(to, " */\n");
        }
    }
    if (a->p->device) dt__c_put_device_sizes(a, to);
    else dt__c_printf(to, "#define %s_ARENA_BYTES %zu\n", a->upper, dt__c_arena_bytes(a->p));
}

/* Metadata of input or output i, and the suffix of its functions: 0, 1, ... if there are several,
 * as in the names of the arguments. */
typedef struct known {
    const dt_model_data *data; /* NULL: unknown */
    char suffix[24];
} known;

static known input_at(const dt__c_about *a, int i)
{
    known k = { .data = a->data };
    if (a->data == NULL || a->data->n_inputs == 0) return i == 0 ? k : (known){ .data = NULL };
    k.data = i < a->data->n_inputs ? &a->data->inputs[i] : NULL;
    if (a->data->n_inputs > 1) snprintf(k.suffix, sizeof k.suffix, "%d", i);
    return k;
}

static known output_at(const dt__c_about *a, int i)
{
    known k = { .data = a->data };
    if (a->data == NULL || a->data->n_outputs < 2) return i == 0 ? k : (known){ .data = NULL };
    k.data = i < a->data->n_outputs ? &a->data->outputs[i] : NULL;
    snprintf(k.suffix, sizeof k.suffix, "%d", i);
    return k;
}

static bool has_scale(const known *k) { return k->data != NULL && k->data->channels > 0; }
static bool has_names(const known *k) { return k->data != NULL && k->data->n_names > 0; }

static void declare_standardize(const dt__c_about *a, const known *k, dt__chars *to)
{
    dt__c_printf(
        to,
        "/* The model was trained on (v - mean[c]) / deviation[c], c the channel%s%s. Turns "
        "raw numbers v into\n * that; x may be v.%s */\n"
        "void %s_standardize%s(const float *v, float *x);\n\n",
        k->suffix[0] != 0 ? ", of x" : "", k->suffix,
        k->data->pixels ? " A pixel p is p / 255." : "", a->name, k->suffix);
}

static void declare_names(const dt__c_about *a, const known *k, dt__chars *to)
{
    dt__c_printf(to,
                 "#define %s_CLASSES%s %lld\n"
                 "/* The name of class i; 0 outside of 0 ... %s_CLASSES%s - 1. */\n"
                 "const char *%s_class_name%s(int i);\n\n",
                 a->upper, k->suffix, (long long)k->data->n_names, a->upper, k->suffix, a->name,
                 k->suffix);
}

static bool is_target(const known *k, const char *target)
{
    return k->data != NULL && k->data->target != NULL && strcmp(k->data->target, target) == 0;
}

/* Whether NAME_decide can be written: there are as many thresholds as outputs need. */
static bool decides(const dt__c_about *a, int i, const known *k)
{
    const int64_t *v, n = k->data->n_thresholds;
    if (n == 0 || i >= dt_trace_outputs(a->p->trace, &v)) return false;
    return dt__c_count(a->p, v[i]) == (is_target(k, "bits") ? n : 2);
}

static void declare_classify(const dt__c_about *a, int i, const known *k, dt__chars *to)
{
    if (decides(a, i, k)) {
        const double t = k->data->thresholds[0];
        dt__c_printf(
            to,
            "/* Class 1 is there where y[1] - y[0] is above it: a probability of %.4f. */\n"
            "#define %s_THRESHOLD%s %s\n",
            1 / (1 + exp(-t)), a->upper, k->suffix, dt__c_float((float)t).text);
    }
    dt__c_printf(to,
                 "/* The class by outputs y, as numbers: %s. *score, unless\n"
                 " * score is 0, becomes the output of that class. */\n"
                 "int %s_classify%s(const float *y, float *score);\n\n",
                 decides(a, i, k) ? "by the threshold" : "the largest, the first of equal ones",
                 a->name, k->suffix);
}

static void declare_thresholds(const dt__c_about *a, const known *k, dt__chars *to)
{
    dt__c_printf(to,
                 "/* Label i is there where output y[i], as a number, is above it. */\n"
                 "extern const float %s_THRESHOLD%s[%lld];\n\n",
                 a->upper, k->suffix, (long long)k->data->n_thresholds);
}

/* Types of raw numbers that are encoded to codes in one pass. */
static const struct {
    const char *end, *type, *value;
} raw[] = { { "", "float", "v[i]" }, { "_int16", "int16_t", "(float)v[i]" } };

/* Writes the prototype of NAME_encode for input i. */
static void put_encode_name(const dt__c_about *a, int i, int type, dt__chars *to)
{
    const int64_t *v;
    const int n = dt_trace_inputs(a->p->trace, &v);
    dt__c_printf(to, "void %s_%s%s(const %s *v, int8_t *codes)", a->name,
                 dt__c_given("encode", i, n).text, raw[type].end, raw[type].type);
}

static void declare_encode(const dt__c_about *a, dt__chars *to)
{
    const int64_t *v;
    const int n = dt_trace_inputs(a->p->trace, &v);
    dt__put_text(to, "/* The same of raw numbers, as floats or 16-bit samples: standardized, where "
                     "the model was trained\n * so, and quantized in one pass. */\n");
    for (int i = 0; i < n; i++) {
        for (int type = 0; type < DT__COUNT_OF(raw); type++) {
            put_encode_name(a, i, type, to);
            dt__put_text(to, ";\n");
        }
    }
    dt__put_text(to, "\n");
}

static void put_helpers(const dt__c_about *a, dt__chars *to)
{
    dt__c_put_features_header(a, to);
    for (int i = 0; i < DT_MAX_SHAPES; i++) {
        const known in = input_at(a, i), out = output_at(a, i);
        if (has_scale(&in)) declare_standardize(a, &in, to);
        if (has_names(&out)) declare_names(a, &out, to);
        if (is_target(&out, "classes")) declare_classify(a, i, &out, to);
        if (is_target(&out, "bits") && decides(a, i, &out)) declare_thresholds(a, &out, to);
    }
    if (a->p->device) dt__c_put_codes_header(a, to);
    if (a->p->device) declare_encode(a, to);
    dt__c_put_columns_header(a, to);
}

static const char title[] = "/* @: a model of detent, without libraries,\n"
                            " * allocation and global state. README.md says what it takes. */\n"
                            "#ifndef $_H\n#define $_H\n\n#include <stdint.h>\n\n"
                            "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";

static const char prototypes[] =
    "#define $_ARENA_ALIGN 8 /* an address is a multiple of it */\n\n"
    "/* What @_run returns. */\n"
    "enum {\n"
    "    $_OK = 0,\n"
    "    /* a number to be quantized is not finite, or too large; y means nothing */\n"
    "    $_NOT_FINITE = 1,\n"
    "    /* the arena is not aligned; nothing was computed */\n"
    "    $_MISALIGNED = 2,\n"
    "    /* compiled or linked with parts of -ffast-math; nothing was computed */\n"
    "    $_FAST_MATH = 3\n"
    "};\n\n"
    "/* Computes one example. The arena has $_ARENA_BYTES bytes,\n"
    " * aligned to $_ARENA_ALIGN, and holds nothing between two calls. */\n";

static const char checks[] =
    "/* A checksum of all constants. */\n"
    "uint32_t @_checksum(void);\n\n"
    "/* In @_test.c: how many outputs differ in a bit from\n"
    " * those of detent, plus 1 where a constant was changed. 0 is right. Below 0: -s, where\n"
    " * @_run returned s and computed nothing, as for an arena that is not aligned. */\n"
    "int @_selftest(void *arena);\n\n";

void dt__c_put_header(const dt__c_about *a, dt__chars *to)
{
    dt__c_put_named(a, to, title);
    put_sizes(a, to);
    dt__c_put_named(a, to, a->p->device ? dt__c_device_prototypes : prototypes);
    dt__c_printf(to, "int %s_run(", a->name);
    c_put_parameters(a, to);
    dt__put_text(to, ");\n\n");
    dt__c_put_named(a, to, checks);
    put_helpers(a, to);
    dt__put_text(to, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Whether an integer-only model uses a text only for float input and output. */
static bool is_around(const dt__c_about *a, const char *text)
{
    static const char *const rooms[] = { "device_quantize", "math_", "column_", "features_",
                                         "fourier_" };
    int i = 0;
    while (i < DT__COUNT_OF(rooms) && strncmp(text, rooms[i], strlen(rooms[i])) != 0) i++;
    return a->p->device && i < DT__COUNT_OF(rooms);
}

static void put_texts(const dt__c_about *a, bool around, dt__chars *to)
{
    for (int i = 0; i < dt__c_texts_n; i++) {
        if (i != 0 && !a->p->wanted[i]) continue;
        if (is_around(a, dt__c_texts[i].name) != around) continue;
        DT__PUT_ALL(to, dt__c_texts[i].text, "\n");
    }
}

static bool uses_memory(const dt__c_about *a)
{
    bool any = false;
    for (int64_t i = 0; i < a->p->n_blocks; i++) {
        const dt__c_block *b = &a->p->block[i];
        any = any || (b->used && b->output < 0);
    }
    return any;
}

/* "    float *const v3 = (float *)(void *)(memory + 128); / * 96 of blocks.0 * /" */
void dt__c_put_pointers(const dt__c_about *a, dt__chars *to)
{
    for (int64_t i = 0; i < a->p->n_blocks; i++) {
        const dt__c_block *b = &a->p->block[i];
        char module[DT__C_COMMENT];
        if (!b->used || b->output >= 0) continue;
        const dt_trace_call *c = dt_trace_call_at(a->p->trace, b->first / 2);
        dt__c_printf(to, "    %s *const %s = ", b->type, b->name);
        if (strcmp(b->type, "uint8_t") == 0) dt__c_printf(to, "memory + %zu;", b->at);
        else dt__c_printf(to, "(%s *)(void *)(memory + %zu);", b->type, b->at);
        dt__c_printf(to, " /* %lld of %.32s */\n", (long long)b->n,
                     c->module[0] != '\0' ? dt__c_comment(c->module, module) : c->op->name);
    }
}

static void put_run(const dt__c_about *a, dt__chars *to)
{
    dt__c_printf(to, "int %s_run(", a->name);
    c_put_parameters(a, to);
    dt__put_text(to, a->p->device ? ")\n{\n" : ")\n{\n    int bad = 0;\n");
    dt__c_put_named(a, to, "    if ((uintptr_t)arena % $_ARENA_ALIGN != 0) return $_MISALIGNED;\n");
    if (!a->p->device) dt__c_put_named(a, to, "    if (check_flags()) return $_FAST_MATH;\n");
    if (uses_memory(a)) dt__put_text(to, "    uint8_t *const memory = (uint8_t *)arena;\n");
    dt__c_put_pointers(a, to);
    if (a->p->device) dt__c_put_device_room(a, to);
    dt__put(to, a->body.bytes, a->body.used);
    dt__c_put_named(a, to,
                    a->p->device ? dt__c_device_end : "    return bad ? $_NOT_FINITE : $_OK;\n}\n");
}

static void put_checksum(const dt__c_about *a, dt__chars *to)
{
    dt__c_printf(to, "\nuint32_t %s_checksum(void)\n{\n    uint32_t sum = 2166136261u;\n", a->name);
    for (int64_t i = 0; i < a->p->n_tables; i++) {
        const dt__c_table *t = &a->p->table[i];
        dt__c_printf(to, "    sum = %s(sum, %s, %lld);\n", dt__c_check_of(t), t->name,
                     (long long)t->n);
    }
    dt__put_text(to, "    return sum;\n}\n");
}

static void put_reals(dt__chars *to, const char *name, const double *v, int64_t n)
{
    dt__c_printf(to, "    static const float %s[%lld] = {", name, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        dt__c_printf(to, "%s%s", i % 4 == 0 ? "\n        " : " ", dt__c_float((float)v[i]).text);
        dt__put_text(to, ",");
    }
    dt__put_text(to, "\n    };\n");
}

/* Writes standard_value for number i of an example. Channel c is along `axis`:
 * [outer][channels][inner]. */
static void put_standard(const dt__c_about *a, const known *k, dt__chars *to)
{
    const dt_model_data *d = k->data;
    int64_t inner = 1;
    for (int i = d->axis + 1; i < d->input.n; i++) inner *= d->input.v[i];
    if (dt__c_channels_last(a, d)) inner = 1;
    dt__c_printf(to, "\nstatic float standard_value%s(float v, int32_t i)\n{\n", k->suffix);
    put_reals(to, "mean", d->mean, d->channels);
    put_reals(to, "deviation", d->deviation, d->channels);
    char channel[64] = "0 * i";
    if (d->channels > 1 && inner > 1) {
        snprintf(channel, sizeof channel, "i / %lld %% %lld", (long long)inner,
                 (long long)d->channels);
    } else if (d->channels > 1) {
        snprintf(channel, sizeof channel, "i %% %lld", (long long)d->channels);
    }
    dt__c_printf(to, "    const int32_t c = %s;\n    return (v - mean[c]) / deviation[c];\n}\n",
                 channel);
}

static void put_standardize(const dt__c_about *a, const known *k, dt__chars *to)
{
    int64_t all = 1;
    for (int i = 0; i < k->data->input.n; i++) all *= k->data->input.v[i];
    put_standard(a, k, to);
    dt__c_printf(to,
                 "\nvoid %s_standardize%s(const float *v, float *x)\n{\n"
                 "    for (int32_t i = 0; i < %lld; i++) x[i] = standard_value%s(v[i], i);\n}\n",
                 a->name, k->suffix, (long long)all, k->suffix);
}

static void put_encode(const dt__c_about *a, int i, const known *k, dt__chars *to)
{
    const int64_t *v;
    const int n = dt_trace_inputs(a->p->trace, &v);
    const char *input = dt__c_given("INPUT", i, n).text;
    for (int type = 0; type < DT__COUNT_OF(raw); type++) {
        char value[64];
        snprintf(value, sizeof value, has_scale(k) ? "standard_value%s(%s, i)" : "%s%s", k->suffix,
                 raw[type].value);
        dt__put_text(to, "\n");
        put_encode_name(a, i, type, to);
        dt__c_printf(to,
                     "\n{\n    for (int32_t i = 0; i < %lld; i++) {\n"
                     "        codes[i] = device_quantize(%s, %s_%s_SCALE, %s_%s_ZERO);\n    }\n}\n",
                     (long long)dt__c_count(a->p, v[i]), value, a->upper, input, a->upper, input);
    }
}

/* Writes a string from a model: all but letters, digits and a few signs as octal escapes. */
void dt__c_put_string(dt__chars *to, const char *text)
{
    dt__put_text(to, "\"");
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool plain = c >= ' ' && c < 127 && strchr("\"\\?%", c) == NULL;
        if (plain) dt__put(to, text, 1);
        else dt__c_printf(to, "\\%03o", c);
    }
    dt__put_text(to, "\"");
}

static void put_names(const dt__c_about *a, const known *k, dt__chars *to)
{
    dt__c_printf(to,
                 "\nconst char *%s_class_name%s(int i)\n{\n"
                 "    static const char *const names[] = {",
                 a->name, k->suffix);
    for (int64_t i = 0; i < k->data->n_names; i++) {
        dt__put_text(to, "\n        ");
        dt__c_put_string(to, k->data->names[i]);
        dt__put_text(to, ",");
    }
    dt__c_printf(to, "\n    };\n    return i >= 0 && i < %s_CLASSES%s ? names[i] : 0;\n}\n",
                 a->upper, k->suffix);
}

static void put_classify(const dt__c_about *a, int i, const known *k, dt__chars *to)
{
    const int64_t *v;
    const int n = dt_trace_outputs(a->p->trace, &v);
    dt__c_printf(to, "\nint %s_classify%s(const float *y, float *score)\n{\n", a->name, k->suffix);
    if (decides(a, i, k)) {
        dt__c_printf(to, "    const int best = y[1] - y[0] > %s_THRESHOLD%s;\n", a->upper,
                     k->suffix);
    } else {
        dt__c_printf(to,
                     "    int best = 0;\n    for (int i = 1; i < %s_%s; i++) {\n"
                     "        if (y[i] > y[best]) best = i;\n    }\n",
                     a->upper, dt__c_given("OUTPUTS", i, n).text);
    }
    dt__put_text(to, "    if (score != 0) *score = y[best];\n    return best;\n}\n");
}

static void put_thresholds(const dt__c_about *a, const known *k, dt__chars *to)
{
    dt__c_printf(to, "\nconst float %s_THRESHOLD%s[%lld] = {", a->upper, k->suffix,
                 (long long)k->data->n_thresholds);
    for (int64_t i = 0; i < k->data->n_thresholds; i++) {
        dt__c_printf(to, "%s%s", i % 4 == 0 ? "\n    " : " ",
                     dt__c_float((float)k->data->thresholds[i]).text);
        dt__put_text(to, ",");
    }
    dt__put_text(to, "\n};\n");
}

void dt__c_put_source(const dt__c_about *a, dt__chars *to)
{
    dt__c_printf(to,
                 "/* %s: written by detent; README.md says how it was trained. */\n#include "
                 "\"%s.h\"\n\n",
                 a->name, a->name);
    if (a->p->device) {
        dt__c_put_named(a, to, "#ifdef $_USE_CMSIS_NN\n#define DEVICE_CMSIS_NN\n#endif\n\n");
    }
    put_texts(a, false, to);
    dt__put(to, a->p->functions.bytes, a->p->functions.used);
    dt__put_text(to, "/* ---- constants "
                     "-----------------------------------------------------------------------------"
                     "- */\n\n");
}

void dt__c_put_model_source(const dt__c_about *a, dt__chars *to)
{
    dt__put_text(to, "\n/* ---- the model "
                     "-----------------------------------------------------------------------------"
                     "- */\n\n");
    if (dt_trace_has_length(a->p->trace)) dt__c_put_language_run(a, to);
    else put_run(a, to);
    put_checksum(a, to);
    for (int i = 0; i < DT_MAX_SHAPES; i++) {
        const known out = output_at(a, i);
        if (has_names(&out)) put_names(a, &out, to);
    }
    if (a->p->device) dt__c_put_named(a, to, "\n#ifndef $_NO_FLOATS\n");
    put_texts(a, true, to);
    dt__c_put_features_source(a, to);
    const int64_t *v;
    const int inputs = dt_trace_inputs(a->p->trace, &v);
    for (int i = 0; i < DT_MAX_SHAPES; i++) {
        const known in = input_at(a, i), out = output_at(a, i);
        if (has_scale(&in)) put_standardize(a, &in, to);
        if (a->p->device && i < inputs) put_encode(a, i, &in, to);
        if (is_target(&out, "classes")) put_classify(a, i, &out, to);
        if (is_target(&out, "bits") && decides(a, i, &out)) put_thresholds(a, &out, to);
    }
    if (a->p->device) dt__c_put_codes_source(a, to);
    dt__c_put_columns_source(a, to);
    if (a->p->device) dt__put_text(to, "\n#endif\n");
}
