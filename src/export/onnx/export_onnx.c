/* Exporter onnx: a trace as a graph of standard operators, opset 21, or 25 with codes of 2 bits.
 *
 * The graph reads what the model reads; mean and deviation of the training data and the names of
 * classes are in metadata_props, under detent.data. */
#include "export/exporters.h"
#include "export/onnx/onnx_put_model.h"

#include "core/text/utf8.h"

#include <stdio.h>
#include <string.h>

/* The ONNX operators that are written, with their attributes and types. Readers may rely on this
 * list; an emitter that needs another one adds it here. f: float, d: double.
 *
 *     Add Sub Mul Div                      f, d; Add also int32; Add, Sub, Mul also int64
 *     Neg Round Abs                        f, d
 *     Relu Exp Log Tanh Sigmoid Erf        f
 *     Sqrt                                 f, d
 *     Min Max                              f, d; two operands
 *     Clip                                 f, bounds are inputs, either may be left out
 *     LeakyRelu                            f; alpha
 *     PRelu                                f
 *     Cast                                 to: f, d, uint8, int8, int32, float16, bfloat16; from
 *                                          these, int2, int4 and int64
 *     MatMul, Gemm(transB)                 f; Gemm with --ops qdq alone
 *     MatMulInteger                        uint8 by int8, or by uint8 with zero point 128; of
 *                                          activations in blocks both have zero point 128
 *     Conv, ConvTranspose                  f, 1 and 2 dimensions; strides, pads, dilations, group
 *     MaxPool                              f; kernel_shape, strides, dilations
 *     ReduceMin ReduceMax                  f, axes are an input; keepdims
 *     ReduceSum ReduceMean                 f, d, likewise
 *     ArgMax                               f; axis, keepdims
 *     Softmax, LogSoftmax                  f; axis
 *     TopK                                 f; axis
 *     Reshape Expand Transpose(perm) Concat(axis) Unsqueeze Identity Slice
 *     Split                                axis; sizes are an input, or num_outputs
 *     Pad                                  mode: constant, reflect, edge, wrap
 *     Gather(axis), GatherElements(axis)   indices int32 or int64
 *     Shape Range                          int64
 *     Scan                                 body, num_scan_inputs; axes are 0; the body reads values
 *                                          of the graph around it
 *     LessOrEqual                          int64
 *     Equal                                int32
 *     Less Where                           f, d
 *     MatMulNBits                          of com.microsoft; K, N, bits, block_size,
 *                                          accuracy_level; --ops nbits
 *     QuantizeLinear, DequantizeLinear     uint8, int8, int32; axis; --ops qdq */

/* ---- emitters -------------------------------------------------------------------------------- */

static const void *const lists[] = { dt__put_maps,     dt__put_shapes,  dt__put_sums,
                                     dt__put_products, dt__put_pools,   dt__put_norms,
                                     dt__put_language, dt__put_experts, dt__put_cells };

static const dt__put_emitter *put_emitter_of(const char *op)
{
    return dt__row_of_op(lists, DT__COUNT_OF(lists), sizeof(dt__put_emitter), op);
}

static bool expresses(const dt_trace *t, const dt_trace_call *c, const dt_export_options *options,
                      char *why, size_t size)
{
    const dt__put_emitter *e = put_emitter_of(c->op->name);
    if (e == NULL) return false;
    const dt_quant_spec *a = c->in[0].quant;
    if (options->onnx_ops == DT_ONNX_QDQ && a != NULL && a->activation &&
        a->range == DT_RANGE_DYNAMIC) {
        snprintf(why, size, "--ops qdq requires static ranges, and its input has a dynamic one");
        return false;
    }
    if (options->onnx_ops != DT_ONNX_PLAIN && a != NULL && a->activation &&
        dt__levels_of(a) != NULL) {
        snprintf(why, size, "its input is in blocks of small floats, which --ops plain computes");
        return false;
    }
    for (int i = 0; i < c->n_in && options->onnx_ops == DT_ONNX_NBITS; i++) {
        const dt_quant_spec *x = c->in[i].quant;
        if (x == NULL || !x->activation || x->range == DT_RANGE_DYNAMIC) continue;
        snprintf(why, size,
                 "--ops nbits leaves activations in float, and the model was trained with a range "
                 "of its input; --ops plain computes it, and --ops qdq with int8");
        return false;
    }
    return e->takes == NULL || e->takes(t, c, why, size);
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static int type_of(dt_dtype dtype)
{
    return dtype == DT_F32 ? DT__PUT_FLOAT : dtype == DT_I64 ? DT__PUT_INT64 : DT__PUT_INT32;
}

/* "batch", "length", "3*batch"; NULL: a constant number. */
static const char *symbol_of(dt__put_model *m, dt_extent e)
{
    if (e.batch == 0 && e.length == 0) return NULL;
    char *text = dt__put_memory(&m->p, 64, 1);
    if (text == NULL) return NULL;
    if (e.size != 1) snprintf(text, 64, "%lld*", (long long)e.size);
    const size_t used = strlen(text);
    snprintf(text + used, 64 - used, "%s%s%s", e.batch != 0 ? "batch" : "",
             e.batch != 0 && e.length != 0 ? "*" : "", e.length != 0 ? "length" : "");
    return text;
}

dt__put_port dt__put_port_of(dt__put_model *m, const dt_trace_value *v, const char *name)
{
    dt__put_port port = { .name = name, .type = type_of(v->dtype), .rank = v->rank };
    for (int i = 0; i < v->rank; i++) {
        port.dim[i] = (dt__put_extent){ symbol_of(m, v->extent[i]), v->extent[i].size };
    }
    return port;
}

static void put_inputs(dt__put_model *m)
{
    const int64_t *id;
    const int n = dt_trace_inputs(m->trace, &id);
    for (int i = 0; i < n; i++) {
        const dt_trace_value *v = dt_trace_value_at(m->trace, id[i]);
        const dt__put_port port = dt__put_port_of(m, v, v->name);
        m->value[id[i]] = dt__put_input(&m->p, &port);
    }
}

/* Adds inputs past_key_values.N.key and .value for each attention; the first has the past's
 * length. */
static void put_past(dt__put_model *m)
{
    int64_t layer = 0;
    for (int64_t i = 0; i < dt_trace_calls(m->trace); i++) {
        const dt_trace_call *c = dt_trace_call_at(m->trace, i);
        if (strcmp(c->op->name, "attention") != 0) continue;
        for (int k = 1; k <= 2; k++) {
            const dt_trace_value *v = dt__put_operand(m, c, k);
            char name[80];
            snprintf(name, sizeof name, "past_key_values.%lld.%s", (long long)layer,
                     k == 1 ? "key" : "value");
            dt__put_input(&m->p, &(dt__put_port){ .name = name,
                                                  .type = DT__PUT_FLOAT,
                                                  .rank = 4,
                                                  .dim = { { "batch", 0 },
                                                           { NULL, v->extent[2].size },
                                                           { "past_length", 0 },
                                                           { NULL, v->extent[3].size } } });
        }
        layer++;
    }
    if (layer == 0) return;
    dt__value first = dt__put_past_input(m, "past_key_values.0.key");
    dt__value shape = first == NULL ? NULL : DT__PUT(&m->p, "Shape", first);
    m->past = DT__PUT(&m->p, "Gather", shape, DT__PUT_I64(&m->p, 2));
}

/* Moves the last n outputs before the keys and values that attention has added. */
static void put_first(dt__put_model *m, int n)
{
    DtOnnx__ValueInfo **out = m->p.output, *mine[DT_MAX_OUT];
    const int64_t others = m->p.outputs - n;
    if (m->p.failed) return;
    memcpy(mine, out + others, (size_t)n * sizeof *mine);
    memmove(out + n, out, (size_t)others * sizeof *out);
    memcpy(out, mine, (size_t)n * sizeof *mine);
}

static void put_outputs(dt__put_model *m)
{
    const int64_t *id;
    const int n = dt_trace_outputs(m->trace, &id);
    for (int i = 0; i < n; i++) {
        const dt_trace_value *v = dt_trace_value_at(m->trace, id[i]);
        const dt__put_port port = dt__put_port_of(m, v, m->trace->out_name[i]);
        dt__put_output(&m->p, &port, m->value[id[i]]);
    }
    put_first(m, n);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Writes the metadata of a model file: training data as JSON (mean, deviation, class names), the
 * tokenizer, and the tokens that begin, end and pad texts. */
static void put_metadata(dt__put_model *m)
{
    static const dt_model_info none = { .family = NULL };
    const dt_model_info *info = m->call->info == NULL ? &none : m->call->info;
    const char *const texts[][2] = { { "detent.data", info->data },
                                     { "detent.tokenizer", info->tokenizer },
                                     { "detent.tokens", info->tokens } };
    for (int i = 0; i < DT__COUNT_OF(texts); i++) {
        const char *text = texts[i][1];
        if (text != NULL && dt__is_utf8(text)) dt__put_property(&m->p, texts[i][0], text);
    }
}

/* ---- the export ------------------------------------------------------------------------------ */

static void progress(const dt_export_call *call, int64_t done, int64_t all)
{
    const dt_export_options *o = call->options;
    if (o->progress != NULL) o->progress(o->user, done, all);
}

static bool has_attention(const dt_trace *t)
{
    const dt_trace_call *c = dt_trace_call_at(t, 0);
    for (int64_t i = 0; c != NULL; c = dt_trace_call_at(t, ++i)) {
        if (strcmp(c->op->name, "attention") == 0) return true;
    }
    return false;
}

void dt__put_call(dt__put_model *m, const dt_trace_call *c)
{
    m->p.hint = *c->module == 0 ? NULL : dt__put_clean(&m->p, c->module);
    put_emitter_of(c->op->name)->emit(m, c);
}

static dt_status put_calls(dt__put_model *m)
{
    const int64_t n = dt_trace_calls(m->trace);
    for (int64_t i = 0, next; i < n; i = next) {
        dt__repeat r;
        double elements = 0;
        next = i + 1;
        if (!m->native && dt__trace_repeat(m->trace, i, &r)) {
            dt__put_repeat(m, &r);
            next = i + r.times * r.n;
        } else {
            dt__put_call(m, dt_trace_call_at(m->trace, i));
        }
        DT__TRY(m->status);
        DT__TRY(dt__put_status(&m->p));
        for (int64_t k = i; k < next; k++) {
            elements += dt__elements_of_call(m->trace, dt_trace_call_at(m->trace, k));
        }
        dt__did_convert(m->call->ctx, elements);
        progress(m->call, next, n + 1);
    }
    m->p.hint = NULL;
    return DT_OK;
}

static void summarize(const dt__put_model *m)
{
    dt_export_summary *s = m->call->summary;
    s->integer_products = m->integer_products;
    s->float_products = m->float_products;
    static const char *const near[] = {
        "onnxruntime's results differ in last bits, of products of floats, exp and the like",
        "activations stay in float: results are those of preset int4-weight, but for last bits",
        "onnxruntime's results differ by the rounding of biases, and where a code flips"
    };
    const dt_export_options *o = m->call->options;
    s->changed = m->changed;
    s->exact = !m->near && o->onnx_ops == DT_ONNX_PLAIN;
    s->promise = m->near ? near[o->onnx_ops] : "onnxruntime computes the model's bits";
    if (m->near && o->onnx_ops == DT_ONNX_NBITS && o->accuracy > 0) {
        s->promise = "onnxruntime quantizes activations in blocks: results differ by its rounding";
    }
    if (m->blocks) {
        s->promise =
            "onnxruntime multiplies the same codes: results differ in last bits, and where "
            "one of them flips a code";
    }
}

/* Writes one note about something that occurred in several layers. */
static void note_totals(const dt__put_model *m)
{
    const dt_export_options *o = m->call->options;
    const struct {
        const dt__put_total *total;
        const char *word;
    } lines[] = { { &m->clipped, "codes of -128 are written as -127" },
                  { &m->floats, "products stay in float" },
                  { &m->widened,
                    "outputs, whose weights are small beside their biases, get a larger "
                    "scale, so that the biases fit int32" } };
    for (int i = 0; i < DT__COUNT_OF(lines) && o->note != NULL; i++) {
        char line[240];
        const dt__put_total *t = lines[i].total;
        if (t->layers == 0) continue;
        snprintf(line, sizeof line, "%lld %s, in %lld layer%s: %s", (long long)t->n, lines[i].word,
                 (long long)t->layers, t->layers == 1 ? "" : "s", t->names);
        o->note(o->user, line);
    }
}

static dt_status write_graph(dt__put_model *m)
{
    m->native = has_attention(m->trace);
    put_inputs(m);
    if (m->call->options->past && !m->native) {
        return dt_fail(m->call->ctx, DT_ERR_ARG,
                       "export: past keys and values are of language models; this model has no "
                       "attention");
    }
    if (m->call->options->past) put_past(m);
    DT__TRY(put_calls(m));
    put_outputs(m);
    put_metadata(m);
    DT__TRY(dt__put_status(&m->p));
    summarize(m);
    note_totals(m);
    return dt__put_write(&m->p, m->call->path, &m->call->summary->bytes);
}

static dt_status write(const dt_export_call *call)
{
    dt_ctx *ctx = call->ctx;
    dt__put_model m = { .call = call, .trace = call->trace };
    dt__put_begin(ctx, &m.p);
    if (call->options->onnx_opset > 0) m.p.opset = DT__PUT_INT2_OPSET;
    m.value = dt__alloc_zero(ctx, (size_t)dt_trace_values(call->trace) * sizeof *m.value);
    dt_status s = m.value == NULL ? DT_ERR_NOMEM : write_graph(&m);
    dt__release(ctx, m.value);
    dt__put_free(&m.p);
    if (s == DT_OK) progress(call, 1, 1);
    return s;
}

static const char *becomes(const char *op)
{
    const dt__put_emitter *e = put_emitter_of(op);
    return e == NULL ? NULL : e->to;
}

const dt_exporter dt__exporter_onnx = {
    .name = "onnx",
    .text = "a file of ONNX, opset 21 or 25, for onnxruntime and what else reads it",
    .traced = true,
    .expresses = expresses,
    .becomes = becomes,
    .write = write,
};
