/* Exporter tflite: a trace as a model of TFLite, for LiteRT.
 *
 * Images have their channels last, inputs and outputs too. Mean and deviation of the training data
 * and the names of classes are in the metadata, under detent.data; which ends have their channels
 * last, which extents need not tell, under detent.ends. */
#include "export/exporters.h"
#include "export/tflite/tflite_put_model.h"

#include "core/text/utf8.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>
#include <string.h>

/* ---- emitters -------------------------------------------------------------------------------- */

static const void *const lists[] = { dt__lite_maps,   dt__lite_moves, dt__lite_sums,
                                     dt__lite_linear, dt__lite_convs, dt__lite_pools,
                                     dt__lite_norms,  dt__lite_cells, dt__lite_device };

const dt__lite_emitter *dt__lite_emitter_at(int i)
{
    return dt__row_at(lists, DT__COUNT_OF(lists), sizeof(dt__lite_emitter), i);
}

const dt__lite_emitter *dt__lite_emitter_of(const char *op)
{
    return dt__row_of_op(lists, DT__COUNT_OF(lists), sizeof(dt__lite_emitter), op);
}

#define MOST_RANK 5 /* of an operator of LiteRT */

/* Operands other than weights and inputs of products are read as floats. */
static bool takes_operands(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].value < 0) continue;
        const dt_trace_value *v = dt_trace_value_at(t, c->in[i].value);
        const bool coded = c->in[i].quant != NULL && !c->in[i].weight;
        const bool product =
            strncmp(c->op->name, "linear", 6) == 0 || strncmp(c->op->name, "conv", 4) == 0;
        if (v->rank > MOST_RANK) {
            snprintf(why, size, "%d dimensions; LiteRT's operators have at most %d", v->rank,
                     MOST_RANK);
            return false;
        }
        if (c->in[i].quant != NULL && dt__has_blocks(c->in[i].quant->scheme)) {
            snprintf(why, size, "an operand is in blocks of %s, which LiteRT does not have",
                     dt__scheme_of(c->in[i].quant->scheme)->name);
            return false;
        }
        if (coded && !(product && i == 0 && c->in[i].coded)) {
            snprintf(why, size, "an operand is quantized, and the format computes floats there");
            return false;
        }
    }
    return true;
}

static bool expresses(const dt_trace *t, const dt_trace_call *c, const dt_export_options *options,
                      char *why, size_t size)
{
    const dt__lite_emitter *e = dt__lite_emitter_of(c->op->name);
    (void)options;
    if (e == NULL) return false;
    if (dt_trace_has_length(t)) {
        snprintf(why, size,
                 "the number of tokens is fixed in this format, and this model's is not");
        return false;
    }
    return takes_operands(t, c, why, size) && (e->takes == NULL || e->takes(t, c, why, size));
}

/* ---- what reads what ------------------------------------------------------------------------- */

static void count_uses(dt__lite_model *m)
{
    const int64_t *out;
    const int n = dt_trace_outputs(m->trace, &out);
    for (int i = 0; i < n; i++) m->uses[out[i]] += 2;
    for (int64_t i = 0; i < dt_trace_calls(m->trace); i++) {
        const dt_trace_call *c = dt_trace_call_at(m->trace, i);
        for (int k = 0; k < c->n_in; k++) {
            if (c->in[k].value >= 0) m->uses[c->in[k].value]++;
        }
    }
}

/* Marks values that are read by an op on images, directly or through elementwise ops. */
static void find_spatial(dt__lite_model *m)
{
    for (int64_t i = dt_trace_calls(m->trace) - 1; i >= 0; i--) {
        const dt_trace_call *c = dt_trace_call_at(m->trace, i);
        const dt__lite_emitter *e = dt__lite_emitter_of(c->op->name);
        if (c->n_in == 0 || c->in[0].value < 0 || c->out[0] < 0) continue;
        const dt_trace_value *x = dt__lite_operand(m, c, 0), *y = dt__lite_result_of(m, c);
        const bool keeps =
            x->rank == y->rank && m->spatial[c->out[0]] && strstr(c->op->name, "reshape") == NULL &&
            strcmp(c->op->name, "permute") != 0 && strcmp(c->op->name, "transpose") != 0;
        for (int k = 0; k < c->n_in && (e->spatial || keeps); k++) {
            if (c->in[k].value < 0 || (k > 0 && !keeps)) continue;
            const int rank = dt__lite_operand(m, c, k)->rank;
            if (rank == 3 || rank == 4) m->spatial[c->in[k].value] = true;
        }
    }
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static void note_layout(const dt__lite_model *m, const char *name, const dt__lite_shape *s)
{
    const dt_export_options *o = m->call->options;
    char line[240];
    if (o->note == NULL) return;
    size_t used = (size_t)snprintf(line, sizeof line, "%.60s: [", name);
    for (int i = 0; i < s->rank; i++) {
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)s->dims[i]);
    }
    snprintf(line + used, sizeof line - used, "], channels last");
    o->note(o->user, line);
}

static void note_end(dt__lite_model *m, bool last)
{
    const size_t used = strlen(m->ends);
    snprintf(m->ends + used, sizeof m->ends - used, "%s%s", used > 0 ? "," : "",
             last ? "last" : "plain");
}

static void put_inputs(dt__lite_model *m)
{
    const int64_t *id;
    const int n = dt_trace_inputs(m->trace, &id);
    for (int i = 0; i < n; i++) {
        const dt_trace_value *v = dt_trace_value_at(m->trace, id[i]);
        const bool last = m->spatial[id[i]] && v->dtype == DT_F32;
        const dt__lite_shape own = dt__lite_plain_shape(v), image = dt__lite_last_shape(v);
        dt__lite_shape s = own;
        if (last && v->rank == 4) s = image;
        if (last && v->rank == 3)
            s = (dt__lite_shape){ 3, { own.dims[0], own.dims[2], own.dims[1] } };
        int x = dt__lite_result(&m->p, v->name, &s);
        if (x >= 0 && v->dtype != DT_F32) m->p.tensor[x].type = DT__LITE_INT32;
        dt__lite_input(&m->p, v->name, x);
        note_end(m, last);
        if (last) {
            note_layout(m, v->name, &s);
            x = dt__lite_reshaped(m, x, &image, 0);
        }
        m->value[id[i]] = (dt__lite_value){
            .tensor = x, .layout = last ? DT__LITE_LAST : DT__LITE_PLAIN, .plain = -1, .last = -1
        };
    }
}

/* Adds an output. Images stay channels last; so do signals, without their height of 1. */
static int put_output(dt__lite_model *m, int64_t id, const char *name)
{
    const dt_trace_value *v = dt_trace_value_at(m->trace, id);
    const dt_trace_call c = { .n_in = 1, .in = { { .value = id } }, .n_out = 1, .out = { id } };
    note_end(m, dt__lite_is_last(m, &c, 0));
    if (!dt__lite_is_last(m, &c, 0)) return dt__lite_plain(m, &c, 0);
    dt__lite_shape s = dt__lite_last_shape(v);
    int y = dt__lite_last(m, &c, 0);
    if (v->rank == 3) {
        s = (dt__lite_shape){ 3, { s.dims[0], s.dims[2], s.dims[3] } };
        y = dt__lite_reshaped(m, y, &s, 0);
    }
    note_layout(m, name, &s);
    return y;
}

static void put_outputs(dt__lite_model *m)
{
    const int64_t *id;
    const int n = dt_trace_outputs(m->trace, &id);
    for (int i = 0; i < n; i++) {
        const char *name = m->trace->out_name[i];
        dt__lite_output(&m->p, name, put_output(m, id[i], name));
    }
}

/* ---- the export ------------------------------------------------------------------------------ */

static dt_status put_calls(dt__lite_model *m)
{
    const dt_export_options *o = m->call->options;
    const int64_t n = dt_trace_calls(m->trace);
    for (int64_t i = 0; i < n; i++) {
        const dt_trace_call *c = dt_trace_call_at(m->trace, i);
        m->p.hint = *c->module == 0 ? NULL : c->module;
        if (!m->folded[i]) dt__lite_emitter_of(c->op->name)->emit(m, c);
        if (m->status != DT_OK) return m->status;
        DT__TRY(dt__lite_status(&m->p));
        dt__did_convert(m->call->ctx, dt__elements_of_call(m->trace, c));
        if (o->progress != NULL) o->progress(o->user, i, n);
    }
    m->p.hint = NULL;
    return DT_OK;
}

static void put_metadata(dt__lite_model *m)
{
    const dt_model_info *info = m->call->info;
    if (info != NULL && info->data != NULL && dt__is_utf8(info->data)) {
        dt__lite_property(&m->p, "detent.data", info->data);
    }
    dt__lite_property(&m->p, "detent.ends", m->ends);
}

static void tell(const dt__lite_model *m, int64_t n, const char *what)
{
    const dt_export_options *o = m->call->options;
    char line[300];
    if (n == 0 || o->note == NULL) return;
    snprintf(line, sizeof line, "%lld %s", (long long)n, what);
    o->note(o->user, line);
}

/* Number of operators whose written version LiteRT's reference kernels do not support. */
static int64_t count_default_only(const dt__lite_model *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->p.ops; i++) {
        const dt__lite_op *o = &m->p.op[i];
        n += o->op == DT__LITE_ELU || (o->op == DT__LITE_DEPTHWISE_CONV_2D && o->version > 6);
    }
    return n;
}

/* Whether this is an integer-only network, which is for one example, as TFLite Micro runs it. */
static bool is_integer(const dt_trace *t)
{
    const dt_trace_call *c = dt_trace_call_at(t, 0);
    for (int64_t i = 0; c != NULL; c = dt_trace_call_at(t, ++i)) {
        if (dt__lite_is_device(c)) return true;
    }
    return false;
}

static void summarize(const dt__lite_model *m)
{
    dt_export_summary *s = m->call->summary;
    s->integer_products = m->integer_products;
    s->float_products = m->float_products;
    tell(m, m->pointwise,
         "convolutions of 1 x 1 with more than 4 bits: LiteRT finds a range for each pixel there, "
         "and detent one for the example: about 5e-3 of the outputs");
    tell(m, m->weights_only,
         "weights are written as floats: LiteRT would quantize the inputs of integer ones");
    tell(m, m->widened, "weights of at most 4 bits are written with 8: LiteRT's operator has no 4");
    tell(m, count_default_only(m),
         "operators that LiteRT's reference kernels lack (ELU, depthwise convolutions of 4 bits); "
         "its default ones have them");
    tell(m, m->blocks, "group scales: only LiteRT's XNNPACK kernels, its default, compute them");
    const bool integers = is_integer(m->trace);
    s->exact = integers && m->float_products == 0;
    s->promise =
        integers
            ? "TFLite Micro computes the model's bytes; LiteRT's kernels differ by one code in "
              "places, and its default ones by up to three"
        : m->pointwise > 0 ? "LiteRT's results differ by the ranges of convolutions of 1 x 1"
        : m->integer_products > 0
            ? "LiteRT's results differ in last bits, and where a code flips"
            : "LiteRT's results differ in last bits, of products of floats and exp";
}

static dt_status write_graph(dt__lite_model *m)
{
    m->p.batched = !is_integer(m->trace);
    count_uses(m);
    find_spatial(m);
    put_inputs(m);
    DT__TRY(put_calls(m));
    put_outputs(m);
    put_metadata(m);
    DT__TRY(dt__lite_status(&m->p));
    summarize(m);
    return dt__lite_write(&m->p, m->call->path, &m->call->summary->bytes);
}

static dt_status allocate(dt__lite_model *m)
{
    dt_ctx *ctx = m->call->ctx;
    const size_t n = (size_t)dt_trace_values(m->trace);
    m->value = dt__alloc_zero(ctx, n * sizeof *m->value);
    m->weight = dt__alloc_zero(ctx, n * sizeof *m->weight);
    m->uses = dt__alloc_zero(ctx, n * sizeof *m->uses);
    m->spatial = dt__alloc_zero(ctx, n * sizeof *m->spatial);
    m->folded = dt__alloc_zero(ctx, (size_t)dt_trace_calls(m->trace) * sizeof *m->folded);
    if (m->value == NULL || m->weight == NULL || m->uses == NULL || m->spatial == NULL ||
        m->folded == NULL) {
        return DT_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        m->value[i] = (dt__lite_value){ .tensor = -1, .plain = -1, .last = -1 };
        m->weight[i] = -1;
    }
    return DT_OK;
}

static dt_status write(const dt_export_call *call)
{
    dt_ctx *ctx = call->ctx;
    dt__lite_model m = { .call = call, .trace = call->trace };
    dt__lite_begin(ctx, &m.p);
    dt_status s = allocate(&m);
    if (s == DT_OK) s = write_graph(&m);
    DT__RELEASE(ctx, m.value, m.weight, m.uses, m.spatial, m.folded);
    dt__lite_free(&m.p);
    return s;
}

static const char *becomes(const char *op)
{
    const dt__lite_emitter *e = dt__lite_emitter_of(op);
    return e == NULL ? NULL : e->to;
}

const dt_exporter dt__exporter_tflite = {
    .name = "tflite",
    .text = "a flatbuffer of TFLite, for LiteRT",
    .traced = true,
    .expresses = expresses,
    .becomes = becomes,
    .write = write,
};
