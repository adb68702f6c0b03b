/* Thresholds on logits (train.threshold; dt_model_data.thresholds). */
#ifndef DT__TRAIN_THRESHOLDS_H
#define DT__TRAIN_THRESHOLDS_H

#include "train/task/task.h"

typedef struct dt__thresholds {
    dt_reals logit;       /* one float each; 0 if none could be chosen */
    int chosen;           /* number of chosen ones */
    double with, without; /* mean of the maximized measure with these thresholds, and with 0 */
    /* the first column whose labels are all the same, or which has a non-finite output; -1: none */
    int64_t first_same;
} dt__thresholds;

/* Chooses thresholds by the outputs for all examples of a dataset, f32 [examples, 2] for two
 * classes, or [examples, bits] for at most DT_MAX_REALS bits. `what`: DT_THRESHOLD_... NOMEM. */
dt_status dt__choose_thresholds(const dt_dataset *d, const dt_tensor *outputs, int what,
                                dt__thresholds *out);

#endif
