/* train.spikes: detects a loss far above earlier ones. Mean and variance are exponentially weighted
 * [Finch 2009]: with w = 1 / min(n, window) for loss number n, and d = loss - mean
 *     mean += w d      variance = (1 - w) (variance + w d^2)
 * A spike is added to them as the largest loss that is not a spike, so that losses which stay high
 * are soon accepted. */
#include "train/run/run.h"

#include <math.h>

static void take(dt__run *r, double loss)
{
    double *mean = dt__run_value(r, DT__VALUE_SPIKES_MEAN),
           *variance = dt__run_value(r, DT__VALUE_SPIKES_VARIANCE);
    const int64_t n = ++*dt__run_count(r, DT__COUNT_SPIKES_SEEN);
    const double w = 1 / (double)dt__min_i64(n, r->o->train.spikes.window), d = loss - *mean;
    *mean += w * d;
    *variance = (1 - w) * (*variance + w * d * d);
}

bool dt__run_is_spike(dt__run *r, double loss)
{
    static const char *const then[] = { [DT_SPIKES_SKIP] = "the update is skipped",
                                        [DT_SPIKES_LOWER] = "the rate is lowered",
                                        [DT_SPIKES_STOP] = "the run ends" };
    const dt_spike_options *o = &r->o->train.spikes;
    if (o->policy == DT_SPIKES_IGNORE) return false;
    const double mean = *dt__run_value(r, DT__VALUE_SPIKES_MEAN);
    const double deviation =
        fmax(sqrt(*dt__run_value(r, DT__VALUE_SPIKES_VARIANCE)), fabs(mean) / 100);
    const double most = mean + o->deviations * deviation;
    const bool spike = *dt__run_count(r, DT__COUNT_SPIKES_SEEN) >= o->window && loss > most;
    take(r, spike ? most : loss);
    if (!spike) return false;
    ++*dt__run_count(r, DT__COUNT_SPIKES);
    dt__say(r->ctx, "%s: step %lld: the loss %.6g is a spike, above %.6g: %s", dt__run_phase(r),
            (long long)*dt__run_count(r, DT__COUNT_STEP) + 1, loss, most, then[o->policy]);
    return true;
}

void dt__run_forget_spikes(dt__run *r)
{
    *dt__run_count(r, DT__COUNT_SPIKES_SEEN) = 0;
    *dt__run_value(r, DT__VALUE_SPIKES_MEAN) = 0;
    *dt__run_value(r, DT__VALUE_SPIKES_VARIANCE) = 0;
}
