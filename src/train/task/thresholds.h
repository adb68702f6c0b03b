/* Thresholds on logits (train.threshold; dt_model_data.thresholds). */
#ifndef DT__TRAIN_THRESHOLDS_H
#define DT__TRAIN_THRESHOLDS_H

#include "train/task/task.h"

typedef struct dt__thresholds {
    dt_reals logit;       /* each a float; 0 where none could be chosen */
    int chosen;           /* how many could */
    double with, without; /* their mean of what is maximized, and that of thresholds 0 */
    int64_t first_same;   /* the first whose labels are all the same, or has an output that is not
                           * finite; -1: none */
} dt__thresholds;

/* Chooses them by the outputs of all examples of a dataset with examples, f32 [examples, 2] of two
 * classes, or [examples, bits] of at most DT_MAX_REALS bits. `what`: DT_THRESHOLD_...  NOMEM. */
dt_status dt__choose_thresholds(const dt_dataset *d, const dt_tensor *outputs, int what,
                                dt__thresholds *out);

#endif
