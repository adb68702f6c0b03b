/* sensitivity.json: how much each layer's quantization increases the loss. For one layer at a time,
 * its weight, or weight and input, are kept in float, and the prepared model is evaluated:
 *
 *     gain = loss of the whole quantized model - loss with this layer in float
 *
 * on the first examples of the data that the run is evaluated on. Their number is chosen so that
 * this takes about a hundredth of the work of training, with a minimum. */
#include "core/tensor.h"
#include "nn/module.h"
#include "qat/convert.h"
#include "qat/prepare.h"
#include "train/run/run.h"

#include <math.h>

#define MOST_EXAMPLES 1024
#define FEWEST_EXAMPLES 16

typedef struct layer {
    dt_module *m;
    double without_weight, without; /* loss with the weight, and with all of it, in float */
} layer;

typedef struct sensitivity {
    dt__run *r;
    layer *layer;
    int64_t n, room, examples;
    int64_t batch; /* examples per batch */
    double loss;
} sensitivity;

static dt_status add_layers(sensitivity *s)
{
    DT__EACH_MODULE(m, s->r->stage.model) {
        if (dt__layer_quant(m) == NULL) continue;
        DT__TRY(DT__RESERVE(s->r->ctx, s->layer, s->n, s->room));
        s->layer[s->n++] = (layer){ .m = m };
    }
    return DT_OK;
}

/* A training pass of an example takes as long as three evaluations. */
int64_t dt__run_sensitivity_examples(const dt__run *r, int64_t layers)
{
    const int64_t batch = r->o->train.eval_batch_size;
    const double trained = (double)r->data.steps * (double)r->o->train.batch_size * 3;
    const double passes = 100 * (double)(2 * layers + 1);
    const double wanted = fmin(fmax(trained / passes, FEWEST_EXAMPLES), MOST_EXAMPLES);
    const int64_t n = dt__min_i64((int64_t)wanted, dt_dataset_count(r->data.evaluated));
    return n < batch ? n : n / batch * batch;
}

static dt_status measure(const sensitivity *s, double *loss)
{
    dt_metrics m;
    const dt_evaluation how = { .batch_size = dt__min_i64(s->batch, s->examples) };
    const dt__evaluation e = { .m = s->r->stage.model,
                               .d = s->r->data.evaluated,
                               .options = &how,
                               .examples = s->examples,
                               .cluster = s->r->ranks.cluster };
    const dt_status status = dt__run_time_evaluation(s->r, &e, &m, NULL);
    *loss = status == DT_OK ? m.loss : (double)NAN;
    return status == DT_ERR_NUMERIC ? DT_OK : status; /* non-finite values */
}

static dt_status measure_layer(const sensitivity *s, layer *l)
{
    dt__layer_enable(l->m, false, true);
    dt_status status = measure(s, &l->without_weight);
    dt__layer_enable(l->m, false, false);
    if (status == DT_OK) status = measure(s, &l->without);
    dt__layer_enable(l->m, true, true);
    return status;
}

static void put_layer(const sensitivity *s, dt__chars *t, const layer *l)
{
    const dt__fq *weight = dt__layer_quant(l->m);
    const dt__input_hook *input = dt__input_hook_of(l->m);
    dt__put_text(t, "{\"path\": ");
    DT__PUT_ALL(t, DT__QUOTED(l->m->path), ", \"bits\": ", weight->quant.bits,
                ", \"input_bits\": ", input == NULL ? 32 : input->quant.bits,
                ", \"elements\": ", dt__entry_find(l->m, "weight")->x->count);
    dt__put_field(t, "weight_gain", s->loss - l->without_weight);
    dt__put_field(t, "gain", s->loss - l->without);
    dt__put_text(t, "}");
}

static dt_status write_file(const sensitivity *s)
{
    dt__run *r = s->r;
    dt__chars t = { .ctx = r->ctx };
    if (!dt__run_writes(r)) return DT_OK;
    dt__put_text(&t, "{\"evaluated_on\": ");
    DT__PUT_ALL(&t, DT__QUOTED(r->summary->evaluated_on), ", \"examples\": ", s->examples);
    dt__put_field(&t, "loss", s->loss);
    dt__put_text(&t, ", \"layers\": [");
    for (int64_t i = 0; i < s->n; i++) {
        dt__put_text(&t, i > 0 ? ",\n  " : "\n  ");
        put_layer(s, &t, &s->layer[i]);
    }
    dt__put_text(&t, "\n]}\n");
    const dt_status status = dt__run_write_shown(r, "sensitivity.json", &t);
    dt__release(r->ctx, t.bytes);
    return status;
}

dt_status dt__run_write_sensitivity(dt__run *r)
{
    sensitivity s = { .r = r, .batch = r->o->train.eval_batch_size };
    if (!r->o->run.report) return DT_OK;
    dt_status status = add_layers(&s);
    s.examples = dt__run_sensitivity_examples(r, s.n);
    if (status == DT_OK) status = measure(&s, &s.loss);
    for (int64_t i = 0; i < s.n && status == DT_OK; i++) {
        status = measure_layer(&s, &s.layer[i]);
    }
    if (status == DT_OK) status = write_file(&s);
    dt__release(r->ctx, s.layer);
    return status;
}
