/* A dry run: builds everything, makes one update of each phase, measures the memory held for
 * backward, writes nothing. */
#include "core/tensor.h"
#include "train/run/run.h"

#include <detent/ops.h>

/* Bytes that a recorded forward pass of one batch holds for backward. A first pass, not measured,
 * allocates the codes of the weights, which exist without recording too. */
static dt_status measure(dt__run *r, size_t *bytes)
{
    dt_tensor *x, *target;
    dt_tape_reset(r->tape);
    DT__TRY(dt_loader_next(r->loader, &x, &target));
    dt__pass pass;
    DT__TRY(dt__run_pass(r, x, target, &pass));
    dt_no_grad(r->tape, true);
    dt__loss(r->task, &pass);
    dt_no_grad(r->tape, false);
    DT__TRY(dt_tape_status(r->tape));
    dt_tape_reset(r->tape);
    const size_t before = dt_memory_of(r->ctx).used;
    dt__loss(r->task, &pass);
    DT__TRY(dt_tape_status(r->tape));
    *bytes = dt_memory_of(r->ctx).used - before;
    dt_tape_reset(r->tape);
    return DT_OK;
}

static dt_status one_step(dt__run *r, size_t *bytes)
{
    dt__update_result u;
    DT__TRY(dt__run_update(r, &u));
    ++*dt__run_count(r, DT__COUNT_STEP);
    return measure(r, bytes);
}

dt_status dt__run_dry(dt__run *r)
{
    dt__run_predict_folder(r);
    DT__TRY(dt__run_begin_stage(r, DT__MAIN));
    if (dt__run_trains_in_float(r)) DT__TRY(one_step(r, &r->summary->activation_bytes[0]));
    if (!r->o->qat.given) return DT_OK;
    if (dt__run_teaches_itself(r)) DT__TRY(dt__run_model(r, &r->teacher)); /* of the same size */
    dt_tape_reset(r->tape);
    DT__TRY(dt__run_prepare(r, r->model, dt__run_prepares_trained(r)));
    *dt__run_count(r, DT__COUNT_PREPARED) = 1;
    DT__TRY(dt__run_set_backward(r));
    return one_step(r, &r->summary->activation_bytes[1]);
}
