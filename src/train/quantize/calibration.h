/* Calibration batches: training examples in the order of the first epoch, without augmentation.
 * Fetching a batch again gives the same examples. */
#ifndef DT__TRAIN_CALIBRATION_H
#define DT__TRAIN_CALIBRATION_H

#include "io/safetensors/safetensors.h"
#include "train/recipe/recipe.h"

typedef struct dt__calibration {
    dt_ctx *ctx;
    dt_loader *loader;
    int64_t batches, last; /* batches, and examples of the last one */
    dt_tensor *part;       /* the last batch, if it is shorter; NULL before it is fetched */
} dt__calibration;

typedef struct dt__calibration_choice {
    int64_t samples; /* examples in all */
    int64_t batch_size;
    int64_t seed;
} dt__calibration_choice;

/* Errors: ARG (a dataset without examples), NOMEM. Close in any case. */
dt_status dt__calibration_open(dt__calibration *c, dt_ctx *ctx, const dt_dataset *d,
                               const dt__calibration_choice *choice);
void dt__calibration_close(dt__calibration *c);
/* Lends batch i until the next call; `user` is a dt__calibration. */
dt_status dt__calibration_batch(void *user, int64_t i, dt_tensor **x);
/* XXH3-64 of all batches, as 16 digits: identifies the examples. */
dt_status dt__calibration_hash(dt__calibration *c, char digits[DT__HASH_DIGITS + 1]);

/* A forward pass of m for each batch; leaves the tape without recording. */
dt_status dt__calibration_run(dt__calibration *c, dt_module *m, dt_tape *t);

/* Observes static ranges of a prepared model: qat.calibrate_batches forward passes in float. */
dt_status dt__observe_ranges(dt_module *m, const dt_dataset *d, const dt_recipe_options *o);

#endif
