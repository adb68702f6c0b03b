/* A dry run: builds everything, makes some updates of each phase, measures their time by op and the
 * memory held for backward, and writes nothing. */
#include "core/clock.h"
#include "core/tensor.h"
#include "train/run/run.h"

#include <detent/ops.h>
#include <math.h>

/* Bytes that a recorded forward pass of one batch holds for backward. A first pass, not measured,
 * allocates the codes of the weights, which exist without recording too. */
static dt_status measure(dt__run *r, size_t *bytes)
{
    dt_tensor *x, *target;
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt_loader_next(r->stage.loader, &x, &target));
    dt__pass pass;
    DT__TRY(dt__run_pass(r, x, target, &pass));
    dt_no_grad(r->stage.tape, true);
    dt__loss(r->data.task, &pass);
    dt_no_grad(r->stage.tape, false);
    DT__TRY(dt_tape_status(r->stage.tape));
    dt_tape_reset(r->stage.tape);
    const size_t before = dt_memory_of(r->ctx).used;
    dt__loss(r->data.task, &pass);
    DT__TRY(dt_tape_status(r->stage.tape));
    *bytes = dt_memory_of(r->ctx).used - before;
    dt_tape_reset(r->stage.tape);
    return DT_OK;
}

/* Largest number of timed updates after a first one, which allocates and fills caches. Each phase
 * uses whole batches of the first epoch, and two more; 0 timed updates: the first one is timed. */
#define MOST_UPDATES 10

#define PASSES 3 /* matrix products per weight and update: y, dx and dW */

static int timed_updates(const dt__run *r)
{
    return (int)dt__max_i64(0, dt__min_i64(MOST_UPDATES, (r->data.per_epoch - 5) / 2));
}

static dt_status some_steps(dt__run *r, int phase)
{
    dt_run_summary *s = r->summary;
    const double end = dt__seconds() + 1;
    const int most = timed_updates(r);
    double sum = 0;
    int64_t samples = 0;
    int n = 0;
    for (int i = 0; i <= most && (i < 2 || dt__seconds() < end); i++) {
        dt__update_result u;
        dt__costs costs;
        /* ops of one update only, as their clocks take time */
        const bool by_op = most < 2 ? i == most : i == 1;
        if (by_op) dt__costs_begin(&costs, r->stage.tape);
        const double before = dt__seconds();
        dt__pass_work(r->ctx);
        const dt_status status = dt__run_update(r, &u);
        const double seconds = dt__seconds() - before;
        if (by_op) dt__costs_end(&costs, seconds, s->step_part[phase]);
        DT__TRY(status);
        if (i == 0) ++*dt__run_count(r, DT__COUNT_STEP);
        dt__run_time_update(r, u.samples);
        if (i == 0 && most > 0) continue;
        sum += seconds;
        samples += u.samples;
        n++;
    }
    s->step_seconds[phase] = sum / n;
    s->step_speed[phase] = PASSES * (double)samples * (double)s->multiply_adds / sum;
    return measure(r, &s->activation_bytes[phase]);
}

static dt_status dry_qat(dt__run *r)
{
    if (dt__run_teaches_itself(r)) /* stands for the teacher, with the same size */
        DT__TRY(dt__run_model(r, &r->stage.teacher));
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt__run_prepare(r, r->stage.model, dt__run_prepares_trained(r)));
    *dt__run_count(r, DT__COUNT_PREPARED) = 1;
    /* determines the learning rate and other settings */
    int64_t *const step = dt__run_count(r, DT__COUNT_STEP);
    *step = dt__max_i64(*step, r->data.start);
    DT__TRY(dt__run_set_backward(r));
    return some_steps(r, 1);
}

dt_status dt__run_dry(dt__run *r)
{
    dt__run_predict_folder(r);
    DT__TRY(dt__run_begin_stage(r, DT__MAIN));
    DT__TRY(dt__run_plan(r));
    DT__TRY(dt__costs_product(r->stage.tape, &r->summary->product_speed));
    if (dt__run_trains_in_float(r)) DT__TRY(some_steps(r, 0));
    if (r->o->qat.given) DT__TRY(dry_qat(r));
    r->summary->run_seconds = fmax(0, dt__ledger_left(&r->ctx->work));
    return DT_OK;
}
