/* Format c: integer-only models: which values are codes, and the tables of their weights. */
#include "export/c/c_device.h"
#include "export/c/c_views.h"
#include "io/model/code_rows.h"
#include "ops/device/device_layer.h"
#include "qat/quantized.h"

#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, BIAS };

bool dt__c_is_device(const dt_trace *t)
{
    for (int64_t i = 0; i < dt_trace_values(t); i++) {
        if (dt_trace_value_at(t, i)->coded) return true;
    }
    return false;
}

/* The only call that reads a value; NULL: none, or several. */
static const dt_trace_call *reader_of(const dt_trace *t, int64_t value)
{
    const dt_trace_call *found = NULL;
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        const dt_trace_call *c = dt_trace_call_at(t, i);
        for (int k = 0; k < c->n_in; k++) {
            if (c->in[k].value != value) continue;
            if (found != NULL) return NULL;
            found = c;
        }
    }
    return found;
}

static bool is_input(const dt_trace *t, int64_t value)
{
    return value >= 0 && dt_trace_value_at(t, value)->kind == DT_VALUE_INPUT;
}

static bool is_output(const dt_trace *t, int64_t value)
{
    const int64_t *out;
    const int n = dt_trace_outputs(t, &out);
    for (int i = 0; i < n; i++) {
        if (out[i] == value) return true;
    }
    return false;
}

const dt_trace_value *dt__c_device_codes(const dt_trace *t, int64_t value)
{
    const dt_trace_value *v = dt_trace_value_at(t, value);
    if (v->coded) return v; /* an output as codes, as a user's module may return it */
    const dt_trace_call *c = v->kind == DT_VALUE_INPUT ? reader_of(t, value) : NULL;
    if (c != NULL) return dt_trace_value_at(t, c->out[0]);
    if (v->call >= 0) c = dt_trace_call_at(t, v->call);
    return c != NULL ? dt_trace_value_at(t, c->in[X].value) : v;
}

/* ---- what can be expressed ------------------------------------------------------------------- */

/* Whether a call swaps the two dimensions of a signal. */
static bool exchanges(const dt_trace_call *c)
{
    const dt_ints *dims = c->options;
    return strcmp(c->op->name, "device_permute") == 0 && dims->n == 3 && dims->v[0] == 0 &&
           (dims->v[1] == 2 || dims->v[1] == -1);
}

/* Whether this is an input [time, channels] whose only reader swaps the dimensions: it has channels
 * last already. */
static bool is_plain_input(const dt_trace *t, int64_t value)
{
    const dt_trace_value *v = dt_trace_value_at(t, value);
    if (v->kind == DT_VALUE_INPUT) {
        const dt_trace_call *quantize = reader_of(t, value);
        return quantize != NULL && is_plain_input(t, quantize->out[0]);
    }
    const dt_trace_call *made = v->call < 0 ? NULL : dt_trace_call_at(t, v->call);
    const dt_trace_call *reader = reader_of(t, value);
    return made != NULL && strcmp(made->op->name, "device_quantize") == 0 && reader != NULL &&
           exchanges(reader);
}

bool dt__c_is_image(const dt_trace *t, int64_t value)
{
    const dt_trace_value *v = dt_trace_value_at(t, value);
    return v->rank == 4 || (v->rank == 3 && !is_plain_input(t, value));
}

static int64_t pixels_of(const dt_trace_value *v)
{
    return v->extent[2].size * (v->rank == 4 ? v->extent[3].size : 1);
}

/* Whether a reshape keeps the order of elements in memory, though images have channels last. */
static bool keeps_order(const dt_trace *t, const dt_trace_call *c)
{
    const dt_trace_value *x = dt_trace_value_at(t, c->in[X].value);
    const dt_trace_value *y = dt_trace_value_at(t, c->out[0]);
    const bool from = dt__c_is_image(t, c->in[X].value), to = dt__c_is_image(t, c->out[0]);
    if (from && to) return x->extent[1].size == y->extent[1].size;
    if (!from && !to) return true;
    const dt_trace_value *image = from ? x : y;
    return image->extent[1].size == 1 || pixels_of(image) == 1;
}

/* The dimensions of a value with more than one element, in memory order. */
static int lying(const dt_trace *t, int64_t value, int dims[DT_MAX_RANK])
{
    const dt_trace_value *v = dt_trace_value_at(t, value);
    const bool image = dt__c_is_image(t, value);
    int n = 0;
    for (int i = 0; i < v->rank; i++) {
        const int d = !image || i == 0 ? i : i == v->rank - 1 ? 1 : i + 1;
        if (d == 0 || v->extent[d].size != 1) dims[n++] = d;
    }
    return n;
}

/* Whether a permutation keeps the order of elements in memory. */
static bool leaves(const dt_trace *t, const dt_trace_call *c)
{
    const dt_ints *order = c->options;
    int from[DT_MAX_RANK], to[DT_MAX_RANK];
    if (strcmp(c->op->name, "device_permute") != 0) return false;
    const int n = lying(t, c->in[X].value, from), m = lying(t, c->out[0], to);
    bool same = n == m;
    for (int i = 0; i < n && same; i++) {
        const int64_t d = order->v[to[i]];
        same = (d < 0 ? d + order->n : d) == from[i];
    }
    return same;
}

bool dt__c_takes_device(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    if (strcmp(c->op->name, "device_quantize") == 0) {
        if (is_input(t, c->in[X].value) && reader_of(t, c->in[X].value) == c) return true;
        snprintf(why, size,
                 "its floats are computed in the model; a model of integers computes "
                 "none");
        return false;
    }
    if (strcmp(c->op->name, "device_dequantize") == 0) {
        if (is_output(t, c->out[0])) return true;
        snprintf(why, size, "its floats go on in the model; a model of integers computes none");
        return false;
    }
    if (strncmp(c->op->name, "device_", 7) != 0) {
        snprintf(why, size, "it computes floats, and other layers of the model integers");
        return false;
    }
    if (strcmp(c->op->name, "device_permute") == 0 && !leaves(t, c) && !exchanges(c)) {
        snprintf(why, size,
                 "it moves elements, other than by exchanging the two dimensions of lines");
        return false;
    }
    if (strcmp(c->op->name, "device_reshape") == 0 && dt__c_is_image(t, c->in[X].value) &&
        dt__c_is_image(t, c->out[0]) && !keeps_order(t, c)) {
        snprintf(why, size, "it makes an image of another image");
        return false;
    }
    return true;
}

bool dt__c_is_device_view(const dt__c_program *p, const dt_trace_call *c)
{
    if (strcmp(c->op->name, "device_quantize") == 0 ||
        strcmp(c->op->name, "device_dequantize") == 0) {
        return true;
    }
    if (leaves(p->trace, c)) return true;
    return strcmp(c->op->name, "device_reshape") == 0 && keeps_order(p->trace, c);
}

void dt__c_device_turn(const dt__c_program *p, int64_t value, bool back, const int8_t *from,
                       int8_t *to)
{
    const bool image = dt__c_is_image(p->trace, value);
    const int64_t channels = image ? dt__c_dim(p, value, 1) : 1;
    const int64_t pixels = dt__c_count(p, value) / dt__max_i64(1, channels);
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t k = 0; k < pixels; k++) {
            const int64_t planes = c * pixels + k, export = k * channels + c;
            to[back ? planes : export] = from[back ? export : planes];
        }
    }
}

/* ---- CMSIS-NN -------------------------------------------------------------------------------- */

void dt__c_begin_cmsis(dt__c_program *p, const char *text, size_t room)
{
    if (room > p->cmsis) p->cmsis = (room + 7) / 8 * 8;
    dt__c_want(p, text);
    dt__c_line(p, "#if defined(DEVICE_CMSIS_NN)");
}

void dt__c_begin_plain(dt__c_program *p) { dt__c_line(p, "#else"); }
void dt__c_end_cmsis(dt__c_program *p) { dt__c_line(p, "#endif"); }

/* ---- weights --------------------------------------------------------------------------------- */

/* Reorders codes of rows [channels][taps] to [taps][channels], as the kernel reads them; for a
 * depthwise convolution to [taps][rows]. */
static void order_codes(const dt__device_layer *l, int64_t taps, bool depthwise, int8_t *to)
{
    const int64_t channels = l->columns / dt__max_i64(1, taps);
    for (int64_t r = 0; r < l->rows; r++) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t k = 0; k < taps; k++) {
                const int8_t code = l->codes[(r * channels + c) * taps + k];
                if (depthwise) to[k * l->rows + r] = code;
                else to[(r * taps + k) * channels + c] = code;
            }
        }
    }
}

static dt__c_name part(const dt__c_program *p, const char *word)
{
    dt__c_name name;
    snprintf(name.text, sizeof name.text, "w%lld_%s", (long long)p->at, word);
    return name;
}

static void put_layer(dt__c_program *p, const dt_trace_call *c, const dt__device_layer *l, int bits,
                      bool depthwise)
{
    const dt_trace_value *w = dt_trace_value_at(p->trace, c->in[WEIGHT].value);
    const int64_t taps = w->rank > 2 ? pixels_of(w) : 1;
    const int64_t n = l->rows * l->columns;
    int8_t *codes = dt__alloc_array(p->ctx, n + 1, 1);
    int32_t *list = dt__alloc_array(p->ctx, l->rows + 1, sizeof *list);
    char what[DT__C_COMMENT], comment[2 * DT__C_COMMENT];
    if (codes == NULL || list == NULL) dt__c_fail(p, DT_ERR_NOMEM);
    if (p->status == DT_OK) {
        order_codes(l, taps, depthwise, codes);
        snprintf(comment, sizeof comment, "%s: %lld outputs, %d bits, %s",
                 dt__c_comment(w->name, what), (long long)l->rows, bits,
                 depthwise ? "[kernel][outputs]" : "[outputs][kernel][channels]");
        if (bits == 4) dt__pack_codes(bits, n, codes, 0, (uint8_t *)codes);
        dt__c_signed_bytes(p, part(p, "codes").text, comment, codes, bits == 4 ? (n + 1) / 2 : n);
        dt__c_words(p, part(p, "bias").text, "", l->bias, l->rows);
        for (int64_t o = 0; o < l->rows; o++) list[o] = l->by[o].m;
        dt__c_words(p, part(p, "multiplier").text, "", list, l->rows);
        for (int64_t o = 0; o < l->rows; o++) list[o] = l->by[o].shift;
        dt__c_words(p, part(p, "shift").text, "", list, l->rows);
    }
    DT__RELEASE(p->ctx, codes, list);
    dt__c_want(p, "device_matrix");
    const int zero = dt_trace_value_at(p->trace, c->out[0])->zero_point;
    const char *base = part(p, "").text;
    dt__c_constant(p,
                   "static const device_matrix %.*s = { %scodes, %sbias, %smultiplier, %sshift, "
                   "%lld, %d, %d, %d };\n",
                   (int)strlen(base) - 1, base, base, base, base, base, (long long)l->columns, zero,
                   l->least, l->most);
}

int dt__c_device_weight(dt__c_program *p, const dt_trace_call *c, int activation, bool depthwise)
{
    const dt_trace *t = p->trace;
    const dt_trace_value *x = dt_trace_value_at(t, c->in[X].value);
    const dt_trace_value *y = dt_trace_value_at(t, c->out[0]);
    const dt_trace_value *w = dt_trace_value_at(t, c->in[WEIGHT].value);
    const int64_t bias = c->n_in > BIAS ? c->in[BIAS].value : -1;
    if (!dt_is_packed(w->tensor)) {
        dt__c_fail(
            p, dt_fail(p->ctx, DT_ERR_STATE, "export: the weight %s is not converted", w->name));
        return 0;
    }
    const dt__device_operands in = {
        .x = { x->scale, x->zero_point },
        .y = { y->scale, y->zero_point },
        .w = ((const dt__packed *)w->tensor->ext)->codes,
        .bias = bias < 0 ? NULL : dt__values(dt_trace_value_at(t, bias)->tensor),
        .one_scale = strcmp(c->op->name, "device_linear") == 0 && dt__c_flag(c, "one_scale"),
        .activation = activation
    };
    const int bits = in.w->bits > 4 ? 8 : 4;
    dt__device_layer l;
    char why[DT__DEVICE_WHY];
    const dt_status s = dt__device_layer_make(p->ctx, &in, &l, why);
    if (s == DT_OK) put_layer(p, c, &l, bits, depthwise);
    else dt__c_fail(p, dt_fail(p->ctx, s, "export: %s: %s", c->module, why));
    dt__device_layer_free(p->ctx, &l);
    return p->status == DT_OK ? bits : 0;
}
