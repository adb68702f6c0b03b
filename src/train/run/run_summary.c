/* The sizes of a run's model, and summary.json. */
#include "autograd/kind.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "core/text/json.h"
#include "nn/module.h"
#include "ptq/positions.h"
#include "qat/derived_quant.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"
#include "qat/schemes/scheme.h"
#include "train/run/run.h"

#include <math.h>
#include <string.h>

/* ---- sizes ---------------------------------------------------------------------------------- */

static int64_t bytes_of(const dt_tensor *x) { return x->count * (int64_t)dt_dtype_size(x->dtype); }

/* Codes of 2, 4 or 8 bits in rows of whole bytes; a scale per group; a zero point per group if the
 * scheme has one. */
static int64_t packed_bytes(const dt_tensor *x, const dt_quant_spec *quant, const dt__row_map *map)
{
    dt__cut cut;
    const dt__weight_shape shape = dt__weight_shape_of(x, map);
    if (dt__weight_cut(x->ctx, quant, &shape, &cut) != DT_OK) return 0;
    const int64_t bits = quant->bits <= 2 ? 2 : quant->bits <= 4 ? 4 : 8;
    const int64_t scale = dt__scale_dtype(quant) == DT_SCALE_F32 ? 4 : 2;
    const int64_t zero = dt__scheme_of(quant->scheme)->has_zero ? 1 : 0;
    return cut.rows * (dt__ceil_div(cut.columns * bits, 8) + cut.groups * (scale + zero));
}

/* Bytes of a tensor of a static or learned range. A converted model keeps scale, zero point and
 * shift of inputs and results; scales of a weight are counted with the weight. */
static int64_t range_bytes(bool as_packed, const dt_module *holder, const dt__quantizer *q,
                           const dt_tensor *x)
{
    const bool stays = as_packed && (x == q->scale || x == q->zero_point || x == q->shift);
    if (!stays || strcmp(holder->name, "weight") == 0) return 0;
    return bytes_of(x);
}

/* Bytes that converting a derived weight adds to the layer: a folded norm adds a bias, if the layer
 * has none. Adapters are not counted at all. */
static int64_t derived_bytes(const dt_module *layer)
{
    if (dt__has_lora(layer) || dt__entry_find(layer, "bias") != NULL) return 0;
    return bytes_of(dt__entry_find(layer->norm, "bias")->x);
}

/* Whether converting removes the module: a norm that is folded into a derived weight. */
static bool is_removed(const dt_module *m)
{
    const dt_module *layer = m->normed;
    return layer != NULL && dt__derived_quant(layer) != NULL && !dt__has_lora(layer) &&
           layer->folding != DT__APART;
}

/* Bytes of entry e of `holder`. */
static int64_t entry_bytes(bool as_packed, dt_module *holder, const dt__entry *e)
{
    const dt_tensor *x = e->x;
    const char *name = e->name;
    const dt__quantizer *range = dt__quantizer_of(holder);
    if (range != NULL) return range_bytes(as_packed, holder, range, x);
    const dt__fq *derived = dt__derived_quant(holder);
    if (as_packed && is_removed(holder)) return 0;
    if (as_packed && dt__has_lora(holder) && strncmp(name, "lora_", 5) == 0) return 0;
    const dt_quant_spec *quant = as_packed || dt_is_packed(x) ? dt__quant_of(x) : NULL;
    if (as_packed && derived != NULL && strcmp(name, "weight") == 0) {
        return packed_bytes(x, &derived->quant, &derived->map) + derived_bytes(holder);
    }
    return quant != NULL ? packed_bytes(x, quant, dt__row_map_of_weight(x)) : bytes_of(x);
}

int64_t dt__module_bytes(dt_module *m, bool as_packed)
{
    return dt__bytes_below(m, NULL, as_packed);
}

int64_t dt__bytes_below(dt_module *m, const char *path, bool as_packed)
{
    int64_t bytes = 0;
    DT__EACH_ENTRY(holder, e, m) {
        const char *own = dt__path_within(m, e->path);
        const size_t n = path == NULL ? 0 : strlen(path);
        if (n > 0 && (strncmp(own, path, n) != 0 || own[n] != '.')) continue;
        if (dt__entry_is_first(m, e)) bytes += entry_bytes(as_packed, holder, e);
    }
    return bytes;
}

void dt__run_describe(dt__run *r, dt_module *m)
{
    int64_t adapters = 0;
    r->data.range_params = 0; /* only those of learned ranges */
    DT__EACH_MODULE(each, m) {
        if (!dt__has_lora(each)) continue;
        adapters += dt__entry_find(each, "lora_a")->x->count;
        adapters += dt__entry_find(each, "lora_b")->x->count;
    }
    DT__EACH_ENTRY(each, e, m) {
        if (dt__quantizer_of(each) != NULL && e->kind == DT_PARAM)
            r->data.range_params += e->x->count;
    }
    r->summary->parameters = dt_param_count(m) - adapters;
    r->summary->trained = dt_trained_count(m);
    r->summary->float_bytes = dt__module_bytes(m, false);
    r->summary->quantized_bytes = dt__module_bytes(m, true);
}

/* ---- products ------------------------------------------------------------------------------- */

static void add_products(void *user, const dt__module_call *c)
{
    int64_t *products = user;
    for (int i = 0; i < c->n_in; i++) *products += dt__module_products(c->m, c->in[i]);
}

dt_status dt__run_one_example(dt__run *r, dt_module *m, int64_t *products)
{
    dt__side side, target;
    r->data.train->kind->sides(r->data.train, &side, &target);
    int64_t dims[DT_MAX_RANK] = { 1 };
    memcpy(dims + 1, side.dims, (size_t)side.rank * sizeof *dims);
    dt_tensor *x = NULL;
    dt_tape *t = NULL;
    dt_status status = dt_tensor_create(r->ctx, side.dtype, side.rank + 1, dims, &x);
    if (status == DT_OK) status = dt_fill(x, 0);
    if (status == DT_OK) status = dt_tape_create(r->ctx, &t);
    if (status == DT_OK) {
        dt_no_grad(t, true);
        if (products != NULL) t->on_forward = add_products;
        t->on_forward_user = products;
        dt_forward(t, m, x);
        status = dt_tape_status(t);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    return status;
}

dt_status dt__run_count_products(dt__run *r, dt_module *trial)
{
    dt__positions counted;
    DT__TRY(dt__positions_begin(trial, &counted));
    dt_train(trial, false);
    const dt_status status = dt__run_one_example(r, trial, &r->summary->multiply_adds);
    dt_train(trial, true);
    dt__positions_end(&counted);
    dt__run_cost_rounding(r, trial, &counted);
    dt__positions_free(&counted);
    return status;
}

/* ---- summary.json --------------------------------------------------------------------------- */

static void put_name(dt__chars *t, const char *name)
{
    DT__PUT_ALL(t, ", ", DT__QUOTED(name), ": ");
}

static void put_number(dt__chars *t, double value)
{
    if (isfinite(value)) dt__put_real(t, value);
    else dt__put_text(t, "null"); /* JSON has neither NaN nor infinity */
}

static void put_bool(dt__chars *t, const char *name, bool value)
{
    put_name(t, name);
    dt__put_text(t, value ? "true" : "false");
}

/* null if unknown, as another process evaluated. */
static void put_speed(dt__chars *t, double speed) { put_number(t, speed > 0 ? speed : NAN); }

static void put_metrics(dt__chars *t, const dt_metrics *m)
{
    dt__put_text(t, "{");
    for (int i = 0; i < m->n; i++) {
        if (i > 0) dt__put_text(t, ", ");
        DT__PUT_ALL(t, DT__QUOTED(m->metric[i]->name), ": ");
        put_number(t, m->value[i]);
    }
}

static void put_result(dt__chars *t, const dt_run_result *result)
{
    put_metrics(t, &result->metrics);
    put_name(t, "bytes");
    dt__put_integer(t, result->bytes);
    put_name(t, "bits_per_weight");
    put_number(t, result->bits_per_weight);
    put_name(t, "samples_per_s");
    put_speed(t, result->metrics.samples_per_s);
    if (result->metrics.tokens_per_s > 0) {
        put_name(t, "tokens_per_s");
        put_number(t, result->metrics.tokens_per_s);
    }
}

/* What early stopping and the best evaluation decided. */
static void put_training(dt__chars *t, const dt_run_summary *summary)
{
    dt__put_text(t, ",\n  \"training\": {\"steps\": ");
    dt__put_integer(t, summary->steps);
    put_name(t, "start_step");
    dt__put_integer(t, summary->start_step);
    put_bool(t, "stopped_early", summary->stopped_early);
    put_name(t, "best_step");
    dt__put_integer(t, summary->best_step);
    put_bool(t, "ends_with_best", summary->ends_with_best);
    dt__put_text(t, "}");
}

/* train.threshold, as probabilities. */
static void put_thresholds(dt__chars *t, const dt_run_summary *s)
{
    dt__put_text(t, ",\n  \"threshold\": {\"probabilities\": [");
    for (int i = 0; dt__put_each(t, i, s->thresholds.n); i++)
        dt__put_real(t, 1 / (1 + exp(-s->thresholds.v[i])));
    dt__put_text(t, "]");
    put_name(t, "validation");
    put_number(t, s->with_thresholds);
    put_name(t, "validation_at_half");
    put_number(t, s->without_thresholds);
    if (s->decided.n > 0) {
        put_name(t, "results");
        put_metrics(t, &s->decided);
        dt__put_text(t, "}");
    }
    dt__put_text(t, "}");
}

/* Which weights a result is about, and how it was verified. */
static void put_origin(dt__chars *t, const dt_run_summary *summary, dt_contender which)
{
    static const char *const weights[] = {
        [DT_FLOAT_NONE] = "none",         [DT_FLOAT_TRAINED] = "trained",
        [DT_FLOAT_BASELINE] = "baseline", [DT_FLOAT_AT_START] = "start_step",
        [DT_FLOAT_INIT] = "init",         [DT_FLOAT_ADAPTED] = "adapters"
    };
    if (which == DT_RUN_FLOAT || which == DT_RUN_PTQ) {
        put_name(t, "weights");
        dt__put_quoted(t, weights[summary->float_weights]);
    }
    if (which != DT_RUN_CONVERTED) return;
    put_bool(t, "same_bits_as_qat", summary->same_bits_as_qat);
    put_bool(t, "same_bits_from_file", summary->same_bits_from_file);
    put_name(t, "rounder");
    dt__put_quoted(t, summary->rounder);
}

dt_status dt_run_summary_json(dt_ctx *ctx, const dt_run_summary *summary, dt_sink sink, void *user)
{
    DT__NEED3(ctx, ctx, summary, sink);
    static const char *const names[DT_CONTENDERS] = { "float", "ptq", "qat", "converted" };
    dt__chars t = { .ctx = ctx };
    for (int i = 0; i < DT_CONTENDERS; i++) {
        dt__put_text(&t, i == 0 ? "{\n  " : ",\n  ");
        DT__PUT_ALL(&t, DT__QUOTED(names[i]), ": ");
        if (!summary->result[i].given) {
            dt__put_text(&t, "null");
            continue;
        }
        put_result(&t, &summary->result[i]);
        put_origin(&t, summary, (dt_contender)i);
        dt__put_text(&t, "}");
    }
    if (summary->evaluated_on != NULL) {
        DT__PUT_ALL(&t, ",\n  \"evaluated_on\": ", DT__QUOTED(summary->evaluated_on));
    }
    if (summary->best_step > 0) put_training(&t, summary);
    if (summary->thresholds.n > 0) put_thresholds(&t, summary);
    if (summary->trained != summary->parameters) {
        DT__PUT_ALL(&t, ",\n  \"parameters\": ", summary->parameters,
                    ",\n  \"trained_parameters\": ", summary->trained);
    }
    dt__put_text(&t, "\n}\n");
    const dt_status status = t.failed ? DT_ERR_NOMEM : sink(user, t.bytes, t.used);
    dt__release(ctx, t.bytes);
    return status;
}
