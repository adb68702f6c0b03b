/* Anomaly detection: labels 0 and 1 of arrays mean normal and anomalous, and the model reconstructs
 * its input. */
#include "data/arrays.h"

dt_status dt_dataset_anomaly(dt_dataset *d)
{
    DT__NEED(NULL, d);
    if (d->arrays == NULL || !dt__has_label(d)) {
        return dt_fail(d->ctx, DT_ERR_ARG, "anomaly: its %s: expected arrays with labels 0 and 1",
                       d->kind->examples);
    }
    for (int64_t i = 0; i < d->count; i++) {
        const int label = d->kind->label(d, i);
        if (label == 0 || label == 1) continue;
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "anomaly: the label of example %lld (counted from 0) is %d: expected 0 "
                       "(normal) or 1 (anomalous)",
                       (long long)i, label);
    }
    d->target = DT_TARGET_ANOMALY;
    d->classes = 0;
    return DT_OK;
}
