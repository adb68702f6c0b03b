/* Format c: README.md: the model's metadata, how each weight is quantized, the cost of the export,
 * and the map of the arena. Names from models are escaped, so that they cannot end a table cell or
 * be HTML. */
#include "core/text/utf8.h"
#include "data/signals/features.h"
#include "export/c/c_write.h"
#include "qat/quantized.h"

#include <stdio.h>
#include <string.h>

/* Writes text in a table cell: backslashes before Markdown's special characters, and escapes for
 * unprintable ones. */
static void put_escaped(dt__chars *to, const char *text)
{
    char out[DT_TEXT_JSON];
    bool hidden;
    for (size_t n = strlen(text), took; n > 0; text += took, n -= took) {
        took = dt__visible(text, n, out, &hidden);
        if (hidden || strchr("\\`*_{}[]<>()#!|&~$", *text) != NULL) dt__put_text(to, "\\");
        dt__put_text(to, out);
    }
}

static void put_code(dt__chars *to, const char *text)
{
    dt__put_text(to, "<code>");
    put_escaped(to, text);
    dt__put_text(to, "</code>");
}

static void put_options(dt__chars *to, const dt_key *keys, const void *options)
{
    dt__chars all = { .ctx = to->ctx };
    dt__put_options(&all, keys, options);
    const char *text = dt__chars_text(&all);
    if (text != NULL) put_code(to, text);
    else to->failed = true;
    dt__release(to->ctx, all.bytes);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void put_names(const dt_model_data *d, dt__chars *to)
{
    dt__c_printf(to, "| %s |", strcmp(d->target, "classes") == 0 ? "classes" : "names");
    for (int64_t i = 0; i < d->n_names; i++) {
        dt__put_text(to, i > 0 ? ", " : " ");
        put_escaped(to, d->names[i]);
    }
    dt__put_text(to, " |\n");
}

static void put_numbers(dt__chars *to, const double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dt__c_printf(to, "%s%.9g", i > 0 ? ", " : "", v[i]);
}

static void put_standard(const dt__c_about *a, const dt_model_data *d, dt__chars *to)
{
    const bool last = dt__c_channels_last(a, d);
    if (d->pixels) dt__put_text(to, "| pixels | p / 255 is the number v of a pixel p |\n");
    if (d->channels == 0) return;
    dt__c_printf(to, "| standardized | (v - mean) / deviation of each channel, dimension %d |\n",
                 last ? d->input.n - 1 : d->axis);
    dt__put_text(to, "| mean | ");
    put_numbers(to, d->mean, d->channels);
    dt__put_text(to, " |\n| deviation | ");
    put_numbers(to, d->deviation, d->channels);
    dt__put_text(to, " |\n");
}

static void put_name(const dt_model_data *d, const char *word, dt__chars *to)
{
    dt__c_printf(to, "| %s | ", word);
    put_escaped(to, d->name);
    dt__put_text(to, " |\n");
}

static void put_data(const dt__c_about *a, dt__chars *to)
{
    const dt_model_data *d = a->data;
    dt__put_text(to, "| target | ");
    put_escaped(to, d->target);
    dt__put_text(to, " |\n");
    if (d->n_names > 0) put_names(d, to);
    if (d->n_thresholds > 0) {
        dt__put_text(to, "| thresholds of logits | ");
        put_numbers(to, d->thresholds, d->n_thresholds);
        dt__put_text(to, " |\n");
    }
    if (d->features.kind != DT_FEATURES_NONE) {
        dt__put_text(to, "| features | ");
        put_options(to, dt__features_keys, &d->features);
        dt__put_text(to, " |\n");
    }
    put_standard(a, d, to);
    for (int i = 0; i < d->n_inputs; i++) {
        put_name(&d->inputs[i], "an input", to);
        put_standard(a, &d->inputs[i], to);
    }
    for (int i = 0; i < d->n_outputs && d->n_outputs > 1; i++) {
        put_name(&d->outputs[i], "an output", to);
        dt__put_text(to, "| target | ");
        put_escaped(to, d->outputs[i].target);
        dt__put_text(to, " |\n");
        if (d->outputs[i].n_names > 0) put_names(&d->outputs[i], to);
    }
}

/* Writes rows for inputs and outputs: "| input | [128, 6] |". */
static void put_sides(const dt__c_about *a, dt__chars *to)
{
    const struct {
        const char *word;
        int (*of)(const dt_trace *t, const int64_t **values);
    } sides[] = { { "input", dt_trace_inputs }, { "output", dt_trace_outputs } };
    for (int s = 0; s < DT__COUNT_OF(sides); s++) {
        const int64_t *v;
        const int n = sides[s].of(a->p->trace, &v);
        for (int i = 0; i < n; i++) {
            const char *name = dt__c_end_name(a->p, s == 1, i);
            dt__c_printf(to, "| %s ", sides[s].word);
            if (name != NULL) {
                dt__c_printf(to, "`%s`: ", dt__c_given(s == 0 ? "x" : "y", i, n).text);
                put_escaped(to, name);
                dt__put_text(to, " ");
            }
            dt__put_text(to, "| ");
            dt__c_put_extents(a->p, v[i], to);
            dt__put_text(to, " |\n");
        }
    }
}

void dt__c_put_model(const dt__c_about *a, dt__chars *to)
{
    const dt_model_info *info = a->call->info;
    const dt_family *f = info != NULL ? info->family : NULL;
    dt__put_text(to, "## The model\n\n| | |\n|---|---|\n| family | ");
    put_escaped(to, f != NULL ? f->name : "none: a module of a program");
    dt__c_printf(to, " |\n| written by | detent %s |\n", dt_version());
    if (info != NULL && info->hash != NULL) {
        dt__put_text(to, "| model file, `detent.xxh3` | ");
        put_escaped(to, info->hash);
        dt__put_text(to, " |\n");
    }
    if (!dt_trace_has_length(a->p->trace)) put_sides(a, to);
    if (a->data != NULL) put_data(a, to);
    if (f != NULL && info->options != NULL) {
        dt__put_text(to, "| options | ");
        put_options(to, f->keys, info->options);
        dt__put_text(to, " |\n");
    }
    dt__put_text(to, "\n");
}

/* ---- columns --------------------------------------------------------------------------------- */

static void c_put_columns_page(const dt__c_about *a, dt__chars *to)
{
    if (a->table == NULL) return;
    dt__c_put_named(a, to,
                    a->row->series.given
                        ? "## Columns\n\n`@_row` makes one row of x of `@_fields`; "
                          "`@_standardize`, where it is there, is called for the whole x.\n\n"
                        : "## Columns\n\n`@_row` makes x of `@_fields`.\n\n");
    if (a->row->series.rate > 0) {
        dt__put_text(to, "Rows follow each other at a fixed rate, ");
        dt__put_real(to, a->row->series.rate);
        dt__put_text(to, " to a second or unit of time: the program makes them.\n\n");
    }
    dt__c_put_named(a, to,
                    "| field | column | type | becomes | missing |\n|---|---|---|---|---|\n");
    for (int64_t i = 0; i < a->table->n; i++) {
        const dt_column *c = &a->table->column[i];
        if (c->type == DT_COLUMN_IGNORE) continue;
        dt__c_printf(to, "| `%s` | ", a->field[i]);
        put_escaped(to, c->name);
        for (int about = DT_COLUMN_ITS_TYPE; about <= DT_COLUMN_IF_MISSING; about++) {
            char text[DT_COLUMN_TEXT];
            dt__put_text(to, " | ");
            put_escaped(to, dt_column_describe(c, (dt_column_about)about, text));
        }
        dt__put_text(to, " |\n");
    }
    dt__put_text(to, "\n");
}

/* ---- quantization ---------------------------------------------------------------------------- */

/* The first call that reads a value as a quantized weight; NULL: none. */
static const dt_trace_call *reader_of(const dt_trace *t, int64_t value)
{
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        const dt_trace_call *c = dt_trace_call_at(t, i);
        for (int k = 0; k < c->n_in; k++) {
            if (c->in[k].value == value && c->in[k].weight) return c;
        }
    }
    return NULL;
}

static void put_scheme(dt__chars *to, const dt_trace_operand *o, bool coded)
{
    char text[128];
    if (o->quant == NULL) {
        dt__put_text(to, coded ? "int8 codes with one scale and zero point" : "floats");
        return;
    }
    dt_quant_spec quant = *o->quant;
    if (o->sample && quant.granularity == DT_PER_TOKEN) quant.granularity = DT_PER_SAMPLE;
    dt__put_text(to, dt__quant_text(&quant, text, sizeof text));
}

void dt__c_put_quantization(const dt__c_about *a, dt__chars *to)
{
    const dt_trace *t = a->p->trace;
    bool any = false;
    for (int64_t i = 0; i < dt_trace_values(t); i++) {
        const dt_trace_value *v = dt_trace_value_at(t, i);
        const dt_quant_spec *quant = v->tensor != NULL ? dt__quant_of(v->tensor) : NULL;
        const dt_trace_call *c = quant != NULL ? reader_of(t, i) : NULL;
        char text[128];
        if (c == NULL) continue;
        if (!any) {
            dt__put_text(to, "## Quantization\n\n| weight | shape | as | what it multiplies "
                             "|\n|---|---|---|---|\n");
        }
        any = true;
        dt__put_text(to, "| ");
        put_escaped(to, v->name);
        dt__put_text(to, " | [");
        for (int d = 0; d < v->rank; d++) {
            dt__c_printf(to, "%s%lld", d > 0 ? ", " : "", (long long)dt__c_dim(a->p, i, d));
        }
        dt__c_printf(to, "] | %s | ", dt__quant_text(quant, text, sizeof text));
        put_scheme(to, &c->in[0], dt_trace_value_at(t, c->in[0].value)->coded);
        dt__put_text(to, " |\n");
    }
    dt__put_text(to, !any           ? "## Quantization\n\nNone: all parameters are floats.\n\n"
                     : a->p->device ? "\nBiases are int32; no parameter is a float.\n\n"
                                    : "\nAll other parameters are floats.\n\n");
}

/* ---- the arena ------------------------------------------------------------------------------- */

/* Whether two blocks share a row of the map: same module, op, offset and size, as in the steps of a
 * recurrent layer. */
static bool is_alike(const dt__c_about *a, const dt__c_block *x, const dt__c_block *y)
{
    const dt_trace_call *c = dt_trace_call_at(a->p->trace, x->first / 2);
    const dt_trace_call *d = dt_trace_call_at(a->p->trace, y->first / 2);
    return x->at == y->at && x->n == y->n && x->size == y->size &&
           (x->value < 0) == (y->value < 0) && c->op == d->op && strcmp(c->module, d->module) == 0;
}

static bool is_listed(const dt__c_block *b) { return !b->gone && b->output < 0; }

/* Whether an earlier row of the map contains this block. */
static bool is_told(const dt__c_about *a, int64_t i)
{
    for (int64_t k = 0; k < i; k++) {
        const dt__c_block *b = &a->p->block[k];
        if (is_listed(b) && is_alike(a, b, &a->p->block[i])) return true;
    }
    return false;
}

static void put_row(const dt__c_about *a, dt__chars *to, int64_t i)
{
    const dt__c_block *b = &a->p->block[i];
    const dt_trace_call *c = dt_trace_call_at(a->p->trace, b->first / 2);
    int64_t first = b->first, last = b->last, times = 1;
    for (int64_t k = i + 1; k < a->p->n_blocks; k++) {
        const dt__c_block *other = &a->p->block[k];
        if (!is_listed(other) || !is_alike(a, b, other)) continue;
        first = dt__min_i64(first, other->first);
        last = dt__max_i64(last, other->last);
        times++;
    }
    dt__c_printf(to, "| `%s` | %zu | %zu | %lld | %lld | ", b->name, (size_t)b->n * b->size, b->at,
                 (long long)first / 2, (long long)last / 2);
    put_escaped(to, c->module);
    dt__c_printf(to, "%s%s%s", c->module[0] != '\0' ? ": " : "", c->op->name,
                 b->value < 0 ? ", while it runs" : "");
    if (times > 1) dt__c_printf(to, ", %lld times", (long long)times);
    dt__put_text(to, " |\n");
}

void dt__c_put_map(const dt__c_about *a, dt__chars *to)
{
    dt__put_text(to, "| value | bytes | offset | from call | to call | of |\n"
                     "|---|---|---|---|---|---|\n");
    for (int64_t i = 0; i < a->p->n_blocks; i++) {
        if (is_listed(&a->p->block[i]) && !is_told(a, i)) put_row(a, to, i);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char usage[] =
    "# @\n\nA model of detent as C99. `@.c` and `@.h` need no library;\n"
    "`@_test.c` shows that a compiler and a processor give the same bits as detent:\n\n"
    "    cc -O2 @.c @_test.c -o @_test && ./@_test\n\n"
    "`make test` does the same. In a project of CMake `add_subdirectory` of this folder makes the\n"
    "library `@_model`.\n\n";

static bool tells_classes(const dt__c_about *a)
{
    return a->data != NULL && a->data->target != NULL && strcmp(a->data->target, "classes") == 0;
}

/* Input of the example program: raw numbers, a signal, or rows of a table. */
enum { NUMBERS, SIGNAL, ROW, WINDOW };

static int example_reads(const dt__c_about *a)
{
    if (a->table == NULL) return a->features != NULL ? SIGNAL : NUMBERS;
    return a->row->series.given ? WINDOW : ROW;
}

static const struct {
    const char *argument;
    const char *lines; /* lines that compute x; %lld is the width of a row */
    const char *standardize, *encode;
} reads[] = {
    [NUMBERS] = { "const float *v", "", "    @_standardize(v, x);\n", "    @_encode(v, codes);" },
    [SIGNAL] = { "const float *samples", "    @_features(samples, x, arena);\n",
                 "    @_standardize(x, x);\n", "" },
    [ROW] = { "const @_fields *row", "    if (@_row(row, x) != 0) return -1;\n", "",
              "    @_quantize(x, codes);" },
    [WINDOW] = { "const @_fields *rows",
                 "    for (int i = 0; i < $_INPUTS / %lld; i++) {\n"
                 "        if (@_row(&rows[i], x + i * %lld) != 0) return -1;\n    }\n",
                 "    @_standardize(x, x);\n", "    @_encode(x, codes);" },
};

/* Writes the lines of the example that compute the inputs of NAME_run. */
static void put_inputs(const dt__c_about *a, int kind, bool scales, dt__chars *to)
{
    char lines[256];
    const long long width = a->table != NULL ? (long long)dt_columns_width(a->table) : 0;
    snprintf(lines, sizeof lines, reads[kind].lines, width, width);
    dt__c_put_named(a, to, lines);
    if (!a->p->device) {
        if (scales) dt__c_put_named(a, to, reads[kind].standardize);
        return;
    }
    const bool measured =
        kind == NUMBERS && (a->data == NULL || a->data->features.kind == DT_FEATURES_NONE);
    dt__c_put_named(a, to, reads[kind].encode);
    dt__c_put_named(a, to, measured ? " /* or @_encode_int16 */\n" : "\n");
}

/* Writes an example program, for a model with one input and one output. */
static void put_example(const dt__c_about *a, dt__chars *to)
{
    const int64_t *v;
    const int kind = example_reads(a);
    const bool scales = a->data != NULL && a->data->channels > 0, device = a->p->device;
    const bool has_x = kind != NUMBERS || (scales && !device);
    if (dt_trace_inputs(a->p->trace, &v) > 1 || dt_trace_outputs(a->p->trace, &v) > 1) return;
    dt__c_put_named(a, to, "## Use\n\n");
    if (device && a->data != NULL && a->data->features.kind != DT_FEATURES_NONE) {
        dt__put_text(to, "`v` are the features below, which the program computes.\n\n");
    }
    dt__c_put_named(a, to,
                    "```c\n#include \"@.h\"\n\n"
                    "static uint64_t arena[($_ARENA_BYTES + 7) / 8];\n\n");
    dt__c_put_named(a, to, tells_classes(a) ? "int class_of(" : "int compute(");
    dt__c_put_named(a, to, reads[kind].argument);
    dt__c_put_named(a, to, tells_classes(a) ? ", float *score)\n{\n" : ", float *y)\n{\n");
    if (has_x) dt__c_put_named(a, to, "    float x[$_INPUTS];\n");
    if (device) dt__c_put_named(a, to, "    int8_t codes[$_INPUTS], answer[$_OUTPUTS];\n");
    if (tells_classes(a)) dt__c_put_named(a, to, "    float y[$_OUTPUTS];\n");
    put_inputs(a, kind, scales, to);
    dt__c_put_named(a, to,
                    device  ? "    if (@_run(codes, answer, arena) != $_OK) return -1;\n"
                              "    @_dequantize(answer, y);\n"
                    : has_x ? "    if (@_run(x, y, arena) != $_OK) return -1;\n"
                            : "    if (@_run(v, y, arena) != $_OK) return -1;\n");
    dt__c_put_named(a, to,
                    tells_classes(a) ? "    return @_classify(y, score);\n}\n```\n\n"
                                     : "    return 0;\n}\n```\n\n");
}

const char dt__c_flags_text[] =
    "Compile it without `-ffast-math`; on 32-bit x86 with `-msse2 -mfpmath=sse`.\n\n";

const char dt__c_map_text[] =
    "Values are those of the source. A value is there from the\n"
    "call that writes it to the last one that reads it; where several have a row, from the first\n"
    "of them to the last.\n\n";

void dt__c_put_readme(const dt__c_about *a, dt__chars *to)
{
    const dt__c_program *p = a->p;
    dt__c_put_named(a, to, usage);
    dt__put_text(to, dt__c_flags_text);
    put_example(a, to);
    dt__c_put_model(a, to);
    c_put_columns_page(a, to);
    dt__c_put_quantization(a, to);
    dt__c_printf(to,
                 "## Costs\n\n| | |\n|---|---|\n"
                 "| flash | %zu bytes of constants and descriptors, and the code |\n"
                 "| RAM | %zu bytes, the arena, and the stack |\n"
                 "| multiply-adds | %lld |\n| products of integers | %lld |\n"
                 "| products of floats | %lld |\n| checksum of the constants | %08x |\n\n",
                 p->flash, dt__c_arena_bytes(p), (long long)a->multiply_adds,
                 (long long)p->integer_products, (long long)p->float_products, p->checksum);
    DT__PUT_ALL(to, "## The arena\n\nOffsets are in bytes. ", dt__c_map_text);
    dt__c_put_map(a, to);
}
