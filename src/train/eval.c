/* Evaluation: runs a model over a dataset, in order, without gradients; task.h has the metrics. */
#include "core/tensor.h"
#include "train/task.h"

#include <string.h>

dt_evaluation dt_evaluation_defaults(void) { return (dt_evaluation){ .batch_size = 256 }; }

typedef struct evaluation {
    dt_ctx *ctx;
    dt_module *m;
    const dt_dataset *d;
    dt_loader *loader;
    dt_tape *t;
    dt__wanted wanted;
    int64_t examples;   /* how many, the first */
    dt_tensor *outputs; /* NULL: not made yet */
    dt__tally tally;
} evaluation;

/* Copies the outputs for the latest examples into a tensor for the whole dataset. */
static dt_status keep(evaluation *e, const dt__pass *p, dt_tensor *y)
{
    if (e->wanted == DT__WANTS_METRICS) return DT_OK;
    if (e->wanted == DT__WANTS_OUTPUTS && e->tally.task->outputs != NULL) {
        y = e->tally.task->outputs(p);
        if (y == NULL) return dt_tape_status(p->t);
    }
    if (e->outputs == NULL) {
        int64_t dims[DT_MAX_RANK];
        memcpy(dims, y->dims, sizeof dims);
        dims[0] = dt_dataset_count(e->d);
        DT__TRY(dt_tensor_create(e->ctx, DT_F32, y->rank, dims, &e->outputs));
    }
    const float *from = dt_data(y);
    float *to = dt_data_mut(e->outputs);
    if (from == NULL || to == NULL) return dt_error_status(e->ctx);
    const int64_t n = y->dims[0], each = y->count / n;
    memcpy(to + (e->tally.examples - n) * each, from, (size_t)y->count * sizeof *to);
    return DT_OK;
}

static dt_status run(evaluation *e)
{
    dt_no_grad(e->t, true);
    while (e->tally.examples < e->examples) {
        dt__pass p = { .t = e->t, .m = e->m, .d = e->d };
        dt_tensor *answer;
        dt_tape_reset(e->t);
        DT__TRY(dt_loader_next(e->loader, &p.x, &p.target));
        DT__TRY(e->tally.task->evaluate(&e->tally, &p, &answer));
        DT__TRY(keep(e, &p, answer));
    }
    return DT_OK;
}

static dt_status evaluate(evaluation *e, const dt_evaluation *o, dt_metrics *metrics)
{
    const dt_loader_options batches = { .batch_size = o->batch_size };
    *metrics = (dt_metrics){ 0 };
    if (dt_dataset_count(e->d) == 0) {
        return dt_fail(e->ctx, DT_ERR_ARG, "evaluate: the dataset is empty");
    }
    const bool was_training = dt_is_training(e->m);
    DT__TRY(dt__arrange(e->m, e->d));
    dt_status status = dt__tally_open(e->ctx, e->d, &e->tally);
    if (status == DT_OK) status = dt__tally_add_own(&e->tally, "train.metrics", &o->metrics);
    if (status == DT_OK) status = dt_loader_create(e->d, &batches, &e->loader);
    if (status == DT_OK) status = dt_tape_create(e->ctx, &e->t);
    dt_train(e->m, false);
    if (status == DT_OK) status = run(e);
    dt_train(e->m, was_training);
    if (status == DT_OK) {
        status = dt__tally_metrics(&e->tally, metrics);
        dt__put_speed(metrics, e->d, e->tally.seconds);
    }
    dt__tally_close(&e->tally);
    dt_tape_free(e->t);
    dt_loader_free(e->loader);
    return status;
}

dt_status dt__evaluate(dt_module *m, const dt_dataset *d, const dt_evaluation *options,
                       dt__wanted wanted, dt_metrics *metrics, dt_tensor **out)
{
    evaluation e = {
        .ctx = dt_module_ctx(m), .m = m, .d = d, .wanted = wanted, .examples = dt_dataset_count(d)
    };
    if (out != NULL) *out = NULL;
    const dt_status status = evaluate(&e, options, metrics);
    if (status == DT_OK && out != NULL) *out = e.outputs;
    else dt_tensor_free(e.outputs);
    return status;
}

dt_status dt__evaluate_some(dt_module *m, const dt_dataset *d, int64_t batch_size, int64_t examples,
                            dt_metrics *metrics)
{
    evaluation e = { .ctx = dt_module_ctx(m), .m = m, .d = d, .examples = examples };
    return evaluate(&e, &(dt_evaluation){ .batch_size = batch_size }, metrics);
}

dt_status dt_evaluate(dt_module *m, const dt_dataset *d, const dt_evaluation *options,
                      dt_metrics *metrics, dt_tensor **outputs)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), d);
    DT__NEED(dt_module_ctx(m), metrics);
    const dt_evaluation o = options == NULL ? dt_evaluation_defaults() : *options;
    return dt__evaluate(m, d, &o, outputs == NULL ? DT__WANTS_METRICS : DT__WANTS_OUTPUTS, metrics,
                        outputs);
}
