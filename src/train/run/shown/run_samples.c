/* train.evaluate.samples: after each evaluation, a line of metrics.jsonl with examples, always the
 * same ones, evenly spaced in the validation data, and the model's outputs for them:
 *
 *     {"step": ..., "phase": "qat", "samples": {"kind": "classes", "shown": [{...}, ...]}}
 *
 * As they are in metrics.jsonl, a resumed run truncates and continues them. Only rank 0 runs the
 * model on them, in evaluation mode, so that training is not affected. */
#include "core/tensor.h"
#include "data/dataset.h"
#include "train/run/run.h"
#include "train/task/examples.h"

typedef dt_status put_example(const dt__examples *e, int64_t i, const float *y);

static const struct {
    const char *name;
    put_example *put; /* NULL: texts */
} kinds[] = {
    [DT_TARGET_CLASS] = { "classes", dt__put_class_example },
    [DT_TARGET_IMAGE] = { "images", dt__put_image_example },
    [DT_TARGET_MASK] = { "masks", dt__put_mask_example },
    [DT_TARGET_TOKENS] = { "tokens", NULL },
    [DT_TARGET_ANOMALY] = { "anomaly", dt__put_anomaly_example },
};

dt_status dt__run_check_samples(dt__run *r)
{
    const size_t target = (size_t)dt_dataset_target(r->data.train);
    if (r->o->train.evaluate.samples == 0) return DT_OK;
    if (target >= DT__COUNT_OF(kinds) || kinds[target].name == NULL) {
        return dt_recipe_refuse(r->recipe, "train.evaluate.samples",
                                "'train.evaluate.samples' is for language models, classes, images, "
                                "masks and anomalies, which the targets are not");
    }
    if (r->o->cluster.experts != DT_EXPERTS_SPREAD) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.evaluate.samples",
                            "'train.evaluate.samples' requires a rank with the whole model, not "
                            "'cluster.experts: spread'");
}

/* Runs the model on example i. */
static dt_status put_one(dt__run *r, dt__examples *e, dt_tape *tape, int64_t i, put_example *put)
{
    dt_tensor *of[DT__ANSWERS] = { NULL };
    dt__pass p = { .t = tape, .m = e->m, .d = e->d };
    dt_tape_reset(tape);
    DT__TRY(dt__examples_at(e, i, &p.x, &p.target));
    of[DT__ANSWER_TARGET] = p.target;
    DT__TRY(r->data.task->run(&p, of));
    dt_tensor *y = r->data.task->outputs != NULL ? r->data.task->outputs(&p) : of[DT__ANSWER];
    y = dt_contiguous(tape, y);
    DT__TRY(dt_tape_status(tape));
    e->each = y->count;
    return put(e, i, dt_data(y));
}

static dt_status put_shown(dt__run *r, dt__examples *e, put_example *put)
{
    dt_tape *tape;
    const int64_t n = dt__min_i64(r->o->train.evaluate.samples, e->n);
    const bool was_training = dt_is_training(e->m);
    DT__TRY(dt_tape_create(r->ctx, &tape));
    dt_no_grad(tape, true);
    dt_train(e->m, false);
    dt__put_text(e->t, "\"shown\": [");
    dt_status s = DT_OK;
    for (int64_t i = 0; i < n && s == DT_OK; i++) {
        if (i > 0) dt__put_text(e->t, ", ");
        s = put_one(r, e, tape, i * e->n / n, put);
    }
    dt__put_text(e->t, "]");
    dt_train(e->m, was_training);
    dt_tape_free(tape);
    return s;
}

static dt_status put_samples(dt__run *r, dt__chars *t)
{
    const dt_loader_options one = { .batch_size = 1 };
    const dt_target target = dt_dataset_target(r->data.validation);
    dt__examples e = { .ctx = r->ctx,
                       .t = t,
                       .d = r->data.validation,
                       .m = r->stage.model,
                       .n = dt_dataset_count(r->data.validation),
                       .samples = r->o->train.evaluate.samples };
    dt__put_text(t, "{\"kind\": ");
    dt__put_quoted(t, kinds[target].name);
    dt__put_text(t, ", ");
    DT__TRY(dt_loader_create(e.d, &one, &e.loader));
    const dt_status s = kinds[target].put == NULL ? dt__examples_of_tokens(&e)
                                                  : put_shown(r, &e, kinds[target].put);
    dt_loader_free(e.loader);
    dt__put_text(t, "}");
    return s;
}

dt_status dt__run_log_samples(dt__run *r)
{
    dt__chars line, samples = { .ctx = r->ctx };
    if (r->o->train.evaluate.samples == 0) return DT_OK;
    dt_status s = dt__run_writes(r) ? put_samples(r, &samples) : DT_OK;
    dt__run_begin_line(r, &line);
    dt__put_text(&line, ", \"samples\": ");
    if (s != DT_OK || samples.used == 0) dt__put_text(&line, "null");
    for (size_t i = 0; s == DT_OK && i < samples.used; i++) { /* to a single line */
        dt__put(&line, samples.bytes[i] == '\n' ? " " : samples.bytes + i, 1);
    }
    line.failed |= samples.failed;
    if (s == DT_ERR_NUMERIC) s = DT_OK; /* the model has non-finite values */
    const dt_status ended = dt__run_end_line(r, &line);
    dt__release(r->ctx, samples.bytes);
    return s == DT_OK ? ended : s;
}
