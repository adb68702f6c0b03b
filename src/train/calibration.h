/* Batches to calibrate with: training examples in the order of the first epoch, without
 * augmentation, the same ones however often they are fetched. */
#ifndef DT__TRAIN_CALIBRATION_H
#define DT__TRAIN_CALIBRATION_H

#include "io/safetensors.h"
#include "train/recipe.h"

typedef struct dt__calibration {
    dt_ctx *ctx;
    dt_loader *loader;
    int64_t batches, last; /* examples of the last */
    dt_tensor *part;       /* the last, where it is a batch cut short; NULL before */
} dt__calibration;

typedef struct dt__calibration_choice {
    int64_t samples; /* at most as many as there are */
    int64_t batch_size;
    int64_t seed;
} dt__calibration_choice;

/* Errors: ARG (a dataset without examples), NOMEM. Close in any case. */
dt_status dt__calibration_open(dt__calibration *c, dt_ctx *ctx, const dt_dataset *d,
                               const dt__calibration_choice *choice);
void dt__calibration_close(dt__calibration *c);
/* Lends batch i of the dt__calibration `user` until the next call. */
dt_status dt__calibration_batch(void *user, int64_t i, dt_tensor **x);
/* XXH3-64 of all of them, as 16 digits: who has the same has the same examples. */
dt_status dt__calibration_hash(dt__calibration *c, char digits[DT__HASH_DIGITS + 1]);

/* Static ranges of a prepared model see qat.calibrate_batches, in float. */
dt_status dt__observe_ranges(dt_module *m, const dt_dataset *d, const dt_recipe_options *o);

#endif
