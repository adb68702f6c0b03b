/* train.average: averages of the parameters (of FakeQuantTensors the masters and the learned
 * ranges), kept by the optimizer. Buffers are not averaged: forward passes of the averaged model in
 * training mode update running statistics of norms and static ranges of activations.
 *     ema     average += (1-d) (p - average), d = min(decay, (1+n)/(10+n)) at update n = 0, 1, ...;
 *             the first copies [Polyak and Juditsky 1992; the growing d is TensorFlow's]
 *     epochs  the mean after each of the last epochs [Izmailov et al. 2018] */
#include "core/tensor.h"
#include "train/quantize/calibration.h"
#include "train/run/run.h"
#include "autograd/spread.h"

#include <math.h>
#include <string.h>

dt_status dt__run_average(dt__run *r)
{
    const dt_average_options *o = &r->o->train.average;
    int64_t *n = dt__run_count(r, DT__COUNT_AVERAGED);
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP), left = r->data.steps - step;
    if (o->name == DT_AVERAGE_NONE) return DT_OK;
    double weight = 1 / (double)(*n + 1);
    if (o->name == DT_AVERAGE_EMA && *n > 0) {
        weight = 1 - fmin(o->decay, (1 + (double)*n) / (10 + (double)*n));
    }
    if (o->name == DT_AVERAGE_EPOCHS) {
        const bool ends = step % r->data.per_epoch == 0 || left == 0;
        if (!ends || dt__ceil_div(left, r->data.per_epoch) >= o->last) return DT_OK;
    }
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt_optimizer_average(r->stage.optimizer, r->stage.tape, weight));
    ++*n;
    return DT_OK;
}

dt_status dt__run_swap_average(dt__run *r)
{
    if (*dt__run_count(r, DT__COUNT_AVERAGED) == 0) return DT_OK;
    dt_tape_reset(r->stage.tape);
    return dt_optimizer_swap_average(r->stage.optimizer, r->stage.tape);
}

static dt_status follow(dt__run *r, int64_t batches)
{
    const dt_train_options *o = &r->o->train;
    const int64_t count = dt__min_i64(dt_dataset_count(r->data.train), o->batch_size);
    const int64_t most = dt_dataset_count(r->data.train) / count;
    const dt__calibration_choice choice = { dt__min_i64(batches, most) * count, count,
                                            r->o->run.seed };
    dt__calibration c;
    dt_status status = dt__calibration_open(&c, r->ctx, r->data.train, &choice);
    dt_tape_reset(r->stage.tape);
    if (status == DT_OK) status = dt__spread_begin(r->ctx, r->stage.model);
    if (status == DT_OK) {
        status = dt__spread_end(r->ctx, dt__calibration_run(&c, r->stage.model, r->stage.tape));
    }
    dt_no_grad(r->stage.tape, false);
    dt_tape_reset(r->stage.tape);
    dt__calibration_close(&c);
    return status;
}

dt_status dt__run_follow(dt__run *r, int64_t batches)
{
    dt__stream stream[DT__PURPOSES];
    memcpy(stream, r->ctx->stream, sizeof stream);
    const dt_status status = follow(r, batches);
    memcpy(r->ctx->stream, stream, sizeof stream);
    return status;
}

dt_status dt__run_take_average(dt__run *r)
{
    if (r->o->train.average.name == DT_AVERAGE_NONE) return DT_OK;
    if (*dt__run_count(r, DT__COUNT_AVERAGED) == 0) {
        dt__say(r->ctx, "%s: nothing was averaged: the weights are those of the last update",
                dt__run_phase(r));
        return DT_OK;
    }
    DT__TRY(dt__run_buffers(r, DT__BUFFERS_SAVE));
    DT__TRY(dt__run_swap_average(r));
    if (r->stage.n_saved == 0 || r->o->train.average.batches == 0) return DT_OK;
    return dt__run_follow(r, r->o->train.average.batches);
}

dt_status dt__run_leave_average(dt__run *r)
{
    if (*dt__run_count(r, DT__COUNT_AVERAGED) == 0) return DT_OK;
    DT__TRY(dt__run_swap_average(r));
    return dt__run_buffers(r, DT__BUFFERS_RESTORE);
}
