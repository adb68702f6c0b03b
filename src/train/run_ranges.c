/* Preparing a model in a run, and its ranges after that: freezing observers and folded norms, and
 * recomputing static ranges of weights. Static activation ranges of a trained model are observed on
 * some training batches, in float, before its first quantized pass. */
#include "core/tensor.h"
#include "train/calibration.h"
#include "train/run.h"

static dt_status create_only(void *user, const char *slot, const char *path, dt_tensor *x)
{
    (void)user;
    (void)slot;
    (void)path;
    (void)x;
    return DT_OK;
}

/* Allocates the optimizer's state of new parameters (learned ranges, shifts) now, so that the first
 * update allocates nothing: the memory plan of the next forward pass relies on that. */
static dt_status make_state(dt__run *r, const dt_module *m)
{
    return m == r->model ? dt_optimizer_visit(r->optimizer, create_only, NULL) : DT_OK;
}

dt_status dt__run_prepare(dt__run *r, dt_module *m, bool trained)
{
    DT__TRY(dt_prepare(m, &r->o->qat));
    DT__TRY(make_state(r, m));
    const int64_t zeros = dt_unfolded_channels(m);
    if (zeros > 0) {
        dt__say(r->ctx, "%lld channels have a norm whose weight is 0: training does not fold them",
                (long long)zeros);
    }
    return trained && dt_is_observed(m) ? dt__observe_ranges(m, r->train, r->o) : DT_OK;
}

/* A freezing step before qat.start_step is due at qat.start_step. */
static bool is_due(dt__run *r, int64_t wanted)
{
    return wanted > 0 && *dt__run_count(r, DT__COUNT_STEP) == dt__max_i64(wanted, r->start);
}

dt_status dt__run_update_ranges(dt__run *r)
{
    const int64_t refresh = r->o->qat_schedule.refresh_steps;
    const int64_t since = *dt__run_count(r, DT__COUNT_STEP) - r->start;
    if (*dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    if (refresh > 0 && since > 0 && since % refresh == 0) DT__TRY(dt_refresh(r->model));
    if (is_due(r, r->o->qat_schedule.freeze_norm_step)) dt_norms_freeze(r->model, true);
    return is_due(r, r->o->qat_schedule.freeze_observer_step) ? dt_observers_freeze(r->model, true)
                                                              : DT_OK;
}
