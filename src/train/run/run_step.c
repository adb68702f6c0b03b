/* One update: the gradient of the mean loss over all labels of its batches (pixel values, if
 * targets are images; tokens whose label is not -100), then the optimizer step.
 *     loss = sum over batches of (sum over labels of their loss) / labels of the update
 * so that gradient accumulation equals the gradient of one large batch, also if batches differ in
 * size. With train.class_weights labels are weighted. Loss and gradient must be finite before the
 * optimizer writes. If they are not, the update is computed again from the same random numbers
 * while every result is checked, which finds the first op with a non-finite result. Spikes of the
 * loss are also found before the optimizer writes. */
#include "core/tensor.h"
#include "optim/optimizer.h"
#include "train/run/run.h"

#include <detent/ops.h>
#include <math.h>
#include <string.h>

static dt__batch_range next_batches(dt__run *r)
{
    const dt_train_options *o = &r->o->train;
    const int64_t examples = dt_loader_examples(r->stage.loader);
    dt__batch_range p = { .position = dt_loader_position(r->stage.loader) };
    memcpy(p.stream, r->ctx->stream, sizeof p.stream);
    p.batches = dt__min_i64(o->accumulate, r->data.batches - p.position.batch);
    const int64_t first = p.position.batch * o->batch_size;
    p.examples = dt__min_i64(examples - first, p.batches * o->batch_size);
    p.labels = dt__run_divisor(r, p.batches);
    return p;
}

/* The weight of feature errors, which are means over a batch, in its loss, which is a sum over
 * labels, so that their part in the update's loss is a mean over examples. */
static double feature_weight(const dt__run *r, const dt_tensor *x)
{
    return r->o->train.distill.feature_weight * (double)x->dims[0] * r->stage.labels_each;
}

dt_status dt__run_pass(dt__run *r, dt_tensor *x, dt_tensor *target, dt__pass *out)
{
    dt_tensor *other;
    const double first = dt_loader_mixed(r->stage.loader, &other);
    const double taught = r->stage.teacher == NULL ? 0 : r->o->train.distill.weight;
    const double parts[DT__PARTS] = { [DT__PART_FIRST] = first * (1 - taught),
                                      [DT__PART_OTHER] = (1 - first) * (1 - taught),
                                      [DT__PART_TAUGHT] = taught,
                                      [DT__PART_FEATURES] = feature_weight(r, x) };
    for (int i = 0; i < DT__PARTS; i++) {
        float *part = dt_data_mut(r->stage.part[i]);
        if (part == NULL) return dt_error_status(r->ctx);
        *part = (float)parts[i];
    }
    *out = (dt__pass){ .t = r->stage.tape,
                       .m = r->stage.model,
                       .x = x,
                       .target = target,
                       .other = other,
                       .part = r->stage.part,
                       .smoothing = r->o->train.label_smoothing,
                       .objective = r->stage.objective[0],
                       .weight = r->stage.weight[0],
                       .d = r->data.train,
                       .objectives = r->stage.objective,
                       .weights = r->stage.weight,
                       .teacher = r->stage.teacher,
                       .distill = &r->o->train.distill };
    return DT_OK;
}

dt_status dt__run_batch(dt__run *r, dt_tensor *x, dt_tensor *target, double *loss)
{
    dt__pass pass;
    DT__TRY(dt__run_pass(r, x, target, &pass));
    dt_tensor *sum = dt__loss(r->data.task, &pass);
    if (sum == NULL) return dt_tape_status(r->stage.tape);
    *loss += dt_item(sum);
    return dt_backward(r->stage.tape, sum, r->stage.share);
}

static dt_status one_batch(dt__run *r, double *loss)
{
    dt_tensor *x, *target;
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt_loader_next(r->stage.loader, &x, &target));
    return dt__run_batch(r, x, target, loss);
}

static dt_status gradients(dt__run *r, const dt__batch_range *p, dt__update_result *u)
{
    float *share = dt_data_mut(r->stage.share);
    if (share == NULL) return dt_error_status(r->ctx);
    if (p->labels == 0) {
        r->ranks.together = true;
        return dt_recipe_refuse(
            r->recipe, "data", "step %lld: none of its %lld examples has a label",
            (long long)*dt__run_count(r, DT__COUNT_STEP) + 1, (long long)p->examples);
    }
    *share = (float)(1.0 / p->labels);
    r->stage.labels_each = p->labels / (double)p->examples;
    u->loss = u->norm = 0;
    u->samples = p->examples;
    dt_zero_grad(r->stage.model);
    if (dt__run_is_sharded(r)) DT__TRY(dt__shards_gradient(r, p, &u->loss));
    else
        for (int64_t i = 0; i < p->batches; i++) DT__TRY(one_batch(r, &u->loss));
    u->loss /= p->labels;
    DT__TRY(dt__run_damp(r));
    return dt__optimizer_clip(r->stage.optimizer, r->stage.tape, r->o->train.clip_grad_norm,
                              &u->norm, &u->factor);
}

/* Computes the update again with every result checked, and names the first op that is not
 * finite. */
static dt_status explain(dt__run *r, const dt__batch_range *p)
{
    dt__update_result again;
    char words[DT__MESSAGE_SIZE] = "";
    memcpy(r->ctx->stream, p->stream, sizeof p->stream);
    DT__TRY(dt_loader_seek(r->stage.loader, p->position));
    const bool before = dt_tape_watch(r->stage.tape, true);
    dt_status status = gradients(r, p, &again);
    dt_tape_watch(r->stage.tape, before);
    if (status == DT_ERR_NUMERIC) strcpy(words, dt_error(r->ctx));
    else if (status != DT_OK) return status;
    DT__TRY(dt__run_first_words(r, words));
    if (words[0] == 0) strcpy(words, "no single result: the sum over all gradients");
    r->ranks.together = true;
    return dt_fail(r->ctx, DT_ERR_NUMERIC,
                   "step %lld (%s): loss or gradient is not finite; the first was: %s",
                   (long long)*dt__run_count(r, DT__COUNT_STEP) + 1, dt__run_phase(r), words);
}

static dt_status skip(dt__run *r, const dt__batch_range *p, dt__update_result *u)
{
    u->skipped = true;
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt__run_buffers(r, DT__BUFFERS_RESTORE));
    const int64_t next = p->position.batch + p->batches; /* the rest of this update's batches */
    const bool over = next == r->data.batches;
    return dt_loader_seek(r->stage.loader,
                          (dt_position){ p->position.epoch + over, over ? 0 : next });
}

/* Applies train.nonfinite or train.spikes; u->skipped: the optimizer must not write. */
static dt_status check_loss(dt__run *r, const dt__batch_range *p, dt__update_result *u)
{
    const int policy = r->o->train.spikes.policy;
    if (!isfinite(u->loss) || !isfinite(u->norm)) {
        return r->o->train.nonfinite == DT_NONFINITE_STOP ? explain(r, p) : skip(r, p, u);
    }
    if (!dt__run_is_spike(r, u->loss)) return DT_OK;
    if (policy == DT_SPIKES_SKIP) return skip(r, p, u);
    if (policy == DT_SPIKES_STOP) {
        r->ranks.together = true;
        return dt_fail(r->ctx, DT_ERR_NUMERIC,
                       "step %lld (%s): the loss %.6g is a spike, and 'train.spikes.policy' is "
                       "stop; --resume with another policy goes on from the latest checkpoint",
                       (long long)*dt__run_count(r, DT__COUNT_STEP) + 1, dt__run_phase(r), u->loss);
    }
    ++*dt__run_count(r, DT__COUNT_LOWERED);
    u->lr = dt__run_rate(r);
    return DT_OK;
}

dt_status dt__run_update(dt__run *r, dt__update_result *u)
{
    const dt__batch_range p = next_batches(r);
    *u = (dt__update_result){ .lr = dt__run_rate(r) };
    DT__TRY(dt__run_buffers(r, DT__BUFFERS_SAVE));
    const dt_status status = gradients(r, &p, u);
    if (status != DT_OK && status != DT_ERR_NUMERIC) return status;
    if (status != DT_OK) u->loss = NAN;
    DT__TRY(check_loss(r, &p, u));
    if (u->skipped) return DT_OK;
    DT__TRY(dt_optimizer_step_scaled(r->stage.optimizer, r->stage.tape, u->lr, u->factor));
    return dt__run_freeze(r);
}
